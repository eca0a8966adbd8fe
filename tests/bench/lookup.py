"""The cost of one lookup of a cluster name and of an external name. The resolvers are glibc's and musl's getaddrinfo, Go's own resolver and
c-ares, with a pod's resolv.conf, in a network namespace like a pod's. For each server the bench measures the packets that the client
sends, the queries that the upstream server gets, the CPU time of all DNS processes, p50 and p99. If a server has a cache, the cache already
contains the upstream's answer, as in most real lookups. All servers run at once and are measured in rounds. A server's cost relative to
CoreDNS is the median of the rounds' ratios.

Servers: CoreDNS without and with autopath (PEER/coredns). Our servers: the classic topology, the front topology, front with --filter-aaaa,
and front with search completion, inferred and declared. If this kubedns has --answer-cache, the last two also run with it. If a server is
missing, the bench leaves it out and prints how to get it.
"""

import argparse
import collections
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import threading
import time

import dns.exception
import dns.flags
import dns.message
import dns.query
import dns.rcode
import dns.rdatatype
import dns.rrset

import machine
from results import DIRECTORY, save, say
from servers import Kubedns, Server

from apiserver import ApiProcess

HERE = os.path.dirname(os.path.abspath(__file__))
NAMES = {"cluster": "web", "outside": "api.example.com"}
WEB, OUTSIDE = "10.96.0.10", "192.0.2.1"
HERE_IP, POD_IP, PREFIX = "10.53.0.1", "10.53.0.2", "10.53.0."
SEARCH = "default.svc.cluster.local svc.cluster.local cluster.local"
DECLARED = "default.s.cluster.local"
CACHE = "--answer-cache=1M"  # as in the front manifest
COREDNS = "GOBIN={} CGO_ENABLED=0 go install github.com/coredns/coredns@v1.14.7"


