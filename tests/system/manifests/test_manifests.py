"""What an operator applies, as kubectl renders it: overlays, components, the check of the settings. No cluster is asked."""

import os
import re
import subprocess

import pytest
import yaml

from overlays import DIGEST, KUBECTL, ROOT, RULES, check, containers, copy, needs_kubectl, render


def test_the_prometheus_rule_is_rules_yaml():
    (made,) = yaml.safe_load_all((ROOT / "conf/kubernetes/components/prometheus/prometheusrule.yaml").read_text())
    assert made["spec"]["groups"] == yaml.safe_load(RULES.read_text())["groups"], "run: make prometheusrule"


def test_every_overlay_is_scraped(tmp_path):
    made = copy(tmp_path)
    (monitor,) = yaml.safe_load_all((ROOT / "conf/kubernetes/components/prometheus/podmonitor.yaml").read_text())
    (expression,) = monitor["spec"]["selector"]["matchExpressions"]
    (scrape,) = yaml.safe_load((ROOT / "conf/prometheus/scrape.yaml").read_text())["scrape_configs"]
    regex = next(c["regex"] for c in scrape["relabel_configs"] if "k8s_app" in c.get("source_labels", [""])[0])
    for overlay in ("replace-kube-dns", "front", "beside", "node-service", "node-local"):
        (pods,) = [o["spec"]["template"] for (kind, name), o in render(made, overlay).items()
                   if kind in ("Deployment", "DaemonSet") and name.startswith("kube-dns")]
        label = pods["metadata"]["labels"]["k8s-app"]
        assert label in expression["values"] and re.fullmatch(regex, label), overlay


def test_pods_of_a_kube_dns_that_a_rollback_brings_back_take_a_token(tmp_path):
    """Our ServiceAccount stays when the Deployment is undone."""
    made = render(copy(tmp_path))
    assert "automountServiceAccountToken" not in made["ServiceAccount", "kube-dns"]
    assert made["Deployment", "kube-dns"]["spec"]["template"]["spec"]["automountServiceAccountToken"] is False


def test_where_clients_ask_kubedns_dnsmasq_keeps_denials(tmp_path):
    made = copy(tmp_path)
    for overlay, kind in (("front", "Deployment"), ("node-service", "DaemonSet"), ("node-local", "DaemonSet")):
        (pods,) = [o["spec"]["template"]["spec"] for (k, _), o in render(made, overlay).items() if k == kind]
        assert not any("--no-negcache" in c["args"] for c in pods["containers"]), overlay


def test_no_rule_names_a_job():
    assert "job=" not in RULES.read_text()


