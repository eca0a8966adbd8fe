"""The servers that upstream.py measures: classic and front with either engine of the nanny, kubedns alone, and dnsmasq, unbound and CoreDNS alone.

kubedns alone queries the upstream servers itself: as "standalone" for the clients' names, and as "chases" for the targets of ExternalName
Services.

The nanny needs unbound 1.26.1. If the machine's unbound is older, the bench runs Debian 13's: mmdebstrap unpacks the package and
its libraries into ROOTS, and a script starts the program with its own libraries. The sandbox of the nanny does not know these paths, so
nannies with such an unbound run with --sandbox=off. The sidecar runs beside them, because it tells the nanny that a server answers again.
"""

import asyncio
import glob
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import upstream_clients as clients
from results import DIRECTORY, say
from servers import Kubedns, Server
from waiting import free_port

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "helpers"))

from tls_world import Authority  # noqa: E402

OBJECTS = os.path.join(HERE, "..", "..", "conf", "example", "objects")
COREDNS = {"coredns": "v1.14.7", "coredns-1.15": "v1.15.0"}  # 1.15 limits the time of a TLS handshake (coredns#8543)
ALONE = ("dnsmasq", "unbound", *COREDNS)
KUBEDNS_ALONE = ("standalone", "chases")
NAMES = ("classic", "front", "classic-unbound", "front-unbound", *KUBEDNS_ALONE, *ALONE)
ENCRYPTED = ("classic-unbound", "front-unbound", "unbound", *COREDNS)  # can use TLS upstream servers
OLDEST_UNBOUND = (1, 26, 1)


def version(program):
    """The version of this unbound, such as (1, 26, 2), or None if the program does not run."""
    try:
        found = re.match(r"Version (\d+)\.(\d+)\.(\d+)", subprocess.run([program, "-V"], capture_output=True, text=True, timeout=10, check=False).stdout)
    except OSError:
        return None
    return tuple(map(int, found.groups())) if found else None


def unbound_program(wanted, roots):
    """Returns (program, whether the nanny's sandbox knows its paths). `wanted` is the machine's unbound or the operator's choice."""
    if (version(wanted) or (0,)) >= OLDEST_UNBOUND:
        return wanted, True
    root = os.path.join(roots, "trixie-bench-unbound")
    if not os.path.exists(root):
        say(f"unpacking Debian 13's unbound into {root}")
        os.makedirs(roots, exist_ok=True)
        shutil.rmtree(root + ".new", ignore_errors=True)  # an interrupted run has left it, and mmdebstrap needs an empty directory
        subprocess.run(["mmdebstrap", "--quiet", "--variant=extract", "--include=unbound", "trixie", root + ".new"], check=True)
        os.rename(root + ".new", root)
    libraries = os.path.dirname(glob.glob(os.path.join(root, "usr/lib/*/libc.so.6"))[0])
    loader = glob.glob(os.path.join(libraries, "ld-linux*"))[0]
    os.makedirs(DIRECTORY, exist_ok=True)
    script = os.path.join(DIRECTORY, "unbound")
    with open(script, "w", encoding="utf-8") as f:
        f.write(f'#!/bin/sh\nexec {loader} --library-path {libraries} {root}/usr/sbin/unbound "$@"\n')
    os.chmod(script, 0o755)
    return script, False


class Tls:
    """The certificate of the upstream servers (with its key), and its CA. `name` is the servers' name."""

    name = "dns.test"

    def __init__(self):
        os.makedirs(DIRECTORY, exist_ok=True)
        authority = Authority()
        self.certificate = authority.issue(pathlib.Path(DIRECTORY), self.name)
        self.bundle = os.path.join(DIRECTORY, "upstream-ca.pem")
        with open(self.bundle, "w", encoding="utf-8") as f:
            f.write(authority.bundle)


class AtName(Server):
    """A server that is ready when it answers an external name."""

    address = None  # default: clients.ADDRESS

    def answers(self):
        return asyncio.run(clients.lookup(self.port, "host-000.ready.example", 1200, timeout_s=0.3, address=self.address))["failed"] is False


