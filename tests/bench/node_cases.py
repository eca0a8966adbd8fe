"""The events in bench-node (node.py). Each function gets the node and the loader of names, and returns when the event is over."""

import contextlib
import dataclasses
import os
import pathlib
import signal
import time
from collections.abc import Callable

RESTART_S = 1  # the kubelet's delay before it restarts a container
FREEZE_S = 10


@dataclasses.dataclass
class Case:
    happens: Callable
    takes_s: float = 5  # approximate duration
    again: bool = True  # true if the event may happen more than once in a case
    local: bool = False  # the clients query 169.254.20.10
    before: Callable = lambda place: None


def nothing(place, loader):
    del place, loader
    time.sleep(5)


def end_pod(place, uid):
    """Sends SIGTERM to all programs of the pod at once, as the kubelet does."""
    names = [f"{uid}-{program}" for program in ("kubedns", "nanny", "sidecar")]
    for name in names:
        place.running[name].send_signal(signal.SIGTERM)
    for name in names:
        place.running.pop(name).wait(timeout=30)


def update(place, _):
    """An update of a DaemonSet with maxSurge: the next pod is ready before the old pod gets SIGTERM."""
    old = place.uid
    place.start()
    end_pod(place, old)


def pod_deleted(place, _):
    """The pod is deleted: the next pod starts when the old pod has ended."""
    end_pod(place, place.uid)
    time.sleep(RESTART_S)
    place.start()


def killed(program):
    def happens(place, _):
        pids = place.container(program)[1:]
        place.kill(f"{place.uid}-{program}")
        end(pids)  # if the first process of a container dies, the other processes of the container die too
        time.sleep(RESTART_S)
        place.restart(program)
        place.wait_serving()

    return happens


def end(pids):
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def child_killed(which):
    """
    Kills one of the nanny's children. If its guard dies, the nanny exits, and so its container ends. The nanny also exits if dnsmasq dies
    five times within a minute.
    """

    def happens(place, _):
        end(place.children(which))
        time.sleep(RESTART_S)
        nanny = place.running[f"{place.uid}-nanny"]
        if which == "guard" or nanny.poll() is not None:
            nanny.wait(timeout=30)
            time.sleep(RESTART_S)
            place.restart("nanny")
        place.wait_serving()

    return happens


def starve(process, url, space):
    """The kernel kills the process because it is out of memory: its cgroup gets no further page, and a request makes the process allocate pages."""
    group = pathlib.Path(f"/sys/fs/cgroup/memory/kd{os.getpid()}")
    group.mkdir()
    try:
        (group / "memory.limit_in_bytes").write_text("4096")
        (group / "cgroup.procs").write_text(str(process.pid))
        space("curl", "-s", "-m", "5", url, check=False)
        assert process.wait(timeout=30) == -signal.SIGKILL
        assert "oom_kill 1" in (group / "memory.oom_control").read_text()
    finally:
        group.rmdir()


def out_of_memory(program):
    url = {"kubedns": "http://127.0.0.1:8081/queries", "nanny": "http://127.0.0.1:10056/config"}[program]

    def happens(place, _):
        pids = place.container(program)[1:]
        starve(place.running.pop(f"{place.uid}-{program}"), url, place.node)
        end(pids)
        time.sleep(RESTART_S)
        place.restart(program)
        place.wait_serving()

    return happens


def frozen(*programs):
    def happens(place, _):
        pids = [pid for program in programs for pid in place.container(program)]
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        time.sleep(FREEZE_S)
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
        place.wait_serving()

    return happens


def interface_deleted(place, _):
    ours = place.name == "kubedns"
    place.node("ip", "link", "del", "nodelocaldns", check=ours)  # node-cache creates the interface again within a minute
    time.sleep(RESTART_S)
    if ours:
        place.wait_serving()


def rules_flushed(place, _):
    """Removes all packet filter rules of the node. kube-proxy writes its own rules again."""
    place.node("nft", "flush", "ruleset")
    place.write_proxy_rules()
    time.sleep(RESTART_S)


def api_away(place, loader):
    loader.pause()
    place.api.stop()
    time.sleep(FREEZE_S)
    place.api.start()
    time.sleep(RESTART_S)
    loader.paused.clear()


def central_away(place, _):
    place.running["central"].send_signal(signal.SIGSTOP)
    time.sleep(FREEZE_S)
    place.running["central"].send_signal(signal.SIGCONT)


def reboot(place, _):
    """
    The node reboots. The clients are pods that start together with the node. kube-proxy's rules exist already, and the DNS pod starts while
    the clients send queries.
    """
    place.begin()
    place.wait_serving()


def peer_stopped(place, _):
    """Ends node-cache with SIGTERM and then starts the next one. An update of a DaemonSet does the same if it cannot run two pods at once."""
    place.stop("node-cache")
    time.sleep(RESTART_S)
    place.start()


def peer_killed(place, _):
    place.kill("node-cache")
    time.sleep(RESTART_S)
    place.start()


def peer_starved(place, _):
    starve(place.running.pop("node-cache"), "http://127.0.0.1:9253/metrics", place.node)
    time.sleep(RESTART_S)
    place.start()


POD = ("kubedns", "nanny", "sidecar")
NODE = {
    "interface deleted": Case(interface_deleted, 3),
    "rules flushed by hand": Case(rules_flushed, 3),
    "API away for 10 s": Case(api_away, 12),
    "central pods away for 10 s": Case(central_away, 12),
    "node reboot": Case(reboot, again=False, before=lambda place: place.end_all_of_the_node()),
}
CASES = {
    "nothing": Case(nothing, 6),
    "update": Case(update, 7),
    "update, asked at 169.254.20.10": Case(update, 7, local=True),
    "pod deleted (SIGTERM)": Case(pod_deleted, 8),
    "kubedns killed (SIGKILL)": Case(killed("kubedns"), 3),
    "nanny killed (SIGKILL)": Case(killed("nanny"), 3),
    "sidecar killed (SIGKILL)": Case(killed("sidecar"), 3),
    "dnsmasq killed (SIGKILL)": Case(child_killed("dnsmasq"), 3),
    "guard killed (SIGKILL)": Case(child_killed("guard"), 4),
    "kubedns out of memory": Case(out_of_memory("kubedns"), 4),
    "nanny out of memory": Case(out_of_memory("nanny"), 4),
    "kubedns frozen for 10 s": Case(frozen("kubedns"), 13),
    "pod frozen for 10 s": Case(frozen(*POD), 13),
    **NODE,
}
PEER_CASES = {
    "nothing": Case(nothing, 6),
    "update, pod deleted (SIGTERM)": Case(peer_stopped, 12),
    "killed (SIGKILL)": Case(peer_killed, 8),
    "out of memory": Case(peer_starved, 8),
    "frozen for 10 s": Case(frozen("node-cache"), 13),
    **NODE,
}
