"""
Whether something makes answers later, on a machine that has other work too: windows with it and without it in turns, in one run. What the
machine does otherwise meets both alike, and how far apart two halves of the windows without it are, which differ by nothing, is how
far the figures can be believed.
"""

import array
import contextlib
import os
import random
import signal
import statistics
import subprocess
import sys
import time

HALVINGS = 1000


def before_others(pid):
    """The session of this process comes before what else the machine does, where that is allowed; its threads are alike as before."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/autogroup", "w", encoding="ascii") as f:
        f.write("-20")


class SteadyAsker:
    """`with SteadyAsker(path, name, rate, ports)`: afterwards `took` has, for each port, (Unix seconds, ms) in the order of the answers."""

    def __init__(self, path, name, rate, ports):
        self.path, self.took = str(path), [[] for _ in ports]
        script = os.path.join(os.path.dirname(__file__), "steady_asker.py")
        self.command = [sys.executable, script, self.path, name, str(rate), *map(str, ports)]

    def __enter__(self):
        self.process = subprocess.Popen(self.command)
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(30) == 0
        values = array.array("d")
        with open(self.path, "rb") as f:
            values.frombytes(f.read())
        for number, at, ms in zip(values[::3], values[1::3], values[2::3]):
            self.took[int(number)].append((at, ms))


class Turns:
    """Windows in turns, without first: `due()` says, often asked, whether the next one has to begin; begin() begins it."""

    def __init__(self, window_s):
        self.window_s, self.bounds = window_s, []

    def due(self):
        return not self.bounds or time.time() >= self.bounds[-1] + self.window_s

    def begin(self):
        """Whether it is one with what is measured."""
        self.bounds.append(time.time())
        return len(self.bounds) % 2 == 0

    def end(self):
        self.bounds.append(time.time())

    def compare(self, took):
        """The answers' Comparison."""
        windows = [[] for _ in self.bounds]
        at = 0
        for asked, ms in sorted(took):
            while at + 1 < len(self.bounds) and asked >= self.bounds[at + 1]:
                at += 1
            if asked >= self.bounds[0]:
                windows[at].append(ms)
        whole = [sorted(w) for w in windows[:-1]]  # what was asked after the end is of none
        return Comparison(whole[0::2], whole[1::2])


def percentile(values, share):
    return values[int(len(values) * share)]


def spread(values):
    """Median, and the quartiles around it."""
    low, middle, high = statistics.quantiles(values, n=4)
    return f"{middle:.3f} ({low:.3f}..{high:.3f})"


def between_halves(values):
    """How far apart the medians of two halves are, by 95 in 100 ways to halve them."""
    draw, found = random.Random(1), []
    for _ in range(HALVINGS):
        mixed = draw.sample(values, len(values))
        half = len(mixed) // 2
        found.append(abs(statistics.median(mixed[:half]) - statistics.median(mixed[half:])))
    return percentile(sorted(found), 0.95)


class Comparison:
    """Of the answers in windows without and in windows with something, percentile by percentile, in ms."""

    def __init__(self, without, with_):
        self.without, self.with_ = [w for w in without if w], [w for w in with_ if w]

    def of(self, share):
        """(without's of each window, with's, difference of their medians, that of halves of those without)"""
        a, b = ([percentile(window, share) for window in windows] for windows in (self.without, self.with_))
        return a, b, statistics.median(b) - statistics.median(a), between_halves(a)

    def later(self, share, bound_ms):
        """Whether answers come later with it: by more than halves of the windows without it differ, and than this."""
        *_, difference, halves = self.of(share)
        return difference > max(halves, bound_ms)

    def __str__(self):
        asked = sum(map(len, self.without + self.with_))
        lines = [f"  ms: median of the windows (quartiles), {len(self.without)} without and {len(self.with_)} with; {asked} answers",
                 f"  {'':6} {'without':24} {'with':24} {'with - without':>14} {'halves of without':>18}"]  # fmt: skip
        for name, share in (("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)):
            a, b, difference, halves = self.of(share)
            verdict = "within" if abs(difference) <= halves else "above" if difference > 0 else "below"
            lines.append(f"  {name:6} {spread(a):24} {spread(b):24} {difference:+14.3f} {halves:18.3f}  {verdict}")
        return "\n".join(lines)
