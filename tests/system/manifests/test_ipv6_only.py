"""
Pods of a cluster without IPv4: the containers of each overlay run with the arguments that kubectl renders. The namespace of a pod has IPv4 only
on its loopback interface, as in every cluster: Linux adds 127.0.0.1/8 when the interface comes up. The upstream server has an IPv6 address too.
"""

import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

import dns.reversename
import pytest

from netns import needs_ipv6
from node_world import Space, run
from objects import namespace, service
from overlays import copy, needs_kubectl, render
from waiting import wait_for

BIN = pathlib.Path(os.environ.get("BUILD", "build")).resolve() / "bin"
PROGRAMS = {"kubedns": "kubedns", "dnsmasq": "nanny", "sidecar": "sidecar"}
DNS, UPSTREAM_SERVICE, WEB = "fd00:10:96::a", "fd00:10:96::b", "fd00:10:96::80"
POD, OUTSIDE = "fd00:10:244::5", "fd00:10:244::1"  # the pod, and the other end of its link
UID = "4e5c54b8-0f3d-4f0c-a1e5-3a52c2fb0d0f"

pytestmark = needs_kubectl

# A name server at the other end of the link.
UPSTREAM = f"""
import socket, dns.message, dns.rrset
s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
s.bind(("{OUTSIDE}", 53))
print("ready", flush=True)
while True:
    data, peer = s.recvfrom(4096)
    query = dns.message.from_wire(data)
    reply = dns.message.make_response(query, recursion_available=True)
    if query.question[0].rdtype == 28:
        reply.answer.append(dns.rrset.from_text(query.question[0].name, 60, "IN", "AAAA", "2001:db8::80"))
    s.sendto(reply.to_wire(), peer)
"""


class Pod:
    """One pod of an overlay, in a namespace with the address POD. `there` is the namespace of the clients and of the upstream server."""

    def __init__(self, tmp_path):
        self.tmp_path, self.spaces, self.running = tmp_path, [], []
        self.directory = tempfile.TemporaryDirectory(prefix="kd")
        self.root = pathlib.Path(self.directory.name)
        self.root.chmod(0o755)
        tag = f"kd{os.getpid()}"
        self.pod, self.there = (self.space(f"{tag}{name}") for name in ("pod", "there"))
        self.pod("ip", "link", "add", "eth0", "type", "veth", "peer", "name", "eth0", "netns", self.there.name)
        for space, address in ((self.pod, POD), (self.there, OUTSIDE)):
            space("ip", "addr", "add", f"{address}/64", "dev", "eth0", "nodad")
            space("ip", "link", "set", "eth0", "up")
        self.pod("ip", "-6", "route", "add", "default", "via", OUTSIDE)
        self.there("ip", "-6", "route", "add", "fd00:10:96::/112", "via", POD)
        addresses = self.pod("ip", "-4", "-o", "addr", "show").stdout
        assert addresses.count("inet ") == 1 and "inet 127.0.0.1/8" in addresses, addresses
        self.write_objects()
        upstream = subprocess.Popen(["ip", "netns", "exec", self.there.name, sys.executable, "-c", UPSTREAM], stdout=subprocess.PIPE, text=True)
        self.running.append(upstream)
        assert upstream.stdout.readline() == "ready\n"

    def space(self, name):
        self.spaces.append(Space(name))
        return self.spaces[-1]

    def write_objects(self):
        objects = self.root / "objects"
        objects.mkdir()
        found = [namespace("default"), namespace("kube-system"), service("web", WEB), service("kubernetes", "fd00:10:96::1", ports=(("https", 443),)),
                 service("kube-dns", DNS, "kube-system", ports=(("dns", 53),))]
        (objects / "all.json").write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": found}))
        (self.root / "resolv.conf").write_text(f"nameserver {OUTSIDE}\n")

    def value(self, entry):
        """The value of an environment variable, as the kubelet sets it."""
        field = entry.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath")
        return entry.get("value") or {"metadata.uid": UID, "status.podIP": POD, "metadata.name": "kube-dns-1"}[field]

    def start(self, spec):
        """Starts the containers. They read manifests, have directories of their own, and drain for less time."""
        self.containers = spec["containers"]
        for c in self.containers:
            own_run = self.root / c["name"]
            own_run.mkdir()
            own_run.chmod(0o777)
            env = {"KUBE_DNS_NODE_UPSTREAM_SERVICE_HOST": UPSTREAM_SERVICE, **{e["name"]: self.value(e) for e in c.get("env", ())}}
            args = [re.sub(r"\$\((\w+)\)", lambda m: env[m[1]], a) for a in c["args"]]
            moved = {"-runDir=/run": f"-runDir={own_run}", "--journal=/run/sidecar/journal": f"--journal={own_run}/journal"}
            args = [moved.get(a, a) for a in args]
            own = {"kubedns": [f"--objects-dir={self.root}/objects"], "dnsmasq": ["-terminationLog=/dev/null"], "sidecar": []}[c["name"]]
            # `ip netns exec` has a mount namespace of its own.
            prefix = ["ip", "netns", "exec", self.pod.name, "sh", "-c", 'mount --bind "$0" /etc/resolv.conf && exec "$@"', f"{self.root}/resolv.conf"]
            with open(self.tmp_path / f"{c['name']}.log", "wb") as log:
                self.running.append(subprocess.Popen([*prefix, str(BIN / PROGRAMS[c["name"]]), *own, *args], stdout=log, stderr=log, env={**os.environ, **env}))

    def logs(self):
        return "".join(f"--- {p.name}\n{p.read_text()[-3000:]}" for p in sorted(self.tmp_path.glob("*.log")))

    def ask(self, name, kind="AAAA", address=POD, tcp=False):
        """The records of the answer as dig prints them in the clients' namespace. An answer without records, or no answer, is an empty list."""
        out = self.there("dig", "+short", "+time=1", "+tries=1", *(["+tcp"] if tcp else []), f"@{address}", name, kind, check=False).stdout
        return sorted(line for line in out.splitlines() if not line.startswith(";"))

    def until(self, condition, what):
        return wait_for(condition, 60, lambda: f"{what}\n{self.logs()}")

    def page(self, port, path):
        return self.there("curl", "-gsS", "--max-time", "5", f"http://[{POD}]:{port}{path}", check=False).stdout

    def close(self):
        for process in self.running:
            process.kill()
            process.wait()
        for space in self.spaces:
            for pid in run("ip", "netns", "pids", space.name, check=False).stdout.split():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)  # dnsmasq and the guard
            space.close()
        self.directory.cleanup()


