"""In the front topology, kubedns forwards external names to dnsmasq (--resolver). Also everything that may be wrong with this dnsmasq."""

import json
import os
import signal
import select
import socket
import struct
import subprocess
import threading
import time

import dns.edns
import dns.flags
import dns.message
import dns.query
import dns.rcode
import dns.rdatatype
import dns.rrset
import pytest
from bulk_asking import parse, question
from dnsnet import EXTERNAL, EXTERNAL_TARGET, WEB, WEB_IP, Tcp, Upstream, answered, query, silent, udp, world

from hurry import Clock, hurry
from netns import Namespace, run
from test_forward import addresses, floods
from waiting import free_port

BIG = 150


def front(tmp_path, resolver, *args, **kw):
    """Starts kubedns with --resolver. `resolver` is an address, an Upstream, or a Dnsmasq. A Dnsmasq forwards to the same upstream server as kubedns."""
    address = resolver if isinstance(resolver, str) else resolver.address
    k = world(tmp_path, "--threads=1", f"--resolver={address}", f"--nameservers={getattr(resolver, 'upstream', address)}", *args, **kw)
    k.wait_ready()
    return k


def big_reply(request):
    """A reply with BIG addresses, as bytes. dnspython needs 30 ms for such a reply, and the test with 150 of them has a deadline."""
    question = request.question[0]
    header = struct.pack("!6H", request.id, 0x8180, 1, BIG, 0, 0)  # QR, RD and RA
    asked = question.name.to_wire() + struct.pack("!2H", question.rdtype, question.rdclass)
    return header + asked + b"".join(struct.pack("!3HLH4B", 0xC00C, question.rdtype, question.rdclass, 60, 4, 192, 0, 2, i) for i in range(1, BIG + 1))


def by_name(request, tcp):
    """The upstream server to which dnsmasq forwards. Names that begin with "big" have more addresses than fit into a UDP reply."""
    if str(request.question[0].name).startswith("big"):
        if tcp:
            return big_reply(request)
        reply = dns.message.make_response(request)
        reply.flags |= dns.flags.TC
        return reply
    return answered(request, "192.0.2.1")


def no_such_name(request, _tcp):
    reply = dns.message.make_response(request, recursion_available=True)
    reply.set_rcode(dns.rcode.NXDOMAIN)
    reply.authority.append(dns.rrset.from_text(".", 60, "IN", "SOA", "ns. host. 1 2 3 4 60"))
    return reply


class Dnsmasq:
    def __init__(self, upstream, port=None, args=("--cache-size=1000", "--dns-forward-max=6000"), env=None):
        self.port = port or free_port()
        self.host = "127.0.0.1"
        self.address, self.upstream = f"127.0.0.1:{self.port}", f"127.0.0.1:{upstream.port}"
        self.process = subprocess.Popen(["dnsmasq", "-k", "-C", "/dev/null", "--pid-file=", "--no-resolv", "--no-hosts", "--bind-interfaces",
            "--listen-address=127.0.0.1", f"--port={self.port}", f"--server=127.0.0.1#{upstream.port}", "--log-facility=-", "--user=root",
            *args], env={**os.environ, **(env or {})}, stderr=subprocess.DEVNULL)  # fmt: skip

    def __enter__(self):
        deadline = time.monotonic() + 60
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
                return self
            except OSError:
                assert time.monotonic() < deadline and self.process.poll() is None
                time.sleep(0.01)

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()


@pytest.fixture(scope="module")
def classic(tmp_path_factory):
    """kubedns's clock is slow, so that a stand-in on a busy machine is not too late."""
    with Upstream(by_name) as u, Dnsmasq(u) as d, front(tmp_path_factory.mktemp("relay"), d, env=hurry(0.05)) as k:
        yield k, u


def test_other_names_come_from_dnsmasqs_cache_and_cluster_names_do_not(classic):
    k, u = classic
    for _ in range(3):
        reply = udp(k, query("www.example.com"))
        assert addresses(reply) == ["192.0.2.1"] and reply.flags & dns.flags.RA and reply.edns == -1
        with Tcp(k) as tcp:
            assert addresses(tcp.ask(query("www.example.com"))) == ["192.0.2.1"]
        assert addresses(udp(k, query(WEB))) == [WEB_IP]
    assert [str(m.question[0].name) for m, _, _ in u.asked] == ["www.example.com."]


