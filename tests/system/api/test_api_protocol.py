"""
Each test covers one rule of list and watch. The server breaks the rule, or refuses requests that break it. Broken connections and absent
servers are in test_api_outage.py, lasting faults in test_api_bounds.py.
"""

import datetime
import re
import time

import dns.message
import dns.rcode
import pytest
from api_world import NXDOMAIN, World, endpoint_slice, name, service

from dnsnet import Upstream, query, udp
from kubedns_process import PROGRAM
from hurry import Clock
from objects import config_map
from waiting import sanitized

PAGED = {"namespaces": 5, "services": 1200, "slices": 1300}


def services(world, since=0):
    return [r for r in world.api.requests(since) if r["resource"] == "services"]


def test_a_watch_list_comes_first(tmp_path):
    with World(tmp_path) as world:
        world.watching()
        (one,) = services(world)
        assert one["params"] | {"timeoutSeconds": ""} == {
            "watch": "1", "sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true",
            "resourceVersion": "", "timeoutSeconds": ""}  # fmt: skip
        assert one["user_agent"].startswith("kubedns/") and "(linux/" in one["user_agent"]
        assert not one["accept_encoding"], "libcurl fails at the second gzip member of a watch"


def test_without_watch_list_pages_of_500_and_a_watch(tmp_path):
    with World(tmp_path, population=PAGED, before=lambda api: api.set_watchlist(False)) as world:
        world.watching()
        first, *pages, watch = services(world)
        assert first["status"] == 422 and first["params"]["watch"] == "1"
        assert [p["params"]["limit"] for p in pages] == ["500"] * 3
        assert [bool(p["params"].get("continue")) for p in pages] == [False, True, True]
        assert all("gzip" in p["accept_encoding"] for p in pages)
        assert watch["params"]["watch"] == "1" and "sendInitialEvents" not in watch["params"]
        assert int(watch["params"]["resourceVersion"]) > 0 and not watch["accept_encoding"]
        assert "warning" not in world.kubedns.log(), "an older server is no reason for a warning"
        world.api.put(service("new", "10.200.0.4", "own"))
        world.until((name("new"), "A"), {"10.200.0.4"})


@pytest.mark.parametrize("skip", [0, 1, 2])
def test_a_page_that_breaks_off_is_asked_for_again(tmp_path, skip):
    """The page's metadata with the token for the next page has arrived, but most items of the page have not."""

    def before(api):
        api.set_watchlist(False)
        api.fault(resource="services", verb="list", skip=skip, times=1, cut_after=3000, cut="fin")

    with World(tmp_path, population=PAGED, before=before) as world:
        world.watching()
        tokens = [r["params"].get("continue") for r in services(world) if r["verb"] == "list"]
        assert len(tokens) == 4 and tokens[skip] == tokens[skip + 1] and len(set(tokens)) == 3
        assert world.kubedns.metric("kubedns_objects", kind="service") == len(world.api.names("services"))


def test_an_expired_continue_goes_on_with_the_rest(tmp_path):
    """The server compacts between two pages. kubedns does not start the list again, and still sees the changes in between."""

    def before(api):
        api.set_watchlist(False)
        api.fault(resource="services", verb="list", skip=1, times=1, delay_s=1)

    with World(tmp_path, population=PAGED, before=before, wait=False) as world:
        world.api.wait_requests(3, 10, resource="services")
        world.api.delete("services", "ns-00000", "web-00000")  # an object of the first page
        world.api.compact()
        world.kubedns.wait_ready()
        pages = [r for r in services(world) if r["verb"] == "list"]
        assert [p["status"] for p in pages][:4] == [200, 200, 410, 200]
        assert [bool(p["params"].get("continue")) for p in pages][:4] == [False, True, True, True], "kubedns starts the list only once"
        world.until((name("web-00000", "ns-00000"), "A"), NXDOMAIN)


