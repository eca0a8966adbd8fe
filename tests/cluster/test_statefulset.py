"""
StatefulSets of the real control plane. The members start one after the other, and each queries for its predecessor in a loop before it
becomes ready. The test measures from the watch event of the slice to the successor's first right answer.

COREDNS=FILE names a CoreDNS to measure beside ours.
"""

import contextlib
import json
import os
import random
import ssl
import subprocess
import threading
import time
import urllib.request

import dns.exception
import dns.query
import pytest
from realapi import RealApi
from test_api_real import RBAC
from waiting import free_port, wait_for

from dnsnet import Upstream, query
from kubedns_process import Kubedns
from objects import namespace
from test_relay import Dnsmasq

COREDNS = os.environ.get("COREDNS")
SETS, MEMBERS = ("red", "green", "blue"), 10
LOOP_S = 0.1  # time between two queries; few programs wait less
LOOK_S = 400  # for the whole chain of members, if a cache keeps negative answers
START_S = (0.2, 0.6)  # time from the predecessor's first answer until a member is ready
COREFILE = """.:{port} {{
    bind 127.0.0.1
    kubernetes cluster.local in-addr.arpa ip6.arpa {{
        kubeconfig {kubeconfig}
        pods insecure
        fallthrough in-addr.arpa ip6.arpa
        ttl 30
    }}
    {cache}
}}
"""
# kubeadm's Corefile in older and in newer versions.
CACHES = {"cache 30": "cache 30", "cluster.local not cached": "cache 30 {\n disable success cluster.local\n disable denial cluster.local\n }"}


