"""Helm installs the chart, and upgrades it from one topology to the next while clients query."""

import json
import os

import pytest

from cluster import DNS_IP, REGISTRY, ROOT
from run import run
from waiting import wait_for

HELM = os.environ.get("HELM_CLI", ROOT / "build/helm-cli/helm")
NAME = "kubernetes.default.svc.cluster.local"


class Release:
    def __init__(self, suite):
        self.suite = suite

    def helm(self, *args):
        return run(HELM, "--kubeconfig", self.suite.plane.kubeconfig, "-n", "kube-system", *args)

    def upgrade(self, *values):
        sets = [a for v in (f"registry={REGISTRY}", f"service.clusterIP={DNS_IP}", "replicaCount=2", *values) for a in ("--set", v)]
        self.helm("upgrade", "--install", "--take-ownership", *sets, "kube-dns", ROOT / "conf/helm/kubedns")

    def pods(self, daemonset=False):
        names = [p for p in self.suite.kubelet.list("kube-system", "kube-dns-") if p.name.startswith("kube-dns-node-") == daemonset]
        return sorted(names, key=lambda p: p.name)

    def await_deployment(self):
        """Waits until two pods of the Deployment's newest version answer for the Service, and no other pod of it is left."""
        return self.suite.await_rollout("kube-dns")

    def await_daemonset(self):
        """Waits until the DaemonSet has a ready pod of its newest version on every node."""
        def done():
            d = json.loads(self.suite.plane.kubectl("-n", "kube-system", "get", "daemonset", "kube-dns-node", "-o", "json"))
            s, pods = d["status"], self.pods(daemonset=True)
            wanted = s["desiredNumberScheduled"]
            return s.get("observedGeneration") == d["metadata"]["generation"] and wanted > 0 and len(pods) == wanted \
                and s.get("updatedNumberScheduled", 0) == s.get("numberAvailable", 0) == wanted and all(p.ready() for p in pods) and pods
        return wait_for(done, 150, lambda: f"the pods of the DaemonSet\n{self.suite.describe()}")

    def await_no(self, daemonset):
        wait_for(lambda: not self.pods(daemonset), 60, "the other pods gone")


@pytest.fixture
def release(suite):
    suite.configure(None)
    suite.ensure("replace-kube-dns", 2)  # Helm takes over these objects
    made = Release(suite)
    yield made
    made.helm("uninstall", "--wait", "kube-dns")
    suite.gone("kube-dns-")
    suite.reinstall()


def test_each_topology_runs_and_is_upgraded_to_the_next(release, suite, glibc, musl, report):
    """The steps of the chart's page. The Deployment stays until every node has a pod of node-service."""
    seen = {}
    askers = [suite.asker(c, "ask-ports", DNS_IP, 50, f"{NAME}=10.96.0.1", "www.example.com=192.0.2.80") for c in (glibc, musl)]
    try:
        release.upgrade("topology=classic")
        seen["classic"] = release.await_deployment()
        release.upgrade("topology=front")
        seen["front"] = release.await_deployment()
        release.upgrade("topology=node-local")
        seen["node-local"] = release.await_daemonset()
        release.await_deployment()
        release.upgrade("topology=front")
        release.await_no(daemonset=True)
        release.await_deployment()
        release.upgrade("topology=node", "node.keepDeployment=true")
        seen["node"] = release.await_daemonset()
        release.upgrade("topology=node")
        release.await_no(daemonset=False)
        wait_for(lambda: suite.proxy.sends_to({p.address for p in seen["node"]}), 30, "the Service sends to the nodes' pods")
        for client in (glibc, musl):
            assert suite.lookup(client, "kubernetes.default")["addresses"] == ["10.96.0.1"]
            assert suite.lookup(client, "www.example.com")["addresses"] == ["192.0.2.80"]
    finally:
        results = [a.stop() for a in askers]
    asked, lost, wrong = (sum(t[k] for t, _ in results) for k in ("asked", "lost", "wrong"))
    report("chart: " + ", ".join(seen), "0 lost, 0 wrong", f"{lost} lost, {wrong} wrong of {asked}")
    assert asked > 500 and lost == 0 and wrong == 0, [f[:5] for _, f in results]
    for topology, pods in seen.items():
        port = "--dns-port=10053" if topology == "classic" else "--dns-port=53"
        for p in pods:
            assert port in p.container("kubedns").spec["args"] and set(p.restarts().values()) == {0}, topology
