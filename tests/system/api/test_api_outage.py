"""
The API server goes down and comes back in every possible way. Meanwhile queries arrive: no query may be lost, get SERVFAIL or a wrong
answer. Changes made during the outage show within seconds, and kubedns needs only few requests for that.
"""

import contextlib
import statistics
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from api_world import NXDOMAIN, World, endpoint_slice, name, service
from hurry import Clock

pytestmark = pytest.mark.spread

A = "A"
HURRY = 30  # speed of kubedns's clock in tests that do not measure time


@pytest.fixture
def world(tmp_path):
    with World(tmp_path) as w:
        w.watching()
        yield w


@contextlib.contextmanager
def fast(tmp_path, **options):
    clock = Clock(tmp_path)
    with clock.running(HURRY), World(tmp_path, hurry=HURRY, clock=clock, **options) as w:
        yield w


@pytest.fixture
def hurried(tmp_path):
    with fast(tmp_path) as w:
        w.watching()
        yield w


def change_behind_its_back(api):
    """The changes in the cluster while no client watches: deleted, changed and added objects."""
    api.delete("services", "own", "deleted")
    api.delete("services", "own", "gone-db")
    api.delete("endpointslices", "own", "gone-db-abc12")
    api.put(service("changed", "10.200.0.99", "own"))
    api.put(service("new", "10.200.0.4", "own"))
    api.put(endpoint_slice("db", ["10.201.0.2", "10.201.0.3"], "own", hostnames=["db-1", "db-2"]))


def expect_change(world):
    world.asker.may_change((name("db"), A), {"10.201.0.2", "10.201.0.3"})


def see_change(world):
    """Waits until every change shows, including the deletions. Prints the time that the slowest change took."""
    begun = time.monotonic()
    for question, wanted in (
        ((name("new"), A), {"10.200.0.4"}),
        ((name("changed"), A), {"10.200.0.99"}),
        ((name("deleted"), A), NXDOMAIN),
        ((name("gone-db"), A), NXDOMAIN),
        (("gone-db-0." + name("gone-db"), A), NXDOMAIN),
        (("2.0.200.10.in-addr.arpa", "PTR"), NXDOMAIN),
        ((name("db"), A), {"10.201.0.2", "10.201.0.3"}),
        (("db-0." + name("db"), A), NXDOMAIN),
    ):
        world.until(question, wanted)
    took = time.monotonic() - begun
    print(f"right {took:.2f} s after the API server was back")
    return took


def bounded(world, since, each=12):
    """Checks that no resource had more requests than `each`. An outage of seconds does not justify more."""
    counts = world.requests_of_each(since)
    assert all(n <= each for n in counts.values()), counts


def test_away_and_back_with_objects_deleted_meanwhile(world):
    """Runs in real time, as an operator sees it."""
    away_and_back(world, "rst")


def minute_away(directory):
    with World(directory, rate=100) as world:
        world.watching()
        return away_and_back(world, "rst", 60)


@pytest.mark.soak
def test_away_for_a_minute_and_back(tmp_path):
    """Runs in real time, with ten kubedns at once because the backoff is random. The answers are right within seconds."""
    places = [tmp_path / str(n) for n in range(10)]
    for place in places:
        place.mkdir()
    with ThreadPoolExecutor(len(places)) as pool:
        took = sorted(pool.map(minute_away, places))
    print(f"a minute away: right after {statistics.median(took):.1f} s (median of {len(took)}), {took[-1]:.1f} s at worst: {[round(t, 1) for t in took]}")


@pytest.mark.parametrize("how", ["fin", "close"])
def test_however_the_connections_end(tmp_path, how):
    with fast(tmp_path) as world:
        world.watching()
        away_and_back(world, how, 0.5)


def away_and_back(world, how, seconds=2):
    since = len(world.api.requests())
    with world.asker:
        world.api.stop(how)
        change_behind_its_back(world.api)
        expect_change(world)
        time.sleep(seconds)
        assert world.kubedns.ready(), "kubedns serves existing data and stays ready"
        world.api.restart()
        took = see_change(world)
    world.asker.clean()
    bounded(world, since)
    return took


def test_back_and_able_to_resume(world):
    """Only the connection breaks. Each watch continues from its last version, and kubedns lists nothing again."""
    since = len(world.api.requests())
    with world.asker:
        world.api.drop_connections()
        change_behind_its_back(world.api)
        expect_change(world)
        see_change(world)
    world.asker.clean()
    again = [r for r in world.api.requests(since) if r["verb"] == "watchlist" or r["verb"] == "list" and r["params"].get("limit") != "1"]
    assert again == []
    bounded(world, since)


