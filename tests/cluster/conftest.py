"""All these tests share one control plane and one network. Each test installs the overlay that it needs."""

import os
import pathlib
import signal
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))

from cluster import REGISTRY, image_tag  # noqa: E402
from load import Load  # noqa: E402
from plane import environment_ctl  # noqa: E402
from run import docker  # noqa: E402
from standins import StandIns  # noqa: E402

ROW = "expected and observed"


@pytest.fixture(scope="session")
def images():
    """Tags the suite's images with the names that the manifests use."""
    tag = image_tag()
    for name in ("kubedns", "nanny", "nanny-unbound", "sidecar"):
        docker("tag", f"{name}:{tag}", f"{REGISTRY}/{name}:{tag}")
    return tag


@pytest.fixture(scope="session")
def cluster(tmp_path_factory):
    # SIGTERM (from timeout or CI) must also clean everything up.
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    c = StandIns(tmp_path_factory.mktemp("cluster"), environment_ctl())
    try:
        c.namespace("clients")
        yield c
    finally:
        c.close()


@pytest.fixture(scope="session")
def upstream(cluster):
    """The node's name server, which answers all external names."""
    address = cluster.upstream("upstream", "--host-record=www.example.com,192.0.2.80", "--host-record=other.upstream.test,192.0.2.81",
                               "--address=/#/")  # all other names get NXDOMAIN
    cluster.kubelet.node_resolv_conf = f"nameserver {address}\n"
    return address


@pytest.fixture(scope="session")
def suite(cluster, images, upstream):
    """The cluster, with everything that the overlays need. cluster.ensure(overlay, replicas) installs an overlay."""
    return cluster


@pytest.fixture(scope="session")
def glibc(cluster, upstream):
    return cluster.client("glibc", "dnst-glibc")


@pytest.fixture(scope="session")
def musl(cluster, upstream):
    return cluster.client("musl", "dnst-musl")


@pytest.fixture
def load(suite, glibc, musl):
    """load() starts clients that send queries. After the test, the fixture stops the clients that the test did not stop."""
    made = []

    def start():
        made.append(Load(suite, glibc, musl))
        return made[-1]
    yield start
    for asker in (a for m in made for a in m.askers if a.process.poll() is None):
        asker.stop()


@pytest.fixture(autouse=True)
def stand_ins_are_well(request):
    """If a pod could not be started as its spec says, the test fails, even if the test is about something else."""
    yield
    if "cluster" in request.fixturenames:
        request.getfixturevalue("cluster").check()


@pytest.fixture
def report(request):
    """report(what, expected, observed) adds a row to the table at the end of the run."""
    def note(what, expected, observed):
        request.node.user_properties.append((ROW, [str(what), str(expected), str(observed)]))
        print(f"{what}: expected {expected}; observed {observed}")
    return note


def pytest_collection_modifyitems(items):
    """Runs the slowest files first. Otherwise one worker could still be busy when the others have finished."""
    first = ["test_switch_recipes.py", "test_faults_api.py", "test_faults.py", "test_services.py"]
    items.sort(key=lambda i: first.index(i.path.name) if i.path.name in first else len(first))


def pytest_terminal_summary(terminalreporter):
    """Prints the rows of all tests of all workers."""
    reports = [r for rs in terminalreporter.stats.values() for r in rs if getattr(r, "when", None) == "call"]
    table = [row for r in sorted(reports, key=lambda r: r.nodeid) for name, row in r.user_properties if name == ROW]
    if table:
        terminalreporter.section("expected and observed")
        for row in table:
            terminalreporter.write_line("{:<44} {:<44} {}".format(*row))
        path = os.environ.get("CLUSTER_REPORT")
        if path:
            pathlib.Path(path).write_text("".join("\t".join(r) + "\n" for r in table))
