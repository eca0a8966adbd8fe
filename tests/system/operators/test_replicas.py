"""Replicas are compared: /digest, the metrics, and kubectl dns status and diff. Both replicas watch one stand-in API server."""

import http.server
import json
import signal
import stat
import threading

import pytest
from api_world import ApiServer
from kubedns_process import Kubedns
from objects import endpoint_slice, namespace, service
from test_kubectl_dns import STAND_IN, plugin
from waiting import wait_for

OBJECTS = [
    namespace("default"),
    service("web", "10.96.0.10"),
    service("db", "None"),
    endpoint_slice("db", ["10.1.0.1", "10.1.0.2"], hostnames=["db-0", "db-1"]),
]


class Pages(http.server.ThreadingHTTPServer):
    """The status page of a healthy pod, and /digest, if there is a text for it."""

    def __init__(self, digest=None):
        class Page(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                text = digest if self.path == "/digest" else '{"level":"well","sentence":"DNS is healthy","findings":[]}\n'
                self.send_response(404 if text is None else 200)
                self.end_headers()
                self.wfile.write((text or "not found\n").encode())

            def log_message(self, *_):
                pass

        super().__init__(("127.0.0.1", 0), Page)
        threading.Thread(target=self.serve_forever, daemon=True).start()


def stand_in(tmp_path):
    kubectl = tmp_path / "kubectl"
    kubectl.write_text(STAND_IN.format(dir=tmp_path))
    kubectl.chmod(kubectl.stat().st_mode | stat.S_IXUSR)


def pod(tmp_path, name, kubedns, sidecar):
    """Adds a pod with these ports to the stand-in."""
    with open(tmp_path / "pods", "a") as f:
        f.write(f"{name}\n")
    with open(tmp_path / "ports", "a") as f:
        f.write(f"pod/{name} :8081 {kubedns}\npod/{name} :10054 {sidecar}\n")


class Replicas:
    def __init__(self, tmp_path, *objects):
        self.tmp_path, self.running = tmp_path, {}
        stand_in(tmp_path)
        self.pages = Pages()
        self.api = ApiServer(tls=False)
        self.api.fill([*OBJECTS, *objects])
        self.config = self.api.kubeconfig(tmp_path / "kubeconfig")

    def start(self, name, *flags):
        self.running[name] = k = Kubedns(f"--kubecfg-file={self.config}", "--drain=0s", *flags)
        pod(self.tmp_path, name, k.healthz, self.pages.server_port)
        k.wait_ready()
        for resource in ("services", "endpointslices", "namespaces"):
            self.api.wait_watching(resource, count=len(self.running))
        return k

    def reach(self):
        """Returns when all replicas have read the present versions."""
        for resource in ("services", "endpointslices", "namespaces"):
            self.api.bookmark(resource)
        version = self.api.put(service("fence", "10.96.9.9"))
        self.api.delete("services", "default", "fence")
        for resource in ("services", "endpointslices", "namespaces"):
            self.api.bookmark(resource)
        for k in self.running.values():
            wait_for(lambda: all(last > version for _, last in versions(k).values()), 10, lambda: k.http("/digest")[1])

    def close(self):
        for k in self.running.values():
            k.stop()
        self.api.close()
        self.pages.shutdown()


@pytest.fixture
def replicas(tmp_path):
    r = Replicas(tmp_path)
    yield r
    r.close()


def lines(kubedns):
    status, text = kubedns.http("/digest")
    assert status == 200, text
    return dict(line.split("=") for line in text.splitlines())


def versions(kubedns):
    return {resource: tuple(map(int, range_.split("-"))) for resource, range_ in lines(kubedns).items() if resource not in ("digest", "scope")}


def test_a_replica_that_saw_every_change_has_the_digest_of_one_that_starts_now(replicas, tmp_path):
    old = replicas.start("dns-a")
    first = lines(old)["digest"]
    for i in range(20):
        replicas.api.put(service(f"web-{i}", f"10.96.1.{i}"))
        replicas.api.put(endpoint_slice("db", [f"10.1.1.{i}", "10.1.0.2"]))
    for i in range(10):
        replicas.api.delete("services", "default", f"web-{i}")
    new = replicas.start("dns-b")
    replicas.reach()
    a, b = lines(old), lines(new)
    assert a["digest"] == b["digest"] != first and a["scope"] == b["scope"]
    assert set(versions(old)) == set(versions(new)) == {"services", "endpointslices", "namespaces"}
    for resource, (low, high) in versions(old).items():
        assert max(low, versions(new)[resource][0]) <= min(high, versions(new)[resource][1]), "the ranges overlap"
    assert plugin(tmp_path, "status")[0] == 0
    assert plugin(tmp_path, "diff", "dns-a", "dns-b")[1].startswith("dns-a and dns-b have the same ")


def test_page_and_metrics_agree(replicas):
    k = replicas.start("dns-a")
    replicas.reach()
    shown = lines(k)
    scope = shown["scope"]
    assert k.metric("kubedns_records_digest", scope=scope) == int(shown["digest"][:12], 16)
    for resource, range_ in versions(k).items():
        for bound, version in zip(("first", "last"), range_):
            assert k.metric("kubedns_records_version", scope=scope, resource=resource, bound=bound) == version


def lose_web(replicas):
    """Sends an event to all open watches that the API server does not know: web is deleted."""
    web = replicas.api.get("services", "default", "web")
    # An older version would start complete lists.
    web["metadata"]["resourceVersion"] = str(replicas.api.stats()["version"])
    replicas.api.inject("services", json.dumps({"type": "DELETED", "object": web}) + "\n")


def test_status_names_replicas_that_differ_and_diff_the_records(replicas, tmp_path):
    off = "--audit=off"  # the audit would find the difference and fix it
    old = replicas.start("dns-a", off)
    replicas.start("dns-b", off)
    lose_web(replicas)
    wait_for(lambda: old.ask("web.default.svc.cluster.local") == "NXDOMAIN", 10, "web is lost")
    replicas.start("dns-c", off)
    replicas.reach()
    code, out, err = plugin(tmp_path, "status")
    said = [line for line in out.splitlines() if line.startswith("replicas differ")]
    assert code == 1 and said == [
        "replicas differ: dns-a and dns-c have read the same objects but have other records: kubectl dns diff dns-a dns-c"
    ], (out, err)
    code, out, err = plugin(tmp_path, "diff", "dns-a", "dns-c")
    assert code == 1 and out.splitlines() and all(line.startswith("only dns-c: ") for line in out.splitlines()), (out, err)
    assert "only dns-c: web.default.svc.cluster.local. A 10.96.0.10 30" in out.splitlines()
    replicas.api.inject_error("services")  # dns-a and dns-b list again
    wait_for(lambda: old.ask("web.default.svc.cluster.local") == {"10.96.0.10"}, 30, "web again")
    replicas.reach()
    code, out, err = plugin(tmp_path, "status")
    assert code == 0 and "differ" not in out, (out, err)


def test_replicas_that_cannot_be_compared_are_not(replicas, tmp_path):
    replicas.start("dns-a")
    replicas.start("dns-b", "--ttl=7")  # during a rollout
    replicas.reach()
    a, b = (lines(k) for k in replicas.running.values())
    assert a["digest"] != b["digest"] and a["scope"] != b["scope"]
    code, out, err = plugin(tmp_path, "status")
    assert code == 0 and "differ" not in out, (out, err)


def test_a_replica_that_has_not_read_a_change_yet_does_not_differ(replicas, tmp_path):
    old, new = replicas.start("dns-a"), replicas.start("dns-b")
    replicas.reach()
    shown = lines(old)
    old.process.send_signal(signal.SIGSTOP)
    replicas.api.put(service("later", "10.96.0.77"))
    wait_for(lambda: new.ask("later.default.svc.cluster.local") == {"10.96.0.77"}, 10, "later")
    old.process.send_signal(signal.SIGCONT)
    assert shown["digest"] != lines(new)["digest"]
    low, high = versions(new)["services"]
    assert tuple(map(int, shown["services"].split("-")))[1] < low <= high


def test_a_directory_of_manifests_has_a_digest_without_versions(tmp_path):
    (tmp_path / "objects").mkdir()
    (tmp_path / "objects/all.json").write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": OBJECTS}))
    k = Kubedns(f"--objects-dir={tmp_path}/objects", "--drain=0s")
    try:
        k.wait_ready()
        assert versions(k) == {} and int(lines(k)["digest"], 16) > 0
    finally:
        k.stop()


A = "digest=aaaa\nscope=11\nservices=10-20\nendpointslices=12-20\n"


@pytest.mark.parametrize(
    "said, other",
    [
        ("differ", "digest=bbbb\nscope=11\nservices=15-30\nendpointslices=20-25\n"),
        ("differ", "digest=bbbb\nscope=11\nservices=9-10\nendpointslices=12-12\n"),
        (None, "digest=aaaa\nscope=11\nservices=15-30\nendpointslices=20-25\n"),
        (None, "digest=bbbb\nscope=22\nservices=15-30\nendpointslices=20-25\n"),
        ("not compared", "digest=bbbb\nscope=11\nservices=21-30\nendpointslices=12-25\n"),
        ("not compared", "digest=bbbb\nscope=11\nservices=15-30\nendpointslices=9-11\n"),
        ("not compared", "digest=bbbb\nscope=11\nservices=15-30\nendpointslices=0-0\n"),
        (None, "digest=bbbb\nscope=11\nservices=9-30\n"),
        (None, "digest=bbbb\nscope=11\n"),
        (None, None),  # an older version
    ],
)
def test_pods_are_compared_if_they_have_read_the_same(tmp_path, said, other):
    stand_in(tmp_path)
    pages = [Pages(A), Pages(A), Pages(other)]
    for name, page in zip(("dns-a", "dns-b", "dns-c"), pages):
        pod(tmp_path, name, page.server_port, page.server_port)
    code, out, err = plugin(tmp_path, "status")
    assert code == (said == "differ"), (out, err)
    assert [line.partition(":")[0] for line in out.splitlines() if line.startswith("replicas")] == ([f"replicas {said}"] if said else []), out
    for page in pages:
        page.shutdown()
        page.server_close()


@pytest.mark.parametrize("versions", ["", "services=0-0\n"])
def test_pods_with_unknown_versions_are_not_compared(tmp_path, versions):
    stand_in(tmp_path)
    for n in (1, 2):
        page = Pages(f"digest={n}\nscope=11\n{versions}")
        pod(tmp_path, f"dns-{n}", page.server_port, page.server_port)
    code, out, err = plugin(tmp_path, "status")
    assert code == 0 and "differ" not in out, (out, err)
