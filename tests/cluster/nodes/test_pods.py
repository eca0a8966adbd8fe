"""The pods of the manifests on real nodes: they answer, have only the permissions that they need, and replace kube-dns's own."""

import json
import pathlib

import pytest
import yaml

from cluster import REGISTRY, manifests, query, records
from run import run

ACCOUNT = "system:serviceaccount:kube-system:kube-dns"


@pytest.mark.parametrize("overlay", ["replace-kube-dns", "front", "autoscale"])
def test_overlay_answers(suite, glibc, musl, overlay):
    suite.ensure(overlay, 1)
    for client in (glibc, musl):
        assert suite.lookup(client, "kubernetes.default")["addresses"] == [suite.api_ip]
        assert suite.lookup(client, "www.example.com")["addresses"] == ["192.0.2.80"]
    if overlay == "autoscale":
        assert suite.api.get("/apis/autoscaling/v2/namespaces/kube-system/horizontalpodautoscalers/kube-dns")
        suite.plane.kubectl("-n", "kube-system", "delete", "hpa", "kube-dns")


def test_beside_leaves_the_cluster_dns_alone(suite, glibc):
    before = suite.ensure("replace-kube-dns", 1)
    service = suite.api.get("/api/v1/namespaces/kube-system/services/kube-dns")
    suite.install("beside", 1, clusterIP="SET-ME")
    try:
        after = suite.kubelet.list("kube-system", "kube-dns-")
        own = [p for p in after if p not in before]
        assert len(own) == 1 and set(before) < set(after)
        assert suite.api.get("/api/v1/namespaces/kube-system/services/kube-dns")["metadata"]["resourceVersion"] \
            == service["metadata"]["resourceVersion"]
        beside = suite.api.get("/api/v1/namespaces/kube-system/services/kube-dns-beside")["spec"]["clusterIP"]
        assert beside != suite.dns_ip
        asker = suite.asker(glibc, "ask", beside, 50, f"kubernetes.default.svc.cluster.local={suite.api_ip}")
        total, failures = suite.stop_after(asker, 50)
        assert total["right"] >= 30 and not failures
        # The Service kube-dns-beside has its own endpoints, with their own readiness.
        slices = suite.api.get("/apis/discovery.k8s.io/v1/namespaces/kube-system/endpointslices"
                               "?labelSelector=kubernetes.io/service-name=kube-dns")["items"]
        addresses = [e["addresses"][0] for s in slices for e in s["endpoints"]]
        assert own[0].address not in addresses
    finally:
        suite.plane.kubectl("delete", "--ignore-not-found", "-f", "-", input=manifests(suite.directory, "beside"))
        suite.gone("kube-dns-beside")


def test_service_account_may_do_what_it_needs_and_nothing_else(suite):
    suite.ensure()

    def can(verb, resource):
        return "yes" in suite.plane.kubectl("auth", "can-i", verb, resource, "--all-namespaces", "--as", ACCOUNT, check=False)

    for resource in ("services", "namespaces", "endpointslices.discovery.k8s.io"):
        assert can("list", resource) and can("watch", resource), resource
        assert not can("delete", resource) and not can("update", resource), resource
    for resource in ("secrets", "pods", "nodes", "configmaps"):
        assert not can("list", resource), resource


def test_only_kubedns_holds_a_token(suite):
    """The other two containers handle packets from strangers or run code of another project, so they have no access to the API."""
    pod = suite.ensure()[0]
    for c in pod.containers:
        has = "/secrets/kubernetes.io/serviceaccount" in pathlib.Path(f"/proc/{c.pid}/mountinfo").read_text()
        assert has == (c.spec["name"] == "kubedns"), c.spec["name"]


def process_status(pid):
    return dict(line.split(":\t", 1) for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines() if ":\t" in line)


