"""
Negative TTLs in the classic topology. A real dnsmasq forwards queries to kubedns. It must cache each negative answer exactly for the TTL
that kubedns sent.
"""

import json
import pathlib

import dns.message
import dns.query
import dns.rcode
import dns.rdatatype
import dns.rrset
import pytest
import yaml
from dnsnet import WEB, WEB_IP, Upstream, answered, query, udp, world
from hurry import Clock
from nanny_world import World as NannyWorld
from objects import endpoint_slice, service
from test_relay import Dnsmasq
from waiting import wait_for

ARGS = ("--cache-size=1000", "--dns-forward-max=6000")  # the same values as in the base manifest
DENIALS = 10800
CONF = pathlib.Path(__file__).parents[3] / "conf/kubernetes"


def outside(request, _tcp):
    """Answers NXDOMAIN for every external name. Caches may keep this answer for hours."""
    reply = dns.message.make_response(request, recursion_available=True)
    reply.set_rcode(dns.rcode.NXDOMAIN)
    reply.authority.append(dns.rrset.from_text(".", DENIALS, "IN", "SOA", f"ns. host. 1 2 3 4 {DENIALS}"))
    return reply


def without_ipv6(request, _tcp):
    """Every external name has an IPv4 address and no IPv6 address. Caches may keep the NODATA answer for a minute."""
    if request.question[0].rdtype == dns.rdatatype.A:
        return answered(request, "192.0.2.1")
    reply = dns.message.make_response(request, recursion_available=True)
    reply.authority.append(dns.rrset.from_text("example.com.", 60, "IN", "SOA", "ns. host. 1 2 3 4 60"))
    return reply


class Classic:
    """
    The classic topology: a dnsmasq that forwards cluster names and reverse names to kubedns. dnsmasq's clock stands still, so it keeps
    answers until the test moves the clock.
    """

    def __init__(self, tmp_path, *args, behave=outside):
        self.objects = tmp_path / "objects"
        self.upstream = Upstream(behave)
        self.kubedns = world(tmp_path, "--config-period=100ms", f"--nameservers={self.upstream.address}", *args)
        zones = [f"--server=/{z}/127.0.0.1#{self.kubedns.port}" for z in ("cluster.local", "in-addr.arpa", "ip6.arpa")]
        self.clock = Clock(tmp_path)
        self.clock.set_wall_forward()
        self.dnsmasq = Dnsmasq(self.upstream, args=(*ARGS, *zones), env=self.clock.env)

    def __enter__(self):
        for part in (self.upstream, self.kubedns, self.dnsmasq):
            part.__enter__()
        self.kubedns.wait_ready()
        return self

    def __exit__(self, *error):
        for part in (self.dnsmasq, self.kubedns, self.upstream):
            part.__exit__(*error)

    def ask(self, name, type_="A"):
        return dns.query.udp(query(name, type_), "127.0.0.1", port=self.dnsmasq.port, timeout=60)

    def reached(self, name, type_="A", times=1):
        """Sends the query `times` times and returns how many of these queries dnsmasq forwarded to kubedns."""
        before = self.kubedns.metric("kubedns_dns_requests_total")
        for _ in range(times):
            assert self.ask(name, type_).rcode() == dns.rcode.NXDOMAIN
        return self.kubedns.metric("kubedns_dns_requests_total") - before

    def put(self, name, *items):
        path = self.objects / f"{name}.json"
        path.with_suffix(".new").write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": items}))
        path.with_suffix(".new").rename(path)

    def until_address(self, name, address):
        """Queries until the name has this address."""
        wait_for(lambda: [str(r) for rrset in self.ask(name).answer for r in rrset] == [address], what=f"{name} with {address}")


@pytest.fixture(scope="module")
def classic(tmp_path_factory):
    with Classic(tmp_path_factory.mktemp("classic"), "--negative-ttl=0") as world_:
        yield world_


def slice_of(ready):
    made = endpoint_slice("db", ["10.3.0.1"], hostnames=["db-0"])
    made["endpoints"][0]["conditions"] = {"ready": ready}
    return made


def test_a_denial_of_what_may_come_is_not_kept(classic):
    for name in ("late.default.svc.cluster.local", "late.nowhere.svc.cluster.local", "db-0.db.default.svc.cluster.local", "example.com.default.svc.cluster.local"):
        assert classic.reached(name, times=10) == 10


def test_garbage_of_search_lists_is_kept(classic):
    """Sends 50 queries for each name. dnsmasq forwards one of them to kubedns and none to the upstream server."""
    before = len(classic.upstream.asked)
    for name in ("www.example.com.default.svc", "www.example.com", "example.com"):
        assert classic.reached(f"{name}.cluster.local", times=50) == 1
    assert len(classic.upstream.asked) == before


def test_outside_denials_are_kept(classic):
    before = len(classic.upstream.asked)
    for _ in range(50):
        assert classic.ask("nobody.example.com").rcode() == dns.rcode.NXDOMAIN
    assert len(classic.upstream.asked) - before == 1


def manifest_dnsmasq_args(text):
    """The flags that a manifest passes to dnsmasq: the arguments after the nanny's `--`."""
    containers = yaml.safe_load(text)["spec"]["template"]["spec"]["containers"]
    args = next(c["args"] for c in containers if c["name"] == "dnsmasq")
    return args[args.index("--") + 1 :]


