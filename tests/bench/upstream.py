"""
make bench-upstream: what clients notice when one of two upstream servers is in trouble, or both are.

Clients ask as glibc does with one server in resolv.conf: UDP, a socket for each query, 5 s for an answer, two attempts, at once again after SERVFAIL or
REFUSED, over TCP after TC; with EDNS (`options edns0`), so that an extended error is seen. They ask new names, which no cache has, and in the case in
which both servers are silent also names that were asked before and whose TTL has passed since.

Trouble of each kind begins while all is well, at the server that was sent most queries in the last second, and ends after some seconds. Then it is
measured how long it takes until that server is sent queries again.

Servers: the classic and the front topology (kubedns, the nanny, its dnsmasq, with the arguments of the manifests), and CoreDNS with the forward and
cache lines of kubeadm's Corefile (PEERS/coredns). All are asked at the same time, each with two upstream servers of its own.

Goals: with one bad server no failed lookup and p99 at most 400 ms (front), no failed lookup (classic, silent and refusing server); with both silent no
failed lookup of a name that was asked before.
"""

import argparse
import asyncio
import collections
import contextlib
import os
import random
import struct
import time

import upstream_servers as upstreams
from results import DIRECTORY, save, say
from servers import Kubedns, Server
from waiting import free_port

COREDNS = "GOBIN={} CGO_ENABLED=0 go install github.com/coredns/coredns@v1.14.7"
TIMEOUT_S, ATTEMPTS = 5, 2
WARM_S, WARM_RATE = 3, 60
REPEATED = 200
HEALED_S = 40
EDE = 15

# name: (mode, servers in trouble, queries a second, seconds, prefix of the names, EDNS size)
CASES = {
    "healthy": (upstreams.HEALTHY, 1, 120, 10, "new", 1200),
    "silent": (upstreams.SILENT, 1, 120, 10, "new", 1200),
    "silent, few queries": (upstreams.SILENT, 1, 5, 20, "new", 1200),
    "refuses": (upstreams.REFUSES, 1, 120, 10, "new", 1200),
    "servfail": (upstreams.SERVFAIL, 1, 120, 10, "new", 1200),
    "slow": (upstreams.SLOW, 1, 120, 10, "new", 1200),
    "drops large": (upstreams.DROPS_LARGE, 1, 40, 10, "big", 4096),
    "both silent": (upstreams.SILENT, 2, 120, 10, "new", 1200),
    "both servfail": (upstreams.SERVFAIL, 2, 120, 10, "new", 1200),
}


