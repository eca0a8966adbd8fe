"""
Under every fault that lasts, the requests per minute are few, the data stays, and when it is over all is right. The client's time runs
100 times as fast: seconds of the test are minutes of trouble.
"""

import math
import re
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from api_world import World, name, service

HURRY = 100
SECONDS = 4  # of the test
AT_ONCE = 6
FIRST_S, ANSWERED_S, AWAY_S = 0.8, 30, 5  # the limits of kubedns/api/backoff.h


def waits(longest_s, seconds):
    """
    How many waits, each drawn evenly between nothing and a limit that doubles up to this, fill so many seconds: the mean, and five
    standard deviations of a renewal process more, so that no run in a million has as many.
    """
    limit, count, left = FIRST_S, 0, seconds
    while limit < longest_s:
        left, limit, count = left - limit / 2, 2 * limit, count + 1
    mean, variance = longest_s / 2, longest_s**2 / 12
    return count + left / mean + 5 * math.sqrt(left * variance / mean**3)


LASTING = {
    # What ends within a second is at once: 10 ms of the test at the usual hurry, which a busy machine takes for longer.
    "ended at once": {"fault": {"lifetime_s": 0.001}, "hurry": 20, "seconds": 20},
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
    """How many each resource has made, by what kubedns itself counts: those too that reached nobody."""
    out = {}
    for series, value in world.kubedns.metrics().items():
        if series.startswith("kubedns_api_requests_total"):
            resource = re.search('resource="([a-z]+)"', series)[1]
            out[resource] = out.get(resource, 0) + int(value)
    return out


def minutes_of(directory, what):
    trouble = LASTING[what]
    hurry = trouble.get("hurry", HURRY)
    with World(directory, hurry=hurry, rate=100) as world:
        world.watching()
        with world.asker:
            since, before = time.monotonic(), requests(world)
            begin(world, trouble)
            world.api.delete("services", "own", "deleted")
            time.sleep(trouble.get("seconds", SECONDS))
            counts = {r: n - before[r] for r, n in requests(world).items() if n > before[r]}
            # What has passed, which is more than was asked for where this process, too, got no CPU.
            seconds = (time.monotonic() - since) * hurry
            if trouble.get("away"):  # attempts of all resources together
                most, asked = waits(AWAY_S, seconds) + len(counts), sum(counts.values())
            else:  # of each resource: one after each wait
                most, asked = waits(ANSWERED_S, seconds), max(counts.values(), default=0)
            story = f"{seconds / 60:.1f} minutes of {what}: requests {counts}, {asked} counted, at most {most:.0f}"
            assert asked <= most, story
            assert world.kubedns.ready()
            end(world, trouble)
            world.api.put(service("new", "10.200.0.4", "own"))
            world.until((name("new"), "A"), {"10.200.0.4"}, 15)
            world.until((name("deleted"), "A"), "NXDOMAIN", 15)
        world.asker.clean()
    return f"{story}; {world.asker.report()}"


@pytest.fixture(scope="module")
def troubles(request, tmp_path_factory):
    """All that were selected, some at a time, since each is mostly waiting: what -> a future."""
    selected = [i.callspec.params["what"] for i in request.session.items if getattr(i, "originalname", "") == "test_minutes_of"]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield {what: pool.submit(minutes_of, tmp_path_factory.mktemp("trouble"), what) for what in selected}


@pytest.mark.parametrize("what", LASTING)
def test_minutes_of(troubles, what):
    print(troubles[what].result())


def test_hours_of_nothing_wrong(tmp_path):
    """Watches of five to ten minutes, one after the other, without a list and without a word in the log."""
    hurry, seconds = 100, 12  # a watch may be 30 s late, which is 300 ms here: enough for a machine that has other work
    with World(tmp_path, hurry=hurry, rate=200) as world:
        world.watching()
        since, said = len(world.api.requests()), len(world.kubedns.log())
        with world.asker:
            time.sleep(seconds)
        world.asker.clean()
        log = world.api.requests(since)
        minutes = seconds * hurry / 60
        print(f"{len(log)} requests in {minutes:.0f} minutes")
        assert {r["verb"] for r in log} == {"watch"} and 3 * (minutes // 10) <= len(log) <= 3 * (minutes // 5 + 1)
        timeouts = {int(r["params"]["timeoutSeconds"]) for r in log}
        assert min(timeouts) >= 300 and max(timeouts) <= 600 and len(timeouts) > len(log) // 3, "drawn, so that replicas spread"
        assert world.kubedns.log()[said:] == ""


def test_endpointslices_are_tried_again_every_five_minutes(tmp_path):
    """The right comes later, as a manifest that is applied at last: Endpoints are left behind, without a wrong answer in between."""
    legacy = {"namespaces": 5, "services": 20, "slices": 30, "legacy": True}
    with World(tmp_path, hurry=HURRY, population=legacy, before=lambda api: api.forbid("endpointslices")) as world:
        since = len(world.api.requests())
        world.asker.expected = {q: e for q, e in world.asker.expected.items() if "own" not in q[0] and "arpa" not in q[0]}
        world.asker.wires = {q: w for q, w in world.asker.wires.items() if q in world.asker.expected}
        with world.asker:
            time.sleep(7)
            tried = world.api.count(since, resource="endpointslices")
            print(f"tried {tried} times in {7 * HURRY / 60:.1f} minutes")
            assert 1 <= tried <= 4
            world.api.allow("endpointslices")
            world.api.wait_watching("endpointslices", timeout=10)
        world.asker.clean()
        key = world.population.slice_key(9)
        gone = world.population.make_slice(9) | {"endpoints": []}
        world.api.put(gone)
        question = (f"{world.population.service(9)}-0.{name(world.population.service(9), key[0])}", "A")
        world.until(question, "NXDOMAIN")
