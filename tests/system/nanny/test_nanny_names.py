"""
Stub servers given by name. The name resolves, moves, disappears, times out or gets a second address. Fifty names without an answer do not
delay a good name.
"""

import os
import threading

import dns.rcode
import pytest
from hurry import Clock
from nanny_world import Server, World, constant
from waiting import wait_for

pytestmark = pytest.mark.spread


class Zone:
    """A name server whose records the test changes: name -> addresses, or an rcode, or None for no reply."""

    def __init__(self, ttl=5):
        self.records, self.ttl, self.lock = {}, ttl, threading.Lock()
        self.server = Server(self.answer)

    def answer(self, name, rdtype):
        value = self.records.get(name, dns.rcode.NXDOMAIN)
        if not isinstance(value, list):
            return value
        kind = {"A": False, "AAAA": True}.get(rdtype)
        return [(name, self.ttl, rdtype, a) for a in value if (":" in a) == kind]


@pytest.fixture
def zone():
    z = Zone()
    yield z
    z.server.close()


@pytest.fixture
def world(zone):
    w = World()
    w.resolv("")
    w.write(upstreamNameservers=[str(zone.server)])
    yield w
    w.close()


@pytest.fixture
def stubs():
    """Two stub servers with different addresses and the same port, so that a name can move from one to the other."""
    first = Server(constant("10.9.0.1"), "127.0.0.11")
    second = Server(constant("10.9.0.2"), "127.0.0.12", first.port)
    yield first, second
    first.close()
    second.close()


def start(world, zone, stub_port, name="ns.stub.test", flags=(), **popen):
    world.write(upstreamNameservers=[str(zone.server)], stubDomains={"acme.test": [f"{name}:{stub_port}"]})
    return world.start(*flags, **popen)


def start_with_clock(world, zone, stub_port, tmp_path):
    """Returns the clock of the nanny and dnsmasq. It stands still when the name is known."""
    clock = Clock(tmp_path)
    with clock.running(1):
        start(world, zone, stub_port, env={**os.environ, **clock.env})
        wait_for(lambda: world.ask("a.acme.test") == "10.9.0.1")
        world.wait_confirmed()
    return clock


def known(config, name="ns.stub.test"):
    return {a["address"]: a["current"] for n in config["names"] if n["name"] == name for a in n["addresses"]}


def test_a_name_is_found_and_dnsmasq_sees_its_address_only(world, zone, stubs):
    zone.records["ns.stub.test."] = ["127.0.0.11"]
    start(world, zone, stubs[0].port)
    wait_for(lambda: world.ask("a.acme.test") == "10.9.0.1")
    assert world.file()[1:] == [f"server=/acme.test/127.0.0.11#{stubs[0].port}"]
    assert known(world.config()) == {"127.0.0.11": True}


def test_until_it_is_found_the_world_is_not_asked_instead(world, zone, stubs):
    start(world, zone, stubs[0].port)
    assert world.ask("private.acme.test") == "SERVFAIL"
    assert not any("private" in name for name, _ in zone.server.asked)
    zone.records["ns.stub.test."] = ["127.0.0.11"]
    wait_for(lambda: world.ask("private.acme.test") == "10.9.0.1")


def test_it_moves(world, zone, stubs, tmp_path):
    zone.records["ns.stub.test."] = ["127.0.0.11"]
    clock = start_with_clock(world, zone, stubs[0].port, tmp_path)
    stubs[0].close()
    zone.records["ns.stub.test."] = ["127.0.0.12"]
    clock.run_until(lambda: world.file()[1:] and any("127.0.0.12" in l for l in world.file()), 6.5)  # the TTL of 5 s plus a margin
    with clock.running(1):
        world.wait_confirmed()
    assert all(world.ask(f"b{i}.acme.test") == "10.9.0.2" for i in range(20))
    assert known(world.config()) == {"127.0.0.11": False, "127.0.0.12": True}


def test_nxdomain_and_silence_keep_what_is_known(world, zone, stubs, tmp_path):
    zone.records["ns.stub.test."] = ["127.0.0.11"]
    clock = start_with_clock(world, zone, stubs[0].port, tmp_path)
    del zone.records["ns.stub.test."]
    clock.run_until(lambda: world.config()["names"][0]["A"]["failures"] >= 1, 8)
    assert world.ask("b.acme.test") == "10.9.0.1" and known(world.config()) == {"127.0.0.11": True}
    zone.records["ns.stub.test."] = None
    before = world.config()["names"][0]["A"]["failures"]
    clock.run_until(lambda: world.config()["names"][0]["A"]["failures"] > before, 15)
    assert world.ask("c.acme.test") == "10.9.0.1"
    assert world.metric("nanny_names_failing") >= 1 and world.metric("nanny_sighups_total") <= 1