def arguments(argv):
    p = argparse.ArgumentParser(prog="make bench-upstream", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--peers", default="/tmp/peer", help="the directory of coredns")
    p.add_argument("--cases", default="", help="only those whose names have this in them")
    p.add_argument("--servers", default="classic,front,coredns")
    p.add_argument("--dnsmasq", action="append", default=[], metavar="ARGUMENT", help="one more argument of dnsmasq, such as --all-servers")
    p.add_argument("--kubedns", action="append", default=[], metavar="ARGUMENT", help="one more argument of kubedns")
    return p.parse_args(argv)


# Servers.


class Nanny(Server):
    """The nanny with its dnsmasq, the ConfigMap's upstreams, and the arguments of the manifests."""

    program = os.path.join(os.path.dirname(os.path.dirname(Kubedns.program)), "bin", "nanny")

    def __init__(self, name, ports, kubedns, *arguments):
        self.name, self.ports, self.kubedns, self.arguments = name, ports, kubedns, arguments
        super().__init__(DIRECTORY)
        os.mkdir(self.path("config"))
        os.mkdir(self.path("run"))
        os.chmod(self.path("run"), 0o777)
        self.write("config/upstreamNameservers", str([f"127.0.0.1:{p}" for p in ports]).replace("'", '"'))

    def command(self):
        return [self.program, f"-configDir={self.path('config')}", "-restartDnsmasq=true", f"-runDir={self.path('run')}", f"-metricsAddr=127.0.0.1:{free_port()}",
                f"-kubednsServer=127.0.0.1:{self.kubedns}", "-drain=0s", "--", "-k", "--cache-size=1000", "--dns-forward-max=6000", "--bind-interfaces", "--listen-address=127.0.0.1",
                f"--port={self.port}", *self.arguments]  # fmt: skip

    def answers(self):
        return answers(self.port)


class CoreDns(Server):
    name = "upstream-coredns"

    def __init__(self, program, ports):
        super().__init__(DIRECTORY)
        self.program, self.ports = program, ports

    def command(self):
        servers = " ".join(f"127.0.0.1:{p}" for p in self.ports)
        return [self.program, "-conf", self.write("Corefile", f".:{self.port} {{\n bind 127.0.0.1\n errors\n forward . {servers} {{\n  max_concurrent 1000\n }}\n cache 30\n loadbalance\n}}\n")]

    def answers(self):
        return answers(self.port)


def answers(port):
    return asyncio.run(lookup(port, "host-000.ready.example", 1200, timeout_s=0.3))["failed"] is False


class FrontKubedns(Kubedns):
    name = "upstream-front-kubedns"

    def answers(self):
        return answers(self.port)


class BehindKubedns(Kubedns):
    name = "upstream-classic-kubedns"


def start(stack, a, name, ports):
    """The servers of this topology, from behind to front; the port that clients ask."""
    objects = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "conf", "example", "objects")
    source = [f"--objects-dir={objects}", *a.kubedns]
    if name == "coredns":
        return stack.enter_context(CoreDns(os.path.join(a.peers, "coredns"), ports)).port
    if name == "front":
        cache = stack.enter_context(Nanny("upstream-front-nanny", ports, 53, *a.dnsmasq))
        return stack.enter_context(FrontKubedns(DIRECTORY, source, f"--config-dir={cache.path('config')}", f"--resolver=127.0.0.1:{cache.port}", "--answer-cache=1M")).port
    behind = stack.enter_context(BehindKubedns(DIRECTORY, source, f"--nameservers={','.join(f'127.0.0.1:{p}' for p in ports)}"))
    return stack.enter_context(Nanny("upstream-classic-nanny", ports, behind.port, f"--server=/cluster.local/127.0.0.1#{behind.port}", *a.dnsmasq)).port


# Clients.


class Socket(asyncio.DatagramProtocol):
    def __init__(self, id_):
        self.id, self.came = id_, asyncio.get_running_loop().create_future()

    def datagram_received(self, data, addr):
        if data[:2] == self.id and not self.came.done():
            self.came.set_result(data)

    def error_received(self, exc):
        if not self.came.done():
            self.came.set_result(b"")


def message(id_, name, size):
    labels = b"".join(bytes([len(label)]) + label for label in name.encode().split(b"."))
    return id_ + b"\1\0\0\1\0\0\0\0\0\1" + labels + b"\0\0\1\0\1" + b"\0\0\x29" + struct.pack("!H", size) + b"\0\0\0\0\0\0"


def extended_error(wire):
    """INFO-CODE of the reply's first extended error, or None; the OPT is the last record of replies that have no other additional one."""
    at = wire.rfind(b"\0\0\x29")
    if wire[10:12] == b"\0\0" or at < 12:
        return None
    option = at + 11
    while option + 4 <= len(wire):
        code, length = struct.unpack_from("!HH", wire, option)
        if code == EDE and length >= 2:
            return struct.unpack_from("!H", wire, option + 4)[0]
        option += 4 + length
    return None


async def over_tcp(port, query, timeout_s):
    async def ask():
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(struct.pack("!H", len(query)) + query)
            return await reader.readexactly(struct.unpack("!H", await reader.readexactly(2))[0])
        finally:
            writer.close()

    try:
        return await asyncio.wait_for(ask(), timeout_s)
    except (OSError, asyncio.TimeoutError, asyncio.IncompleteReadError):
        return b""


