"""Certificates, and a DNS server over TLS that misbehaves in a way that the test chooses."""

import datetime
import ipaddress
import json
import socket
import ssl
import struct
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import dns.message
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from waiting import free_port

DAY = datetime.timedelta(days=1)


class Authority:
    """A CA. `bundle` is the PEM text of its certificate."""

    def __init__(self, name="Test CA"):
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.certificate = self._sign(self.name, self.key, -2 * DAY, 30 * DAY,
                                      [x509.BasicConstraints(ca=True, path_length=None)])
        self.bundle = self.certificate.public_bytes(serialization.Encoding.PEM).decode()

    def _sign(self, subject, key, begin, end, extensions):
        now = datetime.datetime.utcnow()
        builder = x509.CertificateBuilder(
            issuer_name=self.name, subject_name=subject, public_key=key.public_key(),
            serial_number=x509.random_serial_number(), not_valid_before=now + begin, not_valid_after=now + end)
        for extension in extensions:
            builder = builder.add_extension(extension, critical=isinstance(extension, x509.BasicConstraints))
        return builder.sign(self.key, hashes.SHA256())

    def issue(self, directory, name="dns.test", begin=-DAY, end=DAY):
        """Makes a certificate for the name. Returns the path of a file with the certificate and its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        names = x509.SubjectAlternativeName([x509.DNSName(name), x509.IPAddress(ipaddress.ip_address("192.0.2.1"))])
        certificate = self._sign(subject, key, begin, end, [names, x509.BasicConstraints(ca=False, path_length=None)])
        path = directory / f"{x509.random_serial_number()}.pem"
        path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM) + key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
        return path


class TlsDns:
    """
    A DNS server over TLS on a free port of 127.0.0.1. `answer` gets a query and returns a reply, or None for none. With `stalled` the server
    accepts a connection and then does nothing. Otherwise it waits `handshake_s` seconds before the TLS handshake. It also listens for UDP at the port, and `plain` counts each packet and each connection that
    does not begin with a TLS handshake.
    """

    def __init__(self, certificate, answer, stalled=False, tls=True, handshake_s=0):
        self.answer, self.stalled, self.tls, self.handshake_s = answer, stalled, tls, handshake_s
        self.queries, self.plain, self.handshakes, self.certificate = 0, 0, 0, certificate
        self.port = free_port()
        self.listener = socket.create_server(("127.0.0.1", self.port), backlog=64)
        self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.udp.bind(("127.0.0.1", self.port))
        self.held = []  # stalled connections
        for target in (self._accept, self._read_udp):
            threading.Thread(target=target, daemon=True).start()

    @property
    def server(self):
        return f"127.0.0.1:{self.port}"

    def url(self, name="dns.test"):
        return f"tls://{self.server}#{name}"

    def _read_udp(self):
        try:
            while self.udp.recv(4096):
                self.plain += 1
        except OSError:
            pass

    def _accept(self):
        while True:
            try:
                connection = self.listener.accept()[0]
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        connection.settimeout(5)
        try:
            if self.stalled:
                self.held.append(connection)
                return
            if not self.tls:
                self.plain += connection.recv(1) != b"\x16"
                connection.sendall(b"\x00\x0cno TLS here.")
                return
            self.plain += connection.recv(1, socket.MSG_PEEK) != b"\x16"
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(self.certificate)
            context.set_alpn_protocols(["dot"])
            time.sleep(self.handshake_s)
            with context.wrap_socket(connection, server_side=True) as secure:
                self.handshakes += 1
                self._talk(secure)
        except (OSError, ValueError):
            pass
        finally:
            if not self.stalled:
                connection.close()

    def _talk(self, secure):
        with secure.makefile("rb") as stream:
            while len(prefix := stream.read(2)) == 2:
                query = dns.message.from_wire(stream.read(struct.unpack("!H", prefix)[0]))
                self.queries += 1
                reply = self.answer(query)
                if reply is not None:
                    secure.sendall(struct.pack("!H", len(reply)) + reply)

    def close(self):
        self.listener.close()
        self.udp.close()
        for connection in self.held:
            connection.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class NannyPage:
    """
    The nanny's page /config with these upstream servers, and with `engine` as its object "dnsmasq". `upstreams` and `engine` may be changed.
    `reads` is how often the page was read, and `recovered` how often the sidecar sent PUT /recovered.
    """

    def __init__(self, upstreams, stubs=None, engine=None):
        self.upstreams, self.stubs, self.engine, self.reads = upstreams, stubs or {}, engine or {}, 0
        self.recovered = 0
        page = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):  # noqa: N802 (the name is part of the interface)
                page.reads += 1
                body = json.dumps({"upstreams": {"source": "upstreamNameservers", "servers": page.upstreams}, "dnsmasq": page.engine,
                                   "keys": {"stubDomains": {"inForce": page.stubs, "count": len(page.stubs)}}}).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_PUT(self):  # noqa: N802
                page.recovered += self.path == "/recovered"
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.http.shutdown()
        self.http.server_close()
