"""
Differences between the API server and kubedns that no watch reports. The stand-in API server changes its data without an event, or sends
events that are wrong. The audit finds and corrects each difference, while a client queries all the time and loses nothing. With --audit=off
the difference stays.
"""

import contextlib
import json
import re
import subprocess

import pytest
from hurry import Clock
from kubedns_process import PROGRAM
from waiting import sanitized, wait_for
from api_world import NXDOMAIN, World, endpoint_slice, name, namespace, service

pytestmark = pytest.mark.spread

A = "A"
HURRY = 60  # speed of kubedns's clock: the audit starts after 30 s to 60 s, and sends at most one list a second
CLUSTER = {"namespaces": 5, "services": 50, "slices": 60}


@contextlib.contextmanager
def fast(tmp_path, *flags):
    """A small cluster. The test moves the clock of its kubedns."""
    clock = Clock(tmp_path)
    with clock.running(HURRY), World(tmp_path, *flags, hurry=HURRY, clock=clock, population=CLUSTER) as w:
        w.clock = clock
        yield w


@pytest.fixture
def world(tmp_path):
    with fast(tmp_path) as w:
        w.watching()
        yield w


def event(kind, obj):
    return json.dumps({"type": kind, "object": obj}) + "\n"


def missed_add(api):
    api.slip(service("late", "10.200.0.7", "own"))


def missed_delete(api):
    api.lose("services", "own", "deleted")


def missed_change(api):
    api.slip(service("changed", "10.200.0.99", "own"))


def stale_slice(api):
    api.slip(endpoint_slice("db", ["10.201.0.2", "10.201.0.3"], "own", hostnames=["db-1", "db-2"]))


def lost_slice(api):
    api.lose("endpointslices", "own", "gone-db-abc12")


def missed_namespace(api):
    api.slip(namespace("quiet"))
    api.slip(service("web", "10.200.0.8", "quiet"))


def lost_namespace(api):
    """The Namespace object and two of its Services. kubedns still answers for the other Services, because the API still has them."""
    api.lose("namespaces", None, "own")
    api.lose("services", "own", "deleted")
    api.lose("services", "own", "changed")


def wrong_namespace(api):
    """An object arrives in an event of another namespace than its own."""
    obj = service("stray", "10.200.0.9", "ns-00000")
    obj["metadata"]["resourceVersion"] = str(api.version())
    api.inject("services", event("ADDED", obj))


def deleted_by_mistake(api):
    """The API server says that an object is deleted, and still has it."""
    obj = api.get("services", "own", "changed")
    obj["metadata"]["resourceVersion"] = str(api.version())
    api.inject("services", event("DELETED", obj))


def invented(api):
    """An event brings content and a version that the API server does not have."""
    obj = service("changed", "10.200.0.66", "own")
    obj["metadata"]["resourceVersion"] = str(api.version())
    api.inject("services", event("MODIFIED", obj))


# What is done, the question, the answer before the audit has run, the right answer, the difference.
PLANTED = [
    (missed_add, (name("late"), A), NXDOMAIN, {"10.200.0.7"}, "missing"),
    (missed_delete, (name("deleted"), A), {"10.200.0.2"}, NXDOMAIN, "extra"),
    (missed_change, (name("changed"), A), {"10.200.0.3"}, {"10.200.0.99"}, "stale"),
    (stale_slice, ("db-2." + name("db"), A), NXDOMAIN, {"10.201.0.3"}, "stale"),
    (lost_slice, ("gone-db-0." + name("gone-db"), A), {"10.201.1.1"}, NXDOMAIN, "extra"),
    (missed_namespace, (name("web", "quiet"), A), NXDOMAIN, {"10.200.0.8"}, "missing"),
    (lost_namespace, (name("changed"), A), {"10.200.0.3"}, NXDOMAIN, "extra"),
    (wrong_namespace, (name("stray", "ns-00000"), A), {"10.200.0.9"}, NXDOMAIN, "extra"),
    (deleted_by_mistake, (name("changed"), A), NXDOMAIN, {"10.200.0.3"}, "missing"),
    (invented, (name("changed"), A), {"10.200.0.66"}, {"10.200.0.3"}, "stale"),
]
NAMES = [row[0].__name__ for row in PLANTED]


def differences(world):
    return {kind: world.kubedns.metric("kubedns_audit_differences_total", difference=kind) for kind in ("missing", "stale", "extra")}


def tell_the_versions(api):
    """Bookmarks, as an API server sends them every minute. The audit compares the data of the version that the watch has reached."""
    api.advance()
    for resource in ("services", "endpointslices", "namespaces"):
        api.bookmark(resource)


@pytest.mark.parametrize("plant, question, before, right, kind", PLANTED, ids=NAMES)
def test_a_difference_is_found_and_corrected(world, plant, question, before, right, kind):
    world.asker.may_change((name("db"), A), {"10.201.0.2", "10.201.0.3"})
    with world.asker:
        plant(world.api)
        tell_the_versions(world.api)
        begun = world.clock.seconds()
        # The answer alone is no proof: before kubedns has read the wrong event, it is right too.
        wait_for(lambda: differences(world)[kind] >= 1)
        world.until(question, right)
        took = world.clock.seconds() - begun
    print(f"right after {took:.0f} s of its time: {differences(world)}")
    assert re.search(r"audit: \w+ \S+ .*: corrected", world.kubedns.log())
    assert world.asker.answered > 100 and not world.asker.hurt


