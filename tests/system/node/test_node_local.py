"""
The node's own DNS at the Service's address in the host's network. Whichever program is killed, stopped or frozen, and whatever is
deleted, clients get answers from the node or from the central pods. A dead process leaves no state that blocks them.
"""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import pytest
from api_world import ApiProcess
from node_world import CENTRAL_TTL, LOCAL, NFTABLES, NODE_TTL, SERVICE, NodeWorld
from objects import service

SOAK = os.environ.get("SOAK")
RATE = 400 if SOAK else 60
soak = pytest.mark.skipif(not SOAK, reason="make soak runs it")


def everything(world):
    return [world.running["kubedns"].pid, world.running["nanny"].pid, *world.pids("dnsmasq"), *world.pids("guard")]


def signal_all(pids, number):
    for pid in pids:
        os.kill(pid, number)


def passed(world):
    """Returns after the client has sent some more queries. What they show is in the results."""
    time.sleep(10 if SOAK else 0.5)


def restart(world, *names):
    for name in names:
        world.running.pop(name).wait(timeout=30)
    for pid in world.pids("dnsmasq") if "nanny" in world.running else ():
        os.kill(pid, signal.SIGKILL)
    if set(names) == {"kubedns", "nanny"}:
        world.start_node()
    elif "kubedns" in names:
        world.start_kubedns("kubedns", world.node, f"--dns-bind-address={LOCAL},{SERVICE}", "--share-port", "--resolver=127.0.0.1:253", f"--ttl={NODE_TTL}")
    else:
        world.start_nanny()


def update(world):
    """Sends SIGTERM to all programs of the pod at once, as the kubelet does. The next pod starts when the old pod has ended."""
    signal_all([world.running["kubedns"].pid, world.running["nanny"].pid], signal.SIGTERM)
    restart(world, "kubedns", "nanny")


def kubedns_killed(world):
    world.running["kubedns"].kill()
    world.until(lambda: world.ask_once() == CENTRAL_TTL, what="an answer of the cluster's pods")
    over = time.time()
    restart(world, "kubedns")
    return over


def kill_nanny(world):
    dnsmasq = world.pids("dnsmasq")
    world.running["nanny"].kill()
    signal_all(dnsmasq, signal.SIGKILL)  # if the first process of a container dies, its other processes die too
    return table_ended(world)


def table_ended(world):
    world.until(lambda: not world.tables(), what="the end of the table")
    over = time.time()
    restart(world, "nanny")
    return over


def guard_killed(world):
    signal_all(world.pids("guard"), signal.SIGKILL)
    return table_ended(world)


def dnsmasq_killed(world):
    signal_all(world.pids("dnsmasq"), signal.SIGKILL)  # the nanny restarts it


def frozen(which):
    def freeze(world):
        pids = everything(world) if which == "pod" else [world.running["kubedns"].pid] if which == "kubedns" else world.pids(which)
        signal_all(pids, signal.SIGSTOP)
        world.until(lambda: world.ask_once() == CENTRAL_TTL, what="an answer of the cluster's pods")
        over = time.time()
        passed(world)
        signal_all(pids, signal.SIGCONT)
        return over

    return freeze


def interface_deleted(world):
    world.node("ip", "link", "del", "nodelocaldns")
    world.wait_node()
    return time.time()


def flushed(world):
    (table,) = world.tables()
    assert world.node("nft", "delete", "table", "inet", table, check=False).returncode, "only its own process can delete the table"
    world.node("nft", "flush", "ruleset")
    world.node("nft", "-f", "-", input=NFTABLES)  # kube-proxy writes its own rules again
    world.wait_node()
    return time.time()


def central_away(world):
    """Stops the central pod until the load has ended. No query may depend on the central pods."""
    world.running["central"].send_signal(signal.SIGSTOP)


def central_away_and_back(world):
    world.running["central"].send_signal(signal.SIGSTOP)
    passed(world)
    world.running["central"].send_signal(signal.SIGCONT)


def out_of_memory(which):
    """The kernel kills the program because it is out of memory: its cgroup gets no further page, and an HTTP request makes the program allocate pages."""

    def happens(world):
        page = {"kubedns": "127.0.0.1:8081/queries", "nanny": "127.0.0.1:10056/config"}[which]
        dnsmasq = world.pids("dnsmasq")
        group = pathlib.Path(f"/sys/fs/cgroup/memory/kd{os.getpid()}")
        try:
            group.mkdir()
            (group / "memory.limit_in_bytes").write_text("4096")
            (group / "cgroup.procs").write_text(str(world.running[which].pid))
        except OSError as e:
            pytest.skip(f"needs a memory cgroup of its own: {e}")
        world.node("curl", "-s", f"http://{page}", check=False)
        assert world.running[which].wait(timeout=30) == -signal.SIGKILL
        assert "oom_kill 1" in (group / "memory.oom_control").read_text()
        group.rmdir()
        if which == "nanny":
            signal_all(dnsmasq, signal.SIGKILL)  # if the first process of a container dies, its other processes die too
            return table_ended(world)
        world.until(lambda: world.ask_once() == CENTRAL_TTL, what="an answer of the cluster's pods")
        over = time.time()
        restart(world, which)
        return over

    return happens


