"""A cluster whose pods run on real nodes (bed.py): its control plane, its pods and its kube-proxies, as the tests see them."""

import contextlib
import ctypes
import ipaddress
import os
import pathlib
import re

import bed
import plane
import yaml
from cluster import REGISTRY, Cluster, manifests, objects
from run import Failed, run
from waiting import wait_for

CLONE_NEWNET = 0x40000000
TOPOLOGIES = ["front", "replace-kube-dns", "node-service", "node-local"]


def enter_network(path):
    """Moves this thread, and the threads and processes that it starts, to another network namespace."""
    fd = os.open(path, os.O_RDONLY)
    try:
        if ctypes.CDLL(None, use_errno=True).setns(fd, CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), f"setns {path}")
    finally:
        os.close(fd)


class Plane(plane.Plane):
    """The control plane of the bed. Its processes are parts of the bed."""

    def __init__(self):
        super().__init__(bed.BIN / "ctl", bed.RUN, bed.address(1), 6443)

    @property
    def kubeconfig(self):
        return self.dir / "admin.conf"


class Container:
    def __init__(self, pod, spec):
        self.pod, self.spec = pod, spec

    @property
    def status(self):
        return next((s for s in self.pod.object["status"].get("containerStatuses", []) if s["name"] == self.spec["name"]), {})

    @property
    def id(self):
        return self.status["containerID"].rpartition("/")[2]

    @property
    def restarts(self):
        return self.status.get("restartCount", 0)

    @property
    def running(self):
        return "running" in self.status.get("state", {})

    @property
    def last_state(self):
        return self.status.get("lastState", {}).get("terminated")

    def ready(self):
        return self.status.get("ready", False)

    def processes(self):
        """{process ID: name} of the container's processes. The IDs are those of this machine."""
        found = {}
        for pid in bed.in_cgroups("*", f"kubepods/**/{self.id}"):
            with contextlib.suppress(OSError):  # the process ended meanwhile
                found[pid] = pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
        return found

    @property
    def pid(self):
        """The container's first process."""
        for pid in self.processes():
            if re.search(r"^NSpid:.*\t1$", pathlib.Path(f"/proc/{pid}/status").read_text(), re.M):
                return pid
        raise Failed(f"no process of {self.pod.name} {self.spec['name']}")

    def log(self):
        """The lines of the running container."""
        return self.lines(f"{self.restarts}.log")

    def kept_log(self):
        """The lines of the container and of those before it."""
        return self.lines("*.log")

    def lines(self, files):
        folder = bed.own_folder(self.pod.node, "/var/log/pods") / f"{self.pod.namespace}_{self.pod.name}_{self.pod.uid}" / self.spec["name"]
        text = "".join(f.read_text(errors="replace") for f in sorted(folder.glob(files), key=lambda f: int(f.name.partition(".")[0])))
        # containerd writes "time stream F" before each line.
        return "".join(line.split(" ", 3)[3] for line in text.splitlines(True))


class Pod:
    def __init__(self, obj):
        self.object = obj
        self.namespace, self.name, self.uid = (obj["metadata"][k] for k in ("namespace", "name", "uid"))
        self.containers = [Container(self, spec) for spec in obj["spec"]["containers"]]

    @property
    def node(self):
        """The number of its node."""
        return int(self.object["spec"]["nodeName"].lstrip("n"))

    @property
    def address(self):
        return self.object["status"].get("podIP")

    @property
    def pid(self):
        """One of its processes: all of them are in the pod's network."""
        return next(iter(bed.in_cgroups(self.node, f"kubepods/**/pod{self.uid}/*")))

    def container(self, name):
        return next(c for c in self.containers if c.spec["name"] == name)

    def ready(self):
        return all(c.ready() for c in self.containers)

    def restarts(self):
        return {c.spec["name"]: c.restarts for c in self.containers}


class Pods:
    """All pods, as the API shows them."""

    def __init__(self, api):
        self.pods = {}
        self.watcher = plane.Watcher(api, "/api/v1/pods", self._changed)

    def _changed(self, kind, obj):
        uid = obj["metadata"]["uid"]
        if kind == "DELETED":
            self.pods.pop(uid, None)
            return
        self.pods.setdefault(uid, Pod(obj)).object = obj

    def list(self, namespace=None, prefix=""):
        return [p for p in list(self.pods.values()) if namespace in (None, p.namespace) and p.name.startswith(prefix)]

    @property
    def notes(self):
        return bed.kubectl("get", "events", "-A", "--field-selector=type=Warning", "--sort-by=.lastTimestamp", check=False).splitlines()


