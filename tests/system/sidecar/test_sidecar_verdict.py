"""
Tests the page's first sentence, the verdict. Each test causes a failure with the real programs. Within 15 seconds of their clock the first
sentence must name the cause. The tests also check which alerts fire if the failure lasts. The intervals are the same as in the manifests:
probes and statistics every 5 s.
"""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import urllib.request

import dns.message
import dns.rcode
import pytest
from alerts import firing
from api_world import ApiServer
from hurry import Clock, state_of
from objects import namespace, service
from pod_world import Pod
from sidecar_world import BUILD, NAME, FakeDns, good, rcode, silent
from waiting import free_port

LIMIT_S = 15  # from the failure until the page names it
SILENT = "does not answer"
HEALTHY = "DNS is healthy"
WELL = HEALTHY + ": both probes are answered"
STEP_S = 0.1  # of the clock
FLOODER = "127.0.0.8"
HOSTILE = os.path.join(BUILD, "tests", "bench", "hostile")


def servers(*upstreams, **stubs):
    """The keys of the ConfigMap."""
    keys = {"upstreamNameservers": json.dumps(list(upstreams))}
    if stubs:
        keys["stubDomains"] = json.dumps({domain + ".test": [server] for domain, server in stubs.items()})
    return keys


@pytest.fixture
def upstream():
    with FakeDns(good) as server:
        yield server


@pytest.fixture
def clock(tmp_path, upstream):
    clock = Clock(tmp_path)
    clock.servers.append(upstream)
    clock.set_wall_forward()
    return clock


@pytest.fixture
def make_pod(clock):
    made = []

    def make(config, **options):
        made.append(Pod(config, interval=5, poll_ms=5000, clock=clock, **options))
        return made[-1]

    yield make
    for pod in made:
        pod.close()


def becomes(pod, sentence, within=LIMIT_S):
    """Moves the clock until the page begins with this sentence. Fails if the clock passes more than `within` seconds."""
    pod.clock.run_until(lambda: pod.sentence().startswith(sentence), within, STEP_S, lambda: f"{sentence}: {pod.sidecar.status()}")


def well(pod, sentence=WELL):
    becomes(pod, sentence, 30)
    pod.clock.run_until(lambda: pod.sidecar.status()["nanny"]["up"], 30, STEP_S)
    # Each server has answered a check at least once.
    pod.clock.run_until(lambda: all(v > 0 for k, v in pod.sidecar.metrics().items() if k[0] == "dns_check_results_total" and ("result", "answered") in k[1]), 30, STEP_S)


def says(pod, sentence, cause=None, not_before=(), within=LIMIT_S, alerts=None, also=()):
    """
    Moves the clock until the page has this first sentence and the metric of its cause, at most by `within` seconds. None of `not_before`
    may appear earlier. A probe may fail a moment before the page knows the cause, with the same sentence. If the failure lasts, all of
    `alerts` must fire. The alerts in `also` may fire too, because they depend on the contents of dnsmasq's cache. No other alert may fire.
    """
    seen = []

    def said():
        now = pod.sentence()
        if not seen or seen[-1] != now:
            seen.append(now)
        return sentence in now and (cause is None or pod.sidecar.value("dns_verdict_cause", cause=cause) == 1)

    took = pod.clock.run_until(said, within, STEP_S, lambda: f"{seen}\n{json.dumps(pod.sidecar.status()['findings'], indent=1)}")
    print(f"{took:.1f} s: {seen[-1]}")
    for wrong in not_before:
        assert not any(wrong in before for before in seen), seen
    finding = pod.sidecar.status()["findings"][0]
    assert finding["meaning"] and finding["todo"]
    if alerts is not None:
        fires(pod, alerts, also)
    return seen


def fires(pod, alerts, also=(), **how):
    fired = firing(pod.ports(), pod.clock, **how)
    print("   ".join(f"{alert} after {minute} min" for alert, minute in sorted(fired.items(), key=lambda a: a[1])) or "no alert")
    assert set(alerts) <= set(fired) <= {*alerts, *also}, fired


