"""Prometheus rules and the dashboard. A real Prometheus evaluates them with the metrics of the running pod."""

import json
import re
import subprocess
import time
import urllib.parse
import urllib.request

import pytest
import yaml

from cluster import DNS_IP, ROOT, http_get, query

from run import run
from waiting import free_port, wait_for

RULES = ROOT / "conf/prometheus/rules.yaml"
DASHBOARD = ROOT / "conf/grafana/kube-dns.json"
FOREIGN = {"kube_pod_container_resource_limits"}  # from kube-state-metrics
METRIC = r"\b[a-z][a-z0-9]*(?:[_:][a-z0-9_:]+)+\b"
# Metrics of a feature that is off here, of unbound, and of a failure are only in the manuals. A test compares these with the programs.
MANUALS = [ROOT / page for page in ("kubedns/kubedns.8", "nanny/nanny.8", "sidecar/sidecar.8")] + sorted((ROOT / "kubedns/man").glob("*.7"))
PORTS = {"kubedns": 10055, "dnsmasq": 10056, "sidecar": 10054}


def alerts():
    return [r for g in yaml.safe_load(RULES.read_text())["groups"] for r in g["rules"] if "alert" in r]


def expressions():
    rules = [(r.get("alert") or r["record"], r["expr"]) for g in yaml.safe_load(RULES.read_text())["groups"] for r in g["rules"]]
    panels = [(p["title"], t["expr"]) for p in json.loads(DASHBOARD.read_text())["panels"] for t in p.get("targets", [])]
    return rules + panels


def test_rules_are_well_formed_and_do_what_they_say():
    print(run("promtool", "check", "rules", RULES))
    print(run("promtool", "test", "rules", ROOT / "tests/prometheus/rules_test.yaml"))


def test_scrape_configuration_is_well_formed(tmp_path):
    """Checks everything except Kubernetes discovery, because Debian builds Prometheus without it."""
    config = yaml.safe_load((ROOT / "conf/prometheus/scrape.yaml").read_text())
    (job,) = config["scrape_configs"]
    assert job.pop("kubernetes_sd_configs") == [{"role": "pod", "namespaces": {"names": ["kube-system"]}}]
    job["static_configs"] = [{"targets": ["127.0.0.1:1"]}]
    (tmp_path / "c.yaml").write_text(yaml.safe_dump(config))
    print(run("promtool", "check", "config", tmp_path / "c.yaml"))


def test_each_alert_says_what_to_do_and_has_been_seen_firing():
    tested = (ROOT / "tests/prometheus/rules_test.yaml").read_text()
    for alert in alerts():
        assert {"summary", "description", "action"} <= set(alert["annotations"]), alert["alert"]
        assert f'alertname="{alert["alert"]}"' in tested, alert["alert"]


def test_dashboard_is_as_grafana_wants_it():
    d = json.loads(DASHBOARD.read_text())
    assert d["uid"] == "kube-dns-suite"
    assert [v["name"] for v in d["templating"]["list"]] == ["datasource", "cluster", "job", "pod"]
    assert len([p for p in d["panels"] if p["type"] == "row"]) == 5
    ids = [p["id"] for p in d["panels"]]
    assert len(ids) == len(set(ids))
    for p in d["panels"]:
        assert p["gridPos"]["x"] + p["gridPos"]["w"] <= 24
        if p["type"] != "row":
            assert p["targets"] and p["datasource"]["uid"] == "${datasource}", p["title"]
            assert all(t["expr"].count("{") == t["expr"].count('cluster=~"$cluster",job="$job",pod=~"$pod"') for t in p["targets"]), p["title"]
    cells = [(x, y) for p in d["panels"] for g in [p["gridPos"]] for x in range(g["x"], g["x"] + g["w"]) for y in range(g["y"], g["y"] + g["h"])]
    assert len(cells) == len(set(cells)), "panels overlap"


@pytest.fixture(scope="module")
def pod(suite, glibc, musl):
    """A pod in which every counter has a value."""
    stub = suite.upstream("stub-for-metrics", "--host-record=x.metrics.test,192.0.2.110")
    pod = suite.ensure(data={"stubDomains": json.dumps({"metrics.test": [stub]})})[0]
    for client in (glibc, musl):
        for name in ("kubernetes.default", "www.example.com", "x.metrics.test", "nothing"):
            suite.lookup(client, name)
    query(pod.address, "kubernetes.default.svc.cluster.local.", tcp=True)
    query(pod.address, "kubernetes.default.svc.cluster.local.", tcp=True, port=10053)
    yield pod
    suite.remove_upstream("stub-for-metrics")