class Proxies:
    """To which endpoints the rules of kube-proxy send, on each node. nftables has no colons in names, so kube-proxy writes IPv6 with dots."""
    RULES = {
        ("iptables", 4): (["iptables-save", "-t", "nat"], r'"([\w.-]+/[\w.-]+):?\S* -> ([\d.]+):\d+"'),
        ("iptables", 6): (["ip6tables-save", "-t", "nat"], r'"([\w.-]+/[\w.-]+):?\S* -> \[([\da-f:]+)\]:\d+"'),
        ("nftables", 4): (["nft", "list", "table", "ip", "kube-proxy"], r"goto endpoint-\w+-([\w.-]+/[\w.-]+)/\w+/[\w-]*__([\d.]+)/\d+"),
        ("nftables", 6): (["nft", "list", "table", "ip6", "kube-proxy"], r"goto endpoint-\w+-([\w.-]+/[\w.-]+)/\w+/[\w-]*__([\da-f.]+)/\d+"),
    }

    def services(self):
        """For each node: {namespace/name of a Service: the addresses}."""
        version = bed.versions()[0]
        command, pattern = self.RULES[bed.config()["proxy"], version]
        for n in bed.node_numbers():
            found = {}
            for service, address in re.findall(pattern, run(*bed.on_node(n, command))):
                found.setdefault(service, set()).add(address.replace(".", ":") if version == 6 else address)
            yield found

    def sends_to(self, addresses):
        """True if on each node the packets to some Service go to exactly these addresses."""
        return not addresses or all(addresses in services.values() for services in self.services())


class RealCluster(Cluster):
    """Uses the bed that is up, or starts one and stops it at the end."""
    workload_image = bed.PAUSE

    def __init__(self, directory, tag):
        self.own_network, self.started = os.open("/proc/self/ns/net", os.O_RDONLY), not bed.RUN.exists()
        try:
            if self.started:
                bed.up(families=os.environ.get("FAMILIES", "dual"))
            bed.load("dnst-glibc", "dnst-musl", "dnst-dnsmasq", *(f"{REGISTRY}/{name}:{tag}" for name in ("kubedns", "nanny", "nanny-unbound", "sidecar")))
            enter_network(f"/run/netns/{bed.CONTROL_PLANE}")
            super().__init__(directory, Plane())
            self.kubelet, self.proxy = Pods(self.api), Proxies()
            services = ipaddress.ip_network(bed.SERVICES[bed.versions()[0]])
            self.dns_ip, self.api_ip = str(services[10]), str(services[1])
        except BaseException:
            self.close()
            raise

    def close(self):
        enter_network(f"/proc/self/fd/{self.own_network}")
        if hasattr(self, "kubelet"):
            self.kubelet.watcher.stop()
        if self.started:
            bed.down()
        else:
            bed.kubectl("delete", "namespace", "clients", "--ignore-not-found")

    @contextlib.contextmanager
    def topology(self, overlay):
        """Installs an overlay for as long as the block runs. Those of nodes leave the central pods as a switch leaves them."""
        if not overlay.startswith("node-"):
            self.ensure(overlay, 1)
            yield
            return
        self.ensure("front", 1)
        text = manifests(self.directory, overlay, clusterIP=self.dns_ip)
        try:
            self.plane.apply(text)
            self.plane.kubectl("-n", "kube-system", "rollout", "status", "daemonset/kube-dns-node", "--timeout=120s")
            if overlay == "node-service":
                self.plane.kubectl("-n", "kube-system", "scale", "deployment/kube-dns", "--replicas=0")
            wait_for(lambda: len(self.answering(overlay)) == len(bed.node_numbers()), 60, lambda: f"only pods of {overlay}\n{self.describe()}")
            yield
        finally:
            own = [o for o in objects(text) if o["metadata"]["name"].startswith("kube-dns-node")]
            self.plane.kubectl("delete", "--ignore-not-found", "-f", "-", input=yaml.safe_dump_all(own))
            self.gone("kube-dns-node")
            self.reinstall()

    def answering(self, overlay):
        """The pods that answer the clients, if all of them are ready."""
        found = [p for p in self.kubelet.list("kube-system", "kube-dns-node-" if overlay == "node-local" else "kube-dns-")
                 if "deletionTimestamp" not in p.object["metadata"]]
        return found if all(p.ready() for p in found) else []

    def client_command(self, pod):
        return ["nsenter", "-t", str(pod.container("client").pid), "-m", "-n", "-u", "-i", "-p", "/client"]

    def upstream(self, name, *args):
        """Starts a dnsmasq in a pod. Its arguments determine the answers. Returns its address."""
        args = ["-k", "-C", "/dev/null", "--no-resolv", "--no-hosts", "--log-facility=-", *args]
        return self.client(name, "dnst-dnsmasq", args=args, dnsPolicy="Default").address

    def remove_upstream(self, name):
        self.plane.kubectl("-n", "clients", "delete", "pod", name)

    def flows(self, clients):
        """Lists on each client's node the conntrack flows to the cluster's DNS."""
        text = ""
        for c in clients:
            rows = run(*bed.on_node(c.node, ["conntrack", "-L", "-p", "udp", "--orig-dst", self.dns_ip]), check=False).splitlines()
            text += f"flows on the node of {c.name}: {len(rows)}, the last ones:\n" + "\n".join(rows[-5:]) + "\n"
        return text
