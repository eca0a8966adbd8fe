"""
A node as a network namespace. A pod is behind one veth, and the central DNS pod behind another. kube-proxy's rules for its Service are
written exactly as kube-proxy writes them. The node's own kubedns and nanny run beside them. The TTL shows which server answered: 30 is the
node's own kubedns, 20 the central pod.
"""

import contextlib
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

import dns.exception
import dns.message
import dns.query
import pytest
from kubedns_process import PROGRAM
from netns import do_inside
from objects import namespace, service

NANNY, SIDECAR = (os.path.join(os.path.dirname(PROGRAM), name) for name in ("nanny", "sidecar"))
SERVICE, LOCAL, UPSTREAM = "10.96.0.10", "169.254.20.10", "10.96.0.11"
NODE_TTL, CENTRAL_TTL = 30, 20
OUTSIDE = "outside.example"
HERE = pathlib.Path(__file__).resolve().parent

IPTABLES = """*nat
:KUBE-SERVICES - [0:0]
:KUBE-SVC-TCOU7JCQXEZGVUNU - [0:0]
:KUBE-SEP-AAAAAAAAAAAAAAAA - [0:0]
:KUBE-SVC-ERIFXISQEP7F7OF4 - [0:0]
:KUBE-SEP-BBBBBBBBBBBBBBBB - [0:0]
-A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A OUTPUT -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A KUBE-SERVICES -d 10.96.0.10/32 -p udp -m comment --comment "kube-system/kube-dns:dns cluster IP" -m udp --dport 53 -j KUBE-SVC-TCOU7JCQXEZGVUNU
-A KUBE-SERVICES -d 10.96.0.10/32 -p tcp -m comment --comment "kube-system/kube-dns:dns-tcp cluster IP" -m tcp --dport 53 -j KUBE-SVC-ERIFXISQEP7F7OF4
-A KUBE-SERVICES -d 10.96.0.11/32 -p udp -m comment --comment "kube-system/kube-dns-node-upstream:dns cluster IP" -m udp --dport 53 -j KUBE-SVC-TCOU7JCQXEZGVUNU
-A KUBE-SERVICES -d 10.96.0.11/32 -p tcp -m comment --comment "kube-system/kube-dns-node-upstream:dns-tcp cluster IP" -m tcp --dport 53 -j KUBE-SVC-ERIFXISQEP7F7OF4
-A KUBE-SVC-TCOU7JCQXEZGVUNU -j KUBE-SEP-AAAAAAAAAAAAAAAA
-A KUBE-SVC-ERIFXISQEP7F7OF4 -j KUBE-SEP-BBBBBBBBBBBBBBBB
-A KUBE-SEP-AAAAAAAAAAAAAAAA -p udp -m udp -j DNAT --to-destination 10.244.9.9:53
-A KUBE-SEP-BBBBBBBBBBBBBBBB -p tcp -m tcp -j DNAT --to-destination 10.244.9.9:53
COMMIT
"""
NFTABLES = """table ip kube-proxy {
	map service-ips {
		type ipv4_addr . inet_proto . inet_service : verdict
		elements = { 10.96.0.10 . tcp . 53 : goto service-dns-tcp, 10.96.0.10 . udp . 53 : goto service-dns,
			10.96.0.11 . tcp . 53 : goto service-dns-tcp, 10.96.0.11 . udp . 53 : goto service-dns }
	}
	chain service-dns { numgen random mod 1 vmap { 0 : goto endpoint-dns }; }
	chain service-dns-tcp { numgen random mod 1 vmap { 0 : goto endpoint-dns-tcp }; }
	chain endpoint-dns { meta l4proto udp dnat to 10.244.9.9:53; }
	chain endpoint-dns-tcp { meta l4proto tcp dnat to 10.244.9.9:53; }
	chain services { ip daddr . meta l4proto . th dport vmap @service-ips; }
	chain nat-prerouting { type nat hook prerouting priority dstnat; policy accept; jump services; }
	chain nat-output { type nat hook output priority -100; policy accept; jump services; }
}
"""


