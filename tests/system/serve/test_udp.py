"""Queries over UDP: sizes, addresses, and invalid packets."""

import contextlib
import os
import random
import re
import signal
import socket
import subprocess
import threading
import time

import dns.edns
import dns.flags
import dns.message
import dns.rcode
import pytest
from dnsnet import MANY, WEB, WEB_IP, Tcp, addresses, drops, query, udp, world
from kubedns_process import PROGRAM
from netns import needs_ipv6
from waiting import free_port


query_wire = query(WEB).to_wire()


@pytest.fixture(scope="module")
def kubedns(tmp_path_factory):
    with world(tmp_path_factory.mktemp("udp"), "--threads=2") as k:
        k.wait_ready()
        yield k


@pytest.mark.parametrize("bind", ["0.0.0.0", "::"])
def test_replies_leave_from_the_address_that_was_asked_in_both_families(tmp_path, bind):
    needs_ipv6()
    with world(tmp_path, f"--dns-bind-address={bind}") as k:
        k.wait_ready()
        for host in ("127.0.0.1", "127.0.0.2", "127.8.9.10", "::1"):
            where = []
            assert addresses(udp(k, query(WEB), host=host, where=where)) == [WEB_IP]
            assert where == [host]
            with Tcp(k, host=host) as tcp:
                assert addresses(tcp.ask(query(WEB))) == [WEB_IP]
        assert k.metric("kubedns_dns_requests_total", proto="udp", family="ipv4", type="A") == 3
        assert k.metric("kubedns_dns_requests_total", proto="udp", family="ipv6", type="A") == 1
        assert k.metric("kubedns_dns_requests_total", proto="tcp", family="ipv6", type="A") == 1


def test_the_clients_size_is_respected_and_capped_at_1232(kubedns):
    plain = udp(kubedns, query(MANY))
    assert plain.flags & dns.flags.TC and len(plain.to_wire()) <= 512 and len(addresses(plain)) == 29
    for asked, most in ((512, 512), (900, 900), (1232, 1232), (4096, 1232), (65535, 1232)):
        reply = udp(kubedns, query(MANY, use_edns=0, payload=asked))
        assert reply.flags & dns.flags.TC and reply.edns == 0
        assert most - 16 - 11 < len(reply.to_wire()) <= most
    with Tcp(kubedns) as tcp:
        whole = tcp.ask(query(MANY))
    assert len(set(addresses(whole))) == 3000 and not whole.flags & dns.flags.TC


def padded(size):
    """A query of exactly this many bytes. RFC 7830 padding fills it up."""
    base = query(WEB, use_edns=0, payload=1232, options=[dns.edns.GenericOption(12, b"")])
    option = dns.edns.GenericOption(12, b"\0" * (size - len(base.to_wire())))
    wire = query(WEB, use_edns=0, payload=1232, options=[option]).to_wire(max_size=65535)
    assert len(wire) == size
    return wire


def test_queries_up_to_4096_bytes_are_accepted_and_longer_ones_are_formerr(kubedns):
    before = drops(kubedns, "oversize")
    assert addresses(udp(kubedns, padded(4096))) == [WEB_IP]
    assert drops(kubedns, "oversize") == before
    # A bug: if the first 4,096 bytes were a complete query, it was answered.
    for wire in (padded(4097), padded(60000), padded(4096) + b"x"):
        assert udp(kubedns, wire).rcode() == dns.rcode.FORMERR
    assert drops(kubedns, "oversize") == before + 3


def test_what_is_no_query_gets_no_reply_and_is_counted(kubedns):
    before = drops(kubedns, "not_a_query")
    response = query(WEB).to_wire()
    response = response[:2] + bytes([response[2] | 0x80]) + response[3:]
    for wire in (b"", b"\0", query(WEB).to_wire()[:11], response[:11], response):
        assert udp(kubedns, wire, timeout=0.2) is None
    assert drops(kubedns, "not_a_query") == before + 5


def test_a_query_cut_at_every_length_is_answered_formerr_from_the_header_on(kubedns):
    wire = query(WEB, use_edns=0).to_wire()
    for length in range(12, len(wire)):
        assert udp(kubedns, wire[:length]).rcode() == dns.rcode.FORMERR, length
    assert udp(kubedns, wire + b"\0").rcode() == dns.rcode.FORMERR


def test_a_compression_loop_is_formerr(kubedns):
    header = b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00"
    for loop in (b"\xc0\x0c", b"\x01a\xc0\x0c", b"\xc0\x0e\xc0\x0c"):
        assert udp(kubedns, header + loop + b"\0\1\0\1").rcode() == dns.rcode.FORMERR


