"""The pod's two topologies, classic (dnsmasq in front of kubedns) and front (kubedns in front of dnsmasq), compared with dnsmasq alone. All
run on one CPU. The CPU time includes all processes of a topology. The runs alternate, so that a noisy minute affects all of them, and a
ratio compares runs of the same round.

The load is a flood by `asker`, which keeps every topology busy. With dnsperf, the front topology sleeps up to half of the time, and falling
asleep costs as much as a query. The reflector answers external names, as the cheapest possible upstream server. If dnsmasq, kubedns and the
load can each have a CPU, the rate of external names is also measured that way. Otherwise it is computed from the cost of a query in each
program.
"""

import argparse
import json
import os
import random
import shutil
import string
import time

import dns.message
import dns.query

import questions
from load import asker, flood
from machine import cpus
from results import DIRECTORY, save, say, summary
from servers import Forwarder, Kubedns, Reflector

TTL = 30
KINDS = ("mix", "cluster_a", "nxdomain")


def arguments(argv):
    p = argparse.ArgumentParser(prog="bench.py pod", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--repeats", type=int, default=3, help="rounds over all topologies (%(default)s)")
    p.add_argument("--seconds", type=float, default=2, help="duration of one run (%(default)s)")
    p.add_argument("--services", type=int, default=1000, help="Services in the cluster (%(default)s)")
    p.add_argument("--changes", type=int, default=3, help="changes of a Service's address (%(default)s); each takes up to 30 s, until both topologies show it")
    p.add_argument("--no-latency", action="store_true", help="do not measure latencies")
    return p.parse_args(argv)


class FrontKubedns(Kubedns):
    name = "kubedns-front"


class Topology:
    """Some servers. Each server starts before the servers that forward to it. Clients query the last server."""

    def __init__(self, name, *servers):
        self.name, self.servers = name, servers

    @property
    def port(self):
        return self.servers[-1].port

    def spent(self):
        return [s.spent() for s in self.servers]


def write_outside(path, count=500, seed=1):
    """Writes queries for external names whose lengths differ as in real names. Names of a single length would be cheaper to forward."""
    rng = random.Random(seed)
    tails = ("com", "io", "example.com", "internal.example.org", "storage.eu-west-1.cloud.example.net")
    with open(path, "w", encoding="ascii") as f:
        for n in range(count):
            label = "".join(rng.choices(string.ascii_lowercase, k=rng.randint(2, 16)))
            f.write(f"{label}{n}.{rng.choice(tails)}. A\n")
    return path


def measure(topology, kind, path, seconds, repeat, **how):
    """Measures one run: the rate, and the CPU time per query of each server in the topology."""
    before = topology.spent()
    got = flood(topology.port, path, seconds, **how)
    spent = [after - b for after, b in zip(topology.spent(), before)]
    answered = got["answered"]
    if not answered or any(k != "NOERROR" for k in got["rcodes"]) and kind == "outside":
        raise RuntimeError(f"{topology.name} {kind}: {got}")
    total = sum(s.total_ns for s in spent)
    say(f"{repeat + 1} {topology.name:8} {kind:10} {answered / total * 1e9:9,.0f} a CPU second, {answered / got['seconds']:9,.0f} a second, "
        f"busy {total / 1e9 / got['seconds']:.2f}, lost {got['lost']}")  # fmt: skip
    return {"topology": topology.name, "kind": kind, "repeat": repeat, **got, "rate": answered / got["seconds"], "per_cpu_second": answered / total * 1e9,
            "user_ns": sum(s.total_ns * s.user_share for s in spent) / answered, "system_ns": sum(s.total_ns * (1 - s.user_share) for s in spent) / answered,
            "each_ns": {s.name: c.total_ns / answered for s, c in zip(topology.servers, spent)}}  # fmt: skip


def rates(a, topologies, files):
    """Measures all topologies in rounds. The first run of each topology does not count, because it fills dnsmasq's cache."""
    plan = [(t, k) for k in files for t in topologies if k == "outside" or t.name != "dnsmasq"]
    for t, kind in plan:
        flood(t.port, files[kind], 0.3)
    return [measure(t, kind, files[kind], a.seconds, repeat) for repeat in range(a.repeats) for t, kind in plan]


def latencies(a, topologies, files, runs):
    """Measures the latencies at half of the maximum rate of each topology."""
    out = []
    for kind in ("mix", "outside"):
        for t in topologies:
            top = summary([r["rate"] for r in runs if (r["topology"], r["kind"]) == (t.name, kind)])
            for repeat in range(a.repeats if top else 0):
                got = asker(t.port, files[kind], max(500, int(top["median"] / 2)), max(3, a.seconds))
                out.append({"topology": t.name, "kind": kind, "repeat": repeat, "rate": int(top["median"] / 2), **got})
                say(f"{t.name:8} {kind:10} p99 {got['latency_us']['p99']:.0f} us at {out[-1]['rate']:,} a second, lost {got['lost']}")
    return out


def address_of(port, name):
    reply = dns.query.udp(dns.message.make_query(name, "A"), "127.0.0.1", port=port, timeout=2)
    return {str(rr) for rrset in reply.answer for rr in rrset}


def change(objects, topologies, number):
    """Returns the seconds until a client that has queried a Service before gets the Service's new address."""
    name, path = f"moved-{number}.default.svc.cluster.local.", os.path.join(objects, f"moved-{number}.json")

    def put(ip):
        metadata = {"name": f"moved-{number}", "namespace": "default"}
        with open(path + ".new", "w", encoding="utf-8") as f:
            json.dump({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"clusterIP": ip}}, f)
        os.rename(path + ".new", path)

    put("10.200.0.1")
    for t in topologies:
        until = time.monotonic() + 10
        while address_of(t.port, name) != {"10.200.0.1"}:
            if time.monotonic() > until:
                raise RuntimeError(f"{t.name}: the new Service does not appear")
            time.sleep(0.02)
    begun, seen = time.monotonic(), {}
    put("10.200.0.2")
    while len(seen) < len(topologies) and time.monotonic() < begun + TTL + 10:
        for t in topologies:
            if t.name not in seen and address_of(t.port, name) == {"10.200.0.2"}:
                seen[t.name] = time.monotonic() - begun
        time.sleep(0.002)
    say(f"time until a changed address is visible: {', '.join(f'{k} {v:.3f} s' for k, v in seen.items())}")
    return seen


