"""
The switch once for each mechanism, with pods that answer, while clients query continuously: scaling the old DNS down (k3s), beside an add-on
manager and an autoscaler that never stop (GKE), with `kubectl apply` over the old kube-dns, and with Helm. The commands come from conf/install
and docs. No query may be lost, and afterwards the former objects are as before. test_switch.py has `kubectl apply` for every change.

RECIPE_QUERIES in the environment sets the number of queries of each switch.
"""

import json
import os
import time

import pytest

from cluster import DNS_IP, REGISTRY, ROOT, image_tag
from distributions import Gke, K3s, Ticking
from operation import Operation
from operator_shell import commands, section
from waiting import wait_for

HELM = os.environ.get("HELM_CLI", ROOT / "build/helm-cli/helm")
NAME = "kubernetes.default.svc.cluster.local"
QUERIES = int(os.environ.get("RECIPE_QUERIES", "100000"))
RATE = 400  # queries per second of each client


class Answering:
    """Gives the pods of the old DNS a container that answers the cluster's only name, and the autoscaler's pods a container that waits."""

    def objects(self):
        made = super().objects()
        for o in made:
            if o["kind"] == "Deployment":
                pod = o["spec"]["template"]["spec"]
                pod["automountServiceAccountToken"] = False
                (first, *_) = pod["containers"]
                first |= {"image": "dnst-dnsmasq", "imagePullPolicy": "Never",
                          "args": ["-k", "-C", "/dev/null", "--no-hosts", "--log-facility=-", "--no-resolv", f"--host-record={NAME},10.96.0.1",
                                   "--local=/cluster.local/"],
                          "readinessProbe": {"tcpSocket": {"port": 53}, "periodSeconds": 1}, "lifecycle": {"preStop": {"sleep": {"seconds": 5}}},
                          "securityContext": {"runAsUser": 0, "capabilities": {"add": ["NET_BIND_SERVICE"]}}}
                pod["containers"] = [first if "autoscaler" not in o["metadata"]["name"] else
                                     {"name": "autoscaler", "image": "dnst-musl", "imagePullPolicy": "Never", "args": ["pause"]}]
        return made


class AnsweringK3s(Answering, K3s):
    pass


class AnsweringGke(Answering, Gke):
    pass


@pytest.fixture
def follow(suite, tmp_path):
    """follow(distribution) installs the distribution's DNS and returns the operation."""
    def clean():
        suite.plane.kubectl("-n", "kube-system", "delete", "secrets", "-l", "owner=helm")  # the release of a failed test
        suite.plane.kubectl("-n", "kube-system", "delete", "deployments,services,poddisruptionbudgets", "-l", "k8s-app", "--ignore-not-found")
        suite.plane.kubectl("-n", "kube-system", "delete", "deployments,poddisruptionbudgets", "kubedns", "coredns", "--ignore-not-found")
        # GKE's account has the name of the chart's account. Helm would take it over, and delete it with the release.
        suite.plane.kubectl("-n", "kube-system", "delete", "serviceaccounts", "kube-dns", "coredns", "--ignore-not-found")
        for prefix in ("kube-dns-", "kubedns-", "coredns-"):
            suite.gone(prefix)
        suite.reinstall()

    def start(distribution):
        plane = suite.plane
        made = Operation(lambda *args, text=None: plane.kubectl(*args, input=text), plane.ctl, plane.kubeconfig, tmp_path, distribution)
        await_pods(suite, made.recipe.data["old"], made.recipe.data["replicas"])
        return made

    suite.configure(None)
    clean()
    yield start
    clean()


def install_helm(operator, plane):
    """Puts Helm into the operator's PATH, and a `make` that makes the chart with the tests' images."""
    for name, command in (("helm", f"{HELM} --kubeconfig {plane.kubeconfig}"),
                          ("make", f"make -s -C {ROOT} BUILD={operator.directory}/build IMAGE_TAG={image_tag()}")):
        (operator.directory / "bin" / name).write_text(f'#!/bin/sh\nPATH={os.environ["PATH"]} exec {command} "$@"\n')
        (operator.directory / "bin" / name).chmod(0o755)
    (operator.directory / "values.yaml").write_text(f"registry: {REGISTRY}\nservice: {{ clusterIP: {DNS_IP} }}\ntopology: front\n")


class Clients:
    """Clients that query the Service's address from the start until end()."""

    def __init__(self, suite, clients):
        self.started, self.epoch = time.monotonic(), time.time()
        self.askers = [suite.asker(c, "ask-ports", DNS_IP, RATE, f"{NAME}=10.96.0.1") for c in clients]

    def end(self, report, what):
        """Waits until the clients have sent QUERIES."""
        time.sleep(max(0, 1 + QUERIES / RATE / len(self.askers) - (time.monotonic() - self.started)))
        results = [a.stop() for a in self.askers]
        asked, lost, wrong = (sum(t[k] for t, _ in results) for k in ("asked", "lost", "wrong"))
        report(f"switched and back, {what}", "0 lost, 0 wrong", f"{lost} lost, {wrong} wrong of {asked}")
        failed = [(round(x.get("at", 0) - self.epoch, 2), x) for _, f in results for x in f]
        assert asked >= QUERIES and lost == 0 and wrong == 0, failed[:40]


@pytest.fixture
def clients(suite, glibc, musl):
    """clients() starts the clients. After the test, the fixture stops the clients that a failed test did not stop."""
    made = []

    def start():
        made.append(Clients(suite, (glibc, musl)))
        return made[-1]
    yield start
    for asker in (a for m in made for a in m.askers if a.process.poll() is None):
        asker.stop()


