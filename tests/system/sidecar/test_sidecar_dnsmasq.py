"""
dnsmasq's statistics, read from a real dnsmasq. The sidecar's numbers must match dnsmasq's own answers across restarts and flushes, on
every path that shows them.
"""

import json
import signal
import subprocess
import time
import urllib.request

import pytest
from hurry import Clock
from nanny_world import Server, World, constant, only_dnsmasq

from tls_world import NannyPage

from sidecar_world import NAME, PROGRAM, Dnsmasq, FakeDns, Sidecar, good, rcode, silent, until
from waiting import free_port

POLL_MS = 200
OWN = 6  # CHAOS queries per reading; dnsmasq counts them as hits
COUNTERS = ("hits", "misses", "evictions", "insertions")


@pytest.fixture
def upstream():
    with FakeDns(good) as server:
        yield server


@pytest.fixture
def dnsmasq(upstream):
    with Dnsmasq("--cache-size=500", f"--server=127.0.0.1#{upstream.port}") as server:
        yield server


def watch(dnsmasq, *args, **kw):
    return Sidecar(f"--dnsmasq-port={dnsmasq.port}", f"--dnsmasq-poll-interval-ms={POLL_MS}", "--outside-name=", *args, **kw)


def readings(sidecar, count=2):
    """Waits until the sidecar has finished `count` more readings."""
    for _ in range(count):
        before = sidecar.status()["dnsmasq"]["lastTime"]
        until(lambda: (sidecar.status()["dnsmasq"]["lastTime"] or 0) > (before or 0), what="a reading")


def test_numbers_are_dnsmasqs_own(dnsmasq, upstream):
    # With one reading per hour nothing changes after the first reading, so the numbers can be compared.
    for i in range(30):
        dnsmasq.ask(f"n{i % 10}.example")  # 10 misses, 20 hits
    first = {name: dnsmasq.number(name) for name in COUNTERS}
    with Sidecar(f"--dnsmasq-port={dnsmasq.port}", "--dnsmasq-poll-interval-ms=3600000", "--outside-name=") as sidecar:
        until(lambda: sidecar.status()["dnsmasq"]["up"])
        metrics = sidecar.metrics()
        own = {name: metrics[f"kubedns_dnsmasq_{name}", ()] for name in COUNTERS}
    assert (own["misses"], own["evictions"]) == (10, 0) == (first["misses"], first["evictions"])
    assert own["insertions"] == first["insertions"] >= 10
    # The test read hits.bind before the sidecar did. The sidecar's value includes the test's four later queries, and perhaps the query for
    # hits.bind itself.
    assert own["hits"] - first["hits"] in (3, 4, 5)
    for name in COUNTERS:
        assert metrics[f"dnsmasq_cache_{name}_total", ()] == own[name]
    assert metrics["kubedns_dnsmasq_max_size", ()] == metrics["dnsmasq_cache_size_entries", ()] == 500 == dnsmasq.number("cachesize")
    address, queries, failed = dnsmasq.chaos("servers")[0].replace("#", " ").rsplit(" ", 2)
    server = address.replace(" ", ":")
    assert server == f"127.0.0.1:{upstream.port}"
    key = (("server", server),)
    assert metrics["dnsmasq_upstream_queries_total", key] == int(queries) == 10
    assert metrics["dnsmasq_upstream_failures_total", key] == int(failed) == 0


def test_a_known_number_of_queries_is_seen(dnsmasq):
    with watch(dnsmasq) as sidecar:
        readings(sidecar)
        before = sidecar.status()["dnsmasq"]
        for i in range(40):
            dnsmasq.ask(f"k{i % 8}.example")
        until(lambda: sidecar.status()["dnsmasq"]["misses"] == before["misses"] + 8, what="8 misses")
        readings(sidecar, 1)
        after = sidecar.status()["dnsmasq"]
        assert after["misses"] == before["misses"] + 8
        assert after["recentHitRatio"] == pytest.approx(32 / 40, abs=0.001)  # the sidecar's own queries do not count
        assert (after["hits"] - before["hits"] - 32) % OWN == 0


