"""The real kubedns as a child process of a test: free ports, its log, its metrics, its memory."""

import functools
import os
import re
import signal
import subprocess
import time
import urllib.error
import urllib.request

import pytest
from asking import ask
from waiting import free_port, pause

BUILD = os.environ.get("BUILD", os.path.join(os.path.dirname(__file__), "..", "..", "build"))
PROGRAM = os.path.abspath(os.path.join(BUILD, "bin", "kubedns"))
IN_POD = """
mount -t tmpfs none /run && mkdir -p /run/secrets/kubernetes.io/serviceaccount &&
mount --bind "$0" /run/secrets/kubernetes.io/serviceaccount && exec "$@"
"""


@functools.cache
def help_text():
    return subprocess.run([PROGRAM, "--help=all"], capture_output=True, text=True, check=True).stdout


def known(*flags):
    """The flags without those of modules that are not in this build."""
    return [flag for flag in flags if not os.path.exists(PROGRAM) or re.search(rf"{flag.split('=')[0]}\b(?!-)", help_text())]


class Kubedns:
    """
    kubedns with these arguments, on free ports of 127.0.0.1. The directory `serviceaccount` is at the path where a pod mounts its service
    account. `prefix` is put before the command, for example to enter a network namespace.
    """

    def __init__(self, *args, env=None, serviceaccount=None, prefix=(), directory=None, host="127.0.0.1"):
        self.host, self.port, self.healthz = host, free_port(), free_port()
        command = [PROGRAM, f"--dns-bind-address={host}", f"--dns-port={self.port}", f"--healthz-port={self.healthz}", *map(str, args)]
        if serviceaccount:
            unshare = ["unshare", *([] if os.geteuid() == 0 else ["--map-root-user"]), "--mount"]
            tried = subprocess.run([*unshare, "true"], capture_output=True, text=True, check=False)
            if tried.returncode:
                pytest.skip(f"needs the right to make mount namespaces: {tried.stderr.strip()}")
            command = [*unshare, "sh", "-c", IN_POD, os.path.abspath(serviceaccount), *command]
        self.hurries = "HURRY" in (env or {})
        self.log_path = os.path.join(directory or os.environ.get("TMPDIR", "/tmp"), f"kubedns-{self.port}.log")
        base = {k: v for k, v in os.environ.items() if not k.startswith("KUBERNETES_")}
        with open(self.log_path, "wb") as log:
            self.begun = time.monotonic()
            self.process = subprocess.Popen([*prefix, *command], env={**base, **(env or {})}, stdout=log, stderr=log)

    @property
    def pid(self):
        """kubedns's own process ID. The prefix commands and `ip netns exec` use exec, so it is the ID of the started process."""
        return self.process.pid

    # Answers.

    def ask(self, name, type_="A", timeout=2.0):
        return ask(self.port, name, type_, self.host, timeout)

    def http(self, path):
        """
        Requests a page on the health port. Returns (status, text), or (0, reason) if there is no answer. For a kubedns whose clock runs fast,
        its limit for an idle connection can pass before this process gets CPU to send the request. Then another connection is opened.
        """
        for _ in range(20 if self.hurries else 1):
            status, text = self._http(path)
            if status or self.process.poll() is not None:
                break
        return status, text

    def _http(self, path):
        try:
            with urllib.request.urlopen(f"http://{self.host}:{self.healthz}{path}", timeout=60) as r:
                return r.status, r.read().decode()
        except urllib.error.HTTPError as e:
            return e.code, e.read().decode()
        except OSError as e:
            return 0, str(e)

    def ready(self):
        return self.http("/readiness")[0] == 200

    def wait_ready(self, timeout=60.0):
        """Returns the seconds from the start until kubedns is ready. Fails with its readiness page and log."""
        self.wait(self.ready, timeout, lambda: f"readiness: {self.http('/readiness')}")
        return time.monotonic() - self.begun

    def wait(self, condition, timeout=60.0, what=lambda: "the condition"):
        begun = time.monotonic()
        while not (value := condition()):
            assert self.process.poll() is None, f"kubedns ended with {self.process.returncode}:\n{self.log()}"
            assert time.monotonic() < begun + timeout, f"not within {timeout} s: {what()}\n{self.log()[-3000:]}"
            pause(begun)
        return value

    # Metrics, log and memory.

    def log(self):
        with open(self.log_path, encoding="utf-8", errors="replace") as f:
            return f.read()

    def metrics(self):
        """{series as text: value}"""
        status, text = self.http("/metrics")
        assert status == 200, text
        lines = (line.rpartition(" ") for line in text.splitlines() if line and not line.startswith("#"))
        return {name: float(value) for name, _, value in lines}

    def metric(self, name, **labels):
        """The sum of all series with this name and these labels."""
        total = 0.0
        for series, value in self.metrics().items():
            family, _, rest = series.partition("{")
            found = dict(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', rest))
            if family == name and labels.items() <= found.items():
                total += value
        return total

    def memory(self):
        """Values of /proc/PID/status in kB: VmRSS, VmHWM, RssAnon, RssFile."""
        with open(f"/proc/{self.pid}/status", encoding="ascii") as f:
            return {k: int(v) for k, v in re.findall(r"^(VmRSS|VmHWM|RssAnon|RssFile):\s+(\d+)", f.read(), re.M)}

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def cpu_s(self):
        with open(f"/proc/{self.pid}/stat", encoding="ascii") as f:
            fields = f.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    # The end.

    def stop(self):
        """Uses SIGKILL. Other tests cover the behaviour at SIGTERM."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        ended = self.process.poll()
        self.stop()
        if kind:
            print(self.log()[-4000:])
        else:
            assert ended is None, f"kubedns ended with {ended}:\n{self.log()[-4000:]}"
        os.unlink(self.log_path)
