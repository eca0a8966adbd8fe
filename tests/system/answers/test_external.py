"""
--external-zones: names for clients outside the cluster, served at a separate address. kubedns reads them from the stand-in API server and
from manifests.
"""

import subprocess
import time

import dns.flags
import dns.message
import dns.query
import dns.rcode
import dns.rdatatype
import pytest
from api_world import OWN, World
from apiserver import ApiServer
from asking import NXDOMAIN, ask_until
from hurry import Clock
from kubedns_process import PROGRAM, Kubedns
from objects import endpoint_slice, namespace, service
from waiting import free_port
from world import Z, start, write

ZONE = "apps.example.com"
GATEWAY_API = "gateway.networking.k8s.io"
ZONES = f"--external-zones={ZONE}"


def balanced(name, address, ns="own", hosts=""):
    made = service(name, "10.200.9.1", ns, type="LoadBalancer")
    made["metadata"].update(creationTimestamp="2026-01-01T00:00:00Z", annotations={"external-dns.alpha.kubernetes.io/hostname": hosts})
    return {**made, "status": {"loadBalancer": {"ingress": [address]}}}


def ingress(name, host, address, ns="own", created="2026-01-01T00:00:00Z"):
    return {"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": name, "namespace": ns, "creationTimestamp": created},
            "spec": {"rules": [{"host": host}]}, "status": {"loadBalancer": {"ingress": [{"ip": address}]}}}  # fmt: skip


def gateway(address):
    return {"apiVersion": f"{GATEWAY_API}/v1", "kind": "Gateway", "metadata": {"name": "gw", "namespace": "own"},
            "spec": {"gatewayClassName": "any", "listeners": [{"name": "web", "port": 80, "protocol": "HTTP"}]},
            "status": {"addresses": [{"type": "IPAddress", "value": address}]}}  # fmt: skip


def listener_set(name, host, accepted="True"):
    conditions = [{"type": kind, "status": accepted, "reason": kind, "message": ""} for kind in ("Programmed", "Accepted")]
    return {"apiVersion": f"{GATEWAY_API}/v1", "kind": "ListenerSet", "metadata": {"name": name, "namespace": "shop"},
            "spec": {"parentRef": {"name": "gw", "namespace": "own"},
                     "listeners": [{"name": "web", "port": 443, "protocol": "HTTPS", "hostname": host}]},
            "status": {"conditions": conditions}}  # fmt: skip


def route(kind, name, host, accepted="True", parent=None):
    conditions = [{"type": "Accepted", "status": accepted, "reason": "Accepted", "message": ""}]
    return {"apiVersion": f"{GATEWAY_API}/v1", "kind": kind, "metadata": {"name": name, "namespace": "own"}, "spec": {"hostnames": [host]},
            "status": {"parents": [{"parentRef": parent or {"name": "gw"}, "controllerName": "any", "conditions": conditions}]}}  # fmt: skip


@pytest.fixture
def api():
    with ApiServer() as server:
        server.fill([*OWN, namespace("shop")])
        yield server


def kubedns(api, tmp_path, *args, **kw):
    return Kubedns(f"--kubecfg-file={api.kubeconfig(tmp_path / 'kubeconfig')}", *args, **kw)


def test_names_come_and_go_with_their_objects(api, tmp_path):
    api.fill([balanced("web", {"ip": "192.0.2.1"}, hosts=f"www.{ZONE}")])
    with kubedns(api, tmp_path, ZONES) as k:
        k.wait_ready()
        assert k.ask(f"web.own.{ZONE}") == k.ask(f"www.{ZONE}") == {"192.0.2.1"}
        assert k.ask(f"web.own.svc.{Z}") == {"10.200.9.1"}
        api.put(balanced("web", {"ip": "192.0.2.2"}))
        k.wait(lambda: k.ask(f"web.own.{ZONE}") == {"192.0.2.2"})
        assert k.ask(f"www.{ZONE}") == NXDOMAIN
        api.put(ingress("shop", f"shop.{ZONE}", "192.0.2.3"))
        k.wait(lambda: k.ask(f"shop.{ZONE}") == {"192.0.2.3"})
        # None of these names is in the cluster's own zone.
        assert k.ask(f"shop.own.svc.{Z}") == NXDOMAIN
        api.delete("services", "own", "web")
        k.wait(lambda: k.ask(f"web.own.{ZONE}") == NXDOMAIN)
        assert k.metric("kubedns_external_names") == 2  # ns.dns is one of these names
        api.drop_connections("rst")
        api.delete("ingresses", "own", "shop")
        k.wait(lambda: k.ask(f"shop.{ZONE}") == NXDOMAIN)


