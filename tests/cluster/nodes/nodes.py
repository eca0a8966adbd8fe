"""A cluster whose pods run on real nodes (bed.py), as the tests see it: what an operator and a tenant do, its pods and its kube-proxies."""

import concurrent.futures
import contextlib
import ctypes
import ipaddress
import json
import os
import pathlib
import re
import subprocess
import time

import yaml

import bed
from cluster import REGISTRY, manifests, objects
from plane import ApiError, Plane, Watcher
from run import Failed, json_lines, run
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

    def process(self, name):
        """The process ID of its process with this name."""
        return next(pid for pid, comm in self.processes().items() if comm == name)

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

    def in_network(self, *command, **options):
        """Runs a command of this machine in the pod's network."""
        return run("nsenter", "-t", self.pid, "-n", *command, **options)

    def exit_codes(self):
        """The exit codes of its containers that have ended."""
        states = [c.status.get("state", {}) for c in self.containers]
        return [s["terminated"]["exitCode"] for s in states if "terminated" in s]


class Pods:
    """All pods, as the API shows them."""

    def __init__(self, api):
        self.pods, self.deleted = {}, []
        self.watcher = Watcher(api, "/api/v1/pods", self._changed)

    def _changed(self, kind, obj):
        uid = obj["metadata"]["uid"]
        if kind == "DELETED":
            pod = self.pods.pop(uid, None)
            if pod:
                pod.object = obj
                self.deleted.append(pod)
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
        """
        True if the packets to some Service go from each node to some of these addresses, and to no other. All addresses get packets: those of
        one node may go to the endpoint on this node only.
        """
        nodes = list(self.services())
        common = set.intersection(*(set(services) for services in nodes))
        return not addresses or any(set.union(*(services[s] for services in nodes)) == addresses for s in common)

    def await_left(self, address, timeout=30):
        """Waits until no rule sends to an address. Returns the time of day."""
        wait_for(lambda: not any(address in targets for services in self.services() for targets in services.values()), timeout,
                 f"no rule for {address}")
        return time.time()