@pytest.mark.parametrize("plant, question, before, right, kind", PLANTED, ids=NAMES)
def test_without_the_audit_a_difference_stays(tmp_path, plant, question, before, right, kind):
    with fast(tmp_path, "--audit=off") as world:
        world.watching()
        lists = world.api.count(verb="list")
        plant(world.api)
        tell_the_versions(world.api)
        world.until(question, before)
        # as long as three rounds of the audit
        world.clock.pass_by(180, step_s=5)
        world.until(question, before)
        assert world.api.count(verb="list") == lists
        assert not any("kubedns_audit" in series for series in world.kubedns.metrics())


def rounds(world):
    return world.kubedns.metric("kubedns_audit_rounds_total")


def test_a_healthy_cluster_has_no_difference_while_it_changes(world):
    world.asker.may_change((name("kept"), A), {"10.200.0.1"})
    with world.asker:
        world.api.churn(200, 5, wait=False)
        wait_for(lambda: rounds(world) >= 5, what=lambda: world.kubedns.metrics())
        world.api.stop_churn()
    assert differences(world) == {"missing": 0, "stale": 0, "extra": 0}
    assert world.kubedns.metric("kubedns_audit_objects_total") > 5 * 50
    assert "audit:" not in world.kubedns.log()


def test_at_most_one_list_a_second(tmp_path):
    with fast(tmp_path) as world:
        wait_for(lambda: rounds(world) >= 1)
        begun = world.clock.seconds()
        first = world.kubedns.metric("kubedns_audit_lists_total")
        wait_for(lambda: rounds(world) >= 4)
        lists, seconds = world.kubedns.metric("kubedns_audit_lists_total") - first, world.clock.seconds() - begun
    print(f"{lists:.0f} lists in {seconds:.0f} s")
    assert 20 < lists <= seconds + 1


@pytest.mark.parametrize("status, result", [(410, "expired"), (429, "failed"), (500, "failed")])
def test_lists_that_fail_become_rare_and_are_reported_once(tmp_path, status, result):
    clock = Clock(tmp_path)
    with World(tmp_path, population=CLUSTER, clock=clock, wait=False) as world:
        with clock.running(1):
            world.kubedns.wait_ready()
            world.watching()
        world.api.fault(verb="list", status=status, reason="Expired" if status == 410 else "TooManyRequests", message="not now")
        # The seconds of the clock until each further list.
        took = [clock.run_until(lambda n=n: world.api.count(verb="list") > n, 300, 2) for n in range(5)]
        assert took[4] > 3 * took[1] / 2, took
        wait_for(lambda: world.kubedns.metric("kubedns_audit_lists_total", result=result) >= 5)
        assert world.kubedns.log().count("audit: requests for a list at an exact version fail") == 1
        world.until((name("kept"), A), {"10.200.0.1"})
        world.api.clear()
        clock.run_until(lambda: "audit: lists work again" in world.kubedns.log(), 300, 2)


def test_a_server_that_ignores_the_version_is_not_believed(world):
    """The list has another version than the one that was asked for, so its objects say nothing about the store."""
    body = {"kind": "NamespaceList", "apiVersion": "v1", "metadata": {"resourceVersion": "5"}, "items": []}
    world.api.fault(resource="namespaces", verb="list", body=json.dumps(body))
    world.api.fault(resource="services", verb="list", body=json.dumps({**body, "kind": "ServiceList"}))
    wait_for(lambda: world.kubedns.metric("kubedns_audit_lists_total", result="failed") >= 2)
    assert differences(world)["extra"] == 0
    world.until((name("kept"), A), {"10.200.0.1"})


@pytest.mark.parametrize("what", ["event", "bookmark"])
def test_versions_that_go_back_list_everything_again(world, what):
    """An event or a bookmark is older than what kubedns has. Names are served meanwhile."""
    old = service("kept", "10.200.0.66", "own")
    old["metadata"]["resourceVersion"] = "17"
    mark = {"kind": "Service", "apiVersion": "v1", "metadata": {"resourceVersion": "17"}}
    with world.asker:
        world.api.put(service("newer", "10.200.0.5", "own"))
        world.until((name("newer"), A), {"10.200.0.5"})
        world.api.inject("services", event("MODIFIED", old) if what == "event" else event("BOOKMARK", mark))
        for resource in ("services", "endpointslices", "namespaces"):
            wait_for(lambda: world.kubedns.metric("kubedns_api_relists_total", resource=resource, reason="went_back") == 1)
        world.watching()
        world.until((name("newer"), A), {"10.200.0.5"})
    assert "services: the API server sent version 17, which is older than an earlier one" in world.kubedns.log()
    assert not world.asker.hurt


