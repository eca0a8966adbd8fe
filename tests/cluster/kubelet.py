"""
A stand-in for the scheduler and the kubelet. It starts the containers of real Pod objects exactly as their spec says, probes and restarts
them, and reports their status. It ends them in the kubelet's order: SIGTERM, grace period, SIGKILL.
"""

import datetime
import http.client
import json
import pathlib
import socket
import subprocess
import threading
import time

import podspec
import volumes
from plane import ApiError, Watcher
from run import LABEL, PREFIX, Failed, docker, in_netns, os

RESTART_BACKOFF_S = 10  # as in the kubelet: the first restart is immediate, the second comes after 10 s, and each later delay is twice as long


def timestamp():
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def time_of_day(text):
    """Unix time of a container engine's timestamp, which has nanoseconds."""
    whole, _, fraction = text.rstrip("Z").partition(".")
    at = datetime.datetime.strptime(whole, "%Y-%m-%dT%H:%M:%S").replace(tzinfo=datetime.timezone.utc)
    return at.timestamp() + float(f"0.{fraction or 0}")


class Probe:
    """One probe of one container: the time of its next run, and its state, which changes after several equal results."""

    def __init__(self, spec, started):
        self.spec = spec
        self.due = started + spec.get("initialDelaySeconds", 0)
        self.run = 0        # number of equal results in a row
        self.last = None
        self.passing = None  # None until a threshold is reached

    def note(self, good):
        self.run = self.run + 1 if good == self.last else 1
        self.last = good
        needed = self.spec.get("successThreshold", 1) if good else self.spec.get("failureThreshold", 3)
        if self.run >= needed:
            self.passing = good
        self.due = time.monotonic() + self.spec.get("periodSeconds", 10)

    def ask(self, address, container):
        if "tcpSocket" in self.spec:
            try:
                socket.create_connection((address, self.spec["tcpSocket"]["port"]), self.spec.get("timeoutSeconds", 1)).close()
                return True
            except OSError:
                return False
        get = self.spec.get("httpGet")
        if not get or set(get) - {"path", "port", "scheme"} or get.get("scheme", "HTTP") != "HTTP":
            raise podspec.Unsupported(f"probe {self.spec}")
        port = get["port"]
        if isinstance(port, str):
            port = next(p["containerPort"] for p in container["ports"] if p["name"] == port)
        connection = http.client.HTTPConnection(address, port, timeout=self.spec.get("timeoutSeconds", 1))
        try:
            connection.request("GET", get.get("path", "/"), headers={"User-Agent": "kube-probe/test"})
            return 200 <= connection.getresponse().status < 400
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()


