"""Runs a program with a faster monotonic clock, or with a clock that the test moves. See hurry.c."""

import mmap
import os
import re
import struct
import subprocess
import tempfile
import threading
import time

from kubedns_process import PROGRAM

_library = None
# A second thread must wait until the library is complete. If it is missing, the loader starts the program with the normal clock.
_building = threading.Lock()


def library():
    global _library
    with _building:
        if _library is None:
            path = os.path.join(tempfile.mkdtemp(prefix="hurry-"), "hurry.so")
            source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "hurry.c")
            subprocess.run([os.environ.get("CC", "cc"), "-O1", "-Wall", "-Wno-unused-result", "-shared", "-fPIC", "-o", path, source], check=True)
            _library = path
        return _library


def hurry(factor):
    """The environment of a process whose clock runs `factor` times as fast, or is at `factor`, the path of a Clock's file."""
    # A sanitizer's library must come first. The loader loads this library after it.
    needed = subprocess.run(["ldd", PROGRAM], capture_output=True, text=True, check=True).stdout
    sanitizers = re.findall(r"=> (\S*lib[at]san\S*)", needed)
    return {"LD_PRELOAD": ":".join([*sanitizers, library()]), "HURRY": str(factor)}


class Clock:
    """The clock of the processes that have the environment `env`. It stands still until the test moves it."""

    def __init__(self, tmp_path):
        path = tmp_path / "clock"
        path.write_bytes(bytes(8))
        with open(path, "r+b") as f:
            self._memory = mmap.mmap(f.fileno(), 8)
        self.env, self._ns = hurry(path), 0

    def forward(self, seconds):
        self._ns += round(seconds * 1e9)
        self._memory[:] = struct.pack("=q", self._ns)

    def run_until(self, condition, most_s, step_s=0.1, what="the condition"):
        """
        Moves the clock in steps until `condition()` is true. Returns the seconds that have passed on it. Between two steps the processes get
        real time, in which a step of theirs can end. Fails if more than `most_s` seconds pass on the clock.
        """
        begun = self._ns
        while not condition():
            assert self._ns - begun < most_s * 1e9, f"not within {most_s} s: {what() if callable(what) else what}"
            self.forward(step_s)
            time.sleep(0.01)
        return (self._ns - begun) / 1e9
