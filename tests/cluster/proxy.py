"""A stand-in for kube-proxy: each pod's own network namespace gets the rules that send a Service's address to one of its
endpoints, by chance, query by query; the rules follow the real EndpointSlices."""

import threading
import time

from plane import Watcher
from run import Failed, alive, in_netns
from waiting import wait_for

CHAIN = ":KUBE-SVC - [0:0]"  # named in a restore without flush, it is made or emptied; rules of a test stay


class Proxy:
    def __init__(self, api, namespaces=("kube-system", "default")):
        self.namespaces = namespaces
        self.pids, self.lock = set(), threading.RLock()
        self.rules, self.serving, self.targets = "", {}, {}
        self.left = {}  # address -> time of day when the rules in force stopped to send to it
        self.services = Watcher(api, "/api/v1/services", self._changed)
        self.slices = Watcher(api, "/apis/discovery.k8s.io/v1/endpointslices", self._changed)

    def _changed(self, _kind, obj):
        if obj["metadata"]["namespace"] not in self.namespaces or not hasattr(self, "slices"):
            return
        with self.lock:
            rules, serving, targets = self._render()
            if (rules, serving) == (self.rules, self.serving):
                return
            gone = {(vip, a) for vip, old in self.serving.items() for a in old - serving.get(vip, set())}
            left = {a for vip, old in self.targets.items() for a in old - targets.get(vip, set())}
            for pid in list(self.pids):
                self._apply(pid, rules, gone)
            self.left.update(dict.fromkeys(left, time.time()))
            self.rules, self.serving, self.targets = rules, serving, targets  # only now: who reads them wants what is in force

    def _endpoints(self, service):
        """Addresses with their ports: the ready ones, else those that serve while they end; and all that serve."""
        ready, fallback, serving = [], [], set()
        for s in self.slices.list():
            m = s["metadata"]
            if m["namespace"] != service["metadata"]["namespace"] or s["addressType"] != "IPv4" \
                    or m.get("labels", {}).get("kubernetes.io/service-name") != service["metadata"]["name"]:
                continue
            for e in s.get("endpoints") or []:
                c = e.get("conditions", {})
                for p in s.get("ports") or []:
                    entry = (p.get("name") or "", e["addresses"][0], p["port"])
                    if c.get("ready", True):
                        ready.append(entry)
                    elif c.get("serving") and c.get("terminating"):
                        fallback.append(entry)
                    if c.get("ready", True) or c.get("serving"):
                        serving.add(e["addresses"][0])
        return sorted(ready or fallback), serving

    def _render(self):
        nat, filter_, all_serving, targets = [], [], {}, {}
        for service in sorted(self.services.list(), key=Watcher.key):
            vip = service["spec"].get("clusterIP", "None")
            if service["metadata"]["namespace"] not in self.namespaces or vip in ("None", "") or ":" in vip:
                continue
            endpoints, all_serving[vip] = self._endpoints(service)
            targets[vip] = {a for _, a, _ in endpoints}
            for port in service["spec"]["ports"]:
                match = f"-A KUBE-SVC -d {vip}/32 -p {port['protocol'].lower()} --dport {port['port']}"
                chosen = [(a, p) for name, a, p in endpoints if name == port.get("name", "")]
                for i, (address, target) in enumerate(chosen):
                    chance = f"-m statistic --mode random --probability {1 / (len(chosen) - i):.6f} " if i < len(chosen) - 1 else ""
                    nat.append(f"{match} {chance}-j DNAT --to-destination {address}:{target}")
                if not chosen:
                    filter_.append(f"{match} -j REJECT")
        return "\n".join(["*nat", CHAIN, *nat, "COMMIT", "*filter", CHAIN, *filter_, "COMMIT", ""]), all_serving, targets

    def _apply(self, pid, rules, gone=()):
        try:
            in_netns(pid, "iptables-restore", "-w", "--noflush", input=rules)
        except Failed:
            if alive(pid):
                raise
            self.pids.discard(pid)
            return
        for vip, address in gone:
            self._forget(pid, vip, address)

    @staticmethod
    def _forget(pid, vip, address):
        """Flows to an endpoint that serves no more. A dump of a busy table can miss some: until none is found."""
        for _ in range(10):
            try:
                in_netns(pid, "conntrack", "-D", "-p", "udp", "--orig-dst", vip, "--reply-src", address)
            except Failed as e:  # none found, or one that ended by itself meanwhile
                if "0 flow entries" in str(e) or not alive(pid):
                    return

    def add(self, pid):
        with self.lock:
            self.pids.add(pid)
            if not self.rules:
                self.rules, self.serving, self.targets = self._render()
            self._apply(pid, self.rules)
            for table in ("nat", "filter"):
                in_netns(pid, "iptables", "-w", "-t", table, "-A", "OUTPUT", "-j", "KUBE-SVC")

    def sends_to(self, addresses):
        """Whether the rules in force send some Service's address to all of these and to no other."""
        with self.lock:
            return addresses in self.targets.values()

    def await_left(self, address, since, timeout=30):
        """When, after `since`, the rules stopped to send to an address."""
        wait_for(lambda: self.left.get(address, 0) >= since, timeout, f"no rule for {address}")
        return self.left[address]

    def remove(self, pid):
        with self.lock:
            self.pids.discard(pid)

    def stop(self):
        self.services.stop()
        self.slices.stop()
