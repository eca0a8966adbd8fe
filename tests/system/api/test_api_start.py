"""
The startup order cannot be controlled. kubedns may start before the API server, before its token, without a permission it needs, or
behind a very slow link. It answers SERVFAIL within 50 ms, never exits for such a reason, and becomes ready without a restart.
"""

import json
import os
import re
import time
import urllib.error
import urllib.request

import pytest
from api_world import NXDOMAIN, ApiServer, World, name
from asking import Asker, ask_until

from hurry import Clock, hurry as in_a_hurry
from kubedns_process import Kubedns
from objects import endpoint_slice, endpoints, namespace, service
from waiting import free_port

pytestmark = pytest.mark.spread

WEB = "web.default.svc.cluster.local"
DB = "db.default.svc.cluster.local"


@pytest.fixture
def api():
    with ApiServer(listen=False) as server:
        server.fill([namespace("default"), namespace("empty"), service("web", "10.200.0.1"), service("db", "None"),
                     endpoint_slice("db", ["10.201.0.1", "10.201.0.2"]), endpoints("db", ["10.201.0.1", "10.201.0.2"])])  # fmt: skip
        yield server


@pytest.fixture
def start(api, tmp_path):
    """Starts kubedns with the stand-in API server, which need not be running."""
    running = []

    def run(*args, hurry=1, **kw):
        if hurry != 1:
            kw["env"] = in_a_hurry(hurry)
        if not api.address()["port"]:
            api.start()
            api.stop()
        kubedns = Kubedns(f"--kubecfg-file={api.kubeconfig(tmp_path / 'kubeconfig')}", *args, directory=str(tmp_path), **kw)
        running.append(kubedns)
        return kubedns

    yield run
    for kubedns in running:
        alive = kubedns.process.poll()
        print(kubedns.log()[-4000:])
        kubedns.stop()
        assert alive is None, f"kubedns ended with {alive}"


def test_answers_servfail_at_once_without_an_api_server(start, tmp_path):
    """kubedns's clock stands still, so it answers without waiting for anything."""
    kubedns = start(env=Clock(tmp_path).env)
    kubedns.wait(lambda: kubedns.ask(WEB, timeout=0.1) == "SERVFAIL")


def test_ready_without_a_restart_when_the_api_server_comes(start, api):
    kubedns = start()
    assert kubedns.wait(lambda: kubedns.ask(WEB) == "SERVFAIL")
    status, reasons = kubedns.http("/readiness")
    assert status == 503 and "services" in reasons
    kubedns.wait(lambda: sum(n for series, n in kubedns.metrics().items() if series.startswith("kubedns_api_requests_total")) >= 3)  # failed attempts
    api.start()
    kubedns.wait(kubedns.ready, 60)
    assert kubedns.ask(WEB) == {"10.200.0.1"} and kubedns.ask(DB) == {"10.201.0.1", "10.201.0.2"}
    assert kubedns.ask("nobody.default.svc.cluster.local") == NXDOMAIN
    assert "connection refused" in kubedns.log().lower() or "couldn't connect" in kubedns.log().lower()


def test_no_nxdomain_before_the_first_sync(start, api):
    """During startup, queries get SERVFAIL and then the right answer, never NXDOMAIN or a part of an answer."""
    api.start()
    api.fault(verb="watchlist", first_byte_s=1)
    kubedns = start()
    asker = Asker(kubedns.port, {(WEB, "A"): "SERVFAIL", (DB, "A"): "SERVFAIL"}, rate=200)
    kubedns.wait(lambda: kubedns.ask(WEB, timeout=0.1) == "SERVFAIL")
    asker.may_change((WEB, "A"), {"10.200.0.1"})
    asker.may_change((DB, "A"), {"10.201.0.1", "10.201.0.2"})
    with asker:
        kubedns.wait_ready()
        asker.must_be((WEB, "A"), {"10.200.0.1"})
        asker.must_be((DB, "A"), {"10.201.0.1", "10.201.0.2"})
        time.sleep(0.3)
    asker.clean()


