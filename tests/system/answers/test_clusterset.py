"""--clusterset-domain: names of Services that other clusters export (KEP-1645). kubedns reads them from the stand-in API server and from manifests."""

import re
import subprocess
from contextlib import closing

import dns.message
import dns.query
import dns.rcode
import dns.rdatatype
import pytest
from api_world import OWN
from apiserver import ApiServer
from asking import NXDOMAIN, ask_until
from hurry import Clock, hurried
from kubedns_process import PROGRAM, Kubedns
from nanny_world import World as NannyWorld
from objects import endpoint_slice, namespace, service
from waiting import free_port, wait_for
from world import Z, start, write

ZONE, GROUP = "clusterset.local", "multicluster.x-k8s.io"
SET = f"--clusterset-domain={ZONE}"


def imported(name, *ips, ns="mine", ports=(("https", 443),)):
    made = [{"name": n, "port": p, "protocol": "TCP"} for n, p in ports]
    return {"apiVersion": f"{GROUP}/v1alpha1", "kind": "ServiceImport", "metadata": {"name": name, "namespace": ns},
            "spec": {"type": "ClusterSetIP" if ips else "Headless", "ips": list(ips), "ports": made}}  # fmt: skip


def slice_of(name, cluster, addresses, ns="mine", **kw):
    made = endpoint_slice(name, addresses, ns, suffix=cluster, ports=(("https", 443),), **kw)
    made["metadata"]["labels"] = {"multicluster.kubernetes.io/service-name": name, "multicluster.kubernetes.io/source-cluster": cluster}
    return made


WORLD = [
    namespace("mine"),
    service("web", "10.96.0.1", "mine"),
    imported("web", "10.42.0.1", "fd42::1"),
    imported("db"),
    slice_of("db", "east", ["10.1.0.1", "10.1.0.2"], hostnames=["db-0", "db-1"]),
    slice_of("db", "west", ["10.2.0.1"], hostnames=["db-0"]),
]


@pytest.fixture
def api():
    with ApiServer() as server:
        server.fill(OWN)
        yield server


def kubedns(api, tmp_path, *args, **kw):
    return Kubedns(f"--kubecfg-file={api.kubeconfig(tmp_path / 'kubeconfig')}", *args, **kw)


def exchange(port, name, type_, tcp=False):
    query = dns.message.make_query(name, type_, use_edns=0)
    return (dns.query.tcp if tcp else dns.query.udp)(query, "127.0.0.1", port=port, timeout=10)


def check_world(k):
    assert k.ask(f"web.mine.svc.{ZONE}") == {"10.42.0.1"} and k.ask(f"web.mine.svc.{ZONE}", "AAAA") == {"fd42::1"}
    assert k.ask(f"db.mine.svc.{ZONE}") == {"10.1.0.1", "10.1.0.2", "10.2.0.1"}
    assert k.ask(f"db-0.east.db.mine.svc.{ZONE}") == {"10.1.0.1"} and k.ask(f"db-0.west.db.mine.svc.{ZONE}") == {"10.2.0.1"}
    assert k.ask(f"_https._tcp.db.mine.svc.{ZONE}", "SRV") == {
        f"0 33 443 {host}.db.mine.svc.{ZONE}." for host in ("db-0.east", "db-1.east", "db-0.west")}  # fmt: skip
    assert k.ask("1.0.42.10.in-addr.arpa", "PTR") == {f"web.mine.svc.{ZONE}."}
    assert k.ask("1.0.2.10.in-addr.arpa", "PTR") == {f"db-0.west.db.mine.svc.{ZONE}."}
    assert k.ask(f"dns-version.{ZONE}", "TXT") == {'"1.0.0"'}
    assert k.ask(f"other.mine.svc.{ZONE}") == NXDOMAIN
    # The cluster's own zone is separate: it keeps its own names and does not get the imported names.
    assert k.ask(f"web.mine.svc.{Z}") == {"10.96.0.1"} and k.ask(f"db.mine.svc.{Z}") == NXDOMAIN


