"""Names of your own, from the ConfigMap key `hosts`, in the front topology and in the classic topology."""

import os
import subprocess
from contextlib import closing

import dns.flags
import pytest
from asking import ask_until
from dnsnet import Upstream, query, udp
from kubedns_process import PROGRAM
from nanny_world import Server, World as NannyWorld, constant
from objects import namespace, service
from test_relay import Dnsmasq
from world import Z, expect, start

WORLD = [namespace("default"), service("web", "10.96.0.10"), service("out", "", type="ExternalName", externalName="db.example")]
HOSTS = """
# the data base
10.0.0.5   db.example   DB2.example.  # two names
2001:db8::5\tdb.example
10.0.0.6   db.example
10.9.9.9   legacy.default.svc.cluster.local web.default.svc.cluster.local
"""


def write(directory, text, key="hosts"):
    """Writes the file as an editor does: to a temporary file that is then renamed."""
    (directory / f".{key}").write_text(text)
    os.rename(directory / f".{key}", directory / key)


@pytest.fixture
def conf(tmp_path):
    directory = tmp_path / "conf"
    directory.mkdir()
    write(directory, HOSTS)
    return directory


ROWS = [
    ("db.example", "A", {"answer": ["10.0.0.5", "10.0.0.6"]}),
    ("DB.Example", "AAAA", {"answer": ["2001:db8::5"]}),
    ("db2.example", "A", {"answer": ["10.0.0.5"]}),
    ("db2.example", "AAAA", {}),  # the name exists: NODATA
    ("db.example", "MX", {}),
    ("db.example", "ANY", {"answer": ['"RFC8482" ""']}),
    ("5.0.0.10.in-addr.arpa", "PTR", {"answer": ["db.example.", "db2.example."]}),
    ("5.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa", "PTR", {"answer": ["db.example."]}),
    (f"legacy.default.svc.{Z}", "A", {"answer": ["10.9.9.9"]}),
    (f"web.default.svc.{Z}", "A", {"answer": ["10.9.9.9"]}),  # overrides the cluster's own name
    (f"_http._tcp.web.default.svc.{Z}", "SRV", {"answer": [f"0 100 80 web.default.svc.{Z}."]}),
    (f"out.default.svc.{Z}", "A", {"answer": ["10.0.0.5", "10.0.0.6"], "type_": "A"}),  # the target of an alias
]


def test_each_name_has_its_addresses_and_each_address_its_names(tmp_path, conf):
    with Upstream() as up, start(tmp_path, WORLD, f"--config-dir={conf}", f"--nameservers={up.address}") as k:
        k.wait_ready()
        for name, type_, wanted in ROWS:
            expect(udp(k, query(name, type_)), **wanted)
        assert not up.asked
        assert k.ask("x.db.example") == {"192.0.2.1"} and len(up.asked) == 1  # the key `hosts` creates no zone, so kubedns forwards names below
        assert udp(k, query("db.example")).flags & dns.flags.AA
        assert k.metric("kubedns_own_names", key="hosts") == 4 + 4
        for name in ("db.example", f"web.default.svc.{Z}", "5.0.0.10.in-addr.arpa"):
            why = k.http(f"/explain?name={name}")[1]
            assert f"{name}. is in the ConfigMap's key hosts." in why, why


def test_a_change_is_live_and_a_bad_key_keeps_the_last_good_names(tmp_path, conf):
    with start(tmp_path, WORLD, f"--config-dir={conf}") as k:
        k.wait_ready()
        assert k.ask("db2.example") == {"10.0.0.5"}
        write(conf, "10.0.0.7 db2.example\n10.0.0.300 x.example\n")
        k.wait(lambda: k.metric("kubedns_config_error", key="hosts") == 1)
        assert 'hosts: line 2: "10.0.0.300": not an address; a line is an address and its names; keeping previous' in k.log()
        assert k.ask("db2.example") == {"10.0.0.5"}
        write(conf, "10.0.0.7 db2.example\n")
        ask_until(k.port, "db2.example", "A", {"10.0.0.7"})
        assert k.ask("db.example") != {"10.0.0.5"} and k.metric("kubedns_config_error", key="hosts") == 0
        os.unlink(conf / "hosts")
        k.wait(lambda: k.metric("kubedns_own_names", key="hosts") == 0)


def test_check_says_what_is_wrong_with_a_line(tmp_path, conf):
    write(conf, "10.0.0 db.example\n")
    done = subprocess.run([PROGRAM, "--check", f"--objects-dir={tmp_path}", f"--config-dir={conf}"], capture_output=True, text=True, timeout=30)
    assert done.returncode == 2 and 'hosts: line 1: "10.0.0": not an address; a line is an address and its names' in done.stderr


