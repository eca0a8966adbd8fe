"""The objects that an operator applies, as kubectl renders them: overlays, components, and the check of the settings. The tests need no cluster."""

import functools
import os
import re
import subprocess

import pytest
import yaml

from overlays import DIGEST, KUBECTL, ROOT, RULES, check, containers, copy, needs_kubectl, render, stand_in


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


def relabeled(rules, labels):
    """Prometheus's relabeling with the actions replace and keep. Returns the labels, or None if a rule drops the target."""
    labels = dict(labels)
    for rule in rules:
        rule = {re.sub("_(.)", lambda m: m[1].upper(), key): value for key, value in rule.items()}
        found = re.fullmatch(rule.get("regex", "(.*)"), ";".join(labels.get(name, "") for name in rule["sourceLabels"]))
        if not found and rule.get("action") == "keep":
            return None
        if found and rule.get("action", "replace") == "replace":
            labels[rule["targetLabel"]] = found.expand(re.sub(r"\$(\d)", r"\\\1", rule.get("replacement", "$1")))
    return labels


@pytest.mark.parametrize("ip, host", [("192.0.2.7", "192.0.2.7"), ("2001:db8::7", "[2001:db8::7]")])
def test_pods_in_the_host_s_network_are_scraped_at_an_address_of_either_family(ip, host):
    """A bug: an IPv6 address had no brackets, so its last group looked like a part of the port."""
    (monitor,) = yaml.safe_load_all((ROOT / "conf/kubernetes/components/prometheus/podmonitor.yaml").read_text())
    (scrape,) = yaml.safe_load((ROOT / "conf/prometheus/scrape.yaml").read_text())["scrape_configs"]
    for rules in (monitor["spec"]["podMetricsEndpoints"][1]["relabelings"], scrape["relabel_configs"]):
        for container, port in (("kubedns", 10055), ("dnsmasq", 10056), ("sidecar", 10054)):
            pod = "__meta_kubernetes_pod_"
            target = {"__address__": ip, f"{pod}label_k8s_app": "kube-dns-node", f"{pod}container_name": container, f"{pod}ip": ip}
            assert relabeled(rules, target)["__address__"] == f"{host}:{port}"


def test_pods_of_a_kube_dns_that_a_rollback_brings_back_take_a_token(tmp_path):
    """After a rollback the old Deployment uses our ServiceAccount. Its pods must be able to mount a token of this account."""
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


