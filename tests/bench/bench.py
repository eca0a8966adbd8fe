#!/usr/bin/env python3
"""
make bench, bench-scale, bench-change, bench-instructions, bench-report: BENCH_ARGS="--help" says what each takes.

Results: build/bench/results.json, a section a bench; bench-report makes build/bench/report.md and charts of it.
"""

import importlib
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
MODULES = {"bench": "speed", "scale": "scale", "change": "change", "instructions": "instructions", "report": "report", "pod": "pod"}


def main():
    if len(sys.argv) < 2 or sys.argv[1] not in MODULES:
        print(f"usage: bench.py {'|'.join(MODULES)} [--help]", file=sys.stderr)
        return 2
    sys.path.insert(0, HERE)
    return importlib.import_module(MODULES[sys.argv[1]]).main(sys.argv[2:])


if __name__ == "__main__":
    sys.exit(main())
