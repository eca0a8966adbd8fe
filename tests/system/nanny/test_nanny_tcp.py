"""
TCP connections that clients keep open across a configuration change. For each connection dnsmasq forks a process, which keeps the
configuration of that moment. The nanny ends idle connections, so that the client reconnects. A query in progress still gets its answer.
"""

import os
import select
import socket
import threading
import time

import dns.message
import dns.rcode
import pytest
from hurry import Clock
from nanny_world import ARGS, ENGINE, Server, constant, only_dnsmasq
from waiting import wait_for


@pytest.fixture
def servers():
    """Makes servers with different addresses and the same port. dnsmasq's sandbox permits connections only to the ports that were configured at startup."""
    made = []

    def make(answer):
        made.append(Server(answer, address=f"127.0.0.{len(made) + 1}", port=made[0].port if made else 0, tcp=True))
        return made[-1]

    yield make
    for s in made:
        s.close()


@pytest.fixture
def running_clock(tmp_path):
    """A clock that stands still while this process gets no CPU. So a client that is late does not count as idle."""
    with Clock(tmp_path).running(1) as clock:
        yield clock


class Client:
    """A persistent TCP connection to dnsmasq."""

    def __init__(self, world, connect_s=60):
        self.sock = socket.create_connection(("127.0.0.1", world.port), timeout=connect_s)
        self.sock.settimeout(60)
        self.stream = self.sock.makefile("rb")

    def send(self, name):
        wire = dns.message.make_query(name, "A").to_wire()
        self.sock.sendall(len(wire).to_bytes(2, "big") + wire)

    def receive(self):
        """Returns the address or the rcode of the next answer, or None if the connection has ended."""
        prefix = self.stream.read(2)
        if len(prefix) < 2:
            return None
        reply = dns.message.from_wire(self.stream.read(int.from_bytes(prefix, "big")))
        return reply.answer[0][0].to_text() if reply.answer else dns.rcode.to_text(reply.rcode())

    def ask(self, name):
        try:
            self.send(name)
            return self.receive()
        except ConnectionError:
            return None

    def ended(self):
        """True if the other end has closed the connection."""
        return bool(select.select([self.sock], [], [], 0)[0]) and self.sock.recv(1, socket.MSG_PEEK) == b""


def change(world, server):
    world.write(stubDomains={"acme.test": [str(server)]})
    world.wait_config(lambda c: c["confirmed"] and c["keys"]["stubDomains"]["inForce"] == {"acme.test": [str(server)]})


def stale(world):
    return world.metric("nanny_tcp_connections_stale")


@only_dnsmasq("its TCP processes")
def test_an_idle_connection_ends_and_the_next_one_asks_the_new_server(world, servers, running_clock):
    first, second = servers(constant("10.9.0.1")), servers(constant("10.9.0.2"))
    world.write(stubDomains={"acme.test": [str(first)]})
    world.start(env={**os.environ, **running_clock.env})
    clients = [Client(world) for _ in range(4)]
    assert [c.ask(f"a{i}.acme.test") for i, c in enumerate(clients)] == ["10.9.0.1"] * 4
    change(world, second)
    begun = running_clock.seconds()
    wait_for(lambda: all(c.ended() for c in clients))
    assert running_clock.seconds() - begun < 3
    assert Client(world).ask("b.acme.test") == "10.9.0.2"
    wait_for(lambda: world.metric("nanny_tcp_connections_ended_total") == 4 and stale(world) == 0)
    assert world.config()["dnsmasq"]["deaths"] == 0


@only_dnsmasq("its TCP processes")
def test_a_question_in_flight_is_answered_before_its_connection_ends(world, servers):
    release = threading.Event()

    def slow(name, rdtype):
        release.wait(20)
        return constant("10.9.0.1")(name, rdtype)

    first, second = servers(slow), servers(constant("10.9.0.2"))
    world.write(stubDomains={"acme.test": [str(first)]})
    world.start()
    client = Client(world)
    client.send("a.acme.test")
    wait_for(lambda: first.asked)
    change(world, second)
    time.sleep(0.5)  # an unwanted close would arrive in this time
    assert stale(world) == 1 and not client.ended()
    release.set()
    assert client.receive() == "10.9.0.1"
    wait_for(client.ended)
    wait_for(lambda: stale(world) == 0)


