"""Transfers of external zones, of the zone of a cluster set and of the reverse zones, and of records of the operator."""

import subprocess

import dns.name
import dns.query
import dns.rcode
import dns.rdatatype
import dns.xfr
import dns.zone
import pytest
from api_world import OWN
from apiserver import ApiServer
from asking import NXDOMAIN
from hurry import hurried
from kubedns_process import PROGRAM
from objects import endpoint_slice, namespace, service
from test_clusterset import SET, WORLD, ZONE as CLUSTERSET, imported, kubedns, slice_of
from test_external import ZONE, ZONES, balanced, exchange, gateway, ingress, route
from test_hosts import write as write_key
from test_transfer import Listener, transferred
from waiting import free_port
from world import Z, start, write


@pytest.fixture
def api():
    with ApiServer() as server:
        server.fill([*OWN, namespace("shop")])
        yield server


def records_of_zone(port, zone, got=None):
    """Transfers the zone by AXFR, or by IXFR from the version in `got`. Returns the zone, and its records without the SOA in --print-zone format."""
    query, _ = dns.xfr.make_query(got) if got else (None, None)
    got = got or dns.zone.Zone(f"{zone}.", relativize=False)
    dns.query.inbound_xfr("127.0.0.1", got, query=query, port=port, timeout=30, lifetime=60)
    return got, {f"{n} {t} IN {dns.rdatatype.to_text(r.rdtype)} {r}" for n, t, r in got.iterate_rdatas() if r.rdtype != dns.rdatatype.SOA}


def test_ptrs_of_imports_are_printed_and_transferred_with_the_reverse_zones(tmp_path):
    zone = "10.in-addr.arpa"
    flags = [SET, "--reverse-cidrs=10.0.0.0/8", "--ns-addresses=10.96.0.10", "--transfer-to=127.0.0.1", "--nameservers=127.0.0.1:9"]
    pets = [imported("pets"), slice_of("pets", "east", ["10.1.0.1", "10.1.0.9"], hostnames=["a", "b"])]
    with start(tmp_path, WORLD, *flags) as k:
        k.wait_ready()

        def printed():
            done = subprocess.run([PROGRAM, f"--objects-dir={k.objects}", *flags[:3], f"--print-zone={zone}"], capture_output=True, text=True,
                                  timeout=30, check=True)  # fmt: skip
            return set(done.stdout.splitlines()[1:])

        got, sent = records_of_zone(k.port, zone)
        assert sent == printed()
        ptrs = {line.split(" 30 IN PTR ")[0]: line.split()[-1] for line in sent if " PTR " in line}
        # PTRs of this cluster's own Service, of a ClusterSetIP and of an endpoint.
        assert ptrs["1.0.96.10.in-addr.arpa."] == f"web.mine.svc.{Z}." and ptrs["1.0.42.10.in-addr.arpa."] == f"web.mine.svc.{CLUSTERSET}."
        assert ptrs["1.0.1.10.in-addr.arpa."] == f"db-0.east.db.mine.svc.{CLUSTERSET}."
        assert all(k.ask(name, "PTR") == {target} for name, target in ptrs.items())
        serial = got.get_soa().serial
        write(k.objects, [*WORLD, *pets])
        k.wait(lambda: exchange(k.port, zone, "SOA").answer[0][0].serial > serial)
        got, sent = records_of_zone(k.port, zone, got)
        assert sent == printed()
        assert {f"{host}.10.in-addr.arpa. 30 IN PTR {name}.mine.svc.{CLUSTERSET}." for host, name in [
            ("1.0.1", "db-0.east.db"), ("1.0.1", "a.east.pets"), ("9.0.1", "b.east.pets")]} <= sent  # fmt: skip
        k.wait(lambda: k.metric("kubedns_transfers_total", kind="IXFR", result="whole") == 1)
        assert k.metric("kubedns_transfers_total", kind="AXFR", result="whole") == 1


