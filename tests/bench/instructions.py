"""User-space instructions of a query and of an object in a sync, counted by callgrind. The figures are the same on a noisy and on an idle
machine, so CI can reject a change that makes the server slower.

Queries are sent one at a time: the worker reads a query, writes the answer, and then waits for the next query. The file instructions.json
beside this one keeps the figures of each build: a processor, a compiler and a release. A run is compared only with the figures of its own
build. --update replaces those figures. A commit that changes them on purpose must include the update.
"""

import argparse
import contextlib
import glob
import json
import os
import platform
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time

import dns.flags
import dns.message

import questions
from results import DIRECTORY, save, say
from servers import Kubedns
from waiting import wait_for

KEPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "instructions.json")
KINDS = ("cluster_a", "cluster_aaaa", "nxdomain", "headless_a", "endpoint_a", "srv", "headless_srv", "ptr", "endpoint_ptr", "external")
OBSERVED = "observed_a"  # cluster_a while all observers (dnstap, the query log) read each answer
ALLOWED = 1.05


def arguments(argv):
    p = argparse.ArgumentParser(prog="make bench-instructions", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--update", action="store_true", help="write the figures of this run to instructions.json")
    p.add_argument("--queries", type=int, default=400, help="queries of each kind (%(default)s)")
    p.add_argument("--services", type=int, default=200, help="Services in the cluster (%(default)s)")
    p.add_argument("--kinds", default=",".join((*KINDS, OBSERVED)), help="kinds of queries, separated by commas (%(default)s)")
    return p.parse_args(argv)


class Counted(Kubedns):
    """kubedns under callgrind. `read()` returns the instructions since the last call."""

    name = "kubedns-callgrind"

    def command(self):
        # The sandbox is off, because it would also apply to valgrind. This does not change the figures: the kernel enforces the sandbox,
        # without user-space instructions.
        return ["valgrind", "--tool=callgrind", f"--callgrind-out-file={self.path('out')}", *super().command(), "--sandbox=off"]

    def control(self, flag):
        done = subprocess.run(["callgrind_control", flag, str(self.process.pid)], capture_output=True, text=True, timeout=120, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"callgrind_control {flag}: {done.stdout}{done.stderr}")

    def read(self):
        old = set(glob.glob(self.path("out.*")))
        self.control("-d")
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            for path in set(glob.glob(self.path("out.*"))) - old:
                with open(path, encoding="utf-8", errors="replace") as f:
                    found = re.search(r"^totals: (\d+)", f.read(), re.M)
                if found:
                    return int(found.group(1))
            time.sleep(0.05)
        raise RuntimeError("callgrind wrote no counts")


def ask_all(port, wires):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.settimeout(10)
        s.connect(("127.0.0.1", port))
        for wire in wires:
            s.send(wire)
            s.recv(4096)


def wires_of(people, kind, count):
    q = questions.Questions(people, kind)
    out = []
    for n in range(count):
        name, type_, _ = getattr(q, kind)()
        message = dns.message.make_query(name, type_, id=n)
        message.flags &= ~dns.flags.RD
        out.append(message.to_wire())
    return out


def per_query(server, people, kind, count):
    """The median of three. The main thread checks the directory every 10 s, which affects at most one of them."""
    return statistics.median(per_query_once(server, people, kind, count) for _ in range(3))


def per_query_once(server, people, kind, count):
    """
    The difference of a long and a short run. Work outside the queries is equal in both and cancels out: the dump, and an iteration of the
    main thread.
    """
    wires = wires_of(people, kind, 3 * count)
    ask_all(server.port, wires[:50])
    server.read()
    ask_all(server.port, wires[:count])
    short = server.read()
    ask_all(server.port, wires)
    return (server.read() - short) / (2 * count)


def counted(people, name, *flags):
    objects = os.path.join(DIRECTORY, name)
    questions.write_objects(people, objects)
    return Counted(DIRECTORY, [f"--objects-dir={objects}"], *flags)


@contextlib.contextmanager
def collector():
    """The flag for a dnstap collector that discards everything."""
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "dnstap.sock")
        with subprocess.Popen(["fstrm_capture", "-t", "protobuf:dnstap.Dnstap", "-u", path, "-w", os.devnull], stderr=subprocess.DEVNULL) as process:
            try:
                wait_for(lambda: os.path.exists(path), 10)
                yield f"--dnstap=unix:{path}"
            finally:
                process.terminate()