@only_dnsmasq("its hits")
def test_an_idle_dnsmasq_has_no_hit_ratio(upstream):
    """A bug: the nanny's probes counted as hits of clients."""
    world = World()
    try:
        world.write(upstreamNameservers=[f"127.0.0.1:{upstream.port}"])
        world.start()
        url = f"http://127.0.0.1:{world.http}"
        with Sidecar(f"--dnsmasq-port={world.port}", f"--dnsmasq-poll-interval-ms={POLL_MS}", "--outside-name=", f"--nanny-url={url}") as sidecar:
            before = sidecar.status()["dnsmasq"]["hits"]
            probes = world.config()["dnsmasq"]["ownHits"]
            until(lambda: world.config()["dnsmasq"]["ownHits"] >= probes + 8, what="8 probes")
            readings(sidecar)
            after = sidecar.status()["dnsmasq"]
            assert after["hits"] > before and sum(after["recentHits"]) == 0 and after["recentHitRatio"] is None, after
    finally:
        world.stop()


def test_coredns_names_are_dnsmasqs_numbers(dnsmasq):
    with watch(dnsmasq) as sidecar:
        assert "coredns_" not in sidecar.get("/metrics")[1]
    with watch(dnsmasq, "--coredns-metrics") as sidecar:
        readings(sidecar, 1)
        seen = sidecar.metrics()
        assert seen["coredns_cache_hits_total", (("type", "any"),)] == seen["dnsmasq_cache_hits_total", ()] > 0
        assert seen["coredns_cache_misses_total", ()] == seen["dnsmasq_cache_misses_total", ()]


def test_names_that_fit_both_engines_have_the_numbers_of_the_engine_that_runs(dnsmasq):
    with watch(dnsmasq) as sidecar:
        dnsmasq.ask("e.example")
        readings(sidecar)
        seen = sidecar.metrics()
        for number in ("hits", "misses"):
            assert seen[f"dns_cache_{number}_total", ()] == seen[f"dnsmasq_cache_{number}_total", ()] > 0
    engine = {"engine": "unbound", "state": "ready", "cacheHits": 7000, "cacheMisses": 30}
    with NannyPage([], engine=engine) as nanny, Sidecar(f"--dnsmasq-port={free_port()}", f"--nanny-url={nanny.url}", "--kubedns-url=",
                                                        "--outside-name=", "--coredns-metrics", peers=True) as sidecar:  # fmt: skip
        until(lambda: sidecar.value("dns_cache_hits_total") == 7000, what="the nanny's numbers")
        assert sidecar.value("dns_cache_misses_total") == 30 and sidecar.metrics()["coredns_cache_hits_total", (("type", "any"),)] == 7000
        assert sidecar.value("dnsmasq_cache_hits_total") == 0


def test_a_restart_does_not_turn_counters_back(dnsmasq):
    with watch(dnsmasq) as sidecar:
        for i in range(200):
            dnsmasq.ask(f"r{i % 50}.example")
        until(lambda: sidecar.status()["dnsmasq"]["misses"] >= 50)
        last = sidecar.metrics()
        dnsmasq.stop(signal.SIGKILL)
        until(lambda: not sidecar.status()["dnsmasq"]["up"], what="its absence being seen")
        assert "connection refused" in sidecar.status()["dnsmasq"]["error"]
        assert sidecar.value("kubedns_dnsmasq_errors") >= 1
        gone = sidecar.metrics()
        dnsmasq.start()
        for i in range(3):
            dnsmasq.ask(f"after{i}.example")
        until(lambda: sidecar.status()["dnsmasq"]["misses"] == last["kubedns_dnsmasq_misses", ()] + 3, what="3 more misses")
        now = sidecar.metrics()
        for name in COUNTERS:
            for metric in (f"kubedns_dnsmasq_{name}", f"dnsmasq_cache_{name}_total"):
                assert last[metric, ()] <= gone[metric, ()] <= now[metric, ()]
        for key, value in last.items():
            if key[0].startswith("dnsmasq_upstream"):
                assert now[key] >= value
        assert now["dnsmasq_restarts_total", ()] == 1


