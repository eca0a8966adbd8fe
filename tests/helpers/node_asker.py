"""
Sends queries as pods do until it gets SIGTERM, and prints the results: node_asker.py ADDRESS RATE PATIENCE. It alternates between UDP and TCP and
between A and AAAA.
Each query has its own socket and behaves like a resolver library with one server in resolv.conf.

Over UDP, two of three lookups behave like glibc and Go, with two attempts of 5 s each. An ICMP error (IP_RECVERR) or a wrong answer ends an
attempt at once, so two refusals fail the lookup. Every third lookup behaves like musl: it sends at 0 and 2.5 s, waits 5 s in all, and does
not see ICMP errors. Over TCP there is one attempt of 5 s. It fails after a refusal or a reset. All attempts last PATIENCE times as long.
With much patience, a query is only sent again if it was lost, not because the machine is busy.

Prints one JSON object per query: the time and transport, how long the first right answer took (null: the lookup failed), the number of
retries, the wrong answers, and the answer's TTL, which identifies the server.
"""

import asyncio
import json
import signal
import socket
import struct
import sys
import time

NAME, ADDRESSES = "web.default.svc.cluster.local", {1: bytes([10, 96, 0, 80]), 28: bytes.fromhex("fd0000000000000000000000000000a1")}
PATIENCE = float(sys.argv[3])
GLIBC, MUSL, TCP = (5.0 * PATIENCE, 2), (2.5 * PATIENCE, 2), (5.0 * PATIENCE, 1)  # seconds per attempt, and attempts
IP_RECVERR = 11


def question(id_, type_):
    labels = b"".join(bytes([len(label)]) + label.encode() for label in NAME.split("."))
    return struct.pack("!6H", id_, 0x0100, 1, 0, 0, 0) + labels + b"\0" + struct.pack("!2H", type_, 1)


def judge(wire, id_, type_):
    """Returns (error or None, TTL), or None if this is not the reply to the query."""
    if len(wire) < 12 or struct.unpack("!H", wire[:2])[0] != id_:
        return None
    rcode, answers = wire[3] & 15, struct.unpack("!H", wire[6:8])[0]
    if rcode or answers != 1 or wire[-len(ADDRESSES[type_]):] != ADDRESSES[type_]:
        return f"rcode {rcode}, {answers} answers", None
    return None, struct.unpack("!I", wire[-len(ADDRESSES[type_]) - 6:-len(ADDRESSES[type_]) - 2])[0]


class Udp(asyncio.DatagramProtocol):
    def __init__(self):
        self.came = asyncio.Queue()

    def datagram_received(self, wire, _):
        self.came.put_nowait(wire)

    def error_received(self, error):
        self.came.put_nowait(error)


async def udp_try(udp, wait_s, id_, type_, note):
    """The answer's TTL, or None if this attempt failed."""
    until = time.monotonic() + wait_s
    while (left := until - time.monotonic()) > 0:
        try:
            came = await asyncio.wait_for(udp.came.get(), left)
        except asyncio.TimeoutError:
            return None
        if isinstance(came, OSError):
            return None
        judged = judge(came, id_, type_)
        if judged and judged[0]:
            note["wrong"].append(judged[0])
            return None
        if judged:
            return judged[1]
    return None


async def by_glibc(address, wire, id_, type_, note):
    wait_s, tries = GLIBC
    for note["again"] in range(tries):
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        s.setblocking(False)
        s.setsockopt(socket.IPPROTO_IP, IP_RECVERR, 1)
        transport = None
        try:
            s.connect((address, 53))
            transport, udp = await asyncio.get_running_loop().create_datagram_endpoint(Udp, sock=s)
            transport.sendto(wire)
            if (ttl := await udp_try(udp, wait_s, id_, type_, note)) is not None:
                return ttl
        except OSError:
            pass  # there is no route, so the next attempt starts at once
        finally:
            (transport or s).close()
    return None


async def by_musl(address, wire, id_, type_, note):
    wait_s, tries = MUSL
    transport, udp = await asyncio.get_running_loop().create_datagram_endpoint(Udp, local_addr=("0.0.0.0", 0))
    try:
        for note["again"] in range(tries):
            transport.sendto(wire, (address, 53))
            if (ttl := await udp_try(udp, wait_s, id_, type_, note)) is not None:
                return ttl
    finally:
        transport.close()
    return None


async def one_tcp(address, wire, id_, type_, note):
    reader, writer = await asyncio.open_connection(address, 53)
    try:
        writer.write(struct.pack("!H", len(wire)) + wire)
        judged = judge(await reader.readexactly(struct.unpack("!H", await reader.readexactly(2))[0]), id_, type_)
        if judged and judged[0]:
            note["wrong"].append(judged[0])
        return judged[1] if judged and not judged[0] else None
    finally:
        writer.close()


async def by_tcp(address, wire, id_, type_, note):
    try:
        return await asyncio.wait_for(one_tcp(address, wire, id_, type_, note), TCP[0])
    except (asyncio.TimeoutError, OSError, asyncio.IncompleteReadError):
        return None


async def ask(address, number):
    type_, tcp = (1, 28)[number & 1], number & 2
    id_ = number * 40503 & 0xFFFF
    note = {"at": time.time(), "tcp": bool(tcp), "again": 0, "wrong": []}
    begun = time.monotonic()
    way = by_tcp if tcp else by_musl if number // 4 % 3 == 2 else by_glibc
    note["ttl"] = await way(address, question(id_, type_), id_, type_, note)
    note["took"] = None if note["ttl"] is None else time.monotonic() - begun
    return note


async def main(address, rate):
    """Sends the queries. Prints the first line when it sends the first query, and the results at the end, because a slow reader would delay the queries."""
    tasks, begun, ended = [], time.monotonic(), asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    print("sending", flush=True)
    while not ended.is_set():
        await asyncio.sleep(max(0, begun + len(tasks) / rate - time.monotonic()))
        tasks.append(asyncio.create_task(ask(address, len(tasks))))
    return await asyncio.gather(*tasks)


if __name__ == "__main__":
    for asked in asyncio.run(main(sys.argv[1], float(sys.argv[2]))):
        print(json.dumps(asked))
