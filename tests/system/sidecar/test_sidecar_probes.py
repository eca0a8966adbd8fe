"""Probe targets of every kind. Health and metrics show what happened, within one interval."""

import subprocess
import threading

import dns.rcode
import pytest

from hurry import Clock
from netns import has_ipv6, needs_ipv6
from sidecar_world import NAME, PROGRAM, FakeDns, Sidecar, cut, empty, garbage, good, rcode, silent, slow, truncated, until, wrong_id, wrong_question
from tls_world import NannyPage
from waiting import free_port

# For each behaviour of the server (UDP, TCP): the error in health, and the result that the sidecar counts.
CASES = {
    "good": (good, None, "", "ok"),
    "silent": (silent, None, "timeout", "timeout"),
    "late": (slow(3), None, "timeout", "timeout"),
    "slow": (slow(0.3), None, "", "ok"),
    "wrong_id": (wrong_id, None, "wrong ID", "wrong_id"),
    "wrong_question": (wrong_question, None, "malformed", "malformed"),
    "garbage": (garbage, None, "wrong ID", "wrong_id"),
    "two_bytes": (lambda q: q.id.to_bytes(2, "big"), None, "malformed", "malformed"),
    "cut": (cut, None, "malformed", "malformed"),
    "spoof_first": (lambda q: [wrong_id(q), wrong_question(q), good(q)], None, "", "ok"),
    "nxdomain": (rcode(dns.rcode.NXDOMAIN), None, "NXDOMAIN", "nxdomain"),
    "servfail": (rcode(dns.rcode.SERVFAIL), None, "SERVFAIL", "servfail"),
    "refused": (rcode(dns.rcode.REFUSED), None, "REFUSED", "refused"),
    "notimp": (rcode(dns.rcode.NOTIMP), None, "NOTIMP", "rcode"),
    "no_records": (empty, None, "no records", "no_records"),
    "not_ready": (rcode(dns.rcode.SERVFAIL, 14), None, "not ready", "not_ready"),
    "tc_tcp": (truncated, good, "", "ok"),
    "tc_no_tcp": (truncated, None, "connection refused over TCP", "connection_refused"),
    "tc_tcp_silent": (truncated, silent, "timeout over TCP", "timeout"),
    "tc_tcp_nx": (truncated, rcode(dns.rcode.NXDOMAIN), "NXDOMAIN over TCP", "nxdomain"),
    "tc_tcp_tc": (truncated, truncated, "malformed over TCP", "malformed"),
}


@pytest.fixture(scope="module")
def world():
    """One sidecar with all cases at once. It probes each server every 5 seconds."""
    servers = {label: FakeDns(udp, tcp) for label, (udp, tcp, _, _) in CASES.items()}
    if has_ipv6():
        servers["six"] = FakeDns(good, host="::1")
    probes = [f"--probe={label},{server.server},{NAME},5,SRV" for label, server in servers.items()]
    probes += [f"--probe=nobody,127.0.0.1:{free_port()},{NAME},5,A"]
    with Sidecar(*probes) as sidecar:
        until(lambda: all(p["state"] != "waiting" for p in sidecar.status()["probes"]), 60, what="every first result")
        yield sidecar
    for server in servers.values():
        server.stop()


@pytest.mark.parametrize("label", CASES)
def test_the_logged_api_events_match_the_server(world, label):
    _, _, error, result = CASES[label]
    alive = result in ("ok", "not_ready")

    def said():
        """The caller retries until the next interval. On a busy machine one answer may be late, and the sidecar is then right to report this."""
        status, health = world.health(label)
        return (status, health["IsOk"], health["Err"]) == (200 if alive else 503, alive, error) and (health["LatencySeconds"] > 0) == (result == "ok")

    until(said, what=f"{error!r}")
    # One scrape shows one moment, so its numbers agree with each other.
    metrics = world.metrics()
    results = {dict(labels)["result"]: n for (name, labels), n in metrics.items() if name == "dns_probe_results_total" and ("probe", label) in labels}
    assert results[result] >= 1
    assert metrics[f"kubedns_probe_{label}_errors", ()] == sum(n for name, n in results.items() if name not in ("ok", "not_ready"))
    assert metrics[f"kubedns_probe_{label}_latency_ms_count", ()] == results["ok"]
    over_tcp = metrics["dns_probe_tcp_retries_total", (("probe", label),)]
    # These results came over TCP. A timeout may also have happened before the truncated reply, over UDP.
    assert (1 if result == "timeout" else results[result]) <= over_tcp <= sum(results.values()) if label.startswith("tc_") else over_tcp == 0
    until(lambda: world.value("dns_probe_success", probe=label) == (result == "ok"), what="the newest success")