class Asker:
    """A client in a container. It sends queries until stop(), which returns the counts and each failure."""

    def __init__(self, command, *args):
        self.process = subprocess.Popen([*command, *map(str, args)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.rate = float(args[2] if args[0].startswith("ask") else args[1])
        assert json_lines(self.process.stdout.readline()) == [{"begun": True}], args

    def stop(self):
        self.process.stdin.close()
        lines = json_lines(self.process.stdout.read())
        self.process.wait(60)
        return lines[-1], lines[:-1]


class Cluster:
    """The bed that is up, or a bed that runs until close()."""

    def __init__(self, directory, tag):
        self.installed, self.data = None, None
        self.own_network, self.started = os.open("/proc/self/ns/net", os.O_RDONLY), not bed.RUN.exists()
        try:
            if self.started:
                bed.up(families=os.environ.get("FAMILIES", "dual"))
            bed.load("dnst-glibc", "dnst-musl", "dnst-dnsmasq", *(f"{REGISTRY}/{name}:{tag}" for name in ("kubedns", "nanny", "nanny-unbound", "sidecar")))
            enter_network(f"/run/netns/{bed.CONTROL_PLANE}")
            self.directory, self.plane = pathlib.Path(directory), Plane()
            self.api, self.executor = self.plane.api, concurrent.futures.ThreadPoolExecutor(32)
            self.kubelet, self.proxy = Pods(self.api), Proxies()
            services = ipaddress.ip_network(bed.SERVICES[bed.versions()[0]])
            self.dns_ip, self.api_ip = str(services[10]), str(services[1])  # the addresses of the Services kube-dns and kubernetes
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

    # An operator's actions

    def install(self, overlay="replace-kube-dns", replicas=1, **settings):
        text = manifests(self.directory, overlay, **{"clusterIP": self.dns_ip, **settings})
        self.plane.apply(text)
        deployment = next(o for o in objects(text) if o["kind"] == "Deployment")["metadata"]["name"]
        self.scale(deployment, replicas)
        return deployment

    def scale(self, deployment, replicas, timeout=150):
        self.api.patch(f"/apis/apps/v1/namespaces/kube-system/deployments/{deployment}/scale", {"spec": {"replicas": replicas}})
        return self.await_rollout(deployment, timeout)

    def await_rollout(self, deployment, timeout=150):
        """
        Waits until all pods of the Deployment have its newest version, are ready, and get queries from their Service, and no other pod is
        left. Returns the pods.
        """
        def done():
            d = self.api.get(f"/apis/apps/v1/namespaces/kube-system/deployments/{deployment}")
            s, wanted = d.get("status", {}), d["spec"]["replicas"]
            pods = self.kubelet.list("kube-system", deployment + "-")
            if s.get("observedGeneration") == d["metadata"]["generation"] and len(pods) == wanted \
                    and s.get("updatedReplicas", 0) == s.get("availableReplicas", 0) == s.get("readyReplicas", 0) == wanted \
                    and all(p.ready() for p in pods) and self.proxy.sends_to({p.address for p in pods}):
                return pods or True
            return None
        try:
            return wait_for(done, timeout, f"rollout of {deployment}")
        except AssertionError as e:
            raise AssertionError(f"{e}\n{self.describe()}") from None

    def describe(self):
        """Returns the last log lines of the containers, for the report of a failed test."""
        text = []
        for p in self.kubelet.list("kube-system"):
            for c in p.containers:
                text.append(f"--- {p.name} {c.spec['name']} restarts={c.restarts} ready={c.ready()} last={c.last_state}\n"
                            + "\n".join((c.log() if c.running else c.kept_log()).splitlines()[-15:]))
        return "\n".join(text + self.kubelet.notes[-10:])

    def configure(self, data):
        """Replaces the ConfigMap kube-dns. If `data` is None, deletes the ConfigMap."""
        path = "/api/v1/namespaces/kube-system/configmaps"
        try:
            self.api.request("DELETE", f"{path}/kube-dns")
        except Exception:
            pass
        if data is not None:
            self.api.request("POST", path, {"metadata": {"name": "kube-dns"}, "data": data})
        self.refresh()

    def edit_configuration(self, data):
        self.api.patch("/api/v1/namespaces/kube-system/configmaps/kube-dns", {"data": data})
        self.refresh()

    def refresh(self):
        """
        Waits until kubelet has written the ConfigMap into the pods' volumes. It does so when it next syncs the pod, up to 90 s after a change. A
        changed annotation of the pod makes it sync now.
        """
        now = self.exists("/api/v1/namespaces/kube-system/configmaps/kube-dns")
        wanted = now["data"] if now else {}

        def written(pod):
            folder = bed.own_folder(pod.node, "/var/lib/kubelet") / "pods" / pod.uid / "volumes/kubernetes.io~configmap"
            if pod.uid not in self.kubelet.pods or {f.name: f.read_text() for f in folder.glob("*/..data/*")} == wanted:
                return True
            with contextlib.suppress(ApiError):  # the pod is gone
                self.api.patch(f"/api/v1/namespaces/kube-system/pods/{pod.name}", {"metadata": {"annotations": {"synced": str(time.time())}}})
            time.sleep(0.5)
            return False

        for p in self.kubelet.list("kube-system", "kube-dns"):
            wait_for(lambda p=p: written(p), 120, f"the ConfigMap in the volume of {p.name}")

    def ensure(self, overlay="replace-kube-dns", replicas=1, data=None):
        """Makes sure that this overlay runs with this number of pods and this ConfigMap. Installs only the parts that differ."""
        if self.data != data or not self.installed:
            self.configure(data)
            self.data = data
        if self.installed != overlay:
            self.install(overlay, replicas)
            self.installed = overlay
        # Needed even if nothing was installed. The previous test may have left a ready pod to which the Service does not send queries yet.
        return self.scale("kube-dns", replicas)

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

    def reinstall(self):
        """Makes the next ensure() apply the overlay again. Call this after a test has changed the installed objects."""
        self.installed = None

    # What tenants do

    def namespace(self, name):
        self.plane.apply(json.dumps({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}))
        wait_for(lambda: self.exists(f"/api/v1/namespaces/{name}/serviceaccounts/default"), 10, f"account in {name}")

    def exists(self, path):
        try:
            return self.api.get(path)
        except Exception:
            return None

    def client(self, name, image="dnst-glibc", namespace="clients", args=("pause",), **spec):
        """Starts a client pod with the cluster's resolv.conf. Returns it when it runs."""
        self.plane.apply(json.dumps({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace, "labels": {"app": name}},
            "spec": {"automountServiceAccountToken": False, "terminationGracePeriodSeconds": 1,
                     "containers": [{"name": "client", "image": image, "imagePullPolicy": "Never", "args": args}], **spec}}))

        def ready():
            return next((p for p in self.kubelet.list(namespace) if p.name == name and p.ready()), None)
        return wait_for(ready, 60, f"client {name}")

    def client_command(self, pod):
        return ["nsenter", "-t", str(pod.container("client").pid), "-m", "-n", "-u", "-i", "-p", "/client"]

    def upstream(self, name, *args):
        """Starts a dnsmasq in a pod. Its arguments determine the answers. Returns its address."""
        args = ["-k", "-C", "/dev/null", "--no-resolv", "--no-hosts", "--log-facility=-", *args]
        return self.client(name, "dnst-dnsmasq", args=args, dnsPolicy="Default").address

    def remove_upstream(self, name):
        self.plane.kubectl("-n", "clients", "delete", "pod", name)

    def ask(self, pod, *args, timeout=90):
        """Runs the client program in a client pod and returns its lines."""
        out = run(*self.client_command(pod), *args, check=False, timeout=timeout)
        return json_lines(out)

    def lookup(self, pod, name):
        return self.ask(pod, "lookup", name)[0]

    def await_answer(self, pod, name, expect, seconds=10):
        return self.ask(pod, "await", seconds, name, expect, timeout=seconds + 30)[0]

    def measure(self, pods, name, expect, change, seconds=10):
        """
        Makes a change while clients wait for its effect. Returns for each client the seconds from the API server's reply to the client's
        right answer.
        """
        waiting = [self.executor.submit(self.await_answer, p, name, expect, seconds) for p in pods]
        time.sleep(0.3)  # the clients query before, during and after the change; the result does not depend on this wait
        change()
        done = time.time()
        results = [w.result() for w in waiting]
        for r in results:
            assert r["held"], f"{name}: wanted {expect}, got {r}\n{self.flows(pods)}{self.describe()}"
        return [max(0, r["at"] - done) for r in results]

    def flows(self, clients):
        """Lists on each client's node the conntrack flows to the cluster's DNS."""
        text = ""
        for c in clients:
            rows = run(*bed.on_node(c.node, ["conntrack", "-L", "-p", "udp", "--orig-dst", self.dns_ip]), check=False).splitlines()
            text += f"flows on the node of {c.name}: {len(rows)}, the last ones:\n" + "\n".join(rows[-5:]) + "\n"
        return text

    def asker(self, pod, *args):
        return Asker(self.client_command(pod), *args)

    @staticmethod
    def wait_asked(asker, asked):
        """Waits long enough for this number of queries at the asker's rate."""
        time.sleep(asked / asker.rate)

    def stop_after(self, asker, asked):
        self.wait_asked(asker, asked)
        return asker.stop()

    def service(self, name):
        """Creates a Service that no client has queried yet. Returns its address."""
        made = self.api.request("POST", "/api/v1/namespaces/clients/services", {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}]}})
        return made["spec"]["clusterIP"]

    def gone(self, prefix, timeout=60):
        """Waits until no pod with this prefix and no container of such a pod is left."""
        wait_for(lambda: not self.kubelet.list("kube-system", prefix), timeout, f"pods {prefix}* gone")

    @staticmethod
    def workload(name, namespace, kind="Deployment", replicas=3, headless=False, ports=None, pod=None, **service):
        """Returns a Deployment or StatefulSet with its Service."""
        labels = {"app": name}
        meta = {"name": name, "namespace": namespace}
        spec = {"replicas": replicas, "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels},
                             "spec": {"containers": [{"name": "c", "image": bed.PAUSE}], **(pod or {})}}}
        if kind == "StatefulSet":
            spec.update(serviceName=name, podManagementPolicy="Parallel")
        ports = ports or [{"name": "http", "port": 80}]
        return [{"apiVersion": "v1", "kind": "Service", "metadata": meta,
                 "spec": {"selector": labels, "ports": ports, **({"clusterIP": "None"} if headless else {}), **service}},
                {"apiVersion": "apps/v1", "kind": kind, "metadata": meta, "spec": spec}]