@pytest.fixture(scope="module")
def prometheus(suite, pod, glibc, tmp_path_factory):
    """Debian's Prometheus with our rules. It scrapes the pod once a second."""
    directory = tmp_path_factory.mktemp("prometheus")
    targets = [{"targets": [f"{pod.address}:{port}"],
                "labels": {"namespace": "kube-system", "pod": pod.name, "container": name}} for name, port in PORTS.items()]
    (directory / "prometheus.yml").write_text(yaml.safe_dump({
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"}, "rule_files": [str(RULES)],
        "scrape_configs": [{"job_name": "kube-dns", "static_configs": targets}]}))
    port = free_port()
    process = subprocess.Popen(
        ["prometheus", f"--config.file={directory}/prometheus.yml", f"--storage.tsdb.path={directory}/data",
         f"--web.listen-address=127.0.0.1:{port}", "--log.level=warn"],
        stdout=subprocess.DEVNULL, stderr=open(directory / "log", "w"))
    asker = suite.asker(glibc, "ask-ports", DNS_IP, 20, "kubernetes.default.svc.cluster.local=10.96.0.1", "www.example.com=192.0.2.80",
                        "gone.clients.svc.cluster.local=none")

    def ask(expr):
        url = f"http://127.0.0.1:{port}/api/v1/query?" + urllib.parse.urlencode({"query": expr})
        try:
            with urllib.request.urlopen(url, timeout=5) as reply:
                return json.load(reply)["data"]["result"]
        except urllib.error.HTTPError as e:
            if e.code == 503:  # still starting
                return None
            raise AssertionError(f"{expr}: {e.read().decode()}") from None
        except OSError:
            return None
    try:
        wait_for(lambda: len([r for r in ask("up") or [] if r["value"][1] == "1"]) == 3, 30, "three targets up")
        wait_for(lambda: ask("rate(kubedns_dns_requests_total[10s])"), 20, "rates")
        time.sleep(6)  # the sidecar reads dnsmasq's counters every 5 s, and a rate needs two values
        yield ask
    finally:
        asker.stop()
        process.terminate()
        process.wait(20)


def substituted(expr, pod):
    for name, value in (("$__rate_interval", "1m"), ("$__range", "5m"), ("$cluster", ".*"), ("$job", "kube-dns"), ("$pod", pod.name)):
        expr = expr.replace(name, value)
    return expr


def test_every_metric_that_is_named_exists(suite, pod):
    """If no program exports a metric, a rule or panel with this metric never shows anything."""
    exposed = set()
    for port in PORTS.values():
        for line in http_get(pod.address, port, "/metrics")[1].splitlines():
            if line and not line.startswith("#"):
                exposed.add(re.match(r"[a-zA-Z_:][a-zA-Z0-9_:]*", line)[0])
    described = {name for page in MANUALS for name in re.findall(METRIC, page.read_text())}
    recorded = {r["record"] for g in yaml.safe_load(RULES.read_text())["groups"] for r in g["rules"] if "record" in r}
    missing = {}
    for where, expr in expressions():
        bare = re.sub(r'"[^"]*"', "", re.sub(r"\{[^}]*\}|\[[^]]*\]|(by|on|without|ignoring|group_left) *\([^)]*\)", " ", expr))
        for name in re.findall(METRIC, bare):
            if name not in exposed | described | recorded | FOREIGN and name not in FUNCTIONS:
                missing.setdefault(name, []).append(where)
    assert not missing, missing


FUNCTIONS = {"histogram_quantile", "clamp_min", "group_left", "max_over_time", "min_over_time", "last_over_time", "label_values", "label_replace"}


def test_every_dashboard_query_returns_data(prometheus, pod):
    empty = []
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        for t in panel.get("targets", []):
            result = prometheus(substituted(t["expr"], pod))
            if not result:
                empty.append((panel["title"], t["expr"]))
    assert not empty, "\n".join(f"{title}: {expr}" for title, expr in empty)


def test_recording_rules_return_data_and_no_alert_fires(prometheus, pod):
    for g in yaml.safe_load(RULES.read_text())["groups"]:
        for r in g["rules"]:
            if "record" in r:
                assert wait_for(lambda r=r: prometheus(r["record"]), 10, r["record"])
    assert prometheus('ALERTS{alertstate="firing"}') == []


@pytest.mark.parametrize("container", PORTS)
def test_promtool_accepts_what_each_container_exposes(suite, pod, container):
    text = http_get(pod.address, PORTS[container], "/metrics")[1]
    p = subprocess.run(["promtool", "check", "metrics"], input=text, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    # The metric names from kube-dns stay. The linter may complain about the names (exit 3), but it must be able to read all metrics.
    assert p.returncode in (0, 3), p.stdout
    kept = re.compile(r"^(skydns_|kubedns_dnsmasq_|kubedns_probe_|coredns_)")
    ours = [line for line in p.stdout.splitlines() if line and not kept.match(line)]
    assert not ours, ours


def test_status_page_in_the_pod(suite, pod, report, tmp_path):
    """A program in the pod's network requests the page, as with a port-forward, and a browser draws it."""
    page = wait_for(lambda: pod.in_network("curl", "-sf", "http://127.0.0.1:10054/", check=False), 5, "status page")
    status = json.loads(pod.in_network("curl", "-sf", "http://127.0.0.1:10054/status.json"))
    assert status and "<html" in page.lower()
    shot = ROOT / "build/status-page.png"
    shot.parent.mkdir(exist_ok=True)
    shot.unlink(missing_ok=True)
    pod.in_network("chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={tmp_path}",
                   "--window-size=1280,1600", "--virtual-time-budget=3000", f"--screenshot={shot}", "http://127.0.0.1:10054/", timeout=120)
    report("status page in the pod", "drawn by a browser", f"{shot.stat().st_size // 1000} kB PNG")
    assert shot.stat().st_size > 10_000
