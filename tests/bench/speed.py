"""Queries per CPU second of kubedns and its peers, for the same queries on the same CPU. The servers run in rounds, so that a noisy minute
affects all of them.

A server's cost is its CPU time from /proc, user and system separately, divided by the answers that the load generator counted. The server
must be busy, so the load is a flood by `asker`, which is faster than all servers. dnsperf is measured too, because it is the usual tool.
On one CPU, dnsperf is slower than the fastest servers. These then sleep between small batches.
"""

import argparse
import os
import shutil

import pod
import questions
from load import asker, dnsperf, flood
from machine import cpus
from results import DIRECTORY, save, say, summary
from servers import REVERSE, Dnsmasq, Knot, Kubedns, Nsd, Peer, Reflector, print_zones


QUICK = ["--repeats=5", "--kinds=mix,cluster_a,nxdomain", "--dnsperf-kinds=", "--servers=kubedns,knot,reflector", "--no-tcp", "--no-latency", "--no-pod"]


def arguments(argv):
    p = argparse.ArgumentParser(prog="make bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--repeats", type=int, default=7, help="rounds over all servers (%(default)s)")
    p.add_argument("--seconds", type=float, default=0.8, help="duration of one run (%(default)s); short, so that the servers' runs are close together")
    p.add_argument("--kinds", default=",".join(questions.KINDS), help="kinds of queries, separated by commas (%(default)s)")
    p.add_argument("--dnsperf-kinds", default="mix,cluster_a,nxdomain", help="kinds that dnsperf sends over UDP too (%(default)s)")
    p.add_argument("--peer", action="append", default=[], metavar="NAME=COMMAND",
                   help="measure this server too; {port}, {zone}, {objects} and {directory} in COMMAND are replaced")  # fmt: skip
    p.add_argument("--servers", default="kubedns,knot,nsd,dnsmasq,reflector", help="servers, separated by commas (%(default)s)")
    p.add_argument("--zones", help="directory of master files for the other servers; the default is the output of kubedns --print-zone")
    p.add_argument("--services", type=int, default=1000, help="Services in the cluster (%(default)s)")
    p.add_argument("--seed", type=int, default=1, help="seed of the cluster's objects (%(default)s)")
    p.add_argument("--no-tcp", action="store_true", help="do not measure TCP")
    p.add_argument("--no-latency", action="store_true", help="do not measure latencies")
    p.add_argument("--no-pod", action="store_true", help="do not measure the two topologies of the pod")
    p.add_argument("--quick", action="store_true", help=f"the subset that takes two minutes: {' '.join(QUICK)}")
    return p.parse_args([*QUICK, *argv] if "--quick" in argv else argv)


