"""
Runs the stand-in for tests. ApiServer uses a thread of the test's process. ApiProcess uses a separate process, which can be pinned to a
CPU or run in a network namespace, and suits a large cluster. Both have all methods of server.Server.
"""

import asyncio
import base64
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time

from .server import Server

HERE = os.path.dirname(os.path.abspath(__file__))


class Credentials:
    """Writes the credentials that a client needs. Both harnesses inherit from it. `self.directory` belongs to the test."""

    def url(self):
        return self.address()["url"]

    def service_account(self, directory, namespace="kube-system", token=None):
        """Writes a directory like the mount of a service account: token, ca.crt, namespace. Returns its path."""
        os.makedirs(directory, exist_ok=True)
        at = self.address()
        for name, text in (("token", token or at["token"]), ("namespace", namespace)):
            self.replace(os.path.join(directory, name), text)
        if at["ca"]:
            shutil.copy(at["ca"], os.path.join(directory, "ca.crt"))
        return directory

    @staticmethod
    def replace(path, text):
        """Writes a temporary file and renames it, as the kubelet replaces a token."""
        with open(path + ".new", "w", encoding="utf-8") as f:
            f.write(text)
        os.rename(path + ".new", path)

    def environment(self, base=None):
        """Returns the environment of a pod."""
        at = self.address()
        return {**(base if base is not None else os.environ), "KUBERNETES_SERVICE_HOST": at["host"],
                "KUBERNETES_SERVICE_PORT": str(at["port"])}  # fmt: skip

    def kubeconfig(self, path, user="token", inline=True, server=None, cluster=None, context="test", current=None):
        """
        Writes a kubeconfig and returns its path.

        user      token, token-file, certificate or none
        inline    puts data into the file instead of paths beside it
        cluster   additional fields of the cluster (tls-server-name, insecure-skip-tls-verify, proxy-url, ...)
        """
        at = self.address()
        where = {"server": server or at["url"], **(cluster or {})}
        who = {}
        if at["ca"]:
            where |= self._credential("certificate-authority", at["ca"], inline)
        if user == "token":
            who["token"] = at["token"]
        elif user == "token-file":
            self.replace(str(path) + ".token", at["token"])
            who["tokenFile"] = os.path.basename(str(path)) + ".token"
        elif user == "certificate":
            cert, key = self.client_certificate("system:serviceaccount:kube-system:kube-dns")
            who |= self._credential("client-certificate", cert, inline) | self._credential("client-key", key, inline)
        config = {"apiVersion": "v1", "kind": "Config", "current-context": current or context,
                  "clusters": [{"name": "stand-in", "cluster": where}], "users": [{"name": "tester", "user": who}],
                  "contexts": [{"name": context, "context": {"cluster": "stand-in", "user": "tester"}}]}  # fmt: skip
        with open(path, "w", encoding="utf-8") as f:
            json.dump(config, f, indent=2)  # JSON is also valid YAML
        return str(path)

    @staticmethod
    def _credential(key, path, inline):
        if not inline:
            return {key: path}
        with open(path, "rb") as f:
            return {key + "-data": base64.b64encode(f.read()).decode()}

    # Use in tests.

    def wait(self, condition, timeout=10.0, what="the condition"):
        """Waits until condition() is true and returns its value. Use it for conditions for which the server has no wait method."""
        deadline = time.monotonic() + timeout
        while not (value := condition()):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{what} not within {timeout} s")
            time.sleep(0.005)
        return value

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class ApiServer(Credentials):
    """The stand-in in a thread: ApiServer(tls=True, http2=True, ...). The server listens immediately. With `listen=False` it listens after
    start()."""

    def __init__(self, listen=True, **options):
        self._own = None if options.get("directory") else tempfile.mkdtemp(prefix="apiserver-")
        options.setdefault("directory", self._own)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="apiserver", daemon=True)
        self._thread.start()
        self._server = self._do(lambda: Server(**options))
        self.directory = self._server.directory
        if listen:
            self.start()

    def _run(self):
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def _do(self, call, *args, **kw):
        async def run():
            result = call(*args, **kw)
            return await result if asyncio.iscoroutine(result) else result

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result()

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        method = getattr(self._server, name)
        return lambda *args, **kw: self._do(method, *args, **kw)

    def close(self):
        if self._thread.is_alive():
            self._do(self._server.stop)
            self._do(self._cancel_all)
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()
        if self._own:
            shutil.rmtree(self._own, ignore_errors=True)

    @staticmethod
    async def _cancel_all():
        tasks = [t for t in asyncio.all_tasks() if t is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class ApiProcess(Credentials):
    """
    The stand-in in a separate process. `prefix` is put before the command: ["taskset", "-c", "1"], ["ip", "netns", "exec", N]. The
    control connection is a Unix socket in the directory, so it also works across network namespaces.
    """

    def __init__(self, prefix=(), listen=True, **options):
        self._own = None if options.get("directory") else tempfile.mkdtemp(prefix="apiserver-")
        self.directory = options.setdefault("directory", self._own)
        control = os.path.join(self.directory, "control")
        command = [*prefix, sys.executable, "-m", "apiserver", "--control", control, "--options", json.dumps(options)]
        env = {**os.environ, "PYTHONPATH": os.path.dirname(HERE)}
        self.process = subprocess.Popen(command + ([] if listen else ["--no-listen"]), env=env)
        self._lock = threading.Lock()
        self._socket = self._connect(control)
        self._stream = self._socket.makefile("rwb")

    def _connect(self, path):
        deadline = time.monotonic() + 20
        while True:
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                sock.connect(path)
                return sock
            except OSError:
                sock.close()
                if self.process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"stand-in API server did not start (exit {self.process.poll()})") from None
                time.sleep(0.01)

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        return lambda *args, **kw: self._call(name, args, kw)

    def _call(self, name, args, kw):
        with self._lock:
            self._stream.write(json.dumps({"call": name, "args": args, "kw": kw}).encode() + b"\n")
            self._stream.flush()
            line = self._stream.readline()
        if not line:
            raise ConnectionError(f"stand-in API server is gone (exit {self.process.poll()})")
        answer = json.loads(line)
        if "error" in answer:
            raise {"TimeoutError": TimeoutError, "KeyError": KeyError}.get(answer["type"], RuntimeError)(answer["error"])
        return answer["result"]

    def close(self):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self._stream.close()
        self._socket.close()
        if self._own:
            shutil.rmtree(self._own, ignore_errors=True)
