"""Zones and names of your own, from the ConfigMap key `records`, in the front topology and in the classic topology."""

import os
import subprocess
from contextlib import closing

import dns.flags
import dns.query
import dns.rcode
import pytest
from asking import ask_until
from dnsnet import Upstream, query, udp
from kubedns_process import PROGRAM
from nanny_world import Server, World as NannyWorld, constant
from objects import namespace, service
from test_hosts import write
from test_relay import Dnsmasq
from world import Z, start

WORLD = [namespace("default"), service("web", "10.96.0.10"), service("out", "", type="ExternalName", externalName="alias.corp.example")]
RECORDS = f"""
$ORIGIN corp.example.
$TTL 1h
@      IN SOA ns hostmaster ( 2026112201 ; serial
              2h 30m 2w 60 )
       NS    ns
       MX    10 mail
ns     A     10.0.0.53
www    60 A  10.0.0.7
www    60 A  10.0.0.8
www    AAAA  2001:db8::7
alias  CNAME www
inside CNAME web.default.svc.{Z}.
away   CNAME www.elsewhere.example.
*.apps A     10.0.0.9
_x._tcp SRV  0 5 8443 www
mix    TXT   "a b" c
mix    TYPE65400 \\# 2 abcd
$ORIGIN other.example.
one    TXT   alone
*.many A     10.0.0.10
given.default.svc.{Z}. A 10.9.9.9
"""
ROWS = [
    ("www.corp.example", "A", ["10.0.0.7", "10.0.0.8"]),
    ("WWW.Corp.Example", "AAAA", ["2001:db8::7"]),
    ("corp.example", "SOA", ["ns.corp.example. hostmaster.corp.example. 2026112201 7200 1800 1209600 60"]),
    ("corp.example", "NS", ["ns.corp.example."]),
    ("corp.example", "MX", ["10 mail.corp.example."]),
    ("alias.corp.example", "A", ["10.0.0.7", "10.0.0.8", "www.corp.example."]),
    ("inside.corp.example", "A", ["10.96.0.10", f"web.default.svc.{Z}."]),
    ("any.apps.corp.example", "A", ["10.0.0.9"]),
    ("_x._tcp.corp.example", "SRV", ["0 5 8443 www.corp.example."]),
    ("mix.corp.example", "TXT", ['"a b" "c"']),
    ("mix.corp.example", "TYPE65400", ["\\# 2 abcd"]),
    ("one.other.example", "TXT", ['"alone"']),
    ("x.y.many.other.example", "A", ["10.0.0.10"]),
    (f"given.default.svc.{Z}", "A", ["10.9.9.9"]),
    (f"out.default.svc.{Z}", "A", ["10.0.0.7", "10.0.0.8", "alias.corp.example.", "www.corp.example."]),
]


def tcp(kubedns, message):
    return dns.query.tcp(message, "127.0.0.1", port=kubedns.port, timeout=30)


def answers(reply):
    return sorted(str(r) for rr in reply.answer for r in rr)


@pytest.fixture
def conf(tmp_path):
    directory = tmp_path / "conf"
    directory.mkdir()
    write(directory, RECORDS, "records")
    return directory


