"""
The pod's two topologies: classic (dnsmasq before kubedns) and front (kubedns before dnsmasq), all on one CPU, beside dnsmasq alone. CPU is
that of all processes of a topology. Names that are no Service's are answered by the reflector, as the upstream that costs least.
"""

import argparse
import json
import os
import shutil
import time

import dns.message
import dns.query

import questions
from load import asker, dnsperf
from results import DIRECTORY, save, say, summary
from servers import Forwarder, Kubedns, Reflector

TTL = 30


def arguments(argv):
    p = argparse.ArgumentParser(prog="bench.py pod", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--repeats", type=int, default=3)
    p.add_argument("--seconds", type=float, default=2)
    p.add_argument("--services", type=int, default=1000)
    return p.parse_args(argv)


class Topology:
    """Servers started from behind to front; asked is the last."""

    def __init__(self, name, *servers):
        self.name, self.servers = name, servers

    @property
    def port(self):
        return self.servers[-1].port

    def total_ns(self):
        return sum(s.spent().total_ns for s in self.servers)


def measure(topology, path, a, lines):
    runs = []
    for _ in range(a.repeats):
        before = topology.total_ns()
        got = dnsperf(topology.port, path, a.seconds)
        runs.append({"rate": got["answered"] / got["seconds"], "per_cpu_second": got["answered"] / (topology.total_ns() - before) * 1e9,
                     "lost": got["lost"], "rcodes": got["rcodes"]})  # fmt: skip
    latency = asker(topology.port, path, max(500, int(summary([r["rate"] for r in runs])["median"] / 4)), 5)
    say(f"{topology.name:8} {lines:10} {summary([r['per_cpu_second'] for r in runs])['median']:9,.0f} a CPU second, p99 "
        f"{latency['latency_us']['p99']:.0f} us, lost {sum(r['lost'] for r in runs)}")  # fmt: skip
    return {"topology": topology.name, "kind": lines, "runs": runs, "rate": summary([r["rate"] for r in runs]),
            "per_cpu_second": summary([r["per_cpu_second"] for r in runs]), "latency_us": latency["latency_us"]}  # fmt: skip


def address_of(port, name):
    reply = dns.query.udp(dns.message.make_query(name, "A"), "127.0.0.1", port=port, timeout=2)
    return {str(rr) for rrset in reply.answer for rr in rrset}


def change(objects, topologies):
    """Seconds until a changed Service's new address is what a client gets that has asked for it before."""
    name, path = "moved.default.svc.cluster.local.", os.path.join(objects, "moved.json")

    def put(ip):
        with open(path + ".new", "w", encoding="utf-8") as f:
            json.dump({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "moved", "namespace": "default"}, "spec": {"clusterIP": ip}}, f)
        os.rename(path + ".new", path)

    put("10.200.0.1")
    for t in topologies:
        until = time.monotonic() + 10
        while address_of(t.port, name) != {"10.200.0.1"}:
            if time.monotonic() > until:
                raise RuntimeError(f"{t.name}: the new Service does not appear")
            time.sleep(0.02)
    put("10.200.0.2")
    begun, seen = time.monotonic(), {}
    while len(seen) < len(topologies) and time.monotonic() < begun + TTL + 10:
        for t in topologies:
            if t.name not in seen and address_of(t.port, name) == {"10.200.0.2"}:
                seen[t.name] = time.monotonic() - begun
        time.sleep(0.005)
    say(f"a changed address is seen after {', '.join(f'{k} {v:.3f} s' for k, v in seen.items())}")
    return seen


def goals(rows, seen):
    def per_cpu(topology, kind):
        return next(r["per_cpu_second"]["median"] for r in rows if r["topology"] == topology and r["kind"] == kind)

    out = []
    ratio, cached = (per_cpu("front", k) / per_cpu("classic", k) for k in ("mix", "cluster_a"))
    out.append({"what": "front: cluster names at least 2.5 times classic's queries per CPU second", "holds": ratio >= 2.5,
                "figures": f"{ratio:.2f} times with the mix; {cached:.2f} times where all that is asked is in dnsmasq's cache"})  # fmt: skip
    cost = per_cpu("dnsmasq", "outside") / per_cpu("front", "outside")
    out.append({"what": "front: names outside at most 1.8 times the CPU of dnsmasq alone", "holds": cost <= 1.8, "figures": f"{cost:.2f} times"})
    out.append({"what": "front: a changed Service visible at once", "holds": seen.get("front", 99) <= 1,
                "figures": ", ".join(f"{k} after {v:.3f} s" for k, v in seen.items())})  # fmt: skip
    return out


def write_outside(path, count=1000):
    with open(path, "w", encoding="ascii") as f:
        f.writelines(f"host-{n % 500:03d}.example.com. A\n" for n in range(count))
    return path


def main(argv):
    a = arguments(argv)
    objects = os.path.join(DIRECTORY, "pod-objects")
    shutil.rmtree(objects, ignore_errors=True)
    people = questions.population.Population(namespaces=a.services, services=a.services, slices=a.services * 3 // 2)
    questions.write_objects(people, objects)
    files = {k: questions.write(people, k, os.path.join(DIRECTORY, f"pod-{k}.questions")) for k in ("mix", "cluster_a", "nxdomain")}
    files["outside"] = write_outside(os.path.join(DIRECTORY, "pod-outside.questions"))
    source, rows = [f"--objects-dir={objects}"], []

    class FrontKubedns(Kubedns):
        name = "kubedns-front"

    with Reflector(DIRECTORY) as upstream, Kubedns(DIRECTORY, source) as behind:
        with Forwarder(DIRECTORY, "dnsmasq-classic", upstream.port, {"cluster.local": behind.port, "in-addr.arpa": behind.port}) as classic, \
                Forwarder(DIRECTORY, "dnsmasq-front", upstream.port) as cache, \
                Forwarder(DIRECTORY, "dnsmasq-alone", upstream.port) as alone, \
                FrontKubedns(DIRECTORY, source, f"--resolver=127.0.0.1:{cache.port}") as front:  # fmt: skip
            topologies = [Topology("classic", behind, classic), Topology("front", cache, front)]
            for t, kinds in ((topologies[0], files), (topologies[1], files), (Topology("dnsmasq", alone), ("outside",))):
                rows += [measure(t, files[k], a, k) for k in kinds]
            seen = change(objects, topologies)
    save("pod", {"rows": rows, "seen_s": seen, "goals": goals(rows, seen)})
    return 0