@pytest.mark.parametrize("how, words", [(None, "refuses connections"), (silent, SILENT), (rcode(dns.rcode.SERVFAIL), "answers with SERVFAIL")],
                         ids=["nothing there", "silent", "SERVFAIL"])
def test_the_only_upstream_does_not_answer(make_pod, upstream, how, words):
    pod = make_pod(servers(upstream.server))
    well(pod)
    if how:
        upstream.udp = how
    else:
        upstream.stop()
    seen = says(pod, f"Cluster names are answered, but no upstream server answers: the only one {upstream.server} {words}", "server", alerts=["DNSUpstreamFailing"])
    assert not any("dnsmasq" in s or "kubedns" in s for s in seen), seen
    assert pod.sidecar.value("dns_check_success", check="upstream", server=upstream.server) == 0
    assert pod.sidecar.value("dns_check_success", check="cluster", server=f"127.0.0.1:{pod.dnsmasq_port}") == 1
    upstream.udp = good
    if not how:
        upstream.start()
    becomes(pod, WELL)


def test_one_of_two_upstreams_is_dead(make_pod, upstream):
    dead = f"127.0.0.1:{free_port()}"
    pod = make_pod(servers(upstream.server, dead))
    says(pod, f"DNS answers, but upstream server {dead}, one of 2, refuses connections", "server", within=LIMIT_S + 5, alerts=["DNSUpstreamFailing"])


def test_a_stub_server_is_dead(make_pod, upstream):
    dead = f"127.0.0.1:{free_port()}"
    pod = make_pod(servers(upstream.server, acme=dead))
    says(pod, f"DNS answers, but stub server {dead} of acme.test refuses connections", "server", within=LIMIT_S + 5, alerts=["DNSUpstreamFailing"])


def test_the_servers_are_hidden_from_strangers(make_pod, upstream):
    dead = f"127.0.0.1:{free_port()}"
    pod = make_pod(servers(dead, acme=upstream.server))
    says(pod, "no upstream server answers", "server", within=LIMIT_S + 5)
    foreign = {"Host": "evil.example"}  # DNS rebinding: the peer is loopback, but not trusted
    assert dead not in pod.sidecar.get("/")[1], "the page itself must contain no data"
    assert upstream.server in pod.sidecar.get("/status.json")[1]
    for path in ("/status.txt", "/status.json"):
        shown, hidden = pod.sidecar.get(path)[1], pod.sidecar.get(path, foreign)[1]
        assert "no upstream server answers" in shown and "no upstream server answers" in hidden
        assert dead in shown
        assert dead not in hidden and upstream.server not in hidden and "acme.test" not in hidden


def test_kubedns_is_killed(make_pod, upstream):
    """dnsmasq answers from its cache for a while. When the cache expires, the page must not blame dnsmasq."""
    pod = make_pod(servers(upstream.server))
    well(pod)
    pod.kill("kubedns")
    blamed = ("dnsmasq does not", "dnsmasq is not", "dnsmasq answers", "but dnsmasq")
    says(pod, "kubedns is not running", "kubedns", blamed)
    says(pod, "DNS is down: kubedns is not running, for ", "kubedns", blamed,  # with a name that dnsmasq does not cache
         alerts=["DNSDown", "DNSProcessDown"])
    assert pod.sidecar.value("dns_check_success", check="cluster", server=f"127.0.0.1:{pod.dnsmasq_port}") == 0


def test_kubedns_is_stopped(make_pod, upstream):
    pod = make_pod(servers(upstream.server))
    well(pod)
    pod.kill("kubedns", signal.SIGSTOP)
    says(pod, "kubedns does not answer", "kubedns", ("dnsmasq does not", "but dnsmasq"),
         alerts=["DNSProcessDown"], also=["DNSDown"])
    pod.kill("kubedns", signal.SIGCONT)
    becomes(pod, WELL)


def test_dnsmasq_is_stopped(make_pod, upstream):
    pod = make_pod(servers(upstream.server))
    well(pod)
    child = dnsmasq_of(pod)
    os.kill(child, signal.SIGSTOP)
    try:
        says(pod, "DNS is down: dnsmasq does not answer", "dnsmasq", ("kubedns", "upstream"), alerts=["DNSDown", "DNSProcessDown"])
    finally:
        with contextlib.suppress(ProcessLookupError):  # the nanny kills a dnsmasq that has been silent for too long
            os.kill(child, signal.SIGCONT)


