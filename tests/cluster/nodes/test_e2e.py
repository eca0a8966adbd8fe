"""
Kubernetes' own tests of DNS (e2e.test), with the DNS pods of each topology, and with CoreDNS as the control. `make test-kubernetes` builds e2e.test
and the images of its pods. Each row of the report is a test.
"""

import subprocess
import xml.etree.ElementTree

import pytest

import bed

IMAGES = ["registry.k8s.io/e2e-test-images/agnhost:2.63.0", "registry.k8s.io/e2e-test-images/glibc-dns-testing:2.0.0"]
# All tests of DNS and of its ConfigMap, and those of Services whose type changes to or from ExternalName.
FOCUS = r"\[sig-network\] DNS|\[sig-network\] Services should be able to change the type"
# Tests of one cloud, of Windows, of clusters with IPv6 only, and of scale.
SKIP = r"Provider:GCE|Windows|IPv6|scale"
TESTS = 16 + 3 + 4  # that FOCUS finds and SKIP leaves


@pytest.fixture(params=["replace-kube-dns", "front", "coredns"])
def server(request, suite):
    """Installs the cluster's DNS."""
    suite.configure(None)
    if request.param == "coredns":
        bed.install_coredns()
        suite.gone("kube-dns-")
        yield request.param
        suite.plane.kubectl("-n", "kube-system", "delete", "deployment", "coredns", "--wait=true")
        suite.gone("coredns-")
        suite.reinstall()
    else:
        suite.ensure(request.param, 2)
        yield request.param
    suite.configure(None)


def test_kubernetes_own_tests(suite, server, tmp_path, report):
    bed.load(*IMAGES)
    done = subprocess.run(bed.in_control_plane([
        f"{bed.BIN}/e2e.test", f"--kubeconfig={bed.RUN}/admin.conf", f"--kubectl-path={bed.BIN}/kubectl", "--provider=skeleton", "--num-nodes=2",
        "--dns-domain=cluster.local", f"--ginkgo.focus={FOCUS}", f"--ginkgo.skip={SKIP}", "--ginkgo.no-color", "--ginkgo.v", "--ginkgo.timeout=30m",
        "--dump-logs-on-failure=false", f"--report-dir={tmp_path}"]), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    (bed.RUN / "log" / f"e2e-{server}.log").write_text(done.stdout)
    results = {}
    for file in tmp_path.glob("junit*.xml"):
        for case in xml.etree.ElementTree.parse(file).getroot().iter("testcase"):
            if case.find("skipped") is None and "[It]" in case.get("name"):
                results[case.get("name").partition("[It] ")[2]] = "failed" if case.find("failure") is not None or case.find("error") is not None else "passed"
    for name, result in results.items():
        report(f"{server}: {name}", "passed", result)
    assert set(results.values()) == {"passed"} and done.returncode == 0, (results, done.stdout[-3000:])
    assert len(results) == TESTS
