"""
HTTP/1.1 and HTTP/2 on asyncio: the parts that a server of GET requests needs. With either protocol, a handler gets the same kind of Stream:

    await stream.start(status, headers); await stream.write(data); await stream.end()      or stream.cut(how)

`write` waits while the peer does not read. If a connection is lost, the handlers of its streams are cancelled.
"""

import asyncio
import contextlib
import os
import socket
import struct
import time
from urllib.parse import parse_qsl, unquote, urlsplit

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.exceptions
import h2.settings
from hyperframe.frame import GoAwayFrame

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
REASONS = {
    200: "OK", 307: "Temporary Redirect", 400: "Bad Request", 401: "Unauthorized", 403: "Forbidden", 404: "Not Found",
    405: "Method Not Allowed", 410: "Gone", 422: "Unprocessable Entity", 429: "Too Many Requests",
    500: "Internal Server Error", 502: "Bad Gateway", 503: "Service Unavailable", 504: "Gateway Timeout",
}  # fmt: skip


class Gone(ConnectionError):
    """The peer or a fault has ended the connection."""


class Request:
    def __init__(self, method, target, headers, http):
        split = urlsplit(target)
        self.method, self.target, self.http = method, target, http
        self.path = unquote(split.path)
        self.params = dict(parse_qsl(split.query, keep_blank_values=True))
        self.headers = headers  # names in lower case


class Connection(asyncio.Protocol):
    """The common part of both protocols: the transport, its flow control, and ways to end it."""

    def __init__(self, server):
        self.server = server
        self.transport = None
        self.speaks = None  # the handler of the protocol, once the protocol is known
        self.writable = asyncio.Event()
        self.writable.set()
        self.closed = False
        self.written_ns = 0  # CLOCK_MONOTONIC just before the last write to the socket
        self.early = b""

    def connection_made(self, transport):
        self.transport = transport
        transport.set_write_buffer_limits(high=1 << 20)
        self.server.connections.add(self)
        tls = transport.get_extra_info("ssl_object")
        if tls:
            self.speaks = Http2(self) if tls.selected_alpn_protocol() == "h2" else Http1(self)

    @property
    def user(self):
        """The common name of the client's certificate."""
        tls = self.transport.get_extra_info("ssl_object")
        cert = tls.getpeercert() if tls else None
        names = dict(pair for rdn in (cert or {}).get("subject", ()) for pair in rdn)
        return names.get("commonName")

    def data_received(self, data):
        if self.speaks is None:  # without TLS, the client's first bytes show the protocol
            data = self.early = self.early + data
            if len(data) < len(PREFACE) and PREFACE.startswith(data):
                return
            self.speaks = Http2(self) if data.startswith(PREFACE) else Http1(self)
        self.speaks.received(data)

    def pause_writing(self):
        self.writable.clear()

    def resume_writing(self):
        self.writable.set()

    def connection_lost(self, exc):
        self.closed = True
        self.writable.set()
        self.server.connections.discard(self)
        if self.speaks:
            self.speaks.lost()

    async def drain(self):
        await self.server.thawed.wait()
        await self.writable.wait()
        if self.closed:
            raise Gone

    def write(self, data):
        if self.closed:
            raise Gone
        try:
            self.written_ns = time.monotonic_ns()
            self.transport.write(data)
        except AttributeError:  # a TLS transport that asyncio has closed without notice
            raise Gone from None

    def end(self, how="rst"):
        """Ends the connection: close (orderly), fin (a FIN without TLS close_notify) or rst (a reset)."""
        try:
            sock = self.transport.get_extra_info("socket")
        except AttributeError:  # a TLS transport that asyncio has closed
            sock = None
        if self.closed or sock is None:
            return
        if how == "close":
            self.transport.close()
            return
        try:
            if how == "rst":
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            else:
                sock.shutdown(socket.SHUT_WR)
                linger(socket.socket(fileno=os.dup(sock.fileno())))
        except OSError:
            pass  # the peer has closed the connection meanwhile
        self.transport.abort()


_lingering = set()


def linger(sock):
    """Reads and discards data until the peer closes. With unread data the kernel would send a reset, and the reset would overtake the
    answer."""

    async def until_closed():
        with sock, contextlib.suppress(OSError):
            while await asyncio.get_running_loop().sock_recv(sock, 65536):
                pass

    task = asyncio.get_running_loop().create_task(until_closed())
    _lingering.add(task)
    task.add_done_callback(_lingering.discard)


class Http1:
    name = "1.1"

    def __init__(self, conn):
        self.conn = conn
        self.buffer = b""
        self.task = None

    def received(self, data):
        self.buffer += data
        self.next()

    def next(self):
        """Handles the next request after the previous one is answered."""
        if self.task or b"\r\n\r\n" not in self.buffer:
            return
        head, self.buffer = self.buffer.split(b"\r\n\r\n", 1)
        lines = head.decode("latin-1").split("\r\n")
        try:
            method, target, _ = lines[0].split(" ")
        except ValueError:
            self.conn.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            self.conn.end("close")
            return
        headers = {k.strip().lower(): v.strip() for k, _, v in (line.partition(":") for line in lines[1:])}
        self.buffer = self.buffer[int(headers.get("content-length", 0)) :]
        stream = Http1Stream(self.conn, Request(method, target, headers, self.name))
        self.task = asyncio.get_running_loop().create_task(self.conn.server.handle(stream))
        self.task.add_done_callback(self.done)

    def done(self, task):
        self.task = None
        if not self.conn.closed:
            self.next()

    def lost(self):
        if self.task:
            self.task.cancel()

    def goaway(self):
        """Closes an idle connection, because HTTP/1.1 has no GOAWAY. A busy connection ends after its answer."""
        if self.task is None:
            self.conn.end("close")