def dnsmasq_of(pod):
    return int(subprocess.run(["pgrep", "-P", str(pod.processes["nanny"].pid), "dnsmasq"], capture_output=True, text=True, check=True).stdout)


def test_dnsmasq_is_stopped_in_the_front_topology(make_pod, upstream):
    """A bug: the page said "DNS answers" while every external name failed."""
    pod = make_pod(servers(upstream.server), front=True)
    well(pod, HEALTHY)
    child = dnsmasq_of(pod)
    os.kill(child, signal.SIGSTOP)
    try:
        says(pod, "Cluster names are answered, but external names fail: dnsmasq does not answer.", "dnsmasq", ("upstream", "DNS is down"), alerts=["DNSProcessDown"])
        reply = dns.message.from_wire(ask(pod.kubedns_port, NAME))
        assert reply.rcode() == dns.rcode.NOERROR  # as the sentence says
    finally:
        with contextlib.suppress(ProcessLookupError):  # the nanny kills a dnsmasq that has been silent for too long
            os.kill(child, signal.SIGCONT)
    becomes(pod, HEALTHY)


def test_kubedns_is_killed_in_the_front_topology(make_pod, upstream):
    pod = make_pod(servers(upstream.server), front=True)
    well(pod, HEALTHY)
    pod.kill("kubedns")
    says(pod, "DNS is down: kubedns is not running, for ", "kubedns", ("dnsmasq",))
    assert "every name fails" in pod.sidecar.status()["findings"][0]["meaning"]


def test_a_broken_manifest_is_on_the_page(make_pod, upstream, tmp_path):
    """A bug: the page said "DNS is healthy" while kubedns_manifest_files_broken was 1."""
    objects = tmp_path / "objects"
    objects.mkdir()
    good_text = json.dumps(service("kubernetes", "10.96.0.1", "default"))
    (objects / "a.json").write_text(good_text)
    pod = make_pod(servers(upstream.server), kubedns=[f"--objects-dir={objects}"], in_pod=False)
    well(pod)
    (objects / "a.json").write_text(good_text[:-1])
    says(pod, "DNS answers, but 1 manifest has a mistake.", "manifests", alerts=["DNSCauseFound"])
    for path in ("/", "/status.txt", "/status.json"):
        status, text = pod.sidecar.get(path)
        assert status == 200 and "kubectl" not in text and "one of several DNS pods" not in text
    with urllib.request.urlopen(f"http://127.0.0.1:{pod.kubedns_http}/readiness") as page:
        assert re.search(r"^ok\n--objects-dir: 1 of 1 files has a mistake; the latest: .*a\.json", page.read().decode())
    (objects / "a.json").write_text(good_text)
    becomes(pod, WELL)


def test_the_nanny_and_dnsmasq_are_killed(make_pod, upstream):
    pod = make_pod(servers(upstream.server))
    well(pod)
    pod.kill("nanny")
    says(pod, "DNS is down: dnsmasq is not running", "dnsmasq", ("kubedns", "upstream"),
         alerts=["DNSDown", "DNSProcessDown"])


def test_the_configmap_is_refused_and_mended(make_pod, upstream):
    pod = make_pod(servers(upstream.server))
    well(pod)
    pod.write("stubDomains", '{"acme.test": ["not an address!"]}')
    says(pod, "DNS answers, but the ConfigMap's stubDomains was partly refused", "configuration", alerts=["DNSConfigRefused"])
    pod.write("stubDomains", "{}")
    becomes(pod, WELL)
    pod.write("stubDomains", json.dumps({"acme.test": [upstream.server]}))
    pod.clock.run_until(lambda: any(e["what"].startswith("configuration: recovered after ") for e in pod.sidecar.status()["events"]), LIMIT_S, STEP_S)
    told = [event["what"] for event in reversed(pod.sidecar.status()["events"])]
    begun = told.index("the ConfigMap's stubDomains was partly refused, and names of a stub domain get SERVFAIL")
    ended = next(i for i, what in enumerate(told) if what.startswith("configuration: recovered after "))
    assert told[0] == "the sidecar started" and 0 < begun < ended
    assert upstream.server not in " ".join(told)