def test_a_server_behind_dnsmasq_cannot_forge_an_address_of_a_cluster_name(tmp_path):
    """The reply has a CNAME to a cluster name, and an address of this name. dnsmasq caches both. kubedns sends neither address to clients."""

    def forged(request, _tcp):
        reply = answered(request)
        name = request.question[0].name
        reply.answer += [dns.rrset.from_text(name, 60, "IN", "CNAME", f"{WEB}."), dns.rrset.from_text(f"{WEB}.", 60, "IN", "A", "203.0.113.66")]
        return reply

    with Upstream(forged) as u, Dnsmasq(u) as d, front(tmp_path, d) as k:
        direct = dns.query.udp(query("www.example.com"), "127.0.0.1", port=d.port, timeout=5)
        assert addresses(direct) == ["203.0.113.66"]
        assert addresses(udp(k, query(WEB))) == [WEB_IP]
        assert "203.0.113.66" not in addresses(udp(k, query("www.example.com")))


def test_a_reply_too_long_for_udp_is_whole_over_tcp_and_cut_over_udp(classic):
    k, _ = classic
    with Tcp(k) as tcp:
        assert len(addresses(tcp.ask(query("big.example.com")))) == BIG
        assert len(addresses(tcp.ask(query("big.example.com", use_edns=0)))) == BIG
    for kw, most in (({}, 512), ({"use_edns": 0, "payload": 4096}, 1232)):
        reply = udp(k, query("big.example.com", **kw))
        assert reply.flags & dns.flags.TC and len(reply.to_wire()) <= most


def test_a_reply_longer_than_the_client_takes_is_cut_between_records(tmp_path):
    """The client's limit holds even if the resolver sends more. 80 addresses are 1,300 bytes."""
    with Upstream(lambda request, tcp: answered(request, *(f"192.0.2.{i}" for i in range(80)))) as u, front(tmp_path, u) as k:
        for kw, most in (({}, 512), ({"use_edns": 0, "payload": 800}, 800), ({"use_edns": 0, "payload": 4096}, 1232)):
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
                s.settimeout(5)
                s.sendto(query("www.example.com", **kw).to_wire(), (k.host, k.port))
                wire = s.recv(65535)
            reply = dns.message.from_wire(wire)
            assert reply.flags & dns.flags.TC and most - 16 - 11 < len(wire) <= most
            assert len(set(addresses(reply))) == len(addresses(reply)), "each record is complete, and none appears twice"
        with Tcp(k) as tcp:
            assert len(addresses(tcp.ask(query("www.example.com")))) == 80


def test_a_query_longer_than_the_resolver_would_read_is_refused(tmp_path):
    with Upstream() as u, front(tmp_path, u) as k, Tcp(k) as tcp:
        for length, rcode in ((4000, dns.rcode.NOERROR), (4200, dns.rcode.REFUSED), (65000, dns.rcode.REFUSED)):
            options = [dns.edns.GenericOption(dns.edns.OptionType.PADDING, b"\0" * length)]
            assert tcp.ask(query("www.example.com", use_edns=0, options=options).to_wire(max_size=65535)).rcode() == rcode
        assert len(u.asked) == 1 and k.metric("kubedns_dns_dropped_total", reason="forward_size") == 2


