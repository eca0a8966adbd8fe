"""Runs the documents' commands literally with the real API server. Pods are stand-ins that are ready at once."""

import json
import threading

import pytest
import yaml

from operator_shell import Operator, commands, section
from realapi import RealApi
from waiting import wait_for

NODE = "node-1"
NODE_LOCAL = {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "node-local-dns", "namespace": "kube-system"}, "spec": {
    "selector": {"matchLabels": {"k8s-app": "node-local-dns"}}, "template": {
        "metadata": {"labels": {"k8s-app": "node-local-dns"}},
        "spec": {"containers": [{"name": "node-cache", "image": "none.invalid/node-cache"}], "nodeSelector": {"kubernetes.io/os": "linux"}}}}}


def definition(kind, plural):
    """Returns a CRD that the Prometheus operator would install."""
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": f"{plural}.monitoring.coreos.com"}, "spec": {
        "group": "monitoring.coreos.com", "names": {"kind": kind, "plural": plural}, "scope": "Namespaced",
        "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}]}}


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    api = RealApi(tmp_path_factory.mktemp("documented"), controllers="endpointslice,deployment,replicaset,serviceaccount,rootca,gc,kubelet")
    try:
        nodes = ("node-0", NODE, "node-2")
        wait_for(lambda: set(nodes) <= set(api.kubectl("get", "nodes", "-o", "jsonpath={.items[*].metadata.name}").split()), 60, "the kubelets' nodes")
        for name in nodes:
            api.kubectl("label", "node", name, "kubernetes.io/os=linux", "--overwrite")
        yield api
    finally:
        api.stop()


@pytest.fixture
def operator(real, tmp_path):
    made = Operator(tmp_path, f"{real.command[0]} kubectl --kubeconfig {real.about['kubeconfig']}")
    made.settings()
    return made


def get(operator, what):
    return json.loads(operator.sh(f"kubectl -n kube-system get {what} -o json"))


def test_an_overlay_of_yours(real, operator):
    overlay, steps = section("conf/kubernetes/README.md", "An overlay of yours")
    real.apply(definition("PodMonitor", "podmonitors"), definition("PrometheusRule", "prometheusrules"))
    real.kubectl("wait", "--for=condition=Established", "crd/podmonitors.monitoring.coreos.com", "crd/prometheusrules.monitoring.coreos.com")
    operator.sh("kubectl apply -k conf/kubernetes/front")
    operator.save(overlay)
    check, diff, apply = commands(steps)
    operator.sh(check)
    changed = operator.sh(diff, codes=(1,))
    assert "+        - --filter-aaaa=auto" in changed and "+            memory: 256Mi" in changed
    operator.sh(apply)
    operator.sh("kubectl -n kube-system rollout status deployment/kube-dns --timeout=60s")
    # The old pod stays in the list until its drain is over.
    newest = max(get(operator, "pods -l k8s-app=kube-dns")["items"], key=lambda p: p["metadata"]["creationTimestamp"])
    kubedns = newest["spec"]["containers"][0]
    assert kubedns["args"][-1] == "--filter-aaaa=auto" and kubedns["resources"]["limits"]["memory"] == "256Mi"
    assert get(operator, "podmonitors,prometheusrules")["items"]


def test_an_upgrade_and_its_way_back(operator):
    """Follows docs/versions.md. In this test an additional flag stands for the new version."""
    operator.sh("kubectl apply -k conf/kubernetes/front")
    before = get(operator, "deployment/kube-dns")["spec"]["template"]["spec"]
    path = operator.directory / "conf/kubernetes/front/kustomization.yaml"
    patch = [{"op": "add", "path": "/spec/template/spec/containers/0/args/-", "value": "--endpoint-pod-names"}]
    made = yaml.safe_load(path.read_text())
    made.setdefault("patches", []).append({"target": {"kind": "Deployment"}, "patch": yaml.safe_dump(patch)})
    path.write_text(yaml.safe_dump(made))
    (steps,) = [block for block in section("docs/versions.md", "Upgrading") if "kubectl apply" in block]
    for command in commands(steps):
        operator.sh(command, codes=(0, 1) if " diff " in command else (0,))
    assert get(operator, "deployment/kube-dns")["spec"]["template"]["spec"]["containers"][0]["args"][-1] == "--endpoint-pod-names"
    operator.sh("kubectl -n kube-system rollout undo deployment/kube-dns")
    assert get(operator, "deployment/kube-dns")["spec"]["template"]["spec"] == before


