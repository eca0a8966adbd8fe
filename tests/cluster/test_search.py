"""
The policy of conf/kubernetes/search in the real API server. Which pods get the single search domain, according to their stored specs? And
which queries does a client with such a pod's resolv.conf send? There must be one query per type and name. The client is glibc in its own
network and mount namespaces. kubedns answers on the address from the policy and watches the same API server.
"""

import json
import pathlib
import shutil
import subprocess
import sys

import dns.message
import dns.rdatatype
import pytest
from podspec import resolv_conf
from realapi import RealApi
from run import Failed
from waiting import wait_for

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "helpers"))
from dnsnet import Upstream, answered  # noqa: E402
from kubedns_process import Kubedns  # noqa: E402
from netns import Namespace  # noqa: E402
from objects import namespace, service  # noqa: E402

CONF = HERE.parent.parent / "conf/kubernetes"
DOMAIN = "cluster.local"
WEB, PROD_WEB, OUTSIDE = "10.96.7.1", "10.96.7.2", "192.0.2.80"
AS_POD = 'mount --bind "$0/resolv.conf" /etc/resolv.conf && mount --bind "$0/nsswitch.conf" /etc/nsswitch.conf && exec "$@"'


def labelled(name, **labels):
    made = namespace(name)
    made["metadata"]["labels"] = labels
    return made


def pod(name, ns="shop", **spec):
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": ns, "labels": {"app": name}},
            "spec": {"containers": [{"name": "c", "image": "example/none"}], **spec}}  # fmt: skip


def deployment(name, ns="shop"):
    template = pod(name, ns)
    del template["apiVersion"], template["kind"], template["metadata"]["name"], template["metadata"]["namespace"]
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": ns},
            "spec": {"replicas": 2, "selector": {"matchLabels": {"app": name}}, "template": template}}  # fmt: skip


@pytest.fixture(scope="module")
def link():
    with Namespace() as n:
        yield n


@pytest.fixture(scope="module")
def real(tmp_path_factory, link):
    """The API server with the policy applied as an operator does, after it has taken effect."""
    made = tmp_path_factory.mktemp("search")
    api = RealApi(made / "real", controllers="serviceaccount,namespace,rootca,deployment,replicaset,endpointslice")
    shutil.copytree(CONF, made / "conf")
    settings = made / "conf/settings/settings.yaml"
    settings.write_text(settings.read_text().replace("clusterIP: SET-ME", f"clusterIP: {link.here}"))
    try:
        api.apply(labelled("shop"), labelled("prod"), labelled("declines", **{"kubedns/search-completion": "off"}),
                  service("web", WEB, "shop"), service("web", PROD_WEB, "prod"))  # fmt: skip
        for ns in ("shop", "declines", "default"):
            wait_for(lambda n=ns: has(api, "serviceaccount", n, "default"), 30, f"the service account of {ns}")
        print(api.kubectl("apply", "-k", made / "conf/search"))
        wait_for(lambda: searches(dry_run(api)) is not None, 60, "the policy in force")
        yield api
    finally:
        api.stop()


def has(api, kind, ns, name):
    try:
        return bool(api.kubectl("get", kind, "-n", ns, name, "-o", "name"))
    except Failed:
        return False


def dry_run(api):
    return json.loads(api.kubectl("create", "--dry-run=server", "-o", "json", "-f", "-", text=json.dumps(pod("probe"))))["spec"]


def searches(spec):
    return spec.get("dnsConfig", {}).get("searches")


def stored(api, name, ns="shop"):
    return json.loads(api.kubectl("get", "pod", "-n", ns, name, "-o", "json"))["spec"]


def expected(link, ns="shop"):
    return {"nameservers": [link.here], "searches": [f"{ns}.s.{DOMAIN}"], "options": [{"name": "ndots", "value": "5"}]}


