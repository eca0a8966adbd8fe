"""Two upstream servers in a separate process, for upstream.py. They are healthy or in one kind of trouble. They answer A for every name with
an address, and all other types with NODATA. For names that begin with "big" the answer has more than 1,232 bytes. Names that begin with
"again" have a TTL of AGAIN_TTL seconds. Names that begin with "never" get no answer, and names that begin with "late" get it after LATE_S
seconds, as if their own name servers were in trouble. A server in mode LOSES_LARGE
sends no answer of more than 1,232 bytes over UDP or TCP, and no truncated reply in its place. A half-open server accepts TCP connections and never answers on them. With a certificate, the
servers speak TLS on all TCP connections. A stalled server accepts TCP connections, and their TLS handshake never ends.
"""

import heapq
import multiprocessing
import os
import select
import socket
import ssl
import struct
import time

HEALTHY, SILENT, REFUSES, SERVFAIL, SLOW, DROPS_LARGE, HALF_OPEN, STALLED, LOSES_LARGE = range(9)
AGAIN_TTL = 2
DELAY_S = 0.005  # answer time of a healthy server
SLOW_S = 1.5
LATE_S = 3
BIG = 84  # addresses in a big answer of 1,4xx bytes
SOA = b"\xc0\x0c\0\6\0\1\0\0\0\x3c\0\x2a\1m\7example\0\1h\7example\0" + struct.pack("!5I", 1, 7200, 1800, 86400, 60)


def question(wire):
    """Parses a query. Returns (first label, offset after the question, type)."""
    end = 12
    while wire[end]:
        end += wire[end] + 1
    return wire[13 : 13 + wire[12]], end + 5, struct.unpack_from("!H", wire, end + 1)[0]


def reply(wire, mode, tcp):
    """Returns the whole reply, or None."""
    label, end, kind = question(wire)
    edns = wire[11] > 0
    size = max(512, struct.unpack_from("!H", wire, end + 3)[0]) if edns else 512
    opt = b"\0\0\x29\x04\xd0\0\0\0\0\0\0" if edns else b""
    if mode == SERVFAIL:
        return wire[:2] + b"\x81\x82\0\1\0\0\0\0" + (b"\0\1" if edns else b"\0\0") + wire[12:end] + opt
    ttl = AGAIN_TTL if label.startswith(b"again") else 60
    count = (BIG if label.startswith(b"big") else 1) if kind == 1 else 0
    answers = b"".join(b"\xc0\x0c\0\1\0\1" + struct.pack("!IH", ttl, 4) + bytes((192, 0, 2, i + 1)) for i in range(count))
    whole = wire[12:end] + (answers if count else SOA) + opt
    if mode == LOSES_LARGE and 12 + len(whole) > 1232:
        return None
    if not tcp and 12 + len(whole) > size:
        return wire[:2] + b"\x83\x80\0\1\0\0\0\0" + (b"\0\1" if edns else b"\0\0") + wire[12:end] + opt
    if mode == DROPS_LARGE and not tcp and 12 + len(whole) > 1232:
        return None
    sections = struct.pack("!HHHH", 1, count, 0 if count else 1, 1 if edns else 0)
    return wire[:2] + b"\x81\x80" + sections + whole


class Server:
    """One of the two servers, in the process that runs both."""

    def __init__(self, address, poller):
        self.address, self.poller, self.udp, self.tcp = address, poller, None, None
        self.open()

    def open(self):
        self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.udp.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        self.udp.bind(self.address)
        self.tcp = socket.socket()
        self.tcp.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.tcp.bind(self.address)
        self.tcp.listen(64)
        for s in (self.udp, self.tcp):
            s.setblocking(False)
            self.poller.register(s, select.EPOLLIN)

    def close(self):
        for s in (self.udp, self.tcp):
            self.poller.unregister(s)
            s.close()
        self.udp = self.tcp = None


def received(client):
    """Returns what a client has sent, or b"" if the connection ended or failed. Returns None if nothing has come, as during a TLS handshake."""
    try:
        piece = client.recv(65536)
        while isinstance(client, ssl.SSLSocket) and client.pending():
            piece += client.recv(65536)
        return piece
    except (ssl.SSLWantReadError, ssl.SSLWantWriteError, BlockingIOError):
        return None
    except OSError:
        return b""


def serve(addresses, modes, counts, certificate):
    """
    Runs until the parent process ends it. `certificate` is the path of a certificate with its key, or None. `counts` has the number of clients' queries to each server, which have type A. The sidecar's queries
    have type NS. While a server's port refuses packets, no queries arrive and none are counted.
    """
    poller = select.epoll()
    servers = [Server(a, poller) for a in addresses]
    later, clients, stalled, number = [], {}, [], 0
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER) if certificate else None
    if tls:
        tls.load_cert_chain(certificate)
    parent = os.getppid()
    while os.getppid() == parent:
        for n, server in enumerate(servers):
            if (modes[n] == REFUSES) == (server.udp is not None):
                server.close() if server.udp else server.open()
        wait = max(0, later[0][0] - time.monotonic()) if later else 0.05
        ready = poller.poll(min(wait, 0.05))
        while later and later[0][0] <= time.monotonic():
            _, _, send = heapq.heappop(later)
            try:
                send()
            except OSError:
                pass

        def answer(n, wire, tcp, send):
            nonlocal number
            label, _, kind = question(wire)
            counts[n] += kind == 1
            silent = modes[n] in (SILENT, STALLED) or (tcp and modes[n] == HALF_OPEN) or label.startswith(b"never")
            out = None if silent else reply(wire, modes[n], tcp)
            if out is not None:
                number += 1
                heapq.heappush(later, (time.monotonic() + (LATE_S if label.startswith(b"late") else SLOW_S if modes[n] == SLOW else DELAY_S), number, lambda: send(out)))

        for fd, _ in ready:
            for n, server in enumerate(servers):
                if server.udp and fd == server.udp.fileno():
                    for _ in range(64):
                        try:
                            wire, peer = server.udp.recvfrom(4096)
                        except OSError:
                            break
                        answer(n, wire, False, lambda out, s=server.udp, peer=peer: s.sendto(out, peer))
                elif server.tcp and fd == server.tcp.fileno():
                    client = server.tcp.accept()[0]
                    client.setblocking(False)
                    if modes[n] == STALLED:
                        stalled.append(client)
                        continue
                    if tls:
                        client = tls.wrap_socket(client, server_side=True, do_handshake_on_connect=False)
                    clients[client.fileno()] = (n, client, bytearray())
                    poller.register(client, select.EPOLLIN)
            if fd in clients:
                n, client, got = clients[fd]
                piece = received(client)
                if piece is None:
                    continue
                got += piece
                while len(got) >= 2 and len(got) >= 2 + (got[0] << 8 | got[1]):
                    length = got[0] << 8 | got[1]
                    answer(n, bytes(got[2 : 2 + length]), True, lambda out, s=client: s.sendall(struct.pack("!H", len(out)) + out))
                    del got[: 2 + length]
                if not piece:
                    poller.unregister(client)
                    clients.pop(fd)[1].close()


class Upstreams:
    """Both servers, as the bench sees them. `modes[n]` may be set at any time, and `counts[n]` is the number of queries to server n."""

    def __init__(self, ports, certificate=None):
        self.ports = ports
        self.modes, self.counts = multiprocessing.Array("i", 2, lock=False), multiprocessing.Array("l", 2, lock=False)
        self.process = multiprocessing.Process(target=serve, args=([("127.0.0.1", p) for p in ports], self.modes, self.counts, certificate), daemon=True)

    def __enter__(self):
        self.process.start()
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.join()