def test_no_end_mark_for_a_minute_leads_to_a_list(tmp_path):
    """The server ignores sendInitialEvents."""
    before = lambda api: api.fault(verb="watchlist", no_end_bookmark=True)  # noqa: E731
    with World(tmp_path, before=before, hurry=50, wait=False) as world:
        world.kubedns.wait_ready(60)
        world.kubedns.wait(lambda: any(r["verb"] == "watch" for r in services(world)))
        # At the same moment another resource's WatchList ends too. If this also ends the connection, kubedns probes the server first
        # (limit=1).
        listed = [r for r in services(world) if r["params"].get("limit") != "1"]
        assert [r["verb"] for r in listed][:3] == ["watchlist", "list", "watch"]


def test_a_watch_list_that_breaks_twice_leads_to_a_list(tmp_path):
    before = lambda api: api.fault(verb="watchlist", resource="services", cut_after=5000, cut="fin")  # noqa: E731
    with World(tmp_path, before=before) as world:
        world.watching()
        assert [r["verb"] for r in services(world)] == ["watchlist", "watchlist", "list", "watch"]


def test_watch_list_removes_vanished_objects_only_after_the_end_bookmark(tmp_path):
    """A complete list removes the names of all objects that it does not contain (mark and sweep in place). An incomplete list removes no name."""
    with World(tmp_path) as world:
        world.watching()
        world.api.set_watchlist(True)
        broken = world.api.fault(verb="watchlist", resource="services", cut_after=3000, times=1)
        with world.asker:
            world.api.inject_error("services", 410, "Expired")
            world.api.delete("services", "own", "deleted")
            world.until((name("deleted"), "A"), NXDOMAIN)
            assert world.api.met(broken) == 1
        world.asker.clean()


def test_429_waits_for_retry_after_and_asks_the_same(tmp_path):
    with World(tmp_path) as world:
        world.watching()
        since = len(world.api.requests())
        world.api.fault(resource="services", verb="watch", status=429, headers={"Retry-After": "2"}, times=1)
        world.api.end_watches("services")
        world.api.wait_requests(2, 10, since=since, resource="services", verb="watch")
        one, two = services(world, since)
        assert one["status"] == 429 and 1.9 <= two["time"] - one["time"] <= 3.5
        assert one["params"]["resourceVersion"] == two["params"]["resourceVersion"]


def test_the_resume_version_is_the_bookmarks_too(tmp_path):
    with World(tmp_path) as world:
        world.watching()
        since = len(world.api.requests())
        world.api.advance(100)
        world.api.bookmark("services")
        world.kubedns.wait(lambda: world.kubedns.metric("kubedns_api_watch_events_total", resource="services", type="BOOKMARK") == 2)
        world.api.end_watches("services")
        (again,) = world.api.wait_requests(1, 10, since=since, resource="services")
        assert again["params"]["resourceVersion"] == str(world.api.version())


def test_a_watch_that_outlives_its_timeout_is_ended(tmp_path):
    clock = Clock(tmp_path)
    with World(tmp_path, "--audit=off", hurry=1, clock=clock, wait=False, before=lambda api: api.fault(overstay=True)) as world:
        clock.run_until(lambda: len(services(world)) == 1, 60)
        world.watching()
        allowed = int(services(world)[0]["params"]["timeoutSeconds"])
        begun = clock.seconds()
        clock.run_until(lambda: clock.seconds() - begun > allowed, allowed + 10, 5)
        assert len(services(world)) == 1
        clock.run_until(lambda: len(services(world)) > 1, 40, what="the end of the watch, after thirty seconds more")


@pytest.mark.parametrize("verb", ["list", "watchlist"])
def test_items_count_while_their_page_is_still_arriving(tmp_path, verb):
    """kubedns processes each item as it arrives and never holds a whole page."""

    def before(api):
        api.set_watchlist(verb == "watchlist")
        api.fault(resource="services", verb=verb, rate=500 if verb == "list" else 5000)  # a list is compressed with gzip

    def so_far(world):
        found = re.search(r"^services: listing, (\d+) objects so far", world.kubedns.http("/readiness")[1], re.M)
        return int(found[1]) if found else 0

    with World(tmp_path, before=before, wait=False) as world:
        some = world.kubedns.wait(lambda: so_far(world), 30)
        more = world.kubedns.wait(lambda: (n := so_far(world)) > some and n, 30)
        (page,) = [r for r in services(world) if r["verb"] == verb]
        assert some < more < world.population.services and page["ended"] is None


