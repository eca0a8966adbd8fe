"""What only unbound can do: TLS to the upstream servers, stale answers, a limit for each client. Needs ENGINE=unbound (make test ENGINE=unbound)."""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time

import dns.edns
import dns.exception
import dns.message
import dns.query
import dns.rcode
import dns.rdatatype
import dns.rrset
import pytest
import test_sandbox
from kubedns_process import Kubedns
from nanny_world import ARGS, ENGINE, UNBOUND, Server, constant
from netns import Namespace, has_ipv6
from objects import namespace, service
from sidecar_world import Sidecar
from tls_world import DAY, Authority, TlsDns
from waiting import wait_for

pytestmark = pytest.mark.skipif(ENGINE != "unbound", reason="about unbound: make test ENGINE=unbound")
library, outside = test_sandbox.library, test_sandbox.outside  # fixtures


@pytest.fixture
def authority():
    return Authority()


def one_address(address):
    def answer(query):
        reply = dns.message.make_response(query, recursion_available=True)
        if query.question[0].rdtype == dns.rdatatype.A:
            reply.answer.append(dns.rrset.from_text(query.question[0].name, 0, "IN", "A", address))
        return reply.to_wire()

    return answer


@pytest.fixture
def tls_server(tmp_path, authority):
    opened = []

    def open_(certificate=None, address="10.9.0.1"):
        opened.append(TlsDns(certificate or authority.issue(tmp_path), one_address(address)))
        return opened[-1]

    yield open_
    for server in opened:
        server.close()


def write_ca(world, *authorities, damaged=""):
    """Writes the CA certificates, and then a damaged one. The nanny's user can read the file."""
    path = os.path.join(world.conf, "ca.pem")
    with open(path + ".new", "w", encoding="ascii") as f:
        f.write("".join(a.bundle for a in authorities) + damaged)
    os.rename(path + ".new", path)
    return f"-upstream-ca={path}"


@contextlib.contextmanager
def steady(world, domain, address):
    """Looks up new names of the domain all the time. Yields the list of the answers. Fails if one of them is not `address`."""
    end, answers = threading.Event(), []

    def run():
        while not end.wait(0.002):
            try:
                answers.append(world.ask(f"n{len(answers)}.{domain}"))
            except dns.exception.Timeout:
                answers.append("lost")

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield answers
    finally:
        end.set()
        thread.join()
    assert set(answers) == {address}


def ask(world, name, timeout=6):
    return dns.query.udp(dns.message.make_query(name, "A", use_edns=0), "127.0.0.1", port=world.port, timeout=timeout)


def test_queries_to_a_tls_server_are_encrypted(world, tls_server, authority):
    server = tls_server()
    world.write(upstreamNameservers=[server.url()])
    world.start(write_ca(world, authority))
    for i in range(20):
        assert world.ask(f"n{i}.example.com") == "10.9.0.1", world.log()
    assert server.plain == 0 and server.queries == 20


def test_a_stub_domain_can_be_encrypted_and_other_names_stay_plain(world, tls_server, authority):
    server, upstream = tls_server(address="10.9.0.7"), Server(constant("10.9.0.1"))
    world.write(upstreamNameservers=[str(upstream)], stubDomains={"corp.test": [server.url()]})
    world.start(write_ca(world, authority))
    assert world.ask("a.corp.test") == "10.9.0.7" and world.ask("www.example.com") == "10.9.0.1"
    assert server.plain == 0 and [n for n, _ in upstream.asked if "corp" in n] == []
    upstream.close()


def test_the_name_of_a_stub_server_is_looked_up_encrypted_too(world, tls_server, authority):
    server, stub = tls_server(address="127.0.0.1"), Server(constant("10.9.0.8"))
    world.write(upstreamNameservers=[server.url()], stubDomains={"corp.test": [f"ns.example.com:{stub.port}"]})
    world.start(write_ca(world, authority))
    wait_for(lambda: world.ask("a.corp.test", timeout=6) == "10.9.0.8", 20, what=world.log)
    assert server.plain == 0 and server.queries > 0
    stub.close()


