"""
make bench-hostile: what is left of DNS for one client while another attacks.

A victim at 127.0.0.1 asks 100 names a second over UDP, and as many over TCP; from 127.0.0.2 comes each attack in turn, as fast as one core sends
(hostile.c). Of the victim: questions repeated after 1 s, lost all the same, other rcodes than NOERROR, p50 and p99; /healthz; kubedns's memory
before, in the middle and after; the kernel's memory of its TCP connections in the middle, and 5 s after the attack. Names outside are asked in the
front topology, with a dnsmasq whose server answers some names and not others. The server has one CPU, the attacker another; the victim shares the
server's. All of it is bounded in time and goes to loopback. With --peer the same attacks on other servers, as these are: a table at the end has all beside each other.

Goal: 0 lost, 0 SERVFAIL or REFUSED, p99 below 20 ms, /healthz 200, RSS growth below 8 MB.
"""

import argparse
import contextlib
import json
import os
import random
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
import urllib.request

import dns.message
import hostile_peers
import machine
import questions
import servers
from results import DIRECTORY, save, say

HOSTILE = os.path.join(servers.BUILD, "tests", "bench", "hostile")
VICTIM, ATTACKERS = "127.0.0.1", ("127.0.0.2", "127.0.0.3")


def arguments(argv):
    p = argparse.ArgumentParser(prog="make bench-hostile", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--seconds", type=float, default=6, help="of each attack; the victim asks for 2 more")
    p.add_argument("--attacks", default="", help="only those whose names have this in them")
    p.add_argument("--realtime", action="store_true", help="before whatever else the machine does")
    p.add_argument("--kubedns", nargs="*", default=[], help="more flags, such as --fair-share=off")
    p.add_argument("--peer", action="append", default=[], metavar="NAME[=PROGRAM]", help="another server beside it: coredns=PROGRAM, unbound")
    a = p.parse_args(argv)
    try:
        a.peer = [hostile_peers.read(text) for text in a.peer]
    except ValueError as e:
        p.error(f"--peer: {e}")
    return a


def query(name, type_="A", **kw):
    return dns.message.make_query(name, type_, **kw).to_wire()


def pointers(name):
    """A query with 64 records, their owners a chain of compression pointers."""
    wire = query(name)
    chain = b"".join((0xC000 | (len(wire) + 2 * n - 2 if n else 12)).to_bytes(2, "big") for n in range(2000))
    return wire[:10] + b"\0\x40" + wire[12:] + chain


def attacks(people):
    """{name: (how, count or rate, messages)}"""
    q = questions.Questions(people, "hostile")
    names = [query(q.cluster_a()[0]) for _ in range(256)]
    randoms = [query(f"x{i * 7919 % 100003}.default.svc.cluster.local") for i in range(4096)]
    headless = [query(*q.headless_srv()[:2], use_edns=0, payload=4096) for _ in range(256)]
    long_chains = [pointers(q.cluster_a()[0]) for _ in range(16)]
    draw = random.Random("hostile")
    garbage = [draw.randbytes(draw.randint(1, 512)) for _ in range(4096)]
    return {
        "nothing": ("udp", 1, names),
        "existing names, UDP": ("udp", 0, names),
        "random names, UDP": ("udp", 0, randoms),
        "headless SRV at EDNS 4096, UDP": ("udp", 0, headless),
        "pointers to pointers, UDP": ("udp", 0, long_chains),
        "garbage, UDP": ("udp", 0, garbage),
        "existing names, TCP": ("tcp", 100, names),
        "headless SRV, TCP": ("tcp", 100, headless),
        "pointers to pointers, TCP": ("tcp", 200, long_chains),
        "1,000 connections that never read": ("mute", 1000, headless),
        "connections opened and left": ("connect", 300, names),
    }


class Upstream:
    """Answers A with 192.0.2.1, except names with "dead" in them, which it never answers."""

    def __init__(self):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while True:
            wire, peer = self.socket.recvfrom(4096)
            if b"\x04dead" not in wire:
                end = wire.index(b"\0", 12) + 5
                answer = b"\xc0\x0c\0\1\0\1\0\0\0\1\0\4\xc0\0\2\1"
                self.socket.sendto(wire[:2] + b"\x81\x80\0\1\0\1\0\0\0\0" + wire[12:end] + answer, peer)


class Dnsmasq(servers.Forwarder):
    def answers(self):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 0.2):
            return True
        return False


