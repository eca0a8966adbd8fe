"""
components/networkpolicy: which peer may connect to which port. The test evaluates the policies that kubectl renders by the rules of the
API reference.
"""

import pytest
from overlays import copy, needs_kubectl, render

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
