"""
--nearest with the real kube-apiserver, RBAC and the real EndpointSlice controller, which sets the hints of trafficDistribution. kubedns
has only the permissions of components/nearest.
"""

import json
import pathlib
import sys

import pytest
import test_api_real
from realapi import RealApi
from test_api_external import rights
from test_api_real import requests
from waiting import wait_for

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "helpers"))
from objects import namespace, service  # noqa: E402

start = test_api_real.start  # the fixture
ZONES = {0: "a", 1: "a", 2: "b"}


def pod(name, node):
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "shop", "labels": {"app": "db"}},
            "spec": {"nodeName": node, "containers": [{"name": "c", "image": "none"}]}}  # fmt: skip


@pytest.fixture
def real(tmp_path):
    api = RealApi(tmp_path / "real", controllers="endpointslice,namespace,gc,kubelet")
    try:
        wait_for(lambda: len(node_names(api)) >= len(ZONES), 30, "the nodes")
        api.nodes = node_names(api)
        for i, zone in ZONES.items():
            api.kubectl("label", "node", api.nodes[i], f"topology.kubernetes.io/zone={zone}", "--overwrite")
        yield api
    finally:
        api.stop()


def node_names(api):
    return sorted(n["metadata"]["name"] for n in json.loads(api.kubectl("get", "nodes", "-o", "json"))["items"])


def slices(api):
    return [e for s in json.loads(api.kubectl("get", "endpointslices", "-n", "shop", "-o", "json"))["items"] for e in s["endpoints"] or ()]


def address(api, name):
    return api.kubectl("get", "pod", "-n", "shop", name, "-o", "jsonpath={.status.podIP}")


@pytest.mark.parametrize(("distribution", "kinds"), [("PreferSameZone", {"forZones"}), ("PreferSameNode", {"forZones", "forNodes"}), (None, set())])
def test_hints_of_the_controller_decide_who_is_near(real, start, tmp_path, distribution, kinds):
    more = {"trafficDistribution": distribution} if distribution else {}
    rights(real, tmp_path, "client-pods", "nearest")
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": "shop"}}
    real.apply(namespace("shop"), account, service("db", "None", "shop", selector={"app": "db"}, **more))
    real.apply(*(pod(f"db-{i}", real.nodes[i]) for i in ZONES))
    kubedns = start("--nearest", "--zonal", "--client-pods=all", "--resolver=127.0.0.1:9")
    kubedns.wait_ready(30)
    kubedns.wait(lambda: len([e for e in slices(real) if e.get("zone") and set(e.get("hints") or ()) == kinds]) == len(ZONES), 60)
    addresses = [address(real, f"db-{i}") for i in ZONES]

    def near(client):
        """Returns how near each endpoint is to a pod on node `client`, according to /explain."""
        said = kubedns.http(f"/explain?name=db.shop.svc.cluster.local&client={addresses[client]}")[1]
        lines = dict(line.split(maxsplit=1) for line in said.splitlines() if line.startswith("    "))
        return [lines.get(a) for a in addresses]

    node, zone, far = "for the client's node", "for its zone", "elsewhere"
    kubedns.wait(lambda: near(0) == [node, zone, far], 30, what=lambda: near(0))
    assert near(1) == [zone, node, far] and near(2) == [far, far, node]
    assert kubedns.ask("b.pin._zone.db.shop.svc.cluster.local") == {addresses[2]}
    # A node's zone changes. Clients on the node are in the new zone at once. Endpoints are in it after the controller has written their slice again.
    real.kubectl("label", "node", real.nodes[1], "topology.kubernetes.io/zone=b", "--overwrite")
    kubedns.wait(lambda: near(1)[2] == zone, 30)
    seen = requests(real)
    assert {resource for _, resource, _ in seen} == {"services", "endpointslices", "namespaces", "pods", "nodes"}
    assert {verb for verb, _, _ in seen} <= {"list", "watch"} and not [what for what in seen if what[2] == 403], seen
