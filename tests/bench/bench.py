#!/usr/bin/env python3
"""
make bench, bench-scale, bench-change, bench-hostile, bench-lookup, bench-upstream, bench-node, bench-node-conntrack,
bench-node-change, bench-report. BENCH_ARGS="--help" shows the options of each.

Results: build/bench/results.json with one section per bench. bench-report makes build/bench/report.md and charts of it.

If permitted, a bench runs in its own network namespace, as a pod does. Otherwise the machine's packet filter and connection tracking (for
example of a container engine) would cost as much as the servers. BENCH_NETWORK=machine includes them in the measurement.
"""

import importlib
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
MODULES = {"bench": "speed", "scale": "scale", "change": "change", "hostile": "hostile", "lookup": "lookup", "upstream": "upstream", "node": "node", "node-conntrack": "node_conntrack", "node-change": "node_change", "report": "report", "pod": "pod"}


def own_network():
    """Restarts this program in a network namespace. Returns if the program already runs in such a namespace or may not create one."""
    enter = ["unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
    if os.environ.get("BENCH_NETWORK", "own") != "own" or subprocess.run([*enter, "true"], stderr=subprocess.DEVNULL, check=False).returncode:
        return
    os.environ["BENCH_NETWORK"] = "entered"
    os.execvp(enter[0], [*enter, sys.executable, *sys.argv])


def main():
    if len(sys.argv) < 2 or sys.argv[1] not in MODULES:
        print(f"usage: bench.py {'|'.join(MODULES)} [--help]", file=sys.stderr)
        return 2
    sys.path[:0] = [HERE, os.path.dirname(HERE)]
    module = importlib.import_module(MODULES[sys.argv[1]])
    if os.environ.get("BENCH_NETWORK") != "entered" and hasattr(module, "download"):
        module.download(sys.argv[2:])  # its own namespace will have no network
    if sys.argv[1] != "report":
        own_network()
    return module.main(sys.argv[2:])


if __name__ == "__main__":
    sys.exit(main())
