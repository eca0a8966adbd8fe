"""
Search completion: one query replaces a client's walk through its search list. The query is declared (X.<namespace>.s.<zone>) or inferred
from the first query of a pod. The tests send the queries of real clients through a real dnsmasq. The upstream server counts the queries that it gets.
"""

import subprocess

import dns.flags
import dns.rcode
import pytest
from dnsnet import Tcp, Upstream, query, udp
from hurry import Clock
from kubedns_process import PROGRAM
from outside_names import BIG, addresses, alias, asked, cluster, upstream
from test_relay import Dnsmasq
from world import Z, start

from waiting import free_port


class Classic:
    """Clients query dnsmasq. dnsmasq forwards names of the cluster's zone to kubedns, and kubedns sends external names back to dnsmasq."""

    def __init__(self, tmp_path, u, *args):
        port, behind = free_port(), free_port()
        self.dnsmasq = Dnsmasq(u, port=port, args=("--cache-size=1000", "--dns-forward-max=6000", f"--server=/{Z}/127.0.0.1#{behind}"))
        self.kubedns = start(tmp_path, cluster(), "--threads=1", f"--dns-port={behind}", f"--search-resolver=127.0.0.1:{port}",
                             "--nameservers=127.0.0.1:9", *args)  # fmt: skip
        self.host, self.port = "127.0.0.1", port

    def __enter__(self):
        self.kubedns.__enter__()
        self.kubedns.wait_ready()
        self.dnsmasq.__enter__()
        return self

    def __exit__(self, *exc):
        self.dnsmasq.__exit__(*exc)
        self.kubedns.__exit__(*exc)


class Front:
    def __init__(self, tmp_path, u, *args):
        self.dnsmasq = Dnsmasq(u)
        self.kubedns = start(tmp_path, cluster(), "--threads=1", f"--resolver={self.dnsmasq.address}", f"--nameservers={u.address}", *args)

    def __enter__(self):
        self.dnsmasq.__enter__()
        self.kubedns.__enter__()
        self.kubedns.wait_ready()
        self.host, self.port = self.kubedns.host, self.kubedns.port
        return self

    def __exit__(self, *exc):
        self.kubedns.__exit__(*exc)
        self.dnsmasq.__exit__(*exc)


@pytest.fixture(params=[Classic, Front])
def topology(request):
    return request.param


def test_declared_one_question_gives_what_a_pod_means(topology, tmp_path):
    with Upstream(upstream) as u, topology(tmp_path, u, "--search-extra=corp.example,lab.example") as t:
        for name, found, address in (
            ("web", "web.default.svc", "10.96.0.1"), ("web.prod", "web.prod.svc", "10.96.1.1"), ("web.prod.svc", "web.prod.svc", "10.96.1.1"),
        ):  # fmt: skip
            reply = udp(t, query(f"{name}.default.s.{Z}"))
            assert alias(reply) == (f"{found}.{Z}", 30) and addresses(reply) == [address]
        assert asked(u) == [], "no other server gets names of the cluster"
        reply = udp(t, query(f"git.default.s.{Z}"))
        assert alias(reply)[0] == "git.corp.example" and addresses(reply) == ["192.0.2.2"]
        reply = udp(t, query(f"www.example.com.default.s.{Z}"))
        assert alias(reply)[0] == "www.example.com" and addresses(reply) == ["192.0.2.1"] and reply.rcode() == dns.rcode.NOERROR
        walked = ["git.corp.example", "www.example.com.corp.example", "www.example.com.lab.example", "www.example.com"]
        assert asked(u) == [(name, "A") for name in walked]
        reply = udp(t, query(f"www.example.com.default.s.{Z}", "AAAA"))
        assert reply.rcode() == dns.rcode.NOERROR and alias(reply)[0] == "www.example.com" and not addresses(reply)
        reply = udp(t, query(f"nothing.example.com.default.s.{Z}"))
        assert reply.rcode() == dns.rcode.NXDOMAIN and not reply.answer
        assert udp(t, query(f"broken.example.com.default.s.{Z}")).rcode() == dns.rcode.SERVFAIL
        completed = {r: t.kubedns.metric("kubedns_search_completed_total", form="declared", result=r) for r in ("found", "nothing", "failed")}
        assert alias(udp(t, query(f"web.prod.svc.{Z}.default.s.{Z}")))[0] == f"web.prod.svc.{Z}", "X itself comes after the extra domains"
        assert asked(u)[-2:] == [(f"web.prod.svc.{Z}.{domain}", "A") for domain in ("corp.example", "lab.example")]
        assert completed["found"] >= 6 and completed["nothing"] >= 1 and completed["failed"] >= 1


