"""The overlays that the documents show are rendered, and have the flags that they promise."""

import re

import pytest
import yaml

from overlays import ROOT, copy, kustomize, needs_kubectl


@needs_kubectl
def test_the_documented_dual_stack_overlay_gives_both_programs_the_same_addresses(tmp_path):
    section = (ROOT / "docs/node.md").read_text().split("### Dual stack", 1)[1].split("\n### ")[0]
    (overlay,) = re.findall(r"```yaml\n(.*?)```", section, re.S)
    made = copy(tmp_path, clusterIP="10.43.0.10")
    (made / "mine").mkdir()
    (made / "mine/kustomization.yaml").write_text(overlay)
    (daemonset,) = [o for o in yaml.safe_load_all(kustomize(made, made / "mine")) if o and o["kind"] == "DaemonSet"]
    mine = {c["name"]: c for c in daemonset["spec"]["template"]["spec"]["containers"]}
    (kubedns,) = [a for a in mine["kubedns"]["args"] if a.startswith("--dns-bind-address=")]
    (nanny,) = [a for a in mine["dnsmasq"]["args"] if a.startswith("-localip=")]
    assert kubedns.split("=")[1] == nanny.split("=")[1] == "169.254.20.10,$(CLUSTER_DNS),fd00:10:96::a,fd00:169:254::10"


def shown_files(document):
    """
    Yields (path below conf/kubernetes, text) for each YAML block that begins with a path, and (None, text) for each YAML block of patches
    for an overlay.
    """
    for block in re.findall(r"```yaml\n(.*?)```", (ROOT / document).read_text(), re.S):
        path = re.match(r"# conf/kubernetes/(\S+)\n", block)
        if path or re.match(r"(#.*\n)?(secretGenerator|patches):", block):
            yield (path[1] if path else None), block


SHOWN = [(str(path.relative_to(ROOT)), i) for path in sorted([*ROOT.glob("docs/*.md"), *ROOT.glob("conf/*/README.md")])
         for i, (name, _) in enumerate(shown_files(path.relative_to(ROOT))) if name is None or name.endswith("/kustomization.yaml")]  # fmt: skip


@needs_kubectl
@pytest.mark.parametrize("document, number", SHOWN)
def test_the_overlays_in_the_documents_are_rendered_with_their_flags(tmp_path, document, number):
    files = list(shown_files(document))
    path, text = files[number]
    made = copy(tmp_path, clusterIP="10.43.0.10")
    if path is None:
        path = "mine/kustomization.yaml"
        text = f"resources: [../{'node-local' if 'DaemonSet' in text else 'front'}]\n{text}"
    folder = (made / path).parent
    folder.mkdir()
    (folder / "keys").write_text("name hmac-sha256 secret\n")
    for beside, content in files:
        if beside is not None and not beside.endswith("/kustomization.yaml") and (made / beside).parent == folder:
            (made / beside).write_text(content)
    (made / path).write_text(text)
    rendered = kustomize(made, folder)
    (made / "plain").mkdir()
    (made / "plain/kustomization.yaml").write_text(f"resources: [{re.search(r'[.][.]/[a-z-]+', text)[0]}]\n")
    assert rendered != kustomize(made, made / "plain"), "the overlay changes nothing"
    # The first value is enough: the rendered objects contain an address in place of $(CLUSTER_DNS).
    assert all(flag.split(",")[0] in rendered for flag in re.findall(r'value: "(--[^"]*)"', text))