def test_back_as_an_older_state(world):
    """etcd is restored from a backup: versions go back, and objects added since are missing."""
    older = world.api.snapshot()
    change_behind_its_back(world.api)
    world.until((name("new"), A), {"10.200.0.4"})
    world.asker.must_be((name("db"), A), {"10.201.0.2", "10.201.0.3"}, {"10.201.0.1", "10.201.0.2"})
    world.api.set_too_large_wait(0.5)
    since = len(world.api.requests())
    with world.asker:
        world.api.restore(older)
        begun = time.monotonic()
        world.until((name("new"), A), NXDOMAIN)
        for question, wanted in (((name("deleted"), A), {"10.200.0.2"}), ((name("changed"), A), {"10.200.0.3"}),
                                 ((name("db"), A), {"10.201.0.1", "10.201.0.2"})):  # fmt: skip
            world.until(question, wanted)
        print(f"the older state after {time.monotonic() - begun:.2f} s")
        world.api.put(service("later", "10.200.0.5", "own"))
        world.until((name("later"), A), {"10.200.0.5"})
    world.asker.clean()
    bounded(world, since)


def test_back_as_an_older_state_while_one_resource_waits_for_its_turn(hurried):
    """
    Found by the chaos test. The resource was in backoff when the connection broke. It then watched from a version that the restored
    server had not reached yet, and got no more events.
    """
    api = hurried.api
    older = api.snapshot()
    api.put(endpoint_slice("db", ["10.201.0.7"], "own"))
    hurried.until((name("db"), A), {"10.201.0.7"})
    api.set_too_large_wait(0)
    api.fault(resource="endpointslices", verb="watch", status=429, headers={"Retry-After": "30"})
    api.end_watches("endpointslices")
    api.wait_requests(1, resource="endpointslices", status=429)
    hurried.asker.must_be((name("db"), A), {"10.201.0.7"}, {"10.201.0.1", "10.201.0.2"})
    with hurried.asker:
        api.restore(older)
        api.clear()
        hurried.until((name("db"), A), {"10.201.0.1", "10.201.0.2"})
    hurried.asker.clean()


@pytest.mark.parametrize("http2", [True, False])
def test_back_as_an_older_state_while_a_watch_is_asked_for(tmp_path, http2):
    """Found by the chaos test. libcurl retried the watch on a new connection. So the watch and the probe before it reached different servers."""
    with fast(tmp_path, http2=http2) as world:
        api = world.api
        world.watching()
        older = api.snapshot()
        api.put(service("new", "10.200.0.4", "own"))
        world.until((name("new"), A), {"10.200.0.4"})
        api.set_too_large_wait(0)
        api.fault(resource="services", verb="watch", hang=True, times=1)
        since = len(api.requests())
        api.end_watches("services")
        api.wait_requests(1, since=since, resource="services", verb="watch")
        with world.asker:
            api.restore(older)
            world.until((name("new"), A), NXDOMAIN)
        world.asker.clean()


def test_back_after_a_compaction(hurried):
    world = hurried
    since = len(world.api.requests())
    with world.asker:
        world.api.stop()
        change_behind_its_back(world.api)
        expect_change(world)
        world.api.compact()
        time.sleep(1)
        world.api.start()
        see_change(world)
    world.asker.clean()
    bounded(world, since)
    errors = [r for r in world.api.requests(since) if r["verb"] == "watch" and r.get("expired")]
    assert errors, "no watch met the expired version: the scenario did not happen"


def test_compacted_while_watching(world):
    """Open watches get an ERROR event with code 410. kubedns lists each resource once more and notices all deletions in between."""
    since = len(world.api.requests())
    with world.asker:
        for resource in ("services", "endpointslices", "namespaces"):
            assert world.api.inject_error(resource) == 1
        change_behind_its_back(world.api)
        expect_change(world)
        see_change(world)
    world.asker.clean()
    bounded(world, since, 4)


def test_replaced_by_one_with_another_certificate_of_the_same_authority(hurried):
    world = hurried
    since = len(world.api.requests())
    with world.asker:
        world.api.stop()
        world.api.new_certificate("same")
        change_behind_its_back(world.api)
        expect_change(world)
        world.api.restart()
        see_change(world)
    world.asker.clean()
    bounded(world, since)


