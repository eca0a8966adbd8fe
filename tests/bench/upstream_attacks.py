"""Attacks of one client on the share of another, for upstream.py. They need the bench's own network namespace.

names: each attacking address sends NEW_NAMES new names a second while both upstream servers are silent. An innocent client looks up
QUERIES cluster names. Half of them exist. It sends each query once, and an answer is lost if it does not come within LOST_S.

unanswered names: both upstream servers are healthy. One address sends names that get no answer, or an answer after 3 s, because their own
name servers are in trouble. The innocent client looks up LOOKED_UP new external names, each with one query. The attack begins LEAD_S before:
the servers' other clients are silent, as at night, so only the attack's names tell the engine how the upstream servers are. Each measured
server has two upstream servers of its own. With unbound, there are also upstream servers that speak TLS. Measured servers run at the same
time, except classic with dnsmasq, which takes the whole processor at 300 names a second.

connections: one address opens CONNECTIONS idle TCP connections, and opens them again when the server closes them. The innocent client
sends TCP_QUERIES queries over TCP, each on a new connection.

The clients' addresses are not loopback addresses, because unbound has no limits for those.
"""

import asyncio
import contextlib
import functools
import multiprocessing
import os
import random
import select
import socket
import subprocess
import time

import upstream_clients as clients
import upstream_engines as engines
import upstream_servers as upstreams
from results import say
from waiting import free_port

SERVER, ATTACKERS = "10.64.0.1", ("10.64.0.2", "10.64.0.3")
SERVERS = ("classic", "front", "classic-unbound", "front-unbound")  # the servers that know cluster names
NEW_NAMES, QUERIES, RATE, LOST_S = 3000, 3600, 300, 5
CONNECTIONS, TCP_QUERIES = 1200, 18
GOALS = ("classic-unbound", "front", "front-unbound")
LOOKED_UP, LOOKUP_RATE, LEAD_S = 80, 10, 20


def addresses():
    """Adds the addresses to the namespace's loopback interface. Returns whether the bench has its own namespace."""
    if os.environ.get("BENCH_NETWORK") != "entered":
        return False
    for address in (SERVER, *ATTACKERS):
        subprocess.run(["ip", "address", "add", f"{address}/32", "dev", "lo"], check=True)
    clients.ADDRESS = SERVER
    return True


def send_names(source, port, sent, rate=NEW_NAMES, prefix="x"):
    """Sends `rate` queries a second until the parent ends this process."""
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.bind((source, 0))
    s.connect((SERVER, port))
    s.setblocking(False)
    tag, begun, parent = f"{random.getrandbits(32):08x}", time.monotonic(), os.getppid()
    while os.getppid() == parent:
        while sent.value < (time.monotonic() - begun) * rate:
            with contextlib.suppress(OSError):
                s.send(clients.message(os.urandom(2), f"{prefix}{sent.value}.{tag}.example", 1200))
            sent.value += 1
        with contextlib.suppress(OSError):
            while s.recv(4096):
                pass
        time.sleep(0.002)


def hold_connections(source, port, opened):
    """Keeps CONNECTIONS idle connections open until the parent ends this process."""
    poller, held, parent = select.epoll(), {}, os.getppid()
    while os.getppid() == parent:
        for _ in range(min(50, CONNECTIONS - len(held))):
            s = socket.socket()
            s.setblocking(False)
            s.bind((source, 0))
            s.connect_ex((SERVER, port))
            held[s.fileno()] = s
            poller.register(s, select.EPOLLIN | select.EPOLLRDHUP)
            opened.value += 1
        for fd, _ in poller.poll(0.01):
            held.pop(fd).close()


@contextlib.contextmanager
def attack(run, sources, port):
    """Runs the attack from each source. Yields the counters."""
    counters = [multiprocessing.Value("l", 0, lock=False) for _ in sources]
    running = [multiprocessing.Process(target=run, args=(source, port, c), daemon=True) for source, c in zip(sources, counters)]
    for process in running:
        process.start()
    try:
        yield counters
    finally:
        for process in running:
            process.terminate()
            process.join()


async def ask_steadily(port, queries, rate):
    """Sends each query once. `queries` are pairs of a name and the expected rcode. Returns the number of lost queries and the longest time of an answer."""

    async def one(name, rcode):
        id_, begun = os.urandom(2), time.monotonic()
        transport, protocol = await asyncio.get_running_loop().create_datagram_endpoint(lambda: clients.Socket(id_), remote_addr=(SERVER, port))
        try:
            transport.sendto(clients.message(id_, name, 1200))
            wire = await asyncio.wait_for(protocol.came, LOST_S)
        except asyncio.TimeoutError:
            wire = b""
        finally:
            transport.close()
        return bool(wire) and wire[3] & 15 == rcode, time.monotonic() - begun

    begun, tasks = time.monotonic(), []
    for n, query in enumerate(queries):
        await asyncio.sleep(max(0, begun + n / rate - time.monotonic()))
        tasks.append(asyncio.ensure_future(one(*query)))
    done = await asyncio.gather(*tasks)
    return sum(not ok for ok, _ in done), max([s for ok, s in done if ok], default=None)


