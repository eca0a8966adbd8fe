"""
Sends thousands of queries to a name server on loopback, a window at a time, and returns the replies as plain values. It has its own
parser for speed. If the parser does not understand a reply, it raises an error. It does not check everything: the unit tests check messages with ldns.
"""

import ipaddress
import select
import socket
import struct
from dataclasses import dataclass

TYPES = {"A": 1, "NS": 2, "CNAME": 5, "SOA": 6, "PTR": 12, "HINFO": 13, "MX": 15, "TXT": 16, "AAAA": 28, "SRV": 33, "OPT": 41, "HTTPS": 65, "ANY": 255}
NAMES = {number: name for name, number in TYPES.items()}
WINDOW = 128
OPT = struct.pack("!BHHIH", 0, 41, 1232, 0, 0)


@dataclass(frozen=True)
class Reply:
    rcode: int
    aa: bool
    tc: bool
    ra: bool
    answer: tuple  # (owner in lower case, type, TTL, rdata as text) of each record, in order
    authority: tuple
    additional: tuple  # the records of the additional section without the OPT
    owners: frozenset  # owners in the answer section, in their original spelling
    opt: bool
    length: int  # length of the message with its OPT and without its other additional records


def question(name, type_, number, edns=None, recursion=False):
    """The query. `edns` is the UDP payload size to announce, or None for a query without EDNS."""
    labels = b"".join(bytes([len(label)]) + label for label in name.encode().split(b".") if label)
    wire = struct.pack("!6H", number, 0x0100 if recursion else 0, 1, 0, 0, 1 if edns is not None else 0) + labels + b"\0" + struct.pack("!HH", TYPES[type_], 1)
    return wire if edns is None else wire + struct.pack("!BHHIH", 0, 41, edns, 0, 0)


def _name(wire, at):
    """Returns (text without the last dot, offset after the name). A compression pointer must point to an earlier offset."""
    labels, end, least = [], None, at
    while True:
        n = wire[at]
        if n == 0:
            return ".".join(labels), end or at + 1
        if n >= 0xC0:
            target = (n & 0x3F) << 8 | wire[at + 1]
            assert target < least, "a compression pointer does not lead backwards"
            end, at, least = end or at + 2, target, target
            continue
        labels.append(wire[at + 1 : at + 1 + n].decode())
        at += 1 + n


def _rdata(wire, type_, at, length):
    if type_ == 1:
        return socket.inet_ntop(socket.AF_INET, wire[at : at + 4])
    if type_ == 28:
        return str(ipaddress.ip_address(wire[at : at + 16]))
    if type_ in (2, 5, 12):
        return _name(wire, at)[0].lower()
    if type_ == 33:
        priority, weight, port = struct.unpack_from("!3H", wire, at)
        return f"{priority} {weight} {port} {_name(wire, at + 6)[0].lower()}"
    if type_ == 6:
        mname, after = _name(wire, at)
        rname, after = _name(wire, after)
        return f"{mname.lower()} {rname.lower()} " + " ".join(map(str, struct.unpack_from("!5I", wire, after)))
    if type_ == 16:
        return wire[at + 1 : at + 1 + wire[at]].decode()
    if type_ == 13:
        return wire[at + 1 : at + 1 + wire[at]].decode()
    return wire[at : at + length].hex()


def parse(wire):
    _, flags, questions, answers, authorities, additionals = struct.unpack_from("!6H", wire)
    at = 12
    for _ in range(questions):
        at = _name(wire, at)[1] + 4
    sections, owners, opt, before_additional = ([], [], []), set(), False, at
    for section, count in enumerate((answers, authorities, additionals)):
        before_additional = at if section == 2 else before_additional
        for _ in range(count):
            owner, at = _name(wire, at)
            type_, _, ttl, length = struct.unpack_from("!HHIH", wire, at)
            if type_ == 41:
                opt = True
            else:
                sections[section].append((owner.lower(), NAMES.get(type_, type_), ttl, _rdata(wire, type_, at + 10, length)))
                if section == 0:
                    owners.add(owner)
            at += 10 + length
    assert at == len(wire), "bytes after the last record"
    return Reply(flags & 15, bool(flags & 0x0400), bool(flags & 0x0200), bool(flags & 0x80), *map(tuple, sections), frozenset(owners), opt,
                 before_additional + 11 * opt)  # fmt: skip


class Bulk:
    """A client of one server, over UDP and TCP. `asked` counts its queries. With `recursion` the queries have RD, and kubedns may forward them."""

    def __init__(self, port, host="127.0.0.1", recursion=False, source=""):
        self.address, self.asked, self.known, self.recursion, self.source = (host, port), 0, {}, recursion, source
        self.number = 0  # ID of the next UDP query. It increases from call to call, so a late reply to a retried query never has the ID of a newer query
        self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.udp.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        self.udp.bind((source, 0))
        self.udp.connect(self.address)

    def _parsed(self, wire):
        reply = self.known.get(wire[2:])
        if reply is None:
            if len(self.known) > 200_000:
                self.known.clear()
            reply = self.known[wire[2:]] = parse(wire)
        return reply

    def ask_udp(self, questions, edns=None):
        """Returns the replies to [(name, type)] in order. Retries a lost query, as a resolver does."""
        out = [None] * len(questions)
        for begin in range(0, len(questions), WINDOW):
            window = range(begin, min(begin + WINDOW, len(questions)))
            self.asked += len(window)
            missing = set(window)
            for _ in range(60):
                for i in missing:
                    self.udp.send(question(*questions[i], (self.number + i) & 0xFFFF, edns, self.recursion))
                while missing and select.select([self.udp], [], [], 0.5)[0]:
                    wire = self.udp.recv(65535)
                    i = begin + ((wire[0] << 8 | wire[1]) - self.number - begin & 0xFFFF)
                    if i in missing:
                        missing.discard(i)
                        out[i] = self._parsed(wire)
                if not missing:
                    break
            assert not missing, f"no answer in 30 s: {[questions[i] for i in sorted(missing)[:3]]}"
        self.number += len(questions)
        return out

    def ask_tcp(self, questions):
        """
        Like ask_udp(), with pipelined queries over TCP. Replies may arrive in any order. If the server closes the connection, opens another
        one, as RFC 7766 says.
        """
        out, missing, tries = [None] * len(questions), set(range(len(questions))), 0
        while missing:
            tries += 1
            assert tries < 30, f"connections are closed before their queries are answered: {questions[min(missing)]}"
            with socket.create_connection(self.address, timeout=30, source_address=(self.source, 0)) as s, s.makefile("rb") as stream:
                s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                left = sorted(missing)
                for begin in range(0, len(left), WINDOW):
                    window = left[begin : begin + WINDOW]
                    if not self._pipeline(s, stream, questions, window, out):
                        break
                    missing -= set(window)
                    tries = 0
        self.asked += len(questions)
        return out

    def _pipeline(self, s, stream, questions, window, out):
        """Sends one window of queries and reads the replies. Returns false if the connection has ended."""
        try:
            s.sendall(b"".join(struct.pack("!H", len(w)) + w for w in (question(*questions[i], n, None, self.recursion) for n, i in enumerate(window))))
            for _ in window:
                if len(head := stream.read(2)) < 2:
                    return False
                wire = stream.read(struct.unpack("!H", head)[0])
                out[window[wire[0] << 8 | wire[1]]] = self._parsed(wire)
        except ConnectionError:
            return False
        return True

    def close(self):
        self.udp.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
