"""
The verdict against the truth: each cause brought about with the real programs, and what the first sentence of the page then says, within
15 seconds. The intervals are those of the manifests: probes and statistics every 5 s.
"""

import json
import os
import signal
import socket
import subprocess
import time

import dns.message
import dns.rcode
import pytest
from api_world import ApiServer
from objects import namespace, service
from pod_world import Pod
from sidecar_world import NAME, FakeDns, good, rcode, silent
from waiting import free_port, wait_for

# Each cause is named within 15 s of the moment that brings it about.
pytestmark = pytest.mark.timing

LIMIT_S = 15
SILENT = "does not answer"
WELL = "DNS is well: both probes are answered"


def servers(*upstreams, **stubs):
    """The ConfigMap."""
    keys = {"upstreamNameservers": json.dumps(list(upstreams))}
    if stubs:
        keys["stubDomains"] = json.dumps({domain + ".test": [server] for domain, server in stubs.items()})
    return keys


@pytest.fixture
def upstream():
    with FakeDns(good) as server:
        yield server


@pytest.fixture
def make_pod():
    made = []

    def make(config, **options):
        made.append(Pod(config, interval=5, poll_ms=5000, **options))
        return made[-1]

    yield make
    for pod in made:
        pod.close()


def well(pod):
    wait_for(lambda: pod.sentence().startswith(WELL) and pod.sidecar.status()["nanny"]["up"], 30, what=lambda: f"not well: {pod.sidecar.status()}")
    # Everything has been asked at least once.
    wait_for(lambda: all(v > 0 for k, v in pod.sidecar.metrics().items() if k[0] == "dns_check_results_total" and ("result", "answered") in k[1]), 30)


def says(pod, sentence, cause=None, not_before=(), within=LIMIT_S):
    """The first sentence that names trouble is this one, in time; none of `not_before` comes first. With it the metric of its alert."""
    begun, seen = time.monotonic(), []

    def said():
        now = pod.sentence()
        if not seen or seen[-1] != now:
            seen.append(now)
        return sentence in now

    wait_for(said, within, what=lambda: f"in {within} s: {seen}\n{json.dumps(pod.sidecar.status()['findings'], indent=1)}")
    print(f"{time.monotonic() - begun:.1f} s: {seen[-1]}")
    for wrong in not_before:
        assert not any(wrong in before for before in seen), seen
    if cause:
        assert pod.sidecar.value("dns_verdict_cause", cause=cause) == 1
    finding = pod.sidecar.status()["findings"][0]
    assert finding["meaning"] and finding["todo"]
    return seen


@pytest.mark.parametrize("how, words", [(None, "refuses connections"), (silent, SILENT), (rcode(dns.rcode.SERVFAIL), "answers with SERVFAIL")],
                         ids=["nothing there", "silent", "SERVFAIL"])
def test_the_only_upstream_does_not_answer(make_pod, upstream, how, words):
    pod = make_pod(servers(upstream.server))
    well(pod)
    if how:
        upstream.udp = how
    else:
        upstream.stop()
    seen = says(pod, f"Cluster names are answered, but no upstream server answers: the only one {upstream.server} {words}", "server")
    assert not any("dnsmasq" in s or "kubedns" in s for s in seen), seen
    assert pod.sidecar.value("dns_check_success", check="upstream", server=upstream.server) == 0
    assert pod.sidecar.value("dns_check_success", check="cluster", server=f"127.0.0.1:{pod.dnsmasq_port}") == 1
    upstream.udp = good
    if not how:
        upstream.start()
    wait_for(lambda: pod.sentence().startswith(WELL), LIMIT_S)


def test_one_of_two_upstreams_is_dead(make_pod, upstream):
    dead = f"127.0.0.1:{free_port()}"
    pod = make_pod(servers(upstream.server, dead))
    says(pod, f"DNS answers, but upstream server {dead}, one of 2, refuses connections", "server", within=LIMIT_S + 5)


def test_a_stub_server_is_dead(make_pod, upstream):
    dead = f"127.0.0.1:{free_port()}"
    pod = make_pod(servers(upstream.server, acme=dead))
    says(pod, f"DNS answers, but stub server {dead} of acme.test refuses connections", "server", within=LIMIT_S + 5)