def test_inferred_the_first_question_of_a_pod_is_its_last(topology, tmp_path):
    with Upstream(upstream) as u, topology(tmp_path, u, "--search-completion=inferred") as t:
        for name, found, address in (("www.example.com", "www.example.com", "192.0.2.1"), ("web.prod", f"web.prod.svc.{Z}", "10.96.1.1")):
            reply = udp(t, query(f"{name}.default.svc.{Z}"))
            assert alias(reply)[0] == found and addresses(reply) == [address]
            reply = udp(t, query(f"{name}.default.svc.{Z}", "AAAA"))
            assert reply.rcode() == dns.rcode.NOERROR and alias(reply)[0] == found and not addresses(reply)
        assert asked(u) == [("www.example.com", "A"), ("www.example.com", "AAAA")]
        for name in ("nothing.example.com.default", "www.example.com.off", "wbe.default", "pod-0.idle.default", "www.example.com.nowhere"):
            reply = udp(t, query(f"{name}.svc.{Z}"))
            assert reply.rcode() == dns.rcode.NXDOMAIN and not reply.answer, name
        refused = {r: t.kubedns.metric("kubedns_search_refused_total", reason=r) for r in
                   ("opted_out", "one_label", "below_service", "no_namespace")}  # fmt: skip
        assert all(n == 1 for n in refused.values()), refused
        assert asked(u)[2:] == [("nothing.example.com", "A")]


def test_explain_shows_the_steps(tmp_path):
    with start(tmp_path, cluster(), "--search-completion=inferred", "--search-extra=corp.example") as k:
        k.wait_ready()

        def explain(name):
            return k.http(f"/explain?name={name}.{Z}")[1]

        text = explain("web.prod.default.s")
        assert f"web.prod.default.svc.{Z}. does not exist" in text and f"web.prod.svc.{Z}. exists: this is the answer" in text
        assert f"web.prod.{Z}" not in text, "the walk ends there"
        text = explain("www.example.com.default.svc")
        assert "inferred" in text and "www.example.com.corp.example. is sent to other servers" in text and "  www.example.com. is sent" in text
        assert "kubedns/search-completion=off" in explain("www.example.com.off.svc")
        assert "below a Service" in explain("pod-0.idle.default.svc") and "NODATA" in explain("default.s")


def test_names_of_ones_own_and_rewrites_are_candidates_too(tmp_path):
    config = tmp_path / "config"
    config.mkdir()
    (config / "hosts").write_text("192.0.2.99 own.corp.example\n")
    (config / "rewrites").write_text(f"exact old.corp.example web.prod.svc.{Z}\nexact new.example.org www.example.com\n")
    with Upstream(upstream) as u, start(tmp_path, cluster(), f"--nameservers={u.address}", "--search-extra=corp.example", f"--config-dir={config}") as k:
        k.wait_ready()
        for name, found in (("own", "own.corp.example"), ("own.corp.example", "own.corp.example")):
            reply = udp(k, query(f"{name}.default.s.{Z}"))
            assert alias(reply)[0] == found and addresses(reply) == ["192.0.2.99"]
        reply = udp(k, query(f"old.default.s.{Z}"))
        assert alias(reply)[0] == f"web.prod.svc.{Z}" and addresses(reply) == ["10.96.1.1"], "a rewrite applies to a candidate"
        assert asked(u) == [("own.corp.example.corp.example", "A")]
        assert addresses(udp(k, query(f"new.example.org.default.s.{Z}"))) == ["192.0.2.1"] and asked(u)[-1] == ("www.example.com", "A")