def run(*command, check=True, **kw):
    return subprocess.run(command, capture_output=True, text=True, check=check, timeout=60, **kw)


class Space:
    """A network namespace."""

    def __init__(self, name):
        self.name = name
        made = run("ip", "netns", "add", name, check=False)
        if made.returncode:
            pytest.skip(f"needs the right to make network namespaces: {made.stderr.strip()}")
        self.links("link set lo up")

    def __call__(self, *command, **kw):
        return run("ip", "netns", "exec", self.name, *command, **kw)

    def links(self, *lines):
        """Runs these commands of ip(8) inside."""
        run("ip", "-n", self.name, "-batch", "-", input="\n".join(lines))

    def start(self, *command, log, env=None):
        with open(log, "ab") as out:
            return subprocess.Popen(["ip", "netns", "exec", self.name, *map(str, command)], stdout=out, stderr=out, env=env)

    def close(self):
        run("ip", "netns", "del", self.name, check=False)


def join(a, b, a_name, b_name, a_address, b_address):
    """Links two namespaces. `a` is the default route of `b`."""
    a.links(f"link add {a_name} type veth peer name {b_name} netns {b.name}", f"addr add {a_address}/30 dev {a_name}", f"link set {a_name} up")
    b.links(f"addr add {b_address}/30 dev {b_name}", f"link set {b_name} up", f"route add default via {a_address}")