def test_services_forbidden_is_not_ready_and_says_verb_and_resource(start, api):
    api.start()
    api.forbid("services")
    kubedns = start()
    status, reasons = kubedns.wait(lambda: (r := kubedns.http("/readiness"))[0] == 503 and "403" in r[1] and r)
    assert "services" in reasons and ("list" in reasons or "watch" in reasons), reasons
    forwarded = urllib.request.Request(f"http://127.0.0.1:{kubedns.healthz}/readiness", headers={"X-Forwarded-For": "10.1.2.3"})
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(forwarded, timeout=5)
    told = refused.value.read().decode()
    assert refused.value.code == 503 and "services: not synced; failing" in told, told
    assert "403" not in told and "127.0.0.1" not in told, "only the pod itself sees the server's own message"
    told = json.loads(kubedns.http("/readiness?format=json")[1])
    assert told["ready"] is False and told["reason"] == "not_synced" and told["text"].startswith("not synced yet\n"), told
    assert told["problems"] == [{"resource": "services", "problem": "forbidden"}], told
    assert kubedns.ask(WEB) == "SERVFAIL"
    assert "services" in kubedns.log() and "403" in kubedns.log()
    api.allow("services")
    kubedns.wait(kubedns.ready, 30)  # the backoff may have grown by now
    assert kubedns.ask(WEB) == {"10.200.0.1"}


@pytest.mark.parametrize("lack", ["forbidden", "missing"])
def test_endpointslices_not_to_be_had_means_endpoints_and_a_warning(start, api, lack, tmp_path):
    """kube-dns's own role grants access to Services and Endpoints only. Replacing only the image must not break DNS."""
    api.start()
    if lack == "forbidden":
        api.forbid("endpointslices")
        api.forbid("namespaces")
    else:
        api.absent("discovery.k8s.io")
    clock = Clock(tmp_path)
    kubedns = start(env=clock.env)
    took = clock.run_until(kubedns.ready, 25, what=kubedns.log)
    print(f"ready from Endpoints after {took:.1f} s")
    assert took >= 10, "a 403 while the API server starts is temporary, so kubedns waits ten seconds"
    assert kubedns.ask(WEB) == {"10.200.0.1"} and kubedns.ask(DB) == {"10.201.0.1", "10.201.0.2"}
    said = [line for line in kubedns.log().splitlines() if "endpointslices" in line and "using Endpoints" in line]
    assert len(said) == 1 and "apply" in said[0], kubedns.log()
    assert "Endpoints" in kubedns.http("/readiness")[1], "readiness must mention it"
    assert [v for n, v in kubedns.metrics().items() if "endpoints_fallback" in n] == [1], "a metric must show it"
    api.put(endpoints("db", ["10.201.0.3"]))
    ask_until(kubedns.port, DB, "A", {"10.201.0.3"})


def test_namespaces_forbidden_is_ready_and_they_are_inferred(start, api):
    api.start()
    api.forbid("namespaces")
    kubedns = start(hurry=5)
    kubedns.wait_ready(10)
    assert kubedns.ask(WEB) == {"10.200.0.1"}
    assert kubedns.ask("default.svc.cluster.local") == frozenset()
    assert kubedns.ask("empty.svc.cluster.local") == NXDOMAIN  # without a Service in it, kubedns cannot know this namespace
    assert "namespaces" in kubedns.log()


def test_namespaces_forbidden_is_not_ready_where_their_labels_are_needed(start, api):
    """Without labels, kubedns cannot select any namespace. It must not treat this as a cluster without names."""
    api.start()
    api.forbid("namespaces")
    kubedns = start("--namespace-labels=kubernetes.io/metadata.name!=other", hurry=5)
    reasons = kubedns.wait(lambda: "--namespace-labels needs them" in (r := kubedns.http("/readiness"))[1] and r[0] == 503 and r[1])
    assert kubedns.ask(WEB) == "SERVFAIL", reasons
    api.allow("namespaces")
    kubedns.wait(kubedns.ready, 30)
    assert kubedns.ask(WEB) == {"10.200.0.1"}
    api.put(namespace("default", **{"kubernetes.io/metadata.name": "other"}))
    ask_until(kubedns.port, WEB, "A", NXDOMAIN)
    api.put(namespace("default"))
    ask_until(kubedns.port, WEB, "A", {"10.200.0.1"})


