"""Names that kubedns looks up under another name, from the ConfigMap key `rewrites`: kubedns alone, in the classic topology and in the front topology."""

import os
import subprocess
from contextlib import closing

import dns.message
import dns.rcode
import dns.rrset
import pytest
from asking import ask_until
from dnsnet import Upstream, query, udp
from kubedns_process import PROGRAM
from nanny_world import World as NannyWorld
from objects import endpoint_slice, namespace, service
from test_hosts import write
from test_relay import Dnsmasq
from waiting import free_port
from world import Z, ask, expect, start

WORLD = [namespace("default"), namespace("prod"), service("web", "10.96.0.10"), service("db", "None", ns="prod"),
         endpoint_slice("db", ["10.1.0.1", "10.1.0.2"], ns="prod", hostnames=["db-0", "db-1"]),
         service("out", "", type="ExternalName", externalName="www.example.net")]  # fmt: skip
REWRITES = rf"""
# asked              looked up
exact  db.example     db.prod.svc.{Z}
exact  out.example    out.default.svc.{Z}
exact  web.example    www.example.net
exact  gone.example   nothing.default.svc.{Z}
exact  web.prod.svc.{Z} web.default.svc.{Z}
exact  host.example   own.example
suffix old.example    new.example
suffix sub.old.example svc.{Z}
exact  a.old.example  web.default.svc.{Z}
regex  (.+)\.(dev|stage)\.example {{1}}.default.svc.{Z}
regex  (a|aa)+[xy]    slow.example
"""


def there(request, _tcp):
    """An external server. It has an address for every name, a special one for www.example.net, and an MX with a compressed name."""
    name = request.question[0].name.to_text().lower()
    reply = dns.message.make_response(request, recursion_available=True)
    if name.startswith("no."):
        reply.set_rcode(dns.rcode.NXDOMAIN)
    elif request.question[0].rdtype == 15:
        reply.answer.append(dns.rrset.from_text(name, 60, "IN", "MX", f"10 mail.{name}"))
    elif request.question[0].rdtype == 1:
        reply.answer.append(dns.rrset.from_text(name, 60, "IN", "CNAME", "edge.example.org."))
        reply.answer.append(dns.rrset.from_text("edge.example.org.", 60, "IN", "A", "192.0.2.80" if name == "www.example.net." else "192.0.2.1"))
    return reply


@pytest.fixture
def conf(tmp_path):
    directory = tmp_path / "conf"
    directory.mkdir()
    write(directory, REWRITES, "rewrites")
    write(directory, "10.9.9.9 own.example\n")
    return directory


