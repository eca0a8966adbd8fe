"""The manifests as an operator applies them. The real API server must accept them."""

import os
import shutil
import subprocess

import pytest
import yaml

from cluster import DNS_IP, REGISTRY, ROOT, manifests, objects
from realapi import RealApi
from run import Failed, run

OVERLAYS = ["replace-kube-dns", "beside", "front", "autoscale"]


@pytest.fixture(scope="module")
def api(tmp_path_factory):
    made = RealApi(tmp_path_factory.mktemp("manifests") / "real")
    yield made
    made.stop()


def accepted(api, text):
    """True if the API server accepts every object of the text."""
    out = api.kubectl("apply", "--server-side", "--force-conflicts", "--dry-run=server", "--validate=strict", "-f", "-", text=text)
    return out.count("serverside-applied") == len(objects(text))


@pytest.mark.parametrize("overlay", [*OVERLAYS, "node-service", "node-local"])
def test_api_server_accepts_the_overlay(api, tmp_path, overlay):
    text = manifests(tmp_path, overlay)
    assert accepted(api, text)


def test_api_server_accepts_the_components_together(api, tmp_path):
    """Applies all components that need no CRDs of other projects."""
    together = ("front", "control-plane", "evict-unready", "networkpolicy", "proportional", "external-names", "client-pods", "multicluster")
    mine = {"resources": ["../replace-kube-dns"], "components": [f"../components/{c}" for c in together]}
    text = manifests(tmp_path, "mine", files={"mine/kustomization.yaml": yaml.safe_dump(mine)})
    assert accepted(api, text)


@pytest.mark.parametrize("values", [[], ["topology=front", "autoscaler.enabled=true"], ["isClusterService=false", "hpa.enabled=true"],
                                    ["topology=classic"], ["topology=node"], ["topology=node-local"], ["topology=node-local", "deployment.enabled=false"]])
def test_api_server_accepts_the_chart(api, values):
    sets = [a for v in (f"registry={REGISTRY}", f"service.clusterIP={'' if 'isClusterService=false' in values else DNS_IP}", *values)
            for a in ("-set", v)]
    text = run(ROOT / "build/helm", *sets, "kube-dns-chart", ROOT / "conf/helm/kubedns")
    assert accepted(api, text)


def test_check_names_each_missing_value(api, tmp_path):
    copy = tmp_path / "kubernetes"
    shutil.copytree(ROOT / "conf/kubernetes", copy)
    path = copy / "settings/settings.yaml"
    env = {"KUBECTL": f"{api.command[0]} kubectl --kubeconfig {api.about['kubeconfig']}"}

    def check(*args):
        p = subprocess.run([copy / "check", *args], env={**os.environ, **env}, stderr=subprocess.PIPE, text=True, timeout=60)
        return p.returncode, p.stderr

    code, said = check()
    assert code == 1 and "clusterIP is not set" in said and "registry is not set" in said
    code, said = check("beside")
    assert code == 1 and "clusterIP" not in said and "registry is not set" in said
    text = path.read_text()
    path.write_text(text.replace("clusterIP: SET-ME", f"clusterIP: {DNS_IP}").replace("registry: SET-ME", "registry: r.example/dns"))
    code, said = check("replace-kube-dns", "beside", "front", "autoscale")
    assert code == 0, said
    path.write_text(path.read_text().replace("cluster.local", "cluster.local."))
    code, said = check()
    assert code == 1 and "not a domain without a final dot" in said
    # If the previous apply set a replica count, an apply without the count would change it to one pod.
    old = manifests(tmp_path, "replace-kube-dns").replace("  selector:\n    matchLabels:\n      k8s-app: kube-dns\n  strategy:",
                                                          "  replicas: 0\n  selector:\n    matchLabels:\n      k8s-app: kube-dns\n  strategy:")
    api.kubectl("apply", "-f", "-", text=old)
    path.write_text(path.read_text().replace("cluster.local.", "cluster.local"))
    code, said = check()
    assert code == 1 and "kubectl sets it to 1" in said and "value: 0" in said
    api.kubectl("-n", "kube-system", "delete", "deployment", "kube-dns")
    assert check()[0] == 0


def test_values_forgotten_are_refused_by_the_api_server(api, tmp_path):
    """Without the check script, incomplete settings still prevent all objects from being applied."""
    with pytest.raises(Failed, match="SET-ME"):
        accepted(api, manifests(tmp_path, "replace-kube-dns", clusterIP="SET-ME"))
