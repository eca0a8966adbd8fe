"""What breaks in clusters, with clients asking all the time; every lost or wrong answer is counted and reported.

One client counts single queries without a retry; the other resolves as programs do, by getaddrinfo, whose stub asks again.
"""

import json
import signal
import time

import pytest

from cluster import DNS_IP, DOMAIN, http_get, query, records, signal_container
from run import docker, run, wait_for

NAMES = [f"kubernetes.default.svc.{DOMAIN}=10.96.0.1", "www.example.com=192.0.2.80", f"nothing.clients.svc.{DOMAIN}=none"]


class Load:
    """Both askers; end() gives what they counted together."""

    def __init__(self, suite, glibc, musl):
        self.askers = [suite.asker(glibc, "ask", DNS_IP, 60, *NAMES), suite.asker(musl, "resolve", 15, NAMES[0])]

    def end(self):
        (single, failures), (stub, stub_failures) = [a.stop() for a in self.askers]
        self.failures, self.stub_failures = failures, stub_failures
        self.asked, self.lost, self.wrong = single["asked"], single["lost"], single["wrong"]
        self.stub_bad = stub["lost"] + stub["wrong"]
        return self

    def __str__(self):
        return f"{self.lost} lost, {self.wrong} wrong of {self.asked}; programs failed: {self.stub_bad}"


@pytest.fixture
def load(suite, glibc, musl):
    made = []

    def start():
        made.append(Load(suite, glibc, musl))
        return made[-1]
    yield start
    for m in made:
        for a in m.askers:
            if a.process.poll() is None:
                a.stop()


def none_lost(report, what, load):
    load.end()
    report(what, "0 lost, 0 wrong", load)
    assert load.asked > 60 and load.lost == load.wrong == load.stub_bad == 0, (load.failures[:5], load.stub_failures[:5])


def new_service(suite, name):
    """A Service nobody has asked for; its address."""
    made = suite.api.request("POST", "/api/v1/namespaces/clients/services", {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}]}})
    return made["spec"]["clusterIP"]


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
                # What stands is served, every container is alive for its probes, and nobody restarts.
                assert http_get(p.address, 8081, "/readiness")[0] == 200
                assert http_get(p.address, 8081, "/healthz")[0] == 200
            time.sleep(5)
    finally:
        suite.plane.api_back()
    back = time.monotonic()
    address = new_service(suite, "after-outage")
    assert suite.await_answer(glibc, "after-outage", address, 90)["held"], suite.describe()
    report("news after the API server's return", "within 60 s", f"{time.monotonic() - back:.1f} s")
    none_lost(report, "API server killed for 2 minutes", asking)
    assert all(set(p.restarts().values()) == {0} for p in pods)


def test_etcd_restored_from_an_older_copy(suite, load, glibc, report):
    """What was made after the copy is gone again; the API's versions have run backwards."""
    pods = suite.ensure("front", 2)
    kept = new_service(suite, "kept")
    suite.plane.save_data("older")
    wait_for(lambda: suite.exists("/api/v1/namespaces/clients/services/kept"), 30, "the API server")
    lost = new_service(suite, "lost-by-restore")
    assert suite.await_answer(glibc, "lost-by-restore", lost, 60)["held"], suite.describe()
    asking = load()
    suite.plane.restore_data("older")
    began = time.monotonic()
    assert suite.await_answer(glibc, "lost-by-restore", "none", 120)["held"], suite.describe()
    took = time.monotonic() - began
    fresh = new_service(suite, "after-restore")
    assert suite.await_answer(glibc, "after-restore", fresh, 60)["held"], suite.describe()
    assert suite.lookup(glibc, "kept")["addresses"] == [kept]
    report("etcd restored: what it forgot is gone", "within 90 s", f"{took:.1f} s")
    none_lost(report, "etcd restored from an older copy", asking)
    assert all(p.address for p in pods)


def test_api_server_moves_behind_its_service(suite, load, glibc, report):
    """Another address and another port for 10.96.0.1, the old one closed."""
    suite.ensure("front", 2)
    asking = load()
    other = suite.network.prefix + "253"
    run("ip", "address", "add", f"{other}/24", "dev", suite.network.bridge)
    suite.plane.stop()
    suite.plane.port = None
    suite.plane.start(advertise=other)
    began = time.monotonic()
    address = new_service(suite, "after-move")
    assert suite.await_answer(glibc, "after-move", address, 90)["held"], suite.describe()
    report("API server moved: news seen", "within 60 s", f"{time.monotonic() - began:.1f} s")
    none_lost(report, "API server's address changed", asking)


def test_half_open_connection_to_the_api(suite, load, glibc, report):
    """Packets of the connections that stand are dropped, both ways, for ever: nobody says that they are dead."""
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
    address = new_service(suite, "after-silence")
    assert suite.await_answer(glibc, "after-silence", address, 120)["held"], suite.describe()
    took = time.monotonic() - began
    report("half-open connection found, news seen", "within 90 s", f"{took:.1f} s")
    assert took <= 95
    none_lost(report, "half-open connection to the API", asking)


