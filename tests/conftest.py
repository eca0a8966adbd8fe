"""
Leaves out the tests of modules of kubedns that are not in the build. A test file that needs modules, but is not in the folder of one of
them, says so in its first line: `# needs modules: NAME...`.

Removes settings of the machine's environment that would disturb tests: a proxy, a cluster's address, a kubeconfig, a time zone.
"""

import functools
import os
import pathlib
import re
import subprocess
import time

import pytest

PARTS = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))

for name in list(os.environ):
    if name.lower() in ("http_proxy", "https_proxy", "all_proxy", "no_proxy", "kubeconfig", "tz", "journal_stream") or name.startswith("KUBERNETES_"):
        del os.environ[name]
time.tzset()


@functools.cache
def modules():
    """The modules of the kubedns in $BUILD."""
    tests = pathlib.Path(__file__).parent
    program = pathlib.Path(os.environ.get("BUILD", tests.parent / "build"), "bin/kubedns")
    if not program.exists():
        return (tests.parent / "kubedns/modules/list").read_text().split()
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    return re.search("^modules: (.*)$", said, re.M)[1].split()


def pytest_ignore_collect(collection_path):
    if collection_path.suffix != ".py":
        return None
    folder = re.search(r"/tests/modules/(\w+)/", str(collection_path))
    first_line = re.match("# needs modules: (.*)", collection_path.read_text(encoding="utf-8"))
    needed = (folder[1] if folder else "") + " " + (first_line[1] if first_line else "")
    return None if set(needed.split()) <= set(modules()) else True


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    """
    Distributes the tests with the mark `spread` evenly among the first fifth of the other tests, in as many parts as there are workers. At the start, xdist gives each worker a run
    of consecutive tests, together a quarter of all tests. So each worker gets equally many slow tests, with a part of each file, and the
    quick tests that follow fill the time until all workers have finished.
    """
    slow = [item for item in items if item.get_closest_marker("spread")]
    slow = [item for first in range(PARTS) for item in slow[first::PARTS]]
    others = [item for item in items if not item.get_closest_marker("spread")]
    items[:] = []
    placed = 0
    for number, item in enumerate(others):
        if placed < len(slow) and placed * len(others) * 0.2 <= number * len(slow):
            items.append(slow[placed])
            placed += 1
        items.append(item)
    items += slow[placed:]
