"""kubedns forwards external names to upstream servers that are good, slow, dead or broken, or for which an attacker sends forged replies."""

import json
import os
import select
import socket
import time

import dns.edns
import dns.flags
import dns.message
import dns.rcode
import dns.rdatatype
import pytest
from bulk_asking import question
from dnsnet import EXTERNAL, EXTERNAL_TARGET, WEB, WEB_IP, Tcp, Upstream, answered, query, silent, udp, world
from hurry import Clock
from waiting import free_port


TIMEOUT_S = 4.0


def addresses(reply):
    return [rr.address for rrset in reply.answer for rr in rrset if rr.rdtype == dns.rdatatype.A]


def up(tmp_path, *upstreams, args=(), **kw):
    texts = [u if isinstance(u, str) else u.address for u in upstreams]
    k = world(tmp_path, "--threads=1", f"--nameservers={','.join(texts)}", *args, **kw)
    k.wait_ready()
    return k


def test_only_names_outside_our_zones_are_sent_upstream(tmp_path):
    with Upstream() as u, up(tmp_path, u) as k:
        reply = udp(k, query("www.example.com"))
        assert addresses(reply) == ["192.0.2.1"] and reply.rcode() == dns.rcode.NOERROR
        assert reply.flags & dns.flags.RA and not reply.flags & dns.flags.AA and reply.edns == -1
        assert addresses(udp(k, query(WEB))) == [WEB_IP]
        assert udp(k, query("nothing.default.svc.cluster.local")).rcode() == dns.rcode.NXDOMAIN
        with Tcp(k) as tcp:
            assert addresses(tcp.ask(query("tcp.example.com"))) == ["192.0.2.1"]
        assert [str(m.question[0].name) for m, _, _ in u.asked] == ["www.example.com.", "tcp.example.com."]
        asked = u.asked[0][0]
        assert asked.flags & dns.flags.RD and asked.edns == 0 and asked.payload == 1232


def test_letter_case_edns_and_do_survive(tmp_path):
    with Upstream() as u, up(tmp_path, u) as k:
        reply = udp(k, query("wWw.ExAmPlE.cOm", use_edns=0, want_dnssec=True, payload=1400))
        assert str(reply.question[0].name) == "wWw.ExAmPlE.cOm." and reply.edns == 0
        assert u.asked[0][0].ednsflags & dns.flags.DO


def test_upstreams_rcode_and_records_are_passed_on(tmp_path):
    def behave(request, _tcp):
        reply = dns.message.make_response(request)
        reply.set_rcode(dns.rcode.NXDOMAIN)
        reply.authority.append(dns.rrset.from_text("example.com.", 60, "IN", "SOA", "ns.example.com. root.example.com. 1 2 3 4 5"))
        return reply

    with Upstream(behave) as u, up(tmp_path, u) as k:
        reply = udp(k, query("no.example.com"))
        assert reply.rcode() == dns.rcode.NXDOMAIN and reply.authority[0].rdtype == dns.rdatatype.SOA


def test_recursion_not_desired_is_refused_and_not_forwarded(tmp_path):
    with Upstream() as u, up(tmp_path, u) as k:
        assert udp(k, query("www.example.com", flags=0)).rcode() == dns.rcode.REFUSED
        assert not u.asked


def test_ids_and_source_ports_cannot_be_guessed(tmp_path):
    """RFC 5452: random IDs, and no source port serves more than 32 queries, even under load."""
    with Upstream() as u, up(tmp_path, u, env=Clock(tmp_path).env) as k:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
            s.connect((k.host, k.port))
            s.settimeout(60)
            for i in range(1000):  # the load never pauses, because kubedns closes an idle socket, and the next socket has another port anyway
                s.send(query(f"n{i}.example.com", id=i).to_wire())
                if i >= 20:
                    s.recv(512)
            for _ in range(20):
                s.recv(512)
        ports, ids = {}, [m.id for m, _, _ in u.asked]
        for _, (_, port), _ in u.asked:
            ports[port] = ports.get(port, 0) + 1
        # The kernel chooses random ports. Of 32 sockets, two get the same port in one of fifty runs, and four in one of several thousand.
        assert len(u.asked) == 1000 and max(ports.values()) <= 64
        assert sum(n > 32 for n in ports.values()) <= 1 and len(ports) >= 31 and len(set(ids)) > 950
        steps = [abs(a - b) for a, b in zip(ids, ids[1:])]
        assert sum(step < 256 for step in steps) < 40  # 8 of 1,000 are expected


