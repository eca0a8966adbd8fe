"""
Faults that last. During each fault, kubedns sends few requests per minute and keeps its data. After the fault, all its answers are right. The clock
of kubedns runs 100 times as fast, so seconds of the test are minutes for kubedns. The test moves this clock.
"""

import math
import re

import pytest
from api_world import World, name, service
from hurry import Clock

HURRY = 100
SECONDS = 400  # of kubedns's clock, for each fault
FIRST_S, ANSWERED_S, AWAY_S = 0.8, 30, 5  # the bounds in kubedns/api/backoff.h


def waits(longest_s, seconds):
    """
    Returns an upper bound for the number of waits within `seconds`. Each wait is random, evenly distributed between zero and a limit. The
    limit doubles up to `longest_s`. The bound is the mean plus five standard deviations of a renewal process. Fewer than one run in a
    million reaches it.
    """
    limit, count, left = FIRST_S, 0, seconds
    while limit < longest_s:
        left, limit, count = left - limit / 2, 2 * limit, count + 1
    mean, variance = longest_s / 2, longest_s**2 / 12
    return count + left / mean + 5 * math.sqrt(left * variance / mean**3)


LASTING = {
    # If a watch ends within a second, kubedns treats it as ended at once. Here a second is 100 ms of real time.
    "ended at once": {"fault": {"lifetime_s": 0.001}, "hurry": 10, "seconds": 150},
    "refused": {"stop": True, "away": True},
    "500": {"fault": {"status": 500}},
    "503 without Retry-After": {"fault": {"status": 503}},
    "429 with Retry-After 10": {"fault": {"status": 429, "headers": {"Retry-After": "10"}}},
    "429 with Retry-After 0": {"fault": {"status": 429, "headers": {"Retry-After": "0"}}},
    "401": {"token": True},
    "403": {"fault": {"status": 403, "reason": "Forbidden"}},
    "404": {"fault": {"status": 404, "reason": "NotFound"}},
    "400": {"fault": {"status": 400}},
    "410": {"fault": {"status": 410, "reason": "Expired"}},
    "410 events": {"fault": {"error": {"code": 410, "reason": "Expired", "message": "too old"}}},
    "500 events": {"fault": {"error": {"code": 500, "reason": "InternalError", "message": "sad"}}},
    "a proxy's page": {"fault": {"html": True}},
    "garbage": {"fault": {"garbage": 5000}},
    "empty": {"fault": {"empty": True}},
    "the wrong kind": {"fault": {"kind": "PodList"}},
    "cut at once": {"fault": {"cut_after": 0}},
    "cut in the middle": {"fault": {"cut_after": 20000}},
    "half an event, then a clean end": {"fault": {"cut_after": 20000, "cut": "end"}},
    "reset streams": {"fault": {"cut_after": 500, "cut": "stream"}},
    "resets before TLS": {"accept": "reset", "away": True},
    "garbage before TLS": {"accept": "garbage", "away": True},
    "silence before TLS": {"accept": "hang", "away": True},
}


def begin(world, trouble):
    if "fault" in trouble:
        world.api.fault(**trouble["fault"])
    if "token" in trouble:
        world.api.revoke_token()
    if "accept" in trouble:
        world.api.accept(trouble["accept"])
    if "stop" in trouble:
        world.api.stop()
    else:
        world.api.drop_connections()


def end(world, trouble):
    world.api.clear()
    world.api.accept("serve")
    world.api.add_token(world.api.address()["token"])
    if "stop" in trouble:
        world.api.start()


def requests(world):
    """The number of requests per resource, from kubedns's own counters. They include attempts that reached no server."""
    out = {}
    for series, value in world.kubedns.metrics().items():
        if series.startswith("kubedns_api_requests_total"):
            resource = re.search('resource="([a-z]+)"', series)[1]
            out[resource] = out.get(resource, 0) + int(value)
    return out