def test_the_zone_of_a_cluster_set_and_its_changes_are_what_print_zone_prints(tmp_path):
    with start(tmp_path, WORLD, SET, "--ns-addresses=10.96.0.10", "--transfer-to=127.0.0.1", "--nameservers=127.0.0.1:9") as k:
        k.wait_ready()
        done = subprocess.run([PROGRAM, f"--objects-dir={k.objects}", SET, "--ns-addresses=10.96.0.10", f"--print-zone={CLUSTERSET}"],
                              capture_output=True, text=True, timeout=30, check=True)  # fmt: skip
        got, sent = records_of_zone(k.port, CLUSTERSET)
        assert sent == set(done.stdout.splitlines()[1:])
        # The change arrives in an incremental transfer. The result is the same zone.
        serial = got.get_soa().serial
        k.wait(lambda: exchange(k.port, CLUSTERSET, "SOA").answer[0][0].serial == serial)
        write(k.objects, [*WORLD, imported("more", "10.42.0.9")])
        k.wait(lambda: k.ask(f"more.mine.svc.{CLUSTERSET}") == {"10.42.0.9"})
        k.wait(lambda: exchange(k.port, CLUSTERSET, "SOA").answer[0][0].serial > serial)
        got, _ = records_of_zone(k.port, CLUSTERSET, got)
        assert got.find_rdataset(f"more.mine.svc.{CLUSTERSET}.", "A")[0].to_text() == "10.42.0.9"
        k.wait(lambda: k.metric("kubedns_transfers_total", kind="IXFR", result="whole") == 1)  # the counter changes after the client has read the last byte


def test_the_zone_of_a_cluster_set_is_not_transferred_until_its_imports_were_listed(api, tmp_path):
    api.fill(WORLD)
    trouble = api.fault(resource="serviceimports", status=500, message="the conversion webhook is away")
    with hurried(tmp_path, 20) as env, kubedns(api, tmp_path, SET, "--transfer-to=127.0.0.1", env=env) as k:
        k.wait_ready()
        assert exchange(k.port, CLUSTERSET, "AXFR", tcp=True).rcode() == dns.rcode.SERVFAIL
        api.clear(trouble)
        k.wait(lambda: k.ask(f"web.mine.svc.{CLUSTERSET}") == {"10.42.0.1"}, 30)
        assert f"web.mine.svc.{CLUSTERSET}. 30 IN A 10.42.0.1" in records_of_zone(k.port, CLUSTERSET)[1]


def test_the_external_address_transfers_external_zones_only(tmp_path):
    outside = free_port()
    flags = [SET, ZONES, "--external-headless", "--ns-addresses=10.96.0.10", f"--external-address=127.0.0.1:{outside}", "--transfer-to=127.0.0.1"]
    own = [service("pets", "None", "mine"), endpoint_slice("pets", ["10.9.0.1"], "mine")]
    with start(tmp_path, [*WORLD, *own], *flags) as k:
        k.wait_ready()
        assert not [line for line in records_of_zone(k.port, CLUSTERSET)[1] if "pets" in line]
        assert f"pets.mine.{ZONE}. 30 IN A 10.9.0.1" in records_of_zone(outside, ZONE)[1]
        for zone in (CLUSTERSET, Z):
            assert exchange(outside, zone, "AXFR", tcp=True).rcode() == dns.rcode.NOTAUTH


def by_rfc4592(zone, name, type_):
    """Returns the answer that RFC 4592 requires from a server that has only this zone."""
    exists = {dns.name.Name(n.labels[i:]) for n in zone.nodes for i in range(len(n.labels) - len(zone.origin.labels) + 1)}
    if name not in exists:
        closest = name.parent()
        while closest not in exists:
            closest = closest.parent()
        name = dns.name.from_text("*", closest)
        if name not in zone.nodes:
            return NXDOMAIN
    found = zone.get_rdataset(name, type_)
    return frozenset(r.to_text() for r in found) if found else frozenset()


def test_wildcards_beside_headless_services_answer_as_from_a_secondary(tmp_path):
    """
    Two bugs: nothing.own got the wildcard's address, although own exists as an empty non-terminal. A namespace without names counted as an
    existing name.
    """
    world = [*(namespace(ns) for ns in ("own", "shop", "lb", "none")), service("db", "None", "own"), service("idle", "None", "shop"),
             endpoint_slice("db", ["10.201.0.1", "10.201.0.2"], "own", hostnames=["db-0"]), service("web", "10.200.0.1", "shop"),
             ingress("wild", f"*.{ZONE}", "192.0.2.8", "lb"), ingress("near", f"*.shop.{ZONE}", "192.0.2.7", "lb")]
    first = ("", "a.", "db.", "idle.", "web.", "db-0.db.", "x.db.", "x.idle.", "_tcp.db.", "_http._tcp.db.", "x._http._tcp.db.", "a.b.c.x._http._tcp.db.")
    names = [f"{labels}{ns}.{ZONE}" for labels in first for ns in ("own", "shop", "lb", "none", "nowhere")]
    with start(tmp_path, world, ZONES, "--external-headless", "--transfer-to=127.0.0.1") as k:
        k.wait_ready()

        def compare():
            zone = transferred(k, ZONE)
            for name in names:
                for type_ in ("A", "SRV"):
                    wanted = by_rfc4592(zone, dns.name.from_text(name), type_)
                    assert k.ask(name, type_) == wanted, (name, type_, wanted)

        compare()
        assert k.ask(f"nothing.own.{ZONE}") == NXDOMAIN and k.ask(f"none.{ZONE}") == {"192.0.2.8"} == k.ask(f"x.nowhere.{ZONE}")
        assert "NXDOMAIN" in k.http(f"/explain?name=nothing.own.{ZONE}")[1]
        write(k.objects, [endpoint_slice("idle", ["10.201.0.9"], "shop")], name="more.json")  # add a name in another namespace
        k.wait(lambda: k.ask(f"idle.shop.{ZONE}") == {"10.201.0.9"})
        compare()
        write(k.objects, [o for o in world if o["kind"] != "EndpointSlice"])  # remove the names of the first namespace
        k.wait(lambda: k.ask(f"db.own.{ZONE}") == {"192.0.2.8"})
        compare()