@pytest.mark.parametrize("overlay", ["replace-kube-dns", "front"])
def test_confinement(suite, overlay):
    """Every process of the pod, including dnsmasq, has uid 65534, no capabilities and no way to get any, a read-only root, and seccomp."""
    pod = suite.ensure(overlay)[0]
    seen = []
    for c in pod.containers:
        for pid in c.processes():
            status = process_status(pid)
            seen.append(status["Name"])
            assert status["Uid"].split() == ["65534"] * 4 and status["Gid"].split() == ["65534"] * 4, status["Name"]
            assert all(int(status[c], 16) == 0 for c in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")), status["Name"]
            assert status["NoNewPrivs"] == "1" and status["Seccomp"] == "2", status["Name"]
            root = [m.split()[5] for m in pathlib.Path(f"/proc/{pid}/mountinfo").read_text().splitlines() if m.split()[4] == "/"]
            assert all("ro" in options.split(",") for options in root), status["Name"]
    assert set(seen) == {"dnsmasq", "kubedns", "nanny", "sidecar"}
    border = run("nsenter", "-t", pod.pid, "-n", "sysctl", "-n", "net.ipv4.ip_unprivileged_port_start").strip()
    assert border == "0"


def test_pod_is_not_restarted_and_its_probes_pass(suite):
    pod = suite.ensure()[0]
    assert set(pod.restarts().values()) == {0}
    assert pod.ready()


def test_stub_server_given_by_a_cluster_name(suite, glibc):
    """A stub domain whose server is a Service. The nanny queries kubedns for the server's address. kubelet brings the ConfigMap within two minutes."""
    suite.ensure()
    stub = suite.upstream("stub-server", "--address=/#/", "--host-record=x.named.test,192.0.2.101")
    suite.plane.apply(json.dumps({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "stub", "namespace": "clients"}, "spec": {
        "clusterIP": "None", "selector": {"app": "stub-server"}, "ports": [{"port": 53, "protocol": "UDP"}]}}))
    suite.configure({"stubDomains": json.dumps({"named.test": ["stub.clients.svc.cluster.local"]})})
    try:
        assert suite.await_answer(glibc, "x.named.test", "192.0.2.101", 120)["held"], (stub, suite.describe())
    finally:
        suite.configure(None)
        suite.plane.kubectl("-n", "clients", "delete", "service", "stub")
        suite.remove_upstream("stub-server")


