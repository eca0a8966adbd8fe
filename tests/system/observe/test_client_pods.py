"""The pages and the query log show the pod of each client. kubedns watches the pods of its own node or all pods."""

import json

import pytest
from api_world import World
from dnsnet import WEB, query, udp
from kubedns_process import PROGRAM
from objects import namespace
from test_mistakes import run
from test_options import pod
from test_queries import recorded
from test_top import burst, top
from world import start

NODE = "ip-10-0-0-1.eu-central-1.compute.internal"
PODS = [
    namespace("prod"),
    pod("web-1", "prod", "127.0.0.2", node=NODE),
    pod("agent", "prod", "127.0.0.3", node=NODE, on_host=True),
    pod("starts", "prod", "127.0.0.4", node=NODE, phase="Pending"),
    pod("ends", "prod", "127.0.0.5", node=NODE, deleting=True),
    pod("done", "prod", "127.0.0.6", node=NODE, phase="Succeeded"),
    pod("web-2", "prod", "127.0.0.7", node="elsewhere"),
]


def clients(kubedns):
    """Returns the pod that /top reports for each client. Each client sends fewer queries than the one before it, so that their order is certain."""
    for i in range(2, 8):
        burst(kubedns, f"127.0.0.{i}", query(WEB), 6400 >> (i - 2) if i < 5 else 960 >> (i - 5))
    return {int(c["address"][-1]): (c.get("namespace"), c.get("pod"), c.get("node")) for c in top(kubedns)["clients"] if c["address"] != "127.0.0.1"}


def test_pods_are_known_by_address_except_pods_on_the_host_network(tmp_path):
    with start(tmp_path, PODS, "--client-pods=all") as k:
        k.wait_ready()
        assert clients(k) == {
            2: ("prod", "web-1", NODE),
            3: (None, None, None),  # the pod has the node's address
            4: ("prod", "starts", NODE),  # init containers send queries too
            5: ("prod", "ends", NODE),
            6: (None, None, None),  # the pod has completed, so another pod may have this address
            7: ("prod", "web-2", "elsewhere"),
        }
        assert f"127.0.0.2 pod prod/web-1 on {NODE}\n" in k.http("/top")[1]
        assert len([s for s in k.metrics() if s.startswith("kubedns_top_")]) == 10


def test_recorded_answers_and_the_query_log_name_the_pod(tmp_path):
    with start(tmp_path, PODS, "--client-pods=all", "--log-queries") as k:
        k.wait_ready()
        udp(k, query(WEB), source="127.0.0.2")
        udp(k, query(WEB), source="127.0.0.3")
        other, web = recorded(k, 2)
        assert (web["namespace"], web["pod"], web["node"]) == ("prod", "web-1", NODE) and "pod" not in other
        text = k.http("/queries")[1].splitlines()
        assert text[1].endswith(f"ms pod prod/web-1 on {NODE}") and text[0].endswith("ms")
        k.wait(lambda: f"ms pod prod/web-1 on {NODE}" in k.log())


def test_a_node_watches_its_own_pods_and_no_others(tmp_path):
    def before(api):
        for item in PODS:
            api.put(item)

    with World(tmp_path, "--node-role", "--client-pods=node", f"--node-name={NODE}", before=before) as world:
        world.watching("pods")
        k = world.kubedns
        assert {r["params"].get("fieldSelector") for r in world.api.requests() if r["resource"] == "pods"} == {f"spec.nodeName={NODE}"}
        assert k.metric("kubedns_objects", kind="pod") == 4  # neither the completed pod nor the pod on another node
        burst(k, "127.0.0.2", query(WEB), 640)
        burst(k, "127.0.0.7", query(WEB), 320)
        found = {c["address"]: c.get("pod") for c in top(k)["clients"]}
        assert found["127.0.0.2"] == "web-1" and found["127.0.0.7"] is None
        # A new pod gets the address of a deleted pod. From then on the new pod is the client.
        world.api.delete("pods", "prod", "web-1")
        world.api.put(pod("new", "prod", "127.0.0.2", node=NODE))
        k.wait(lambda: {c["address"]: c.get("pod") for c in top(k)["clients"]}["127.0.0.2"] == "new")


def test_without_the_flag_pods_are_not_asked_for(tmp_path):
    with World(tmp_path, "--node-role") as world:
        world.watching()
        assert "pods" not in {r["resource"] for r in world.api.requests()}
        burst(world.kubedns, "127.0.0.2", query(WEB), 640)
        assert "namespace" not in json.dumps(top(world.kubedns))


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--client-pods=some"], '--client-pods: "some": must be off, node or all'),
        (["--client-pods=node"], '--client-pods: "node": the node is unknown: give --node-name'),
        (["--client-pods=node", "--node-name=A,B"], '--node-name: "A,B": not the name of a node'),
        (["--client-pods=node", "--node-name=a", "--pods=verified"], "--pods=verified needs the pods of every node: use all"),
        (["--client-pods=node", "--node-name=a", "--objects-dir=/nowhere"], "with --objects-dir there is no API server that selects a node's pods: use all"),
    ],
)
def test_a_mistake_is_named_with_what_to_do(args, said):
    code, errors = run(PROGRAM, *args)
    assert code == 2 and said in errors and "--help" in errors