def flood(kubedns, make, count):
    """Sends `count` packets. A normal query between batches makes sure that kubedns has read them all. Ignores the replies."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.connect((kubedns.host, kubedns.port))
        s.setblocking(False)
        for batch in range(0, count, 500):
            for _ in range(500):
                try:
                    s.send(make())
                except OSError:
                    pass
            assert addresses(udp(kubedns, query(WEB), timeout=10)) == [WEB_IP], f"after {batch} packets"
            try:
                while True:
                    s.recv(65535)
            except OSError:
                pass


def test_100000_random_and_100000_mutated_packets_leave_it_answering(kubedns):
    seed = int(os.environ.get("SEED", time.time()))
    print(f"SEED={seed}")
    rng = random.Random(seed)
    queries = [query(n, t, use_edns=e).to_wire() for n in (WEB, MANY, "1-2-3-4.default.pod.cluster.local", "10.0.96.10.in-addr.arpa",
               "_http._tcp." + WEB, "version.bind", "") for t in ("A", "SRV", "PTR", "ANY", "SOA") for e in (False, 0)]  # fmt: skip

    def below(limit):
        return int(rng.random() * limit)  # a third of the time of randrange()

    def mutated():
        wire = bytearray(queries[below(len(queries))])
        for _ in range(1 + below(5)):
            wire[below(len(wire))] = below(256)
        return bytes(wire[: below(len(wire) + 1)] if rng.random() < 0.2 else wire)

    flood(kubedns, lambda: rng.randbytes(below(300)), 100_000)
    flood(kubedns, mutated, 100_000)


def test_a_port_in_use_is_an_error_that_names_port_and_process(kubedns, tmp_path):
    holder = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    holder.bind(("127.0.0.1", 0))
    for port, expected in ((holder.getsockname()[1], f"pid {os.getpid()}"), (kubedns.port, f"pid {kubedns.pid}")):
        command = [PROGRAM, "--dns-bind-address=127.0.0.1", f"--dns-port={port}", f"--healthz-port={free_port()}", f"--objects-dir={tmp_path}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
        assert done.returncode == 1
        assert str(port) in done.stderr and expected in done.stderr, done.stderr


def test_both_workers_get_queries_of_one_client(kubedns):
    """All queries come from one source port. With the kernel's hash one worker would get all of them."""
    ticks = {}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.connect((kubedns.host, kubedns.port))
        s.settimeout(2)
        wire = query(WEB).to_wire()
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline and sum(1 for t in ticks.values() if t > 2) < 2:
            for _ in range(2000):
                s.send(wire)
                s.recv(512)
            ticks = worker_ticks(kubedns.pid)
    assert sum(1 for t in ticks.values() if t > 2) == 2, ticks


def worker_ticks(pid):
    """{thread: CPU ticks} of the workers."""
    ticks = {}
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/stat", encoding="ascii") as f:
            name, fields = f.read().partition("(")[2].rpartition(")")[::2]
        if name.startswith("worker"):
            fields = fields.split()
            ticks[task] = int(fields[11]) + int(fields[12])
    return ticks


def test_what_the_kernel_drops_is_counted(kubedns):
    """While no worker reads, the test sends more packets than a socket's queue holds."""
    before, sent = drops(kubedns, "receive_queue"), 20_000
    answered, done = [], threading.Event()

    def read(s):
        while not done.is_set():
            with contextlib.suppress(socket.timeout):
                answered.append(len(s.recv(512)))

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
        s.connect((kubedns.host, kubedns.port))
        s.settimeout(0.5)
        os.kill(kubedns.pid, signal.SIGSTOP)
        try:
            for _ in range(sent):
                s.send(query_wire)
        finally:
            os.kill(kubedns.pid, signal.SIGCONT)
        reader = threading.Thread(target=read, args=(s,))
        reader.start()
        try:
            kubedns.wait(lambda: drops(kubedns, "receive_queue") - before == sent - len(answered))
        finally:
            done.set()
            reader.join()
    assert 0 < len(answered) < sent
    assert drops(kubedns, "receive_queue") - before == sent - len(answered)


def test_a_stopped_process_loses_nothing_that_its_queues_can_hold(kubedns):
    """A burst of 2,000 queries arrives while no worker reads. Afterwards all queries get answers."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        s.connect((kubedns.host, kubedns.port))
        os.kill(kubedns.pid, signal.SIGSTOP)
        try:
            for i in range(2000):
                s.send(query(WEB, id=i).to_wire())
        finally:
            os.kill(kubedns.pid, signal.SIGCONT)
        s.settimeout(5)
        assert {dns.message.from_wire(s.recv(512)).id for _ in range(2000)} == set(range(2000))


def test_no_epoll_waits_on_the_udp_sockets(kubedns):
    """The kernel would notify epoll of every reply that leaves. This would be a seventh of the cost of an answer. No other test would notice."""
    bound, descriptors, waited = set(), f"/proc/{kubedns.pid}/fd", set()
    for table in ("udp", "udp6"):
        with open(f"/proc/{kubedns.pid}/net/{table}", encoding="ascii") as f:
            rows = [line.split() for line in f.readlines()[1:]]
        bound |= {f"socket:[{row[9]}]" for row in rows if int(row[1].rpartition(":")[2], 16) == kubedns.port}
    opened = {fd: os.readlink(f"{descriptors}/{fd}") for fd in os.listdir(descriptors)}
    for fd, what in opened.items():
        if what == "anon_inode:[eventpoll]":
            with open(f"{descriptors}info/{fd}", encoding="ascii") as f:
                waited |= {opened[n] for n in re.findall(r"^tfd:\s+(\d+)", f.read(), re.M)}
    assert bound & set(opened.values()) and any(what.startswith("socket:") for what in waited), "the test found no socket to check"
    assert not bound & waited


def test_two_that_share_a_port_share_its_clients(tmp_path):
    """
    Uses --share-port, as in an update. Each process has a program in the kernel that spreads packets over the process's sockets. It must
    not take the other process's packets.
    """
    (tmp_path / "old").mkdir()
    (tmp_path / "new").mkdir()
    with world(tmp_path / "old", "--threads=2", "--share-port") as old:
        old.wait_ready()
        with world(tmp_path / "new", "--threads=2", "--share-port", f"--dns-port={old.port}") as new:
            new.wait_ready()
            for _ in range(200):
                assert udp(old, query(WEB)).answer
            for k in (old, new):
                k.wait(lambda k=k: k.metric("kubedns_dns_requests_total", proto="udp") > 30)