def test_a_truncated_reply_is_asked_for_again_over_tcp(tmp_path):
    def behave(request, tcp):
        if tcp:
            return answered(request, *(f"192.0.2.{i}" for i in range(1, 200)))
        reply = dns.message.make_response(request)
        reply.flags |= dns.flags.TC
        return reply

    with Upstream(behave) as u, up(tmp_path, u) as k:
        with Tcp(k) as tcp:
            assert len(addresses(tcp.ask(query("big.example.com")))) == 199
        assert [tcp for _, _, tcp in u.asked] == [False, True]
        reply = udp(k, query("big.example.com", use_edns=0, payload=1232))
        assert reply.flags & dns.flags.TC and 0 < len(addresses(reply)) < 80
        assert len(reply.to_wire()) <= 1232


def test_a_dead_server_is_skipped_and_then_tried_last(tmp_path):
    """The first query waits for it for less than 2 s. During the others, the clock stands still."""
    clock = Clock(tmp_path)
    with Upstream(silent) as dead, Upstream() as u, up(tmp_path, dead, u, env=clock.env) as k:
        _, reply = clock.ask(k, query("first.example.com"), 2)
        assert addresses(reply) == ["192.0.2.1"]
        for i in range(20):
            assert addresses(udp(k, query(f"n{i}.example.com"))) == ["192.0.2.1"]
        assert len(dead.asked) == 1
        assert k.metric("kubedns_forward_server_failures_total") >= 1


def test_a_server_whose_port_is_closed_costs_nothing(tmp_path):
    """kubedns's clock stands still, so it waits for nothing."""
    with Upstream() as u, up(tmp_path, f"127.0.0.1:{free_port()}", u, env=Clock(tmp_path).env) as k:
        for i in range(5):
            assert addresses(udp(k, query(f"n{i}.example.com"))) == ["192.0.2.1"]


def test_a_query_goes_to_the_next_server_if_a_server_refuses(tmp_path):
    def refuse(request, _tcp):
        reply = dns.message.make_response(request)
        reply.set_rcode(dns.rcode.REFUSED)
        return reply

    def fail(request, _tcp):
        reply = dns.message.make_response(request)
        reply.set_rcode(dns.rcode.SERVFAIL)
        return reply

    still = Clock(tmp_path).env
    with Upstream(refuse) as a, Upstream(fail) as b, Upstream() as c, up(tmp_path, a, b, c, env=still) as k:
        assert addresses(udp(k, query("www.example.com"))) == ["192.0.2.1"]
    with Upstream(refuse) as a, Upstream(fail) as b, up(tmp_path, a, b, env=still) as k:
        assert udp(k, query("www.example.com")).rcode() == dns.rcode.SERVFAIL


def refused(request, _tcp):
    reply = dns.message.make_response(request)
    reply.set_rcode(dns.rcode.REFUSED)
    return reply


@pytest.mark.parametrize("count", [1, 2, 3])
def test_refused_is_passed_on_when_every_server_refuses_and_says_who(tmp_path, count):
    servers = [Upstream(refused) for _ in range(count)]
    with up(tmp_path, *servers) as k, Tcp(k) as tcp:
        for ask in lambda m: udp(k, m), tcp.ask:
            reply = ask(query("www.example.com", payload=1232))
            assert reply.rcode() == dns.rcode.REFUSED and reply.answer == []
            texts = [o.text for o in reply.options if o.otype == dns.edns.OptionType.EDE]
            assert len(texts) == 1 and texts[0].startswith("refused by "), "there must be one extended error"
            for server in servers[:2]:
                assert server.address in texts[0]
        assert udp(k, query("www.example.com", use_edns=False)).rcode() == dns.rcode.REFUSED


def test_one_server_that_refuses_and_one_that_fails_are_servfail(tmp_path):
    def fail(request, _tcp):
        reply = dns.message.make_response(request)
        reply.set_rcode(dns.rcode.SERVFAIL)
        return reply

    with Upstream(refused) as a, Upstream(fail) as b, up(tmp_path, a, b) as k:
        assert udp(k, query("www.example.com")).rcode() == dns.rcode.SERVFAIL


