"""
A cluster in the stand-in API server, watched by kubedns. Actions run one by one. fence() returns when kubedns has seen the results of all
actions. Actions are plain values, so a test can repeat a failing run with fewer actions:

    ("put", object)  ("delete", key)  ("fence",)  ("call", method of the API server, arguments, keywords)
"""

import copy
import itertools
import json
import os
import random
import time

from api_world import ApiServer
from bulk_asking import Bulk
from hurry import hurry as in_a_hurry
from kubedns_process import Kubedns
from objects import endpoint_slice, namespace, service
from waiting import wait_for

KINDS = {"Service": "services", "EndpointSlice": "endpointslices", "Namespace": "namespaces", "Pod": "pods"}
FENCE = "zz"  # the namespace of the objects that fence() changes to see how far kubedns has read


def key_of(obj):
    return obj["kind"], obj["metadata"].get("namespace"), obj["metadata"]["name"]


class Player:
    """Runs the actions. `objects` has the API server's objects by key. With `faulty`, kubedns's clock runs faster, so its backoff is short."""

    def __init__(self, tmp_path, options, actions=(), flags=(), faulty=False, initial=()):
        self.options, self.objects, self.count, self.tmp_path = options, {}, itertools.count(1), tmp_path
        self.api = ApiServer(tls=False)
        self.kubedns = self.bulk = None
        try:
            if faulty:
                self.api.set_hurry(50)
                self.api.set_too_large_wait(0.02)
            for obj in [*initial, *self._fence_objects(0)]:
                self.objects[key_of(obj)] = obj
            self.api.fill(list(self.objects.values()))
            config = self.api.kubeconfig(tmp_path / "kubeconfig")
            self.kubedns = Kubedns(f"--kubecfg-file={config}", *flags_of(options), *flags, directory=str(tmp_path), env=in_a_hurry(50) if faulty else None)
            self.bulk = Bulk(self.kubedns.port)
            self.kubedns.wait_ready(30)
            for action in actions:
                self.do(action)
        except BaseException:
            self.close()
            raise

    def _fence_objects(self, n):
        address = f"10.255.{n >> 8}.{n & 255}"
        pod = {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "fence", "namespace": FENCE}, "spec": {"nodeName": "n"},
               "status": {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}]}}  # fmt: skip
        return [namespace(FENCE), service("one", address, FENCE, ports=()), service("two", "None", FENCE, ports=()),
                endpoint_slice("one", ["10.254.0.1"], FENCE, ports=()), endpoint_slice("two", [address], FENCE, ports=()), pod, *([namespace("zz-fence")] if n % 2 else [])]  # fmt: skip

    def do(self, action):
        kind, *rest = action
        if kind == "put":
            self.objects[key_of(rest[0])] = rest[0]
            self.api.put(rest[0])
        elif kind == "delete":
            key = tuple(rest[0])
            if self.objects.pop(key, None):
                self.api.delete(KINDS[key[0]], key[1] or "", key[2])
        elif kind == "fence":
            self.fence()
        else:
            method, args, keywords = rest
            getattr(self.api, method)(*args, **keywords)

    def fence(self, timeout=30):
        """Changes one object of each kind that kubedns watches. Returns when kubedns's answers show these changes."""
        n = next(self.count)
        address, zone = f"10.255.{n >> 8}.{n & 255}", self.options.zone
        for obj in self._fence_objects(n)[1:]:
            self.do(("put", obj))
        if n % 2 == 0:
            self.do(("delete", ("Namespace", None, "zz-fence")))
        wanted = {(f"one.{FENCE}.svc.{zone}", "A"): 0, (f"two.{FENCE}.svc.{zone}", "A"): 0}
        if self.options.pods == "verified":
            wanted[f"{address.replace('.', '-')}.{FENCE}.pod.{zone}", "A"] = 0
        questions = list(wanted)
        visible = not self.options.namespaces

        def seen():
            assert self.kubedns.process.poll() is None, f"kubedns ended:\n{self.kubedns.log()[-3000:]}"
            shown = all(r.answer and r.answer[0][3] == address for r in self.bulk.ask_udp(questions))
            return shown and (not visible or self.bulk.ask_udp([(f"zz-fence.svc.{zone}", "A")])[0].rcode == (0 if n % 2 else 3))

        wait_for(seen, timeout, lambda: f"the fence {n}; {self.trail()}")

    def trail(self):
        """The last events, for a report."""
        keys = ("verb", "resource", "status", "ended", "time", "end_time")
        requests = "\n".join(str([r[k] for k in keys]) for r in self.api.requests()[-30:])
        return f"requests ({', '.join(keys)}):\n{requests}\n{self.api.stats()}\n{self.kubedns.log()[-3000:]}"

    def close(self):
        for part in (self.bulk, self.kubedns):
            if part is not None:
                part.close() if part is self.bulk else part.stop()
        self.api.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Fresh:
    """A new kubedns that reads these objects from a directory, in this order."""

    def __init__(self, tmp_path, options, objects, flags=()):
        directory = tmp_path / "fresh"
        directory.mkdir(exist_ok=True)
        (directory / "all.json").write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": list(objects)}))
        self.kubedns = Kubedns(f"--objects-dir={directory}", *flags_of(options), *flags, directory=str(tmp_path))
        try:
            self.bulk = Bulk(self.kubedns.port)
            self.kubedns.wait_ready(30)
        except BaseException:
            self.kubedns.stop()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.bulk.close()
        self.kubedns.stop()


