"""
--external-zones with the real kube-apiserver and RBAC. kubedns has only the permissions of components/external-names. There are Ingresses
and Services with a status. The Gateway API's CRDs are missing at first and then appear. They are written here with the fields that
kubedns reads.
"""

import json
import pathlib
import shutil
import sys

import pytest
import test_api_real
from realapi import RealApi
from test_api_real import requests

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "helpers"))
from asking import NXDOMAIN, ask_until  # noqa: E402
from objects import namespace, service  # noqa: E402

start = test_api_real.start  # the fixture
CONF = HERE.parent.parent / "conf/kubernetes"
ZONE, GROUP = "apps.example.com", "gateway.networking.k8s.io"
ROUTES = {"HTTPRoute": "httproutes", "GRPCRoute": "grpcroutes", "TLSRoute": "tlsroutes"}
GATEWAYS = {"Gateway": "gateways", "ListenerSet": "listenersets", **ROUTES}
READ = {"services", "endpointslices", "namespaces", "ingresses", *GATEWAYS.values()}


@pytest.fixture
def real(tmp_path):
    api = RealApi(tmp_path / "real", controllers="")
    api.apply(namespace("shop"), service("web", "10.96.7.7", "shop", type="LoadBalancer"))
    status(api, "service", "web", {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}})
    yield api
    api.stop()


def status(api, kind, name, value):
    api.kubectl("patch", kind, name, "-n", "shop", "--subresource=status", "--type=merge", "-p", json.dumps({"status": value}))


def rights(api, tmp_path, *components):
    """The base's permissions with these components, as kustomize renders them."""
    made = tmp_path / "rights"
    made.mkdir()
    shutil.copy(CONF / "base/rbac.yaml", made)
    for component in components:
        shutil.copytree(CONF / "components" / component, made / component)
    (made / "kustomization.yaml").write_text(json.dumps({"resources": ["rbac.yaml"], "components": list(components)}))
    api.kubectl("apply", "--server-side", "-k", made)


def crd(kind, plural):
    """Returns a CRD with a schema for the fields that kubedns reads. The API server keeps other fields as they are."""
    whole = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"spec": whole, "status": whole}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}, "subresources": {"status": {}}}
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{plural}.{GROUP}", "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"}},
            "spec": {"group": GROUP, "scope": "Namespaced", "versions": [version],
                     "names": {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()}}}  # fmt: skip


def ingress(api, name, host, address):
    backend = {"service": {"name": "web", "port": {"number": 80}}}
    api.apply({"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": name, "namespace": "shop"},
               "spec": {"rules": [{"host": host, "http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": backend}]}}]}})  # fmt: skip
    status(api, "ingress", name, {"loadBalancer": {"ingress": [{"ip": address}]}})


def gateway_objects(kind, name, **spec):
    return {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": {"name": name, "namespace": "shop"}, "spec": spec}


def accept(api, plural, name, word):
    conditions = [{"type": "Accepted", "status": word, "reason": "Test", "message": ""}]
    status(api, f"{plural}.{GROUP}", name, {"parents": [{"parentRef": {"name": "gw"}, "controllerName": "test/x", "conditions": conditions}]})


def test_with_the_rights_of_the_component_and_crds_that_come(real, start, tmp_path):
    rights(real, tmp_path, "external-names")
    kubedns = start(f"--external-zones={ZONE}")
    print(f"ready after {kubedns.wait_ready():.2f} s")

    def until(name, want, timeout=15):
        ask_until(kubedns.port, f"{name}.{ZONE}", "A", want, timeout)

    until("web.shop", {"192.0.2.1"})
    kubedns.wait(lambda: kubedns.log().count("does not serve this resource") == 5, 30)
    assert kubedns.http("/readiness")[1] == "ok\n" and kubedns.metric("kubedns_api_failing") == 0
    # If two Ingresses have the same host name, the older Ingress gets the name, even if kubedns saw the other one first.
    ingress(real, "old", f"www.{ZONE}", "192.0.2.2")
    until("www", {"192.0.2.2"})
    kubedns.wait(lambda: real.kubectl("get", "ingress", "old", "-n", "shop", "-o", "jsonpath={.metadata.creationTimestamp}") < now(real), 10)
    ingress(real, "a-young", f"www.{ZONE}", "192.0.2.3")
    kubedns.wait(lambda: kubedns.metric("kubedns_external_conflicts") == 1)
    until("www", {"192.0.2.2"})
    real.kubectl("delete", "ingress", "-n", "shop", "old")
    until("www", {"192.0.2.3"})
    # The CRDs appear, and then their objects.
    real.apply(*(crd(kind, plural) for kind, plural in GATEWAYS.items()))
    real.kubectl("wait", "--for=condition=Established", "--timeout=30s", *(f"crd/{p}.{GROUP}" for p in GATEWAYS.values()))
    real.apply(gateway_objects("Gateway", "gw", gatewayClassName="x", listeners=[{"name": "web", "port": 80, "protocol": "HTTP"}]))
    status(real, f"gateways.{GROUP}", "gw", {"addresses": [{"type": "IPAddress", "value": "192.0.2.33"}]})
    for kind, plural in ROUTES.items():
        real.apply(gateway_objects(kind, kind.lower(), hostnames=[f"{kind.lower()}.{ZONE}"], parentRefs=[{"name": "gw"}]))
        accept(real, plural, kind.lower(), "True")
    for kind in ROUTES:
        until(kind.lower(), {"192.0.2.33"}, 45)
    real.apply(gateway_objects("ListenerSet", "set", parentRef={"name": "gw"},
                               listeners=[{"name": "web", "port": 443, "protocol": "HTTPS", "hostname": f"set.{ZONE}"}]))  # fmt: skip
    status(real, f"listenersets.{GROUP}", "set", {"conditions": [{"type": "Accepted", "status": "True", "reason": "Test", "message": ""}]})
    until("set", {"192.0.2.33"})
    accept(real, "httproutes", "httproute", "False")
    until("httproute", NXDOMAIN)
    until("grpcroute", {"192.0.2.33"})
    status(real, f"gateways.{GROUP}", "gw", {"addresses": [{"type": "IPAddress", "value": "192.0.2.34"}]})
    until("tlsroute", {"192.0.2.34"})
    seen = requests(real)
    assert {resource for _, resource, _ in seen} == READ and {verb for verb, _, _ in seen} <= {"list", "watch"}
    assert not [what for what in seen if what[2] == 403], seen


def now(api):
    """The API server's current time: the creation time of a new object."""
    made = api.kubectl("create", "configmap", "now", "-n", "shop", "-o", "jsonpath={.metadata.creationTimestamp}")
    api.kubectl("delete", "configmap", "now", "-n", "shop")
    return made


def test_with_the_base_s_rights_alone_services_have_names(real, start, tmp_path):
    rights(real, tmp_path)
    kubedns = start(f"--external-zones={ZONE}")
    kubedns.wait_ready(30)
    ask_until(kubedns.port, f"web.shop.{ZONE}", "A", {"192.0.2.1"})
    assert "ingresses: " in kubedns.log() and "forbidden (403)" in kubedns.log()
    assert {resource for _, resource, code in requests(real) if code == 403} == {"ingresses", *GATEWAYS.values()}
