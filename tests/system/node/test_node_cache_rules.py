"""
The NOTRACK rules that a killed node-cache (NodeLocal DNSCache) leaves on a node. The nanny reports them for both kinds of iptables, and
the command in docs/node.md removes them.
"""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess

import pytest
from hurry import Clock
from node_world import LOCAL, SERVICE, NodeWorld

pytestmark = pytest.mark.spread

ROOT = pathlib.Path(__file__).resolve().parents[3]
BACKENDS = ("iptables-nft", "iptables-legacy", "ip6tables-nft", "ip6tables-legacy")


def add_rules(world, iptables, addresses):
    """Adds the rules that node-cache adds to table raw. Returns their number."""
    for address in addresses:
        for protocol in ("udp", "tcp"):
            for chain, what in (("PREROUTING", ["-d", address, "--dport"]), ("OUTPUT", ["-s", address, "--sport"]), ("OUTPUT", ["-d", address, "--dport"])):
                world.node(iptables, "-t", "raw", "-A", chain, "-p", protocol, *what, "53", "-j", "NOTRACK",
                           "-m", "comment", "--comment", "NodeLocal DNS Cache: skip conntrack")  # fmt: skip
    return len(addresses) * 6


def rules_seen(world):
    """The number of rules that the nanny reports, or None if the nanny does not listen yet."""
    found = re.findall(r"^nanny_node_cache_rules (\d+)$", world.node("curl", "-s", "http://127.0.0.1:10056/metrics", check=False).stdout, re.M)
    return int(found[0]) if found else None


def documented_removal():
    """Returns the command in docs/node.md. The command prints commands, and `| sh` runs these."""
    section = (ROOT / "docs/node.md").read_text().split("### Left-over rules of node-cache", 1)[1].split("\n### ")[0]
    (command,) = re.findall(r"```\n(for .*?)\n```", section, re.S)
    return command


@pytest.mark.parametrize("iptables", BACKENDS)
def test_rules_of_node_cache_are_seen_and_removed_as_documented(tmp_path, iptables):
    """The nanny looks every ten seconds. Its clock runs five times as fast."""
    if not shutil.which(iptables):
        pytest.skip(f"needs {iptables}")
    addresses = ["fd00:10:96::a"] if iptables.startswith("ip6") else [SERVICE, LOCAL]
    clock = Clock(tmp_path)
    with NodeWorld(tmp_path) as world, clock.running(5):
        try:
            expected = add_rules(world, iptables, addresses)
        except subprocess.CalledProcessError as e:
            pytest.skip(f"this kernel has no {iptables}: {e.stderr.strip()}")
        # Rules of other programs do not count.
        world.node(iptables, "-t", "raw", "-A", "PREROUTING", "-p", "udp", "--dport", "5353", "-j", "NOTRACK", "-m", "comment", "--comment", "NodeLocal DNS")
        world.start_node(env={**os.environ, **clock.env})
        world.wait_node()
        world.until(lambda: rules_seen(world) == expected, what=f"{expected} rules seen")
        log = (tmp_path / "nanny.log").read_text()
        assert f"{expected} NOTRACK rules of NodeLocal DNSCache are on this node" in log
        assert json.loads(world.node("curl", "-s", "http://127.0.0.1:10056/config").stdout)["nodeCacheRules"] == expected
        printed = world.node("sh", "-c", documented_removal().removesuffix(" | sh")).stdout
        assert len(printed.splitlines()) == expected and rules_seen(world) == expected, "without `| sh` the command only prints"
        world.node("sh", "-c", documented_removal())
        world.until(lambda: rules_seen(world) == 0, what="no rules seen")
        assert "rules of NodeLocal DNSCache are gone" in (tmp_path / "nanny.log").read_text()
        assert "5353" in world.node(iptables, "-t", "raw", "-S").stdout


def test_left_over_notrack_rules_make_a_dead_kubedns_silent(tmp_path):
    """With these rules, clients get no answer when kubedns is dead. Without them the central pods answer."""
    with NodeWorld(tmp_path) as world:
        world.start_node()
        world.wait_node()
        add_rules(world, "iptables-nft", [SERVICE])
        world.stop("kubedns", signal.SIGKILL)
        world.until(lambda: not any("elements" in world.node("nft", "list", "set", "inet", t, "alive4", check=False).stdout for t in world.tables()),
                    what="no address in the rules")
        assert [world.ask_once() for _ in range(3)] == [None] * 3
        world.node("sh", "-c", documented_removal())
        world.until(lambda: world.ask_once() == 20, what="an answer of the cluster's pods")


def test_looking_makes_no_table(tmp_path):
    """Reading a legacy table creates it in the kernel. From then on, packets would pass through the table."""
    with NodeWorld(tmp_path) as world:
        world.start_node()
        world.wait_node()
        world.until(lambda: rules_seen(world) == 0, what="the metric")
        for path in ("/proc/net/ip_tables_names", "/proc/net/ip6_tables_names"):
            assert "raw" not in world.node("cat", path, check=False).stdout
        assert " raw" not in world.node("nft", "list", "tables").stdout