def test_the_configmap_that_is_not_there_yet_is_made_and_patched(operator):
    create = "kubectl -n kube-system create configmap kube-dns"
    edit, patch = commands(section("docs/names.md", None)[0])
    assert edit.endswith("edit configmap kube-dns")
    operator.sh(create)
    operator.sh(patch)
    assert json.loads(get(operator, "configmap/kube-dns")["data"]["stubDomains"]) == {"corp.example": ["10.0.0.53"]}
    operator.sh("kubectl -n kube-system delete configmap kube-dns")


def test_what_a_cluster_has_is_counted(operator):
    services, endpoints = commands(section("docs/sizing.md", "Memory of kubedns")[0])
    assert int(operator.sh(services)) >= 1 and int(operator.sh(endpoints)) >= 1


class Daemons:
    """A stand-in for the DaemonSet controller. It creates the pods and reports success. The kubelet's stand-in makes the pods ready."""

    def __init__(self, real):
        self.real, self.over = real, threading.Event()
        self.thread = threading.Thread(target=self.run)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()

    def run(self):
        while not self.over.wait(0.2):
            for d in json.loads(self.real.kubectl("-n", "kube-system", "get", "daemonsets", "-o", "json"))["items"]:
                nodes = self.nodes(d["metadata"]["name"])
                self.place(d, nodes)
                n = len(nodes)
                status = {"observedGeneration": d["metadata"]["generation"], "currentNumberScheduled": n, "desiredNumberScheduled": n,
                          "numberAvailable": n, "numberReady": n, "updatedNumberScheduled": n, "numberMisscheduled": 0}
                self.real.kubectl("-n", "kube-system", "patch", "daemonset", d["metadata"]["name"], "--subresource=status", "--type=merge", "-p",
                                  json.dumps({"status": status}))

    def place(self, daemons, nodes):
        name, labels = daemons["metadata"]["name"], daemons["spec"]["template"]["metadata"]["labels"]
        pods = json.loads(self.real.kubectl("-n", "kube-system", "get", "pods", "-l", f"k8s-app={labels['k8s-app']}", "-o", "json"))["items"]
        there = {p["spec"]["nodeName"] for p in pods}
        for node in nodes - there:
            self.real.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"{name}-{node}", "namespace": "kube-system", "labels": labels},
                             "spec": {"nodeName": node, "containers": [{"name": "any", "image": "none.invalid/any"}]}})
        for node in there - nodes:
            self.real.kubectl("-n", "kube-system", "delete", "pod", f"{name}-{node}", "--wait=false")

    def nodes(self, name):
        pod = json.loads(self.real.kubectl("-n", "kube-system", "get", "daemonset", name, "-o", "json"))["spec"]["template"]["spec"]
        found = set()
        for node in json.loads(self.real.kubectl("get", "nodes", "-o", "json"))["items"]:
            labels = node["metadata"]["labels"]
            terms = pod.get("affinity", {}).get("nodeAffinity", {}).get("requiredDuringSchedulingIgnoredDuringExecution", {}).get("nodeSelectorTerms")
            if pod.get("nodeSelector", {}).items() <= labels.items() and (terms is None or any(matches(t, labels) for t in terms)):
                found.add(node["metadata"]["name"])
        return found


def matches(term, labels):
    assert all(e["operator"] == "NotIn" for e in term["matchExpressions"])
    return all(labels.get(e["key"]) not in e["values"] for e in term["matchExpressions"])


def test_one_node_first(real, operator):
    overlay, steps, back = section("docs/node.md", "One node first")
    real.apply(NODE_LOCAL)
    everywhere = {"node-0", NODE, "node-2"}
    operator.save(overlay)
    seen = []
    with Daemons(real) as daemons:
        for command in commands((steps + back).replace("NODE", NODE)):
            if command.startswith("kubectl dns "):
                continue  # kubectl dns needs running pods, and no pod runs here
            operator.sh(command)
            if "apply" in command or "label" in command:
                seen.append((daemons.nodes("kube-dns-node"), daemons.nodes("node-local-dns")))
    one = {NODE}
    assert seen == [(set(), everywhere), (one, everywhere), (one, everywhere - one), (one, everywhere), (set(), everywhere)]
