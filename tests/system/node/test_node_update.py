"""
The next pod beside the old one in the host's network, as a DaemonSet with maxSurge 1 has it: three programs each, the same ports. It takes over
before the old one goes: no question is lost, and none is asked again.
"""

import os
import pathlib
import signal
import time

import pytest
from kubedns_process import PROGRAM
from node_world import LOCAL, NODE_TTL, OUTSIDE, SERVICE, NodeWorld

SOAK = os.environ.get("SOAK")
RATE, SECONDS = (400, 250) if SOAK else (200, 15)


def end(world, uid):
    """SIGTERM to all of the pod at once, as the kubelet does it."""
    names = [f"{uid}-{program}" for program in ("kubedns", "nanny", "sidecar")]
    for name in names:
        world.running[name].send_signal(signal.SIGTERM)
    return [world.running.pop(name).wait(timeout=30) for name in names]


@pytest.mark.timing
@pytest.mark.parametrize("address", [SERVICE, LOCAL])
def test_an_update_loses_nothing(tmp_path, address):
    with NodeWorld(tmp_path) as world:
        world.start_pod("pod-0")
        world.until(lambda: world.pod_is_ready("pod-0"), what="the first pod")
        world.start_asking(SECONDS, RATE, address)
        updates, begun = 0, time.monotonic()
        while time.monotonic() - begun < SECONDS - 7:
            updates += 1
            world.start_pod(f"pod-{updates}")
            world.until(lambda: world.pod_is_ready(f"pod-{updates}"), what="the next pod")
            assert len(world.tables()) == 2, "a table each"
            assert end(world, f"pod-{updates - 1}") == [0, 0, 0]
            assert "port 53 is left to the other kubedns" in (tmp_path / f"pod-{updates - 1}-kubedns.log").read_text()
            world.until(lambda: len(world.tables()) == 1, what="the old pod's rules gone, and the new one's there")
        out, seen = world.asked()
        print(f"{updates} updates at {address}: {seen}")
        assert updates >= 2
        assert seen["unanswered"] == seen["wrong"] == 0
        # A machine that stands still for longer than a client's patience makes it ask again, whatever is updated.
        assert seen["asked again"] == 0 or seen["longest pause"] > 0.5
        assert seen["by the node"] == len(out), "never by the pods in the middle"


def test_a_pod_that_is_not_synced_takes_no_question(tmp_path):
    """It has bound the port beside the old one, whose clients would get its SERVFAIL; nor is it ready, so that the old one stays."""
    with NodeWorld(tmp_path) as world:
        world.start_pod("old")
        world.until(lambda: world.pod_is_ready("old"))
        objects, world.objects = world.objects, tmp_path / "nothing"
        world.start_pod("new")
        world.until(lambda: "another kubedns has the port" in (tmp_path / "new-kubedns.log").read_text())
        world.start_asking(4, 100)
        assert not world.pod_is_ready("new") and world.pod_is_ready("old")
        out, seen = world.asked()
        assert seen["asked again"] == seen["wrong"] == 0 and seen["by the node"] == len(out)
        # The old one dies without a word: the new one takes the port, and says the truth about itself.
        for name in ("kubedns", "nanny", "sidecar"):
            world.running.pop(f"old-{name}").kill()
        world.until(lambda: "alone: the other kubedns has gone" in (tmp_path / "new-kubedns.log").read_text())
        world.objects.symlink_to(objects)
        world.until(lambda: world.pod_is_ready("new"))
        world.until(lambda: world.ask_once() == NODE_TTL and world.ask_once(LOCAL) == NODE_TTL)


def may_bind_low_ports(process):
    """The names of the threads that have CAP_NET_BIND_SERVICE."""
    threads = [dict(line.split(":", 1) for line in (task / "status").read_text().splitlines())
               for task in pathlib.Path(f"/proc/{process.pid}/task").iterdir()]  # fmt: skip
    return {fields["Name"].strip() for fields in threads if int(fields["CapPrm"], 16) >> 10 & 1}


def test_a_pod_whose_dnsmasq_does_not_answer_takes_no_question(tmp_path):
    """Each name of the outside that it took would be SERVFAIL, while the old pod answers; it serves as soon as its dnsmasq does."""
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
        assert "stays the other kubedns's until the resolver 127." in log.read_text()
        assert may_bind_low_ports(world.running["new-kubedns"]) == {"kubedns"}, "the main thread alone, which will need it"
        world.start_pod_nanny("new")
        world.until(lambda: "serving port 53 beside" in log.read_text() and world.pod_is_ready("new"))
        assert may_bind_low_ports(world.running["new-kubedns"]) == set()
        assert end(world, "old") == [0, 0, 0]
        world.until(lambda: world.ask_once() == NODE_TTL and world.ask_once(LOCAL) == NODE_TTL)


def test_a_pod_alone_answers_to_the_end(tmp_path):
    """Nobody is beside it to leave the port to: the local address is answered until the drain is over."""
    with NodeWorld(tmp_path) as world:
        world.start_pod("only")
        world.until(lambda: world.pod_is_ready("only"))
        world.running["only-kubedns"].send_signal(signal.SIGTERM)
        world.until(lambda: "SIGTERM" in (tmp_path / "only-kubedns.log").read_text())
        assert world.ask_once(LOCAL) == NODE_TTL
        assert "is left to" not in (tmp_path / "only-kubedns.log").read_text()


def test_each_pod_reports_of_itself(tmp_path):
    """The ports of metrics and health are shared; a pod's own address is its own."""
    with NodeWorld(tmp_path) as world:
        world.start_pod("a")
        world.until(lambda: world.pod_is_ready("a"))
        assert not world.pod_is_ready("b"), "nobody listens at b's own address"
        world.start_pod("b")
        world.until(lambda: world.pod_is_ready("b"))
        for port in (10054, 10055, 10056):
            for address in ("10.244.9.10", "127.0.0.1"):
                assert "process_start_time_seconds" in world.node("curl", "-sf", f"http://{address}:{port}/metrics").stdout
        for port in (8081, 10054, 10055, 10056):
            refused = world.node("curl", "-s", f"http://10.244.1.1:{port}/metrics", check=False)
            assert refused.returncode == 7, "an address of the host that is not the pod's"
        world.running["b-kubedns"].send_signal(signal.SIGTERM)
        world.until(lambda: not world.pod_is_ready("b"))
        assert world.pod_is_ready("a")