def test_pods_by_kubectl_and_by_a_deployment_get_the_one_search_domain(real, link, report):
    real.kubectl("create", "-f", "-", text=json.dumps(pod("plain")))
    real.kubectl("run", "by-run", "-n", "shop", "--image=example/none")
    real.apply(deployment("made"))
    wait_for(lambda: len(real.kubectl("get", "pods", "-n", "shop", "-l", "app=made", "-o", "name").split()) == 2, 60, "the Deployment's pods")
    by_deployment = [p.removeprefix("pod/") for p in real.kubectl("get", "pods", "-n", "shop", "-l", "app=made", "-o", "name").split()]
    for name in ["plain", "by-run", *by_deployment]:
        spec = stored(real, name)
        assert spec["dnsPolicy"] == "None" and spec["dnsConfig"] == expected(link), name
    report("pods by kubectl and by a Deployment", expected(link), stored(real, by_deployment[0])["dnsConfig"])


def test_pods_that_chose_and_namespaces_that_decline_are_left_alone(real, report):
    own = {"options": [{"name": "ndots", "value": "2"}]}
    rows = {
        "own dnsConfig": (pod("own-config", dnsConfig=own), "ClusterFirst", own),
        "host network": (pod("host", hostNetwork=True, dnsPolicy="ClusterFirst"), "ClusterFirst", None),
        "host network, ClusterFirstWithHostNet": (pod("host-net", hostNetwork=True, dnsPolicy="ClusterFirstWithHostNet"), "ClusterFirstWithHostNet", None),
        "dnsPolicy Default": (pod("node-dns", dnsPolicy="Default"), "Default", None),
        "a namespace that declines": (pod("declines", "declines"), "ClusterFirst", None),
    }
    for what, (made, policy, config) in rows.items():
        real.kubectl("create", "-f", "-", text=json.dumps(made))
        spec = stored(real, made["metadata"]["name"], made["metadata"]["namespace"])
        assert (spec["dnsPolicy"], spec.get("dnsConfig")) == (policy, config), what
        report(what, (policy, config), (spec["dnsPolicy"], spec.get("dnsConfig")))


def outside(request, _tcp):
    """Every external name has an A record only."""
    if request.question[0].rdtype == dns.rdatatype.A:
        return answered(request, OUTSIDE)
    return dns.message.make_response(request)


@pytest.fixture
def kubedns(real, link, tmp_path):
    """On port 53 of the policy's address. kubedns reads the API like a pod of kube-dns's service account."""
    with Upstream(outside) as u:
        args = [f"--nameservers={u.address}", "--threads=1", "--drain=0s", "--healthz-bind-address=127.0.0.1", f"--kubecfg-file={real.about['kubeconfig']}"]
        k = Kubedns(*args, "--dns-port=53", host=link.here, directory=str(tmp_path))
        k.host = "127.0.0.1"  # for its health port
        try:
            k.wait_ready(30)
            k.upstream = u
            yield k
        finally:
            k.stop()


def lookup(link, directory, name):
    """The addresses that glibc's getaddrinfo returns in a pod with this resolv.conf."""
    done = subprocess.run([*link.prefix, "unshare", "-m", "sh", "-c", AS_POD, str(directory), "getent", "ahosts", name],
                          capture_output=True, text=True, timeout=20, check=False)  # fmt: skip
    return sorted({line.split()[0] for line in done.stdout.splitlines()})


def test_a_client_asks_one_question_a_type_for_each_name(real, link, kubedns, tmp_path, report):
    real.kubectl("create", "-f", "-", text=json.dumps(pod("client")))
    (tmp_path / "resolv.conf").write_text(resolv_conf(stored(real, "client"), "shop", "", "unused", DOMAIN))
    (tmp_path / "nsswitch.conf").write_text("hosts: dns\n")

    def questions():
        return [int(kubedns.metric("kubedns_dns_requests_total", type=t)) for t in ("A", "AAAA")]

    for name, address in (("web", WEB), ("web.prod", PROD_WEB), ("web.prod.svc", PROD_WEB), (f"web.prod.svc.{DOMAIN}", PROD_WEB),
                          ("www.example.com", OUTSIDE)):  # fmt: skip
        before = questions()
        got = lookup(link, tmp_path, name)
        asked = [now - was for now, was in zip(questions(), before, strict=True)]
        report(f"{name}: addresses; numbers of A and AAAA queries", f"{[address]}; [1, 1]", f"{got}; {asked}")
        assert got == [address] and asked == [1, 1], name
    assert {str(m.question[0].name) for m, _, _ in kubedns.upstream.asked} == {"www.example.com."}, "only the name itself is sent to the external server"