def test_a_server_that_leads_back_is_named(make_pod, upstream):
    pod = make_pod(servers(upstream.server))
    well(pod)
    pod.write("stubDomains", json.dumps({"acme.test": [f"127.0.0.1:{pod.dnsmasq_port}"]}))
    says(pod, "the ConfigMap's stubDomains was partly refused", "configuration")
    assert "forwarding loop" in pod.sidecar.status()["findings"][0]["what"]


def test_after_a_rollback_nobody_is_blamed(make_pod, upstream):
    """The old server answered all queries, and the server that was tried answered no query."""
    with FakeDns(rcode(dns.rcode.SERVFAIL)) as bad:
        pod = make_pod(servers(upstream.server))
        pod.clock.servers.append(bad)
        well(pod)
        pod.write("upstreamNameservers", json.dumps([bad.server, upstream.server]))
        says(pod, f"upstream server {bad.server}, one of 2, answers with SERVFAIL", "server")
        pod.write("upstreamNameservers", json.dumps([upstream.server]))
        becomes(pod, WELL)
        for i in range(30):
            ask(pod.dnsmasq_port, f"n{i}.example.org")
        for _ in range(50):  # 10 seconds: two readings of the statistics
            pod.clock.pass_by(0.2, STEP_S)
            assert pod.sentence().startswith(WELL), pod.sidecar.status()["findings"]
        fires(pod, [])


def ask(port, name):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.settimeout(5)
        s.sendto(dns.message.make_query(name, "A").to_wire(), ("127.0.0.1", port))
        return s.recv(4096)


def test_a_flood_that_kubedns_does_not_keep_up_with(make_pod, upstream):
    """
    Packets arrive while kubedns is stopped, more than its socket can hold. The page names the only client that sent them. If kubedns was
    stopped for long, because this process got no CPU, answers were also slow.
    """
    pod = make_pod(servers(upstream.server))
    well(pod)
    pod.kill("kubedns", signal.SIGSTOP)
    query = dns.message.make_query(NAME, "A", use_edns=0, pad=1024).to_wire()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.bind((FLOODER, 0))
        for _ in range(20000):
            s.sendto(query, ("127.0.0.1", pod.kubedns_port))
    pod.kill("kubedns", signal.SIGCONT)
    said = says(pod, f"packets dropped, while {FLOODER} got ", "load", alerts=["DNSOverload"], also=["DNSLatencyHigh"])[-1]
    assert re.search(rf"kubedns does not keep up: [0-9,]+ packets dropped, while {FLOODER} got \d+ % of the answers", said), said
    pod.clock.run_until(lambda: pod.sidecar.status()["findings"][0]["command"].endswith(f"grep -wF {FLOODER}"), 5, STEP_S)
    assert FLOODER not in pod.sidecar.get("/status.json", {"Host": "evil.example"})[1]
    # A bug: the alert still fired ten minutes later.
    becomes(pod, WELL, 30)
    assert pod.sidecar.value("dns_verdict_cause", cause="load") == 0
    finding = next(f for f in pod.sidecar.status()["findings"] if FLOODER in f["what"])
    assert finding["level"] == "note" and re.match(r"Until \d+ seconds ago kubedns did not keep up: the kernel dropped [0-9,]+ packets", finding["what"])
    fires(pod, [])


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
    says(pod, "DNS answers, but kubedns cannot reach the API server", "api", alerts=["DNSDataStale"])
    api.start()
    becomes(pod, WELL, 30)


def test_the_first_sync_waits_for_the_api_server(make_pod, upstream, api, tmp_path):
    api.start()
    api.stop()
    pod = make_pod(servers(upstream.server), kubedns=[f"--kubecfg-file={api.kubeconfig(tmp_path / 'kubeconfig')}"])
    says(pod, "DNS is running, but cluster names get SERVFAIL, because kubedns is not ready", "sync", ("upstream",), alerts=["DNSNotSynced", "DNSDown", "DNSErrorRateHigh"])