def test_one_that_hangs_delays_no_other(tmp_path):
    """The timeout is 2 s. The sidecar does not wait for silent servers one after the other."""
    clock = Clock(tmp_path)
    with FakeDns(silent) as dead, FakeDns(good) as server:
        probes = [f"--probe=dead{i},{dead.server},{NAME}" for i in range(5)]
        with Sidecar(*probes, f"--probe=p,{server.server},{NAME}", env=clock.env) as sidecar:
            clock.run_until(lambda: dead.asked == 5 and sidecar.health("p")[0] == 200, 1.5, what=sidecar.said)
            clock.run_until(lambda: all(sidecar.health(f"dead{i}")[1]["Err"] == "timeout" for i in range(5)), 3.5, what=sidecar.said)


def test_slow_is_measured(tmp_path):
    """
    The reply comes when the test has moved the sidecar's clock by 1.5 s. The sidecar subtracts the real time for which the reply waited in
    its socket.
    """
    clock, go = Clock(tmp_path), threading.Event()

    def behave(request):
        go.wait(60)
        return good(request)

    with FakeDns(behave) as server, Sidecar(f"--probe=p,{server.server},{NAME}", env=clock.env) as sidecar:
        clock.run_until(lambda: server.asked, 10, what=sidecar.said)
        begun = clock.seconds()
        clock.forward(1.5)
        go.set()
        until(lambda: sidecar.health("p")[0] == 200, 60)
        assert 0.5 <= sidecar.health("p")[1]["LatencySeconds"] <= 1.5 + begun


def test_ipv6(world):
    needs_ipv6()
    assert world.health("six")[1]["IsOk"]
    assert world.probe("six")["server"].startswith("[::1]:")


def test_nothing_listens(world):
    assert world.health("nobody") == (503, {"IsOk": False, "LatencySeconds": 0, "Err": "connection refused"})


def test_an_unknown_label_is_not_found(world):
    assert world.get("/healthcheck/other")[0] == 404
    assert world.get("/healthcheck/")[0] == 404


def test_before_the_first_result_health_is_503():
    with FakeDns(silent) as server, Sidecar(f"--probe=p,{server.server},{NAME}") as sidecar:
        assert sidecar.health("p") == (503, {"IsOk": False, "LatencySeconds": 0, "Err": "waiting for first probe"})


def test_a_server_that_comes_and_goes_is_seen_within_an_interval(tmp_path):
    clock = Clock(tmp_path)
    with FakeDns(good) as server, Sidecar(f"--probe=p,{server.server},{NAME},1,A", env=clock.env) as sidecar:

        def seen_within(seconds, error):
            clock.run_until(lambda: sidecar.health("p")[1]["Err"] == error, seconds, what=lambda: f"{error!r}; {sidecar.said()}")

        seen_within(60, "")
        for behaviour, error in ((rcode(dns.rcode.SERVFAIL), "SERVFAIL"), (silent, "timeout"), (good, "")):
            server.udp = behaviour
            seen_within(1 + 0.9 + 0.2, error)  # one interval until the next probe, and the timeout of a probe that runs every second
        server.stop()
        seen_within(1 + 0.9, "connection refused")
        server.start()
        seen_within(1 + 0.9, "")
        said = sidecar.said()
        for change in ("SERVFAIL", "timeout", "connection refused", "answered in"):
            assert change in said
        assert sidecar.stop() == 0


def test_once_prints_a_table_and_exits_by_what_it_saw():
    with FakeDns(good) as up, FakeDns(rcode(dns.rcode.NXDOMAIN)) as bad:
        ok = subprocess.run([PROGRAM, "--once", f"--probe=a,{up.server},{NAME},5,SRV"], capture_output=True, text=True, timeout=10)
        assert ok.returncode == 0 and "1 of 1 answered" in ok.stdout and up.server in ok.stdout
        mixed = subprocess.run([PROGRAM, "--once", f"--probe=a,{up.server},{NAME}", f"--probe=b,{bad.server},{NAME}"],
                               capture_output=True, text=True, timeout=10)
        assert mixed.returncode == 1 and "NXDOMAIN" in mixed.stdout and "1 of 2 answered" in mixed.stdout