def test_long_answers_come_whole_over_tcp(topology, tmp_path):
    with Upstream(upstream) as u, topology(tmp_path, u) as t:
        assert udp(t, query(f"big.example.com.default.s.{Z}")).flags & dns.flags.TC
        with Tcp(t) as tcp:
            reply = tcp.ask(query(f"big.example.com.default.s.{Z}"))
            assert len(addresses(reply)) == BIG and alias(reply)[0] == "big.example.com"


def test_steps_are_asked_of_the_upstream_servers_where_there_is_no_dnsmasq(tmp_path):
    with Upstream(upstream) as u, start(tmp_path, cluster(), "--threads=1", f"--nameservers={u.address}", "--search-extra=corp.example") as k:
        k.wait_ready()
        assert addresses(udp(k, query(f"www.example.com.default.s.{Z}"))) == ["192.0.2.1"]
        assert asked(u) == [("www.example.com.corp.example", "A"), ("www.example.com", "A")]
        assert addresses(udp(k, query(f"out.default.s.{Z}"))) == ["192.0.2.1"]


def test_search_completion_ends_before_the_client_times_out(tmp_path):
    clock = Clock(tmp_path)
    with Upstream(lambda *_: None) as u, start(tmp_path, cluster(), "--threads=1", f"--nameservers={u.address}", "--search-extra=a.example", env=clock.env) as k:
        k.wait_ready()
        _, reply = clock.ask(k, query(f"www.example.com.default.s.{Z}"), 5)
        assert reply.rcode() == dns.rcode.SERVFAIL and not reply.answer
        assert k.metric("kubedns_search_completed_total", form="declared", result="failed") == 1


def test_no_question_goes_round(tmp_path):
    """
    The worst configuration that a ConfigMap can contain: stub domains and all external names lead back to kubedns. Each query ends at the
    upstream server, or at the search completion that started it.
    """
    with Upstream(upstream) as u:
        port, behind = free_port(), free_port()
        with start(tmp_path, cluster(), "--threads=1", f"--dns-port={behind}", f"--search-resolver=127.0.0.1:{port}",
                   f"--nameservers={u.address}", "--search-completion=inferred") as k:  # fmt: skip
            k.wait_ready()
            back = type("Back", (), {"port": behind})
            with Dnsmasq(back, port=port, args=("--cache-size=0", f"--server=/example.com/127.0.0.1#{behind}")) as d:
                for name in (f"www.example.com.default.s.{Z}", f"www.example.com.default.svc.{Z}"):
                    before = k.metric("kubedns_dns_requests_total", proto="udp", family="ipv4", type="A")
                    assert addresses(udp(d, query(name))) == ["192.0.2.1"]
                    assert k.metric("kubedns_dns_requests_total", proto="udp", family="ipv4", type="A") - before == 2, "the query of the walk and the query of its step"
                assert asked(u) == [("www.example.com", "A")] * 2


@pytest.mark.parametrize(
    "flags, said",
    [
        (["--search-completion=on"], "must be declared or inferred"),
        (["--search-extra=corp.cluster.local"], "must be outside --domain and arpa"),
        (["--search-extra=" + ",".join(f"d{i}.example" for i in range(9))], '"d8.example": at most 8 domains'),
        (["--search-extra=."], "not a domain"),
        (["--search-resolver=127.0.0.1:10053", "--dns-port=10053", "--dns-bind-address=127.0.0.1"], "kubedns itself: a forwarding loop"),
        (["--search-resolver=192.0.2.1:53", "--resolver=192.0.2.2:53"], "use only one of them"),
    ],
)
def test_mistakes_are_refused_with_the_value_and_what_to_do(tmp_path, flags, said):
    done = subprocess.run([PROGRAM, "--check", f"--objects-dir={tmp_path}", *flags], capture_output=True, text=True, timeout=20, check=False)
    assert done.returncode != 0 and said in done.stderr, done.stderr
