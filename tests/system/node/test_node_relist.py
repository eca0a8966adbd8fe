"""
The load on the API server when all nodes get a 410 at the same moment, and when all nodes start at the same moment. 500 agents send the
requests of kubedns --node-role to the stand-in API server. Prints the requests and bytes of each second. The agents only have the constants
of kubedns, and its own waits are in tests/unit/test_reflector_errors.c. So these tests run in `make soak` only.
"""

import asyncio
import itertools
import random
import re
import time
from collections import Counter
from urllib.parse import urlsplit

import pytest
from api_world import ApiProcess
from test_node_role import HEADLESS

AGENTS = 500
# REFLECTOR_SPREAD_BYTES_S, REFLECTOR_RELIST_JITTER_MS and REFLECTOR_SPREAD_MAX_MS of kubedns/api/reflector.h
SPREAD_BYTES_S, WAIT_MIN_S, WAIT_MAX_S = 500_000, 3, 120
FIRST_S, MOST_S = 0.8, 30  # BACKOFF_FIRST_MS and BACKOFF_MAX_MS of kubedns/api/backoff.h
(LABEL,) = HEADLESS
LISTS = ("/api/v1/services", "/api/v1/namespaces", f"/apis/discovery.k8s.io/v1/endpointslices?labelSelector={LABEL.replace('/', '%2F')}")


class Meter:
    def __init__(self):
        self.begun, self.requests, self.bytes, self.times = time.monotonic(), Counter(), Counter(), []

    def second(self):
        return int(time.monotonic() - self.begun)


async def get(host, port, path, meter):
    """Requests one list and reads the bytes as they arrive. Returns their number, or None if the server refused the request with a 429."""
    reader, writer = await asyncio.open_connection(host, port)
    begun, total = time.monotonic(), 0
    meter.requests[meter.second()] += 1
    writer.write(f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
    status = await reader.readline()
    if b" 429 " in status:
        writer.close()
        return None
    assert b" 200 " in status, status
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    length = re.search(rb"content-length: (\d+)", head)
    while length is None or total < int(length[1]):
        data = await reader.read(65536)
        total += len(data)
        meter.bytes[meter.second()] += len(data)
        if not data or (length is None and data.endswith(b"0\r\n\r\n")):  # this is the last chunk, because no JSON ends with "0" and an empty line
            break
    writer.close()
    meter.times.append(time.monotonic() - begun)
    return total


async def relist(host, port, sizes, spread):
    meter = Meter()

    async def one(path):
        if spread:
            await asyncio.sleep(random.uniform(0, min(WAIT_MAX_S, max(WAIT_MIN_S, sizes[path] / SPREAD_BYTES_S))))
        return await get(host, port, path, meter)

    totals = await asyncio.gather(*(one(path) for _ in range(AGENTS) for path in LISTS))
    return meter, totals


async def start(host, port, spread):
    """
    All agents start at the same moment. If the server refuses an agent, the agent waits one second, as the server asks, plus a random time.
    The random time is at most a tenth of a second. With `spread`, its limit doubles after each refusal.
    """
    meter = Meter()

    async def one(path):
        for refused in itertools.count():
            if await get(host, port, path, meter) is not None:
                return meter.second()
            more = min(MOST_S, FIRST_S * 2**refused) if spread else 0.1
            await asyncio.sleep(1 + random.uniform(0, more))

    return meter, await asyncio.gather(*(one(path) for _ in range(AGENTS) for path in LISTS))


@pytest.mark.soak
def test_nodes_that_start_at_one_moment_come_again_ever_more_rarely(tmp_path):
    """
    There are 500 agents for 5,000 nodes, so the server has a tenth of the node role's priority level: 2 lists at a time, 80 in the queue.
    """
    with ApiProcess(tls=False, http2=False) as api:
        api.load(services=100, slices=150, namespaces=5)
        url = urlsplit(api.url())
        asked = []
        for spread in (False, True):
            api.set_turns(2, 80, 0.02)
            meter, ended = asyncio.run(start(url.hostname, url.port, spread))
            granted, refused = api.turns_taken()
            print(f"{AGENTS} agents, {'ever later' if spread else 'as the server says'}: {granted} lists, {refused} refused, the last after {max(ended)} s; "
                  f"requests a second {[meter.requests[s] for s in range(max(meter.requests) + 1)]}")  # fmt: skip
            assert granted == len(ended) == 3 * AGENTS, "each agent has its three lists"
            asked.append(refused)
        assert asked[1] < asked[0]


@pytest.mark.soak
def test_relists_of_all_nodes_are_spread(tmp_path):
    with ApiProcess(tls=False, http2=False) as api:
        api.load(services=1000, slices=1500, namespaces=50)
        url = urlsplit(api.url())
        sizes = {path: asyncio.run(get(url.hostname, url.port, path, Meter())) for path in LISTS}
        peaks = []
        for spread in (False, True):
            meter, totals = asyncio.run(relist(url.hostname, url.port, sizes, spread))
            took = max(meter.bytes) + 1
            print(f"{AGENTS} agents, {'spread' if spread else 'at once'}: {len(totals)} lists, {sum(totals) / 1e6:.0f} MB in {took} s; requests a second "
                  f"{[meter.requests[s] for s in range(took)]}, MB a second {[round(meter.bytes[s] / 1e6) for s in range(took)]}; the slowest list "
                  f"{max(meter.times):.1f} s, in the mean {sum(meter.times) / len(meter.times):.1f} s")  # fmt: skip
            assert len(totals) == 3 * AGENTS
            assert all(total >= 0.99 * sizes[LISTS[i % 3]] for i, total in enumerate(totals)), "each list is complete"
            peaks.append(max(meter.requests.values()))
    assert peaks[1] < peaks[0], "the requests must not all come in the same second"
    print(f"a list's bytes: {sizes}")
