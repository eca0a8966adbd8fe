"""All these tests share one cluster. Each test installs the overlay that it needs."""

import pathlib
import signal
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))

from load import Load  # noqa: E402
from nodes import Cluster  # noqa: E402


@pytest.fixture(scope="session")
def suite(tmp_path_factory, images):
    """The cluster. suite.ensure(overlay, replicas) installs an overlay."""
    # SIGTERM (from timeout or CI) must also clean everything up.
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    c = Cluster(tmp_path_factory.mktemp("cluster"), images)
    try:
        c.namespace("clients")
        yield c
    finally:
        c.close()


@pytest.fixture(scope="session")
def glibc(suite):
    return suite.client("glibc", "dnst-glibc")


@pytest.fixture(scope="session")
def musl(suite):
    return suite.client("musl", "dnst-musl")


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
