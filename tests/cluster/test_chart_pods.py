"""
Runs the chart's topologies, except node-local, as in a cluster. Helm's engine renders them, the real API server gets them, and pods run. Helm itself does
not run here, so the test deletes the objects that the next revision no longer has.
"""

import subprocess

import pytest
import yaml

from cluster import DNS_IP, REGISTRY, ROOT, objects
from waiting import wait_for

NAME = "kubernetes.default.svc.cluster.local"


class Release:
    """`helm upgrade --install kube-dns conf/helm/kubedns --set ...`."""

    def __init__(self, suite):
        self.suite, self.revision = suite, {}

    def upgrade(self, *values):
        sets = [a for v in (f"registry={REGISTRY}", f"service.clusterIP={DNS_IP}", *values) for a in ("-set", v)]
        text = subprocess.run([ROOT / "build/helm", *sets, "kube-dns", ROOT / "conf/helm/kubedns"], capture_output=True, text=True, check=True).stdout
        made = {(o["kind"], o["metadata"]["name"]): o for o in objects(text)}
        self.suite.plane.apply(text)
        for kind, name in set(self.revision) - set(made):
            self.suite.plane.kubectl("-n", "kube-system", "delete", "--wait=false", kind, name)
        self.revision = made
        if ("DaemonSet", "kube-dns-node") in made:
            self.play_daemonset(made["DaemonSet", "kube-dns-node"])

    def play_daemonset(self, daemonset):
        """Does the DaemonSet controller's work: creates a missing pod on each node."""
        for node in self.suite.api.get("/api/v1/nodes")["items"]:
            name = f"kube-dns-node-{node['metadata']['name']}"
            if not self.suite.exists(f"/api/v1/namespaces/kube-system/pods/{name}"):
                template = daemonset["spec"]["template"]
                self.suite.plane.apply(yaml.safe_dump({"apiVersion": "v1", "kind": "Pod", "spec": {**template["spec"], "nodeName": node["metadata"]["name"]},
                                                       "metadata": {"name": name, "namespace": "kube-system", "labels": template["metadata"]["labels"]}}))

    def await_pods(self, prefix, wanted):
        """Waits until this number of pods answers and the Service sends to no other pod."""
        def ready():
            self.suite.check()
            pods = self.suite.kubelet.list("kube-system", "kube-dns-")
            return len(pods) == wanted and all(p.name.startswith(prefix) and p.ready() for p in pods) and \
                self.suite.proxy.sends_to({p.address for p in pods}) and pods
        return wait_for(ready, 150, lambda: f"{wanted} pods {prefix}*\n{self.suite.describe()}")


@pytest.fixture
def release(suite):
    suite.configure(None)
    suite.reinstall()
    suite.plane.kubectl("-n", "kube-system", "delete", "deployment,service,pdb,daemonset", "-l", "k8s-app=kube-dns", "--ignore-not-found")
    suite.gone("kube-dns-")
    made = Release(suite)
    yield made
    for kind, name in made.revision:
        suite.plane.kubectl("-n", "kube-system", "delete", "--wait=false", "--ignore-not-found", kind, name)
    suite.plane.kubectl("-n", "kube-system", "delete", "pods", "-l", "kubedns/role=node", "--wait=false")
    suite.gone("kube-dns-")


def test_each_topology_runs_and_is_upgraded_to_the_next(release, suite, glibc, musl, report):
    """Switches as docs/node.md says: first the Deployment runs beside the DaemonSet, then the DaemonSet runs alone."""
    release.upgrade("replicaCount=2", "topology=classic")
    classic = release.await_pods("kube-dns-", 2)
    assert suite.await_answer(glibc, "www.example.com", "192.0.2.80")["held"]
    askers = [suite.asker(c, "ask-ports", DNS_IP, 50, f"{NAME}=10.96.0.1", "www.example.com=192.0.2.80") for c in (glibc, musl)]
    release.upgrade("replicaCount=2", "topology=front")
    front = wait_for(lambda: not {p.name for p in classic} & {p.name for p in suite.kubelet.list("kube-system")} and release.await_pods("kube-dns-", 2),
                     150, "the front topology's pods alone")
    release.upgrade("replicaCount=2", "topology=node", "node.keepDeployment=true")
    nodes = len(suite.api.get("/api/v1/nodes")["items"])
    wait_for(lambda: sum(p.ready() for p in suite.kubelet.list("kube-system", "kube-dns-node-")) == nodes, 150, suite.describe)
    release.upgrade("topology=node")
    node = release.await_pods("kube-dns-node-", nodes)
    results = [a.stop() for a in askers]
    asked, lost, wrong = (sum(t[k] for t, _ in results) for k in ("asked", "lost", "wrong"))
    report("chart, classic to front to node", "0 lost, 0 wrong", f"{lost} lost, {wrong} wrong of {asked}")
    assert asked > 500 and lost == 0 and wrong == 0, [f[:5] for _, f in results]
    for pods, port in ((classic, "--dns-port=10053"), (front, "--dns-port=53"), (node, "--dns-port=53")):
        for p in pods:
            assert [c.spec["name"] for c in p.containers] == ["kubedns", "dnsmasq", "sidecar"]
            assert port in p.container("kubedns").spec["args"] and set(p.restarts().values()) == {0}
    assert all("--node-role" in p.container("kubedns").spec["args"] for p in node)
    for client in (glibc, musl):
        assert suite.lookup(client, "kubernetes.default")["addresses"] == ["10.96.0.1"]
        assert suite.lookup(client, "www.example.com")["addresses"] == ["192.0.2.80"]
