"""
Other versions of the API server, built from tests/controlplane/older. The tests find out which of our objects each version accepts, first
with --dry-run=server and then with a real apply. They also check that kubedns works with each version. APISERVERS names the programs.
Without it these tests are skipped.
"""

import contextlib
import json
import os
import re

import pytest
import yaml
from cluster import DNS_IP, REGISTRY, ROOT, manifests, objects
from realapi import RealApi
from run import Failed, run
from test_api_real import OBJECTS, QUESTIONS, USER

from asking import Asker, ask_until
from kubedns_process import Kubedns
from objects import service

APISERVERS = [os.path.abspath(f) for f in os.environ.get("APISERVERS", "").split()]
CHART = {"classic": ["topology=classic"], "front": ["autoscaler.enabled=true"], "node": ["topology=node"], "node-local": ["topology=node-local"]}
TOGETHER = ("front", "control-plane", "networkpolicy", "proportional", "external-names", "client-pods")

# The objects that need a newer server than 1.22. Each entry has the first version that accepts the object, and the error of an older server.
SINCE = {
    **dict.fromkeys(("replace-kube-dns", "beside", "front", "autoscale"), (29, "matchLabelKeys")),
    "evict-unready": (26, "unhealthyPodEvictionPolicy"),
    "node-local": (29, "flowcontrol.apiserver.k8s.io/v1"),
    "chart node-local": (29, "flowcontrol.apiserver.k8s.io/v1"),
    "node-service": (34, "PreferSameNode|trafficDistribution|flowcontrol.apiserver.k8s.io/v1"),
    "chart node": (34, "PreferSameNode|trafficDistribution|flowcontrol.apiserver.k8s.io/v1"),
    "search": (36, 'no matches for kind "MutatingAdmissionPolicy"'),
}

WATCH_LIST_SINCE = 34  # from this version on, WatchList is on by default; it was also on in 1.32, and off again in 1.33

pytestmark = pytest.mark.skipif(not APISERVERS, reason="APISERVERS names no other kube-apiserver: make test-versions")


@pytest.fixture(scope="module", params=APISERVERS or [None], ids=lambda path: os.path.basename(path or "none"))
def real(request, tmp_path_factory):
    api = RealApi(tmp_path_factory.mktemp("version"), controllers="endpointslice,endpoints,serviceaccount,gc", apiserver=request.param)
    try:
        api.minor = minor(api.request("/version")[2].decode())
        api.apply(*OBJECTS)
        yield api
    finally:
        api.stop()


def minor(version):
    return int(re.search(r'"gitVersion": *"v1\.(\d+)', version)[1])


def rendered(what, directory, server):
    """The objects as an operator with this version of the API server would render them."""
    if what.startswith("chart "):
        sets = [a for v in (f"registry={REGISTRY}", f"service.clusterIP={DNS_IP}", *CHART[what.removeprefix("chart ")]) for a in ("-set", v)]
        return run(ROOT / "build/helm", "-kube", f"v1.{server}.0", *sets, "kube-dns-chart", ROOT / "conf/helm/kubedns")
    components = {"components": TOGETHER, "evict-unready": ("evict-unready",), "no-match-label-keys": ()}.get(what)
    if components is None:
        return manifests(directory, what)
    if server < 31 or what == "no-match-label-keys":
        components = (*components, "no-match-label-keys")
    mine = {"resources": ["../replace-kube-dns"], "components": [f"../components/{c}" for c in components]}
    return manifests(directory, "mine", files={"mine/kustomization.yaml": yaml.safe_dump(mine)})


@pytest.mark.parametrize("what", ["replace-kube-dns", "beside", "front", "autoscale", "components", "evict-unready", "no-match-label-keys", "node-service",
                                  "node-local", "search", *(f"chart {t}" for t in CHART)])
def test_it_accepts_what_the_document_says(real, tmp_path, what):
    text = rendered(what, tmp_path, real.minor)
    since, said = SINCE.get(what, (22, ""))
    for dry in (["--dry-run=server"], []):
        command = ("apply", "--server-side", "--force-conflicts", "--validate=strict", *dry, "-f", "-")
        if real.minor >= since:
            assert real.kubectl(*command, text=text).count("serverside-applied") == len(objects(text))
        else:
            with pytest.raises(Failed, match=said) as refused:
                real.kubectl(*command, text=text)
            print(f"1.{real.minor} refuses {what}: {refused.value}")
    with contextlib.suppress(Failed):  # if the server rejected some objects, others may exist; the server may not know some of the kinds
        real.kubectl("delete", "--ignore-not-found", "--wait=false", "-f", "-", text=text)


def test_the_eviction_policy_of_the_disruption_budget_is_kept_from_1_27_on(real, tmp_path):
    """1.26 knows the field and drops it, because the feature gate is off."""
    real.apply(rendered("evict-unready", tmp_path, real.minor))
    stored = json.loads(real.kubectl("-n", "kube-system", "get", "poddisruptionbudget", "kube-dns", "-o", "json"))["spec"]
    assert ("unhealthyPodEvictionPolicy" in stored) == (real.minor >= 27)


def test_kubedns_reads_it_and_follows(real, tmp_path):
    """kubedns has the manifest's permissions. If the server has WatchList enabled, kubedns uses it. Otherwise it uses a list and a watch."""
    real.apply((ROOT / "conf/kubernetes/base/rbac.yaml").read_text())
    host, port = real.url.removeprefix("https://").split(":")
    k = Kubedns(env={"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}, serviceaccount=real.service_account, directory=str(tmp_path))
    try:
        k.wait_ready()
        with Asker(k.port, QUESTIONS) as asker:
            real.apply(service("later", "10.96.7.8", "shop"))
            ask_until(k.port, "later.shop.svc.cluster.local", "A", {"10.96.7.8"})
            real.kill_api()
            real.apply(service("after", "10.96.7.9", "shop"))
            ask_until(k.port, "after.shop.svc.cluster.local", "A", {"10.96.7.9"})
        asker.clean()
    finally:
        print(k.log()[-3000:])
        k.stop()
    how = set(re.findall(r"synced, \d+ objects by (watch list|list)", k.log()))
    assert how == {"watch list" if real.minor >= WATCH_LIST_SINCE else "list"}, k.log()
    mine = [e for e in real.audit() if e["user"]["username"] == USER]
    assert any("sendInitialEvents" in e["requestURI"] for e in mine), "kubedns tries a WatchList first"
    print(f"1.{real.minor}: by {how.pop()}")
