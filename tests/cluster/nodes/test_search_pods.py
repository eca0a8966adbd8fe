"""A pod whose resolv.conf has the search domain of the policy in conf/kubernetes/search: for each name, it sends one query of each type."""

import json
import re
import shutil

import pytest
import yaml

from cluster import DNS_IP, DOMAIN, REGISTRY, ROOT, http_get
from waiting import wait_for


@pytest.fixture
def searcher(suite, tmp_path):
    """A pod that was created while the policy was in force."""
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "probe", "namespace": "clients"},
           "spec": {"containers": [{"name": "c", "image": "example/none"}]}}
    shutil.copytree(ROOT / "conf/kubernetes", tmp_path / "kubernetes")
    settings = tmp_path / "kubernetes/settings/settings.yaml"
    settings.write_text(settings.read_text().replace("clusterIP: SET-ME", f"clusterIP: {DNS_IP}").replace("registry: SET-ME", f"registry: {REGISTRY}"))
    suite.plane.kubectl("apply", "-k", tmp_path / "kubernetes/search")
    try:
        wait_for(lambda: '"dnsPolicy": "None"' in suite.plane.kubectl("create", "--dry-run=server", "-o", "json", "-f", "-", input=json.dumps(pod)),
                 60, "the policy in force")
        yield suite.client("searcher")
    finally:
        suite.plane.kubectl("delete", "-k", tmp_path / "kubernetes/search")
        suite.plane.kubectl("-n", "clients", "delete", "pod", "searcher", "--ignore-not-found")


def test_one_query_a_type_for_each_name(suite, searcher, report):
    (server,) = suite.ensure("front", 1)
    suite.namespace("prod")
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "prod"}, "spec": {"ports": [{"port": 80}]}}
    suite.plane.apply(yaml.safe_dump(service))
    try:
        prod, near = suite.api.get("/api/v1/namespaces/prod/services/web")["spec"]["clusterIP"], suite.service("searched")
        assert suite.await_answer(searcher, f"web.prod.svc.{DOMAIN}.", prod)["held"]

        def queries():
            metrics = http_get(server.address, 10055, "/metrics")[1]
            return [sum(map(int, re.findall(rf'^kubedns_dns_requests_total{{[^}}]*type="{t}"[^}}]*}} (\d+)$', metrics, re.M))) for t in ("A", "AAAA")]

        for name, address in (("searched", near), ("web.prod", prod), ("web.prod.svc", prod), (f"web.prod.svc.{DOMAIN}", prod),
                              ("www.example.com", "192.0.2.80")):
            before = queries()
            got = suite.lookup(searcher, name)["addresses"]
            sent = [now - was for now, was in zip(queries(), before, strict=True)]
            report(f"{name}: addresses; numbers of A and AAAA queries", f"{[address]}; [1, 1]", f"{got}; {sent}")
            assert got == [address] and sent == [1, 1], name
    finally:
        suite.plane.kubectl("-n", "clients", "delete", "service", "searched", "--ignore-not-found")
        suite.plane.kubectl("delete", "namespace", "prod", "--wait=false")
