"""
A client that queries all the time: a thread sends a set of questions at a steady rate over UDP and compares each answer with the allowed
answers. While many queries have no answer, it waits with the next one, because the kernel would drop it. It records each lost, late,
SERVFAIL or wrong answer with its time. So a fault test can assert that there was no such answer.

    with Asker(port, {("web.default.svc.cluster.local", "A"): {"10.96.0.10"}}) as asker:
        ...faults...
        asker.may_change(("web.default.svc.cluster.local", "A"), {"10.96.0.11"})    # old or new, until:
        asker.must_be(("web.default.svc.cluster.local", "A"), {"10.96.0.11"})
    asker.clean()

An expectation is a set of record texts. NXDOMAIN and NODATA (an empty set) are also possible.
"""

import select
import socket
import struct
import threading
import time
from collections import deque

import dns.flags
import dns.message
import dns.rcode
import dns.rdatatype

from waiting import pause

NXDOMAIN = "NXDOMAIN"
NODATA = frozenset()
LOST_AFTER_S = 30.0
PENDING_MOST = 200  # fewer than the kernel can keep for a server that gets no CPU


def outcome(wire):
    """Returns the outcome of a reply: NXDOMAIN, SERVFAIL, ..., or the set of the answer's records as text."""
    message = dns.message.from_wire(wire)
    if message.rcode() != dns.rcode.NOERROR:
        return dns.rcode.to_text(message.rcode())
    return frozenset(str(rr) for rrset in message.answer for rr in rrset)


def ask(port, name, type_="A", host="127.0.0.1", timeout=2.0):
    """Sends one query. Returns its outcome, or None if no reply arrived."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as s:
        s.settimeout(timeout)
        s.connect((host, port))
        try:
            s.send(dns.message.make_query(name, type_).to_wire())
            return outcome(s.recv(65535))
        except (socket.timeout, ConnectionRefusedError):
            return None


def ask_until(port, name, type_, wanted, timeout=60.0, host="127.0.0.1"):
    """Queries until the answer is `wanted`. Returns the seconds that this took. After the timeout it raises AssertionError with the last answer."""
    wanted = frozenset(wanted) if not isinstance(wanted, str) else wanted
    begun = time.monotonic()
    while (got := ask(port, name, type_, host, 0.5)) != wanted:
        took = time.monotonic() - begun
        assert took < timeout, f"{name} {type_}: {got} after {took:.1f} s, not {wanted}"
        pause(begun)
    return time.monotonic() - begun


class Asker:
    def __init__(self, port, questions, rate=300, host="127.0.0.1"):
        self.address, self.period = (host, port), 1.0 / rate
        self.expected = {q: (self._one(e),) for q, e in questions.items()}  # the outcomes allowed for queries sent from now on
        self.wires = {q: dns.message.make_query(*q, id=0).to_wire()[2:] for q in questions}
        self.known = {}  # (question, reply without its ID) -> outcome, because most replies repeat
        self.lock = threading.Lock()
        self.pending = {}  # ID -> (question, time sent, outcomes allowed)
        self.asked = self.answered = 0
        self.hurt = []  # (seconds since the start, kind of failure, question, outcome, allowed)
        self.times = deque(maxlen=1_000_000)
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self._run, name="asker", daemon=True)
        self.begun = None

    @staticmethod
    def _one(expectation):
        return expectation if isinstance(expectation, str) else frozenset(expectation)

    def must_be(self, question, *expectations):
        """Allows only these outcomes for queries sent from now on."""
        with self.lock:
            self.expected[question] = tuple(self._one(e) for e in expectations)

    def may_change(self, question, *expectations):
        """Allows these outcomes too, for queries sent from now on and for queries in flight."""
        with self.lock:
            more = tuple(self._one(e) for e in expectations)
            self.expected[question] += more
            for number, (q, sent, allowed) in self.pending.items():
                if q == question:
                    self.pending[number] = (q, sent, allowed + more)

    def __enter__(self):
        self.begun = time.monotonic()
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self, settle_s=0.5):
        """Keeps querying a little longer to catch late failures. Then stops and waits for the queries in flight."""
        self.stopping.wait(settle_s)
        self.stopping.set()
        self.thread.join()

    def _run(self):
        family = socket.AF_INET6 if ":" in self.address[0] else socket.AF_INET
        with socket.socket(family, socket.SOCK_DGRAM) as s:
            s.setblocking(False)
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
            s.connect(self.address)
            due, turn, questions = time.monotonic(), 0, list(self.wires)
            while True:
                now = time.monotonic()
                if not self.stopping.is_set() and now >= due and len(self.pending) < PENDING_MOST:
                    self._send(s, turn, questions[turn % len(questions)])
                    turn += 1
                    due = max(due + self.period, now - 1)  # after a pause, this thread sends at most the missed queries of one second
                    continue
                self._expire(now)
                if self.stopping.is_set() and not self.pending:
                    return
                wait = 0.05 if self.stopping.is_set() or now >= due else min(due - now, 0.05)
                if select.select([s], [], [], wait)[0]:
                    self._receive(s)

    def _send(self, s, turn, question):
        number = turn & 0xFFFF
        with self.lock:
            self.pending[number] = (question, time.monotonic(), self.expected[question])
        self.asked += 1
        try:
            s.send(struct.pack("!H", number) + self.wires[question])
        except OSError:
            pass  # no server listens, so the kernel refuses the query: it counts as lost

    def _receive(self, s):
        try:
            wire = s.recv(65535)
        except OSError:
            return
        now = time.monotonic()
        with self.lock:
            entry = self.pending.pop(struct.unpack("!H", wire[:2])[0], None)
        if entry is None:
            return
        question, sent, allowed = entry
        self.answered += 1
        self.times.append(now - sent)
        key = (question, wire[2:])
        if key not in self.known:
            if len(self.known) > 100_000:
                self.known.clear()
            self.known[key] = outcome(wire)
        got = self.known[key]
        if got not in allowed:
            what = "SERVFAIL" if got == "SERVFAIL" else "wrong"
            self.hurt.append((sent - self.begun, what, question, got, allowed))

    def _expire(self, now):
        with self.lock:
            old = [n for n, (_, sent, _) in self.pending.items() if now - sent > LOST_AFTER_S]
            for n in old:
                question, sent, allowed = self.pending.pop(n)
                self.hurt.append((sent - self.begun, "lost", question, None, allowed))

    def report(self):
        kinds = [what for _, what, *_ in self.hurt]
        times = sorted(self.times) or [0.0]
        return (
            f"asked {self.asked}: {kinds.count('lost')} lost, {kinds.count('SERVFAIL')} SERVFAIL, {kinds.count('wrong')} wrong; "
            f"answer p50 {times[len(times) // 2] * 1000:.2f} ms, slowest {times[-1] * 1000:.1f} ms"
        )

    def clean(self, least=50):
        """Prints the report. Asserts that no answer was lost, late, SERVFAIL or wrong, and that there were enough queries for this to mean something."""
        assert self.stopping.is_set(), "call stop() first: queries are still in flight"
        print(self.report())
        assert self.asked >= least, self.report()
        assert not self.hurt, self.report() + "".join(f"\n  at {t:.3f} s: {w}" for t, *w in self.hurt[:10])
