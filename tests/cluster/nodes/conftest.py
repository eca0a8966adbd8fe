"""In this folder, the fixtures of ../conftest.py give the tests real nodes."""

import pathlib
import signal
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))

from nodes import RealCluster  # noqa: E402


@pytest.fixture(scope="session")
def suite(tmp_path_factory, images):
    # SIGTERM (from timeout or CI) must also clean everything up.
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    c = RealCluster(tmp_path_factory.mktemp("cluster"), images)
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
