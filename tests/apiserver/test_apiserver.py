"""Tests of the stand-in, with curl as the client. They check the statements of its README."""

import gzip
import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))
from apiserver import ApiProcess, ApiServer  # noqa: E402
from apiserver.population import Population, write_manifests  # noqa: E402

SERVICES, SLICES = "/api/v1/services", "/apis/discovery.k8s.io/v1/endpointslices"
WATCHLIST = "?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
SHORT = ["--max-time", "0.3"]  # seconds, for a watch of which the test needs only the beginning


class Curl:
    """curl as a client of one stand-in. `http` is its flag for the protocol."""

    def __init__(self, api, http="--http1.1", *more):
        self.api = api
        self.args = ["curl", "-sN", "-A", "tester/1", http, "--max-time", "60", *more]

    def command(self, path, *more, token=None):
        at = self.api.address()
        auth = ["-H", f"Authorization: Bearer {token or at['token']}"] if token != "" else []
        trust = ["--cacert", at["ca"]] if at["ca"] and "--cacert" not in more else []
        return [*self.args, *trust, *auth, *more, at["url"] + path]

    def raw(self, path, *more, **kw):
        return subprocess.run(self.command(path, *more, **kw), capture_output=True, check=False)

    def status(self, path, *more, **kw):
        done = self.raw(path, "-o", "/dev/null", "-w", "%{http_code}", *more, **kw)
        return int(done.stdout or 0)

    def json(self, path, *more, **kw):
        return json.loads(self.raw(path, *more, **kw).stdout)

    def stream(self, path, *more):
        return Stream(subprocess.Popen(self.command(path, *more), stdout=subprocess.PIPE))


class Stream:
    def __init__(self, process):
        self.process = process

    def event(self):
        """Returns the next line, parsed, or None at the end."""
        line = self.process.stdout.readline()
        return json.loads(line) if line else None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


def service(name, namespace="default", labels=None, **spec):
    meta = {"name": name, "namespace": namespace, **({"labels": labels} if labels else {})}
    return {"kind": "Service", "apiVersion": "v1", "metadata": meta, "spec": spec}


@pytest.fixture
def api():
    with ApiServer() as server:
        yield server


@pytest.fixture(params=["--http1.1", "--http2"])
def curl(api, request):
    return Curl(api, request.param)


def names(listing):
    return [i["metadata"]["name"] for i in listing["items"]]


def test_the_protocol_is_negotiated(api):
    Curl(api, "--http2").raw(SERVICES)
    Curl(api, "--http1.1").raw(SERVICES)
    assert [r["http"] for r in api.requests()] == ["2", "1.1"]


@pytest.mark.parametrize("http", ["--http1.1", "--http2-prior-knowledge"])
def test_plain_http_needs_no_token(http):
    with ApiServer(tls=False) as api:
        api.put(service("a"))
        assert names(Curl(api, http).json(SERVICES, token="")) == ["a"]


def test_a_list_has_its_version_first_and_items_without_kind(api, curl):
    version = api.put(service("a"))
    text = curl.raw(SERVICES).stdout.decode()
    assert text.startswith(f'{{"kind":"ServiceList","apiVersion":"v1","metadata":{{"resourceVersion":"{version}"}},"items":[{{"metadata"')
    item = json.loads(text)["items"][0]
    assert "kind" not in item and item["metadata"]["resourceVersion"] == str(version)


def test_a_list_of_custom_resources_has_its_keys_in_alphabetical_order_and_items_with_kind(api, curl):
    gateway = {"apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway", "metadata": {"name": "gw", "namespace": "own"}, "spec": {}}
    version = api.put(gateway)
    text = curl.raw("/apis/gateway.networking.k8s.io/v1/gateways").stdout.decode()
    assert list(json.loads(text)) == ["apiVersion", "items", "kind", "metadata"]
    assert text.endswith(f'],"kind":"GatewayList","metadata":{{"resourceVersion":"{version}"}}}}\n')
    (item,) = json.loads(text)["items"]
    assert item["kind"] == "Gateway" and item["metadata"]["name"] == "gw"