@pytest.mark.parametrize("name", ["kubedns", "dnsmasq", "sidecar"])
def test_container_killed(suite, load, report, name):
    """One container of one pod of three, by SIGKILL: the kubelet starts it again; until it has, that pod's third suffers."""
    pods = suite.ensure("replace-kube-dns", 3)
    asking = load()
    wait_for(lambda: asking.askers[0].process.poll() is None, 1, "asking")
    began = time.monotonic()
    signal_container(pods[0].container(name), signal.SIGKILL)
    wait_for(lambda: pods[0].container(name).restarts == 1, 20, "restart")
    wait_for(pods[0].ready, 30, f"ready again\n{suite.describe()}")
    took = time.monotonic() - began
    time.sleep(1)  # what comes after it counts, too
    asking.end()
    expected = {"sidecar": 0}.get(name, 60 * 5 // 3)
    report(f"{name} killed in one pod of three", f"at most {expected} bad answers", f"{asking}; ready after {took:.1f} s")
    assert asking.lost + asking.wrong <= expected, asking.failures[:5]
    replace_pod(suite, pods[0])


def test_dnsmasq_killed_inside_its_container(suite, load, report):
    """The nanny starts its child again at once; the container is not restarted."""
    pods = suite.ensure("replace-kube-dns", 3)
    asking = load()
    rows = docker("top", pods[0].container("dnsmasq").id, "-eo", "pid,comm").splitlines()[1:]
    child = next(r.split()[0] for r in rows if r.split()[1] == "dnsmasq")
    run("kill", "-9", child)

    def again():
        now = docker("top", pods[0].container("dnsmasq").id, "-eo", "pid,comm").splitlines()[1:]
        return [r for r in now if r.split()[1] == "dnsmasq" and r.split()[0] != child]
    wait_for(again, 10, "another dnsmasq")
    wait_for(pods[0].ready, 15, "ready")
    time.sleep(1)
    asking.end()
    report("dnsmasq itself killed, one pod of three", "at most 20 bad answers", asking)
    assert asking.lost + asking.wrong <= 20 and pods[0].container("dnsmasq").restarts == 0, asking.failures[:5]


@pytest.fixture
def large_cluster(suite):
    """grow() makes the cluster larger than a small limit holds; afterwards it is small again."""
    namespaces = 20

    def grow():
        run(suite.plane.ctl, "load", "--kubeconfig", suite.plane.kubeconfig, "--namespaces", namespaces, "--services", 500,
            "--slices", 2000, "--endpoints", 100, timeout=120)
    yield grow
    for i in range(namespaces):
        for kind in ("api/v1/namespaces/{}/services", "apis/discovery.k8s.io/v1/namespaces/{}/endpointslices"):
            suite.api.request("DELETE", "/" + kind.format(f"ns-{i:05d}"))


def test_pod_at_its_memory_limit(suite, load, large_cluster, report):
    """One kubedns of three may have 6 MB, and the cluster grows to 200,000 endpoints: it is killed for it, which is said, comes
    back with what the manifest gives it, and the others carry on. Until its endpoint is gone, its third gets SERVFAIL."""
    pods = suite.ensure("replace-kube-dns", 3)
    asking = load()
    victim = pods[0].container("kubedns")
    docker("update", "--memory", "6m", "--memory-swap", "6m", victim.id)
    large_cluster()
    wait_for(lambda: victim.restarts > 0, 30, "killed for its memory")
    assert victim.last_state["reason"] == "OOMKilled", victim.last_state
    wait_for(pods[0].ready, 60, "ready again")
    asking.end()
    report("kubedns out of memory, one pod of three", "killed and back; at most 100 bad answers", f"{victim.restarts} restarts; {asking}")
    assert asking.lost + asking.wrong <= 100 and pods[1].ready() and pods[2].ready()
    replace_pod(suite, pods[0])


def replace_pod(suite, pod):
    """A pod that was restarted gives way to one without a history."""
    suite.plane.kubectl("-n", "kube-system", "delete", "pod", pod.name, "--wait=true")


def test_one_of_three_pods_partitioned(suite, load, report):
    """Nothing gets in or out of one pod: its probes fail, its endpoint goes; when the network is back, so is the pod."""
    pods = suite.ensure("replace-kube-dns", 3)
    asking = load()
    began = time.monotonic()
    rules = [("INPUT", "!", "-i", "lo", "-j", "DROP"), ("OUTPUT", "!", "-o", "lo", "-j", "DROP")]
    for rule in rules:
        pods[0].iptables("-I", *rule)
    try:
        wait_for(lambda: pods[0].address not in suite.proxy.rules, 30, "endpoint removed")
        out = time.monotonic() - began
        during = load()
        time.sleep(3)
        none_lost(report, "one pod of three partitioned, once noticed", during)
    finally:
        for rule in rules:
            pods[0].iptables("-D", *rule)
    wait_for(pods[0].ready, 60, "ready again")
    asking.end()
    share = 60 * (out + 1) / 3
    report("one pod of three partitioned, before that", f"a third for some {out:.0f} s: <= {share * 1.5:.0f}", asking)
    assert asking.lost + asking.wrong <= share * 1.5, asking.failures[:5]


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
    """After all of these faults the pods still follow the API."""
    pods = suite.ensure("front", 1)
    serial = query(pods[0].address, f"{DOMAIN}.", "SOA").answer[0][0].serial
    address = new_service(suite, "short-lived")
    assert suite.await_answer(glibc, "short-lived", address)["held"]
    suite.plane.kubectl("-n", "clients", "delete", "service", "short-lived")
    assert suite.await_answer(glibc, "short-lived", "none")["held"]
    assert query(pods[0].address, f"{DOMAIN}.", "SOA").answer[0][0].serial >= serial
    assert json.loads(http_get(pods[0].address, 10054, "/status.json")[1])
    assert not records(query(pods[0].address, f"short-lived.clients.svc.{DOMAIN}."))
