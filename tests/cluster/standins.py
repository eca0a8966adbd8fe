"""A cluster whose pods are containers of docker. Stand-ins play kubelet and kube-proxy."""

import pathlib
import shutil
import signal
import subprocess

from cluster import DNS_IP, DOMAIN, Cluster
from kubelet import Kubelet, Network
from plane import Plane
from proxy import Proxy
from run import PREFIX, Failed, docker, remove_leftovers, run
from waiting import free_port, wait_for

LEFT = ["kube-system", "clients"]  # namespaces whose pods are real containers


class ControlPlane(Plane):
    """etcd, kube-apiserver and controllers (tests/controlplane). The stand-in for kubelet runs the pods of the namespaces in LEFT."""

    def __init__(self, ctl, directory, advertise):
        super().__init__(ctl, directory, "127.0.0.1", None)
        self.advertise, self.process = advertise, None

    def start(self, port=None, advertise=None):
        self.advertise = advertise or self.advertise
        self.port = port or self.port or free_port()
        (self.dir / "ready").unlink(missing_ok=True)
        self.dir.mkdir(parents=True, exist_ok=True)
        log = open(self.dir / "up.log", "a")
        self.process = subprocess.Popen(
            [self.ctl, "up", "--dir", self.dir, "--port", str(self.port), "--bind", "0.0.0.0", "--advertise", self.advertise,
             "--san", self.advertise, "--leave", ",".join(LEFT), "--grace", "3s"], stdout=log, stderr=log)
        self.wait_ready()

    def wait_ready(self):
        def ready():
            if self.process.poll() is not None:
                raise Failed(f"control plane ended: {(self.dir / 'up.log').read_text()[-3000:]}")
            return (self.dir / "ready").exists()
        wait_for(ready, 90, "control plane ready")

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.process = None

    def kill_api(self):
        """Kills the API server, which stays down until api_back()."""
        (self.dir / "away").touch()
        self.process.send_signal(signal.SIGUSR1)
        wait_for(lambda: not (self.dir / "apiserver.pid").exists(), 10, "API server gone")

    def api_back(self):
        (self.dir / "away").unlink(missing_ok=True)
        self.wait_ready()

    def save_data(self, name):
        """Copies etcd's data while it is stopped. Returns when the control plane is up again."""
        self.stop()
        shutil.copytree(self.dir / "etcd", self.dir / name)
        self.start()

    def restore_data(self, name):
        self.stop()
        shutil.rmtree(self.dir / "etcd")
        shutil.copytree(self.dir / name, self.dir / "etcd")
        self.start()


class StandIns(Cluster):
    def __init__(self, directory, ctl):
        remove_leftovers()
        self.network = Network()
        super().__init__(directory, ControlPlane(ctl, pathlib.Path(directory) / "plane", self.network.gateway))
        try:
            self.plane.start()
            self.proxy = Proxy(self.api)
            self.kubelet = Kubelet(self.plane, self.network, self.proxy, self.directory / "pods", "dnst-musl", LEFT, DNS_IP, DOMAIN)
        except BaseException:
            self.close()
            raise

    def close(self):
        for part in ("kubelet", "proxy"):
            if hasattr(self, part):
                getattr(self, part).stop()
        self.plane.stop()
        remove_leftovers(everything_of=PREFIX.removeprefix("dnst"))

    def check(self):
        """Fails if a stand-in could not do something that an object asked for."""
        failures, self.kubelet.failures = self.kubelet.failures, []
        assert not failures, "\n".join(failures)

    def client_command(self, pod):
        return ["docker", "exec", "-i", pod.container("client").id, "/client"]

    def flows(self, clients):
        """Counts, for each client, the conntrack flows that still lead to each DNS pod. A flow to a pod that no longer exists explains a lost query."""
        text = ""
        for c in clients:
            rows = run("nsenter", "-t", c.pid, "-n", "conntrack", "-L", "-p", "udp", "--orig-dst", DNS_IP, check=False)
            counts = {}
            for row in rows.splitlines():
                address = row.split("src=")[2].split()[0]
                counts[address] = counts.get(address, 0) + 1
            text += f"flows of {c.name}: {counts}\n"
        return text + f"DNS pods: {[(p.name, p.address) for p in self.kubelet.list('kube-system')]}\n"

    def upstream(self, name, *args):
        """Starts a dnsmasq as the server of a stub domain or as upstream server. Its arguments determine the answers. Returns its address."""
        address = self.network.allocate()
        docker("run", "-d", "--name", f"{PREFIX}-{name}", "--label", f"kube-dns-tests={PREFIX.removeprefix('dnst')}", "--network",
               self.network.name, "--ip", address, "dnst-dnsmasq", "-k", "-C", "/dev/null", "--no-resolv", "--no-hosts",
               "--log-facility=-", *args)
        return address

    def remove_upstream(self, name):
        docker("rm", "-f", f"{PREFIX}-{name}", check=False)