def test_label_and_annotation_of_k8s_gateway_have_the_same_effect(api, tmp_path):
    web, hidden = balanced("web", {"ip": "192.0.2.1"}), ingress("hidden", f"hidden.{ZONE}", "192.0.2.2")
    web["metadata"]["annotations"] = {"coredns.io/hostname": f"a.{ZONE}, *.b.{ZONE}"}
    hidden["metadata"]["labels"] = {"k8s-gateway.dns/ignore": "true"}
    api.fill([web, hidden])
    with kubedns(api, tmp_path, ZONES) as k:
        k.wait_ready()
        assert k.ask(f"a.{ZONE}") == k.ask(f"x.b.{ZONE}") == k.ask(f"web.own.{ZONE}") == {"192.0.2.1"}
        assert k.ask(f"hidden.{ZONE}") == NXDOMAIN
        api.put(ingress("hidden", f"hidden.{ZONE}", "192.0.2.2"))
        k.wait(lambda: k.ask(f"hidden.{ZONE}") == {"192.0.2.2"})
        web["metadata"]["labels"] = {"k8s-gateway.dns/ignore": "true"}
        api.put(web)
        k.wait(lambda: k.ask(f"a.{ZONE}") == NXDOMAIN and k.ask(f"web.own.{ZONE}") == NXDOMAIN)
        assert k.ask(f"web.own.svc.{Z}") == {"10.200.9.1"}


@pytest.mark.parametrize("watchlist", [True, False])
def test_crds_that_are_not_there_are_no_fault_and_are_found_when_they_come(api, tmp_path, watchlist):
    api.set_watchlist(watchlist)
    api.absent(GATEWAY_API)
    api.fill([balanced("web", {"ip": "192.0.2.1"})])
    clock = Clock(tmp_path)
    with kubedns(api, tmp_path, ZONES, env=clock.env) as k:
        clock.run_until(k.ready, 60, 0.02)
        assert k.ask(f"web.own.{ZONE}") == {"192.0.2.1"}
        clock.run_until(lambda: k.log().count("does not serve this resource") == 5, 60, 0.02)
        assert k.metric("kubedns_api_failing") == 0 and k.http("/readiness")[1] == "ok\n"
        assert "warning" not in k.log(), k.log()
        api.fill([gateway("192.0.2.33"), route("HTTPRoute", "h", f"h.{ZONE}"), route("GRPCRoute", "g", f"g.{ZONE}"),
                  route("TLSRoute", "t", f"t.{ZONE}"), route("HTTPRoute", "n", f"n.{ZONE}", accepted="False")])  # fmt: skip
        api.present(GATEWAY_API)
        with clock.running(20):
            k.wait(lambda: all(k.ask(f"{n}.{ZONE}") == {"192.0.2.33"} for n in "hgt"))
            assert k.ask(f"n.{ZONE}") == NXDOMAIN
            api.put(gateway("192.0.2.34"))
            k.wait(lambda: all(k.ask(f"{n}.{ZONE}") == {"192.0.2.34"} for n in "hgt"))
        assert k.log().count("does not serve this resource") == 5, k.log()