class Nanny(AtName):
    """The nanny with its engine, the ConfigMap's upstreams, and the arguments of the manifests."""

    program = os.path.join(os.path.dirname(os.path.dirname(Kubedns.program)), "bin", "nanny")

    def __init__(self, name, ports, kubedns, *arguments, unbound=None, address=None, tls=None, cpu=None):
        self.address = address or clients.ADDRESS
        self.name, self.ports, self.kubedns, self.arguments = name, ports, kubedns, arguments
        self.engine = ["--engine=unbound", f"-unboundExec={unbound[0]}", *([] if unbound[1] else ["--sandbox=off"])] if unbound else []
        self.http, self.tls = free_port(), tls
        self.engine += [f"--upstream-ca={tls.bundle}"] if tls else []
        super().__init__(DIRECTORY, cpu=cpu)
        os.mkdir(self.path("config"))
        os.mkdir(self.path("run"))
        os.chmod(self.path("run"), 0o777)
        self.write("config/upstreamNameservers", json.dumps([f"tls://127.0.0.1:{p}#{tls.name}" if tls else f"127.0.0.1:{p}" for p in ports]))

    def command(self):
        return [self.program, *self.engine, f"-configDir={self.path('config')}", "-restartDnsmasq=true", f"-runDir={self.path('run')}", f"-metricsAddr=127.0.0.1:{self.http}",
                f"-kubednsServer=127.0.0.1:{self.kubedns}", "-drain=0s", "--", "-k", "--cache-size=1000", "--dns-forward-max=6000", "--bind-interfaces", f"--listen-address={self.address}",
                f"--port={self.port}", *self.arguments]  # fmt: skip


class Sidecar(Server):
    """The sidecar of a nanny. It has no probes, so it queries only the upstream servers."""

    program = os.path.join(os.path.dirname(Nanny.program), "sidecar")

    def __init__(self, nanny):
        self.name, self.nanny = f"{nanny.name}-sidecar", nanny
        super().__init__(DIRECTORY)

    def command(self):
        return [self.program, "--kubedns-url=", f"--nanny-url=http://127.0.0.1:{self.nanny.http}", f"--dnsmasq-addr={self.nanny.address}", f"--dnsmasq-port={self.nanny.port}", *([f"--upstream-ca={self.nanny.tls.bundle}", *(f"--upstream-port={p}" for p in self.nanny.ports)] if self.nanny.tls else []),
                "--prometheus-addr=127.0.0.1", f"--prometheus-port={self.port}", "--drain=0s"]  # fmt: skip

    def answers(self):
        with open(self.path("log"), encoding="utf-8", errors="replace") as f:
            return "page on port" in f.read()


class CoreDns(AtName):
    def __init__(self, program, ports, tls):
        self.name = f"upstream-{os.path.basename(program)}"
        super().__init__(DIRECTORY)
        self.program, self.ports, self.tls = program, ports, tls

    def command(self):
        servers = " ".join(f"{'tls://' if self.tls else ''}127.0.0.1:{p}" for p in self.ports)
        tls = f"  tls {self.tls.bundle}\n  tls_servername {self.tls.name}\n" if self.tls else ""
        return [self.program, "-conf", self.write("Corefile", f".:{self.port} {{\n bind {clients.ADDRESS}\n errors\n forward . {servers} {{\n  max_concurrent 1000\n{tls} }}\n cache 30\n loadbalance\n}}\n")]


class Dnsmasq(AtName):
    """dnsmasq with kube-dns's arguments, without the nanny."""

    name = "upstream-dnsmasq"

    def __init__(self, ports):
        super().__init__(DIRECTORY)
        self.ports = ports

    def command(self):
        return ["dnsmasq", "-k", "-C", "/dev/null", "--no-resolv", "--no-hosts", "--cache-size=1000", "--dns-forward-max=6000", "--bind-interfaces", f"--listen-address={clients.ADDRESS}",
                f"--port={self.port}", "--pid-file=", "--log-facility=-", "--user=", *(f"--server=127.0.0.1#{p}" for p in self.ports)]  # fmt: skip


