"""
dnstap (--dnstap), read by other projects' programs: fstrm_capture accepts the connection, dnstap-read decodes the messages. Each message
arrives once, or kubedns counts it as dropped. No answer waits for a collector that is slow or absent.
"""

import collections
import datetime
import glob
import re
import signal
import socket
import subprocess
import threading
import time

import pytest
from bulk_asking import Bulk
from dnsnet import MANY, WEB, Tcp, Upstream, query, timed, udp, world
from kubedns_process import PROGRAM
from test_relay import BIG, by_name
from waiting import free_port, sanitized, wait_for

Message = collections.namedtuple("Message", "kind client server proto name type")
LINE = re.compile(r"\S+ \S+ (\w\w) (\S+) (?:->|<-) (\S+) (\w+) \d+b (\S+)/IN/(\w+)")


class Collector:
    """fstrm_capture at `where`, writing to its own file."""

    def __init__(self, where, path):
        self.path = path
        kind, _, rest = where.partition(":")
        address, _, port = rest.rpartition(":")
        listen = ["-u", rest] if kind == "unix" else ["-a", address.strip("[]"), "-p", port]
        self.sockets = ["ss", "-Hx", "src", rest] if kind == "unix" else ["ss", "-Htn", "state", "established", f"( sport = :{port} or dport = :{port} )"]
        self.queues = slice(2, 3) if kind == "unix" else slice(0, 2)
        self.process = subprocess.Popen(["fstrm_capture", "-t", "protobuf:dnstap.Dnstap", *listen, "-w", str(path)], stderr=subprocess.DEVNULL)

    def signal(self, number):
        self.process.send_signal(number)

    def has_read(self):
        """True if fstrm_capture has read everything: the queue of its socket is empty, and with TCP also kubedns's send queue."""
        lines = subprocess.run(self.sockets, capture_output=True, text=True, check=True).stdout.splitlines()
        return all(queue == "0" for line in lines for queue in line.split()[self.queues])

    def end(self):
        """Ends fstrm_capture. At its end it writes all messages that it has received."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.terminate()
        self.process.wait(30)

    def read(self, *flags):
        """Ends the collector and returns dnstap-read's output for all messages that were sent to it."""
        if self.process.poll() is None:
            wait_for(self.has_read, 30)
        self.end()
        return subprocess.run(["dnstap-read", *flags, str(self.path)], capture_output=True, text=True, check=True).stdout

    def messages(self):
        lines = self.read().splitlines()
        found = [LINE.fullmatch(line) for line in lines]
        assert None not in found, lines[found.index(None)]
        return [Message(*line.groups()) for line in found]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()


@pytest.fixture
def where(tmp_path):
    return f"unix:{tmp_path}/d.sock"


def connected(k):
    k.wait(lambda: k.metric("kubedns_dnstap_connected") == 1)


def counts(k):
    """(sent, dropped because the queue was full, lost with the connection)"""
    return tuple(int(n) for n in (k.metric("kubedns_dnstap_sent_total"), k.metric("kubedns_dnstap_dropped_total", reason="queue_full"),
                                  k.metric("kubedns_dnstap_dropped_total", reason="connection")))  # fmt: skip


def sent(k, count):
    k.wait(lambda: counts(k)[0] >= count, what=lambda: f"{count} sent; {counts(k)}")


def brief(messages):
    return [(m.kind, m.proto, m.name) for m in messages]


# The contents of the messages.


@pytest.mark.parametrize("transport", ["unix", "tcp", "tcp6"])
def test_queries_answers_and_what_is_asked_upstream(tmp_path, transport):
    where = {"unix": f"unix:{tmp_path}/d.sock", "tcp": f"tcp:127.0.0.1:{free_port()}", "tcp6": f"tcp:[::1]:{free_port()}"}[transport]
    with Collector(where, tmp_path / "out") as collector, Upstream() as u, world(tmp_path, f"--nameservers={u.address}", "--threads=1", f"--dnstap={where}") as k:
        k.wait_ready()
        connected(k)
        udp(k, query(WEB), source="127.0.0.2")
        with Tcp(k) as tcp:
            tcp.ask(query(WEB, "AAAA"))
            tcp.ask(query("tcp.example.com"))
        udp(k, query("www.example.com"))
        sent(k, 12)
        messages = collector.messages()
        assert brief(messages) == [
            ("CQ", "UDP", WEB), ("CR", "UDP", WEB), ("CQ", "TCP", WEB), ("CR", "TCP", WEB),
            ("CQ", "TCP", "tcp.example.com"), ("FQ", "UDP", "tcp.example.com"), ("FR", "UDP", "tcp.example.com"), ("CR", "TCP", "tcp.example.com"),
            ("CQ", "UDP", "www.example.com"), ("FQ", "UDP", "www.example.com"), ("FR", "UDP", "www.example.com"), ("CR", "UDP", "www.example.com"),
        ]  # fmt: skip
        assert messages[0].client.startswith("127.0.0.2:") and messages[2].type == "AAAA"
        assert {m.server for m in messages if m.kind[0] == "F"} == {u.address} and {m.server for m in messages if m.kind[0] == "C"} == {"?"}