@pytest.mark.parametrize(
    "spec",
    ['{"type":' + "[" * 100 + "]" * 100 + "}", '{"externalName":' + '{"a":' * 100 + "1" + "}" * 100 + "}", '{"externalName":"\xff\xfe"}'],
    ids=["arrays", "objects", "not UTF-8"],
)
def test_what_json_c_must_not_be_given_is_an_error_and_the_data_stays(tmp_path, spec):
    """The event is nested deeper than any real object, or it is not UTF-8. kubedns starts the watch again from the last good version."""
    with World(tmp_path, hurry=20) as world:
        world.watching()
        since = len(world.api.requests())
        event = '{"type":"MODIFIED","object":{"kind":"Service","metadata":{"name":"kept","namespace":"own","resourceVersion":"9"},"spec":%s}}\n'
        with world.asker:
            assert world.api.inject("services", event % spec, "latin-1") == 1
            world.kubedns.wait(lambda: "services: watch: malformed answer" in world.kubedns.log())
            world.watching("services")
            world.api.put(service("new", "10.200.0.4", "own"))
            world.until((name("new"), "A"), {"10.200.0.4"})
        world.asker.clean()
        assert world.api.count(since, resource="services", verb="watchlist") == 0


@pytest.mark.parametrize("verb", ["list", "watchlist"])
def test_null_items_are_an_empty_list(tmp_path, verb):
    def before(api):
        api.set_watchlist(verb == "watchlist")
        api.fault(resource="endpointslices", verb="list", items="null")

    with World(tmp_path, before=before) as world:
        world.until((name("kept"), "A"), {"10.200.0.1"})


def test_an_object_over_8_mib_is_an_error_not_a_crash(tmp_path):
    """The other objects stay and get updates. When the large object is deleted, all answers are right again."""
    with World(tmp_path) as world:
        world.watching()
        big = service("big", "10.200.0.9", "own")
        big["metadata"]["managedFields"] = [{"manager": "m", "fieldsV1": {"f": "x" * (9 << 20)}}]
        with world.asker:
            world.api.put(big)
            world.kubedns.wait(lambda: "larger than 8 MiB" in world.kubedns.log())
            # Each attempt starts with a probe, which succeeds. That must not end the problem.
            world.kubedns.wait(lambda: sum(r["verb"] == "list" for r in world.api.requests()) >= 3, 30)
            for _ in range(20):
                assert world.kubedns.metric("kubedns_api_failing", resource="services") == 1
            assert "works again" not in world.kubedns.log()
            world.api.put(endpoint_slice("db", ["10.201.0.1", "10.201.0.2"], "own", suffix="more", hostnames=["x", "y"]))
            world.api.delete("services", "own", "big")
            world.api.compact()
            world.api.put(service("new", "10.200.0.4", "own"))
            world.until((name("new"), "A"), {"10.200.0.4"}, 20)
            world.kubedns.wait(lambda: world.kubedns.metric("kubedns_api_failing", resource="services") == 0)
        assert "works again" in world.kubedns.log()
        world.asker.clean()
        assert "asan" in PROGRAM or world.kubedns.memory()["VmHWM"] < 60000, "kubedns must not hold the object twice"


def test_object_fields_that_dns_does_not_need_take_no_memory(tmp_path):
    """kubedns skips a megabyte of managedFields and annotations without storing it."""
    with World(tmp_path) as world:
        world.watching()
        before = world.kubedns.memory()["RssAnon"]
        for i in range(30):
            fat = service(f"fat-{i}", f"10.200.1.{i}", "own")
            fat["metadata"]["annotations"] = {f"a{n}": "{\"\\" * 10000 for n in range(30)}
            fat["metadata"]["managedFields"] = [{"fieldsV1": {f"k:{{\"n\":{n}}}": {} for n in range(10000)}}]
            world.api.put(fat)
        world.until((name("fat-29"), "A"), {"10.200.1.29"})
        grown = world.kubedns.memory()["RssAnon"] - before
        print(f"30 objects of a megabyte: {grown} kB")
        assert sanitized() or grown < 5000  # a sanitizer does not return freed memory