def test_a_sighup_is_a_flush_and_no_restart(dnsmasq):
    with watch(dnsmasq) as sidecar:
        for i in range(20):
            dnsmasq.ask(f"f{i}.example")
        until(lambda: sidecar.status()["dnsmasq"]["insertions"] >= 20)
        before = sidecar.status()["dnsmasq"]
        dnsmasq.process.send_signal(signal.SIGHUP)
        until(lambda: sidecar.status()["dnsmasq"]["flushes"] == 1, what="the flush")
        after = sidecar.status()["dnsmasq"]
        assert after["insertions"] >= before["insertions"] and after["restarts"] == 0


def test_a_dnsmasq_that_hangs_is_a_timeout_and_disturbs_no_probe(dnsmasq, upstream, tmp_path):
    """While the sidecar waits for dnsmasq, its clock stands still. So a page that waited for dnsmasq would wait for ever."""
    clock = Clock(tmp_path)
    with watch(dnsmasq, f"--probe=fine,{upstream.server},{NAME},1,A", env=clock.env) as sidecar:
        with clock.running(1):
            readings(sidecar, 1)
            until(lambda: sidecar.get("/healthz") == (200, "ok\n"))
            dnsmasq.process.send_signal(signal.SIGSTOP)
            until(lambda: sidecar.status()["dnsmasq"]["error"].endswith("timeout"))
        for _ in range(8):  # 0.8 s, less than a probe may take
            clock.pass_by(0.1, step_s=0.1)
            assert sidecar.get("/healthz") == (200, "ok\n")
        with clock.running(1):
            asked = sidecar.value("dns_probe_results_total", probe="fine", result="ok")
            until(lambda: sidecar.value("dns_probe_results_total", probe="fine", result="ok") >= asked + 2)
            dnsmasq.process.send_signal(signal.SIGCONT)
            until(lambda: sidecar.status()["dnsmasq"]["up"])


def test_failing_upstreams_are_counted_by_server(upstream):
    with FakeDns(rcode(5)) as bad, Dnsmasq(f"--server=/bad.example/127.0.0.1#{bad.port}", f"--server=127.0.0.1#{upstream.port}") as dnsmasq:
        with watch(dnsmasq) as sidecar:
            readings(sidecar, 1)
            for i in range(25):
                dnsmasq.ask(f"u{i}.bad.example")
            key = {"server": f"127.0.0.1:{bad.port}"}
            until(lambda: sidecar.value("dnsmasq_upstream_queries_total", **key) >= 25)
            shown = {u["server"]: u for u in sidecar.status()["dnsmasq"]["upstreams"]}
            own = {line.split(" ")[0].replace("#", ":"): line.split(" ")[1:] for line in dnsmasq.chaos("servers")}
            for server, (queries, failed) in own.items():
                assert (shown[server]["queries"], shown[server]["failed"]) == (int(queries), int(failed))
            assert shown[f"127.0.0.1:{upstream.port}"]["recentFailed"] == 0


def test_no_upstream_and_no_ident():
    """Without a server, servers.bind is a TXT with one empty string. With --no-ident dnsmasq returns nothing at all."""
    with Dnsmasq() as alone, watch(alone) as sidecar:
        until(lambda: sidecar.status()["dnsmasq"]["up"])
        assert sidecar.status()["dnsmasq"]["upstreams"] == []
    with FakeDns(rcode(4)) as mute, Sidecar(f"--dnsmasq-port={mute.port}", "--dnsmasq-poll-interval-ms=100") as sidecar:
        until(lambda: sidecar.status()["dnsmasq"]["error"] == "hits.bind.: NOTIMP")
        until(lambda: sidecar.value("kubedns_dnsmasq_errors") >= 3)


def test_300_upstreams_come_over_tcp_and_are_bounded():
    servers = [f"--server=/d{i}.example/10.0.{i // 250}.{i % 250 + 1}#5300" for i in range(300)]
    with Dnsmasq(*servers) as dnsmasq, watch(dnsmasq) as sidecar:
        until(lambda: sidecar.status()["dnsmasq"]["up"])
        assert len(sidecar.status()["dnsmasq"]["upstreams"]) == 64
        dropped = sidecar.value("dnsmasq_upstreams_dropped_total")
        assert dropped >= 236 and dropped % 236 == 0


