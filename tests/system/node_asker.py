"""
Asks as pods do, and says what came: node_asker.py ADDRESS RATE SECONDS. Each question has a socket of its own, and is asked again after a
second, at most five times; UDP and TCP, A and AAAA in turn. Prints one JSON object a question: when it was asked, by what, how long the
first right answer took (null: none within five seconds), how often it was asked again, what came wrong, and the answer's TTL, by which the
servers differ.
"""

import asyncio
import json
import struct
import sys
import time

NAME, ADDRESSES = "web.default.svc.cluster.local", {1: bytes([10, 96, 0, 80]), 28: bytes.fromhex("fd0000000000000000000000000000a1")}
AGAIN_S, TRIES = 1.0, 5


def question(id_, type_):
    labels = b"".join(bytes([len(label)]) + label.encode() for label in NAME.split("."))
    return struct.pack("!6H", id_, 0x0100, 1, 0, 0, 0) + labels + b"\0" + struct.pack("!2H", type_, 1)


def judge(wire, id_, type_):
    """(what is wrong with it or None, TTL); None for a reply to something else."""
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
        self.came.put_nowait(b"")  # refused: asked again when it is time


async def by_udp(address, wire, id_, type_, note):
    """One socket for all tries, as glibc has it."""
    transport, udp = await asyncio.get_running_loop().create_datagram_endpoint(Udp, remote_addr=(address, 53))
    try:
        for note["again"] in range(TRIES):
            transport.sendto(wire)
            until = time.monotonic() + AGAIN_S
            while (left := until - time.monotonic()) > 0:
                try:
                    judged = judge(await asyncio.wait_for(udp.came.get(), left), id_, type_)
                except asyncio.TimeoutError:
                    break
                if judged and judged[0]:
                    note["wrong"].append(judged[0])
                elif judged:
                    return judged[1]
    finally:
        transport.close()


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
    for note["again"] in range(TRIES):
        until = time.monotonic() + AGAIN_S
        try:
            ttl = await asyncio.wait_for(one_tcp(address, wire, id_, type_, note), AGAIN_S)
            if ttl is not None:
                return ttl
        except (asyncio.TimeoutError, OSError, asyncio.IncompleteReadError):
            pass
        await asyncio.sleep(until - time.monotonic())


async def ask(address, number):
    type_, tcp = (1, 28)[number & 1], number & 2
    id_ = number * 40503 & 0xFFFF
    note = {"at": time.time(), "tcp": bool(tcp), "again": 0, "wrong": []}
    begun = time.monotonic()
    note["ttl"] = await (by_tcp if tcp else by_udp)(address, question(id_, type_), id_, type_, note)
    note["took"] = None if note["ttl"] is None else time.monotonic() - begun
    return note


async def main(address, rate, seconds):
    """Nothing is printed before the end: a reader who is late would hold up the questions."""
    tasks, begun = [], time.monotonic()
    for number in range(int(rate * seconds)):
        await asyncio.sleep(max(0, begun + number / rate - time.monotonic()))
        tasks.append(asyncio.create_task(ask(address, number)))
    return await asyncio.gather(*tasks)


if __name__ == "__main__":
    for asked in asyncio.run(main(sys.argv[1], float(sys.argv[2]), float(sys.argv[3]))):
        print(json.dumps(asked))
