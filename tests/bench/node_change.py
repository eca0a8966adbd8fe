"""make bench-node-change: the time from an event of the API to the first right answer of the node's own DNS.

The node of bench-node runs our pod. Its kubedns (--node-role) watches the stand-in API server, which has a cluster of realistic size and
objects. Changes follow one another at a steady rate: a name appears, gets another address, and disappears. Half of the cases use names of
Services with a cluster address. The other half use names of endpoints in slices of headless Services. Each case runs once without other
queries, and once with a client's lookups at the same time (node_clients.c: UDP and TCP, A and AAAA).

The time begins just before the stand-in writes the watch event to its only connection, the node's. It ends when an asker in a pod has an
answer with the new address, or NXDOMAIN (`asker follow`). The asker queries all the time at the Service's address. The asker follows one
change after the other, so a late change delays the next. The kernel counts how long kubedns and the asker waited for a busy CPU. A separate
figure includes only the changes without such a wait.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import machine
from load import ASKER
from questions import population
from results import DIRECTORY, save, say, text_of
from scale import milliseconds, read_follower, undisturbed

import node  # makes tests/helpers available
from node_places import OurNode
from node_world import SERVICE, NodeWorld

NAMES = 100  # number of names; the changes go through them in turn
ADDRESSES = 240  # addresses from 10.240.0.0 on, which no other object uses


def arguments(argv):
    p = argparse.ArgumentParser(prog="make bench-node-change", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--changes", type=int, default=1000, help="changes in one case (%(default)s), at most 65,536")
    p.add_argument("--rate", type=float, default=25, help="changes a second (%(default)s)")
    p.add_argument("--services", type=int, default=10_000, help="Services in the cluster (%(default)s), a tenth of them headless")
    p.add_argument("--load", type=float, default=200, help="lookups a second during the second half of the cases (%(default)s)")
    p.add_argument("--proxy", default="nftables", help="mode of kube-proxy (%(default)s)")
    p.add_argument("--realtime", action="store_true",
                   help="kubedns, API server and asker run with priority over all other work (chrt -r), for machines that are not idle")  # fmt: skip
    return p.parse_args(argv)


class Watching(OurNode):
    """A node on which our pod is the only client of the API server, because the central pods read manifests."""

    def make_source(self):
        super().make_source()
        NodeWorld.make_source(self)

    def source(self):
        return NodeWorld.source(self) or super().source()

    def start(self, people):
        self.api.load(**vars(people))
        self.objects = None
        self.begin()
        self.wait_serving()


class ServiceChanges:
    """
    Change n belongs to name n modulo `names`. The changes of a name are, in turn: it is created, gets another address, and is deleted. `of`
    is a part of the name that is different in each case.
    """

    resource, what = "services", "ClusterIP Services"

    def __init__(self, api, people, of):
        self.api, self.people, self.of, self.names = api, people, of, min(NAMES, people.services)

    def name(self, k):
        return f"new-{self.of}-{k}.{self.people.namespace(k)}"

    def address(self, n):
        """Returns the name's address after change n, or None if the change deletes the name."""
        return None if n // self.names % 3 == 2 else f"10.{ADDRESSES + self.of}.{n >> 8}.{n & 255}"

    def line(self, n):
        return f"{self.name(n % self.names)}.svc.cluster.local A {self.address(n) or 'gone'}\n"

    def make(self, n):
        """Makes change n and returns the resourceVersion."""
        name, namespace = self.name(n % self.names).split(".")
        if self.address(n) is None:
            return self.api.delete("services", namespace, name)
        service = self.people.make_service(0)
        service["metadata"] |= {"name": name, "namespace": namespace, "uid": f"{namespace}-{name}"}
        service["spec"] |= {"clusterIP": self.address(n), "clusterIPs": [self.address(n)]}
        return self.api.put(service)


class SliceChanges(ServiceChanges):
    """Like ServiceChanges, with the name of an endpoint that each change adds to a slice, changes, or removes from it."""

    resource, what = "endpointslices", "slices of headless Services"

    def __init__(self, api, people, of):
        super().__init__(api, people, of)
        self.slices = people.slice_numbers(headless_only=True)[:NAMES]
        self.names = len(self.slices)

    def name(self, k):
        i, _ = self.people.owner(self.slices[k])
        return f"new-{self.of}-{k}.{self.people.service(i)}.{self.people.namespace(i)}"

    def make(self, n):
        s = self.slices[n % self.names]
        made = self.people.make_slice(s)
        if self.address(n):
            i, _ = self.people.owner(s)
            hostname = self.name(n % self.names).split(".")[0]
            made["endpoints"].append(self.people.make_endpoint(s, i, self.people.endpoints - 1, self.address(n), hostname))
        return self.api.put(made)


def change_all(a, changes):
    """Makes all changes at their times. Returns the resourceVersion of each change."""
    begun, versions = time.monotonic(), []
    for n in range(a.changes):
        time.sleep(max(0, begun + n / a.rate - time.monotonic()))
        versions.append(changes.make(n))
    return versions