# Each case: the event, whether queries may need a retry, and whether TCP queries may fail. If a process dies, its TCP connections break. A
# client sends a TCP query only once and waits five seconds. No query may fail over UDP. Retries and failures are allowed only for queries from
# before the time that the event returns: from then on, the node or the central pods answer everything.
CASES = {
    "update": (update, False, False),
    "kubedns killed": (kubedns_killed, True, True),
    "nanny killed": (kill_nanny, True, True),
    "guard killed": (guard_killed, True, True),
    "dnsmasq killed": (dnsmasq_killed, False, True),
    "kubedns frozen": (frozen("kubedns"), True, True),
    "pod frozen": (frozen("pod"), True, True),
    "guard frozen": (frozen("guard"), False, False),
    "interface deleted": (interface_deleted, True, False),
    "rules flushed": (flushed, True, False),
    "central away": (central_away, False, False),
    "central away and back": (central_away_and_back, False, False),
    "kubedns out of memory": (out_of_memory("kubedns"), True, True),
    "nanny out of memory": (out_of_memory("nanny"), True, True),
}
SHORT = ("update", "kubedns killed", "nanny killed", "pod frozen", "interface deleted", "rules flushed")


@pytest.mark.parametrize("proxy", ["nftables", pytest.param("iptables", marks=soak)])
@pytest.mark.parametrize("case", [c if c in SHORT else pytest.param(c, marks=soak) for c in CASES])
def test_no_question_stays_unanswered(tmp_path, case, proxy):
    happens, again, broken = CASES[case]
    with NodeWorld(tmp_path, proxy) as world:
        world.start_node()
        world.wait_node()
        world.start_asking(RATE, patience=1 if again or broken else 8)
        passed(world)
        over = happens(world) or time.time()
        if case != "central away":
            world.wait_node()
            assert len(world.tables()) == 1
        passed(world)
        out, seen = world.asked()
        lost = [q for q in out if q["took"] is None]
        assert seen["wrong"] == 0 and [q for q in lost if not q["tcp"]] == []
        assert [q for q in lost if not broken or q["at"] > over] == []
        assert [q for q in out if q["again"] and (not again or q["at"] > over)] == []


def test_nothing_is_asked_again_while_the_api_is_away(tmp_path):
    """The node's kubedns has read the cluster and keeps serving its data. Changes show when the API is back."""
    with NodeWorld(tmp_path) as world, ApiProcess(prefix=["ip", "netns", "exec", world.node.name]) as api:
        (objects,) = (json.loads(p.read_text())["items"] for p in world.objects.iterdir())
        api.fill(objects)
        kubeconfig = api.kubeconfig(tmp_path / "kubeconfig")
        world.objects = None
        world.start_node(kubedns=(f"--kubecfg-file={kubeconfig}", "--node-role"))
        world.wait_node()
        world.start_asking(RATE, patience=8)
        passed(world)
        api.stop()
        world.until(lambda: "kubedns_api_failing 1" in world.node("curl", "-s", "http://127.0.0.1:8081/metrics").stdout, what="a failed attempt")
        passed(world)
        api.start()
        _, seen = world.asked()
        assert seen["unanswered"] == seen["wrong"] == seen["asked again"] == 0 and seen["by the node"] == seen["asked"]
        api.put(service("later", "10.96.0.80"))
        world.until(lambda: world.ask_once(name="later.default.svc.cluster.local") == NODE_TTL, what="the Service created later")


