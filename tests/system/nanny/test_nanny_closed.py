"""A key that asks for TLS and is refused, without an earlier good value: its names get SERVFAIL and leave no packet. Cluster names are answered."""

import contextlib
import os
import socket
import struct

import pytest
from nanny_world import ARGS, ENGINE, Server, World, constant
from netns import Namespace
from waiting import wait_for

SOL_PACKET, PACKET_STATISTICS, SO_RCVBUFFORCE = 263, 6, 33  # not in Python's module socket
RESOLV, OTHER, TLS = "127.0.0.11", "127.0.0.13", "127.0.0.12"
SYNTAX = f'["tls://{TLS}#dns.test"'  # no closing bracket
# What a name gets: SERVFAIL, or the address of the server that answered it.
CLOSED = {"www.example.com": "SERVFAIL", "web.svc.cluster.local": "10.96.0.1"}
CASES = {
    "no server name": ({"upstreamNameservers": [f"tls://{TLS}"]}, CLOSED),
    "one plain server": ({"upstreamNameservers": [f"tls://{TLS}#dns.test", RESOLV]}, CLOSED),
    "no JSON": ({"upstreamNameservers": SYNTAX}, CLOSED),
    "misspelt": ({"upstreamNameservers": [f"TLS:/{TLS}#dns.test"]}, CLOSED),
    "near miss of tls://": ({"upstreamNameservers": [f"tsl://{TLS}#dns.test"]}, CLOSED),
    "no scheme": ({"upstreamNameservers": [f"{TLS}@853#dns.test"]}, CLOSED),
    "unreadable": ({"upstreamNameservers": None}, CLOSED),
    "unreadable stub domains": ({"stubDomains": None}, CLOSED),
    "misspelt key": ({"upstreamNameserver": [f"tls://{TLS}#dns.test"]}, CLOSED),
    "stub domain without a good server": (
        {"stubDomains": {"corp.test": ["8.8.8"], "twice.test": [OTHER], "Twice.test": [OTHER], "plain.test": ["8.8.8", OTHER], "a..b": [OTHER]}},
        {"a.corp.test": "SERVFAIL", "a.twice.test": "SERVFAIL", "a.plain.test": OTHER, "www.example.com": RESOLV},
    ),
    "no tls://": ({"upstreamNameservers": ["8.8.8"]}, {"www.example.com": RESOLV}),
    "stub domain": (
        {"stubDomains": {"corp.test": [f"tls://{TLS}"], "plain.test": [OTHER]}},
        {"a.corp.test": "SERVFAIL", "a.plain.test": OTHER, "www.example.com": RESOLV, "web.svc.cluster.local": "10.96.0.1"},
    ),
    "stub domain, no JSON": ({"stubDomains": '{"corp.test": ' + SYNTAX}, {"a.corp.test": "SERVFAIL", "www.example.com": RESOLV}),
    "stub domain that cannot be read": ({"stubDomains": {"corp..test": [f"tls://{TLS}#dns.test"]}}, {"a.corp.test": "SERVFAIL", **CLOSED}),
    "the cluster's names": (
        {"stubDomains": {"svc.cluster.local": [f"tls://{TLS}"], "local": [f"tls://{TLS}"]}},
        {"web.svc.cluster.local": "10.96.0.1", "printer.local": "SERVFAIL", "www.example.com": RESOLV},
    ),
    "a local name": (
        {"stubDomains": {"corp.test": [f"tls://{TLS}"]}, "hosts": "10.0.0.5 git.corp.test\n"},
        {"git.corp.test": "10.96.0.1", "a.corp.test": "SERVFAIL"},
    ),
}
if ENGINE == "dnsmasq":  # it cannot encrypt, so a correct value is refused too
    CASES["dnsmasq"] = ({"upstreamNameservers": [f"tls://{TLS}#dns.test"]}, CLOSED)
    CASES["dnsmasq, stub domain"] = ({"stubDomains": {"corp.test": [f"tls://{TLS}#dns.test"]}}, {"a.corp.test": "SERVFAIL", "www.example.com": RESOLV})


