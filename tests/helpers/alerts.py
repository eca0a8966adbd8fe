"""
Finds the alerts of conf/prometheus/rules.yaml that fire if a pod's state does not change. Reads the pod's real /metrics twice and extends
each series for twenty minutes with the slope between the two readings. Prometheus's own engine (promtool) evaluates the rules over these
series.
"""

import functools
import json
import os
import re
import subprocess
import tempfile
import urllib.request

from sidecar_world import series

RULES = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", "conf", "prometheus", "rules.yaml"))
BETWEEN_S, STEP_S, MINUTES = 6, 30, 20
COUNTER = re.compile(r"(_total|_count|_sum|_bucket)$")
WALL = re.compile(r"_timestamp_seconds$|^process_start_time_seconds$")


@functools.cache
def _words():
    """The words of the rules, and so all metrics that they read."""
    with open(RULES, encoding="utf-8") as rules:
        return set(re.findall(r"\w+", rules.read()))


def _scrape(port, timeout_s):
    """Returns the series of one program that the rules read. If the program does not answer, there are no series."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=timeout_s) as page:
            return {(name, labels): value for (name, labels), value in series(page.read().decode()).items() if name in _words()}
    except OSError:
        return {}


def _values(name, before, after):
    """A series in promtool's notation: the first value and the growth per step."""
    slope = max(after - before, 0) / BETWEEN_S * STEP_S
    if WALL.search(name):
        # promtool's clock starts at 0, but in these metrics the time 0 means "never".
        return f"{1 if after else 0}+{STEP_S if slope else 0}x{MINUTES * 60 // STEP_S}"
    return f"{after:.9g}+{slope if COUNTER.search(name) else 0:.9g}x{MINUTES * 60 // STEP_S}"


def _input(ports, clock, timeout_s):
    first = {container: _scrape(port, timeout_s) for container, port in ports.items()}
    clock.pass_by(BETWEEN_S, 0.1)
    found = []
    for container, port in ports.items():
        before, after = first[container], _scrape(port, timeout_s)
        target = {"job": "kube-dns", "namespace": "kube-system", "pod": "a", "container": container}
        found.append(("up", target, f"{int(bool(after))}x{MINUTES * 60 // STEP_S}"))
        for (name, labels), value in after.items():
            if value == value and abs(value) < 1e18:
                found.append((name, {**dict(labels), **target}, _values(name, before.get((name, labels), value), value)))
    return [{"series": name + "{" + ",".join(f'{k}="{v}"' for k, v in labels.items()) + "}", "values": values} for name, labels, values in found]


def firing(ports, clock, timeout_s=1):
    """
    Returns {alert: the minute in which it first fires}. `ports` has the HTTP port of each container, and `clock` is their clock. A program
    that does not answer a scrape within `timeout_s` seconds of real time counts as away. promtool evaluates once a minute.
    """
    begins = f'min by (alertname) (min_over_time(timestamp(ALERTS{{alertstate="firing"}})[{MINUTES}m:1m]))'
    tests = [{"expr": begins, "eval_time": f"{MINUTES}m", "exp_samples": []}]
    with tempfile.TemporaryDirectory(prefix="alerts-") as directory:
        path = os.path.join(directory, "test.yaml")
        with open(path, "w", encoding="utf-8") as out:
            json.dump({"rule_files": [RULES], "evaluation_interval": "1m", "tests": [{
                "interval": f"{STEP_S}s", "input_series": _input(ports, clock, timeout_s), "promql_expr_test": tests}]}, out)  # fmt: skip
        done = subprocess.run(["promtool", "test", "rules", path], capture_output=True, text=True, timeout=120, check=False,
                              env={**os.environ, "GOGC": "off"})  # a third of the CPU time
    said = done.stdout + done.stderr
    assert done.returncode == 0 or "got:" in said, said
    return {alert: int(float(at)) // 60 for alert, at in re.findall(r'\{alertname="(\w+)"\} ([0-9.E+]+)', said)}