def test_names_come_and_go_with_their_objects(api, tmp_path):
    api.fill(WORLD)
    with kubedns(api, tmp_path, SET, "--nameservers=127.0.0.1:9") as k:
        k.wait_ready()
        check_world(k)
        assert k.metric("kubedns_clusterset_imports", type="headless") == 1 and k.metric("kubedns_clusterset_imports", type="clustersetip") == 1
        assert k.metric("kubedns_clusterset_slices") == 2 and k.metric("kubedns_clusterset_endpoints") == 3
        assert k.metric("kubedns_clusterset_cut_imports") == 0
        assert not [m for m in k.metrics() if m.startswith("kubedns_external_")]
        api.put(slice_of("db", "west", ["10.2.0.9"], hostnames=["db-0"]))
        k.wait(lambda: k.ask(f"db-0.west.db.mine.svc.{ZONE}") == {"10.2.0.9"})
        api.delete("serviceimports", "mine", "db")
        k.wait(lambda: k.ask(f"db.mine.svc.{ZONE}") == NXDOMAIN)
        api.drop_connections("rst")
        api.delete("serviceimports", "mine", "web")
        k.wait(lambda: k.ask(f"web.mine.svc.{ZONE}") == NXDOMAIN)
        assert k.ask(f"mine.svc.{ZONE}") == NXDOMAIN and k.metric("kubedns_clusterset_endpoints") == 0


def test_on_every_node_the_slices_of_imports_are_read_too(api, tmp_path):
    """Without imports, --node-role makes kubedns list only slices with the label of headless Services. Slices of imports sometimes lack this label."""
    api.fill(WORLD)
    with kubedns(api, tmp_path, SET, "--node-role", "--nameservers=127.0.0.1:9") as k:
        k.wait_ready()
        check_world(k)


def test_a_crd_that_is_not_there_is_no_fault_and_is_found_when_it_comes(api, tmp_path):
    api.absent(GROUP)
    clock = Clock(tmp_path)
    with kubedns(api, tmp_path, SET, env=clock.env) as k:
        clock.run_until(k.ready, 60, 0.02)
        assert k.ask(f"web.mine.svc.{ZONE}") == NXDOMAIN
        clock.run_until(lambda: f"serviceimports.{GROUP}: the API server does not serve this resource" in k.log(), 60, 0.02)
        assert k.metric("kubedns_api_failing") == 0 and k.http("/readiness")[1] == "ok\n"
        assert "warning" not in k.log(), k.log()
        # kubedns requests both versions of the API group.
        paths = {r["path"].split("?")[0] for r in api.requests() if "serviceimports" in r["path"]}
        assert paths == {f"/apis/{GROUP}/v1alpha1/serviceimports", f"/apis/{GROUP}/v1beta1/serviceimports"}, paths
        api.present(GROUP)
        api.put_all(WORLD)
        with clock.running(20):
            k.wait(lambda: k.ask(f"web.mine.svc.{ZONE}") == {"10.42.0.1"})
        check_world(k)


def test_lists_that_say_their_kind_last_are_read_page_by_page(api, tmp_path):
    """API servers without WatchList send lists of custom resources with "kind" at the end. kubedns reads these lists page by page."""
    api.set_watchlist(False)
    api.fill([*WORLD, *[imported(f"more-{i}", f"10.43.{i >> 8}.{i & 255}") for i in range(600)]])
    with hurried(tmp_path, 20) as env, kubedns(api, tmp_path, SET, env=env) as k:
        k.wait_ready()
        k.wait(lambda: "serviceimports: synced" in k.log())
        check_world(k)
        assert k.ask(f"more-0.mine.svc.{ZONE}") == {"10.43.0.0"} and k.ask(f"more-599.mine.svc.{ZONE}") == {"10.43.2.87"}
        assert "serviceimports: synced, 602 objects by list" in k.log() and "malformed" not in k.log()
        # If an import is missing from the next list, its names disappear at the end of that list. A list of another kind does not change them.
        cut = api.fault(resource="serviceimports", verb="list", kind="GatewayList")
        api.delete("serviceimports", "mine", "web")
        api.compact()
        api.inject_error("serviceimports", 410, "Expired")
        k.wait(lambda: "not a ServiceImportList but a" in k.log())
        assert k.ask(f"more-599.mine.svc.{ZONE}") == {"10.43.2.87"}
        api.clear(cut)
        k.wait(lambda: k.ask(f"web.mine.svc.{ZONE}") == NXDOMAIN, 30)
        assert k.ask(f"more-599.mine.svc.{ZONE}") == {"10.43.2.87"}


def test_without_the_right_to_read_imports_there_are_none_and_the_log_says_so(api, tmp_path):
    api.forbid("serviceimports")
    api.fill(WORLD)
    with kubedns(api, tmp_path, SET) as k:
        k.wait_ready(15)
        assert k.ask(f"web.mine.svc.{Z}") == {"10.96.0.1"} and k.ask(f"web.mine.svc.{ZONE}") == NXDOMAIN
        assert "serviceimports" in k.log() and "403" in k.log()
        assert k.metric("kubedns_api_failing", resource="serviceimports") == 1