def pods_of(suite, deployment):
    return [p for p in suite.kubelet.list("kube-system") if p.name.rsplit("-", 2)[0] == deployment]


def await_pods(suite, deployment, count):
    """Waits until the Deployment has this number of ready pods, and the cluster's DNS address leads to exactly these."""
    def alone():
        pods = pods_of(suite, deployment)
        return len(pods) == count and all(p.ready() for p in pods) and suite.proxy.sends_to({p.address for p in pods}) and pods
    return wait_for(alone, 150, lambda: f"{count} pods of {deployment}\n{suite.describe()}")


def there_and_back(operation, suite):
    """Follows the recipe. Checks that the old objects are the same afterwards."""
    old = operation.recipe.data["old"]
    before = operation.objects()
    operation.switch()
    ours = await_pods(suite, "kubedns", 2)
    wait_for(lambda: not pods_of(suite, old), 60, f"pods of {old} gone")
    assert all([c.spec["name"] for c in p.containers] == ["kubedns", "dnsmasq", "sidecar"] for p in ours)
    operation.await_answering("kubedns")
    operation.step("upgrade")
    operation.step("undo")
    await_pods(suite, old, operation.recipe.data["replicas"])
    suite.gone("kubedns-")
    wait_for(lambda: operation.objects() == before, 20, "the former objects")


def test_by_scaling_the_old_dns_down(follow, suite, clients, report):
    operation = follow(AnsweringK3s)
    running = clients()
    there_and_back(operation, suite)
    running.end(report, "by scaling")


def test_beside_an_addon_manager_that_never_stops(follow, suite, clients, report):
    operation = follow(AnsweringGke)
    running = clients()
    with Ticking(operation.distribution.tick, 2) as ticking:
        there_and_back(operation, suite)
    assert ticking.ran > 5
    running.end(report, f"beside an add-on manager ({ticking.ran} times)")


def without_annotation(text):
    """Leaves out the annotation in which kubectl keeps the object that it last wrote. `kubectl replace` writes the annotation again."""
    made = json.loads(text)
    made["metadata"].get("annotations", {}).pop("kubectl.kubernetes.io/last-applied-configuration", None)
    return made


def test_by_applying_over_the_old_kube_dns(follow, suite, clients, report):
    operation = follow(AnsweringGke)
    # No autoscaler and no add-on manager: the operator owns kube-dns.
    suite.plane.kubectl("-n", "kube-system", "delete", "deployment/kube-dns-autoscaler")
    before, old = operation.objects(), {p.name for p in pods_of(suite, "kube-dns")}
    running = clients()
    save, apply, status = commands(next(b for b in section("docs/from-kube-dns.md", "Switch") if "apply -k conf/kubernetes/mine" in b))
    for command in (save, apply.replace("/mine", "/front"), status):
        operation.operator.sh(command)
    wait_for(lambda: not old & {p.name for p in pods_of(suite, "kube-dns")}, 60, "the old pods gone")
    ours = await_pods(suite, "kube-dns", 2)
    assert all([c.spec["name"] for c in p.containers] == ["kubedns", "dnsmasq", "sidecar"] for p in ours)
    for command in commands(section("docs/from-kube-dns.md", "Undo")[0]):
        operation.operator.sh(command)
    wait_for(lambda: not {p.name for p in ours} & {p.name for p in pods_of(suite, "kube-dns")}, 60, "our pods gone")
    await_pods(suite, "kube-dns", 2)
    after = operation.objects()
    assert {k: without_annotation(after.get(k)) for k in before} == {k: without_annotation(v) for k, v in before.items()}
    assert set(after) - set(before) == {("PodDisruptionBudget", "kube-dns")}
    running.end(report, "by applying over kube-dns")


def test_by_helm(follow, suite, clients, report):
    """
    The commands for Helm in docs/from-coredns.md, with Helm itself. If `helm uninstall` deleted the Service, clients would lose queries until the
    Service is created again.
    """
    operation = follow(AnsweringK3s)
    install_helm(operation.operator, suite.plane)
    before = operation.objects()
    running = clients()
    switch, undo = section("docs/from-coredns.md", "Switch"), section("docs/from-coredns.md", "Undo")
    beside, install = (commands(next(b for b in switch if what in b)) for what in ("apply -k conf/kubernetes/beside", "helm -n kube-system install"))
    _, *others = commands(next(b for b in switch if "apply -k conf/kubernetes/mine" in b))
    _, *beside = beside  # step 1 made no ConfigMap
    for command in [*beside[:2], *install, *others]:
        operation.operator.sh(command)
    ours = await_pods(suite, "kube-dns", 2)
    wait_for(lambda: not pods_of(suite, "coredns"), 60, "pods of coredns gone")
    assert all([c.spec["name"] for c in p.containers] == ["kubedns", "dnsmasq", "sidecar"] for p in ours)
    *start_old, _ = commands(undo[0])
    for command in [*start_old, *commands(undo[1])]:
        operation.operator.sh(command)
    await_pods(suite, "coredns", 2)
    suite.gone("kube-dns-")
    operation.operator.sh("kubectl -n kube-system scale deployment/coredns --replicas=1")  # k3s had one pod
    await_pods(suite, "coredns", 1)
    running.end(report, "by Helm")
    after = operation.objects()
    assert {k: without_annotation(v) for k, v in after.items()} == {k: without_annotation(v) for k, v in before.items()}
