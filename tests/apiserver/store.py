"""
The stand-in's objects and their changes.

    put, delete --> Table.items (encoded once) --> Event --> history of the table, and every Watcher

put() encodes an object once, without its leading brace. List items and watch events consist of these bytes with different prefixes.
One counter gives every write its resourceVersion, like etcd's revision.
"""

import asyncio
import bisect
import json
import time

from .resources import BY_KIND, RESOURCES
from .selection import NODE, PHASE

HISTORY = 20_000  # number of events that a table remembers; a watch from an earlier version gets 410


def encode(value):
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


class Item:
    """One version of one object. It never changes."""

    __slots__ = ("namespace", "name", "labels", "version", "body")

    def __init__(self, namespace, name, labels, version, body):
        self.namespace, self.name, self.labels, self.version, self.body = namespace, name, labels, version, body

    @property
    def key(self):
        return (self.namespace, self.name)


class Event:
    """A change of an object. `item` is the object after the change, or its last state if it was deleted. `before` is the object before the change."""

    __slots__ = ("type", "item", "before", "version", "made_ns", "written_ns", "_wire")

    def __init__(self, type_, item, before, version):
        self.type, self.item, self.before, self.version = type_, item, before, version
        self.made_ns, self.written_ns = time.monotonic_ns(), None
        self._wire = {}

    def wire(self, head, as_type=None):
        """Returns the event's line in the watch stream. The line is built once for each type under which watchers see the event."""
        type_ = as_type or self.type
        if type_ not in self._wire:
            self._wire[type_] = wire_event(type_, head, self.item)
        return self._wire[type_]


def wire_event(type_, head, item):
    return b"".join((b'{"type":"', type_.encode(), b'","object":', head, item.body, b"}\n"))


class Table:
    """All objects of one resource."""

    def __init__(self, resource):
        self.resource = resource
        self.head = f'{{"kind":"{resource.kind}","apiVersion":"{resource.api_version}",'.encode()
        self.items = {}
        self.keys = []  # sorted by key, as in etcd's answers
        self.history = []
        self.oldest = 0  # a watch may start at this version or later
        self.watchers = set()

    def select(self, namespace=None, match_labels=None, match_fields=None):
        """The items in the order of their keys."""
        items = map(self.items.__getitem__, self.keys)
        if namespace is not None:
            items = (i for i in items if i.namespace == namespace)
        if match_fields:
            items = (i for i in items if match_fields(i.namespace, i.name))
        if match_labels:
            items = (i for i in items if match_labels(i.labels))
        return list(items)

    def select_at(self, version, namespace=None, match_labels=None, match_fields=None):
        """The objects as they were at `version`. Returns None if the events since then are not remembered."""
        if version < self.oldest:
            return None
        items = dict(self.items)
        for event in reversed(list(self.since(version))):
            if event.before is None:
                items.pop(event.item.key, None)
            else:
                items[event.before.key] = event.before
        was = Table(self.resource)
        was.items, was.keys = items, sorted(items)
        return was.select(namespace, match_labels, match_fields)

    def since(self, version):
        """The remembered events after `version`."""
        at = bisect.bisect_right(self.history, version, key=lambda e: e.version)
        return self.history[at:]

    def record(self, event):
        self.history.append(event)
        if len(self.history) > 2 * HISTORY:
            self.oldest = self.history[HISTORY - 1].version
            del self.history[:HISTORY]
        for watcher in self.watchers:
            watcher.offer(event)