@pytest.mark.parametrize("servers", [1, 3])
def test_when_all_servers_are_silent_the_client_gets_servfail_within_4_s(tmp_path, servers):
    dead = [Upstream(silent) for _ in range(servers)]
    clock = Clock(tmp_path)
    with up(tmp_path, *dead, env=clock.env) as k, Tcp(k) as tcp, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.connect((k.host, k.port))
        for i in range(2):
            s.send(query(f"n{i}.example.com").to_wire())
        tcp.send(query("n2.example.com"))
        k.wait(lambda: k.metric("kubedns_forward_in_flight") == 3)
        assert addresses(udp(k, query(WEB))) == [WEB_IP]  # other queries do not wait for this
        clock.run_until(lambda: k.metric("kubedns_forward_in_flight") == 0, TIMEOUT_S)
        for wire in (s.recv(512), s.recv(512), tcp.read_wire()):
            assert dns.message.from_wire(wire).rcode() == dns.rcode.SERVFAIL
        assert all(d.asked for d in dead)
        assert k.metric("kubedns_forward_failed_total") == 3
        assert k.metric("skydns_skydns_dns_error_count_total", system="recursive", cause="servfail") == 3
        assert k.metric("kubedns_forward_in_flight") == 0
    for d in dead:
        d.close()


def test_when_nobody_listens_the_client_gets_servfail(tmp_path):
    clock = Clock(tmp_path)
    with up(tmp_path, f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}", env=clock.env) as k:
        assert clock.ask(k, query("www.example.com"), TIMEOUT_S)[1].rcode() == dns.rcode.SERVFAIL


def test_a_lost_packet_is_sent_again(tmp_path):
    seen = set()

    def deaf_once(request, _tcp):
        name = request.question[0].name
        if name in seen:
            return answered(request, "192.0.2.1")
        seen.add(name)
        return None

    clock = Clock(tmp_path)
    with Upstream(deaf_once) as u, up(tmp_path, u, env=clock.env) as k:
        assert addresses(clock.ask(k, query("www.example.com"), 2)[1]) == ["192.0.2.1"]


def test_forged_replies_are_not_believed(tmp_path):
    """Replies with a wrong ID, a wrong question or a wrong sender arrive before the true reply. Only the true reply counts."""
    other = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)

    def behave(request, tcp):
        true = answered(request, "192.0.2.1")
        wrong_id = answered(request, "192.0.2.66")
        wrong_id.id ^= 1
        wrong_question = answered(query("other.example.com", id=request.id), "192.0.2.67")
        forged = answered(request, "192.0.2.68").to_wire()
        other.sendto(forged, u.asked[-1][1])
        time.sleep(0.05)
        return [wrong_id, wrong_question, true]

    with Upstream(behave) as u, up(tmp_path, u) as k:
        for i in range(5):
            assert addresses(udp(k, query(f"n{i}.example.com"))) == ["192.0.2.1"]
    other.close()


def test_garbage_from_upstream_hurts_nobody(tmp_path):
    """Replies have garbage after the header and the question. The client still gets a well-formed reply."""

    def behave(request, _tcp):
        wire = bytearray(answered(request, "192.0.2.1", "192.0.2.2").to_wire())
        kind = int(str(request.question[0].name).partition(".")[0])
        if kind < 40:
            return bytes(wire[: len(wire) - kind])
        wire[-1 - (kind % 40)] ^= 0xFF
        return bytes(wire)

    with Upstream(behave) as u, up(tmp_path, u) as k:
        for kind in range(80):
            reply = udp(k, query(f"{kind}.example.com"), timeout=5)
            assert reply is not None and reply.question[0].name.to_text() == f"{kind}.example.com.", kind
        assert addresses(udp(k, query(WEB))) == [WEB_IP]


def test_an_external_name_is_followed_through_the_forwarder(tmp_path):
    with Upstream() as u, up(tmp_path, u) as k:
        for ask in (udp, lambda k, m: Tcp(k).ask(m)):
            reply = ask(k, query(EXTERNAL))
            assert [rr.target.to_text() for rrset in reply.answer for rr in rrset if rr.rdtype == dns.rdatatype.CNAME] == [EXTERNAL_TARGET + "."]
            assert addresses(reply) == ["192.0.2.1"] and reply.rcode() == dns.rcode.NOERROR
        assert {str(m.question[0].name) for m, _, _ in u.asked} == {EXTERNAL_TARGET + "."}