def test_each_name_has_its_records_and_a_zone_denies_the_rest(tmp_path, conf):
    with Upstream() as up, start(tmp_path, WORLD, f"--config-dir={conf}", f"--nameservers={up.address}") as k:
        k.wait_ready()
        for name, type_, wanted in ROWS:
            for way in (udp, tcp):
                assert answers(way(k, query(name, type_))) == sorted(wanted), (name, type_)
        reply = udp(k, query("no.corp.example"))
        assert reply.rcode() == dns.rcode.NXDOMAIN and reply.flags & dns.flags.AA
        assert (str(reply.authority[0].name), reply.authority[0].ttl) == ("corp.example.", 60)
        reply = udp(k, query("www.corp.example", "TXT"))
        assert reply.rcode() == dns.rcode.NOERROR and not reply.answer and str(reply.authority[0].name) == "corp.example."
        assert udp(k, query("www.corp.example")).answer[0].ttl == 60
        assert not up.asked
        for name in ("other.example", "x.one.other.example", "many.other.example", "example"):
            assert k.ask(name) == {"192.0.2.1"}
        reply = udp(k, query("away.corp.example"))
        assert [str(rr.name) for rr in reply.answer] == ["away.corp.example.", "www.elsewhere.example."] and answers(reply) == ["192.0.2.1", "www.elsewhere.example."]
        assert k.metric("kubedns_own_names", key="records") == 12
        for name, why in (("www.corp.example", "is in the ConfigMap's key records."), ("x.apps.corp.example", "matches *.apps.corp.example., in the ConfigMap's key records."),
                          ("no.corp.example", "does not exist in the zone corp.example. of the ConfigMap's key records."),
                          ("apps.corp.example", "has no records (NODATA) in the zone corp.example. of the ConfigMap's key records"),
                          ("mix.corp.example", 'mix.corp.example. 3600 TXT "a b" "c"\n')):  # fmt: skip
            got = k.http(f"/explain?name={name}")[1]
            assert f"{name}. {why}" in got or why in got, got


def test_what_does_not_fit_is_truncated_and_whole_over_tcp(tmp_path, conf):
    write(conf, "".join(f'big.example TXT "{i:0200}"\n' for i in range(100)), "records")
    with start(tmp_path, WORLD, f"--config-dir={conf}") as k:
        k.wait_ready()
        reply = udp(k, query("big.example", "TXT", use_edns=0, payload=1232))
        assert reply.flags & dns.flags.TC and len(reply.to_wire()) <= 1232
        assert len(answers(tcp(k, query("big.example", "TXT")))) == 100


def test_a_change_is_live_and_a_bad_key_keeps_the_last_good_records(tmp_path, conf):
    with start(tmp_path, WORLD, f"--config-dir={conf}") as k:
        k.wait_ready()
        write(conf, "www.corp.example A 10.0.0.1\n\nwww.corp.example A 10.0.0.300\n", "records")
        k.wait(lambda: k.metric("kubedns_config_error", key="records") == 1)
        assert 'records: line 3: "10.0.0.300": not an IPv4 address; keeping previous' in k.log()
        assert k.ask("www.corp.example") == {"10.0.0.7", "10.0.0.8"}
        write(conf, "www.corp.example A 10.0.0.1\n", "records")
        ask_until(k.port, "www.corp.example", "A", {"10.0.0.1"})
        assert k.metric("kubedns_config_error", key="records") == 0
        write(conf, "10.0.0.2 www.corp.example\n")
        ask_until(k.port, "www.corp.example", "A", {"10.0.0.2"})  # the key `hosts` overrides all records of this name
        os.unlink(conf / "hosts")
        ask_until(k.port, "www.corp.example", "A", {"10.0.0.1"})
        os.unlink(conf / "records")
        k.wait(lambda: k.metric("kubedns_own_names", key="records") == 0)


def test_a_stub_domain_that_comes_into_a_zone_takes_its_names(tmp_path, conf):
    with Upstream() as up, start(tmp_path, WORLD, f"--config-dir={conf}", f"--nameservers={up.address}") as k:
        k.wait_ready()
        assert udp(k, query("x.sub.corp.example")).rcode() == dns.rcode.NXDOMAIN
        write(conf, '{"sub.corp.example": ["192.0.2.53"]}', "stubDomains")
        ask_until(k.port, "x.sub.corp.example", "A", {"192.0.2.1"})
        os.unlink(conf / "stubDomains")
        k.wait(lambda: udp(k, query("x.sub.corp.example")).rcode() == dns.rcode.NXDOMAIN)


