"""How each flag changes the answers."""

import subprocess

import dns.edns
import dns.message
import dns.query
import dns.rcode
import pytest
from kubedns_process import PROGRAM
from objects import namespace, service
from world import Z, ask, expect, external, slice_of, start, texts


@pytest.fixture
def run(tmp_path):
    started = []

    def begin(items, *args, **kw):
        k = start(tmp_path, items, *args, **kw)
        started.append(k)
        k.wait_ready()
        return k

    yield begin
    for k in started:
        k.__exit__(None)


def pod(name, ns, *addresses, phase="Running", deleting=False, node="node-a", on_host=False):
    meta = {"name": name, "namespace": ns}
    if deleting:
        meta["deletionTimestamp"] = "2026-11-21T00:00:00Z"
    return {"kind": "Pod", "apiVersion": "v1", "metadata": meta, "spec": {"nodeName": node, "hostNetwork": on_host},
            "status": {"phase": phase, "podIP": addresses[0], "podIPs": [{"ip": a} for a in addresses]}}  # fmt: skip


def test_pods_disabled_is_nxdomain_at_and_below_the_namespace(run):
    k = run([namespace("default")], "--pods=disabled")
    expect(ask(k, f"1-2-3-4.default.pod.{Z}"), "NXDOMAIN")
    expect(ask(k, f"default.pod.{Z}"), "NXDOMAIN")
    expect(ask(k, f"pod.{Z}"))


def test_pods_verified_knows_running_pods_by_any_of_their_addresses(run):
    k = run([namespace("default"), namespace("other"), pod("a", "default", "10.2.0.1", "2001:db8::1"),
             pod("done", "default", "10.2.0.2", phase="Succeeded"), pod("going", "default", "10.2.0.3", deleting=True)],
            "--pods=verified")  # fmt: skip
    expect(ask(k, f"10-2-0-1.default.pod.{Z}"), "NOERROR", ["10.2.0.1"])
    expect(ask(k, f"2001-db8--1.default.pod.{Z}", "AAAA"), "NOERROR", ["2001:db8::1"])
    for name in ("10-2-0-1.other", "10-2-0-2.default", "10-2-0-3.default", "10-2-0-9.default"):
        expect(ask(k, f"{name}.pod.{Z}"), "NXDOMAIN")


def test_an_address_that_two_pods_share_stays_while_one_of_them_runs(run):
    pods = [pod("a", "default", "10.2.0.1"), pod("b", "default", "10.2.0.1")]
    k = run([namespace("default"), *pods], "--pods=verified")
    from world import write

    write(k.objects, [namespace("default"), pods[1], namespace("marker")])
    k.wait(lambda: ask(k, f"marker.svc.{Z}").rcode() == 0)
    expect(ask(k, f"10-2-0-1.default.pod.{Z}"), "NOERROR", ["10.2.0.1"])


def test_only_the_namespaces_named_exist(run):
    objects = [namespace(n) for n in ("a", "b", "c")] + [service("s", f"10.96.0.{i}", ns=n) for i, n in enumerate("abc")]
    k = run(objects, "--namespaces=a", "--namespaces=b")
    expect(ask(k, f"s.a.svc.{Z}"), "NOERROR", ["10.96.0.0"])
    expect(ask(k, f"s.b.svc.{Z}"), "NOERROR", ["10.96.0.1"])
    for name in ("s.c.svc", "c.svc", "1-2-3-4.c.pod"):
        expect(ask(k, f"{name}.{Z}"), "NXDOMAIN")
    assert ask(k, "2.0.96.10.in-addr.arpa", "PTR").rcode() != 0


def test_ignore_empty_service_hides_cluster_ips_without_ready_endpoints_only(run):
    k = run([namespace("default"), service("full", "10.96.0.1"), slice_of("full", [("10.1.0.1", None, True)]),
             service("empty", "10.96.0.2"), service("down", "10.96.0.3"), slice_of("down", [("10.1.0.2", None, False)]),
             external("ext", "www.example.net")], "--ignore-empty-service")  # fmt: skip
    expect(ask(k, f"full.default.svc.{Z}"), "NOERROR", ["10.96.0.1"])
    expect(ask(k, f"empty.default.svc.{Z}"), "NXDOMAIN")
    expect(ask(k, f"down.default.svc.{Z}"), "NXDOMAIN")
    expect(ask(k, f"ext.default.svc.{Z}", "CNAME"), "NOERROR", ["www.example.net."])


def test_endpoint_pod_names(run):
    with_pod = slice_of("s", [("10.1.0.1", None, True), ("10.1.0.2", "host", True)])
    for i, e in enumerate(with_pod["endpoints"]):
        e["targetRef"] = {"kind": "Pod", "name": f"pod-{i}"}
    k = run([namespace("default"), service("s", "None"), with_pod], "--endpoint-pod-names")
    expect(ask(k, f"pod-0.s.default.svc.{Z}"), "NOERROR", ["10.1.0.1"])
    expect(ask(k, f"10-1-0-1.s.default.svc.{Z}"), "NXDOMAIN")
    expect(ask(k, f"host.s.default.svc.{Z}"), "NOERROR", ["10.1.0.2"])


