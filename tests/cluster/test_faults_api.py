"""
Failures of the API server as they happen in clusters, while clients query continuously. Known data must not be lost, and new data must
show soon. Uses a control plane that no other test uses at the same time.
"""

import time

from cluster import http_get
from load import none_lost
from run import run
from waiting import wait_for


def metric(pod, name, **labels):
    import re
    for line in http_get(pod.address, 10055, "/metrics")[1].splitlines():
        if re.match(rf"{name}[ {{]", line) and all(f'{k}="{v}"' in line for k, v in labels.items()):
            return float(line.rsplit(" ", 1)[1])
    return None


def test_api_server_away_for_two_minutes(suite, load, glibc, report):
    pods = suite.ensure("replace-kube-dns", 3)
    asking = load()
    suite.plane.kill_api()
    began = time.monotonic()
    try:
        while time.monotonic() - began < 120:
            for p in pods:
                # kubedns serves its existing data, all containers pass their liveness probes, and no container restarts.
                assert http_get(p.address, 8081, "/readiness")[0] == 200
                assert http_get(p.address, 8081, "/healthz")[0] == 200
            time.sleep(5)
    finally:
        suite.plane.api_back()
    back = time.monotonic()
    address = suite.service("after-outage")
    assert suite.await_answer(glibc, "after-outage", address, 90)["held"], suite.describe()
    report("news after the API server's return", "within 60 s", f"{time.monotonic() - back:.1f} s")
    none_lost(report, "API server killed for 2 minutes", asking)
    assert all(set(p.restarts().values()) == {0} for p in pods)


def test_etcd_restored_from_an_older_copy(suite, load, glibc, report):
    """Objects created after the copy disappear, and the API's versions go backwards."""
    pods = suite.ensure("front", 2)
    kept = suite.service("kept")
    suite.plane.save_data("older")
    wait_for(lambda: suite.exists("/api/v1/namespaces/clients/services/kept"), 30, "the API server")
    lost = suite.service("lost-by-restore")
    assert suite.await_answer(glibc, "lost-by-restore", lost, 60)["held"], suite.describe()
    asking = load()
    suite.plane.restore_data("older")
    began = time.monotonic()
    assert suite.await_answer(glibc, "lost-by-restore", "none", 120)["held"], suite.describe()
    took = time.monotonic() - began
    fresh = suite.service("after-restore")
    assert suite.await_answer(glibc, "after-restore", fresh, 60)["held"], suite.describe()
    assert suite.lookup(glibc, "kept")["addresses"] == [kept]
    report("etcd restored: names missing in the old copy are gone", "within 90 s", f"{took:.1f} s")
    none_lost(report, "etcd restored from an older copy", asking)
    assert all(p.address for p in pods)


def test_api_server_moves_behind_its_service(suite, load, glibc, report):
    """10.96.0.1 leads to another address and port, and the old port is closed."""
    suite.ensure("front", 2)
    asking = load()
    other = suite.network.prefix + "253"
    run("ip", "address", "add", f"{other}/24", "dev", suite.network.bridge)
    suite.plane.stop()
    suite.plane.port = None
    suite.plane.start(advertise=other)
    began = time.monotonic()
    address = suite.service("after-move")
    assert suite.await_answer(glibc, "after-move", address, 90)["held"], suite.describe()
    report("API server moved: news seen", "within 60 s", f"{time.monotonic() - began:.1f} s")
    none_lost(report, "API server's address changed", asking)


def test_half_open_connection_to_the_api(suite, load, glibc, report):
    """Packets of existing connections are dropped in both directions forever, and nothing reports that the connections are dead."""
    pod = suite.ensure("front", 1)[0]
    wait_for(lambda: metric(pod, "kubedns_api_synced", resource="services") == 1, 20, "synced")
    asking = load()
    rows = run("nsenter", "-t", pod.pid, "-n", "ss", "-Htn", "state", "established", "dport", "=", f":{suite.plane.port}")
    rows += run("nsenter", "-t", pod.pid, "-n", "ss", "-Htn", "state", "established", "dport", "=", ":443")
    ports = {r.split()[2].rpartition(":")[2] for r in rows.splitlines()}
    assert ports, "kubedns has no connection to the API server"
    for port in ports:
        pod.iptables("-I", "OUTPUT", "-p", "tcp", "--sport", port, "-j", "DROP")
        pod.iptables("-I", "INPUT", "-p", "tcp", "--dport", port, "-j", "DROP")
    began = time.monotonic()
    address = suite.service("after-silence")
    assert suite.await_answer(glibc, "after-silence", address, 120)["held"], suite.describe()
    took = time.monotonic() - began
    report("half-open connection found, news seen", "within 90 s", f"{took:.1f} s")
    assert took <= 95
    none_lost(report, "half-open connection to the API", asking)
