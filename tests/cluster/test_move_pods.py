"""
A cluster whose DNS is CoreDNS in pods, from kubeadm's manifest. The test moves it to ours with the output of `kubedns-migrate`, command
by command, while clients query continuously. `conf/kubernetes/compare` then queries every name at a CoreDNS pod and at one of our pods.

COREDNS=FILE names a CoreDNS of the default build. `make test-cluster` sets it. Without it these tests are skipped.
"""

import contextlib
import os
import re
import shutil

import pytest
import yaml

from cluster import DNS_IP, REGISTRY, ROOT
from operator_shell import Operator
from run import docker

COREDNS = os.environ.get("COREDNS")
NAME = "kubernetes.default.svc.cluster.local"
OUTSIDE = ["www.example.com", "x.corp.example", "legacy.example", "db.example", "nothing.outside.example"]

pytestmark = pytest.mark.skipif(not COREDNS, reason="COREDNS names no CoreDNS")

COREFILE = """
.:53 {
    errors
    health {
       lameduck 5s
    }
    ready
    kubernetes cluster.local in-addr.arpa ip6.arpa {
       pods insecure
       fallthrough in-addr.arpa ip6.arpa
       ttl 30
    }
    prometheus :9153
    hosts {
       192.0.2.99 legacy.example
       fallthrough
    }
    rewrite name exact db.example kubernetes.default.svc.cluster.local
    forward . /etc/resolv.conf {
       max_concurrent 1000
    }
    cache 30
    loop
    reload
    loadbalance
}
corp.example:53 {
    errors
    cache 30
    forward . STUB
}
"""


def coredns_objects(corefile):
    """The objects as kubeadm creates them. The Deployment, its pods and the Service have the label k8s-app. The ConfigMap does not have it."""
    meta, labels = {"namespace": "kube-system"}, {"k8s-app": "kube-dns"}

    def get(path, port):
        return {"httpGet": {"path": path, "port": port, "scheme": "HTTP"}}

    container = {
        "name": "coredns", "image": "dnst-coredns", "args": ["-conf", "/etc/coredns/Corefile"],
        "ports": [{"containerPort": 53, "name": "dns", "protocol": "UDP"}, {"containerPort": 53, "name": "dns-tcp", "protocol": "TCP"}],
        "resources": {"limits": {"memory": "170Mi"}, "requests": {"cpu": "100m", "memory": "70Mi"}},
        "volumeMounts": [{"name": "config-volume", "mountPath": "/etc/coredns", "readOnly": True}],
        "securityContext": {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
                            "capabilities": {"add": ["NET_BIND_SERVICE"], "drop": ["ALL"]}},
        "livenessProbe": {**get("/health", 8080), "initialDelaySeconds": 60, "timeoutSeconds": 5, "failureThreshold": 5},
        "readinessProbe": {**get("/ready", 8181), "periodSeconds": 1}}
    pod = {"dnsPolicy": "Default", "serviceAccountName": "coredns", "priorityClassName": "system-cluster-critical",
           "tolerations": [{"key": "CriticalAddonsOnly", "operator": "Exists"}], "containers": [container],
           "volumes": [{"name": "config-volume", "configMap": {"name": "coredns", "items": [{"key": "Corefile", "path": "Corefile"}]}}]}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:coredns"}
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {**meta, "name": "coredns"}},
        {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "system:coredns"}, "rules": [
            {"apiGroups": [""], "resources": ["endpoints", "services", "pods", "namespaces"], "verbs": ["list", "watch"]},
            {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]}]},
        {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "system:coredns"}, "roleRef": role,
         "subjects": [{"kind": "ServiceAccount", "name": "coredns", "namespace": "kube-system"}]},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {**meta, "name": "coredns"}, "data": {"Corefile": corefile}},
        {"apiVersion": "v1", "kind": "Service", "metadata": {**meta, "name": "kube-dns", "labels": labels}, "spec": {
            "clusterIP": DNS_IP, "selector": labels, "ports": [
                {"name": "dns", "port": 53, "protocol": "UDP"}, {"name": "dns-tcp", "port": 53, "protocol": "TCP"},
                {"name": "metrics", "port": 9153, "protocol": "TCP"}]}},
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {**meta, "name": "coredns", "labels": labels}, "spec": {
            "replicas": 2, "strategy": {"rollingUpdate": {"maxUnavailable": 1}}, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod}}}]


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    directory = tmp_path_factory.mktemp("coredns")
    shutil.copy(COREDNS, directory / "coredns")
    (directory / "Dockerfile").write_text(f"FROM {os.environ.get('BASE', 'kubedns-base:trixie')}\nCOPY coredns /coredns\nENTRYPOINT [\"/coredns\"]\n")
    docker("build", "-q", "--force-rm", "-t", "dnst-coredns", directory)


