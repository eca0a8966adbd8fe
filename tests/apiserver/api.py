"""
The answers of kube-apiserver 1.36 to requests. All output goes through Shaped, which applies faults.

    handle --> route --> phase, user, rights --> faults --> list | watch | get
"""

import asyncio
import base64
import contextlib
import json
import random
import re
import time
import uuid
import zlib
from email.utils import formatdate

from . import selection
from .faults import Cut, Shaped
from .resources import RESOURCES
from .store import Watcher, wire_event
from .transport import Gone

BATCH = 128 * 1024  # a write has this many bytes; lists up to this size are not compressed
JSON = "application/json"


class Refused(Exception):
    """An answer that is a Status."""

    def __init__(self, code, reason, message, details=None, headers=None, continue_token=None):
        super().__init__(message)
        self.code, self.headers = code, headers or {}
        meta = {"continue": continue_token} if continue_token else {}
        self.status = {"kind": "Status", "apiVersion": "v1", "metadata": meta, "status": "Failure", "message": message,
                       "reason": reason, "details": details, "code": code}  # fmt: skip
        self.status = {k: v for k, v in self.status.items() if v or k == "metadata"}


def expired(message, **kw):
    return Refused(410, "Expired", message, **kw)


def too_large(version, current):
    return Refused(
        504, "Timeout", f"Timeout: Too large resource version: {version}, current: {current}",
        {"causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}], "retryAfterSeconds": 1},
        {"retry-after": "1"},
    )  # fmt: skip


def invalid(field, message):
    return Refused(
        422, "Invalid", f'ListOptions.meta.k8s.io "" is invalid: {field}: Forbidden: {message}',
        {"group": "meta.k8s.io", "kind": "ListOptions",
         "causes": [{"reason": "FieldValueForbidden", "message": f"Forbidden: {message}", "field": field}]},
    )  # fmt: skip


def parse_version(text, watch=False):
    """
    Returns the version as a number, or 0 for an empty text. The meaning of 0 depends on the caller. Rejects everything but digits, as the real
    server does.
    """
    if text and not text.isdigit():
        why = f'resourceVersion: Invalid value: "{text}": strconv.ParseUint: parsing "{text}": invalid syntax'
        raise Refused(500, "", why) if watch else Refused(400, "BadRequest", "invalid resource version: " + why)
    return int(text or 0)


def parse_number(text):
    if text and not text.isdigit():
        raise Refused(400, "BadRequest", f'strconv.ParseInt: parsing "{text}": invalid syntax')
    return int(text or 0)


class Target:
    """The resource, namespace and name of a path."""

    def __init__(self, path):
        self.resource = self.namespace = self.name = None
        for resource in RESOURCES.values():
            if not path.startswith(resource.prefix + "/"):
                continue
            parts = path[len(resource.prefix) + 1 :].split("/")
            if resource.namespaced and parts[0] == "namespaces" and len(parts) > 2:
                namespace, parts = parts[1], parts[2:]
            else:
                namespace = None
            if parts[0] == resource.name and len(parts) <= 2 and (namespace or len(parts) == 1 or not resource.namespaced):
                self.resource, self.namespace = resource, namespace
                self.name = parts[1] if len(parts) == 2 else None
                return


class Api:
    """The handlers. `server` holds the state: store, faults, users, phase."""

    def __init__(self, server):
        self.server = server

    async def handle(self, stream):
        request = stream.request
        target = Target(request.path)
        verb = self.verb(request, target)
        record = self.server.record(stream, target, verb)
        fault = self.server.fault_for(target.resource.name if target.resource else None, verb)
        shaped = Shaped(stream, fault, record)
        try:
            await self.answer(shaped, target, verb)
            record["ended"] = "complete"
        except (Cut, Gone):
            record["ended"] = "cut"
        except asyncio.CancelledError:
            record["ended"] = "gone"
            raise
        finally:
            record["end_time"] = time.monotonic()
            if record["ended"] is None:
                record["ended"] = "failed"

    @staticmethod
    def verb(request, target):
        if request.method != "GET":
            return request.method.lower()
        if target.name:
            return "get"
        if request.params.get("watch") not in ("1", "true"):
            return "list"
        return "watchlist" if request.params.get("sendInitialEvents") == "true" else "watch"

    def headers(self, content_type=JSON):
        return {"audit-id": str(uuid.uuid4()), "cache-control": "no-cache, private", "content-type": content_type,
                "date": formatdate(usegmt=True)}  # fmt: skip

    async def answer(self, out, target, verb):
        fault = out.fault
        if fault and fault.redirect:
            return await self.whole(out, 307, JSON, b"", {"location": fault.redirect})
        if whole := out.replacement():
            return await self.whole(out, *whole)
        try:
            if fault and fault.status:
                raise Refused(fault.status, fault.reason, fault.message or f"fault {fault.status}")
            self.check(out, target, verb)
            if target.resource is None:
                return await self.other(out)
            if target.name:
                return await self.get(out, target)
            async with self.turn(verb):
                await (self.watch if verb.startswith("watch") else self.list)(out, target)
        except Refused as no:
            await self.whole(out, no.code, JSON, json.dumps(no.status, separators=(",", ":")).encode(), no.headers)
        except selection.BadSelector as no:
            status = Refused(400, "BadRequest", str(no)).status
            await self.whole(out, 400, JSON, json.dumps(status, separators=(",", ":")).encode())

    def turn(self, verb):
        """Takes a turn for a list (see turns.Turns). Only lists need a turn."""
        turns = self.server.turns
        if turns is None or verb != "list":
            return contextlib.nullcontext()
        if not turns.has_room():
            raise Refused(429, "TooManyRequests", "Too many requests, please try again later.", headers={"retry-after": "1"})
        return turns.taken()

    async def whole(self, out, status, content_type, body, headers=None):
        head = {**self.headers(content_type), "content-length": str(len(body)), **(headers or {})}
        await out.start(status, head)
        await out.write(body)
        await out.end()

    # Authentication and authorization.

    def check(self, out, target, verb):
        server, request = self.server, out.request
        user = self.user(request, out.stream.conn)
        out.record["user"] = user
        if server.phase == "forbidden" or (server.phase == "failing" and target.resource is None):
            raise Refused(403, "Forbidden", f'forbidden: User "{user}" cannot get path "{request.path}"')
        if server.phase == "failing":
            raise Refused(500, "InternalError", "Internal error occurred: the server is starting")
        if request.method != "GET":
            raise Refused(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")
        if target.resource is None:
            return
        plain = "watch" if verb == "watchlist" else verb
        if server.is_forbidden(user, target.resource.name, plain):
            self.refuse(user, target, plain, request.params)
        if target.resource.group in server.missing or target.resource.name in server.missing:
            raise Refused(404, "NotFound", "the server could not find the requested resource", {})

    def user(self, request, conn):
        server = self.server
        if not server.authentication:
            return "system:unsecured"
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer":
            if token not in server.tokens:
                raise Refused(401, "Unauthorized", "Unauthorized")
            return server.tokens[token]
        return conn.user or "system:anonymous"

    @staticmethod
    def refuse(user, target, verb, params):
        r = target.resource
        selected = re.fullmatch(r"metadata\.name==?([^,]+)", params.get("fieldSelector", ""))
        name = target.name or (selected and selected[1]) or ""  # for authorization, a list of one name counts as a request for this name
        what = f'{r.qualified} "{name}"' if name else r.qualified
        scope = f'in the namespace "{target.namespace}"' if target.namespace else "at the cluster scope"
        raise Refused(
            403, "Forbidden",
            f'{what} is forbidden: User "{user}" cannot {verb} resource "{r.name}" in API group "{r.group}" {scope}',
            {k: v for k, v in (("name", name), ("group", r.group), ("kind", r.name)) if v},
        )  # fmt: skip

    # Requests for paths without a resource.

    async def other(self, out):
        path = out.request.path
        if path in ("/readyz", "/livez", "/healthz"):
            return await self.whole(out, 200, "text/plain; charset=utf-8", b"ok")
        if path == "/version":
            return await self.whole(out, 200, JSON, b'{"major":"1","minor":"36","gitVersion":"v1.36.3"}')
        await self.whole(out, 404, "text/plain; charset=utf-8", b"404 page not found\n")

    async def get(self, out, target):
        r = target.resource
        item = self.server.store.tables[r.name].items.get((target.namespace or "", target.name))
        if item is None:
            raise Refused(404, "NotFound", f'{r.qualified} "{target.name}" not found',
                          {k: v for k, v in (("name", target.name), ("group", r.group), ("kind", r.name)) if v})
        await self.whole(out, 200, JSON, self.server.store.tables[r.name].head + item.body)

    # Lists.

    def selection(self, out, target):
        params = out.request.params
        match_labels, fields = selection.labels(params.get("labelSelector")), params.get("fieldSelector")
        if target.resource.name == "pods":
            fields, of_pod = selection.pod(fields)
            match_labels = selection.both(match_labels, of_pod)
        return (target.namespace, match_labels, selection.fields(fields))

    async def list(self, out, target):
        store, params = self.server.store, out.request.params
        table = store.tables[target.resource.name]
        asked = parse_version(params.get("resourceVersion"))
        limit = parse_number(params.get("limit"))
        if params.get("resourceVersion") == "0":
            limit = 0  # the watch cache answers with the whole list
        if asked > store.version:
            await asyncio.sleep(self.server.too_large_wait_s)
            if asked > store.version:
                raise too_large(asked, store.version)
        if token := params.get("continue"):
            version, items = self.rest(token, table, self.selection(out, target))
        elif params.get("resourceVersionMatch") == "Exact":
            version, items = asked, table.select_at(asked, *self.selection(out, target))
            if items is None:
                raise expired("The provided resource version is too old.")
        else:
            version, items = store.version, table.select(*self.selection(out, target))
        meta = {"resourceVersion": str(version)}
        if limit and len(items) > limit:
            meta["continue"] = self.token(table, version, items[limit - 1].key, items)
            if not params.get("labelSelector") and not params.get("fieldSelector"):
                meta["remainingItemCount"] = len(items) - limit
            items = items[:limit]
        await self.send_list(out, table, meta, items)

    def token(self, table, version, last, items):
        """Returns a continue token. All pages come from the snapshot of the first page, which is kept until a compaction."""
        text = json.dumps({"v": "meta.k8s.io/v1", "rv": version, "start": last})
        token = base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")
        pages = self.server.store.pages
        pages[(table.resource.name, version)] = items
        while len(pages) > 16:
            del pages[next(iter(pages))]
        return token

    def rest(self, token, table, selection):
        try:
            said = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
            version, last = said["rv"], tuple(said["start"])
        except (ValueError, KeyError, TypeError):
            raise Refused(400, "BadRequest", "invalid continue token: continue key is not valid: " + token) from None
        if version == -1:  # from the token in a 410: the remaining items of the current version
            version, items = self.server.store.version, table.select(*selection)
        else:
            items = self.server.store.pages.get((table.resource.name, version))
        if items is None:
            again = base64.urlsafe_b64encode(json.dumps({"v": "meta.k8s.io/v1", "rv": -1, "start": last}).encode())
            raise expired(
                "The provided continue parameter is too old to display a consistent list result. You can start a new list "
                "without the continue parameter, or use the continue token in this response to retrieve the remainder.",
                continue_token=again.decode().rstrip("="),
            )
        return version, [i for i in items if i.key > last]

    async def send_list(self, out, table, meta, items):
        fault, request = out.fault, out.request
        kind = fault.kind if fault and fault.kind else table.resource.kind + "List"
        head, tail = {"kind": kind, "apiVersion": table.resource.api_version, "metadata": meta}, {}
        if table.resource.custom:
            head, tail = {"apiVersion": head["apiVersion"]}, {"kind": kind, "metadata": meta}
        head, tail = (json.dumps(part, separators=(",", ":"))[1:-1] for part in (head, tail))
        head, tail = f'{{{head},"items":'.encode(), (f",{tail}}}\n" if tail else "}\n").encode()
        # Only items of custom resources contain kind and apiVersion.
        body = self.list_body(head + b"[", items, b"]" + tail, table.head if table.resource.custom else b"{")
        if fault and fault.items is not None:
            body = [head + fault.items.encode() + tail]
        if request.headers.get("user-agent", "").startswith(("curl", "Wget", "Mozilla/5.0")):
            body = [json.dumps(json.loads(b"".join(body)), indent=2).encode()]
        headers = self.headers()
        if table.resource.name == "endpoints":
            headers["warning"] = '299 - "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"'
        size = sum(len(i.body) for i in items)
        squeeze = "gzip" in request.headers.get("accept-encoding", "") and size > BATCH
        if fault and fault.gzip is not None:
            squeeze = fault.gzip
        if squeeze:
            headers |= {"content-encoding": "gzip", "vary": "Accept-Encoding"}
        out.record["gzip"], out.record["items"] = squeeze, len(items)
        await out.start(200, headers)
        if squeeze:
            await self.send_gzipped(out, body, size, fault.gzip_members if fault else 1)
        else:
            for batch in body:
                await out.write(batch)
        await out.end()

    @staticmethod
    def list_body(head, items, tail, opening):
        """Yields the bytes of a list in batches."""
        parts, size = [head], 0
        first = True
        for item in items:
            parts.append(opening if first else b"," + opening)
            first = False
            parts.append(item.body)
            size += len(item.body)
            if size > BATCH:
                yield b"".join(parts)
                parts, size = [], 0
        yield b"".join(parts) + tail

    @staticmethod
    async def send_gzipped(out, body, size, members):
        """Compresses in another thread, because zlib releases the interpreter lock."""
        loop = asyncio.get_running_loop()
        share, done = size / members, 0
        squeezer = zlib.compressobj(1, zlib.DEFLATED, 31)
        for batch in body:
            data = await loop.run_in_executor(None, squeezer.compress, batch)
            done += len(batch)
            if members > 1 and done >= share:
                data += squeezer.flush()
                squeezer, done, members = zlib.compressobj(1, zlib.DEFLATED, 31), 0, members - 1
            if data:
                await out.write(data)
        await out.write(squeezer.flush())

    # Watches.

    async def watch(self, out, target):
        server, params = self.server, out.request.params
        table = server.store.tables[target.resource.name]
        initial = params.get("sendInitialEvents") == "true"
        version = self.watch_version(params, initial)
        parse_number(params.get("timeoutSeconds"))
        fault, bookmarks = out.fault, params.get("allowWatchBookmarks") in ("1", "true")
        watcher = Watcher(table, *self.selection(out, target))
        table.watchers.add(watcher)
        out.record["watcher"] = watcher
        try:
            start = self.beginning(table, watcher, version, initial or params.get("resourceVersion", "") in ("", "0"))
            # Makes the bookmark now. A later bookmark could have the version of an event that still waits in the watcher.
            mark = self.bookmark(table, end=True) if initial and not (fault and fault.no_end_bookmark) else b""
            out.record["expired"] = start is None
            await out.start(200, self.headers())
            if fault and fault.error:
                return await self.error_event(out, fault.error)
            if start is None:
                too_old = f"too old resource version: {version} ({table.oldest})"
                return await self.error_event(out, expired(too_old).status)
            if fault and fault.silent:
                return await self.silence(out)
            await self.send_initial(out, start, mark)
            await self.send_live(out, table, watcher, bookmarks and not (fault and fault.no_bookmarks))
        finally:
            table.watchers.discard(watcher)
            out.record.pop("watcher", None)

    def watch_version(self, params, initial):
        match = params.get("resourceVersionMatch", "")
        if initial and not self.server.watchlist:
            raise invalid("sendInitialEvents", "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled")
        if initial and match != "NotOlderThan":
            raise invalid("resourceVersionMatch", "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan")
        if match and not initial:
            raise invalid("resourceVersionMatch", "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided")
        return parse_version(params.get("resourceVersion"), watch=True)

    @staticmethod
    def beginning(table, watcher, version, whole):
        """Returns the first lines of a watch as (bytes, Event) pairs, or None if the version is too old."""
        if whole:
            items = table.select(watcher.namespace, watcher.match_labels, watcher.match_fields)
            return [(wire_event("ADDED", table.head, i), None) for i in items]
        if version < table.oldest:
            return None
        lines = ((watcher.line(e), e) for e in table.since(version))
        return [(line, e) for line, e in lines if line]

    def bookmark(self, table, end=False):
        meta = {"resourceVersion": str(self.server.store.version)}
        if end:
            meta["annotations"] = {"k8s.io/initial-events-end": "true"}
        text = json.dumps(meta, separators=(",", ":")) + table.resource.empty
        return b'{"type":"BOOKMARK","object":' + table.head + b'"metadata":' + text.encode() + b"}}\n"

    async def error_event(self, out, status):
        status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", **status}
        line = {"type": "ERROR", "object": status}
        await out.write(json.dumps(line, separators=(",", ":")).encode() + b"\n")
        await out.end()

    async def silence(self, out):
        timeout = self.lifetime(out)
        await asyncio.sleep(timeout if timeout is not None else 1e9)
        await out.end()

    @staticmethod
    async def send_initial(out, lines, mark):
        parts, size = [], 0
        for line, _ in lines:
            parts.append(line)
            size += len(line)
            if size > BATCH:
                await out.write(b"".join(parts))
                parts, size = [], 0
        parts.append(mark)
        if data := b"".join(parts):
            await out.write(data)

    def lifetime(self, out):
        """Returns the seconds until the server ends this watch, or None if it never does."""
        fault = out.fault
        if fault and fault.lifetime_s is not None:
            return fault.lifetime_s
        if fault and fault.overstay:
            return None
        return (parse_number(out.request.params.get("timeoutSeconds")) or random.uniform(1800, 3600)) / self.server.hurry

    async def send_live(self, out, table, watcher, bookmarks):
        lifetime = self.lifetime(out)
        begun = marked = time.monotonic()
        every = self.server.bookmark_s / self.server.hurry
        while True:
            if watcher.pending:
                batch, watcher.pending = watcher.pending, []
                written = await out.write(b"".join(line for line, _ in batch))
                for _, event in batch:
                    if event is not None and event.written_ns is None:
                        event.written_ns = written
                out.record["events"] = out.record.get("events", 0) + len(batch)
                continue
            now = time.monotonic()
            if watcher.ended or (lifetime is not None and now >= begun + lifetime):
                return await out.end()
            if bookmarks and now >= marked + every:
                marked = now
                await out.write(self.bookmark(table))
                continue
            watcher.wake.clear()
            deadlines = [begun + lifetime] if lifetime is not None else []
            deadlines += [marked + every] if bookmarks else []
            try:
                await asyncio.wait_for(watcher.wake.wait(), min(deadlines, default=now + 3600) - now)
            except asyncio.TimeoutError:
                pass
