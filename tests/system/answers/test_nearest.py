"""
--nearest, --nearest-only and --zonal: who asks is told by its address, the endpoints near it come first, and a zone can be named. From
the manifests of a directory, from an API server, and in the node role.
"""

import subprocess
from collections import Counter

import pytest
from api_world import World
from dnsnet import query, udp
from kubedns_process import PROGRAM
from objects import endpoint_slice, namespace, service
from test_mistakes import run
from test_options import pod
from world import ask, expect, start, texts, write

ZONE = "cluster.local"
DB = f"db.prod.svc.{ZONE}"
NEAR_N1, NEAR_B, UNKNOWN = "127.0.0.11", "127.0.0.12", "127.0.0.13"
RESOLVER = "--resolver=127.0.0.1:9"  # nobody: only the cluster's names are asked for


def node(name, zone=None):
    labels = {"topology.kubernetes.io/zone": zone} if zone else {}
    return {"kind": "Node", "apiVersion": "v1", "metadata": {"name": name, "labels": labels}}


def placed(service_name, *endpoints, suffix="s1", ns="prod", **more):
    """An EndpointSlice of (address, node, zone[, zone of the hint[, ready]])."""
    made = endpoint_slice(service_name, [e[0] for e in endpoints], ns=ns, suffix=suffix, **more)
    for endpoint, (_, on, zone, *rest) in zip(made["endpoints"], endpoints, strict=True):
        endpoint.update({"nodeName": on} if on else {}, **({"zone": zone} if zone else {}))
        if rest and rest[0]:
            endpoint["hints"] = {"forZones": [{"name": rest[0]}]}
        if len(rest) > 1:
            endpoint["conditions"] = {"ready": rest[1]}
    return made


ENDPOINTS = [("10.1.0.1", "n3", "b"), ("10.1.0.2", "n1", "a"), ("10.1.0.3", "n4", "c"), ("10.1.0.4", "n2", "a"), ("10.1.0.5", "n3", "b", "a")]
NODES = [node("n1", "a"), node("n2", "a"), node("n3", "b"), node("n4", "c"), node("n5", "b")]
PODS = [pod("one", "prod", NEAR_N1, node="n1"), pod("two", "prod", NEAR_B, node="n5")]
CLUSTER = [namespace("prod"), service("db", "None", "prod"), service("web", "10.96.0.1", "prod"), placed("db", *ENDPOINTS), *NODES, *PODS]
ARGS = ("--client-pods=all", "--nearest")


def order(kubedns, source, name=DB):
    reply = udp(kubedns, query(name), source=source)
    return [int(rd.to_text().rsplit(".", 1)[1]) for rrset in reply.answer for rd in rrset]


def classes(kubedns, source, *sizes):
    """The first addresses, the next ones, ...: in each class in any order."""
    got, out = order(kubedns, source), []
    for size in sizes:
        out.append(set(got[:size]))
        got = got[size:]
    return [*out, set(got)]


def test_each_pod_gets_what_is_near_it_first(tmp_path):
    with start(tmp_path, CLUSTER, *ARGS) as k:
        k.wait_ready()
        for _ in range(20):
            assert classes(k, NEAR_N1, 1, 2) == [{2}, {4, 5}, {1, 3}]  # 5 is in b, and meant for a
            assert classes(k, NEAR_B, 1) == [{1}, {2, 3, 4, 5}]
            assert set(order(k, UNKNOWN)) == {1, 2, 3, 4, 5}
        assert {order(k, UNKNOWN)[0] for _ in range(60)} == {1, 2, 3, 4, 5}
        assert {order(k, NEAR_N1)[1] for _ in range(40)} == {4, 5}, "each class begins anywhere"
        assert k.metric("kubedns_nearest_total", first="node") == 60
        assert k.metric("kubedns_nearest_total", first="zone") == 20
        assert k.metric("kubedns_nearest_total", first="unknown") == 80
        assert k.metric("kubedns_clients_unknown_total") == 0, "of --visibility"
        # The pod is on another node, then its node in another zone, then it has gone.
        others = [i for i in CLUSTER if i["metadata"]["name"] not in ("two", "n5")]
        write(k.objects, [*others, node("n5", "b"), pod("two", "prod", NEAR_B, node="n4")])
        k.wait(lambda: order(k, NEAR_B)[0] == 3)
        write(k.objects, [*others, node("n5", "a"), pod("two", "prod", NEAR_B, node="n5")])
        k.wait(lambda: classes(k, NEAR_B, 3) == [{2, 4, 5}, {1, 3}])
        write(k.objects, [*others, node("n5", "a")])
        k.wait(lambda: k.metric("kubedns_objects", kind="pod") == 1)
        assert {order(k, NEAR_B)[0] for _ in range(60)} == {1, 2, 3, 4, 5}


