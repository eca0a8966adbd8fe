"""Memory, descriptors and requests stay where they are, however often the API server makes trouble."""

import time

import pytest
from api_world import World, name, service
from waiting import sanitized


REPEATS = 1000
SLACK_KB = 400  # of anonymous memory: the allocator's own movements


@pytest.fixture
def world(tmp_path):
    with World(tmp_path, rate=100) as w:
        w.watching()
        yield w


class Flat:
    """Memory and descriptors at the beginning and at the end."""

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
        if n == times // 10:
            flat = Flat(world.kubedns)  # after the caches of every library have been filled
    return flat


def address(n):
    return f"10.250.{n >> 8 & 255}.{n & 255}"


def test_1000_watches_that_end_in_order(tmp_path):
    """Each ends after an event, as a busy cluster's do: watched again from the last version, without a list."""
    with World(tmp_path, rate=100, hurry=300) as world:
        world.watching()
        since = len(world.api.requests())

        def once(n):
            world.api.wait_watching("services")
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
    """Unknown types, wrong kinds, odd values: each is counted or ignored, none is kept, none ends the process."""
    odd = [
        '{"type":"ADDED","object":{"kind":"Service","apiVersion":"v1","metadata":null}}\n',
        '{"type":"MODIFIED","object":{"kind":"Pod","apiVersion":"v1","metadata":{"name":"x"}}}\n',
        '{"type":"ADDED","object":{"kind":"Service","metadata":{"name":"bad","namespace":"own","resourceVersion":"1"},"spec":{"clusterIP":7}}}\n',
    ]

    def once(n):
        if world.api.inject("services", odd[n % len(odd)]) == 0:
            world.api.wait_watching("services", timeout=40)

    with world.asker:
        flat = repeat(world, REPEATS, once)
        world.watching("services", timeout=60)
        world.api.put(service("after", "10.200.0.77", "own"))
        world.until((name("after"), "A"), {"10.200.0.77"}, 40)
    world.asker.clean()
    flat.check(f"{REPEATS} odd events")


def test_1000_relists(tmp_path):
    """Each by a 410 in an open watch, as at every restart of an API server. The client's time runs faster, for the jitter before each."""
    with World(tmp_path, rate=100, hurry=300) as world:
        world.watching()
        since, begun = len(world.api.requests()), time.monotonic()

        def once(n):
            world.api.wait_watching("services", timeout=60)
            world.api.put(service("moving", address(n), "own"))
            world.api.inject_error("services")

        with world.asker:
            flat = repeat(world, REPEATS, once)
            world.until((name("moving"), "A"), {address(REPEATS - 1)}, 60)
        world.asker.clean()
        relists = world.api.count(since, resource="services", verb="watchlist")
        flat.check(f"{relists} relists in {time.monotonic() - begun:.0f} s")
        assert relists >= REPEATS


@pytest.mark.parametrize("times", [100, pytest.param(REPEATS, marks=pytest.mark.soak)])
def test_broken_connections(tmp_path, times):
    """Reset in the middle of everything: connected anew, asked whether the store went back, watched from where it was."""
    with World(tmp_path, rate=100, hurry=500) as world:
        world.watching()

        def once(n):
            world.watching(timeout=60)
            world.api.put(service("moving", address(n), "own"))
            world.api.drop_connections()

        with world.asker:
            flat = repeat(world, times, once)
            world.until((name("moving"), "A"), {address(times - 1)}, 60)
        world.asker.clean()
        flat.check(f"{times} broken connections")