def test_more_long_replies_than_dnsmasq_serves_on_a_connection_or_at_once(classic):
    """dnsmasq closes a connection after 100 queries and serves 20 connections at once."""
    k, _ = classic
    got = []

    def client(n):
        with Tcp(k, timeout=60) as tcp:
            tcp.send(*(query(f"big{n}-{i}.example.com", id=i) for i in range(30)))
            got.extend(tcp.read_wire() for _ in range(30))

    threads = [threading.Thread(target=client, args=(n,)) for n in range(5)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert [len(parse(wire).answer) for wire in got] == [BIG] * 150


def test_an_external_name_is_followed_through_the_relay(classic):
    k, u = classic
    for ask in (udp, lambda k, m: Tcp(k).ask(m)):
        reply = ask(k, query(EXTERNAL))
        assert reply.answer[0][0].target.to_text() == EXTERNAL_TARGET + "." and addresses(reply) == ["192.0.2.1"]


def test_do_goes_along_and_the_clients_id_port_and_payload_size_do_not(tmp_path):
    with Upstream() as u, front(tmp_path, u) as k:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
            s.connect((k.host, k.port))
            s.settimeout(5)
            for i in range(1000):
                s.send(query(f"n{i}.example.com", id=7, use_edns=0, payload=1400, want_dnssec=True).to_wire())
                if i >= 20:
                    assert dns.message.from_wire(s.recv(512)).id == 7
            ports = {}
            for m, (_, port), _ in u.asked:  # a query that is sent again after 250 ms keeps its ID
                ports.setdefault(port, set()).add(m.id)
            assert s.getsockname()[1] not in ports
        ids = [m.id for m, _, _ in u.asked]
        # Each port sends 32 queries. The kernel may choose the number of a closed port again: once in 50 runs, and three times in millions.
        sizes = sorted(map(len, ports.values()))
        assert sizes[-3] <= 32 and sizes[-1] <= 64 and len(set(ids)) > 900
        assert all(m.edns == 0 and m.payload == 1232 and m.ednsflags & dns.flags.DO for m, _, _ in u.asked)


def subnet_of(request):
    return [o.to_text() for o in request.options if o.otype == dns.edns.OptionType.ECS]


def by_subnet(request, _tcp):
    """A server whose answer depends on the client's subnet, as in content delivery networks, and on DO and CD."""
    return answered(request, "6.6.6.6" if subnet_of(request) else "192.0.2.1", ttl=300)


OPTIONS = [dns.edns.ECSOption("203.0.113.0", 24), dns.edns.GenericOption(dns.edns.OptionType.COOKIE, b"12345678"),
           dns.edns.GenericOption(dns.edns.OptionType.NSID, b""), dns.edns.GenericOption(dns.edns.OptionType.PADDING, b"\0" * 100),
           dns.edns.GenericOption(dns.edns.OptionType.KEEPALIVE, b""), dns.edns.GenericOption(65001, b"anything")]  # fmt: skip


@pytest.mark.parametrize("behind", ["relay", "search"])
def test_a_clients_edns_options_do_not_decide_what_others_get(tmp_path, behind):
    """
    kubedns does not forward the options. Otherwise dnsmasq would cache the answer for one pod's subnet, and any option could carry data
    out of the cluster.
    """
    name = {"relay": "cdn.example.net", "search": EXTERNAL}[behind]
    with Upstream(by_subnet) as u, Dnsmasq(u) as d, front(tmp_path, d, env=Clock(tmp_path).env) as k:
        for ask in (udp, lambda k, m: Tcp(k).ask(m)):
            attacker = ask(k, query(name, use_edns=0, options=OPTIONS))
            assert attacker.edns == 0 and addresses(attacker) == ["192.0.2.1"]
        assert addresses(udp(k, query(name))) == ["192.0.2.1"]
        assert len(u.asked) == 1 and all(m.edns == 0 and m.payload == 1232 and not m.options for m, _, _ in u.asked)


def test_identical_queries_in_flight_are_one_query(tmp_path):
    """While a server is slow, many clients may query the same name. There is still only one query in flight for which a reply could be forged."""
    go = threading.Event()

    def behave(request, _tcp):
        go.wait(60)
        return answered(request, "192.0.2.1")

    clients = []
    with Upstream(behave) as u, front(tmp_path, u, env=Clock(tmp_path).env) as k:
        for n in range(2, 5):
            clients.append(s := socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            s.bind((f"127.0.0.{n}", 0))
            s.connect((k.host, k.port))
            s.settimeout(5)
            for i in range(100):
                s.send(query("www.example.com" if i % 2 else "WWW.Example.com", id=i).to_wire())
        k.wait(lambda: k.metric("kubedns_forward_in_flight") == 300)
        assert k.metric("kubedns_forward_joined_total") == 299
        go.set()
        for s in clients:
            replies = [dns.message.from_wire(s.recv(512)) for _ in range(100)]
            assert sorted(r.id for r in replies) == list(range(100)) and all(addresses(r) == ["192.0.2.1"] for r in replies)
            assert {str(r.question[0].name) for r in replies} == {"www.example.com.", "WWW.Example.com."}
            s.close()
        assert len({(m.id, peer) for m, peer, _ in u.asked}) == 1


def test_queries_with_other_flags_are_queries_of_their_own(tmp_path):
    go = threading.Event()

    def behave(request, _tcp):
        go.wait(10)
        return answered(request, "192.0.2.1")

    with Upstream(behave) as u, front(tmp_path, u) as k, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.connect((k.host, k.port))
        s.settimeout(5)
        for i in range(8):
            flags = dns.flags.RD | (dns.flags.CD if i & 1 else 0) | (dns.flags.AD if i & 2 else 0)
            s.send(query("www.example.com", id=i, want_dnssec=bool(i & 4), flags=flags).to_wire())
        k.wait(lambda: k.metric("kubedns_forward_in_flight") == 8)
        go.set()
        assert {dns.message.from_wire(s.recv(512)).id for _ in range(8)} == set(range(8))
        assert len({(m.flags, m.ednsflags) for m, _, _ in u.asked}) == 8 and k.metric("kubedns_forward_joined_total") == 0


def failing(request, _tcp):
    reply = dns.message.make_response(request)
    reply.set_rcode(dns.rcode.SERVFAIL)
    return reply


def stub_world(tmp_path, *args, stubs=None):
    """Flags for a ConfigMap with stub domains, which kubedns reads too."""
    config = tmp_path / "config"
    config.mkdir()
    (config / "stubDomains").write_text(json.dumps(stubs or {"corp.example": ["192.0.2.53"]}))
    return [f"--config-dir={config}", *args]


def test_a_name_that_dnsmasq_fails_is_asked_of_the_upstream_servers(tmp_path):
    """dnsmasq passes on the first SERVFAIL of any server. kubedns then queries the upstream servers, except for names in a stub domain."""
    with Upstream(failing) as bad, Upstream() as good:
        with front(tmp_path, bad, f"--nameservers={bad.address},{good.address}", *stub_world(tmp_path)) as k:
            for ask in (udp, lambda k, m: Tcp(k).ask(m)):
                assert addresses(ask(k, query("www.example.com"))) == ["192.0.2.1"]
            assert k.metric("kubedns_forward_servfail_total") == 2
            reply = udp(k, query("ns.corp.example", use_edns=0))
            assert reply.rcode() == dns.rcode.SERVFAIL and k.metric("kubedns_forward_servfail_total") == 2
        assert {str(m.question[0].name) for m, _, _ in good.asked} == {"www.example.com."}


@pytest.mark.parametrize("args", [[], ["--reverse-cidrs=10.0.0.0/8"]], ids=["", "reverse zone"])
def test_a_stub_domain_in_a_zone_of_kubedns_is_the_longer_domain(tmp_path, args):
    """Several clusters have the same domain, and the names of one namespace or network are those of another cluster."""
    stubs = {domain: ["192.0.2.53"] for domain in ("default.svc.cluster.local", "my.cluster.local", "96.10.in-addr.arpa", "local")}
    def remote(request, _tcp):
        name, kind = request.question[0].name, request.question[0].rdtype
        reply = dns.message.make_response(request)
        data = {dns.rdatatype.A: "192.0.2.1", dns.rdatatype.SRV: f"0 0 80 {name}", dns.rdatatype.PTR: "remote.example."}[kind]
        reply.answer.append(dns.rrset.from_text(name, 60, "IN", dns.rdatatype.to_text(kind), data))
        return reply

    names = {(WEB, "A"), ("db.my.cluster.local", "A"), ("_sql._tcp.db.my.cluster.local", "SRV"), ("10.0.96.10.in-addr.arpa", "PTR")}
    with Upstream(remote) as engine, front(tmp_path, engine, *stub_world(tmp_path, *args, stubs=stubs)) as k:
        for name, kind in names:
            reply = udp(k, query(name, kind))
            assert len(reply.answer) == 1 and not reply.flags & dns.flags.AA, reply
            assert "is in a stub domain" in k.http(f"/explain?name={name}")[1]
        assert {(str(m.question[0].name).rstrip("."), dns.rdatatype.to_text(m.question[0].rdtype)) for m, _, _ in engine.asked} == names
        # Names outside these stub domains are the cluster's.
        for name in ("db.other.svc.cluster.local", "my2.cluster.local"):
            assert udp(k, query(name)).rcode() == dns.rcode.NXDOMAIN
        assert len(engine.asked) == len(names)


def unchecked_or_late(request, tcp):
    """SERVFAIL, as for an answer with a wrong signature, but without an extended error. Names that begin with "big" are silent over TCP."""
    if str(request.question[0].name).startswith("big"):
        return None if tcp else by_name(request, tcp)
    return failing(request, tcp)


@pytest.mark.parametrize("validates", ["validate", "dns64"])  # DNS64: other servers do not have its AAAA records
def test_no_answer_that_nobody_has_checked_replaces_that_of_a_resolver_that_checks_dnssec(tmp_path, validates):
    with Upstream(unchecked_or_late, validates=validates) as u, Upstream(by_name) as other, front(tmp_path, u, f"--nameservers={other.address}") as k:
        with Tcp(k) as tcp:
            tcp.send(query("big.example.com"))
            for n in range(20):
                assert udp(k, query(f"n{n}.example.com")).rcode() == dns.rcode.SERVFAIL
            assert tcp.read().rcode() == dns.rcode.SERVFAIL
        assert other.asked == [] and k.metric("kubedns_forward_servfail_total") == 0


def late_over_tcp(after):
    """A resolver that replies over TCP after this number of seconds (or never), and over UDP at once."""
    def behave(request, tcp):
        if tcp:
            time.sleep(after or 0)
        return by_name(request, tcp) if after or not tcp else None

    return behave


def test_a_resolver_that_is_silent_over_tcp_is_replaced_by_the_upstream_servers(tmp_path):
    """dnsmasq waits for one server over TCP, even if that server never answers there. Two equal queries in flight are one query."""
    with Upstream(late_over_tcp(None)) as dead, Upstream(by_name) as good:
        with front(tmp_path, dead, f"--nameservers={good.address}", *stub_world(tmp_path)) as k:
            conns = [Tcp(k), Tcp(k)]
            for conn in conns:
                conn.send(query("big.example.com"))
            assert [len(addresses(conn.read())) for conn in conns] == [BIG, BIG]
            assert k.metric("kubedns_forward_servfail_total") == 2 and k.metric("kubedns_forward_joined_total") == 2
            reply = Tcp(k).ask(query("big.corp.example", use_edns=0))
            assert reply.rcode() == dns.rcode.SERVFAIL and k.metric("kubedns_forward_servfail_total") == 2
            assert k.metric("kubedns_forward_in_flight") == 0
        assert {str(m.question[0].name) for m, _, _ in good.asked} == {"big.example.com."}


@pytest.mark.parametrize("upstreams, args", [("[]", ["--servfail-retry=off"]), ('["tls://192.0.2.53#dns.test"]', [])], ids=["off", "encrypted"])
def test_a_resolver_that_is_late_over_tcp_is_waited_for_if_nobody_else_may_be_asked(tmp_path, upstreams, args):
    world_args = stub_world(tmp_path, *args)
    (tmp_path / "config" / "upstreamNameservers").write_text(upstreams)
    with Upstream(late_over_tcp(0.7)) as slow, front(tmp_path, slow, *world_args) as k:
        assert len(addresses(Tcp(k).ask(query("big.example.com")))) == BIG
        assert k.metric("kubedns_forward_servfail_total") == 0


def test_a_resolver_that_is_late_over_tcp_is_waited_for_if_the_client_has_no_place_at_the_upstream_servers(tmp_path):
    """One client may have 512 queries at the upstream servers, which do not answer here."""

    def behave(request, tcp):
        big = str(request.question[0].name).startswith("big")
        return late_over_tcp(0.7)(request, tcp) if big else failing(request, tcp)

    clock = Clock(tmp_path)
    with Upstream(behave) as slow, Upstream(silent) as dead, front(tmp_path, slow, f"--nameservers={dead.address}", env=clock.env) as k:
        with Tcp(k) as conn, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.connect((k.host, k.port))
            for n in range(520):
                s.send(query(f"n{n}.example.com").to_wire())
            k.wait(lambda: k.metric("kubedns_forward_servfail_total") == 512, 60)
            with clock.running(1):
                long = conn.ask(query("big.example.com"))
            assert len(addresses(long)) == BIG
            assert k.metric("kubedns_forward_servfail_total") == 512


def test_one_clients_long_replies_do_not_take_all_connections_to_the_resolver(tmp_path):
    """The resolver does not answer these queries over TCP. Each keeps its connection until it ends after 1.8 s."""

    def behave(request, tcp):
        return None if tcp and b"stuck" in request.question[0].name.labels else by_name(request, tcp)

    with Upstream(behave) as u, front(tmp_path, u, "--servfail-retry=off") as k, Tcp(k, source="127.0.0.2") as greedy, Tcp(k) as other:
        greedy.send(*(query(f"big{i}.stuck.example.com", id=i) for i in range(20)))
        k.wait(lambda: sum(tcp for _, _, tcp in u.asked) >= 4)
        assert len(addresses(other.ask(query("big.example.com")))) == BIG
        assert select.select([greedy.socket], [], [], 0)[0] == [], "none of those queries has ended before"


def test_when_all_upstream_servers_fail_the_client_is_told(tmp_path):
    with Upstream(failing) as u, front(tmp_path, u, f"--nameservers={u.address}") as k:
        reply = udp(k, query("www.example.com", use_edns=0))
        assert reply.rcode() == dns.rcode.SERVFAIL and [o.code for o in reply.options if o.otype == dns.edns.OptionType.EDE] == [22]
        assert k.metric("kubedns_forward_in_flight") == 0


def test_a_servfail_that_cannot_be_passed_to_the_upstream_servers_has_an_extended_error(tmp_path):
    """One client may have 512 queries at the upstream servers. The resolver's SERVFAIL has no extended error."""
    clock = Clock(tmp_path)
    with Upstream(failing) as bad, Upstream(silent) as dead, front(tmp_path, bad, f"--nameservers={dead.address}", env=clock.env) as k:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
            s.connect((k.host, k.port))
            s.settimeout(60)
            for first, last, passed in ((0, 260, 260), (260, 520, 512)):  # the client may also have only 512 queries at the resolver
                for n in range(first, last):
                    s.send(question(f"n{n}.example.com", "A", n, edns=1232, recursion=True))
                k.wait(lambda passed=passed: k.metric("kubedns_forward_servfail_total") == passed)
            clock.run_until(lambda: k.metric("kubedns_forward_in_flight") == 0, 10)
            replies = [dns.message.from_wire(s.recv(512)) for _ in range(520)]
        assert k.metric("kubedns_forward_servfail_total") == 512
        assert {(r.rcode(), *(int(o.code) for o in r.options)) for r in replies} == {(dns.rcode.SERVFAIL, 22)}


@pytest.mark.parametrize("code, asked", [(6, False), (7, False), (9, False), (15, False), (22, True), (23, True), (0, True)])
def test_a_servfail_that_says_what_is_wrong_with_the_name_is_the_answer(tmp_path, code, asked):
    """dnsmasq with --dnssec answers SERVFAIL with DNSSEC Bogus (6). kubedns must not query servers that do not validate instead."""
    def verdict(request, _tcp):
        reply = failing(request, _tcp)
        reply.use_edns(0, 0, 1232, options=[dns.edns.EDEOption(code)])
        return reply

    with Upstream(verdict) as bad, Upstream() as good, front(tmp_path, bad, f"--nameservers={good.address}") as k:
        reply = udp(k, query("www.example.com", use_edns=0))
        assert (addresses(reply) == ["192.0.2.1"]) == bool(good.asked) == asked, reply
        assert asked or [int(o.code) for o in reply.options if o.otype == dns.edns.OptionType.EDE] == [code]


def test_servfail_retry_can_be_turned_off(tmp_path):
    with Upstream(failing) as bad, Upstream() as good, front(tmp_path, bad, f"--nameservers={good.address}", "--servfail-retry=off") as k:
        assert udp(k, query("www.example.com")).rcode() == dns.rcode.SERVFAIL and not good.asked


def test_a_query_that_is_lost_is_sent_again_after_250_ms_and_a_second(tmp_path):
    """At the moments in between, kubedns has answered another query, so it has had the opportunity to send this query again too early."""
    clock = Clock(tmp_path)
    with Upstream(silent) as u, front(tmp_path, u, env=clock.env) as k, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.connect((k.host, k.port))
        s.send(query("www.example.com").to_wire())
        k.wait(lambda: len(u.asked) == 1)
        for step_ms, sent in ((249, 1), (2, 2), (250, 2), (250, 2), (249, 2), (2, 3), (250, 3), (250, 3), (250, 3), (47, 3)):
            clock.forward(step_ms / 1000)
            for _ in range(4):  # the first may be answered in an iteration that has read the clock before it moved
                assert addresses(udp(k, query(WEB))) == [WEB_IP]
            k.wait(lambda sent=sent: len(u.asked) >= sent)
            assert len(u.asked) == sent
        s.setblocking(False)
        with pytest.raises(BlockingIOError):
            s.recv(512)
        s.settimeout(10)
        clock.forward(0.002)
        assert dns.message.from_wire(s.recv(512)).rcode() == dns.rcode.SERVFAIL
        assert len(u.asked) == 3 and len({(m.id, peer) for m, peer, _ in u.asked}) == 1


def all_at_once(kubedns, messages):
    """Sends the messages while kubedns is stopped, so that it reads them all in one iteration. Returns the replies by ID."""
    replies = {}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        s.connect((kubedns.host, kubedns.port))
        s.settimeout(5)
        kubedns.process.send_signal(signal.SIGSTOP)
        for m in messages:
            s.send(m.to_wire())
        kubedns.process.send_signal(signal.SIGCONT)
        for _ in messages:
            reply = dns.message.from_wire(s.recv(4096))
            replies[reply.id] = reply
    return replies


def arrive_once(kubedns, upstream, count):
    """Waits until `count` queries and all retries have arrived. A busy stand-in replies late, so that kubedns asks again although no query was lost."""
    retries = lambda: kubedns.metric("kubedns_forward_retries_total")  # noqa: E731
    kubedns.wait(lambda: len(upstream.asked) == count + retries(), what=lambda: f"{len(upstream.asked)} queries of {count} and {retries()} retries")


def test_a_batch_of_relayed_messages_of_all_lengths_arrives_unchanged(tmp_path):
    """Messages of one length leave as one packet of many segments. A shorter message can be its last segment."""
    names = [f"{'x' * (1 + i * 7 % 23)}-{i}.example.com" for i in range(60)] + [f"{i:03d}.example.net" for i in range(60)]
    messages = [query(name, id=1000 + i, use_edns=0 if i % 3 == 0 else -1) for i, name in enumerate(names)]
    chased = query(EXTERNAL, id=7)
    with Upstream(lambda request, tcp: answered(request, f"10.0.0.{len(str(request.question[0].name))}")) as u, front(tmp_path, u, env=Clock(tmp_path).env) as k:
        replies = all_at_once(k, [*messages[:50], chased, *messages[50:]])
        for m in messages:
            assert replies[m.id].question == m.question
            assert addresses(replies[m.id]) == [f"10.0.0.{len(str(m.question[0].name))}"]
        assert replies[7].answer[0][0].target.to_text() == EXTERNAL_TARGET + "."
        arrive_once(k, u, len(messages) + 1)
        asked = {m.question[0].name: m.question for m, _, _ in u.asked}
        assert all(asked[m.question[0].name] == m.question for m in messages)


def test_messages_longer_than_the_path_takes_in_one_piece_leave_singly(tmp_path):
    """The kernel does not segment messages that would need fragmentation."""
    long = ".".join(["x" * 60] * 3)
    messages = [query(f"n{i:02d}.{long}.example.com", id=i) for i in range(1, 41)]
    short = [query(f"s{i:02d}.example.com", id=100 + i) for i in range(1, 41)]
    with Namespace() as space, Upstream(host=space.here) as u:
        run("ip", "link", "set", space.link, "mtu", "200")
        space.inside("ip", "link", "set", "eth0", "mtu", "200")
        with world(tmp_path, "--threads=1", f"--resolver={u.address}", host=space.there, prefix=space.prefix, env=Clock(tmp_path).env) as k:
            k.wait_ready()
            replies = all_at_once(k, messages + short)
            assert all(addresses(replies[m.id]) == ["192.0.2.1"] for m in messages + short)
            arrive_once(k, u, 80)


def test_forged_replies_are_not_believed(tmp_path):
    other = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)

    def behave(request, _tcp):
        wrong_id = answered(request, "192.0.2.66")
        wrong_id.id ^= 1
        wrong_question = answered(query("other.example.com", id=request.id), "192.0.2.67")
        no_reply = answered(request, "192.0.2.69")
        no_reply.flags &= ~dns.flags.QR
        other.sendto(answered(request, "192.0.2.68").to_wire(), u.asked[-1][1])
        time.sleep(0.05)
        return [wrong_id, wrong_question, no_reply, b"", b"\0" * 5, answered(request, "192.0.2.1")]

    with Upstream(behave) as u, front(tmp_path, u) as k:
        for i in range(5):
            assert addresses(udp(k, query(f"n{i}.example.com"))) == ["192.0.2.1"]
    other.close()


def test_a_resolver_that_is_silent_or_gone_means_servfail_within_4_s(tmp_path):
    """This is the documented bound."""
    clock = Clock(tmp_path)
    with (Upstream(silent) as dead, front(tmp_path, dead, env=clock.env) as k,
          front(tmp_path, f"127.0.0.1:{free_port()}", env=clock.env) as nobody):  # fmt: skip
        for each in (k, nobody, k, nobody):
            assert clock.ask(each, query("www.example.com"), 4)[1].rcode() == dns.rcode.SERVFAIL
        for each in (k, nobody):
            assert each.metric("kubedns_forward_failed_total") == 2
            assert each.metric("kubedns_forward_server_failures_total") > 0
            assert each.metric("kubedns_forward_in_flight") == 0
            assert addresses(udp(each, query(WEB))) == [WEB_IP]


def test_a_restart_of_the_resolver_is_waited_out(tmp_path):
    """The resolver's port is closed for six attempts, 0.3 s of kubedns's clock. Later than 1.8 s, kubedns would answer SERVFAIL."""
    clock, port = Clock(tmp_path), free_port()
    with front(tmp_path, f"127.0.0.1:{port}", env=clock.env) as k, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.settimeout(10)
        s.connect((k.host, k.port))
        for i in range(50):
            s.send(query(f"n{i}.example.com").to_wire())
        clock.run_until(lambda: k.metric("kubedns_forward_retries_total") >= 50 * 6, 1.5, 0.01)
        with Upstream(port=port):
            clock.run_until(lambda: k.metric("kubedns_forward_in_flight") == 0, 1.5, 0.01)
            assert all(addresses(dns.message.from_wire(s.recv(512))) == ["192.0.2.1"] for _ in range(50))


def test_a_lost_query_is_sent_again_with_the_same_id(tmp_path):
    def deaf_once(request, _tcp):
        return answered(request, "192.0.2.1") if len(u.asked) > 1 else None

    clock = Clock(tmp_path)
    with Upstream(deaf_once) as u, front(tmp_path, u, env=clock.env) as k:
        assert addresses(clock.ask(k, query("www.example.com"), 2)[1]) == ["192.0.2.1"]
        assert len({(m.id, peer) for m, peer, _ in u.asked}) == 1 and len(u.asked) == 2


def test_places_have_a_bound_for_each_client_and_in_total(tmp_path):
    clock = Clock(tmp_path)
    with Upstream(silent) as u, front(tmp_path, u, env=clock.env) as k:
        one, other, *more = floods(k, ("127.0.0.3", 700, "a"), ("127.0.0.4", 100, "b"), *((f"127.0.0.{n}", 512, f"c{n}") for n in (5, 6, 7)))
        assert one == {dns.rcode.REFUSED: 700 - 512} and other == {}, "the maximum for one client"
        failed = sum(got.get(dns.rcode.SERVFAIL, 0) for got in more)
        assert failed > 0 and {rcode for got in more for rcode in got} == {dns.rcode.SERVFAIL}, "the maximum of what dnsmasq stores"
        assert k.metric("kubedns_dns_dropped_total", reason="forward_client") == 700 - 512 + failed
        assert k.metric("kubedns_forward_in_flight") == 512 + 100 + 3 * 512 - failed < 2048
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.bind(("127.0.0.7", 0))
            reply = dns.query.udp(query("one-more.example.com", use_edns=0), k.host, port=k.port, timeout=10, sock=s)
        assert reply.rcode() == dns.rcode.SERVFAIL and [o.code for o in reply.options if o.otype == dns.edns.OptionType.EDE] == [22]
        assert addresses(udp(k, query(WEB))) == [WEB_IP]
        clock.run_until(lambda: k.metric("kubedns_forward_in_flight") == 0, 4)
        u.behave = lambda request, tcp: answered(request, "192.0.2.1")
        assert addresses(udp(k, query("again.example.com"), timeout=60)) == ["192.0.2.1"]  # the upstream server first handles the old queries


def test_names_that_nobody_answers_do_not_take_outside_names_from_others(tmp_path):
    """
    dnsmasq stores an unanswered query for 10 s, kubedns for 1.8 s. kubedns must account for this difference. Otherwise four client addresses
    fill dnsmasq's places, and it refuses all other queries. dnsmasq has 2,400 places here, as few as it may have (kubedns-upstream(7)). The seconds pass on
    kubedns's clock only, so dnsmasq forgets no query.
    """
    clock = Clock(tmp_path)

    def behave(request, _tcp):
        return None if request.question[0].name.labels[0].startswith(b"dead") else answered(request, "192.0.2.1")

    def dead_names(prefix):
        return len({name for m, _, _ in u.asked[:] if (name := m.question[0].name.labels[0]).startswith(prefix)})

    with Upstream(behave) as u, Dnsmasq(u, args=("--dns-forward-max=2400",)) as d, front(tmp_path, d, env=clock.env) as k:
        for turn in range(4):
            answers = floods(k, *((f"127.0.0.{n}", 512, f"dead{turn}-{n}-") for n in (2, 3, 4, 5)))
            sent = 4 * 512 - sum(sum(rcodes.values()) for rcodes in answers)
            k.wait(lambda turn=turn, sent=sent: dead_names(b"dead%d-" % turn) >= sent or dead_names(b"dead") > 2300)
            reply = udp(k, query(f"good{turn}.example.com"), timeout=20)
            assert reply and addresses(reply) == ["192.0.2.1"], f"turn {turn}, with {dead_names(b'dead')} names in dnsmasq: {reply}"
            clock.pass_by(2, 2)


def test_an_upstream_servers_extended_error_is_passed_on(tmp_path):
    """
    A client with an OPT record gets the error through dnsmasq. A client without an OPT gets no error, and an answer from dnsmasq's cache
    has no error.
    """

    def bogus(request, _tcp):
        reply = dns.message.make_response(request)
        reply.set_rcode(dns.rcode.SERVFAIL)
        if request.edns >= 0:
            reply.use_edns(0, options=[dns.edns.EDEOption(dns.edns.EDECode.DNSSEC_BOGUS, "signature expired")])
        return reply

    def told(k, name, type_="A", **kw):
        reply = udp(k, query(name, type_, **kw))
        return reply.rcode(), [(o.code, o.text) for o in reply.options if o.otype == dns.edns.OptionType.EDE]

    with Upstream(bogus) as u, Dnsmasq(u, args=("--filter-AAAA",)) as d, front(tmp_path, d) as k:
        assert told(k, "www.example.com", use_edns=0) == (dns.rcode.SERVFAIL, [(6, "upstream: signature expired")])
        assert told(k, "www.example.com") == (dns.rcode.SERVFAIL, [])