def test_no_rules_before_kubedns_and_dnsmasq_answer(tmp_path):
    with NodeWorld(tmp_path) as world:
        world.start_nanny()
        world.until(lambda: "dnsmasq: answers" in (tmp_path / "nanny.log").read_text())
        time.sleep(1)
        assert "rules in force" not in (tmp_path / "nanny.log").read_text()
        assert world.ask_once() == CENTRAL_TTL and world.ask_once(space=world.node) == CENTRAL_TTL
        world.start_kubedns("kubedns", world.node, f"--dns-bind-address={LOCAL},{SERVICE}", "--share-port", "--resolver=127.0.0.1:253", f"--ttl={NODE_TTL}")
        world.wait_node()

        def scrape():
            return world.node("curl", "-s", "http://127.0.0.1:10056/metrics").stdout

        world.until(lambda: "nanny_node_rules 1\n" in scrape(), what="the metric nanny_node_rules")
        metrics = scrape()
        assert 'nanny_node_rules_changes_total{to="up"} 1\n' in metrics
        for kind in ("interface_add", "iptables"):
            assert f'coredns_nodecache_setup_errors_total{{errortype="{kind}"}} 0\n' in metrics
        assert world.ask_once(LOCAL) == NODE_TTL and world.ask_once(space=world.node) == NODE_TTL
        # kubedns does not listen at the host's own addresses.
        assert world.ask_once("10.244.1.1") is None


def test_a_servers_error_is_no_sign_of_life(tmp_path):
    """A kubedns that is not synced answers SERVFAIL. Its clients must reach the synced central pods instead."""
    with NodeWorld(tmp_path) as world:
        world.objects = tmp_path / "nothing"
        world.start_node()
        world.until(lambda: "dnsmasq: answers" in (tmp_path / "nanny.log").read_text())
        time.sleep(1)
        assert world.ask_once() == CENTRAL_TTL
        world.objects.symlink_to(tmp_path / "objects")
        world.wait_node()


def test_failures_to_set_up_are_counted_as_node_cache_counts_them(tmp_path):
    def errors(kind):
        text = world.node("curl", "-s", "http://127.0.0.1:10056/metrics").stdout
        (value,) = re.findall(rf'^coredns_nodecache_setup_errors_total{{errortype="{kind}"}} (\d+)$', text, re.M)
        return int(value)

    with NodeWorld(tmp_path) as world:
        world.start_node(addresses=f"{LOCAL},{SERVICE},fd00:10:96::a")
        world.wait_node()
        assert errors("interface_add") == errors("iptables") == 0
        world.node("sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1")  # removes the address and rejects a new one
        world.until(lambda: errors("interface_add") > 0, what="a failure counted")
        world.node("sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=0")
        world.until(lambda: "fd00:10:96::a" in world.node("ip", "addr", "show", "nodelocaldns").stdout)
        world.wait_node()
        assert errors("iptables") == 0


def test_before_the_first_sync_the_local_address_is_answered_by_the_pods_in_the_middle(tmp_path):
    """The node's kubedns forwards to the central pods. Before its rules exist it gets only queries to 169.254.20.10, where no other server listens."""
    with NodeWorld(tmp_path) as world:
        world.objects = tmp_path / "nothing"
        world.start_node(kubedns=("--until-synced=10.244.9.9",))
        world.until(lambda: world.ask_once(LOCAL) == CENTRAL_TTL)
        assert "rules in force" not in (tmp_path / "nanny.log").read_text()
        world.objects.symlink_to(tmp_path / "objects")
        world.wait_node()
        world.stop("central", signal.SIGKILL)
        assert world.ask_once(LOCAL) == NODE_TTL and world.ask_once() == NODE_TTL


def test_net_admin_is_one_processs_alone(tmp_path):
    def rights(pid):
        status = dict(line.split(":", 1) for line in open(f"/proc/{pid}/status", encoding="ascii"))
        return status["Uid"].split()[1], int(status["CapEff"], 16), int(status["CapBnd"], 16), status["Seccomp"].strip()

    net_admin = 1 << 12
    with NodeWorld(tmp_path) as world:
        world.start_node()
        world.wait_node()
        (guard,), (dnsmasq,) = world.pids("guard"), world.pids("dnsmasq")
        assert rights(guard) == ("61053", net_admin, net_admin, "2")
        for pid in (world.running["nanny"].pid, dnsmasq):
            uid, effective, bounding, seccomp = rights(pid)
            assert (uid, effective & net_admin, bounding & net_admin, seccomp) == ("61053", 0, 0, "2")