async def innocent_udp(port):
    """Returns the number of lost queries for cluster names and the longest time of an answer."""
    names = [("kubernetes.default.svc.cluster.local", 0) if n % 2 else (f"missing{n}.default.svc.cluster.local", 3) for n in range(QUERIES)]
    return await ask_steadily(port, names, RATE)


async def innocent_tcp(port):
    """Returns the number of lost queries and the longest time of an answer."""
    done = []
    for _ in range(TCP_QUERIES):
        begun = time.monotonic()
        wire = await clients.over_tcp(port, clients.message(os.urandom(2), "kubernetes.default.svc.cluster.local", 1200), LOST_S)
        done.append((bool(wire) and wire[3] & 15 == 0, time.monotonic() - begun))
        await asyncio.sleep(0.2)
    return sum(not ok for ok, _ in done), max([s for ok, s in done if ok], default=None)


# name: (attack, sources, innocent client, its queries)
ATTACKS = {
    "no attack": (send_names, (), innocent_udp, QUERIES),
    "names, one address": (send_names, ATTACKERS[:1], innocent_udp, QUERIES),
    "names, two addresses": (send_names, ATTACKERS, innocent_udp, QUERIES),
    "no connections": (hold_connections, (), innocent_tcp, TCP_QUERIES),
    "connections": (hold_connections, ATTACKERS[:1], innocent_tcp, TCP_QUERIES),
}


def run_attack(a, name, case):
    """Attacks one server. Returns a row."""
    run, sources, innocent, queries = ATTACKS[case]
    with contextlib.ExitStack() as stack:
        servers = stack.enter_context(upstreams.Upstreams([free_port(), free_port()]))
        port = engines.start(stack, a, name, servers.ports)
        if innocent is innocent_udp:
            servers.modes[0] = servers.modes[1] = upstreams.SILENT
        with attack(run, sources, port) as counters:
            time.sleep(2)
            begun, before = time.monotonic(), sum(c.value for c in counters)
            lost, longest = asyncio.run(innocent(port))
            rate = (sum(c.value for c in counters) - before) / (time.monotonic() - begun)
    row = {"server": name, "attack": case, "lost": lost, "queries": queries, "longest_ms": round(longest * 1e3, 1) if longest is not None else None, "attack_a_second": round(rate)}
    say(f"{case:20} {name:15} lost {lost:4} of {queries}, longest answer {row['longest_ms']} ms, attack: {row['attack_a_second']} a second")
    return row


# name: (prefix of the attack's names, names a second)
UNANSWERED = {f"unanswered names, {rate} a second, {when}": (prefix, rate) for when, prefix in (("never", "never"), ("after 3 s", "late")) for rate in (30, 100, 300)}


def run_unanswered(a, names, case, tls):
    """Attacks these servers at the same time. Returns a row for each."""
    prefix, rate = UNANSWERED[case]
    if not names:
        return []
    placed, tag = [], f"{random.getrandbits(32):08x}"
    with contextlib.ExitStack() as stack:
        for name in names:
            servers = stack.enter_context(upstreams.Upstreams([free_port(), free_port()], tls and tls.certificate))
            placed.append((name, engines.start(stack, a, name, servers.ports, tls)))
        for _, port in placed:
            stack.enter_context(attack(functools.partial(send_names, rate=rate, prefix=prefix), ATTACKERS[:1], port))
        time.sleep(LEAD_S)

        async def all_of_them():
            looked_up = [(f"new{n}.{tag}.example", 0) for n in range(LOOKED_UP)]
            return await asyncio.gather(*(ask_steadily(port, looked_up, LOOKUP_RATE) for _, port in placed))

        results = asyncio.run(all_of_them())
    rows = []
    for (name, _), (lost, longest) in zip(placed, results):
        rows.append({"server": name + (", TLS" if tls else ""), "attack": case, "lost": lost, "queries": LOOKED_UP, "longest_ms": round(longest * 1e3, 1) if longest is not None else None})
        say(f"{case:40} {rows[-1]['server']:20} lost {lost:4} of {LOOKED_UP}, longest answer {rows[-1]['longest_ms']} ms")
    return rows


def run(a, names):
    names = [name for name in names if name in SERVERS]
    rows = [run_attack(a, name, case) for case in ATTACKS if a.cases in case for name in names]
    for case in UNANSWERED:
        if a.cases in case:
            for together, tls in (({"classic"}, None), (set(SERVERS) - {"classic"}, None), (set(engines.ENCRYPTED), a.tls)):
                rows += run_unanswered(a, [name for name in names if name in together], case, tls)
    return rows


def goals(rows):
    return [{"what": f"{r['server']}, {r['attack']}: no query of another client is lost", "holds": r["lost"] == 0, "figures": f"{r['lost']} of {r['queries']} lost"}
            for r in rows if r["server"].removesuffix(", TLS") in GOALS]  # fmt: skip