def test_the_servers_are_hidden_from_strangers(make_pod, upstream):
    dead = f"127.0.0.1:{free_port()}"
    pod = make_pod(servers(dead, acme=upstream.server))
    says(pod, "no upstream server answers", "server", within=LIMIT_S + 5)
    foreign = {"Host": "evil.example"}  # by DNS rebinding: loopback, and not to be trusted
    for path in ("/", "/status.json"):
        shown, hidden = pod.sidecar.get(path)[1], pod.sidecar.get(path, foreign)[1]
        assert "no upstream server answers" in shown and "no upstream server answers" in hidden
        assert dead in shown and upstream.server in shown
        assert dead not in hidden and upstream.server not in hidden and "acme.test" not in hidden


def test_kubedns_is_killed(make_pod, upstream):
    """dnsmasq answers from its cache for a while, and is not to blame when it stops."""
    pod = make_pod(servers(upstream.server))
    well(pod)
    pod.kill("kubedns")
    blamed = ("dnsmasq does not", "dnsmasq is not", "dnsmasq answers", "but dnsmasq")
    says(pod, "kubedns is not running", "kubedns", blamed)
    says(pod, "DNS is down: kubedns is not running, for ", "kubedns", blamed)  # asked past dnsmasq's cache
    assert pod.sidecar.value("dns_check_success", check="cluster", server=f"127.0.0.1:{pod.dnsmasq_port}") == 0


def test_kubedns_is_stopped(make_pod, upstream):
    pod = make_pod(servers(upstream.server))
    well(pod)
    pod.kill("kubedns", signal.SIGSTOP)
    says(pod, "kubedns does not answer", "kubedns", ("dnsmasq does not", "but dnsmasq"))
    pod.kill("kubedns", signal.SIGCONT)
    wait_for(lambda: pod.sentence().startswith(WELL), LIMIT_S)


def test_dnsmasq_is_stopped(make_pod, upstream):
    pod = make_pod(servers(upstream.server))
    well(pod)
    child = int(subprocess.run(["pgrep", "-P", str(pod.processes["nanny"].pid), "dnsmasq"], capture_output=True, text=True, check=True).stdout)
    os.kill(child, signal.SIGSTOP)
    try:
        says(pod, "DNS is down: dnsmasq does not answer", "dnsmasq", ("kubedns", "upstream"))
    finally:
        os.kill(child, signal.SIGCONT)


def test_the_nanny_and_dnsmasq_are_killed(make_pod, upstream):
    pod = make_pod(servers(upstream.server))
    well(pod)
    pod.kill("nanny")
    says(pod, "DNS is down: dnsmasq is not running", "dnsmasq", ("kubedns", "upstream"))


def test_the_configmap_is_refused_and_mended(make_pod, upstream):
    pod = make_pod(servers(upstream.server))
    well(pod)
    pod.write("stubDomains", '{"acme.test": ["not an address!"]}')
    says(pod, "DNS answers, but the ConfigMap's stubDomains was refused", "configuration")
    pod.write("stubDomains", "{}")
    wait_for(lambda: pod.sentence().startswith(WELL), LIMIT_S)
    pod.write("stubDomains", json.dumps({"acme.test": [upstream.server]}))
    wait_for(lambda: any("has configuration" in e["what"] for e in pod.sidecar.status()["events"]), LIMIT_S)
    told = [event["what"] for event in reversed(pod.sidecar.status()["events"])]
    begun = told.index("the ConfigMap's stubDomains was refused")
    ended = next(i for i, what in enumerate(told) if what.startswith("configuration: well again after "))
    assert told[0] == "the sidecar was started" and 0 < begun < ended
    page = pod.sidecar.get("/")[1]
    assert "What changed" in page and "configuration: well again after" in page
    assert upstream.server not in " ".join(told)


def test_a_server_that_leads_back_is_named(make_pod, upstream):
    pod = make_pod(servers(upstream.server))
    well(pod)
    pod.write("stubDomains", json.dumps({"acme.test": [f"127.0.0.1:{pod.dnsmasq_port}"]}))
    says(pod, "the ConfigMap's stubDomains was refused", "configuration")
    assert "forwarding loop" in pod.sidecar.status()["findings"][0]["what"]


