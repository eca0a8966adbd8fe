"""Removes settings of the machine's environment that would disturb tests: a proxy, a cluster's address, a kubeconfig, a time zone."""

import os
import time

import pytest

PARTS = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))

for name in list(os.environ):
    if name.lower() in ("http_proxy", "https_proxy", "all_proxy", "no_proxy", "kubeconfig", "tz", "journal_stream") or name.startswith("KUBERNETES_"):
        del os.environ[name]
time.tzset()


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
