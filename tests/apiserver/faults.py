"""
Faults in answers. A Fault has a selection of requests, a number of times, and the changes to the answers. `Shaped` is the layer between a
handler and the connection that applies the fault.
"""

import asyncio
import dataclasses
import itertools
import os
import time
from dataclasses import dataclass
from typing import Optional

_ids = itertools.count(1)

PROXY_PAGE = (
    b"<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body>\r\n<center><h1>502 Bad Gateway</h1></center>\r\n"
    b"<hr><center>proxy</center>\r\n</body>\r\n</html>\r\n"
)


@dataclass
class Fault:
    # The requests that the fault applies to. An empty field matches all requests.
    resource: Optional[str] = None
    verb: Optional[str] = None  # list, watch, watchlist, get
    skip: int = 0  # this number of matching requests first gets normal answers
    times: Optional[int] = None  # number of requests that the fault applies to; None: all requests until the fault is cleared

    # Before the answer.
    delay_s: float = 0  # delay before the status line
    hang: bool = False  # no answer at all
    status: Optional[int] = None  # answers with this status code and a Status object
    reason: str = ""
    message: str = ""
    headers: dict = dataclasses.field(default_factory=dict)  # added to the answer's headers, for example Retry-After
    redirect: Optional[str] = None  # 307 to this Location
    # The body.
    body: Optional[str] = None  # this text instead of the answer's body
    content_type: Optional[str] = None
    html: bool = False  # a proxy's page, with status 200
    garbage: int = 0  # this many random bytes instead of the answer's body
    empty: bool = False  # 200 and an empty body
    first_byte_s: float = 0  # delay between the header and the first byte of the body
    rate: Optional[float] = None  # bytes of the body per second
    cut_after: Optional[int] = None  # after this many bytes of the body the connection ends as `cut` says
    cut: str = "rst"  # rst, fin, stream (HTTP/2: RST_STREAM; HTTP/1.1: fin), end (a clean end of the body)
    # Lists.
    kind: Optional[str] = None  # replaces the kind of the list
    items: Optional[str] = None  # this text as the value of items, such as null
    gzip: Optional[bool] = None  # True: compresses even small lists. False: compresses no list
    gzip_members: int = 1  # number of gzip members; libcurl stops at the second
    # Watches.
    silent: bool = False  # sends only the header
    no_end_bookmark: bool = False  # no bookmark at the end of the initial events
    no_bookmarks: bool = False  # no bookmarks after that
    overstay: bool = False  # ignore timeoutSeconds
    lifetime_s: Optional[float] = None  # a clean end after this time
    error: Optional[dict] = None  # send an ERROR event with this Status and end the watch: {"code": 410, "reason": "Expired", ...}

    id: int = dataclasses.field(default_factory=lambda: next(_ids))
    met: int = 0  # number of requests to which the fault was applied

    def matches(self, resource, verb):
        if self.resource not in (None, resource) or self.verb not in (None, verb):
            return False
        if self.skip > 0:
            self.skip -= 1
            return False
        return self.times is None or self.met < self.times


class Cut(Exception):
    """The fault has ended the answer."""


class Shaped:
    """A stream with a fault. Without a fault it passes everything through."""

    def __init__(self, stream, fault, record):
        self.stream, self.fault, self.record = stream, fault, record
        self.sent = 0
        self.due = None

    @property
    def request(self):
        return self.stream.request

    async def start(self, status, headers):
        f = self.fault
        if f:
            if f.hang:
                await asyncio.Event().wait()
            if f.delay_s:
                await asyncio.sleep(f.delay_s)
            headers = {**headers, **{k.lower(): v for k, v in f.headers.items()}}
        self.record["status"] = status
        await self.stream.start(status, headers)
        if f and f.first_byte_s:
            await asyncio.sleep(f.first_byte_s)
        if f and f.cut_after == 0:
            await self.finish_by_fault()

    async def write(self, data):
        """Returns the time when the first byte was handed to the connection (CLOCK_MONOTONIC, ns)."""
        f = self.fault
        if f is None or (f.rate is None and f.cut_after is None):
            self.record["bytes"] += len(data)
            return await self.stream.write(data)
        begin = time.monotonic_ns()
        step = max(1, int(f.rate / 10)) if f.rate else len(data)
        for at in range(0, len(data), step):
            piece = data[at : at + step]
            if f.cut_after is not None and self.sent + len(piece) >= f.cut_after:
                piece = piece[: f.cut_after - self.sent]
            await self._paced(piece)
            if f.cut_after is not None and self.sent >= f.cut_after:
                await self.finish_by_fault()
        return begin

    async def _paced(self, piece):
        if self.fault.rate:
            now = time.monotonic()
            self.due = max(self.due or now, now - 1) + len(piece) / self.fault.rate
            await asyncio.sleep(self.due - now)
        await self.stream.write(piece)
        self.sent += len(piece)
        self.record["bytes"] += len(piece)

    async def finish_by_fault(self):
        if self.fault.cut == "end":
            await self.stream.end()
        else:
            await self.stream.flush()
            self.stream.cut(self.fault.cut)
        raise Cut

    async def end(self):
        await self.stream.end()

    def replacement(self):
        """Returns (status, content type, body) if the fault replaces the whole answer, otherwise None."""
        f = self.fault
        if f is None:
            return None
        if f.html:
            return f.status or 200, "text/html", PROXY_PAGE
        if f.garbage:
            return f.status or 200, "application/json", os.urandom(f.garbage)
        if f.empty:
            return f.status or 200, "application/json", b""
        if f.body is not None:
            return f.status or 200, f.content_type or "application/json", f.body.encode()
        return None
