"""The system calls of a worker for one lookup. System calls are most of a lookup's cost. A resolver library sends its A and AAAA queries at once."""

import os
import re
import signal
import socket
import subprocess

import dns.message
import pytest
from dnsnet import Upstream, query, udp
from kubedns_process import known
from outside_names import cluster, upstream
from waiting import wait_for
from world import start

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="strace of a worker needs the right to trace it")
COMPLETED = "www.example.com.default.svc.cluster.local"


class Traced:
    """Traces the system calls of the only worker, from the moment when both queries are in its queue until it waits again."""

    def __init__(self, kubedns, tmp_path):
        self.kubedns, self.path = kubedns, tmp_path / "calls"
        tasks = f"/proc/{kubedns.pid}/task"
        # The thread sets its name when it runs for the first time.
        named = lambda: [tid for tid in os.listdir(tasks) if open(f"{tasks}/{tid}/comm", encoding="ascii").read() == "worker00\n"]  # noqa: E731
        (self.tid,) = wait_for(named)

    def traced(self):
        with open(f"/proc/{self.tid}/status", encoding="ascii") as f:
            return "TracerPid:\t0\n" not in f.read()

    def lookup(self, *questions):
        """Returns the names of the system calls, and the whole line of the last call, which waits."""
        with subprocess.Popen(["strace", "-qq", "-o", self.path, "-p", self.tid]) as strace, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            wait_for(self.traced, 10, lambda: "strace")
            s.settimeout(5)
            os.kill(self.kubedns.pid, signal.SIGSTOP)
            for i, (name, type_) in enumerate(questions):
                s.sendto(query(name, type_, id=100 + i).to_wire(), (self.kubedns.host, self.kubedns.port))
            os.kill(self.kubedns.pid, signal.SIGCONT)
            replies = [dns.message.from_wire(s.recv(4096)) for _ in questions]
            wait_for(lambda: len(self.calls()) > 0 and "poll(" in self.calls()[-1], 10, lambda: "the wait")
            strace.send_signal(signal.SIGINT)
        assert sorted(r.id for r in replies) == [100 + i for i in range(len(questions))]
        calls = self.calls()
        return [line[: line.index("(")] for line in calls], calls[-1]

    def calls(self):
        """Lines of the strace output, from the first call that reads queries to the next call that waits."""
        text = self.path.read_text(encoding="ascii") if self.path.exists() else ""
        found = re.search(r"^recvmmsg\((?:.*\n)*?p?poll\(.*", text, re.MULTILINE)
        return found.group(0).splitlines() if found else []


def both(name):
    return (name, "A"), (name, "AAAA")


@pytest.mark.parametrize("flags,questions", [
    ([], both("web.default.svc.cluster.local")),
    (["--answer-cache=64k"], both("www.example.com")),
    (["--answer-cache=64k", "--filter-aaaa=on"], both("www.example.com")),
    (["--answer-cache=64k", *known("--search-completion=inferred")], both(COMPLETED)),
    (["--answer-cache=64k", *known("--search-completion=inferred"), "--filter-aaaa=on"], both(COMPLETED)),
], ids=["cluster name", "kept", "kept, and denied here", "completed", "completed, and denied here"])  # fmt: skip
def test_a_lookup_is_read_answered_and_waited_after(tmp_path, flags, questions):
    """A lookup takes three system calls. The last call sets no timeout, because no query is in flight."""
    with Upstream(upstream) as u, start(tmp_path, cluster(), "--threads=1", f"--resolver={u.address}", *flags) as k:
        k.wait_ready()
        for name, type_ in questions:
            assert udp(k, query(name, type_)) is not None
        calls, last = Traced(k, tmp_path).lookup(*questions)
        assert [*calls[:-1], calls[-1].replace("ppoll", "poll")] == ["recvmmsg", "sendmmsg", "poll"]
        assert re.search(r"\], \d+, (-1|NULL)", last), last


def test_an_answer_of_ours_does_not_wait_for_many_questions_to_others(tmp_path):
    with Upstream(upstream) as u, start(tmp_path, cluster(), "--threads=1", f"--nameservers={u.address}") as k:
        k.wait_ready()
        calls, _ = Traced(k, tmp_path).lookup(("web.default.svc.cluster.local", "A"), *((f"n{i}.example.com", "A") for i in range(4)))
        assert calls.index("sendmmsg") == 1