def test_one_namespace_is_asked_for_alone(tmp_path):
    with World(tmp_path, "--namespaces=own") as world:
        world.watching()
        log = world.api.requests()
        assert {r["namespace"] for r in log if r["resource"] != "namespaces"} == {"own"}
        assert [r["params"]["fieldSelector"] for r in log if r["resource"] == "namespaces"] == ["metadata.name=own"]
        world.until((name("kept"), "A"), {"10.200.0.1"})
        assert world.kubedns.ask(name("web-00000", "ns-00000")) == NXDOMAIN


def test_of_several_namespaces_the_others_are_left_out(tmp_path):
    with World(tmp_path, "--namespaces=own,ns-00001") as world:
        world.until((name("kept"), "A"), {"10.200.0.1"})
        world.until((name("web-00001", "ns-00001"), "A"), {world.population.cluster_ip(1)})
        assert world.kubedns.ask(name("web-00000", "ns-00000")) == NXDOMAIN


def test_the_selector_of_endpointslices_is_passed_on(tmp_path):
    with World(tmp_path, "--endpointslice-selector=service.kubernetes.io/headless=,x!=y") as world:
        world.watching()
        asked = {r["params"].get("labelSelector") for r in world.api.requests() if r["resource"] == "endpointslices"}
        assert asked == {"service.kubernetes.io/headless=,x!=y"}
        world.api.put(endpoint_slice("db", ["10.201.0.7"], "own", "z", ["db-7"], labels={"service.kubernetes.io/headless": ""}))
        world.until((f"db-7.{name('db')}", "A"), {"10.201.0.7"})
        assert world.kubedns.ask(f"db-0.{name('db')}") == NXDOMAIN, "the Service's slice does not have this label"


def test_one_config_map_is_watched_never_its_namespace(tmp_path):
    def before(api):
        api.put(config_map("kube-dns", {"upstreamNameservers": '["192.0.2.1"]'}))
        api.put(config_map("other", {"upstreamNameservers": '["192.0.2.9"]'}))

    with World(tmp_path, "--config-map=kube-dns", before=before) as world:
        world.watching("configmaps")
        (asked,) = [r for r in world.api.requests() if r["resource"] == "configmaps"]
        assert asked["params"]["fieldSelector"] == "metadata.name=kube-dns" and asked["namespace"] == "kube-system"
        world.kubedns.wait(lambda: "192.0.2.1" in world.kubedns.log())
        assert "192.0.2.9" not in world.kubedns.log()


@pytest.mark.parametrize("front", [False, True], ids=["classic or stand-alone", "front"])
def test_no_upstream_server_is_asked_before_the_config_map_is_read(tmp_path, front):
    """The ConfigMap may ask for TLS. It may also not exist: an empty list ends the wait too."""

    def with_servfail(request):
        reply = dns.message.make_response(request)
        reply.set_rcode(dns.rcode.SERVFAIL)
        return reply

    with Upstream() as upstream, Upstream(lambda request, _tcp: with_servfail(request)) as engine:
        flags = ["--config-map=kube-dns", f"--nameservers={upstream.address}", *([f"--resolver={engine.address}"] if front else [])]
        with World(tmp_path, *flags, before=lambda api: api.forbid("configmaps")) as world:
            reply = udp(world.kubedns, query("www.example.com", use_edns=0))
            assert reply.rcode() == dns.rcode.SERVFAIL and upstream.asked == []
            assert len(engine.asked) == front
            if not front:
                assert "kubedns has not read its ConfigMap yet" in reply.to_text(), reply
                assert "kubedns has not read its ConfigMap yet" in world.kubedns.http("/explain?name=www.example.com")[1]
            world.api.allow("configmaps")
            world.kubedns.wait(lambda: udp(world.kubedns, query("www.example.com")).rcode() == dns.rcode.NOERROR)
            assert len(upstream.asked) == 1


def test_pods_are_watched_to_verify_them(tmp_path):
    pod = {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "p", "namespace": "own"},
           "status": {"phase": "Running", "podIP": "10.2.0.1", "podIPs": [{"ip": "10.2.0.1"}, {"ip": "2001:db8::1"}]}}  # fmt: skip
    with World(tmp_path, "--pods=verified") as world:
        world.watching("pods")
        at = "10-2-0-1.own.pod.cluster.local"
        assert world.kubedns.ask(at) == NXDOMAIN
        world.api.put(pod)
        world.until((at, "A"), {"10.2.0.1"})
        world.until(("2001-db8--1.own.pod.cluster.local", "AAAA"), {"2001:db8::1"})
        world.api.delete("pods", "own", "p")
        world.until((at, "A"), NXDOMAIN)


