"""Copies of conf/kubernetes with other settings, rendered by kubectl, for tests."""

import os
import pathlib
import shutil
import subprocess

import pytest
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
RULES = ROOT / "conf/prometheus/rules.yaml"
CTL = ROOT / "build/controlplane/ctl"
KUBECTL = ["kubectl"] if shutil.which("kubectl") else [str(CTL), "kubectl"]
SET = {"clusterIP": "10.96.0.10", "registry": "registry.example:5000/dns"}
DIGEST = "sha256:" + "0123456789abcdef" * 4

needs_kubectl = pytest.mark.skipif(not shutil.which("kubectl") and not CTL.exists(), reason="no kubectl here")


def copy(tmp_path, **settings):
    """conf/kubernetes with these settings."""
    made = tmp_path / "kubernetes"
    if not made.exists():
        shutil.copytree(ROOT / "conf/kubernetes", made)
    path = made / "settings/settings.yaml"
    lines = path.read_text().splitlines()
    for name, value in {**SET, **settings}.items():
        (at,) = [i for i, line in enumerate(lines) if line.startswith(f"  {name}:")]
        lines[at] = f"  {name}: {value}"
    path.write_text("\n".join(lines) + "\n")
    return made


def render(made, base="replace-kube-dns", *components):
    overlay = made / "mine"
    overlay.mkdir(exist_ok=True)
    (overlay / "kustomization.yaml").write_text(yaml.safe_dump({
        "apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "resources": [f"../{base}"],
        "components": [f"../components/{c}" for c in components]}))
    out = subprocess.run([*KUBECTL, "kustomize", overlay], capture_output=True, text=True, timeout=60)
    assert out.returncode == 0, out.stderr
    return {(o["kind"], o["metadata"]["name"]): o for o in yaml.safe_load_all(out.stdout) if o}


def containers(objects, name="kube-dns"):
    return {c["name"]: c for c in objects["Deployment", name]["spec"]["template"]["spec"]["containers"]}


def check(made, *overlays):
    """conf/kubernetes/check without an API server in reach."""
    env = {**os.environ, "KUBECTL": " ".join(KUBECTL), "KUBECONFIG": "/dev/null"}
    p = subprocess.run([made / "check", *overlays], env=env, stderr=subprocess.PIPE, text=True, timeout=60)
    return p.returncode, p.stderr
