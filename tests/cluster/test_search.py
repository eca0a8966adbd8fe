"""
The policy of conf/kubernetes/search in the real API server. Which pods get the single search domain, according to their stored specs?
nodes/test_search_pods.py has the queries of such a pod.
"""

import json
import pathlib
import shutil
import sys

import pytest
from cluster import DNS_IP
from realapi import RealApi
from run import Failed
from waiting import wait_for

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "helpers"))
from objects import namespace  # noqa: E402

CONF = HERE.parent.parent / "conf/kubernetes"
DOMAIN = "cluster.local"


def labelled(name, **labels):
    made = namespace(name)
    made["metadata"]["labels"] = labels
    return made


def pod(name, ns="shop", **spec):
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": ns, "labels": {"app": name}},
            "spec": {"containers": [{"name": "c", "image": "example/none"}], **spec}}  # fmt: skip


def deployment(name, ns="shop"):
    template = pod(name, ns)
    del template["apiVersion"], template["kind"], template["metadata"]["name"], template["metadata"]["namespace"]
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": ns},
            "spec": {"replicas": 2, "selector": {"matchLabels": {"app": name}}, "template": template}}  # fmt: skip


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    """The API server with the policy applied as an operator does, after it has taken effect."""
    made = tmp_path_factory.mktemp("search")
    api = RealApi(made / "real", controllers="serviceaccount,namespace,rootca,deployment,replicaset,endpointslice")
    shutil.copytree(CONF, made / "conf")
    settings = made / "conf/settings/settings.yaml"
    settings.write_text(settings.read_text().replace("clusterIP: SET-ME", f"clusterIP: {DNS_IP}"))
    try:
        api.apply(labelled("shop"), labelled("declines", **{"kubedns/search-completion": "off"}))
        for ns in ("shop", "declines", "default"):
            wait_for(lambda n=ns: has(api, "serviceaccount", n, "default"), 30, f"the service account of {ns}")
        print(api.kubectl("apply", "-k", made / "conf/search"))
        wait_for(lambda: searches(dry_run(api)) is not None, 60, "the policy in force")
        yield api
    finally:
        api.stop()


def has(api, kind, ns, name):
    try:
        return bool(api.kubectl("get", kind, "-n", ns, name, "-o", "name"))
    except Failed:
        return False


def dry_run(api):
    return json.loads(api.kubectl("create", "--dry-run=server", "-o", "json", "-f", "-", text=json.dumps(pod("probe"))))["spec"]


def searches(spec):
    return spec.get("dnsConfig", {}).get("searches")


def stored(api, name, ns="shop"):
    return json.loads(api.kubectl("get", "pod", "-n", ns, name, "-o", "json"))["spec"]


def expected(ns="shop"):
    return {"nameservers": [DNS_IP], "searches": [f"{ns}.s.{DOMAIN}"], "options": [{"name": "ndots", "value": "5"}]}


def test_pods_by_kubectl_and_by_a_deployment_get_the_one_search_domain(real, report):
    real.kubectl("create", "-f", "-", text=json.dumps(pod("plain")))
    real.kubectl("run", "by-run", "-n", "shop", "--image=example/none")
    real.apply(deployment("made"))
    wait_for(lambda: len(real.kubectl("get", "pods", "-n", "shop", "-l", "app=made", "-o", "name").split()) == 2, 60, "the Deployment's pods")
    by_deployment = [p.removeprefix("pod/") for p in real.kubectl("get", "pods", "-n", "shop", "-l", "app=made", "-o", "name").split()]
    for name in ["plain", "by-run", *by_deployment]:
        spec = stored(real, name)
        assert spec["dnsPolicy"] == "None" and spec["dnsConfig"] == expected(), name
    report("pods by kubectl and by a Deployment", expected(), stored(real, by_deployment[0])["dnsConfig"])


def test_pods_that_chose_and_namespaces_that_decline_are_left_alone(real, report):
    own = {"options": [{"name": "ndots", "value": "2"}]}
    rows = {
        "own dnsConfig": (pod("own-config", dnsConfig=own), "ClusterFirst", own),
        "host network": (pod("host", hostNetwork=True, dnsPolicy="ClusterFirst"), "ClusterFirst", None),
        "host network, ClusterFirstWithHostNet": (pod("host-net", hostNetwork=True, dnsPolicy="ClusterFirstWithHostNet"), "ClusterFirstWithHostNet", None),
        "dnsPolicy Default": (pod("node-dns", dnsPolicy="Default"), "Default", None),
        "a namespace that declines": (pod("declines", "declines"), "ClusterFirst", None),
    }
    for what, (made, policy, config) in rows.items():
        real.kubectl("create", "-f", "-", text=json.dumps(made))
        spec = stored(real, made["metadata"]["name"], made["metadata"]["namespace"])
        assert (spec["dnsPolicy"], spec.get("dnsConfig")) == (policy, config), what
        report(what, (policy, config), (spec["dnsPolicy"], spec.get("dnsConfig")))
