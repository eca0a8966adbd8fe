"""make bench-hostile: the DNS service that remains for one client while another attacks.

A victim at 127.0.0.1 sends 100 queries a second over UDP, and as many over TCP. An attacker at 127.0.0.2 sends one kind of attack after the
other, as fast as one core can send (hostile.c). The server has one CPU, which it shares with the victim. The attacker has another.
Every attack is limited in time and stays on loopback. External names are tested in the front topology and in the classic topology.
The nanny's upstream server answers some of these names and never answers the others. In the classic topology, the attacks are those in
which dnsmasq itself loses queries: open TCP connections and external names. The bench shows these losses, and does not fail because of them.
In both topologies, one case is no attack: the ConfigMap gets 20,000 stub domains. dnsmasq runs under the nanny, with the manifests' arguments.

Measured for the victim: queries repeated after 1 s, queries finally lost, rcodes other than NOERROR, p50 and p99. Measured for the
server: /healthz, its memory before, during and after the attack (in the classic topology, the memory of the nanny and dnsmasq), and the
kernel memory of its TCP connections during the attack and 5 s after it.

With --peer, other servers get the same attacks, with their own defaults. A table at the end compares all servers.

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
import upstream_engines as engines
from results import DIRECTORY, save, say

HOSTILE = os.path.join(servers.BUILD, "tests", "bench", "hostile")
VICTIM, ATTACKERS = "127.0.0.1", ("127.0.0.2", "127.0.0.3")


def arguments(argv):
    p = argparse.ArgumentParser(prog="make bench-hostile", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--seconds", type=float, default=6, help="duration of one attack (%(default)s); the victim queries for 2 s longer")
    p.add_argument("--attacks", default="", help="only attacks whose names contain this text")
    p.add_argument("--realtime", action="store_true", help="server, victim and attacker run with priority over all other work (chrt -r)")
    p.add_argument("--kubedns", nargs="*", default=[], help="additional flags of kubedns, such as --fair-share=off")
    p.add_argument("--peer", action="append", default=[], metavar="NAME[=PROGRAM]", help="attack this server too: coredns=PROGRAM or unbound")
    a = p.parse_args(argv)
    try:
        a.peer = [hostile_peers.read(text) for text in a.peer]
    except ValueError as e:
        p.error(f"--peer: {e}")
    return a


def query(name, type_="A", **kw):
    return dns.message.make_query(name, type_, **kw).to_wire()


def pointers(name):
    """A query with 64 records, whose owners are a chain of compression pointers."""
    wire = query(name)
    chain = b"".join((0xC000 | (len(wire) + 2 * n - 2 if n else 12)).to_bytes(2, "big") for n in range(2000))
    return wire[:10] + b"\0\x40" + wire[12:] + chain


def attacks(people):
    """Returns the attacks: {name: (how, count or rate, messages)}."""
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
    """Answers A queries with 192.0.2.1. It never answers queries for names that contain "dead"."""

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


STUB_DOMAINS = 20000


class Nanny(engines.Nanny):
    """The nanny and its dnsmasq."""

    def __init__(self, name, upstream, kubedns, *arguments, cpu=None):
        super().__init__(name, [upstream], kubedns, *arguments, address="127.0.0.1", cpu=cpu)

    def add_stub_domains(self):
        """Replaces the ConfigMap's stub domains at once."""
        new = self.write("config/..new", json.dumps({f"d{n}.example.net": [f"127.0.0.1:{self.ports[0]}"] for n in range(STUB_DOMAINS)}))
        os.rename(new, self.path("config/stubDomains"))


def write(name, messages):
    path = os.path.join(DIRECTORY, f"hostile-{name}")
    with open(path, "w", encoding="ascii") as f:
        f.writelines(m.hex() + "\n" for m in messages)
    return path


def start(how, source, server, path, seconds, count, cpu, realtime):
    """
    Starts the victim or an attacker. The victim has priority over the server on the same CPU, because the bench measures the victim's
    latency. The victim needs little CPU time.
    """
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


