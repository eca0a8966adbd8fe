"""The other DNS pods. kubedns knows them from the API, and each pod's page links to them (test_sidecar_drawing)."""

import pytest
from api_world import ApiServer
from objects import endpoint_slice, namespace, service
from pod_world import Pod
from sidecar_world import until


@pytest.fixture
def api():
    with ApiServer(listen=False) as server:
        server.fill([namespace("default"), namespace("kube-system"), service("kubernetes", "10.96.0.1", "default"),
                     service("kube-dns", "10.96.0.10", "kube-system", ports=(("dns", 53),))])
        server.start()
        yield server


def test_the_page_knows_the_pods_behind_the_same_service(api, tmp_path):
    own = "10.1.0.6"
    pods = endpoint_slice("kube-dns", [own, "10.1.0.7", "10.1.0.8"], "kube-system", ports=(("dns", 53),))
    pods["endpoints"][2]["conditions"]["ready"] = False
    api.fill([pods])
    pod = Pod({}, kubedns=[f"--kubecfg-file={api.kubeconfig(tmp_path / 'kubeconfig')}", f"--ns-addresses={own}"])
    try:
        shown = until(lambda: pod.sidecar.status()["kubedns"]["neighbours"], 20)
        assert shown == [{"address": "10.1.0.7", "ready": True}, {"address": "10.1.0.8", "ready": False}]
        assert pod.sidecar.status()["port"] == pod.sidecar.port
        # If a client may not see the servers' addresses, it may not see the addresses of other pods either.
        assert "10.1.0.7" not in pod.sidecar.get("/status.json", {"Host": "evil.example"})[1]
    finally:
        pod.close()