def test_names_of_a_listenerset_and_of_its_routes_have_the_address_of_its_gateway(api, tmp_path):
    on_set = {"kind": "ListenerSet", "name": "team", "namespace": "shop"}
    route_on_set = route("HTTPRoute", "r", f"r.team.{ZONE}", parent=on_set)
    api.fill([gateway("192.0.2.33"), listener_set("team", f"*.team.{ZONE}"), listener_set("refused", f"refused.{ZONE}", "False"), route_on_set])
    with kubedns(api, tmp_path, ZONES) as k:
        k.wait_ready()
        k.wait(lambda: k.ask(f"r.team.{ZONE}") == {"192.0.2.33"})
        assert k.ask(f"x.team.{ZONE}") == {"192.0.2.33"} and k.ask(f"refused.{ZONE}") == NXDOMAIN
        assert "HTTPRoute own/r" in k.http(f"/explain?name=r.team.{ZONE}")[1]
        assert "ListenerSet shop/team" in k.http(f"/explain?name=x.team.{ZONE}")[1]
        assert k.metric("kubedns_external_objects", resource="listenersets") == 1
        api.put(gateway("192.0.2.34"))
        k.wait(lambda: k.ask(f"r.team.{ZONE}") == k.ask(f"x.team.{ZONE}") == {"192.0.2.34"})
        api.put(listener_set("team", f"*.team.{ZONE}", "False"))
        k.wait(lambda: k.ask(f"r.team.{ZONE}") == k.ask(f"x.team.{ZONE}") == NXDOMAIN)
        api.put(listener_set("team", f"*.team.{ZONE}"))
        k.wait(lambda: k.ask(f"r.team.{ZONE}") == k.ask(f"x.team.{ZONE}") == {"192.0.2.34"})
        api.delete("listenersets", "shop", "team")
        k.wait(lambda: k.ask(f"r.team.{ZONE}") == k.ask(f"x.team.{ZONE}") == NXDOMAIN)


def test_a_cluster_with_an_older_gateway_api_has_no_listenersets_and_is_ready(api, tmp_path):
    api.absent("listenersets")
    api.fill([gateway("192.0.2.33"), route("HTTPRoute", "h", f"h.{ZONE}")])
    with kubedns(api, tmp_path, ZONES) as k:
        k.wait_ready()
        k.wait(lambda: k.ask(f"h.{ZONE}") == {"192.0.2.33"})
        assert k.metric("kubedns_api_failing") == 0 and k.http("/readiness")[1] == "ok\n"
        assert "listenersets" in k.log() and "warning" not in k.log(), k.log()


def test_without_the_right_to_read_ingresses_services_have_names(api, tmp_path):
    api.forbid("ingresses")
    api.fill([balanced("web", {"ip": "192.0.2.1"}), ingress("shop", f"shop.{ZONE}", "192.0.2.3")])
    with kubedns(api, tmp_path, ZONES) as k:
        k.wait_ready(15)
        assert k.ask(f"web.own.{ZONE}") == {"192.0.2.1"} and k.ask(f"shop.{ZONE}") == NXDOMAIN
        assert "ingresses" in k.log() and "403" in k.log()
        assert k.metric("kubedns_api_failing", resource="ingresses") == 1


def test_off_nothing_more_is_read(api, tmp_path):
    api.fill([balanced("web", {"ip": "192.0.2.1"}), ingress("shop", f"shop.{ZONE}", "192.0.2.3"), gateway("192.0.2.33")])
    with kubedns(api, tmp_path, "--nameservers=127.0.0.1:9") as k:
        k.wait_ready()
        assert not {r["resource"] for r in api.requests()} & {"ingresses", "gateways", "listenersets", "httproutes", "grpcroutes", "tlsroutes"}
        assert not [m for m in k.metrics() if "external" in m or "ingresses" in m]
        assert f"{ZONE}" not in k.http(f"/explain?name=web.own.svc.{Z}")[1]


WORLD = [
    namespace("default"),
    service("inside", "10.96.0.10"),
    balanced("dns", {"ip": "203.0.113.53"}, "kube-system"),
    balanced("web", {"ip": "192.0.2.1"}, "default", hosts=f"www.{ZONE}, *.wild.{ZONE}"),
    balanced("aws", {"hostname": "lb.example.net"}, "default"),
    ingress("young", f"www.{ZONE}", "192.0.2.9", created="2026-02-01T00:00:00Z"),
    gateway("192.0.2.33"),
    route("HTTPRoute", "h", f"h.{ZONE}"),
]


def exchange(port, name, type_, tcp=False, rd=False):
    query = dns.message.make_query(name, type_, use_edns=0)
    if not rd:
        query.flags &= ~dns.flags.RD
    return (dns.query.tcp if tcp else dns.query.udp)(query, "127.0.0.1", port=port, timeout=10)