def test_kube_dns_arguments_unchanged():
    """The arguments of the sidecar container in kube-dns's Deployment. The test adds only --check and --once."""
    args = ["--v=2", "--logtostderr", "--probe=kubedns,127.0.0.1:10053,kubernetes.default.svc.cluster.local,5,SRV",
            "--probe=dnsmasq,127.0.0.1:53,kubernetes.default.svc.cluster.local,5,SRV"]
    check = subprocess.run([PROGRAM, *args, "--check"], capture_output=True, text=True, timeout=10)
    assert check.returncode == 0, check.stderr
    assert "probe kubedns: query 127.0.0.1:10053 for kubernetes.default.svc.cluster.local. SRV every 5 s" in check.stdout
    assert "probe dnsmasq: query 127.0.0.1:53 " in check.stdout
    once = subprocess.run([PROGRAM, *args, "--once"], capture_output=True, text=True, timeout=10)
    assert once.returncode in (0, 1) and "of 2 answered" in once.stdout


@pytest.mark.parametrize("args, words", [
    (["--probe=<script>,127.0.0.1,x"], "label"),
    (["--probe=a\"b,127.0.0.1,x"], "label"),
    (["--probe=a\udcff,127.0.0.1,x"], "label"),
    (["--probe=" + "a" * 255 + ",127.0.0.1,x"], "label"),
    (["--probe=a,127.0.0.1,x", "--probe=a,127.0.0.1,y"], "taken"),
    (["--probe=a-b,127.0.0.1,x", "--probe=a_b,127.0.0.1,y"], "taken"),
    (["--probe=a,127.0.0.1,x,0"], "interval"),
    (["--probe=a,127.0.0.1,x,5,TXT"], "type"),
    (["--dnsmasq-poll-interval-ms=0"], "poll-interval"),
    (["--dnsmasq-poll-interval-ms=-5"], "poll-interval"),
    (["--dnsmasq-addr=localhost"], "not an address"),
    (["--prometheus-namespace=9x"], "namespace"),
    (["--prometheus-path=metrics"], "path"),
    (["--kubedns-url=https://127.0.0.1"], "http://"),
    (["--nanny-url=http://example.org"], "address"),
    (["--no-such-flag"], "no-such-flag"),
    (["word"], "word"),
])
def test_mistakes_end_with_2_and_a_reason(args, words):
    for extra in ([], ["--check"]):
        run = subprocess.run([PROGRAM, *args, *extra], capture_output=True, timeout=10)
        assert run.returncode == 2
        assert words in run.stderr.decode("utf-8", "replace")


def test_the_nanny_is_told_when_a_slow_server_becomes_fast(tmp_path):
    """unbound avoids a slow server and does not notice that it has become fast. A reply after 0.6 s of the sidecar's clock proves neither."""
    clock, asked, go = Clock(tmp_path), threading.Semaphore(0), threading.Semaphore(0)

    def behave(request):
        asked.release()
        go.acquire(timeout=60)
        return good(request)

    with FakeDns(behave) as upstream, NannyPage([upstream.server]) as nanny, \
            Sidecar(f"--dnsmasq-port={free_port()}", f"--nanny-url={nanny.url}", "--kubedns-url=", peers=True, env=clock.env) as sidecar:  # fmt: skip

        def answered():
            return sidecar.metrics().get(("dns_check_results_total", (("check", "upstream"), ("result", "answered"), ("server", upstream.server))), 0)

        def reply_after(seconds):
            before = answered()
            clock.run_until(lambda: asked.acquire(blocking=False), 60, what=sidecar.said)
            clock.forward(seconds)
            go.release()
            until(lambda: answered() == before + 1)

        for seconds in (0.6, 0, 1.2, 1.2, 0.6, 0.6, 0.6):
            reply_after(seconds)
        assert nanny.recovered == 0
        reply_after(0)
        clock.run_until(lambda: nanny.recovered == 1, 5, what=sidecar.said)
