"""
Two kubedns share one port, as in an update (--share-port). The tests check which kubedns gets the queries, and what happens to the port
when one of them ends.
"""

import os
import pathlib
import signal
import socket

import pytest
from dnsnet import WEB, Tcp, query, udp, world
from kubedns_process import Kubedns
from waiting import free_port, wait_for

LEFT, ALONE = "is left to the other kubedns", "alone: the other kubedns has stopped"


@pytest.fixture
def start(tmp_path):
    """Starts a kubedns, optionally on the port of another kubedns. Kills all of them at the end of the test."""
    running = []

    def begin(name, *args, beside=None):
        (tmp_path / name).mkdir()
        at = [f"--dns-port={beside.port}"] if beside else []
        k = world(tmp_path / name, "--share-port", "--drain=60s", "--drain-quiet=0", *at, *args)
        k.port = beside.port if beside else k.port
        running.append(k)
        k.wait_ready()
        return k

    yield begin
    for k in running:
        print(k.log()[-2000:])
        k.stop()


def end(kubedns):
    """Sends SIGTERM. Returns when kubedns has left the port. The drain lasts longer than the test."""
    kubedns.process.send_signal(signal.SIGTERM)
    kubedns.wait(lambda: LEFT in kubedns.log())


def wakeups(kubedns):
    """Returns {worker's name: number of times that it has waited}."""
    threads = {}
    for task in pathlib.Path(f"/proc/{kubedns.pid}/task").iterdir():
        fields = dict(line.split(":", 1) for line in (task / "status").read_text().splitlines())
        if fields["Name"].strip().startswith("worker"):
            threads[fields["Name"].strip()] = int(fields["voluntary_ctxt_switches"])
    return threads


def test_after_an_update_every_worker_takes_queries(start):
    """The kernel skips a socket that was ever connected. With such sockets one worker would get all queries permanently."""
    old = start("old", "--threads=4")
    new = start("new", "--threads=4", beside=old)
    end(old)
    before = wait_for(lambda: len(found := wakeups(new)) == 4 and found)  # a thread sets its name when it runs for the first time
    for _ in range(200):
        assert udp(new, query(WEB)).answer
    after = wakeups(new)
    assert all(after[name] - before[name] > 15 for name in before), (before, after)


def answers(kubedns, times=1):
    """True if queries over UDP and TCP get answers. The workers open and close their TCP sockets shortly after the line in the log."""
    try:
        for _ in range(times):
            with Tcp(kubedns) as tcp:
                assert udp(kubedns, query(WEB)).answer and tcp.ask(query(WEB)).answer
    except ConnectionError:
        return False
    return True


def taken(kubedns):
    return [kubedns.metric("kubedns_dns_requests_total", proto=proto) for proto in ("udp", "tcp")]


def takes_all(kubedns):
    before = taken(kubedns)
    return answers(kubedns, 20) and taken(kubedns) == [n + 20 for n in before]


def test_a_port_that_was_left_is_taken_back_when_the_other_has_gone(start):
    """Otherwise no program would answer until the drain is over and the kubelet has started another kubedns."""
    old = start("old", "--threads=2")
    new = start("new", "--threads=2", beside=old)
    end(old)
    new.stop()
    old.wait(lambda: ALONE in old.log())
    old.wait(lambda: takes_all(old))
    assert not old.ready(), "it answers, but it is still shutting down"
    third = start("third", "--threads=2", beside=old)
    old.wait(lambda: old.log().count(LEFT) == 2)
    third.wait(lambda: takes_all(third))


def test_a_port_that_was_left_to_one_that_died_is_still_taken(start):
    """
    The kubedns that has left the port takes it back within a second. Until then the third kubedns would be alone on the port and answer
    SERVFAIL, because it has not synced.
    """
    old = start("old")
    new = start("new", beside=old)
    end(old)
    old.process.send_signal(signal.SIGSTOP)
    new.stop()
    third = start("third", beside=old)
    assert "another kubedns has the port" in third.log()
    old.process.send_signal(signal.SIGCONT)
    third.wait(lambda: takes_all(third))


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a second user")
def test_a_port_that_cannot_be_bound_when_its_turn_comes_ends_it(tmp_path):
    """kubedns cannot share a port with another user's socket. As at startup, it exits with 1 and an error that names address, port and holder."""
    os.seteuid(65534)
    try:
        other = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    finally:
        os.seteuid(0)
    with other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        port = free_port()  # a port that is also free for TCP, which kubedns binds at once
        other.bind(("127.0.0.1", port))
        k = Kubedns(f"--objects-dir={tmp_path}", "--share-port", f"--dns-port={port}", directory=str(tmp_path))
        try:
            k.process.wait(timeout=30)
        finally:
            k.stop()
    assert k.process.returncode == 1
    assert f"cannot listen on udp 127.0.0.1:{port}: port {port} is in use by a process of uid 65534" in k.log()