def test_both_families(tmp_path):
    service6 = "fd00:10:96::a"
    with NodeWorld(tmp_path) as world:
        for space, name, address in ((world.node, "veth-pod", "fd00:244:1::1"), (world.pod, "eth0", "fd00:244:1::2")):
            space("ip", "addr", "add", f"{address}/64", "dev", name, "nodad")
        world.pod("ip", "route", "add", "default", "via", "fd00:244:1::1")
        world.node("sysctl", "-qw", "net.ipv6.conf.all.forwarding=1")
        # kube-proxy's rules lead to an address without a server, so every answer comes from the node.
        world.node("nft", "-f", "-", input=f"""table ip6 kube-proxy {{
            chain nat-prerouting {{ type nat hook prerouting priority dstnat; ip6 daddr {service6} udp dport 53 dnat to [fd00:244:9::9]:53; }}
            chain nat-output {{ type nat hook output priority -100; ip6 daddr {service6} udp dport 53 dnat to [fd00:244:9::9]:53; }}
        }}""")
        assert world.ask_once(service6) is None
        world.start_node(addresses=f"{LOCAL},{SERVICE},{service6}")
        world.wait_node()
        assert [world.ask_once(service6, space) for space in (world.pod, world.node)] == [NODE_TTL, NODE_TTL]
        os.kill(world.running["kubedns"].pid, signal.SIGSTOP)
        (table,) = world.tables()
        world.until(lambda: "elements" not in world.node("nft", "list", "set", "inet", table, "alive6").stdout, timeout=5,
                    what="the end of the address in the rules")


def test_a_connection_that_has_ended_leaves_room_for_others(tmp_path):
    """A bug: ended connections stayed in the set of local TCP connections for 20 seconds. The set is bounded, and 820 connections a second filled it."""

    def seconds_left():
        seen = world.node("nft", "list", "set", "inet", table, "here4").stdout
        return [int(s or 0) for s in re.findall(r"10\.244\.1\.2 \. \d+ .*?expires (?:(\d+)s)?", seen)]

    with NodeWorld(tmp_path) as world:
        world.start_node()
        world.wait_node()
        (table,) = world.tables()
        world.pod("dig", "+tcp", f"@{SERVICE}", "web.default.svc.cluster.local")
        assert max(seconds_left()) <= 2
        connected = ("import socket, sys, time; s = socket.create_connection(('10.96.0.10', 53)); print('there', flush=True); sys.stdin.readline(); "
                     "s.send(b'\\0'); print('sent', flush=True); time.sleep(60)")
        with subprocess.Popen(["ip", "netns", "exec", world.pod.name, sys.executable, "-c", connected], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as client:
            assert client.stdout.readline() == b"there\n"
            assert max(seconds_left()) <= 3, "the client has sent nothing yet"
            client.stdin.write(b"\n")
            client.stdin.flush()
            assert client.stdout.readline() == b"sent\n"
            world.until(lambda: max(seconds_left()) > 10, timeout=2, what="a longer time for one that is used")
            client.kill()


AGAIN_FROM_ONE_PORT = """
import socket, struct, sys
import dns.message, dns.query
with socket.socket() as s:
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset: the server says nothing more
    s.settimeout(10)
    s.bind(("10.244.1.2", 40000))
    s.connect(("10.96.0.10", 53))
    print(dns.query.tcp(dns.message.make_query("web.default.svc.cluster.local", "A"), "10.96.0.10", sock=s, timeout=10).answer[0].ttl)
"""


def test_a_client_port_follows_its_newest_connection(tmp_path):
    """
    A bug: a client uses the port of an earlier connection to the node again for a connection to a central pod. The second packet of the new
    connection went to the node and was lost.
    """

    def from_one_port():
        return int(world.pod(sys.executable, "-c", AGAIN_FROM_ONE_PORT).stdout)

    with NodeWorld(tmp_path) as world:
        world.start_node()
        world.wait_node()
        assert from_one_port() == NODE_TTL
        for name in ("kubedns", "nanny"):
            os.kill(world.running[name].pid, signal.SIGSTOP)
        signal_all(world.pids("guard"), signal.SIGSTOP)  # the rules stay, but the kernel removes the address from them
        world.until(lambda: world.ask_once() == CENTRAL_TTL, timeout=10, what="an answer of the cluster's pods")
        assert from_one_port() == CENTRAL_TTL
        signal_all(everything(world), signal.SIGCONT)
        # While all processes were stopped, queries collected in the queue. The guard may think for a moment that kubedns is silent again.
        # This loses no packet either.
        world.until(lambda: from_one_port() == NODE_TTL, what="an answer of the node's own from that port")
        world.running["kubedns"].kill()
        world.until(lambda: world.ask_once() == CENTRAL_TTL, timeout=10, what="an answer of the cluster's pods")
        assert from_one_port() == CENTRAL_TTL, "the rules are down"


def test_lookups_leave_nothing_in_conntrack(tmp_path):
    def entries():
        return int(world.node("cat", "/proc/sys/net/netfilter/nf_conntrack_count").stdout)

    with NodeWorld(tmp_path) as world:
        world.start_asking(200)
        world.until(lambda: entries() >= 100, what="100 entries")
        world.asked()
        world.start_node()
        world.wait_node()
        before = entries()
        world.start_asking(200)
        passed(world)
        out, seen = world.asked()
        assert seen["by the node"] == len(out) and entries() - before <= 5