def test_a_client_that_does_not_pause_comes_to_the_new_server_too(world, servers):
    first, second = servers(constant("10.9.0.1")), servers(constant("10.9.0.2"))
    world.write(stubDomains={"acme.test": [str(first)]})
    world.start()
    client, answers, unanswered = Client(world), [], 0
    for i in range(1000):
        if i == 10:
            world.write(stubDomains={"acme.test": [str(second)]})
        answer = client.ask(f"a{i}.acme.test")
        if answer is None:  # dnsmasq closes a connection after 100 queries, or the nanny has closed it
            unanswered += 1
            client = Client(world)
            answer = client.ask(f"b{i}.acme.test")
        answers.append(answer)
        if answers.count("10.9.0.2") == 20:
            break
    old = answers.count("10.9.0.1")
    assert old >= 10 and answers == ["10.9.0.1"] * old + ["10.9.0.2"] * 20
    assert unanswered <= 1 + len(answers) // 100


@only_dnsmasq("its TCP processes")
def test_a_connection_opened_after_the_change_stays(world, servers):
    first, second = servers(constant("10.9.0.1")), servers(constant("10.9.0.2"))
    world.write(stubDomains={"acme.test": [str(first)]})
    world.start()
    before_start = Client(world)  # its dnsmasq process keeps the configuration at startup
    assert before_start.ask("a.acme.test") == "10.9.0.1"
    change(world, second)
    after = Client(world)
    wait_for(before_start.ended)
    assert not after.ended() and after.ask("a.acme.test") == "10.9.0.2"
    world.write(stubDomains={"acme.test": [str(second)]}, unknown="x")  # no change, so no connection may end
    time.sleep(0.5)  # an unwanted close would arrive in this time
    assert not after.ended() and after.ask("b.acme.test") == "10.9.0.2"


@only_dnsmasq("its TCP processes")
def test_a_new_dnsmasq_has_no_old_connections(world, servers):
    first = servers(constant("10.9.0.1"))
    world.write(stubDomains={"acme.test": [str(first)]})
    world.start(args=[*ARGS, "--max-tcp-connections=30"])
    clients = [Client(world) for _ in range(25)]
    time.sleep(0.5)  # an unwanted close would arrive in this time
    assert not any(c.ended() for c in clients)
    assert stale(world) == world.metric("nanny_tcp_connections_ended_total") == 0


class Hoarder:
    """A client address that holds as many TCP connections as it can, sends no query, and replaces each connection that ends."""

    def __init__(self, port, count, address="127.0.0.2"):
        self.port, self.count, self.address, self.stopping = port, count, address, False
        self.held, self.opened = [], 0
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        end = time.monotonic() + 120  # limited, even if the test fails to stop it
        while not self.stopping and time.monotonic() < end:
            for s in select.select(self.held, [], [], 0)[0]:
                self.held.remove(s)
                s.close()
            if len(self.held) < self.count:
                try:
                    self.held.append(socket.create_connection(("127.0.0.1", self.port), timeout=1, source_address=(self.address, 0)))
                    self.opened += 1
                except OSError:
                    pass
            else:
                time.sleep(0.01)

    def stop(self):
        self.stopping = True
        self.thread.join(10)
        for s in self.held:
            s.close()


@pytest.mark.parametrize("limit", [20, None], ids=["dnsmasq's own limit", "as memory allows"])
def test_idle_connections_of_one_client_do_not_block_tcp_for_others(world, servers, running_clock, limit):
    """At its connection limit dnsmasq accepts no further connection until one ends. Without the nanny, dnsmasq would keep idle connections for 150 s."""
    upstream = servers(constant("10.9.0.1"))
    world.write(upstreamNameservers=[str(upstream)])
    world.start(args=[*ARGS, *([f"--max-tcp-connections={limit}"] if limit else [])], env={**os.environ, **running_clock.env})
    busy = Client(world)
    assert busy.ask("busy0.test") == "10.9.0.1"
    hoarder = Hoarder(world.port, 250)
    try:
        wait_for(lambda: hoarder.opened >= min(20, limit or 20))
        if ENGINE == "dnsmasq":
            wait_for(lambda: world.metric("nanny_tcp_connections_crowd_ended_total") > 0)
        for i in range(10):
            # The client tries again each second, like the hoarder. The kernel alone would try again after 1, 3, 7, 15 and 31 s.
            client = wait_for(lambda: Client(world, connect_s=1), passing=(OSError,))
            assert client.ask(f"v{i}.test") == "10.9.0.1", world.log()
            client.sock.close()
            assert busy.ask(f"busy{i + 1}.test") == "10.9.0.1" or busy.ended()
        assert ENGINE == "unbound" or "closing idle ones" in world.log()
    finally:
        hoarder.stop()
    if ENGINE == "dnsmasq":
        wait_for(lambda: world.metric("nanny_tcp_connections") < 20)
