"""make bench-node-conntrack: the connection tracking entries of lookups on a node, with and without the node's own DNS.

A node consists of network namespaces. They contain the rules for a DNS Service with two endpoints, as kube-proxy writes them in either of
its modes. Clients look one name up as glibc does: each lookup has its own socket and sends A and AAAA at the same moment (node_lookups.c),
to the Service's address. First the central pods answer. Then, with an empty table, the node's own kubedns and nanny answer.

Measured in both cases: lookups sent per second (the bench fails below --reached of --rate), the number of lookups with both senders ready
at the same moment, and the most conntrack entries in the node's namespace. Also the growth of the counters of `conntrack -S` there.
insert_failed and drop count packets that the race lost. clash_resolve counts packets of the race that the kernel let through nevertheless.
Finally the lookups that were repeated after 1 s, lost after 5 s, or answered wrongly.
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

from results import BUILD, DIRECTORY, save, say

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "helpers"))

from node_places import FIRST_CLIENT  # noqa: E402
from node_world import CENTRAL_TTL, IPTABLES, NFTABLES, NODE_TTL, SERVICE, NodeWorld  # noqa: E402

LOOKUPS = os.path.join(BUILD, "tests", "bench", "node_lookups")
SECOND = "10.244.8.9"  # the address of the second endpoint
COUNTERS = ("insert_failed", "drop", "clash_resolve")
WITHOUT, WITH = "the central pods", "the node's own"


def arguments(argv):
    p = argparse.ArgumentParser(prog="make bench-node-conntrack", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--rate", type=float, default=10_000, help="lookups a second (%(default)s), of two queries each")
    p.add_argument("--seconds", type=float, default=20, help="duration of one measurement (%(default)s)")
    p.add_argument("--clients", type=int, default=60,
                   help="source addresses (%(default)s), at most 64; with fewer, ports are reused more often while their entries exist")  # fmt: skip
    p.add_argument("--reached", type=float, default=0.98, help="the bench fails below this part of --rate (%(default)s)")
    p.add_argument("--proxy", default="nftables,iptables", help="modes of kube-proxy, separated by commas (%(default)s)")
    return p.parse_args(argv)


def replaced(text, **changes):
    for old, new in changes.values():
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


class TwoEndpoints(NodeWorld):
    """A node whose DNS Service has a second endpoint, for UDP."""

    def write_proxy_rules(self):
        self.central("ip", "addr", "add", f"{SECOND}/32", "dev", "eth0")
        self.node("ip", "route", "add", SECOND, "via", "10.244.9.9")
        if self.proxy == "nftables":
            rules = replaced(
                NFTABLES,
                chosen=("mod 1 vmap { 0 : goto endpoint-dns }", "mod 2 vmap { 0 : goto endpoint-dns, 1 : goto endpoint-dns-2 }"),
                second=("\tchain endpoint-dns {", f"\tchain endpoint-dns-2 {{ meta l4proto udp dnat to {SECOND}:53; }}\n\tchain endpoint-dns {{"))  # fmt: skip
            self.node("nft", "-f", "-", input=rules)
            return
        service, first, second = "KUBE-SVC-TCOU7JCQXEZGVUNU", "KUBE-SEP-AAAAAAAAAAAAAAAA", "KUBE-SEP-CCCCCCCCCCCCCCCC"
        rules = replaced(
            IPTABLES,
            chain=(f":{first} ", f":{second} - [0:0]\n:{first} "),
            chosen=(f"-A {service} -j {first}\n", f"-A {service} -m statistic --mode random --probability 0.50000000000 -j {first}\n-A {service} -j {second}\n"),
            second=("COMMIT\n", f"-A {second} -p udp -m udp -j DNAT --to-destination {SECOND}:53\nCOMMIT\n"))  # fmt: skip
        self.node("iptables-restore", "--noflush", input=rules)

    def begin(self):
        """Creates the second endpoint's pod and the clients' addresses."""
        self.start_kubedns("central-2", self.central, f"--dns-bind-address={SECOND}", "--healthz-port=8082", f"--ttl={CENTRAL_TTL}")
        self.until(lambda: self.ask_once(SECOND) == CENTRAL_TTL, what="an answer of the second endpoint")

    def add_clients(self, count):
        for i in range(count):
            self.pod("ip", "addr", "add", f"10.244.1.{FIRST_CLIENT + i}/32", "dev", "eth0")
        self.node("ip", "route", "add", "10.244.1.0/24", "dev", "veth-pod")

    def counters(self):
        text = self.node("conntrack", "-S").stdout
        return {name: sum(int(n) for n in re.findall(rf"\b{name}=(\d+)", text)) for name in COUNTERS}

    def entries_max(self):
        return int(self.node("cat", "/proc/sys/net/netfilter/nf_conntrack_max").stdout)


class Watch:
    """Reads the number of entries in the node's namespace ten times a second. `peak` is the maximum."""

    LOOP = "while :; do cat /proc/sys/net/netfilter/nf_conntrack_count; sleep 0.1; done"

    def __init__(self, space):
        self.space = space

    def __enter__(self):
        self.out = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(["ip", "netns", "exec", self.space.name, "sh", "-c", self.LOOP], stdout=self.out)
        return self

    def __exit__(self, *_):
        time.sleep(0.2)  # time for one more reading
        self.process.kill()
        self.process.wait()
        self.out.seek(0)
        text = self.out.read()
        self.peak = max(int(n) for n in text[: text.rfind("\n")].split())
        self.out.close()


