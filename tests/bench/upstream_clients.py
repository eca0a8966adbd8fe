"""Clients for upstream.py that behave like glibc with one server in resolv.conf."""

import asyncio
import collections
import random
import struct
import time

ADDRESS = "127.0.0.1"  # the address of the measured servers
TIMEOUT_S, ATTEMPTS = 5, 2
EDE = 15


class Socket(asyncio.DatagramProtocol):
    def __init__(self, id_):
        self.id, self.came = id_, asyncio.get_running_loop().create_future()

    def datagram_received(self, data, addr):
        if data[:2] == self.id and not self.came.done():
            self.came.set_result(data)

    def error_received(self, exc):
        if not self.came.done():
            self.came.set_result(b"")


def message(id_, name, size):
    labels = b"".join(bytes([len(label)]) + label for label in name.encode().split(b"."))
    return id_ + b"\1\0\0\1\0\0\0\0\0\1" + labels + b"\0\0\1\0\1" + b"\0\0\x29" + struct.pack("!H", size) + b"\0\0\0\0\0\0"


def extended_error(wire):
    """Returns the INFO-CODE of the reply's first extended error, or None. In a reply without other additional records, the OPT is the last record."""
    at = wire.rfind(b"\0\0\x29")
    if wire[10:12] == b"\0\0" or at < 12:
        return None
    option = at + 11
    while option + 4 <= len(wire):
        code, length = struct.unpack_from("!HH", wire, option)
        if code == EDE and length >= 2:
            return struct.unpack_from("!H", wire, option + 4)[0]
        option += 4 + length
    return None


async def over_tcp(port, query, timeout_s, address=None):
    async def ask():
        reader, writer = await asyncio.open_connection(address or ADDRESS, port)
        try:
            writer.write(struct.pack("!H", len(query)) + query)
            return await reader.readexactly(struct.unpack("!H", await reader.readexactly(2))[0])
        finally:
            writer.close()

    try:
        return await asyncio.wait_for(ask(), timeout_s)
    except (OSError, asyncio.TimeoutError, asyncio.IncompleteReadError):
        return b""


async def lookup(port, name, size, timeout_s=TIMEOUT_S, address=None):
    """Looks up the A record of one name. Returns whether the lookup failed, its duration, the errors before the answer, and the extended errors."""
    begun, seen, extended = time.monotonic(), [], []
    first_s = None
    for _ in range(ATTEMPTS):
        id_ = struct.pack("!H", random.getrandbits(16))
        query = message(id_, name, size)
        transport, protocol = await asyncio.get_running_loop().create_datagram_endpoint(lambda id_=id_: Socket(id_), remote_addr=(address or ADDRESS, port))
        transport.sendto(query)
        try:
            wire = await asyncio.wait_for(protocol.came, timeout_s)
        except asyncio.TimeoutError:
            wire = None
        transport.close()
        if wire and wire[2] & 2:
            wire = await over_tcp(port, query, timeout_s, address)
        if wire is not None and first_s is None:
            first_s = time.monotonic() - begun
        if wire and (code := extended_error(wire)) is not None:
            extended.append(code)
        if wire and wire[3] & 15 == 0 and wire[6:8] != b"\0\0":
            return {"failed": False, "s": time.monotonic() - begun, "first_s": first_s, "seen": seen, "extended": extended}
        seen.append("timeout" if wire is None else "broken" if not wire else {0: "empty", 2: "SERVFAIL", 5: "REFUSED"}.get(wire[3] & 15, str(wire[3] & 15)))
    return {"failed": True, "s": time.monotonic() - begun, "first_s": first_s, "seen": seen, "extended": extended}


async def steadily(port, names, rate, size):
    """Looks up all names, `rate` a second, and waits for the last lookup."""
    begun, tasks = time.monotonic(), []
    for n, name in enumerate(names):
        await asyncio.sleep(max(0, begun + n / rate - time.monotonic()))
        tasks.append(asyncio.ensure_future(lookup(port, name, size)))
    return await asyncio.gather(*tasks)


def summary(looked_up):
    times = sorted(r["s"] for r in looked_up if not r["failed"])
    firsts = [r["first_s"] for r in looked_up if r["first_s"] is not None]

    def at(part):
        return round(times[min(len(times) - 1, int(part * len(times)))] * 1e3, 1) if times else None

    return {"asked": len(looked_up), "failed": sum(r["failed"] for r in looked_up), "retried": sum(bool(r["seen"]) for r in looked_up),
            "first_ms": round(min(firsts) * 1e3, 1) if firsts else None, "p50_ms": at(0.5), "p99_ms": at(0.99), "max_ms": round(times[-1] * 1e3, 1) if times else None,
            "seen": dict(collections.Counter(s for r in looked_up for s in r["seen"])),
            "extended": dict(collections.Counter(c for r in looked_up for c in r["extended"]))}  # fmt: skip
