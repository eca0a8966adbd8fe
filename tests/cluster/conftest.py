"""One control plane and one network for all of these tests; each test installs the overlay that it is about."""

import os
import pathlib
import signal
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))

from cluster import REGISTRY, Cluster, image_tag  # noqa: E402
from load import Load  # noqa: E402
from plane import environment_ctl  # noqa: E402
from run import docker  # noqa: E402

ROW = "expected and observed"


@pytest.fixture(scope="session")
def images():
    """The suite's three images under the names that the manifests use."""
    tag = image_tag()
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


@pytest.fixture
def load(suite, glibc, musl):
    """load() begins to ask; whatever the test forgets is ended."""
    made = []

    def start():
        made.append(Load(suite, glibc, musl))
        return made[-1]
    yield start
    for asker in (a for m in made for a in m.askers if a.process.poll() is None):
        asker.stop()


@pytest.fixture(autouse=True)
def stand_ins_are_well(request):
    """A pod that could not be started as its spec says fails the test, whatever it was about."""
    yield
    if "cluster" in request.fixturenames:
        request.getfixturevalue("cluster").check()


@pytest.fixture
def report(request):
    """report(what, expected, observed): a row of the table at the end of the run."""
    def note(what, expected, observed):
        request.node.user_properties.append((ROW, [str(what), str(expected), str(observed)]))
        print(f"{what}: expected {expected}; observed {observed}")
    return note


def pytest_collection_modifyitems(items):
    """Files that take longest begin first, so that the run does not end with one worker at them."""
    first = ["test_faults_api.py", "test_faults.py", "test_services.py"]
    items.sort(key=lambda i: first.index(i.path.name) if i.path.name in first else len(first))


def pytest_terminal_summary(terminalreporter):
    """The rows of all tests, wherever they ran."""
    reports = [r for rs in terminalreporter.stats.values() for r in rs if getattr(r, "when", None) == "call"]
    table = [row for r in sorted(reports, key=lambda r: r.nodeid) for name, row in r.user_properties if name == ROW]
    if table:
        terminalreporter.section("expected and observed")
        for row in table:
            terminalreporter.write_line("{:<44} {:<44} {}".format(*row))
        path = os.environ.get("CLUSTER_REPORT")
        if path:
            pathlib.Path(path).write_text("".join("\t".join(r) + "\n" for r in table))
