"""Each topology and engine on real nodes, for pods of each node."""

import pytest

import bed
from cluster import DOMAIN
from nodes import TOPOLOGIES
from operator_shell import section
from run import run


@pytest.fixture(scope="module")
def clients(suite):
    """A client on each node, one with glibc and one with musl."""
    return [suite.client(f"on-{n}", image, nodeName=f"n{n}") for n, image in zip(bed.node_numbers(), ("dnst-glibc", "dnst-musl"))]


def dig(client, *args):
    """What dig prints in the pod's network. The pod's resolv.conf has the address of the Service."""
    return run("nsenter", "-t", client.pid, "-n", "dig", "+short", "+time=2", "+tries=2", *args, check=False).splitlines()


def answers(suite, clients):
    for client in clients:
        assert suite.lookup(client, "kubernetes.default")["addresses"] == [suite.api_ip]
        assert suite.lookup(client, "www.example.com")["addresses"] == ["192.0.2.80"]
        assert suite.ask(client, "reverse", suite.api_ip)[0]["name"] == f"kubernetes.default.svc.{DOMAIN}"
        for transport in ("+notcp", "+tcp"):
            assert dig(client, transport, f"@{suite.dns_ip}", "SRV", f"_https._tcp.kubernetes.default.svc.{DOMAIN}") == [
                f"0 100 443 kubernetes.default.svc.{DOMAIN}."]
            assert dig(client, transport, f"@{suite.dns_ip}", "AAAA", "six.example.com") == ["2001:db8::80"]


@pytest.mark.parametrize("overlay", TOPOLOGIES)
def test_topology_answers(suite, clients, overlay):
    with suite.topology(overlay):
        answers(suite, clients)
        pods = suite.answering(overlay)
        # Each pod, because a client of node-service and node-local uses that of its own node.
        for client in clients:
            for pod in pods if overlay != "node-local" else ():
                assert dig(client, f"@{pod.address}", "SRV", f"_https._tcp.kubernetes.default.svc.{DOMAIN}"), pod.name
        assert all(set(p.restarts().values()) == {0} for p in pods)


def test_unbound_answers(suite, clients):
    suite.reinstall()
    suite.install("mine", 1, files={"mine/kustomization.yaml": """apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources: [../front]
components: [../components/engine-unbound]
"""})
    assert "unbound" in suite.await_rollout("kube-dns")[0].container("dnsmasq").processes().values()
    answers(suite, clients)


def test_dns64(suite, clients):
    """The overlay of docs/ipv6.md and the results that it promises."""
    suite.reinstall()
    overlay = next(b for b in section("docs/ipv6.md", None) if b.startswith("# conf/kubernetes/mine"))
    suite.install("mine", 1, files={"mine/kustomization.yaml": overlay})
    for client in clients:
        def aaaa(name, client=client):
            return dig(client, f"@{suite.dns_ip}", "AAAA", name)
        assert aaaa("ipv4only.arpa") == ["64:ff9b::c000:aa"]
        assert aaaa("www.example.com") == ["64:ff9b::c000:250"]
        assert aaaa("six.example.com") == ["2001:db8::80"]
        assert aaaa(f"kubernetes.default.svc.{DOMAIN}") == ([suite.api_ip] if ":" in suite.api_ip else [])
        assert dig(client, f"@{suite.dns_ip}", "A", "www.example.com") == ["192.0.2.80"]
