"""
The time from an event's bytes on the connection to the changed answer, while queries arrive continuously. The bench measures this time,
and this test enforces a limit.
"""

import time

import pytest
from api_world import ApiProcess, World

POPULATION = {"namespaces": 50, "services": 500, "slices": 750}


def answered(world, change, by):
    """
    Queries the endpoint's own name until the answer shows the change. Returns the time (ns) of that query, or None if no answer showed the
    change in time.
    """
    name = f"{change['hostname']}.{change['service']}.{change['namespace']}.svc.cluster.local"
    wanted = frozenset({change["added"]}) if "added" in change else "NXDOMAIN"
    while (now := time.monotonic_ns()) < by:
        if world.kubedns.ask(name, timeout=0.5) == wanted:
            return now  # the time when this reply arrived
    return None


@pytest.mark.quiet
@pytest.mark.parametrize("rate", [10, 100])
def test_event_to_answer(tmp_path, rate):
    """The queries begin as soon as the test learns of a change. The measured time is exact to the duration of a query, a few tenths of a millisecond."""
    with World(tmp_path, api=ApiProcess, population=POPULATION) as world:
        world.watching()
        world.asker.expected = {q: e for q, e in world.asker.expected.items() if not q[0].startswith("db-")}
        world.asker.wires = {q: w for q, w in world.asker.wires.items() if q in world.asker.expected}
        seen, took = 0, []
        with world.asker:
            world.api.churn(rate, 3, headless_only=True, wait=False)
            while seen < rate * 3:
                changes = [c for c in world.api.changes(seen) if c["written_ns"]]
                if not changes:
                    continue
                seen += 1
                c = changes[0]
                if c["slice"] in {later["slice"] for later in changes[1:]}:
                    continue  # a later change of the same slice may have replaced this one
                at = answered(world, c, c["written_ns"] + 2_000_000_000)
                assert at, f"{c} did not show in two seconds"
                took.append((at - c["written_ns"]) / 1e6)
        world.asker.clean()
        took.sort()
        print(f"{rate} a second: {len(took)} changes, p50 {took[len(took) // 2]:.2f} ms, p99 {took[len(took) * 99 // 100]:.2f} ms, max {took[-1]:.2f} ms")
        assert len(took) > rate * 2