def test_endpoints_that_come_go_and_change_their_place(tmp_path):
    items = [i for i in CLUSTER if i["kind"] != "EndpointSlice"]
    with start(tmp_path, CLUSTER, "--client-pods=all", "--nearest-only") as k:
        k.wait_ready()
        assert set(order(k, NEAR_N1)) == {2, 4, 5} and order(k, NEAR_N1)[0] == 2
        assert set(order(k, NEAR_B)) == {1}
        # Not ready any more: the next near ones, and when there is none all of them.
        write(k.objects, [*items, placed("db", *(e if e[1] != "n3" else (*e[:3], None, False) for e in ENDPOINTS))])
        k.wait(lambda: set(order(k, NEAR_B)) == {2, 3, 4})
        assert set(order(k, NEAR_N1)) == {2, 4}
        write(k.objects, [*items, placed("db", ("10.1.0.3", "n4", "c"), ("10.1.0.4", "n1", "a")), placed("db", ("10.1.0.9", "n5", "b"), suffix="s2")])
        k.wait(lambda: order(k, NEAR_N1) == [4])
        assert order(k, NEAR_B) == [9]
        srv = udp(k, query(DB, "SRV"), source=NEAR_B)
        assert texts(srv.answer) == [f"0 33 80 10-1-0-9.{DB}."] and texts(srv.additional) == ["10.1.0.9"]
        # Nothing else depends on who asks.
        assert texts(udp(k, query(f"10-1-0-3.{DB}"), source=NEAR_B).answer) == ["10.1.0.3"]
        assert texts(udp(k, query(f"web.prod.svc.{ZONE}"), source=NEAR_B).answer) == ["10.96.0.1"]


def test_names_of_zones(tmp_path):
    items = [*CLUSTER, service("out", "", "prod", type="ExternalName", externalName="www.example.com")]
    with start(tmp_path, items, "--client-pods=all", "--zonal") as k:
        k.wait_ready()
        expect(ask(k, f"a.pin._zone.{DB}"), answer=["10.1.0.2", "10.1.0.4"])
        expect(ask(k, f"b._zone.{DB}"), answer=["10.1.0.1", "10.1.0.5"])
        expect(ask(k, f"B.Prefer._Zone.{DB}"), answer=["10.1.0.1", "10.1.0.5"])
        expect(ask(k, f"z.prefer._zone.{DB}"), answer=[f"10.1.0.{i}" for i in range(1, 6)])
        expect(ask(k, f"z.pin._zone.{DB}"))
        expect(ask(k, f"c.pin._zone.{DB}", "SRV", tcp=True), answer=[f"0 20 80 10-1-0-3.{DB}."])
        for name in (f"a.other._zone.{DB}", f"a.pin._zone.web.prod.svc.{ZONE}", f"a.pin._zone.out.prod.svc.{ZONE}", f"a.pin._zone.no.prod.svc.{ZONE}"):
            expect(ask(k, name), "NXDOMAIN")
        for source, own in ((NEAR_N1, {2, 4}), (NEAR_B, {1, 5}), (UNKNOWN, set())):
            assert set(order(k, source, f"_zone.{DB}")) == own
            assert set(order(k, source, f"prefer._zone.{DB}")) == (own or {1, 2, 3, 4, 5})
        assert k.metric("kubedns_zonal_total", **{"from": "all"}) == 2 and k.metric("kubedns_zonal_total", **{"from": "zone"}) == 8
        assert len({tuple(order(k, NEAR_N1)) for _ in range(60)}) == 5, "the Service's own name is as ever"


def test_names_of_zones_without_records_are_explained(tmp_path):
    with start(tmp_path, CLUSTER, "--client-pods=all", "--zonal") as k:
        k.wait_ready()

        def explained(name, client=UNKNOWN):
            return k.http(f"/explain?name={name}.{DB}&client={client}")[1]

        assert "no records (NODATA): no endpoint of Service db is in this zone (--zonal)\n" in explained("z.pin._zone")
        for name in ("_zone", "pin._zone"):
            assert "no records (NODATA): the zone of this client is not known (--zonal)\n" in explained(name)
            assert "10.1.0.2\n" in explained(name, NEAR_N1)
        assert "for none is in that zone (--zonal, prefer)\n" in explained("z.prefer._zone")
        assert "for the zone of the client is not known (--zonal, prefer)\n" in explained("prefer._zone")
        assert "only names below it" not in explained("pin._zone") + explained("z.pin._zone")
        why = "with --zonal headless Services have ZONE.pin._zone and ZONE.prefer._zone"
        assert f"Why: {why}.\n" in explained("a.other._zone") and why in udp(k, query(f"b.c._zone.{DB}", use_edns=0)).to_text()


