"""
--nearest, --nearest-only and --zonal. kubedns finds the client's node and zone by its address and puts the nearest endpoints first. A
client can also name a zone. The tests use manifests, an API server, and the node role.
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
RESOLVER = "--resolver=127.0.0.1:9"  # there is no server at this address, because the tests query only cluster names


def node(name, zone=None):
    labels = {"topology.kubernetes.io/zone": zone} if zone else {}
    return {"kind": "Node", "apiVersion": "v1", "metadata": {"name": name, "labels": labels}}


def placed(service_name, *endpoints, suffix="s1", ns="prod", **more):
    """Makes an EndpointSlice from tuples (address, node, zone[, zone of the hint[, ready]])."""
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
    """Splits the answer's addresses into groups of these sizes and a last group with the remainder. The order within a group does not matter."""
    got, out = order(kubedns, source), []
    for size in sizes:
        out.append(set(got[:size]))
        got = got[size:]
    return [*out, set(got)]


def test_each_pod_gets_what_is_near_it_first(tmp_path):
    with start(tmp_path, CLUSTER, *ARGS) as k:
        k.wait_ready()
        for _ in range(20):
            assert classes(k, NEAR_N1, 1, 2) == [{2}, {4, 5}, {1, 3}]  # endpoint 5 is in zone b and has a hint for zone a
            assert classes(k, NEAR_B, 1) == [{1}, {2, 3, 4, 5}]
            assert set(order(k, UNKNOWN)) == {1, 2, 3, 4, 5}
        assert {order(k, UNKNOWN)[0] for _ in range(60)} == {1, 2, 3, 4, 5}
        assert {order(k, NEAR_N1)[1] for _ in range(40)} == {4, 5}, "each class starts at a random endpoint"
        assert k.metric("kubedns_nearest_total", first="node") == 60
        assert k.metric("kubedns_nearest_total", first="zone") == 20
        assert k.metric("kubedns_nearest_total", first="unknown") == 80
        assert k.metric("kubedns_clients_unknown_total") == 0, "this metric belongs to --visibility"
        # The pod moves to another node, then this node moves to another zone, then the pod disappears.
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
        # When the nearest endpoint is no longer ready, the client gets the next nearest endpoints. When there is no near endpoint, the
        # client gets all endpoints.
        write(k.objects, [*items, placed("db", *(e if e[1] != "n3" else (*e[:3], None, False) for e in ENDPOINTS))])
        k.wait(lambda: set(order(k, NEAR_B)) == {2, 3, 4})
        assert set(order(k, NEAR_N1)) == {2, 4}
        write(k.objects, [*items, placed("db", ("10.1.0.3", "n4", "c"), ("10.1.0.4", "n1", "a")), placed("db", ("10.1.0.9", "n5", "b"), suffix="s2")])
        k.wait(lambda: order(k, NEAR_N1) == [4])
        assert order(k, NEAR_B) == [9]
        srv = udp(k, query(DB, "SRV"), source=NEAR_B)
        assert texts(srv.answer) == [f"0 33 80 10-1-0-9.{DB}."] and texts(srv.additional) == ["10.1.0.9"]
        # All other answers are the same for every client.
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
        assert len({tuple(order(k, NEAR_N1)) for _ in range(60)}) == 5, "the Service's own name still rotates"


def test_names_of_zones_without_records_are_explained(tmp_path):
    with start(tmp_path, CLUSTER, "--client-pods=all", "--zonal") as k:
        k.wait_ready()

        def explained(name, client=UNKNOWN):
            return k.http(f"/explain?name={name}.{DB}&client={client}")[1]

        assert "no records (NODATA): no endpoint of Service db is in this zone (--zonal)\n" in explained("z.pin._zone")
        for name in ("_zone", "pin._zone"):
            assert "no records (NODATA): the zone of this client is unknown (--zonal)\n" in explained(name)
            assert "10.1.0.2\n" in explained(name, NEAR_N1)
        assert "for none is in that zone (--zonal, prefer)\n" in explained("z.prefer._zone")
        assert "for the zone of the client is not known (--zonal, prefer)\n" in explained("prefer._zone")
        assert "only names below it" not in explained("pin._zone") + explained("z.pin._zone")
        why = "with --zonal, headless Services have names ZONE.pin._zone and ZONE.prefer._zone"
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
            assert {r["resource"] for r in world.api.requests()}.isdisjoint({"nodes", "pods"}), "kubedns must need no other permissions"
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
        assert "nearest first for pods on a known node, in any order for other clients" in k.http(f"/explain?name={DB}&client={UNKNOWN}")[1]


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
        (["--nearest", "--client-pods=all", "--dns-port=10053"], '--nearest: in the classic topology dnsmasq is the only client'),
        (["--nearest-only", "--client-pods=all", "--search-resolver=127.0.0.1:53"], "its cache would give all pods the endpoints that are near one pod: use the front topology"),
        (["--nearest", "--dns-port=53"], "add --client-pods=all, or --node-role for a pod on every node"),
        (["--nearest-only", "--dns-port=53", "--client-pods=node", "--node-name=n"], "--nearest-only: kubedns knows a client's node and zone only if it watches pods"),
        (["--nearest", "--dns-port=53", "--node-role"], "the node is unknown: give --node-name"),
        (["--dns-port=53", "--node-role", "--node-name=n", "--zone=a"], '--zone: "a": needs --nearest or --nearest-only or --zonal: only these flags use the zone'),
        (["--nearest", "--dns-port=53", "--client-pods=all", "--zone=a"], '--zone: "a": needs --node-role: the zone is the zone of this pod'),
    ],
)
def test_a_mistake_is_named_with_what_to_do(args, said):
    code, errors = run(PROGRAM, *args)
    assert code == 2 and said in errors and "--help" in errors
