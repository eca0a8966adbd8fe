"""
From an event's bytes on the connection to the changed answer, kubedns waits for nothing. The bench measures how long this takes.
"""

import pytest
from api_world import ApiProcess, World
from hurry import Clock
from waiting import wait_for

POPULATION = {"namespaces": 50, "services": 500, "slices": 750}


def is_answered(world, change):
    name = f"{change['hostname']}.{change['service']}.{change['namespace']}.svc.cluster.local"
    wanted = frozenset({change["added"]}) if "added" in change else "NXDOMAIN"
    return world.kubedns.ask(name, timeout=10) == wanted


@pytest.mark.parametrize("rate", [10, 100])
def test_event_to_answer(tmp_path, rate):
    """Headless endpoints come and go at this rate, while other names are queried. The clock of kubedns stands still."""
    clock, shown = Clock(tmp_path), 0
    with clock.running(1):
        world = World(tmp_path, api=ApiProcess, population=POPULATION, clock=clock)
    with world:
        world.watching()
        world.asker.expected = {q: e for q, e in world.asker.expected.items() if not q[0].startswith("db-")}
        world.asker.wires = {q: w for q, w in world.asker.wires.items() if q in world.asker.expected}
        with world.asker:
            world.api.churn(rate, 3, headless_only=True, wait=False)
            for seen in range(1, rate * 3 + 1):
                c = wait_for(lambda n=seen: next((c for c in world.api.changes(n - 1)[:1] if c["written_ns"]), None))

                def replaced(c=c, n=seen):
                    """Whether a later change of the same slice may have replaced this one."""
                    return c["slice"] in {later["slice"] for later in world.api.changes(n)}

                wait_for(lambda c=c: replaced() or is_answered(world, c), what=c)
                shown += not replaced()
        world.asker.clean()
        assert shown > rate / 2  # on a busy machine, many changes are replaced before the test reads them
