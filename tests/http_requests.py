#!/usr/bin/env python3
"""
http_requests.py HOST:PORT/PATH...

Sends hostile HTTP requests to a port: long and malformed request lines, headers, cookies and bodies. After each request, the program must
answer PATH with status 200. So the first request that ends the program is the last one. Prints how often each status was returned for each
kind of request. "closed" means that the program closed the connection without a response, "no reply" that it had not responded after it
had answered PATH TURNS times. Needs only Python's standard library, because tests also run it in other Debian releases and in containers.
"""

import collections
import select
import socket
import sys

LENGTHS = range(1000, 40001, 250)
TURNS = 50
CRASH = "the request that ended libmicrohttpd 1.0.1"
GET = b"GET /%s HTTP/1.0\r\n\r\n"
HEADER = b"GET /?a HTTP/1.0\r\n%s\r\n\r\n"
CHUNKED = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n%s\r\n"


def of_length(length):
    """Yields (kind, pieces) of the requests with about this length. Each piece is sent on its own."""
    a = b"A" * length
    count = length // 500 + 1
    one = GET % (b"?" + a)
    yield "one argument without =", [one]
    yield "one argument without =, HTTP/1.1", [b"GET /?" + a + b" HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"]
    yield "one argument with =", [GET % (b"?a=" + a)]
    yield "many arguments without =", [GET % (b"?" + b"&".join([b"A" * 499] * count))]
    yield "many arguments with =", [GET % (b"?" + b"&".join([b"a=" + b"A" * 497] * count))]
    yield "empty arguments at the end", [GET % (b"?a=" + a + b"&&")]
    yield "a path", [GET % a]
    yield "white space in the argument", [GET % (b"?" + a + b" \tA")]
    yield "in pieces", [one[i:i + 1000] for i in range(0, len(one), 1000)]
    yield "the last line in pieces", [one[:-13], one[-13:-2], one[-2:]]
    yield "pipelined, twice", [one * 2]
    yield "pipelined after a short request", [b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n" + one]
    yield "pipelined before an unfinished request", [one + b"GET /?" + a]
    yield "in a header", [HEADER % (b"A: " + a)]
    yield "in headers", [HEADER % b"\r\n".join([b"A: " + b"A" * 495] * count)]
    yield "in a header without colon", [HEADER % a]
    yield "in a cookie", [HEADER % (b"Cookie: a=" + a)]
    yield "in cookies", [HEADER % (b"Cookie: " + b"; ".join([b"a=" + b"A" * 496] * count))]
    yield "in a chunk", [CHUNKED % b"" + b"%x\r\n" % length + a + b"\r\n0\r\n\r\n"]
    yield "in a chunk's extension", [CHUNKED % b"" + b"1;a=" + a + b"\r\nA\r\n0\r\n\r\n"]
    yield "in a chunk's extension without an end", [CHUNKED % b"", b"1 ; " + a]
    yield "in a trailer", [CHUNKED % b"" + b"0\r\nA: " + a + b"\r\n\r\n"]
    yield "in a body", [b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % length + a]


def of_fixed_length():
    """Yields (kind, pieces) of the other requests."""
    inner = b"GET /inner HTTP/1.0\r\n\r\n"
    n = b"%d" % len(inner)
    for first, second in (b"0", n), (n, b"0"), (n, n), (b"0", b"0"), (b"0", b"x"), (b"", b"9" * 30):
        yield "two Content-Lengths", [b"GET /a HTTP/1.1\r\nHost: a\r\nContent-Length: %s\r\nContent-Length: %s\r\n\r\n" % (first, second) + inner]
    for value in b"-1", b"+1", b"1,1", b"0x1", b"9" * 19, b"9" * 40, b"":
        yield "a wrong Content-Length", [b"POST / HTTP/1.0\r\nContent-Length: " + value + b"\r\n\r\n" + inner]
    yield "Content-Length and chunked", [CHUNKED % b"Content-Length: 5\r\n" + b"0\r\n\r\n" + inner]
    yield "two Transfer-Encodings", [CHUNKED % b"Transfer-Encoding: gzip\r\n" + b"0\r\n\r\n"]
    yield "chunked, HTTP/1.0", [b"GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"]
    for size in b"-1", b"x", b"f" * 15, b"f" * 16, b"f" * 17, b"1\n", b"1\r", b" 1", b"1 ;", b";a", b"0" * 40:
        yield "a wrong chunk size", [CHUNKED % b"", size + b"\r\nA\r\n0\r\n\r\n"]
    yield "two Hosts", [b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"]
    for line in b"GET", b"GET /", b"GET  /", b"GET ?", b"GET / HTTP/1.2", b"GET / HTTP/9.9", b"\0", b"GET /%00 HTTP/1.0", b"GET /\0 HTTP/1.0":
        yield "a wrong request line", [line + b"\r\n\r\n"]


def requests(lengths=LENGTHS):
    yield CRASH, [GET % (b"?" + b"A" * 17000)]
    yield from of_fixed_length()
    for length in lengths:
        yield from of_length(length)


class Port:
    """The port of a program. Its health is requested over one connection for as long as the program keeps it open."""

    def __init__(self, host, port, path):
        self.address, self.request = (host, port), b"GET %s HTTP/1.1\r\nHost: %s\r\n\r\n" % (path.encode(), host.encode())
        self.connection = None

    def connect(self):
        s = socket.create_connection(self.address, timeout=20)
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return s

    @staticmethod
    def status(s):
        """Waits for a reply, which must be short. Returns its status, or "closed"."""
        try:
            reply = s.recv(65536)
        except ConnectionError:
            reply = b""
        return reply.split(b" ", 2)[1].decode() if reply.startswith(b"HTTP/1.") else "closed"

    def health(self):
        try:
            if self.connection:
                try:
                    self.connection.sendall(self.request)
                    if (status := self.status(self.connection)) != "closed":
                        return status
                except ConnectionError:
                    pass
                self.connection.close()
            self.connection = self.connect()
            self.connection.sendall(self.request)
            return self.status(self.connection)
        except ConnectionError as e:
            return e.strerror

    def send(self, kind, pieces):
        """Sends the pieces and an end of input. Then requests the health until there is a reply to the pieces, at most TURNS times."""
        with self.connect() as s:
            try:
                for piece in pieces:
                    s.sendall(piece)
                s.shutdown(socket.SHUT_WR)
            except OSError:
                pass  # the program has replied and closed the connection
            for _ in range(TURNS):
                status = self.health()
                assert status == "200", f"after a request of {sum(map(len, pieces))} bytes ({kind}), the health is: {status}"
                if select.select([s], [], [], 0)[0]:
                    return self.status(s)
        return "no reply"


def send_all(host, port, path, lengths=LENGTHS):
    """Sends all requests. Returns {kind: {status: count}}. Raises AssertionError after the first request that the program did not survive."""
    program, found = Port(host, port, path), collections.defaultdict(collections.Counter)
    assert (status := program.health()) == "200", f"before the first request, the health is: {status}"
    for kind, pieces in requests(lengths):
        found[kind][program.send(kind, pieces)] += 1
    return found


def main(targets):
    if not targets:
        sys.exit(__doc__.strip())
    for target in targets:
        place, slash, path = target.partition("/")
        host, _, port = place.rpartition(":")
        try:
            found = send_all(host, int(port), slash + path)
        except AssertionError as e:
            sys.exit(f"http_requests.py: {target}: {e}")
        print(f"{target}: answers after each of {sum(sum(counts.values()) for counts in found.values())} requests")
        for kind, counts in found.items():
            print(f"  {kind}: {', '.join(f'{status} x {n}' for status, n in sorted(counts.items()))}")


if __name__ == "__main__":
    main(sys.argv[1:])
