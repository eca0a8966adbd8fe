"""The Helm chart, rendered by Helm's own engine (make helm). The rendered objects equal the manifests. The chart accepts the coredns chart's values."""

import json
import os
import pathlib
import shutil
import subprocess

import pytest
import yaml

from overlays import DIGEST, ROOT, copy, needs_kubectl, render

HELM = pathlib.Path(os.environ.get("BUILD", ROOT / "build")) / "helm"
CHART = ROOT / "conf/helm/kubedns"
OWN = ("app.kubernetes.io/name", "app.kubernetes.io/instance", "app.kubernetes.io/managed-by", "helm.sh/chart")
KEEP = {"helm.sh/resource-policy": "keep"}
SETTINGS = ["-set", "registry=registry.example:5000/dns", "-set", "service.clusterIP=10.96.0.10"]
AS_IT_IS = ["-set", "replicaCount=null"]  # the overlay replace-kube-dns does not change the number of replicas

pytestmark = pytest.mark.skipif(not HELM.exists(), reason="make helm was not run (it needs Go)")


def helm(*args, name="kubedns"):
    p = subprocess.run([HELM, *args, name, CHART], capture_output=True, text=True, timeout=60)
    lines = [line for line in p.stderr.splitlines() if "found symbolic link" not in line]
    return p.returncode, p.stdout, "\n".join(lines)


def objects(*args, name="kubedns"):
    code, text, said = helm(*args, name=name)
    assert code == 0, said
    return {(o["kind"], o["metadata"]["name"]): o for o in yaml.safe_load_all(text) if o}


def bare(found):
    """Removes the labels and the annotation that only Helm's tools use. No selector contains these labels."""
    for o in found.values():
        for label in OWN:
            o["metadata"]["labels"].pop(label)
        if o["metadata"].get("annotations") == KEEP:
            o["metadata"].pop("annotations")
    return found


SAME = {
    "classic": (["-set", "topology=classic"], "replace-kube-dns", []),
    "front, the default": ([], "replace-kube-dns", ["front"]),
    "node": (["-set", "topology=node"], "node-service", []),
    "node-local": (["-set", "topology=node-local"], "replace-kube-dns", ["front"]),
    "by load": (["-set", "hpa.enabled=true"], "replace-kube-dns", ["front", "autoscale"]),
    "by size": (["-set", "autoscaler.enabled=true"], "replace-kube-dns", ["front", "proportional"]),
    "prometheus": (["-set", "prometheus.monitor.enabled=true", "-set", "prometheus.monitor.additionalLabels.release=prometheus"],
                   "replace-kube-dns", ["front", "prometheus"]),
    "network policy": (["-set", "networkPolicy.enabled=true"], "replace-kube-dns", ["front", "networkpolicy"]),
    "client pods": (["-set", "topology=front", "-set", "clientPods=true"], "replace-kube-dns", ["front", "client-pods"]),
    "client pods, node-local": (["-set", "topology=node-local", "-set", "clientPods=true"], "replace-kube-dns", ["front", "client-pods"]),
    "client pods on every node": (["-set", "topology=node", "-set", "clientPods=true"], "node-service", ["client-pods"]),
    "tenants": (["-set", "topology=front", "-set", "tenants.enabled=true"], "replace-kube-dns", ["front", "tenants"]),
    "tenants, node-local": (["-set", "topology=node-local", "-set", "tenants.enabled=true"], "replace-kube-dns", ["front", "tenants"]),
    "tenants on every node": (["-set", "topology=node", "-set", "tenants.enabled=true"], "node-service", ["tenants"]),
    "multicluster": (["-set", "topology=front", "-set", "multicluster.enabled=true"], "replace-kube-dns", ["front", "multicluster"]),
    "multicluster, node-local": (["-set", "topology=node-local", "-set", "multicluster.enabled=true"], "replace-kube-dns", ["front", "multicluster"]),
    "multicluster on every node": (["-set", "topology=node", "-set", "multicluster.enabled=true"], "node-service", ["multicluster"]),
    "nearest": (["-set", "topology=front", "-set", "nearest.enabled=true"], "replace-kube-dns", ["front", "client-pods", "nearest"]),
    "nearest, node-local": (["-set", "topology=node-local", "-set", "nearest.enabled=true"], "replace-kube-dns", ["front", "client-pods", "nearest"]),
    "nearest on every node": (["-set", "topology=node", "-set", "nearest.enabled=true"], "node-service", ["nearest-node"]),
    "nearest and tenants on every node": (["-set", "topology=node", "-set", "nearest.enabled=true", "-set", "tenants.enabled=true"], "node-service",
                                          ["tenants", "nearest-node"]),
    "hosts": (["-set", "topology=front", "-set", "hostsNamespaces={dns-names}"], "replace-kube-dns", ["front", "hosts"]),
    "hosts, node-local": (["-set", "topology=node-local", "-set", "hostsNamespaces={dns-names}"], "replace-kube-dns", ["front", "hosts"]),
    "hosts on every node": (["-set", "topology=node", "-set", "hostsNamespaces={dns-names}"], "node-service", ["hosts"]),
    "unbound, classic": (["-set", "topology=classic", "-set", "engine=unbound"], "replace-kube-dns", ["engine-unbound"]),
    "unbound, front": (["-set", "topology=front", "-set", "engine=unbound"], "replace-kube-dns", ["front", "engine-unbound"]),
    "unbound, node-local": (["-set", "topology=node-local", "-set", "engine=unbound"], "replace-kube-dns", ["front", "engine-unbound"]),
    "unbound on every node": (["-set", "topology=node", "-set", "engine=unbound"], "node-service", ["engine-unbound"]),
    "unbound, CA certificates from a trust bundle": (["-set", "topology=front", "-set", "engine=unbound", "-set", "upstreamTrustBundle=true"],
                                                     "replace-kube-dns", ["front", "engine-unbound", "upstream-trust-bundle"]),
    "trust bundle, node-local": (["-set", "topology=node-local", "-set", "engine=unbound", "-set", "upstreamTrustBundle=true"],
                                 "replace-kube-dns", ["front", "engine-unbound", "upstream-trust-bundle"]),
    "trust bundle on every node": (["-set", "topology=node", "-set", "engine=unbound", "-set", "upstreamTrustBundle=true"],
                                   "node-service", ["engine-unbound", "upstream-trust-bundle"]),
    "policy for the configmap": (["-set", "configmap.policy=true"], "replace-kube-dns", ["front", "configmap-policy"]),
    "control plane": (["-f", "TOLERATIONS"], "replace-kube-dns", ["front", "control-plane"]),
}
TOLERATIONS = {"tolerations": [{"key": "CriticalAddonsOnly", "operator": "Exists"}, *(
    {"key": f"node-role.kubernetes.io/{n}", "operator": "Exists", "effect": "NoSchedule"} for n in ("control-plane", "master"))]}


