"""The starting point of fault tests: a small cluster in the stand-in API server, kubedns beside it, and a client that queries all the time."""

import os
import sys


sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))

from apiserver import ApiProcess, ApiServer  # noqa: E402
from apiserver.population import Population  # noqa: E402
from asking import NODATA, NXDOMAIN, Asker, ask_until  # noqa: E402
from hurry import hurry as in_a_hurry  # noqa: E402
from kubedns_process import Kubedns  # noqa: E402
from objects import endpoint_slice, namespace, service  # noqa: E402

ZONE = "cluster.local"
SMALL = {"namespaces": 20, "services": 100, "slices": 150}

# One Service of each kind that tests change by hand, in a separate namespace.
OWN = [
    namespace("own"),
    service("kept", "10.200.0.1", "own"),
    service("deleted", "10.200.0.2", "own"),
    service("changed", "10.200.0.3", "own"),
    service("db", "None", "own"),
    endpoint_slice("db", ["10.201.0.1", "10.201.0.2"], "own", hostnames=["db-0", "db-1"]),
    service("gone-db", "None", "own"),
    endpoint_slice("gone-db", ["10.201.1.1"], "own", hostnames=["gone-db-0"]),
]


def name(service_name, ns="own"):
    return f"{service_name}.{ns}.svc.{ZONE}"


def questions(population):
    """Returns questions about a population. Their right answers do not depend on the state of the API server."""
    out = {(f"nobody.ns-00000.svc.{ZONE}", "A"): NXDOMAIN, (f"x.nowhere.svc.{ZONE}", "A"): NXDOMAIN}
    for i in range(0, population.services, max(1, population.services // 25)):
        at = name(population.service(i), population.namespace(i))
        if population.is_headless(i):
            continue
        out[(at, "A")] = {population.cluster_ip(i)}
        out[(at, "AAAA")] = NODATA
    for i in range(9, population.services, max(10, population.services // 100 * 10)):
        at = name(population.service(i), population.namespace(i))
        addresses = population.addresses(i)
        out[(at, "A")] = set(addresses)
        out[(f"{population.service(i)}-0.{at}", "A")] = {addresses[0]}
    out[(name("kept"), "A")] = {"10.200.0.1"}
    out[(name("db"), "A")] = {"10.201.0.1", "10.201.0.2"}
    out[("1.0.200.10.in-addr.arpa", "PTR")] = {name("kept") + "."}
    return out


class World:
    """
    Starts api, kubedns and asker in this order, and stops them in the reverse order. `dns` has additional arguments of kubedns. The clocks of
    kubedns and of the API server run `hurry` times as fast. With `clock`, kubedns has this clock. `before` changes the API server before
    kubedns starts.
    """

    def __init__(self, tmp_path, *dns, api=ApiServer, population=None, kubeconfig=None, wait=True, rate=300, hurry=1, clock=None,
                 before=lambda api: None, **options):  # fmt: skip
        self.tmp_path = tmp_path
        self.population = Population(**(population or SMALL))
        self.api = api(**options)
        try:
            self.api.load(**(population or SMALL))
            self.api.fill(OWN)
            before(self.api)
            self.config = self.api.kubeconfig(tmp_path / "kubeconfig", **(kubeconfig or {}))
            self.api.set_hurry(hurry)
            self.start(*dns, hurry=hurry, clock=clock)
            self.asker = Asker(self.kubedns.port, questions(self.population), rate)
            if wait:
                self.kubedns.wait_ready()
        except BaseException:
            self.close()
            raise

    def start(self, *dns, hurry=1, clock=None):
        env = clock.env if clock else in_a_hurry(hurry) if hurry != 1 else None
        # With this flag, kubedns answers NXDOMAIN for an address that no Service has. Without it, kubedns would forward the query to this
        # machine's own resolver.
        reverse = [] if any("reverse-cidrs" in arg for arg in dns) else ["--reverse-cidrs=10.200.0.0/15"]
        self.kubedns = Kubedns(f"--kubecfg-file={self.config}", *reverse, *dns, env=env, directory=str(self.tmp_path))

    def watching(self, *resources, timeout=30):
        for resource in resources or ("services", "endpointslices", "namespaces"):
            self.api.wait_watching(resource, timeout=timeout)

    def until(self, question, wanted, timeout=60.0):
        """Waits until the answer is `wanted`. Returns the seconds that this took."""
        return ask_until(self.kubedns.port, *question, wanted, timeout)

    def requests_of_each(self, since):
        """Prints and returns the number of requests per resource since `since`. Tests check it against bounds."""
        log = self.api.requests(since)
        out = {}
        for r in log:
            out[r["resource"]] = out.get(r["resource"], 0) + 1
        print(f"requests: {out}")
        return out

    def close(self):
        for part in ("asker", "kubedns", "api"):
            part = getattr(self, part, None)
            if part is None:
                continue
            if isinstance(part, Asker):
                if part.thread.is_alive():
                    part.stop()
            elif isinstance(part, Kubedns):
                part.stop()
            else:
                part.close()

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        ended = self.kubedns.process.poll()
        print(self.kubedns.log()[-6000:])  # pytest shows the log if the test fails
        for r in self.api.requests()[-40:]:
            print({k: r[k] for k in ("n", "time", "verb", "resource", "params", "http", "status", "bytes", "ended")})
        self.close()
        assert kind or ended is None, f"kubedns ended with {ended}"


__all__ = ["ApiProcess", "ApiServer", "NODATA", "NXDOMAIN", "OWN", "SMALL", "World", "ask_until", "endpoint_slice", "name", "namespace",
           "questions", "service"]  # fmt: skip