def test_pages_are_cut_from_one_moment(api, curl):
    for i in range(7):
        api.put(service(f"s{i}"))
    first = curl.json(SERVICES + "?limit=3")
    assert names(first) == ["s0", "s1", "s2"] and first["metadata"]["remainingItemCount"] == 4
    api.put(service("s3x"))
    api.delete("services", "default", "s5")
    second = curl.json(SERVICES + "?limit=3&continue=" + first["metadata"]["continue"])
    assert names(second) == ["s3", "s4", "s5"]
    assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    third = curl.json(SERVICES + "?limit=3&continue=" + second["metadata"]["continue"])
    assert names(third) == ["s6"] and "continue" not in third["metadata"]


def test_an_expired_continue_offers_the_inconsistent_rest(api, curl):
    for i in range(5):
        api.put(service(f"s{i}"))
    token = curl.json(SERVICES + "?limit=2")["metadata"]["continue"]
    api.compact()
    api.delete("services", "default", "s3")
    gone = curl.json(SERVICES + "?limit=2&continue=" + token)
    assert (gone["code"], gone["reason"]) == (410, "Expired")
    assert names(curl.json(SERVICES + "?limit=9&continue=" + gone["metadata"]["continue"])) == ["s2", "s4"]


def test_limit_with_version_0_is_ignored(api, curl):
    for i in range(5):
        api.put(service(f"s{i}"))
    assert len(names(curl.json(SERVICES + "?limit=2&resourceVersion=0"))) == 5


