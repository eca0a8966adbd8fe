"""
components/networkpolicy and the policies of docs/network-policies.md: which peer may connect to which port. The tests evaluate the policies
by the rules of the API reference, for the pods of the overlays that kubectl renders.
"""

import ipaddress
import re
import shutil
import subprocess

import pytest
import yaml
from overlays import ROOT, copy, needs_kubectl, render

NAME = "kubernetes.io/metadata.name"
PROMETHEUS = {"app.kubernetes.io/name": "prometheus"}
# The ports that other pods use, and which pods use them. The kubelet is not in the list, because it runs on the node and no policy can block it.
FOR_ALL, FOR_PROMETHEUS = {(53, "UDP"), (53, "TCP")}, {(10054, "TCP"), (10055, "TCP"), (10056, "TCP")}


def selects(selector, labels):
    """Evaluates a LabelSelector: all of matchLabels and matchExpressions must hold. An empty selector matches everything."""
    for e in selector.get("matchExpressions", []):
        assert e["operator"] == "In"
        if labels.get(e["key"]) not in e["values"]:
            return False
    return all(labels.get(k) == v for k, v in selector.get("matchLabels", {}).items())


def may_connect(policies, pod, peer, port, ns="shop"):
    """
    True if a peer pod with these labels may connect. If an ingress policy selects a pod, only the rules of such policies allow connections
    to the pod.
    """
    chosen = [p["spec"] for p in policies if selects(p["spec"]["podSelector"], pod) and "Ingress" in p["spec"]["policyTypes"]]
    for rule in (r for spec in chosen for r in spec.get("ingress", [])):
        ports = [(p["port"], p["protocol"]) for p in rule.get("ports", [])]
        peers = rule.get("from", [])
        if (not ports or port in ports) and (not peers or any(selects(p["namespaceSelector"], {NAME: ns}) and selects(p["podSelector"], peer) for p in peers)):
            return True
    return not chosen


@needs_kubectl
@pytest.mark.parametrize("base, name, components", [("replace-kube-dns", "kube-dns", []), ("replace-kube-dns", "kube-dns", ["front"]),
                                                    ("beside", "kube-dns-beside", []), ("node-service", "kube-dns-node", [])])
def test_53_for_all_metrics_for_prometheus_and_nothing_else(tmp_path, base, name, components):
    objects = render(copy(tmp_path, prometheusNamespace="observability"), base, "networkpolicy", *components)
    policies = [o for (kind, _), o in objects.items() if kind == "NetworkPolicy"]
    assert all(o["metadata"]["namespace"] == "kube-system" for o in policies)
    (template,) = [o["spec"]["template"] for (kind, n), o in objects.items() if n == name and kind in ("Deployment", "DaemonSet")]
    labels, spec = template["metadata"]["labels"], template["spec"]
    ports = {(p["containerPort"], p["protocol"]) for c in spec["containers"] for p in c["ports"]}
    assert FOR_ALL | FOR_PROMETHEUS <= ports, "the policy opens a port that no container has"
    for port in ports | {(10053, "UDP"), (10153, "UDP"), (8081, "TCP"), (22, "TCP")}:
        assert may_connect(policies, labels, {"app": "client"}, port) == (port in FOR_ALL), port
        # A pod in any namespace can carry this label.
        assert may_connect(policies, labels, PROMETHEUS, port) == (port in FOR_ALL), port
        assert may_connect(policies, labels, {"app": "client"}, port, "observability") == (port in FOR_ALL), port
        assert may_connect(policies, labels, PROMETHEUS, port, "observability") == (port in FOR_ALL | FOR_PROMETHEUS), port
    assert may_connect(policies, {"k8s-app": "other"}, {}, (22, "TCP")), "the policy must not affect other pods"


PAGE = (ROOT / "docs/network-policies.md").read_text()
CLIENT, DNS_PORTS = {"app": "client"}, {(53, "UDP"), (53, "TCP")}
OTHER_PORTS = FOR_PROMETHEUS | {(8081, "TCP"), (10053, "UDP"), (443, "TCP")}


def block(name):
    """The block of the page that begins with this file name."""
    (text,) = re.findall(rf"```(?:yaml)?\n(# {re.escape(name)}.*?)```", PAGE, re.S)
    return text