class Store:
    def __init__(self, version=1000):
        self.version = version
        self.tables = {name: Table(r) for name, r in RESOURCES.items()}
        self.pages = {}  # the snapshots of continue tokens: version -> items

    @staticmethod
    def resource_of(obj):
        try:
            return BY_KIND[obj["kind"]]
        except KeyError:
            raise ValueError(f"no resource for kind {obj.get('kind')!r}") from None

    def _item(self, resource, obj, version):
        meta = obj["metadata"]
        meta["resourceVersion"] = str(version)
        body = encode({k: v for k, v in obj.items() if k not in ("kind", "apiVersion")})[1:]
        labels = meta.get("labels") or {}
        if resource.name == "pods":
            labels = {**labels, PHASE: obj.get("status", {}).get("phase", ""), NODE: obj.get("spec", {}).get("nodeName", "")}
        return Item(meta.get("namespace", "") if resource.namespaced else "", meta["name"], labels, version, body)

    def put(self, obj):
        """Adds or replaces an object and returns the Event."""
        table = self.tables[self.resource_of(obj).name]
        self.version += 1
        item = self._item(table.resource, obj, self.version)
        before = table.items.get(item.key)
        if before is None:
            bisect.insort(table.keys, item.key)
        table.items[item.key] = item
        event = Event("MODIFIED" if before else "ADDED", item, before, self.version)
        table.record(event)
        return event

    def delete(self, resource, namespace, name):
        """Removes an object. The Event contains its last state with the deletion's version, as in the API server."""
        table = self.tables[resource]
        key = (namespace or "", name)
        before = table.items.pop(key)
        table.keys.pop(bisect.bisect_left(table.keys, key))
        self.version += 1
        obj = json.loads(b"{" + before.body)
        event = Event("DELETED", self._item(table.resource, obj, self.version), before, self.version)
        table.record(event)
        return event

    def fill(self, objects):
        """Puts many objects without events, as if they existed before the first watch."""
        for obj in objects:
            table = self.tables[self.resource_of(obj).name]
            self.version += 1
            item = self._item(table.resource, obj, self.version)
            if item.key not in table.items:
                table.keys.append(item.key)
            table.items[item.key] = item
        for table in self.tables.values():
            table.keys.sort()
        self.forget()

    def lose(self, resource, namespace, name):
        """Removes an object without an event."""
        table = self.tables[resource]
        key = (namespace or "", name)
        del table.items[key]
        table.keys.pop(bisect.bisect_left(table.keys, key))
        self.version += 1

    def slip(self, obj):
        """Adds or replaces an object without an event. Other events stay remembered."""
        table = self.tables[self.resource_of(obj).name]
        self.version += 1
        item = self._item(table.resource, obj, self.version)
        if item.key not in table.items:
            bisect.insort(table.keys, item.key)
        table.items[item.key] = item

    def get(self, resource, namespace, name):
        table = self.tables[resource]
        item = table.items.get((namespace or "", name))
        return json.loads(table.head + item.body) if item else None

    def forget(self):
        """Forgets all events, as after a restart. A watch can then continue only from the current version."""
        for table in self.tables.values():
            table.history, table.oldest = [], self.version

    def compact(self):
        """Increases the version. Then forgets all events and the snapshots of continue tokens, like a compaction of etcd."""
        self.version += 1
        self.forget()
        self.pages = {}

    def snapshot(self):
        return self.version, {name: dict(t.items) for name, t in self.tables.items()}

    def restore(self, snapshot):
        """Restores a snapshot and its version, as if a backup of etcd was restored."""
        self.version, tables = snapshot[0], snapshot[1]
        for name, items in tables.items():
            self.tables[name].items = dict(items)
            self.tables[name].keys = sorted(items)
        self.pages = {}
        self.forget()


class Watcher:
    """The queue of one open watch: data that it still has to send. Events wait here as references to bytes that all watchers share."""

    def __init__(self, table, namespace=None, match_labels=None, match_fields=None):
        self.table = table
        self.namespace, self.match_labels, self.match_fields = namespace, match_labels, match_fields
        self.pending = []  # (bytes, Event or None)
        self.wake = asyncio.Event()
        self.ended = False  # an orderly end was requested

    def offer(self, event):
        if line := self.line(event):
            self.push(line, event)

    def push(self, line, event=None):
        self.pending.append((line, event))
        self.wake.set()

    def end(self):
        self.ended = True
        self.wake.set()

    def line(self, event):
        """The event as this watch sees it: an object that enters the selection is ADDED, an object that leaves it is DELETED."""
        item = event.item
        if self.namespace is not None and item.namespace != self.namespace:
            return None
        if self.match_fields and not self.match_fields(item.namespace, item.name):
            return None
        if not self.match_labels:
            return event.wire(self.table.head)
        is_in = event.type != "DELETED" and self.match_labels(item.labels)
        was_in = event.before is not None and self.match_labels(event.before.labels)
        if is_in:
            return event.wire(self.table.head, "MODIFIED" if was_in else "ADDED")
        return event.wire(self.table.head, "DELETED") if was_in else None