def write(name, messages):
    path = os.path.join(DIRECTORY, f"hostile-{name}")
    with open(path, "w", encoding="ascii") as f:
        f.writelines(m.hex() + "\n" for m in messages)
    return path


def start(how, source, server, path, seconds, count, cpu, realtime):
    """The victim comes before the server whose CPU it shares: it takes little, and its time is what is measured."""
    urgent = ["chrt", "-r", "6"] if realtime and source == VICTIM else []
    command = [*machine.pinned(cpu, realtime), *urgent, HOSTILE, how, source, str(server.port), path, str(seconds), str(count)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


class Kubedns(servers.Kubedns):
    def health(self):
        return http(self, "/healthz")[0]


def http(server, path):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{server.healthz}{path}", timeout=5) as r:
            return r.status, r.read().decode()
    except OSError as e:
        return getattr(e, "code", 0), str(e)


def metric(server, name):
    found = re.search(rf"^{name}(?:{{[^}}]*}})? (\S+)$", http(server, "/metrics")[1], re.M)
    return float(found.group(1)) if found else None


def kernel_tcp_bytes(server):
    """What the kernel holds in the server's ends of its connections, in those too that no process has any more."""
    out = subprocess.run(["ss", "-Htanm", f"sport = :{server.port}"], capture_output=True, text=True, check=False).stdout
    found = re.findall(r"skmem:\(r(\d+),rb\d+,t\d+,tb\d+,f(\d+),w(\d+)", out)
    return sum(int(n) for line in found for n in line)


def run_attack(a, server, name, attackers, victims):
    """`attackers`: (how, source, file, count); `victims`: (how, file)."""
    ours = isinstance(server, Kubedns)
    here, there = machine.cpus()[:2]
    before = machine.memory_kb(server.process.pid)["VmRSS"]
    asking = [start(how, VICTIM, server, path, a.seconds + 2, 100, here, a.realtime) for how, path in victims]
    time.sleep(1)
    attacking = [start(how, source, server, path, a.seconds, count, there, a.realtime) for how, source, path, count in attackers]
    time.sleep(a.seconds / 2)
    during = {"healthz": server.health(), "readiness": http(server, "/readiness")[1] if ours else None,
              "rss_kb": machine.memory_kb(server.process.pid)["VmRSS"], "kernel_tcp_bytes": kernel_tcp_bytes(server)}  # fmt: skip
    sent = sum(json.loads(p.communicate()[0])["sent"] for p in attacking)
    ended = time.monotonic()
    seen = {how: json.loads(p.communicate()[0]) for (how, _), p in zip(victims, asking)}
    time.sleep(max(0, ended + 5 - time.monotonic()))
    after = {"rss_kb": machine.memory_kb(server.process.pid)["VmRSS"], "kernel_tcp_bytes": kernel_tcp_bytes(server)}
    row = {"server": server.name, "attack": name, "sent": sent, "victims": seen, "rss_before_kb": before, "during": during, "after": after,
           "shed": metric(server, "kubedns_client_shed_total") if ours else None}  # fmt: skip
    for how, v in seen.items():
        other = errors(v)
        say(f"{server.name:8} {name:34} {how:6} lost {v['lost']:3} repeated {v['repeated']:3} of {v['sent']}, {other or 'no'} errors, p50 {v['p50_ms']:6.2f} p99 {v['p99_ms']:7.2f} ms")
    say(f"{'':43} {sent:,} sent, healthz {during['healthz']}, RSS {before} / {during['rss_kb']} / {after['rss_kb']} kB, "
        f"kernel TCP {during['kernel_tcp_bytes'] / 1e6:.1f} MB, 5 s later {after['kernel_tcp_bytes'] / 1e6:.1f}")  # fmt: skip
    return row


def errors(victim):
    """Its rcodes other than an answer's."""
    return {k: n for k, n in victim["rcodes"].items() if k not in ("NOERROR", "NXDOMAIN")}


def run_flooded(a, people, make, anew=False):
    """`anew`: another server for each attack, so that none meets what the one before has left; ours has to bear that."""
    rows = []
    asked = write("asked", [query(questions.Questions(people, "victim").cluster_a()[0]) for _ in range(64)])
    wanted = [(name, write(f"attack-{number}", messages), how, count)
              for number, (name, (how, count, messages)) in enumerate(attacks(people).items()) if a.attacks in name]  # fmt: skip
    for group in [[one] for one in wanted] if anew else [wanted]:
        with make() as server, machine.realtime(a.realtime, server.process.pid):
            for name, path, how, count in group:
                rows.append(run_attack(a, server, name, [(how, ATTACKERS[0], path, count)], [("ask", asked), ("asktcp", asked)]))
    return rows


DEAD_SECONDS = 12  # dnsmasq holds such a name for 10


def run_dead(a, upstream, make):
    """Names that nobody answers, at 3,000 a second from one and from two addresses."""
    rows = []
    a = argparse.Namespace(**{**vars(a), "seconds": max(a.seconds, DEAD_SECONDS)})
    asked = write("outside", [query(f"n{i}.example.com") for i in range(4000)])
    dead = write("dead", [query(f"n{i}.dead.example.com") for i in range(60000)])
    for count in (1, 2):
        name = f"names that nobody answers, {count} address{'es' if count > 1 else ''}"
        if a.attacks not in name:
            continue
        with make(upstream) as server:
            rows.append(run_attack(a, server, name, [("udp", source_, dead, 3000) for source_ in ATTACKERS[:count]], [("ask", asked)]))
    return rows


def front(a, source):
    """kubedns with a dnsmasq behind it that asks this upstream."""

    @contextlib.contextmanager
    def make(upstream):
        with Dnsmasq(DIRECTORY, "dnsmasq-hostile", upstream, cpu=machine.cpus()[1]) as dnsmasq, Kubedns(
            DIRECTORY, source, f"--resolver=127.0.0.1:{dnsmasq.port}", *a.kubedns
        ) as server:
            yield server

    return make


def text_of(row, how):
    """What the victim saw, in a cell."""
    v = row["victims"].get(how)
    if v is None:
        return ""
    failed = sum(errors(v).values())
    bad = f"{v['lost']} lost" + (f", {failed} {'/'.join(errors(v))}" if failed else "") if v["lost"] or failed else "0"
    return f"{bad}; {v['p99_ms']:.1f}" if v["lost"] < v["sent"] else "all"


def table(rows):
    """Markdown: an attack a line, beside each other what each server's victims saw of it."""
    names = list(dict.fromkeys(r["server"] for r in rows))
    out = ["| attack | " + " | ".join(f"{n}: UDP | TCP | health | RSS, MB" for n in names) + " |", "|---" * (1 + 4 * len(names)) + "|"]
    for attack in dict.fromkeys(r["attack"] for r in rows):
        line = [attack]
        for one in names:
            (r,) = [r for r in rows if (r["server"], r["attack"]) == (one, attack)] or [None]
            line += ["", "", "", ""] if r is None else [
                text_of(r, "ask"), text_of(r, "asktcp"), str(r["during"]["healthz"] or "-"), f"{r['rss_before_kb'] / 1024:.0f} to {r['during']['rss_kb'] / 1024:.0f}"]
        out.append("| " + " | ".join(line) + " |")
    return "\n".join(out)


def main(argv):
    a = arguments(argv)
    os.makedirs(DIRECTORY, exist_ok=True)
    people = questions.population.Population(namespaces=100, services=1000, slices=1500)
    objects = os.path.join(DIRECTORY, "hostile-objects")
    shutil.rmtree(objects, ignore_errors=True)
    questions.write_objects(people, objects)
    source, upstream = [f"--objects-dir={objects}"], Upstream().port
    rows = run_flooded(a, people, lambda: Kubedns(DIRECTORY, source, *a.kubedns)) + run_dead(a, upstream, front(a, source))
    lost = [r["attack"] for r in rows for v in r["victims"].values() if v["lost"] or errors(v)]
    with hostile_peers.makers(a.peer, people, source) as peers:
        for make in peers.values():
            rows += run_flooded(a, people, lambda make=make: make(upstream), anew=True) + run_dead(a, upstream, make)
    if a.peer:
        print(table(rows))
    save("hostile", {"rows": rows})
    if lost:
        print(f"the victim lost questions: {', '.join(lost)}", file=sys.stderr)
    return 1 if lost else 0
