"""Runs a program with a faster monotonic clock, or with a clock that the test moves. See hurry.c."""

import contextlib
import functools
import hashlib
import mmap
import os
import pathlib
import re
import select
import socket
import struct
import subprocess
import threading
import time

import dns.message
from kubedns_process import PROGRAM

STEP_S = 0.005  # real time between two movements of a clock that runs
SETTLE_S = 10.0  # a thread that works for longer is not waited for
CALM_S = 0.05  # nor is one that always has something to do
# struct test_clock of hurry.c: the time, the wall clock's time at 0, the number of places that are taken, and the places (thread, state,
# last, before).
HEAD, PLACE, PLACES = struct.Struct("=qqq"), struct.Struct("=iiqq"), 256
WAITS_WITH_AN_END = 1


def library():
    """
    Compiles hurry.c, if nobody did since it changed. Returns the library's path. Each process of the tests needs it. Other users cannot
    read the folder: a program that a test's program starts as another user, who cannot read the clock's file, has the normal clock.
    """
    source = pathlib.Path(__file__).with_name("hurry.c")
    command = [os.environ.get("CC", "cc"), "-O1", "-Wall", "-Wno-unused-result", "-shared", "-fPIC", str(source), "-o"]
    hashed = hashlib.sha256(" ".join(command).encode() + source.read_bytes()).hexdigest()
    made = pathlib.Path(PROGRAM).parents[1] / "hurry" / f"{hashed[:16]}.so"
    if not made.exists():
        made.parent.mkdir(mode=0o700, exist_ok=True)
        aside = made.with_suffix(f".{os.getpid()}-{threading.get_ident()}")
        subprocess.run([*command, aside], check=True)
        aside.rename(made)
    return str(made)


@functools.cache
def preload():
    """The libraries to load first: a sanitizer's must come before the other one."""
    needed = subprocess.run(["ldd", PROGRAM], capture_output=True, text=True, check=True).stdout
    sanitizers = re.findall(r"=> (\S*lib[at]san\S*)", needed)
    return ":".join([*sanitizers, library()])


def hurry(factor):
    """The environment of a process whose clock runs `factor` times as fast, or is at `factor`, the path of a Clock's file."""
    return {"LD_PRELOAD": preload(), "HURRY": str(factor)}


@contextlib.contextmanager
def hurried(tmp_path, factor):
    """Yields the environment of a process whose clock the test moves `factor` times as fast as the real time. See Clock.running()."""
    clock = Clock(tmp_path)
    with clock.running(factor):
        yield clock.env


def state_of(thread):
    """Returns the state of a thread as in /proc, or "X" if it has ended."""
    try:
        with open(f"/proc/{thread}/stat", encoding="ascii", errors="replace") as f:
            return f.read().rpartition(")")[2].split()[0]
    except OSError:
        return "X"


class Clock:
    """
    The clock of the processes that have the environment `env`. It stands still until the test moves it. settle() also waits for the servers
    of the test in `servers`, which have a function busy().
    """

    def __init__(self, tmp_path):
        path = tmp_path / "clock"
        size = HEAD.size + PLACES * PLACE.size
        path.write_bytes(bytes(size))
        path.chmod(0o666)
        with open(path, "r+b") as f:
            self._memory = mmap.mmap(f.fileno(), size)
        self.env, self._ns, self._moving, self._started = hurry(path), 0, threading.Lock(), False
        self.servers, self._wall_ns, self._dead = [], 0, set()

    def set_wall_forward(self, seconds=0):
        """Sets the wall clock of the processes forward. From the first call on, the wall clock moves with this clock."""
        self._wall_ns = (self._wall_ns or time.time_ns() - self._ns) + round(seconds * 1e9)
        self._memory[8:16] = struct.pack("=q", self._wall_ns)

    def forward(self, seconds):
        with self._moving:
            self._ns += round(seconds * 1e9)
            self._memory[:8] = struct.pack("=q", self._ns)

    def settle(self):
        """
        Waits until the processes have done what is due at the clock's time: each of their threads waits again, and began this wait and the
        one before it at this time, or has waited for a while in vain. Stopped threads and threads that wait without an end do not count. The
        first call also waits until a process has started. Then waits for a moment until no thread runs, because a packet may be on its way
        from one to another.
        """
        begun, wanted = time.monotonic(), self._ns
        while (self._busy(wanted) or not (self._started or self._places())) and time.monotonic() < begun + SETTLE_S:
            time.sleep(0.001)
        self._started, calm, begun = True, 0, time.monotonic()
        while calm < 2 and time.monotonic() < begun + CALM_S:
            calm = 0 if self._busy(wanted, running="RD") else calm + 1

    def _places(self):
        """Returns how many threads have waited."""
        return min(HEAD.unpack_from(self._memory)[2], PLACES)

    def _busy(self, wanted, running=""):
        """`running` has the states in which a thread is busy in any case."""
        for thread, state, _, before in (PLACE.unpack_from(self._memory, HEAD.size + n * PLACE.size) for n in range(self._places())):
            if not thread or thread in self._dead or (before >= wanted and not running):
                continue
            now = state_of(thread)
            if now == "X":
                self._dead.add(thread)
            if now in running or (before < wanted and now not in ("TtZX" if state == WAITS_WITH_AN_END else "TtZXS")):
                return True
        return any(server.busy() for server in self.servers)

    def pass_by(self, seconds, step_s):
        """Moves the clock this far in steps. After each step the processes have done what was due."""
        for _ in range(round(seconds / step_s)):
            self.forward(step_s)
            self.settle()

    def seconds(self):
        """Returns the seconds that have passed on the clock."""
        return self._ns / 1e9

    def wait(self, seconds):
        """Returns when running() has moved the clock this far. On a busy machine that takes long."""
        until = self._ns + seconds * 1e9
        while self._ns < until:
            time.sleep(STEP_S)

    @contextlib.contextmanager
    def running(self, factor):
        """
        Moves the clock `factor` times as fast as the real time. If this process or the program gets no CPU for a while, the clock stands
        still: other than with hurry(), a busy machine does not take time from the program.
        """
        ended = threading.Event()

        def run():
            moved = time.monotonic()
            while not ended.wait(STEP_S):
                self.settle()
                now = time.monotonic()
                self.forward(min(now - moved, 4 * STEP_S) * factor)
                moved = now

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
        Moves the clock in steps until `condition()` is true. Returns the seconds that have passed on it. Before each step the processes have
        done what was due. Fails if more than `most_s` seconds pass on the clock.
        """
        begun = self._ns
        while not condition():
            assert self._ns - begun < most_s * 1e9, f"not within {most_s} s: {what() if callable(what) else what}"
            self.forward(step_s)
            self.settle()
            time.sleep(0.01)
        return (self._ns - begun) / 1e9
