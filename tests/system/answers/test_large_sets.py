"""Headless Services with many addresses over UDP, and load balancing between few addresses. Sends 10,000 queries to the real program."""

import collections
import json
import socket

import dns.flags
import dns.message
from dnsnet import MANY, MANY_COUNT, Tcp, query, udp, world
from objects import endpoint_slice, service

FEW = "few.default.svc.cluster.local"
ANSWERS = 10000


def wire_addresses(wire, name):
    """The addresses of the A records in a reply. The owner of each record is a compression pointer to the question."""
    at = 12 + len(name) + 2 + 4
    return [wire[at + 16 * i + 12 : at + 16 * i + 16] for i in range(int.from_bytes(wire[6:8], "big"))]


def ask_in_turns(k, name, count):
    """Queries A and AAAA alternately from one socket, as a resolver library does. Yields the replies to the A queries."""
    wires = [query(name, t, use_edns=0).to_wire() for t in ("A", "AAAA")]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.settimeout(5)
        s.connect((k.host, k.port))
        for _ in range(count):
            s.send(wires[0])
            yield s.recv(4096)
            s.send(wires[1])
            s.recv(4096)


def test_each_address_is_first_equally_often_for_a_client_that_asks_for_aaaa_too(tmp_path):
    """A bug: A and AAAA queries used the same counter, so A queries got only every second position. Two of four addresses were never first."""
    world_objects = tmp_path / "objects"
    world_objects.mkdir()
    (world_objects / "few.json").write_text(json.dumps(service("few", "None")))
    (world_objects / "few-slice.json").write_text(json.dumps(endpoint_slice("few", [f"10.9.0.{i}" for i in range(4)])))
    with world(tmp_path, "--threads=1") as k:
        k.wait_ready()
        first = collections.Counter(wire_addresses(wire, FEW)[0] for wire in ask_in_turns(k, FEW, ANSWERS))
    expected = ANSWERS / 4
    chi_squared = sum((first[bytes([10, 9, 0, i])] - expected) ** 2 / expected for i in range(4))
    assert chi_squared < 27.9, f"chi squared is {chi_squared:.1f}; only one of 250,000 fair samples is above the limit: {first}"


def test_over_udp_it_is_cut_with_tc_and_over_tcp_it_is_whole(tmp_path):
    with world(tmp_path) as k:
        k.wait_ready()
        assert udp(k, query(MANY)).flags & dns.flags.TC
        with Tcp(k) as tcp:
            assert len(tcp.ask(query(MANY)).answer[0]) == MANY_COUNT
