"""
--hosts-namespaces with the real kube-apiserver and RBAC. kubedns has only the Role of components/hosts in one namespace. The audit log
shows its requests.
"""

import pathlib
import sys

import pytest
import test_api_real
from realapi import RealApi
from test_api_real import requests

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "helpers"))
from asking import NXDOMAIN, ask_until  # noqa: E402
from dnsnet import Upstream  # noqa: E402
from objects import namespace, service  # noqa: E402
from test_api_external import now, rights  # noqa: E402

start = test_api_real.start  # the fixture
OUTSIDE = {"192.0.2.1"}


@pytest.fixture
def real(tmp_path):
    api = RealApi(tmp_path / "real", controllers="")
    api.apply(namespace("dns-names"), namespace("shop"), service("web", "10.96.7.7", "shop"))
    yield api
    api.stop()


def config_map(name, hosts, ns="dns-names", label="true"):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": ns, "labels": {"kubedns/hosts": label}}, "data": {"hosts": hosts}}


def test_with_the_role_of_the_component_names_of_its_namespace_alone(real, start, tmp_path):
    rights(real, tmp_path, "hosts")
    real.apply(config_map("old", "10.0.0.1 a.example\n"), config_map("plain", "10.0.0.2 b.example\n", label="false"), config_map("there", "10.0.0.3 c.example\n", ns="shop"))
    with Upstream() as up:
        kubedns = start("--hosts-namespaces=dns-names", f"--resolver={up.address}")
        kubedns.wait_ready()
        ask_until(kubedns.port, "a.example", "A", {"10.0.0.1"})
        assert kubedns.ask("b.example") == OUTSIDE and kubedns.ask("c.example") == OUTSIDE
        kubedns.wait(lambda: real.kubectl("get", "configmap", "old", "-n", "dns-names", "-o", "jsonpath={.metadata.creationTimestamp}") < now(real), 10)
        real.apply(config_map("a-young", "10.0.0.4 a.example d.example\n"))
        ask_until(kubedns.port, "d.example", "A", {"10.0.0.4"})
        assert kubedns.ask("a.example") == {"10.0.0.1"}
        kubedns.wait(lambda: "ConfigMap dns-names/a-young: hosts: a.example. is in the key hosts of ConfigMap dns-names/old; ignored" in kubedns.log())
        real.apply(config_map("bad", "10.0.0.9 web.shop.svc.cluster.local\n"))
        kubedns.wait(lambda: kubedns.metric("kubedns_hosts_configmaps_refused") == 1)
        assert kubedns.ask("web.shop.svc.cluster.local") == {"10.96.7.7"} and "ConfigMap dns-names/bad: hosts: " in kubedns.log()
        real.kubectl("delete", "configmap", "-n", "dns-names", "old")
        ask_until(kubedns.port, "a.example", "A", {"10.0.0.4"})
        real.kubectl("label", "configmap", "-n", "dns-names", "plain", "kubedns/hosts=true", "--overwrite")
        ask_until(kubedns.port, "b.example", "A", {"10.0.0.2"})
        real.kubectl("label", "configmap", "-n", "dns-names", "a-young", "kubedns/hosts-")
        ask_until(kubedns.port, "d.example", "A", OUTSIDE)
    seen = requests(real)
    assert {resource for _, resource, _ in seen} == {"services", "endpointslices", "namespaces", "configmaps"}
    assert {verb for verb, _, _ in seen} <= {"list", "watch"} and not [what for what in seen if what[2] == 403], seen
    places = {entry["objectRef"].get("namespace") for entry in real.audit() if entry["user"]["username"] == test_api_real.USER and entry["objectRef"]["resource"] == "configmaps"}
    assert places == {"dns-names"}


def test_a_namespace_without_the_role_is_named_and_holds_nothing_up(real, start, tmp_path):
    rights(real, tmp_path, "hosts")
    real.apply(config_map("a", "10.0.0.1 a.example\n"), config_map("there", "10.0.0.3 c.example\n", ns="shop"))
    with Upstream() as up:
        kubedns = start("--hosts-namespaces=shop,dns-names", f"--resolver={up.address}")
        kubedns.wait_ready(30)
        ask_until(kubedns.port, "a.example", "A", {"10.0.0.1"})
        assert kubedns.ask("c.example") == OUTSIDE and kubedns.ask("nobody.shop.svc.cluster.local") == NXDOMAIN
        kubedns.wait(lambda: "configmaps/shop: denied, so their names are missing" in kubedns.http("/readiness")[1], 30)
        assert (kubedns.metric("kubedns_api_failing", resource="configmaps/shop"), kubedns.metric("kubedns_api_failing", resource="configmaps/dns-names")) == (1, 0)