def people_of(a):
    """A cluster with this many Services. Slices and namespaces have the proportions of the large cluster."""
    return questions.population.Population(namespaces=a.services, services=a.services, slices=a.services * 3 // 2, seed=a.seed)


def zones_of(a, source):
    if not a.zones:
        return print_zones(source, os.path.join(DIRECTORY, "zones"))
    return {name.removesuffix(".zone").rstrip(".") + ".": os.path.join(os.path.abspath(a.zones), name) for name in os.listdir(a.zones)}


def make_servers(a, objects):
    source = [f"--objects-dir={objects}"]
    names = a.servers.split(",")
    made = [Kubedns(DIRECTORY, source, *REVERSE)] if "kubedns" in names else []
    zones = zones_of(a, source) if set(names) & {"knot", "nsd", "dnsmasq"} or a.peer else {}
    made += [cls(DIRECTORY, zones) for cls in (Knot, Nsd, Dnsmasq) if cls.name in names]
    made += [Reflector(DIRECTORY)] if "reflector" in names else []
    return made + [Peer(DIRECTORY, *peer.split("=", 1), zones, objects) for peer in a.peer]


def kinds_for(server, kinds):
    return [k for k in kinds if k in getattr(server, "kinds", kinds)]


def measure(server, path, seconds, load=dnsperf, **how):
    """Runs a load generator once. Returns its result with the server's CPU time."""
    before = server.spent()
    got = load(server.port, path, seconds, **how)
    spent = server.spent() - before
    answered = got["answered"]
    if not answered or spent.seconds <= 0:
        raise RuntimeError(f"{server.name}: no query was answered: {got}")
    ns = spent.total_ns / answered
    return {**got, "cpu_s": spent.seconds, "per_cpu_second": 1e9 / ns, "user_ns": ns * spent.user_share,
            "system_ns": ns * (1 - spent.user_share), "busy": spent.seconds / got["seconds"]}  # fmt: skip


def judge_all(servers, people, kinds):
    """Returns {server: {kind: mistakes}}. If a server answers a kind wrongly, the bench does not measure it."""
    wrong = {}
    for server in servers:
        for kind in kinds_for(server, kinds) if server.judged else ():
            mistakes = questions.judge(people, kind, server.port)
            if mistakes:
                wrong.setdefault(server.name, {})[kind] = mistakes
                say(f"{server.name} {kind}: {len(mistakes)} of 200 wrong, for example {mistakes[0]}")
    return wrong


def run_rates(a, servers, files, wrong, proto, load):
    runs = []
    how = {"mode": proto, "clients": 20, "outstanding": 200} if load is dnsperf else {}
    for repeat in range(a.repeats):
        for kind, path in files.items():
            for server in servers:
                if kind not in kinds_for(server, list(files)) or kind in wrong.get(server.name, {}):
                    continue
                if proto == "tcp" and server.name == "reflector":
                    continue
                one = measure(server, path, a.seconds, load, **how)
                runs.append({"server": server.name, "kind": kind, "proto": proto, "load": load.__name__, "repeat": repeat, **one})
                say(f"{load.__name__} {proto} {repeat + 1}/{a.repeats} {kind:13} {server.name:10} {one['per_cpu_second']:9,.0f} a CPU second, "
                    f"user {one['user_ns']:5.0f} ns, system {one['system_ns']:5.0f} ns, busy {one['busy']:.2f}, lost {one['lost']}")  # fmt: skip
    return runs


def latency_rates(servers, runs):
    """
    Returns [(server, rate)]: each server at half of its own maximum rate. Then all servers except --peer servers at half of the maximum
    rate of the slowest of them.
    """
    tops = {s: summary([r["answered"] / r["seconds"] for r in runs if r["server"] == s.name and r["kind"] == "mix" and r["load"] == "flood"]) for s in servers}
    halves = {s: int(top["median"] / 2) for s, top in tops.items() if top}
    chosen = [s for s in halves if not isinstance(s, Peer)]
    least = min((halves[s] for s in chosen), default=0)
    return [*halves.items(), *((s, least) for s in chosen if halves[s] != least)]


def run_latency(a, servers, path, runs):
    out = []
    for server, rate in latency_rates(servers, runs):
        for repeat in range(min(3, a.repeats)):
            got = asker(server.port, path, rate, max(5, a.seconds))
            out.append({"server": server.name, "repeat": repeat, "rate": rate, **got})
            say(f"latency at {rate:,}/s {server.name:10} p50 {got['latency_us']['p50']:.0f} p99 {got['latency_us']['p99']:.0f} "
                f"p99.9 {got['latency_us']['p99.9']:.0f} us, lost {got['lost']}")  # fmt: skip
    return out


class Two(Kubedns):
    name = "kubedns-two"


def run_two_workers(a, objects, path):
    """
    Measures kubedns with one and with two workers. If the load can have separate CPUs, the result is the rate. Otherwise the workers share
    a CPU with the load. The result is then the CPU time of a query, which should not grow with two workers.
    """
    have = cpus()
    enough = len(have) >= 4
    runs = []
    with Kubedns(DIRECTORY, [f"--objects-dir={objects}"], cpu=have[0]) as one:
        with Two(DIRECTORY, [f"--objects-dir={objects}"], cpu=f"{have[0]},{have[1]}", threads=2) as two:
            for repeat in range(a.repeats):
                for workers, server in ((1, one), (2, two)):
                    got = measure(server, path, a.seconds, clients=64, outstanding=400, threads=2 if enough else 1,
                                  cpu=f"{have[2]},{have[3]}" if enough else have[1])  # fmt: skip
                    runs.append({"workers": workers, "repeat": repeat, **got})
                    say(f"{workers} workers: {got['answered'] / got['seconds']:,.0f} a second, {got['per_cpu_second']:,.0f} a CPU second")
    return {"own_cpus": enough, "runs": runs}


def main(argv):
    a = arguments(argv)
    shutil.rmtree(os.path.join(DIRECTORY, "objects"), ignore_errors=True)
    people, objects = people_of(a), os.path.join(DIRECTORY, "objects")
    questions.write_objects(people, objects)
    kinds = a.kinds.split(",")
    files = {k: questions.write(people, k, os.path.join(DIRECTORY, f"{k}.questions"), seed=a.seed) for k in kinds}
    servers = make_servers(a, objects)
    try:
        for server in servers:
            server.start()
        wrong = judge_all(servers, people, kinds)
        runs = run_rates(a, servers, files, wrong, "udp", flood)
        runs += run_rates(a, servers, {k: files[k] for k in a.dnsperf_kinds.split(",") if k in files}, wrong, "udp", dnsperf)
        if not a.no_tcp:
            few = {k: files[k] for k in ("mix", "headless_srv") if k in files}
            runs += run_rates(a, servers, few, wrong, "tcp", dnsperf)
        latency = [] if a.no_latency or "mix" not in files else run_latency(a, servers, files["mix"], runs)
    finally:
        for server in servers:
            server.stop()
    workers = run_two_workers(a, objects, files["mix"]) if "mix" in files and "kubedns" in a.servers and not a.quick else None
    described = {s.name: {"version": s.version(), "command": s.line} for s in servers}
    save("speed", {"services": a.services, "seed": a.seed, "servers": described, "wrong": wrong, "runs": runs, "latency": latency,
                   "workers": workers})  # fmt: skip
    if "kubedns" in wrong:
        say("kubedns gave wrong answers")
        return 1
    return 0 if a.no_pod else pod.main([f"--repeats={a.repeats}", f"--seconds={a.seconds}"])