@functools.cache
def last_version():
    return subprocess.run(["make", "-s", "image-tag"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def test_image_tags_are_the_version_and_in_one_place():
    version = last_version()
    (settings,) = yaml.safe_load_all((ROOT / "conf/kubernetes/settings/settings.yaml").read_text())
    assert [settings["data"][f"{n}Image"] for n in ("kubedns", "nanny", "nannyUnbound", "sidecar")] \
        == [f"{n}:{version}" for n in ("kubedns", "nanny", "nanny-unbound", "sidecar")]
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
    assert "unhealthyPodEvictionPolicy" not in plain[budget]["spec"]  # API servers before 1.26 reject this field
    scaler = all_of_them["Deployment", "kube-dns-autoscaler"]["spec"]["template"]["spec"]
    assert [(c["image"], c["imagePullPolicy"]) for c in scaler["containers"]] == [("mirror.example/cpa:v2", "Never")]
    assert len(scaler["tolerations"]) == 1
    for kind in ("PodMonitor", "PrometheusRule"):
        assert all_of_them[kind, "kube-dns"]["metadata"]["labels"]["release"] == "monitoring"
    assert {c["image"].split("/")[0] for c in containers(all_of_them).values()} == {"registry.example:5000"}
    # Objects that no component changes stay the same.
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
    # With a service mesh's proxy, every client would have the address 127.0.0.1, and such a client sees all names.
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
    """After a switch from CoreDNS the Deployment kube-dns is new. Our manifests do not set the number of replicas, so it would start with one pod."""
    made = copy(tmp_path)
    kubectl = stand_in(tmp_path / "kubectl-in-reach", f"""version*) echo '"serverVersion"' ;;
*"get deployment kube-dns"*) printf '%s' '{deployment}' ;;
*"get service kube-dns"*) printf 10.96.0.10 ;;
*apply*--dry-run=server*) exec cat >/dev/null ;;""")
    p = subprocess.run([made / "check", overlay], capture_output=True, text=True, timeout=60, env={**os.environ, "KUBECTL": kubectl})
    assert p.returncode == 0, p.stderr
    assert ("scale deployment/kube-dns --replicas=2" in p.stderr) == new, p.stderr


def match_label_keys(objects, name):
    """The matchLabelKeys of the Deployment's anti-affinity, and of its spread over zones."""
    pod = objects["Deployment", name]["spec"]["template"]["spec"]
    (preferred,) = pod["affinity"]["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    (spread,) = pod["topologySpreadConstraints"]
    return preferred["podAffinityTerm"].get("matchLabelKeys"), spread.get("matchLabelKeys")


@needs_kubectl
@pytest.mark.parametrize(("overlay", "components", "name"), [("replace-kube-dns", [], "kube-dns"), ("beside", [], "kube-dns-beside"),
                                                             ("front", ["keep-old"], "kubedns"), ("autoscale", [], "kube-dns"),
                                                             ("front", ["proportional"], "kube-dns")])  # fmt: skip
def test_an_update_does_not_count_the_old_pods(tmp_path, overlay, components, name):
    """A bug: the old pods of an update counted too, so both new pods could go to the same node, and stayed there."""
    made = copy(tmp_path)
    plain, old = render(made, overlay, *components), render(made, overlay, *components, "no-match-label-keys")
    assert match_label_keys(plain, name) == (["pod-template-hash"],) * 2
    assert match_label_keys(old, name) == (None, None)
    assert {k: o for k, o in plain.items() if k != ("Deployment", name)} == {k: o for k, o in old.items() if k != ("Deployment", name)}


@needs_kubectl
@pytest.mark.parametrize(("minor", "accepted"), [("28+", False), ("30", False), ("31", True)])
def test_check_names_the_component_for_an_older_api_server(tmp_path, minor, accepted):
    kubectl = stand_in(tmp_path / "kubectl-in-reach", f"""version*) printf '"clientVersion": {{\n"minor": "99"\n}}\n"serverVersion": {{\n"minor": "{minor}"\n}}\n' ;;
*apply*--dry-run=server*) exec cat >/dev/null ;;""")
    p = subprocess.run([copy(tmp_path) / "check", "front"], capture_output=True, text=True, timeout=60, env={**os.environ, "KUBECTL": kubectl})
    assert (p.returncode == 0) == accepted and ("../front and ../components/no-match-label-keys" in p.stderr) != accepted, p.stderr


@needs_kubectl
@pytest.mark.parametrize(("overlay", "components"), [("replace-kube-dns", []), ("front", []), ("front", ["engine-unbound"]), ("node-service", []), ("node-local", [])])
def test_a_container_that_hangs_is_killed_after_5_seconds(tmp_path, overlay, components):
    pods = [o["spec"]["template"]["spec"] for (kind, _), o in render(copy(tmp_path), overlay, *components).items() if kind in ("Deployment", "DaemonSet")]
    assert [c["livenessProbe"]["terminationGracePeriodSeconds"] for pod in pods for c in pod["containers"]] == [5] * 3


OURS = {"app.kubernetes.io/name": "kubedns"}  # CoreDNS's pods do not have this label


@needs_kubectl
@pytest.mark.parametrize("overlay, app", [("replace-kube-dns", "kube-dns"), ("front", "kube-dns"), ("beside", "kube-dns-beside"), ("node-service", "kube-dns")])
def test_the_disruption_budget_is_for_our_pods_alone(tmp_path, overlay, app):
    """If two PodDisruptionBudgets select a pod, the pod cannot be evicted. CoreDNS may have its own budget, and its pods have our Service's label."""
    made = render(copy(tmp_path), overlay)
    (budget,) = (o["spec"]["selector"]["matchLabels"] for (kind, _), o in made.items() if kind == "PodDisruptionBudget")
    (labels,) = (o["spec"]["template"]["metadata"]["labels"] for (kind, _), o in made.items() if kind in ("Deployment", "DaemonSet"))
    assert budget == {"k8s-app": app, **OURS} and budget.items() <= labels.items()


@needs_kubectl
def test_beside_the_old_dns_the_autoscaler_is_for_our_deployment(tmp_path):
    """GKE has an autoscaler of its own, with the name kube-dns-autoscaler."""
    plain = render(copy(tmp_path), "front", "proportional")
    kept = render(copy(tmp_path / "kept"), "front", "proportional", "keep-old")
    assert [(kind, name) for kind, name in kept if name.startswith("kube-dns")] == []
    assert {kind for kind, name in kept if name == "kubedns-autoscaler"} == {kind for kind, name in plain if name == "kube-dns-autoscaler"}
    scaler = kept["Deployment", "kubedns-autoscaler"]["spec"]
    assert {"--configmap=kubedns-autoscaler", "--target=Deployment/kubedns"} < {*scaler["template"]["spec"]["containers"][0]["command"]}
    assert scaler["selector"]["matchLabels"] == scaler["template"]["metadata"]["labels"]
    assert scaler["template"]["spec"]["serviceAccountName"] == "kubedns-autoscaler"
    assert [rule["resourceNames"] for rule in kept["Role", "kubedns-autoscaler"]["rules"]] == [["kubedns-autoscaler"], ["kubedns"]]
    for kind in ("RoleBinding", "ClusterRoleBinding"):
        binding = kept[kind, "kubedns-autoscaler"]
        assert binding["roleRef"]["name"] == binding["subjects"][0]["name"] == "kubedns-autoscaler"


CA = {"name": "upstream-ca", "mountPath": "/etc/upstream-ca", "readOnly": True}


@needs_kubectl
@pytest.mark.parametrize(("base", "components"), [
    ("replace-kube-dns", []), ("front", []), ("beside", ["front"]), ("node-service", []), ("node-local", []), ("front", ["keep-old"]),
    ("replace-kube-dns", ["proportional"])])  # fmt: skip
def test_unbound_changes_the_image_the_flags_and_the_memory_and_no_right(tmp_path, base, components):
    made = copy(tmp_path, nannyUnboundImage=f"nanny-unbound@{DIGEST}")
    plain, unbound = (render(made, base, *components, *more) for more in ([], ["engine-unbound"]))
    (key,) = [(kind, name) for kind, name in plain if kind in ("Deployment", "DaemonSet") and "autoscaler" not in name]
    assert {**unbound, key: None} == {**plain, key: None}
    before, after = (o[key]["spec"]["template"]["spec"] for o in (plain, unbound))
    assert after["volumes"] == [*before["volumes"], {"name": "upstream-ca", "configMap": {"name": "upstream-ca", "optional": True}}]
    assert {**before, "containers": 0, "volumes": 0} == {**after, "containers": 0, "volumes": 0}
    theirs, mine = ({c["name"]: c for c in pod["containers"]} for pod in (before, after))
    assert mine["kubedns"] == theirs["kubedns"]
    for name, args in (("dnsmasq", ["--engine=unbound", "--upstream-ca=/etc/upstream-ca/ca.crt"]), ("sidecar", ["--upstream-ca=/etc/upstream-ca/ca.crt"])):
        given = mine[name].pop("args"), theirs[name].pop("args")
        assert given[0] == ([*args, *given[1]] if name == "dnsmasq" else [*given[1], *args])
        assert mine[name].pop("volumeMounts") == [*theirs[name].pop("volumeMounts"), CA]
    assert mine["sidecar"] == theirs["sidecar"]
    assert mine["dnsmasq"].pop("image") == f"registry.example:5000/dns/nanny-unbound@{DIGEST}" and theirs["dnsmasq"].pop("image")
    resources = mine["dnsmasq"].pop("resources")
    assert resources == {"requests": {**theirs["dnsmasq"].pop("resources")["requests"], "memory": "32Mi"}, "limits": {"memory": "128Mi"}}
    assert mine["dnsmasq"] == theirs["dnsmasq"]  # security context, ports and probes


@needs_kubectl
@pytest.mark.parametrize(("base", "components"), [("front", []), ("beside", ["front"]), ("node-service", []), ("node-local", [])])
def test_certificates_of_a_trust_bundle_are_at_the_same_path_and_need_no_right(tmp_path, base, components):
    made = copy(tmp_path)
    plain, bundle = (render(made, base, *components, "engine-unbound", *more) for more in ([], ["upstream-trust-bundle"]))
    (key,) = [(kind, name) for kind, name in plain if kind in ("Deployment", "DaemonSet")]
    assert {**bundle, key: None} == {**plain, key: None}
    before, after = ({v["name"]: v for v in o[key]["spec"]["template"]["spec"].pop("volumes")} for o in (plain, bundle))
    assert before.pop("upstream-ca") == {"name": "upstream-ca", "configMap": {"name": "upstream-ca", "optional": True}}
    source = {"name": "upstream-ca", "path": "ca.crt", "optional": True}
    assert after.pop("upstream-ca") == {"name": "upstream-ca", "projected": {"sources": [{"clusterTrustBundle": source}]}}
    assert before == after and plain[key] == bundle[key]


@needs_kubectl
def test_on_every_node_the_same_pod_is_a_daemonset(tmp_path):
    made = copy(tmp_path)
    front, node = render(made, "front"), render(made, "node-service")
    central, daemonset = front["Deployment", "kube-dns"], node["DaemonSet", "kube-dns-node"]
    assert not [key for key in node if key[0] == "Deployment"]
    spec, pod = daemonset["spec"], daemonset["spec"]["template"]
    assert "replicas" not in spec and "strategy" not in spec and spec["updateStrategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
    # The Service selects the DaemonSet's pods, and the Deployment's pods while they exist. The DaemonSet does not select the Deployment's
    # pods.
    labels, service = pod["metadata"]["labels"], node["Service", "kube-dns"]["spec"]
    assert labels == {**spec["selector"]["matchLabels"], **OURS} and service["selector"].items() < labels.items()
    assert service == {**front["Service", "kube-dns"]["spec"], "trafficDistribution": "PreferSameNode"}
    assert "maxUnavailable" not in node["PodDisruptionBudget", "kube-dns"]["spec"], "a DaemonSet has no scale from which to compute it"
    mine, theirs = ({c["name"]: c for c in o["spec"]["template"]["spec"]["containers"]} for o in (daemonset, central))
    assert mine["kubedns"]["args"] == [*theirs["kubedns"]["args"], "--node-role"]
    for name, container in mine.items():
        assert {**container, "args": 0, "resources": 0} == {**theirs[name], "args": 0, "resources": 0}
    # The permissions and the priority level in the API server belong to the account of these pods.
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
    # The only Service selects the central pods. The node's pods get its address as an argument.
    upstream = made["Service", "kube-dns-node-upstream"]["spec"]
    assert upstream["selector"] == {"k8s-app": "kube-dns"} and "clusterIP" not in upstream
    daemonset = made["DaemonSet", "kube-dns-node"]["spec"]
    pod = daemonset["template"]["spec"]
    # The Service does not select the node's pods. It selects the central pods, which answer for a node whose own pod is down.
    assert daemonset["selector"]["matchLabels"] == {"k8s-app": "kube-dns-node", "kubedns/role": "node"}
    assert daemonset["template"]["metadata"]["labels"] == {**daemonset["selector"]["matchLabels"], **OURS}
    assert "replicas" not in daemonset and "strategy" not in daemonset  # the API server rejects these fields in a DaemonSet
    assert pod["hostNetwork"] and not pod["securityContext"].get("sysctls"), "the API server rejects both together"
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
    # Other programs on the host may run as 65534, and every process of the same user can bind a shared port.
    assert {n: (c["securityContext"]["runAsUser"], c["securityContext"]["runAsGroup"]) for n, c in mine.items()} \
        == {"kubedns": (0, 0), "dnsmasq": (0, 0), "sidecar": (61053, 61053)}
    # Metrics, health and the status page listen at the node's own address and on loopback, not at all addresses of the host.
    for name, flag in (("kubedns", "--healthz-bind-address=$(POD_IP)"), ("dnsmasq", "-metricsAddr=$(POD_IP):10056"), ("sidecar", "--prometheus-addr=$(POD_IP)")):
        assert flag in mine[name]["args"]
        assert {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}} in mine[name]["env"]
    # During an update the next pod runs beside this one. So the pod declares no host port, and each pod uses its own loopback address.
    assert not [p for c in mine.values() for p in c.get("ports") or []]
    for c in mine.values():
        assert {"name": "OWN_LOOPBACK", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}} in c["env"]
        assert not [a for a in c["args"] if "127.0.0.1" in a]
        assert isinstance(c["livenessProbe"]["httpGet"]["port"], int), "the pod declares no ports, so a probe cannot use a port's name"
    assert {n: c["readinessProbe"]["exec"]["command"] for n, c in mine.items() if "readinessProbe" in c} \
        == {"kubedns": ["/usr/sbin/kubedns", "--ready"], "dnsmasq": ["/usr/sbin/nanny", "-ready"]}
    assert not [c for c in mine.values() if "httpGet" in c.get("readinessProbe", {})]


@needs_kubectl
@pytest.mark.parametrize("setting, said", [
    ({"clusterIP": "10.96.0.300"}, "clusterIP: 10.96.0.300: not an address"),
    ({"clusterIP": "169.254.20.10"}, "clusterIP: 169.254.20.10: an address of each node, not of a Service"),
    ({"clusterIP": "10.96.0"}, "clusterIP: 10.96.0: not an address"),
    ({"clusterIP": "10.96.0.010"}, "clusterIP: 10.96.0.010: not an address"),
    ({"clusterIP": "10.96.0.1.1"}, "clusterIP: 10.96.0.1.1: not an address"),
    ({"clusterIP": "fd00:::a"}, "clusterIP: fd00:::a: not an address"),
    ({"clusterIP": "fd00:10:96"}, "clusterIP: fd00:10:96: not an address"),
    ({"clusterIP": "fd00::12345"}, "clusterIP: fd00::12345: not an address"),
    ({"clusterIP": "1:2:3:4:5:6:7:8:9"}, "not an address"),
    ({"registry": "https://registry.example/dns"}, "have no scheme: registry.example/dns"),
    ({"registry": "registry.example/dns/"}, "registry: registry.example/dns/: not HOST[:PORT][/FOLDER...]"),
    ({"registry": "registry.example/DNS"}, "folders in lower case"),
    ({"kubednsImage": "kubedns@sha256:12"}, "kubednsImage: kubedns@sha256:12: not NAME:TAG"),
    ({"nannyImage": "registry.example/nanny:1"}, "nannyImage: registry.example/nanny:1: not NAME:TAG"),
    ({"nannyUnboundImage": "nanny-unbound@12"}, "nannyUnboundImage: nanny-unbound@12: not NAME:TAG"),
    ({"imagePullPolicy": "Sometimes"}, "imagePullPolicy: Sometimes: one of Always, IfNotPresent, Never"),
])
def test_check_refuses_what_the_api_server_or_the_kubelet_would(tmp_path, setting, said):
    code, text = check(copy(tmp_path, **setting))
    assert code == 1 and said in text, text


EVERY_OVERLAY = ["replace-kube-dns", "front", "autoscale", "beside", "node-service", "node-local"]


@needs_kubectl
@pytest.mark.parametrize(("setting", "overlays"), [
    ({}, EVERY_OVERLAY), ({"clusterIP": '"fd00::"', "registry": "localhost:5000", "kubednsImage": f"kubedns:0.1.0@{DIGEST}"}, EVERY_OVERLAY),
    ({"clusterIP": "fd00:10:96::a"}, ["front"]), ({"clusterIP": "::1"}, ["front"]), ({"clusterIP": "1:2:3:4:5:6:7:8"}, ["front"]),
    ({"clusterIP": '"fd00::"'}, ["front"]), ({"registry": "localhost:5000"}, ["front"]),
    ({"registry": "123456789012.dkr.ecr.eu-west-1.amazonaws.com/dns/suite_1"}, ["front"]),
    ({"kubednsImage": f"kubedns:0.1.0@{DIGEST}"}, ["front"])])
def test_check_accepts_what_is_right(tmp_path, setting, overlays):
    # The first case has kubectl itself, which finds no API server. The other tests have a script that says what kubectl says then.
    code, text = check(copy(tmp_path, **setting), *overlays, kubectl=None if setting else " ".join(KUBECTL))
    assert code == 0 and text.count("settings are complete") == len(overlays), text


@needs_kubectl
@pytest.mark.parametrize(("base", "components", "said"), [
    ("replace-kube-dns", ["hosts"], "Deployment kube-dns: --hosts-namespaces: kubedns refuses to start: in the classic topology"),
    ("replace-kube-dns", ["client-pods", "nearest"], "Deployment kube-dns: --nearest: kubedns refuses to start: in the classic topology"),
    ("replace-kube-dns", ["tenants"], "Deployment kube-dns: --visibility: kubedns refuses to start: in the classic topology"),
    ("replace-kube-dns", ["front", "nearest"], "list ../components/client-pods before ../components/nearest"),
    ("replace-kube-dns", ["hosts", "front"], "components/hosts: no pod gets its --hosts-namespaces: list it after components/front"),
    ("node-local", ["nearest"], "components/nearest: no pod gets its --nearest:"),
    ("node-service", ["nearest"], "components/nearest: no pod gets its --nearest:"),
    ("replace-kube-dns", ["front", "nearest-node"], "components/nearest-node: no pod gets its --nearest|--node-name|--zone:"),
    ("replace-kube-dns", ["engine-unbound", "front"], "components/engine-unbound: no pod gets its --engine|--upstream-ca: list it after components/front"),
    ("replace-kube-dns", ["front", "client-pods", "nearest", "hosts", "multicluster", "engine-unbound"], None), ("node-local", ["engine-unbound"], None),
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