def test_a_zone_is_neither_answered_nor_transferred_until_all_that_has_names_in_it_was_listed(api, tmp_path):
    """Otherwise a secondary could get a zone without the names of routes, take it for the newest version, and lose these names."""
    api.fill([balanced("web", {"ip": "192.0.2.1"}), gateway("192.0.2.33"), route("HTTPRoute", "h", f"h.{ZONE}")])
    trouble = api.fault(resource="httproutes", status=500, message="the conversion webhook is away")
    flags = ("--transfer-to=127.0.0.1", "--ns-addresses=127.0.0.1")
    with Listener() as ear, hurried(tmp_path, 20) as env, kubedns(api, tmp_path, ZONES, f"--transfer-notify={ear.address}", *flags, env=env) as k:
        k.wait_ready()  # kubedns answers cluster names before it has listed the routes
        assert k.ask(f"web.own.svc.{Z}") == {"10.200.9.1"}
        assert ear.hear()[1] == f"{Z}."
        for tcp in (False, True):
            assert exchange(k.port, f"web.own.{ZONE}", "A", tcp).rcode() == dns.rcode.SERVFAIL
        assert exchange(k.port, ZONE, "AXFR", tcp=True).rcode() == dns.rcode.SERVFAIL
        k.wait(lambda: "httproutes: not listed yet" in k.log())
        assert "external zones: queries get SERVFAIL" in k.http("/readiness")[1]
        api.put(service("more", "10.200.9.2", "own"))
        k.wait(lambda: k.ask(f"more.own.svc.{Z}") == {"10.200.9.2"})
        while (heard := ear.hear(timeout=0.5)) is not None:
            assert heard[1] == f"{Z}."
        api.clear(trouble)
        k.wait(lambda: k.ask(f"h.{ZONE}") == {"192.0.2.33"}, 30)
        assert k.ask(f"web.own.{ZONE}") == {"192.0.2.1"} and k.http("/readiness")[1] == "ok\n"
        while (heard := ear.hear())[1] != f"{ZONE}.":
            pass
        got = dns.zone.Zone(f"{ZONE}.", relativize=False)
        dns.query.inbound_xfr("127.0.0.1", got, port=k.port, timeout=30, lifetime=60)
        assert got.find_rdataset(f"h.{ZONE}.", "A")[0].to_text() == "192.0.2.33"


def test_the_largest_record_is_in_transfers(tmp_path):
    """A record must fit into one message of a transfer. kubedns rejects a larger record and does not abort."""
    conf = tmp_path / "conf"
    conf.mkdir()
    text = " ".join(["a" * 255] * 32)
    write_key(conf, f"{'b' * 63}.default.svc.{Z}. TXT {text}\nc.default.svc.{Z}. TXT {text}\n", "records")
    with start(tmp_path, [namespace("default")], f"--config-dir={conf}", "--transfer-to=127.0.0.0/8") as k:
        k.wait_ready()
        write_key(conf, f"d.default.svc.{Z}. TXT {text} {text[:-20]}\n", "records")
        k.wait(lambda: k.metric("kubedns_config_error", key="records") == 1)
        zone = dns.zone.from_xfr(dns.query.xfr(k.host, Z, port=k.port, relativize=False), relativize=False, check_origin=False)
        assert [len(r.strings) for _, _, r in zone.iterate_rdatas("TXT") if len(r.strings) > 1] == [32, 32]
        assert "the record is too long" in k.log()