def test_check_says_what_is_wrong_with_a_line_and_no_file_is_read(tmp_path, conf):
    write(conf, f"a.example A 10.0.0.1\n$INCLUDE {tmp_path}/more\n", "records")
    (tmp_path / "more").write_text("b.example A 10.0.0.2\n")
    done = subprocess.run([PROGRAM, "--check", f"--objects-dir={tmp_path}", f"--config-dir={conf}"], capture_output=True, text=True, timeout=30)
    assert done.returncode == 2 and 'records: line 2: "$INCLUDE": not supported; write the file\'s lines here' in done.stderr


def test_wildcards_and_zones_in_zones_of_objects_have_no_effect(tmp_path, conf):
    write(conf, "*.apps.example A 10.0.0.6\nx.apps.example A 10.0.0.9\napps.example SOA ns.corp.example hostmaster 1 3600 600 86400 60\n", "records")
    with start(tmp_path, WORLD, f"--config-dir={conf}", "--external-zones=apps.example") as k:
        k.wait_ready()
        assert k.ask("y.apps.example") == "NXDOMAIN" and k.ask("x.apps.example") == {"10.0.0.9"}
        assert str(udp(k, query("apps.example", "SOA")).answer[0][0].mname) == "ns.dns.apps.example."
        assert k.log().count("line 1: \"*.apps.example.\": is in --external-zones, whose names come from objects: a wildcard has no effect there") == 1
        write(conf, "10.0.0.1 y.example\n", "hosts")  # change another key
        k.wait(lambda: k.ask("y.example") == {"10.0.0.1"})
        assert k.log().count("is in --external-zones") == 1


def test_records_that_have_no_effect_in_zones_of_objects_are_named_by_line(tmp_path, conf):
    """A bug: --check printed no message about a wildcard or a separate zone in a zone of objects, although kubedns ignores both."""
    write(conf, """www.apps.example A 10.0.0.1
*.apps.example A 10.0.0.6
apps.example SOA ns hostmaster 1 3600 600 86400 60
apps.example NS ns.apps.example
*.clusterset.local A 10.0.0.7
*.example A 10.0.0.8
""", "records")

    def check():
        command = [PROGRAM, "--check", f"--objects-dir={tmp_path}", f"--config-dir={conf}", "--external-zones=apps.example", "--clusterset-domain=clusterset.local"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=30)
        assert done.returncode == 0 and "0 mistakes" in done.stderr, done.stderr
        return [line.partition("warning: ")[2] for line in done.stderr.splitlines() if ": records: " in line]

    where = f"conf {conf}: records: line"
    there = "is in --external-zones, whose names come from objects:"
    assert check() == [f'{where} 2: "*.apps.example.": {there} a wildcard has no effect there; write the names (4 such records)']
    write(conf, "apps.example SOA ns hostmaster 1 3600 600 86400 60\n", "records")
    assert check() == [f'{where} 1: "apps.example.": {there} the zone has its own SOA record; remove this one (1 such record)']
    write(conf, "*.a.clusterset.local A 10.0.0.7\n", "records")
    assert "--clusterset-domain" in check()[0]
    write(conf, "www.apps.example A 10.0.0.1\n*.example A 10.0.0.8\n", "records")
    assert check() == []


def test_print_zone_has_those_of_the_zone(tmp_path, conf):
    write(conf, f"""$ORIGIN default.svc.{Z}.\nx TXT "a\\"b" c\nx MX 10 y\nx CAA 0 issue "z"\nx HTTPS 1 . alpn=h2\nx TYPE65400 \\# 1 ff\nout.example. TXT no\n""", "records")
    with start(tmp_path, WORLD):
        pass
    printed = subprocess.run([PROGRAM, "--print-zone", f"--objects-dir={tmp_path}/objects", f"--config-dir={conf}"], capture_output=True,
                             text=True, timeout=30, check=True).stdout  # fmt: skip
    for line in ('TXT "a\\"b" "c"', f"MX 10 y.default.svc.{Z}.", 'CAA 0 issue "z"', "HTTPS \\# 10 00010000010003026832", "TYPE65400 \\# 1 ff"):
        assert f"\nx.default.svc.{Z}. 30 IN {line}\n" in printed, printed
    assert "out.example" not in printed
    (tmp_path / "zone").write_text(printed)
    subprocess.run(["named-checkzone", "-q", Z, tmp_path / "zone"], check=True, timeout=30)


