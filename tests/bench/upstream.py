"""make bench-upstream: the effect on clients when one or both of two upstream servers are in trouble.

Clients behave like glibc with one server in resolv.conf. They use UDP, a socket for each query, and 5 s per answer. They make two attempts.
After SERVFAIL or REFUSED, the second attempt begins at once. After a truncated reply they use TCP. They use EDNS (`options edns0`), so that
extended errors are visible. The names are new, so no cache has them. If both servers are silent, the clients also query old names whose TTL
has passed.

Each kind of trouble begins while both servers are healthy. If only one server is in trouble, it is the server that got most queries in the
last second. The trouble ends after some seconds. Then the bench measures the time until that server gets queries again.

Servers: the classic and the front topology (kubedns, the nanny and its engine, with the manifests' arguments), with dnsmasq and with
unbound (classic-unbound, front-unbound). Also kubedns alone, which queries the upstream servers itself: for clients (standalone), and for
the targets of ExternalName Services (chases). Also dnsmasq and unbound alone, and two versions of CoreDNS with the forward and cache lines of
kubeadm's Corefile (PEERS/coredns and PEERS/coredns-1.15). All are measured at the same time. Each measured server has two upstream servers of
its own. In the cases "tls", the upstream servers speak TLS, so dnsmasq is not measured.

At the end one client attacks another: with new names while both servers are silent, with names that healthy servers do not answer, and with
idle TCP connections (upstream_attacks.py).

Goals: in the front topology and in the classic topology with unbound, one bad server causes no failed lookup, and p99 is at most 400 ms. In
the classic topology with dnsmasq, one silent or refusing server causes no failed lookup. With kubedns alone, one bad server causes no failed
lookup. If both servers are silent, no lookup of an old name fails, except with kubedns alone, which keeps no answers. An attack takes no query
from another client, except in the classic topology with dnsmasq.
"""

import argparse
import asyncio
import contextlib
import os
import random
import time

import upstream_attacks as attacks
import upstream_engines as engines
import upstream_servers as upstreams
from results import save, say
from upstream_clients import lookup, steadily, summary
from waiting import free_port

WARM_S, WARM_RATE = 3, 60
REPEATED = 200
HEALED_S, HEALED_RATE = 40, 20

# name: (mode, servers in trouble, queries a second, seconds, prefix of the names, EDNS size). In the cases "tls", upstream servers speak TLS.
CASES = {
    "healthy": (upstreams.HEALTHY, 1, 120, 10, "new", 1200),
    "silent": (upstreams.SILENT, 1, 120, 10, "new", 1200),
    "silent, few queries": (upstreams.SILENT, 1, 5, 20, "new", 1200),
    "refuses": (upstreams.REFUSES, 1, 120, 10, "new", 1200),
    "servfail": (upstreams.SERVFAIL, 1, 120, 10, "new", 1200),
    "slow": (upstreams.SLOW, 1, 120, 10, "new", 1200),
    "drops large": (upstreams.DROPS_LARGE, 1, 40, 10, "big", 4096),
    "loses large": (upstreams.LOSES_LARGE, 1, 40, 10, "big", 4096),
    "healthy tcp": (upstreams.HEALTHY, 1, 8, 10, "big", 1200),
    "half-open tcp": (upstreams.HALF_OPEN, 1, 8, 10, "big", 1200),
    "tls healthy": (upstreams.HEALTHY, 1, 40, 10, "new", 1200),
    "tls silent": (upstreams.SILENT, 1, 40, 10, "new", 1200),
    "tls refuses": (upstreams.REFUSES, 1, 40, 10, "new", 1200),
    "tls stalled handshake": (upstreams.STALLED, 1, 40, 10, "new", 1200),
    "both silent": (upstreams.SILENT, 2, 120, 10, "new", 1200),
    "both servfail": (upstreams.SERVFAIL, 2, 120, 10, "new", 1200),
}