def test_the_name_of_a_stub_server_in_an_encrypted_stub_domain_is_looked_up_encrypted(world, tls_server, authority):
    server, stub, upstream = tls_server(address="127.0.0.1"), Server(constant("10.9.0.8")), Server(constant("127.0.0.1"))
    stubs = {"corp.test": [server.url()], "partner.test": [f"ns.corp.test:{stub.port}"]}
    world.write(upstreamNameservers=[str(upstream)], stubDomains=stubs)
    world.start(write_ca(world, authority))
    wait_for(lambda: world.ask("a.partner.test", timeout=6) == "10.9.0.8", 20, what=world.log)
    assert server.plain == 0 and server.queries > 0 and [n for n, _ in upstream.asked if "corp" in n] == []
    stub.close()
    upstream.close()


@pytest.mark.parametrize("wrong", ["name", "authority", "expired"])
def test_a_server_with_a_wrong_certificate_gets_no_query(world, tls_server, authority, tmp_path, wrong):
    certificate = {
        "name": lambda: authority.issue(tmp_path, "other.test"),
        "authority": lambda: Authority("Stranger").issue(tmp_path),
        "expired": lambda: authority.issue(tmp_path, begin=-2 * DAY, end=-DAY),
    }[wrong]()
    server = tls_server(certificate)
    world.write(upstreamNameservers=[server.url()])
    world.start(write_ca(world, authority))
    assert dns.rcode.to_text(ask(world, "www.example.com").rcode()) == "SERVFAIL"
    assert server.queries == 0 and server.plain == 0


def test_a_new_ca_bundle_is_used_without_a_restart_or_a_lost_query(world, tls_server, authority, tmp_path):
    other = Authority("Other CA")
    server, stub = tls_server(other.issue(tmp_path)), Server(constant("10.9.0.2"))
    world.write(upstreamNameservers=[server.url()], stubDomains={"corp.test": [str(stub)]})
    world.start(write_ca(world, authority), "-syncInterval=1s")
    pid = world.pid()
    assert dns.rcode.to_text(ask(world, "a.example.com").rcode()) == "SERVFAIL"
    with steady(world, "corp.test", "10.9.0.2") as answers:
        write_ca(world, authority, other)
        wait_for(lambda: world.log().count("in use") == 2, 10, what=world.log)
        world.wait_confirmed()
        wait_for(lambda: world.ask("b.example.com", timeout=6) == "10.9.0.1", 15, what=world.log)
        wait_for(lambda: len(answers) > 100)
    assert world.pid() == pid and server.plain == 0
    stub.close()


def test_a_broken_ca_bundle_keeps_the_former_one(world, tls_server, authority):
    server = tls_server()
    world.write(upstreamNameservers=[server.url()])
    world.start(write_ca(world, authority), "-syncInterval=1s")
    write_ca(world)
    world.wait_log("upstream-ca: has no certificate; keeping previous")
    assert world.ask("a.example.com") == "10.9.0.1"


def pem(lines, kind="CERTIFICATE"):
    return "\n".join([f"-----BEGIN {kind}-----", *lines, f"-----END {kind}-----", ""])


BODY = Authority("Damaged CA").bundle.splitlines()[1:-1]
DAMAGES = {
    "lines are missing": pem(BODY[:2] + BODY[4:]),
    "the end is missing": pem(BODY[:-2]),
    "no base64": pem([*BODY[:3], "%%%%", *BODY[3:]]),
    "another character": pem([BODY[0].replace("MII", "MIK", 1), *BODY[1:]]),
    "the next certificate begins in it": "-----BEGIN CERTIFICATE-----\n" + BODY[0] + "\n" + pem(BODY),
    "a damaged revocation list": pem(BODY, "X509 CRL"),
}
REFUSED = "unbound cannot read all certificates in it: "


def refusals(world):
    """What /config and the metrics say about refused CA certificates: the refusal or None, and the metric."""
    refused = [r for r in world.config()["refused"] if r["key"] == "upstream-ca"]
    return refused[0] if refused else None, world.metric('nanny_config_error{key="upstream-ca"}')


