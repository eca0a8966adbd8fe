"""One control plane and one network for all of these tests; each test installs the overlay that it is about."""

import os
import pathlib
import signal
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))

from cluster import REGISTRY, Cluster, version  # noqa: E402
from plane import environment_ctl  # noqa: E402
from run import docker  # noqa: E402


@pytest.fixture(scope="session")
def images():
    """The suite's three images under the names that the manifests use."""
    tag = version()
    for name in ("kubedns", "nanny", "sidecar"):
        docker("tag", f"{name}:{tag}", f"{REGISTRY}/{name}:{tag}")
    return tag


@pytest.fixture(scope="session")
def cluster(tmp_path_factory):
    # Whoever ends a run by SIGTERM (timeout, CI) still gets everything cleared away.
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    c = Cluster(tmp_path_factory.mktemp("cluster"), environment_ctl())
    try:
        c.namespace("clients")
        yield c
    finally:
        c.close()


@pytest.fixture(scope="session")
def upstream(cluster):
    """The node's name server: answers everything outside the cluster."""
    address = cluster.upstream("upstream", "--host-record=www.example.com,192.0.2.80", "--host-record=other.upstream.test,192.0.2.81",
                               "--address=/#/")  # and no other name exists
    cluster.kubelet.node_resolv_conf = f"nameserver {address}\n"
    return address


@pytest.fixture(scope="session")
def suite(cluster, images, upstream):
    """The cluster, with everything that the overlays need to be installed: cluster.ensure(overlay, replicas)."""
    return cluster


@pytest.fixture(scope="session")
def glibc(cluster, upstream):
    return cluster.client("glibc", "dnst-glibc")


@pytest.fixture(scope="session")
def musl(cluster, upstream):
    return cluster.client("musl", "dnst-musl")


@pytest.fixture(autouse=True)
def stand_ins_are_well(request):
    """A pod that could not be started as its spec says fails the test, whatever it was about."""
    yield
    if "cluster" in request.fixturenames:
        request.getfixturevalue("cluster").check()


_table = []


@pytest.fixture
def report():
    """report(what, expected, observed): a row of the table at the end of the run."""
    def note(what, expected, observed):
        _table.append((what, expected, observed))
        print(f"{what}: expected {expected}; observed {observed}")
    return note


def pytest_terminal_summary(terminalreporter):
    if _table:
        terminalreporter.section("expected and observed")
        for row in _table:
            terminalreporter.write_line("{:<44} {:<44} {}".format(*map(str, row)))
        path = os.environ.get("CLUSTER_REPORT")
        if path:
            pathlib.Path(path).write_text("".join("\t".join(map(str, r)) + "\n" for r in _table))