def test_a_pod_on_every_node_knows_where_its_clients_are(tmp_path):
    def before(api):
        for item in (namespace("prod"), service("db", "None", "prod"),
                     placed("db", *ENDPOINTS, labels={"service.kubernetes.io/headless": ""})):  # fmt: skip
            api.put(item)

    for args, wanted in ((("--node-name=n1", "--zone=a"), [{2}, {4, 5}, {1, 3}]), (("--node-name=n1",), [{2}, {1, 3, 4, 5}, set()])):
        with World(tmp_path, "--node-role", "--nearest", "--zonal", RESOLVER, *args, before=before) as world:
            world.watching()
            k = world.kubedns
            k.wait(lambda: classes(k, "127.0.0.1", *map(len, wanted[:2])) == wanted)  # noqa: B023
            assert {r["resource"] for r in world.api.requests()}.isdisjoint({"nodes", "pods"}), "no rights for more"
            expect(ask(k, f"pin._zone.{DB}"), answer=["10.1.0.2", "10.1.0.4"] if "--zone=a" in args else [])
            said = k.http(f"/explain?name={DB}")[1]
            assert "nearest first (--nearest), for clients of this node: 1 for its node, " in said, said
            assert "    10.1.0.2 for the client's node\n" in said and "    10.1.0.3 elsewhere\n" in said


def test_pods_and_nodes_are_watched_for_it_and_hints_are_read_from_the_api(tmp_path):
    def before(api):
        for item in CLUSTER:
            api.put(item)

    with World(tmp_path, *ARGS, RESOLVER, before=before) as world:
        k = world.kubedns
        world.watching("pods", "nodes")
        k.wait(lambda: classes(k, NEAR_N1, 1, 2) == [{2}, {4, 5}, {1, 3}])
        world.api.put(node("n5", "a"))
        k.wait(lambda: classes(k, NEAR_B, 3) == [{2, 4, 5}, {1, 3}])
        world.api.delete("nodes", "", "n5")
        k.wait(lambda: {order(k, NEAR_B)[0] for _ in range(60)} == {1, 2, 3, 4, 5})
        said = k.http(f"/explain?name={DB}&client={NEAR_N1}")[1]
        assert "for this client: 1 for its node, 2 for its zone, 2 elsewhere\n" in said, said
        assert "/explain?name=NAME&client=ADDRESS" in k.http(f"/explain?name={DB}")[1]
        assert k.http(f"/explain?name={DB}&client=x")[0] == 400
        assert "a client that is no pod with a known node gets them in any order" in k.http(f"/explain?name={DB}&client={UNKNOWN}")[1]


def test_without_the_flags_no_place_is_read_and_no_node_watched(tmp_path):
    def before(api):
        for item in CLUSTER:
            api.put(item)

    with World(tmp_path, "--client-pods=all", before=before) as world:
        world.watching("pods")
        k = world.kubedns
        k.wait(lambda: set(order(k, NEAR_N1)) == {1, 2, 3, 4, 5})
        assert "nodes" not in {r["resource"] for r in world.api.requests()}
        first = Counter(order(k, NEAR_N1)[0] for _ in range(100))
        assert set(first) == {1, 2, 3, 4, 5}
        expect(ask(k, f"a.pin._zone.{DB}"), "NXDOMAIN")
        assert k.metric("kubedns_nearest_total", first="unknown") == 0
        assert "nearest" not in k.http(f"/explain?name={DB}")[1]


def test_what_is_near_somebody_does_not_reach_zone_files(tmp_path):
    objects = tmp_path / "objects"
    objects.mkdir()
    write(objects, CLUSTER)
    printed = []
    for args in ((), ("--node-role", "--nearest-only", "--zonal", "--node-name=n1", "--zone=a")):
        done = subprocess.run([PROGRAM, f"--objects-dir={objects}", "--ns-addresses=192.0.2.1", *args, "--print-zone"], capture_output=True,
                              text=True, timeout=30, check=True)  # fmt: skip
        printed.append([line for line in done.stdout.splitlines() if " SOA " not in line])
    assert printed[0] == printed[1] and sum(line.startswith(f"{DB}. 30 IN A ") for line in printed[0]) == 5


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--nearest", "--client-pods=all", "--dns-port=10053"], '--nearest: behind dnsmasq, as in the classic topology'),
        (["--nearest-only", "--client-pods=all", "--search-resolver=127.0.0.1:53"], "its cache gives all pods what is near one: use the front topology"),
        (["--nearest", "--dns-port=53"], "add --client-pods=all; or for a pod on every node --node-role"),
        (["--nearest-only", "--dns-port=53", "--client-pods=node", "--node-name=n"], '--nearest-only: where a client is'),
        (["--nearest", "--dns-port=53", "--node-role"], "which node is it? give --node-name"),
        (["--dns-port=53", "--node-role", "--node-name=n", "--zone=a"], '--zone: "a": needs --nearest or --nearest-only or --zonal: answers do not depend on the zone yet'),
        (["--nearest", "--dns-port=53", "--client-pods=all", "--zone=a"], '--zone: "a": needs --node-role: it is the zone of the node whose pods ask'),
    ],
)
def test_a_mistake_is_named_with_what_to_do(args, said):
    code, errors = run(PROGRAM, *args)
    assert code == 2 and said in errors and "--help" in errors
