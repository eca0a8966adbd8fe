"""
User-space instructions of a query and of an object of a sync, counted by callgrind: the same on a noisy machine as on a quiet one, so that
CI can refuse a change that makes the server dearer.

A query is one that comes alone: read, answered, written, and the wait for the next. The file instructions.json beside this one keeps the figures of
each build: a processor, a compiler and a release. A run is compared with the figures of its own build alone. --update replaces those figures; a commit
that changes them on purpose must do that.
"""

import argparse
import glob
import json
import os
import platform
import re
import socket
import statistics
import subprocess
import sys
import time

import dns.flags
import dns.message

import questions
from results import DIRECTORY, save, say
from servers import Kubedns

KEPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "instructions.json")
KINDS = ("cluster_a", "cluster_aaaa", "nxdomain", "headless_a", "endpoint_a", "srv", "headless_srv", "ptr", "endpoint_ptr", "external")
ALLOWED = 1.05


def arguments(argv):
    p = argparse.ArgumentParser(prog="make bench-instructions", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--update", action="store_true", help="keep the figures of this run")
    p.add_argument("--queries", type=int, default=400, help="of each kind")
    p.add_argument("--services", type=int, default=200)
    p.add_argument("--kinds", default=",".join(KINDS))
    return p.parse_args(argv)


class Counted(Kubedns):
    """kubedns under callgrind; `read()` gives the instructions since the last one."""

    name = "kubedns-callgrind"

    def command(self):
        # Without the sandbox, which would hold for valgrind too; it is the kernel's work, and no instruction of a query is its.
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
    """The median of three: the main thread's look at the directory, every 10 s, falls into one of them at most."""
    return statistics.median(per_query_once(server, people, kind, count) for _ in range(3))


def per_query_once(server, people, kind, count):
    """The difference of a long and a short run, so that what is no query's (the dump, a turn of the main thread) falls out."""
    wires = wires_of(people, kind, 3 * count)
    ask_all(server.port, wires[:50])
    server.read()
    ask_all(server.port, wires[:count])
    short = server.read()
    ask_all(server.port, wires)
    return (server.read() - short) / (2 * count)


def counted(people, name):
    objects = os.path.join(DIRECTORY, name)
    questions.write_objects(people, objects)
    return Counted(DIRECTORY, [f"--objects-dir={objects}"])


def per_object(people_small, small, people_large, large):
    """Of a namespace, a Service and one and a half slices, as they come in a sync from manifests."""
    count = people_large.services - people_small.services
    return (large - small) / count


def people_of(services):
    return questions.population.Population(namespaces=services, services=services, slices=services * 3 // 2)


def measure(a):
    figures = {}
    small, large = people_of(a.services // 2), people_of(a.services)
    with counted(small, "instructions-small") as server:
        synced = server.read()
    with counted(large, "instructions") as server:
        figures["sync_per_service"] = per_object(small, synced, large, server.read())
        for kind in a.kinds.split(","):
            figures[kind] = per_query(server, large, kind, a.queries)
            say(f"{kind:14} {figures[kind]:8,.0f} instructions")
    say(f"sync           {figures['sync_per_service']:8,.0f} instructions a Service with its namespace and slices")
    return {k: round(v) for k, v in figures.items()}


def build():
    """What the figures depend on beside our sources: the processor, the compiler and the release that has the libraries."""
    version = subprocess.run(["cc", "--version"], capture_output=True, text=True, check=True).stdout
    compiler = "clang" if "clang" in version else "gcc"
    major = subprocess.run(["cc", "-dumpversion"], capture_output=True, text=True, check=True).stdout.split(".")[0].strip()
    release = platform.freedesktop_os_release()
    return f"{platform.machine()}, {compiler} {major}, {release['ID']} {release.get('VERSION_ID', 'testing')}"


def main(argv):
    a = arguments(argv)
    os.makedirs(DIRECTORY, exist_ok=True)
    figures = measure(a)
    builds = {}
    if os.path.exists(KEPT):
        with open(KEPT, encoding="utf-8") as f:
            builds = json.load(f)
    kept = builds.get(build(), {})
    save("instructions", {"figures": figures, "kept": kept})
    if a.update:
        with open(KEPT, "w", encoding="utf-8") as f:
            json.dump({**builds, build(): {**kept, **figures}}, f, indent=1)
            f.write("\n")
        return 0
    if not kept:
        print(f"no figures are kept for this build ({build()}): nothing is compared; --update keeps these", file=sys.stderr)
    worse = {k: (v, kept[k]) for k, v in figures.items() if k in kept and v > kept[k] * ALLOWED}
    for kind, (now, before) in worse.items():
        print(f"{kind}: {now:,} instructions, {now / before - 1:+.1%} of the {before:,} kept; more than {ALLOWED - 1:.0%} is refused", file=sys.stderr)
    better = [k for k, v in figures.items() if k in kept and v < kept[k] / ALLOWED]
    if better:
        say(f"better than kept, --update would keep it: {', '.join(better)}")
    return 1 if worse else 0
