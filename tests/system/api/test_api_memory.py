"""
Memory, descriptors and requests stay constant, however often the API server fails. kubedns does not record answers, because the memory of the
recorder grows with each query until it is full.
"""

import contextlib
import time

import pytest
from api_world import World, name, service
from hurry import Clock
from waiting import sanitized

pytestmark = pytest.mark.spread


REPEATS = 1000
WARM = 50  # the comparison starts only after these rounds, in which the libraries fill their caches
FEW = {"namespaces": 2, "services": 10, "slices": 15}
SLACK_KB = 400  # allowed growth of anonymous memory: the allocator itself varies by this much


@contextlib.contextmanager
def hurried(tmp_path, hurry, **options):
    clock = Clock(tmp_path)
    with clock.running(hurry), World(tmp_path, "--recorder=off", rate=100, hurry=hurry, clock=clock, **options) as w:
        yield w


@pytest.fixture
def world(tmp_path):
    with World(tmp_path, "--recorder=off", rate=100) as w:
        w.watching()
        yield w


class Flat:
    """Compares memory and descriptors at the start with memory and descriptors at the end."""

    def __init__(self, kubedns):
        self.kubedns, self.start = kubedns, kubedns.memory()["RssAnon"]
        self.descriptors = kubedns.descriptors()

    def check(self, what):
        now, fds = self.kubedns.memory()["RssAnon"], self.kubedns.descriptors()
        print(f"{what}: RssAnon {self.start} -> {now} kB, descriptors {self.descriptors} -> {fds}")
        assert sanitized() or now - self.start < SLACK_KB
        assert fds <= self.descriptors + 8


def repeat(world, times, once):
    for n in range(times):
        once(n)
        if n == max(times // 10, WARM):
            flat = Flat(world.kubedns)
    return flat


def address(n):
    return f"10.250.{n >> 8 & 255}.{n & 255}"


def test_1000_watches_that_end_in_order(tmp_path):
    """Each watch ends after an event, as in a busy cluster. kubedns watches again from the last version and does not list."""
    with hurried(tmp_path, 300) as world:
        world.watching()
        since = len(world.api.requests())

        def once(n):
            world.api.wait_watching("services", timeout=60)
            world.api.put(service("moving", address(n), "own"))
            world.api.end_watches("services")

        with world.asker:
            flat = repeat(world, REPEATS, once)
            world.until((name("moving"), "A"), {address(REPEATS - 1)})
        world.asker.clean()
        flat.check(f"{REPEATS} watches")
        assert world.api.count(since, verb="watchlist", resource="services") == 0


def test_1000_services_that_come_and_go(world):
    def once(n):
        world.api.put(service(f"visitor-{n}", address(n), "own"))
        if n >= 10:
            world.api.delete("services", "own", f"visitor-{n - 10}")
        if n % 50 == 49:
            world.until((name(f"visitor-{n}"), "A"), {address(n)})

    with world.asker:
        flat = repeat(world, REPEATS, once)
    world.asker.clean()
    flat.check(f"{REPEATS} services")


def test_1000_events_that_are_garbage_for_dns(world):
    """The events have unknown types, wrong kinds and odd values. kubedns counts or ignores each event, keeps no event and does not exit."""
    odd = [
        '{"type":"ADDED","object":{"kind":"Service","apiVersion":"v1","metadata":null}}\n',
        '{"type":"MODIFIED","object":{"kind":"Pod","apiVersion":"v1","metadata":{"name":"x"}}}\n',
        '{"type":"ADDED","object":{"kind":"Service","metadata":{"name":"bad","namespace":"own","resourceVersion":"1"},"spec":{"clusterIP":7}}}\n',
    ]

    def once(n):
        if world.api.inject("services", odd[n % len(odd)]) == 0:
            world.api.wait_watching("services", timeout=60)

    with world.asker:
        flat = repeat(world, REPEATS, once)
        world.watching("services", timeout=60)
        world.api.put(service("after", "10.200.0.77", "own"))
        world.until((name("after"), "A"), {"10.200.0.77"})
    world.asker.clean()
    flat.check(f"{REPEATS} odd events")


@pytest.mark.parametrize("cluster", [FEW, pytest.param(None, marks=pytest.mark.soak)], ids=["small", "large"])
def test_1000_relists(tmp_path, cluster):
    """
    A 410 in an open watch causes each relist, as at every restart of an API server. The clock of kubedns runs faster, because it waits a
    random time before each relist. With a large cluster, most of a relist's price is the stand-in's.
    """
    with hurried(tmp_path, 300, population=cluster) as world:
        world.watching()
        since, begun = len(world.api.requests()), time.monotonic()

        def once(n):
            world.api.wait_watching("services", timeout=60)
            world.api.put(service("moving", address(n), "own"))
            world.api.inject_error("services")

        with world.asker:
            flat = repeat(world, REPEATS, once)
            world.until((name("moving"), "A"), {address(REPEATS - 1)})
        world.asker.clean()
        relists = world.api.count(since, resource="services", verb="watchlist")
        flat.check(f"{relists} relists in {time.monotonic() - begun:.0f} s")
        assert relists >= REPEATS


@pytest.mark.parametrize("times", [150, pytest.param(REPEATS, marks=pytest.mark.soak)])
def test_broken_connections(tmp_path, times):
    """
    The server resets the connections at any point. kubedns reconnects, checks whether the server's state went back, and watches from the
    last version.
    """
    with hurried(tmp_path, 500) as world:
        world.watching()

        def once(n):
            world.watching(timeout=60)
            world.api.put(service("moving", address(n), "own"))
            world.api.drop_connections()

        with world.asker:
            flat = repeat(world, times, once)
            world.until((name("moving"), "A"), {address(times - 1)})
        world.asker.clean()
        flat.check(f"{times} broken connections")