class Container:
    def __init__(self, pod, spec):
        self.pod, self.spec = pod, spec
        self.restarts, self.running, self.last_state, self.id = -1, False, None, None
        self.died = None  # time of day, from the container engine
        self.probes = {}
        self.log_path = pod.directory / f"{spec['name']}.log"

    @property
    def name(self):
        return f"{self.pod.prefix}-{self.spec['name']}-{max(self.restarts, 0)}"

    def start(self):
        self.restarts += 1
        pod, spec = self.pod, self.spec
        message = pod.directory / f"{spec['name']}.termination"
        message.write_text("")
        message.chmod(0o666)
        env = podspec.environment(spec, pod.object, pod.kubelet.service_environment(pod.namespace))
        image_user = docker("image", "inspect", "-f", "{{.Config.User}}", spec["image"]).strip()
        self.id = docker(
            "run", "-d", "--name", self.name, "--label", f"{LABEL}={os.getpid()}", "--network", f"container:{pod.pause}",
            "--mount", f"type=bind,src={pod.directory}/resolv.conf,dst=/etc/resolv.conf",
            "--mount", f"type=bind,src={pod.directory}/hosts,dst=/etc/hosts",
            "--mount", f"type=bind,src={message},dst={spec.get('terminationMessagePath', '/dev/termination-log')}",
            *podspec.container_args(pod.spec, spec, env, pod.volumes.mounts, image_user)).strip()
        self.running, self.started = True, time.monotonic()
        self.probes = {k: Probe(spec[k], self.started) for k in ("readinessProbe", "livenessProbe") if k in spec}
        threading.Thread(target=self._wait, args=(self.id,), daemon=True).start()
        for kind in self.probes:
            threading.Thread(target=self._probe, args=(self.id, kind), daemon=True).start()

    def _wait(self, container_id):
        try:
            docker("wait", container_id, timeout=None)
        except Failed:
            return
        self.ended(container_id)

    def ended(self, container_id):
        """
        Call this when the container's process has ended. Keeps the log, records the reason, and restarts the container unless the pod is
        being deleted.
        """
        with self.pod.lock:
            if container_id != self.id or not self.running:
                return
            self.running = False
        if self.pod.ending.is_set():
            return
        self.pod.changed()
        self.keep_log()
        state = json.loads(docker("inspect", "-f", "{{json .State}}", container_id, check=False).strip() or "{}")
        self.died = time_of_day(state["FinishedAt"]) if state else time.time()
        self.last_state = {"exitCode": state.get("ExitCode", 0), "reason": "OOMKilled" if state.get("OOMKilled") else "Error",
                           "message": (self.pod.directory / f"{self.spec['name']}.termination").read_text()[:4096],
                           "finishedAt": timestamp()}
        docker("rm", "-f", container_id, check=False)
        self.pod.changed()
        wait = min(300, RESTART_BACKOFF_S * 2 ** (self.restarts - 1)) if self.restarts > 0 else 0
        if not self.pod.ending.wait(wait):
            self.start()
            self.pod.changed()

    def keep_log(self):
        if self.id:
            with open(self.log_path, "a") as f:
                f.write(self.log())

    def kept_log(self):
        return self.log_path.read_text() if self.log_path.exists() else ""

    def log(self):
        return subprocess.run(["docker", "logs", self.id], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              errors="replace").stdout

    def ready(self):
        probe = self.probes.get("readinessProbe")
        return self.running and (probe is None or probe.passing is True)

    def _probe(self, container_id, kind):
        """Runs one probe of this container in its own thread, so that a slow probe does not delay other probes."""
        probe = self.probes[kind]
        while container_id == self.id and not self.pod.over.wait(max(0, probe.due - time.monotonic())):
            # A terminating pod still gets readiness probes, but no liveness probes.
            if not self.running or container_id != self.id or (kind == "livenessProbe" and self.pod.ending.is_set()):
                return
            before = self.ready()
            probe.note(probe.ask(self.pod.address, self.spec))
            if self.ready() != before:
                self.pod.changed()
            if kind == "livenessProbe" and probe.passing is False:
                self.pod.kubelet.note(f"{self.name}: liveness probe failed, killed")
                self.pod.kill(self, probe.spec.get("terminationGracePeriodSeconds", self.pod.grace))
                return

    def status(self):
        state = {"running": {"startedAt": timestamp()}} if self.running else {"waiting": {"reason": "CrashLoopBackOff"}}
        return {"name": self.spec["name"], "image": self.spec["image"], "imageID": self.spec["image"], "ready": self.ready(),
                "restartCount": max(self.restarts, 0), "state": state, "started": self.running,
                "lastState": {"terminated": self.last_state} if self.last_state else {}}


