"""
Objects appear, change and disappear at random while the API server fails in every way it can, often in several ways at once. Once it is
healthy again, kubedns's answers must match the API server's objects exactly. Meanwhile, queries for names that nothing changes must never
fail. A seed determines a run. The name of a failed test contains the seed.
"""

import random
import time

import pytest
from api_world import NXDOMAIN, World, endpoint_slice, name, service

HURRY = 50
SERVICES, SLICES, ADDRESSES = 30, 3, 6
PASSING = [  # temporary faults of requests
    {"status": 500}, {"status": 503, "headers": {"Retry-After": "3"}}, {"status": 429, "headers": {"Retry-After": "1"}}, {"status": 410},
    {"status": 403, "verb": "watch"}, {"html": True}, {"garbage": 3000}, {"empty": True}, {"kind": "PodList"}, {"cut_after": 0},
    {"cut_after": 9000}, {"cut_after": 9000, "cut": "end"}, {"cut_after": 700, "cut": "stream"}, {"cut_after": 200, "cut": "fin"},
    {"lifetime_s": 0.05}, {"delay_s": 0.2}, {"first_byte_s": 0.2}, {"rate": 200000}, {"no_end_bookmark": True}, {"silent": True},
    {"error": {"code": 410, "reason": "Expired", "message": "gone"}}, {"error": {"code": 500, "reason": "InternalError", "message": "sad"}},
]  # fmt: skip


class Chaos:
    """Random events, chosen by a seed. At the end, truth() computes the expected answers from the API server's objects."""

    def __init__(self, world, seed):
        self.world, self.api, self.random = world, world.api, random.Random(seed)
        self.snapshots = []

    def change(self):
        n = self.random.randrange(SERVICES)
        what = self.random.random()
        if what < 0.35:
            ip = "None" if self.random.random() < 0.5 else f"10.202.{n}.{self.random.randrange(1, 250)}"
            self.api.put(service(f"s{n}", ip, "own"))
        elif what < 0.5:
            self.delete("services", f"s{n}")
        elif what < 0.9:
            addresses = {f"10.203.{n}.{self.random.randrange(1, 40)}" for _ in range(self.random.randrange(ADDRESSES))}
            addresses = sorted(addresses)
            hosts = [f"h{a.rpartition('.')[2]}" for a in addresses] if self.random.random() < 0.5 else []
            self.api.put(endpoint_slice(f"s{n}", addresses, "own", f"x{self.random.randrange(SLICES)}", hosts))
        else:
            self.delete("endpointslices", f"s{n}-x{self.random.randrange(SLICES)}")

    def delete(self, resource, object_name):
        if self.api.get(resource, "own", object_name):
            self.api.delete(resource, "own", object_name)

    def trouble(self):
        resource = self.random.choice(["services", "endpointslices", "namespaces", None])
        how = self.random.choice(["rst", "fin", "close"])
        self.random.choice(
            [
                lambda: self.api.fault(**{"resource": resource, "times": self.random.randrange(1, 4), **self.random.choice(PASSING)}),
                lambda: self.api.drop_connections(how),
                lambda: self.api.restart(how),
                lambda: self.api.restart(how, history=True),
                lambda: self.api.stop(how),
                self.api.start,
                self.api.compact,
                self.api.goaway,
                lambda: self.api.end_watches(resource),
                lambda: self.api.inject_error(resource),
                lambda: self.api.inject(resource, self.random.choice(["\n", "{", "garbage\n", '{"type":"ADDED","object":null}\n'])),
                lambda: self.api.set_watchlist(self.random.random() < 0.5),
                lambda: self.api.new_certificate("same"),
                lambda: self.api.bookmark(resource),
                lambda: self.snapshots.append(self.api.snapshot()),
                self.restore,
            ]
        )()

    def restore(self):
        """
        Restores an older state. A client cannot notice if the same resourceVersion later stands for another state. So this either raises
        the version above all versions that were used, as etcdutl's --bump-revision does, or makes no change until kubedns has noticed the
        restore.
        """
        newest = self.api.version()
        self.api.restore(self.random.choice(self.snapshots))
        if self.random.random() < 0.5:
            self.api.advance(newest + 1000 - self.api.version())
            self.api.compact()
        else:
            self.heal()
            since = self.api.stats()["requests"]
            for resource in ("services", "endpointslices", "namespaces"):
                self.world.api.wait_requests(since=since, resource=resource, status=200, timeout=20)
            self.world.watching(timeout=20)

    def run(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for _ in range(self.random.randrange(6)):
                self.change()
            if self.random.random() < 0.3:
                self.trouble()
            time.sleep(self.random.random() * 0.05)

    def heal(self):
        self.api.clear()
        self.api.set_watchlist(True)
        self.api.start()

    def truth(self):
        """The expected answers: {(name, type): allowed outcomes}."""
        slices = {}
        for ns, object_name in self.api.names("endpointslices"):
            if ns == "own" and object_name.startswith("s"):
                one = self.api.get("endpointslices", ns, object_name)
                slices.setdefault(one["metadata"]["labels"]["kubernetes.io/service-name"], []).extend(one["endpoints"])
        out = {}
        for n in range(SERVICES):
            obj, at = self.api.get("services", "own", f"s{n}"), name(f"s{n}")
            endpoints = slices.get(f"s{n}", [])
            if obj is None:
                out[(at, "A")] = (NXDOMAIN,)
            elif obj["spec"]["clusterIP"] != "None":
                out[(at, "A")] = (frozenset({obj["spec"]["clusterIP"]}),)
            else:
                addresses = frozenset(e["addresses"][0] for e in endpoints)
                out[(at, "A")] = (addresses,) if addresses else (NXDOMAIN, frozenset())
                for e in endpoints:
                    if "hostname" in e:
                        out[(f"{e['hostname']}.{at}", "A")] = (frozenset(e["addresses"]),)
        return out


def differences(world, truth):
    return {q: (got, allowed) for q, allowed in truth.items() if (got := world.kubedns.ask(*q)) not in allowed}


def chaos(tmp_path, seed, seconds):
    with World(tmp_path, hurry=HURRY, http2=seed % 3 != 0, rate=200) as world:
        world.api.set_too_large_wait(0.02)
        run = Chaos(world, seed)
        run.snapshots.append(world.api.snapshot())
        with world.asker:
            run.run(seconds)
            run.heal()
            truth = run.truth()
            begun = time.monotonic()
            while wrong := differences(world, truth):
                assert time.monotonic() < begun + 10, f"{len(wrong)} of {len(truth)} answers are wrong: {list(wrong.items())[:5]}"
                time.sleep(0.1)
            print(f"{len(truth)} answers right {time.monotonic() - begun:.1f} s after the end; {world.api.stats()['requests']} requests")
        world.asker.clean()
        time.sleep(0.5)
        assert not differences(world, truth), "the answers must stay right"


@pytest.mark.parametrize("seed", range(2))
def test_chaos(tmp_path, seed):
    chaos(tmp_path, seed, 4)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 130))
def test_more_chaos(tmp_path, seed):
    chaos(tmp_path, seed, 15)
