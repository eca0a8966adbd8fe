"""What every folder's tests need of the machine: a free port, a condition that comes true, what a program was built with."""

import fcntl
import os
import random
import socket
import tempfile
import time

_claimed = set()
_claims = open(os.path.join(tempfile.gettempdir(), f"claims-of-tests-{os.getuid()}"), "ab")


def claim(first, last):
    """
    A number from `first` to `last` that no test has that runs in this process or in another: each number is a byte of a file, locked until
    disclaim() or the process's end.
    """
    while True:
        number = random.randint(first, last)
        if number in _claimed:
            continue
        try:
            fcntl.lockf(_claims, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, number)
        except OSError:
            continue
        _claimed.add(number)
        return number


def disclaim(number):
    fcntl.lockf(_claims, fcntl.LOCK_UN, 1, number)
    _claimed.discard(number)


def free_port():
    """
    A port free for UDP and TCP on all addresses, a moment ago. Never the same one twice, in this process or in another that asks here, and
    below those that the kernel itself gives out, so that nobody's outgoing connection, or dnsmasq's next query, takes it before the
    program does.
    """
    while True:
        port = claim(10000, 31999)
        with socket.socket() as tcp, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
            try:
                tcp.bind(("", port))
                udp.bind(("", port))
            except OSError:
                continue
        return port


def wait_for(condition, timeout=10.0, what="the condition", passing=()):
    """
    The first true value of `condition()`. AssertionError after `timeout` seconds, with `what` (text, or a function that gives it then) and
    the last value. `passing` are exceptions of the condition that mean "not yet".
    """
    deadline = time.monotonic() + timeout
    while True:
        try:
            last = condition()
            if last:
                return last
        except passing as error:
            last = error
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout} s: {what() if callable(what) else what}; last: {last!r}")
        time.sleep(0.01)


def sanitized():
    """Whether the programs are a sanitizer's build, or run under Valgrind: slower, and their memory says nothing."""
    with open(os.path.join(os.environ.get("BUILD", "build"), "bin", "kubedns"), "rb") as f:
        code = f.read()
    return any(mark in code for mark in (b"__asan_init", b"__tsan_init", b"memcheck.sh"))


def alive(pid):
    """Whether the process is there and no zombie."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as f:
            return f.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
