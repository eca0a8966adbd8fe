"""What every folder's tests need of the machine: a free port, a condition that comes true, what a program was built with."""

import os
import random
import socket
import time

_given = set()


def free_port():
    """
    A port free for UDP and TCP on all addresses, a moment ago. Never the same one twice, and below those that the kernel itself gives
    out, so that nobody's outgoing connection, or dnsmasq's next query, takes it before the program does.
    """
    while True:
        port = random.randrange(10000, 32000)
        with socket.socket() as tcp, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
            try:
                tcp.bind(("", port))
                udp.bind(("", port))
            except OSError:
                continue
        if port not in _given:
            _given.add(port)
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
    """Whether the programs are a sanitizer's build: slower, and their memory says nothing."""
    with open(os.path.join(os.environ.get("BUILD", "build"), "bin", "kubedns"), "rb") as f:
        code = f.read()
    return b"__asan_init" in code or b"__tsan_init" in code


def alive(pid):
    """Whether the process is there and no zombie."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as f:
            return f.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