def test_nodes_are_watched_for_federations_alone(tmp_path):
    node = {"kind": "Node", "apiVersion": "v1",
            "metadata": {"name": "n1", "labels": {"topology.kubernetes.io/zone": "z1", "topology.kubernetes.io/region": "r1"}}}  # fmt: skip
    with World(tmp_path, "--federations=myfed=fed.example", before=lambda api: api.put(node)) as world:
        world.watching("nodes")
        world.until(("nothing.own.myfed.svc.cluster.local", "CNAME"), {"nothing.own.myfed.svc.z1.r1.fed.example."})


def triggered(service_name, address, seconds_ago):
    """Returns a slice with the controller's timestamp of the change that caused it. The timestamp is `seconds_ago`."""
    slice_ = endpoint_slice(service_name, [address], "own", hostnames=["x"])
    at = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(seconds=seconds_ago)
    slice_["metadata"]["annotations"] = {"endpoints.kubernetes.io/last-change-trigger-time": at.isoformat(timespec="microseconds").replace("+00:00", "Z")}
    return slice_


def test_programming_latency_is_from_the_trigger_to_the_publish(tmp_path):
    """
    The histogram counts changes after the first sync, by the kind of the Service. If the slice comes before its Service, its timestamp is
    kept until then.
    """
    family = "kubedns_dns_programming_duration_seconds"
    with World(tmp_path, before=lambda api: api.put(triggered("db", "10.201.0.1", 3000))) as world:
        world.watching()

        def observed(kind):
            return world.kubedns.metric(f"{family}_count", service_kind=kind), world.kubedns.metric(f"{family}_sum", service_kind=kind)

        assert observed("headless") == (0, 0), "objects of the first sync do not count as changes"
        world.api.put(triggered("db", "10.201.0.9", 5))
        world.until((name("db"), "A"), {"10.201.0.9"})
        count, total = observed("headless")
        assert count == 1 and 5 <= total < 20
        world.api.put(triggered("later", "10.201.0.8", 7))
        world.kubedns.wait(lambda: world.kubedns.metric("kubedns_api_watch_events_total", resource="endpointslices", type="ADDED") >= 152)
        assert observed("headless")[0] == 1 and observed("cluster_ip")[0] == 0
        world.api.put(service("later", "10.200.0.8", "own"))
        world.until((name("later"), "A"), {"10.200.0.8"})
        count, total = observed("cluster_ip")
        assert count == 1 and 7 <= total < 30


def test_every_family_of_the_client_is_there_from_the_start(tmp_path):
    with World(tmp_path, wait=False, before=lambda api: api.stop()) as world:
        world.kubedns.wait(lambda: world.kubedns.http("/metrics")[0] == 200)
        series = world.kubedns.metrics()
        for family in ("kubedns_api_requests_total", "kubedns_api_watch_events_total", "kubedns_api_relists_total",
                       "kubedns_api_last_event_timestamp_seconds", "kubedns_api_synced", "kubedns_objects",
                       "kubedns_api_received_bytes_total", "kubedns_dns_programming_duration_seconds"):  # fmt: skip
            assert any(s.startswith(family) for s in series), family
        world.api.start()
        world.kubedns.wait_ready()
        world.watching()
        metric, begun = world.kubedns.metric, time.time()
        assert metric("kubedns_api_requests_total", resource="services", verb="watch", code="200") == 1
        assert metric("kubedns_api_requests_total", resource="services", verb="watch", code="none") >= 1
        assert metric("kubedns_api_watch_events_total", resource="services", type="ADDED") == world.population.services + 5
        assert metric("kubedns_api_relists_total", resource="services", reason="start") == 1
        assert metric("kubedns_api_synced", resource="services") == 1
        assert abs(metric("kubedns_api_last_event_timestamp_seconds", resource="services") - begun) < 60
        assert metric("kubedns_api_received_bytes_total") >= sum(r["bytes"] for r in world.api.requests())
