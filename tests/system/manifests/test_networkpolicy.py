"""components/networkpolicy: who may connect to which port of the pods, worked out from what kubectl renders as the API's reference says."""

import pytest
from overlays import copy, needs_kubectl, render

NAME = "kubernetes.io/metadata.name"
PROMETHEUS = {"app.kubernetes.io/name": "prometheus"}
# Ports that somebody beside the pod itself has a use for; by whom. The kubelet is the node's: no policy keeps it away.
FOR_ALL, FOR_PROMETHEUS = {(53, "UDP"), (53, "TCP")}, {(10054, "TCP"), (10055, "TCP"), (10056, "TCP")}


def selects(selector, labels):
    """LabelSelector: all of matchLabels and matchExpressions; an empty one selects everything."""
    for e in selector.get("matchExpressions", []):
        assert e["operator"] == "In"
        if labels.get(e["key"]) not in e["values"]:
            return False
    return all(labels.get(k) == v for k, v in selector.get("matchLabels", {}).items())


def may_connect(policies, pod, peer, port, ns="shop"):
    """Whether a peer pod with these labels may connect: a pod that some policy selects for ingress is closed but for the rules."""
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
    assert FOR_ALL | FOR_PROMETHEUS <= ports, "a port that the policy opens is no container's"
    for port in ports | {(10053, "UDP"), (10153, "UDP"), (8081, "TCP"), (22, "TCP")}:
        assert may_connect(policies, labels, {"app": "client"}, port) == (port in FOR_ALL), port
        # A pod of any namespace can have the label.
        assert may_connect(policies, labels, PROMETHEUS, port) == (port in FOR_ALL), port
        assert may_connect(policies, labels, {"app": "client"}, port, "observability") == (port in FOR_ALL), port
        assert may_connect(policies, labels, PROMETHEUS, port, "observability") == (port in FOR_ALL | FOR_PROMETHEUS), port
    assert may_connect(policies, {"k8s-app": "other"}, {}, (22, "TCP")), "other pods are left alone"
