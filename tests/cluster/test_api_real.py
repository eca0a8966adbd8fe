"""
kubedns with the real kube-apiserver and RBAC. It runs as in a pod, whose service account has exactly the manifest's permissions. One test
gives it only kube-dns's built-in role. The audit log shows its requests.
"""

import os
import pathlib
import shutil
import sys
import time

import pytest
from realapi import RealApi

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "helpers"))
from asking import NXDOMAIN, Asker, ask_until  # noqa: E402
from kubedns_process import Kubedns  # noqa: E402
from objects import endpoint_slice, endpoints, namespace, service  # noqa: E402

RBAC = (HERE.parent.parent / "conf/kubernetes/base/rbac.yaml").read_text()
USER = "system:serviceaccount:kube-system:kube-dns"
WEB, DB = "web.shop.svc.cluster.local", "db.shop.svc.cluster.local"
OBJECTS = [
    namespace("shop"),
    namespace("empty"),
    service("web", "10.96.7.7", "shop"),
    service("db", "None", "shop"),
    endpoint_slice("db", ["10.77.0.1", "10.77.0.2"], "shop", hostnames=["db-0", "db-1"]),
    endpoints("db", ["10.77.0.1", "10.77.0.2"], "shop", hostnames=["db-0", "db-1"]),
]
QUESTIONS = {
    (WEB, "A"): {"10.96.7.7"},
    (DB, "A"): {"10.77.0.1", "10.77.0.2"},
    ("db-0." + DB, "A"): {"10.77.0.1"},
    ("nobody.shop.svc.cluster.local", "A"): NXDOMAIN,
}


@pytest.fixture
def real(tmp_path):
    """Each test has its own API server, because the tests differ in the granted permissions."""
    api = RealApi(tmp_path / "real", controllers="")
    api.apply(*OBJECTS)
    yield api
    api.stop()


@pytest.fixture
def start(real, tmp_path):
    """kubedns in a pod of kube-dns's service account."""
    running = []

    def run(*args):
        host, port = real.url.removeprefix("https://").split(":")
        env = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}
        running.append(Kubedns(*args, env=env, serviceaccount=real.service_account, directory=str(tmp_path)))
        return running[-1]

    yield run
    for kubedns in running:
        ended = kubedns.process.poll()
        print(kubedns.log()[-4000:])
        kubedns.stop()
        assert ended is None, f"kubedns ended with {ended}"


def requests(real):
    """Prints and returns the audit log's requests of our user: {(verb, resource, status): count}."""
    out = {}
    for entry in real.audit():
        if entry["user"]["username"] != USER:
            continue
        at = entry.get("objectRef", {})
        what = (entry["verb"], at.get("resource", entry["requestURI"]), entry.get("responseStatus", {}).get("code", "open"))
        out[what] = out.get(what, 0) + 1
    print("audit log:", out)
    return out


def test_with_the_rights_of_the_manifest_and_nothing_else(real, start):
    real.apply(RBAC)
    kubedns = start()
    print(f"ready after {kubedns.wait_ready():.2f} s")
    with Asker(kubedns.port, QUESTIONS) as asker:
        real.apply(service("later", "10.96.7.8", "shop"))
        ask_until(kubedns.port, "later.shop.svc.cluster.local", "A", {"10.96.7.8"})
        real.kubectl("delete", "service", "-n", "shop", "later")
        ask_until(kubedns.port, "later.shop.svc.cluster.local", "A", NXDOMAIN)
        asker.may_change((DB, "A"), {"10.77.0.1"})
        asker.may_change(("db-0." + DB, "A"), NXDOMAIN)
        real.apply(endpoint_slice("db", ["10.77.0.1"], "shop", hostnames=["db-0"]))
        ask_until(kubedns.port, DB, "A", {"10.77.0.1"})
    asker.clean()
    assert kubedns.ask("empty.svc.cluster.local") == frozenset()
    asked = requests(real)
    assert {r for _, r, _ in asked} == {"services", "endpointslices", "namespaces"}, "kubedns requested nothing else"
    assert {v for v, _, _ in asked} <= {"list", "watch"}
    assert not [s for _, _, s in asked if s == 403]
    assert sum(asked.values()) <= 6
    agents = {e["userAgent"] for e in real.audit() if e["user"]["username"] == USER}
    assert len(agents) == 1 and agents.pop().startswith("kubedns/")