def last_version():
    return subprocess.run(["make", "-s", "image-tag"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def test_image_tags_are_the_version_and_in_one_place():
    version = last_version()
    (settings,) = yaml.safe_load_all((ROOT / "conf/kubernetes/settings/settings.yaml").read_text())
    assert [settings["data"][f"{n}Image"] for n in ("kubedns", "nanny", "sidecar")] \
        == [f"{n}:{version}" for n in ("kubedns", "nanny", "sidecar")]
    others = [p for p in (ROOT / "conf/kubernetes").rglob("*.yaml") if f":{version}" in p.read_text()]
    assert [p.name for p in others] == ["settings.yaml"]


def test_changelogs_are_of_the_version():
    version = last_version()
    ours = [line for line in (ROOT / "CHANGELOG.md").read_text().splitlines() if line.startswith("## ")]
    assert ours[0] in ("## Next", f"## {version}") and f"## {version}" in ours
    assert (ROOT / "debian/changelog").read_text().startswith(f"kubedns ({version}) ")


@needs_kubectl
@pytest.mark.parametrize("overlay, name", [("replace-kube-dns", "kube-dns"), ("front", "kube-dns"), ("beside", "kube-dns-beside")])
def test_images_by_tag_and_digest_and_pull_policy(tmp_path, overlay, name):
    made = copy(tmp_path, kubednsImage=f"kubedns:9.9@{DIGEST}", nannyImage=f"nanny@{DIGEST}", sidecarImage="sidecar:9.8", imagePullPolicy="Always")
    seen = containers(render(made, overlay), name)
    assert seen["kubedns"]["image"] == f"registry.example:5000/dns/kubedns:9.9@{DIGEST}"
    assert seen["dnsmasq"]["image"] == f"registry.example:5000/dns/nanny@{DIGEST}"
    assert seen["sidecar"]["image"] == "registry.example:5000/dns/sidecar:9.8"
    assert {c["imagePullPolicy"] for c in seen.values()} == {"Always"}


@needs_kubectl
def test_components_change_what_they_are_named_for_and_go_together(tmp_path):
    made = copy(tmp_path, prometheusRelease="monitoring", autoscalerImage="mirror.example/cpa:v2", imagePullPolicy="Never")
    plain = render(made)
    all_of_them = render(made, "replace-kube-dns", "front", "control-plane", "evict-unready", "proportional", "prometheus")
    deployment = all_of_them["Deployment", "kube-dns"]
    assert "--resolver=127.0.0.1:10153" in containers(all_of_them)["kubedns"]["args"]
    assert [t["key"] for t in deployment["spec"]["template"]["spec"]["tolerations"]] \
        == ["CriticalAddonsOnly", "node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"]
    budget = ("PodDisruptionBudget", "kube-dns")
    assert all_of_them[budget]["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow"
    assert "unhealthyPodEvictionPolicy" not in plain[budget]["spec"]  # servers before 1.26 refuse it
    scaler = all_of_them["Deployment", "kube-dns-autoscaler"]["spec"]["template"]["spec"]
    assert [(c["image"], c["imagePullPolicy"]) for c in scaler["containers"]] == [("mirror.example/cpa:v2", "Never")]
    assert len(scaler["tolerations"]) == 1
    for kind in ("PodMonitor", "PrometheusRule"):
        assert all_of_them[kind, "kube-dns"]["metadata"]["labels"]["release"] == "monitoring"
    assert {c["image"].split("/")[0] for c in containers(all_of_them).values()} == {"registry.example:5000"}
    # What no component is about is as it was.
    for key in (("Service", "kube-dns"), ("ClusterRole", "kube-dns"), ("ServiceAccount", "kube-dns")):
        assert all_of_them[key] == plain[key]


@needs_kubectl
@pytest.mark.parametrize("base", ["node-service", "node-local"])
def test_rights_are_those_of_the_pods_account_in_an_overlay_that_adds_an_object(tmp_path, base):
    objects = render(copy(tmp_path), base, "prometheus")
    account = objects["DaemonSet", "kube-dns-node"]["spec"]["template"]["spec"]["serviceAccountName"]
    assert ("ServiceAccount", account) in objects
    assert [s["name"] for s in objects["ClusterRoleBinding", "kube-dns-node"]["subjects"]] == [account]


@needs_kubectl
@pytest.mark.parametrize(("base", "components", "kind", "name", "args"), [
    ("replace-kube-dns", ["front"], "Deployment", "kube-dns", ["--client-pods=all"]),
    ("node-service", [], "DaemonSet", "kube-dns-node", ["--client-pods=node", "--node-name=$(NODE_NAME)"]),
    ("node-local", [], "DaemonSet", "kube-dns-node", ["--client-pods=node", "--node-name=$(NODE_NAME)"]),
])  # fmt: skip
def test_client_pods_watches_pods_and_may(tmp_path, base, components, kind, name, args):
    made = copy(tmp_path)
    plain, watching = render(made, base, *components), render(made, base, *components, "client-pods")
    before, after = (o[kind, name]["spec"]["template"]["spec"]["containers"][0] for o in (plain, watching))
    assert after["name"] == "kubedns" and after["args"] == before["args"] + args
    tenants = render(made, base, *components, "tenants")
    (theirs,) = (c for c in tenants[kind, name]["spec"]["template"]["spec"]["containers"] if c["name"] == "kubedns")
    assert theirs["args"] == after["args"] + ["--visibility=labels"]
    policy = tenants.pop(("NetworkPolicy", "kube-dns"))
    assert policy == render(made, base, *components, "networkpolicy")["NetworkPolicy", "kube-dns"]
    assert {**tenants, (kind, name): None} == {**watching, (kind, name): None}
    # A mesh's proxy would be a client at 127.0.0.1, which sees everything.
    annotations = tenants[kind, name]["spec"]["template"]["metadata"]["annotations"]
    assert annotations["sidecar.istio.io/inject"] == "false" and annotations["linkerd.io/inject"] == "disabled"
    rules = watching["ClusterRole", name]["rules"]
    assert rules[:-1] == plain["ClusterRole", name]["rules"]
    assert rules[-1] == {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]}
    if kind == "DaemonSet":
        assert {"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}} in after["env"]
        flow = watching["FlowSchema", "kube-dns-node"]["spec"]["rules"][0]["resourceRules"][0]
        assert flow["resources"] == ["services", "namespaces", "endpointslices", "pods"]


@needs_kubectl
@pytest.mark.parametrize(("base", "components", "kind", "name"), [
    ("replace-kube-dns", ["front"], "Deployment", "kube-dns"), ("node-service", [], "DaemonSet", "kube-dns-node")])  # fmt: skip
def test_configmaps_of_one_namespace_are_read_there_and_nowhere_else(tmp_path, base, components, kind, name):
    made = copy(tmp_path)
    plain, hosts = render(made, base, *components), render(made, base, *components, "hosts")
    before, after = (o[kind, name]["spec"]["template"]["spec"]["containers"][0] for o in (plain, hosts))
    assert after["name"] == "kubedns" and after["args"] == before["args"] + ["--hosts-namespaces=dns-names"]
    role, binding = hosts["Role", "kube-dns-hosts"], hosts["RoleBinding", "kube-dns-hosts"]
    assert role["metadata"]["namespace"] == binding["metadata"]["namespace"] == "dns-names"
    assert role["rules"] == [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list", "watch"]}]
    assert {"kind": "ServiceAccount", "name": name, "namespace": "kube-system"} in binding["subjects"]
    assert hosts["ClusterRole", name] == plain["ClusterRole", name]


@needs_kubectl
@pytest.mark.parametrize("overlay, deployment, new", [
    ("front", "", True), ("replace-kube-dns", "", True), ("front", "3 {}", False), ("beside", "", False), ("node-service", "", False),
])
def test_check_says_how_many_pods_a_new_deployment_starts_with(tmp_path, overlay, deployment, new):
    """From CoreDNS the Deployment kube-dns is new, and our manifests leave the number alone: one pod."""
    made = copy(tmp_path)
    stand_in = tmp_path / "kubectl-in-reach"
    stand_in.write_text(f"""#!/bin/sh
case "$*" in
version*) echo '"serverVersion"' ;;
kustomize*) exec kubectl "$@" ;;
*"get deployment kube-dns"*) printf '%s' '{deployment}' ;;
*"get service kube-dns"*) printf 10.96.0.10 ;;
*apply*--dry-run=server*) exec cat >/dev/null ;;
*) exit 1 ;;
esac
""")
    stand_in.chmod(0o755)
    p = subprocess.run([made / "check", overlay], capture_output=True, text=True, timeout=60, env={**os.environ, "KUBECTL": str(stand_in)})
    assert p.returncode == 0, p.stderr
    assert ("scale deployment/kube-dns --replicas=2" in p.stderr) == new, p.stderr


OURS = {"app.kubernetes.io/name": "kubedns"}  # CoreDNS's pods do not have it


@needs_kubectl
@pytest.mark.parametrize("overlay, app", [("replace-kube-dns", "kube-dns"), ("front", "kube-dns"), ("beside", "kube-dns-beside"), ("node-service", "kube-dns")])
def test_the_disruption_budget_is_for_our_pods_alone(tmp_path, overlay, app):
    """A pod under two budgets cannot be evicted, and CoreDNS may have one of its own: its pods carry our Service's label."""
    made = render(copy(tmp_path), overlay)
    (budget,) = (o["spec"]["selector"]["matchLabels"] for (kind, _), o in made.items() if kind == "PodDisruptionBudget")
    (labels,) = (o["spec"]["template"]["metadata"]["labels"] for (kind, _), o in made.items() if kind in ("Deployment", "DaemonSet"))
    assert budget == {"k8s-app": app, **OURS} and budget.items() <= labels.items()


@needs_kubectl
def test_on_every_node_the_same_pod_is_a_daemonset(tmp_path):
    made = copy(tmp_path)
    front, node = render(made, "front"), render(made, "node-service")
    central, daemonset = front["Deployment", "kube-dns"], node["DaemonSet", "kube-dns-node"]
    assert not [key for key in node if key[0] == "Deployment"]
    spec, pod = daemonset["spec"], daemonset["spec"]["template"]
    assert "replicas" not in spec and "strategy" not in spec and spec["updateStrategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
    # The Service takes its pods, and the Deployment's while there is one; the DaemonSet takes no pod of the Deployment's.
    labels, service = pod["metadata"]["labels"], node["Service", "kube-dns"]["spec"]
    assert labels == {**spec["selector"]["matchLabels"], **OURS} and service["selector"].items() < labels.items()
    assert service == {**front["Service", "kube-dns"]["spec"], "trafficDistribution": "PreferSameNode"}
    assert "maxUnavailable" not in node["PodDisruptionBudget", "kube-dns"]["spec"], "a DaemonSet has no scale to count it of"
    mine, theirs = ({c["name"]: c for c in o["spec"]["template"]["spec"]["containers"]} for o in (daemonset, central))
    assert mine["kubedns"]["args"] == [*theirs["kubedns"]["args"], "--node-role"]
    for name, container in mine.items():
        assert {**container, "args": 0, "resources": 0} == {**theirs[name], "args": 0, "resources": 0}
    # Rights, and a place of its own in the API server's queues, belong to the account that the pods have.
    account = {"kind": "ServiceAccount", "name": "kube-dns-node", "namespace": "kube-system"}
    assert pod["spec"]["serviceAccountName"] == "kube-dns-node" and ("ServiceAccount", "kube-dns-node") in node
    assert node["ClusterRoleBinding", "kube-dns-node"]["subjects"] == [account]
    schema = node["FlowSchema", "kube-dns-node"]["spec"]
    assert schema["rules"][0]["subjects"][0]["serviceAccount"] == {"name": account["name"], "namespace": account["namespace"]}
    assert ("PriorityLevelConfiguration", schema["priorityLevelConfiguration"]["name"]) in node
    asked = {(g, r) for rule in node["ClusterRole", node["ClusterRoleBinding", "kube-dns-node"]["roleRef"]["name"]]["rules"] for g in rule["apiGroups"] for r in rule["resources"]}
    (rule,) = schema["rules"][0]["resourceRules"]
    assert asked <= {(g, r) for g in rule["apiGroups"] for r in rule["resources"]}


@needs_kubectl
def test_in_the_hosts_network_only_what_the_host_needs_is_added(tmp_path):
    made = render(copy(tmp_path, clusterIP="10.43.0.10"), "node-local")
    assert {kind for kind, _ in made} == {"DaemonSet", "Service", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "FlowSchema", "PriorityLevelConfiguration"}
    # The one Service leads to the pods in the middle, and its address is an argument of the pods here.
    upstream = made["Service", "kube-dns-node-upstream"]["spec"]
    assert upstream["selector"] == {"k8s-app": "kube-dns"} and "clusterIP" not in upstream
    daemonset = made["DaemonSet", "kube-dns-node"]["spec"]
    pod = daemonset["template"]["spec"]
    # Not behind the Service: its pods answer for a node whose own pod does not.
    assert daemonset["selector"]["matchLabels"] == {"k8s-app": "kube-dns-node", "kubedns/role": "node"}
    assert daemonset["template"]["metadata"]["labels"] == {**daemonset["selector"]["matchLabels"], **OURS}
    assert "replicas" not in daemonset and "strategy" not in daemonset  # the API server refuses them
    assert pod["hostNetwork"] and not pod["securityContext"].get("sysctls"), "refused together"
    assert daemonset["updateStrategy"]["rollingUpdate"] == {"maxSurge": "10%", "maxUnavailable": 0}
    mine = {c["name"]: c for c in pod["containers"]}
    assert {n: c["securityContext"]["capabilities"].get("add") or [] for n, c in mine.items()} \
        == {"kubedns": ["NET_BIND_SERVICE"], "dnsmasq": ["NET_ADMIN", "NET_BIND_SERVICE", "SETUID", "SETGID"], "sidecar": []}
    assert "--until-synced=$(KUBE_DNS_NODE_UPSTREAM_SERVICE_HOST)" in mine["kubedns"]["args"]
    addresses = {}
    for name, flag in (("kubedns", "--dns-bind-address="), ("dnsmasq", "-localip=")):
        env = {e["name"]: e.get("value") for e in mine[name]["env"]}
        (value,) = [a[len(flag):] for a in mine[name]["args"] if a.startswith(flag)]
        addresses[name] = value.replace("$(CLUSTER_DNS)", env["CLUSTER_DNS"])
    assert addresses == {"kubedns": "169.254.20.10,10.43.0.10", "dnsmasq": "169.254.20.10,10.43.0.10"}
    # On the host others are 65534, and a shared port is open to every process of its user.
    assert {n: (c["securityContext"]["runAsUser"], c["securityContext"]["runAsGroup"]) for n, c in mine.items()} \
        == {"kubedns": (0, 0), "dnsmasq": (0, 0), "sidecar": (61053, 61053)}
    # Metrics, health and page at the node's own address (and on loopback), not at every one that the host has.
    for name, flag in (("kubedns", "--healthz-bind-address=$(POD_IP)"), ("dnsmasq", "-metricsAddr=$(POD_IP):10056"), ("sidecar", "--prometheus-addr=$(POD_IP)")):
        assert flag in mine[name]["args"]
        assert {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}} in mine[name]["env"]
    # The next pod of an update has to find room beside this one: no port of the host's, and what is the pod's own at its own address.
    assert not [p for c in mine.values() for p in c.get("ports") or []]
    for c in mine.values():
        assert {"name": "OWN_LOOPBACK", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}} in c["env"]
        assert not [a for a in c["args"] if "127.0.0.1" in a]
        assert isinstance(c["livenessProbe"]["httpGet"]["port"], int), "ports have no names here"
    assert {n: c["readinessProbe"]["exec"]["command"] for n, c in mine.items() if "readinessProbe" in c} \
        == {"kubedns": ["/usr/sbin/kubedns", "--ready"], "dnsmasq": ["/usr/sbin/nanny", "-ready"]}
    assert not [c for c in mine.values() if "httpGet" in c.get("readinessProbe", {})]


@needs_kubectl
def test_the_documented_dual_stack_overlay_gives_both_programs_the_same_addresses(tmp_path):
    section = (ROOT / "docs/node.md").read_text().split("### Dual stack", 1)[1].split("\n### ")[0]
    (overlay,) = re.findall(r"```yaml\n(.*?)```", section, re.S)
    made = copy(tmp_path, clusterIP="10.43.0.10")
    (made / "mine").mkdir()
    (made / "mine/kustomization.yaml").write_text(overlay)
    out = subprocess.run([*KUBECTL, "kustomize", made / "mine"], capture_output=True, text=True, timeout=60)
    assert out.returncode == 0, out.stderr
    (daemonset,) = [o for o in yaml.safe_load_all(out.stdout) if o and o["kind"] == "DaemonSet"]
    mine = {c["name"]: c for c in daemonset["spec"]["template"]["spec"]["containers"]}
    (kubedns,) = [a for a in mine["kubedns"]["args"] if a.startswith("--dns-bind-address=")]
    (nanny,) = [a for a in mine["dnsmasq"]["args"] if a.startswith("-localip=")]
    assert kubedns.split("=")[1] == nanny.split("=")[1] == "169.254.20.10,$(CLUSTER_DNS),fd00:10:96::a,fd00:169:254::10"


@needs_kubectl
@pytest.mark.parametrize("setting, said", [
    ({"clusterIP": "10.96.0.300"}, "clusterIP: 10.96.0.300: not an address"),
    ({"clusterIP": "169.254.20.10"}, "clusterIP: 169.254.20.10: an address that each node has for itself"),
    ({"clusterIP": "10.96.0"}, "clusterIP: 10.96.0: not an address"),
    ({"clusterIP": "10.96.0.010"}, "clusterIP: 10.96.0.010: not an address"),
    ({"clusterIP": "10.96.0.1.1"}, "clusterIP: 10.96.0.1.1: not an address"),
    ({"clusterIP": "fd00:::a"}, "clusterIP: fd00:::a: not an address"),
    ({"clusterIP": "fd00:10:96"}, "clusterIP: fd00:10:96: not an address"),
    ({"clusterIP": "fd00::12345"}, "clusterIP: fd00::12345: not an address"),
    ({"clusterIP": "1:2:3:4:5:6:7:8:9"}, "not an address"),
    ({"registry": "https://registry.example/dns"}, "without a scheme: registry.example/dns"),
    ({"registry": "registry.example/dns/"}, "registry: registry.example/dns/: not HOST[:PORT][/FOLDER...]"),
    ({"registry": "registry.example/DNS"}, "folders in lower case"),
    ({"kubednsImage": "kubedns@sha256:12"}, "kubednsImage: kubedns@sha256:12: not NAME:TAG"),
    ({"nannyImage": "registry.example/nanny:1"}, "nannyImage: registry.example/nanny:1: not NAME:TAG"),
    ({"imagePullPolicy": "Sometimes"}, "imagePullPolicy: Sometimes: one of Always, IfNotPresent, Never"),
])
def test_check_refuses_what_the_api_server_or_the_kubelet_would(tmp_path, setting, said):
    code, text = check(copy(tmp_path, **setting))
    assert code == 1 and said in text, text


@needs_kubectl
@pytest.mark.parametrize("setting", [
    {}, {"clusterIP": "fd00:10:96::a"}, {"clusterIP": "::1"}, {"clusterIP": "1:2:3:4:5:6:7:8"}, {"clusterIP": '"fd00::"'},
    {"registry": "localhost:5000"}, {"registry": "123456789012.dkr.ecr.eu-west-1.amazonaws.com/dns/suite_1"},
    {"kubednsImage": f"kubedns:0.1.0@{DIGEST}"}])
def test_check_accepts_what_is_right(tmp_path, setting):
    code, text = check(copy(tmp_path, **setting), "replace-kube-dns", "front", "autoscale", "beside", "node-service", "node-local")
    assert code == 0 and text.count("settings are complete") == 6, text


@needs_kubectl
@pytest.mark.parametrize(("base", "components", "said"), [
    ("replace-kube-dns", ["hosts"], "Deployment kube-dns: --hosts-namespaces: kubedns would not start: in the classic topology"),
    ("replace-kube-dns", ["client-pods", "nearest"], "Deployment kube-dns: --nearest: kubedns would not start: in the classic topology"),
    ("replace-kube-dns", ["tenants"], "Deployment kube-dns: --visibility: kubedns would not start: in the classic topology"),
    ("replace-kube-dns", ["front", "nearest"], "put ../components/client-pods before ../components/nearest"),
    ("replace-kube-dns", ["hosts", "front"], "components/hosts: no pod gets its --hosts-namespaces: name it after components/front"),
    ("node-local", ["nearest"], "components/nearest: no pod gets its --nearest:"),
    ("node-service", ["nearest"], "components/nearest: no pod gets its --nearest:"),
    ("replace-kube-dns", ["front", "nearest-node"], "components/nearest-node: no pod gets its --nearest|--node-name|--zone:"),
    ("replace-kube-dns", ["front", "client-pods", "nearest", "hosts", "multicluster"], None),
    ("replace-kube-dns", ["front", "tenants", "nearest"], None), ("replace-kube-dns", ["multicluster", "external-names"], None),
    ("node-local", ["tenants", "nearest-node", "hosts"], None), ("node-service", ["client-pods", "nearest-node", "hosts"], None),
])  # fmt: skip
def test_check_names_components_that_the_topology_does_not_take(tmp_path, base, components, said):
    made = copy(tmp_path)
    (made / "mine").mkdir()
    names = ", ".join(f"../components/{c}" for c in components)
    (made / "mine/kustomization.yaml").write_text(f"resources: [../{base}]\ncomponents: [{names}] # not components/search\n")
    code, text = check(made, "mine")
    assert (code, "settings are complete" in text) == ((0, True) if said is None else (1, False)), text
    assert said is None or text.startswith("mine: ") and said in text and text.count("\n") == 1, text
