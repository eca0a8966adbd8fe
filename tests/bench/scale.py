"""
The cluster that kubedns is built for: what the first sync, a full relist, a change and a query cost at 10,000 Services and 150,000
endpoints, and how that grows with the size. The API is the stand-in of tests/apiserver, whose objects are as large as real ones.

Event to answer: from the moment at which the stand-in hands an event to the connection until an asker, who asks all the time, has the changed
answer in hand. It follows the changes one by one, so a late one delays the next: the figures err on the slow side.
"""

import argparse
import os
import subprocess
import time

import machine
import questions
from cluster import Cluster, follow_lines
from load import ASKER, asker, dnsperf
from results import DIRECTORY, load, save, say, summary

FULL = 10_000


def arguments(argv):
    p = argparse.ArgumentParser(prog="make bench-scale", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--sizes", default="0.01,0.1,1,4", help="multiples of 10,000 Services (%(default)s); 1 is measured in full")
    p.add_argument("--repeats", type=int, default=3)
    p.add_argument("--rates", default="10,100,1000", help="changes a second")
    p.add_argument("--seconds", type=float, default=20, help="of each rate of changes")
    p.add_argument("--load", type=int, default=5000, help="queries a second while things change")
    p.add_argument("--big-slices", type=int, default=100, help="of the huge headless Service, with 100 endpoints each; 0: keep its last result")
    p.add_argument("--realtime", action="store_true",
                   help="while changes are timed, server, stand-in and asker run before whatever else the machine does (chrt -r): for machines "
                        "that are not idle; needs root")  # fmt: skip
    p.add_argument("--seed", type=int, default=1)
    return p.parse_args(argv)


def people_of(size, seed):
    """The cluster of this many Services: half as many slices more, ten endpoints each, a namespace a Service."""
    return questions.population.Population(namespaces=size, services=size, slices=size * 3 // 2, seed=seed)


def percentiles(values):
    values = sorted(values)

    def at(share):
        return values[min(len(values) - 1, int(share * len(values)))]

    return {"p50": at(0.5), "p90": at(0.9), "p99": at(0.99), "p99.9": at(0.999), "max": values[-1], "count": len(values)}


def changes(c, a, rate, seconds, path, added, seed):
    """Changes at this rate under query load: event to answer, the queries' latency, and the CPU that a change costs."""
    lines = follow_lines(c.people, rate, seconds, seed, added)
    follow = os.path.join(DIRECTORY, "follow")
    with open(follow, "w", encoding="ascii") as f:
        f.writelines(line + "\n" for _, line in lines)
    k = c.kubedns
    watcher = subprocess.Popen([*machine.pinned(machine.cpus()[1], a.realtime), ASKER, "follow", str(k.port), follow], stdout=subprocess.PIPE, text=True)
    begun = time.monotonic()
    before = k.spent()
    c.api.churn(rate, seconds, seed=seed, headless_only=True, wait=False)
    queries = asker(k.port, path, a.load, seconds, realtime=a.realtime)
    try:
        out, _ = watcher.communicate(timeout=30)
    except subprocess.TimeoutExpired:
        watcher.kill()
        out, _ = watcher.communicate()
    spent, wall = (k.spent() - before).seconds, time.monotonic() - begun
    made = c.api.changes()
    seen = [int(line) for line in out.split()]
    took = [(ns - made[n]["written_ns"]) / 1e6 for ns, (n, _) in zip(seen, lines) if ns and made[n]["written_ns"]]
    got = {"rate": rate, "seconds": seconds, "changes": len(made), "followed": len(lines), "seen": len(took), "event_to_answer_ms": percentiles(took),
           "queries": queries, "cpu_s": spent, "wall_s": wall}  # fmt: skip
    e = got["event_to_answer_ms"]
    say(f"{rate} changes a second: event to answer p50 {e['p50']:.2f} p99 {e['p99']:.2f} max {e['max']:.2f} ms, {len(took)} of {len(lines)} seen; "
        f"queries p99 {queries['latency_us']['p99']:.0f} us, lost {queries['lost']}; CPU {spent:.2f} s")  # fmt: skip
    return got


def idle_load(c, a, path, seconds):
    """The same queries without changes: what the changes' CPU is compared with."""
    before = c.kubedns.spent()
    queries = asker(c.kubedns.port, path, a.load, seconds, realtime=a.realtime)
    return {"rate": 0, "seconds": seconds, "queries": queries, "cpu_s": (c.kubedns.spent() - before).seconds}


def query_cost(c, path, repeats):
    runs = []
    for _ in range(repeats):
        before = c.kubedns.spent()
        got = dnsperf(c.kubedns.port, path, 2)
        spent = c.kubedns.spent() - before
        ns = spent.total_ns / got["answered"]
        runs.append({"answered": got["answered"], "user_ns": ns * spent.user_share, "cpu_ns": ns, "lost": got["lost"]})
    return runs


def change_cost(c, rate, seconds, headless_only=True):
    """CPU of one change, nobody asking, and few enough that each comes alone: {cpu_us}."""
    before = c.kubedns.spent()
    c.api.churn(rate, seconds, seed=7, headless_only=headless_only)
    time.sleep(0.3)
    count = len(c.api.changes())
    return {"changes": count, "cpu_us": (c.kubedns.spent() - before).total_ns / count / 1000}


def size(a, factor):
    """One size of the sweep; all of it where factor is 1."""
    full = factor == 1
    people = people_of(int(FULL * factor), a.seed)
    out = {"factor": factor, "services": people.services, "slices": people.slices, "endpoints": people.slices * people.endpoints}
    with Cluster(people) as c:
        out["sync"] = []
        for n in range(a.repeats):
            k, sync = c.start()
            out["sync"].append(sync)
            say(f"sync {n + 1}/{a.repeats}: {sync['cpu_s']:.2f} s of CPU, {sync['wall_s']:.2f} s, RSS {sync['VmRSS'] / 1024:.1f} MiB "
                f"(anonymous {sync['RssAnon'] / 1024:.1f}), {sync['received_bytes'] / 1e6:.1f} MB received")  # fmt: skip
        path = questions.write(people, "mix", os.path.join(DIRECTORY, "scale.questions"), seed=a.seed)
        out["wrong"] = questions.judge(people, "mix", k.port)[:5]
        out["query"] = query_cost(c, path, a.repeats)
        out["relist"] = []
        for n in range(a.repeats):
            relist = c.relist()
            out["relist"].append(relist)
            say(f"relist {n + 1}/{a.repeats}: peak {relist['ratio']:.3f} times the steady {relist['before_kb'] / 1024:.1f} MiB, {relist['cpu_s']:.2f} s of CPU")
        with machine.realtime(a.realtime, k.process.pid, c.api.process.pid):
            out["change"] = [change_cost(c, 100, 5) for _ in range(a.repeats)]
        say(f"a query costs {summary([q['cpu_ns'] for q in out['query']])['median']:.0f} ns, "
            f"a change {summary([x['cpu_us'] for x in out['change']])['median']:.0f} us")  # fmt: skip
        if full:
            c.load()  # anew: the follower must know which endpoints were added
            k, _ = c.start()
            added = {}
            with machine.realtime(a.realtime, k.process.pid, c.api.process.pid):
                out["load_alone"] = idle_load(c, a, path, a.seconds)
                out["changes"] = [changes(c, a, int(rate), a.seconds, path, added, 11 + n) for n, rate in enumerate(a.rates.split(","))]
    return out


def huge(a):
    """A headless Service of --big-slices slices with 100 endpoints each, alone; and one slice alone: a change must cost the same."""
    out = []
    for slices in (1, a.big_slices):
        people = questions.population.Population(namespaces=1, services=2, slices=1, endpoints=100, headless=0, big=1, big_slices=slices,
                                                 big_headless=True, seed=a.seed)  # fmt: skip
        with Cluster(people) as c:
            k, sync = c.start()
            with machine.realtime(a.realtime, k.process.pid, c.api.process.pid):
                costs = [change_cost(c, 100, 5) for _ in range(a.repeats)]
        out.append({"slices": slices, "endpoints": slices * 100, "VmRSS": sync["VmRSS"], "change": costs})
        say(f"a change of a headless Service of {slices * 100:,} endpoints: {summary([x['cpu_us'] for x in costs])['median']:.0f} us of CPU")
    return out


def main(argv):
    a = arguments(argv)
    os.makedirs(DIRECTORY, exist_ok=True)
    sizes = [size(a, float(f)) for f in a.sizes.split(",")]
    # Sizes that were not asked for keep their last result.
    old = load().get("scale", {})
    kept = [x for x in old.get("sizes", []) if x["factor"] not in [y["factor"] for y in sizes]]
    save("scale", {"seed": a.seed, "load": a.load, "realtime": a.realtime, "sizes": sorted(sizes + kept, key=lambda x: x["factor"]),
                   "huge": huge(a) if a.big_slices else old.get("huge")})  # fmt: skip
    return 1 if any(s["wrong"] for s in sizes) else 0
