"""Load generators on fixed CPUs: dnsperf, and asker.c for latencies and floods. Each run returns a dictionary with the results and the command."""

import json
import os
import re
import shlex
import subprocess
import tempfile

import machine

BUILD = os.path.abspath(os.environ.get("BUILD", "build"))
ASKER = os.path.join(BUILD, "tests", "bench", "asker")


def run(command, timeout):
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{shlex.join(command)}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def run_counting(pid, command, timeout):
    """
    Returns the command's output, and the cache misses of process `count` while the command ran. The cache misses are None if there is no
    process or the machine cannot count them.
    """
    if pid is None:
        return run(command, timeout), None
    with tempfile.NamedTemporaryFile("r") as counts:
        text = run(["perf", "stat", "-x", ",", "-o", counts.name, "-e", "cache-misses", "-p", str(pid), "--", *command], timeout)
        found = re.search(r"^(\d+),", counts.read(), re.M)
    return text, int(found.group(1)) if found else None


def dnsperf(port, path, seconds, clients=20, outstanding=200, mode="udp", rate=None, threads=1, cpu=None, count=None):
    """
    Sends as many queries as the server answers, or `rate` a second. Returns dnsperf's queries, answered, lost, seconds, rcodes and
    latency. If `count` is a process, the result also has the cache_misses of this process.
    """
    cpu = machine.cpus()[1] if cpu is None else cpu
    command = [*machine.pinned(cpu), "dnsperf", "-s", "127.0.0.1", "-p", str(port), "-d", path, "-l", str(seconds), "-c", str(clients),
               "-T", str(threads), "-q", str(outstanding), "-m", mode, "-t", "2"]  # fmt: skip
    if rate:
        command += ["-Q", str(int(rate))]
    text, misses = run_counting(count, command, seconds + 60)

    def number(label, kind=int):
        found = re.search(rf"{label}:\s+([\d.]+)", text)
        return kind(found.group(1)) if found else None

    rcodes = {k: int(v) for k, v in re.findall(r"([A-Z]+) (\d+) \([\d.]+%\)", text)}
    return {"sent": number("Queries sent"), "answered": number("Queries completed"), "lost": number("Queries lost"),
            "seconds": number("Run time \\(s\\)", float), "rcodes": rcodes,
            "cache_misses": misses, "latency_avg_us": (number("Average Latency \\(s\\)", float) or 0) * 1e6, "command": shlex.join(command)}  # fmt: skip


def flood(port, path, seconds, clients=20, outstanding=200, cpu=None, count=None):
    """
    Sends as many queries as the server answers, with a client that never waits. Returns sent, answered, lost, seconds, rcodes, and
    cache_misses as in dnsperf().
    """
    cpu = machine.cpus()[1] if cpu is None else cpu
    command = [*machine.pinned(cpu), ASKER, "flood", str(port), path, str(seconds), str(clients), str(outstanding)]
    text, misses = run_counting(count, command, seconds + 60)
    return {**json.loads(text), "cache_misses": misses, "command": shlex.join(command)}


def asker_command(port, path, rate, seconds, sockets=20, cpu=None, realtime=False):
    cpu = machine.cpus()[1] if cpu is None else cpu
    return [*machine.pinned(cpu, realtime), ASKER, "load", str(port), path, str(rate), str(seconds), str(sockets)]


def asker(port, path, rate, seconds, sockets=20, cpu=None, realtime=False):
    """Sends queries at a steady rate. Returns sent, answered, lost, rcodes, latency_us {p50, p90, p99, p99.9, p99.99, max}."""
    command = asker_command(port, path, rate, seconds, sockets, cpu, realtime)
    return {**json.loads(run(command, seconds + 30)), "command": shlex.join(command)}
