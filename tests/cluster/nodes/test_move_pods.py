"""
A cluster whose DNS is CoreDNS, installed by kubeadm. The test moves it to ours with the output of `kubedns-migrate`, command by command,
while clients query continuously. `conf/kubernetes/compare` then queries every name at a CoreDNS pod and at one of our pods.
"""

import contextlib
import json
import re

import pytest
import yaml

import bed
from cluster import DNS_IP, REGISTRY, ROOT
from operator_shell import Operator

NAME = "kubernetes.default.svc.cluster.local"
OUTSIDE = ["www.example.com", "x.corp.example", "legacy.example", "db.example", "nothing.outside.example"]

COREFILE = """
.:53 {
    errors
    health {
       lameduck 5s
    }
    ready
    kubernetes cluster.local in-addr.arpa ip6.arpa {
       pods insecure
       fallthrough in-addr.arpa ip6.arpa
       ttl 30
    }
    prometheus :9153
    hosts {
       192.0.2.99 legacy.example
       fallthrough
    }
    rewrite name exact db.example kubernetes.default.svc.cluster.local
    forward . /etc/resolv.conf {
       max_concurrent 1000
    }
    cache 30
    loop
    reload
    loadbalance
}
corp.example:53 {
    errors
    cache 30
    forward . STUB
}
"""


@pytest.fixture
def moved(suite):
    """Only CoreDNS runs, in two pods."""
    def away(*deployments):
        for name in deployments:
            suite.plane.kubectl("-n", "kube-system", "delete", "deployment,service,pdb", name, "--ignore-not-found")
            suite.gone(name + "-")

    suite.configure(None)
    suite.reinstall()
    away("kube-dns")
    stub = suite.upstream("corp", "--host-record=x.corp.example,192.0.2.81", "--address=/#/")
    bed.install_coredns()
    corefile = json.dumps({"data": {"Corefile": COREFILE.replace("STUB", stub)}})
    suite.plane.kubectl("-n", "kube-system", "patch", "configmap", "coredns", "--patch", corefile)
    suite.plane.kubectl("-n", "kube-system", "rollout", "restart", "deployment/coredns")
    suite.await_rollout("coredns")
    yield suite
    away("coredns", "kube-dns")
    suite.remove_upstream("corp")
    suite.configure(None)
    suite.reinstall()


def documented():
    """Returns the command in docs/from-coredns.md."""
    return re.search(r"^ *(kubectl .* \| kubedns-migrate -)$", (ROOT / "docs/from-coredns.md").read_text(), re.M)[1]


def addresses(suite, prefix):
    return [p.address for p in suite.kubelet.list("kube-system", prefix)]


@contextlib.contextmanager
def asking(suite, clients):
    askers = [suite.asker(c, "ask-ports", DNS_IP, 50, f"{NAME}=10.96.0.1", "www.example.com=192.0.2.80", "x.corp.example=192.0.2.81") for c in clients]
    results = []
    yield results
    results += [a.stop() for a in askers]


@pytest.mark.parametrize("topology", ["classic", "front"])
def test_switch_by_the_printed_steps_loses_no_query(moved, tmp_path, glibc, musl, report, topology):
    operator = Operator(tmp_path, f"{moved.plane.ctl} kubectl --kubeconfig {moved.plane.kubeconfig}")
    printed = operator.sh(documented().replace("kubedns-migrate -", f"kubedns-migrate --topology={topology} -"))
    assert "NO EQUIVALENT" not in printed
    steps = {n: re.sub(r"(?m)^# +", "", text) for n, text in re.findall(r"^# +(\d)\. ((?:.*\n#     +)*.*)$", printed, re.M)}
    commands = {n: re.findall(r"^(?:kubectl|conf/kubernetes/check) .*", text, re.M) for n, text in steps.items()}
    configmap, overlay, _ = (yaml.safe_dump(d) for d in yaml.safe_load_all(printed) if d)
    with asking(moved, (glibc, musl)) as results:
        operator.settings(registry=REGISTRY, **dict(re.findall(r"(clusterDomain|clusterIP): ([^, ]+)", steps["1"])))
        assert commands["2"] == ["kubectl apply -f configmap.yaml"]
        operator.sh("kubectl apply -f -", configmap)
        assert "Save the Kustomization below as conf/kubernetes/mine/kustomization.yaml" in steps["3"]
        (tmp_path / "conf/kubernetes/mine").mkdir()
        (tmp_path / "conf/kubernetes/mine/kustomization.yaml").write_text(overlay)
        for command in (*commands["3"], *commands["4"]):
            operator.sh(command)
        assert "conf/kubernetes/compare --report THIS-FILE OLD NEW" in steps["5"]
        old, new = addresses(moved, "coredns-")[0], addresses(moved, "kube-dns-")[0]
        compared = operator.sh(f"conf/kubernetes/compare {old} {new} {' '.join(OUTSIDE)}")
        assert compared == "compare: 0 differences, 0 without a reason\n"
        operator.sh(*commands["6"])
        moved.gone("coredns-")
        moved.await_rollout("kube-dns")
    asked, lost, wrong = (sum(t[k] for t, _ in results) for k in ("asked", "lost", "wrong"))
    report(f"moved from CoreDNS, {topology}", "0 lost, 0 wrong", f"{lost} lost, {wrong} wrong of {asked}")
    assert asked > 500 and lost == 0 and wrong == 0, [f[:5] for _, f in results]
    assert len(addresses(moved, "kube-dns-")) == 2
    for name, address in (("legacy.example", "192.0.2.99"), ("db.example", "10.96.0.1"), ("x.corp.example", "192.0.2.81")):
        assert moved.lookup(glibc, name)["addresses"] == [address]