def test_a_damaged_certificate_freezes_no_other_change_and_does_not_end_unbound(world, tls_server, authority):
    servers = [tls_server(address=f"10.9.0.{n}") for n in (1, 2)]
    world.write(upstreamNameservers=[servers[0].url()])
    world.start(write_ca(world, authority), "-syncInterval=1s")
    assert refusals(world) == (None, 0)
    pid = world.pid()
    write_ca(world, authority, damaged=DAMAGES["lines are missing"])
    refused = wait_for(lambda: refusals(world)[0], 15, what=world.log)
    assert refused["reason"].startswith(REFUSED) and refused["previousInForce"] and not refused["closed"]
    assert refusals(world)[1] == 1 and "upstream-ca: " + REFUSED in world.log() and "; keeping previous" in world.log()
    world.write(upstreamNameservers=[servers[1].url()])
    wait_for(lambda: world.ask("a.example.com", timeout=6) == "10.9.0.2", 15, what=world.log)
    assert world.wait_confirmed() and world.pid() == pid
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: world.pid() not in (0, pid), what=world.log)
    wait_for(world.answers, what=world.log)
    assert world.ask("b.example.com", timeout=6) == "10.9.0.2", world.log()
    write_ca(world, authority, Authority("Other CA"))
    wait_for(lambda: refusals(world) == (None, 0), 15, what=world.log)
    world.wait_log("upstream-ca: good again")


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_pod_starts_with_a_damaged_certificate(world, tls_server, authority, damage):
    """Names that need no CA certificate are answered. Names for the tls:// server get SERVFAIL until the file is good."""
    server, stub = tls_server(), Server(constant("10.9.0.2"))
    world.write(upstreamNameservers=[server.url()], stubDomains={"corp.test": [str(stub)]})
    flag = write_ca(world, authority, damaged=DAMAGES[damage])
    world.start(flag, "-syncInterval=1s")
    assert world.ask("a.corp.test") == "10.9.0.2" and dns.rcode.to_text(ask(world, "a.example.com").rcode()) == "SERVFAIL"
    refused = refusals(world)[0]
    assert refused["reason"].startswith(REFUSED) and not refused["previousInForce"] and server.queries == 0
    assert world.metric("nanny_engine_deaths_total") == 0, world.log()
    checked = subprocess.run(world.command("--check", flag), capture_output=True, text=True, timeout=20, check=False)
    assert checked.returncode == 2 and REFUSED in checked.stderr
    write_ca(world, authority)
    wait_for(lambda: world.ask("b.example.com", timeout=6) == "10.9.0.1", 15, what=world.log)
    assert subprocess.run(world.command("--check", flag), capture_output=True, timeout=20, check=False).returncode == 0
    stub.close()


def test_an_expired_answer_is_served_while_the_upstream_is_silent(world):
    silent = threading.Event()
    upstream = Server(lambda name, rdtype: None if silent.is_set() else [(name, 1, "A", "10.9.0.1")])
    world.write(upstreamNameservers=[str(upstream)])
    world.start()
    assert world.ask("www.example.com") == "10.9.0.1"
    silent.set()
    time.sleep(2.1)  # longer than the TTL
    begun = time.monotonic()
    reply = ask(world, "www.example.com")
    assert reply.answer[0][0].address == "10.9.0.1" and time.monotonic() - begun < 2.5
    assert [o.code for o in reply.options if o.otype == dns.edns.OptionType.EDE] == [3]
    upstream.close()


def test_the_cache_of_other_domains_survives_a_change(world):
    upstream, stub, other = Server(lambda n, t: [(n, 300, "A", "10.9.0.1")]), Server(lambda n, t: [(n, 300, "A", "10.9.0.2")]), Server(constant("10.9.0.3"))
    world.write(upstreamNameservers=[str(upstream)], stubDomains={"corp.test": [str(stub)]})
    world.start()
    assert world.ask("www.example.com") == "10.9.0.1" and world.ask("a.corp.test") == "10.9.0.2"
    world.write(upstreamNameservers=[str(upstream)], stubDomains={"corp.test": [str(other)]})
    world.wait_config(lambda c: c["confirmed"] and c["keys"]["stubDomains"]["inForce"] == {"corp.test": [str(other)]})
    wait_for(lambda: world.ask("a.corp.test") == "10.9.0.3")
    assert world.ask("www.example.com") == "10.9.0.1" and len(upstream.asked) == 1
    for server in (upstream, stub, other):
        server.close()


