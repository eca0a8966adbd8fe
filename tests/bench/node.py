"""make bench-node: the queries that a node's clients lose when something happens to the node's own DNS.

A node consists of network namespaces with kube-proxy's rules, written as kube-proxy writes them. The central pods are behind another
namespace, and the stand-in API server is between them. The clients (node_clients.c) look up names at a fixed rate each, over UDP and TCP,
A and AAAA, at the Service's address. They behave like resolver libraries with one server in resolv.conf:

* glibc and Go: two attempts of 5 s; an ICMP error ends an attempt at once
* musl: attempts at 0 and 2.5 s, 5 s in all
* TCP: one attempt of 5 s

Meanwhile the addresses of names change at the API, so each answer shows how old its data is. In each case the same event happens as often
as time permits. A process that died is restarted a second later, as the kubelet does.

The bench counts queries that are lost, retried (and the most attempts of one query), wrong (an error or another name's address) and stale.
A query is stale if its last attempt was sent 0.1 s or more after the API had a newer value. The bench also reports the greatest age. The
case "nothing" shows the behaviour of the machine itself.

--peer=PROGRAM puts a local node-cache through the same cases, with kube-proxy in iptables mode and the same central pods. If the kernel
has no dummy interfaces, its interface is a bridge created beforehand.
"""

import argparse
import bisect
import os
import pathlib
import sys
import tempfile
import threading
import time
import traceback

from results import BUILD, DIRECTORY, save, say

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "helpers"))

from node_cases import CASES, PEER_CASES  # noqa: E402
from node_places import OurNode, PeerNode  # noqa: E402
from node_world import CENTRAL_TTL, LOCAL, SERVICE  # noqa: E402

CLIENTS = os.path.join(BUILD, "tests", "bench", "node_clients")
BEFORE_S, AFTER_S = 3, 7  # in each case, the time before the first event and after the last event
STALE_S = 0.1


