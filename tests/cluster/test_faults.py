"""Failures in a pod while clients query continuously. The tests count and report every lost or wrong answer."""

import json
import pathlib
import re
import signal
import subprocess
import sys
import time

import pytest

from cluster import DOMAIN, http_get, query, records, signal_container
from kubelet import time_of_day
from load import NAMES, none_lost, only_until
from run import docker, run
from waiting import wait_for


@pytest.mark.parametrize("name", ["kubedns", "dnsmasq", "sidecar"])
def test_container_killed(suite, load, report, name):
    """One container in one of three pods gets SIGKILL. The kubelet reports that the pod is not ready and restarts the container."""
    pods = suite.ensure("replace-kube-dns", 3)
    asking = load()
    began = time.time()
    signal_container(pods[0].container(name), signal.SIGKILL)
    left = suite.proxy.await_left(pods[0].address, began)
    wait_for(lambda: pods[0].container(name).restarts == 1, 20, "restart")
    wait_for(lambda: pods[0].address in suite.proxy.rules, 30, f"the pod behind its Service again\n{suite.describe()}")
    suite.wait_asked(asking.askers[0], 60)  # answers some time after the failure count too
    if name == "sidecar":
        none_lost(report, "sidecar killed in one pod of three", asking)
    else:
        only_until(report, f"{name} killed in one pod of three", asking, began, left)
    replace_pod(suite, pods[0])


def test_dnsmasq_killed_inside_its_container(suite, load, report):
    """The nanny restarts dnsmasq at once, and the container is not restarted. Until then its port refuses queries."""
    pods = suite.ensure("replace-kube-dns", 3)
    container = pods[0].container("dnsmasq")
    seen, restarts = len(container.log()), container.restarts
    asking = load()
    began = time.time()
    rows = docker("top", container.id, "-eo", "pid,comm").splitlines()[1:]
    run("kill", "-9", next(r.split()[0] for r in rows if r.split()[1] == "dnsmasq"))
    answers = wait_for(lambda: re.search(r"^(\S+) nanny: info: dnsmasq: answers .*", container.log()[seen:], re.M), 30, "another dnsmasq")
    suite.wait_asked(asking.askers[0], 60)
    only_until(report, "dnsmasq itself killed, one pod of three", asking, began, time_of_day(answers[1]))
    assert container.restarts == restarts


@pytest.fixture
def fill_memory():
    """
    fill_memory(container): filler processes in the container's cgroup use all its memory except for a megabyte. The kernel must kill the
    container's own process first. So the fixture raises this process's oom_score_adj. In a real node, the kubelet's oom_score_adj has the
    same effect for a pod that uses more than it requested, because no filler process is as large.
    """
    running = []

    def fill(container):
        pid, limit = json.loads(docker("inspect", "-f", "[{{.State.Pid}}, {{.HostConfig.Memory}}]", container.id))
        groups = [line.split(":", 2) for line in pathlib.Path(f"/proc/{pid}/cgroup").read_text().splitlines()]
        group = next(("/memory" if "memory" in controllers else "") + path for _, controllers, path in groups if controllers in ("memory", ""))
        pathlib.Path(f"/proc/{pid}/oom_score_adj").write_text("1000")
        for _ in range(4):
            program = f"input(); taken = b'x' * {(limit - (1 << 20)) // 4}; input()"
            running.append(subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE))
            pathlib.Path(f"/sys/fs/cgroup{group}/cgroup.procs").write_text(str(running[-1].pid))
        for process in running:
            process.stdin.write(b"\n")
            process.stdin.flush()
    yield fill
    for process in running:
        process.kill()
        process.wait()


