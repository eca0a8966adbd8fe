"""The cluster size that kubedns is designed for: the cost of the first sync, a full relist, a change and a query at 10,000 Services and
150,000 endpoints, and its growth with the size. The API server is the stand-in of tests/apiserver. Its objects are as large as real
objects.

Event to answer: the time from the moment when the stand-in hands an event's bytes to the socket until an asker has the changed answer.
The asker queries all the time. It follows the changes one by one, so a late change delays the next. The figures are therefore too high
rather than too low. If the machine has other work, kubedns and the asker wait for a CPU. The kernel counts these waits. A separate figure
includes only the changes without a wait. It shows kubedns's own time.
"""

import argparse
import contextlib
import os
import subprocess
import tempfile
import threading
import time

import features
import machine
import questions
from cluster import Cluster, follow_lines
from load import ASKER, asker, flood
from results import DIRECTORY, load, save, say, text_of

FULL = 10_000


def arguments(argv):
    p = argparse.ArgumentParser(prog="make bench-scale", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--sizes", default="0.01,0.1,1,4", help="cluster sizes in multiples of 10,000 Services (%(default)s); only size 1 gets all measurements")
    p.add_argument("--repeats", type=int, default=3, help="runs of one measurement (%(default)s)")
    p.add_argument("--turns", type=int, default=9, help="rounds over all sizes for the cost of one query and one change (%(default)s); 0: keep the last result")
    p.add_argument("--rates", default="10,100,1000", help="rates of changes per second, separated by commas (%(default)s)")
    p.add_argument("--seconds", type=float, default=20, help="duration of each rate of changes (%(default)s)")
    p.add_argument("--load", type=int, default=5000, help="queries a second during changes (%(default)s)")
    p.add_argument("--big-slices", type=int, default=100,
                   help="slices of the huge headless Service, with 100 endpoints each (%(default)s); 0: keep its last result")  # fmt: skip
    p.add_argument("--realtime", action="store_true",
                   help="kubedns, API server and asker run with priority over all other work (chrt -r) while changes are timed, "
                        "for machines that are not idle; needs root")  # fmt: skip
    p.add_argument("--features", action="store_true", help="measure only the CPU time and memory that each opt-in feature adds to a sync")
    p.add_argument("--only", default="", help="with --features: only these kinds of objects, from plain, balanced and pods")
    p.add_argument("--seed", type=int, default=1, help="seed of the cluster's objects (%(default)s)")
    return p.parse_args(argv)


def people_of(size, seed):
    """A cluster with this many Services. Each Service has its own namespace and 1.5 slices on average."""
    return questions.population.Population(namespaces=size, services=size, slices=size * 3 // 2, seed=seed)


def percentiles(values):
    values = sorted(values)

    def at(share):
        return values[min(len(values) - 1, int(share * len(values)))]

    return {"p50": at(0.5), "p90": at(0.9), "p99": at(0.99), "p99.9": at(0.999), "max": values[-1], "count": len(values)}


UNDISTURBED_NS = 100_000  # a span is undisturbed if all waits for a CPU in it are shorter than this in total; all measured times are longer


def read_follower(text):
    """Returns the times when each change was seen, and the waits for a CPU as [(from, to, ns)]."""
    seen, waits = [], []
    for line in text[: text.rfind("\n") + 1].splitlines():  # the last line is incomplete if the follower had to be killed
        *pauses, at = line.split()
        seen.append(int(at))
        waits += [tuple(map(int, p.split(":"))) for p in pauses]
    return seen, waits


def undisturbed(spans, waits):
    """Returns the (begin, end) spans, sorted by their ends, in which the waits add up to less than UNDISTURBED_NS."""
    out = []
    for begin, end in spans:
        if sum(ns for since, until, ns in waits if since < end and until > begin) < UNDISTURBED_NS:
            out.append((begin, end))
    return out


def changes(c, a, rate, seconds, path, added, seed):
    """Measures changes at this rate under query load: event to answer, the queries' latency, and the CPU time per change."""
    lines = follow_lines(c.people, rate, seconds, seed, added)
    follow = os.path.join(DIRECTORY, "follow")
    with open(follow, "w", encoding="ascii") as f:
        f.writelines(line + "\n" for _, line in lines)
    k = c.kubedns
    with tempfile.TemporaryFile("w+") as out:  # nothing reads the output meanwhile: a pipe would fill up and stop the follower
        watcher = subprocess.Popen([*machine.pinned(machine.cpus()[1], a.realtime), ASKER, "follow", str(k.port), follow, str(k.process.pid)], stdout=out)
        begun = time.monotonic()
        before = k.spent()
        c.api.churn(rate, seconds, seed=seed, headless_only=True, wait=False)
        queries = asker(k.port, path, a.load, seconds, realtime=a.realtime)
        try:
            watcher.wait(timeout=30)
        except subprocess.TimeoutExpired:
            watcher.kill()
            watcher.wait()
        spent, wall = (k.spent() - before).seconds, time.monotonic() - begun
        out.seek(0)
        seen, waits = read_follower(out.read())
    made = c.api.changes()
    spans = [(made[n]["written_ns"], ns) for ns, (n, _) in zip(seen, lines) if ns and made[n]["written_ns"]]
    # If the stand-in is late, the follower looks for "gone" before the endpoint was added, and sees it at once.
    spans = [(begin, end) for begin, end in spans if begin < end]
    calm = undisturbed(spans, waits)
    missed = len(lines) - sum(ns > 0 for ns in seen)
    got = {"rate": rate, "seconds": seconds, "changes": len(made), "followed": len(lines), "seen": len(spans), "missed": missed, "event_to_answer_ms": milliseconds(spans),
           "undisturbed_ms": milliseconds(calm), "waited_s": sum(ns for *_, ns in waits) / 1e9, "queries": queries, "cpu_s": spent, "wall_s": wall}  # fmt: skip
    say(f"{rate} changes a second: event to answer {text_of(got['event_to_answer_ms'])}; without a wait for a CPU {text_of(got['undisturbed_ms'])}; "
        f"of {len(lines)} {missed} missed, {len(lines) - missed - len(spans)} not timed; queries p99 {queries['latency_us']['p99']:.0f} us, lost {queries['lost']}; CPU {spent:.2f} s")  # fmt: skip
    return got


def milliseconds(spans):
    return percentiles([(end - begin) / 1e6 for begin, end in spans]) if spans else None


def idle_load(c, a, path, seconds):
    """Measures the same queries without changes, to compare the CPU time."""
    before = c.kubedns.spent()
    queries = asker(c.kubedns.port, path, a.load, seconds, realtime=a.realtime)
    return {"rate": 0, "seconds": seconds, "queries": queries, "cpu_s": (c.kubedns.spent() - before).seconds}


def query_cost(c, path):
    before = c.kubedns.spent()
    got = flood(c.kubedns.port, path, 1, count=c.kubedns.process.pid)
    spent = c.kubedns.spent() - before
    ns = spent.total_ns / got["answered"]
    misses = got["cache_misses"] and got["cache_misses"] / got["answered"]
    return {"answered": got["answered"], "user_ns": ns * spent.user_share, "cpu_ns": ns, "cache_misses": misses, "lost": got["lost"]}


def change_cost(c, a):
    """Measures the CPU time of one change without queries: {cpu_us}. The rate is so low that kubedns handles each change alone."""
    with machine.realtime(a.realtime, c.kubedns.process.pid, c.api.process.pid):
        before = c.kubedns.spent()
        c.api.churn(100, 2, seed=7, headless_only=True)
        time.sleep(0.3)
        count = len(c.api.changes())
        return {"changes": count, "cpu_us": (c.kubedns.spent() - before).total_ns / count / 1000}


RELIST_SECONDS = 6  # seconds of changes and queries before and after a relist
STEADY = ("cluster_a", "cluster_aaaa", "nxdomain", "ptr", "external")  # kinds whose answers the changes do not affect


def busy_relist(c, a, path):
    """Causes a full relist during 10 changes a second and queries. Returns its cost, and the lost and wrong answers meanwhile."""
    got, wrong, over = {}, [], threading.Event()

    def judge():
        turn = 0
        while not over.is_set():
            wrong.extend(questions.judge(c.people, STEADY[turn % len(STEADY)], c.kubedns.port, count=20, seed=turn))
            turn += 1

    def ask():
        got.update(asker(c.kubedns.port, path, a.load, RELIST_SECONDS, realtime=a.realtime))

    c.api.churn(10, 10 * RELIST_SECONDS, seed=5, headless_only=True, wait=False)
    others = [threading.Thread(target=judge), threading.Thread(target=ask)]
    for thread in others:
        thread.start()
    try:
        relist = c.relist()
    finally:
        over.set()
        for thread in others:
            thread.join()
        c.api.stop_churn()
    return {**relist, "queries": got, "wrong": wrong[:5]}


def syncs(c, repeats, how):
    """Measures first syncs, one after the other. The last kubedns keeps running."""
    out = []
    for n in range(repeats):
        _, sync = c.start()
        out.append(sync)
        say(f"sync by {how} {n + 1}/{repeats}: {sync['cpu_s']:.2f} s of CPU, {sync['wall_s']:.2f} s, RSS {sync['VmRSS'] / 1024:.1f} MiB "
            f"(anonymous {sync['RssAnon'] / 1024:.1f}), {sync['received_bytes'] / 1e6:.1f} MB received")  # fmt: skip
    return out


def relists(c, a, path, how):
    out = []
    for n in range(a.repeats):
        relist = busy_relist(c, a, path)
        out.append(relist)
        q = relist["queries"]
        say(f"relist by {how} {n + 1}/{a.repeats}, with 10 changes a second: peak {relist['ratio']:.3f} times the memory before it, {relist['before_kb'] / 1024:.1f} MiB; "
            f"{relist['cpu_s']:.2f} s of CPU, changes and queries included; of {q['sent']} queries {q['lost']} lost, {q['rcodes'].get('SERVFAIL', 0)} SERVFAIL; "
            f"{len(relist['wrong'])} wrong")  # fmt: skip
    return out


def size(a, factor):
    """Measures one size of the sweep. Factor 1 is the full size."""
    full = factor == 1
    people = people_of(int(FULL * factor), a.seed)
    out = {"factor": factor, "services": people.services, "slices": people.slices, "endpoints": people.slices * people.endpoints}
    with Cluster(people) as c:
        out["sync"] = syncs(c, a.repeats, "watch list")
        k = c.kubedns
        path = questions.write(people, "mix", os.path.join(DIRECTORY, "scale.questions"), seed=a.seed)
        out["wrong"] = questions.judge(people, "mix", k.port)[:5]
        out["relist"] = relists(c, a, path, "watch list")
        if full:
            out["query"] = [query_cost(c, path) for _ in range(a.repeats)]
            c.api.set_watchlist(False)
            out["sync_paged"] = syncs(c, a.repeats, "paged lists")
            out["relist_paged"] = relists(c, a, path, "paged lists")
            c.api.set_watchlist(True)
            c.load()  # loads the cluster again, so that the follower knows which endpoints were added
            k, _ = c.start()
            added = {}
            with machine.realtime(a.realtime, k.process.pid, c.api.process.pid):
                out["load_alone"] = idle_load(c, a, path, a.seconds)
                out["changes"] = [changes(c, a, int(rate), a.seconds, path, added, 11 + n) for n, rate in enumerate(a.rates.split(","))]
    return out


def clusters_of(stack, populations):
    """Starts all these clusters at once, each with its kubedns."""
    clusters = [stack.enter_context(Cluster(people, f"cluster-{n}")) for n, people in enumerate(populations)]
    for c in clusters:
        c.start()
    return clusters


def growth(a, factors):
    """
    Measures the cost of a query and of a change at each size, in alternating runs. The speed of a shared host drifts more from minute to
    minute than the sizes differ.
    """
    with contextlib.ExitStack() as stack:
        clusters = clusters_of(stack, [people_of(int(FULL * f), a.seed) for f in factors])
        paths = [questions.write(c.people, "mix", os.path.join(c.directory, "questions"), seed=a.seed) for c in clusters]
        out = [{"services": c.people.services, "query": [], "change": []} for c in clusters]
        for turn in range(a.turns):
            for c, path, one in zip(clusters, paths, out):
                one["query"].append(query_cost(c, path))
                one["change"].append(change_cost(c, a))
            say(f"turn {turn + 1}/{a.turns}: " + "; ".join(f"{one['services']:,} Services: a query {one['query'][-1]['cpu_ns']:.0f} ns, a change "
                                                        f"{one['change'][-1]['cpu_us']:.0f} us" for one in out))  # fmt: skip
    return out


def huge(a):
    """
    Compares two clusters. One has only a headless Service of --big-slices slices with 100 endpoints each, and the other only a single
    slice. A change must cost the same in both clusters. The runs alternate.
    """

    def people(slices):
        return questions.population.Population(namespaces=1, services=2, slices=1, endpoints=100, headless=0, big=1, big_slices=slices,
                                               big_headless=True, seed=a.seed)  # fmt: skip

    sizes = (1, a.big_slices)
    with contextlib.ExitStack() as stack:
        clusters = clusters_of(stack, map(people, sizes))
        out = [{"slices": n, "endpoints": n * 100, "change": []} for n in sizes]
        for turn in range(a.turns):
            for c, one in zip(clusters, out):
                one["change"].append(change_cost(c, a))
            say(f"turn {turn + 1}/{a.turns}: " + "; ".join(f"{one['endpoints']:,} endpoints: a change {one['change'][-1]['cpu_us']:.0f} us" for one in out))
    return out


def main(argv):
    a = arguments(argv)
    os.makedirs(DIRECTORY, exist_ok=True)
    if a.features:
        return features.main(a, people_of(FULL, a.seed))
    factors = [float(f) for f in a.sizes.split(",")]
    sizes = [size(a, f) for f in factors]
    # Parts of the bench that were not requested keep their last result.
    old = load().get("scale", {})
    kept = [x for x in old.get("sizes", []) if x["factor"] not in [y["factor"] for y in sizes]]
    save("scale", {"seed": a.seed, "load": a.load, "realtime": a.realtime, "sizes": sorted(sizes + kept, key=lambda x: x["factor"]),
                   "growth": growth(a, factors) if len(factors) > 1 and a.turns else old.get("growth"),
                   "huge": huge(a) if a.big_slices else old.get("huge")})  # fmt: skip
    return 1 if any(s["wrong"] or any(r["wrong"] for r in s["relist"]) for s in sizes) else 0