@contextlib.contextmanager
def sending(world, domain):
    """Sends 100 queries a second for new names of the domain, and reads no reply. Yields a list, whose length is the number of the queries."""
    ended, sent = threading.Event(), []

    def run():
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.connect(("127.0.0.1", world.port))
            while not ended.wait(0.01):
                with contextlib.suppress(OSError):
                    sent.append(s.send(dns.message.make_query(f"n{len(sent)}.{domain}", "A").to_wire()))

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield sent
    finally:
        ended.set()
        thread.join()


class Upstreams:
    """Two servers. `silent` is the number of the silent one, or None. `queries(n)` counts queries for names below new.test to server n."""

    def __init__(self):
        self.silent = None
        self.servers = [Server(lambda name, rdtype, n=n: None if self.silent == n else [(name, 0, "A", "10.9.0.1")] if rdtype == "A" else []) for n in (0, 1)]

    def queries(self, n):
        return sum(name.endswith(".new.test.") for name, _ in self.servers[n].asked)

    def close(self):
        for server in self.servers:
            server.close()


@pytest.mark.quiet
def test_a_healed_server_is_used_again_within_5_s(world):
    """The server is silent for 10 s. The sidecar notices that it answers again, and the nanny tells unbound."""
    upstreams = Upstreams()
    world.write(upstreamNameservers=[str(s) for s in upstreams.servers])
    world.start()
    sidecar = Sidecar("--kubedns-url=", f"--nanny-url=http://127.0.0.1:{world.http}", f"--dnsmasq-port={world.port}", peers=True)
    try:
        with contextlib.closing(upstreams), sending(world, "new.test"):
            wait_for(lambda: sum(map(upstreams.queries, (0, 1))) > 100)
            bad = max((0, 1), key=upstreams.queries)
            upstreams.silent, begun = bad, time.monotonic()
            wait_for(lambda: f"check upstream: {upstreams.servers[bad]}: " in sidecar.said(), what=sidecar.said)
            time.sleep(max(0, begun + 10 - time.monotonic()))
            before, upstreams.silent = upstreams.queries(bad), None
            wait_for(lambda: upstreams.queries(bad) > before, 5, what=lambda: sidecar.said() + world.log())
            wait_for(lambda: world.metric("nanny_engine_recoveries_total") == 1)
    finally:
        sidecar.stop()


@pytest.mark.parametrize("transport", ["plain", "tls"])
def test_names_that_nobody_answers_fail_no_other_name(world, tmp_path, authority, transport):
    """Both upstream servers are healthy. They answer nothing for names below dead.test, whose own name servers are silent."""
    unanswered = [0, 0]

    def answer(n, name):
        unanswered[n] += name.endswith("dead.test.")
        return None if name.endswith("dead.test.") else "10.9.0.1"

    def tls(n):
        return lambda query: one_address("10.9.0.1")(query) if answer(n, query.question[0].name.to_text().lower()) else None

    if transport == "tls":
        servers = [TlsDns(authority.issue(tmp_path), tls(n)) for n in (0, 1)]
    else:
        servers = [Server(lambda name, rdtype, n=n: [(name, 0, "A", "10.9.0.1")] if answer(n, name) else None) for n in (0, 1)]
    world.write(upstreamNameservers=[s.url() if transport == "tls" else str(s) for s in servers])
    world.start(write_ca(world, authority))
    with sending(world, "dead.test") as sent:
        wait_for(lambda: len(sent) > 500 and min(unanswered) > 3, 60, what=world.log)
        assert [world.ask(f"n{i}.new.test", timeout=6) for i in range(40)] == ["10.9.0.1"] * 40, world.log()
    for server in servers:
        server.close()


