"""
Objects created with kubectl on the real control plane: how soon and how correctly containers can resolve their names.

The tests run in both topologies. In the classic topology, dnsmasq caches a name for its TTL. In the front topology there is no cache.
"""

import json
import statistics

import pytest
import yaml

from cluster import DOMAIN, query, records
from waiting import wait_for


NS = "tenants"
TTL_S = 30


@pytest.fixture(scope="module", params=["replace-kube-dns", "front"])
def overlay(request, suite):
    suite.ensure(request.param, 3)
    suite.namespace(NS)
    yield request.param
    suite.plane.kubectl("-n", NS, "delete", "deployments,statefulsets,services", "--all", "--wait=true")


@pytest.fixture
def dns(suite, overlay):
    suite.ensure(overlay, 3)
    return suite


def service(dns, name):
    return dns.api.get(f"/api/v1/namespaces/{NS}/services/{name}")


def pod_addresses(dns, app):
    pods = dns.api.get(f"/api/v1/namespaces/{NS}/pods?labelSelector=app={app}")["items"]
    return sorted(p["status"]["podIP"] for p in pods
                  if "deletionTimestamp" not in p["metadata"] and p.get("status", {}).get("podIP"))


def fqdn(name):
    return f"{name}.{NS}.svc.{DOMAIN}"


def test_every_kind_of_service(dns, overlay, glibc, musl, report):
    """kubectl creates all Services at once. The report has the time from the end of kubectl to the first right answer."""
    kinds = {
        "web": dns.workload("web", NS),
        "db": dns.workload("db", NS, kind="StatefulSet", headless=True),
        "both": dns.workload("both", NS, ipFamilyPolicy="RequireDualStack"),
        "outside": [{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "outside", "namespace": NS},
                     "spec": {"type": "ExternalName", "externalName": "www.example.com"}}],
        "empty": dns.workload("empty", NS, replicas=0),
    }
    times = []
    for name, made in kinds.items():
        expect = {"outside": "192.0.2.80", "both": "any"}.get(name, "any")
        times += dns.measure([glibc, musl], f"{name}.{NS}", expect, lambda made=made: dns.plane.apply(yaml.safe_dump_all(made)))
    median, p99 = statistics.median(times), sorted(times)[int(len(times) * 0.99)]
    report(f"first answer after kubectl, {overlay}", "within 1 s on a quiet machine", f"median {median * 1e3:.0f} ms, p99 {p99 * 1e3:.0f} ms, n={len(times)}")

    # Each pod has its own dnsmasq, which returns an expired negative answer once more (nanny(8), --use-stale-cache).
    both = service(dns, "both")["spec"]["clusterIPs"]
    assert len(both) == 2 and dns.await_answer(glibc, fqdn("both"), ",".join(both))["held"]
    assert dns.await_answer(musl, f"empty.{NS}", service(dns, "empty")["spec"]["clusterIP"])["held"]
    db = wait_addresses(dns, "db", 3)
    for client in (glibc, musl):
        got = dns.await_answer(client, fqdn("db"), ",".join(db), TTL_S + 5)
        assert got["held"], (db, got)


def wait_addresses(dns, app, count):
    wait_for(lambda: len(pod_addresses(dns, app)) == count, 15, f"{count} pods of {app}")
    return pod_addresses(dns, app)


def test_programming_time(dns, overlay, glibc, musl, report):
    """Forty Services, one after the other. Measures from the API server's reply to the first right answer in a container."""
    times = []
    for i in range(20):
        name = f"quick-{overlay}-{i}"
        body = {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}]}}
        times += dns.measure([glibc, musl], f"{name}.{NS}", "any",
                             lambda b=body: dns.api.request("POST", f"/api/v1/namespaces/{NS}/services", b))
    times.sort()
    report(f"API reply to answer, {overlay}", "p99 within 1 s on a quiet machine",
           f"median {times[len(times) // 2] * 1e3:.0f} ms, p99 {times[int(len(times) * .99)] * 1e3:.0f} ms, n={len(times)}")


def test_pods_killed_and_moved(dns, overlay, glibc, report):
    """A StatefulSet's pod dies and returns with another address, and a Deployment's pods are replaced. The names follow."""
    dns.plane.apply(yaml.safe_dump_all(dns.workload("moving", NS, kind="StatefulSet", headless=True)))
    before = wait_addresses(dns, "moving", 3)
    assert dns.await_answer(glibc, fqdn("moving-1.moving"), "any")["held"]
    old = dns.lookup(glibc, fqdn("moving-1.moving"))["addresses"]
    patience = 10 if overlay == "front" else TTL_S + 10
    dns.plane.kubectl("-n", NS, "delete", "pod", "moving-1", "--wait=true")
    after = wait_addresses(dns, "moving", 3)
    new = sorted(set(after) - set(before))
    assert len(new) == 1 and new != old
    got = dns.await_answer(glibc, fqdn("moving-1.moving"), new[0], patience)
    assert got["held"], (new, got, dns.describe())
    assert dns.await_answer(glibc, fqdn("moving"), ",".join(after), patience)["held"]
    # kubedns itself shows the change at once, for reverse names too.
    reverse = query(dns.ensure(overlay, 3)[0].address, reverse_name(new[0]), "PTR")
    assert records(reverse) == [fqdn("moving-1.moving") + "."]
    report(f"pod moved, {overlay}", "name follows" + ("" if overlay == "front" else " within its TTL"), f"{old[0]} -> {new[0]}")


def reverse_name(address):
    import dns.reversename
    return dns.reversename.from_address(address)


def test_scaled_to_nothing_is_no_such_name(dns, overlay, glibc):
    dns.plane.apply(yaml.safe_dump_all(dns.workload("shrinking", NS, kind="StatefulSet", headless=True, replicas=2)))
    assert dns.await_answer(glibc, fqdn("shrinking"), "any")["held"]
    dns.plane.kubectl("-n", NS, "scale", "statefulset/shrinking", "--replicas=0")
    assert dns.await_answer(glibc, fqdn("shrinking"), "none", 15 + (0 if overlay == "front" else TTL_S))["held"]


def test_renamed_service(dns, overlay, glibc):
    """The old name disappears and the new one appears. So does the PTR of an address that is used again."""
    dns.plane.apply(yaml.safe_dump_all(dns.workload("before", NS, replicas=1)))
    assert dns.await_answer(glibc, fqdn("before"), "any")["held"]
    address = service(dns, "before")["spec"]["clusterIP"]
    dns.plane.kubectl("-n", NS, "delete", "service", "before")
    renamed = dns.workload("after", NS, replicas=1, clusterIP=address)[0]
    dns.plane.apply(json.dumps(renamed))
    assert dns.await_answer(glibc, fqdn("after"), address)["held"]
    patience = 10 if overlay == "front" else TTL_S + 5
    assert dns.await_answer(glibc, fqdn("before"), "none", patience)["held"]
