"""Helpers for the tests of every folder: a free port, waiting for a condition, and properties of the build."""

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
    Returns a number from `first` to `last` that no running test uses, in this process or another. For each number there is a byte in a
    file. The byte stays locked until disclaim() or the end of the process.
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
    Returns a port that was free for UDP and TCP on all addresses a moment ago. It never returns the same port twice, even in two processes.
    The ports are below the kernel's ephemeral range. So no outgoing connection and no query of dnsmasq takes the port before the program
    does.
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


def pause(begun):
    """Sleeps before the next look at a condition: a twentieth of the time that has passed since `begun`, from 10 ms to 100 ms."""
    time.sleep(min(0.1, max(0.01, (time.monotonic() - begun) / 20)))


def wait_for(condition, timeout=60.0, what="the condition", passing=()):
    """
    Waits until `condition()` is true and returns its value. Raises AssertionError after `timeout` seconds, with `what` (a text, or a
    function that returns it) and the last value. `passing` lists the exceptions of the condition that mean "not yet".
    """
    begun = time.monotonic()
    while True:
        try:
            last = condition()
            if last:
                return last
        except passing as error:
            last = error
        if time.monotonic() > begun + timeout:
            raise AssertionError(f"not within {timeout} s: {what() if callable(what) else what}; last: {last!r}")
        pause(begun)


def sanitized():
    """True if the programs are built with a sanitizer or run under Valgrind. They are slower then, and their memory use means nothing."""
    with open(os.path.join(os.environ.get("BUILD", "build"), "bin", "kubedns"), "rb") as f:
        code = f.read()
    return any(mark in code for mark in (b"__asan_init", b"__tsan_init", b"memcheck.sh"))


def alive(pid):
    """True if the process exists and is not a zombie."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as f:
            return f.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