def node_local(tmp_path, components):
    """The objects of the overlay node-local with those of these components that change it."""
    mine = [{"nearest": "nearest-node"}.get(c, c) for c in components if c != "front" and not (c == "client-pods" and "nearest" in components)]
    return render(copy(tmp_path), "node-local", *mine)


@needs_kubectl
@pytest.mark.parametrize("case", SAME)
def test_same_objects_as_the_manifests(tmp_path, case):
    values, overlay, components = SAME[case]
    (tmp_path / "tolerations.yaml").write_text(yaml.safe_dump(TOLERATIONS))
    values = [str(tmp_path / "tolerations.yaml") if v == "TOLERATIONS" else v for v in values]
    mine = bare(objects(*SETTINGS, *AS_IT_IS, *values))
    theirs = render(copy(tmp_path), overlay, "evict-unready", *components)
    if "node-local" in case:
        theirs |= node_local(tmp_path, components)
    if case == "prometheus":  # a release selects its own pods; the manifests also select the pods of the other overlays
        for found, selector in ((mine, {"matchLabels": {"k8s-app": "kube-dns"}}),
                                (theirs, {"matchExpressions": [{"key": "k8s-app", "operator": "In", "values": ["kube-dns", "kube-dns-beside", "kube-dns-node"]}]})):
            assert found["PodMonitor", "kube-dns"]["spec"].pop("selector") == selector
    if case == "network policy" or "tenants" in case:  # the same difference in the selector
        for found, selector in ((mine, {"matchLabels": {"k8s-app": "kube-dns"}}),
                                (theirs, {"matchExpressions": [{"key": "k8s-app", "operator": "In", "values": ["kube-dns", "kube-dns-beside"]}]})):
            assert found["NetworkPolicy", "kube-dns"]["spec"].pop("podSelector") == selector
    if case.startswith("hosts"):  # the manifests' binding names both accounts that may exist
        names = ["kube-dns", "kube-dns-node"] if "local" in case else ["kube-dns-node"] if "node" in case else ["kube-dns"]
        accounts = [{"kind": "ServiceAccount", "name": n, "namespace": "kube-system"} for n in names]
        mine_to, theirs_to = (found["RoleBinding", "kube-dns-hosts"].pop("subjects") for found in (mine, theirs))
        assert mine_to == accounts and all(a in theirs_to for a in accounts) and mine["RoleBinding", "kube-dns-hosts"]["metadata"]["namespace"] == "dns-names"
    if case == "by size":  # the same JSON in another order
        for found in (mine, theirs):
            data = found["ConfigMap", "kube-dns-autoscaler"]["data"]
            data["linear"] = yaml.safe_load(data["linear"])
    assert mine == theirs


@pytest.mark.parametrize(("version", "values", "there"), [
    ("v1.30.0", [], False), ("v1.31.0", [], True), ("v1.36.0", ["-set", "matchLabelKeys=false"], False),
    ("v1.28.0", ["-set", "matchLabelKeys=true"], True),
])  # fmt: skip
def test_match_label_keys_depend_on_the_version_of_kubernetes(version, values, there):
    text = helm("-kube", version, *SETTINGS, *values)[1]
    assert text.count("matchLabelKeys") == (2 if there else 0)


@needs_kubectl
def test_one_setting_says_where_the_runbook_is(tmp_path):
    there = "https://wiki.example/dns/runbook"
    mine = objects(*SETTINGS, "-set", "prometheus.monitor.enabled=true", "-set", f"prometheus.rules.runbook={there}")
    theirs = render(copy(tmp_path, runbook=there), "replace-kube-dns", "prometheus")
    for found in (mine, theirs):
        rules = [rule for group in found["PrometheusRule", "kube-dns"]["spec"]["groups"] for rule in group["rules"]]
        alerts = [rule for rule in rules if "alert" in rule]
        assert [rule["annotations"]["runbook_url"] for rule in alerts] == [f"{there}#{rule['alert'].lower()}" for rule in alerts] and len(alerts) > 10
        assert not any("annotations" in rule for rule in rules if "record" in rule)


@needs_kubectl
def test_in_the_classic_topology_dnsmasq_hands_on_the_zone_of_the_cluster_set(tmp_path):
    mine = bare(objects(*SETTINGS, *AS_IT_IS, "-set", "topology=classic", "-set", "multicluster.enabled=true"))
    theirs = render(copy(tmp_path), "replace-kube-dns", "evict-unready", "multicluster")
    args = mine["Deployment", "kube-dns"]["spec"]["template"]["spec"]["containers"][1]["args"]
    assert args.pop() == "--server=/clusterset.local/127.0.0.1#10053"
    assert mine == theirs


@needs_kubectl
def test_external_zones_are_flags_and_the_rights_of_the_component(tmp_path):
    mine = bare(objects(*SETTINGS, *AS_IT_IS, "-set", "external.zones={apps.example.com,b.example}", "-set", "external.ns={192.0.2.1}",
                        "-set", "external.address=0.0.0.0:5353", "-set", "external.headless=true",
                        "-set", "external.refuse={apex,external-ips}"))  # fmt: skip
    theirs = render(copy(tmp_path), "replace-kube-dns", "evict-unready", "front", "external-names")
    args = mine["Deployment", "kube-dns"]["spec"]["template"]["spec"]["containers"][0]["args"]
    assert args[-5:] == ["--external-zones=apps.example.com,b.example", "--external-ns=192.0.2.1", "--external-address=0.0.0.0:5353",
                         "--external-headless", "--external-refuse=apex,external-ips"]  # fmt: skip
    del args[-5:]
    assert mine == theirs
    rules = mine["ClusterRole", "kube-dns"]["rules"]
    assert {r for rule in rules for r in rule["resources"]} == {"services", "namespaces", "endpointslices", "ingresses", "gateways", "listenersets",
                                                                "httproutes", "grpcroutes", "tlsroutes"}  # fmt: skip
    assert all(rule["verbs"] == ["list", "watch"] for rule in rules)