def arguments(argv):
    p = argparse.ArgumentParser(prog="make bench-upstream", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--peers", default="/tmp/peer", help="directory of the coredns program (%(default)s)")
    p.add_argument("--cases", default="", help="only cases and attacks whose names contain this text")
    p.add_argument("--servers", default=",".join(engines.NAMES), help="servers, separated by commas (%(default)s)")
    p.add_argument("--unbound", default="/usr/sbin/unbound", help="unbound; if it is older than 1.26.1, the bench unpacks Debian 13's (%(default)s)")
    p.add_argument("--roots", default=os.environ.get("ROOTS", "/var/cache/kubedns-roots"), help="directory for Debian 13's unbound (%(default)s)")
    p.add_argument("--setting", action="append", default=[], metavar="LINE", help="an additional line of the server section of the unbound that runs alone")
    p.add_argument("--dnsmasq", action="append", default=[], metavar="ARGUMENT", help="an additional argument of dnsmasq, such as --all-servers")
    p.add_argument("--kubedns", action="append", default=[], metavar="ARGUMENT", help="an additional argument of kubedns")
    a = p.parse_args(argv)
    if unknown := set(a.servers.split(",")) - set(engines.NAMES):
        p.error(f"--servers: unknown: {', '.join(sorted(unknown))}: use {', '.join(engines.NAMES)}")
    return a


# Cases.


def labels(case):
    """The first labels of all names that measure() may ask."""
    _, _, rate, seconds, prefix, _ = CASES[case]
    counts = {"again": REPEATED, "warm": WARM_S * WARM_RATE, prefix: rate * seconds, "healed": HEALED_S * HEALED_RATE}
    return [f"{label}{n}" for label, count in counts.items() for n in range(count)]


async def measure(port, servers, case, zone):
    """Measures one case at one server, whose upstreams are `servers`. The names are in `zone`."""
    mode, bad, rate, seconds, prefix, size = CASES[case]
    again = [f"again{n}.{zone}" for n in range(REPEATED)]
    await steadily(port, again, WARM_RATE * 2, size)
    before = list(servers.counts)
    await steadily(port, [f"warm{n}.{zone}" for n in range(WARM_S * WARM_RATE)], WARM_RATE, size)
    sent = [after - b for after, b in zip(servers.counts, before)]
    busy = sent.index(max(sent))
    row = {"upstream_queries_healthy": round(sum(sent) / (WARM_S * WARM_RATE), 2)}
    for n in range(2):
        servers.modes[n] = mode if bad == 2 or n == busy else upstreams.HEALTHY
    before = list(servers.counts)
    asking = [steadily(port, [f"{prefix}{n}.{zone}" for n in range(rate * seconds)], rate, size)]
    if bad == 2:
        asking.append(steadily(port, again, REPEATED / (seconds - 2), size))
    new, *repeated = await asyncio.gather(*asking)
    row.update(summary(new))
    row["p99_first_second_ms"], row["p99_after_ms"] = summary(new[:rate])["p99_ms"], summary(new[rate:])["p99_ms"]
    row["upstream_queries"] = round(sum(after - b for after, b in zip(servers.counts, before)) / len(new), 2)
    if repeated:
        row["repeated"] = summary(repeated[0])
    if mode != upstreams.HEALTHY:
        for n in range(2):
            servers.modes[n] = upstreams.HEALTHY
        healed, count, n, failed = time.monotonic(), servers.counts[busy], 0, []
        await asyncio.sleep(0.1)
        while servers.counts[busy] == count and time.monotonic() < healed + HEALED_S:
            failed.append(asyncio.ensure_future(lookup(port, f"healed{n}.{zone}", 1200)))
            n += 1
            await asyncio.sleep(1 / HEALED_RATE)
        row["healed_s"] = round(time.monotonic() - healed, 1) if servers.counts[busy] > count else None
        row["failed_healed"] = sum(r["failed"] for r in await asyncio.gather(*failed))
    return row


def run_case(a, names, case):
    tls = a.tls if case.startswith("tls") else None
    names = [name for name in names if not tls or name in engines.ENCRYPTED]
    with contextlib.ExitStack() as stack:
        placed = []
        for name in names:
            servers = stack.enter_context(upstreams.Upstreams([free_port(), free_port()], tls and tls.certificate))
            tag = f"{random.getrandbits(32):08x}"
            placed.append((name, engines.start(stack, a, name, servers.ports, tls, labels(case), tag), servers, engines.zone(name, tag)))

        async def all_of_them():
            return await asyncio.gather(*(measure(port, servers, case, zone) for _, port, servers, zone in placed))

        rows = asyncio.run(all_of_them())
    for name, row in zip(names, rows):
        row.update({"server": name, "case": case})
        say(f"{case:21} {name:15} failed {row['failed']:4} of {row['asked']}, retried {row['retried']:4}, p50 {row['p50_ms']} p99 {row['p99_ms']} max {row['max_ms']} ms, "
            f"p99 of the first second {row['p99_first_second_ms']}, then {row['p99_after_ms']} ms, first {row['first_ms']} ms, "
            f"{row['seen'] or ''} EDE {row['extended'] or '-'}, {row['upstream_queries']} upstream queries each, healed after {row.get('healed_s', '-')} s")  # fmt: skip
        if "repeated" in row:
            r = row["repeated"]
            say(f"{'':21} {'':15} known names: failed {r['failed']} of {r['asked']}, p99 {r['p99_ms']} ms, {r['seen'] or ''} EDE {r['extended'] or '-'}")
    return rows


def goals(rows):
    by = {(r["server"], r["case"]): r for r in rows}
    out = []
    for (server, case), r in by.items():
        if server in engines.ALONE or CASES[case][0] == upstreams.HEALTHY:
            continue
        if CASES[case][1] == 2:
            if CASES[case][0] == upstreams.SILENT and server not in engines.KUBEDNS_ALONE:
                out.append({"what": f"{server}, {case}: known names are answered", "holds": r["repeated"]["failed"] == 0, "figures": f"{r['repeated']['failed']} of {r['repeated']['asked']} failed"})
        elif server in engines.KUBEDNS_ALONE:
            out.append({"what": f"{server}, {case}: no failed lookup", "holds": r["failed"] == 0, "figures": f"{r['failed']} of {r['asked']} failed"})
        elif server != "classic":
            out.append({"what": f"{server}, {case}: no failed lookup, p99 at most 400 ms", "holds": r["failed"] == 0 and (r["p99_ms"] or 0) <= 400, "figures": f"{r['failed']} failed, p99 {r['p99_ms']} ms"})
        elif case in ("silent", "silent, few queries", "refuses"):
            out.append({"what": f"classic, {case}: no failed lookup", "holds": r["failed"] == 0, "figures": f"{r['failed']} of {r['asked']} failed"})
    return out


def download(argv):
    """Unpacks Debian 13's unbound, if it is necessary."""
    a = arguments(argv)
    if "unbound" in a.servers:
        engines.unbound_program(a.unbound, a.roots)


def main(argv):
    a = arguments(argv)
    names = a.servers.split(",")
    for name, version in engines.COREDNS.items():
        if name in names and not os.path.exists(os.path.join(a.peers, name)):
            say(f"without {name}, because {a.peers}/{name} does not exist. Build it from github.com/coredns/coredns@{version}: CGO_ENABLED=0 go install")
            names.remove(name)
    if any("unbound" in name for name in names):
        a.unbound_found = engines.unbound_program(a.unbound, a.roots)
        say(f"unbound {'.'.join(map(str, engines.version(a.unbound_found[0])))}: {a.unbound_found[0]}")
    a.tls = engines.Tls()
    own = attacks.addresses()
    if not own:
        say("without the attacks, because the bench does not have its own network namespace")
    rows = [row for case in CASES if a.cases in case for row in run_case(a, names, case)]
    attacked = attacks.run(a, names) if own else []
    reached = goals(rows) + attacks.goals(attacked)
    for goal in reached:
        say(f"{goal['what']}: {'holds' if goal['holds'] else 'missed'} ({goal['figures']})")
    save("upstream", {"rows": rows, "attacks": attacked, "goals": reached})
    return 0 if all(goal["holds"] for goal in reached) else 1