def test_a_second_address_waits_for_its_turn(world, zone, stubs, tmp_path):
    zone.records["ns.stub.test."] = ["127.0.0.11"]
    clock = start_with_clock(world, zone, stubs[0].port, tmp_path)
    hups = world.metric("nanny_sighups_total")
    zone.records["ns.stub.test."] = ["127.0.0.12", "127.0.0.11"]
    clock.run_until(lambda: len(known(world.config())) == 2, 8)
    clock.pass_by(5, 0.1)
    assert world.metric("nanny_sighups_total") == hups  # at least 30 s must pass since the last SIGHUP
    assert world.ask("a.acme.test") == "10.9.0.1"


def test_both_families(world, zone, stubs):
    zone.records["ns.stub.test."] = ["127.0.0.11", "fd00::53"]
    start(world, zone, stubs[0].port)
    wait_for(lambda: len(known(world.config())) == 2)
    assert known(world.config()) == {"127.0.0.11": True, "fd00::53": True}


def test_fifty_dead_names_delay_nothing(world, zone, stubs):
    dead = {f"dead{i}.test": [f"ns.dead{i}.test"] for i in range(50)}
    for i in range(50):
        zone.records[f"ns.dead{i}.test."] = None
    zone.records["ns.stub.test."] = ["127.0.0.11"]
    world.write(upstreamNameservers=[str(zone.server)], stubDomains={**dead, "acme.test": [f"ns.stub.test:{stubs[0].port}"]})
    world.start()
    wait_for(lambda: world.ask("a.acme.test") == "10.9.0.1")
    assert world.metric('nanny_name_lookups_total{result="failure"}') == 0  # no lookup of a dead name has timed out yet
    assert world.metric('nanny_names{state="unresolved"}') == 50


def test_names_of_the_cluster_are_asked_of_kubedns(world, zone, stubs):
    kubedns = Zone()
    kubedns.records["ns.infra.svc.cluster.local."] = ["127.0.0.11"]
    try:
        start(world, zone, stubs[0].port, "ns.infra.svc.cluster.local", [f"-kubednsServer={kubedns.server}"])
        wait_for(lambda: world.ask("a.acme.test") == "10.9.0.1")
        assert not any("infra" in name for name, _ in zone.server.asked)
    finally:
        kubedns.server.close()


def test_names_come_and_go_as_a_difference(world, zone, stubs):
    zone.ttl = 600  # long enough that nothing is refreshed during the test
    for name in ("ns1.test.", "ns2.test.", "ns3.test."):
        zone.records[name] = ["127.0.0.11"]
    port = stubs[0].port
    world.write(upstreamNameservers=[str(zone.server)], stubDomains={"a.test": [f"ns1.test:{port}"], "b.test": [f"ns2.test:{port}"]})
    world.start()
    wait_for(lambda: known(world.config(), "ns1.test") and known(world.config(), "ns2.test"))
    wait_for(lambda: {("ns2.test.", "A"), ("ns2.test.", "AAAA")} <= set(zone.server.asked))
    asked = sum(name == "ns2.test." for name, _ in zone.server.asked)
    world.write(upstreamNameservers=[str(zone.server)], stubDomains={"b.test": [f"ns2.test:{port}"], "c.test": [f"ns3.test:{port}"]})
    wait_for(lambda: known(world.config(), "ns3.test"))
    assert [n["name"] for n in world.config()["names"]] == ["ns2.test", "ns3.test"]
    assert sum(name == "ns2.test." for name, _ in zone.server.asked) == asked  # the name is in both configurations, so the nanny did not look it up again


def test_a_name_that_is_dnsmasq_itself_is_said_once_and_not_asked(world, tmp_path):
    """The nanny logs this when it finds the address, and again when the address changes, but not at each refresh."""
    found = {"ns.acme.example.": "127.0.0.1"}
    resolver = Server(lambda name, rdtype: [(name, 5, "A", found[name])] if rdtype == "A" else [])
    try:
        world.write(stubDomains={"acme.test": [f"ns.acme.example:{world.port}"]}, upstreamNameservers=[str(resolver)])
        clock = Clock(tmp_path)
        with clock.running(1):
            world.start("-syncInterval=100ms", env={**os.environ, **clock.env})
            world.wait_log("ns.acme.example: its address 127.0.0.1")
        assert world.ask("x.acme.test") == "SERVFAIL"
        asked = len(resolver.asked)
        clock.run_until(lambda: len(resolver.asked) >= asked + 2, 30)  # the nanny has refreshed the addresses of both families
        said = [line for line in world.lines if "its address" in line]
        assert len(said) == 1 and "not used" in said[0], world.log()
        found["ns.acme.example."] = "127.0.0.2"
        clock.run_until(lambda: "ns.acme.example: its address 127.0.0.2" in world.log(), 30)
    finally:
        resolver.close()