class Http1Stream:
    def __init__(self, conn, request):
        self.conn, self.request = conn, request
        self.chunked = False

    async def start(self, status, headers):
        await self.conn.drain()
        self.chunked = "content-length" not in headers
        if self.chunked:
            headers = {**headers, "transfer-encoding": "chunked"}
        lines = [f"HTTP/1.1 {status} {REASONS.get(status, 'Unknown')}"] + [f"{k.title()}: {v}" for k, v in headers.items()]
        self.conn.write("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n")

    async def write(self, data):
        await self.conn.drain()
        if data:
            self.conn.write(b"%x\r\n%b\r\n" % (len(data), data) if self.chunked else data)
        return self.conn.written_ns

    async def flush(self):
        await self.conn.drain()

    async def end(self):
        await self.conn.drain()
        if self.chunked:
            self.conn.write(b"0\r\n\r\n")

    def cut(self, how):
        self.conn.end("fin" if how == "stream" else how)


class Http2:
    name = "2"

    def __init__(self, conn):
        self.conn = conn
        self.streams = {}
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False, header_encoding="utf-8"))
        self.h2.update_settings({h2.settings.SettingCodes.MAX_CONCURRENT_STREAMS: 250})
        self.h2.initiate_connection()
        self.window = asyncio.Event()
        self.push()

    def push(self):
        data = self.h2.data_to_send()
        if data and not self.conn.closed:
            self.conn.write(data)

    def received(self, data):
        try:
            events = self.h2.receive_data(data)
        except h2.exceptions.ProtocolError:
            self.push()
            self.conn.end("close")
            return
        for event in events:
            self.on(event)
        with contextlib.suppress(Gone):
            self.push()

    def on(self, event):
        if isinstance(event, h2.events.RequestReceived):
            headers = dict(event.headers)
            request = Request(headers[":method"], headers[":path"], headers, self.name)
            stream = Http2Stream(self, event.stream_id, request)
            task = asyncio.get_running_loop().create_task(self.conn.server.handle(stream))
            self.streams[event.stream_id] = (stream, task)
            task.add_done_callback(lambda _, sid=event.stream_id: self.streams.pop(sid, None))
        elif isinstance(event, h2.events.StreamReset):
            if event.stream_id in self.streams:
                self.streams[event.stream_id][1].cancel()
        elif isinstance(event, (h2.events.WindowUpdated, h2.events.RemoteSettingsChanged)):
            self.window.set()
        elif isinstance(event, h2.events.ConnectionTerminated):
            self.conn.end("close")

    def lost(self):
        self.window.set()
        for _, task in list(self.streams.values()):
            task.cancel()

    def goaway(self):
        """Announces that no new stream will be accepted. Open streams continue. The h2 library would end them, so this bypasses the library."""
        last = max(self.streams, default=0)
        with contextlib.suppress(Gone):
            self.conn.write(GoAwayFrame(stream_id=0, last_stream_id=last, error_code=0).serialize())


class Http2Stream:
    def __init__(self, http, sid, request):
        self.http, self.sid, self.request, self.conn = http, sid, request, http.conn

    def _send(self, call, *args, **kw):
        try:
            call(self.sid, *args, **kw)
        except h2.exceptions.ProtocolError:  # the peer has reset it meanwhile
            raise Gone from None
        self.http.push()

    async def start(self, status, headers):
        await self.conn.drain()
        self._send(self.http.h2.send_headers, [(":status", str(status))] + [(k, str(v)) for k, v in headers.items()])

    async def write(self, data):
        """Sends as many frames at a time as the peer's windows allow."""
        h2c, began = self.http.h2, None
        view = memoryview(data)
        while view:
            await self.conn.drain()
            try:
                room = h2c.local_flow_control_window(self.sid)
            except h2.exceptions.ProtocolError:
                raise Gone from None
            if room <= 0:
                self.http.window.clear()
                await self.http.window.wait()
                continue
            size = h2c.max_outbound_frame_size
            batch, view = view[: min(room, 16 * size)], view[min(room, 16 * size) :]
            for at in range(0, len(batch), size):
                try:
                    h2c.send_data(self.sid, bytes(batch[at : at + size]))
                except h2.exceptions.ProtocolError:
                    raise Gone from None
            self.http.push()
            began = began or self.http.conn.written_ns
        return began or self.http.conn.written_ns

    async def flush(self):
        await self.conn.drain()

    async def end(self):
        await self.conn.drain()
        self._send(self.http.h2.end_stream)

    def cut(self, how):
        if how == "stream":
            self._send(self.http.h2.reset_stream, h2.errors.ErrorCodes.INTERNAL_ERROR)
        else:
            self.conn.end(how)