def follow(a, place, changes):
    """
    Makes all changes. Returns for each change the time when it was written and the time when it was seen (0: never). Also returns the waits
    for a CPU meanwhile.
    """
    since = place.api.version()
    with tempfile.NamedTemporaryFile("w", suffix=".follow") as lines, tempfile.TemporaryFile("w+") as out:
        lines.writelines(changes.line(n) for n in range(a.changes))
        lines.flush()
        pid = place.running[f"{place.uid}-kubedns"].pid
        prefix = ["chrt", "-r", "5"] if a.realtime else []
        follower = subprocess.Popen(["ip", "netns", "exec", place.pod.name, *prefix, ASKER, "follow", f"{SERVICE}#53", lines.name, str(pid)], stdout=out)
        with machine.realtime(a.realtime, pid, place.api.process.pid):
            versions = change_all(a, changes)
            try:
                follower.wait(timeout=30)
            except subprocess.TimeoutExpired:
                follower.kill()
                follower.wait()
        out.seek(0)
        seen, waits = read_follower(out.read())
    written = dict(place.api.written(changes.resource, since))
    return [written[v] for v in versions], seen + [0] * (a.changes - len(seen)), waits


def run_case(a, place, changes, rate):
    """Makes these changes while a client looks up names at this rate. Returns a row."""
    assert place.is_serving(), "the node's own DNS does not answer"
    clients = place.start_clients(node.CLIENTS, 1, rate, a.changes / a.rate + 1, NAMES, SERVICE) if rate else None
    try:
        written, seen, waits = follow(a, place, changes)
        out = clients.communicate(timeout=60)[0].splitlines() if clients else []
    finally:
        if clients and clients.poll() is None:
            clients.kill()
    assert place.is_serving(), "the node's own DNS no longer answers"
    spans = [(begin, end) for begin, end in zip(written, seen) if begin and begin < end]
    missed = seen.count(0)
    lookups = node.judge(out, place.loader)[0] if clients else None
    return {"what": changes.what, "proxy": place.proxy, "load": rate, "changes": a.changes, "rate": a.rate, "realtime": a.realtime, "missed": missed, "untimed": a.changes - missed - len(spans),
            "event_to_answer_ms": milliseconds(spans), "undisturbed_ms": milliseconds(undisturbed(spans, waits)),
            "waited_s": sum(ns for *_, ns in waits) / 1e9, "lookups": lookups}  # fmt: skip


def say_row(r):
    beside = "no other lookups"
    if r["lookups"]:
        q = r["lookups"]
        beside = f"{r['load']:g} lookups a second at the same time: {q['asked']:,} queries, lost {q['lost']}, retried {q['again']}, wrong {q['wrong']} p99 {q['p99_ms']:.1f} ms"
    say(f"{r['what']}, {beside}: event to answer {text_of(r['event_to_answer_ms'])}; without a wait for a CPU {text_of(r['undisturbed_ms'])}; "
        f"{r['missed']} missed, {r['untimed']} not timed")  # fmt: skip


def table(rows):
    """A table as in the README.md of this directory."""

    def cells(p):
        return f"{p['count']:,} | {p['p50']:.2f} ms | {p['p99']:.2f} ms | {p['max']:.1f} ms" if p else "0 | | |"

    header = "| changed objects | lookups a second | changes | p50 | p99 | slowest | undisturbed | p50 | p99 | slowest | missed | lookups lost |\n" + "|---" * 12 + "|"
    lines = []
    for r in rows:
        lost = f"{r['lookups']['lost']} of {r['lookups']['asked']:,}" if r["lookups"] else ""
        lines.append(f"| {r['what']} | {r['load']:g} | {cells(r['event_to_answer_ms'])} | {cells(r['undisturbed_ms'])} | {r['missed']} | {lost} |")
    return "\n".join([header, *lines])


def run_all(a, directory):
    rows, people = [], population.Population(namespaces=a.services, services=a.services, slices=a.services * 3 // 2)
    place = Watching(pathlib.Path(directory), a.proxy)
    try:
        begun = time.monotonic()
        place.start(people)
        say(f"{people.services:,} Services, {people.slices:,} slices; the node answers after {time.monotonic() - begun:.1f} s")
        place.loader = node.Loader(place, NAMES, 0.001)  # the names that the clients look up
        place.loader.stop()
        for of, (kind, load) in enumerate((k, n) for n in (0, a.load) for k in (SliceChanges, ServiceChanges)):
            rows.append(run_case(a, place, kind(place.api, people, of), load))
            say_row(rows[-1])
    except BaseException:
        print(place.logs(), file=sys.stderr)
        raise
    finally:
        with open(os.path.join(directory, "said"), "w", encoding="utf-8") as said:
            place.shut(said)
    return rows


def main(argv):
    a = arguments(argv)
    os.makedirs(DIRECTORY, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="node") as directory:
        rows = run_all(a, directory)
    save("node-change", {"services": a.services, "rows": rows})
    print(f"\n{table(rows)}")
    bad = [r for r in rows if r["missed"] or r["untimed"] > a.changes // 100 or (r["lookups"] and (r["lookups"]["lost"] or r["lookups"]["wrong"]))]
    for r in bad:
        print(f"{r['what']}, {r['load']:g} lookups a second at the same time: missed {r['missed']}, not timed {r['untimed']}, {r['lookups']}", file=sys.stderr)
    return 1 if bad else 0
