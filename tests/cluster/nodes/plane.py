"""The control plane as the tests use it: kubectl, and a small client of its API."""

import http.client
import json
import ssl
import threading
import urllib.parse

import bed
from run import run


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
    """The control plane of the bed. Its processes are parts of the bed."""

    def __init__(self):
        self.ctl, self.dir, self.host, self.port = bed.BIN / "ctl", bed.RUN, bed.address(1), 6443
        self.api = Api(self)

    @property
    def url(self):
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"https://{host}:{self.port}"

    @property
    def token(self):
        return (self.dir / "token").read_text()

    @property
    def kubeconfig(self):
        return self.dir / "admin.conf"

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
