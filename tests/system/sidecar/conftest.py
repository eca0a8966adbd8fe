"""The browser of the page's tests."""

import chromium
import pytest


@pytest.fixture(scope="session")
def browser():
    """One browser for the tests of a process, because each start of Chromium takes two seconds of CPU time. A test leaves the page that it opened."""
    started = chromium.Browser()
    yield started
    started.close()
