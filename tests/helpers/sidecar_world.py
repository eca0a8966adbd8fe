"""The real sidecar and the servers that it probes: the real dnsmasq, or a DNS server that misbehaves in a way that the test chooses."""

import json
import os
import re
import select
import signal
import socket
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.request

import dns.edns
import dns.flags
import dns.message
import dns.rcode
import dns.rdatatype
import dns.rrset

from waiting import free_port, wait_for

BUILD = os.path.abspath(os.environ.get("BUILD", os.path.join(os.path.dirname(__file__), "..", "..", "build")))
PROGRAM = os.path.join(BUILD, "bin", "sidecar")
NAME = "kubernetes.default.svc.cluster.local"


def until(condition, timeout=60.0, what="it"):
    """Like wait_for(), for a condition that reads a page of the sidecar. The condition may raise an exception while the sidecar does not listen yet."""
    return wait_for(condition, timeout, what, passing=(OSError, AssertionError))


def series(text):
    """Parses a page of metrics into {(name, ((label, value), ...)): value}."""
    found = {}
    for line in text.splitlines():
        match = re.fullmatch(r'([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)', line)
        if match:
            labels = tuple(sorted(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', match[2] or "")))
            found[match[1], labels] = float(match[3])
    return found


def surroundings(in_pod):
    """Returns the environment of a program: in a pod's container, or started by hand. It does not depend on the machine that runs the test."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("KUBERNETES_") and k != "JOURNAL_STREAM"}
    return {**env, "KUBERNETES_SERVICE_HOST": "198.51.100.9"} if in_pod else env


class Sidecar:
    """The sidecar with these arguments and HTTP on a free port of 127.0.0.1 (or `address`). With `in_pod` it has the environment of a pod's container."""

    def __init__(self, *args, address="127.0.0.1", peers=False, wrap=(), in_pod=True, env=None):
        self.log = tempfile.TemporaryFile()
        quiet = [] if peers else ["--kubedns-url=", "--nanny-url="]
        self.process = subprocess.Popen(
            [*wrap, PROGRAM, f"--prometheus-addr={address}", "--prometheus-port=0", "--drain=0s", *quiet, *map(str, args)],
            stderr=self.log, env={**surroundings(in_pod), **(env or {})})
        self.port = int(until(lambda: re.search(r"page on port (\d+)", self.said()), what=lambda: f"the sidecar's start; its log: {self.said()!r}")[1])

    def said(self):
        # The sidecar shares the file's position, so seek() would make it overwrite its log.
        text = os.pread(self.log.fileno(), os.fstat(self.log.fileno()).st_size, 0).decode(errors="replace")
        assert self.process.poll() in (None, 0), f"the sidecar has ended: {text}"
        return text

    def url(self, path):
        return f"http://127.0.0.1:{self.port}{path}"

    def get(self, path, headers=None):
        """Requests a page. Returns (status, body)."""
        request = urllib.request.Request(self.url(path), headers=headers or {})
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def headers(self, path):
        with urllib.request.urlopen(self.url(path), timeout=60) as response:
            return response.headers

    def health(self, label):
        status, body = self.get(f"/healthcheck/{label}")
        return status, json.loads(body)

    def metrics(self):
        return series(self.get("/metrics")[1])

    def value(self, name, **labels):
        return self.metrics()[name, tuple(sorted(labels.items()))]

    def status(self):
        return json.loads(self.get("/status.json")[1])

    def probe(self, label):
        return next(p for p in self.status()["probes"] if p["label"] == label)

    def memory_kib(self):
        with open(f"/proc/{self.process.pid}/status") as status:
            return int(re.search(r"VmRSS:\s+(\d+)", status.read())[1])

    def stop(self):
        """Sends SIGTERM. Returns the exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(10)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.log.close()


class Dnsmasq:
    """The real dnsmasq on a free port of 127.0.0.1. `start` after `stop` uses the same port."""

    def __init__(self, *args):
        self.port = free_port()
        self.args = args
        self.process = None
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            ["dnsmasq", "-k", "-C", "/dev/null", "--pid-file=", "--no-resolv", "--no-hosts", "--bind-interfaces",
             "--listen-address=127.0.0.1", f"--port={self.port}", "--log-facility=/dev/null",
             f"--host-record={NAME},10.96.0.1", *self.args],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until(lambda: self.chaos("version"), what="dnsmasq's start")

    def chaos(self, name):
        """The strings in dnsmasq's answer for `name`.bind."""
        query = dns.message.make_query(f"{name}.bind.", "TXT", "CH")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.settimeout(1)
            s.connect(("127.0.0.1", self.port))
            s.send(query.to_wire())
            reply = dns.message.from_wire(s.recv(65535))
        return [string.decode() for rr in reply.answer[0] for string in rr.strings]

    def number(self, name):
        return int(self.chaos(name)[0])

    def ask(self, name, rdtype="A"):
        query = dns.message.make_query(name, rdtype)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.settimeout(2)
            s.connect(("127.0.0.1", self.port))
            s.send(query.to_wire())
            return dns.message.from_wire(s.recv(65535))

    def stop(self, how=signal.SIGTERM):
        self.process.send_signal(how)
        self.process.wait(5)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
            self.process.wait()


# Behaviours of a server. Each takes the query and returns the bytes to send, or None for no reply.

def good(query, address="10.0.0.1"):
    reply = dns.message.make_response(query)
    question = query.question[0]
    asked = dns.rdatatype.to_text(question.rdtype)
    data = {"SRV": f"0 100 443 {NAME}.", "AAAA": "2001:db8::1"}.get(asked, address)
    kind = asked if asked in ("SRV", "AAAA") else "A"
    reply.answer.append(dns.rrset.from_text(question.name, 30, "IN", kind, data))
    return reply.to_wire()


def rcode(code, ede=None):
    def behave(query):
        reply = dns.message.make_response(query)
        reply.set_rcode(code)
        if ede is not None:
            reply.use_edns(0, options=[dns.edns.EDEOption(ede)])
        return reply.to_wire()
    return behave


def empty(query):
    return dns.message.make_response(query).to_wire()


def silent(_query):
    return None


def wrong_id(query):
    wire = bytearray(good(query))
    wire[0] ^= 0xFF
    return bytes(wire)


def wrong_question(query):
    other = dns.message.make_query("other.example", "A")
    other.id = query.id
    return good(other)


def garbage(_query):
    return b"\xde\xad\xbe\xef" * 8


def cut(query):
    return good(query)[:-3]


def truncated(query):
    reply = dns.message.make_response(query)
    reply.flags |= dns.flags.TC
    return reply.to_wire()


def slow(seconds):
    def behave(query):
        time.sleep(seconds)
        return good(query)
    return behave


class FakeDns:
    """A DNS server with one address. `udp` handles every UDP query and `tcp` every TCP query (None: no TCP)."""

    def __init__(self, udp=good, tcp=None, host="127.0.0.1"):
        self.udp, self.tcp, self.host, self.asked = udp, tcp, host, 0
        self.family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.port = free_port()
        self.stopping = False
        self.sockets = []
        self.receiving, self.handled = threading.Lock(), 0
        self.start()

    @property
    def server(self):
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def start(self):
        self.stopping = False
        udp = socket.socket(self.family, socket.SOCK_DGRAM)
        udp.bind((self.host, self.port))
        self.sockets = [udp]
        threading.Thread(target=self.serve_udp, args=(udp,), daemon=True).start()
        if self.tcp:
            tcp = socket.create_server((self.host, self.port), family=self.family)
            self.sockets.append(tcp)
            threading.Thread(target=self.serve_tcp, args=(tcp,), daemon=True).start()

    def serve_udp(self, udp):
        while not self.stopping:
            try:
                udp.recv(1, socket.MSG_PEEK)
                with self.receiving:
                    wire, peer = udp.recvfrom(4096)
                    self.handled += bool(wire)
            except OSError:
                return
            if not wire:  # stop() has shut the socket down
                continue
            self.asked += 1
            threading.Thread(target=self.answer_udp, args=(udp, wire, peer), daemon=True).start()

    def answer_udp(self, udp, wire, peer):
        try:
            reply = self.udp(dns.message.from_wire(wire))
            for one in [reply] if isinstance(reply, (bytes, type(None))) else reply:
                if one is not None:
                    try:
                        udp.sendto(one, peer)
                    except OSError:
                        pass
        finally:
            with self.receiving:
                self.handled -= 1

    def busy(self):
        """Whether a UDP query has arrived and is not yet handled."""
        with self.receiving:
            return self.handled > 0 or (not self.stopping and bool(select.select(self.sockets[:1], [], [], 0)[0]))

    def serve_tcp(self, tcp):
        while not self.stopping:
            try:
                peer, _ = tcp.accept()
            except OSError:
                return
            threading.Thread(target=self.answer_tcp, args=(peer,), daemon=True).start()

    def answer_tcp(self, peer):
        with peer:
            try:
                size = int.from_bytes(peer.recv(2, socket.MSG_WAITALL), "big")
                reply = self.tcp(dns.message.from_wire(peer.recv(size, socket.MSG_WAITALL)))
                if reply is not None:
                    # Sends the reply in three pieces, as they arrive over a slow network.
                    framed = len(reply).to_bytes(2, "big") + reply
                    for piece in (framed[:1], framed[1:7], framed[7:]):
                        peer.sendall(piece)
                        time.sleep(0.01)
                else:
                    peer.recv(1)
            except OSError:
                pass

    def stop(self):
        with self.receiving:
            self.stopping = True
        for s in self.sockets:
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            s.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