def kubedns_args(*values):
    return objects(*SETTINGS, *values)["Deployment", "kube-dns"]["spec"]["template"]["spec"]["containers"][0]["args"]


def test_tenants_and_transfers_are_flags_before_those_of_ones_own():
    front = ["-set", "topology=front", "-set", "kubedns.extraArgs={--ttl=5}"]
    tenants = kubedns_args(*front, "-set", "tenants.enabled=true", "-set", "tenants.unknown=all")
    assert tenants[-4:] == ["--client-pods=all", "--visibility=labels", "--visibility-unknown=all", "--ttl=5"]
    transfer = kubedns_args(*front, "-set", "transfer.to={192.0.2.53,198.51.100.0/24}", "-set", "transfer.notify={192.0.2.53}", "-set", "transfer.journal=4M")
    assert transfer[-4:] == ["--transfer-to=192.0.2.53,198.51.100.0/24", "--transfer-notify=192.0.2.53", "--transfer-journal=4M", "--ttl=5"]


def test_each_namespace_with_names_has_a_role_for_this_release():
    _, text, _ = helm("-set", SETTINGS[1], "-set", "isClusterService=false", "-set", "topology=front", "-set", "hostsNamespaces={team-a:office.example,team-b}", name="beside")
    found = [o for o in yaml.safe_load_all(text) if o]
    roles, bindings = ([o for o in found if o["kind"] == kind] for kind in ("Role", "RoleBinding"))
    assert [(o["metadata"]["namespace"], o["metadata"]["name"]) for o in roles] == [("team-a", "beside-hosts"), ("team-b", "beside-hosts")]
    assert all(o["rules"] == [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list", "watch"]}] for o in roles)
    assert [(o["metadata"]["namespace"], o["roleRef"]["name"], o["subjects"][0]["name"]) for o in bindings] == [
        ("team-a", "beside-hosts", "beside"), ("team-b", "beside-hosts", "beside")]
    args = next(o for o in found if o["kind"] == "Deployment")["spec"]["template"]["spec"]["containers"][0]["args"]
    assert args[-1] == "--hosts-namespaces=team-a:office.example,team-b"


def test_the_policy_is_for_the_configmap_of_the_release():
    found = objects(*SETTINGS, "-set", "isClusterService=false", "-set", "configmap.policy=true", "-set", "configmap.name=dns-settings", "-n", "dns")
    ((_, name),) = [key for key in found if key[0] == "ValidatingAdmissionPolicy"]
    where = found["ValidatingAdmissionPolicy", name]["spec"]["matchConstraints"]
    assert where["resourceRules"][0]["resourceNames"] == ["dns-settings"]
    assert where["namespaceSelector"] == {"matchLabels": {"kubernetes.io/metadata.name": "dns"}}
    assert found["ValidatingAdmissionPolicyBinding", name]["spec"]["policyName"] == name


def test_keys_of_transfers_are_a_mounted_secret():
    pod = objects(*SETTINGS, "-set", "transfer.to={192.0.2.53}", "-set", "transfer.keySecret=tsig")["Deployment", "kube-dns"]["spec"]["template"]["spec"]
    kubedns = pod["containers"][0]
    assert kubedns["args"][-2:] == ["--transfer-to=192.0.2.53", "--transfer-key=/etc/kubedns-transfer/keys"]
    assert {"name": "transfer-keys", "mountPath": "/etc/kubedns-transfer", "readOnly": True} in kubedns["volumeMounts"]
    assert {"name": "transfer-keys", "secret": {"secretName": "tsig", "defaultMode": 0o440}} in pod["volumes"]


def test_nearest_only_and_zonal_are_flags():
    args = kubedns_args("-set", "topology=front", "-set", "nearest.enabled=true", "-set", "nearest.only=true", "-set", "zonal=true")
    assert args[-4:] == ["--client-pods=all", "--nearest", "--nearest-only", "--zonal"]
    assert kubedns_args("-set", "zonal=true")[-1] == "--zonal"


def test_chart_can_set_visibility_to_visible_to():
    found = objects(*SETTINGS, "-set", "topology=front", "-set", "tenants.enabled=true", "-set", "tenants.visibility=visible-to",
                    "-set", "networkPolicy.prometheusNamespace=observability")  # fmt: skip
    assert "--visibility=visible-to" in found["Deployment", "kube-dns"]["spec"]["template"]["spec"]["containers"][0]["args"]
    (peer,) = found["NetworkPolicy", "kube-dns"]["spec"]["ingress"][1]["from"]
    assert peer["namespaceSelector"] == {"matchLabels": {"kubernetes.io/metadata.name": "observability"}}


def allowed(*values):
    """Returns what the chart's NetworkPolicy allows: each (port, protocol) that is open to everybody, and each that is open only to certain addresses."""
    rules = objects(*SETTINGS, "-set", "networkPolicy.enabled=true", *values)["NetworkPolicy", "kube-dns"]["spec"]["ingress"]
    everybody = {(p["port"], p["protocol"]) for rule in rules if "from" not in rule for p in rule["ports"]}
    some = {(f["ipBlock"]["cidr"], p["port"], p["protocol"]) for rule in rules for f in rule.get("from", ()) if "ipBlock" in f for p in rule["ports"]}
    return everybody, some


DNS = {(53, "UDP"), (53, "TCP")}


@pytest.mark.parametrize("address, more", [
    ("0.0.0.0:5353", {(5353, "UDP"), (5353, "TCP")}), ("[::]:5353", {(5353, "UDP"), (5353, "TCP")}), ("192.0.2.1", set()), ("2001:db8::5353", set()),
    ("192.0.2.1:53", set()),
])
def test_the_network_policy_opens_the_address_for_the_outside(address, more):
    assert allowed("-set", "external.zones={apps.example.com}", "-set", f"external.address={address}") == (DNS | more, set())


def test_the_network_policy_lets_secondaries_ask_kubedns_itself():
    to = ("-set", "transfer.to={192.0.2.53,2001:db8::53,198.51.100.0/24}")
    asked = {(cidr, 10053, p) for cidr in ("192.0.2.53/32", "2001:db8::53/128", "198.51.100.0/24") for p in ("UDP", "TCP")}
    assert allowed(*to, "-set", "topology=classic") == (DNS, asked)
    assert allowed(*to) == (DNS, set())


@pytest.mark.parametrize("values, kept", [([], KEEP), (["service.annotations.a=b"], {**KEEP, "a": "b"}), (["isClusterService=false"], None)])
def test_an_uninstall_keeps_the_cluster_s_service_and_no_other_object(values, kept):
    """All pods have the Service's address in resolv.conf. A Service beside the cluster's DNS goes with its release."""
    made = objects(*SETTINGS, *(a for v in values for a in ("-set", v)), name="kube-dns")
    assert made["Service", "kube-dns"]["metadata"].get("annotations") == kept
    assert not [k for k, o in made.items() if k[0] != "Service" and KEEP.items() <= o["metadata"].get("annotations", {}).items()]


@needs_kubectl
def test_same_objects_beside(tmp_path):
    mine = bare(objects("-set", SETTINGS[1], "-set", "isClusterService=false", name="kube-dns-beside"))
    assert mine == render(copy(tmp_path), "beside", "evict-unready", "front")


@needs_kubectl
def test_same_objects_for_an_older_cluster(tmp_path):
    assert bare(objects(*SETTINGS, *AS_IT_IS, "-kube", "v1.24.9")) == render(copy(tmp_path), "replace-kube-dns", "front", "no-match-label-keys")


@needs_kubectl
def test_same_images_by_digest(tmp_path):
    mine = objects(*SETTINGS, "-set", f"nanny.image.digest={DIGEST}", "-set", "sidecar.image.tag=9.8")
    theirs = render(copy(tmp_path, nannyImage=f"nanny:{version()}@{DIGEST}", sidecarImage="sidecar:9.8"))
    images = [[c["image"] for c in o["Deployment", "kube-dns"]["spec"]["template"]["spec"]["containers"]] for o in (mine, theirs)]
    assert images[0] == images[1]


def version():
    return subprocess.run(["make", "-s", "image-tag"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def test_chart_is_of_the_version():
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (version(), version())


@pytest.mark.parametrize("args, said", [
    (SETTINGS[:2], "service.clusterIP is not set"),
    (SETTINGS[2:], "registry is not set"),
    ([*SETTINGS, "-set", "registry=https://registry.example"], "registry: https://registry.example: image names have no scheme"),
    ([*SETTINGS, "-set", "topology=frnot"], "topology: frnot: must be classic, front, node or node-local"),
    ([*SETTINGS, "-set", "engine=bind"], "engine: bind: must be dnsmasq or unbound"),
    ([*SETTINGS, "-set", "upstreamTrustBundle=true"], "upstreamTrustBundle: dnsmasq cannot encrypt queries: set engine=unbound"),
    ([*SETTINGS, "-set", "hpa.enabled=true", "-set", "autoscaler.enabled=true"], "use one"),
    ([*SETTINGS, "-set", "external.headless=true"], "external.zones is empty"),
    ([*SETTINGS, "-set", "topology=classic", "-set", "clientPods=true"], "clientPods: in the classic topology dnsmasq is kubedns's only client"),
    ([*SETTINGS, "-set", "topology=classic", "-set", "tenants.enabled=true"], "tenants.enabled: in the classic topology"),
    ([*SETTINGS, "-set", "topology=front", "-set", "tenants.enabled=true", "-set", "external.zones={a.example}"], "give names to clients without a namespace"),
    ([*SETTINGS, "-set", "topology=front", "-set", "tenants.enabled=true", "-set", "transfer.to={192.0.2.1}"], "give names to clients without a namespace"),
    ([*SETTINGS, "-set", "topology=front", "-set", "tenants.enabled=true", "-set", "multicluster.enabled=true"], "give names to clients without a namespace"),
    ([*SETTINGS, "-set", "topology=front", "-set", "tenants.unknown=some"], "tenants.unknown: some: must be none or all"),
    ([*SETTINGS, "-set", "topology=classic", "-set", "hostsNamespaces={dns-names}"], "hostsNamespaces: in the classic topology"),
    ([*SETTINGS, "-set", "topology=front", "-set", "hostsNamespaces=dns-names"], "hostsNamespaces: dns-names: not a list: hostsNamespaces: [dns-names]"),
    ([*SETTINGS, "-set", "topology=front", "-set", "hostsNamespaces.a=b"], "hostsNamespaces: map[a:b]: not a list"),
    ([*SETTINGS, "-set", "topology=front", "-set", "hostsNamespaces={a,Team_B}"], "hostsNamespaces: Team_B: not a namespace's name"),
    ([*SETTINGS, "-set", "topology=front", "-set", "hostsNamespaces={5}"], "hostsNamespaces: 5: not a namespace's name"),
    ([*SETTINGS, "-set", "topology=front", "-set", "hostsNamespaces={}"], "hostsNamespaces: : not a namespace's name"),
    ([*SETTINGS, "-set", "topology=front", "-set", "hostsNamespaces={a,a}"], "hostsNamespaces: a,a: a namespace is listed twice"),
    ([*SETTINGS, "-set", "topology=front", "-set", "hostsNamespaces={a,b,c,d,e,f,g,h,i}"], "hostsNamespaces: a,b,c,d,e,f,g,h,i: more than 8"),
    ([*SETTINGS, "-set", "topology=classic", "-set", "nearest.enabled=true"], "nearest.enabled: in the classic topology"),
    ([*SETTINGS, "-set", "topology=front", "-set", "nearest.only=true"], "nearest.only: needs nearest.enabled"),
    ([*SETTINGS, "-set", "transfer.notify={192.0.2.1}"], "transfer.to is empty"),
    ([*SETTINGS, "-set", "transfer.keySecret=tsig"], "transfer.to is empty"),
    ([*SETTINGS, "-set", "topology=node", "-set", "transfer.to={192.0.2.1}"], "do not know single endpoints"),
    ([*SETTINGS, "-set", "topology=node", "-set", "hpa.enabled=true"], "remove hpa and autoscaler"),
    ([*SETTINGS, "-set", "topology=node-local", "-set", "isClusterService=false"], "use front to try kubedns beside the current DNS"),
    (["-set", SETTINGS[1], "-set", "topology=node-local", "-set", "deployment.enabled=false"], "service.clusterIP is not set"),
    *(([*SETTINGS, "-set", "topology=node-local", "-set", "deployment.enabled=false", "-set", f"{v}.enabled=true"], "would scale the central pods of another DNS")
      for v in ("hpa", "autoscaler")),
    ([*SETTINGS, "-set", "topolgy=front"], "topolgy"),
    ([*SETTINGS, "-set", "nodelocal.enabled=true"], "nodelocal"),
    ([*SETTINGS, "-set", "prometheus.monitor.enable=true"], "enable"),
    *(([*SETTINGS, "-set", f"replicaCount={n}"], "replicaCount") for n in ("abc", "2x", "2.5", "0", "-1")),
    ([*SETTINGS, "-set-string", "replicaCount="], "replicaCount"),
    ([*SETTINGS, "-set", "fullnameOverride=coredns"], 'fullnameOverride, deployment.name: "coredns" is the name of CoreDNS\'s Deployment'),
    ([*SETTINGS, "-set", "deployment.name=coredns"], 'fullnameOverride, deployment.name: "coredns" is the name of CoreDNS\'s Deployment'),
    ([*SETTINGS, "-set", "kubedns.extraArgs=--ttl=5"], "/kubedns/extraArgs': got string, want array"),
    ([*SETTINGS, "-set", "deployment.dnsPolicy=None"], "deployment.dnsPolicy: None needs deployment.dnsConfig.nameservers"),
    ([*SETTINGS, "-set", "deployment.dnsPolicy=ClusterFirst"], "the DNS pods would forward to themselves"),
    ([*SETTINGS, "-kube", "v1.21.0"], "the chart wants Kubernetes >=1.22.0-0"),
])
def test_mistakes_are_refused_with_what_to_set(args, said):
    code, _, text = helm(*args)
    assert code == 1 and said in text, text


def corefile(*plugins, zones=({"zone": "."},)):
    return {"servers": [{"zones": list(zones), "port": 53, "plugins": [
        {"name": "errors"}, {"name": "kubernetes", "parameters": "cluster.local in-addr.arpa ip6.arpa"}, *plugins]}]}


@pytest.mark.parametrize("values, lost", [
    (corefile({"name": "forward", "parameters": ". 10.9.9.9"}), 'the plugin forward with ". 10.9.9.9"'),
    (corefile({"name": "hosts", "configBlock": "10.0.0.1 a.example"}), "the plugin hosts"),
    (corefile({"name": "rewrite", "parameters": "name a b"}), "the plugin rewrite"),
    (corefile(zones=({"zone": "corp.example"},)), 'a server for the zone "corp.example"'),
    ({"servers": [{"zones": [{"zone": "."}], "plugins": [{"name": "kubernetes", "parameters": "corp.local in-addr.arpa"}]}]},
     'the domain "corp.local", where clusterDomain is "cluster.local"'),
    ({"extraConfig": {"import": {"parameters": "/opt/*.conf"}}}, "extraConfig"),
])
def test_a_corefile_that_would_change_answers_is_refused_until_it_is_translated(tmp_path, values, lost):
    (tmp_path / "values.yaml").write_text(yaml.safe_dump(values))
    args = (*SETTINGS, "-f", tmp_path / "values.yaml")
    code, _, said = helm(*args)
    assert code == 1 and lost in said and "kubedns-migrate" in said and "ignoreServers=true" in said, said
    notes = helm(*args, "-set", "ignoreServers=true", "-notes")[1]
    assert f"\n  * {'servers' if 'servers' in values else 'extraConfig'}: " in notes, notes


def test_the_coredns_chart_s_own_corefile_is_taken():
    """Many values files repeat the chart's default Corefile. Ignoring it does not change an answer."""
    o = objects("-set", SETTINGS[1], "-f", ROOT / "tests/helm/coredns-values.yaml")
    assert ("Deployment", "kube-dns") in o


def every_key(values, schema, path=""):
    """Returns the keys of values that the schema does not have."""
    for key, value in values.items():
        known = schema.get("properties", {})
        if key not in known:
            if schema.get("additionalProperties") is False:
                yield path + key
        elif isinstance(value, dict):
            yield from every_key(value, known[key], f"{path}{key}.")


def test_the_schema_has_every_value_and_no_other():
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert not list(every_key(values, schema))
    without = {"global", "servers", "extraConfig", "zoneFiles", "livenessProbe", "readinessProbe", "securityContext", "extraSecrets", "autoscaling",
               "preStopSleep", "automountServiceAccountToken", "nameOverride"}  # values of the coredns chart; the notes list them
    assert set(schema["properties"]) == set(values) | without


@pytest.mark.parametrize("args, account", [
    ((), "default"), (("-set", "serviceAccount.name=dns"), "dns"), (("-set", "serviceAccount.create=true"), "kube-dns"),
])
def test_an_account_that_the_chart_does_not_make_is_one_that_exists(args, account):
    o = objects(*SETTINGS, "-set", "serviceAccount.create=false", *args)
    assert o["Deployment", "kube-dns"]["spec"]["template"]["spec"]["serviceAccountName"] == account
    assert o["ClusterRoleBinding", "kube-dns"]["subjects"] == [{"kind": "ServiceAccount", "name": account, "namespace": "kube-system"}]
    assert (("ServiceAccount", account) in o) == (account == "kube-dns")


def test_upstream_servers_of_the_pod_s_own_resolv_conf():
    pod = objects(*SETTINGS, "-set", "deployment.dnsPolicy=None", "-set", "deployment.dnsConfig.nameservers={192.0.2.53}")[
        "Deployment", "kube-dns"]["spec"]["template"]["spec"]
    assert pod["dnsPolicy"] == "None" and pod["dnsConfig"] == {"nameservers": ["192.0.2.53"]}
    assert objects(*SETTINGS)["Deployment", "kube-dns"]["spec"]["template"]["spec"]["dnsPolicy"] == "Default"


def test_a_copy_of_the_chart_that_lost_a_link_is_refused(tmp_path):
    """A bug: for a few commits tenants.yaml was a text file with the link's target, so tenants.enabled had no effect."""
    shutil.copytree(CHART, tmp_path / "chart")
    lost = tmp_path / "chart/files/tenants.yaml"
    lost.write_text("../../../kubernetes/components/tenants/kustomization.yaml")
    values = (*SETTINGS, "-set", "topology=front", "-set", "tenants.enabled=true")
    p = subprocess.run([HELM, *values, "kubedns", tmp_path / "chart"], capture_output=True, text=True, timeout=60)
    assert p.returncode == 1 and "files/tenants.yaml: it has no object: it is a link to a file in conf/kubernetes" in p.stderr, p.stderr


def test_a_switch_to_every_node_keeps_the_deployment_meanwhile():
    front, node, both = (objects(*SETTINGS, "-set", f"topology={t}", *more) for t, more in (
        ("front", ()), ("node", ()), ("node", ("-set", "node.keepDeployment=true"))))
    kept = both.pop(("Deployment", "kube-dns"))
    assert both == node and ("Deployment", "kube-dns") not in node
    pod = kept["spec"]["template"]["spec"]
    assert pod.pop("serviceAccountName") == "kube-dns-node"  # the account that has the permissions in this release
    front["Deployment", "kube-dns"]["spec"]["template"]["spec"].pop("serviceAccountName")
    assert kept == front["Deployment", "kube-dns"]


@needs_kubectl
def test_pods_on_every_node_beside_the_central_pods_of_another_dns(tmp_path):
    alone = [*SETTINGS, "-set", "topology=node-local", "-set", "deployment.enabled=false"]
    mine = bare(objects(*alone))
    assert mine == node_local(tmp_path, [])
    # The pods of the other DNS have the label that our NetworkPolicy selects.
    assert bare(objects(*alone, "-set", "networkPolicy.enabled=true")) == mine


@needs_kubectl
def test_pods_on_every_node_are_scraped(tmp_path):
    mine = objects(*SETTINGS, "-set", "topology=node-local", "-set", "prometheus.monitor.enabled=true")["PodMonitor", "kube-dns"]["spec"]
    theirs = node_local(tmp_path, ["prometheus"])["PodMonitor", "kube-dns"]["spec"]
    assert mine.pop("selector") == {"matchExpressions": [{"key": "k8s-app", "operator": "In", "values": ["kube-dns", "kube-dns-node"]}]}
    assert theirs.pop("selector") and mine == theirs
    named = objects(*SETTINGS, "-set", "topology=node-local", "-set", "prometheus.monitor.enabled=true", "-set", "fullnameOverride=dns")
    label = named["DaemonSet", "dns-node"]["spec"]["template"]["metadata"]["labels"]["k8s-app"]
    monitor = named["PodMonitor", "dns"]["spec"]
    assert label in monitor["selector"]["matchExpressions"][0]["values"]
    assert monitor["podMetricsEndpoints"][1]["relabelings"][0]["regex"] == f"{label};"


CENTRAL = {"nodeSelector": {"pool": "dns"}, "priorityClassName": "p", "tolerations": [{"key": "dns", "operator": "Exists"}], "replicaCount": 5,
           "rollingUpdate": {"maxSurge": 3}, "resources": {"limits": {"memory": "1Gi"}}, "podSecurityContext": {"fsGroup": 5},
           "topologySpreadConstraints": [{"maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}],
           "affinity": {"podAntiAffinity": {}}, "nanny": {"resources": {"limits": {"memory": "2Gi"}}}}  # fmt: skip


def test_with_node_local_placement_and_size_are_those_of_the_central_pods(tmp_path):
    """The values of an earlier release in the front topology must not keep the pods off nodes, or let each node's pod be as large as a central pod."""
    (tmp_path / "values.yaml").write_text(yaml.safe_dump(CENTRAL))
    local, front = ["-set", "topology=node-local"], []
    with_values, without = (objects(*SETTINGS, *local, *more) for more in (["-f", str(tmp_path / "values.yaml")], []))
    assert with_values["DaemonSet", "kube-dns-node"] == without["DaemonSet", "kube-dns-node"]
    assert with_values["Deployment", "kube-dns"] == objects(*SETTINGS, *front, "-f", str(tmp_path / "values.yaml"))["Deployment", "kube-dns"]
    assert with_values["Deployment", "kube-dns"] != without["Deployment", "kube-dns"]


def test_arguments_are_those_of_all_pods_and_outside_clients_ask_the_central_pods():
    made = objects(*SETTINGS, "-set", "topology=node-local", "-set", "kubedns.extraArgs={--filter-aaaa=auto}", "-set", "nanny.dnsmasqArgs={--host-record=a.example\\,10.0.0.1}",
                   "-set", "transfer.to={192.0.2.1}", "-set", "transfer.keySecret=keys", "-set", "external.zones={a.example}", "-set", "external.address=0.0.0.0:5353")  # fmt: skip
    central, node = ({c["name"]: c["args"] for c in made[key]["spec"]["template"]["spec"]["containers"]}
                     for key in (("Deployment", "kube-dns"), ("DaemonSet", "kube-dns-node")))
    holders = [kind for (kind, _), o in made.items() if kind in ("Deployment", "DaemonSet") and "transfer-keys" in yaml.safe_dump(o)]
    assert holders == ["Deployment"], "the node's pods transfer no zones, so they need no keys"
    outside = ["--external-address=0.0.0.0:5353", "--transfer-to=192.0.2.1"]
    assert [a for a in outside if a in central["kubedns"]] == outside and not [a for a in outside if a in node["kubedns"]]
    for args in (central, node):
        assert "--external-zones=a.example" in args["kubedns"] and args["kubedns"][-1] == "--filter-aaaa=auto"
        assert args["dnsmasq"][-1] == "--host-record=a.example,10.0.0.1"


@pytest.mark.parametrize("ips", [["10.96.0.10", "fd00:10:96::a"], ["fd00:10:96::a"]])
def test_the_node_s_pods_answer_at_each_address_of_the_service(ips):
    made = objects("-set", SETTINGS[1], "-set", "topology=node-local", "-set", f"service.clusterIPs={{{','.join(ips)}}}")
    for c in made["DaemonSet", "kube-dns-node"]["spec"]["template"]["spec"]["containers"][:2]:
        assert {e["name"]: e.get("value") for e in c["env"]}["CLUSTER_DNS"] == ",".join(ips)


def test_the_pods_of_node_local_on_some_nodes_first():
    for topology in ("node", "node-local"):
        pods = objects(*SETTINGS, "-set", f"topology={topology}", "-set", "nodeSelector.pool=dns", "-set-string", "node.nodeSelector.kubedns/node-local=on")
        assert pods["DaemonSet", "kube-dns-node"]["spec"]["template"]["spec"]["nodeSelector"] == {"kubedns/node-local": "on"}


def test_one_account_of_the_user_serves_the_central_pods_and_those_on_every_node():
    text = helm(*SETTINGS, "-set", "topology=node-local", "-set", "serviceAccount.name=dns", "-set", "clusterRole.nameOverride=reader")[1]
    names = [(o["kind"], o["metadata"]["name"]) for o in yaml.safe_load_all(text) if o]
    assert len(names) == len(set(names)) and [n for n in names if n[0] == "ServiceAccount"] == [("ServiceAccount", "dns")]
    assert sorted(n for k, n in names if k == "ClusterRole") == ["kube-dns-node", "reader"]


def test_a_name_of_its_own_is_that_of_all_pods():
    made = objects(*SETTINGS, "-set", "topology=node-local", "-set", "fullnameOverride=dns")
    assert {name for kind, name in made if kind in ("Deployment", "DaemonSet", "ServiceAccount", "ClusterRole")} == {"dns", "dns-node"}
    assert made["Service", "kube-dns-node-upstream"]["spec"]["selector"] == {"k8s-app": "dns"}  # kubelet makes the name of a variable from this name


def workload(kind, app, ready, owner="kubedns"):
    """A Deployment or DaemonSet in the cluster, with two pods. `ready` of them are ready."""
    name, status = ("kube-dns", {"replicas": 2, "readyReplicas": ready}) if kind == "Deployment" else \
        ("kube-dns-node", {"desiredNumberScheduled": 2, "numberReady": ready})
    return {"apiVersion": "apps/v1", "kind": kind, "status": {k: v for k, v in status.items() if v}, "spec": {"selector": {"matchLabels": {"k8s-app": app}}},
            "metadata": {"name": name, "namespace": "kube-system", "annotations": {"meta.helm.sh/release-name": owner}}}


CENTRAL_PODS = workload("Deployment", "kube-dns", 2)
STARTING = workload("Deployment", "kube-dns", 0)
NODE, NODE_STARTING, NODE_LOCAL = workload("DaemonSet", "kube-dns", 2), workload("DaemonSet", "kube-dns", 1), workload("DaemonSet", "kube-dns-node", 2)
KEEP_BOTH = ["-set", "topology=node", "-set", "node.keepDeployment=true"]


@pytest.mark.parametrize("cluster, values, said", [
    ([], ["-set", "topology=node"], None),
    ([CENTRAL_PODS], ["-set", "topology=classic"], None),
    ([CENTRAL_PODS], ["-set", "topology=node-local"], None),
    ([CENTRAL_PODS, NODE_LOCAL], [], None),
    ([CENTRAL_PODS, NODE_LOCAL], ["-set", "topology=node-local"], None),
    ([CENTRAL_PODS], ["-set", "topology=node"], "first set node.keepDeployment: true"),
    ([CENTRAL_PODS], KEEP_BOTH, None),
    ([CENTRAL_PODS, NODE_STARTING], ["-set", "topology=node"], "first set node.keepDeployment: true"),
    ([CENTRAL_PODS, NODE], ["-set", "topology=node"], None),
    ([workload("Deployment", "kube-dns", 2, "another")], ["-set", "topology=node"], None),  # Helm does not delete what is not in the release
    ([NODE], ["-set", "topology=node"], None),
    ([NODE], [], "first set topology: node with node.keepDeployment: true"),
    ([NODE, STARTING], [], "first set topology: node with node.keepDeployment: true"),
    ([NODE], KEEP_BOTH, None),
    ([NODE, CENTRAL_PODS], [], None),
    ([workload("DaemonSet", "kube-dns", 2, "another")], [], None),
    ([NODE, CENTRAL_PODS], ["-set", "topology=node-local"], "is that of topology node, and Kubernetes does not change its selector: change to front first"),
    ([NODE_LOCAL, CENTRAL_PODS], KEEP_BOTH, "is that of topology node-local, and Kubernetes does not change its selector: change to front first"),
])  # fmt: skip
def test_an_upgrade_that_would_leave_no_pod_or_end_halfway_is_refused(tmp_path, cluster, values, said):
    (tmp_path / "cluster.json").write_text(json.dumps(cluster))
    code, _, text = helm(*SETTINGS, *values, "-cluster", str(tmp_path / "cluster.json"))
    assert (code == 1 and said in text) if said else code == 0, text


def test_a_configmap_is_printed_only_if_it_has_keys():
    assert ("ConfigMap", "kube-dns") not in objects(*SETTINGS)
    made = objects(*SETTINGS, "-set", "stubDomains.corp\\.example={10.0.0.53}", "-set", "upstreamNameservers={192.0.2.53}")
    assert made["ConfigMap", "kube-dns"]["data"] == {"stubDomains": '{"corp.example":["10.0.0.53"]}', "upstreamNameservers": '["192.0.2.53"]'}


@pytest.mark.parametrize("level", ["0", "4", "10"])
def test_the_log_level_is_in_the_configmap_and_so_is_0(level):
    assert objects(*SETTINGS, "-set", f"logLevel={level}")["ConfigMap", "kube-dns"]["data"] == {"logLevel": level}


@pytest.mark.parametrize("level", ["11", "-1", "loud"])
def test_a_log_level_out_of_range_is_refused(level):
    code, _, said = helm(*SETTINGS, "-set", f"logLevel={level}")
    assert code != 0 and "logLevel" in said


def test_metrics_for_another_prometheus():
    made = objects(*SETTINGS, "-set", "networkPolicy.enabled=true", "-set", "networkPolicy.metricsFrom[0].ipBlock.cidr=10.0.0.0/8")
    dns, metrics = made["NetworkPolicy", "kube-dns"]["spec"]["ingress"]
    assert metrics["from"] == [{"ipBlock": {"cidr": "10.0.0.0/8"}}] and "from" not in dns


def test_dnsmasq_arguments_add_or_replace():
    made = objects(*SETTINGS, "-set", "nanny.dnsmasqArgs={--cache-size=5000,--host-record=a.example\\,10.0.0.1}", "-set", "nanny.extraArgs={-v=4}")
    args = {c["name"]: c["args"] for c in made["Deployment", "kube-dns"]["spec"]["template"]["spec"]["containers"]}["dnsmasq"]
    assert args[-2:] == ["--cache-size=5000", "--host-record=a.example,10.0.0.1"]
    assert "--cache-size=1000" not in args and "--dns-forward-max=6000" in args
    assert args.index("-v=4") < args.index("--")


@pytest.mark.parametrize("selector, refused", [
    ({"matchLabels": {"app.kubernetes.io/name": "coredns"}}, True), ({"matchLabels": {"k8s-app": "coredns"}}, True),
    ({"matchExpressions": [{"key": "k8s-app", "operator": "In", "values": ["coredns"]}]}, True), ({"matchLabels": {"k8s-app": "kube-dns"}}, False),
])
@pytest.mark.parametrize("place", ["topologySpreadConstraints", "affinity"])
def test_a_selector_for_coredns_s_pods_is_refused(tmp_path, selector, refused, place):
    """It selects no pod of the chart, so the pods would not be spread."""
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": selector}
    values = {"topologySpreadConstraints": [{**term, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}],
              "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}
    (tmp_path / "values.yaml").write_text(yaml.safe_dump({place: values[place]}))
    code, _, err = helm(*SETTINGS, "-f", tmp_path / "values.yaml")
    assert (code != 0 and f"{place}" in err and "which no pod of this chart has" in err and "use k8s-app: kube-dns" in err) if refused else code == 0, err


def test_values_of_the_coredns_chart_are_taken():
    o = objects("-set", SETTINGS[1], "-f", ROOT / "tests/helm/coredns-values.yaml")
    d = o["Deployment", "kube-dns"]
    pod = d["spec"]["template"]["spec"]
    assert "replicas" not in d["spec"]  # the autoscaler sets the number
    assert d["spec"]["strategy"]["rollingUpdate"] == {"maxUnavailable": 1, "maxSurge": "25%"}
    assert d["metadata"]["annotations"] == {"b": "c", "ticket": "7"}
    assert d["spec"]["selector"] == {"matchLabels": {"k8s-app": "kube-dns"}}
    assert d["spec"]["template"]["metadata"]["labels"] == {"k8s-app": "kube-dns", "app.kubernetes.io/name": "kubedns", "team": "platform", "owner": "platform"}
    assert d["spec"]["template"]["metadata"]["annotations"]["cluster-autoscaler.kubernetes.io/safe-to-evict"] == "true"
    assert pod["priorityClassName"] == "system-node-critical" and pod["terminationGracePeriodSeconds"] == 60
    assert pod["securityContext"]["fsGroup"] == 1000 and pod["securityContext"]["runAsUser"] == 65534
    assert pod["imagePullSecrets"] == [{"name": "mirror"}]
    assert "nodeAffinity" in pod["affinity"] and pod["nodeSelector"] == {"pool": "system"}
    assert pod["tolerations"] == [{"key": "pool", "operator": "Exists"}] and pod["topologySpreadConstraints"][0]["maxSkew"] == 2
    assert pod["serviceAccountName"] == "coredns"
    kubedns, dnsmasq, _, log = pod["containers"]
    assert kubedns["resources"]["limits"] == {"memory": "170Mi"} and dnsmasq["resources"]["limits"] == {"memory": "64Mi"}
    assert {"name": "WATCHED", "value": "yes"} in kubedns["env"] and {"name": "certs", "mountPath": "/certs"} in kubedns["volumeMounts"]
    assert kubedns["imagePullPolicy"] == "Always" and log["name"] == "log" and pod["initContainers"][0]["name"] == "first"
    assert {"name": "certs", "emptyDir": {}} in pod["volumes"]
    s = o["Service", "kube-dns"]
    assert s["spec"]["clusterIPs"] == ["10.96.0.10", "fd00:10:96::a"] and s["spec"]["ipFamilyPolicy"] == "PreferDualStack"
    assert s["spec"]["trafficDistribution"] == "PreferClose" and s["spec"]["selector"] == {"k8s-app": "kube-dns"}
    assert o["PodDisruptionBudget", "kube-dns"]["spec"]["minAvailable"] == 2 and "maxUnavailable" not in o["PodDisruptionBudget", "kube-dns"]["spec"]
    assert o["ClusterRoleBinding", "dns-reader"]["roleRef"]["name"] == "dns-reader"
    assert o["ClusterRoleBinding", "dns-reader"]["subjects"][0]["name"] == "coredns"
    assert o["ServiceAccount", "coredns"]["metadata"]["annotations"]["a"] == "b"
    monitor = o["PodMonitor", "kube-dns"]
    assert monitor["metadata"]["namespace"] == "monitoring" and monitor["metadata"]["labels"]["release"] == "kps"
    assert monitor["spec"]["namespaceSelector"] == {"matchNames": ["kube-system"]}
    assert monitor["spec"]["podMetricsEndpoints"][0]["interval"] == "30s"
    scaler = o["Deployment", "kube-dns-autoscaler"]["spec"]["template"]["spec"]
    assert scaler["containers"][1] == {"name": "beside", "image": "mirror.example/beside:1"} and scaler["imagePullSecrets"] == [{"name": "mirror"}]
    assert o["Deployment", "kube-dns-autoscaler"]["spec"]["template"]["metadata"]["annotations"] == {"c": "d"}
    assert scaler["securityContext"]["fsGroup"] == 1
    scaler = scaler["containers"][0]
    assert scaler["securityContext"]["privileged"] is False and scaler["securityContext"]["readOnlyRootFilesystem"] is True
    assert scaler["image"] == "mirror.example/cpa:v1.8.8" and scaler["command"][-1] == "--nodelabels=pool=apps"
    assert "--target=Deployment/kube-dns" in scaler["command"]
    linear = yaml.safe_load(o["ConfigMap", "kube-dns-autoscaler"]["data"]["linear"])
    assert (linear["coresPerReplica"], linear["min"], linear["max"]) == (128, 3, 12)
    role = o["Role", "kube-dns-autoscaler"]["rules"]
    assert [r["resourceNames"] for r in role] == [["kube-dns-autoscaler"], ["kube-dns"]]
    for x in o.values():
        assert x["metadata"]["labels"]["owner"] == "platform" and x["metadata"]["annotations"]["ticket"] == "7", x["metadata"]


def test_values_of_the_coredns_chart_without_effect_are_named():
    _, notes, said = helm("-set", SETTINGS[1], "-notes", "-f", ROOT / "tests/helm/coredns-values.yaml")
    assert not said
    for value in ("image.repository", "image.tag", "servers", "deployment.selector", "zoneFiles", "livenessProbe", "readinessProbe", "securityContext",
                  "prometheus.service", "prometheus.monitor.selector", "service.selector", "extraSecrets", "rbac.pspEnable",
                  "autoscaler.livenessProbe", "autoscaler.configmap.annotations", "deployment.skipConfig"):
        assert f"\n  * {value}" in notes, value
    assert "  * " not in helm(*SETTINGS, "-notes")[1]
