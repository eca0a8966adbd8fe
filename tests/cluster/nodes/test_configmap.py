"""The ConfigMap kube-dns. Stub domains and upstreams are created, edited and broken while the pod runs and clients query."""

import json

import pytest

from cluster import http_get
from waiting import wait_for


@pytest.fixture(scope="module")
def servers(suite):
    """Two stub servers with different answers, and an upstream server for the ConfigMap."""
    names = ["db.corp.test", "x.corp.test", "a.good.test", "c.good.test", "anything.example.net", "far.example.net", "b.example.net",
             "www.example.com"]
    made = {n: suite.upstream(n, "--address=/#/", *(f"--host-record={name},{a}" for name in names)) for n, a in
            (("stub-a", "192.0.2.101"), ("stub-b", "192.0.2.102"), ("other-upstream", "192.0.2.103"))}
    yield made
    for n in made:
        suite.remove_upstream(n)


@pytest.fixture
def configure(suite):
    """Configures the cluster. There is no ConfigMap before and after the test."""
    suite.ensure()
    yield suite.configure
    suite.configure(None)
    suite.data = None


def in_force(pod):
    """Returns the generation of the newest servers file, from the nanny's metrics. Returns None if dnsmasq has not confirmed this file."""
    text = http_get(pod.address, 10056, "/metrics")[1]
    values = dict(line.rsplit(" ", 1) for line in text.splitlines() if line.startswith("nanny_config_"))
    return float(values["nanny_config_generation"]) if values["nanny_config_confirmed"] == "1" else None


def stub(**domains):
    return {"stubDomains": json.dumps({d.replace("_", "."): s for d, s in domains.items()})}


def test_stub_domain_is_made_edited_and_removed(suite, servers, configure, glibc, musl):
    configure(stub(corp_test=[servers["stub-a"]]))
    for client in (glibc, musl):
        assert suite.await_answer(client, "db.corp.test", "192.0.2.101")["held"], suite.describe()
    suite.edit_configuration(stub(corp_test=[f"{servers['stub-b']}:53"]))
    assert suite.await_answer(glibc, "db.corp.test", "192.0.2.102")["held"], suite.describe()
    configure(None)
    assert suite.await_answer(glibc, "db.corp.test", "none", 10)["held"]
    # Without the ConfigMap, queries for external names go to the servers in the node's resolv.conf.
    assert suite.lookup(glibc, "www.example.com")["addresses"] == ["192.0.2.80"]


def test_upstream_servers(suite, servers, configure, glibc, musl):
    """The name of an ExternalName Service goes there too. Names of the cluster do not."""
    configure({"upstreamNameservers": json.dumps([servers["other-upstream"]])})
    for client in (glibc, musl):
        assert suite.await_answer(client, "anything.example.net", "192.0.2.103")["held"], suite.describe()
    assert suite.lookup(glibc, "kubernetes.default")["addresses"] == ["10.96.0.1"]
    suite.plane.apply(json.dumps({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "away", "namespace": "clients"},
                                  "spec": {"type": "ExternalName", "externalName": "far.example.net"}}))
    try:
        assert suite.await_answer(glibc, "away", "192.0.2.103")["held"], suite.describe()
    finally:
        suite.plane.kubectl("-n", "clients", "delete", "service", "away")


def test_one_bad_key_keeps_its_last_good_value_and_the_others_count(suite, servers, configure, glibc):
    configure(stub(good_test=[servers["stub-a"]]))
    assert suite.await_answer(glibc, "a.good.test", "192.0.2.101")["held"]
    pod = suite.ensure(data=suite.data)[0]
    suite.edit_configuration({"stubDomains": "{ not json", "upstreamNameservers": json.dumps([servers["other-upstream"]])})
    assert suite.await_answer(glibc, "b.example.net", "192.0.2.103")["held"], suite.describe()
    assert suite.lookup(glibc, "c.good.test")["addresses"] == ["192.0.2.101"]
    assert suite.lookup(glibc, "kubernetes.default")["addresses"] == ["10.96.0.1"]

    def told():
        return any("stubDomains" in line and not line.rstrip().endswith(" 0")
                   for line in http_get(pod.address, 10056, "/metrics")[1].splitlines() if line.startswith("nanny_"))
    wait_for(told, 5, "a metric that names the key")
    wait_for(lambda: "stubDomains" in pod.container("dnsmasq").log(), 10, "a line that names the key")
    assert set(pod.restarts().values()) == {0}


def test_fifty_edits_lose_nothing(suite, servers, configure, glibc, musl, report):
    """Clients query cluster names, the stub domain and an external name during the edits."""
    configure(stub(corp_test=[servers["stub-a"]]))
    assert suite.await_answer(glibc, "x.corp.test", "192.0.2.101")["held"]
    names = ["kubernetes.default.svc.cluster.local=10.96.0.1", "www.example.com=192.0.2.80", "x.corp.test=192.0.2.101",
             "nothing.clients.svc.cluster.local=none"]
    askers = [suite.asker(glibc, "ask-ports", "10.96.0.10", 400, *names), suite.asker(musl, "resolve", 20, *names[:2])]
    pod = suite.ensure(data=suite.data)[0]
    generation = in_force(pod)
    for i in range(50):
        suite.edit_configuration(stub(corp_test=[servers["stub-a"]], **{f"edit{i}_test": [servers["stub-b"]]}))
        generation = wait_for(lambda before=generation: (in_force(pod) or 0) > before and in_force(pod), 10, f"edit {i} in force")
    results = [a.stop() for a in askers]
    for total, failures in results:
        assert not failures, failures[:5]
    total = results[0][0]
    report("ConfigMap edited 50 times", "0 lost, 0 wrong", f"{total['lost']} lost, {total['wrong']} wrong of {total['asked']}")
    assert total["asked"] > 500 and set(pod.restarts().values()) == {0}