def test_who_says_it_and_when(tmp_path, where):
    with Collector(where, tmp_path / "out") as collector, world(tmp_path, f"--dnstap={where}", "--recorder=off") as k:
        k.wait_ready()
        connected(k)
        begun = datetime.datetime.now(datetime.timezone.utc).replace(microsecond=0)
        udp(k, query(WEB))
        sent(k, 2)
        ended = datetime.datetime.now(datetime.timezone.utc)
        told = collector.read("-y")
        assert told.count(f"identity: {socket.gethostname()}\nversion: kubedns-") == told.count("type: MESSAGE") == 2
        times = re.findall(r"(type: CLIENT_\w+)\n  (\w+_time): !!timestamp (\S+)Z\n", told)
        assert [what[:2] for what in times] == [("type: CLIENT_QUERY", "query_time"), ("type: CLIENT_RESPONSE", "response_time")]
        assert all(begun <= datetime.datetime.fromisoformat(at + "+00:00") <= ended for _, _, at in times)


def test_front_topology_and_what_is_asked_again_over_tcp(tmp_path, where):
    with Collector(where, tmp_path / "out") as collector, Upstream(by_name) as u, world(tmp_path, f"--resolver={u.address}", "--threads=1", f"--dnstap={where}") as k:
        k.wait_ready()
        connected(k)
        with Tcp(k) as tcp:
            assert len(tcp.ask(query("big.example.com")).answer[0]) == BIG
        sent(k, 8)
        told = brief(collector.messages())
        asked = [(kind, proto, "big.example.com") for kind, proto in
                 (("CQ", "TCP"), ("FQ", "UDP"), ("FR", "UDP"), ("FQ", "TCP"), ("FR", "TCP"), ("CR", "TCP"))]  # fmt: skip
        setting = [(kind, "UDP", "dnssec.nanny.invalid") for kind in ("FQ", "FR")]  # whether the resolver checks DNSSEC signatures
        assert [m for m in told if m in setting] == setting and [m for m in told if m not in setting] == asked


def test_clients_of_ipv6_and_the_longest_answers(tmp_path, where):
    with Collector(where, tmp_path / "out") as collector, world(tmp_path, f"--dnstap={where}", "--threads=1", "--dns-bind-address=127.0.0.1,::1") as k:
        k.wait_ready()
        connected(k)
        with Tcp(k, host="::1") as tcp:
            size = len(tcp.ask(query(MANY)).to_wire(max_size=65535))
        udp(k, query(MANY), host="::1")
        sent(k, 4)
        messages = collector.messages()
        assert size > 48000 and brief(messages) == [("CQ", "TCP", MANY), ("CR", "TCP", MANY), ("CQ", "UDP", MANY), ("CR", "UDP", MANY)]
        assert all(m.client.startswith("::1:") for m in messages)


@pytest.mark.parametrize("to, told", [("127.0.0.0/8", ["CQ", "CQ", "CR"]), ("192.0.2.0/24", ["CQ", "CR", "CQ", "CR"])])
def test_a_transfer_is_told_as_a_question_and_its_refusal(tmp_path, where, to, told):
    with Collector(where, tmp_path / "out") as collector, world(tmp_path, f"--dnstap={where}", "--threads=1", f"--transfer-to={to}") as k:
        k.wait_ready()
        connected(k)
        with Tcp(k) as tcp:
            assert tcp.ask(query("cluster.local", "AXFR")) is not None
        udp(k, query("cluster.local", "AXFR"))
        sent(k, len(told))
        assert [m.kind for m in collector.messages() if m.type == "AXFR"] == told


# Each message arrives once, or kubedns counts it.


def names(begin, count):
    return [(f"n{i}.default.svc.cluster.local", "A") for i in range(begin, begin + count)]


def asked_of(k):
    """The number of queries that kubedns has read. It may be higher than the test's number, because the test client retries when a packet is lost."""
    return int(k.metric("kubedns_dns_requests_total"))