def test_the_nannys_marker_is_no_upstream(upstream):
    with Dnsmasq(f"--server=127.0.0.1#{upstream.port}", "--server=/generation.nanny.invalid/127.1.2.3#1") as dnsmasq:
        assert len(dnsmasq.chaos("servers")) == 2
        with watch(dnsmasq) as sidecar:
            readings(sidecar, 1)
            assert [u["server"] for u in sidecar.status()["dnsmasq"]["upstreams"]] == [f"127.0.0.1:{upstream.port}"]


def test_after_a_rollback_no_server_is_counted_with_anothers_queries():
    """
    When the list of servers changes, dnsmasq reuses a server's record, with its counts, for the next server at the same position. It also
    adds up the records of one address. Here a failing server is put before a good server and removed again. servers.bind then shows the
    failures of the failing server for the good server.
    """
    good_one, bad = Server(constant("10.9.0.1")), Server(lambda *_: 2)
    world = World()

    def use(*servers):
        world.write(upstreamNameservers=[str(server) for server in servers])
        world.wait_config(lambda c: c["confirmed"] and c["upstreams"]["servers"] == [str(server) for server in servers])

    def ask(count, prefix):
        for i in range(count):
            world.ask(f"{prefix}{i}.example.org")

    try:
        world.write(upstreamNameservers=[str(good_one)])
        world.start()
        with Sidecar(f"--dnsmasq-port={world.port}", "--dnsmasq-poll-interval-ms=100") as sidecar:
            def shown(server):
                found = [u for u in sidecar.status()["dnsmasq"]["upstreams"] if u["server"] == str(server)]
                return found[0] if found else {}
            readings(sidecar, 1)
            ask(30, "a")
            until(lambda: shown(good_one).get("recentQueries", 0) >= 30, what="the first server's queries")
            use(bad)
            readings(sidecar, 2)
            ask(40, "b")
            until(lambda: shown(bad).get("recentFailed", 0) >= 30, what="the second server's failures")
            use(bad, good_one)
            readings(sidecar, 2)
            use(good_one)
            readings(sidecar, 2)
            lines = Dnsmasq.chaos(world, "servers")
            inherited = [line for line in lines if line.startswith(str(good_one).replace(":", "#"))]
            assert int(inherited[0].split(" ")[2]) >= 30, lines  # dnsmasq reports failures for the good server
            ask(30, "c")
            until(lambda: shown(good_one).get("recentQueries", 0) >= 30, what="queries after the rollback")
            after = shown(good_one)
            assert (after["failed"], after["recentFailed"]) == (0, 0) and after["queries"] < 40, after
            assert shown(bad) == {}
            assert "fails" not in sidecar.status()["sentence"]
            failures = {key: value for key, value in sidecar.metrics().items() if key[0] == "dnsmasq_upstream_failures_total"}
            assert list(failures.values()) == [0], failures
    finally:
        world.close()
        good_one.close()
        bad.close()


def test_every_path(dnsmasq, upstream):
    with watch(dnsmasq, f"--probe=dnsmasq,127.0.0.1:{dnsmasq.port},{NAME},1,A", f"--probe=up,{upstream.server},{NAME},1,SRV") as sidecar:
        until(lambda: sidecar.health("dnsmasq")[0] == 200 and sidecar.health("up")[0] == 200)
        readings(sidecar, 1)
        status, text = sidecar.get("/status.txt")
        assert status == 200 and text.startswith("DNS is healthy")
        assert sidecar.get("/")[1].startswith("<!DOCTYPE html>")
        assert sidecar.get("/healthz") == (200, "ok\n")
        assert sidecar.get("/page.css")[0] == sidecar.get("/page.js")[0] == sidecar.get("/icon.svg")[0] == 200
        assert sidecar.get("/nothing")[0] == 404
        for path in ("/", f"/ask?name={NAME}"):
            request = urllib.request.Request(sidecar.url(path), headers={"Accept": "text/html,*/*;q=0.8"})
            with urllib.request.urlopen(request, timeout=5) as response:
                policy = response.headers["Content-Security-Policy"].split("; ")
            for rule in ("default-src 'none'", "script-src 'self'", "style-src 'self'", "frame-ancestors 'none'", "require-trusted-types-for 'script'"):
                assert rule in policy
        shown = sidecar.status()
        assert shown["level"] == "well" and shown["findings"] == []
        assert {p["label"] for p in shown["probes"]} == {"dnsmasq", "up"}
        text = sidecar.get("/metrics")[1]
        openmetrics = sidecar.get("/metrics", {"Accept": "application/openmetrics-text; version=1.0.0"})[1]
        assert openmetrics.endswith("# EOF\n") and not text.endswith("# EOF\n")
        for old in ("hits", "misses", "evictions", "insertions", "max_size", "errors"):
            assert f"\nkubedns_dnsmasq_{old} " in text
        for label in ("dnsmasq", "up"):
            bounds = [line.split('le="')[1].split('"')[0] for line in text.splitlines()
                      if line.startswith(f"kubedns_probe_{label}_latency_ms_bucket")]
            assert [float(b) for b in bounds] == [0.25 * 2 ** k for k in range(16)] + [float("inf")]
            assert f"\nkubedns_probe_{label}_errors 0\n" in text