class Pod:
    def __init__(self, kubelet, obj):
        self.kubelet, self.object, self.spec = kubelet, obj, obj["spec"]
        self.namespace, self.name, self.uid = (obj["metadata"][k] for k in ("namespace", "name", "uid"))
        self.path = f"/api/v1/namespaces/{self.namespace}/pods/{self.name}"
        self.prefix = f"{PREFIX}-{self.name}"
        self.directory = kubelet.directory / f"{PREFIX}-{self.uid}"
        self.grace = self.spec.get("terminationGracePeriodSeconds", 30)
        self.lock, self.dirty = threading.Lock(), threading.Event()
        self.ending, self.over = threading.Event(), threading.Event()
        self.containers, self.volumes, self.pause, self.pid, self.address = [], None, None, None, None
        threading.Thread(target=self._live, daemon=True).start()

    def _live(self):
        try:
            if not self.spec.get("nodeName"):
                self._bind()
            self._start()
            while not self.over.is_set():
                if self.dirty.wait(0.5):
                    self.dirty.clear()
                    self._report()
        except Exception as e:  # every error must reach the test
            if not self.over.is_set() and not self.ending.is_set():
                self.kubelet.fail(f"pod {self.name}: {type(e).__name__}: {e}")

    def _bind(self):
        target = {"apiVersion": "v1", "kind": "Node", "name": self.kubelet.next_node()}
        try:
            self.kubelet.api.request("POST", self.path + "/binding", {
                "apiVersion": "v1", "kind": "Binding", "metadata": {"name": self.name, "uid": self.uid}, "target": target})
        except ApiError as e:
            if e.status != 409:
                raise
        self.spec["nodeName"] = target["name"]

    def _start(self):
        podspec.check(self.spec)
        k = self.kubelet
        self.directory.mkdir(parents=True)
        self.address = k.network.allocate()
        self.object.setdefault("status", {})["podIP"] = self.address
        (self.directory / "resolv.conf").write_text(
            podspec.resolv_conf(self.spec, self.namespace, k.node_resolv_conf, k.cluster_dns, k.domain))
        (self.directory / "hosts").write_text(podspec.hosts(self.spec, self.object, self.address, k.domain))
        self.volumes = volumes.Volumes(self.object, self.directory, k.source)
        self.pause = f"{self.prefix}-pause"
        docker("run", "-d", "--name", self.pause, "--label", f"{LABEL}={os.getpid()}", "--network", k.network.name,
               "--ip", self.address, "--hostname", self.spec.get("hostname", self.name), *podspec.pause_args(self.spec), k.pause_image)
        self.pid = docker("inspect", "-f", "{{.State.Pid}}", self.pause).strip()
        k.proxy.add(self.pid)
        self.containers = [Container(self, c) for c in self.spec["containers"]]
        for c in self.containers:
            if self.ending.is_set():
                return
            c.start()
        self._report()

    def changed(self):
        self.dirty.set()

    def ready(self):
        return bool(self.containers) and all(c.ready() for c in self.containers)

    def container(self, name):
        return next(c for c in self.containers if c.spec["name"] == name)

    def restarts(self):
        return {c.spec["name"]: max(c.restarts, 0) for c in self.containers}

    def _report(self):
        """Writes the pod's status as a kubelet does. Retries later if the API server is down."""
        ready = "True" if self.ready() else "False"
        at = timestamp()
        status = {"phase": "Running", "podIP": self.address, "podIPs": [{"ip": self.address}], "hostIP": self.kubelet.network.gateway,
                  "startTime": at, "containerStatuses": [c.status() for c in self.containers],
                  "conditions": [{"type": t, "status": s, "lastTransitionTime": at} for t, s in
                                 (("PodScheduled", "True"), ("Initialized", "True"), ("ContainersReady", ready), ("Ready", ready))]}
        try:
            self.kubelet.api.patch(self.path + "/status", {"metadata": {"uid": self.uid}, "status": status})
        except ApiError as e:
            if e.status not in (404, 409):
                self.dirty.set()
        except (OSError, http.client.HTTPException):
            self.dirty.set()
            self.over.wait(0.2)

    def kill(self, container, grace):
        """Sends SIGTERM, and SIGKILL after the grace period. Does not wait."""
        def end():
            docker("stop", "-t", grace, container.id, check=False, timeout=grace + 60)
        threading.Thread(target=end, daemon=True).start()

    def terminate(self, grace=None):
        """Ends all containers of a deleted pod at the same time. Then removes everything that belongs to the pod."""
        with self.lock:
            if self.ending.is_set():
                return
            self.ending.set()
        threading.Thread(target=self._terminate, args=(self.grace if grace is None else grace,), daemon=True).start()

    def _terminate(self, grace):
        threads = [threading.Thread(target=self._end, args=(c, grace), daemon=True) for c in self.containers if c.id]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.over.set()
        self._report()  # not ready, so that the Service sends no client to this pod during the cleanup
        self.remove()
        try:
            self.kubelet.api.request("DELETE", self.path, {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0,
                                                           "preconditions": {"uid": self.uid}})
        except (ApiError, OSError, http.client.HTTPException):
            pass  # the pod no longer exists, or the API server is down and will delete the pod again
        self.kubelet.forget(self)

    def _end(self, container, grace):
        hook = container.spec.get("lifecycle", {}).get("preStop", {})
        if hook:
            if set(hook) != {"sleep"}:
                raise podspec.Unsupported(f"preStop {hook}")
            time.sleep(min(hook["sleep"]["seconds"], grace))
        docker("stop", "-t", grace, container.id, check=False, timeout=grace + 60)
        container.running = False
        self.changed()
        container.keep_log()
        state = docker("inspect", "-f", "{{.State.ExitCode}}", container.id, check=False).strip()
        self.kubelet.exits.append((self.name, container.spec["name"], int(state) if state else None))

    def remove(self):
        docker("rm", "-f", "-v", *[c.id for c in self.containers if c.id], *([self.pause] if self.pause else []), check=False)
        if self.pid:
            self.kubelet.proxy.remove(self.pid)
        if self.volumes:
            self.volumes.remove()

    def iptables(self, *args):
        return in_netns(self.pid, "iptables", "-w", *args)

    def processes(self, name):
        """Returns the host's process IDs of one of the pod's containers. The container's first process comes first."""
        return [p["pid"] for p in json.loads(
            docker("inspect", "-f", "[{\"pid\": {{.State.Pid}}}]", self.container(name).id))]