def test_front_kubedns_answers_and_dnsmasq_is_not_asked(tmp_path, conf):
    with Upstream() as up, Dnsmasq(up) as d, start(tmp_path, WORLD, f"--config-dir={conf}", f"--resolver={d.address}") as k:
        k.wait_ready()
        for name, type_, wanted in ROWS:
            assert answers(udp(k, query(name, type_))) == sorted(wanted), (name, type_)
        assert udp(k, query("no.corp.example")).rcode() == dns.rcode.NXDOMAIN and not up.asked
        assert k.ask("away.corp.example") == {"www.elsewhere.example.", "192.0.2.1"}
        assert k.ask("other.example") == {"192.0.2.1"}


def test_classic_dnsmasq_asks_kubedns_for_these_names(tmp_path):
    """The real nanny with the real dnsmasq reads the same ConfigMap as kubedns."""
    with Upstream() as up, closing(Server(constant("10.1.1.1"))) as lab, closing(NannyWorld()) as w, \
            start(tmp_path, WORLD, f"--config-dir={w.conf}", f"--nameservers={up.address}") as k:  # fmt: skip
        w.write(records=RECORDS, stubDomains={"sub.corp.example": [str(lab)], "many.other.example": [str(lab)]}, upstreamNameservers=[up.address])
        k.wait_ready()
        kubedns = f"127.0.0.1#{k.port}"
        k.wait(lambda: k.metric("kubedns_own_names", key="records") == 12)
        w.start(args=["-k", "--cache-size=1000", "--no-hosts", "--log-facility=-", f"--server=/{Z}/{kubedns}"])
        ask_until(w.port, "www.corp.example", "A", {"10.0.0.7", "10.0.0.8"})
        for name, type_, wanted in ROWS:
            assert answers(dns.query.udp(query(name, type_), "127.0.0.1", port=w.port, timeout=30)) == sorted(wanted), (name, type_)
        reply = dns.query.udp(query("no.corp.example"), "127.0.0.1", port=w.port, timeout=30)
        assert reply.rcode() == dns.rcode.NXDOMAIN and str(reply.authority[0].name) == "corp.example."
        assert not up.asked
        ask_until(w.port, "x.sub.corp.example", "A", {"10.1.1.1"})
        ask_until(w.port, "many.other.example", "A", {"10.1.1.1"})  # the records contain a wildcard below this name, but not this name itself
        ask_until(w.port, "other.example", "A", {"192.0.2.1"})
        assert w.config()["keys"]["records"]["inForce"] == ["*.apps.corp.example", "*.many.other.example", "corp.example", "one.other.example"]
        w.write(records="two.other.example A 10.0.0.2\n", upstreamNameservers=[up.address])
        k.wait(lambda: k.metric("kubedns_own_names", key="records") == 1)
        w.wait_config(lambda c: c["keys"]["records"]["inForce"] == ["two.other.example"] and c["confirmed"])
        ask_until(w.port, "two.other.example", "A", {"10.0.0.2"})
        ask_until(w.port, "new.corp.example", "A", {"192.0.2.1"})


def test_both_programs_refuse_the_same(tmp_path):
    with closing(NannyWorld()) as w:
        w.write(records="a.example DS 1 2 3 00\n", upstreamNameservers=["192.0.2.53"])
        w.start(args=["-k", "--no-hosts", "--log-facility=-", f"--server=/{Z}/127.0.0.1#9"])
        (refused,) = w.config()["refused"]
        assert refused["key"] == "records" and refused["reason"] == 'line 1: "DS": is for signed zones, which kubedns does not have'
