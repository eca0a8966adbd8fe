"""Copies of conf/kubernetes with other settings, rendered by kubectl, for tests."""

import hashlib
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
    """Copies conf/kubernetes and changes these settings."""
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
    return {(o["kind"], o["metadata"]["name"]): o for o in yaml.safe_load_all(kustomize(made, overlay)) if o}


def kustomize(made, overlay):
    """
    Renders this overlay of the copy `made` with kubectl. Many tests render the same files, and each start of kubectl takes half a second of
    CPU time. So the output is cached in $BUILD/kustomized. Its name is the hash of all files and of kubectl itself.
    """
    tool = pathlib.Path(shutil.which(KUBECTL[0])).resolve()
    inputs = hashlib.sha256(f"{tool} {tool.stat().st_mtime_ns} {overlay.relative_to(made)}".encode())
    for path in sorted(p for p in made.rglob("*") if p.is_file()):
        inputs.update(f"\0{path.relative_to(made)}\0".encode() + path.read_bytes())
    kept = pathlib.Path(os.environ.get("BUILD", ROOT / "build"), "kustomized", inputs.hexdigest())
    if not kept.exists():
        out = subprocess.run([*KUBECTL, "kustomize", overlay], capture_output=True, text=True, timeout=60)
        assert out.returncode == 0, out.stderr
        kept.parent.mkdir(parents=True, exist_ok=True)
        aside = kept.with_suffix(f".{os.getpid()}")
        aside.write_text(out.stdout)
        aside.rename(kept)
    return kept.read_text()


def containers(objects, name="kube-dns"):
    return {c["name"]: c for c in objects["Deployment", name]["spec"]["template"]["spec"]["containers"]}


def stand_in(path, cases):
    """
    Writes a script that is used in the place of kubectl. `cases` is shell code: what it does for which arguments. kubectl itself renders
    overlays. The script keeps the output in $BUILD/kustomized, under the hash of all files.
    """
    kept = pathlib.Path(os.environ.get("BUILD", ROOT / "build"), "kustomized").resolve()
    tool = pathlib.Path(shutil.which(KUBECTL[0])).resolve()
    path.write_text(f"""#!/bin/sh
case "$*" in
kustomize*)
	kept={kept}/$({{ echo "{tool} {tool.stat().st_mtime_ns} $*"; find . -type f | LC_ALL=C sort | xargs sha256sum; }} | sha256sum | cut -d" " -f1)
	[ -f "$kept" ] || {{ mkdir -p {kept} && {" ".join(KUBECTL)} "$@" >"$kept.$$" && mv "$kept.$$" "$kept"; }} || exit
	exec cat "$kept" ;;
{cases}
*) exit 1 ;;
esac
""")
    path.chmod(0o755)
    return str(path)


# What kubectl does if no API server is reachable: it knows its own version only.
UNREACHABLE = """version*) printf '{"clientVersion": {\n"minor": "99"\n}}\n'; exit 1 ;;"""


def check(made, *overlays, kubectl=None):
    """Runs conf/kubernetes/check without a reachable API server."""
    env = {**os.environ, "KUBECTL": kubectl or stand_in(made.parent / "kubectl", UNREACHABLE), "KUBECONFIG": "/dev/null"}
    p = subprocess.run([made / "check", *overlays], env=env, stderr=subprocess.PIPE, text=True, timeout=60)
    return p.returncode, p.stderr
