"""
Draws the charts of README.md, docs/charts/*.svg, from the figures in published.json.

published.py [DIRECTORY]; the default is docs/charts.
"""

import json
import os
import sys

import charts

HERE = os.path.dirname(os.path.abspath(__file__))
DATA = os.path.join(HERE, "published.json")
CHARTS = os.path.join(HERE, "..", "..", "docs", "charts")


def bar(least, most):
    return {"median": least, "min": least, "max": most, "label": f"{least:g} to {most:g}" if most > least else f"{least:g}"}


def draw_cpu(path, data):
    groups = ["cache off", "cache on"]
    values = {name: {g: bar(*data[g][name]) for g in groups} for name in ("kubedns", "CoreDNS")}
    charts.bars(path, "Answers to cluster names per second of CPU", "CoreDNS = 1", groups, list(values), values, spread="bar: least of all kinds of queries; thin line: most")


def draw_memory(path, data):
    charts.sizes(path, "Resident memory against cluster size", "Services, 15 endpoints each", "MB", {name: data[name] for name in ("kubedns", "CoreDNS")})


def main(directory=CHARTS):
    with open(DATA, encoding="utf-8") as f:
        data = json.load(f)
    os.makedirs(directory, exist_ok=True)
    draw_cpu(os.path.join(directory, "cpu.svg"), data["cpu"])
    draw_memory(os.path.join(directory, "memory.svg"), data["memory"])


if __name__ == "__main__":
    main(*sys.argv[1:])
