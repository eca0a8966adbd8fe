"""The real control plane (tests/controlplane) as a fixture, and a small client of its API."""

import http.client
import json
import os
import shutil
import signal
import ssl
import subprocess
import threading
import time
import urllib.parse

from run import Failed, run
from waiting import free_port, wait_for


class ApiError(Exception):
    def __init__(self, status, message):
        super().__init__(f"{status}: {message}")
        self.status = status


class Api:
    """An administrator's client of the API server. If the control plane moves to a new address, the client uses the new address."""

    def __init__(self, plane):
        self.plane = plane

    def connect(self, timeout=30):
        url = urllib.parse.urlsplit(self.plane.url)
        context = ssl.create_default_context(cafile=str(self.plane.dir / "pki/ca.crt"))
        return http.client.HTTPSConnection(url.hostname, url.port, timeout=timeout, context=context)

    def request(self, method, path, body=None, kind="application/json"):
        connection = self.connect()
        try:
            connection.request(method, path, json.dumps(body) if body is not None else None,
                               {"Authorization": f"Bearer {self.plane.token}", "Content-Type": kind, "User-Agent": "test"})
            response = connection.getresponse()
            text = response.read()
            if response.status >= 300:
                raise ApiError(response.status, text.decode(errors="replace")[:500])
            return json.loads(text)
        finally:
            connection.close()

    def get(self, path):
        return self.request("GET", path)

    def patch(self, path, body):
        return self.request("PATCH", path, body, "application/merge-patch+json")

    def watch(self, path, on_event, stopped):
        """Lists and watches forever. When a watch breaks, it starts again from the list. Calls on_event(type, object) and on_event("SYNC", items)."""
        while not stopped.is_set():
            try:
                listing = self.get(path)
                on_event("SYNC", listing["items"])
                self._watch_from(path, listing["metadata"]["resourceVersion"], on_event, stopped)
            except (OSError, http.client.HTTPException, ValueError, ApiError):
                stopped.wait(0.1)  # many tests stop the API server

    def _watch_from(self, path, version, on_event, stopped):
        connection = self.connect(timeout=None)  # the control plane closes it when it stops
        try:
            query = f"{'&' if '?' in path else '?'}watch=1&allowWatchBookmarks=true&timeoutSeconds=300&resourceVersion={version}"
            connection.request("GET", path + query, headers={"Authorization": f"Bearer {self.plane.token}", "User-Agent": "test"})
            response = connection.getresponse()
            for line in response:
                event = json.loads(line)
                if stopped.is_set() or event["type"] == "ERROR":
                    return
                if event["type"] != "BOOKMARK":
                    on_event(event["type"], event["object"])
        finally:
            connection.close()


class Plane:
    """etcd, kube-apiserver and controllers. The test's kubelet runs the pods in the namespaces `leave`."""

    def __init__(self, ctl, directory, leave, advertise):
        self.ctl, self.dir, self.leave = ctl, directory, leave
        self.advertise = advertise
        self.port = None
        self.process = None
        self.api = Api(self)

    @property
    def url(self):
        return f"https://127.0.0.1:{self.port}"

    @property
    def token(self):
        return (self.dir / "token").read_text()

    @property
    def kubeconfig(self):
        return self.dir / "kubeconfig"

    def start(self, port=None, advertise=None):
        self.advertise = advertise or self.advertise
        self.port = port or self.port or free_port()
        (self.dir / "ready").unlink(missing_ok=True)
        self.dir.mkdir(parents=True, exist_ok=True)
        log = open(self.dir / "up.log", "a")
        self.process = subprocess.Popen(
            [self.ctl, "up", "--dir", self.dir, "--port", str(self.port), "--bind", "0.0.0.0", "--advertise", self.advertise,
             "--san", self.advertise, "--leave", ",".join(self.leave), "--grace", "3s"], stdout=log, stderr=log)
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

    def restart_api(self):
        self.kill_api()
        self.api_back()

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

    def kubectl(self, *args, **kwargs):
        return run(self.ctl, "kubectl", "--kubeconfig", self.kubeconfig, *args, **kwargs)

    def apply(self, text, *args):
        """Applies the objects with server-side apply, as the documents tell operators. The API server must accept every object."""
        return self.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", *args, input=text)


class Watcher:
    """A thread that watches one path of the API and keeps its objects by namespace/name."""

    def __init__(self, api, path, on_change=None):
        self.objects, self.lock = {}, threading.Lock()
        self.on_change = on_change or (lambda kind, obj: None)
        self.stopped = threading.Event()
        self.thread = threading.Thread(target=api.watch, args=(path, self._event, self.stopped), daemon=True)
        self.thread.start()

    @staticmethod
    def key(obj):
        return f"{obj['metadata'].get('namespace', '')}/{obj['metadata']['name']}"

    def _event(self, kind, obj):
        gone, changed = [], []
        with self.lock:
            if kind == "SYNC":
                fresh = {self.key(o): o for o in obj}
                gone = [o for k, o in self.objects.items()
                        if k not in fresh or fresh[k]["metadata"]["uid"] != o["metadata"]["uid"]]
                changed = list(fresh.values())
                self.objects = fresh
            elif kind == "DELETED":
                self.objects.pop(self.key(obj), None)
                gone = [obj]
            else:
                self.objects[self.key(obj)] = obj
                changed = [obj]
        for o in gone:
            self.on_change("DELETED", o)
        for o in changed:
            self.on_change("MODIFIED", o)

    def list(self):
        with self.lock:
            return list(self.objects.values())

    def stop(self):
        self.stopped.set()


def now():
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def environment_ctl():
    path = os.environ.get("CTL", "build/controlplane/ctl")
    if not os.access(path, os.X_OK):
        raise Failed(f"{path}: no control plane; run `make test-cluster`, which builds it")
    return os.path.abspath(path)