def texts(section):
    return sorted(f"{r.name} {dns.rdatatype.to_text(r.rdtype)} {d}" for r in section for d in r)


def test_a_parent_zone_can_delegate_to_the_zone(tmp_path):
    """A resolver that follows the parent's delegation queries NS with glue and SOA. No reply offers recursion."""
    ns = f"dns.kube-system.{ZONE}."
    with start(tmp_path, WORLD, ZONES, f"--external-ns={ns}") as k:
        k.wait_ready()
        answer = exchange(k.port, ZONE, "NS")
        assert answer.flags & dns.flags.AA and texts(answer.answer) == [f"{ZONE}. NS {ns}"]
        assert texts(answer.additional) == [f"{ns} A 203.0.113.53"]
        (soa,) = exchange(k.port, ZONE, "SOA").answer[0]
        assert soa.mname.to_text() == ns
        denied = exchange(k.port, f"nobody.{ZONE}", "A")
        assert denied.rcode() == dns.rcode.NXDOMAIN and denied.authority[0].name.to_text() == f"{ZONE}."
        # A change raises the serial. k8s_gateway's serial never changes, so its secondaries keep old names.
        k.wait(lambda: time.time() >= soa.serial + 1)
        write(k.objects, [*WORLD, balanced("more", {"ip": "192.0.2.8"}, "default")])
        k.wait(lambda: k.ask(f"more.default.{ZONE}") == {"192.0.2.8"})
        assert exchange(k.port, ZONE, "SOA").answer[0][0].serial > soa.serial


@pytest.mark.parametrize("zones", [ZONES, f"{ZONES},local"])  # --domain may be inside an external zone
def test_at_the_external_address_nothing_else_is_answered(tmp_path, zones):
    outside = free_port()
    with start(tmp_path, WORLD, zones, f"--external-address=127.0.0.1:{outside}", "--nameservers=127.0.0.1:9") as k:
        k.wait_ready()
        for tcp in (False, True):
            answer = exchange(outside, f"www.{ZONE}", "A", tcp)
            assert texts(answer.answer) == [f"www.{ZONE}. A 192.0.2.1"] and answer.flags & dns.flags.AA
            # The reply contains only the alias. kubedns does not resolve the alias's target for clients outside the cluster.
            answer = exchange(outside, f"aws.default.{ZONE}", "A", tcp, rd=True)
            assert texts(answer.answer) == [f"aws.default.{ZONE}. CNAME lb.example.net."] and not answer.flags & dns.flags.RA
            for name, type_ in [(f"inside.default.svc.{Z}", "A"), (Z, "SOA"), ("10.0.96.10.in-addr.arpa", "PTR"), ("example.com", "A"), (".", "NS"),
                                (f"inside.default._explain.{Z}", "TXT")]:  # fmt: skip
                answer = exchange(outside, name, type_, tcp, rd=True)
                assert answer.rcode() == dns.rcode.REFUSED and not answer.answer, (name, answer)
        # The other address answers for both zones.
        assert k.ask(f"inside.default.svc.{Z}") == {"10.96.0.10"} and k.ask(f"www.{ZONE}") == {"192.0.2.1"}


def test_elsewhere_udp_replies_are_short(tmp_path):
    """
    Strangers can reach this port, so it must not amplify queries with forged addresses. A reply has at most 512 bytes. If the records do
    not fit, the reply contains no records.
    """
    many = balanced("many", {}, "default", f"many.{ZONE}")
    many["status"]["loadBalancer"]["ingress"] = [{"ip": f"192.0.2.{i}"} for i in range(1, 65)]
    port = free_port()
    with start(tmp_path, [namespace("default"), many], ZONES, "--ns-addresses=203.0.113.1", f"--external-address=127.0.0.1:{port}") as k:
        k.wait_ready()
        inside = dns.query.udp(dns.message.make_query(f"many.{ZONE}", "A", use_edns=0, payload=1232), "127.0.0.1", port=k.port, timeout=10)
        assert len(inside.answer[0]) == 64 and not inside.flags & dns.flags.TC
        outside = dns.query.udp(dns.message.make_query(f"many.{ZONE}", "A", use_edns=0, payload=1232), "127.0.0.1", port=port, timeout=10)
        assert outside.flags & dns.flags.TC and len(outside.to_wire()) <= 512
        assert len(exchange(port, f"many.{ZONE}", "A", tcp=True).answer[0]) == 64


