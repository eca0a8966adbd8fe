"""
--clusterset-domain with the real kube-apiserver and RBAC. kubedns has only the permissions of components/multicluster. The ServiceImport
CRD is missing at first and then appears, in either version of its group. It is written here with the fields that kubedns reads.
"""

import pathlib
import sys

import pytest
import test_api_real
from realapi import RealApi
from test_api_external import rights
from test_api_real import requests

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "helpers"))
from asking import NXDOMAIN, ask_until  # noqa: E402
from objects import endpoint_slice, namespace, service  # noqa: E402

start = test_api_real.start  # the fixture
ZONE, GROUP = "clusterset.local", "multicluster.x-k8s.io"
OF = "multicluster.kubernetes.io"


@pytest.fixture
def real(request, tmp_path):
    api = RealApi(tmp_path / "real", controllers="", flags=getattr(request, "param", ()))
    api.apply(namespace("shop"), service("web", "10.96.7.7", "shop"))
    yield api
    api.stop()


def crd(*versions):
    """
    Returns the CRD with these versions. The last version is the stored one. The fields that kubedns reads have a schema. The API server
    keeps other fields as they are.
    """
    ports = {"type": "array", "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "required": ["port"],
                                        "properties": {"port": {"type": "integer"}, "name": {"type": "string"}, "protocol": {"type": "string"}}}}  # fmt: skip
    spec = {"type": "object", "required": ["type", "ports"], "x-kubernetes-preserve-unknown-fields": True,
            "properties": {"type": {"type": "string", "enum": ["ClusterSetIP", "Headless"]}, "ports": ports,
                           "ips": {"type": "array", "maxItems": 2, "items": {"type": "string"}}}}  # fmt: skip
    schema = {"type": "object", "properties": {"spec": spec}}
    served = [{"name": v, "served": True, "storage": v == versions[-1], "schema": {"openAPIV3Schema": schema}} for v in versions]
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": f"serviceimports.{GROUP}", "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"}},
            "spec": {"group": GROUP, "scope": "Namespaced", "versions": served,
                     "names": {"kind": "ServiceImport", "listKind": "ServiceImportList", "plural": "serviceimports", "singular": "serviceimport"}}}  # fmt: skip


def install(api, *versions):
    api.apply(crd(*versions))
    api.kubectl("wait", "--for=condition=Established", "--timeout=30s", f"crd/serviceimports.{GROUP}")


def imported(name, *ips, version="v1alpha1", ports=(("https", 443),)):
    made = [{"name": n, "port": p, "protocol": "TCP"} for n, p in ports]
    return {"apiVersion": f"{GROUP}/{version}", "kind": "ServiceImport", "metadata": {"name": name, "namespace": "shop"},
            "spec": {"type": "ClusterSetIP" if ips else "Headless", "ports": made, **({"ips": list(ips)} if ips else {})}}  # fmt: skip


def slice_of(name, cluster, addresses, **kw):
    made = endpoint_slice(name, addresses, "shop", suffix=cluster, ports=(("https", 443),), **kw)
    made["metadata"]["labels"] = {f"{OF}/service-name": name, f"{OF}/source-cluster": cluster}
    return made


def until(kubedns, name, want, timeout=15, type_="A"):
    ask_until(kubedns.port, f"{name}.shop.svc.{ZONE}", type_, want, timeout)


