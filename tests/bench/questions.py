"""The queries of a cluster with their expected answers: a file for the load generators, and a sample for the judge.

The queries are computed from the objects of tests/apiserver/population.py and from additional ExternalName Services. So the expected
answers are known without a server. The same seed gives the same file.
"""

import json
import os
import random
import sys

import dns.message
import dns.name
import dns.query
import dns.rcode
import dns.reversename

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "apiserver"))
import population  # noqa: E402  (a file of the directory, without the package and what it needs)

ZONE = "svc.cluster.local."
EXTERNALS = 200
NXDOMAIN = "NXDOMAIN"


class Questions:
    """Makes queries of each kind with their expected answers."""

    def __init__(self, people, seed=1):
        self.people, self.choose = people, random.Random(seed)
        every = range(people.services)
        self.headless = [i for i in every if people.is_headless(i)]
        self.clustered = [i for i in every if not people.is_headless(i)]

    def _service(self, i):
        return f"{self.people.service(i)}.{self.people.namespace(i)}.{ZONE}"

    def _any(self, services=None):
        return self.choose.choice(services or self.clustered)

    # One query of each kind: (name, type, expected). `expected` is NXDOMAIN or a set of record texts, which is empty for NODATA.

    def cluster_a(self):
        i = self._any()
        return self._service(i), "A", {self.people.cluster_ip(i)}

    def cluster_aaaa(self):
        return self._service(self._any()), "AAAA", set()

    def headless_a(self):
        i = self._any(self.headless)
        return self._service(i), "A", set(self.people.addresses(i))

    def endpoint_a(self):
        i = self._any(self.headless)
        addresses = self.people.addresses(i)
        n = self.choose.randrange(len(addresses))
        return f"{self.people.service(i)}-{n}.{self._service(i)}", "A", {addresses[n]}

    def srv(self):
        i = self._any()
        return f"_http._tcp.{self._service(i)}", "SRV", {f"0 100 80 {self._service(i)}"}

    def headless_srv(self):
        i = self._any(self.headless)
        count = len(self.people.addresses(i))
        return f"_http._tcp.{self._service(i)}", "SRV", {
            f"0 {max(1, 100 // count)} 80 {self.people.service(i)}-{n}.{self._service(i)}" for n in range(count)
        }

    def ptr(self):
        i = self._any()
        return dns.reversename.from_address(self.people.cluster_ip(i)).to_text(), "PTR", {self._service(i)}

    def endpoint_ptr(self):
        i = self._any(self.headless)
        addresses = self.people.addresses(i)
        n = self.choose.randrange(len(addresses))
        return dns.reversename.from_address(addresses[n]).to_text(), "PTR", {f"{self.people.service(i)}-{n}.{self._service(i)}"}

    def external(self):
        n = self.choose.randrange(EXTERNALS)
        return f"ext-{n:03d}.ns-00000.{ZONE}", "CNAME", {f"host-{n:03d}.example.com."}

    def nxdomain(self):
        """A query for a name with a suffix of a pod's search list. With ndots:5, a resolver tries three such names before the name itself."""
        i = self._any()
        name = self.choose.choice((f"{self._service(i)}", "www.example.com.", "api.payments.example.org.", f"missing-{i}."))
        namespace = self.people.namespace(self._any())
        suffix = self.choose.choice((f"{namespace}.{ZONE}", ZONE, "cluster.local."))
        if name.startswith("missing") and suffix == "cluster.local.":
            suffix = ZONE
        return name + suffix, self.choose.choice(("A", "AAAA")), NXDOMAIN

    def mix(self):
        """
        Mixes kinds of queries in the shares that resolvers of busy clusters report. About half of the queries are names from the search
        list that do not exist, and A and AAAA come in pairs. The other queries are for names of Services, some of them headless, and a few
        are SRV and PTR.
        """
        kinds = ("nxdomain", "cluster_a", "cluster_aaaa", "headless_a", "endpoint_a", "srv", "ptr", "external")
        return getattr(self, self.choose.choices(kinds, (46, 21, 18, 5, 3, 3, 2, 2))[0])()


KINDS = ("mix", "cluster_a", "cluster_aaaa", "nxdomain", "headless_a", "endpoint_a", "srv", "headless_srv", "ptr", "endpoint_ptr",
         "external")  # fmt: skip


def write(people, kind, path, count=100_000, seed=1):
    """Writes a file of queries in dnsperf's format."""
    q = Questions(people, f"{kind} {seed}")
    make = getattr(q, kind)
    with open(path, "w", encoding="ascii") as f:
        for _ in range(count):
            name, type_, _ = make()
            f.write(f"{name} {type_}\n")
    return path


def externals():
    """The ExternalName Services, as objects."""
    return [
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": f"ext-{n:03d}", "namespace": "ns-00000"},
         "spec": {"type": "ExternalName", "externalName": f"host-{n:03d}.example.com"}}  # fmt: skip
        for n in range(EXTERNALS)
    ]


def write_objects(people, directory):
    """Writes the population and the ExternalName Services as manifests."""
    population.write_manifests(people, directory, "json")
    with open(os.path.join(directory, "external.json"), "w", encoding="utf-8") as f:
        json.dump({"apiVersion": "v1", "kind": "List", "items": externals()}, f)


def judge(people, kind, port, count=200, seed=2, tcp=False, transport=dns.query.udp_with_fallback):
    """
    Sends a sample of the queries and returns the mistakes as texts. A fast wrong answer is a failure, so the bench checks every server
    before it measures the server.
    """
    q = Questions(people, f"{kind} {seed}")
    wrong = []
    for _ in range(count):
        name, type_, expected = getattr(q, kind)()
        query = dns.message.make_query(name, type_)
        query.flags &= ~dns.flags.RD
        if tcp:
            reply = dns.query.tcp(query, "127.0.0.1", port=port, timeout=2)
        else:
            reply, _ = transport(query, "127.0.0.1", port=port, timeout=2)
        rcode = dns.rcode.to_text(reply.rcode())
        owner = dns.name.from_text(name)
        got = {str(rr) for rrset in reply.answer for rr in rrset if rrset.name == owner}
        if rcode == "NOERROR" and got == expected if expected != NXDOMAIN else rcode == NXDOMAIN:
            continue
        wrong.append(f"{name} {type_}: {rcode} {sorted(got)[:4]}, not {expected if expected == NXDOMAIN else sorted(expected)[:4]}")
    return wrong
