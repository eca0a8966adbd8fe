#!/usr/bin/env python3
"""
make bench, bench-scale, bench-change, bench-instructions, bench-hostile, bench-lookup, bench-upstream, bench-node, bench-node-conntrack,
bench-node-change, bench-report: BENCH_ARGS="--help" says what each takes.

Results: build/bench/results.json, a section a bench; bench-report makes build/bench/report.md and charts of it.

A bench runs in a network namespace of its own where that is allowed, as a pod does: the packet filter and the connection tracking of the machine
(a container engine's, say) would cost as much as the servers do. BENCH_NETWORK=machine measures with them.
"""

import importlib
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
MODULES = {"bench": "speed", "scale": "scale", "change": "change", "instructions": "instructions", "hostile": "hostile", "lookup": "lookup", "upstream": "upstream", "node": "node", "node-conntrack": "node_conntrack", "node-change": "node_change", "report": "report", "pod": "pod"}


def own_network():
    """Starts this program again in a network namespace of its own; returns if it is there already, or may not."""
    enter = ["unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
    if os.environ.get("BENCH_NETWORK", "own") != "own" or subprocess.run([*enter, "true"], stderr=subprocess.DEVNULL, check=False).returncode:
        return
    os.environ["BENCH_NETWORK"] = "entered"
    os.execvp(enter[0], [*enter, sys.executable, *sys.argv])


def main():
    if len(sys.argv) < 2 or sys.argv[1] not in MODULES:
        print(f"usage: bench.py {'|'.join(MODULES)} [--help]", file=sys.stderr)
        return 2
    if sys.argv[1] != "report":
        own_network()
    sys.path[:0] = [HERE, os.path.dirname(HERE)]
    return importlib.import_module(MODULES[sys.argv[1]]).main(sys.argv[2:])


if __name__ == "__main__":
    sys.exit(main())