def run(a, world, server):
    """Runs the clients to their end and returns a row."""
    world.node("conntrack", "-F")
    before = world.counters()
    command = ["ip", "netns", "exec", world.pod.name, LOOKUPS, str(a.clients), str(a.rate), str(a.seconds), SERVICE]
    with Watch(world.node) as watch:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10 * a.seconds + 60, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"the clients ended with an error: {done.stderr}")
    grown = {name: n - before[name] for name, n in world.counters().items()}
    got = json.loads(done.stdout)
    ours = NODE_TTL if server == WITH else CENTRAL_TTL
    return {"proxy": world.proxy, "server": server, "rate": got["lookups"] / got["seconds"], **got, "by_others": sum(got["ttls"].values()) - got["ttls"].get(str(ours), 0),
            "entries": watch.peak, "entries_max": world.entries_max(), **grown}  # fmt: skip


def run_proxy(a, proxy):
    """Measures without the node's own DNS and then with it."""
    with tempfile.TemporaryDirectory(prefix="node") as directory:
        world = TwoEndpoints(pathlib.Path(directory), proxy)
        try:
            world.begin()
            world.add_clients(a.clients)
            rows = [run(a, world, WITHOUT)]
            world.start_node()
            world.wait_node()
            return [*rows, run(a, world, WITH)]
        except BaseException:
            print(world.logs(), file=sys.stderr)
            raise
        finally:
            world.logs = lambda: ""  # the logs matter only after a failure
            world.close()


def table(rows):
    """A table as in the README.md of this directory."""
    header = ("| kube-proxy | server | lookups | a second | at the same moment | entries | insert_failed | drop | clash_resolve | retried | lost | p50 | p99 |\n"
              + "|---" * 13 + "|")  # fmt: skip
    lines = [f"| {r['proxy']} | {r['server']} | {r['lookups']:,} | {r['rate']:,.0f} | {r['together'] / r['lookups']:.0%} | {r['entries']:,} | {r['insert_failed']:,} | {r['drop']:,} | "
             f"{r['clash_resolve']:,} | {r['again']:,} | {r['lost']:,} | {r['p50_us'] / 1000:.2f} ms | {r['p99_us'] / 1000:.1f} ms |" for r in rows]  # fmt: skip
    return "\n".join([header, *lines])


def faults(a, rows):
    """Returns a sentence for each violated condition."""
    for r in rows:
        where = f"{r['proxy']}, {r['server']}"
        if r["rate"] < a.reached * a.rate:
            yield f"{where}: {r['rate']:,.0f} lookups a second were sent, not {a.rate:,.0f}"
        if r["by_others"]:
            yield f"{where}: {r['by_others']} answers from other servers"
        bad = {name: r[name] for name in ("lost", "wrong", *COUNTERS) if r["server"] == WITH and r[name]}
        if bad:
            yield f"{where}: {bad}"


def main(argv):
    a = arguments(argv)
    os.makedirs(DIRECTORY, exist_ok=True)
    rows = []
    for proxy in a.proxy.split(","):
        rows += run_proxy(a, proxy)
        for r in rows[-2:]:
            say(f"{r['proxy']}, {r['server']}: {r['rate']:,.0f} of {a.rate:,.0f} lookups a second; {r['entries']:,} entries at most, of {r['entries_max']:,}; "
                + ", ".join(f"{name} {r[name]:,}" for name in COUNTERS) + f"; retried {r['again']:,}, lost {r['lost']}, wrong {r['wrong']}; slowest {r['max_us'] / 1000:.1f} ms")  # fmt: skip
    save("node-conntrack", {"rows": rows})
    print(f"\n{table(rows)}")
    wrong = list(faults(a, rows))
    for line in wrong:
        print(line, file=sys.stderr)
    return 1 if wrong else 0
