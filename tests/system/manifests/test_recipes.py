"""The overlays of the recipes of docs/install, and the names that other software looks for. The tests need no cluster."""

import shutil
import subprocess

import pytest
import yaml

from recipes import NAMES, ROOT, Recipe


def render(directory, kustomization):
    shutil.copytree(ROOT / "conf/kubernetes", directory / "kubernetes")
    (directory / "kubernetes/mine").mkdir()
    (directory / "kubernetes/mine/kustomization.yaml").write_text(kustomization)
    text = subprocess.run(["kubectl", "kustomize", directory / "kubernetes/mine"], capture_output=True, text=True, check=True).stdout
    return {o["kind"]: o for o in yaml.safe_load_all(text) if not o["metadata"]["name"].endswith("-autoscaler")}, text


@pytest.mark.parametrize("name", NAMES)
def test_the_overlay_leaves_the_old_objects_alone(tmp_path, name):
    recipe = Recipe(name)
    made, _ = render(tmp_path, recipe.data["overlay"])
    assert {o["metadata"]["name"] for o in made.values()} == {"kubedns"} and "Service" not in made
    pods, selector = made["Deployment"]["spec"]["template"]["metadata"]["labels"], made["Deployment"]["spec"]["selector"]["matchLabels"]
    key, _, value = recipe.data["label"].partition("=")
    assert pods[key] == selector[key] == value and selector.items() <= pods.items()
    assert pods["k8s-app"] == "kube-dns" and "k8s-app" not in made["Deployment"]["metadata"]["labels"]
    assert made["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"] == selector
    assert made["ClusterRoleBinding"]["roleRef"]["name"] == made["ClusterRoleBinding"]["subjects"][0]["name"] == "kubedns"
    assert made["Deployment"]["spec"]["template"]["spec"]["serviceAccountName"] == "kubedns"


# Names that other software looks for. docs/install/README.md lists them.
LABELS = {"k8s-app": "kube-dns", "kubernetes.io/cluster-service": "true", "kubernetes.io/name": "KubeDNS"}


def check_names(made):
    service, deployment = made["Service"], made["Deployment"]
    assert (service["metadata"]["name"], service["metadata"]["namespace"]) == ("kube-dns", "kube-system")
    assert LABELS.items() <= service["metadata"]["labels"].items()
    assert {(p["name"], p["port"], p["protocol"]) for p in service["spec"]["ports"]} == {("dns", 53, "UDP"), ("dns-tcp", 53, "TCP")}
    assert service["spec"]["selector"] == {"k8s-app": "kube-dns"}
    assert (deployment["metadata"]["name"], deployment["metadata"]["namespace"]) == ("kube-dns", "kube-system")
    assert deployment["spec"]["template"]["metadata"]["labels"]["k8s-app"] == "kube-dns"
    ports = [p for c in deployment["spec"]["template"]["spec"]["containers"] for p in c["ports"] if p["containerPort"] == 53]
    assert {(p["name"], p["protocol"]) for p in ports} == {("dns", "UDP"), ("dns-tcp", "TCP")}


@pytest.mark.parametrize("overlay", ["front", "replace-kube-dns"])
def test_the_manifests_have_the_names_that_other_software_looks_for(tmp_path, overlay):
    made, text = render(tmp_path, f"resources: [../{overlay}]\ncomponents: [../components/proportional]\n")
    check_names(made)
    assert "--target=Deployment/kube-dns\n" in text and "--configmap=kube-dns-autoscaler\n" in text


@pytest.mark.parametrize("topology", ["front", "classic"])
def test_the_chart_has_the_names_that_other_software_looks_for(topology):
    helm = ROOT / "build/helm"
    if not helm.exists():
        pytest.skip("no Helm engine: make helm")
    text = subprocess.run([helm, "-set", f"registry=r.invalid,service.clusterIP=10.96.0.10,topology={topology}", "-n", "kube-system", "any",
                           ROOT / "conf/helm/kubedns"], capture_output=True, text=True, check=True).stdout
    made = {o["kind"]: o for o in yaml.safe_load_all(text) if o}
    for o in made.values():
        o["metadata"].setdefault("namespace", "kube-system")  # the release's namespace
    check_names(made)
