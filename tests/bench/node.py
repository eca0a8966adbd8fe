"""
make bench-node: what a node's clients lose when something happens to the node's own DNS.

A node of network namespaces with kube-proxy's rules as it writes them, the pods in the middle behind another, an API server between them (the
stand-in). The clients (node_clients.c) ask as many names a second each, over UDP and TCP, A and AAAA, at the Service's address, as
resolver libraries do with one server in resolv.conf: glibc and Go (two tries of 5 s, of which an ICMP error ends each at once), musl (at 0 and 2.5 s, 5 s in all),
TCP (one try of 5 s). Meanwhile names change at the API, so that an answer says how old it is. In each case the same thing happens as often as there is time for;
what has died is started again a second later, as the kubelet does.

Counted: lost, asked again (and the most tries of one question), wrong (an error, another name's address), stale: the last try was sent 0.1 s or more
after the API had said otherwise; the oldest of all. The case "nothing" says what the machine itself does.

A node-cache that somebody has at hand is put through the same cases, with kube-proxy in iptables mode, by --peer=PROGRAM; it has the same pods in the middle.
Its interface is a bridge made beforehand where the kernel has no dummy interfaces.
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
BEFORE_S, AFTER_S = 3, 7  # of a case, in which nothing happens
STALE_S = 0.1


def arguments(argv):
    p = argparse.ArgumentParser(prog="make bench-node", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--clients", type=int, default=12)
    p.add_argument("--rate", type=float, default=200, help="names a second that each asks")
    p.add_argument("--seconds", type=float, default=42, help="of each case: with the others' defaults 100,800 questions")
    p.add_argument("--names", type=int, default=100)
    p.add_argument("--changes", type=float, default=5, help="changes of a name at the API, a second")
    p.add_argument("--cases", default="", help="only those whose names have one of these in them, separated by commas")
    p.add_argument("--proxy", default="nftables,iptables", help="kube-proxy's modes")
    p.add_argument("--peer", help="a node-cache, for the same cases")
    p.add_argument("--peer-only", action="store_true")
    return p.parse_args(argv)


class Loader:
    """Changes one name after another at the API, and remembers when; a thread. Nobody changes anything while the API is away."""

    def __init__(self, place, names, per_second):
        self.place, self.wait_s = place, 1 / per_second
        self.history = [([], []) for _ in range(names)]  # of each name: when the API began to take a change, and had taken it
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
        """For how many seconds at `at` another value had been there; negative: none; None: there was no such change yet."""
        begun, taken = self.history[n]
        if change >= len(begun):
            return None
        return at - taken[change + 1] if change + 1 < len(taken) else -1.0


def judge(lines, loader):
    """What came of the questions."""
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
    """How many of these times lie within so many seconds after an event, or one before."""
    events = sorted(events)
    count = 0
    for t in times:
        i = bisect.bisect_right(events, t + 1)
        count += i > 0 and events[i - 1] >= t - after_s
    return count


def run_case(a, place, name, case, loader):
    """Lets it happen, under load, as often as there is time for."""
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
    say(f"{r['server']:10} {r['proxy']:8} {r['case']:32} x{r['times']:<2} asked {r['asked']:,} lost {r['lost']} ({r['lost_tcp']} TCP) again {r['again']} ({r['again_udp']} UDP; {why}) tries {r['tries']} "
        f"wrong {r['wrong']} stale {r['stale']} oldest {r['oldest_s']:.2f} s slowest {r['slowest_s'] or 0:.2f} s p99 {r['p99_ms'] or 0:.1f} ms "
        f"by the pods in the middle {r['central']}, own pause {r['pause_s']:.2f} s{more}")  # fmt: skip


def table(rows):
    """As README.md here has it."""
    header = "| what happens | times | asked | lost over UDP | lost over TCP | asked again | most tries | wrong | stale | oldest | slowest |\n" + "|---" * 11 + "|"
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
    for what, names in (("lost over UDP or wrong", lost), ("not measured", broken)):
        if names:
            print(f"{what}: {', '.join(names)}", file=sys.stderr)
    return 1 if lost or broken else 0
