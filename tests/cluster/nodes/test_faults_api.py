"""Failures of the API server as they happen in clusters, while clients query continuously. Known data must not be lost, and new data must show soon."""

import json
import shutil
import signal
import time

import pytest

import bed
from cluster import http_get
from load import none_lost


@pytest.fixture(autouse=True)
def api_at_the_end():
    """After a failed test, the control plane runs again."""
    yield
    for part in ("etcd", "kube-apiserver"):
        if not bed.pid_of(part):
            bed.start(part)
    bed.await_api()


def test_api_server_away_for_two_minutes(suite, load, glibc, report):
    pods = suite.ensure("replace-kube-dns", 3)
    asking = load()
    bed.stop("kube-apiserver", signal.SIGKILL)
    began = time.monotonic()
    while time.monotonic() - began < 120:
        for p in pods:
            # kubedns serves its existing data, all containers pass their liveness probes, and no container restarts.
            assert http_get(p.address, 8081, "/readiness")[0] == 200
            assert http_get(p.address, 8081, "/healthz")[0] == 200
        time.sleep(5)
    bed.start("kube-apiserver")
    bed.await_api()
    back = time.monotonic()
    address = suite.service("after-outage")
    assert suite.await_answer(glibc, "after-outage", address, 90)["held"], suite.describe()
    report("news after the API server's return", "within 60 s", f"{time.monotonic() - back:.1f} s")
    none_lost(report, "API server killed for 2 minutes", asking)
    assert all(set(p.restarts().values()) == {0} for p in pods)


def etcd_stopped(change):
    """Calls change() while etcd and the API server are stopped."""
    for part in ("kube-apiserver", "etcd"):
        bed.stop(part)
    change()
    for part in ("etcd", "kube-apiserver"):
        bed.start(part)
    bed.await_api()


def test_etcd_restored_from_an_older_copy(suite, load, glibc, tmp_path, report):
    """Objects created after the copy disappear, and the API's versions go backwards."""
    suite.ensure("front", 2)
    kept = suite.service("kept")
    etcd_stopped(lambda: shutil.copytree(bed.RUN / "etcd", tmp_path / "older"))
    lost = suite.service("lost-by-restore")
    assert suite.await_answer(glibc, "lost-by-restore", lost, 60)["held"], suite.describe()
    asking = load()

    def restore():
        shutil.rmtree(bed.RUN / "etcd")
        shutil.copytree(tmp_path / "older", bed.RUN / "etcd")

    etcd_stopped(restore)
    began = time.monotonic()
    assert suite.await_answer(glibc, "lost-by-restore", "none", 120)["held"], suite.describe()
    took = time.monotonic() - began
    fresh = suite.service("after-restore")
    assert suite.await_answer(glibc, "after-restore", fresh, 60)["held"], suite.describe()
    assert suite.lookup(glibc, "kept")["addresses"] == [kept]
    report("etcd restored: names missing in the old copy are gone", "within 90 s", f"{took:.1f} s")
    none_lost(report, "etcd restored from an older copy", asking)


@pytest.fixture
def other_address():
    """A second address of the control plane. The pods can no longer connect to the first one."""
    other, node = f"{bed.NODES[4]}2", f"{bed.NODES[4]}1"
    rule = ("-p", "tcp", "-s", bed.PODS[4], "-d", node, "--dport", "6443", "-j", "REJECT", "--reject-with", "tcp-reset")
    command = json.loads((bed.RUN / "pid/kube-apiserver.command").read_text())

    def on_nodes(action, **options):
        for n in bed.node_numbers():
            bed.sh(bed.on_node(n, ["iptables", "-w", action, "FORWARD", *rule]), **options)

    def move():
        bed.sh(bed.in_control_plane(["ip", "address", "add", f"{other}/24", "dev", "br0"]))
        bed.stop("kube-apiserver")
        on_nodes("-I")
        bed.start("kube-apiserver", [a.replace(f"--advertise-address={node}", f"--advertise-address={other}") for a in command])
        bed.await_api()
    yield move
    bed.stop("kube-apiserver")
    on_nodes("-D", check=False)  # the test may have failed before move()
    bed.start("kube-apiserver", command)
    bed.sh(bed.in_control_plane(["ip", "address", "del", f"{other}/24", "dev", "br0"]), check=False)


def test_api_server_moves_behind_its_service(suite, load, glibc, other_address, report):
    """10.96.0.1 leads to another address, and the old address refuses connections of pods."""
    suite.ensure("front", 2)
    asking = load()
    other_address()
    endpoints = suite.api.get("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes")["endpoints"]
    assert [e["addresses"] for e in endpoints] == [[f"{bed.NODES[4]}2"]]
    began = time.monotonic()
    address = suite.service("after-move")
    assert suite.await_answer(glibc, "after-move", address, 90)["held"], suite.describe()
    report("API server moved: news seen", "within 60 s", f"{time.monotonic() - began:.1f} s")
    none_lost(report, "API server's address changed", asking)
