"""The node of bench-node: a NodeWorld whose programs read the stand-in API server. It runs our pod or a node-cache."""

import contextlib
import os
import re
import signal
import subprocess

from api_world import ApiProcess
from node_world import LOCAL, NODE_TTL, SERVICE, UPSTREAM, NodeWorld
from objects import namespace, service

API = "10.244.9.9"  # beside the central pods
INTERFACE = "nodelocaldns"
COUNTED = re.compile("Overflow|Drop|Reset|Abort|Errors|NoPorts|Retrans")
DROPPED = re.compile("kubedns_[a-z_]*(drop|shed)[a-z_]*_total")
FIRST_CLIENT, FIRST_NAME = 16, 100  # as in node_clients.c

COREFILE = """
cluster.local:53 {
    errors
    cache {
        success 9984 30
        denial 9984 5
    }
    reload
    loop
    bind 169.254.20.10 10.96.0.10
    forward . __PILLAR__CLUSTER__DNS__ {
        force_tcp
    }
    prometheus :9253
    health 169.254.20.10:8080
}
"""


class Place(NodeWorld):
    """A node and its names, from n000 on. The address of a name shows how often the name has changed."""

    def make_source(self):
        self.objects = None
        self.node("ip", "route", "add", "default", "via", API)
        self.api = ApiProcess(prefix=["ip", "netns", "exec", self.central.name], host=API)
        self.api.fill([namespace("default"), service("web", "10.96.0.80")])
        self.kubeconfig = self.api.kubeconfig(self.tmp_path / "kubeconfig")

    def source(self):
        return [f"--kubecfg-file={self.kubeconfig}"]

    def put_name(self, n, change):
        name = service(f"n{n:03}", f"10.{FIRST_NAME + n}.{change >> 8}.{change & 255}")
        name["spec"]["clusterIPs"].append(f"fd00::{n:x}:{change:x}")
        self.api.put(name)

    def start_clients(self, program, clients, rate, seconds, names, address):
        if "clients" not in self.__dict__:
            self.clients = clients
            for i in range(clients):
                self.pod("ip", "addr", "add", f"10.244.1.{FIRST_CLIENT + i}/32", "dev", "eth0")
            self.node("ip", "route", "add", "10.244.1.0/24", "dev", "veth-pod")
        return subprocess.Popen(["ip", "netns", "exec", self.pod.name, program, *(str(n) for n in (clients, rate, seconds, names)), address],
                                stdout=subprocess.PIPE, text=True)  # fmt: skip

    def counters(self):
        """Returns counters that may explain a retry: the kernel's counters of the node, and kubedns's counters of dropped packets."""
        kernel = self.node("nstat", "-as", check=False).stdout.split("\n")
        seen = {f[0]: int(f[1]) for f in (line.split() for line in kernel) if len(f) == 3 and f[1].isdigit() and COUNTED.search(f[0])}
        metrics = self.node("curl", "-s", "-m", "5", "http://127.0.0.1:8081/metrics", check=False).stdout.split("\n")
        return seen | {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in metrics if DROPPED.match(line) and not line.endswith(" 0")}

    def kill(self, name):
        """Sends SIGKILL and waits for the end."""
        process = self.running.pop(name)
        process.kill()
        process.wait(timeout=30)

    def end_all_of_the_node(self):
        """Acts like a power failure of the node: processes, interface, rules and connections disappear. kube-proxy's rules come back first."""
        central = self.running.pop("central")
        for process in self.running.values():
            process.send_signal(signal.SIGKILL)
        for pid in self.node("ip", "netns", "pids", self.node.name).stdout.split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        for process in self.running.values():
            process.wait(timeout=30)
        self.running = {"central": central}
        self.node("ip", "link", "del", INTERFACE)
        self.node("nft", "flush", "ruleset")
        self.node("conntrack", "-F", check=False)
        self.write_proxy_rules()

    def shut(self, said):
        """Ends everything. Writes the logs to the file `said`."""
        with contextlib.redirect_stdout(said):
            self.close()
        self.api.close()


class OurNode(Place):
    """The node with our pod. The pod is called pod-N, and the pod after it pod-N+1."""

    name, number = "kubedns", -1

    @property
    def uid(self):
        return f"pod-{self.number}"

    def flags(self):
        return ["--node-role", "--coredns-metrics", f"--until-synced={UPSTREAM}"]

    def start(self):
        """Starts the next pod. Returns when the pod is ready."""
        self.begin()
        self.until(lambda: self.pod_is_ready(self.uid), what="the pod")

    def begin(self):
        self.number += 1
        self.start_pod(self.uid, *self.flags())

    def restart(self, program):
        """Restarts a container that has ended, as the kubelet does."""
        if program == "kubedns":
            self.start_pod_kubedns(self.uid, *self.flags())
        elif program == "nanny":
            self.start_pod_nanny(self.uid)
        else:
            self.start_pod_sidecar(self.uid)

    def children(self, which):
        return self.pids(which, f"{self.uid}-nanny")

    def container(self, program):
        """Returns all processes of a container."""
        own = [self.running[f"{self.uid}-{program}"].pid]
        return own + (self.children("guard") + self.children("dnsmasq") if program == "nanny" else [])

    def is_serving(self):
        return self.ask_once() == NODE_TTL

    def wait_serving(self):
        self.until(self.is_serving, timeout=60, what="an answer of the node's own")


class PeerNode(Place):
    """The node with node-cache and its manifest's arguments. With --pidfile, node-cache creates its rules as soon as it answers, not a minute later."""

    name, started = "node-cache", 0

    def __init__(self, tmp_path, proxy, program):
        self.program = program
        super().__init__(tmp_path, proxy)

    def start(self):
        self.begin()
        self.wait_serving()

    def begin(self):
        for name in ("Corefile", "Corefile.base"):
            (self.tmp_path / name).write_text(COREFILE)
        (self.tmp_path / "pid").unlink(missing_ok=True)
        env = {**os.environ, "KUBE_DNS_UPSTREAM_SERVICE_HOST": UPSTREAM}
        self.running["node-cache"] = self.node.start(
            self.program, "-localip", f"{LOCAL},{SERVICE}", "-conf", self.tmp_path / "Corefile", "-basecorefile", self.tmp_path / "Corefile.base",
            "-upstreamsvc", "kube-dns-upstream", "-pidfile", self.tmp_path / "pid", log=self.tmp_path / "node-cache.log", env=env)  # fmt: skip

    def restart(self, _):
        self.begin()

    def container(self, _):
        return [self.running["node-cache"].pid]

    def is_serving(self):
        """True if node-cache answers and its iptables rules for the Service's address exist."""
        rules = self.node("iptables", "-t", "raw", "-S", check=False).stdout
        return f"-d {SERVICE}/32" in rules and self.ask_once(LOCAL) is not None

    def wait_serving(self):
        self.until(self.is_serving, timeout=90, what="node-cache's rules and answers")