# A Deployment with the same settings as kube-dns's own in clusters (1.22).
def kube_dns_deployment(images):
    def get(path, port):
        return {"httpGet": {"path": path, "port": port, "scheme": "HTTP"}, "timeoutSeconds": 5}

    alive = {"initialDelaySeconds": 60, "successThreshold": 1, "failureThreshold": 5}
    unprivileged = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "runAsUser": 1001, "runAsGroup": 1001}
    domain = "cluster.local"
    ports = {"kubedns": [("dns-local", 10053, "UDP"), ("dns-tcp-local", 10053, "TCP"), ("metrics", 10055, "TCP")],
             "dnsmasq": [("dns", 53, "UDP"), ("dns-tcp", 53, "TCP")], "sidecar": [("metrics", 10054, "TCP")]}
    containers = [
        {"name": "kubedns", "image": f"{images}/kubedns", "securityContext": unprivileged,
         "args": [f"--domain={domain}.", "--dns-port=10053", "--config-dir=/kube-dns-config", "--v=2"],
         "env": [{"name": "PROMETHEUS_PORT", "value": "10055"}],
         "resources": {"limits": {"memory": "170Mi"}, "requests": {"cpu": "100m", "memory": "70Mi"}},
         "livenessProbe": {**get("/healthcheck/kubedns", 10054), **alive},
         "readinessProbe": {**get("/readiness", 8081), "initialDelaySeconds": 3},
         "volumeMounts": [{"name": "kube-dns-config", "mountPath": "/kube-dns-config"}]},
        {"name": "dnsmasq", "image": f"{images}/nanny",
         "args": ["-v=2", "-logtostderr", "-configDir=/etc/k8s/dns/dnsmasq-nanny", "-restartDnsmasq=true", "--", "-k",
                  "--cache-size=1000", "--no-negcache", "--dns-loop-detect", "--log-facility=-",
                  *(f"--server=/{z}/127.0.0.1#10053" for z in (domain, "in-addr.arpa", "ip6.arpa"))],
         "securityContext": {"capabilities": {"drop": ["all"], "add": ["NET_BIND_SERVICE", "SETGID"]}},
         "resources": {"requests": {"cpu": "150m", "memory": "20Mi"}},
         "livenessProbe": {**get("/healthcheck/dnsmasq", 10054), **alive},
         "volumeMounts": [{"name": "kube-dns-config", "mountPath": "/etc/k8s/dns/dnsmasq-nanny"}]},
        {"name": "sidecar", "image": f"{images}/sidecar", "securityContext": unprivileged,
         "args": ["--v=2", "--logtostderr", f"--probe=kubedns,127.0.0.1:10053,kubernetes.default.svc.{domain},5,SRV",
                  f"--probe=dnsmasq,127.0.0.1:53,kubernetes.default.svc.{domain},5,SRV"],
         "resources": {"requests": {"memory": "20Mi", "cpu": "10m"}}, "livenessProbe": {**get("/metrics", 10054), **alive}},
    ]
    for c in containers:
        c["ports"] = [{"name": n, "containerPort": p, "protocol": t} for n, p, t in ports[c["name"]]]
    labels = {"k8s-app": "kube-dns"}
    anti = {"labelSelector": {"matchExpressions": [{"key": "k8s-app", "operator": "In", "values": ["kube-dns"]}]},
            "topologyKey": "kubernetes.io/hostname"}
    pod = {
        "priorityClassName": "system-cluster-critical", "dnsPolicy": "Default", "serviceAccountName": "kube-dns",
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}, "supplementalGroups": [65534], "fsGroup": 65534},
        "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "podAffinityTerm": anti}]}},
        "tolerations": [{"key": "CriticalAddonsOnly", "operator": "Exists"}], "nodeSelector": {"kubernetes.io/os": "linux"},
        "volumes": [{"name": "kube-dns-config", "configMap": {"name": "kube-dns", "optional": True}}], "containers": containers}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "kube-dns", "namespace": "kube-system", "labels": labels},
            "spec": {"replicas": 1, "selector": {"matchLabels": labels},
                     "strategy": {"rollingUpdate": {"maxSurge": "10%", "maxUnavailable": 0}},
                     "template": {"metadata": {"labels": labels}, "spec": pod}}}


def test_kube_dns_deployment_with_three_images_swapped(suite, images, glibc, musl):
    """
    Changes only the images. Arguments, probes, security context and role stay the same: root with two capabilities, a privileged port 53,
    and a role that permits only Services and Endpoints.
    """
    suite.ensure()
    suite.plane.kubectl("delete", "clusterrolebinding,clusterrole", "kube-dns")
    suite.plane.kubectl("-n", "kube-system", "delete", "deployment", "kube-dns")
    suite.gone("kube-dns")
    suite.reinstall()
    deployment = kube_dns_deployment(REGISTRY)
    for c in deployment["spec"]["template"]["spec"]["containers"]:
        c["image"] += f":{images}"
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "kube-dns", "namespace": "kube-system"},
               "automountServiceAccountToken": True}
    suite.plane.apply(yaml.safe_dump_all([account, deployment]))
    try:
        pod = suite.await_rollout("kube-dns")[0]
        border = run("nsenter", "-t", pod.pid, "-n", "sysctl", "-n", "net.ipv4.ip_unprivileged_port_start").strip()
        assert border == "1024"
        for client in (glibc, musl):
            assert suite.await_answer(client, "kubernetes.default", suite.api_ip)["held"], suite.describe()
            assert suite.lookup(client, "www.example.com")["addresses"] == ["192.0.2.80"]
        # The names of headless Services need endpoints. The role grants Endpoints objects and no EndpointSlices.
        suite.namespace("legacy")
        suite.plane.apply(yaml.safe_dump_all(suite.workload("db", "legacy", kind="StatefulSet", replicas=2, headless=True)))
        assert suite.await_answer(glibc, "db-1.db.legacy", "any", 30)["held"], suite.describe()
        assert len(records(query(pod.address, "db.legacy.svc.cluster.local."))) == 2
        assert set(pod.restarts().values()) == {0}
    finally:
        suite.plane.kubectl("-n", "kube-system", "delete", "deployment", "kube-dns")
        suite.gone("kube-dns")
