"""
The stand-in itself: listener, connections, users, and all operations that a test can use while it runs.

ApiServer and ApiProcess offer the methods without a leading underscore and with plain arguments. The methods run one at a time in the
server's own thread or process. So every client sees the effect of a call at once.
"""

import asyncio
import dataclasses
import gc
import itertools
import os
import random
import secrets
import socket
import ssl
import tempfile
import time

from . import population
from .api import Api
from .certs import NAMES, Authority
from .faults import Fault
from .store import Store, encode
from .transport import Connection
from .turns import Turns


class Server:
    def __init__(self, tls=True, host="127.0.0.1", port=0, http2=True, directory=None, authentication=None, bookmark_s=60.0):
        self.host, self.port, self.tls, self.http2 = host, port, tls, http2
        self.directory = directory or tempfile.mkdtemp(prefix="apiserver-")
        self.authentication = tls if authentication is None else authentication
        self.bookmark_s = bookmark_s
        self.too_large_wait_s = 3.0  # the real server waits this long for a future version before it answers 504
        self.hurry = 1.0
        self.watchlist = True
        self.turns = None
        self.phase = "ready"
        self.missing = set()
        self.forbidden = set()  # (user or None, resource, verb)
        self.token = secrets.token_urlsafe(24)
        self.tokens = {self.token: "system:serviceaccount:kube-system:kube-dns"}
        self.store = Store()
        self.snapshots = {}
        self.faults = []
        self.log = []
        self.log_changed = asyncio.Event()
        self.connections = set()
        self.thawed = asyncio.Event()
        self.thawed.set()
        self.api = Api(self)
        self.population = None
        self.changed = []  # the changes of churn
        self.churning = None
        self.accept_as = "serve"
        self._listener = self._accepting = None
        self._held = []
        self._numbers = itertools.count(1)
        if tls:
            self.ca = self.client_ca = Authority(self.directory, "ca")
            self.certified = (*NAMES, host)
            self.context = self._context(*self.ca.server(self.certified))

    # Connections.

    def _context(self, cert, key):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(cert, key)
        context.set_alpn_protocols(["h2", "http/1.1"] if self.http2 else ["http/1.1"])
        context.load_verify_locations(self.client_ca.ca_file)
        context.verify_mode = ssl.CERT_OPTIONAL
        return context

    async def start(self):
        """Starts listening. If the server listened before, it uses the same port again."""
        if self._listener:
            return self.address()
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setblocking(False)
        listener.bind((self.host, self.port))
        listener.listen(128)
        self.port = listener.getsockname()[1]
        self._listener = listener
        self._accepting = asyncio.get_running_loop().create_task(self._accept(listener))
        return self.address()

    async def _accept(self, listener):
        loop = asyncio.get_running_loop()
        while True:
            sock, _ = await loop.sock_accept(listener)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self.accept_as == "hang":
                self._held.append(sock)
            elif self.accept_as == "reset":
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                sock.close()
            elif self.accept_as == "garbage":
                sock.send(os.urandom(512))
                sock.close()
            else:
                loop.create_task(self._serve(sock))

    async def _serve(self, sock):
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: Connection(self), sock, ssl=self.context if self.tls else None
            )
        except (OSError, ssl.SSLError, asyncio.TimeoutError):
            sock.close()  # the client has rejected the certificate or closed the connection

    async def stop(self, how="rst"):
        """Stops listening and ends all connections: rst, fin or close. "keep" leaves them open."""
        if self._accepting:
            self._accepting.cancel()
            self._listener.close()
            self._listener = self._accepting = None
        self._release()
        if how != "keep":
            self.drop_connections(how)

    async def restart(self, how="rst", history=False):
        """Stops and starts at once. Like a real API server it forgets its events, unless `history` is set."""
        await self.stop(how)
        if not history:
            self.store.forget()
            self.store.pages = {}
        return await self.start()

    async def stop_orderly(self, linger_s=60.0):
        """Stops as kube-apiserver does at SIGTERM: closes the port and sends GOAWAY over HTTP/2. Open watches stay silent and end later."""
        await self.stop("keep")
        self.goaway()
        await asyncio.sleep(linger_s)
        self.end_watches()
        await asyncio.sleep(0.05)
        self.drop_connections("close")

    def address(self):
        host = f"[{self.host}]" if ":" in self.host else self.host
        return {"url": f"{'https' if self.tls else 'http'}://{host}:{self.port}", "host": self.host, "port": self.port,
                "token": self.token, "ca": self.ca.ca_file if self.tls else None, "directory": self.directory,
                "pid": os.getpid()}  # fmt: skip

    def goaway(self):
        """Sends GOAWAY on all HTTP/2 connections, whose streams continue. Closes idle HTTP/1.1 connections."""
        for conn in list(self.connections):
            if conn.speaks:
                conn.speaks.goaway()

    def drop_connections(self, how="rst"):
        """Ends all connections: rst, fin (without TLS close_notify) or close (orderly). Returns their number."""
        conns = list(self.connections)
        for conn in conns:
            conn.end(how)
        return len(conns)

    def accept(self, how="serve"):
        """Sets how new connections are handled: serve, hang (accept and send nothing), reset, garbage (bytes before TLS)."""
        self.accept_as = how
        if how != "hang":
            self._release()

    def _release(self):
        for sock in self._held:
            sock.close()
        self._held = []

    def freeze(self):
        """Writes nothing on any connection until thaw(). The kernel still acknowledges."""
        self.thawed.clear()

    def thaw(self):
        self.thawed.set()

    def new_certificate(self, ca="same", names=None, days=(-1, 30)):
        """
        Sets the certificate for new connections. It is signed by the same authority ("same") or by a new authority ("other"). Clients that
        trust only the old authority reject the new certificate. Returns the authority's file. `days` is the period of validity relative to
        now.
        """
        if ca == "other":
            self.ca = Authority(self.directory, f"ca-{next(self._numbers)}")
        self.context = self._context(*self.ca.server(names or self.certified, tuple(days)))
        return self.ca.ca_file

    def client_certificate(self, user, group=None):
        """Creates a certificate for a user. Returns [certificate file, key file]."""
        return list(self.client_ca.client(user, group))

    # Users and permissions.

    def add_token(self, token=None, user="system:serviceaccount:kube-system:kube-dns"):
        token = token or secrets.token_urlsafe(24)
        self.tokens[token] = user
        return token

    def revoke_token(self, token=None):
        """Revokes this token, or all tokens if it is None."""
        if token is None:
            self.tokens.clear()
        else:
            self.tokens.pop(token, None)

    def forbid(self, resource, verbs=("list", "watch", "get"), user=None):
        """Answers 403 to these verbs of a resource from the next request on, for one user or all users. Open watches continue, as on the
        real server."""
        self.forbidden |= {(user, resource, v) for v in verbs}

    def allow(self, resource, verbs=("list", "watch", "get"), user=None):
        self.forbidden -= {(user, resource, v) for v in verbs}

    def is_forbidden(self, user, resource, verb):
        anonymous = self.authentication and user == "system:anonymous"
        return anonymous or not self.forbidden.isdisjoint({(user, resource, verb), (None, resource, verb)})

    def absent(self, what):
        """Answers 404 for a group ("discovery.k8s.io") or a resource ("endpointslices")."""
        self.missing.add(what)

    def present(self, what):
        self.missing.discard(what)

    def set_phase(self, phase):
        """Sets the phase: forbidden (403 to everything, as before RBAC is loaded), failing (500) or ready."""
        self.phase = phase

    def set_watchlist(self, on):
        """With False, the server answers 422 to a watch list, like a server without the feature."""
        self.watchlist = on

    def set_turns(self, seats, queue, hold_s):
        """
        Limits lists (see turns.Turns). `seats` lists run at a time, each for `hold_s`, and `queue` more lists wait. Further lists get 429
        and Retry-After: 1. With 0 seats there is no limit.
        """
        self.turns = Turns(seats, queue, hold_s) if seats else None

    def turns_taken(self):
        """Returns the number of lists that had a turn since set_turns(), and the number of refused lists."""
        return self.turns.granted, self.turns.refused

    def set_bookmarks(self, seconds):
        """Sets the interval of bookmarks for watches that asked for them."""
        self.bookmark_s = seconds

    def set_too_large_wait(self, seconds):
        self.too_large_wait_s = seconds

    def set_hurry(self, factor):
        """Shortens watches and the interval of bookmarks by `factor`, for a client whose clock runs that many times as fast."""
        self.hurry = factor

    # Objects.

    def put(self, obj):
        """Adds or replaces an object (a dict with kind and metadata). Returns its resourceVersion."""
        return self.store.put(obj).version

    def put_all(self, objects):
        """Puts several objects. Every client sees all of them at once. Returns the last resourceVersion."""
        return [self.put(o) for o in objects][-1]

    def delete(self, resource, namespace, name):
        """Deletes an object. Returns the deletion's resourceVersion. Raises KeyError if the object does not exist."""
        return self.store.delete(resource, namespace, name).version

    def get(self, resource, namespace, name):
        """Returns the object, or None."""
        return self.store.get(resource, namespace, name)

    def names(self, resource):
        """Returns [namespace, name] for all objects of a resource."""
        return [list(k) for k in self.store.tables[resource].keys]

    def load(self, **parameters):
        """Fills the store with a population (fields of population.Population). Returns the count and bytes of each resource."""
        self.population = population.Population(**parameters)
        self.store.fill(self.population.objects())
        # These objects live as long as the server. Python's garbage collection would visit all of them and stop every stream meanwhile.
        gc.collect()
        gc.freeze()
        return self.sizes()

    def fill(self, objects):
        """Adds many objects without events."""
        self.store.fill(objects)

    def slip(self, obj):
        """Adds or replaces an object, and no watch gets the event."""
        self.store.slip(obj)

    def lose(self, resource, namespace, name):
        """Deletes an object, and no watch gets the event."""
        self.store.lose(resource, namespace, name)

    def sizes(self):
        return {n: [len(t.items), sum(len(i.body) + 1 for i in t.items.values())] for n, t in self.store.tables.items()}

    def version(self):
        return self.store.version

    # Versions of the store.

    def advance(self, by=1):
        """Increases the resourceVersion, as writes to other resources do."""
        self.store.version += by

    def compact(self):
        """Expires all earlier versions and continue tokens. Open watches continue."""
        self.store.compact()

    def snapshot(self):
        number = next(self._numbers)
        self.snapshots[number] = self.store.snapshot()
        return number

    def restore(self, number, drop="rst"):
        """Restores an earlier store with its versions (etcd from a backup). Ends all connections unless `drop` is None."""
        self.store.restore(self.snapshots[number])
        if drop:
            self.drop_connections(drop)

    # Faults.

    def fault(self, **fields):
        """Adds a rule (fields of faults.Fault) for requests from now on. The first matching rule is applied. Returns its ID."""
        fault = Fault(**fields)
        self.faults.append(fault)
        return fault.id

    def clear(self, fault=None):
        """Removes a rule, or all rules."""
        self.faults = [f for f in self.faults if fault is not None and f.id != fault]

    def met(self, fault):
        """Returns the number of requests to which a rule was applied."""
        return next(f.met for f in self.faults if f.id == fault)

    def fault_for(self, resource, verb):
        for fault in self.faults:
            if fault.matches(resource, verb):
                fault.met += 1
                return fault
        return None

    def _watchers(self, resource):
        tables = [self.store.tables[resource]] if resource else self.store.tables.values()
        return [w for t in tables for w in t.watchers]

    def inject(self, resource, text, encoding="utf-8"):
        """Sends these raw bytes to all open watches of a resource: garbage, half an event, or an event that the test made."""
        watchers = self._watchers(resource)
        for watcher in watchers:
            watcher.push(text.encode(encoding))
        return len(watchers)

    def inject_error(self, resource, code=410, reason="Expired", message="too old resource version"):
        """Sends an ERROR event to all open watches of a resource and ends them."""
        status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message,
                  "reason": reason, "code": code}  # fmt: skip
        count = self.inject(resource, (encode({"type": "ERROR", "object": status}) + b"\n").decode())
        self.end_watches(resource)
        return count

    def bookmark(self, resource):
        """Sends a bookmark to all open watches of a resource now."""
        watchers = self._watchers(resource)
        for watcher in watchers:
            watcher.push(self.api.bookmark(watcher.table))
        return len(watchers)

    def end_watches(self, resource=None):
        """Ends the open watches of a resource, or of all resources, in an orderly way. Returns their number."""
        watchers = self._watchers(resource)
        for watcher in watchers:
            watcher.end()
        return len(watchers)

    # Changes.

    async def churn(self, rate, seconds, seed=1, headless_only=False, wait=True):
        """
        Changes `rate` slices of the loaded population per second. Each change adds an endpoint to a random slice, or removes the endpoint
        that an earlier change added. changes() reports them. With wait=False the changes continue in the background until they are done or
        stop_churn() is called.
        """
        await self.stop_churn()
        self.changed = []
        self.churning = asyncio.get_running_loop().create_task(self._churn(rate, seconds, seed, headless_only))
        if wait:
            await self.churning

    async def stop_churn(self):
        if self.churning:
            self.churning.cancel()
            await asyncio.gather(self.churning, return_exceptions=True)
            self.churning = None

    async def _churn(self, rate, seconds, seed, headless_only):
        chooser, begun = random.Random(seed), time.monotonic()
        slices = self.population.slice_numbers(headless_only)
        for n in range(int(rate * seconds)):
            wait = begun + n / rate - time.monotonic()
            if wait > 0 or n % 16 == 0:
                await asyncio.sleep(max(0, wait))
            i = chooser.choice(slices)
            obj = self.store.get("endpointslices", *self.population.slice_key(i))
            what = self.population.change(obj, i, n, time.time())
            self.changed.append((what, self.store.put(obj)))
            # Yields to the writers even without a pause. Otherwise a burst would be a single write.

    def changes(self, since=0):
        """
        Returns the changes of churn, oldest first: namespace, service, slice, added or removed (address), hostname, resourceVersion, and
        two times on CLOCK_MONOTONIC in ns. made_ns is the time when the change was in the store. written_ns is the time when the change was
        written to the first watch's connection, or None if it was not written yet.
        """
        return [
            {**what, "resourceVersion": str(e.version), "made_ns": e.made_ns, "written_ns": e.written_ns}
            for what, e in self.changed[since:]
        ]

    def written(self, resource, since):
        """
        Returns [resourceVersion, written_ns] for all changes of a resource after this version, oldest first. written_ns has the same
        meaning as in changes().
        """
        return [[e.version, e.written_ns] for e in self.store.tables[resource].since(since)]

    # The request log.

    def record(self, stream, target, verb):
        request = stream.request
        record = {
            "n": len(self.log) + 1, "time": time.monotonic(), "verb": verb, "method": request.method, "path": request.path,
            "resource": target.resource.name if target.resource else None, "namespace": target.namespace, "name": target.name,
            "params": request.params, "http": request.http, "user_agent": request.headers.get("user-agent"),
            "accept_encoding": request.headers.get("accept-encoding"), "authorized": "authorization" in request.headers,
            "user": None, "connection": id(stream.conn), "status": None, "bytes": 0, "ended": None, "end_time": None,
        }  # fmt: skip
        self.log.append(record)
        self.log_changed.set()
        return record

    def requests(self, since=0, **match):
        """
        Returns the requests with a number above `since` whose fields equal the fields in `match`. Fields: n, time (CLOCK_MONOTONIC, s),
        verb, resource, namespace, name, params, path, http, user_agent, user, status, bytes (of the body so far), ended (None while open,
        complete, cut, gone).
        """
        keep = (r for r in self.log[since:] if all(r.get(k) == v for k, v in match.items()))
        return [{k: v for k, v in r.items() if k != "watcher"} for r in keep]

    def count(self, since=0, **match):
        return sum(1 for r in self.log[since:] if all(r.get(k) == v for k, v in match.items()))

    async def wait_requests(self, count=1, timeout=10.0, since=0, **match):
        """Waits until this number of requests match and returns them. Otherwise raises TimeoutError."""
        deadline = time.monotonic() + timeout
        while self.count(since, **match) < count:
            self.log_changed.clear()
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"{self.count(since, **match)} of {count} requests {match} in {timeout} s")
            # Fields such as status can change without a new request. So each wait is short.
            try:
                await asyncio.wait_for(self.log_changed.wait(), min(left, 0.02))
            except asyncio.TimeoutError:
                pass
        return self.requests(since, **match)

    def watching(self, resource):
        """The number of open watches of a resource."""
        return len(self.store.tables[resource].watchers)

    async def wait_watching(self, resource, count=1, timeout=10.0):
        deadline = time.monotonic() + timeout
        while self.watching(resource) < count:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.watching(resource)} of {count} watches of {resource} in {timeout} s")
            await asyncio.sleep(0.005)

    def connected(self):
        """The number of open connections, after the TLS handshake."""
        return len(self.connections)

    def stats(self):
        return {"requests": len(self.log), "connections": len(self.connections), "version": self.store.version,
                "bytes": sum(r["bytes"] for r in self.log), "cpu_s": time.process_time()}  # fmt: skip

    async def handle(self, stream):
        await self.api.handle(stream)


FAULT_FIELDS = [f.name for f in dataclasses.fields(Fault)]