@pytest.mark.parametrize("flag", [True, False])
def test_reverse_all_endpoints(run, flag):
    k = run([namespace("default"), service("s", "10.96.0.1"), slice_of("s", [("10.1.0.1", None, True)])],
            *["--reverse-all-endpoints"] * flag)  # fmt: skip
    reply = ask(k, "1.0.1.10.in-addr.arpa", "PTR")
    assert texts(reply.answer) == ([f"10-1-0-1.s.default.svc.{Z}."] if flag else [])


def test_the_server_id_is_what_the_operator_says(run):
    k = run([namespace("default")], "--server-id=node-7.example")
    for name in ("id.server", "hostname.bind"):
        assert texts(ask(k, name, "TXT", rdclass="CH").answer) == ['"node-7.example"']
    query = dns.message.make_query(f"default.svc.{Z}", "A", use_edns=0, options=[dns.edns.GenericOption(dns.edns.OptionType.NSID, b"")])
    options = dns.query.udp(query, "127.0.0.1", port=k.port, timeout=10).options
    assert [o.data for o in options if o.otype == dns.edns.OptionType.NSID] == [b"node-7.example"]


def test_a_server_id_that_has_no_room_is_refused(tmp_path):
    done = subprocess.run([PROGRAM, "--check", f"--objects-dir={tmp_path}", "--server-id=" + "x" * 64], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "too long: at most 63 bytes" in done.stderr


def test_ttls(run):
    k = run([namespace("default"), service("s", "10.96.0.1")], "--ttl=7", "--negative-ttl=3")
    assert ask(k, f"s.default.svc.{Z}").answer[0].ttl == 7
    assert ask(k, f"t.default.svc.{Z}").authority[0].ttl == 3


def test_another_domain_in_any_case_and_without_its_final_dot(run):
    k = run([namespace("default"), service("s", "10.96.0.1")], "--domain=Cluster.Example")
    expect(ask(k, "s.default.svc.cluster.example"), "NOERROR", ["10.96.0.1"])
    assert ask(k, f"s.default.svc.{Z}", flags=0).rcode() == dns.rcode.REFUSED


def test_without_a_forwarder_other_names_are_refused_and_external_names_are_the_cname_alone(run):
    # 127.0.0.1 with kubedns's own port would be a query to itself. kubedns skips it, so no upstream is left.
    k = run([namespace("default"), external("ext", "www.example.net")], "--resolver=127.0.0.1:1")
    reply = ask(k, "example.org", flags=0)  # RD=0
    assert reply.rcode() == dns.rcode.REFUSED
    reply = ask(k, f"ext.default.svc.{Z}", flags=0)
    assert (reply.rcode(), texts(reply.answer)) == (0, ["www.example.net."])


def test_federation_names(run):
    node = {"kind": "Node", "apiVersion": "v1",
            "metadata": {"name": "n1", "labels": {"topology.kubernetes.io/zone": "z1", "topology.kubernetes.io/region": "r1"}}}  # fmt: skip
    k = run([namespace("default"), node, service("here", "10.96.0.1"), slice_of("here", [("10.1.0.1", None, True)]),
             service("away", "10.96.0.2")], "--federations=myfed=fed.example")  # fmt: skip
    k.wait(lambda: texts(ask(k, f"here.default.myfed.svc.{Z}").answer, "CNAME"))
    expect(ask(k, f"here.default.myfed.svc.{Z}"), "NOERROR", [f"here.default.svc.{Z}.", "10.96.0.1"])
    for service_name in ("away", "nothing"):
        expect(ask(k, f"{service_name}.default.myfed.svc.{Z}", "CNAME"), "NOERROR",
               [f"{service_name}.default.myfed.svc.z1.r1.fed.example."])  # fmt: skip
    expect(ask(k, f"here.default.nofed.svc.{Z}"), "NXDOMAIN")


def test_wildcards_only_when_asked_for(run, tmp_path):
    objects = [namespace("a"), namespace("b"), service("s", "10.96.0.1", ns="a"), service("t", "10.96.0.2", ns="a"),
               service("s", "10.96.0.3", ns="b"), service("db", "None", ns="b"),
               slice_of("db", [("10.1.0.1", "db-0", True), ("10.1.0.2", None, True)], ns="b")]  # fmt: skip
    k = run(objects, "--wildcards")
    expect(ask(k, f"*.a.svc.{Z}"), "NOERROR", ["10.96.0.1", "10.96.0.2"])
    expect(ask(k, f"s.*.svc.{Z}"), "NOERROR", ["10.96.0.1", "10.96.0.3"])
    expect(ask(k, f"*.db.b.svc.{Z}"), "NOERROR", ["10.1.0.1", "10.1.0.2"])
    assert len(texts(ask(k, f"*.*.db.b.svc.{Z}", "SRV").answer)) == 2
    expect(ask(k, f"_http.*.s.a.svc.{Z}", "SRV"), "NOERROR", [f"0 100 80 s.a.svc.{Z}."])
    expect(ask(k, f"nothing.*.svc.{Z}"), "NXDOMAIN")
    k = run(objects)
    expect(ask(k, f"*.a.svc.{Z}"), "NXDOMAIN")
