"""/healthz fails for a worker that is stuck, so that the kubelet starts the container again, and never for one that has much to do."""

import ctypes
import os
import time

import pytest
from dnsnet import WEB, query, world
from hurry import hurry
from test_fair_share import ATTACKER, HOSTILE, hostile, write
from waiting import wait_for

PTRACE_DETACH, PTRACE_SEIZE, PTRACE_INTERRUPT = 17, 0x4206, 0x4207
WALL = 0x40000000  # of waitpid: threads too
HURRY = 5  # ten seconds without a turn of the loop are what it takes


class Stopped:
    """One thread of a process, held still by ptrace while the others go on."""

    def __init__(self, pid, name):
        self.libc = ctypes.CDLL(None, use_errno=True)
        tasks = f"/proc/{pid}/task"
        # The thread names itself, when it has got a processor.
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
            assert time.monotonic() - stopped > 9 / HURRY - 0.3, "not before it has been stuck for ten seconds"
            assert k.http("/healthz")[1].startswith("a worker has been stuck for ")
        k.wait(lambda: k.http("/healthz") == (200, "ok\n"), 5)


def test_a_worker_that_nobody_asks_is_alive(tmp_path):
    """Nothing limits its wait but the heartbeat."""
    with world(tmp_path, "--threads=2", env=hurry(HURRY)) as k:
        k.wait_ready()
        end = time.monotonic() + 15 / HURRY
        while time.monotonic() < end:
            assert k.http("/healthz") == (200, "ok\n")


@pytest.mark.quiet
def test_a_worker_that_gets_more_than_it_can_answer_is_alive(tmp_path):
    """For longer than a stuck one is given; its own clock runs twice as fast."""
    if not os.path.exists(HOSTILE):
        pytest.skip(f"needs {HOSTILE}: make bench-tools")
    cpu = ["taskset", "-c", str(min(os.sched_getaffinity(0)))]
    with world(tmp_path, "--threads=1", "--fair-share=off", env=hurry(2), prefix=cpu) as k:
        k.wait_ready()
        attacker = hostile("udp", ATTACKER, k, write(tmp_path / "attack", [query(WEB, id=i) for i in range(64)]), 7, 0, cpu)
        seen = set()
        while attacker.poll() is None:
            seen.add(k.http("/healthz")[0])
            time.sleep(0.05)
        attacker.communicate()
        assert seen == {200}
        assert k.metric("kubedns_dns_dropped_total", reason="receive_queue") > 0, "it could answer everything"
