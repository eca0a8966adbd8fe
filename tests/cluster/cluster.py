"""The operations of tests on a cluster. Its pods run with stand-ins for kubelet and kube-proxy (standins.py) or on real nodes (nodes/)."""

import concurrent.futures
import json
import pathlib
import shutil
import signal
import subprocess
import time

import yaml

from run import docker, json_lines, run
from waiting import wait_for

ROOT = pathlib.Path(__file__).resolve().parents[2]
REGISTRY = "suite.invalid/dns"  # the tests write this address into settings.yaml
DNS_IP, BESIDE_LABEL = "10.96.0.10", "kube-dns-beside"
DOMAIN = "cluster.local"


def version():
    return run("make", "-s", "-C", ROOT, "version").strip()


def image_tag():
    return run("make", "-s", "-C", ROOT, "image-tag").strip()


def manifests(directory, overlay, files=None, **settings):
    """Returns the overlay's objects as text, with the operator's settings. They are rendered from a copy of conf/kubernetes with `files` added."""
    copy = pathlib.Path(directory) / f"kubernetes-{time.monotonic_ns()}"
    shutil.copytree(ROOT / "conf/kubernetes", copy)
    path = copy / "settings/settings.yaml"
    text = path.read_text()
    for name, value in {"clusterIP": DNS_IP, "registry": REGISTRY, **settings}.items():
        line = next(i for i in text.splitlines() if i.startswith(f"  {name}:"))
        text = text.replace(line, f"  {name}: {value}")
    path.write_text(text)
    for name, content in (files or {}).items():
        (copy / name).parent.mkdir(exist_ok=True)
        (copy / name).write_text(content)
    return run("kubectl", "kustomize", copy / overlay)


def objects(text):
    return [o for o in yaml.safe_load_all(text) if o]


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
    """
    `plane` and its `api` are the control plane (plane.py). `kubelet` lists the pods, and `proxy` says where the packets to Services go.
    client_command(pod) returns the arguments that run the client program in a client pod. flows(pods) describes the ways of their queries.
    """
    workload_image = "none.invalid/x"
    dns_ip, api_ip = DNS_IP, "10.96.0.1"  # the addresses of the Services kube-dns and kubernetes

    def __init__(self, directory, plane):
        self.installed, self.data = None, None
        self.directory, self.plane, self.api = pathlib.Path(directory), plane, plane.api
        self.executor = concurrent.futures.ThreadPoolExecutor(32)

    def check(self):
        """Fails if something that serves the tests went wrong."""

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
            self.check()
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

    def edit_configuration(self, data):
        self.api.patch("/api/v1/namespaces/kube-system/configmaps/kube-dns", {"data": data})

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
            self.check()
            return next((p for p in self.kubelet.list(namespace) if p.name == name and p.ready()), None)
        return wait_for(ready, 60, f"client {name}")

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

    @classmethod
    def workload(cls, name, namespace, kind="Deployment", replicas=3, headless=False, ports=None, pod=None, **service):
        """Returns a Deployment or StatefulSet with its Service."""
        labels = {"app": name}
        meta = {"name": name, "namespace": namespace}
        spec = {"replicas": replicas, "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels},
                             "spec": {"containers": [{"name": "c", "image": cls.workload_image}], **(pod or {})}}}
        if kind == "StatefulSet":
            spec.update(serviceName=name, podManagementPolicy="Parallel")
        ports = ports or [{"name": "http", "port": 80}]
        return [{"apiVersion": "v1", "kind": "Service", "metadata": meta,
                 "spec": {"selector": labels, "ports": ports, **({"clusterIP": "None"} if headless else {}), **service}},
                {"apiVersion": "apps/v1", "kind": kind, "metadata": meta, "spec": spec}]


def query(server, name, rtype="A", tcp=False, port=53, timeout=5):
    """Sends one query from the host directly to a pod."""
    import dns.message
    import dns.query
    message = dns.message.make_query(name, rtype, use_edns=0, payload=1232)
    ask = dns.query.tcp if tcp else dns.query.udp_with_fallback
    reply = ask(message, server, port=port, timeout=timeout)
    return reply if tcp else reply[0]


def records(reply):
    return sorted(str(r) for rrset in reply.answer for r in rrset)


def http_get(address, port, path, timeout=5):
    import http.client
    connection = http.client.HTTPConnection(address, port, timeout=timeout)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


def signal_container(container, sig=signal.SIGKILL):
    docker("kill", "-s", sig.name, container.id)