async def lookup(port, name, size, timeout_s=TIMEOUT_S):
    """One name's A: whether it failed, how long it took, what came instead of an answer, and the extended errors."""
    begun, seen, extended = time.monotonic(), [], []
    first_s = None
    for _ in range(ATTEMPTS):
        id_ = struct.pack("!H", random.getrandbits(16))
        query = message(id_, name, size)
        transport, protocol = await asyncio.get_running_loop().create_datagram_endpoint(lambda id_=id_: Socket(id_), remote_addr=("127.0.0.1", port))
        transport.sendto(query)
        try:
            wire = await asyncio.wait_for(protocol.came, timeout_s)
        except asyncio.TimeoutError:
            wire = None
        transport.close()
        if wire and wire[2] & 2:
            wire = await over_tcp(port, query, timeout_s)
        if wire is not None and first_s is None:
            first_s = time.monotonic() - begun
        if wire and (code := extended_error(wire)) is not None:
            extended.append(code)
        if wire and wire[3] & 15 == 0 and wire[6:8] != b"\0\0":
            return {"failed": False, "s": time.monotonic() - begun, "first_s": first_s, "seen": seen, "extended": extended}
        seen.append("timeout" if wire is None else "broken" if not wire else {0: "empty", 2: "SERVFAIL", 5: "REFUSED"}.get(wire[3] & 15, str(wire[3] & 15)))
    return {"failed": True, "s": time.monotonic() - begun, "first_s": first_s, "seen": seen, "extended": extended}


async def steadily(port, names, rate, size):
    """Asks for all of them, `rate` a second, and waits for the last."""
    begun, tasks = time.monotonic(), []
    for n, name in enumerate(names):
        await asyncio.sleep(max(0, begun + n / rate - time.monotonic()))
        tasks.append(asyncio.ensure_future(lookup(port, name, size)))
    return await asyncio.gather(*tasks)


def summary(looked_up):
    times = sorted(r["s"] for r in looked_up if not r["failed"])
    firsts = [r["first_s"] for r in looked_up if r["first_s"] is not None]

    def at(part):
        return round(times[min(len(times) - 1, int(part * len(times)))] * 1e3, 1) if times else None

    return {"asked": len(looked_up), "failed": sum(r["failed"] for r in looked_up), "retried": sum(bool(r["seen"]) for r in looked_up),
            "first_ms": round(min(firsts) * 1e3, 1) if firsts else None, "p50_ms": at(0.5), "p99_ms": at(0.99), "max_ms": round(times[-1] * 1e3, 1) if times else None,
            "seen": dict(collections.Counter(s for r in looked_up for s in r["seen"])),
            "extended": dict(collections.Counter(c for r in looked_up for c in r["extended"]))}  # fmt: skip


# Cases.


async def measure(port, servers, case):
    """One case at one server, whose upstreams are `servers`."""
    mode, bad, rate, seconds, prefix, size = CASES[case]
    tag = f"{random.getrandbits(32):08x}"
    again = [f"again{n}.{tag}.example" for n in range(REPEATED)]
    await steadily(port, again, WARM_RATE * 2, size)
    before = list(servers.counts)
    await steadily(port, [f"warm{n}.{tag}.example" for n in range(WARM_S * WARM_RATE)], WARM_RATE, size)
    sent = [after - b for after, b in zip(servers.counts, before)]
    busy = sent.index(max(sent))
    row = {"upstream_queries_healthy": round(sum(sent) / (WARM_S * WARM_RATE), 2)}
    for n in range(2):
        servers.modes[n] = mode if bad == 2 or n == busy else upstreams.HEALTHY
    before = list(servers.counts)
    asking = [steadily(port, [f"{prefix}{n}.{tag}.example" for n in range(rate * seconds)], rate, size)]
    if bad == 2:
        asking.append(steadily(port, again, REPEATED / (seconds - 2), size))
    new, *repeated = await asyncio.gather(*asking)
    row.update(summary(new))
    row["upstream_queries"] = round(sum(after - b for after, b in zip(servers.counts, before)) / len(new), 2)
    if repeated:
        row["repeated"] = summary(repeated[0])
    if mode != upstreams.HEALTHY:
        for n in range(2):
            servers.modes[n] = upstreams.HEALTHY
        healed, count, n, failed = time.monotonic(), servers.counts[busy], 0, []
        await asyncio.sleep(0.1)
        while servers.counts[busy] == count and time.monotonic() < healed + HEALED_S:
            failed.append(asyncio.ensure_future(lookup(port, f"healed{n}.{tag}.example", 1200)))
            n += 1
            await asyncio.sleep(0.05)
        row["healed_s"] = round(time.monotonic() - healed, 1) if servers.counts[busy] > count else None
        row["failed_healed"] = sum(r["failed"] for r in await asyncio.gather(*failed))
    return row