def turns(runs, kind, what):
    """Calls `what` for each repeat with {topology: run} of this kind. Returns the summary of the results."""
    by = {}
    for r in runs:
        if r["kind"] == kind:
            by.setdefault(r["repeat"], {})[r["topology"]] = r
    return summary([what(t) for t in by.values()])


def taken(turn):
    """
    dnsmasq's rate in the front topology, divided by its rate alone. In the front topology each program has its own core, and the slower
    program determines the rate.
    """
    return 1e9 / turn["dnsmasq"]["per_cpu_second"] / max(turn["front"]["each_ns"].values())


def text(s, digits=2):
    return f"{s['median']:.{digits}f} times [{s['min']:.{digits}f} to {s['max']:.{digits}f}] of {s['repeats']}"


def goals(runs, seen, own):
    out = []
    ratio, cached, missing = (turns(runs, k, lambda t: t["front"]["per_cpu_second"] / t["classic"]["per_cpu_second"]) for k in KINDS)
    out.append({"what": "front: at least 2.5 times as many queries for cluster names per CPU second as classic", "holds": ratio["median"] >= 2.5,
                "figures": f"mix {text(ratio)}; names in dnsmasq's cache {text(cached)}; NXDOMAIN {text(missing)}"})  # fmt: skip
    cost = turns(runs, "outside", lambda t: t["dnsmasq"]["per_cpu_second"] / t["front"]["per_cpu_second"])
    out.append({"what": "front: external names cost at most 1.8 times the CPU of dnsmasq alone", "holds": cost["median"] <= 1.8, "figures": text(cost)})
    rate = turns(own, "outside", lambda t: t["front"]["rate"] / t["dnsmasq"]["rate"]) if own else turns(runs, "outside", taken)
    how = "measured" if own else "estimated from the CPU time of dnsmasq and kubedns, because there are too few CPUs to measure it"
    out.append({"what": "front: external names reach at least 0.8 times the rate of dnsmasq alone, each program on its own core", "holds": rate["median"] >= 0.8,
                "figures": f"{text(rate)}, {how}"})  # fmt: skip
    ages = {name: summary([s.get(name, TTL + 10) for s in seen]) for name in ("front", "classic")}
    out.append({"what": "front: clients see a changed Service within 1 s", "holds": ages["front"]["max"] <= 1,
                "figures": "; ".join(f"{k} after {v['median']:.3f} s [{v['min']:.3f} to {v['max']:.3f}] of {v['repeats']}" for k, v in ages.items())})  # fmt: skip
    return out