def observed(people, count):
    """
    The cost of a query in the whole process while a dnstap collector is connected and the query log filters every answer. No answer matches
    the filter, because the cost of a written line depends on its length.
    """
    with collector() as flag, counted(people, "instructions-observed", flag, "--log-queries=name=nothing.invalid") as server:
        server.read()
        return per_query(server, people, "cluster_a", 4 * count)


def per_object(people_small, small, people_large, large):
    """The cost of a namespace, a Service and one and a half slices in a sync from manifests."""
    count = people_large.services - people_small.services
    return (large - small) / count


def people_of(services):
    return questions.population.Population(namespaces=services, services=services, slices=services * 3 // 2)


def measure(a):
    figures, kinds = {}, a.kinds.split(",")
    small, large = people_of(a.services // 2), people_of(a.services)
    with counted(small, "instructions-small") as server:
        synced = server.read()
    with counted(large, "instructions") as server:
        figures["sync_per_service"] = per_object(small, synced, large, server.read())
        for kind in kinds:
            if kind != OBSERVED:
                figures[kind] = per_query(server, large, kind, a.queries)
                say(f"{kind:14} {figures[kind]:8,.0f} instructions")
    if OBSERVED in kinds:
        figures[OBSERVED] = observed(large, a.queries)
        say(f"{OBSERVED:14} {figures[OBSERVED]:8,.0f} instructions")
    say(f"sync           {figures['sync_per_service']:8,.0f} instructions per Service with its namespace and slices")
    return {k: round(v) for k, v in figures.items()}


def of_processes(a, kept):
    """
    The figures of one process, or the means of at most four if a mean is too high. The figures of two processes differ by up
    to 4 %, probably because each chooses the seeds of its hash tables at random.
    """
    runs = [measure(a)]
    while True:
        means = {kind: round(statistics.mean(run[kind] for run in runs)) for kind in runs[0]}
        worse = [kind for kind, figure in means.items() if kind in kept and figure > kept[kind] * ALLOWED]
        if not worse or len(runs) == 4:
            return means
        say(f"another process, because of {', '.join(worse)}")
        runs.append(measure(a))


def build():
    """Returns everything besides our sources that changes the figures: the processor, the compiler, and the release that contains the libraries."""
    version = subprocess.run(["cc", "--version"], capture_output=True, text=True, check=True).stdout
    compiler = "clang" if "clang" in version else "gcc"
    major = subprocess.run(["cc", "-dumpversion"], capture_output=True, text=True, check=True).stdout.split(".")[0].strip()
    release = platform.freedesktop_os_release()
    return f"{platform.machine()}, {compiler} {major}, {release['ID']} {release.get('VERSION_ID', 'testing')}"


def main(argv):
    a = arguments(argv)
    os.makedirs(DIRECTORY, exist_ok=True)
    builds = {}
    if os.path.exists(KEPT):
        with open(KEPT, encoding="utf-8") as f:
            builds = json.load(f)
    kept = builds.get(build(), {})
    figures = of_processes(a, kept)
    save("instructions", {"figures": figures, "kept": kept})
    if a.update:
        with open(KEPT, "w", encoding="utf-8") as f:
            json.dump({**builds, build(): {**kept, **figures}}, f, indent=1)
            f.write("\n")
        return 0
    if not kept:
        print(f"no figures are kept for this build ({build()}), so nothing is compared. --update keeps the new figures", file=sys.stderr)
    worse = {k: (v, kept[k]) for k, v in figures.items() if k in kept and v > kept[k] * ALLOWED}
    for kind, (now, before) in worse.items():
        print(f"{kind}: {now:,} instructions, {now / before - 1:+.1%} against the kept {before:,}. At most {ALLOWED - 1:+.0%} is allowed", file=sys.stderr)
    better = [k for k, v in figures.items() if k in kept and v < kept[k] / ALLOWED]
    if better:
        say(f"fewer instructions than the kept figures (--update keeps the new ones): {', '.join(better)}")
    return 1 if worse else 0