class Capture:
    """The packets to port 53 with a name, by their destination address. The kernel keeps every packet of the network namespace until seen()."""

    def __init__(self):
        self.packets = []
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(3))
        self.socket.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 24)
        self.socket.bind(("lo", 0))

    def read(self):
        with contextlib.suppress(BlockingIOError):
            while True:
                packet, address = self.socket.recvfrom(65536, socket.MSG_DONTWAIT)
                if address[2] != socket.PACKET_OUTGOING or packet[0] >> 4 != 4:
                    continue
                at = (packet[0] & 15) * 4
                if packet[9] in (6, 17) and struct.unpack_from("!H", packet, at + 2)[0] == 53:
                    self.packets.append((socket.inet_ntoa(packet[16:20]), packet.lower()))

    def seen(self, name):
        """Where packets with the name went. TCP handshakes have no name, and count for every name."""
        self.read()
        lost = struct.unpack("=II", self.socket.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8))[1]
        assert lost == 0, f"{lost} packets did not fit into the buffer"
        wire = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
        return {to for to, packet in self.packets if wire in packet or packet[9] == 6}


def run_case(keys, expected):
    kubedns = Server(constant("10.96.0.1"))
    servers = [Server(constant(address), address, 53) for address in (RESOLV, OTHER, TLS)]
    world, capture = World(), Capture()
    try:
        world.resolv(f"nameserver {RESOLV}\n")
        world.write(**{key: value for key, value in keys.items() if value is not None})
        for key in [key for key, value in keys.items() if value is None]:
            os.mkdir(os.path.join(world.conf, "..data", key))
        world.start(args=[*ARGS, f"--server=/cluster.local/127.0.0.1#{kubedns.port}"])
        for name, answer in expected.items():
            assert world.ask(name, timeout=6) == answer, (name, world.log())
            if answer in (RESOLV, OTHER):  # also shows that the capture works
                wait_for(lambda: capture.seen(name) == {answer}, what=lambda: f"{name}: {capture.seen(name)}")
            else:
                assert not capture.seen(name), (name, capture.seen(name))
        closed = "SERVFAIL" in expected.values()
        refused = world.config()["refused"]
        assert [r["closed"] for r in refused] == [closed], refused
        assert ("get SERVFAIL until it " in world.log()) == closed, world.log()
        status, lines, _ = world.check(args=[*ARGS, f"--server=/cluster.local/127.0.0.1#{kubedns.port}"])
        assert status == 2 and any("SERVFAIL" in line for line in lines) == closed, lines
    finally:
        world.close()
        capture.socket.close()
        for server in (kubedns, *servers):
            server.close()


def run_changes():
    """A running nanny: an earlier good value stays in force, a deleted or empty one is none, and a correct value ends the state."""
    servers = [Server(constant(address), address, 53) for address in (RESOLV, OTHER)]
    world = World()
    mistake = [f"tls://{TLS}"]
    try:
        world.resolv(f"nameserver {RESOLV}\n")
        world.write(upstreamNameservers=[OTHER])
        world.start()
        world.write(upstreamNameservers=mistake)
        world.wait_config(lambda c: c["refused"] and not c["refused"][0]["closed"])
        assert world.ask("a.test") == OTHER
        for empty in ({}, {"upstreamNameservers": "[]"}):
            world.write(**empty)
            wait_for(lambda: world.ask("b.test") == RESOLV, what=world.log)
            world.write(upstreamNameservers=mistake)
            wait_for(lambda: world.ask("c.test") == "SERVFAIL", what=world.log)
            world.wait_config(lambda c: c["refused"] and c["refused"][0]["closed"] and c["confirmed"] and c["upstreams"]["servers"] == [])
        world.write(upstreamNameservers=[OTHER])
        wait_for(lambda: world.ask("d.test") == OTHER, what=world.log)
        assert world.config()["refused"] == []
        assert "the sandbox does not allow it" not in world.log()
    finally:
        world.close()
        for server in servers:
            server.close()


def inside(call, *args):
    """Calls a function in a network namespace of its own, because servers of resolv.conf use port 53. Programs that it starts are inside, too."""
    with Namespace() as space:
        space.do(lambda: call(*args))


@pytest.mark.parametrize("case", list(CASES))
def test_a_refused_tls_key_sends_nothing_in_plain_text(case):
    keys, expected = CASES[case]
    inside(run_case, keys, expected)


def test_only_a_value_with_servers_counts_as_an_earlier_good_value():
    inside(run_changes)