def test_an_external_name_has_the_rcode_and_records_of_its_target_for_every_type(tmp_path):
    """RFC 1034 4.3.2 step 3a and RFC 6604. Resolvers can cache the negative answer because it contains the SOA (RFC 2308)."""
    def behave(request, _tcp):
        reply = dns.message.make_response(request)
        if request.question[0].rdtype == dns.rdatatype.TXT:
            reply.answer.append(dns.rrset.from_text(f"{EXTERNAL_TARGET}.", 60, "IN", "TXT", '"there"'))
            return reply
        if request.question[0].rdtype == dns.rdatatype.MX:
            reply.set_rcode(dns.rcode.NXDOMAIN)
        reply.authority.append(dns.rrset.from_text("example.net.", 60, "IN", "SOA", "ns.example.net. root.example.net. 1 2 3 4 5"))
        return reply

    alias = f"{EXTERNAL}. 30 IN CNAME {EXTERNAL_TARGET}."
    with Upstream(behave) as u, up(tmp_path, u) as k:
        for type_, rcode in (("MX", "NXDOMAIN"), ("HTTPS", "NOERROR"), ("AAAA", "NOERROR")):
            reply = udp(k, query(EXTERNAL, type_))
            assert dns.rcode.to_text(reply.rcode()) == rcode and [r.to_text() for r in reply.answer] == [alias], reply
            assert reply.authority[0].to_text() == "example.net. 5 IN SOA ns.example.net. root.example.net. 1 2 3 4 5", reply
        reply = udp(k, query(EXTERNAL, "TXT"))
        assert [r.to_text() for r in reply.answer] == [alias, f'{EXTERNAL_TARGET}. 60 IN TXT "there"'] and not reply.authority, reply
        asked = len(u.asked)
        assert [r.to_text() for r in udp(k, query(EXTERNAL, "CNAME")).answer] == [alias] and len(u.asked) == asked