@pytest.mark.spread
@pytest.mark.parametrize("what", LASTING)
def test_minutes_of(tmp_path, what):
    trouble = LASTING[what]
    hurry = trouble.get("hurry", HURRY)
    clock = Clock(tmp_path)
    with clock.running(hurry), World(tmp_path, hurry=hurry, clock=clock, rate=100) as world:
        world.watching()
        with world.asker:
            since, before = clock.seconds(), requests(world)
            begin(world, trouble)
            world.api.delete("services", "own", "deleted")
            clock.wait(trouble.get("seconds", SECONDS))
            counts = {r: n - before[r] for r, n in requests(world).items() if n > before[r]}
            seconds = clock.seconds() - since
            if trouble.get("away"):  # attempts for all resources together
                most, asked = waits(AWAY_S, seconds) + len(counts), sum(counts.values())
            else:  # attempts for each resource, one after each wait
                most, asked = waits(ANSWERED_S, seconds), max(counts.values(), default=0)
            story = f"{seconds / 60:.1f} minutes of {what}: requests {counts}, {asked} counted, at most {most:.0f}"
            assert asked <= most, story
            end(world, trouble)
            world.api.put(service("new", "10.200.0.4", "own"))
            world.until((name("new"), "A"), {"10.200.0.4"}, 60)
            world.until((name("deleted"), "A"), "NXDOMAIN", 60)
        world.asker.clean()
    print(f"{story}; {world.asker.report()}")


def test_hours_of_nothing_wrong(tmp_path):
    """Each watch lasts five to ten minutes, and then the next one begins. kubedns sends no list request and logs nothing."""
    clock = Clock(tmp_path)
    # Without the audit, which sends lists all the time.
    with clock.running(HURRY), World(tmp_path, "--audit=off", hurry=HURRY, clock=clock, rate=200) as world:
        world.watching()
        since, said = len(world.api.requests()), len(world.kubedns.log())
        with world.asker:
            while not all(world.api.count(since, resource=r) >= 2 for r in ("services", "endpointslices", "namespaces")):
                assert clock.seconds() < 2000
                clock.wait(20)
        world.asker.clean()
        log = world.api.requests(since)
        assert {r["verb"] for r in log} == {"watch"}
        for resource in ("services", "endpointslices", "namespaces"):
            begun = [(r["time"], int(r["params"]["timeoutSeconds"])) for r in log if r["resource"] == resource]
            assert all((b - a) * HURRY >= 0.99 * lasts for (a, lasts), (b, _) in zip(begun, begun[1:])), begun
        timeouts = {int(r["params"]["timeoutSeconds"]) for r in log}
        assert min(timeouts) >= 300 and max(timeouts) <= 600 and len(timeouts) > len(log) // 2, "timeouts must be random, so that replicas spread out"
        assert world.kubedns.log()[said:] == ""


def test_endpointslices_are_tried_again_every_five_minutes(tmp_path):
    """
    The role gets access to EndpointSlices only later, as when an operator applies a forgotten manifest. kubedns switches over from
    Endpoints without a wrong answer.
    """
    legacy = {"namespaces": 5, "services": 20, "slices": 30, "legacy": True}
    clock = Clock(tmp_path)
    with clock.running(HURRY), World(tmp_path, hurry=HURRY, clock=clock, population=legacy, before=lambda api: api.forbid("endpointslices")) as world:
        since = len(world.api.requests())
        world.asker.expected = {q: e for q, e in world.asker.expected.items() if "own" not in q[0] and "arpa" not in q[0]}
        world.asker.wires = {q: w for q, w in world.asker.wires.items() if q in world.asker.expected}
        with world.asker:
            clock.wait(700)
            tried = world.api.count(since, resource="endpointslices")
            assert 1 <= tried <= 4
            world.api.allow("endpointslices")
            world.api.wait_watching("endpointslices", timeout=60)
        world.asker.clean()
        key = world.population.slice_key(9)
        gone = world.population.make_slice(9) | {"endpoints": []}
        world.api.put(gone)
        question = (f"{world.population.service(9)}-0.{name(world.population.service(9), key[0])}", "A")
        world.until(question, "NXDOMAIN")
