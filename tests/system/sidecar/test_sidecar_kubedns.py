"""The real kubedns beside the sidecar: before it reaches its API server, after the sync, and cut off from the API server. Also the reason for an answer."""

import json
import time

import pytest
from api_world import ApiServer
from kubedns_process import Kubedns
from objects import namespace, service

from sidecar_world import NAME, Dnsmasq, Sidecar, until


@pytest.fixture
def api():
    with ApiServer(listen=False) as server:
        server.fill([namespace("default"), service("kubernetes", "10.96.0.1", "default")])
        yield server


@pytest.fixture
def kubedns(api, tmp_path):
    api.start()
    api.stop()
    process = Kubedns(f"--kubecfg-file={api.kubeconfig(tmp_path / 'kubeconfig')}", "--threads=1", "--nameservers=127.0.0.1:9",
                      directory=str(tmp_path))  # fmt: skip
    yield process
    process.stop()


def test_before_during_and_after_the_first_sync(api, kubedns):
    """kubedns is alive all the time, and ready after the sync. One probe goes to kubedns directly, and one goes through dnsmasq."""
    with Dnsmasq(f"--server=/cluster.local/127.0.0.1#{kubedns.port}", "--no-negcache") as dnsmasq:
        name = "kubernetes.default.svc.cluster.local"
        # In other tests dnsmasq has a host-record for the name. Here only kubedns knows the name, from a Service.
        with Sidecar(f"--dnsmasq-port={dnsmasq.port}", "--dnsmasq-poll-interval-ms=500", f"--kubedns-url=http://127.0.0.1:{kubedns.healthz}",
                     f"--probe=kubedns,127.0.0.1:{kubedns.port},{name},1,A", f"--probe=through,127.0.0.1:{dnsmasq.port},dns-version.cluster.local,1,ANY",
                     "--nanny-url=", peers=True) as sidecar:  # fmt: skip
            until(lambda: sidecar.health("kubedns") == (200, {"IsOk": True, "LatencySeconds": 0, "Err": "not ready"}), what="not ready, and alive")
            until(lambda: sidecar.status()["kubedns"]["up"])
            until(lambda: sidecar.health("through")[1]["Err"] == "not ready", what="dnsmasq hands kubedns's Not Ready on")
            assert sidecar.health("through")[0] == 200
            shown = sidecar.status()
            assert shown["level"] == "degraded" and not shown["kubedns"]["ready"] and not shown["kubedns"]["synced"]
            assert "kubedns is not ready" in sidecar.get("/status.txt")[1]
            # Before kubedns listens, refused connections may count as errors. A kubedns that is not ready does not count as an error.
            assert sidecar.value("kubedns_probe_kubedns_errors") == sidecar.value("dns_probe_results_total", probe="kubedns", result="connection_refused")
            assert sidecar.value("dns_probe_success", probe="kubedns") == 0

            api.start()
            until(lambda: sidecar.health("kubedns")[1]["Err"] == "", 20, "the first answer")
            shown = until(lambda: sidecar.status()["kubedns"]["synced"] and sidecar.status(), 10, "the sync on the page")
            assert shown["kubedns"]["ready"]
            resources = {r["resource"]: r for r in shown["kubedns"]["resources"]}
            assert "services" in resources and all(r["synced"] for r in resources.values())
            assert abs(shown["kubedns"]["newestEventTime"] - time.time()) < 60
            assert shown["kubedns"]["objects"]["service"] == 1

            api.stop()
            # kubedns serves existing data forever. A missing API server does not cause an alarm immediately.
            time.sleep(1.5)
            assert sidecar.health("kubedns")[1]["Err"] == ""


def test_why(api, kubedns):
    """The query form: a client's answer, and kubedns's reason for it."""
    api.start()
    with Dnsmasq(f"--server=/cluster.local/127.0.0.1#{kubedns.port}") as dnsmasq, Sidecar(
            f"--dnsmasq-port={dnsmasq.port}", f"--kubedns-url=http://127.0.0.1:{kubedns.healthz}", "--nanny-url=", peers=True) as sidecar:
        kubedns.wait_ready()

        def ask(name):
            return until(lambda: (answer := sidecar.get(f"/ask?name={name}&type=A"))[0] == 200 and answer[1])

        found = ask(NAME)
        assert "10.96.0.1" in found and "default/kubernetes" in found
        missing = ask("nope.default.svc.cluster.local")
        assert "NXDOMAIN" in missing and "Why: no Service" in missing.replace("No", "no") and json.loads(missing)["whyError"] == ""


def test_asked_is_whom_clients_ask(api, kubedns):
    """In the front topology clients query kubedns, and there is only a probe of kubedns. dnsmasq does not know any cluster name there."""
    api.start()
    with Dnsmasq() as dnsmasq, Sidecar(
            f"--dnsmasq-port={dnsmasq.port}", f"--kubedns-url=http://127.0.0.1:{kubedns.healthz}", "--nanny-url=",
            f"--probe=kubedns,127.0.0.1:{kubedns.port},{NAME},1,A", peers=True) as sidecar:  # fmt: skip
        kubedns.wait_ready()

        def answered():
            status, body = sidecar.get(f"/ask?name={NAME}&type=A&format=json")
            return json.loads(body) if status == 200 else None

        answer = until(answered)
        assert answer["server"] == f"127.0.0.1:{kubedns.port}" and "10.96.0.1" in json.dumps(answer), answer


def test_asked_by_a_program(api, kubedns):
    """The HTTP status gives the result of the query. A browser gets the page, and the page's script sends the query. So users can share the URL."""
    api.start()
    with Dnsmasq(f"--server=/cluster.local/127.0.0.1#{kubedns.port}") as dnsmasq, Sidecar(
            f"--dnsmasq-port={dnsmasq.port}", f"--kubedns-url=http://127.0.0.1:{kubedns.healthz}", "--nanny-url=", peers=True) as sidecar:
        kubedns.wait_ready()

        def ask(query, **headers):
            def answered():
                status, body = sidecar.get(f"/ask?{query}", headers)
                return (status, body) if status != 202 else None

            return until(answered)

        for query, headers in ((f"name={NAME}&type=A&format=json", {}), (f"name={NAME}&type=A", {"Accept": "application/json"})):
            status, body = ask(query, **headers)
            answer = json.loads(body)
            assert (status, answer["state"], answer["name"], answer["type"], answer["result"]) == (200, "answered", f"{NAME}.", "A", "NOERROR")
            assert any("10.96.0.1" in record for record in answer["records"]) and any("default/kubernetes" in line for line in answer["why"])
            assert 0 <= answer["latencySeconds"] < 5 and answer["cause"] == "ok" and answer["overTcp"] is False
        missing = json.loads(ask("name=nope.default.svc.cluster.local&type=A&format=json")[1])
        assert missing["result"] == "NXDOMAIN" and "Why: no Service nope in namespace default." in missing["why"]
        status, body = ask("name=a..b&format=json")
        assert status == 400 and json.loads(body)["state"] == "refused" and "not a DNS name" in json.loads(body)["error"]
        status, body = ask(f"name={NAME}&type=NOPE")
        assert status == 400 and "not a record type" in json.loads(body)["error"]
        assert ask(f"name={NAME}&type=A", Accept="text/html,application/json;q=0.9") == (200, sidecar.get("/")[1])