def arguments(argv):
    p = argparse.ArgumentParser(prog="bench.py lookup", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--lookups", type=int, default=500, help="lookups of one name by one library at one server (%(default)s)")
    p.add_argument("--repeats", type=int, default=3, help="rounds over all servers (%(default)s)")
    p.add_argument("--peers", default="/tmp/peer", help="directory of the coredns program (%(default)s)")
    p.add_argument("--resolvers", default="glibc,musl,go,c-ares", help="resolver libraries, separated by commas (%(default)s)")
    p.add_argument("--servers", default="", help="only these servers, separated by commas")
    return p.parse_args(argv)


# The pod.


class Pod:
    """A network and mount namespace with a link to ours. All of it disappears when the process that holds the namespace ends."""

    def __enter__(self):
        self.holder = subprocess.Popen(["unshare", "--net", "--mount", "sleep", "infinity"])
        deadline = time.monotonic() + 5
        while os.readlink(f"/proc/{self.holder.pid}/ns/net") == os.readlink("/proc/self/ns/net"):
            if self.holder.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("the kernel does not permit new network namespaces")
            time.sleep(0.01)
        for command in (["ip", "link", "add", "pod", "type", "veth", "peer", "name", "eth0", "netns", str(self.holder.pid)],
                        ["ip", "addr", "add", f"{HERE_IP}/24", "dev", "pod"], ["ip", "link", "set", "pod", "up"]):  # fmt: skip
            subprocess.run(command, check=True)
        for command in ("ip link set lo up", f"ip addr add {POD_IP}/24 dev eth0", "ip link set eth0 up"):
            self.run(*command.split())
        return self

    def __exit__(self, *_):
        self.holder.kill()
        self.holder.wait()

    def run(self, *command):
        inside = ["nsenter", "-t", str(self.holder.pid), "-n", "-m", *command]
        return subprocess.run(inside, check=True, capture_output=True, text=True, timeout=120).stdout

    def resolv_conf(self, server, search):
        files = {"resolv.conf": f"nameserver {server}\nsearch {search}\noptions ndots:5\n", "nsswitch.conf": "hosts: files dns\n"}
        for name, text in files.items():
            path = os.path.join(DIRECTORY, f"pod-{name}")
            with open(path, "w", encoding="ascii") as f:
                f.write(text)
            self.run("mount", "--bind", path, f"/etc/{name}")

    def packets(self):
        """The number of datagrams and TCP segments that the pod has sent."""
        lines = self.run("cat", "/proc/net/snmp").splitlines()
        fields = {}
        for head, values in zip(lines[::2], lines[1::2]):
            fields |= {head.split(":")[0] + k: int(v) for k, v in zip(head.split()[1:], values.split()[1:])}
        return fields["UdpOutDatagrams"] + fields["TcpOutSegs"]


# The upstream server. It has only an A record of the external name.


class Upstream:
    def __init__(self):
        self.asked = collections.Counter()
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            wire, peer = self.socket.recvfrom(4096)
            request = dns.message.from_wire(wire)
            question = request.question[0]
            self.asked[dns.rdatatype.to_text(question.rdtype)] += 1
            reply = dns.message.make_response(request, recursion_available=True)
            exists = str(question.name) == NAMES["outside"] + "."
            if exists and question.rdtype == dns.rdatatype.A:
                reply.answer.append(dns.rrset.from_text(question.name, 300, "IN", "A", OUTSIDE))
            else:
                reply.set_rcode(dns.rcode.NOERROR if exists else dns.rcode.NXDOMAIN)
                reply.authority.append(dns.rrset.from_text("example.com.", 300, "IN", "SOA", "ns. host. 1 2 3 4 300"))
            self.socket.sendto(reply.to_wire(), peer)


# The servers, each on a separate address and on port 53, as resolv.conf requires.


class Listener(Server):
    """A measured DNS service on port 53. `behind` is the list of servers to which it forwards. total_ns() includes their CPU time."""

    address, search, behind = None, SEARCH, ()

    def take_ports(self):
        self.port = 53

    def answers(self):
        try:
            reply = dns.query.udp(dns.message.make_query("web.default.svc.cluster.local.", "A"), self.address, timeout=0.5)
            return any(str(rr) == WEB for rrset in reply.answer for rr in rrset)
        except (OSError, dns.exception.DNSException):
            return False

    def total_ns(self):
        return sum(s.spent().total_ns for s in (self, *self.behind))

    def stop(self):
        super().stop()
        for server in self.behind:
            server.stop()


class CoreDns(Listener):
    def answers(self):
        """True once CoreDNS answers NXDOMAIN for a missing name. Until it has read the whole cluster, it answers SERVFAIL for such a name."""
        try:
            reply = dns.query.udp(dns.message.make_query("nobody.default.svc.cluster.local.", "A"), self.address, timeout=0.5)
            return reply.rcode() == dns.rcode.NXDOMAIN and super().answers()
        except (OSError, dns.exception.DNSException):
            return False

    def __init__(self, name, program, address, kubeconfig, upstream, autopath):
        self.name, self.address = name, address
        super().__init__(DIRECTORY)
        self.program, self.kubeconfig, self.upstream, self.autopath = program, kubeconfig, upstream, autopath

    def command(self):
        corefile = f"""cluster.local:53 in-addr.arpa:53 ip6.arpa:53 .:53 {{
    bind {self.address}
    errors
    {"autopath @kubernetes" if self.autopath else ""}
    kubernetes cluster.local in-addr.arpa ip6.arpa {{
        kubeconfig {self.kubeconfig}
        pods {"verified" if self.autopath else "insecure"}
        fallthrough in-addr.arpa ip6.arpa
        ttl 30
    }}
    forward . 127.0.0.1:{self.upstream.port}
    cache 30
    loadbalance
}}
"""
        return [self.program, "-conf", self.write("Corefile", corefile)]


class Front(Listener, Kubedns):
    """The front topology: kubedns on port 53 with the manifest's flags. It forwards to dnsmasq."""

    def __init__(self, name, address, source, upstream, *flags):
        self.name, self.address = name, address
        cache = Cache(f"{name}-dnsmasq", "127.0.0.1", upstream, "--dns-forward-max=6000")
        Kubedns.__init__(self, DIRECTORY, source, f"--resolver=127.0.0.1:{cache.port}", *flags)
        self.behind = (cache,)

    def take_ports(self):
        Kubedns.take_ports(self)
        self.port = 53

    def start(self, timeout=60):
        self.behind[0].start()
        return super().start(timeout)

    def command(self):
        return [a.replace("--dns-bind-address=127.0.0.1", f"--dns-bind-address={self.address}") for a in Kubedns.command(self)]


class Cache(Listener):
    """dnsmasq, which forwards to kubedns in the classic topology (`--server=/cluster.local/...`), or gets kubedns's forwarded queries."""

    def __init__(self, name, address, upstream, *flags, port=None):
        self.name, self.address = name, address
        super().__init__(DIRECTORY)
        self.upstream, self.flags = upstream, flags
        self.port = port or self.port

    def take_ports(self):
        Server.take_ports(self)

    def answers(self):
        try:
            return bool(dns.query.udp(dns.message.make_query(NAMES["outside"], "A"), self.address, port=self.port, timeout=0.5).answer)
        except (OSError, dns.exception.DNSException):
            return False

    def command(self):
        return ["dnsmasq", "-k", "-C", "/dev/null", "--no-resolv", "--no-hosts", "--bind-interfaces", "--pid-file=", "--log-facility=-", "--user=",
                f"--listen-address={self.address}", f"--port={self.port}", "--cache-size=1000", f"--server=127.0.0.1#{self.upstream.port}",
                *self.flags]  # fmt: skip


def classic(address, source, upstream):
    """The classic topology: dnsmasq on port 53 with the base manifest's flags. It forwards cluster names to kubedns."""
    behind = Kubedns(DIRECTORY, source, "--negative-ttl=0").start()
    servers = [f"--server=/{zone}/127.0.0.1#{behind.port}" for zone in ("cluster.local", "in-addr.arpa", "ip6.arpa")]
    cache = Cache("classic", address, upstream, "--dns-forward-max=6000", *servers, port=53)
    cache.behind = (behind,)
    return cache


def has_flag(flag):
    return f"--{flag}" in subprocess.run([Kubedns.program, "--help=all"], capture_output=True, text=True, check=True).stdout


def answers_declared(front):
    """True if this kubedns answers names below s.cluster.local."""
    reply = dns.query.udp(dns.message.make_query(f"web.{DECLARED}.", "A"), front.address, timeout=2)
    return any(str(rr) == WEB for rrset in reply.answer for rr in rrset)


def all_servers(a, api, upstream):
    """Returns each server's name with a function that starts the server. If the server is missing, the reason replaces the function."""
    config = api.kubeconfig(os.path.join(DIRECTORY, "lookup-kubeconfig"))
    source, program = [f"--kubecfg-file={config}"], os.path.join(a.peers, "coredns")
    cache = None if has_flag("answer-cache") else "this kubedns has no --answer-cache"
    missing = None if os.path.exists(program) else f"not installed: {COREDNS.format(a.peers)}"

    def front(name, last, *flags):
        return lambda: Front(name, f"{PREFIX}{last}", source, upstream, *flags).start()

    def declared(name, last, *flags):
        def make():
            server = Front(name, f"{PREFIX}{last}", source, upstream, "--filter-aaaa=auto", *flags).start()
            server.search = DECLARED
            return server
        return make

    return [("coredns", lambda: CoreDns("coredns", program, f"{PREFIX}11", config, upstream, False).start(), missing),
            ("coredns-autopath", lambda: CoreDns("coredns-autopath", program, f"{PREFIX}12", config, upstream, True).start(), missing),
            ("classic", lambda: classic(f"{PREFIX}13", source, upstream).start(), None),
            ("front", front("front", 14), None),
            ("front-cache", front("front-cache", 20, CACHE), cache),
            ("front-filter", front("front-filter", 15, "--filter-aaaa=auto"), None if has_flag("filter-aaaa") else "no such flag"),
            ("inferred", front("inferred", 16, "--search-completion=inferred", "--filter-aaaa=auto"),
             None if has_flag("search-completion") else "this kubedns has no --search-completion"),
            ("inferred-cache", front("inferred-cache", 18, "--search-completion=inferred", "--filter-aaaa=auto", CACHE), cache),
            ("declared", declared("declared", 17), None),
            ("declared-cache", declared("declared-cache", 19, CACHE), cache)]  # fmt: skip


# The libraries.


def resolvers(wanted):
    """{library: its client}, built if its compiler is installed."""
    source, out = os.path.join(HERE, "lookup"), {}
    c = ["-O2", "-D_GNU_SOURCE", os.path.join(source, "client.c"), "-o"]
    plans = {"glibc": ("cc", lambda to: ["cc", *c, to], "apt-get install gcc"),
             "musl": ("musl-gcc", lambda to: ["musl-gcc", "-static", *c, to], "apt-get install musl-tools"),
             "c-ares": ("cc", lambda to: ["cc", "-DCARES", *c, to, "-lcares"], "apt-get install libc-ares-dev"),
             "go": ("go", lambda to: ["go", "-C", source, "build", "-o", to, "."], "https://go.dev/dl")}  # fmt: skip
    for name in wanted.split(","):
        program, command, how = plans[name]
        path = os.path.join(DIRECTORY, f"lookup-{name}")
        if shutil.which(program) is None:
            say(f"{name}: left out, because {program} is not installed: {how}")
            continue
        subprocess.run(command(path), check=True, env={**os.environ, "CGO_ENABLED": "0"})
        out[name] = path
    return out


# One measurement.


def percentile(sorted_values, part):
    return sorted_values[min(len(sorted_values) - 1, int(part * len(sorted_values)))]


def measure(a, pod, upstream, server, library, client, kind):
    """Returns figures per lookup. The first lookups fill the caches, and only the count of upstream queries includes them."""
    name = NAMES[kind]
    pod.resolv_conf(server.address, server.search)
    asked = collections.Counter(upstream.asked)
    pod.run(client, "5", name)
    packets, spent = pod.packets(), server.total_ns()
    got = json.loads(pod.run(*machine.pinned(machine.cpus()[1]), client, str(a.lookups), name))
    spent, packets, asked = server.total_ns() - spent, pod.packets() - packets, upstream.asked - asked
    if got["found"] != a.lookups:
        raise RuntimeError(f"{server.name}: {library} found {name} in {got['found']} of {a.lookups} lookups")
    times = sorted(got["us"])
    return {"server": server.name, "library": library, "name": kind, "packets": packets / a.lookups, "cpu_us": spent / 1000 / a.lookups,
            "upstream": sum(asked.values()), "upstream_aaaa": asked["AAAA"], "p50_us": percentile(times, 0.5), "p99_us": percentile(times, 0.99)}  # fmt: skip


def median_of(runs):
    """One row from the runs of all repeats."""
    row = dict(runs[0])
    for key in ("packets", "cpu_us", "p50_us", "p99_us"):
        row[key] = statistics.median(r[key] for r in runs)
    for key in ("upstream", "upstream_aaaa"):
        row[key] = max(r[key] for r in runs)
    return row


def objects():
    def meta(name, **more):
        return {"name": name, "namespace": "default", **more}

    port = {"name": "http", "port": 80, "protocol": "TCP"}
    return [{"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "default"}},
            {"kind": "Service", "apiVersion": "v1", "metadata": meta("web"),
             "spec": {"type": "ClusterIP", "clusterIP": WEB, "clusterIPs": [WEB], "ports": [port]}},
            {"kind": "EndpointSlice", "apiVersion": "discovery.k8s.io/v1", "metadata": meta("web-1", labels={"kubernetes.io/service-name": "web"}),
             "addressType": "IPv4", "ports": [port], "endpoints": [{"addresses": [POD_IP], "conditions": {"ready": True}}]},
            {"kind": "Pod", "apiVersion": "v1", "metadata": meta("client"), "spec": {"containers": []},
             "status": {"phase": "Running", "podIP": POD_IP, "podIPs": [{"ip": POD_IP}]}}]  # fmt: skip


def table(rows):
    """A Markdown table as in the README."""
    out = ["| server | name | library | client packets | upstream queries | CPU of all DNS processes, us | CPU / CoreDNS's | p50, us | p99, us |", "|---|---|---|---|---|---|---|---|---|"]
    for r in rows:
        out.append(f"| {r['server']} | {r['name']} | {r['library']} | {r['packets']:.1f} | {r['upstream']} | {r['cpu_us']:.0f} | {format(r['cpu_part'], '.3f') if 'cpu_part' in r else ''} | {r['p50_us']:.0f} | {r['p99_us']:.0f} |")
    return "\n".join(out)


def measure_in_turns(a, pod, upstream, servers, clients):
    """Runs every server once before any server runs again. So changes in the machine's speed affect all servers equally."""
    runs = collections.defaultdict(list)
    for _ in range(a.repeats):
        for server in servers:
            for kind in NAMES:
                for library, client in clients.items():
                    runs[server.name, kind, library].append(measure(a, pod, upstream, server, library, client, kind))
    rows = []
    for (_, kind, library), ours in runs.items():
        rows.append({**median_of(ours), **parts_of(ours, runs.get(("coredns", kind, library)))})
        r = rows[-1]
        say(f"{r['server']:16} {kind:8} {library:7} {r['packets']:5.1f} packets, {r['cpu_us']:6.1f} us of CPU{part(r, 'cpu')}, upstream {r['upstream']} "
            f"(AAAA {r['upstream_aaaa']}), p50 {r['p50_us']:.0f}{part(r, 'p50')} p99 {r['p99_us']:.0f} us")  # fmt: skip
    return rows


def parts_of(runs, coredns):
    """Compares runs to CoreDNS's runs: the median over the rounds of the ratio of the two runs in a round."""
    if not coredns:
        return {}
    return {f"{key}_part": statistics.median(r[f"{key}_us"] / c[f"{key}_us"] for r, c in zip(runs, coredns)) for key in ("cpu", "p50")}


def part(row, key):
    return f" ({row[f'{key}_part']:.3f} of CoreDNS's)" if f"{key}_part" in row else ""


def main(argv):
    a = arguments(argv)
    if os.environ.get("BENCH_NETWORK") != "entered":
        print("bench-lookup needs a network namespace of its own, for port 53 and the pod. Run it as root and without BENCH_NETWORK", file=sys.stderr)
        return 2
    os.makedirs(DIRECTORY, exist_ok=True)
    clients, left_out, upstream = resolvers(a.resolvers), {}, Upstream()
    wanted = a.servers.split(",") if a.servers else None
    with Pod() as pod, ApiProcess() as api:
        api.fill(objects())
        for last in range(11, 21):
            subprocess.run(["ip", "addr", "add", f"{PREFIX}{last}/24", "dev", "pod"], check=True)
        servers = []
        try:
            for name, start, missing in all_servers(a, api, upstream):
                if wanted and name not in wanted:
                    continue
                if missing:
                    left_out[name] = missing
                    continue
                servers.append(start())
                if servers[-1].search == DECLARED and not answers_declared(servers[-1]):
                    left_out[name] = f"this kubedns does not know *.{DECLARED}"
                    servers.pop().stop()
            rows = measure_in_turns(a, pod, upstream, servers, clients)
        finally:
            for server in servers:
                server.stop()
    for name, why in left_out.items():
        say(f"{name}: left out: {why}")
    print(table(rows))
    save("lookup", {"rows": rows, "left_out": left_out, "lookups": a.lookups, "repeats": a.repeats})
    return 0
