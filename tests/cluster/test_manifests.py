"""The manifests as an operator applies them. The real API server must accept them."""

import pytest
import yaml

from cluster import DNS_IP, REGISTRY, ROOT, manifests, objects
from run import Failed, run

OVERLAYS = ["replace-kube-dns", "beside", "front", "autoscale"]


@pytest.mark.parametrize("overlay", [*OVERLAYS, "node-service", "node-local"])
def test_api_server_accepts_the_overlay(cluster, tmp_path, overlay):
    text = manifests(tmp_path, overlay)
    out = cluster.plane.apply(text, "--dry-run=server", "--validate=strict")
    assert out.count("serverside-applied") == len(objects(text))


def test_api_server_accepts_the_components_together(cluster, tmp_path):
    """Applies all components that need no CRDs of other projects."""
    together = ("front", "control-plane", "evict-unready", "networkpolicy", "proportional", "external-names", "client-pods", "multicluster")
    mine = {"resources": ["../replace-kube-dns"], "components": [f"../components/{c}" for c in together]}
    text = manifests(tmp_path, "mine", files={"mine/kustomization.yaml": yaml.safe_dump(mine)})
    out = cluster.plane.apply(text, "--dry-run=server", "--validate=strict")
    assert out.count("serverside-applied") == len(objects(text))


@pytest.mark.parametrize("values", [[], ["topology=front", "autoscaler.enabled=true"], ["isClusterService=false", "hpa.enabled=true"],
                                    ["topology=classic"], ["topology=node"], ["topology=node-local"], ["topology=node-local", "deployment.enabled=false"]])
def test_api_server_accepts_the_chart(cluster, values):
    sets = [a for v in (f"registry={REGISTRY}", f"service.clusterIP={'' if 'isClusterService=false' in values else DNS_IP}", *values)
            for a in ("-set", v)]
    text = run(ROOT / "build/helm", *sets, "kube-dns-chart", ROOT / "conf/helm/kubedns")
    out = cluster.plane.apply(text, "--dry-run=server", "--validate=strict")
    assert out.count("serverside-applied") == len(objects(text))


def test_check_names_each_missing_value(cluster, tmp_path):
    import shutil
    copy = tmp_path / "kubernetes"
    shutil.copytree(ROOT / "conf/kubernetes", copy)
    path = copy / "settings/settings.yaml"
    env = {"KUBECTL": f"{cluster.plane.ctl} kubectl --kubeconfig {cluster.plane.kubeconfig}"}

    def check(*args):
        import os
        import subprocess
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
    cluster.reinstall()
    old = manifests(tmp_path, "replace-kube-dns").replace("  selector:\n    matchLabels:\n      k8s-app: kube-dns\n  strategy:",
                                                          "  replicas: 0\n  selector:\n    matchLabels:\n      k8s-app: kube-dns\n  strategy:")
    cluster.plane.kubectl("-n", "kube-system", "delete", "deployment", "kube-dns", "--ignore-not-found")
    cluster.plane.kubectl("apply", "-f", "-", input=old)
    path.write_text(path.read_text().replace("cluster.local.", "cluster.local"))
    code, said = check()
    assert code == 1 and "kubectl sets it to 1" in said and "value: 0" in said
    cluster.plane.kubectl("-n", "kube-system", "delete", "deployment", "kube-dns")
    assert check()[0] == 0


def test_values_forgotten_are_refused_by_the_api_server(cluster, tmp_path):
    """Without the check script, incomplete settings still prevent all objects from being applied."""
    with pytest.raises(Failed, match="SET-ME"):
        cluster.plane.apply(manifests(tmp_path, "replace-kube-dns", clusterIP="SET-ME"), "--dry-run=server")
