"""A control plane without pods or containers. The API client gets the real kube-apiserver with its audit log."""

import json
import os
import pathlib
import signal
import ssl
import subprocess
import urllib.error
import urllib.request

from run import Failed
from waiting import wait_for

AUDIT = """
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [ResponseStarted, Panic]
rules: [{level: Metadata}]
"""


def environment_ctl():
    path = os.environ.get("CTL", "build/controlplane/ctl")
    if not os.access(path, os.X_OK):
        raise Failed(f"{path}: no control plane; run `make test-cluster`, which builds it")
    return os.path.abspath(path)


class RealApi:
    def __init__(self, directory, controllers="endpointslice,endpoints,namespace,gc", apiserver="", leave="", flags=()):
        """
        `apiserver` is the program of another version, from tests/controlplane/older. `leave` is the namespace whose pods the test runs
        itself. `flags` are additional flags of the API server.
        """
        self.dir = pathlib.Path(directory)
        self.dir.mkdir(parents=True, exist_ok=True)
        (self.dir / "audit.yaml").write_text(AUDIT)
        self.command = [
            environment_ctl(), "up", "--dir", self.dir / "cp", "--controllers", controllers, "--grace", "2s", "--apiserver", apiserver, "--leave", leave,
            f"--apiserver-flag=--audit-policy-file={self.dir / 'audit.yaml'}", f"--apiserver-flag=--audit-log-path={self.dir / 'audit.log'}",
            "--apiserver-flag=--audit-log-batch-max-size=1", *(f"--apiserver-flag={flag}" for flag in flags), "--port",
        ]  # fmt: skip
        self.port, self.process = 0, None
        self.start()

    # Start and stop.

    def start(self):
        log = open(self.dir / "up.log", "ab")
        self.process = subprocess.Popen([*self.command, str(self.port)], stdout=log, stderr=log)
        self.wait_ready()
        self.port = int(self.url.rpartition(":")[2])

    def wait_ready(self):
        def ready():
            if self.process.poll() is not None:
                raise Failed(f"control plane ended: {(self.dir / 'up.log').read_text()[-3000:]}")
            return (self.dir / "cp/ready").exists()

        wait_for(ready, 90, "control plane ready")

    def kill_api(self):
        """Kills only the API server with SIGKILL and starts it again. Returns when it is ready again."""
        before = (self.dir / "cp/apiserver.pid").read_text()
        self.process.send_signal(signal.SIGUSR1)
        wait_for(lambda: self._new_pid(before), 60, "API server killed and started")
        self.wait_ready()

    def _new_pid(self, before):
        try:
            return (self.dir / "cp/apiserver.pid").read_text() not in ("", before)
        except FileNotFoundError:
            return False

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    # Use.

    @property
    def about(self):
        return json.loads((self.dir / "cp/ready").read_text())

    @property
    def url(self):
        return self.about["url"]

    @property
    def service_account(self):
        return self.about["serviceaccount"]

    def kubectl(self, *args, text=None):
        done = subprocess.run([self.command[0], "kubectl", "--kubeconfig", self.about["kubeconfig"], *args], input=text,
                              capture_output=True, text=True, check=False)  # fmt: skip
        if done.returncode:
            raise Failed(f"kubectl {' '.join(map(str, args))}: {done.stderr}")
        return done.stdout

    def apply(self, *objects):
        text = "\n---\n".join(o if isinstance(o, str) else json.dumps(o) for o in objects)
        return self.kubectl("apply", "--server-side", "-f", "-", text=text)

    def request(self, path, token=None, headers=None, timeout=5, method="GET", body=None):
        """Sends a request. Returns (status, headers, the part of the body that arrived within the timeout)."""
        context = ssl.create_default_context(cafile=self.about["ca"])
        auth = {} if token == "" else {"Authorization": f"Bearer {token or self.about['token']}"}
        asked = urllib.request.Request(self.url + path, data=body, method=method, headers={"User-Agent": "x", **auth, **(headers or {})})
        return read(asked, context, timeout)

    def audit(self):
        """Returns the finished requests and the open requests (watches) in the audit log, each request once."""
        seen = {}
        for line in (self.dir / "audit.log").read_text().splitlines():
            entry = json.loads(line)
            seen[entry["auditID"]] = entry
        return list(seen.values())


def read(asked, context, timeout):
    """Sends a GET like a watch client. Returns everything that arrives until nothing has arrived for `timeout` seconds."""
    try:
        response = urllib.request.urlopen(asked, context=context, timeout=timeout)
    except urllib.error.HTTPError as e:
        return e.code, dict(e.headers), e.read()
    data = b""
    with response:
        try:
            while chunk := response.read1(1 << 16):
                data += chunk
        except TimeoutError:
            pass
    return response.status, {k.lower(): v for k, v in response.headers.items()}, data
