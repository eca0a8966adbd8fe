"""/healthz fails for a stuck worker, so that the kubelet restarts the container. It never fails for a busy worker."""

import ctypes
import os
import time

import pytest
from dnsnet import WEB, query, world
from hurry import Clock, hurry
from test_fair_share import ATTACKER, HOSTILE, hostile, write
from waiting import wait_for

PTRACE_DETACH, PTRACE_SEIZE, PTRACE_INTERRUPT = 17, 0x4206, 0x4207
WALL = 0x40000000  # the waitpid option that includes threads
HURRY = 5  # /healthz fails after ten seconds without an iteration of the loop


class Stopped:
    """Stops one thread of a process with ptrace while the others keep running."""

    def __init__(self, pid, name):
        self.libc = ctypes.CDLL(None, use_errno=True)
        tasks = f"/proc/{pid}/task"
        # The thread sets its name when it runs for the first time.
        named = lambda: [int(tid) for tid in os.listdir(tasks) if open(f"{tasks}/{tid}/comm", encoding="ascii").read().strip() == name]  # noqa: E731
        (self.tid,) = wait_for(named)

    def ptrace(self, request):
        if self.libc.ptrace(ctypes.c_long(request), ctypes.c_long(self.tid), None, None) < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

    def __enter__(self):
        try:
            self.ptrace(PTRACE_SEIZE)
        except PermissionError as e:
            pytest.skip(f"needs the right to trace a thread: {e}")
        self.ptrace(PTRACE_INTERRUPT)
        os.waitpid(self.tid, WALL)
        return self

    def __exit__(self, *_):
        self.ptrace(PTRACE_DETACH)


def test_a_worker_that_is_stuck_fails_liveness_until_it_goes_on(tmp_path):
    with world(tmp_path, "--threads=2", env=hurry(HURRY)) as k:
        k.wait_ready()
        k.wait(lambda: k.http("/healthz") == (200, "ok\n"), 5)
        with Stopped(k.pid, "worker01"):
            stopped = time.monotonic()
            k.wait(lambda: k.http("/healthz")[0] == 503, 10)
            assert time.monotonic() - stopped > 9 / HURRY - 0.3, "/healthz failed before the worker was stuck for ten seconds"
            assert k.http("/healthz")[1].startswith("a worker has been stuck for ")
        k.wait(lambda: k.http("/healthz") == (200, "ok\n"), 5)


def test_a_worker_that_nobody_asks_is_alive(tmp_path):
    """Without queries, only the heartbeat wakes the worker."""
    clock = Clock(tmp_path)
    with world(tmp_path, "--threads=2", env=clock.env) as k:
        k.wait_ready()
        for _ in range(30):
            clock.pass_by(0.5, step_s=0.1)
            assert k.http("/healthz") == (200, "ok\n")


def test_a_worker_that_gets_more_than_it_can_answer_is_alive(tmp_path):
    """The overload lasts longer than the limit for a stuck worker, which is 10 s on the clock of kubedns."""
    if not os.path.exists(HOSTILE):
        pytest.skip(f"needs {HOSTILE}: make bench-tools")
    cpu = ["taskset", "-c", str(min(os.sched_getaffinity(0)))]
    clock = Clock(tmp_path)
    with world(tmp_path, "--threads=1", "--fair-share=off", env=clock.env, prefix=cpu) as k:
        k.wait_ready()
        attacker = hostile("udp", ATTACKER, k, write(tmp_path / "attack", [query(WEB, id=i) for i in range(64)]), 60, 0, cpu)
        try:
            for _ in range(28):
                clock.pass_by(0.5, step_s=0.5)
                assert attacker.poll() is None and k.http("/healthz")[0] == 200
            assert k.metric("kubedns_dns_dropped_total", reason="receive_queue") > 0, "the load was too small: the worker answered everything"
        finally:
            attacker.kill()
            attacker.communicate()