class Network:
    """A separate bridge for this test. It never gives an address to a second pod."""

    def __init__(self):
        for third in range(64, 200):
            subnet = f"10.{third}.77.0/24"
            try:
                self.name = f"{PREFIX}-net"
                docker("network", "create", "--label", f"{LABEL}={os.getpid()}", "--subnet", subnet, self.name)
                break
            except Failed as e:
                if "overlap" not in str(e):
                    raise
        self.prefix = f"10.{third}.77."
        self.gateway = self.prefix + "1"
        self.bridge = "br-" + docker("network", "inspect", "-f", "{{.Id}}", self.name).strip()[:12]
        self._next, self._lock = 10, threading.Lock()

    def allocate(self):
        with self._lock:
            self._next += 1
            if self._next > 250:
                self._next = 11
            return f"{self.prefix}{self._next}"

    def remove(self):
        docker("network", "rm", self.name, check=False)


class Kubelet:
    def __init__(self, plane, network, proxy, directory, pause_image, namespaces, cluster_dns, domain="cluster.local",
                 node_resolv_conf="", nodes=3):
        self.plane, self.api, self.network, self.proxy = plane, plane.api, network, proxy
        self.directory, self.pause_image = pathlib.Path(directory), pause_image
        self.cluster_dns, self.domain, self.node_resolv_conf = cluster_dns, domain, node_resolv_conf
        self.pods, self.failures, self.notes, self.exits = {}, [], [], []
        self._nodes, self._next_node = nodes, 0
        self.lock = threading.RLock()
        self.configmaps = Watcher(self.api, "/api/v1/configmaps", self._configmap)
        self.watchers = [Watcher(self.api, f"/api/v1/namespaces/{n}/pods", self._pod) for n in namespaces]

    def next_node(self):
        with self.lock:
            self._next_node += 1
            return f"node-{self._next_node % self._nodes}"

    def note(self, text):
        self.notes.append(f"{timestamp()} {text}")

    def fail(self, text):
        self.failures.append(text)

    def service_environment(self, namespace):
        return {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443", "KUBERNETES_SERVICE_PORT_HTTPS": "443",
                "KUBERNETES_PORT": "tcp://10.96.0.1:443"}

    def source(self, kind, pod, what):
        """The source of a volume, read from the API."""
        namespace = pod["metadata"]["namespace"]
        if kind == "configmap":
            try:
                return self.api.get(f"/api/v1/namespaces/{namespace}/configmaps/{what}")
            except ApiError as e:
                if e.status == 404:
                    return None
                raise
        account = pod["spec"].get("serviceAccountName", "default")
        reply = self.api.request("POST", f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token", {
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {
                "audiences": [what["audience"]] if "audience" in what else None,
                "expirationSeconds": what.get("expirationSeconds", 3600),
                "boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}}})
        return reply["status"]["token"]

    def _pod(self, kind, obj):
        uid = obj["metadata"]["uid"]
        with self.lock:
            pod = self.pods.get(uid)
            if pod is None and kind != "DELETED" and "deletionTimestamp" not in obj["metadata"] \
                    and obj.get("status", {}).get("phase") in (None, "Pending"):
                self.pods[uid] = Pod(self, obj)
                return
        if pod and (kind == "DELETED" or "deletionTimestamp" in obj["metadata"]):
            pod.terminate(0 if kind == "DELETED" else obj["metadata"].get("deletionGracePeriodSeconds"))

    def _configmap(self, kind, obj):
        for pod in self.list():
            if pod.namespace == obj["metadata"]["namespace"] and pod.volumes and not pod.ending.is_set():
                pod.volumes.refresh(obj["metadata"]["name"])

    def forget(self, pod):
        with self.lock:
            self.pods.pop(pod.uid, None)

    def list(self, namespace=None, prefix=""):
        with self.lock:
            return [p for p in self.pods.values() if namespace in (None, p.namespace) and p.name.startswith(prefix)]

    def stop(self):
        for w in [*self.watchers, self.configmaps]:
            w.stop()
        for pod in self.list():
            pod.ending.set()
            pod.over.set()
            pod.remove()