@pytest.fixture
def pod(tmp_path):
    needs_ipv6()
    made = Pod(tmp_path)
    yield made
    print(made.logs())
    made.close()


def rendered(tmp_path, overlay, *components):
    made = render(copy(tmp_path, clusterIP=DNS), overlay, *components)
    return next(o for (kind, name), o in made.items() if kind in ("Deployment", "DaemonSet"))["spec"]["template"]["spec"]


def is_answered(pod, address):
    assert pod.until(lambda: pod.ask("web.default.svc.cluster.local", address=address), "an answer") == [WEB]
    assert pod.ask("web.default.svc.cluster.local", address=address, tcp=True) == [WEB]
    assert pod.ask("web.default.svc.cluster.local", "A", address) == []
    assert pod.ask(dns.reversename.from_address(WEB).to_text(), "PTR", address) == ["web.default.svc.cluster.local."]
    assert pod.ask("_http._tcp.web.default.svc.cluster.local", "SRV", address) == ["0 100 80 web.default.svc.cluster.local."]
    assert pod.until(lambda: pod.ask("www.example.com", address=address), "an answer of the upstream server") == ["2001:db8::80"]


def is_watched(pod):
    """The pages that probes, Prometheus and people read, and the sidecar's own probes."""
    assert pod.until(lambda: "dns_probe_success" in pod.page(10054, "/metrics") and pod.page(10054, "/metrics"), "the metrics of the sidecar")
    pod.until(lambda: set(re.findall(r"^dns_probe_success\S* (\S+)", pod.page(10054, "/metrics"), re.M)) == {"1"}, "success of all probes")
    assert "kubedns_" in pod.page(10055, "/metrics") and "nanny_" in pod.page(10056, "/metrics")


@pytest.mark.parametrize("overlay, components", [("replace-kube-dns", []), ("front", []), ("beside", []), ("node-service", []),
                                                 ("front", ["keep-old"])])  # keep-old: the recipes of docs/install
def test_pods_without_ipv4_answer(pod, tmp_path, overlay, components):
    spec = rendered(tmp_path, overlay, *components)
    pod.start(spec)
    is_answered(pod, POD)
    is_watched(pod)
    for port in (8081, 10056):
        assert pod.until(lambda port=port: "ok" in pod.page(port, "/readiness"), f"readiness at port {port}")


def test_a_node_without_ipv4_has_a_pod_of_node_local(pod, tmp_path):
    """The pod is in the node's network. The rules of its guard bring the packets to the Service's address to kubedns."""
    spec = rendered(tmp_path, "node-local")
    pod.start(spec)
    is_answered(pod, DNS)
    is_watched(pod)
    probes = {c["name"]: c["readinessProbe"]["exec"]["command"][1:] for c in spec["containers"] if "readinessProbe" in c}
    for name, flags in probes.items():
        pod.until(lambda name=name, flags=flags: not pod.pod(BIN / PROGRAMS[name], *flags, check=False, env={**os.environ, "OWN_LOOPBACK": UID}).returncode, name)
    assert "kubedns-node" in pod.pod("nft", "list", "tables").stdout
    assert re.search(r"^nanny_node_rules 1$", pod.page(10056, "/metrics"), re.M)