def test_each_forbidden_resource_leaves_requests_bounded(start, api):
    api.start()
    for resource in ("services", "endpointslices", "namespaces", "endpoints"):
        api.forbid(resource)
    start(hurry=10)
    time.sleep(3)
    counts = {r: api.count(resource=r) for r in ("services", "endpointslices", "namespaces", "endpoints")}
    print(f"requests in 30 s: {counts}")
    assert all(n <= 16 for n in counts.values())  # the bound allows for a backoff from 0.8 s, doubled with full jitter, and for the lists besides the watches


def test_the_token_is_missing_at_first(api, tmp_path):
    """The kubelet mounts the pod's service account late."""
    mount = tmp_path / "serviceaccount"
    os.makedirs(mount)
    api.start()
    with Kubedns(env=api.environment({}), serviceaccount=mount, directory=str(tmp_path)) as kubedns:
        kubedns.wait(lambda: kubedns.ask(WEB) == "SERVFAIL")
        time.sleep(1)
        assert api.count(status=200) == 0
        api.service_account(mount)
        kubedns.wait(kubedns.ready, 30)
        assert kubedns.ask(WEB) == {"10.200.0.1"}


def test_in_a_pod_with_kube_dns_s_own_arguments(api, tmp_path):
    """Uses the arguments and the environment of kube-dns's Deployment. Only the port is different, because the test needs a free port."""
    config = tmp_path / "kube-dns-config"
    config.mkdir()
    api.start()
    metrics = free_port()
    env = api.environment({"PROMETHEUS_PORT": str(metrics)})
    arguments = ["--domain=cluster.local.", f"--config-dir={config}", "--v=2"]
    with Kubedns(*arguments, env=env, serviceaccount=api.service_account(tmp_path / "sa"), directory=str(tmp_path)) as kubedns:
        kubedns.wait_ready()
        assert kubedns.ask(WEB) == {"10.200.0.1"}
        kubedns.healthz = metrics
        assert "skydns_skydns_dns_request_count_total" in kubedns.http("/metrics")[1]
    user_agents = {r["user_agent"] for r in api.requests()}
    assert len(user_agents) == 1 and user_agents.pop().startswith("kubedns/")


def test_nothing_but_what_is_needed_is_asked_for(api, start):
    api.start()
    start().wait_ready()
    assert {r["resource"] for r in api.requests()} == {"services", "endpointslices", "namespaces"}
    assert {r["verb"] for r in api.requests()} <= {"watchlist", "watch", "list"}


def test_a_slow_api_server(start, api):
    """
    The response header arrives after 20 s of kubedns's clock. (In the soak test it is 20 s of real time.) kubedns answers SERVFAIL until
    then, and then becomes ready.
    """
    api.start()
    api.fault(delay_s=2)
    kubedns = start(hurry=10)
    kubedns.wait(lambda: kubedns.ask(WEB) == "SERVFAIL")
    assert 2 <= kubedns.wait_ready(10) < 6
    assert api.count() == 3, "kubedns waits for a slow answer and does not repeat the request"


def test_a_slow_link(start, api, tmp_path):
    """
    Thirty objects at 3 KB/s. The clock of kubedns runs thirty times as fast, so for kubedns the transfer takes more than a minute. It must not
    time out while data arrives, and readiness reports each object as it arrives.
    """
    api.start()
    api.put_all([service(f"s{i}", f"10.200.1.{i + 1}") for i in range(30)])
    api.fault(resource="services", rate=3000)
    clock, seen = Clock(tmp_path), set()
    kubedns = start(env=clock.env)

    def progressing():
        status, text = kubedns.http("/readiness")
        seen.add(text)
        return status == 200

    with clock.running(30):
        kubedns.wait(progressing, 60)
    assert api.count(resource="services") == 1, "kubedns must not request the list again while it arrives"
    assert len(seen) > 5, f"readiness must show the progress: {seen}"
    assert kubedns.ask("s29.default.svc.cluster.local") == {"10.200.1.30"}