def test_queries_wait_while_unbound_is_not_running(world):
    """The kernel's default receive buffer has space for fewer than 300 queries. One client would fill it while the processor is busy."""
    upstream = Server(constant("10.9.0.1"))
    world.write(upstreamNameservers=[str(upstream)])
    world.start()
    assert world.ask("www.example.com") == "10.9.0.1"
    pid = world.pid()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        client.connect(("127.0.0.1", world.port))
        client.settimeout(10)
        os.kill(pid, signal.SIGSTOP)
        try:
            for number in range(400):
                client.send(dns.message.make_query("version.bind", "TXT", "CH", id=number + 1).to_wire())
        finally:
            os.kill(pid, signal.SIGCONT)
        assert len({client.recv(4096)[:2] for _ in range(400)}) == 400
    upstream.close()


# Runs in a network namespace, because clients on a loopback address have no limit. 10.99.0.1 is unbound, .3 is the innocent client, and the
# arguments are the addresses of the attacking clients. Prints how many queries the innocent client sent and how many were answered.
ATTACK = """
import socket, struct, sys, time

def name(*labels):
    return b"".join(bytes([len(l)]) + l.encode() for l in labels) + b"\\0"

def query(number, *labels):
    return struct.pack(">6H", number & 0xffff, 0x100, 1, 0, 0, 0) + name(*labels) + b"\\0\\1\\0\\1"

def client(address):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    s.bind((address, 0))
    s.connect(("10.99.0.1", PORT))
    s.setblocking(False)
    return s

PORT = int(sys.argv[1])
attackers = [client(a) for a in sys.argv[2:]]
good, dead = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))
good.bind(("127.0.0.1", 5301))
dead.bind(("127.0.0.1", 5302))
innocent, begun, sent, answered, attacked = client("10.99.0.3"), time.monotonic(), 0, set(), 0
while (now := time.monotonic() - begun) < 8:
    while now < 5 and attacked < now * 3000:
        for a in attackers:
            try:
                a.send(query(attacked, f"n{attacked}", "dead", "test"))
            except OSError:
                pass
        attacked += 1
    while now < 5 and sent < now * 120:
        innocent.send(query(sent, f"i{sent}", "example", "com"))
        sent += 1
    for s in (good, innocent, dead, *attackers):
        try:
            while True:
                data, peer = s.recvfrom(2048, socket.MSG_DONTWAIT)
                if s is good:
                    end = data.index(b"\\0", 12) + 5
                    s.sendto(data[:2] + b"\\x81\\x80\\0\\1\\0\\1\\0\\0\\0\\0" + data[12:end] + b"\\xc0\\x0c\\0\\1\\0\\1\\0\\0\\0\\0\\0\\4\\n\\t\\0\\1", peer)
                elif s is innocent and data[3] & 15 == 0:
                    answered.add(struct.unpack(">H", data[:2])[0])
        except OSError:
            pass
    time.sleep(0.0005)
print(attacked, sent, len(answered))
"""


@pytest.mark.quiet
@pytest.mark.parametrize("attackers", [["10.99.0.2"], ["10.99.0.2", "10.99.0.4"]], ids=["one client", "two clients"])
def test_a_flood_for_a_dead_server_takes_nothing_from_another_client(world, attackers):
    """Each attacking client sends 3,000 new names a second to a stub domain whose server is silent."""
    with Namespace() as space:
        for address in ("10.99.0.1", "10.99.0.3", *attackers):
            space.inside("ip", "addr", "add", f"{address}/32", "dev", "lo")
        world.write(upstreamNameservers=["127.0.0.1:5301"], stubDomains={"dead.test": ["127.0.0.1:5302"]})
        world.start(args=[*ARGS, "--listen-address=10.99.0.1"], ready=False, prefix=space.prefix)
        world.wait_log("unbound: answers")
        out = space.inside("/usr/bin/python3", "-c", ATTACK, str(world.port), *attackers).stdout
        attacked, sent, answered = map(int, out.split())
        print(f"{attacked} names for each attacker; innocent client: {sent - answered} of {sent} lost")
        assert attacked > 10000 and sent >= 500
        assert answered == sent, world.log()