def test_with_kube_dns_s_built_in_role_and_nothing_of_ours(real, start):
    """The role permits only Services and Endpoints. DNS works from Endpoints, and kubedns reports this."""
    kubedns = start()
    took = kubedns.wait_ready(30)
    print(f"ready from Endpoints after {took:.1f} s")
    with Asker(kubedns.port, QUESTIONS) as asker:
        asker.may_change((DB, "A"), {"10.77.0.1", "10.77.0.2", "10.77.0.3"})
        real.apply(endpoints("db", ["10.77.0.1", "10.77.0.2", "10.77.0.3"], "shop", hostnames=["db-0", "db-1", "db-2"]))
        ask_until(kubedns.port, DB, "A", {"10.77.0.1", "10.77.0.2", "10.77.0.3"})
    asker.clean()
    said = [line for line in kubedns.log().splitlines() if "endpointslices" in line]
    assert said, kubedns.log()
    print("\n".join(said))
    assert "endpoints" in kubedns.http("/readiness")[1].lower()
    asked = requests(real)
    assert {r for _, r, s in asked if s != 403} == {"services", "endpoints"}
    assert {r for _, r, s in asked if s == 403} == {"endpointslices", "namespaces"}
    assert sum(n for (_, _, s), n in asked.items() if s == 403) <= 30


def test_every_further_resource_with_its_flag_and_its_rule(real, start):
    """
    --pods=verified reads pods, --federations reads nodes, and --config-map reads one ConfigMap by name. A Role that grants only this
    ConfigMap is enough.
    """
    more = """
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: more}
rules:
- {apiGroups: [""], resources: [pods, nodes], verbs: [list, watch]}
- {apiGroups: [""], resources: [configmaps], resourceNames: [kube-dns], verbs: [list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: more}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: more}
subjects: [{kind: ServiceAccount, name: kube-dns, namespace: kube-system}]
"""
    real.apply(RBAC, more)
    kubedns = start("--pods=verified", "--federations=myfed=federation.example", "--config-map=kube-dns")
    kubedns.wait_ready()
    asked = requests(real)
    assert {r for _, r, _ in asked} == {"services", "endpointslices", "namespaces", "pods", "nodes", "configmaps"}
    assert not [s for _, _, s in asked if s == 403]
    for entry in real.audit():
        if entry["user"]["username"] == USER and entry["objectRef"]["resource"] == "configmaps":
            assert "metadata.name" in entry["requestURI"] and entry["objectRef"]["namespace"] == "kube-system"


def change(real):
    real.apply(service("new", "10.96.7.9", "shop"))
    real.kubectl("delete", "service", "-n", "shop", "old")


def see_change(kubedns, timeout):
    begun = time.monotonic()
    ask_until(kubedns.port, "new.shop.svc.cluster.local", "A", {"10.96.7.9"}, timeout)
    ask_until(kubedns.port, "old.shop.svc.cluster.local", "A", NXDOMAIN, timeout)
    return time.monotonic() - begun


def test_killed_and_started_again(real, start):
    """Leases and other objects make a watch's version expire at each restart. kubedns then lists each resource once more. No query fails."""
    real.apply(RBAC, service("old", "10.96.7.6", "shop"))
    kubedns = start()
    kubedns.wait_ready()
    with Asker(kubedns.port, QUESTIONS) as asker:
        for _ in range(3):
            real.kill_api()
        change(real)
        print(f"right {see_change(kubedns, 30):.2f} s after the last change")
    asker.clean()
    requests(real)
    assert kubedns.ready()


def test_away_and_back_with_an_older_etcd(real, start, tmp_path):
    real.apply(RBAC, service("old", "10.96.7.6", "shop"))
    real.stop()
    shutil.copytree(real.dir / "cp/etcd", tmp_path / "backup")
    real.start()
    kubedns = start()
    kubedns.wait_ready()
    change(real)
    see_change(kubedns, 10)
    with Asker(kubedns.port, QUESTIONS) as asker:
        real.stop()
        shutil.rmtree(real.dir / "cp/etcd")
        shutil.copytree(tmp_path / "backup", real.dir / "cp/etcd")
        time.sleep(1)
        assert kubedns.ready()
        real.start()
        begun = time.monotonic()
        ask_until(kubedns.port, "old.shop.svc.cluster.local", "A", {"10.96.7.6"}, 45)
        ask_until(kubedns.port, "new.shop.svc.cluster.local", "A", NXDOMAIN, 45)
        print(f"the older state {time.monotonic() - begun:.2f} s after the API server was ready")
    asker.clean()


def test_a_bound_token_as_a_pod_gets_it(real, start, tmp_path):
    """The token comes from the TokenRequest API, and the kubelet replaces it in the mount. Afterwards kubedns never uses the old token."""
    real.apply(RBAC, {"kind": "ServiceAccount", "apiVersion": "v1", "metadata": {"name": "kube-dns", "namespace": "kube-system"}})
    token = pathlib.Path(real.service_account) / "token"
    bound = real.kubectl("create", "token", "kube-dns", "-n", "kube-system", "--duration=10m").strip()
    (token.parent / "token.new").write_text(bound)
    os.rename(token.parent / "token.new", token)
    kubedns = start()
    kubedns.wait_ready()
    assert kubedns.ask(WEB) == {"10.96.7.7"}
    assert {r for _, r, s in requests(real) if s != 403} == {"services", "endpointslices", "namespaces"}