# promtool's style findings about kube-dns's own metric names, which cannot change.
KEPT = {f"kubedns_dnsmasq_{name} counter metrics should have \"_total\" suffix" for name in (*COUNTERS, "errors")} | {
    "kubedns_probe_p_errors counter metrics should have \"_total\" suffix",
    "kubedns_probe_p_latency_ms metric names should not contain abbreviated units"}


def test_promtool_accepts_the_page(dnsmasq):
    with watch(dnsmasq, f"--probe=p,127.0.0.1:{dnsmasq.port},{NAME},1,A") as sidecar:
        readings(sidecar, 1)
        run = subprocess.run(["promtool", "check", "metrics"], input=sidecar.get("/metrics")[1], capture_output=True, text=True, timeout=20)
        # promtool exits with 1 if it cannot parse the page and with 3 for style. Only the names of kube-dns may have findings.
        assert run.returncode in (0, 3)
        assert set((run.stdout + run.stderr).split("\n")) - {""} == KEPT


def test_names_and_paths_can_be_chosen(dnsmasq):
    with watch(dnsmasq, "--prometheus-namespace=dns2", "--prometheus-path=/m/x", "--prometheus_namespace=dns3") as sidecar:
        readings(sidecar, 1)
        status, text = sidecar.get("/m/x")
        assert status == 200 and "\ndns3_dnsmasq_hits " in text and "kubedns_dnsmasq" not in text
        assert sidecar.get("/metrics")[0] == 404
        assert sidecar.status()["metricsPath"] == "/m/x"


def test_sigterm_drains_and_a_second_ends_it(dnsmasq):
    with watch(dnsmasq, "--drain=30s") as sidecar:
        sidecar.process.send_signal(signal.SIGTERM)
        until(lambda: sidecar.status()["draining"])
        assert sidecar.get("/healthz")[0] == 200
        assert sidecar.stop() == 0
    with watch(dnsmasq, "--drain=300ms") as sidecar:
        begun = time.monotonic()
        assert sidecar.stop() == 0
        assert 0.3 <= time.monotonic() - begun < 3


def test_a_port_that_is_taken_is_said():
    with FakeDns(good, tcp=silent) as taken:
        run = subprocess.run([PROGRAM, "--prometheus-addr=127.0.0.1", f"--prometheus-port={taken.port}"],
                             capture_output=True, text=True, timeout=10)
        assert run.returncode == 1 and str(taken.port) in run.stderr


def test_json_is_json_of_the_promised_shape(dnsmasq):
    with watch(dnsmasq, f"--probe=p,127.0.0.1:{free_port()},{NAME},1,A") as sidecar:
        until(lambda: sidecar.probe("p")["state"] == "connection_refused")
        shown = json.loads(sidecar.get("/status.json")[1])
        assert set(shown) == {"level", "sentence", "findings", "moreFindings", "servers", "events", "journalKept", "host", "version", "time", "uptimeSeconds", "draining",
                              "probes", "historyStep", "dnsmasq", "kubedns", "nanny", "surroundings", "podsCommand", "metricsPath", "port", "mayAsk"}
        assert shown["findings"][0]["what"].startswith("Probe p: 127.0.0.1:")
        assert abs(shown["time"] - time.time()) < 5
