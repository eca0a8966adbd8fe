"""The images under the names of the manifests, and the table of expected and observed results."""

import os
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))

from cluster import REGISTRY, image_tag  # noqa: E402
from run import docker  # noqa: E402

ROW = "expected and observed"


@pytest.fixture(scope="session")
def images():
    """Tags the suite's images with the names that the manifests use."""
    tag = image_tag()
    for name in ("kubedns", "nanny", "nanny-unbound", "sidecar"):
        docker("tag", f"{name}:{tag}", f"{REGISTRY}/{name}:{tag}")
    return tag


@pytest.fixture
def report(request):
    """report(what, expected, observed) adds a row to the table at the end of the run."""
    def note(what, expected, observed):
        request.node.user_properties.append((ROW, [str(what), str(expected), str(observed)]))
        print(f"{what}: expected {expected}; observed {observed}")
    return note


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
