"""
5,000 queries a second over UDP and TCP while the ConfigMap changes. Some answers are in the cache, some are not, and some come from the
upstream only after 300 ms. Under the nanny no query is lost. If dnsmasq is killed and restarted instead, queries of the same load are lost.
tests/bench/change.py says how it judges each answer.
"""

import os
import subprocess
import sys

import pytest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..")
sys.path.insert(0, os.path.join(ROOT, "tests", "bench"))
import change  # noqa: E402


@pytest.fixture(scope="module", autouse=True)
def tool():
    if not os.path.exists(change.LOAD):
        subprocess.run(["make", "-s", "-C", ROOT, f"BUILD={change.BUILD}", change.LOAD], check=True)


def expect_nothing_lost(result):
    change.report("nanny", result)
    assert result["servfail"] == result["refused"] == result["other"] == result["wrong"] == result["false"] == 0, result["examples"]
    assert result["lost"] == 0, (result["lost"], result["kernel_drops"], result["examples"])
    for kind in change.KINDS:
        assert result["by_kind"][kind]["questions"] > 100  # there were queries of each kind
    assert {1, 2, 3, 4} <= set(result["by_kind"]["slow"]["answered_by"])  # each server was in use for a while


@pytest.mark.quiet
def test_changes_lose_no_question():
    # The nanny ends TCP connections with the old servers, within milliseconds or, on a busy machine, later. test_nanny_tcp.py is about that.
    expect_nothing_lost(change.under_nanny(changes=13, gap_s=1.02, burst=30, held_us=5_000_000))


def test_killing_dnsmasq_loses_questions():
    result = change.kill_and_respawn(changes=6)
    change.report("kill and respawn", result)
    assert result["lost"] > 0


@pytest.mark.soak
def test_a_hundred_changes_lose_no_question():
    expect_nothing_lost(change.under_nanny(changes=100))