@pytest.mark.parametrize("fault", [{"status": 500}, {"hang": True}, {"first_byte_s": 60}])
@pytest.mark.parametrize("resource", ["httproutes", "namespaces"])
def test_an_optional_resource_that_cannot_be_listed_delays_no_cluster_name(start, api, resource, fault, tmp_path):
    """A bug: a CRD with a broken conversion webhook kept every cluster name at SERVFAIL for half a minute. The bound is on kubedns's clock."""
    api.start()
    api.fault(resource=resource, **fault)
    clock = Clock(tmp_path)
    kubedns = start("--external-zones=apps.example", env=clock.env)
    clock.run_until(lambda: "synced after" in kubedns.log(), 5 if resource == "namespaces" else 2, 0.02, kubedns.log)
    clock.run_until(kubedns.ready, 20, what=kubedns.log)
    assert kubedns.ask(WEB) == {"10.200.0.1"} and kubedns.ask(DB) == {"10.201.0.1", "10.201.0.2"}


@pytest.mark.parametrize("fault", [{"hang": True}, {"first_byte_s": 60}])
def test_a_list_that_is_accepted_and_not_answered_is_named_within_5_seconds(start, api, fault, tmp_path):
    api.start()
    api.fault(resource="services", **fault)
    clock = Clock(tmp_path)
    kubedns = start(env=clock.env)
    told = f"api https://127.0.0.1:{api.address()['port']}: no response for 3 s to the request to list services; still waiting"
    clock.run_until(lambda: told in kubedns.log(), 5, what=kubedns.log)
    waits = kubedns.wait(lambda: (r := kubedns.http("/readiness"))[0] == 503 and "; no answer from https://" in r[1] and r[1])
    assert re.search(r"^services: [a-z0-9, ]+; no answer from https://127\.0\.0\.1:[0-9]+ for [0-9]+ s$", waits, re.M), waits
    assert kubedns.log().count("no response for 3 s") == 1
    assert {"resource": "services", "problem": "silent"} in json.loads(kubedns.http("/readiness?format=json")[1])["problems"]


def test_a_server_that_accepts_connections_and_is_silent_is_named_within_5_seconds(start, api, tmp_path):
    api.start()
    api.accept("hang")
    clock = Clock(tmp_path)
    kubedns = start(env=clock.env)
    told = "to the request to list services, endpointslices, namespaces; still waiting"
    clock.run_until(lambda: told in kubedns.log(), 5, what=kubedns.log)


def test_before_the_first_sync_the_liveness_is_fine(start):
    kubedns = start()
    kubedns.wait(lambda: kubedns.http("/healthz")[0] == 200)
    assert kubedns.http("/readiness")[0] == 503


@pytest.mark.soak
@pytest.mark.parametrize("fault", [{"delay_s": 20}, {"first_byte_s": 20}])
def test_first_bytes_after_20_seconds(start, api, fault):
    api.start()
    api.fault(**fault)
    kubedns = start()
    took = kubedns.wait_ready(60)
    print(f"ready after {took:.1f} s")
    assert kubedns.ask(WEB) == {"10.200.0.1"}


@pytest.mark.soak
def test_a_hundred_real_items_at_1_kb_a_second(tmp_path):
    """220 KB of Services take almost four minutes. kubedns requests them once and can use each object as soon as it has arrived."""
    population = {"namespaces": 20, "services": 100, "slices": 100, "endpoints": 3}
    with World(tmp_path, wait=False, population=population, before=lambda api: api.fault(rate=1000)) as world:
        took = world.kubedns.wait_ready(1200)
        print(f"ready after {took:.0f} s, {world.api.count()} requests")
        assert world.api.count() == 3
        assert world.kubedns.ask(name("kept")) == {"10.200.0.1"}