def rss_kb(server):
    """The memory of the server and its descendants. One of these may end at any moment: dnsmasq has a process for each TCP connection."""
    total = 0
    for pid in machine.family(server.process.pid):
        with contextlib.suppress(OSError):
            total += machine.memory_kb(pid).get("VmRSS", 0)
    return total


def kernel_tcp_bytes(server):
    """The kernel memory of the server's TCP connections, including connections that no process owns any more."""
    out = subprocess.run(["ss", "-Htanm", f"sport = :{server.port}"], capture_output=True, text=True, check=False).stdout
    found = re.findall(r"skmem:\(r(\d+),rb\d+,t\d+,tb\d+,f(\d+),w(\d+)", out)
    return sum(int(n) for line in found for n in line)


def run_attack(a, server, name, attackers, victims, change=None):
    """Runs one attack. An attacker is (how, source, file, count), and a victim is (how, file). `change` is called when the attack begins."""
    ours = isinstance(server, Kubedns)
    here, there = machine.cpus()[:2]
    before = rss_kb(server)
    asking = [start(how, VICTIM, server, path, a.seconds + 2, 100, here, a.realtime) for how, path in victims]
    time.sleep(1)
    attacking = [start(how, source, server, path, a.seconds, count, there, a.realtime) for how, source, path, count in attackers]
    if change:
        change()
    time.sleep(a.seconds / 2)
    during = {"healthz": server.health(), "readiness": http(server, "/readiness")[1] if ours else None,
              "rss_kb": rss_kb(server), "kernel_tcp_bytes": kernel_tcp_bytes(server)}  # fmt: skip
    sent = sum(json.loads(p.communicate()[0])["sent"] for p in attacking)
    ended = time.monotonic()
    seen = {how: json.loads(p.communicate()[0]) for (how, _), p in zip(victims, asking)}
    time.sleep(max(0, ended + 5 - time.monotonic()))
    after = {"rss_kb": rss_kb(server), "kernel_tcp_bytes": kernel_tcp_bytes(server)}
    row = {"server": server.name, "attack": name, "sent": sent, "victims": seen, "rss_before_kb": before, "during": during, "after": after,
           "shed": metric(server, "kubedns_client_shed_total") if ours else None}  # fmt: skip
    for how, v in seen.items():
        other = errors(v)
        say(f"{server.name:8} {name:34} {how:6} lost {v['lost']:3} repeated {v['repeated']:3} of {v['sent']}, {other or 'no'} errors, p50 {v['p50_ms']:6.2f} p99 {v['p99_ms']:7.2f} ms")
    say(f"{'':43} {sent:,} sent, healthz {during['healthz']}, RSS {before} / {during['rss_kb']} / {after['rss_kb']} kB, "
        f"kernel TCP {during['kernel_tcp_bytes'] / 1e6:.1f} MB, 5 s later {after['kernel_tcp_bytes'] / 1e6:.1f}")  # fmt: skip
    return row


def errors(victim):
    """Returns the counts of the rcodes in the victim's replies, without NOERROR and NXDOMAIN."""
    return {k: n for k, n in victim["rcodes"].items() if k not in ("NOERROR", "NXDOMAIN")}


def run_flooded(a, people, make, restart=False, only=None):
    """`only` has the names of some attacks. With `restart`, each attack gets a new server, so an earlier attack cannot affect it. Our server gets no restart: it must cope with all attacks."""
    rows = []
    asked = write("asked", [query(questions.Questions(people, "victim").cluster_a()[0]) for _ in range(64)])
    wanted = [(name, write(f"attack-{number}", messages), how, count)
              for number, (name, (how, count, messages)) in enumerate(attacks(people).items())
              if a.attacks in name and (only is None or name in only)]  # fmt: skip
    for group in [[one] for one in wanted] if restart else [wanted]:
        with make() as server, machine.realtime(a.realtime, server.process.pid):
            for name, path, how, count in group:
                rows.append(run_attack(a, server, name, [(how, ATTACKERS[0], path, count)], [("ask", asked), ("asktcp", asked)]))
    return rows


DEAD_SECONDS = 12  # dnsmasq keeps such a query for 10 s
OUTSIDE = {"names that no server answers": "dead", "new external names": "new"}