def test_an_edit_of_an_older_object_takes_no_name_from_another_namespace(tmp_path):
    made = {"team-a": "2026-03-01T00:00:00Z", "team-b": "2026-01-01T00:00:00Z", "team-c": "2026-06-01T00:00:00Z"}

    def own(ns, address, hosts, created="2026-03-02T00:00:00Z"):
        it = balanced("web", {"ip": address}, ns, hosts)
        it["metadata"]["creationTimestamp"] = created
        return it

    def before(api):
        for ns, created in made.items():
            there = namespace(ns)
            there["metadata"]["creationTimestamp"] = created
            api.fill([there])
        api.fill([own("team-a", "203.0.113.10", f"shop.{ZONE}"), own("team-b", "198.51.100.66", "", "2026-01-02T00:00:00Z"),
                  own("team-c", "198.51.100.77", "", "2025-01-02T00:00:00Z")])  # fmt: skip

    with World(tmp_path, ZONES, "--ns-addresses=203.0.113.1", before=before) as world:
        k, api = world.kubedns, world.api
        ask_until(k.port, f"shop.{ZONE}", "A", {"203.0.113.10"})
        api.put(own("team-b", "198.51.100.66", f"shop.{ZONE}, b.{ZONE}", "2026-01-02T00:00:00Z"))
        api.put(own("team-c", "198.51.100.77", f"shop.{ZONE}, c.{ZONE}", "2025-01-02T00:00:00Z"))
        ask_until(k.port, f"b.{ZONE}", "A", {"198.51.100.66"})
        ask_until(k.port, f"c.{ZONE}", "A", {"198.51.100.77"})
        assert k.ask(f"shop.{ZONE}") == {"203.0.113.10"} and k.metric("kubedns_external_conflicts") == 1
        assert f"external name shop.{ZONE}.: services team-a/web has this name, and services team-b/web claims it" in k.log()
        # A Service without an address claims, by its name and namespace, a host name that has an address already. The host name keeps this address.
        api.put(own("team-a", "203.0.113.10", f"shop.{ZONE}, api.shop.{ZONE}"))
        ask_until(k.port, f"api.shop.{ZONE}", "A", {"203.0.113.10"})
        waits = service("api", "10.200.9.2", "shop", type="LoadBalancer")
        api.put(namespace("shop"))
        api.put({**waits, "status": {"loadBalancer": {}}})
        api.put(own("team-c", "198.51.100.77", f"shop.{ZONE}, d.{ZONE}"))
        ask_until(k.port, f"d.{ZONE}", "A", {"198.51.100.77"})
        assert k.ask(f"api.shop.{ZONE}") == {"203.0.113.10"}
        # kubedns lists all Services again. A name that is new in this list shows that the list is complete.
        assert api.inject_error("services") == 1
        api.put(own("team-c", "198.51.100.77", f"shop.{ZONE}, e.{ZONE}"))
        ask_until(k.port, f"e.{ZONE}", "A", {"198.51.100.77"})
        assert k.ask(f"shop.{ZONE}") == {"203.0.113.10"}
        # A kubedns that starts now does not know which Service claimed the name first. The Service in the oldest namespace gets the name,
        # even if its object is not the oldest.
        world.kubedns.stop()
        world.start(ZONES, "--ns-addresses=203.0.113.1")
        ask_until(world.kubedns.port, f"shop.{ZONE}", "A", {"198.51.100.66"})