@pytest.fixture
def moved(suite, image):
    """Only CoreDNS runs, in two pods."""
    def away(*deployments):
        for name in deployments:
            suite.plane.kubectl("-n", "kube-system", "delete", "deployment,service,pdb", name, "--ignore-not-found")
            suite.gone(name + "-")

    suite.configure(None)
    suite.reinstall()
    away("kube-dns")
    stub = suite.upstream("corp", "--host-record=x.corp.example,192.0.2.81", "--address=/#/")
    suite.plane.kubectl("apply", "-f", "-", input=yaml.safe_dump_all(coredns_objects(COREFILE.replace("STUB", stub))))
    suite.await_rollout("coredns")
    yield suite
    away("coredns", "kube-dns")
    suite.remove_upstream("corp")
    suite.configure(None)
    suite.reinstall()


def documented():
    """Returns the command in docs/from-coredns.md."""
    return re.search(r"^ *(kubectl .* \| kubedns-migrate -)$", (ROOT / "docs/from-coredns.md").read_text(), re.M)[1]


def addresses(suite, prefix):
    return [p.address for p in suite.kubelet.list("kube-system", prefix)]


@contextlib.contextmanager
def asking(suite, clients):
    askers = [suite.asker(c, "ask-ports", DNS_IP, 50, f"{NAME}=10.96.0.1", "www.example.com=192.0.2.80", "x.corp.example=192.0.2.81") for c in clients]
    results = []
    yield results
    results += [a.stop() for a in askers]


@pytest.mark.parametrize("topology", ["classic", "front"])
def test_switch_by_the_printed_steps_loses_no_query(moved, tmp_path, glibc, musl, report, topology):
    operator = Operator(tmp_path, f"{moved.plane.ctl} kubectl --kubeconfig {moved.plane.kubeconfig}")
    printed = operator.sh(documented().replace("kubedns-migrate -", f"kubedns-migrate --topology={topology} -"))
    assert "NO EQUIVALENT" not in printed
    steps = {n: re.sub(r"(?m)^# +", "", text) for n, text in re.findall(r"^# +(\d)\. ((?:.*\n#     +)*.*)$", printed, re.M)}
    commands = {n: re.findall(r"^(?:kubectl|conf/kubernetes/check) .*", text, re.M) for n, text in steps.items()}
    configmap, overlay, _ = (yaml.safe_dump(d) for d in yaml.safe_load_all(printed) if d)
    with asking(moved, (glibc, musl)) as results:
        operator.settings(registry=REGISTRY, **dict(re.findall(r"(clusterDomain|clusterIP): ([^, ]+)", steps["1"])))
        assert commands["2"] == ["kubectl apply -f configmap.yaml"]
        operator.sh("kubectl apply -f -", configmap)
        assert "Save the Kustomization below as conf/kubernetes/mine/kustomization.yaml" in steps["3"]
        (tmp_path / "conf/kubernetes/mine").mkdir()
        (tmp_path / "conf/kubernetes/mine/kustomization.yaml").write_text(overlay)
        for command in (*commands["3"], *commands["4"]):
            operator.sh(command)
        assert "conf/kubernetes/compare --report THIS-FILE OLD NEW" in steps["5"]
        old, new = addresses(moved, "coredns-")[0], addresses(moved, "kube-dns-")[0]
        compared = operator.sh(f"conf/kubernetes/compare {old} {new} {' '.join(OUTSIDE)}")
        assert compared == "compare: 0 differences, 0 without a reason\n"
        operator.sh(*commands["6"])
        moved.gone("coredns-")
        moved.await_rollout("kube-dns")
    asked, lost, wrong = (sum(t[k] for t, _ in results) for k in ("asked", "lost", "wrong"))
    report(f"moved from CoreDNS, {topology}", "0 lost, 0 wrong", f"{lost} lost, {wrong} wrong of {asked}")
    assert asked > 500 and lost == 0 and wrong == 0, [f[:5] for _, f in results]
    assert len(addresses(moved, "kube-dns-")) == 2
    for name, address in (("legacy.example", "192.0.2.99"), ("db.example", "10.96.0.1"), ("x.corp.example", "192.0.2.81")):
        assert moved.lookup(glibc, name)["addresses"] == [address]