@pytest.mark.parametrize("version", ["v1alpha1", "v1beta1"])
def test_with_the_rights_of_the_component_and_a_crd_that_comes(real, start, tmp_path, version):
    rights(real, tmp_path, "multicluster")
    kubedns = start(f"--clusterset-domain={ZONE}", "--nameservers=127.0.0.1:9")
    print(f"ready after {kubedns.wait_ready():.2f} s")
    until(kubedns, "web", NXDOMAIN)
    kubedns.wait(lambda: "does not serve this resource" in kubedns.log(), 30)
    assert kubedns.http("/readiness")[1] == "ok\n" and kubedns.metric("kubedns_api_failing") == 0
    install(real, version)
    real.apply(imported("web", "10.42.0.1", "fd42::1", version=version), imported("db", version=version),
               slice_of("db", "east", ["10.1.0.1", "10.1.0.2"], hostnames=["db-0", "db-1"]), slice_of("db", "west", ["10.2.0.1"], hostnames=["db-0"]))  # fmt: skip
    until(kubedns, "web", {"10.42.0.1"}, 45)
    until(kubedns, "web", {"fd42::1"}, type_="AAAA")
    until(kubedns, "db", {"10.1.0.1", "10.1.0.2", "10.2.0.1"})
    until(kubedns, "db-0.west.db", {"10.2.0.1"})
    until(kubedns, "_https._tcp.db", {f"0 33 443 {h}.db.shop.svc.{ZONE}." for h in ("db-0.east", "db-1.east", "db-0.west")}, type_="SRV")
    assert kubedns.ask("web.shop.svc.cluster.local") == {"10.96.7.7"}
    real.apply(imported("web", "10.42.0.2", version=version))
    until(kubedns, "web", {"10.42.0.2"})
    real.kubectl("delete", "endpointslice", "-n", "shop", "db-west")
    until(kubedns, "db-0.west.db", NXDOMAIN)
    real.kubectl("delete", f"serviceimports.{GROUP}", "-n", "shop", "db")
    until(kubedns, "db", NXDOMAIN)
    seen = requests(real)
    assert {resource for _, resource, _ in seen} == {"services", "endpointslices", "namespaces", "serviceimports"}
    assert {verb for verb, _, _ in seen} <= {"list", "watch"} and not [what for what in seen if what[2] == 403], seen


def test_if_an_api_version_disappears_the_other_version_is_read(real, start, tmp_path):
    rights(real, tmp_path, "multicluster")
    install(real, "v1alpha1", "v1beta1")
    real.apply(imported("web", "10.42.0.1"))
    kubedns = start(f"--clusterset-domain={ZONE}", "--nameservers=127.0.0.1:9")
    kubedns.wait_ready()
    until(kubedns, "web", {"10.42.0.1"})
    made = crd("v1alpha1", "v1beta1")
    made["spec"]["versions"][0]["served"] = False
    real.apply(made)
    real.kill_api()  # without this, the open watch of the removed version could stay open for a while
    real.apply(imported("web", "10.42.0.2", version="v1beta1"))
    until(kubedns, "web", {"10.42.0.2"}, 60)


@pytest.mark.parametrize("real", [["--feature-gates=WatchList=false"]], indirect=True, ids=["no WatchList"])
def test_where_there_is_no_watch_list_imports_are_listed_in_pages(real, start, tmp_path):
    rights(real, tmp_path, "multicluster")
    install(real, "v1alpha1")
    real.apply(*[imported(f"web-{i}", f"10.42.{i >> 8}.{i & 255}") for i in range(501)])
    kubedns = start(f"--clusterset-domain={ZONE}", "--nameservers=127.0.0.1:9")
    kubedns.wait_ready()
    until(kubedns, "web-0", {"10.42.0.0"})
    until(kubedns, "web-500", {"10.42.1.244"})
    assert "serviceimports: the API server has no watch lists" in kubedns.log() and "serviceimports: synced, 501 objects by list" in kubedns.log()
    real.apply(imported("web-0", "10.42.9.9"))
    until(kubedns, "web-0", {"10.42.9.9"})
    real.kubectl("delete", f"serviceimports.{GROUP}", "-n", "shop", "web-1")
    until(kubedns, "web-1", NXDOMAIN)


def test_with_the_base_s_rights_alone_the_cluster_s_names_are_answered(real, start, tmp_path):
    rights(real, tmp_path)
    install(real, "v1alpha1")
    real.apply(imported("web", "10.42.0.1"))
    kubedns = start(f"--clusterset-domain={ZONE}")
    kubedns.wait_ready(30)
    assert kubedns.ask("web.shop.svc.cluster.local") == {"10.96.7.7"}
    until(kubedns, "web", NXDOMAIN)
    assert "serviceimports: " in kubedns.log() and "forbidden (403)" in kubedns.log()
    assert {resource for _, resource, code in requests(real) if code == 403} == {"serviceimports"}
