"""
The policies of docs/network-policies.md and components/networkpolicy on real nodes. kube-network-policies of Kubernetes SIG Network enforces
them. Each connection is shown to work before a policy blocks it.
"""

import contextlib
import json

import pytest
import yaml

import bed
from cluster import DOMAIN, manifests, objects
from nodes import TOPOLOGIES
from operator_shell import commands, section
from run import run
from waiting import wait_for

PAGE = "docs/network-policies.md"
QUEUE = 98  # in the manifest of kube-network-policies
HTTP = {8081, 10054, 10055, 10056}


def block(name):
    """The block of the page that begins with this file name."""
    return next(b for b in section(PAGE, None) if b.startswith(f"# {name}"))


def allow_dns(suite, name, namespace):
    """The policy of the page, for the cluster's own address and another namespace."""
    policy = yaml.safe_load(block(name).replace("10.96.0.10/32", f"{suite.dns_ip}/32"))
    policy["metadata"]["namespace"] = namespace
    return json.dumps(policy)


@contextlib.contextmanager
def applied(suite, *made):
    text = "\n---\n".join(made)
    suite.plane.apply(text)
    try:
        yield
    finally:
        suite.plane.kubectl("delete", "--ignore-not-found", "-f", "-", input=text)


def queue_rules(action):
    """
    Adds (-A) or deletes (-D) rules that pass packets to the engine, in place of its own rules: those need nftables' queue expression, which
    not every kernel has (CONFIG_NFT_QUEUE). They pass what its own rules pass: UDP to port 53 after DNAT, also to the node itself, and
    every other first packet that leaves the node or goes to a pod, except those of the node's root. Without the engine, packets pass.
    """
    to_engine = ["-j", "NFQUEUE", "--queue-num", str(QUEUE), "--queue-bypass"]
    dns = ["-p", "udp", "--dport", "53"]
    rules = [["INPUT", *dns, *to_engine], ["FORWARD", *dns, *to_engine], ["POSTROUTING", *dns, "-j", "ACCEPT"],
             ["POSTROUTING", "-m", "owner", "--uid-owner", "0", "-j", "ACCEPT"],
             ["POSTROUTING", "-m", "conntrack", "--ctstate", "ESTABLISHED,RELATED", "-j", "ACCEPT"], ["POSTROUTING", *to_engine]]
    for n in bed.node_numbers():
        for program, icmp in (("iptables", []), ("ip6tables", [["POSTROUTING", "-p", "icmpv6", "-j", "ACCEPT"]])):
            for rule in icmp + rules:
                run(*bed.on_node(n, [program, "-w", "-t", "mangle", action, *rule]))


@pytest.fixture(scope="module", autouse=True)
def engine(suite):
    """kube-network-policies on each node, as its own manifest installs it."""
    bed.load("bed.example/kube-network-policies")
    made = objects((bed.BED / "kube-network-policies.yaml").read_text())
    for o in made:
        for container in o["spec"]["template"]["spec"]["containers"] if o["kind"] == "DaemonSet" else ():
            container.update(image="bed.example/kube-network-policies", imagePullPolicy="Never")
            for mount in container["volumeMounts"]:
                mount.pop("mountPropagation", None)  # a node's folders lie in private mounts of this machine
    with applied(suite, yaml.safe_dump_all(made)):
        suite.plane.kubectl("-n", "kube-system", "rollout", "status", "ds/kube-network-policies", "--timeout=60s")
        for n in bed.node_numbers():
            queues = bed.on_node(n, ["cat", "/proc/self/net/netfilter/nfnetlink_queue"])
            wait_for(lambda queues=queues: str(QUEUE) in run(*queues).split()[:1], 30, "the engine's queue")
        queue_rules("-A")
        try:
            yield
        finally:
            queue_rules("-D")


@pytest.fixture(scope="module", params=TOPOLOGIES)
def topology(request, suite, engine):
    """One topology at a time. Returns its name."""
    with suite.topology(request.param):
        yield request.param


@pytest.fixture(scope="module")
def pod(suite, engine):
    """pod(name, namespace, node, labels) starts a client pod on a node."""
    made = set()

    def start(name, namespace, node, labels=None):
        if namespace not in made:
            suite.namespace(namespace)
            made.add(namespace)
        client = suite.client(name, namespace=namespace, nodeName=f"n{node}")
        for key, value in (labels or {}).items():
            suite.plane.kubectl("-n", namespace, "label", "pod", name, f"{key}={value}")
        return client
    yield start
    for namespace in made:
        suite.plane.kubectl("delete", "namespace", namespace, "--wait=false")