def test_pod_at_its_memory_limit(suite, load, glibc, fill_memory, report):
    """
    One kubedns of three reaches the manifest's memory limit. The kernel kills it, and the pod's status reports this. Until the pod's
    endpoint is removed, its dnsmasq can answer only from the cache. The other two pods are not affected. The container is restarted at
    once.
    """
    pods = suite.ensure("replace-kube-dns", 3)
    victim = pods[0].container("kubedns")
    asking = load()
    others = [suite.asker(glibc, "ask", p.address, 20, *NAMES) for p in pods[1:]]
    began = time.time()
    fill_memory(victim)
    left = suite.proxy.await_left(pods[0].address, began)
    wait_for(lambda: pods[0].address in suite.proxy.rules, 60, "the pod behind its Service again")
    back = time.time()
    suite.wait_asked(asking.askers[0], 60)
    counts = [a.stop() for a in others]
    assert victim.last_state["reason"] == "OOMKilled" and victim.restarts == 1, victim.last_state
    report("kubedns out of memory: time until killed, removed, back", "killed at once, removed when the kubelet reports it, back when it is ready",
           f"{victim.died - began:.1f} s, {left - began:.1f} s, {back - began:.1f} s")
    report("kubedns out of memory: the other two pods", "0 lost, 0 wrong",
           f"{sum(t['lost'] for t, _ in counts)} lost, {sum(t['wrong'] for t, _ in counts)} wrong of {sum(t['asked'] for t, _ in counts)}")
    only_until(report, "kubedns out of memory, one pod of three", asking, began, left)
    assert not any(failures for _, failures in counts), [failures[:5] for _, failures in counts]
    replace_pod(suite, pods[0])


def replace_pod(suite, pod):
    """Replaces a pod that has restarted by a new pod."""
    suite.plane.kubectl("-n", "kube-system", "delete", "pod", pod.name, "--wait=true")


def test_one_of_three_pods_partitioned(suite, load, report):
    """All packets of one pod are dropped. Its probes fail and its endpoint disappears. When the network is back, the endpoint appears again."""
    pods = suite.ensure("replace-kube-dns", 3)
    restarts = [p.restarts() for p in pods]
    asking = load()
    began = time.time()
    rules = [("INPUT", "!", "-i", "lo", "-j", "DROP"), ("OUTPUT", "!", "-o", "lo", "-j", "DROP")]
    for rule in rules:
        pods[0].iptables("-I", *rule)
    try:
        left = suite.proxy.await_left(pods[0].address, began)
        suite.wait_asked(asking.askers[0], 180)
    finally:
        for rule in rules:
            pods[0].iptables("-D", *rule)
    wait_for(lambda: pods[0].address in suite.proxy.rules, 60, "the pod behind its Service again")
    suite.wait_asked(asking.askers[0], 60)
    only_until(report, "one pod of three partitioned", asking, began, left)
    assert [p.restarts() for p in pods] == restarts


def test_rolling_update_loses_nothing(suite, load, report):
    suite.ensure("replace-kube-dns", 3)
    before = {p.name for p in suite.kubelet.list("kube-system", "kube-dns-")}
    suite.kubelet.exits.clear()
    asking = load()
    suite.plane.kubectl("-n", "kube-system", "rollout", "restart", "deployment/kube-dns")
    after = suite.await_rollout("kube-dns", 180)
    assert not before & {p.name for p in after}
    none_lost(report, "rolling update of three pods", asking)
    assert len(suite.kubelet.exits) == 9 and all(code == 0 for _, _, code in suite.kubelet.exits), suite.kubelet.exits


def test_deleted_service_goes_and_serial_moves(suite, glibc):
    """After all these faults the pods still follow the API."""
    pods = suite.ensure("front", 1)
    serial = query(pods[0].address, f"{DOMAIN}.", "SOA").answer[0][0].serial
    address = suite.service("short-lived")
    assert suite.await_answer(glibc, "short-lived", address)["held"]
    suite.plane.kubectl("-n", "clients", "delete", "service", "short-lived")
    assert suite.await_answer(glibc, "short-lived", "none")["held"]
    assert query(pods[0].address, f"{DOMAIN}.", "SOA").answer[0][0].serial >= serial
    assert json.loads(http_get(pods[0].address, 10054, "/status.json")[1])
    assert not records(query(pods[0].address, f"short-lived.clients.svc.{DOMAIN}."))
