"""
A connection whose other end no longer gets or sends anything, and nobody says so: a node that lost power, a NAT that forgot. TCP alone
would wait for hours. Packets are dropped by iptables in a network namespace of the test's own.
"""

import time
from contextlib import contextmanager

import pytest
from api_world import ApiProcess, World, name, service
from netns import Namespace, client_ports

pytestmark = pytest.mark.soak  # a minute and a half is what is promised
NOTICED_S = 90


@pytest.fixture
def lan():
    with Namespace() as namespace:
        yield namespace


@contextmanager
def far_away(tmp_path, lan, **options):
    with World(tmp_path, api=lambda **kw: ApiProcess(prefix=lan.prefix, host=lan.there, **kw), **options) as w:
        w.watching()
        yield w


@pytest.fixture
def world(tmp_path, lan):
    with far_away(tmp_path, lan) as w:
        yield w


def flows(world, lan):
    at = world.api.address()
    return client_ports(lan.there, at["port"], world.kubedns.pid)


@pytest.mark.parametrize("http2", [True, False], ids=["http2", "http1"])
@pytest.mark.parametrize("lost", [("ours", "theirs"), ("theirs",)], ids=["both", "theirs"])
def test_noticed_within_90_seconds_and_connected_anew(tmp_path, lan, lost, http2):
    """Only the packets of the open connections are lost: a new one would work, so what changed must be right after the notice."""
    with far_away(tmp_path, lan, http2=http2) as world:
        ports = flows(world, lan)
        assert ports
        with world.asker:
            for port in ports:
                lan.drop_tcp(port, lost)
            begun = time.monotonic()
            world.api.put(service("new", "10.200.0.4", "own"))
            took = world.until((name("new"), "A"), {"10.200.0.4"}, NOTICED_S)
            print(f"noticed, connected anew and right after {took:.1f} s")
            assert time.monotonic() - begun < NOTICED_S
            assert not set(ports) & set(flows(world, lan))
        world.asker.clean()


@pytest.mark.parametrize("http2", [True, False], ids=["http2", "http1"])
@pytest.mark.parametrize("busy", [True, False], ids=["busy", "quiet"])
def test_noticed_when_only_our_packets_are_lost(tmp_path, lan, busy, http2):
    """
    What the server has to say comes through at first, until it has sent as much as it may without being heard; then it repeats itself,
    which a client could take for life. A quiet one says nothing.
    """
    with far_away(tmp_path, lan, http2=http2) as world:
        ports = flows(world, lan)
        number = 0
        with world.asker:
            for port in ports:
                lan.drop_tcp(port, ("ours",))
            begun = time.monotonic()
            while set(ports) & set(flows(world, lan)):
                assert time.monotonic() - begun < NOTICED_S, "still holds the dead connection"
                if busy:
                    number += 1
                    world.api.put(service("new", f"10.200.1.{number % 250}", "own"))
                time.sleep(0.5)
            took = time.monotonic() - begun
            world.api.put(service("new", "10.200.0.4", "own"))
            world.until((name("new"), "A"), {"10.200.0.4"}, NOTICED_S - took)
            print(f"noticed after {took:.1f} s, right after {time.monotonic() - begun:.1f} s")
        world.asker.clean()


def test_all_packets_lost_and_back(world, lan):
    """The network itself is away: data served all the while, right within seconds of its return, and no storm."""
    ports = flows(world, lan)
    since = len(world.api.requests())
    with world.asker:
        lan.drop_tcp()
        world.api.put(service("new", "10.200.0.4", "own"))
        deadline = time.monotonic() + NOTICED_S
        while set(ports) & set(flows(world, lan)):
            assert time.monotonic() < deadline, "still holds the dead connection"
            time.sleep(0.2)
        print(f"given up {NOTICED_S - (deadline - time.monotonic()):.1f} s after the packets stopped")
        assert world.kubedns.ready() and world.kubedns.ask(name("kept")) == {"10.200.0.1"}
        lan.pass_all()
        # At worst the next packet of a connection attempt is tried in vain for its 10 s, and the wait after it is 5 s.
        took = world.until((name("new"), "A"), {"10.200.0.4"}, 20)
        print(f"right {took:.1f} s after the packets came through again")
    world.asker.clean()
    assert all(n <= 12 for n in world.requests_of_each(since).values())