@pytest.fixture(scope="module")
def shop(pod):
    """Two pods of the namespace `shop`, one on each node."""
    return [pod(f"shop-{n}", "shop", n) for n in bed.node_numbers()]


@pytest.fixture(scope="module")
def other(pod):
    return pod("other", "other", 1)


def connects(pod, address, port):
    """True if a TCP connection from the pod opens within two seconds."""
    return bool(run("nsenter", "-t", pod.pid, "-n", "timeout", "2", "bash", "-c", f"exec 3<>/dev/tcp/{address}/{port} && echo yes 2>&1", check=False))


def resolves(pod, name, server, *flags):
    """The addresses that dig prints in the pod's network."""
    return run("nsenter", "-t", pod.pid, "-n", "dig", "+short", "+time=1", "+tries=1", *flags, f"@{server}", name, check=False).startswith(("1", "fd"))


def open_ports(suite, client, pods):
    """The HTTP ports of the pods that the client reaches: {(pod, port)}."""
    ways = [(p, port) for p in pods for port in sorted(HTTP)]
    return {(p.name, port) for (p, port), way in zip(ways, suite.executor.map(lambda w: connects(client, w[0].address, w[1]), ways)) if way}


def all_ports(pods):
    return {(p.name, port) for p in pods for port in HTTP}


def uses_dns(suite, client):
    """The pod's own resolver, and both transports."""
    assert suite.lookup(client, "kubernetes.default")["addresses"] == [suite.api_ip]
    assert suite.lookup(client, "www.example.com")["addresses"] == ["192.0.2.80"]
    for transport in ("+notcp", "+tcp"):
        assert resolves(client, f"kubernetes.default.svc.{DOMAIN}", suite.dns_ip, transport), transport


def test_a_namespace_may_use_dns_and_nothing_else(suite, topology, shop, other):
    upstream = bed.address(53)
    pods = suite.answering(topology)
    for client in shop:
        uses_dns(suite, client)
        assert connects(client, suite.api_ip, 443) and resolves(client, "www.example.com", upstream)
        assert open_ports(suite, client, pods) == all_ports(pods)
    name = "allow-dns-node-local.yaml" if topology == "node-local" else "allow-dns.yaml"
    with applied(suite, allow_dns(suite, name, "shop")):
        for client in shop:
            wait_for(lambda client=client: not connects(client, suite.api_ip, 443), 20, "the policy in force")
            uses_dns(suite, client)
            assert not resolves(client, "www.example.com", upstream), "a query to another server"
            assert not resolves(client, "www.example.com", upstream, "+tcp"), "a query to another server over TCP"
            # The engine sees forwarded packets only, so a pod reaches the ports of its own node.
            own = {p.name for p in pods if topology == "node-local" and p.node == client.node}
            assert {p for p, _ in open_ports(suite, client, pods)} == own
        uses_dns(suite, other)
        assert connects(other, suite.api_ip, 443), "the policy must not affect other namespaces"
    for client in shop:
        wait_for(lambda client=client: connects(client, suite.api_ip, 443), 20, "the policy gone")


def test_the_policy_of_node_local_works_in_each_topology(suite, topology, shop):
    with applied(suite, allow_dns(suite, "allow-dns-node-local.yaml", "shop")):
        for client in shop:
            wait_for(lambda client=client: not connects(client, suite.api_ip, 443), 20, "the policy in force")
            uses_dns(suite, client)


def test_a_policy_without_dns_blocks_lookups(suite, topology, shop):
    """Shows that the engine looks at the packets of the lookups."""
    policy = json.loads(allow_dns(suite, "allow-dns.yaml", "shop"))
    policy["spec"]["egress"] = []
    with applied(suite, json.dumps(policy)):
        for client in shop:
            wait_for(lambda client=client: not resolves(client, f"kubernetes.default.svc.{DOMAIN}", suite.dns_ip), 20, "lookups blocked")


def network_policy(suite, overlay):
    """The policy of components/networkpolicy, as kustomize renders it."""
    files = {"mine/kustomization.yaml": yaml.safe_dump({
        "apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "resources": [f"../{overlay}"],
        "components": ["../components/networkpolicy"]})}
    (policy,) = [o for o in objects(manifests(suite.directory, "mine", files, clusterIP=suite.dns_ip)) if o["kind"] == "NetworkPolicy"]
    return json.dumps(policy)


@pytest.fixture(scope="module")
def prometheus(pod):
    """The namespace of settings.yaml, and the label that the policy requires."""
    return pod("prometheus", "monitoring", 2, {"app.kubernetes.io/name": "prometheus"})