def mistaken():
    wrong = imported("pets")
    wrong["spec"]["type"] = "Headles"
    return [wrong, slice_of("pets", "east", ["10.1.0.7"])]


MISTAKE = 'spec.type "Headles" is neither ClusterSetIP nor Headless'


def test_an_import_of_an_unknown_type_is_left_out_said_and_counted(api, tmp_path):
    api.fill([*WORLD, *mistaken()])
    with kubedns(api, tmp_path, SET) as k:
        k.wait_ready()
        check_world(k)
        assert f"serviceimports mine/pets: {MISTAKE}; ignored" in k.log()
        assert k.metric("kubedns_api_objects_rejected_total", resource="serviceimports") == 1
        assert k.ask(f"pets.mine.svc.{ZONE}") == NXDOMAIN and k.metric("kubedns_clusterset_imports", type="clustersetip") == 1
        # A valid import loses its names when its type becomes invalid. Its later deletion changes nothing.
        api.put(imported("pets"))
        k.wait(lambda: k.ask(f"pets.mine.svc.{ZONE}") == {"10.1.0.7"})
        api.put(mistaken()[0])
        k.wait(lambda: k.metric("kubedns_api_objects_rejected_total", resource="serviceimports") == 2)
        assert k.ask(f"pets.mine.svc.{ZONE}") == NXDOMAIN
        api.delete("serviceimports", "mine", "pets")
        k.wait(lambda: k.ask(f"pets.mine.svc.{ZONE}") == NXDOMAIN)


def test_a_manifest_of_an_import_of_an_unknown_type_is_named_with_its_value(tmp_path):
    with start(tmp_path, [*WORLD, *mistaken()], SET) as k:
        k.wait_ready()
        assert f"ServiceImport mine/pets: {MISTAKE}; ignored" in k.log(), k.log()
        assert k.ask(f"pets.mine.svc.{ZONE}") == NXDOMAIN
        write(k.objects, [*WORLD, imported("pets"), mistaken()[1]])
        k.wait(lambda: k.ask(f"pets.mine.svc.{ZONE}") == {"10.1.0.7"})
        write(k.objects, [*WORLD, *mistaken()])
        k.wait(lambda: f"{MISTAKE}; keeping previous" in k.log())
        assert k.ask(f"pets.mine.svc.{ZONE}") == {"10.1.0.7"}


def test_check_reads_the_imports_and_routes_of_manifests(tmp_path):
    """A bug: --check skipped every kind of object that only a flag enables, and reported no mistake in such objects."""
    route = {"apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute", "metadata": {"name": "shop", "namespace": "mine"},
             "spec": {"hostnames": "shop.example"}}  # fmt: skip
    write(tmp_path, [*mistaken(), route])
    external = ("--external-zones=example", "--nameservers=127.0.0.1:9")
    for flags, kind, name in ((SET,), "ServiceImport", "pets"), (external, "HTTPRoute", "shop"):
        done = subprocess.run([PROGRAM, "--check", f"--objects-dir={tmp_path}", *flags], capture_output=True, text=True, timeout=30, check=False)
        assert done.returncode == 2 and "1 mistake\n" in done.stderr and f": {kind} mine/{name}: " in done.stderr, done.stderr


def test_off_nothing_more_is_read(api, tmp_path):
    api.fill(WORLD)
    with kubedns(api, tmp_path, "--external-zones=apps.example.com", "--nameservers=127.0.0.1:9") as k:
        k.wait_ready()
        assert not [r for r in api.requests() if "serviceimports" in r["path"]]
        assert not [m for m in k.metrics() if "clusterset" in m or "serviceimports" in m]


def test_the_zone_is_answered_servfail_until_its_imports_were_listed(api, tmp_path):
    api.fill(WORLD)
    trouble = api.fault(resource="serviceimports", status=500, message="the conversion webhook is away")
    with hurried(tmp_path, 20) as env, kubedns(api, tmp_path, SET, env=env) as k:
        k.wait_ready()
        assert k.ask(f"web.mine.svc.{Z}") == {"10.96.0.1"}
        assert exchange(k.port, f"web.mine.svc.{ZONE}", "A").rcode() == dns.rcode.SERVFAIL
        k.wait(lambda: "serviceimports: not listed yet" in k.log())
        assert "--clusterset-domain: queries get SERVFAIL" in k.http("/readiness")[1]
        api.clear(trouble)
        k.wait(lambda: k.ask(f"web.mine.svc.{ZONE}") == {"10.42.0.1"}, 30)
        check_world(k)