def may_send(policy, port, address=None, ns=None, labels=None):
    """
    True if a pod of the policy's namespace may send to this port, at an address outside the pod network, or at a pod with these labels. No
    selector matches a pod in the host's network: it counts as an address.
    """
    spec = policy["spec"]
    assert spec["podSelector"] == {} and spec["policyTypes"] == ["Egress"]
    for rule in spec["egress"]:
        for peer in rule["to"] if port in [(p["port"], p["protocol"]) for p in rule["ports"]] else []:
            if "ipBlock" in peer:
                found = address is not None and ipaddress.ip_address(address) in ipaddress.ip_network(peer["ipBlock"]["cidr"])
            else:
                found = address is None and selects(peer["namespaceSelector"], {NAME: ns}) and selects(peer["podSelector"], labels)
            if found:
                return True
    return False


def pods_of(objects):
    (template,) = [o["spec"]["template"] for (kind, n), o in objects.items() if n.startswith("kube-dns") and kind in ("Deployment", "DaemonSet")]
    return template["metadata"]["labels"], template["spec"]


@needs_kubectl
@pytest.mark.parametrize("base", ["front", "replace-kube-dns", "node-service"])
@pytest.mark.parametrize("file", ["allow-dns.yaml", "allow-dns-node-local.yaml"])
def test_a_namespace_reaches_the_dns_pods_and_nothing_else(tmp_path, base, file):
    policy = yaml.safe_load(block(file))
    labels, spec = pods_of(render(copy(tmp_path), base))
    assert not spec.get("hostNetwork")
    for port in DNS_PORTS | OTHER_PORTS:
        assert may_send(policy, port, ns="kube-system", labels=labels) == (port in DNS_PORTS), port
        assert not may_send(policy, port, ns="shop", labels=labels) and not may_send(policy, port, ns="kube-system", labels={"k8s-app": "other"})
        assert not may_send(policy, port, address="10.96.0.1") and not may_send(policy, port, address="8.8.8.8")


@needs_kubectl
def test_with_node_local_a_namespace_reaches_the_addresses_and_the_central_pods(tmp_path):
    made = copy(tmp_path)
    labels, spec = pods_of(render(made, "node-local"))
    (flag,) = [a for a in spec["containers"][0]["args"] if a.startswith("--dns-bind-address=")]
    (cluster_dns,) = [e["value"] for e in spec["containers"][0]["env"] if e["name"] == "CLUSTER_DNS"]
    addresses = flag.split("=")[1].replace("$(CLUSTER_DNS)", cluster_dns).split(",")
    policy, by_label = (yaml.safe_load(block(file)) for file in ("allow-dns-node-local.yaml", "allow-dns.yaml"))
    central, _ = pods_of(render(made, "front"))
    assert spec["hostNetwork"] and len(addresses) == 2
    for port in DNS_PORTS | OTHER_PORTS:
        assert {may_send(policy, port, address=a) for a in addresses} == {port in DNS_PORTS}, port
        assert may_send(policy, port, ns="kube-system", labels=central) == (port in DNS_PORTS)
        assert not may_send(policy, port, address="10.10.0.11"), "the ports at the node's own address"
        # This is why the page has two policies.
        assert not any(may_send(by_label, port, address=a) for a in addresses)


@needs_kubectl
def test_the_ports_that_a_node_protects_are_those_of_the_pods_on_nodes(tmp_path):
    text = block("kubedns-ports.nft")
    _, spec = pods_of(render(copy(tmp_path), "node-local"))
    args = " ".join(a for c in spec["containers"] for a in c["args"])
    probed = {c[probe]["httpGet"]["port"] for c in spec["containers"] for probe in ("livenessProbe",)}
    ports = probed | {int(n) for n in re.findall(r"--healthz-port=(\d+)|:(1005\d)\b", args) for n in n if n} | {p for p, _ in FOR_PROMETHEUS}
    (shown,) = re.findall(r"tcp dport \{ ([^}]*) \}", text)
    protected = {n for part in shown.split(", ") for n in range(int(part.split("-")[0]), int(part.split("-")[-1]) + 1)}
    assert protected == ports
    if shutil.which("nft"):
        done = subprocess.run(["unshare", "--net", "nft", "-c", "-f", "-"], input=text, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


@needs_kubectl
@pytest.mark.parametrize("base", ["front", "replace-kube-dns", "beside", "node-service"])
def test_dns_pods_reach_the_api_server_and_other_servers_if_kube_system_denies(tmp_path, base):
    labels, _ = pods_of(render(copy(tmp_path), base))
    policy = yaml.safe_load(block("dns-egress.yaml"))["spec"]
    assert selects(policy["podSelector"], labels) and not selects(policy["podSelector"], {"k8s-app": "other"})
    (rule,) = policy["egress"]
    assert "to" not in rule
    assert DNS_PORTS | {(853, "TCP"), (443, "TCP"), (6443, "TCP")} == {(p["port"], p["protocol"]) for p in rule["ports"]}
