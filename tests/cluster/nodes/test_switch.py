"""Switches from a cluster's existing DNS to ours and back while clients query continuously. No answer may be lost."""

import pytest
import yaml

from cluster import DNS_IP, manifests, objects

NAME = "kubernetes.default.svc.cluster.local"


# The existing DNS: two containers with kube-dns's names. One container has the cluster's only name, and the other container forwards
# queries to it. At shutdown they keep answering for some seconds, until all clients use other pods.
def old_dns():
    labels = {"k8s-app": "kube-dns"}

    def container(name, port, *args):
        return {"name": name, "image": "dnst-dnsmasq", "imagePullPolicy": "Never",
                "args": ["-k", "-C", "/dev/null", "--no-hosts", "--log-facility=-", f"--port={port}", *args],
                "readinessProbe": {"tcpSocket": {"port": port}, "periodSeconds": 1}, "lifecycle": {"preStop": {"sleep": {"seconds": 5}}},
                "securityContext": {"runAsUser": 0, "capabilities": {"add": ["NET_BIND_SERVICE"]}}}

    containers = [container("kubedns", 10053, "--no-resolv", f"--host-record={NAME},10.96.0.1", "--local=/cluster.local/"),
                  container("dnsmasq", 53, "--server=/cluster.local/127.0.0.1#10053")]
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "kube-dns", "namespace": "kube-system", "labels": labels},
               "spec": {"clusterIP": DNS_IP, "selector": labels,
                        "ports": [{"name": "dns", "port": 53, "protocol": "UDP"}, {"name": "dns-tcp", "port": 53, "protocol": "TCP"}]}}
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "kube-dns", "namespace": "kube-system", "labels": labels},
                  "spec": {"selector": {"matchLabels": labels},
                           "strategy": {"rollingUpdate": {"maxSurge": "10%", "maxUnavailable": 0}},
                           "template": {"metadata": {"labels": labels},
                                        "spec": {"dnsPolicy": "Default", "automountServiceAccountToken": False, "containers": containers}}}}
    return yaml.safe_dump_all([service, deployment])


@pytest.fixture
def old(suite):
    """Only the existing DNS runs."""
    suite.configure(None)
    suite.reinstall()
    suite.plane.kubectl("-n", "kube-system", "delete", "deployment", "kube-dns", "--ignore-not-found")
    suite.gone("kube-dns-")
    # An administrator's tool applies the old DNS, with a different field manager from ours and without force.
    suite.plane.kubectl("apply", "-f", "-", input=old_dns())
    suite.scale("kube-dns", 2)
    yield suite
    suite.plane.kubectl("-n", "kube-system", "delete", "deployment", "kube-dns", "--ignore-not-found")
    suite.gone("kube-dns-")
    suite.reinstall()


def test_there_and_back(old, glibc, musl, report):
    names = [f"{NAME}=10.96.0.1"]
    # The old server cannot announce that it will end soon. If a client soon uses a source port again, its query could still go to the old
    # server. This test is not about that, so these askers change ports.
    askers = [old.asker(c, "ask-ports", DNS_IP, 50, *names) for c in (glibc, musl)]
    manifest = manifests(old.directory, "replace-kube-dns")
    old.plane.kubectl("apply", "-f", "-", input=manifest)
    ours = old.await_rollout("kube-dns")
    assert len(ours) == 2  # the same number as before
    wanted = next(o for o in objects(manifest) if o["kind"] == "Deployment")["spec"]["template"]["spec"]
    for pod in ours:
        assert [c.spec["name"] for c in pod.containers] == ["kubedns", "dnsmasq", "sidecar"]
        for c, want in zip(pod.containers, wanted["containers"]):
            # Nothing of the old Deployment is left in ours.
            assert c.spec["args"] == want["args"] and "lifecycle" not in c.spec and c.spec["image"] == want["image"]
            own = dict(c.spec["securityContext"])
            assert not own["capabilities"].get("add")
            assert own | {"capabilities": {"drop": ["ALL"]}} == want["securityContext"] | {"capabilities": {"drop": ["ALL"]}}
    assert old.await_answer(glibc, "www.example.com", "192.0.2.80")["held"]  # the old DNS did not know external names
    old.plane.kubectl("-n", "kube-system", "rollout", "undo", "deployment/kube-dns")
    back = old.await_rollout("kube-dns")
    assert {c.spec["name"] for p in back for c in p.containers} == {"kubedns", "dnsmasq"}
    results = [a.stop() for a in askers]
    asked, lost = (sum(t[k] for t, _ in results) for k in ("asked", "lost"))
    wrong = sum(t["wrong"] for t, _ in results)
    report("switched to ours and back", "0 lost, 0 wrong", f"{lost} lost, {wrong} wrong of {asked}")
    assert lost == 0 and wrong == 0, [f[:5] for _, f in results]