def test_a_version_of_the_future_is_a_504_for_a_list_and_silence_for_a_watch(api, curl):
    api.set_too_large_wait(0)
    api.put(service("a"))
    answer = curl.json(SERVICES + "?limit=1&resourceVersion=999999&resourceVersionMatch=NotOlderThan")
    assert answer["code"] == 504 and answer["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"
    assert curl.raw(SERVICES + "?watch=1&resourceVersion=999999", *SHORT).stdout == b""


def test_gzip_is_for_large_lists_only(api, curl):
    api.put(service("small"))
    asked = ["-H", "Accept-Encoding: gzip"]
    assert curl.raw(SERVICES, *asked).stdout.startswith(b"{")
    for i in range(100):
        api.put(service(f"s{i}", labels={"padding": "x" * 2000}))
    assert len(json.loads(gzip.decompress(curl.raw(SERVICES, *asked).stdout))["items"]) == 101
    assert curl.raw(SERVICES).stdout.startswith(b"{")
    with curl.stream(SERVICES + WATCHLIST, *asked) as watch:
        assert watch.process.stdout.read(1) == b"{"
    api.fault(gzip_members=2)
    body = curl.raw(SERVICES, *asked).stdout
    assert body.count(b"\x1f\x8b\x08\x00\x00\x00\x00\x00") == 2 and len(json.loads(gzip.decompress(body))["items"]) == 101


def test_user_agents_of_people_get_indented_json(api, curl):
    api.put(service("a"))
    assert b"\n  " in curl.raw(SERVICES, "-A", "curl/8").stdout


def test_watchlist_sends_all_then_its_bookmark_then_what_happens(api, curl):
    version = api.put_all([service("a"), service("b")])
    with curl.stream(SERVICES + WATCHLIST) as watch:
        assert [watch.event()["object"]["metadata"]["name"] for _ in range(2)] == ["a", "b"]
        mark = watch.event()
        assert mark["type"] == "BOOKMARK" and mark["object"]["kind"] == "Service"
        assert mark["object"]["metadata"] == {"resourceVersion": str(version), "annotations": {"k8s.io/initial-events-end": "true"}}
        api.put(service("a", labels={"x": "y"}))
        gone = api.delete("services", "default", "b")
        changed, deleted = watch.event(), watch.event()
        assert changed["type"] == "MODIFIED" and changed["object"]["metadata"]["labels"] == {"x": "y"}
        assert deleted["type"] == "DELETED" and deleted["object"]["metadata"]["resourceVersion"] == str(gone)


def test_watchlist_is_refused_where_the_feature_is_off_or_the_match_is_missing(api, curl):
    assert curl.status(SERVICES + "?watch=1&sendInitialEvents=true") == 422
    api.set_watchlist(False)
    assert curl.status(SERVICES + WATCHLIST) == 422


def test_a_watch_goes_on_from_its_version(api, curl):
    api.restart()
    version = api.put(service("a"))
    api.put(service("b"))
    with curl.stream(SERVICES + f"?watch=1&resourceVersion={version}") as watch:
        assert watch.event()["object"]["metadata"]["name"] == "b"
        api.put(service("c"))
        assert watch.event()["object"]["metadata"]["name"] == "c"


@pytest.mark.parametrize("lose", ["compact", "restart"])
def test_a_watch_from_a_forgotten_version_gets_an_error_event(api, curl, lose):
    version = api.put(service("a"))
    api.put(service("b"))
    getattr(api, lose)()
    with curl.stream(SERVICES + f"?watch=1&resourceVersion={version}") as watch:
        error = watch.event()
        assert error["type"] == "ERROR" and error["object"]["code"] == 410 and watch.event() is None


def test_a_watch_ends_in_order_after_its_timeout(api, curl):
    begun = time.monotonic()
    assert curl.raw(SERVICES + "?watch=1&timeoutSeconds=1").returncode == 0
    assert time.monotonic() - begun > 0.9
    assert api.wait_requests(ended="complete")


def test_bookmarks_come_to_those_who_asked(api, curl):
    api.set_bookmarks(0.05)
    with curl.stream(SERVICES + "?watch=1&allowWatchBookmarks=1&resourceVersion=" + str(api.version())) as watch:
        api.wait_watching("services")
        api.advance(5)
        while (mark := watch.event())["object"]["metadata"]["resourceVersion"] != str(api.version()):
            assert mark["type"] == "BOOKMARK"
    assert curl.raw(SERVICES + "?watch=1", *SHORT).stdout == b""


def test_pods_are_selected_by_their_phase_as_coredns_does(api, curl):
    def pod(name, phase):
        return {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": name, "namespace": "default"}, "spec": {}, "status": {"phase": phase}}

    pods, running = "/api/v1/pods", "status.phase!=Succeeded,status.phase!=Failed,status.phase!=Unknown"
    for name, phase in (("a", "Running"), ("b", "Failed"), ("c", "Pending")):
        api.put(pod(name, phase))
    assert names(curl.json(f"{pods}?fieldSelector={running}")) == ["a", "c"]
    assert names(curl.json(f"{pods}?fieldSelector={running},metadata.name=c")) == ["c"]
    assert names(curl.json(f"{pods}?fieldSelector=status.phase=Failed")) == ["b"]
    with curl.stream(f"{pods}?watch=1&fieldSelector={running}&resourceVersion={api.version()}") as watch:
        api.wait_watching("pods")
        api.put(pod("a", "Succeeded"))
        assert watch.event()["type"] == "DELETED"


def test_selectors_turn_changes_into_comings_and_goings(api, curl):
    api.put(service("a", labels={"tier": "web"}))
    api.put(service("b", labels={"tier": "db"}))
    assert names(curl.json(SERVICES + "?labelSelector=tier%20in%20(web,x),tier!=x")) == ["a"]
    assert names(curl.json(SERVICES + "?labelSelector=!tier")) == []
    assert names(curl.json(SERVICES + "?fieldSelector=metadata.name=b")) == ["b"]
    assert curl.status(SERVICES + "?fieldSelector=spec.type=b") == 400
    with curl.stream(SERVICES + f"?watch=1&labelSelector=tier=web&resourceVersion={api.version()}") as watch:
        api.wait_watching("services")
        api.put(service("b", labels={"tier": "web"}))
        api.put(service("c", labels={"tier": "db"}))
        api.put(service("a", labels={"tier": "db"}))
        seen = [watch.event() for _ in range(2)]
        assert [(e["type"], e["object"]["metadata"]["name"]) for e in seen] == [("ADDED", "b"), ("DELETED", "a")]


def test_paths_with_a_namespace_or_a_name(api, curl):
    api.put(service("a", "one"))
    api.put(service("a", "two"))
    assert [i["metadata"]["namespace"] for i in curl.json("/api/v1/namespaces/two/services")["items"]] == ["two"]
    assert curl.json("/api/v1/namespaces/one/services/a")["kind"] == "Service"
    assert curl.status("/api/v1/namespaces/one/services/b") == 404
    assert curl.status("/apis/discovery.k8s.io/v2/endpointslices") == 404


def test_who_may_what(api, curl):
    assert curl.status(SERVICES, token="wrong") == 401
    assert curl.status(SERVICES, token="") == 403
    api.forbid("services", ["list"])
    assert curl.status(SERVICES) == 403 and curl.status(SERVICES + "?watch=1&timeoutSeconds=1") == 200
    assert 'cannot list resource "services" in API group "" at the cluster scope' in curl.json(SERVICES)["message"]
    api.allow("services")
    api.absent("discovery.k8s.io")
    assert (curl.status(SERVICES), curl.status(SLICES)) == (200, 404)
    api.present("discovery.k8s.io")
    old = api.address()["token"]
    new = api.add_token()
    api.revoke_token(old)
    assert (curl.status(SLICES, token=old), curl.status(SLICES, token=new)) == (401, 200)
    api.set_phase("forbidden")
    assert curl.status(SLICES, token=new) == 403
    api.set_phase("failing")
    assert curl.status(SLICES, token=new) == 500


def test_a_client_certificate_is_a_user(api, curl):
    cert, key = api.client_certificate("jane")
    assert curl.status(SERVICES, "--cert", cert, "--key", key, token="") == 200
    assert api.requests()[-1]["user"] == "jane"


def test_new_certificates_and_new_authorities(api, curl):
    old = api.address()["ca"]
    api.new_certificate()
    assert curl.status(SERVICES, "--cacert", old) == 200
    api.new_certificate(names=["other.example"])
    assert curl.raw(SERVICES).returncode == 60
    api.new_certificate("other")
    assert curl.raw(SERVICES, "--cacert", old).returncode == 60
    assert curl.status(SERVICES) == 200
    api.new_certificate(days=(-3, -1))
    assert curl.raw(SERVICES).returncode == 60


def test_the_store_can_become_an_older_one(api, curl):
    api.put(service("a"))
    number, version = api.snapshot(), api.version()
    api.put(service("b"))
    api.delete("services", "default", "a")
    api.restore(number)
    listing = curl.json(SERVICES)
    assert names(listing) == ["a"] and listing["metadata"]["resourceVersion"] == str(version)


def test_stop_refuses_and_start_returns_at_the_same_port(api, curl):
    url = api.url()
    with curl.stream(SERVICES + "?watch=1") as watch:
        api.wait_watching("services")
        api.stop()
        assert watch.event() is None and watch.process.wait(60) in (55, 56, 92)
    assert curl.raw(SERVICES).returncode == 7
    api.start()
    assert api.url() == url and curl.status(SERVICES) == 200


def test_an_orderly_stop_leaves_watches_silent_until_they_end(api, curl):
    with curl.stream(SERVICES + "?watch=1") as watch:
        api.wait_watching("services")
        begun = time.monotonic()
        api.stop_orderly(linger_s=0.5)
        assert watch.event() is None and watch.process.wait(60) == 0
        assert time.monotonic() - begun >= 0.5


@pytest.mark.parametrize("how,code", [("reset", (7, 35)), ("garbage", (35,)), ("hang", (28,))])
def test_connections_can_fail_before_tls(api, curl, how, code):
    api.accept(how)
    assert curl.raw(SERVICES, *(SHORT if how == "hang" else ())).returncode in code
    api.accept("serve")
    assert curl.status(SERVICES) == 200


def test_frozen_connections_say_nothing(api, curl):
    api.freeze()
    assert curl.raw(SERVICES, "--max-time", "0.3").returncode == 28
    api.thaw()
    assert curl.status(SERVICES) == 200


def test_faults_meet_whom_and_as_often_as_they_say(api, curl):
    number = api.fault(resource="services", verb="list", status=429, headers={"Retry-After": "7"}, skip=1, times=1)
    assert [curl.status(p) for p in (SLICES, SERVICES, SERVICES, SERVICES)] == [200, 200, 429, 200]
    assert api.met(number) == 1
    api.clear()
    api.fault(status=503, headers={"Retry-After": "7"})
    assert b"retry-after: 7" in curl.raw(SERVICES, "-i").stdout.lower()


def test_bodies_that_are_not_what_was_asked_for(api, curl):
    api.put(service("a"))
    for fault, body in (({"html": True}, b"502 Bad Gateway"), ({"empty": True}, b""), ({"body": "{"}, b"{")):
        api.clear()
        api.fault(**fault)
        assert body in curl.raw(SERVICES).stdout and curl.status(SERVICES) == 200
    api.clear()
    api.fault(garbage=1000)
    assert len(curl.raw(SERVICES).stdout) == 1000
    api.clear()
    api.fault(kind="PodList", items="null")
    assert curl.json(SERVICES) | {"metadata": 0} == {"kind": "PodList", "apiVersion": "v1", "metadata": 0, "items": None}


@pytest.mark.parametrize("cut,codes", [("rst", (55, 56, 92)), ("fin", (18, 56, 92)), ("stream", (18, 56, 92)), ("end", (0,))])
def test_answers_can_end_early(api, curl, cut, codes):
    api.put(service("a"))
    api.fault(cut_after=100, cut=cut)
    done = curl.raw(SERVICES)
    assert done.returncode in codes
    assert len(done.stdout) == 100 or cut == "rst"  # a reset may overtake data that was sent
    assert api.wait_requests(ended="complete" if cut == "nothing" else "cut")[0]["bytes"] == 100


def test_slow_answers(api, curl):
    api.put(service("a", labels={"padding": "x" * 1000}))
    for fault, least in (({"delay_s": 0.3}, 0.3), ({"first_byte_s": 0.3}, 0.3), ({"rate": 2000}, 0.5)):
        api.clear()
        api.fault(**fault)
        begun = time.monotonic()
        assert names(curl.json(SERVICES)) == ["a"]
        assert time.monotonic() - begun >= least


def test_watches_that_misbehave(api, curl):
    api.put(service("a"))
    api.fault(silent=True)
    assert curl.raw(SERVICES + WATCHLIST, *SHORT).stdout == b""
    api.clear()
    api.fault(no_end_bookmark=True)
    assert curl.raw(SERVICES + WATCHLIST + "&timeoutSeconds=1").stdout.count(b"\n") == 1
    api.clear()
    api.fault(error={"code": 410, "reason": "Expired", "message": "gone"})
    assert curl.json(SERVICES + WATCHLIST)["object"]["code"] == 410
    api.clear()
    api.fault(overstay=True)
    assert curl.raw(SERVICES + "?watch=1&timeoutSeconds=1", "--max-time", "1.3").returncode == 28


def test_bytes_of_our_own_go_into_open_watches(api, curl):
    with curl.stream(SERVICES + "?watch=1") as watch:
        api.wait_watching("services")
        assert api.inject("services", '{"type":"ODD","object":{}}\n') == 1
        assert watch.event()["type"] == "ODD"
        api.inject_error("services")
        assert watch.event()["object"]["code"] == 410 and watch.event() is None


def test_an_object_of_many_megabytes(api, curl):
    api.put(service("big", labels={"padding": "x" * (9 << 20)}))
    assert len(curl.raw(SERVICES).stdout) > 9 << 20


def test_the_log_says_who_asked_what(api, curl):
    curl.raw(SERVICES + "?limit=5")
    entry = api.wait_requests(ended="complete")[0]
    assert (entry["verb"], entry["resource"], entry["params"], entry["user_agent"]) == ("list", "services", {"limit": "5"}, "tester/1")
    with pytest.raises(TimeoutError):
        api.wait_requests(2, timeout=0.1)


def test_changes_are_timed_when_they_are_written(api, curl):
    api.load(namespaces=2, services=20, slices=40)
    with curl.stream(SLICES + f"?watch=1&resourceVersion={api.version()}") as watch:
        api.wait_watching("endpointslices")
        api.churn(200, 0.5)
        seen = [watch.event() for _ in range(100)]
        arrived = time.monotonic_ns()
    changes = api.changes()
    assert [e["object"]["metadata"]["resourceVersion"] for e in seen] == [c["resourceVersion"] for c in changes]
    assert all(c["made_ns"] <= c["written_ns"] <= arrived for c in changes)
    for event, change in zip(seen, changes):
        listed = [e["addresses"][0] for e in event["object"]["endpoints"]]
        assert change.get("added") in listed if "added" in change else change["removed"] not in listed


def test_a_process_of_its_own_has_the_same_methods(tmp_path):
    with ApiProcess(directory=str(tmp_path)) as api:
        assert api.load(namespaces=3, services=10, slices=12, pods=True, legacy=True, node_objects=True, nodes=4)["pods"][0] == 120
        api.put(service("a"))
        assert len(names(Curl(api).json(SERVICES))) == 11 and api.count(verb="list") == 1
        with pytest.raises(KeyError):
            api.delete("services", "default", "nobody")


def test_objects_are_as_large_as_real_ones():
    with ApiServer() as api:
        sizes = api.load(namespaces=20, services=100, slices=200)
        assert 2100 < sizes["services"][1] / 100 < 2300  # measured with kube-apiserver 1.36.3: 2,213
        assert 4300 < sizes["endpointslices"][1] / 200 < 4500  # measured: 4,379


def test_the_population_is_the_same_each_time_and_says_its_answers():
    small = Population(namespaces=3, services=20, slices=45)
    objects = list(small.objects())
    assert objects == list(Population(namespaces=3, services=20, slices=45).objects())
    slices = [o for o in objects if o["kind"] == "EndpointSlice"]
    listed = [e["addresses"][0] for o in slices for e in o["endpoints"]]
    assert len(set(listed)) == len(listed) == 450
    of_service = [o for o in slices if o["metadata"]["labels"]["kubernetes.io/service-name"] == small.service(3)]
    assert sorted(small.addresses(3)) == sorted(e["addresses"][0] for o in of_service for e in o["endpoints"])
    hostnames = [e.get("hostname") for o in slices for e in o["endpoints"]]
    assert sum(h is not None for h in hostnames) == sum(len(small.addresses(i)) for i in (9, 19))


def test_big_services_have_slices_of_their_own():
    p = Population(namespaces=2, services=10, slices=16, endpoints=2, big=2, big_slices=5, big_headless=True)
    slices = [o for o in p.objects() if o["kind"] == "EndpointSlice"]
    owners = [o["metadata"]["labels"]["kubernetes.io/service-name"] for o in slices]
    assert [owners.count(p.service(i)) for i in range(10)] == [5, 5] + [2] * 8
    assert p.service(0) == "db-00000" and p.addresses(0)[-1] == slices[4]["endpoints"][-1]["addresses"][0]
    assert slices[4]["endpoints"][-1]["hostname"] == "db-00000-9"


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_manifests_read_back_as_what_was_written(tmp_path, form):
    yaml = pytest.importorskip("yaml")
    small = Population(namespaces=2, services=10, slices=11, legacy=True)
    files = write_manifests(small, tmp_path, form)
    assert [Path(f).name for f in files] == [f"{n}.{form}" for n in ("endpoints", "endpointslices", "namespaces", "services")]
    read = [o for f in files for o in yaml.load(Path(f).read_text(), Loader=yaml.CSafeLoader)["items"]]
    wanted = list(small.objects())
    for o in wanted:
        o["metadata"]["resourceVersion"] = "1"
        for m in o["metadata"]["managedFields"]:
            m.pop("time")
    for o in read:  # PyYAML parses unquoted dates as dates; ours are quoted or compared as text
        for m in o["metadata"]["managedFields"]:
            m.pop("time")

    def key(o):
        return o["kind"], o["metadata"]["name"]

    assert sorted(read, key=key) == sorted(wanted, key=key)


def test_every_method_that_the_documentation_names_can_be_called(api):
    """An attribute with the name of a method would hide the method."""
    text = (Path(__file__).parent / "README.md").read_text()
    table = text[text.index("## Methods") : text.index("## Faults")]
    names = {word for cell in table.split("`")[1::2] for word in [cell.partition("(")[0]] if "(" in cell}
    assert len(names) > 40
    for name in names:
        method = getattr(type(api), name, None) or getattr(api._server, name)
        assert callable(method), name
