"""Names of Services and pods, looked up in pods with the C library's own resolver."""

import pytest
import yaml

from cluster import DOMAIN, query, records
from waiting import wait_for

NS = "names"


@pytest.fixture(scope="module")
def dns(suite):
    suite.ensure("front", 1)
    suite.namespace(NS)
    yield suite
    suite.plane.kubectl("delete", "namespace", NS, "--wait=false")


@pytest.fixture(params=["glibc", "musl"])
def client(request, glibc, musl):
    return {"glibc": glibc, "musl": musl}[request.param]


def apply(dns, *made):
    dns.plane.apply(yaml.safe_dump_all(made))


def test_dns_for_the_cluster(dns, client):
    """Queries the names of the API server's own Service, from the shortest name that works to the full name."""
    for name in ("kubernetes.default", "kubernetes.default.svc", f"kubernetes.default.svc.{DOMAIN}", f"kubernetes.default.svc.{DOMAIN}."):
        assert dns.lookup(client, name)["addresses"] == [dns.api_ip], name
    assert dns.ask(client, "reverse", dns.api_ip)[0]["name"] == f"kubernetes.default.svc.{DOMAIN}"


def test_dns_for_services(dns, client):
    apply(dns, *dns.workload("plain", NS), *dns.workload("bare", NS, headless=True))
    address = dns.api.get(f"/api/v1/namespaces/{NS}/services/plain")["spec"]["clusterIP"]
    assert dns.await_answer(client, f"plain.{NS}", address)["held"]
    assert dns.ask(client, "reverse", address)[0]["name"] == f"plain.{NS}.svc.{DOMAIN}"
    assert dns.await_answer(client, f"bare.{NS}", "any")["held"]
    server = dns.ensure("front", 1)[0].address
    endpoint = wait_for(lambda: records(query(server, f"_http._tcp.bare.{NS}.svc.{DOMAIN}.", "SRV"))[:1], 10, "SRV of a headless Service")
    target = endpoint[0].split()[3]
    assert dns.lookup(client, target)["addresses"], target


def test_partially_qualified_names(dns, client):
    """Uses the search list of a pod in the same namespace, and the search list of a pod in another namespace."""
    apply(dns, *dns.workload("near", "clients", replicas=0))
    try:
        assert dns.await_answer(client, "near", "any")["held"]
        for name in ("near.clients", "near.clients.svc", f"near.clients.svc.{DOMAIN}"):
            assert dns.lookup(client, name)["addresses"], name
        assert not dns.lookup(client, f"near.{NS}")["addresses"]
    finally:
        dns.plane.kubectl("-n", "clients", "delete", "service/near", "deployment/near")


def test_names_outside_through_the_search_list(dns, client):
    """With ndots:5, a resolver tries such a name in the cluster's domains first. Each attempt must get NXDOMAIN, not an error."""
    assert dns.lookup(client, "www.example.com")["addresses"] == ["192.0.2.80"]
    assert dns.lookup(client, "www.example.com.")["addresses"] == ["192.0.2.80"]


def test_hostname_and_subdomain_of_pods(dns, client):
    """A pod with hostname and subdomain under a headless Service has its own name. Another pod queries it."""
    apply(dns, {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "sub", "namespace": "clients"},
                "spec": {"clusterIP": "None", "selector": {"app": "named"}, "ports": [{"port": 80}]}})
    pod = dns.client("named", hostname="host-1", subdomain="sub")
    try:
        name = f"host-1.sub.clients.svc.{DOMAIN}"
        assert dns.await_answer(client, "host-1.sub", pod.address)["held"]
        assert dns.lookup(client, name)["addresses"] == [pod.address]
        assert dns.ask(client, "reverse", pod.address)[0]["name"] == name
        assert pod.address in dns.lookup(pod, name)["addresses"]  # in its own /etc/hosts, with its IPv6 address
    finally:
        dns.plane.kubectl("-n", "clients", "delete", "service/sub", "pod/named", "--wait=true")


def test_pod_names(dns, client):
    address = client.address.replace(".", "-").replace(":", "-")
    assert dns.lookup(client, f"{address}.clients.pod.{DOMAIN}")["addresses"] == [client.address]


def test_external_name_becomes_cluster_ip(dns, client):
    name = f"changing-{client.name}"
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": NS},
               "spec": {"type": "ExternalName", "externalName": "www.example.com"}}
    apply(dns, service)
    assert dns.await_answer(client, f"{name}.{NS}", "192.0.2.80")["held"]
    dns.api.patch(f"/api/v1/namespaces/{NS}/services/{name}", {"spec": {"externalName": "other.upstream.test"}})
    assert dns.await_answer(client, f"{name}.{NS}", "192.0.2.81")["held"]
    dns.api.patch(f"/api/v1/namespaces/{NS}/services/{name}",
                  {"spec": {"type": "ClusterIP", "externalName": None, "ports": [{"port": 80}]}})
    address = dns.api.get(f"/api/v1/namespaces/{NS}/services/{name}")["spec"]["clusterIP"]
    assert dns.await_answer(client, f"{name}.{NS}", address)["held"]
    server = dns.ensure("front", 1)[0].address
    assert not records(query(server, f"{name}.{NS}.svc.{DOMAIN}.", "CNAME"))


@pytest.fixture(scope="module")
def large(dns):
    """A headless Service with a hundred pods. Only its slice exists. Returns its addresses."""
    wanted = [f"10.200.0.{i + 1}" for i in range(100)]
    apply(dns, {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "large", "namespace": NS},
                "spec": {"clusterIP": "None", "ports": [{"name": "http", "port": 80}]}},
          {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
           "metadata": {"name": "large-1", "namespace": NS, "labels": {"kubernetes.io/service-name": "large"}}, "ports": [{"name": "http", "port": 80}],
           "endpoints": [{"addresses": [a], "hostname": f"large-{i}", "conditions": {"ready": True}} for i, a in enumerate(wanted)]})
    server = dns.ensure("front", 1)[0].address
    wait_for(lambda: len(records(query(server, f"large.{NS}.svc.{DOMAIN}.", tcp=True))) == 100, 20, "100 addresses")
    return wanted


def test_large_service(dns, large, client, glibc):
    """Queries a name with a hundred addresses. They do not fit into a UDP reply."""
    got = dns.lookup(client, f"large.{NS}")["addresses"]
    if client is glibc:
        assert sorted(got) == sorted(large)
    else:
        # musl 1.2.3 has no TCP, so it uses the records that fit into the UDP reply. These must be right, and they must vary.
        assert got and set(got) <= set(large)
        more = [dns.lookup(client, f"large.{NS}")["addresses"] for _ in range(5)]
        assert len({tuple(m) for m in [got, *more]}) > 1
    assert dns.lookup(client, f"large-99.large.{NS}")["addresses"] == [large[99]]
