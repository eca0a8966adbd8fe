"""`make run` as a new user sees it. The printed commands work, an edit of the named file takes effect, and Ctrl-C stops all programs."""

import contextlib
import os
import re
import signal
import subprocess
import threading
import time

import pytest

from asking import ask
from kubedns_process import BUILD
from waiting import free_port, wait_for

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))


class Example:
    """Runs conf/example/run.sh in a new session, as in a terminal. Collects its output."""

    def __init__(self, command=("bash", "conf/example/run.sh")):
        ports = ("KUBEDNS_PORT", "DNSMASQ_PORT", "HEALTHZ_PORT", "SIDECAR_PORT", "NANNY_PORT")
        self.ports = {name: free_port() for name in ports}
        self.env = {**os.environ, "BUILD": os.path.abspath(BUILD), **{k: str(v) for k, v in self.ports.items()}}
        self.text = ""
        self.begun = time.monotonic()
        self.process = subprocess.Popen(command, cwd=ROOT, env=self.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, text=True, start_new_session=True,
                                        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))  # a background process of a script would ignore SIGINT
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            self.text += line

    def wait_for(self, text, timeout=20):
        while text not in self.text:
            assert self.process.poll() is None and time.monotonic() < self.begun + timeout, self.text
            time.sleep(0.01)

    def members(self):
        """Command lines of the session's processes."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/stat", encoding="utf-8") as f:
                    stat = f.read().rpartition(")")[2].split()
                with open(f"/proc/{pid}/cmdline", encoding="utf-8") as f:
                    line = f.read().replace("\0", " ")
            except (FileNotFoundError, ProcessLookupError):
                continue
            if int(stat[3]) == self.process.pid and stat[0] != "Z":
                found.append(line)
        return found

    def interrupt(self):
        """Sends SIGINT to every process of the foreground group, as a terminal does on Ctrl-C."""
        os.killpg(self.process.pid, signal.SIGINT)
        return self.process.wait(20)

    def end(self):
        if self.process.poll() is None:
            try:
                self.interrupt()
            except subprocess.TimeoutExpired:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()
                raise


@pytest.fixture
def example():
    example = Example()
    yield example
    example.end()


def addresses(port, name, kind="A"):
    answer = ask(port, name, kind)
    return sorted(answer) if isinstance(answer, frozenset) else answer


def test_what_it_prints_works_and_ctrl_c_ends_everything(example):
    example.wait_for("Ctrl-C stops all programs")
    commands = re.findall(r"^  dig @127\.0\.0\.1 -p (\d+) (\S+)(?: +(SRV))?", example.text, re.M)
    assert len(commands) == 3, example.text
    for port, name, kind in commands:
        assert int(port) == example.ports["KUBEDNS_PORT"]
        dig = subprocess.run(["dig", "@127.0.0.1", "-p", port, "+noall", "+answer", "+comments", name, kind or "A"], capture_output=True, text=True,
                             check=True).stdout
        assert "status: NOERROR" in dig and re.search(r"\sIN\s+(A|SRV)\s+\d", dig), dig

    expected = ["kubedns"] + [p for p in ("nanny", "sidecar") if os.path.exists(os.path.join(BUILD, "bin", p))]
    running = "\n".join(example.members())
    assert all(os.path.join("bin", program) in running for program in expected), running

    assert example.interrupt() == 0, example.text
    deadline = time.monotonic() + 5
    while example.members():
        assert time.monotonic() < deadline, example.members()
        time.sleep(0.01)


def test_a_signal_to_make_ends_everything(tmp_path):
    """A supervisor sends SIGTERM to make alone. The recipe of `make run` is the one of the Makefile; nothing is built here."""
    with open(os.path.join(ROOT, "Makefile"), encoding="utf-8") as f:
        recipe = re.search(r"^\t@(.*conf/example/run\.sh)$", f.read(), re.M)[1]
    (tmp_path / "Makefile").write_text(f"run:\n\t@{recipe}\n")
    example = Example(("make", "-f", str(tmp_path / "Makefile"), f"BUILD={os.path.abspath(BUILD)}"))
    try:
        example.wait_for("Ctrl-C stops all programs")
        example.process.terminate()
        example.process.wait(20)
        wait_for(lambda: not example.members(), 20, what=example.members)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(example.process.pid, signal.SIGKILL)


def test_editing_a_manifest_that_it_names_changes_the_answer_within_a_second(example):
    example.wait_for("Ctrl-C stops all programs")
    path = re.search(r"^Edit (\S+/web\.yaml) ", example.text, re.M).group(1)
    port = example.ports["KUBEDNS_PORT"]
    assert addresses(port, "web.default.svc.cluster.local") == ["10.96.0.80"]
    with open(path, encoding="utf-8") as f:
        text = f.read()
    with open(path, "w", encoding="utf-8") as f:
        f.write(text.replace("clusterIP: 10.96.0.80", "clusterIP: 10.96.0.90"))  # changes only the line that a comment in the file tells the user to change
    edited = time.monotonic()
    while addresses(port, "web.default.svc.cluster.local") != ["10.96.0.90"]:
        assert time.monotonic() < edited + 1, addresses(port, "web.default.svc.cluster.local")
        time.sleep(0.005)


def test_examples_name_no_unreachable_servers():
    """A new user's first status page must not report an error for the fake address of an example."""
    assert os.listdir(os.path.join(ROOT, "conf/example/config")) == ["README"]


def test_the_examples_show_each_kind_of_service(example):
    example.wait_for("Ctrl-C stops all programs")
    port = example.ports["KUBEDNS_PORT"]
    assert addresses(port, "db.default.svc.cluster.local") == ["10.244.0.20", "10.244.1.21"]
    assert addresses(port, "db-1.db.default.svc.cluster.local") == ["10.244.1.21"]
    assert addresses(port, "dual.default.svc.cluster.local") == ["10.96.0.81"]
    assert addresses(port, "dual.default.svc.cluster.local", "AAAA") == ["fd00:10:96::81"]
    assert addresses(port, "docs.default.svc.cluster.local", "CNAME") == ["www.example.org."]
    assert addresses(port, "81.0.96.10.in-addr.arpa", "PTR") == ["dual.default.svc.cluster.local."]


@pytest.mark.parametrize("busy", ["KUBEDNS_PORT", "HEALTHZ_PORT", "SIDECAR_PORT"])
def test_a_port_in_use_ends_the_run_with_the_reason(busy):
    """A bug: the first instance's kubedns answered the second instance's dig. The second instance printed its banner although its kubedns had exited."""
    first = Example()
    try:
        first.wait_for("Ctrl-C stops all programs")
        others = {name: str(free_port()) for name in first.ports if name != busy}
        second = subprocess.run(["bash", "conf/example/run.sh"], cwd=ROOT, capture_output=True, text=True, timeout=30, check=False, env={**first.env, **others})
        assert second.returncode == 1
        port = first.ports[busy]
        assert re.search(rf"port {port} is in use by \w+ \(pid \d+\): .*: {busy}={port + 10000} make run$", second.stderr, re.M), second.stderr
        assert "answers on" not in second.stdout, second.stdout
    finally:
        first.end()


def test_a_second_make_run_prints_no_banner():
    first = Example()
    try:
        first.wait_for("Ctrl-C stops all programs")
        second = subprocess.run(["bash", "conf/example/run.sh"], cwd=ROOT, capture_output=True, text=True, timeout=30, check=False, env=first.env)
        assert second.returncode == 1 and "answers on" not in second.stdout, second.stdout
        assert first.process.poll() is None
    finally:
        first.end()
