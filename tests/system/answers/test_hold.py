"""--hold-ms: a query for a name that is about to exist waits for the event that creates the name."""

import json
import os
import socket
import threading
import time

import dns.message
import dns.rcode
import pytest
from dnsnet import WEB, WEB_IP, Tcp, Upstream, query, udp, world
from objects import endpoint_slice, service

MEMBER = "db-0.db.default.svc.cluster.local"
HOLD_MS = 1500


def put_member(tmp_path, ready):
    made = endpoint_slice("db", ["10.3.0.1"], hostnames=["db-0"])
    made["endpoints"][0]["conditions"] = {"ready": ready}
    path = tmp_path / "objects" / "db.json"
    path.with_suffix(".new").write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": [service("db", "None"), made]}))
    os.rename(path.with_suffix(".new"), path)


@pytest.fixture
def kubedns(tmp_path):
    (tmp_path / "objects").mkdir()
    put_member(tmp_path, False)
    with world(tmp_path, f"--hold-ms={HOLD_MS}", "--threads=2") as k:
        k.wait_ready()
        yield k


def held(k, result):
    return k.metric("kubedns_dns_held_total", result=result)


def ask_udp(k, got, name=MEMBER):
    begun = time.monotonic()
    reply = udp(k, query(name), timeout=10)
    got.append((reply, time.monotonic() - begun))


def ask_tcp(k, got):
    begun = time.monotonic()
    with Tcp(k, timeout=10) as tcp:
        got.append((tcp.ask(query(MEMBER)), time.monotonic() - begun))


def test_a_held_query_is_answered_by_the_event_over_udp_and_tcp(kubedns, tmp_path):
    got = []
    threads = [threading.Thread(target=how, args=(kubedns, got)) for how in (ask_udp, ask_tcp, ask_udp)]
    for t in threads:
        t.start()
    kubedns.wait(lambda: kubedns.metric("kubedns_dns_held") == 3)
    assert [str(r) for r in udp(kubedns, query(WEB)).answer[0]] == [WEB_IP], "other queries are answered meanwhile"
    put_member(tmp_path, True)
    for t in threads:
        t.join()
    for reply, took in got:
        assert [str(r) for r in reply.answer[0]] == ["10.3.0.1"] and took < HOLD_MS / 1000
    assert held(kubedns, "came") == 3 and held(kubedns, "expired") == 0 and kubedns.metric("kubedns_dns_held") == 0


def test_a_half_closed_client_gets_what_the_name_has_become_an_alias_of(tmp_path):
    """The waiting query keeps the connection open, and so does the query to another server. Here the second begins before the first ends."""
    (tmp_path / "objects").mkdir()
    put_member(tmp_path, False)
    with Upstream() as up, world(tmp_path, f"--hold-ms={HOLD_MS}", f"--nameservers={up.address}") as k:
        k.wait_ready()
        with Tcp(k, timeout=10) as tcp:
            tcp.send(query("db.default.svc.cluster.local"))
            tcp.socket.shutdown(socket.SHUT_WR)
            k.wait(lambda: held(k, "came") + k.metric("kubedns_dns_held") == 1)
            path = tmp_path / "objects" / "db.json"
            path.with_suffix(".new").write_text(json.dumps(service("db", "", type="ExternalName", externalName="www.example.com")))
            os.rename(path.with_suffix(".new"), path)
            reply = tcp.read()
        assert reply is not None and reply.rcode() == dns.rcode.NOERROR and "192.0.2.1" in str(reply.answer[-1]), reply
        k.wait(lambda: held(k, "came") == 1)


def test_a_name_that_does_not_appear_gets_nxdomain_after_hold_ms(kubedns):
    got = []
    ask_udp(kubedns, got)
    ask_tcp(kubedns, got)
    for reply, took in got:
        assert reply.rcode() == dns.rcode.NXDOMAIN and reply.authority[0].ttl == 0 and took >= HOLD_MS / 1000 - 0.01
    kubedns.wait(lambda: held(kubedns, "expired") == 2)


def test_a_change_of_something_else_wakes_nobody_for_good(kubedns, tmp_path):
    got = []
    thread = threading.Thread(target=ask_udp, args=(kubedns, got))
    thread.start()
    kubedns.wait(lambda: kubedns.metric("kubedns_dns_held") == 1)
    (tmp_path / "objects" / "other.json").write_text(json.dumps(service("other", "10.96.9.9")))
    kubedns.wait(lambda: udp(kubedns, query("other.default.svc.cluster.local")).answer)
    thread.join()
    assert got[0][0].rcode() == dns.rcode.NXDOMAIN and got[0][1] >= HOLD_MS / 1000 - 0.01


def test_a_client_above_its_share_of_waiting_queries_is_answered_immediately(kubedns):
    """
    Up to 512 queries of all workers may wait, and at most an eighth of these may come from one address. The kernel spreads these packets
    over both workers.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        s.settimeout(5)
        s.connect((kubedns.host, kubedns.port))
        begun = time.monotonic()
        for i in range(200):
            s.send(query(MEMBER, id=i).to_wire())
        replies = [(dns.message.from_wire(s.recv(4096)), time.monotonic() - begun) for _ in range(200)]
    assert all(r.rcode() == dns.rcode.NXDOMAIN for r, _ in replies) and len({r.id for r, _ in replies}) == 200
    # The kernel decides which worker gets a packet. Each of the two workers has 256 places. One client gets at most 32 of these.
    assert held(kubedns, "refused") == 200 - 64 and held(kubedns, "expired") == 64


def test_off_nothing_waits(tmp_path):
    (tmp_path / "objects").mkdir()
    put_member(tmp_path, False)
    with world(tmp_path) as k:
        k.wait_ready()
        reply = udp(k, query(MEMBER))
        assert reply.rcode() == dns.rcode.NXDOMAIN and reply.authority[0].ttl == 0
        assert held(k, "came") + held(k, "expired") + held(k, "refused") == 0


def test_who_waits_when_it_ends_is_answered(kubedns):
    got = []
    thread = threading.Thread(target=ask_udp, args=(kubedns, got))
    thread.start()
    kubedns.wait(lambda: kubedns.metric("kubedns_dns_held") == 1)
    kubedns.process.terminate()
    kubedns.process.terminate()
    thread.join()
    assert got[0][0] is not None
