"""Runs a program with a faster monotonic clock, or with a clock that the test moves. See hurry.c."""

import contextlib
import mmap
import os
import re
import select
import socket
import struct
import subprocess
import tempfile
import threading
import time

import dns.message
from kubedns_process import PROGRAM

STEP_S = 0.005  # real time between two movements of a clock that runs
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


@contextlib.contextmanager
def hurried(tmp_path, factor):
    """Yields the environment of a process whose clock the test moves `factor` times as fast as the real time. See Clock.running()."""
    clock = Clock(tmp_path)
    with clock.running(factor):
        yield clock.env


class Clock:
    """The clock of the processes that have the environment `env`. It stands still until the test moves it."""

    def __init__(self, tmp_path):
        path = tmp_path / "clock"
        path.write_bytes(bytes(8))
        with open(path, "r+b") as f:
            self._memory = mmap.mmap(f.fileno(), 8)
        self.env, self._ns, self._moving = hurry(path), 0, threading.Lock()

    def forward(self, seconds):
        with self._moving:
            self._ns += round(seconds * 1e9)
            self._memory[:] = struct.pack("=q", self._ns)

    def seconds(self):
        """Returns the seconds that have passed on the clock."""
        return self._ns / 1e9

    @contextlib.contextmanager
    def running(self, factor):
        """
        Moves the clock `factor` times as fast as the real time. If this process gets no CPU for a while, the clock stands still: other than with
        hurry(), a busy machine does not take time from the program.
        """
        ended = threading.Event()

        def run():
            while not ended.wait(STEP_S):
                self.forward(STEP_S * factor)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            ended.set()
            thread.join()

    def ask(self, kubedns, message, most_s=10.0):
        """Sends a query over UDP and moves the clock until the reply arrives. Returns the seconds that passed on the clock, and the reply."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.connect((kubedns.host, kubedns.port))
            s.send(message.to_wire())
            took = self.run_until(lambda: select.select([s], [], [], 0)[0], most_s, 0.02, kubedns.log)
            return took, dns.message.from_wire(s.recv(65535))

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