class NodeWorld:
    """`proxy` is kube-proxy's mode. The constructor starts everything except the node's own programs."""

    def __init__(self, tmp_path, proxy="nftables"):
        tag = f"kd{os.getpid()}{random.randrange(1000)}"
        self.tmp_path, self.spaces, self.running, self.proxy = tmp_path, [], {}, proxy
        self.directory = tempfile.TemporaryDirectory(prefix="kd")
        try:
            for name in ("node", "pod", "central"):
                setattr(self, name, Space(f"{tag}{name}"))
                self.spaces.append(getattr(self, name))
            join(self.node, self.pod, "veth-pod", "eth0", "10.244.1.1", "10.244.1.2")
            join(self.node, self.central, "veth-net", "eth0", "10.244.9.10", "10.244.9.9")
            self.node("sysctl", "-qw", "net.ipv4.ip_forward=1")
            self.write_proxy_rules()
            self.make_source()
            self.start_kubedns("central", self.central, "--dns-bind-address=10.244.9.9", f"--ttl={CENTRAL_TTL}")
            self.until(lambda: self.ask_once("10.244.9.9") == CENTRAL_TTL)
        except BaseException:
            self.close()
            raise

    def write_proxy_rules(self):
        rules = {"iptables": (("iptables-restore", "--noflush"), IPTABLES), "nftables": (("nft", "-f", "-"), NFTABLES)}[self.proxy]
        self.node(*rules[0], input=rules[1])

    def make_source(self):
        """The programs' source of objects: a directory of manifests."""
        self.objects = self.tmp_path / "objects"
        self.objects.mkdir(exist_ok=True)
        web = service("web", "10.96.0.80")
        web["spec"]["clusterIPs"].append("fd00::a1")
        (self.objects / "all.json").write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": [namespace("default"), web]}))

    def source(self):
        return [f"--objects-dir={self.objects}"] if self.objects else []

    def start_kubedns(self, name, space, *args, env=None):
        self.running[name] = space.start(PROGRAM, *self.source(), "--dns-port=53", "--healthz-bind-address=127.0.0.1", "--threads=2",
                                         "--drain=3s", *args, log=self.tmp_path / f"{name}.log", env=env)  # fmt: skip

    def start_pod(self, uid, *kubedns, nanny=(), addresses=f"{LOCAL},{SERVICE}", dnsmasq=True, prefix=()):
        """
        Starts a whole pod as in conf/kubernetes/node-local: three containers, which can run beside the containers of another pod. Its dnsmasq
        answers OUTSIDE. Without `dnsmasq` it does not start the nanny.
        """
        directory = pathlib.Path(self.directory.name) / uid
        directory.parent.chmod(0o755)  # the nanny runs as an unprivileged user
        directory.mkdir()
        directory.chmod(0o777)
        self.start_pod_kubedns(uid, *kubedns, addresses=addresses)
        if dnsmasq:
            self.start_pod_nanny(uid, *nanny, addresses=addresses, prefix=prefix)
        self.start_pod_sidecar(uid)

    def start_pod_kubedns(self, uid, *kubedns, addresses=f"{LOCAL},{SERVICE}"):
        self.start_kubedns(f"{uid}-kubedns", self.node, f"--dns-bind-address={addresses}", "--share-port", "--resolver=own-loopback:253",
                           "--healthz-bind-address=10.244.9.10", f"--ttl={NODE_TTL}", *kubedns,
                           env={**os.environ, "OWN_LOOPBACK": uid, "PROMETHEUS_PORT": "10055"})  # fmt: skip

    def start_pod_sidecar(self, uid):
        self.running[f"{uid}-sidecar"] = self.node.start(
            "setpriv", "--reuid=61053", "--regid=61053", "--clear-groups", SIDECAR, "--prometheus-addr=10.244.9.10", "--dnsmasq-addr=own-loopback", "--dnsmasq-port=253", "--kubedns-url=http://own-loopback:8081",
            "--nanny-url=http://own-loopback:10056", "--drain=3s", f"--probe=kubedns,{LOCAL}:53,web.default.svc.cluster.local,1,A",
            log=self.tmp_path / f"{uid}-sidecar.log", env={**os.environ, "OWN_LOOPBACK": uid, "PROMETHEUS_PORT": "10055"})  # fmt: skip

    def start_pod_nanny(self, uid, *nanny, addresses=f"{LOCAL},{SERVICE}", prefix=()):
        directory = pathlib.Path(self.directory.name) / uid
        (directory / "resolv.conf").write_text("nameserver 192.0.2.53\n")
        self.running[f"{uid}-nanny"] = self.node.start(
            *prefix, NANNY, f"-localip={addresses}", "-metricsAddr=10.244.9.10:10056", f"-runDir={directory}", "-drain=3s", f"-resolvConf={directory}/resolv.conf",
            f"-configDir={self.tmp_path}/none", "-terminationLog=/dev/null", *nanny, "--", "-k", "--port=253", "--listen-address=own-loopback",
            "--bind-interfaces", f"--address=/{OUTSIDE}/192.0.2.80", log=self.tmp_path / f"{uid}-nanny.log",
            env={**os.environ, "OWN_LOOPBACK": uid})  # fmt: skip

    def pod_is_ready(self, uid):
        """Readiness as the kubelet's probes see it: runs the probe commands of the pod's containers."""
        return all(not self.node(*command, check=False, env={**os.environ, "OWN_LOOPBACK": uid}).returncode
                   for command in ((PROGRAM, "--ready"), (NANNY, "-ready")))  # fmt: skip

    def start_node(self, *nanny, kubedns=(), addresses=f"{LOCAL},{SERVICE}", env=None):
        """`env` is the environment of the nanny."""
        self.start_kubedns("kubedns", self.node, f"--dns-bind-address={addresses}", "--share-port", "--resolver=127.0.0.1:253",
                           f"--ttl={NODE_TTL}", *kubedns)  # fmt: skip
        self.start_nanny(*nanny, addresses=addresses, env=env)

    def start_nanny(self, *nanny, addresses=f"{LOCAL},{SERVICE}", env=None):
        directory = pathlib.Path(self.directory.name)
        directory.chmod(0o777)  # the nanny runs as an unprivileged user
        (directory / "resolv.conf").write_text("nameserver 192.0.2.53\n")
        self.running["nanny"] = self.node.start(
            NANNY, f"-localip={addresses}", "-metricsAddr=127.0.0.1:10056", f"-runDir={directory}", "-drain=3s",
            f"-resolvConf={directory}/resolv.conf", f"-configDir={self.tmp_path}/none", "-terminationLog=/dev/null", *nanny,
            "--", "-k", "--port=253", "--listen-address=127.0.0.1", "--bind-interfaces", log=self.tmp_path / "nanny.log", env=env)  # fmt: skip

    # State of the node.

    def until(self, condition, timeout=60.0, what="the condition"):
        begun = time.monotonic()
        while not condition():
            assert time.monotonic() - begun < timeout, f"{what} not within {timeout} s\n{self.logs()}"
            time.sleep(0.05)

    def logs(self):
        return "".join(f"--- {p.name}\n{p.read_text()[-4000:]}" for p in sorted(self.tmp_path.glob("*.log")))

    def ask_once(self, address=SERVICE, space=None, name="web.default.svc.cluster.local"):
        """The TTL of the answer, or None."""
        query = dns.message.make_query(name, "A", use_edns=0)
        try:
            reply = do_inside((space or self.pod).name, lambda: dns.query.udp(query, address, timeout=1, ignore_unexpected=True))
        except (OSError, dns.exception.DNSException):
            return None
        return reply.answer[0].ttl if reply.answer and reply.answer[0][0].to_text() == "10.96.0.80" else None

    def tables(self):
        return [line.split()[2] for line in self.node("nft", "list", "tables").stdout.splitlines() if "kubedns-node" in line]

    def wait_node(self):
        self.until(lambda: self.ask_once() == NODE_TTL, what="an answer of the node's own")

    def pids(self, name, nanny="nanny"):
        """Returns the process IDs of one kind of the nanny's children, guard or dnsmasq."""
        children = run("pgrep", "-P", str(self.running[nanny].pid)).stdout.split()
        return [int(p) for p in children if (pathlib.Path(f"/proc/{p}/comm").read_text().strip() == "dnsmasq") == (name == "dnsmasq")]

    # Load.

    def start_asking(self, rate=100, address=SERVICE, patience=1):
        self.asking = subprocess.Popen(["ip", "netns", "exec", self.pod.name, sys.executable, HERE / "node_asker.py", address, str(rate), str(patience)],
                                       stdout=subprocess.PIPE, text=True)  # fmt: skip
        assert self.asking.stdout.readline() == "sending\n"

    def asked(self):
        """Ends the queries. Returns the results and their summary."""
        self.asking.terminate()
        out = [json.loads(line) for line in self.asking.communicate(timeout=120)[0].splitlines()]
        self.asking = None
        summary = {
            "asked": len(out), "asked again": sum(q["again"] > 0 for q in out), "unanswered": sum(q["took"] is None for q in out),
            "wrong": sum(len(q["wrong"]) for q in out), "by the node": sum(q["ttl"] == NODE_TTL for q in out),
            "worst s": round(max(q["took"] or 9 for q in out), 3)}  # fmt: skip
        print(summary)
        return out, summary

    def stop(self, name, signal_=signal.SIGTERM):
        self.running[name].send_signal(signal_)
        return self.running.pop(name).wait(timeout=30)

    def close(self):
        print(self.logs())
        if getattr(self, "asking", None):
            self.asking.kill()
        for process in self.running.values():
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
                process.wait()
        for space in self.spaces:
            for pid in run("ip", "netns", "pids", space.name, check=False).stdout.split():
                with contextlib.suppress(ProcessLookupError):  # the process may have exited meanwhile
                    os.kill(int(pid), signal.SIGKILL)  # a dnsmasq whose nanny was killed
            space.close()
        self.directory.cleanup()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