def floods(kubedns, *clients):
    """
    Each client is (source, count, label) and sends `count` queries. A client starts when all queries of the previous client are in flight
    or answered. Returns the rcodes that each client received.

    The clock of kubedns stands still. Otherwise queries would end before the next client has started.
    """

    def taken():
        metrics = kubedns.metrics()
        answered = sum(n for series, n in metrics.items() if series.startswith("kubedns_dns_responses_total{"))
        return answered, answered + metrics["kubedns_forward_in_flight"]

    wires = [[question(f"{label}{i}.example.com", "A", i, recursion=True) for i in range(count)] for _, count, label in clients]
    sockets, rcodes = [], [{} for _ in clients]
    answered_before, expected = taken()
    try:
        for (source, _, _), messages in zip(clients, wires):
            sockets.append(s := socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
            s.bind((source, 0))
            s.connect((kubedns.host, kubedns.port))
            for wire in messages:
                s.send(wire)
            expected += len(messages)
            kubedns.wait(lambda wanted=expected: taken()[1] >= wanted)
        for _ in range(int(taken()[0] - answered_before)):
            ready = select.select(sockets, [], [], 10)[0]
            assert ready, "kubedns counted a reply that did not arrive"
            rcode, got = ready[0].recv(512)[3] & 15, rcodes[sockets.index(ready[0])]
            got[rcode] = got.get(rcode, 0) + 1
        return rcodes
    finally:
        for s in sockets:
            s.close()


def flood(kubedns, source, count, label):
    return floods(kubedns, (source, count, label))[0]


def test_one_client_cannot_take_all_places_and_five_leave_room_for_others(tmp_path):
    """A client may use half of the free places, and at most 512."""
    clock = Clock(tmp_path)
    with Upstream(silent) as u, up(tmp_path, u, env=clock.env) as k:
        one, other, *more = floods(k, ("127.0.0.3", 700, "a"), ("127.0.0.4", 100, "b"), *((f"127.0.0.{n}", 500, f"c{n}") for n in (5, 6, 7, 8)))
        assert one == {dns.rcode.REFUSED: 700 - 512}
        assert other == {}, "another client has its own places"
        refused = [got.get(dns.rcode.REFUSED, 0) for got in more]
        assert refused == sorted(refused) and refused[0] > 0, "a later client gets fewer places"
        assert k.metric("kubedns_dns_dropped_total", reason="forward_client") == 700 - 512 + sum(refused)
        accepted = 512 + 100 + 4 * 500 - sum(refused)
        assert accepted < 2048 - 64
        assert flood(k, "127.0.0.9", 20, "d") == {}
        assert k.metric("kubedns_dns_dropped_total", reason="forward_total") == 0
        assert addresses(udp(k, query(WEB))) == [WEB_IP]
        clock.run_until(lambda: k.metric("kubedns_forward_in_flight") == 0, TIMEOUT_S)
        assert k.metric("kubedns_forward_failed_total") == accepted + 20
        u.behave = lambda request, tcp: answered(request, "192.0.2.1")
        assert addresses(udp(k, query("again.example.com"), timeout=60)) == ["192.0.2.1"]  # the upstream server first handles the old queries


def test_a_record_whose_data_cannot_be_read_is_passed_on_as_it_is(tmp_path):
    svcb = bytes.fromhex("0001 00 0001 0005 61")  # an alpn of 5 bytes, of which 4 are missing
    record = bytes.fromhex("c00c 0040 0001 0000003c") + len(svcb).to_bytes(2, "big") + svcb

    def behave(request, _tcp):
        question = dns.message.make_query(request.question[0].name, request.question[0].rdtype).to_wire()[12:]
        return request.id.to_bytes(2, "big") + bytes.fromhex("8180 0001 0001 0000 0000") + question + record

    with Upstream(behave) as u, up(tmp_path, u) as k, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.connect((k.host, k.port))
        s.settimeout(5)
        s.send(query("svc.example.com", "TYPE64").to_wire())
        wire = s.recv(4096)
        assert wire[3] & 15 == dns.rcode.NOERROR and wire.endswith(svcb), wire


def test_upstreams_change_under_load_and_no_query_is_hurt(tmp_path):
    """
    The ConfigMap's upstreams change 50 times, while clients look up 500 new names a second. Each configuration stays for 40 names. Either
    server may answer a query.
    """
    config = tmp_path / "config"
    config.mkdir()

    def configure(u):
        (tmp_path / "next").write_text(json.dumps([u.address]))
        os.rename(tmp_path / "next", config / "upstreamNameservers")

    def late(request, _tcp):
        time.sleep(0.001)
        return answered(request, "192.0.2.1")

    with Upstream(late) as a, Upstream(late) as b:
        configure(a)
        with world(tmp_path, "--threads=2", f"--config-dir={config}") as k, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            k.wait_ready()
            s.connect((k.host, k.port))
            s.settimeout(60)
            rcodes, sent = [], 0

            def ask():
                nonlocal sent
                s.send(question(f"n{sent}.example.com", "A", sent & 0xFFFF, recursion=True))
                sent += 1
                time.sleep(0.002)
                # On a busy machine, the servers may be slower than this client. Then it waits for them.
                while sent - len(rcodes) > 50 or select.select([s], [], [], 0)[0]:
                    rcodes.append(s.recv(512)[3] & 15)

            for turn in range(50):
                configure(now := (b, a)[turn % 2])
                k.wait(lambda now=now: ask() or now.address in k.log().splitlines()[-1])
                for _ in range(40):
                    ask()
            while len(rcodes) < sent:
                rcodes.append(s.recv(512)[3] & 15)
            assert rcodes == [dns.rcode.NOERROR] * sent and sent >= 2000
            assert len(a.asked) > 400 and len(b.asked) > 400
            # The main loop logs a change before it tells the workers. When it answers this request, the workers know the change.
            assert k.http("/healthz")[0] == 200
            before = len(b.asked)
            assert all(addresses(udp(k, query(f"last{i}.example.com"))) for i in range(20))
            assert len(b.asked) == before


def test_at_the_end_who_still_waits_gets_servfail(tmp_path):
    with Upstream(silent) as u, up(tmp_path, u, args=("--drain=200ms",)) as k, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.connect((k.host, k.port))
        s.settimeout(5)
        with Tcp(k) as tcp:
            s.send(query("www.example.com").to_wire())
            tcp.send(query("www.example.com"))
            k.wait(lambda: k.metric("kubedns_forward_in_flight") == 2)
            k.process.terminate()
            assert dns.message.from_wire(s.recv(512)).rcode() == dns.rcode.SERVFAIL
            assert tcp.read().rcode() == dns.rcode.SERVFAIL
        assert k.process.wait(5) == 0
        k.process.poll = lambda: None  # the test has ended the process already
        k.stop = lambda: None