def run_outside(a, people, upstream, make, rates=((3000, 1), (3000, 2))):
    """
    The attacks send external names that no server answers, and external names that nobody has queried before. `rates` has the queries a
    second and the number of addresses. The victim looks up cluster names and new external names in turn.
    """
    rows = []
    a = argparse.Namespace(**{**vars(a), "seconds": max(a.seconds, DEAD_SECONDS)})
    q = questions.Questions(people, "victim")
    asked = write("outside", [query(name) for i in range(2000) for name in (q.cluster_a()[0], f"n{i}.example.com")])
    for kind, label in OUTSIDE.items():
        path = write(label, [query(f"n{i}.{label}.example.com") for i in range(60000)])
        for rate, count in rates:
            name = f"{kind}, {rate} a second, {count} address{'es' if count > 1 else ''}"
            if a.attacks not in name:
                continue
            with make(upstream) as server:
                rows.append(run_attack(a, server, name, [("udp", source_, path, rate) for source_ in ATTACKERS[:count]], [("ask", asked)]))
    name = f"no attack, {STUB_DOMAINS:,} new stub domains"
    if a.attacks in name:
        with make(upstream) as server:
            if add := getattr(server, "add_stub_domains", None):  # a peer has no such ConfigMap
                rows.append(run_attack(a, server, name, [], [("ask", asked)], add))
    return rows


def front(a, source):
    """The front topology: kubedns forwards to the nanny's dnsmasq, which forwards to this upstream."""

    @contextlib.contextmanager
    def make(upstream):
        with Nanny("front-nanny", upstream, 53, cpu=machine.cpus()[1]) as nanny, Kubedns(
            DIRECTORY, source, f"--resolver=127.0.0.1:{nanny.port}", f"--config-dir={nanny.path('config')}", "--answer-cache=1M", *a.kubedns
        ) as server:
            server.add_stub_domains = nanny.add_stub_domains
            yield server

    return make


class Classic(Nanny):
    """The nanny and its dnsmasq in front of a kubedns."""

    def __init__(self, kubedns, upstream):
        super().__init__("classic", upstream, kubedns.port, f"--server=/cluster.local/127.0.0.1#{kubedns.port}")
        self.behind = kubedns

    def health(self):
        return self.behind.health()


CLASSIC = ("nothing", "1,000 connections that never read", "connections opened and left")


def run_classic(a, people, source, upstream):
    @contextlib.contextmanager
    def make(upstream):
        with Kubedns(DIRECTORY, source, "--negative-ttl=0", cpu=machine.cpus()[1]) as kubedns, Classic(kubedns, upstream) as server:
            yield server

    rows = run_flooded(a, people, lambda: make(upstream), restart=True, only=CLASSIC)
    return rows + run_outside(a, people, upstream, make, ((300, 1), (1000, 1), (3000, 1)))


def text_of(row, how):
    """Returns the victim's results as the text of a table cell."""
    v = row["victims"].get(how)
    if v is None:
        return ""
    failed = sum(errors(v).values())
    bad = f"{v['lost']} lost" + (f", {failed} {'/'.join(errors(v))}" if failed else "") if v["lost"] or failed else "0"
    return f"{bad}; {v['p99_ms']:.1f}" if v["lost"] < v["sent"] else "all"


def table(rows):
    """A Markdown table with one attack per line, and a column for the victims of each server."""
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
    rows = run_flooded(a, people, lambda: Kubedns(DIRECTORY, source, *a.kubedns)) + run_outside(a, people, upstream, front(a, source))
    lost = [r["attack"] for r in rows for v in r["victims"].values() if v["lost"] or errors(v)]
    rows += run_classic(a, people, source, upstream)
    with hostile_peers.makers(a.peer, people, source) as peers:
        for make in peers.values():
            rows += run_flooded(a, people, lambda make=make: make(upstream), restart=True) + run_outside(a, people, upstream, make)
    print(table(rows))
    save("hostile", {"rows": rows})
    if lost:
        print(f"the victim lost queries or got errors in: {', '.join(lost)}", file=sys.stderr)
    return 1 if lost else 0