def test_after_versions_went_back_equal_versions_prove_nothing(world):
    """A backup is restored, and the first write afterwards gets the version that another content had."""
    api = world.api
    api.set_too_large_wait(0.01)
    backup = api.snapshot()
    api.put(service("changed", "10.200.0.50", "own"))
    world.until((name("changed"), A), {"10.200.0.50"})
    api.put(service("newer", "10.200.0.5", "own"))
    world.until((name("newer"), A), {"10.200.0.5"})
    version = api.get("services", "own", "changed")["metadata"]["resourceVersion"]
    with world.asker:
        api.restore(backup)
        api.put(service("changed", "10.200.0.51", "own"))
        assert api.get("services", "own", "changed")["metadata"]["resourceVersion"] == version
        world.until((name("changed"), A), {"10.200.0.51"})
    assert not world.asker.hurt


@pytest.mark.parametrize("audit", ["on", "off"])
def test_a_backup_whose_versions_have_overtaken_kubedns(tmp_path, audit):
    """The API server is restored, and other writes raise its version above the version that kubedns has. No watch can notice that."""
    with fast(tmp_path, f"--audit={audit}") as world:
        world.watching()
        api = world.api
        backup = api.snapshot()
        api.put(service("changed", "10.200.0.50", "own"))
        world.until((name("changed"), A), {"10.200.0.50"})
        api.restore(backup, None)
        api.advance(100)
        api.drop_connections()
        world.watching()
        tell_the_versions(api)
        if audit == "on":
            world.until((name("changed"), A), {"10.200.0.3"})
        else:
            world.clock.pass_by(180, step_s=5)
            assert world.kubedns.ask(name("changed"), timeout=60) == {"10.200.0.50"}


def test_an_object_that_is_newer_here_lists_everything_again(world):
    """A backup was restored unnoticed. One object shows it, so equal versions prove nothing for the others: they may have other content."""
    api = world.api
    backup = api.snapshot()
    api.put(service("changed", "10.200.0.50", "own"))
    api.put(service("deleted", "10.200.0.60", "own"))
    world.until((name("deleted"), A), {"10.200.0.60"})
    api.restore(backup, None)
    api.slip(service("changed", "10.200.0.51", "own"))  # gets the version that the other content had
    api.advance(100)
    with world.asker:
        tell_the_versions(api)
        world.until((name("deleted"), A), {"10.200.0.2"})
        world.until((name("changed"), A), {"10.200.0.51"})
    assert "audit: an object here is newer than in the API" in world.kubedns.log()
    assert world.kubedns.metric("kubedns_api_relists_total", reason="went_back") == 3
    assert not [hurt for hurt in world.asker.hurt if hurt[2][0] not in (name("changed"), name("deleted"))]


def test_a_list_waits_as_long_as_the_server_demands(world):
    world.api.fault(verb="list", status=429, headers={"Retry-After": "120"}, times=2)
    wait_for(lambda: world.kubedns.metric("kubedns_audit_lists_total", result="compared") >= 1)
    first, second, third = [r["time"] for r in world.api.requests(verb="list")][:3]
    assert second - first > 110 / HURRY and third - second > 110 / HURRY


@pytest.mark.skipif(sanitized(), reason="a sanitizer changes the sizes")
@pytest.mark.parametrize("namespaces", [5, pytest.param(20, marks=pytest.mark.soak)])
def test_the_price_at_500_services_a_namespace(tmp_path, namespaces):
    """Requests, compared objects and memory of a round, compared with the memory before it. With 20 namespaces there are 10,000 Services."""
    cluster = {"namespaces": namespaces, "services": 500 * namespaces, "slices": 750 * namespaces}
    clock = Clock(tmp_path)
    with World(tmp_path, population=cluster, wait=False, clock=clock) as world:
        with clock.running(1):
            world.kubedns.wait_ready(60)
            world.watching()
        lists, begun, before = world.api.count(verb="list"), clock.seconds(), world.kubedns.memory()["VmRSS"]
        assert rounds(world) == 0
        with clock.running(20):
            wait_for(lambda: rounds(world) >= 1)
            # A round reads each object once: those of the population and OWN, in one list for each kind and namespace.
            assert world.kubedns.metric("kubedns_audit_objects_total") < 1.1 * sum(cluster.values())
            assert differences(world) == {"missing": 0, "stale": 0, "extra": 0}
            lists, seconds = world.api.count(verb="list") - lists, clock.seconds() - begun
            after = world.kubedns.memory()["VmRSS"]
    print(f"{lists} lists in {seconds:.0f} s, {before} kB before, {after} kB after")
    assert 0 < lists <= seconds + 1
    assert after - before < 4096 / 20 * namespaces


def test_not_with_the_node_role():
    said = subprocess.run([PROGRAM, "--node-role", "--audit=on", "--kubecfg-file=/nonexistent"], capture_output=True, text=True, timeout=10)
    assert said.returncode == 2 and '--audit: "on": cannot be used with --node-role' in said.stderr, said.stderr