# The query's name and type, and the expected answer section: owner, type and data of each record.
ROWS = [
    ("DB.example", "A", ["DB.example. A 10.1.0.1", "DB.example. A 10.1.0.2"]),
    ("db.example", "AAAA", []),
    ("_http._tcp.db.example", "SRV", "FORWARDED"),  # "exact" applies to this name only
    ("db.example", "SRV", [f"db.example. SRV 0 50 80 db-{i}.db.prod.svc.{Z}." for i in range(2)]),
    ("out.example", "A", ["out.example. CNAME www.example.net.", "www.example.net. CNAME edge.example.org.", "edge.example.org. A 192.0.2.80"]),
    ("web.example", "A", ["web.example. CNAME edge.example.org.", "edge.example.org. A 192.0.2.80"]),
    ("web.example", "MX", ["web.example. MX 10 mail.www.example.net."]),
    ("host.example", "A", ["host.example. A 10.9.9.9"]),
    ("host.example", "AAAA", []),
    (f"web.prod.svc.{Z}", "A", [f"web.prod.svc.{Z}. A 10.96.0.10"]),
    ("x.old.example", "MX", ["x.old.example. MX 10 mail.x.new.example."]),
    ("old.example", "MX", ["old.example. MX 10 mail.new.example."]),
    ("a.old.example", "A", ["a.old.example. A 10.96.0.10"]),  # an exact rule is preferred to a suffix rule
    ("web.default.sub.old.example", "A", ["web.default.sub.old.example. A 10.96.0.10"]),  # the longest suffix wins
    ("notold.example", "A", "FORWARDED"),  # a suffix must begin at a label boundary
    ("web.dev.example", "A", ["web.dev.example. A 10.96.0.10"]),
    ("web.dev.example.org", "A", "FORWARDED"),  # a pattern must match the whole name
    ("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "A", "FORWARDED"),  # matching this pattern would take forever, so kubedns gives up
]


def records(reply):
    return [f"{r.name} {rd.rdtype.name} {rd.to_text()}" for r in reply.answer for rd in r]


def test_each_name_is_answered_under_its_own_name(tmp_path, conf):
    with Upstream(there) as up, start(tmp_path, WORLD, f"--config-dir={conf}", f"--nameservers={up.address}") as k:
        k.wait_ready()
        for name, type_, wanted in ROWS:
            reply = udp(k, query(name, type_))
            assert reply.rcode() == dns.rcode.NOERROR, reply
            if wanted == "FORWARDED":
                assert str(up.asked[-1][0].question[0].name) == name + ".", name
                continue
            assert sorted(records(reply)) == sorted(wanted), reply
            tcp = ask(k, name, type_, tcp=True)
            assert sorted(records(tcp)) == sorted(wanted), tcp
        reply = udp(k, query("gone.example"))
        expect(reply, "NXDOMAIN")
        # The target's zone is not above the queried name, so the queried name is the owner of the SOA.
        assert reply.authority[0].name.to_text() == "gone.example."
        assert k.ask("no.old.example") == "NXDOMAIN" and str(up.asked[-1][0].question[0].name) == "no.new.example."
        assert k.metric("kubedns_rewrites") == 11
        assert k.metric("kubedns_rewrite_limit_total") >= 1
        why = k.http("/explain?name=db.example")[1]
        assert f"db.example. is looked up as db.prod.svc.{Z}. (ConfigMap key rewrites)." in why and "10.1.0.1" in why, why


def test_a_change_is_live_and_a_bad_pattern_keeps_the_last_good_rewrites(tmp_path, conf):
    with start(tmp_path, WORLD, f"--config-dir={conf}", "--config-period=1s") as k:
        k.wait_ready()
        assert k.ask("a.old.example") == {"10.96.0.10"}
        write(conf, "regex (a b.example\nexact a.example b.example\n", "rewrites")
        k.wait(lambda: k.metric("kubedns_config_error", key="rewrites") == 1)
        assert "rewrites: line 1: the pattern, at character 3: missing closing parenthesis; keeping previous" in k.log(), k.log()
        assert k.ask("a.old.example") == {"10.96.0.10"}
        for i in range(20):  # each replacement frees the old rules while queries arrive
            write(conf, f"exact n{i}.example web.default.svc.{Z}\nregex (x+){i}.example web.default.svc.{Z}\n", "rewrites")
            ask_until(k.port, f"n{i}.example", "A", {"10.96.0.10"})
            assert k.ask(f"xx{i}.example") == {"10.96.0.10"}
        os.unlink(conf / "rewrites")
        k.wait(lambda: k.metric("kubedns_rewrites") == 0)


def test_check_says_what_is_wrong_with_a_line(tmp_path, conf):
    write(conf, "exact a.example\n", "rewrites")
    done = subprocess.run([PROGRAM, "--check", f"--objects-dir={tmp_path}", f"--config-dir={conf}"], capture_output=True, text=True, timeout=30)
    assert done.returncode == 2 and 'rewrites: line 1: "exact": must be followed by the queried name and the name that replaces it' in done.stderr


def test_front_the_other_name_goes_to_dnsmasq(tmp_path, conf):
    with Upstream(there) as up, Dnsmasq(up) as d, start(tmp_path, WORLD, f"--config-dir={conf}", f"--resolver={d.address}") as k:
        k.wait_ready()
        reply = udp(k, query("web.example"))
        assert sorted(records(reply)) == ["edge.example.org. A 192.0.2.80", "web.example. CNAME edge.example.org."]
        assert k.ask("db.example") == {"10.1.0.1", "10.1.0.2"}


def test_classic_dnsmasq_asks_kubedns_for_exact_names_and_suffixes(tmp_path):
    with Upstream(there) as up, closing(NannyWorld()) as w, start(tmp_path, WORLD, f"--config-dir={w.conf}", f"--nameservers={up.address}") as k:
        w.write(rewrites=REWRITES, upstreamNameservers=[up.address])
        k.wait_ready()
        k.wait(lambda: k.metric("kubedns_rewrites") == 11)
        kubedns = f"127.0.0.1#{k.port}"
        w.start(args=["-k", "--cache-size=1000", "--no-hosts", "--log-facility=-", f"--server=/{Z}/{kubedns}"])
        ask_until(w.port, "db.example", "A", {"10.1.0.1", "10.1.0.2"})
        ask_until(w.port, "web.default.sub.old.example", "A", {"10.96.0.10"})
        ask_until(w.port, f"web.prod.svc.{Z}", "A", {"10.96.0.10"})
        assert not up.asked
        assert "192.0.2.80" in {r.rpartition(" ")[2] for r in records(dns.query.udp(query("web.example"), "127.0.0.1", 5, w.port))}
        w.wait_log("rewrites: 2 patterns apply only to names that dnsmasq sends to kubedns")


@pytest.mark.parametrize(("rewrites", "name", "asked"), [
    ("suffix example.com int.example.com", "www.example.com", "www.int.example.com."),
    ("exact a.example b.example\nexact b.example a.example", "a.example", "b.example."),
    ("exact a.example b.example\nexact b.example c.example", "a.example", "b.example."),
    ("exact www.example.net other.example", f"out.default.svc.{Z}", "www.example.net."),  # the rule's name is the target of an alias
])  # fmt: skip
def test_classic_search_resolver_does_not_loop_on_a_rewritten_name(tmp_path, rewrites, name, asked):
    port, directory = free_port(), tmp_path / "conf"
    directory.mkdir()
    write(directory, rewrites, "rewrites")
    with Upstream(there) as up, start(tmp_path, WORLD, f"--config-dir={directory}", f"--nameservers={up.address}", "--threads=1",
                                      f"--search-resolver=127.0.0.1:{port}") as k:  # fmt: skip
        k.wait_ready()
        domains = {Z, *(line.split()[1] for line in rewrites.splitlines())}
        servers = [f"--server=/{domain}/127.0.0.1#{k.port}" for domain in domains]
        with Dnsmasq(up, port=port, args=("--cache-size=1000", *servers)) as d:
            reply = dns.query.udp(query(name), d.host, 5, d.port)
            assert reply.rcode() == dns.rcode.NOERROR and "edge.example.org. A" in " ".join(records(reply)), reply
            assert [str(m.question[0].name) for m, _, _ in up.asked] == [asked]
            assert k.metric("kubedns_forward_queries_total") == 1


def test_classic_a_stub_domain_is_asked_for_what_a_name_is_rewritten_to(tmp_path):
    port, directory = free_port(), tmp_path / "conf"
    directory.mkdir()
    write(directory, "suffix example.com int.example.com", "rewrites")
    with Upstream(there) as up, Upstream(there) as stub:
        write(directory, f'{{"int.example.com": ["{stub.address}"]}}', "stubDomains")
        with start(tmp_path, WORLD, f"--config-dir={directory}", f"--nameservers={up.address}", f"--search-resolver=127.0.0.1:{port}") as k:
            k.wait_ready()
            servers = (f"--server=/{Z}/example.com/127.0.0.1#{k.port}", f"--server=/int.example.com/127.0.0.1#{stub.port}")
            with Dnsmasq(up, port=port, args=servers) as d:
                reply = dns.query.udp(query("www.example.com"), d.host, 5, d.port)
                assert "edge.example.org. A 192.0.2.1" in records(reply), reply
                assert [str(m.question[0].name) for m, _, _ in stub.asked] == ["www.int.example.com."] and not up.asked