def test_a_server_with_a_certificate_of_another_ca_gets_no_token(hurried):
    """kubedns sends no token to this server, keeps its data and retries slowly."""
    world = hurried
    since = len(world.api.requests())
    with world.asker:
        world.api.stop()
        world.api.new_certificate("other")
        change_behind_its_back(world.api)
        world.api.start()
        time.sleep(1)  # half a minute of kubedns's clock
        assert world.api.requests(since) == []
        assert world.kubedns.ask(name("deleted")) == {"10.200.0.2"}
        assert "certificate" in world.kubedns.log().lower()
    world.asker.clean()


def test_stopped_in_order(hurried):
    """The server stops as kube-apiserver does at SIGTERM: it sends GOAWAY and closes its port. Its watches are silent for a while and then end."""
    world = hurried
    since = len(world.api.requests())
    with world.asker:
        world.api.stop_orderly(linger_s=1.5)
        change_behind_its_back(world.api)
        expect_change(world)
        world.api.restart()
        see_change(world)
    world.asker.clean()
    bounded(world, since)


def test_a_goaway_moves_to_a_new_connection_without_a_list(world):
    since = len(world.api.requests())
    with world.asker:
        world.api.goaway()
        change_behind_its_back(world.api)  # the open streams still deliver these changes
        expect_change(world)
        see_change(world)
        for resource in ("services", "endpointslices", "namespaces"):  # a stopping server may send nothing on its streams for a minute
            world.api.wait_requests(1, 60, since=since, resource=resource, verb="watch")
        world.api.end_watches()
        world.watching()
        world.api.put(service("new", "10.200.0.44", "own"))
        world.until((name("new"), A), {"10.200.0.44"})
    world.asker.clean()
    again = [r for r in world.api.requests(since) if r["verb"] == "watchlist" or r["verb"] == "list" and r["params"].get("limit") != "1"]
    assert again == []


def test_refusing_everything_while_it_starts(hurried):
    """After a restart kube-apiserver answers 403 (RBAC is not loaded), then 500, then normally. A 403 at that time is temporary."""
    world = hurried
    since = len(world.api.requests())
    with world.asker:
        world.api.stop()
        change_behind_its_back(world.api)
        expect_change(world)
        world.api.set_phase("forbidden")
        world.api.restart()
        world.api.wait_requests(2, since=since, status=403, timeout=60)
        world.api.set_phase("failing")
        world.api.wait_requests(1, since=since, status=500, timeout=60)
        world.api.set_phase("ready")
        see_change(world)
    world.asker.clean()
    bounded(world, since, 20)


def test_over_http_1_1(tmp_path):
    with fast(tmp_path, http2=False) as world:
        world.watching()
        with world.asker:
            world.api.stop("fin")
            change_behind_its_back(world.api)
            expect_change(world)
            world.api.restart()
            see_change(world)
        world.asker.clean()
        assert {r["http"] for r in world.api.requests()} == {"1.1"}


def test_a_token_that_is_replaced(tmp_path):
    """The old token gets 401. kubedns immediately reads the file again and repeats the same requests."""
    with fast(tmp_path, kubeconfig={"user": "token-file"}) as world:
        world.watching()
        old, new = world.api.address()["token"], world.api.add_token()
        with world.asker:
            world.api.replace(str(world.config) + ".token", new)
            world.api.revoke_token(old)
            since = len(world.api.requests())
            world.api.drop_connections()
            change_behind_its_back(world.api)
            expect_change(world)
            see_change(world)
        world.asker.clean()
        bounded(world, since)


def test_unauthorized_until_the_token_is_replaced(tmp_path):
    """The token is revoked before its file is replaced. kubedns keeps its data and sends few requests until the new file is there."""
    with fast(tmp_path, kubeconfig={"user": "token-file"}) as world:
        world.watching()
        since = len(world.api.requests())
        with world.asker:
            world.api.revoke_token()
            world.api.drop_connections()
            change_behind_its_back(world.api)
            world.api.wait_requests(3, since=since, status=401)
            assert world.kubedns.ask(name("deleted")) == {"10.200.0.2"}
            expect_change(world)
            world.api.replace(str(world.config) + ".token", world.api.add_token())
            see_change(world)
        world.asker.clean()
        bounded(world, since, 15)


def test_frozen_without_a_word(world):
    """The server's process hangs, but its kernel still acknowledges. No events arrive, nothing reports the failure, and kubedns serves its data."""
    with world.asker:
        world.api.freeze()
        change_behind_its_back(world.api)
        expect_change(world)
        time.sleep(2)
        world.api.thaw()
        see_change(world)
    world.asker.clean()
