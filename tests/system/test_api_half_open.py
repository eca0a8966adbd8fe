"""
A connection whose other end no longer gets or sends anything, and nobody says so: a node that lost power, a NAT that forgot. TCP alone
would wait for hours. Packets are dropped by iptables in a network namespace of the test's own.
"""

import time

import pytest
from api_world import ApiProcess, World, name, service
from netns import Namespace, client_ports

pytestmark = pytest.mark.soak  # a minute and a half is what is promised
NOTICED_S = 90


@pytest.fixture
def lan():
    with Namespace() as namespace:
        yield namespace


@pytest.fixture
def world(tmp_path, lan):
    with World(tmp_path, api=lambda **kw: ApiProcess(prefix=lan.prefix, host=lan.there, **kw)) as w:
        w.watching()
        yield w


def flows(world, lan):
    at = world.api.address()
    return client_ports(lan.there, at["port"], world.kubedns.pid)


def test_noticed_within_90_seconds_and_connected_anew(world, lan):
    """Only the packets of the open connections are lost: a new one would work, so what changed must be right after the notice."""
    ports = flows(world, lan)
    assert ports
    with world.asker:
        for port in ports:
            lan.drop_tcp(port)
        begun = time.monotonic()
        world.api.put(service("new", "10.200.0.4", "own"))
        took = world.until((name("new"), "A"), {"10.200.0.4"}, NOTICED_S)
        print(f"noticed, connected anew and right after {took:.1f} s")
        assert time.monotonic() - begun < NOTICED_S
        assert not set(ports) & set(flows(world, lan))
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
        took = world.until((name("new"), "A"), {"10.200.0.4"}, 45)  # the back-off is 30 s at most
        print(f"right {took:.1f} s after the packets came through again")
    world.asker.clean()
    assert all(n <= 12 for n in world.requests_of_each(since).values())