def test_a_tls_server_that_is_named_later_may_have_any_port(world, tls_server, authority):
    """Landlock rules cannot be extended later, and unbound queries such a server only over TCP."""
    plain, server = Server(constant("10.9.0.2")), tls_server()
    world.write(upstreamNameservers=[str(plain)])
    world.start(write_ca(world, authority))
    assert world.ask("before.example") == "10.9.0.2"
    world.write(upstreamNameservers=[server.url()])
    world.wait_confirmed()
    assert world.ask("after.example") == "10.9.0.1", world.log()
    assert "the sandbox does not allow it" not in world.log()
    plain.close()


def test_with_validation_unsigned_external_names_fail_and_stub_domains_are_answered(world):
    """The upstream has no signatures, not even for the root, so its answers are not to be trusted."""
    upstream, stub = Server(constant("10.9.0.1")), Server(constant("10.9.0.2"))
    world.write(upstreamNameservers=[str(upstream)], stubDomains={"corp.test": [str(stub)]})
    world.start("-dnssec=validate")
    assert world.ask("a.corp.test") == "10.9.0.2", world.log()
    assert dns.rcode.to_text(ask(world, "www.example.com", timeout=10).rcode()) == "SERVFAIL"
    upstream.close()
    stub.close()


class Outside:
    """
    A route to the Internet in a namespace, and the packets that leave on it. Their next hop is an Ethernet address that nobody has.
    `packets` are pairs of destination and the beginning of the payload.
    """

    END, HOP, HOP6 = "203.0.113.1", "192.0.2.1", "2001:db8::1"

    def __init__(self, space):
        self.space, self.packets = space, []
        routes = [([], "192.0.2.9/24", self.HOP), *([(["-6"], "2001:db8::9/64", self.HOP6)] if has_ipv6() else [])]
        for family, own, hop in routes:
            space.inside("ip", *family, "address", "add", own, "dev", "eth0", *(["nodad"] if family else []))
            space.inside("ip", *family, "neighbour", "add", hop, "lladdr", "02:00:00:00:00:01", "dev", "eth0", "nud", "permanent")
            space.inside("ip", *family, "route", "add", "default", "via", hop)
        self.socket = space.do(lambda: socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(3)))  # all protocols
        self.socket.bind(("eth0", 3))

    def read(self):
        """Reads all packets until the one that this function sends. Returns those of UDP and TCP."""

        def end():
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
                s.sendto(b"end", (self.END, 9))

        self.space.do(end)
        while True:
            data, (_, protocol, *_) = self.socket.recvfrom(65536)
            if protocol == 0x800 and socket.inet_ntoa(data[16:20]) == self.END:
                return self.packets
            if protocol == 0x800 and data[9] in (socket.IPPROTO_UDP, socket.IPPROTO_TCP):
                self.packets.append((socket.inet_ntoa(data[16:20]), bytes(data[40:70])))
            elif protocol == 0x86DD and data[6] in (socket.IPPROTO_UDP, socket.IPPROTO_TCP):
                self.packets.append((socket.inet_ntop(socket.AF_INET6, data[24:40]), bytes(data[60:90])))


class Leading(Server):
    """A stub domain's server whose replies lead out of the domain: a CNAME, a referral with glue, and name servers in the answer."""

    def reply_to(self, data):
        query = dns.message.from_wire(data)
        name, reply = query.question[0].name.to_text(), dns.message.make_response(query, recursion_available=True)
        self.asked.append((name.lower(), dns.rdatatype.to_text(query.question[0].rdtype)))
        if name.startswith("alias"):
            reply.answer.append(dns.rrset.from_text(name, 0, "IN", "CNAME", f"payroll-{name}partner.example."))
        elif name.startswith("referral"):
            reply.authority.append(dns.rrset.from_text(name, 60, "IN", "NS", "ns1.partner.example.", "ns2.partner.example."))
            reply.additional.append(dns.rrset.from_text("ns1.partner.example.", 60, "IN", "A", "203.0.113.7"))
        elif name.startswith("ns"):
            reply.answer.append(dns.rrset.from_text(name, 60, "IN", "NS", "ns1.partner.example."))
        else:
            reply.answer.append(dns.rrset.from_text(name, 0, "IN", "A", "10.9.0.2"))
        return reply.to_wire()