def test_other_pods_do_not_reach_the_http_ports(suite, topology, other, prometheus):
    if topology == "node-local":
        pytest.skip("no policy selects a pod in the host's network: the next test")
    pods = suite.answering(topology)
    assert open_ports(suite, other, pods) == all_ports(pods)
    before = {p.name: p.restarts() for p in pods}
    with applied(suite, network_policy(suite, topology)):
        wait_for(lambda: not open_ports(suite, other, pods), 30, "the policy in force")
        uses_dns(suite, other)
        uses_dns(suite, prometheus)
        assert open_ports(suite, prometheus, pods) == {(p.name, port) for p in pods for port in HTTP - {8081}}
        for p in pods:
            assert p.ready() and p.restarts() == before[p.name]


def test_rules_on_the_nodes_protect_the_http_ports_of_node_local(suite, topology, shop):
    if topology != "node-local":
        pytest.skip("for node-local")
    pods = suite.answering(topology)
    try:
        for n in bed.node_numbers():
            run(*bed.on_node(n, ["nft", "-f", "-"]), input=block("kubedns-ports.nft"))
        for client in shop:
            assert not open_ports(suite, client, pods)
            uses_dns(suite, client)
        for p in pods:
            run(*bed.on_node(p.node, ["curl", "-sS", "--max-time", "5", f"http://{p.address}:10054/metrics"]))
    finally:
        for n in bed.node_numbers():
            run(*bed.on_node(n, ["nft", "delete", "table", "inet", "kubedns-ports"]), check=False)
    assert open_ports(suite, shop[0], pods) == all_ports(pods), "undo"


def deny(namespace):
    return json.dumps({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "deny", "namespace": namespace},
                       "spec": {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}})


@pytest.mark.parametrize("overlay", ["front", "replace-kube-dns"])
def test_kube_system_denies_by_default(suite, overlay, other):
    """The pods start, answer and see changes with the two policies of the page. Without its egress rules they reach nothing."""
    suite.ensure(overlay, 1)
    with applied(suite, network_policy(suite, overlay), block("dns-egress.yaml"), deny("kube-system")):
        suite.plane.kubectl("-n", "kube-system", "delete", "pod", "-l", "k8s-app=kube-dns", "--wait=true")
        (pod,) = suite.await_rollout("kube-dns")
        assert not connects(pod, bed.address(1), 2379), "a port that the page does not list"
        uses_dns(suite, other)
        address = suite.service(f"new-{overlay}")
        assert suite.await_answer(other, f"new-{overlay}.clients", address, 30)["held"], suite.describe()
        suite.plane.kubectl("-n", "kube-system", "delete", "networkpolicy", "kube-dns-egress")
        wait_for(lambda: not connects(pod, suite.api_ip, 443), 20, "no way to the API server")
    suite.plane.kubectl("-n", "clients", "delete", "service", f"new-{overlay}")


def test_a_sandbox_sees_its_own_names_and_external_names(suite, pod, other):
    """The steps of the page: --visibility for a namespace that may reach no other DNS server."""
    box = pod("box", "sandbox", 1)
    marks, hidden = (commands(b) for b in section(PAGE, "Sandboxes and tenants")[:2])
    files = {"mine/kustomization.yaml": section("docs/tenants.md", "Switch it on")[0]}
    suite.plane.apply(json.dumps({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "own", "namespace": "sandbox"},
                                  "spec": {"ports": [{"port": 80}]}}))
    try:
        for command in [*marks, *hidden]:
            run("sh", "-c", command.replace("kubectl", f"{bed.BIN}/kubectl", 1), env={"KUBECONFIG": str(bed.RUN / "admin.conf")})
        suite.reinstall()
        suite.install("mine", 1, files=files)
        suite.await_rollout("kube-dns")
        with applied(suite, allow_dns(suite, "allow-dns.yaml", "sandbox")):
            wait_for(lambda: not connects(box, suite.api_ip, 443), 20, "the policy in force")
            assert suite.await_answer(box, "own", "any", 30)["held"], suite.describe()
            assert suite.lookup(box, "www.example.com")["addresses"] == ["192.0.2.80"]
            assert not suite.lookup(box, "kube-dns.kube-system")["addresses"]
            assert suite.lookup(other, "kube-dns.kube-system")["addresses"] and suite.lookup(other, "own.sandbox")["addresses"]
            # The component includes components/networkpolicy.
            assert not open_ports(suite, other, suite.answering("front"))
    finally:
        suite.plane.kubectl("annotate", "namespace", "--all", "kubedns/sees-", "kubedns/visible-to-")
        suite.plane.kubectl("-n", "kube-system", "delete", "networkpolicy", "kube-dns", "--ignore-not-found")
        suite.reinstall()
        suite.ensure("front", 1)