def arguments(argv):
    p = argparse.ArgumentParser(prog="make bench-node", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--clients", type=int, default=12, help="clients on the node (%(default)s)")
    p.add_argument("--rate", type=float, default=200, help="lookups a second of each client (%(default)s)")
    p.add_argument("--seconds", type=float, default=42, help="duration of one case (%(default)s); all defaults together give 100,800 lookups")
    p.add_argument("--names", type=int, default=100, help="names that clients look up (%(default)s)")
    p.add_argument("--changes", type=float, default=5, help="changes of names at the API, per second (%(default)s)")
    p.add_argument("--cases", default="", help="only cases whose names contain one of these texts, separated by commas")
    p.add_argument("--proxy", default="nftables,iptables", help="modes of kube-proxy, separated by commas (%(default)s)")
    p.add_argument("--peer", help="a node-cache program, which is measured in the same cases")
    p.add_argument("--peer-only", action="store_true", help="measure only the program of --peer")
    return p.parse_args(argv)


class Loader:
    """A thread that changes one name after another at the API and records the times. While the API is down, it changes no name."""

    def __init__(self, place, names, per_second):
        self.place, self.wait_s = place, 1 / per_second
        self.history = [([], []) for _ in range(names)]  # for each name: the times before and after each change at the API
        self.paused, self.stopped = threading.Event(), threading.Event()
        self.lock = threading.Lock()
        for n in range(names):
            self.change(n)
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def change(self, n):
        begun, taken = self.history[n]
        begun.append(time.monotonic())
        self.place.put_name(n, len(begun) - 1)
        taken.append(time.monotonic())

    def run(self):
        n = 0
        while not self.stopped.wait(self.wait_s):
            with self.lock:
                if not self.paused.is_set():
                    self.change(n % len(self.history))
            n += 1

    def pause(self):
        with self.lock:
            self.paused.set()

    def stop(self):
        self.stopped.set()
        self.thread.join()

    def age(self, n, change, at):
        """
        Returns the age of an answer at time `at`: the seconds for which a newer value had existed. Negative if there was no newer value
        yet, None if the change in the answer had not been made yet.
        """
        begun, taken = self.history[n]
        if change >= len(begun):
            return None
        return at - taken[change + 1] if change + 1 < len(taken) else -1.0


def judge(lines, loader):
    """Counts the results of the queries. Also returns the times of the retried queries."""
    row = {"asked": 0, "lost": 0, "again": 0, "again_udp": 0, "lost_tcp": 0, "tries": 0, "wrong": 0, "stale": 0, "oldest_s": 0.0, "slowest_s": 0.0, "central": 0, "why": {}}
    again_at, took = [], []
    for line in lines:
        fields = line.split()
        if fields[0] == "pause":
            row["pause_s"] = int(fields[1]) / 1e6
            continue
        begun, name, tcp, tries, us, change, ttl, wrong, last = (int(fields[i]) for i in (0, 2, 4, 5, 6, 7, 8, 9, 11))
        row["asked"] += 1
        row["wrong"] += wrong
        row["tries"] = max(row["tries"], tries)
        if tries > 1 or us < 0:
            row["again"] += 1
            row["again_udp"] += not tcp
            row["why"][fields[10]] = row["why"].get(fields[10], 0) + 1
            again_at.append(begun / 1e6)
        if us < 0:
            row["lost"] += 1
            row["lost_tcp"] += tcp
            continue
        took.append(us)
        row["central"] += ttl == CENTRAL_TTL
        age = loader.age(name, change, (begun + last) / 1e6)
        if age is None:
            row["wrong"] += 1
        else:
            row["stale"] += age >= STALE_S
            row["oldest_s"] = max(row["oldest_s"], age)
    took.sort()
    row["slowest_s"] = took[-1] / 1e6 if took else None
    row["p99_ms"] = took[len(took) * 99 // 100] / 1e3 if took else None
    return row, again_at


def near(times, events, after_s=6):
    """Counts the times that are near an event: at most one second before it or `after_s` seconds after it."""
    events = sorted(events)
    count = 0
    for t in times:
        i = bisect.bisect_right(events, t + 1)
        count += i > 0 and events[i - 1] >= t - after_s
    return count


def run_case(a, place, name, case, loader):
    """Makes the event happen under load as often as time permits."""
    events = []
    case.before(place)
    clients = place.start_clients(CLIENTS, a.clients, a.rate, a.seconds, a.names, LOCAL if case.local else SERVICE)
    begun = time.monotonic()
    try:
        time.sleep(BEFORE_S)
        while not events or (case.again and time.monotonic() - begun + case.takes_s < a.seconds - AFTER_S):
            events.append(time.monotonic())
            case.happens(place, loader)
            time.sleep(1)
        out = clients.communicate(timeout=a.seconds + 60)[0].splitlines()
        assert clients.returncode == 0, "the clients ended with an error"
    finally:
        if clients.poll() is None:
            clients.kill()
    row, again_at = judge(out, loader)
    return {"case": name, "server": place.name, "proxy": place.proxy, "times": len(events), "other_times": len(again_at) - near(again_at, events), **row,
            "counters": place.counters()}  # fmt: skip


def say_row(r):
    why = " ".join(f"{k}{n}" for k, n in sorted(r["why"].items()))
    more = f", {r['counters']}" if r["again"] else ""
    say(f"{r['server']:10} {r['proxy']:8} {r['case']:32} x{r['times']:<2} queries {r['asked']:,} lost {r['lost']} ({r['lost_tcp']} TCP) retried {r['again']} ({r['again_udp']} UDP; {why}) attempts {r['tries']} "
        f"wrong {r['wrong']} stale {r['stale']} oldest {r['oldest_s']:.2f} s slowest {r['slowest_s'] or 0:.2f} s p99 {r['p99_ms'] or 0:.1f} ms "
        f"answered by the central pods {r['central']}, pause of the clients {r['pause_s']:.2f} s{more}")  # fmt: skip


def table(rows):
    """A table as in the README.md of this directory."""
    header = "| event | times | queries | lost over UDP | lost over TCP | retried | most attempts | wrong | stale | oldest | slowest |\n" + "|---" * 11 + "|"
    lines = [f"| {r['case']} | {r['times']} | {r['asked']:,} | {r['lost'] - r['lost_tcp']:,} | {r['lost_tcp']:,} | {r['again']:,} | {r['tries']} | {r['wrong']:,} | {r['stale']:,} | {r['oldest_s']:.1f} s | "
             f"{r['slowest_s'] or 0:.1f} s |" for r in rows]  # fmt: skip
    return "\n".join([header, *lines])


def run_place(a, kind, proxy, name, case, *more):
    with tempfile.TemporaryDirectory(prefix="node") as directory:
        with open(os.path.join(directory, "said"), "w+", encoding="utf-8") as said:
            place = kind(pathlib.Path(directory), proxy, *more)
            loader = Loader(place, a.names, a.changes)
            try:
                place.start()
                return run_case(a, place, name, case, loader)
            except BaseException:
                print(place.logs(), file=sys.stderr)
                raise
            finally:
                loader.stop()
                place.shut(said)


def main(argv):
    a = arguments(argv)
    os.makedirs(DIRECTORY, exist_ok=True)
    wanted = [w for w in a.cases.split(",") if w]

    def chosen(cases):
        return [(n, c) for n, c in cases.items() if not wanted or any(w in n for w in wanted)]

    plan = [(OurNode, proxy, n, c) for proxy in a.proxy.split(",") for n, c in chosen(CASES) if not a.peer_only]
    if a.peer:
        plan += [(PeerNode, "iptables", n, c, a.peer) for n, c in chosen(PEER_CASES)]
    rows, broken = [], []
    for kind, proxy, name, case, *more in plan:
        try:
            rows.append(run_place(a, kind, proxy, name, case, *more))
        except Exception:
            traceback.print_exc()
            broken.append(f"{kind.name} {proxy} {name}")
            continue
        say_row(rows[-1])
        save("node", {"rows": rows})
    for server, proxy in dict.fromkeys((r["server"], r["proxy"]) for r in rows):
        print(f"\n{server}, kube-proxy in {proxy} mode\n\n{table([r for r in rows if (r['server'], r['proxy']) == (server, proxy)])}")
    lost = [r["case"] for r in rows if r["server"] == OurNode.name and (r["lost"] > r["lost_tcp"] or r["wrong"])]
    for what, names in (("queries lost over UDP, or wrong answers", lost), ("not measured", broken)):
        if names:
            print(f"{what}: {', '.join(names)}", file=sys.stderr)
    return 1 if lost or broken else 0
