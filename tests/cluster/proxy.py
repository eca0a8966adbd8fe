"""
A stand-in for kube-proxy. The rules in each pod's network namespace send each query for a Service's address to a random endpoint. They
follow the real EndpointSlices.
"""

import concurrent.futures
import threading
import time

from plane import Watcher
from run import Failed, alive, in_netns
from waiting import wait_for

CHAIN = ":KUBE-SVC - [0:0]"  # iptables-restore without flush creates or empties only this chain, so a test's own rules stay


class Proxy:
    def __init__(self, api, namespaces=("kube-system", "default")):
        self.namespaces = namespaces
        self.pids, self.lock = set(), threading.RLock()
        self.commands = concurrent.futures.ThreadPoolExecutor(32)
        self.rules, self.serving, self.targets = "", {}, {}
        self.left = {}  # address -> time of day when the installed rules stopped sending to it
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
            # Each command waits for a processor. One after the other, on a busy machine, they take longer than an old pod still answers.
            pids = list(self.pids)
            list(self.commands.map(lambda pid: self._apply(pid, rules), pids))
            list(self.commands.map(lambda flow: self._forget(*flow), [(pid, *g) for pid in pids for g in gone]))
            self.left.update(dict.fromkeys(left, time.time()))
            self.rules, self.serving, self.targets = rules, serving, targets  # set last, because readers want the rules that are installed

    def _endpoints(self, service):
        """
        Returns the endpoints of the Service by port. These are the ready endpoints. If no endpoint is ready, these are the terminating
        endpoints that still serve. Also returns the addresses of all endpoints that serve.
        """
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

    def _apply(self, pid, rules):
        try:
            in_netns(pid, "iptables-restore", "-w", "--noflush", input=rules)
        except Failed:
            if alive(pid):
                raise
            self.pids.discard(pid)

    @staticmethod
    def _forget(pid, vip, address):
        """Deletes the flows to an endpoint that no longer serves. One pass can miss flows in a busy table, so this repeats until no such flow is left."""
        for _ in range(10):
            try:
                in_netns(pid, "conntrack", "-D", "-p", "udp", "--orig-dst", vip, "--reply-src", address)
            except Failed as e:  # no flow was left, or the process has exited meanwhile
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
        """True if there is a Service whose packets the installed rules send to exactly these endpoints."""
        with self.lock:
            return addresses in self.targets.values()

    def await_left(self, address, since, timeout=30):
        """Waits until the rules stop sending to an address, after the time `since`. Returns the time when they stopped."""
        wait_for(lambda: self.left.get(address, 0) >= since, timeout, f"no rule for {address}")
        return self.left[address]

    def remove(self, pid):
        with self.lock:
            self.pids.discard(pid)

    def stop(self):
        self.services.stop()
        self.slices.stop()