def own_cores(a, upstream, source, path):
    """Measures dnsmasq on one CPU, first alone and then in the front topology with kubedns on a second CPU. The load has a third CPU."""
    have, runs = cpus(), []
    if len(have) < 3:
        return runs
    with Forwarder(DIRECTORY, "dnsmasq-own", upstream.port, cpu=have[0]) as cache, \
            FrontKubedns(DIRECTORY, source, f"--resolver=127.0.0.1:{cache.port}", cpu=have[1]) as front:  # fmt: skip
        for repeat in range(a.repeats):
            for t in (Topology("dnsmasq", cache), Topology("front", cache, front)):
                runs.append(measure(t, "outside", path, a.seconds, repeat, cpu=have[2]))
    return runs


def main(argv):
    a = arguments(argv)
    objects = os.path.join(DIRECTORY, "pod-objects")
    shutil.rmtree(objects, ignore_errors=True)
    people = questions.population.Population(namespaces=a.services, services=a.services, slices=a.services * 3 // 2)
    questions.write_objects(people, objects)
    files = {k: questions.write(people, k, os.path.join(DIRECTORY, f"pod-{k}.questions")) for k in KINDS}
    files["outside"] = write_outside(os.path.join(DIRECTORY, "pod-outside.questions"))
    source = [f"--objects-dir={objects}"]
    with Reflector(DIRECTORY) as upstream, Kubedns(DIRECTORY, source) as behind:
        with Forwarder(DIRECTORY, "dnsmasq-classic", upstream.port, {"cluster.local": behind.port, "in-addr.arpa": behind.port}) as classic, \
                Forwarder(DIRECTORY, "dnsmasq-front", upstream.port) as cache, \
                Forwarder(DIRECTORY, "dnsmasq-alone", upstream.port) as alone, \
                FrontKubedns(DIRECTORY, source, f"--resolver=127.0.0.1:{cache.port}") as front:  # fmt: skip
            topologies = [Topology("classic", behind, classic), Topology("front", cache, front), Topology("dnsmasq", alone)]
            wrong = {k: mistakes for k in KINDS if (mistakes := questions.judge(people, k, front.port))}
            runs = rates(a, topologies, files)
            latency = [] if a.no_latency else latencies(a, topologies, files, runs)
            seen = [change(objects, topologies[:2], n) for n in range(a.changes)]
            described = {s.name: {"version": s.version(), "command": s.line} for s in (behind, classic, cache, alone, front, upstream)}
        own = own_cores(a, upstream, source, files["outside"])
    reached = goals(runs, seen, own)
    for goal in reached:
        say(f"{goal['what']}: {'holds' if goal['holds'] else 'missed'} ({goal['figures']})")
    save("pod", {"runs": runs, "own_cores": own, "latency": latency, "seen_s": seen, "servers": described, "wrong": wrong, "goals": reached})
    for kind, mistakes in wrong.items():
        say(f"front {kind}: {len(mistakes)} of 200 wrong, for example {mistakes[0]}")
    return 1 if wrong else 0
