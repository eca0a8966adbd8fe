"""
Before its first sync kubedns does not know the cluster. With --until-synced it forwards queries for cluster names to other DNS pods over
TCP. It stops doing so once it has synced.
"""

import socket
import struct
import subprocess
import threading
import time

import dns.message
import dns.query
import pytest
from api_world import ApiServer
from asking import ask, outcome
from hurry import Clock
from kubedns_process import PROGRAM, Kubedns
from objects import endpoint_slice, namespace, service

WEB, NONE = "web.default.svc.cluster.local", "none.default.svc.cluster.local"
MINE, THEIRS = "10.200.0.1", "192.0.2.77"


class Central:
    """
    A stand-in for the pods of a Service, over TCP only. It answers every A query with THEIRS and counts the queries. On the first `hangs`
    connections it does not answer.
    """

    def __init__(self, hangs=0):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port, self.hangs, self.asked, self.connections, self.names = self.listener.getsockname()[1], hangs, 0, 0, []
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self.serve, args=(connection, self.connections <= self.hangs), daemon=True).start()

    def serve(self, connection, hangs):
        with connection, connection.makefile("rwb") as stream:
            while len(head := stream.read(2)) == 2:
                wire = stream.read(struct.unpack("!H", head)[0])
                self.asked += 1
                end = wire.index(b"\0", 12) + 5
                self.names.append(wire[12:end - 4])
                if hangs:
                    continue
                reply = wire[:2] + struct.pack("!5H", 0x8580, 1, 1, 0, 0) + wire[12:end] \
                    + struct.pack("!3HIH", 0xC00C, 1, 1, 30, 4) + socket.inet_aton(THEIRS)
                stream.write(struct.pack("!H", len(reply)) + reply)
                stream.flush()

    def close(self):
        self.listener.close()


@pytest.fixture
def start(tmp_path):
    """Starts a kubedns whose API server is down until api.start(), and the pods to which it forwards queries meanwhile."""
    running = []
    with ApiServer(listen=False) as api:
        api.fill([namespace("default"), service("web", MINE), endpoint_slice("web", ["10.201.0.1"])])

        def run(*args, hangs=0, clock=None):
            central = Central(hangs)
            running.append(central)
            if not api.address()["port"]:
                api.start()
                api.stop()
            kubedns = Kubedns(f"--kubecfg-file={api.kubeconfig(tmp_path / 'kubeconfig')}", f"--until-synced=127.0.0.1:{central.port}", *args,
                              env=clock and clock.env, directory=str(tmp_path))  # fmt: skip
            running.append(kubedns)
            until((lambda: " answering " in kubedns.log()) if clock else lambda: ask(kubedns.port, WEB, timeout=0.5) is not None)
            return kubedns, central, api

        yield run
        for it in running:
            if isinstance(it, Kubedns):
                print(it.log()[-3000:])
                it.stop()
            else:
                it.close()


def until(condition, seconds=30):
    begun = time.monotonic()
    while not condition():
        assert time.monotonic() - begun < seconds
        time.sleep(0.02)


def test_until_synced_forwards_cluster_names_only_before_the_first_sync(start):
    kubedns, central, api = start()
    assert ask(kubedns.port, WEB) == {THEIRS}
    over_tcp = dns.query.tcp(dns.message.make_query(WEB, "A"), "127.0.0.1", 5, kubedns.port)
    assert outcome(over_tcp.to_wire()) == {THEIRS}
    assert ask(kubedns.port, "1.0.200.10.in-addr.arpa", "PTR") == {THEIRS}, "kubedns forwards private reverse names too"
    assert kubedns.metric("kubedns_until_synced_total") == central.asked > 0
    assert "--until-synced" in kubedns.http(f"/explain?name={WEB}")[1]
    api.start()
    until(lambda: ask(kubedns.port, WEB) == {MINE})
    asked = central.asked
    assert ask(kubedns.port, NONE) == "NXDOMAIN"
    api.stop()
    assert ask(kubedns.port, WEB) == {MINE}, "kubedns serves existing data when the API is down"
    assert central.asked == asked and kubedns.metric("kubedns_until_synced_total") == asked


def test_the_nodes_guard_is_told_the_truth(start):
    """kubedns never forwards dns-version, so its answer shows whether this kubedns has synced. The node's guard sets the rules only then."""
    kubedns, central, _ = start()
    asked = central.asked
    assert ask(kubedns.port, "dns-version.cluster.local", "TXT") == "SERVFAIL"
    assert central.asked == asked and not kubedns.ready()


def test_a_pod_that_hangs_is_passed_over(start, tmp_path):
    """A Service chooses a pod for each connection, so kubedns's second attempt can reach another pod."""
    clock = Clock(tmp_path)
    kubedns, central, _ = start(hangs=1, clock=clock)
    reply = clock.ask(kubedns, dns.message.make_query(WEB, "A"), 2)[1]
    assert outcome(reply.to_wire()) == {THEIRS} and central.connections == 2
    for number in range(100):
        assert ask(kubedns.port, f"n{number}.default.svc.cluster.local", timeout=60) == {THEIRS}
    assert central.connections > 3, "a connection is replaced after at most 32 queries"


def test_nobody_there_is_servfail(start):
    kubedns, central, _ = start()
    central.close()
    until(lambda: ask(kubedns.port, WEB, timeout=5) == "SERVFAIL")


@pytest.mark.parametrize("value, said", [
    ("10.0.0.1,", None), ("$(KUBE_DNS_UPSTREAM_SERVICE_HOST)", "the Service did not exist"), ("x", "--until-synced"), ("1.1.1.1,2.2.2.2,3.3.3.3,4.4.4.4,5.5.5.5,6.6.6.6", "at most 5"),
    ("127.0.0.1", "--until-synced")])  # fmt: skip
def test_what_can_be_asked(value, said, tmp_path):
    done = subprocess.run([PROGRAM, "--check", f"--objects-dir={tmp_path}", "--dns-bind-address=127.0.0.1", f"--until-synced={value}"],
                          capture_output=True, text=True, check=False)  # fmt: skip
    assert (done.returncode == 2) == (said is not None and "did not exist" not in said), done.stderr
    assert said is None or said in done.stderr