def run_case(a, names, case):
    with contextlib.ExitStack() as stack:
        placed = []
        for name in names:
            servers = stack.enter_context(upstreams.Upstreams([free_port(), free_port()]))
            placed.append((name, start(stack, a, name, servers.ports), servers))

        async def all_of_them():
            return await asyncio.gather(*(measure(port, servers, case) for _, port, servers in placed))

        rows = asyncio.run(all_of_them())
    for name, row in zip(names, rows):
        row.update({"server": name, "case": case})
        say(f"{case:20} {name:8} failed {row['failed']:4} of {row['asked']}, asked again {row['retried']:4}, p50 {row['p50_ms']} p99 {row['p99_ms']} max {row['max_ms']} ms, first {row['first_ms']} ms, "
            f"{row['seen'] or ''} EDE {row['extended'] or '-'}, {row['upstream_queries']} upstream queries each, healed after {row.get('healed_s', '-')} s")  # fmt: skip
        if "repeated" in row:
            r = row["repeated"]
            say(f"{'':20} {'':8} known names: failed {r['failed']} of {r['asked']}, p99 {r['p99_ms']} ms, {r['seen'] or ''} EDE {r['extended'] or '-'}")
    return rows


def goals(rows):
    by = {(r["server"], r["case"]): r for r in rows}
    out = []
    for (server, case), r in by.items():
        if server == "coredns" or case == "healthy":
            continue
        if CASES[case][1] == 2:
            if CASES[case][0] == upstreams.SILENT:
                out.append({"what": f"{server}, {case}: known names are answered", "holds": r["repeated"]["failed"] == 0, "figures": f"{r['repeated']['failed']} of {r['repeated']['asked']} failed"})
        elif server == "front":
            out.append({"what": f"front, {case}: no failed lookup, p99 at most 400 ms", "holds": r["failed"] == 0 and r["p99_ms"] <= 400, "figures": f"{r['failed']} failed, p99 {r['p99_ms']} ms"})
        elif case in ("silent", "silent, few queries", "refuses"):
            out.append({"what": f"classic, {case}: no failed lookup", "holds": r["failed"] == 0, "figures": f"{r['failed']} of {r['asked']} failed"})
    return out


def main(argv):
    a = arguments(argv)
    names = a.servers.split(",")
    if "coredns" in names and not os.path.exists(os.path.join(a.peers, "coredns")):
        say(f"without CoreDNS: {a.peers}/coredns is not there; {COREDNS.format(a.peers)}")
        names.remove("coredns")
    rows = [row for case in CASES if a.cases in case for row in run_case(a, names, case)]
    reached = goals(rows)
    for goal in reached:
        say(f"{goal['what']}: {'holds' if goal['holds'] else 'missed'} ({goal['figures']})")
    save("upstream", {"rows": rows, "goals": reached})
    return 0 if all(goal["holds"] for goal in reached) else 1