def test_ten_thousand_queries_at_full_speed_arrive_once_each(tmp_path, where):
    with Collector(where, tmp_path / "out") as collector, world(tmp_path, f"--dnstap={where}") as k:
        k.wait_ready()
        connected(k)
        Bulk(k.port).ask_udp(names(0, 10000))
        asked = asked_of(k)
        k.wait(lambda: sum(counts(k)) == 2 * asked, what=lambda: f"{asked} asked: {counts(k)}")
        assert counts(k) == (2 * asked, 0, 0)
        messages = collector.messages()
        told = {kind: collections.Counter(m.name for m in messages if m.kind == kind) for kind in ("CQ", "CR")}
        assert told["CQ"] == told["CR"] and set(told["CQ"]) == {name for name, _ in names(0, 10000)}
        assert told["CQ"].total() == asked >= 10000


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_the_collector_dies_under_load_and_comes_back(tmp_path, where, how):
    with world(tmp_path, f"--dnstap={where}") as k:
        with Collector(where, tmp_path / "first") as first:
            k.wait_ready()
            connected(k)
            bulk = Bulk(k.port)
            load = threading.Thread(target=bulk.ask_udp, args=(names(0, 10000),))
            load.start()
            k.wait(lambda: counts(k)[0] > 1000)
            first.signal(how)
            load.join()
            k.wait(lambda: k.metric("kubedns_dnstap_connected") == 0)
        bulk.ask_udp(names(10000, 100))
        with Collector(where, tmp_path / "second") as second:
            connected(k)
            bulk.ask_udp(names(20000, 100))
            asked = asked_of(k)
            k.wait(lambda: sum(counts(k)) == 2 * asked, what=lambda: f"{asked} asked: {counts(k)}")
            assert k.metric("kubedns_dnstap_connections_total") == 2 and k.log().count("the collector closed the connection") == 1
            read = second.messages() + (first.messages() if how == signal.SIGTERM else [])
        told = collections.Counter((m.kind, m.client, m.name) for m in read)
        assert max(told.values()) == 1 if asked == 10200 else max(told.values()) <= 2  # a retried query is reported twice
        queued = {name for name, _ in names(10000, 100) + names(20000, 100)}  # messages from the time without a collector, and messages after that time
        assert queued <= {m.name for m in read if m.kind == "CQ"} and queued <= {m.name for m in read if m.kind == "CR"}
        assert len(read) <= counts(k)[0]


def test_what_was_on_its_way_to_a_collector_that_is_killed_is_counted(tmp_path, where):
    with world(tmp_path, f"--dnstap={where}") as k, Collector(where, tmp_path / "out") as collector:
        k.wait_ready()
        connected(k)
        collector.signal(signal.SIGSTOP)
        overflow(k)
        collector.signal(signal.SIGKILL)
        k.wait(lambda: counts(k)[2] > 0)
        with Collector(where, tmp_path / "second") as second:
            connected(k)
            asked = asked_of(k)
            k.wait(lambda: sum(counts(k)) == 2 * asked, what=lambda: f"{asked} asked: {counts(k)}")
            assert 0 < len(second.messages()) < counts(k)[0]


# No answer waits for the collector.


def overflow(k):
    """Sends queries for answers of 48 kB until the queues are full."""
    with Tcp(k) as tcp:
        for _ in range(300):
            tcp.send(query(MANY))
            took, reply = timed(tcp.read_wire)
            assert len(reply) > 48000 and took < 5
    k.wait(lambda: counts(k)[1] > 0)


def test_without_a_collector_kubedns_answers_and_counts_dropped_messages(tmp_path, where):
    with world(tmp_path, f"--dnstap={where}") as k:
        k.wait_ready()
        rss = k.memory()["VmRSS"]
        overflow(k)
        assert k.log().count(f"warning: dnstap: {where}: No such file or directory: trying again") == 1
        assert k.memory()["VmRSS"] - rss < 8 * 1024 or sanitized()
        with Collector(where, tmp_path / "out") as collector:
            k.wait(lambda: k.metric("kubedns_dnstap_connected") == 1, timeout=20)
            udp(k, query(WEB))
            asked = asked_of(k)
            k.wait(lambda: sum(counts(k)) == 2 * asked, what=lambda: f"{asked} asked: {counts(k)}")
            told = collector.messages()
        assert len(told) == counts(k)[0] and brief(told)[-2:] == [("CQ", "UDP", WEB), ("CR", "UDP", WEB)]