def flags_of(options):
    """Returns kubedns's arguments. The tests' queries have no RD, so kubedns forwards none of them."""
    return [*options.arguments(), "--nameservers=127.0.0.1:1", "--threads=1", "--drain=0s"]


def smaller(parts, fails):
    """
    Delta debugging (Zeller 1999): removes as many elements of `parts` as possible while fails(parts) stays true. Without any single element
    of the result, fails() is false.
    """
    size = max(1, len(parts) // 2)
    while True:
        at = 0
        while at < len(parts):
            fewer = parts[:at] + parts[at + size :]
            if fewer != parts and fails(fewer):
                parts = fewer
            else:
                at += size
        if size == 1:
            return parts
        size = max(1, size // 2)


def taken_apart(events):
    """
    Splits events [(tag, value)] into the pieces that smaller() may leave out. An object becomes (index, tag, None, the object without its
    endpoints and ports). Each of its endpoints and ports becomes (index, tag, name of the list, the endpoint or port). Other values become
    (index, tag, None, value).
    """
    out = []
    for index, (tag, value) in enumerate(events):
        pieces = []
        if isinstance(value, dict):
            value = copy.deepcopy(value)
            holder = value.get("spec", value)
            for where in ("endpoints", "ports"):
                pieces += [(index, tag, where, piece) for piece in holder.get(where) or ()]
                if holder.get(where):
                    holder[where] = []
        out += [(index, tag, None, value), *pieces]
    return out


def put_together(parts):
    """Makes events [(tag, value)] from the remaining pieces."""
    out = {}
    for index, tag, where, value in parts:
        if where is None:
            out[index] = (tag, copy.deepcopy(value) if isinstance(value, dict) else value)
        elif index in out:
            holder = out[index][1].get("spec", out[index][1])
            holder[where] = [*holder[where], value]
    return list(out.values())


def one_seed_after_another(run, tmp_path, seconds=0, count=1):
    """
    Calls run(tmp_path, seed) with one seed after another, at least `count` times and for `seconds`. run() returns its number of queries. SEED
    in the environment is the first seed. By default it is random. MODEL_SECONDS replaces `seconds`.
    """
    first = seed = int(os.environ.get("SEED", random.randrange(1 << 30)))
    end, asked = time.monotonic() + float(os.environ.get("MODEL_SECONDS", seconds)), 0
    while seed < first + count or time.monotonic() < end:
        asked += run(tmp_path, seed)
        seed += 1
    print(f"seeds {first} to {seed - 1}: {asked} queries, 0 differences")
