"""Failures in a pod while clients query continuously. The tests count and report every lost or wrong answer."""

import contextlib
import datetime
import os
import re
import signal
import subprocess
import sys
import time

import pytest

import bed
from load import NAMES, none_lost, only_until
from waiting import wait_for


@pytest.fixture
def pods(suite):
    """Three pods of the classic topology. At the end, new pods replace those whose containers have restarted."""
    made = suite.ensure("replace-kube-dns", 3)
    yield made
    restarted = [p.name for p in made if any(p.restarts().values())]
    if restarted:
        suite.plane.kubectl("-n", "kube-system", "delete", "pods", "--ignore-not-found", *restarted)


def back(suite, pods, seconds=60):
    """Waits until the Service sends to all pods again."""
    wait_for(lambda: suite.proxy.sends_to({p.address for p in pods}), seconds, lambda: f"all pods behind their Service\n{suite.describe()}")


@pytest.mark.parametrize("name", ["kubedns", "dnsmasq", "sidecar"])
def test_container_killed(suite, pods, load, report, name):
    """The first process of one container gets SIGKILL. kubelet reports that the pod is not ready, and restarts the container."""
    asking = load()
    began = time.time()
    os.kill(pods[0].container(name).pid, signal.SIGKILL)
    left = suite.proxy.await_left(pods[0].address)
    wait_for(lambda: pods[0].container(name).restarts == 1, 20, "restart")
    back(suite, pods)
    suite.wait_asked(asking.askers[0], 60)  # answers some time after the failure count too
    if name == "sidecar":
        none_lost(report, "sidecar killed in one pod of three", asking)
    else:
        only_until(report, f"{name} killed in one pod of three", asking, began, left)


def test_dnsmasq_killed_inside_its_container(suite, pods, load, report):
    """The nanny restarts dnsmasq at once, and the container is not restarted. Until then its port refuses queries."""
    container = pods[0].container("dnsmasq")
    seen, restarts = len(container.log()), container.restarts
    asking = load()
    began = time.time()
    os.kill(container.process("dnsmasq"), signal.SIGKILL)
    answers = wait_for(lambda: re.search(r"^(\S+) nanny: info: dnsmasq: answers .*", container.log()[seen:], re.M), 30, "another dnsmasq")
    suite.wait_asked(asking.askers[0], 60)
    only_until(report, "dnsmasq itself killed, one pod of three", asking, began, datetime.datetime.fromisoformat(answers[1]).timestamp())
    assert container.restarts == restarts


@pytest.fixture
def fill_memory():
    """
    fill_memory(container): processes in the container's cgroup use all its memory except for a megabyte. kubelet has set the oom_score_adj of
    the container's own process, so the kernel kills this process first. The limit is that of the manifest.
    """
    running = []

    def fill(container):
        limit = int(container.spec["resources"]["limits"]["memory"].removesuffix("Mi")) << 20
        for _ in range(4):
            program = f"input(); taken = b'x' * {(limit - (1 << 20)) // 4}; input()"
            running.append(subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE))
            (bed.cgroup_of("memory", container.id) / "cgroup.procs").write_text(str(running[-1].pid))
        for process in running:
            with contextlib.suppress(BrokenPipeError):  # the kernel or containerd has killed it
                process.stdin.write(b"\n")
                process.stdin.flush()
    yield fill
    for process in running:
        process.kill()
        process.wait()


def test_pod_at_its_memory_limit(suite, pods, load, glibc, fill_memory, report):
    """
    One kubedns of three reaches the manifest's memory limit. The kernel kills it, and the pod's status reports this. Until the pod's
    endpoint is removed, its dnsmasq can answer only from the cache. The other two pods are not affected. The container is restarted at
    once.
    """
    victim = pods[0].container("kubedns")
    asking = load()
    others = [suite.asker(glibc, "ask-ports", p.address, 20, *NAMES) for p in pods[1:]]
    began = time.time()
    fill_memory(victim)
    left = suite.proxy.await_left(pods[0].address)
    back(suite, pods)
    returned = time.time()
    suite.wait_asked(asking.askers[0], 60)
    counts = [a.stop() for a in others]
    assert victim.last_state["reason"] == "OOMKilled" and victim.restarts == 1, victim.last_state
    report("kubedns out of memory: time until removed, back", "removed when kubelet reports it, back when it is ready",
           f"{left - began:.1f} s, {returned - began:.1f} s")
    report("kubedns out of memory: the other two pods", "0 lost, 0 wrong",
           f"{sum(t['lost'] for t, _ in counts)} lost, {sum(t['wrong'] for t, _ in counts)} wrong of {sum(t['asked'] for t, _ in counts)}")
    only_until(report, "kubedns out of memory, one pod of three", asking, began, left)
    assert not any(failures for _, failures in counts), [failures[:5] for _, failures in counts]


def test_one_of_three_pods_partitioned(suite, pods, load, report):
    """All packets of one pod are dropped. Its probes fail and its endpoint disappears. When the network is back, the endpoint appears again."""
    restarts = [p.restarts() for p in pods]
    asking = load()
    began = time.time()
    rules = [("INPUT", "!", "-i", "lo", "-j", "DROP"), ("OUTPUT", "!", "-o", "lo", "-j", "DROP")]
    for rule in rules:
        pods[0].in_network("iptables", "-w", "-I", *rule)
    try:
        left = suite.proxy.await_left(pods[0].address)
        suite.wait_asked(asking.askers[0], 180)
    finally:
        for rule in rules:
            pods[0].in_network("iptables", "-w", "-D", *rule)
    back(suite, pods)
    suite.wait_asked(asking.askers[0], 60)
    only_until(report, "one pod of three partitioned", asking, began, left)
    assert [p.restarts() for p in pods] == restarts


def test_rolling_update_loses_nothing(suite, pods, load, report):
    suite.kubelet.deleted.clear()
    asking = load()
    suite.plane.kubectl("-n", "kube-system", "rollout", "restart", "deployment/kube-dns")
    after = suite.await_rollout("kube-dns", 180)
    assert not {p.name for p in pods} & {p.name for p in after}
    none_lost(report, "rolling update of three pods", asking)
    codes = [code for p in suite.kubelet.deleted for code in p.exit_codes()]
    assert codes == [0] * 9
