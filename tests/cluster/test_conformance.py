"""The DNS cases of Kubernetes' own end-to-end suite, rewritten here. The queries come from containers."""

import pytest
import yaml

from cluster import DOMAIN, query, records
from run import docker
from waiting import wait_for

NS = "conformance"


@pytest.fixture(scope="module")
def dns(suite):
    suite.ensure("front", 1)
    suite.namespace(NS)
    yield suite
    suite.plane.kubectl("-n", NS, "delete", "deployments,statefulsets,services", "--all")


@pytest.fixture(params=["glibc", "musl"])
def client(request, glibc, musl):
    return {"glibc": glibc, "musl": musl}[request.param]


def apply(dns, *made):
    dns.plane.apply(yaml.safe_dump_all(made))


def test_dns_for_the_cluster(dns, client):
    """Queries the names of the API server's own Service, from the shortest name that works to the full name."""
    for name in ("kubernetes.default", "kubernetes.default.svc", f"kubernetes.default.svc.{DOMAIN}", f"kubernetes.default.svc.{DOMAIN}."):
        assert dns.lookup(client, name)["addresses"] == ["10.96.0.1"], name
    assert dns.ask(client, "reverse", "10.96.0.1")[0]["name"] == f"kubernetes.default.svc.{DOMAIN}"


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
    apply(dns, *dns.workload("near", "clients", replicas=0))  # a pod in this namespace would be a real container
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


def test_etc_hosts_of_the_pod(dns, client):
    """Checks the kubelet's entries in /etc/hosts. No DNS server may affect these."""
    text = docker("exec", client.container("client").id, "cat", "/etc/hosts", check=False)
    if client.name == "glibc":
        assert client.address in text and client.name in text
    assert dns.lookup(client, client.name)["addresses"] == [client.address]


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
        assert dns.lookup(pod, name)["addresses"] == [pod.address]  # the pod finds its own name in /etc/hosts
    finally:
        dns.plane.kubectl("-n", "clients", "delete", "service/sub", "pod/named", "--wait=true")


def test_pod_names(dns, client):
    address = client.address.replace(".", "-")
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


def test_large_stateful_set(dns, client, glibc):
    """Queries a name with a hundred pods. Their addresses do not fit into a UDP reply."""
    name = f"large-{client.name}"
    apply(dns, *dns.workload(name, NS, kind="StatefulSet", replicas=100, headless=True))

    def pods():
        items = dns.api.get(f"/api/v1/namespaces/{NS}/pods?labelSelector=app={name}")["items"]
        found = sorted(p["status"].get("podIP", "") for p in items)
        return found if len(found) == 100 and all(found) else None
    wanted = wait_for(pods, 60, "100 pods")
    server = dns.ensure("front", 1)[0].address
    wait_for(lambda: len(records(query(server, f"{name}.{NS}.svc.{DOMAIN}.", tcp=True))) == 100, 20, "100 addresses")
    got = dns.lookup(client, f"{name}.{NS}")["addresses"]
    if client is glibc:
        assert sorted(got) == wanted
    else:
        # musl 1.2.3 has no TCP, so it uses the records that fit into the UDP reply. These must be right, and they must vary.
        assert got and set(got) <= set(wanted)
        more = [dns.lookup(client, f"{name}.{NS}")["addresses"] for _ in range(5)]
        assert len({tuple(m) for m in [got, *more]}) > 1
    assert dns.lookup(client, f"{name}-99.{name}.{NS}")["addresses"] == \
        [p["status"]["podIP"] for p in dns.api.get(f"/api/v1/namespaces/{NS}/pods?labelSelector=app={name}")["items"]
         if p["metadata"]["name"] == f"{name}-99"]
    srv = records(query(server, f"_http._tcp.{name}.{NS}.svc.{DOMAIN}.", "SRV", tcp=True))
    assert len(srv) == 100
