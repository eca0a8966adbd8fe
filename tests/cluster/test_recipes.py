"""
The recipes of conf/install with the real API server. The commands are read from the recipes. Before the switch, the distribution installs its own
DNS. After the switch, its controllers run again: the tests show what they take back, and that the recipe's way of stopping them works.
Pods are stand-ins that are ready at once. test_switch_recipes.py has pods that answer.
"""

import json

import pytest

from distributions import BY_NAME
from operation import Operation
from realapi import RealApi
from recipes import NAMES, Recipe
from run import Failed
from waiting import wait_for


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    api = RealApi(tmp_path_factory.mktemp("recipes"), controllers="endpointslice,deployment,replicaset,serviceaccount,rootca,gc,kubelet")
    try:
        yield api
    finally:
        api.stop()


@pytest.fixture
def operation(real, tmp_path, request):
    yield Operation(real.kubectl, real.command[0], real.about["kubeconfig"], tmp_path, BY_NAME[request.param])
    real.kubectl("-n", "kube-system", "delete", "deployments,services,poddisruptionbudgets", "--all")
    real.kubectl("-n", "kube-system", "delete", "configmap,serviceaccount", "coredns", "kube-dns", "kubedns", "kube-dns-beside", "--ignore-not-found")
    real.kubectl("delete", "clusterrole,clusterrolebinding", "kubedns", "kube-dns", "kube-dns-beside", "--ignore-not-found")
    wait_for(lambda: not json.loads(real.kubectl("-n", "kube-system", "get", "pods", "-o", "json"))["items"], 30, "pods gone")


def on(*names):
    return pytest.mark.parametrize("operation", names, indirect=True)


@on(*NAMES)
def test_the_way_there_and_back(operation, report):
    old = operation.recipe.data["old"]
    operation.await_answering(old)
    before = operation.objects()
    operation.switch()
    operation.await_answering("kubedns")
    # The distribution's controllers run again. Nothing of the old DNS starts.
    operation.distribution.manage()
    operation.step("upgrade")
    operation.distribution.manage()
    operation.await_answering("kubedns")
    assert operation.replicas() == 0
    printed = operation.step("verify").split()
    assert len([p for p in printed if p.startswith("kubedns-")]) == 2 and printed[-1] == "0" and len(printed) == 3
    # The old objects differ only in the number of replicas.
    after = operation.objects()
    changed = {k for k, v in before.items() if after.get(k) != v}
    assert changed <= {("Deployment", old), ("Deployment", f"{old}-autoscaler")}, changed
    operation.step("undo")
    operation.distribution.manage()
    operation.await_answering(old)
    wait_for(lambda: set(operation.objects()) == set(before), 20, "our objects gone")
    assert operation.objects() == before
    report(f"recipe {operation.recipe.name}: objects after rolling back", "as before", f"{len(before)} of {len(before)} equal")


@on("kubeadm")
def test_kubeadm_needs_one_labelled_deployment(operation):
    operation.switch()
    operation.kubectl("-n", "kube-system", "label", "deployment/kubedns", "k8s-app=kube-dns")
    with pytest.raises(Failed, match="multiple DNS addon deployments found"):
        operation.distribution.manage()


@on("kubeadm")
def test_kubeadm_creates_a_deleted_coredns_again(operation):
    operation.switch()
    operation.kubectl("-n", "kube-system", "delete", "deployment/coredns")
    operation.distribution.manage("--skip-phases=addon/coredns")
    operation.await_answering("kubedns")
    operation.distribution.manage()
    assert operation.replicas() == 2
    operation.await_answering("kubedns", "coredns")


@on("kubeadm")
def test_kubeadm_resets_the_service(operation):
    before = operation.objects()["Service", "kube-dns"]
    operation.kubectl("-n", "kube-system", "annotate", "service/kube-dns", "prometheus.io/port-", "mine.example/x=y")
    operation.distribution.manage()
    assert operation.objects()["Service", "kube-dns"] == before


@on("k3s", "rke2")
def test_a_server_that_starts_creates_a_deleted_coredns_again(operation):
    old = operation.recipe.data["old"]
    operation.switch("beside", "switch")  # without "stop"
    operation.kubectl("-n", "kube-system", "delete", f"deployment/{old}")
    operation.distribution.manage()
    assert operation.replicas() == 1
    operation.await_answering("kubedns", old)
    operation.step("stop")
    operation.kubectl("-n", "kube-system", "delete", f"deployment/{old}")
    operation.distribution.manage()
    operation.await_answering("kubedns")
    with pytest.raises(Failed, match="not found"):
        operation.replicas()


@on("k3s", "rke2")
def test_disabling_deletes_the_service(operation):
    operation.switch()
    operation.distribution.disable()
    with pytest.raises(Failed, match="not found"):
        operation.get(f"service {operation.recipe.data['service']}")


@on("rke2", "gke-standard")
def test_an_autoscaler_that_runs_starts_the_old_dns(operation):
    old = operation.recipe.data["old"]
    operation.switch("beside", "switch")  # without "stop"
    operation.distribution.tick()
    assert operation.replicas() == 2
    operation.await_answering("kubedns", old)
    operation.step("stop")
    operation.kubectl("-n", "kube-system", "scale", f"deployment/{old}", "--replicas=0")
    operation.distribution.tick()
    operation.await_answering("kubedns")


@on("gke-standard")
def test_gke_resets_objects_under_its_names(operation):
    operation.operator.sh("kubectl apply -k conf/kubernetes/front")
    images = [c["image"] for c in operation.get("deployment kube-dns")["spec"]["template"]["spec"]["containers"]]
    assert all("suite.invalid" in i for i in images)
    operation.distribution.tick()
    images = [c["image"] for c in operation.get("deployment kube-dns")["spec"]["template"]["spec"]["containers"]]
    assert all("suite.invalid" not in i for i in images)


@on("eks")
def test_an_update_of_the_addon_starts_the_old_dns(operation):
    operation.switch("beside", "switch")  # without "stop"
    operation.distribution.manage()
    assert operation.replicas() == 2
    operation.await_answering("kubedns", "coredns")
    operation.step("stop")
    operation.kubectl("-n", "kube-system", "scale", "deployment/coredns", "--replicas=0")
    operation.distribution.manage()
    operation.await_answering("kubedns")


@on("rke2")
def test_rke2s_service_selects_only_pods_with_its_three_labels(operation):
    """The overlay of the other recipes is not enough on RKE2."""
    operation.switch("beside")
    operation.operator.save(Recipe("k3s").data["overlay"])
    operation.step("switch")
    wait_for(lambda: not operation.answering(), 20, "no pod behind the Service")
