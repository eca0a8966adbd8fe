"""The single result file, build/bench/results.json, with one section per bench. Also the statistics of repeats."""

import datetime
import json
import os
import shlex
import statistics
import subprocess
import sys

import machine

BUILD = os.path.abspath(os.environ.get("BUILD", "build"))
DIRECTORY = os.path.join(BUILD, "bench")
PATH = os.path.join(DIRECTORY, "results.json")


def load():
    try:
        with open(PATH, encoding="utf-8") as f:
            return json.load(f)
    except FileNotFoundError:
        return {}


def commit():
    """The commit that is measured, or None outside a repository or without git."""
    try:
        done = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return None
    return done.stdout.strip() or None


def save(section, value):
    """Replaces one section. The other sections stay, with the machine and time of their own runs."""
    all_ = load()
    stamp = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    all_[section] = {"made": stamp, "commit": commit(), "bench": shlex.join(sys.argv), "machine": machine.describe(), **value}
    os.makedirs(DIRECTORY, exist_ok=True)
    with open(PATH + ".new", "w", encoding="utf-8") as f:
        json.dump(all_, f, indent=1)
    os.rename(PATH + ".new", PATH)


def summary(values):
    """Median and range of repeats. None if there are no repeats."""
    values = [v for v in values if v is not None]
    if not values:
        return None
    return {"median": statistics.median(values), "min": min(values), "max": max(values), "repeats": len(values)}


def text_of(p):
    """Percentiles of milliseconds as text."""
    return f"p50 {p['p50']:.2f} p99 {p['p99']:.2f} max {p['max']:.2f} ms of {p['count']}" if p else "none"


def say(text):
    """Prints progress for a waiting user."""
    print(datetime.datetime.now().strftime("%H:%M:%S"), text, flush=True)