class Unbound(AtName):
    """unbound with Debian's settings, stale answers and one forward zone."""

    name = "upstream-unbound"

    def __init__(self, program, ports, settings=(), tls=None):
        super().__init__(DIRECTORY)
        self.program, self.ports, self.settings, self.tls = program, ports, settings, tls

    def command(self):
        lines = ["server:", f" port: {self.port}", f" interface: {clients.ADDRESS}", " access-control: 0.0.0.0/0 allow", ' username: ""', ' chroot: ""', f' directory: "{self.directory}"',
                 ' pidfile: ""', " use-syslog: no", " do-daemonize: no", " do-not-query-localhost: no", ' module-config: "iterator"', " serve-expired: yes",
                 " serve-expired-client-timeout: 1800", " ede: yes", " ede-serve-expired: yes", *([f' tls-cert-bundle: "{self.tls.bundle}"'] if self.tls else []),
                 *(f" {s}" for s in self.settings), "forward-zone:", ' name: "."', f" forward-tls-upstream: {'yes' if self.tls else 'no'}",
                 *(f" forward-addr: 127.0.0.1@{p}{'#' + self.tls.name if self.tls else ''}" for p in self.ports), "remote-control:", " control-enable: no"]  # fmt: skip
        return [self.program, "-d", "-c", self.write("unbound.conf", "\n".join(lines) + "\n")]


class FrontKubedns(AtName, Kubedns):
    def __init__(self, name, *arguments):
        self.name = name
        super().__init__(DIRECTORY, *arguments)

    def command(self):
        return [f"--dns-bind-address={clients.ADDRESS}" if a.startswith("--dns-bind-address=") else a for a in super().command()]


class BehindKubedns(Kubedns):
    def __init__(self, name, *arguments):
        self.name = name
        super().__init__(DIRECTORY, *arguments)


class Chases(FrontKubedns):
    """It has an ExternalName Service for each of these labels. The targets are the names that the other servers are asked for."""

    def __init__(self, nameservers, labels, tag):
        super().__init__("upstream-chases", [], nameservers)
        services = [{"apiVersion": "v1", "kind": "Service", "metadata": {"name": label, "namespace": "default"}, "spec": {"type": "ExternalName", "externalName": f"{label}.{tag}.example"}} for label in labels]
        os.mkdir(self.path("objects"))
        self.write("objects/services.yaml", "\n---\n".join(map(json.dumps, services)))
        self.source = [f"--objects-dir={self.path('objects')}"]


def zone(server, tag):
    """The zone of the names that this server is asked for."""
    return "default.svc.cluster.local" if server == "chases" else f"{tag}.example"


def start(stack, a, name, ports, tls=None, labels=(), tag=""):
    """
    Starts the servers of this name. Each server starts before the servers that forward to it. `tls` is the Tls of the upstream servers, or
    None. `labels` are the first labels of all names that will be asked, for "chases". Returns the port that clients query.
    """
    source = [f"--objects-dir={OBJECTS}", *a.kubedns]
    if name in COREDNS:
        return stack.enter_context(CoreDns(os.path.join(a.peers, name), ports, tls)).port
    if name == "dnsmasq":
        return stack.enter_context(Dnsmasq(ports)).port
    if name == "unbound":
        return stack.enter_context(Unbound(a.unbound_found[0], ports, a.setting, tls)).port
    servers = f"--nameservers={','.join(f'127.0.0.1:{p}' for p in ports)}"
    if name == "standalone":
        return stack.enter_context(FrontKubedns("upstream-standalone", source, servers)).port
    if name == "chases":
        return stack.enter_context(Chases(servers, labels, tag)).port
    topology, _, engine = name.partition("-")
    unbound = a.unbound_found if engine else None
    extra = [] if engine else a.dnsmasq
    if topology == "front":
        cache = stack.enter_context(Nanny(f"upstream-{name}-nanny", ports, 53, *extra, unbound=unbound, address="127.0.0.1", tls=tls))
        if unbound:
            stack.enter_context(Sidecar(cache))
        return stack.enter_context(FrontKubedns(f"upstream-{name}-kubedns", source, f"--config-dir={cache.path('config')}", f"--resolver=127.0.0.1:{cache.port}", "--answer-cache=1M")).port
    behind = stack.enter_context(BehindKubedns(f"upstream-{name}-kubedns", source, *([] if tls else [servers])))
    cache = stack.enter_context(Nanny(f"upstream-{name}-nanny", ports, behind.port, f"--server=/cluster.local/127.0.0.1#{behind.port}", *extra, unbound=unbound, tls=tls))
    if unbound:
        stack.enter_context(Sidecar(cache))
    return cache.port