def test_explanations_and_the_zone_name_the_objects(tmp_path):
    with start(tmp_path, WORLD, ZONES, "--ns-addresses=203.0.113.1") as k:
        k.wait_ready()
        why = k.http(f"/explain?name=www.{ZONE}")[1]
        assert "from Service default/web" in why and "also claimed, with other addresses, by Ingress own/young" in why, why
        assert "HTTPRoute own/h" in k.http(f"/explain?name=h.{ZONE}")[1]
        assert f"by the wildcard *.wild.{ZONE}." in k.http(f"/explain?name=a.b.wild.{ZONE}")[1]
        assert "NXDOMAIN" in k.http(f"/explain?name=nobody.{ZONE}")[1]
        assert k.metric("kubedns_external_conflicts") == 1
        assert f"external name www.{ZONE}.: services default/web has this name, and ingresses own/young claims it" in k.log()
        done = subprocess.run([PROGRAM, f"--objects-dir={k.objects}", ZONES, "--ns-addresses=203.0.113.1", f"--print-zone={ZONE}"],
                              capture_output=True, text=True, timeout=30, check=True)  # fmt: skip
        lines = done.stdout.splitlines()
        assert f"*.wild.{ZONE}. 30 IN A 192.0.2.1" in lines and f"{ZONE}. 30 IN NS ns.dns.{ZONE}." in lines
        assert f"_http._tcp.web.default.{ZONE}. 30 IN SRV 0 100 80 web.default.{ZONE}." in lines and not [x for x in lines if Z in x]


def test_headless_services_are_in_the_zone_when_asked_for(tmp_path):
    world = [namespace("own"), service("db", "None", "own"), endpoint_slice("db", ["10.201.0.1", "10.201.0.2"], "own", hostnames=["db-0"])]
    flags = [ZONES, "--external-headless", "--ns-addresses=203.0.113.1"]
    with start(tmp_path, world, *flags) as k:
        k.wait_ready()
        assert k.ask(f"db.own.{ZONE}") == {"10.201.0.1", "10.201.0.2"} and k.ask(f"db-0.db.own.{ZONE}") == {"10.201.0.1"}
        assert k.ask(f"10-201-0-2.db.own.{ZONE}") == {"10.201.0.2"} and k.ask(f"db-1.db.own.{ZONE}") == NXDOMAIN
        assert "Service own/db" in k.http(f"/explain?name=db.own.{ZONE}")[1]
        answer = exchange(k.port, f"_http._tcp.db.own.{ZONE}", "SRV")
        assert texts(answer.answer) == [f"_http._tcp.db.own.{ZONE}. SRV 0 50 80 {host}.db.own.{ZONE}." for host in ("10-201-0-2", "db-0")]
        assert texts(answer.additional) == [f"10-201-0-2.db.own.{ZONE}. A 10.201.0.2", f"db-0.db.own.{ZONE}. A 10.201.0.1"]
        why = k.http(f"/explain?name=_http._tcp.db.own.{ZONE}")[1]
        assert f"SRV 0 50 80 db-0.db.own.{ZONE}." in why and "Service own/db" in why, why


@pytest.mark.parametrize("args, why", [
    (["--external-zones=x.cluster.local"], "it is in --domain"), (["--external-zones=a..b"], "not a DNS name"),
    (["--external-zones=a.b,a.B"], "comes twice"), (["--external-zones=168.192.in-addr.arpa"], "reverse zones are --reverse-cidrs"),
    (["--external-ns=192.0.2.1"], "needs --external-zones: give the zones"), (["--external-address=192.0.2.1"], "needs --external-zones: give the zones"),
    (["--external-headless"], "needs --external-zones: give the zones"), ([ZONES, "--external-ns=one"], "full name"), ([ZONES, f"--external-ns=ns1.{ZONE}"], "SERVICE.NAMESPACE.ZONE"),
    ([ZONES, f"--external-ns={ZONE}"], "SERVICE.NAMESPACE.ZONE"), ([ZONES, "--external-address=192.0.2.1"], "--dns-bind-address has this address and port"),
    ([ZONES, "--external-address=nowhere:5353"], "not an address"),
    ([ZONES, "--external-address=192.0.2.1:5353", "--share-port"], "cannot be shared"),
])  # fmt: skip
def test_what_makes_no_sense_is_refused(tmp_path, args, why):
    done = subprocess.run([PROGRAM, f"--objects-dir={tmp_path}", *args], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 2 and why in done.stderr and "--help" in done.stderr, done.stderr
