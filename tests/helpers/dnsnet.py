"""kubedns with a few objects from a directory, good and bad UDP and TCP clients, and upstream servers whose behaviour a test chooses."""

import json
import socket
import struct
import threading
import time

import dns.flags
import dns.message
import dns.name
import dns.rcode
import dns.rdatatype
import dns.rrset
from kubedns_process import Kubedns
from objects import endpoint_slice, namespace, service
from waiting import free_port

WEB = "web.default.svc.cluster.local"
WEB_IP = "10.96.0.10"
MANY = "many.default.svc.cluster.local"
MANY_COUNT = 3000
EXTERNAL = "ext.default.svc.cluster.local"
EXTERNAL_TARGET = "target.example.net"


def world(tmp_path, *args, **kw):
    """A kubedns that serves WEB, MANY (a headless Service with MANY_COUNT endpoints) and EXTERNAL. Returns it before it is ready."""
    directory = tmp_path / "objects"
    directory.mkdir(exist_ok=True)
    items = [
        namespace("default"),
        service("web", WEB_IP),
        service("many", "None"),
        service("ext", "", type="ExternalName", externalName=EXTERNAL_TARGET),
    ]
    addresses = [f"10.{1 + i // 65536}.{i // 256 % 256}.{i % 256}" for i in range(MANY_COUNT)]
    items += [endpoint_slice("many", addresses[i : i + 100], suffix=str(i)) for i in range(0, MANY_COUNT, 100)]
    (directory / "all.json").write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": items}))
    return Kubedns(f"--objects-dir={directory}", *args, **{"directory": str(tmp_path), **kw})


def query(name, type_="A", **kw):
    return dns.message.make_query(name, type_, **kw)


# UDP.


def udp(kubedns, message, timeout=60.0, host=None, source=None, where=None):
    """Sends one query. Returns the reply as a message, or None. Appends the address from which the reply came to `where`."""
    wire = message if isinstance(message, bytes) else message.to_wire()
    host = host or kubedns.host
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM) as s:
        if source:
            s.bind((source, 0))
        s.settimeout(timeout)
        s.sendto(wire, (host, kubedns.port))
        try:
            reply, peer = s.recvfrom(65535)
        except socket.timeout:
            return None
        if where is not None:
            where.append(peer[0])
        return dns.message.from_wire(reply)


# TCP.


def framed(message):
    wire = message if isinstance(message, bytes) else message.to_wire()
    return struct.pack("!H", len(wire)) + wire


class Tcp:
    """A TCP client. The test decides how fast it sends and reads."""

    def __init__(self, kubedns, host=None, receive_buffer=None, timeout=60.0, source=None):
        host = host or kubedns.host
        self.socket = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(timeout)
        if source:
            self.socket.bind((source, 0))
        self.socket.connect((host, kubedns.port))
        self.buffer = b""

    def send(self, *messages):
        self.socket.sendall(b"".join(framed(m) for m in messages))

    def read(self):
        """Returns the next reply, or None if the connection has ended."""
        wire = self.read_wire()
        return None if wire is None else dns.message.from_wire(wire)

    def read_wire(self):
        while len(self.buffer) < 2 or len(self.buffer) < 2 + struct.unpack("!H", self.buffer[:2])[0]:
            try:
                piece = self.socket.recv(65536)
            except ConnectionResetError:
                return None
            if not piece:
                return None
            self.buffer += piece
        length = struct.unpack("!H", self.buffer[:2])[0]
        wire, self.buffer = self.buffer[2 : 2 + length], self.buffer[2 + length :]
        return wire

    def ask(self, message):
        self.send(message)
        return self.read()

    def ended(self):
        """True if the server has closed the connection. Does not wait."""
        self.socket.setblocking(False)
        try:
            return self.socket.recv(1, socket.MSG_PEEK) == b""
        except BlockingIOError:
            return False
        except OSError:
            return True

    def close(self):
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


# Upstreams.


def answered(request, *texts, ttl=60):
    """A reply to `request` with records of its type."""
    reply = dns.message.make_response(request, recursion_available=True)
    question = request.question[0]
    if texts:
        reply.answer.append(dns.rrset.from_text(question.name, ttl, "IN", dns.rdatatype.to_text(question.rdtype), *texts))
    return reply


VALIDATION = dns.name.from_text("dnssec.nanny.invalid")


class Upstream:
    """
    A name server on 127.0.0.1. `behave(request, tcp)` returns its reply: a message, bytes, a list of them, or None for no reply. `asked`
    collects the queries: (message, (address, port), tcp).
    """

    def __init__(self, behave=lambda request, tcp: answered(request, "192.0.2.1"), host="127.0.0.1", port=None, validates=None):
        self.behave, self.host, self.port, self.validates = behave, host, port or free_port(), validates
        self.asked = []
        self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.udp.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        self.udp.bind((host, self.port))
        self.tcp = socket.socket()
        self.tcp.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.tcp.bind((host, self.port))
        self.tcp.listen(64)
        self.threads = [threading.Thread(target=t, daemon=True) for t in (self._serve_udp, self._serve_tcp)]
        for t in self.threads:
            t.start()

    @property
    def address(self):
        return f"{self.host}:{self.port}"

    def _replies(self, wire, peer, tcp):
        request = dns.message.from_wire(wire)
        if request.question[0].name == VALIDATION:
            yield self._validation(request).to_wire()
            return
        self.asked.append((request, peer, tcp))
        replies = self.behave(request, tcp)
        for reply in replies if isinstance(replies, list) else [replies]:
            if reply is not None:
                yield reply if isinstance(reply, bytes) else reply.to_wire(max_size=65535)

    def _validation(self, request):
        """kubedns's own query: whether this resolver checks DNSSEC signatures. The nanny's engines answer it themselves."""
        reply = dns.message.make_response(request)
        if self.validates is None:
            reply.set_rcode(dns.rcode.NXDOMAIN)
        else:
            reply.answer.append(dns.rrset.from_text(VALIDATION, 0, "IN", "TXT", self.validates))
        return reply

    def _serve_udp(self):
        try:
            while True:
                wire, peer = self.udp.recvfrom(65535)
                if peer is None:
                    return
                for reply in self._replies(wire, peer, False):
                    self.udp.sendto(reply, peer)
        except OSError:
            pass

    def _serve_tcp(self):
        try:
            while True:
                client, peer = self.tcp.accept()
                threading.Thread(target=self._serve_client, args=(client, peer), daemon=True).start()
        except OSError:
            pass

    def _serve_client(self, client, peer):
        with client, client.makefile("rb") as f:
            while len(head := f.read(2)) == 2:
                wire = f.read(struct.unpack("!H", head)[0])
                for reply in self._replies(wire, peer, True):
                    client.sendall(framed(reply))

    def close(self):
        for s in (self.udp, self.tcp):
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            s.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def addresses(reply):
    return [rr.address for rrset in reply.answer for rr in rrset]


def drops(kubedns, reason):
    return kubedns.metric("kubedns_dns_dropped_total", reason=reason)


def silent(_request, _tcp):
    """The behaviour of a dead server on a live host."""


def timed(function, *args, **kw):
    """Calls the function. Returns (seconds, result)."""
    begun = time.monotonic()
    result = function(*args, **kw)
    return time.monotonic() - begun, result