@pytest.mark.parametrize("status, words", [(401, "the API server refuses kubedns's token"), (403, "the API server does not allow kubedns to list")])
def test_the_api_server_refuses(make_pod, upstream, api, tmp_path, status, words):
    api.start()
    api.fault(status=status)
    pod = make_pod(servers(upstream.server), kubedns=[f"--kubecfg-file={api.kubeconfig(tmp_path / 'kubeconfig')}"])
    says(pod, words, "sync", ("upstream",), alerts=["DNSNotSynced", "DNSDown", "DNSErrorRateHigh"])


def test_memory_near_its_limit(make_pod, upstream, tmp_path):
    """A container uses nearly all of its memory limit. In the test's mount namespace, other files replace the kernel's files."""
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
    well(pod)  # 100,000 of the 900,000 are page cache, which the kernel frees first
    (tmp_path / "used").write_text("960000\n")
    says(pod, "DNS answers, but container kubedns is near its memory limit", "memory", alerts=["DNSMemoryNearLimit"])


def test_a_client_that_is_held_back(make_pod, upstream, tmp_path):
    """
    kubedns gets a sixtieth of one CPU, and one client sends more queries than kubedns can answer with it. The other clients get answers. So
    DNS is healthy, and the page says that kubedns drops packets of its top clients.
    """
    if not os.path.exists(HOSTILE):
        pytest.skip(f"needs {HOSTILE}: make bench-tools")
    cpu = ["taskset", "-c", str(min(os.sched_getaffinity(0)))]
    # kubedns measures its work, so it has the real clock. The other clock waits until kubedns has nothing to do, so that a probe waits for it.
    pod = make_pod(servers(upstream.server), wraps={"kubedns": ["env", "-u", "LD_PRELOAD", *cpu, "nice", "-n", "19"]})
    pod.clock.servers.append(Working(pod.processes["kubedns"].pid))
    well(pod)
    (tmp_path / "queries").write_text("".join(dns.message.make_query(NAME, "A", id=i).to_wire().hex() + "\n" for i in range(64)))
    subprocess.run([*cpu, HOSTILE, "udp", "127.0.0.2", str(pod.kubedns_port), tmp_path / "queries", "3", "0"], check=True, stdout=subprocess.DEVNULL, timeout=30)
    pod.clock.run_until(lambda: held_back(pod), LIMIT_S, STEP_S)
    finding = held_back(pod)
    assert re.match(r"kubedns dropped [\d,]+ packets of its top clients in the last 10 minutes", finding["what"]) and finding["level"] == "note"
    assert pod.sidecar.value("dns_verdict_cause", cause="load") == 1
    # kubedns has so little CPU time that it may also be slow for the other clients.
    fires(pod, ["DNSOverload"], also=["DNSLatencyHigh"], timeout_s=60)


class Working:
    """A program that a Clock waits for, though it has the real clock."""

    def __init__(self, pid):
        self.pid = pid

    def busy(self):
        try:
            threads = os.listdir(f"/proc/{self.pid}/task")
        except FileNotFoundError:  # it has ended
            return False
        return any(state_of(thread) in "RD" for thread in threads)


def held_back(pod):
    return next((f for f in pod.sidecar.status()["findings"] if "packets of its top clients" in f["what"]), None)


def test_the_clock_was_set(make_pod, upstream):
    pod = make_pod(servers(upstream.server))
    well(pod)
    pod.clock.set_wall_forward(3600)
    pod.clock.run_until(lambda: any("The node's clock was set" in event["what"] for event in pod.sidecar.status()["events"]), 5, STEP_S)
    finding = next(f for f in pod.sidecar.status()["findings"] if "clock" in f["what"])
    assert finding["what"] == "The node's clock was set forward by 60 minutes" and finding["level"] == "note"
    assert pod.sentence().startswith(WELL) and pod.sidecar.value("dns_verdict_cause", cause="clock") == 1
    fires(pod, ["DNSCauseFound"])
