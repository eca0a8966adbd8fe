"""The sandbox with dnstap: Unix sockets are allowed only if the collector has one."""

import pytest
import test_sandbox
from kubedns_process import Kubedns
from test_sandbox import EXPECTED, SYSCALLS, check, has_tried

library, objects, outside, pytestmark = test_sandbox.library, test_sandbox.objects, test_sandbox.outside, test_sandbox.pytestmark


@pytest.mark.parametrize("target, unix", [("unix:/run/no/such.sock", {"ok"}), ("tcp:127.0.0.1:9", SYSCALLS)])
def test_a_collector_of_dnstap_opens_unix_sockets_only_if_it_has_one(outside, objects, target, unix):
    with Kubedns(f"--objects-dir={objects}", f"--dnstap={target}", "--threads=1", env=outside) as kubedns:
        found = kubedns.wait(lambda: has_tried(kubedns.log, "kubedns", 3), what=kubedns.log)
        assert {"worker00", "dnstap"} < set(found)
        for tried in found.values():
            check(tried, EXPECTED["kubedns"] | {"unix": unix, "unix-connect": {"ECONNREFUSED"} if "ok" in unix else SYSCALLS})