def only_ipv4(name, rdtype):
    """Names that begin with "both" have an IPv6 address too. The PTR names are those of 192.0.2.7."""
    if rdtype == "PTR":
        return [(name, 0, "PTR", "www.example.com.")] if name == "7.2.0.192.in-addr.arpa." else 3
    if rdtype == "AAAA" and name.startswith("both"):
        return [(name, 0, "AAAA", "2001:db8::1")]
    return [(name, 0, "A", "192.0.2.7")] if rdtype == "A" else []


@pytest.mark.parametrize("flag, made, ptr", [
    ("-dns64=on", "64:ff9b::c000:207", "7.0.2.0.0.0.0.c.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.b.9.f.f.4.6.0.0.ip6.arpa"),
    ("-dns64=2001:db8:64::/48", "2001:db8:64:c000:2:700::", None),
])
def test_dns64_gives_names_without_ipv6_addresses_those_of_the_gateway(world, flag, made, ptr):
    upstream, stub = Server(only_ipv4), Server(only_ipv4)
    world.write(upstreamNameservers=[str(upstream)], stubDomains={"corp.test": [str(stub)]})
    world.start(flag)

    def records(name, kind):
        reply = dns.query.udp(dns.message.make_query(name, kind), "127.0.0.1", port=world.port, timeout=6)
        return reply.rcode(), [r.to_text() for rrset in reply.answer for r in rrset if rrset.rdtype == dns.rdatatype.from_text(kind)]

    assert records("www.example.com", "AAAA") == records("www.corp.test", "AAAA") == (dns.rcode.NOERROR, [made]), world.log()
    assert records("both.example.com", "AAAA") == (dns.rcode.NOERROR, ["2001:db8::1"])
    assert records("www.example.com", "A") == (dns.rcode.NOERROR, ["192.0.2.7"])
    assert records("ipv4only.arpa", "AAAA") == (dns.rcode.NOERROR, [made])  # how clients find the prefix, RFC 7050
    if ptr:
        assert records(ptr, "PTR") == (dns.rcode.NOERROR, ["www.example.com."])
    upstream.close()
    stub.close()


def test_with_dns64_behind_kubedns_only_external_names_get_made_addresses(world, tmp_path):
    upstream = Server(only_ipv4)
    world.write(upstreamNameservers=[str(upstream)])
    world.start("-dns64=on")
    alias = service("alias", "", type="ExternalName", externalName="www.example.com")
    (tmp_path / "all.json").write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": [namespace("default"), service("web", "10.96.0.80"), alias]}))
    with Kubedns(f"--objects-dir={tmp_path}", f"--resolver=127.0.0.1:{world.port}") as k:
        k.wait_ready()

        def addresses(name):
            reply = dns.query.udp(dns.message.make_query(name, "AAAA"), "127.0.0.1", port=k.port, timeout=6)
            assert reply.rcode() == dns.rcode.NOERROR
            return [r.to_text() for rrset in reply.answer for r in rrset if rrset.rdtype == dns.rdatatype.AAAA]

        assert addresses("www.example.com") == addresses("alias.default.svc.cluster.local") == ["64:ff9b::c000:207"]
        assert addresses("web.default.svc.cluster.local") == []
    upstream.close()


def test_dns64_is_refused_in_the_classic_topology_because_it_would_change_cluster_names(world):
    world.start("-dns64=on", args=[*ARGS, "--server=/cluster.local/127.0.0.1#10053"], ready=False)
    assert world.process.wait(30) == 2
    assert "--dns64=on: in the classic topology, unbound would make AAAA records for cluster names too: use the front topology" in world.log()


