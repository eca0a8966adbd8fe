"""
make bench-node-change: from an event of the API to the first right answer at the node's own DNS.

The node of bench-node with our pod on it; its kubedns (--node-role) watches the stand-in API server, which has a cluster of real size and objects. Changes
come one after the other at a steady rate: a name appears, gets another address, and goes again; names of Services with a cluster address, and names of
endpoints in slices of headless Services. Once with nobody else asking, once with a client's lookups beside (node_clients.c: UDP and TCP, A and AAAA).

The time begins just before the stand-in writes the watch event to its connection (the node's is the only one), and ends when an asker in a pod, who asks
all the time at the Service's address, has the answer with this address, or NXDOMAIN (`asker follow`). It follows one change after the other, so that a
late one delays the next. The kernel counts how long kubedns and the asker waited for a CPU that something else had: the changes during which they did not
are a figure of their own.
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

import node  # makes tests/helpers known
from node_places import OurNode
from node_world import SERVICE, NodeWorld

NAMES = 100  # that change in turn
ADDRESSES = 240  # 10.240.0.0 and on: no other object's


def arguments(argv):
    p = argparse.ArgumentParser(prog="make bench-node-change", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--changes", type=int, default=1000, help="of each case; 65,536 at most")
    p.add_argument("--rate", type=float, default=25, help="changes a second")
    p.add_argument("--services", type=int, default=10_000, help="of the cluster, a tenth of them headless")
    p.add_argument("--load", type=float, default=200, help="lookups a second beside, in the second half of the cases")
    p.add_argument("--proxy", default="nftables", help="kube-proxy's mode")
    p.add_argument("--realtime", action="store_true", help="kubedns, stand-in and asker run before whatever else the machine does (chrt -r): for machines that are not idle")
    return p.parse_args(argv)


class Watching(OurNode):
    """Of this place's API server our pod is the only client: the pods in the middle read manifests."""

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
    """Change n is of name n modulo `names`, which is there, is elsewhere, and is gone in turn; `of` tells the cases' names apart."""

    resource, what = "services", "ClusterIP Services"

    def __init__(self, api, people, of):
        self.api, self.people, self.of, self.names = api, people, of, min(NAMES, people.services)

    def name(self, k):
        return f"new-{self.of}-{k}.{self.people.namespace(k)}"

    def address(self, n):
        """None: gone."""
        return None if n // self.names % 3 == 2 else f"10.{ADDRESSES + self.of}.{n >> 8}.{n & 255}"

    def line(self, n):
        return f"{self.name(n % self.names)}.svc.cluster.local A {self.address(n) or 'gone'}\n"

    def make(self, n):
        """Returns the resourceVersion."""
        name, namespace = self.name(n % self.names).split(".")
        if self.address(n) is None:
            return self.api.delete("services", namespace, name)
        service = self.people.make_service(0)
        service["metadata"] |= {"name": name, "namespace": namespace, "uid": f"{namespace}-{name}"}
        service["spec"] |= {"clusterIP": self.address(n), "clusterIPs": [self.address(n)]}
        return self.api.put(service)


class SliceChanges(ServiceChanges):
    """The name is that of an endpoint beside the others of its slice."""

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
    """At their times; returns the resourceVersion of each."""
    begun, versions = time.monotonic(), []
    for n in range(a.changes):
        time.sleep(max(0, begun + n / a.rate - time.monotonic()))
        versions.append(changes.make(n))
    return versions


def follow(a, place, changes):
    """Makes all changes; returns when each was written and when it was seen (0: not), and who waited for a CPU meanwhile."""
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
    """These changes, with so many lookups a second beside; a row."""
    assert place.is_serving(), "the node's own does not answer"
    clients = place.start_clients(node.CLIENTS, 1, rate, a.changes / a.rate + 1, NAMES, SERVICE) if rate else None
    try:
        written, seen, waits = follow(a, place, changes)
        out = clients.communicate(timeout=60)[0].splitlines() if clients else []
    finally:
        if clients and clients.poll() is None:
            clients.kill()
    assert place.is_serving(), "the node's own does not answer any more"
    spans = [(begin, end) for begin, end in zip(written, seen) if begin and begin < end]
    missed = seen.count(0)
    lookups = node.judge(out, place.loader)[0] if clients else None
    return {"what": changes.what, "proxy": place.proxy, "load": rate, "changes": a.changes, "rate": a.rate, "realtime": a.realtime, "missed": missed, "untimed": a.changes - missed - len(spans),
            "event_to_answer_ms": milliseconds(spans), "undisturbed_ms": milliseconds(undisturbed(spans, waits)),
            "waited_s": sum(ns for *_, ns in waits) / 1e9, "lookups": lookups}  # fmt: skip


def say_row(r):
    beside = "nobody else asks"
    if r["lookups"]:
        q = r["lookups"]
        beside = f"{r['load']:g} lookups a second beside: asked {q['asked']:,} lost {q['lost']} again {q['again']} wrong {q['wrong']} p99 {q['p99_ms']:.1f} ms"
    say(f"{r['what']}, {beside}: event to answer {text_of(r['event_to_answer_ms'])}; while nobody waited for a CPU {text_of(r['undisturbed_ms'])}; "
        f"{r['missed']} missed, {r['untimed']} not timed")  # fmt: skip


def table(rows):
    """As README.md here has it."""

    def cells(p):
        return f"{p['count']:,} | {p['p50']:.2f} ms | {p['p99']:.2f} ms | {p['max']:.1f} ms" if p else "0 | | |"

    header = "| what changes | lookups a second | changes | p50 | p99 | slowest | undisturbed | p50 | p99 | slowest | missed | lookups lost |\n" + "|---" * 12 + "|"
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
        place.loader = node.Loader(place, NAMES, 0.001)  # the names that the clients ask for
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
        print(f"{r['what']}, {r['load']:g} lookups a second beside: missed {r['missed']}, not timed {r['untimed']}, {r['lookups']}", file=sys.stderr)
    return 1 if bad else 0