def test_the_zone_is_printed_and_explained(tmp_path):
    with start(tmp_path, WORLD, SET, "--ns-addresses=10.96.0.10", "--nameservers=127.0.0.1:9") as k:
        k.wait_ready()
        check_world(k)
        assert "from headless ServiceImport mine/db" in k.http(f"/explain?name=db-1.east.db.mine.svc.{ZONE}")[1]
        assert "no ServiceImport mine/none exists" in k.http(f"/explain?name=none.mine.svc.{ZONE}")[1]
        done = subprocess.run([PROGRAM, f"--objects-dir={k.objects}", SET, "--ns-addresses=10.96.0.10", f"--print-zone={ZONE}"],
                              capture_output=True, text=True, timeout=30, check=True)  # fmt: skip
        lines = done.stdout.splitlines()[1:]
        assert f"{ZONE}. 30 IN NS ns.dns.{ZONE}." in lines and f"db-0.west.db.mine.svc.{ZONE}. 30 IN A 10.2.0.1" in lines


@pytest.mark.parametrize(
    ("flags", "zone", "resource", "record"),
    [
        ((SET,), ZONE, "serviceimports", f"web.mine.svc.{ZONE}. 30 IN A 10.42.0.1"),
        ((SET, "--reverse-cidrs=10.42.0.0/16"), "42.10.in-addr.arpa", "serviceimports", f"1.0.42.10.in-addr.arpa. 30 IN PTR web.mine.svc.{ZONE}."),
        (("--external-zones=apps.example",), "apps.example", "ingresses", "shop.apps.example. 30 IN A 192.0.2.1"),
    ],
)
def test_print_zone_waits_until_the_kinds_of_the_zone_are_listed(api, tmp_path, flags, zone, resource, record):
    """A bug: kubedns printed what had arrived when the cluster's own zone was complete, and exited with 0."""
    shop = {"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": "shop", "namespace": "mine"},
            "spec": {"rules": [{"host": "shop.apps.example"}]}, "status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}}  # fmt: skip
    api.fill([*WORLD, shop])
    trouble = api.fault(resource=resource, status=500, message="the conversion webhook is away")
    command = [PROGRAM, f"--kubecfg-file={api.kubeconfig(tmp_path / 'kubeconfig')}", *flags, "--ns-addresses=10.96.0.10", f"--print-zone={zone}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as printing:
        wait_for(lambda: api.met(trouble) >= 3 or printing.poll() is not None, 30, "three refused lists")
        api.clear(trouble)
        lines = printing.communicate(timeout=60)[0].splitlines()
    assert printing.returncode == 0 and record in lines, lines


def test_clusterset_and_external_zones_work_together(tmp_path):
    outside = free_port()
    flags = [SET, "--external-zones=apps.example.com", "--external-headless", "--ns-addresses=10.96.0.10", "--external-ns=ns1.example.net",
             f"--external-address=127.0.0.1:{outside}", "--nameservers=127.0.0.1:9"]  # fmt: skip
    own = [service("pets", "None", "mine"), endpoint_slice("pets", ["10.9.0.1"], "mine")]
    with start(tmp_path, [*WORLD, *own], *flags) as k:
        k.wait_ready()
        check_world(k)
        # A headless Service of this cluster has a name in the external zone. It has no name in the cluster set.
        assert k.ask("pets.mine.apps.example.com") == {"10.9.0.1"} and k.ask(f"pets.mine.{ZONE}") == NXDOMAIN
        # Each zone has its own name server.
        assert exchange(k.port, "apps.example.com", "SOA").answer[0][0].mname.to_text() == "ns1.example.net."
        assert exchange(k.port, ZONE, "SOA").answer[0][0].mname.to_text() == f"ns.dns.{ZONE}."
        assert exchange(outside, "apps.example.com", "SOA").rcode() == dns.rcode.NOERROR
        for name, type_ in [(f"web.mine.svc.{ZONE}", "A"), (ZONE, "SOA"), ("1.0.42.10.in-addr.arpa", "PTR")]:
            assert exchange(outside, name, type_).rcode() == dns.rcode.REFUSED, name


def test_only_the_namespaces_that_are_shown_have_imports(tmp_path):
    world = [*WORLD, namespace("shop", team="a"), imported("web", "10.42.0.2", ns="shop")]
    with start(tmp_path, world, SET, "--namespace-labels=team=a") as k:
        k.wait_ready()
        assert k.ask(f"web.shop.svc.{ZONE}") == {"10.42.0.2"} and k.ask(f"web.mine.svc.{ZONE}") == NXDOMAIN
        write(k.objects, [*world, namespace("mine", team="a")][1:])
        k.wait(lambda: k.ask(f"web.mine.svc.{ZONE}") == {"10.42.0.1"})


def test_in_the_classic_topology_dnsmasq_hands_the_zone_on(tmp_path):
    """Uses the flag that kubedns-migrate prints for a Corefile's `multicluster`."""
    corefile = f".:53 {{\n kubernetes {Z} {ZONE} {{\n multicluster {ZONE}\n }}\n}}\n"
    told = subprocess.run([PROGRAM + "-migrate", "--topology=classic", "-"], input=corefile, capture_output=True, text=True, timeout=30, check=True).stdout
    (flag,) = set(re.findall(rf"--server=/{ZONE}/127\.0\.0\.1#10053", told))
    with closing(NannyWorld()) as w, start(tmp_path, WORLD, SET, "--nameservers=127.0.0.1:9") as k:
        k.wait_ready()
        flags = [flag, f"--server=/{Z}/127.0.0.1#10053", "--server=/in-addr.arpa/127.0.0.1#10053"]
        w.start(args=["-k", "--cache-size=1000", "--no-hosts", "--log-facility=-", *(f.replace("#10053", f"#{k.port}") for f in flags)])
        ask_until(w.port, f"web.mine.svc.{ZONE}", "A", {"10.42.0.1"})
        ask_until(w.port, f"db-0.east.db.mine.svc.{ZONE}", "A", {"10.1.0.1"})
        ask_until(w.port, f"none.mine.svc.{ZONE}", "A", NXDOMAIN)
        ask_until(w.port, "1.0.42.10.in-addr.arpa", "PTR", {f"web.mine.svc.{ZONE}."})


@pytest.mark.parametrize("args, why", [
    (["--clusterset-domain=a..b"], "not a DNS name"), (["--clusterset-domain=."], "not a DNS name"),
    (["--clusterset-domain=set.cluster.local"], "and --domain"), (["--clusterset-domain=local"], "and --domain"),
    (["--clusterset-domain=168.192.in-addr.arpa"], "reverse zones"), (["--clusterset-domain=" + "a." * 64 + "b"], "too long"),
    ([SET, "--external-zones=apps.clusterset.local"], "and --external-zones"),
    ([SET, "--visibility=labels", "--client-pods=all", "--dns-port=53"], "run a separate kubedns for it"),
    (["--fallthrough=clusterset.local"], "not in --domain, --clusterset-domain or a reverse zone"),
])  # fmt: skip
def test_what_makes_no_sense_is_refused(tmp_path, args, why):
    done = subprocess.run([PROGRAM, f"--objects-dir={tmp_path}", *args], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 2 and why in done.stderr and "--help" in done.stderr, done.stderr


def test_a_name_that_the_set_lacks_can_be_asked_of_others(tmp_path):
    done = subprocess.run([PROGRAM, f"--objects-dir={tmp_path}", SET, "--fallthrough=clusterset.local", "--check"], capture_output=True, text=True,
                          timeout=30, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_an_import_that_a_change_makes_invalid_has_no_names(api, tmp_path):
    """A kubedns that starts now also ignores the import. A bug kept the import's names until the next list."""
    api.fill(WORLD)
    with kubedns(api, tmp_path, SET) as k:
        k.wait_ready()
        for name, good in (("web", imported("web", "10.42.0.1")), ("db", imported("db"))):
            assert isinstance(k.ask(f"{name}.mine.svc.{ZONE}"), frozenset)
            api.put({**good, "spec": {**good["spec"], "type": "Bogus"}})
            k.wait(lambda name=name: k.ask(f"{name}.mine.svc.{ZONE}") == NXDOMAIN)
            api.put(good)
            k.wait(lambda name=name: isinstance(k.ask(f"{name}.mine.svc.{ZONE}"), frozenset))
        assert k.metric("kubedns_api_objects_rejected_total", resource="serviceimports") == 2
