"""
Sends queries for one name to servers of 127.0.0.1 at a steady rate until SIGTERM: steady_asker.py FILE NAME RATE PORT... It sends the next
query even if the last one has no answer yet. An answer's time is the kernel's timestamp of its packet, so delays of this process do not
count. FILE gets three doubles per query: the number of the server, the Unix time of the query, and the milliseconds until its answer
(infinity: no answer).
"""

import array
import math
import select
import signal
import socket
import struct
import sys
import time

import dns.message

SO_TIMESTAMPNS = 35
LOST_S = 2


def replies(s):
    """Yields (ID, Unix time in ns) for each reply that has arrived."""
    while True:
        try:
            wire, ancillary, _, _ = s.recvmsg(4096, 64)
        except BlockingIOError:
            return
        seconds, ns = struct.unpack("@ll", ancillary[0][2])
        yield struct.unpack("!H", wire[:2])[0], seconds * 1_000_000_000 + ns


class Asked:
    """The queries to one server. IDs repeat after 65,536 queries, long after LOST_S."""

    def __init__(self, number, port, wire, out):
        self.number, self.wire, self.out, self.waiting, self.id = number, wire, out, {}, 0
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        self.socket.setblocking(False)
        self.socket.connect(("127.0.0.1", port))

    def ask(self):
        self.id = (self.id + 1) & 0xFFFF
        wire = struct.pack("!H", self.id) + self.wire[2:]
        self.waiting[self.id] = time.time_ns()
        self.socket.send(wire)

    def take(self):
        for id_, came in replies(self.socket):
            sent = self.waiting.pop(id_, None)
            if sent:
                self.note(sent, (came - sent) / 1e6)

    def give_up(self, before):
        for id_ in [i for i, sent in self.waiting.items() if sent < before]:
            self.note(self.waiting.pop(id_), math.inf)

    def note(self, sent, took_ms):
        self.out.extend((self.number, sent / 1e9, took_ms))


def main(path, name, rate, *ports):
    out, over = array.array("d"), []
    signal.signal(signal.SIGTERM, lambda *_: over.append(True))
    wire = dns.message.make_query(name, "A").to_wire()
    asked = [Asked(number, int(port), wire, out) for number, port in enumerate(ports)]
    poll = select.poll()
    for one in asked:
        poll.register(one.socket, select.POLLIN)
    pause, begun, turn = 1 / float(rate), time.monotonic(), 0
    while not over:
        # A different server gets the first query of each round. That query is slower, because this process's CPU caches are cold.
        for one in asked[turn % len(asked):] + asked[: turn % len(asked)]:
            one.ask()
        turn += 1
        while (left := begun + turn * pause - time.monotonic()) > 0:
            poll.poll(left * 1000)
            for one in asked:
                one.take()
        if turn % 1024 == 0:
            for one in asked:
                one.take()
                one.give_up(time.time_ns() - LOST_S * 1_000_000_000)
    time.sleep(0.1)
    for one in asked:
        one.take()
        one.give_up(time.time_ns())
    with open(path, "wb") as f:
        out.tofile(f)


if __name__ == "__main__":
    main(*sys.argv[1:])