@pytest.mark.parametrize("transport", ["unix", "tcp"])
def test_a_collector_that_does_not_read_stops_neither_answers_nor_the_end(tmp_path, transport):
    where = f"unix:{tmp_path}/d.sock" if transport == "unix" else f"tcp:127.0.0.1:{free_port()}"
    with Collector(where, tmp_path / "out") as collector:
        k = world(tmp_path, f"--dnstap={where}", "--drain=0s")
        try:
            k.wait_ready()
            connected(k)
            collector.signal(signal.SIGSTOP)
            overflow(k)
            asked = asked_of(k)
            k.process.send_signal(signal.SIGTERM)
            assert k.process.wait(20) == 0
            ended = re.search(r"dnstap: (\d+) messages were sent, (\d+) dropped", k.log())
            assert ended and sum(map(int, ended.groups())) == 2 * asked, k.log()
        finally:
            k.stop()


@pytest.mark.parametrize("said", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n" * 4])
def test_what_is_no_collector_is_named_once(tmp_path, said):
    tried = 0
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen(64)

        def serve():
            nonlocal tried
            while True:
                try:
                    with other.accept()[0] as client:
                        tried += 1
                        client.recv(4)
                        client.sendall(said)
                except OSError:
                    return

        threading.Thread(target=serve, daemon=True).start()
        with world(tmp_path, f"--dnstap=tcp:127.0.0.1:{other.getsockname()[1]}") as k:
            k.wait_ready()
            assert udp(k, query(WEB)) is not None
            line = k.wait(lambda: re.search(r"warning: dnstap: tcp:\S+: (.*): trying again", k.log()))
            assert line[1] in ("the server there does not accept dnstap", "Connection reset by peer")
            wait_for(lambda: tried > 3)
            assert udp(k, query(WEB)) is not None and k.log().count("trying again") == 1
        other.shutdown(socket.SHUT_RDWR)


def test_a_collector_that_closes_connections_is_retried_with_backoff(tmp_path):
    taken = []
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen(64)

        def serve():
            while True:
                try:
                    with other.accept()[0] as client:
                        agree(client)
                        taken.append(time.monotonic())
                except OSError:
                    return

        threading.Thread(target=serve, daemon=True).start()
        with world(tmp_path, f"--dnstap=tcp:127.0.0.1:{other.getsockname()[1]}") as k:
            k.wait_ready()
            wait_for(lambda: len(taken) >= 5)  # kubedns reconnects after 100, 200, 400 and 800 ms
            waits = [b - a for a, b in zip(taken, taken[1:])]
            assert all(wait >= 0.1 * 2**i for i, wait in enumerate(waits)), waits
            assert k.log().count("dnstap:") == 2 and "the collector closed the connection: trying again; not logged again" in k.log(), k.log()
        other.shutdown(socket.SHUT_RDWR)


def frame(kind, content=b""):
    body = kind.to_bytes(4, "big") + content
    return bytes(4) + len(body).to_bytes(4, "big") + body


def agree(client):
    """Plays the collector in the Frame Streams handshake: answers READY with ACCEPT, and then reads START."""
    content = b"\0\0\0\1" + len(b"protobuf:dnstap.Dnstap").to_bytes(4, "big") + b"protobuf:dnstap.Dnstap"
    client.recv(4096)
    client.sendall(frame(1, content))
    client.recv(4096)


def test_without_the_flag_there_is_no_thread_no_family_and_no_unix_socket(tmp_path):
    with world(tmp_path) as k:
        k.wait_ready()
        assert not any("dnstap" in series for series in k.metrics())
        assert "dnstap" not in threads(k)
    with Collector(f"unix:{tmp_path}/d.sock", tmp_path / "out"), world(tmp_path, f"--dnstap=unix:{tmp_path}/d.sock") as k:
        k.wait_ready()
        connected(k)
        assert "dnstap" in threads(k)
        assert not re.search("sandbox: .*(without|not)", k.log())


def threads(k):
    return [open(path, encoding="ascii").read().strip() for path in glob.glob(f"/proc/{k.pid}/task/*/comm")]


@pytest.mark.parametrize("value, why", [("/run/d.sock", "unix:/PATH or tcp:IP:PORT is needed"), ("tcp:192.0.2.1", "the port is missing"),
                                        ("unix:d.sock", "begins with /"), ("unix:/" + "x" * 108, "107 bytes at most")])  # fmt: skip
def test_a_mistake_in_the_flag_is_named(value, why):
    done = subprocess.run([PROGRAM, f"--dnstap={value}"], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 2 and f'--dnstap: "{value}"' in done.stderr and why in done.stderr and "usage:" in done.stderr