@pytest.mark.parametrize("topology,questions", [("classic", 1), ("front", 1), ("front --filter-aaaa=auto", 0)])
def test_fifty_aaaa_of_an_outside_name_without_ipv6_are_asked_upstream(tmp_path, topology, questions):
    """Uses the manifests' flags that concern caching. The cluster has no IPv6."""
    base = (CONF / "base/deployment.yaml").read_text()
    front = yaml.safe_load((CONF / "components/front/kustomization.yaml").read_text())["patches"][0]["patch"]
    args = manifest_dnsmasq_args(base if topology == "classic" else front)
    kept = [a for a in args if "cache" in a or "ttl" in a or a.startswith("--dns-forward-max")]
    name = "www.example.com"
    if topology == "classic":
        assert kept == list(ARGS)
        with Classic(tmp_path, "--negative-ttl=0", behave=without_ipv6) as c:
            replies = [c.ask(name, "AAAA") for _ in range(50)]
            asked = len(c.upstream.asked)
    else:
        with Upstream(without_ipv6) as u, Dnsmasq(u, args=kept) as d:
            with world(tmp_path, "--ns-addresses=192.0.2.53", f"--resolver={d.address}", *topology.split()[1:]) as k:
                k.wait_ready()
                replies = [udp(k, query(name, "AAAA")) for _ in range(50)]
                asked = len(u.asked)
    assert all(r.rcode() == dns.rcode.NOERROR and not r.answer for r in replies)
    print(f"{topology}: {asked} of 50 AAAA queries were forwarded")
    assert asked == questions


def test_a_service_is_seen_at_once_by_who_asked_before(classic):
    name = "new.default.svc.cluster.local"
    assert classic.ask(name).rcode() == dns.rcode.NXDOMAIN
    classic.put("new", service("new", "10.96.7.7"))
    classic.until_address(name, "10.96.7.7")


@pytest.fixture
def nanny():
    w = NannyWorld()
    yield w
    w.close()


def test_the_nannys_engine_gives_no_answer_of_the_past(tmp_path, nanny):
    """With --ttl=0 and --negative-ttl=0, the first answer after kubedns has a change shows the change: for a Service, a headless Service and a pod."""
    with Classic(tmp_path, "--negative-ttl=0", "--ttl=0") as c:
        nanny.start(f"-kubednsServer=127.0.0.1:{c.kubedns.port}", args=["-k", *ARGS, f"--server=/cluster.local/127.0.0.1#{c.kubedns.port}"])
        new, db, pod = "new.default.svc.cluster.local", "db.default.svc.cluster.local", "web.db.default.svc.cluster.local"
        assert [nanny.ask(name) for name in (new, db, pod)] == ["NXDOMAIN"] * 3
        c.put("new", service("new", "10.96.7.7"))
        c.put("db", service("db", "None"), endpoint_slice("db", ["10.3.0.1"], hostnames=["web"]))
        c.kubedns.wait(lambda: [nanny.ask(name, port=c.kubedns.port) for name in (new, pod)] == ["10.96.7.7", "10.3.0.1"])
        assert [nanny.ask(name) for name in (new, db, pod)] == ["10.96.7.7", "10.3.0.1", "10.3.0.1"]
        c.put("new", service("new", "10.96.7.8"))
        c.put("db", service("db", "None"), endpoint_slice("db", ["10.3.0.2"], hostnames=["web"]))
        c.kubedns.wait(lambda: [nanny.ask(name, port=c.kubedns.port) for name in (new, pod)] == ["10.96.7.8", "10.3.0.2"])
        assert [nanny.ask(name) for name in (new, db, pod)] == ["10.96.7.8", "10.3.0.2", "10.3.0.2"]


def test_a_member_that_becomes_ready_is_seen_at_once(classic):
    name = "db-0.db.default.svc.cluster.local"
    assert classic.ask(name).rcode() == dns.rcode.NXDOMAIN
    classic.put("db", service("db", "None"), slice_of(False))
    classic.kubedns.wait(lambda: "db" in classic.kubedns.http("/cache")[1])
    assert classic.ask(name).rcode() == dns.rcode.NXDOMAIN
    classic.put("db", service("db", "None"), slice_of(True))
    classic.until_address(name, "10.3.0.1")


def test_a_denial_for_an_endpoint_that_may_appear_has_ttl_0(tmp_path):
    """The Service exists and is headless, so its members come and go."""
    with Classic(tmp_path, "--negative-ttl=3600") as c:
        c.put("db", service("db", "None"), slice_of(False))
        name = "db-0.db.default.svc.cluster.local"
        c.kubedns.wait(lambda: (r := udp(c.kubedns, query(name))).rcode() == dns.rcode.NXDOMAIN and r.authority[0].ttl == 0)
        assert c.ask(name).rcode() == dns.rcode.NXDOMAIN
        c.put("db", service("db", "None"), slice_of(True))
        c.until_address(name, "10.3.0.1")


def test_another_servers_denial_of_an_address_that_a_service_gets_is_not_kept(classic):
    """dnsmasq forwards the PTR query for 10.96.8.8 to the upstream server. By itself, the upstream server's negative answer could be cached for hours."""
    name = "8.8.96.10.in-addr.arpa"
    assert classic.ask(name, "PTR").rcode() == dns.rcode.NXDOMAIN
    classic.put("eight", service("eight", "10.96.8.8"))
    reply = wait_for(lambda: (r := classic.ask(name, "PTR")).answer and r)
    assert str(reply.answer[0][0]) == "eight.default.svc.cluster.local."


def test_dnsmasq_keeps_a_denial_as_long_as_it_says_and_no_longer(tmp_path):
    """dnsmasq counts whole seconds."""
    with Classic(tmp_path, "--negative-ttl=2") as c:
        assert c.reached("nobody.default.svc.cluster.local") == 1
        kept = 0
        while kept < 50 and c.reached("nobody.default.svc.cluster.local") == 0:
            c.clock.forward(0.1)
            kept += 1
    assert 10 <= kept <= 31, f"queried again after {kept / 10} s"


def test_positive_answers_are_as_before(classic):
    assert [str(r) for r in classic.ask(WEB).answer[0]] == [WEB_IP]
