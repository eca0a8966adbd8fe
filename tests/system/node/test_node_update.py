"""
During an update of a DaemonSet with maxSurge 1, the next pod runs beside the old pod in the host's network. Both have three programs, on
the same ports. The new pod takes over before the old pod ends. No query is lost or retried.
"""

import os
import pathlib
import signal

import pytest
from kubedns_process import PROGRAM
from node_world import LOCAL, NODE_TTL, OUTSIDE, SERVICE, NodeWorld

SOAK = os.environ.get("SOAK")
RATE, UPDATES = (400, 60) if SOAK else (200, 2)


def end(world, uid):
    """Sends SIGTERM to all programs of the pod at once, as the kubelet does."""
    names = [f"{uid}-{program}" for program in ("kubedns", "nanny", "sidecar")]
    for name in names:
        world.running[name].send_signal(signal.SIGTERM)
    return [world.running.pop(name).wait(timeout=30) for name in names]


@pytest.mark.parametrize("address", [SERVICE, LOCAL])
def test_an_update_loses_nothing(tmp_path, address):
    with NodeWorld(tmp_path) as world:
        world.start_pod("pod-0")
        world.until(lambda: world.pod_is_ready("pod-0"), what="the first pod")
        world.start_asking(RATE, address, patience=8)
        for updates in range(1, UPDATES + 1):
            world.start_pod(f"pod-{updates}")
            world.until(lambda: world.pod_is_ready(f"pod-{updates}"), what="the next pod")
            assert len(world.tables()) == 2, "each pod has its own table"
            assert end(world, f"pod-{updates - 1}") == [0, 0, 0]
            assert "port 53 is left to the other kubedns" in (tmp_path / f"pod-{updates - 1}-kubedns.log").read_text()
            world.until(lambda: len(world.tables()) == 1, what="the old pod's rules gone, and the new one's there")
        out, seen = world.asked()
        assert seen["unanswered"] == seen["wrong"] == seen["asked again"] == 0
        assert seen["by the node"] == len(out), "the central pods must not answer"


def test_a_pod_that_is_not_synced_takes_no_question(tmp_path):
    """
    The new pod has bound the port that the old pod uses. It must get no query, because it would answer SERVFAIL. The new pod is not ready,
    so the old pod stays.
    """
    with NodeWorld(tmp_path) as world:
        world.start_pod("old")
        world.until(lambda: world.pod_is_ready("old"))
        objects, world.objects = world.objects, tmp_path / "nothing"
        world.start_pod("new")
        world.until(lambda: "another kubedns has the port" in (tmp_path / "new-kubedns.log").read_text())
        world.start_asking(100, patience=8)
        for _ in range(5):
            assert not world.pod_is_ready("new") and world.pod_is_ready("old")
        out, seen = world.asked()
        assert seen["asked again"] == seen["wrong"] == 0 and seen["by the node"] == len(out)
        # The old pod dies suddenly. The new pod takes the port and answers with its own state.
        for name in ("kubedns", "nanny", "sidecar"):
            world.running.pop(f"old-{name}").kill()
        world.until(lambda: "alone: the other kubedns has stopped" in (tmp_path / "new-kubedns.log").read_text())
        world.objects.symlink_to(objects)
        world.until(lambda: world.pod_is_ready("new"))
        world.until(lambda: world.ask_once() == NODE_TTL and world.ask_once(LOCAL) == NODE_TTL)


def may_bind_low_ports(process):
    """Returns the names of the threads with CAP_NET_BIND_SERVICE."""
    threads = [dict(line.split(":", 1) for line in (task / "status").read_text().splitlines())
               for task in pathlib.Path(f"/proc/{process.pid}/task").iterdir()]  # fmt: skip
    return {fields["Name"].strip() for fields in threads if int(fields["CapPrm"], 16) >> 10 & 1}


def test_a_pod_whose_dnsmasq_does_not_answer_takes_no_question(tmp_path):
    """
    The new pod would answer SERVFAIL for external names, while the old pod still answers them. As soon as its dnsmasq answers, the new pod
    begins to serve.
    """
    with NodeWorld(tmp_path) as world:
        world.start_pod("old")
        world.until(lambda: world.pod_is_ready("old"))
        world.start_pod("new", dnsmasq=False)
        log = tmp_path / "new-kubedns.log"
        world.until(lambda: "synced after" in log.read_text(), what="synced")
        for _ in range(40):
            said = world.pod("dig", "+short", "+time=1", "+tries=1", f"@{LOCAL}", OUTSIDE, check=False).stdout.split()
            assert said == ["192.0.2.80"]
        assert not world.pod_is_ready("new") and world.pod_is_ready("old")
        assert "waiting until the resolver answers" in world.node(PROGRAM, "--ready", check=False, env={**os.environ, "OWN_LOOPBACK": "new"}).stderr
        assert "the other kubedns keeps port 53 until the resolver 127." in log.read_text()
        assert may_bind_low_ports(world.running["new-kubedns"]) == {"kubedns"}, "only the main thread, which still needs it"
        world.start_pod_nanny("new")
        world.until(lambda: "serving port 53 together with the other kubedns" in log.read_text() and world.pod_is_ready("new"))
        assert may_bind_low_ports(world.running["new-kubedns"]) == set()
        assert end(world, "old") == [0, 0, 0]
        world.until(lambda: world.ask_once() == NODE_TTL and world.ask_once(LOCAL) == NODE_TTL)


def test_a_pod_alone_answers_to_the_end(tmp_path):
    """No other pod can take over the port, so this pod answers at the local address until the drain is over."""
    with NodeWorld(tmp_path) as world:
        world.start_pod("only")
        world.until(lambda: world.pod_is_ready("only"))
        world.running["only-kubedns"].send_signal(signal.SIGTERM)
        world.until(lambda: "SIGTERM" in (tmp_path / "only-kubedns.log").read_text())
        assert world.ask_once(LOCAL) == NODE_TTL
        assert "is left to" not in (tmp_path / "only-kubedns.log").read_text()


def test_each_pod_reports_of_itself(tmp_path):
    """The pods use the same ports for metrics and health, but each pod has its own address."""
    with NodeWorld(tmp_path) as world:
        world.start_pod("a")
        world.until(lambda: world.pod_is_ready("a"))
        assert not world.pod_is_ready("b"), "no program listens at b's own address"
        world.start_pod("b")
        world.until(lambda: world.pod_is_ready("b"))
        for port in (10054, 10055, 10056):
            for address in ("10.244.9.10", "127.0.0.1"):
                assert "process_start_time_seconds" in world.node("curl", "-sf", f"http://{address}:{port}/metrics").stdout
        for port in (8081, 10054, 10055, 10056):
            refused = world.node("curl", "-s", f"http://10.244.1.1:{port}/metrics", check=False)
            assert refused.returncode == 7, "no program may listen at the host's other addresses"
        world.running["b-kubedns"].send_signal(signal.SIGTERM)
        world.until(lambda: not world.pod_is_ready("b"))
        assert world.pod_is_ready("a")