def test_after_a_rollback_nobody_is_blamed(make_pod, upstream):
    """The server before answered all, the one that was tried answered nothing."""
    with FakeDns(rcode(dns.rcode.SERVFAIL)) as bad:
        pod = make_pod(servers(upstream.server))
        well(pod)
        pod.write("upstreamNameservers", json.dumps([bad.server, upstream.server]))
        says(pod, f"upstream server {bad.server}, one of 2, answers with SERVFAIL", "server")
        pod.write("upstreamNameservers", json.dumps([upstream.server]))
        wait_for(lambda: pod.sentence().startswith(WELL), LIMIT_S)
        for i in range(30):
            ask(pod.dnsmasq_port, f"n{i}.example.org")
        end = time.monotonic() + 2 * 5  # two readings of the statistics
        while time.monotonic() < end:
            assert pod.sentence().startswith(WELL), pod.sidecar.status()["findings"]
            time.sleep(0.2)


def ask(port, name):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.settimeout(5)
        s.sendto(dns.message.make_query(name, "A").to_wire(), ("127.0.0.1", port))
        return s.recv(4096)


def test_a_flood_that_kubedns_does_not_keep_up_with(make_pod, upstream):
    """Packets that come while it is held still, more than its socket has room for."""
    pod = make_pod(servers(upstream.server))
    well(pod)
    pod.kill("kubedns", signal.SIGSTOP)
    query = dns.message.make_query(NAME, "A", use_edns=0, pad=1024).to_wire()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        for _ in range(20000):
            s.sendto(query, ("127.0.0.1", pod.kubedns_port))
    pod.kill("kubedns", signal.SIGCONT)
    says(pod, "kubedns did not keep up", "load")


@pytest.fixture
def api():
    with ApiServer(listen=False) as server:
        server.fill([namespace("default"), service("kubernetes", "10.96.0.1", "default")])
        yield server


def test_the_api_server_is_away(make_pod, upstream, api, tmp_path):
    api.start()
    pod = make_pod(servers(upstream.server), kubedns=[f"--kubecfg-file={api.kubeconfig(tmp_path / 'kubeconfig')}"])
    well(pod)
    api.stop()
    says(pod, "DNS answers, but kubedns does not reach the API server", "api")
    api.start()
    wait_for(lambda: pod.sentence().startswith(WELL), 30)


def test_the_first_sync_waits_for_the_api_server(make_pod, upstream, api, tmp_path):
    api.start()
    api.stop()
    pod = make_pod(servers(upstream.server), kubedns=[f"--kubecfg-file={api.kubeconfig(tmp_path / 'kubeconfig')}"])
    says(pod, "kubedns is not ready", "sync", ("upstream",))


@pytest.mark.parametrize("status, words", [(401, "the API server refuses kubedns's token"), (403, "the API server forbids kubedns to list")])
def test_the_api_server_refuses(make_pod, upstream, api, tmp_path, status, words):
    api.start()
    api.fault(status=status)
    pod = make_pod(servers(upstream.server), kubedns=[f"--kubecfg-file={api.kubeconfig(tmp_path / 'kubeconfig')}"])
    says(pod, words, "sync", ("upstream",))


def test_memory_near_its_limit(make_pod, upstream, tmp_path):
    """A container whose limit is near what it uses: here another file in the place of the kernel's, in a mount namespace of the test's."""
    if not os.path.exists("/sys/fs/cgroup/memory/memory.limit_in_bytes") and not os.path.exists("/sys/fs/cgroup/memory.max"):
        pytest.skip("needs a memory cgroup's files at /sys/fs/cgroup")
    if subprocess.run(["unshare", "-m", "true"], check=False).returncode:
        pytest.skip("needs the right to make mount namespaces")
    v1 = os.path.exists("/sys/fs/cgroup/memory/memory.limit_in_bytes")
    limit, used, stat = (("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "memory/memory.stat") if v1
                         else ("memory.max", "memory.current", "memory.stat"))  # fmt: skip
    for name, text in (("limit", "1000000\n"), ("used", "900000\n"), ("stat", "inactive_file 100000\ntotal_inactive_file 100000\n")):
        (tmp_path / name).write_text(text)
    mounts = " && ".join(f"mount --bind {tmp_path}/{name} /sys/fs/cgroup/{path}" for name, path in (("limit", limit), ("used", used), ("stat", stat)))
    pod = make_pod(servers(upstream.server), wrap=["unshare", "-m", "sh", "-c", f'{mounts} && exec "$0" "$@"'])
    well(pod)  # 100,000 of 900,000 are page cache, which the kernel takes back first
    (tmp_path / "used").write_text("960000\n")
    says(pod, "DNS answers, but container kubedns is near its memory limit", "memory")