@pytest.mark.parametrize("flags", [[], ["-dnssec=validate"]], ids=["plain", "validate"])
def test_without_upstream_servers_no_query_leaves_for_the_root_servers(world, flags):
    """At the start, and after the upstream servers were removed. A --local domain has no servers even while there are upstream servers."""
    with Namespace() as space:
        outside = Outside(space)
        stub, upstream = space.do(lambda: Leading(None)), space.do(lambda: Server(constant("10.9.0.1")))
        stubs = {"corp.test": [str(stub)], "2.0.192.in-addr.arpa": [str(stub)]}
        number = 0

        def look_up(name, kind):
            query = dns.message.make_query(name, kind, want_dnssec=True)
            try:
                rcode = dns.rcode.to_text(space.do(lambda: dns.query.udp(query, "127.0.0.1", port=world.port, timeout=6)).rcode())
            except dns.exception.Timeout:
                rcode = "no reply"
            assert (name, kind, outside.read()) == (name, kind, []), world.log()
            return rcode

        def look_up_all():
            nonlocal number
            number += 1
            assert look_up(f"a{number}.corp.test", "A") == "NOERROR" and look_up(f"{number}.2.0.192.in-addr.arpa", "A") == "NOERROR"
            for first in ("alias", "referral", "ns"):
                for kind in ("A", "AAAA", "NS", "MX"):
                    look_up(f"{first}{number}.corp.test", kind)
            for name in ("corp.test", "2.0.192.in-addr.arpa", "test", "partner.example", ".", f"n{number}.local.test", f"n{number}.10.in-addr.arpa", "d.f.ip6.arpa"):
                for kind in ("A", "NS", "DS", "DNSKEY", "SOA", "PTR"):
                    look_up(name, kind)

        world.write(stubDomains=stubs)
        world.start(*flags, args=[*ARGS, "--local=/local.test/"], ready=False, prefix=space.prefix)
        space.do(world.wait_confirmed)
        look_up_all()
        assert look_up("www.example.com", "A") == "REFUSED"
        world.write(stubDomains=stubs, upstreamNameservers=[str(upstream)])
        wait_for(lambda: look_up(f"www{len(upstream.asked)}.example.com", "A") != "REFUSED", 20, what=world.log)
        look_up_all()
        assert [n for n, _ in upstream.asked if n.endswith("local.test.")] == []
        world.write(stubDomains=stubs)
        wait_for(lambda: look_up("www.example.com", "A") == "REFUSED", 20, what=world.log)
        look_up_all()
        stub.close()
        upstream.close()


def test_cache_hits_and_misses_are_in_the_metrics_and_for_the_sidecar_in_the_page(world):
    upstream = Server(constant("10.9.0.1"))
    world.write(upstreamNameservers=[str(upstream)])
    world.start()
    for _ in range(5):
        assert world.ask("cached.example") == "10.9.0.1"

    def counted():
        """Whether page and metrics have the same counts, of the newest reading. The nanny reads them every 10 s."""
        seen = world.config()["dnsmasq"]
        metrics = world.get("/metrics")[1]
        return seen["cacheHits"] >= 4 and all(f"nanny_engine_cache_{n}_total {seen[key]}\n" in metrics for n, key in (("hits", "cacheHits"), ("misses", "cacheMisses")))

    wait_for(counted, timeout=30, what=world.log)
    assert world.config()["dnsmasq"]["cacheMisses"] >= 1 and 'nanny_engine_state{state="ready"} 1' in world.get("/metrics")[1]
    upstream.close()


def test_unbound_refuses_all_but_dns_and_its_control_socket(world, outside):
    """unbound's loader reads the library inside the sandbox, so the library is where unbound reads its trust anchor."""
    place = os.path.join(world.run, "nanny")
    with tempfile.TemporaryDirectory(prefix="inside-", dir="/usr/share/dns") as lib:
        os.chmod(lib, 0o755)
        shutil.copy(outside["LD_PRELOAD"], lib)
        world.start(ready=False, env={**os.environ, **outside, "LD_PRELOAD": os.path.join(lib, "inside.so"), "INSIDE_EXEC": UNBOUND,
                                      "INSIDE_SERVERS": os.path.join(place, "servers.conf")})  # fmt: skip
        found = wait_for(lambda: test_sandbox.has_tried(world.log, "unbound"), what=world.log)
    for tried in found.values():
        test_sandbox.check(tried, test_sandbox.EXPECTED["unbound"])
    assert os.listdir(os.path.join(place, "socket")) == ["control"]