def test_check_accepts_a_copied_hosts_file_and_names_ignored_lines(tmp_path, conf):
    write(conf, "127.0.0.1 localhost\nfe80::1%lo0 localhost\n10.0.0.5\n::ffff:10.0.0.3 db.example\n")
    done = subprocess.run([PROGRAM, "--check", f"--objects-dir={tmp_path}", f"--config-dir={conf}"], capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr
    assert 'hosts: line 2: "fe80::1%lo0": is an address of one interface: ignored (2 such lines)' in done.stderr, done.stderr


def test_print_zone_has_those_of_the_zone(tmp_path, conf):
    with start(tmp_path, WORLD):
        pass
    printed = subprocess.run([PROGRAM, "--print-zone", f"--objects-dir={tmp_path}/objects", f"--config-dir={conf}"], capture_output=True,
                             text=True, timeout=30, check=True).stdout  # fmt: skip
    assert f"legacy.default.svc.{Z}. 30 IN A 10.9.9.9\n" in printed and f"\nweb.default.svc.{Z}. 30 IN A 10.9.9.9\n" in printed
    assert "10.96.0.10" not in printed and "db.example. " not in printed
    write(conf, f"10.0.0.1 {Z}\n")  # the zone's apex
    printed = subprocess.run([PROGRAM, "--print-zone", f"--objects-dir={tmp_path}/objects", f"--config-dir={conf}"], capture_output=True,
                             text=True, timeout=30, check=True).stdout  # fmt: skip
    assert printed.startswith(f"{Z}. 30 IN SOA ns.dns.{Z}. ") and f"\n{Z}. 30 IN A 10.0.0.1\n" in printed


def test_front_kubedns_answers_and_dnsmasq_is_not_asked(tmp_path, conf):
    with Upstream() as up, Dnsmasq(up) as d, start(tmp_path, WORLD, f"--config-dir={conf}", f"--resolver={d.address}") as k:
        k.wait_ready()
        assert k.ask("db2.example") == {"10.0.0.5"} and not up.asked
        assert k.ask("www.example") == {"192.0.2.1"}


def test_classic_dnsmasq_asks_kubedns_for_these_names(tmp_path, conf):
    """The real nanny with the real dnsmasq reads the same ConfigMap as kubedns. kubedns forwards queries for names below these names."""
    with Upstream() as up, closing(NannyWorld()) as w, start(tmp_path, WORLD, f"--config-dir={w.conf}", f"--nameservers={up.address}") as k:
        w.write(hosts=HOSTS, upstreamNameservers=[up.address])
        k.wait_ready()
        kubedns = f"127.0.0.1#{k.port}"
        k.wait(lambda: k.metric("kubedns_own_names", key="hosts") == 8)
        w.start(args=["-k", "--cache-size=1000", "--no-hosts", "--log-facility=-", f"--server=/{Z}/{kubedns}", f"--server=/in-addr.arpa/{kubedns}"])
        ask_until(w.port, "db2.example", "A", {"10.0.0.5"})
        ask_until(w.port, "5.0.0.10.in-addr.arpa", "PTR", {"db.example.", "db2.example."})
        ask_until(w.port, f"legacy.default.svc.{Z}", "A", {"10.9.9.9"})
        assert not up.asked
        ask_until(w.port, "x.db2.example", "A", {"192.0.2.1"})
        assert w.config()["keys"]["hosts"]["inForce"] == ["db.example", "db2.example"]
        w.write(hosts="10.0.0.7 db2.example\n10.0.0.8 db3.example\n", upstreamNameservers=[up.address])
        # Queries begin after both programs have read the new file. An earlier answer could be old and would stay in dnsmasq's cache for its
        # TTL.
        k.wait(lambda: k.metric("kubedns_own_names", key="hosts") == 4)
        w.wait_config(lambda c: c["keys"]["hosts"]["inForce"] == ["db2.example", "db3.example"] and c["confirmed"])
        ask_until(w.port, "db3.example", "A", {"10.0.0.8"})
        ask_until(w.port, "db2.example", "A", {"10.0.0.7"})
        ask_until(w.port, "db.example", "A", {"192.0.2.1"})


def test_classic_names_below_a_local_name_go_to_the_stub_domain(tmp_path):
    """Uses the real dnsmasq. The test removes and adds the stub domain of the name's parent."""
    with Upstream() as up, closing(Server(constant("10.1.1.1"))) as corp, closing(NannyWorld()) as w, \
            start(tmp_path, WORLD, f"--config-dir={w.conf}", f"--nameservers={up.address}") as k:  # fmt: skip
        keys = {"hosts": "10.0.0.5 example.corp\n", "upstreamNameservers": [up.address]}
        w.write(stubDomains={"corp": [str(corp)]}, **keys)
        k.wait_ready()
        w.start(args=["-k", "--cache-size=0", "--no-hosts", "--log-facility=-", f"--server=/{Z}/127.0.0.1#{k.port}"])
        ask_until(w.port, "example.corp", "A", {"10.0.0.5"})
        for name in ("db.example.corp", "x.db.example.corp", "other.corp", "myexample.corp"):
            ask_until(w.port, name, "A", {"10.1.1.1"})
        assert not up.asked
        w.write(**keys)
        w.wait_config(lambda c: c["keys"]["stubDomains"]["inForce"] == {} and c["confirmed"])
        ask_until(w.port, "db.example.corp", "A", {"192.0.2.1"})
        ask_until(w.port, "example.corp", "A", {"10.0.0.5"})
        w.write(stubDomains={"corp": [str(corp)]}, **keys)
        w.wait_config(lambda c: c["keys"]["stubDomains"]["inForce"] and c["confirmed"])
        ask_until(w.port, "db.example.corp", "A", {"10.1.1.1"})
        ask_until(w.port, "example.corp", "A", {"10.0.0.5"})


def test_behind_kubedns_the_nanny_writes_no_line_for_them():
    """In the front topology kubedns answers these names itself, so queries for them never reach dnsmasq."""
    with closing(NannyWorld()) as w:
        w.write(hosts=HOSTS, upstreamNameservers=["192.0.2.53"])
        w.start()
        assert w.file() == ["server=192.0.2.53#53"]


def test_a_name_that_is_a_stub_domain_too_keeps_its_servers():
    with closing(NannyWorld()) as w:
        w.write(hosts="10.0.0.5 a.example b.example\n", stubDomains={"a.example": ["192.0.2.1"]}, upstreamNameservers=["192.0.2.53"])
        w.start(args=["-k", "--no-hosts", "--log-facility=-", f"--server=/{Z}/127.0.0.1#10053"])
        assert "server=/b.example/127.0.0.1#10053" in w.file() and "server=/a.example/127.0.0.1#10053" not in w.file()
        w.wait_log("local name a.example is also a stub domain: queries for it go to the stub domain's servers, not to kubedns")


def test_what_the_nanny_says_of_many_names_is_read_by_the_sidecar():
    """The sidecar reads at most 64 KiB of /config (sidecar/containers/container_status.h). If a nanny sends more, the sidecar reports the nanny as down."""
    with closing(NannyWorld()) as w:
        w.write(hosts="".join(f"10.1.{i // 250}.{i % 250} name-{i:05}.example\n" for i in range(10000)), upstreamNameservers=["192.0.2.53"])
        w.start(args=["-k", "--no-hosts", "--log-facility=-", f"--server=/{Z}/127.0.0.1#9"])
        status, text = w.get("/config")
        assert status == 200 and len(text) < 64 * 1024
        config = w.config()
        assert config["keys"]["hosts"]["count"] == 10000
        assert config["keys"]["hosts"]["inForce"] == [f"name-{i:05}.example" for i in range(200)]
        assert config["fileDomains"] == 10001 and 50 < len(config["file"]) < 10001
        assert len(w.file()) == 10001


def test_what_the_nanny_says_of_many_stub_domains_is_read_by_the_sidecar():
    """As above, with stub domains. With 500 stub domains an unlimited page would reach 64 KiB."""
    with closing(NannyWorld()) as w:
        stubs = {f"stub-{i:05}.example": ["192.0.2.1", "[2001:db8::1]:5353"] + [f"ns-{i}.example"] * (i < 900) for i in range(5000)}
        w.write(stubDomains=stubs, upstreamNameservers=["192.0.2.53"])
        w.start(args=["-k", "--no-hosts", "--log-facility=-", f"--server=/{Z}/127.0.0.1#9"])
        status, text = w.get("/config")
        assert status == 200 and len(text) < 64 * 1024
        config = w.config()
        key = config["keys"]["stubDomains"]
        assert key["count"] == 5000 and 50 < len(key["inForce"]) < 500
        assert list(key["inForce"]) == [f"stub-{i:05}.example" for i in range(len(key["inForce"]))]
        assert key["inForce"]["stub-00001.example"] == ["192.0.2.1:53", "[2001:db8::1]:5353", "ns-1.example:53"]
        assert config["nameCount"] == 900 and 10 < len(config["names"]) < 100
