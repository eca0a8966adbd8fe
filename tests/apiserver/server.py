"""
The stand-in itself: listener, connections, users, and everything that a test may do to it while it runs. The methods without
a leading underscore and with plain arguments are what ApiServer and ApiProcess offer; they run in the server's own thread or
process, one at a time, so that each is one moment for every client.
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
        self.too_large_wait_s = 3.0  # how long the real one waits for a version of the future before its 504
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
        self.changed = []  # what churn did
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
        """Listens, at the same port as before if it has had one."""
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
            sock.close()  # a client that did not like the certificate, or went away

    async def stop(self, how="rst"):
        """Stops listening and ends all connections: rst, fin or close; "keep" leaves them as they are."""
        if self._accepting:
            self._accepting.cancel()
            self._listener.close()
            self._listener = self._accepting = None
        self._release()
        if how != "keep":
            self.drop_connections(how)

    async def restart(self, how="rst", history=False):
        """Away and back at once. As a real API server it has then forgotten its events, unless `history`."""
        await self.stop(how)
        if not history:
            self.store.forget()
            self.store.pages = {}
        return await self.start()

    async def stop_orderly(self, linger_s=60.0):
        """As kube-apiserver does at SIGTERM: the port closes and HTTP/2 gets GOAWAY; open watches stay, silent, and end later."""
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
        """GOAWAY on all HTTP/2 connections, whose streams go on; idle HTTP/1.1 connections are closed."""
        for conn in list(self.connections):
            if conn.speaks:
                conn.speaks.goaway()

    def drop_connections(self, how="rst"):
        """Ends all connections: rst, fin (without TLS's goodbye) or close (in order). Returns how many."""
        conns = list(self.connections)
        for conn in conns:
            conn.end(how)
        return len(conns)

    def accept(self, how="serve"):
        """What happens to new connections: serve, hang (accepted, then nothing), reset, garbage (bytes before TLS)."""
        self.accept_as = how
        if how != "hang":
            self._release()

    def _release(self):
        for sock in self._held:
            sock.close()
        self._held = []

    def freeze(self):
        """Writes nothing more on any connection until thaw(); the kernel still acknowledges."""
        self.thawed.clear()

    def thaw(self):
        self.thawed.set()

    def new_certificate(self, ca="same", names=None, days=(-1, 30)):
        """
        For connections from now on: a new certificate from the same authority ("same"), or from a new one ("other", whose file
        is returned; clients that trust the old one will refuse it). `days`: valid from and to, relative to now.
        """
        if ca == "other":
            self.ca = Authority(self.directory, f"ca-{next(self._numbers)}")
        self.context = self._context(*self.ca.server(names or self.certified, tuple(days)))
        return self.ca.ca_file

    def client_certificate(self, user, group=None):
        """[certificate file, key file] for a user."""
        return list(self.client_ca.client(user, group))

    # Users and rights.

    def add_token(self, token=None, user="system:serviceaccount:kube-system:kube-dns"):
        token = token or secrets.token_urlsafe(24)
        self.tokens[token] = user
        return token

    def revoke_token(self, token=None):
        """This one, or all."""
        if token is None:
            self.tokens.clear()
        else:
            self.tokens.pop(token, None)

    def forbid(self, resource, verbs=("list", "watch", "get"), user=None):
        """403 for these verbs of a resource, for a user or for all, from the next request on. Open watches go on, as in reality."""
        self.forbidden |= {(user, resource, v) for v in verbs}

    def allow(self, resource, verbs=("list", "watch", "get"), user=None):
        self.forbidden -= {(user, resource, v) for v in verbs}

    def is_forbidden(self, user, resource, verb):
        anonymous = self.authentication and user == "system:anonymous"
        return anonymous or not self.forbidden.isdisjoint({(user, resource, verb), (None, resource, verb)})

    def absent(self, what):
        """404 for a group ("discovery.k8s.io") or a resource ("endpointslices")."""
        self.missing.add(what)

    def present(self, what):
        self.missing.discard(what)

    def set_phase(self, phase):
        """forbidden (403 to everything, RBAC is not loaded), failing (500), ready."""
        self.phase = phase

    def set_watchlist(self, on):
        """Off: 422, as a server without the feature."""
        self.watchlist = on

    def set_turns(self, seats, queue, hold_s):
        """So many lists at a time, each for so long, so many more in a queue, 429 and Retry-After: 1 for the others (turns.Turns). 0 seats: all at once."""
        self.turns = Turns(seats, queue, hold_s) if seats else None

    def turns_taken(self):
        """How many lists had a turn since then, and how many were refused."""
        return self.turns.granted, self.turns.refused

    def set_bookmarks(self, seconds):
        """How often watches that asked for bookmarks get one."""
        self.bookmark_s = seconds

    def set_too_large_wait(self, seconds):
        self.too_large_wait_s = seconds

    def set_hurry(self, factor):
        """For a client whose clock runs so many times as fast: watches last as much less, bookmarks come as much sooner."""
        self.hurry = factor

    # Objects.

    def put(self, obj):
        """Adds or replaces an object (a dict with kind and metadata); returns its resourceVersion."""
        return self.store.put(obj).version

    def put_all(self, objects):
        """Several puts as one moment for every client; returns the last one's resourceVersion."""
        return [self.put(o) for o in objects][-1]

    def delete(self, resource, namespace, name):
        """Deletes an object; returns the deletion's resourceVersion. KeyError if there is none."""
        return self.store.delete(resource, namespace, name).version

    def get(self, resource, namespace, name):
        """The object, or None."""
        return self.store.get(resource, namespace, name)

    def names(self, resource):
        """[namespace, name] of all objects of a resource."""
        return [list(k) for k in self.store.tables[resource].keys]

    def load(self, **parameters):
        """Fills the store with a population (population.Population's fields); returns the counts and bytes of each resource."""
        self.population = population.Population(**parameters)
        self.store.fill(self.population.objects())
        # They live as long as the server: a collection that walked them would stop every stream meanwhile.
        gc.collect()
        gc.freeze()
        return self.sizes()

    def fill(self, objects):
        """Many objects without events."""
        self.store.fill(objects)

    def sizes(self):
        return {n: [len(t.items), sum(len(i.body) + 1 for i in t.items.values())] for n, t in self.store.tables.items()}

    def version(self):
        return self.store.version

    # Time in the store.

    def advance(self, by=1):
        """Moves the resourceVersion on as writes to resources that nobody here watches do."""
        self.store.version += by

    def compact(self):
        """Every earlier version and continue token is expired from now on; open watches go on."""
        self.store.compact()

    def snapshot(self):
        number = next(self._numbers)
        self.snapshots[number] = self.store.snapshot()
        return number

    def restore(self, number, drop="rst"):
        """The store as it was, its versions too (etcd from a backup). Connections are ended unless drop is None."""
        self.store.restore(self.snapshots[number])
        if drop:
            self.drop_connections(drop)

    # Faults.

    def fault(self, **fields):
        """A rule (faults.Fault's fields) for requests from now on; the first that matches is applied. Returns its id."""
        fault = Fault(**fields)
        self.faults.append(fault)
        return fault.id

    def clear(self, fault=None):
        """Ends a rule, or all."""
        self.faults = [f for f in self.faults if fault is not None and f.id != fault]

    def met(self, fault):
        """How many requests a rule has met."""
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
        """These bytes, as they are, into all open watches of a resource: garbage, half an event, an event of our own."""
        watchers = self._watchers(resource)
        for watcher in watchers:
            watcher.push(text.encode(encoding))
        return len(watchers)

    def inject_error(self, resource, code=410, reason="Expired", message="too old resource version"):
        """An ERROR event into all open watches of a resource, which then end."""
        status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message,
                  "reason": reason, "code": code}  # fmt: skip
        count = self.inject(resource, (encode({"type": "ERROR", "object": status}) + b"\n").decode())
        self.end_watches(resource)
        return count

    def bookmark(self, resource):
        """A bookmark now, into all open watches of a resource."""
        watchers = self._watchers(resource)
        for watcher in watchers:
            watcher.push(self.api.bookmark(watcher.table))
        return len(watchers)

    def end_watches(self, resource=None):
        """A clean end of the open watches of a resource, or of all. Returns how many."""
        watchers = self._watchers(resource)
        for watcher in watchers:
            watcher.end()
        return len(watchers)

    # Changes.

    async def churn(self, rate, seconds, seed=1, headless_only=False, wait=True):
        """
        Changes `rate` slices a second of the population loaded: an endpoint is added to a random slice, or the added one taken
        away. changes() tells what happened. With wait=False it goes on in the background until it is done or stop_churn().
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
            # What is not slept for is still given to the writers, or a burst would be one write.

    def changes(self, since=0):
        """
        What churn did, oldest first: namespace, service, slice, added or removed (address), hostname, resourceVersion, and on
        CLOCK_MONOTONIC in ns made_ns (in the store) and written_ns (to the first watch's connection; None: to none yet).
        """
        return [
            {**what, "resourceVersion": str(e.version), "made_ns": e.made_ns, "written_ns": e.written_ns}
            for what, e in self.changed[since:]
        ]

    def written(self, resource, since):
        """[resourceVersion, written_ns] of all changes of a resource after this version, oldest first; written_ns as in changes()."""
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
        Requests number > since whose fields are as in `match`. Fields: n, time (CLOCK_MONOTONIC, s), verb, resource, namespace,
        name, params, path, http, user_agent, user, status, bytes (of the body so far), ended (None while open, complete, cut, gone).
        """
        keep = (r for r in self.log[since:] if all(r.get(k) == v for k, v in match.items()))
        return [{k: v for k, v in r.items() if k != "watcher"} for r in keep]

    def count(self, since=0, **match):
        return sum(1 for r in self.log[since:] if all(r.get(k) == v for k, v in match.items()))

    async def wait_requests(self, count=1, timeout=10.0, since=0, **match):
        """Waits until so many requests match; returns them. TimeoutError otherwise."""
        deadline = time.monotonic() + timeout
        while self.count(since, **match) < count:
            self.log_changed.clear()
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"{self.count(since, **match)} of {count} requests {match} in {timeout} s")
            # Fields such as status change without a new request, hence not longer than this at a time.
            try:
                await asyncio.wait_for(self.log_changed.wait(), min(left, 0.02))
            except asyncio.TimeoutError:
                pass
        return self.requests(since, **match)

    def watching(self, resource):
        """How many watches of a resource are open now."""
        return len(self.store.tables[resource].watchers)

    async def wait_watching(self, resource, count=1, timeout=10.0):
        deadline = time.monotonic() + timeout
        while self.watching(resource) < count:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.watching(resource)} of {count} watches of {resource} in {timeout} s")
            await asyncio.sleep(0.005)

    def connected(self):
        """How many connections are open, TLS done."""
        return len(self.connections)

    def stats(self):
        return {"requests": len(self.log), "connections": len(self.connections), "version": self.store.version,
                "bytes": sum(r["bytes"] for r in self.log), "cpu_s": time.process_time()}  # fmt: skip

    async def handle(self, stream):
        await self.api.handle(stream)


FAULT_FIELDS = [f.name for f in dataclasses.fields(Fault)]
