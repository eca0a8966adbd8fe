"""Candidates of a search list at other servers: the cache of answers, the upstream servers behind dnsmasq, clients that may not see every namespace."""

import dns.flags
import dns.rcode
from dnsnet import Tcp, Upstream, query, udp
from outside_names import addresses, alias, asked
from test_answer_cache import CACHE, resolver
from test_answer_cache import front as front_with_clock
from test_relay import failing, front, no_such_name, stub_world
from test_tenants import ARGS, MINE, OTHERS, SECRET, ZONE, nothing, two_tenants
from waiting import free_port
from world import Z, start


def test_a_walk_is_its_steps(tmp_path):
    """
    Search completion of declared and inferred names uses cached answers. If the answer for a candidate is not in the cache, kubedns
    forwards the query and then continues.
    """
    with Upstream(resolver) as u, front_with_clock(tmp_path, u, CACHE, "--search-completion=inferred", "--search-extra=corp.test") as k:
        walks = [f"www.example.com.default.s.{Z}", f"www.example.com.default.svc.{Z}", f"www.example.com.prod.s.{Z}"]
        for name in walks:
            reply = udp(k, query(name))
            assert addresses(reply) == ["192.0.2.1"] and alias(reply)[0] == "www.example.com"
        assert asked(u) == [("www.example.com.corp.test", "A"), ("www.example.com", "A")]
        assert addresses(udp(k, query("api.example.com"))) == ["192.0.2.1"]
        del u.asked[:]
        reply = udp(k, query(f"api.example.com.default.s.{Z}"))
        assert addresses(reply) == ["192.0.2.1"] and asked(u) == [("api.example.com.corp.test", "A")]
        for name in (f"none.example.org.default.s.{Z}", f"none.example.org.prod.s.{Z}"):
            assert udp(k, query(name)).rcode() == dns.rcode.NXDOMAIN
        assert [n for n, _ in asked(u)[1:]] == ["none.example.org.corp.test", "none.example.org"]
        assert k.metric("kubedns_search_completed_total", form="declared", result="found") == 3
        assert k.metric("kubedns_search_completed_total", form="inferred", result="found") == 1


def test_a_search_list_does_not_lead_a_query_at_the_upstream_servers_to_a_name_of_a_stub_domain(tmp_path):
    """dnsmasq fails one candidate. The upstream servers say that this name does not exist. The next candidate is in a stub domain."""
    with Upstream(failing) as bad, Upstream(no_such_name) as good:
        with front(tmp_path, bad, f"--nameservers={good.address}", "--search-extra=lan.example", *stub_world(tmp_path)) as k:
            reply = udp(k, query("db.corp.example.default.s.cluster.local"))
            assert reply.rcode() == dns.rcode.SERVFAIL
            assert [str(m.question[0].name) for m, _, _ in good.asked] == ["db.corp.example.lan.example."]


def test_a_restart_of_the_resolver_is_waited_out_after_a_candidate_that_needed_tcp(tmp_path):
    """The first candidate of a search list is truncated over UDP. The resolver is then restarted while the next candidate waits for its answer."""

    def truncated_or_silent(request, tcp):
        if not str(request.question[0].name).endswith(".lan.example."):
            return None
        reply = no_such_name(request, tcp)
        if not tcp:
            reply.flags |= dns.flags.TC
        return reply

    port = free_port()
    with Upstream() as good, front(tmp_path, f"127.0.0.1:{port}", f"--nameservers={good.address}", "--search-extra=lan.example") as k:
        with Tcp(k) as conn:
            with Upstream(truncated_or_silent, port=port) as u:
                conn.send(query("www.example.com.default.s.cluster.local"))
                k.wait(lambda: "www.example.com." in [str(m.question[0].name) for m, _, _ in u.asked])
                assert {tcp for m, _, tcp in u.asked if "lan.example" in str(m.question[0].name)} == {False, True}
            k.wait(lambda: k.metric("kubedns_forward_server_failures_total") >= 8)  # refused, every 50 ms
            with Upstream(port=port):
                assert addresses(conn.read())[-1:] == ["192.0.2.1"]
        assert good.asked == [] and k.metric("kubedns_forward_in_flight") == 0


def test_an_outside_step_of_a_walk_does_not_lose_the_client(tmp_path):
    """
    The candidates in the zone are hidden from the client. The upstream server answers NXDOMAIN for the external candidate. kubedns then
    looks up the next candidate for the same client.
    """
    rewrite = tmp_path / "config"
    rewrite.mkdir()
    (rewrite / "rewrites").write_text(f"exact only-there.{SECRET}.example.org only-there.{SECRET}.svc.{ZONE}\n")
    extra = ("--search-extra=example.net,example.org", f"--config-dir={rewrite}")
    with Upstream(nothing) as u, start(tmp_path, two_tenants(), *ARGS, f"--nameservers={u.address}", *extra) as k:
        k.wait_ready()
        for source, rcode in ((MINE, dns.rcode.NXDOMAIN), (OTHERS, dns.rcode.NOERROR)):
            assert udp(k, query(f"only-there.{SECRET}.absent.s.{ZONE}"), source=source).rcode() == rcode
            assert udp(k, query(f"only-there.{SECRET}.example.org"), source=source).rcode() == rcode
