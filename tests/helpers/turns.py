"""
Measures whether a feature delays answers, on a machine that has other work too. One run alternates between time windows without the feature
and windows with the feature, so other load affects both equally. The windows without the feature are also split into random halves. The
halves differ only by chance, so their difference shows how precise the measurement is.
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
    """Gives this process's session priority over other work, if permitted. The priorities of its threads relative to each other do not change."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/autogroup", "w", encoding="ascii") as f:
        f.write("-20")


class SteadyAsker:
    """A context manager that runs steady_asker.py. Afterwards `took` has [(Unix seconds, ms)] for each port, in the order of the answers."""

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
    """Alternating windows. The first window is without the feature. due() is true when the next window must begin, and begin() begins it."""

    def __init__(self, window_s):
        self.window_s, self.bounds = window_s, []

    def due(self):
        return not self.bounds or time.time() >= self.bounds[-1] + self.window_s

    def begin(self):
        """Begins a window. Returns true if the feature must be on in this window."""
        self.bounds.append(time.time())
        return len(self.bounds) % 2 == 0

    def end(self):
        self.bounds.append(time.time())

    def compare(self, took):
        """Returns the Comparison of these answers."""
        windows = [[] for _ in self.bounds]
        at = 0
        for asked, ms in sorted(took):
            while at + 1 < len(self.bounds) and asked >= self.bounds[at + 1]:
                at += 1
            if asked >= self.bounds[0]:
                windows[at].append(ms)
        whole = [sorted(w) for w in windows[:-1]]  # the last window is empty, because it begins at the end of the run
        return Comparison(whole[0::2], whole[1::2])


def percentile(values, share):
    return values[int(len(values) * share)]


def spread(values):
    """The median and the quartiles."""
    low, middle, high = statistics.quantiles(values, n=4)
    return f"{middle:.3f} ({low:.3f}..{high:.3f})"


def between_halves(values):
    """Splits the values into random halves many times. Returns the bound that 95 % of the differences between the halves' medians do not exceed."""
    draw, found = random.Random(1), []
    for _ in range(HALVINGS):
        mixed = draw.sample(values, len(values))
        half = len(mixed) // 2
        found.append(abs(statistics.median(mixed[:half]) - statistics.median(mixed[half:])))
    return percentile(sorted(found), 0.95)


class Comparison:
    """Compares the answers in windows without and with the feature, by percentiles, in ms."""

    def __init__(self, without, with_):
        self.without, self.with_ = [w for w in without if w], [w for w in with_ if w]

    def of(self, share):
        """
        Compares one percentile of each window. Returns the values without the feature, the values with it, the difference of their medians,
        and the between_halves() of the values without it.
        """
        a, b = ([percentile(window, share) for window in windows] for windows in (self.without, self.with_))
        return a, b, statistics.median(b) - statistics.median(a), between_halves(a)

    def later(self, share, bound_ms):
        """True if the feature delays answers by more than the difference of the halves and by more than `bound_ms`."""
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
