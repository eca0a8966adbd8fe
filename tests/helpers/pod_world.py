"""The three programs as in a pod: kubedns with the example manifests, the nanny with a ConfigMap and its dnsmasq, and the sidecar."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import urllib.request

import dns.message
from sidecar_world import BUILD, NAME, Sidecar
from waiting import free_port, wait_for


def program(name):
    return os.path.join(BUILD, "bin", name)


class Pod:
    """kubedns with the example manifests, the nanny with a ConfigMap and its dnsmasq, and the sidecar beside them."""

    def __init__(self, config, *probes, kubedns=None, interval=1, poll_ms=500, wrap=(), wraps=None, front=False, in_pod=True, clock=None):
        """
        kubedns    arguments that replace the example manifests
        interval   interval of the two probes in seconds
        wrap       command that runs each of the three programs
        wraps      such a command for single programs: {name: command}
        front      uses the front topology instead of classic
        in_pod     whether the sidecar sees the environment of a pod
        clock      clock of the three programs and dnsmasq. The sidecar then starts when the others have started.
        """
        self.directory = tempfile.mkdtemp(prefix="pod-")
        os.chmod(self.directory, 0o755)
        self.config = os.path.join(self.directory, "config")
        run = os.path.join(self.directory, "run")
        os.mkdir(self.config)
        os.mkdir(run)
        os.chmod(run, 0o777)
        for key, value in config.items():
            self.write(key, value)
        self.kubedns_port, self.kubedns_http, self.nanny_http, self.dnsmasq_port = (free_port() for _ in range(4))
        self.processes = {}
        self.clock, self.env = clock, clock.env if clock else {}
        objects = os.path.join(os.path.dirname(__file__), "..", "..", "conf", "example", "objects")
        self.wraps = {name: [*wrap, *(wraps or {}).get(name, ())] for name in ("kubedns", "nanny", "sidecar")}
        self.start("kubedns", *(kubedns or [f"--objects-dir={objects}"]), f"--dns-port={self.kubedns_port}", "--dns-bind-address=127.0.0.1",
                   f"--healthz-port={self.kubedns_http}", "--healthz-bind-address=127.0.0.1", "--threads=1", "--drain=0s",
                   f"--resolver=127.0.0.1:{self.dnsmasq_port}" if front else "--nameservers=127.0.0.1:9")
        self.start("nanny", f"-configDir={self.config}", "-restartDnsmasq=true", f"-runDir={run}", f"-metricsAddr=127.0.0.1:{self.nanny_http}",
                   f"-kubednsServer=127.0.0.1:{self.kubedns_port}", "-syncInterval=1s", "-drain=0s", "--", "-k", "--cache-size=1000", "--bind-interfaces",
                   "--listen-address=127.0.0.1", f"--port={self.dnsmasq_port}",
                   *([] if front else [f"--server=/cluster.local/127.0.0.1#{self.kubedns_port}"]))
        if clock:
            with clock.running(1):
                wait_for(self.started, passing=(OSError,))
        self.sidecar = Sidecar(
            f"--dnsmasq-port={self.dnsmasq_port}", f"--dnsmasq-poll-interval-ms={poll_ms}", f"--kubedns-url=http://127.0.0.1:{self.kubedns_http}",
            f"--nanny-url=http://127.0.0.1:{self.nanny_http}", f"--probe=kubedns,127.0.0.1:{self.kubedns_port},{NAME},{interval},SRV",
            *([] if front else [f"--probe=dnsmasq,127.0.0.1:{self.dnsmasq_port},{NAME},{interval},A"]), *probes,
            peers=True, wrap=self.wraps["sidecar"], in_pod=in_pod, env=self.env)

    def write(self, key, value):
        """Writes a key in one step, as the kubelet does, so that no program reads an incomplete value."""
        with open(os.path.join(self.directory, "new"), "w", encoding="utf-8", errors="surrogateescape") as out:
            out.write(value)
        os.rename(os.path.join(self.directory, "new"), os.path.join(self.config, key))

    def start(self, name, *args):
        log = open(os.path.join(self.directory, f"{name}.log"), "wb")
        self.processes[name] = subprocess.Popen([*self.wraps[name], program(name), *args], stdout=log, stderr=log, env={**os.environ, **self.env})
        log.close()

    def started(self):
        """Whether kubedns, the nanny and dnsmasq answer."""
        for port in (self.kubedns_http, self.nanny_http):
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as page:
                page.read()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.settimeout(10)
            s.connect(("127.0.0.1", self.dnsmasq_port))
            s.send(dns.message.make_query("version.bind.", "TXT", "CH").to_wire())
            return s.recv(4096)

    def kill(self, name, how=signal.SIGKILL):
        self.processes[name].send_signal(how)

    def ports(self):
        """The HTTP port of each container."""
        return {"kubedns": self.kubedns_http, "dnsmasq": self.nanny_http, "sidecar": self.sidecar.port}

    def sentence(self):
        return self.sidecar.status()["sentence"]

    def close(self):
        self.sidecar.__exit__()
        for process in self.processes.values():
            process.send_signal(signal.SIGCONT)
            process.terminate()
        with self.clock.running(1) if self.clock else contextlib.nullcontext():
            for process in self.processes.values():
                try:
                    process.wait(15)
                except subprocess.TimeoutExpired:
                    process.kill()
        shutil.rmtree(self.directory, ignore_errors=True)