class Cluster(RealApi):
    """An API server with the StatefulSet controllers. The test acts as the kubelet of the namespace shop."""

    def __init__(self, directory):
        super().__init__(directory, controllers="endpointslice,statefulset,serviceaccount,kubelet", leave="shop")
        self.apply(RBAC, namespace("shop"))
        self.ready, self.changed = {}, threading.Condition()
        threading.Thread(target=self.watch, daemon=True).start()

    def watch(self):
        """Records for each member the time when the slice first showed the member as ready."""
        path = self.url + "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices?watch=1"
        asked = urllib.request.Request(path, headers={"Authorization": f"Bearer {self.about['token']}", "User-Agent": "x"})
        with contextlib.suppress(OSError, ValueError), urllib.request.urlopen(asked, context=ssl.create_default_context(cafile=self.about["ca"])) as r:
            for line in r:
                now = time.monotonic()
                with self.changed:
                    for e in json.loads(line)["object"].get("endpoints") or []:
                        if e["conditions"].get("ready"):
                            self.ready.setdefault(e["hostname"], now)
                    self.changed.notify_all()

    def event(self, member):
        with self.changed:
            assert self.changed.wait_for(lambda: member in self.ready, 30), f"no slice says that {member} is ready"
            return self.ready[member]

    def post(self, path, body, method="POST", kind="application/json"):
        status, _, text = self.request(path, method=method, body=json.dumps(body).encode(), headers={"Content-Type": kind}, timeout=30)
        assert status < 300, text
        return json.loads(text)

    def report_pod(self, member, address, ready):
        conditions = [{"type": "Ready", "status": str(ready)}]
        self.post(f"/api/v1/namespaces/shop/pods/{member}/status",
                  {"status": {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}], "conditions": conditions}}, "PATCH",
                  "application/merge-patch+json")

    def bind(self, member):
        target = {"apiVersion": "v1", "kind": "Node", "name": "node-0"}
        self.post(f"/api/v1/namespaces/shop/pods/{member}/binding", {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": member}, "target": target})

    def install(self, name):
        labels = {"app": name}
        pod = {"containers": [{"name": "c", "image": "none.invalid/x"}]}
        self.apply({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": "shop"},
                    "spec": {"clusterIP": "None", "selector": labels, "ports": [{"port": 80}]}},
                   {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": name, "namespace": "shop"}, "spec": {
                       "serviceName": name, "replicas": MEMBERS, "podManagementPolicy": "Parallel", "selector": {"matchLabels": labels},
                       "template": {"metadata": {"labels": labels}, "spec": pod}}})
        wait_for(lambda: self.kubectl("-n", "shop", "get", "pods", "-l", f"app={name}", "-o", "name").count("\n") == MEMBERS, 30, f"pods of {name}")


@pytest.fixture
def real(tmp_path):
    made = Cluster(tmp_path / "cluster")
    try:
        yield made
    finally:
        made.stop()


def look(port, name):
    """Sends queries in a loop until the name exists. Returns the time and the number of queries."""
    asked = 0
    deadline = time.monotonic() + LOOK_S
    while time.monotonic() < deadline:
        asked += 1
        with contextlib.suppress(dns.exception.Timeout):
            if dns.query.udp(query(name), "127.0.0.1", port=port, timeout=5).answer:
                return time.monotonic(), asked
        time.sleep(LOOP_S)
    raise AssertionError(f"{name} is not found within {LOOK_S} s")


class Member(threading.Thread):
    """A pod of the set. The pod runs at once. Some time after it has found its predecessor, it becomes ready."""

    def __init__(self, cluster, port, name, i, address):
        super().__init__(daemon=True)
        self.cluster, self.port, self.set, self.i, self.address = cluster, port, name, i, address
        self.found = None

    def run(self):
        member = f"{self.set}-{self.i}"
        self.cluster.bind(member)
        self.cluster.report_pod(member, self.address, False)
        if self.i > 0:
            self.found = look(self.port, f"{self.set}-{self.i - 1}.{self.set}.shop.svc.cluster.local")
        time.sleep(random.uniform(*START_S))  # seconds of work before the pod is ready
        self.cluster.report_pod(member, self.address, True)


def starts(cluster, port):
    """Returns the milliseconds from each slice's event to the successor's answer, and the time until the last member of a set has started."""
    members = []
    for s, name in enumerate(SETS):
        cluster.install(name)
        members += [Member(cluster, port, name, i, f"10.77.{s}.{i + 1}") for i in range(MEMBERS)]
    begun = time.monotonic()
    for m in members:
        m.start()
    for m in members:
        m.join(LOOK_S)
        assert not m.is_alive()
    took = sorted(max(0, 1000 * (m.found[0] - cluster.event(f"{m.set}-{m.i - 1}"))) for m in members if m.i > 0)
    return took, time.monotonic() - begun, sum(m.found[1] for m in members if m.i > 0) / len(took)


@contextlib.contextmanager
def ours(cluster, tmp_path, topology, *args):
    host, port = cluster.url.removeprefix("https://").split(":")
    env = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}
    with contextlib.ExitStack() as stack:
        k = Kubedns(*args, env=env, serviceaccount=cluster.service_account, directory=str(tmp_path))
        stack.callback(k.stop)
        k.wait_ready(30)
        if topology == "front":
            yield k.port
        else:
            upstream = stack.enter_context(Upstream())
            yield stack.enter_context(Dnsmasq(upstream, args=("--cache-size=1000", "--dns-forward-max=6000", f"--server=/cluster.local/127.0.0.1#{k.port}"))).port


@contextlib.contextmanager
def coredns(cluster, tmp_path, cache):
    port = free_port()
    (tmp_path / "Corefile").write_text(COREFILE.format(port=port, kubeconfig=cluster.about["kubeconfig"], cache=cache))
    process = subprocess.Popen([COREDNS, "-conf", tmp_path / "Corefile"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        look(port, "kubernetes.default.svc.cluster.local")
        yield port
    finally:
        process.terminate()
        process.wait(30)


def told(report, what, expected, measured):
    took, chain, asked = measured
    report(what, expected, f"p50 {took[len(took) // 2]:.1f}, p99 {took[int(len(took) * 0.99)]:.1f} ms; chain {chain:.1f} s; {asked:.1f} queries per member")


@pytest.mark.parametrize("topology", ["classic", "front"])
def test_a_member_finds_the_one_before_it(real, tmp_path, report, topology):
    """The report shows the time. The interval of the loop determines it."""
    args = ["--negative-ttl=0"] if topology == "classic" else []
    with ours(real, tmp_path, topology, *args) as port:
        told(report, f"StatefulSet, {topology}", "p99 < 500 ms", starts(real, port))


@pytest.mark.skipif(not COREDNS, reason="COREDNS names no CoreDNS")
@pytest.mark.parametrize("cache", CACHES)
def test_coredns_beside(real, tmp_path, report, cache):
    with coredns(real, tmp_path, CACHES[cache]) as port:
        told(report, f"StatefulSet, CoreDNS, {cache}", "-", starts(real, port))
