"""The measured servers. A server starts on a free port and pinned to one CPU. start() returns when it answers."""

import os
import re
import shlex
import shutil
import signal
import subprocess
import time

import dns.exception
import dns.message
import dns.query

import machine
from waiting import free_port

BUILD = os.path.abspath(os.environ.get("BUILD", "build"))


class Server:
    """A program that answers DNS on 127.0.0.1:port. Subclasses define `command()`."""

    name = "server"
    version_command = None
    judged = True  # the bench compares this server's answers with the expected answers

    def __init__(self, directory, cpu=None, threads=1):
        self.directory = os.path.join(directory, self.name)
        shutil.rmtree(self.directory, ignore_errors=True)
        os.makedirs(self.directory)
        self.cpu_list = machine.cpus()[0] if cpu is None else cpu
        self.threads, self.process = threads, None
        self.take_ports()

    def path(self, name):
        return os.path.join(self.directory, name)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as f:
            f.write(text)
        return self.path(name)

    def command(self):
        raise NotImplementedError

    def version(self):
        return machine.version(*self.version_command) if self.version_command else None

    def environment(self):
        return {k: v for k, v in os.environ.items() if not k.startswith("KUBERNETES_")}

    def start(self, timeout=60):
        """Starts the server and waits for its first answer. If another program has taken the server's port meanwhile, tries another port."""
        for attempt in range(3):
            self.line = shlex.join([*machine.pinned(self.cpu_list), *self.command()])
            with open(self.path("log"), "wb") as log:
                self.process = subprocess.Popen(shlex.split(self.line), stdout=log, stderr=log, env=self.environment(), start_new_session=True)
            deadline = time.monotonic() + timeout
            while self.process.poll() is None and time.monotonic() < deadline:
                if self.answers() and self.process.poll() is None:
                    return self
                time.sleep(0.02)
            self.stop()
            with open(self.path("log"), encoding="utf-8", errors="replace") as f:
                said = f.read()
            if attempt == 2 or "in use" not in said:
                raise RuntimeError(f"{self.name} does not answer: {self.line}\n{said[-2000:]}")
            self.take_ports()
        return None

    def take_ports(self):
        self.port = free_port()

    def answers(self):
        """True if the server answers with NOERROR or NXDOMAIN."""
        try:
            reply = dns.query.udp(dns.message.make_query("cluster.local.", "SOA"), "127.0.0.1", port=self.port, timeout=0.5)
            return reply.rcode() in (0, 3)
        except (OSError, dns.exception.DNSException):
            return False

    def spent(self):
        return machine.Cpu.of(self.process.pid)

    def stop(self):
        if self.process and self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.stop()


class Kubedns(Server):
    name = "kubedns"
    program = os.path.join(BUILD, "bin", "kubedns")
    version_command = (program, "--version")

    def __init__(self, directory, source, *arguments, **kw):
        """`source` is the list of flags that select the source of objects."""
        super().__init__(directory, **kw)
        self.source, self.arguments = list(source), list(arguments)

    def take_ports(self):
        super().take_ports()
        self.healthz = free_port()

    def command(self):
        return [self.program, "--dns-bind-address=127.0.0.1", f"--dns-port={self.port}", f"--healthz-port={self.healthz}",
                "--healthz-bind-address=127.0.0.1", f"--threads={self.threads}", "--ns-addresses=127.0.0.1", *self.source,
                *self.arguments]  # fmt: skip


class Reflector(Server):
    name = "reflector"
    judged = False

    def command(self):
        return [os.path.join(BUILD, "tests", "bench", "reflector"), str(self.port)]


class Knot(Server):
    name = "knot"
    version_command = ("knotd", "--version")

    def __init__(self, directory, zones, **kw):
        """`zones`: {zone name: master file}."""
        super().__init__(directory, **kw)
        self.zones = zones

    def command(self):
        lines = ["server:", f"    rundir: {self.directory}", f"    listen: 127.0.0.1@{self.port}",
                 f"    udp-workers: {self.threads}", f"    tcp-workers: {self.threads}", "    background-workers: 1",
                 "    tcp-max-clients: 2000", "    tcp-idle-timeout: 60", "database:", f"    storage: {self.directory}",
                 "log:", "  - target: stderr", "    any: warning", "zone:"]  # fmt: skip
        for zone, path in self.zones.items():
            lines += [f"  - domain: {zone}", f"    file: {path}", "    zonefile-sync: -1", "    journal-content: none",
                      "    semantic-checks: off"]  # fmt: skip
        return ["knotd", "-c", self.write("knot.conf", "\n".join(lines) + "\n")]


class Nsd(Server):
    name = "nsd"
    version_command = ("nsd", "-v")

    def __init__(self, directory, zones, **kw):
        super().__init__(directory, **kw)
        self.zones = zones

    def command(self):
        lines = ["server:", f"    server-count: {self.threads}", f"    ip-address: 127.0.0.1@{self.port}", '    username: ""',
                 f"    zonesdir: {self.directory}", '    database: ""', f"    pidfile: {self.path('pid')}",
                 f"    xfrdfile: {self.path('xfrd')}", f"    zonelistfile: {self.path('zonelist')}", f"    xfrdir: {self.directory}",
                 "    tcp-count: 1000", "    tcp-timeout: 60", "    reuseport: no", "    rrl-ratelimit: 0", "    rrl-whitelist-ratelimit: 0", "remote-control:", "    control-enable: no"]  # fmt: skip
        for zone, path in self.zones.items():
            lines += ["zone:", f"    name: {zone}", f"    zonefile: {path}"]
        return ["nsd", "-d", "-c", self.write("nsd.conf", "\n".join(lines) + "\n")]


class Dnsmasq(Server):
    """dnsmasq alone, with the zone's names as hosts. It has no zones, so it cannot answer SRV queries for headless Services or CNAMEs to external names."""

    name = "dnsmasq"
    version_command = ("dnsmasq", "--version")
    kinds = ("cluster_a", "cluster_aaaa", "nxdomain", "headless_a", "endpoint_a", "ptr")

    def __init__(self, directory, zones, **kw):
        super().__init__(directory, **kw)
        hosts = []
        with open(zones["cluster.local."], encoding="utf-8") as f:
            for line in f:
                found = re.match(r"(\S+)\s+\d+\s+IN\s+A\s+(\S+)", line)
                if found:
                    hosts.append(f"{found.group(2)} {found.group(1).rstrip('.')}")
        # dnsmasq takes the first name of an address for the PTR. So an endpoint's own name comes before the name of its Service.
        self.hosts = self.write("hosts", "\n".join(sorted(hosts, key=lambda line: (-line.count("."), line))) + "\n")

    def command(self):
        return ["dnsmasq", "-k", "-C", "/dev/null", "--no-resolv", "--no-hosts", f"--addn-hosts={self.hosts}", "--local=/#/",
                f"--port={self.port}", "--listen-address=127.0.0.1", "--bind-interfaces", "--pid-file=", "--log-facility=-", "--user=",
                "--cache-size=10000"]  # fmt: skip


class Forwarder(Server):
    """dnsmasq with kube-dns's own flags. It forwards names to {domain: port}, and all other names to `upstream`."""

    version_command = ("dnsmasq", "--version")

    def __init__(self, directory, name, upstream, domains=None, **kw):
        self.name = name
        super().__init__(directory, **kw)
        self.upstream, self.domains = upstream, domains or {}

    def command(self):
        servers = [f"--server=/{domain}/127.0.0.1#{port}" for domain, port in self.domains.items()]
        return ["dnsmasq", "-k", "-C", "/dev/null", "--no-resolv", "--no-hosts", "--cache-size=1000", "--no-negcache", "--dns-loop-detect",
                *servers, f"--server=127.0.0.1#{self.upstream}", f"--port={self.port}", "--listen-address=127.0.0.1",
                "--bind-interfaces", "--pid-file=", "--log-facility=-", "--user=", "--dns-forward-max=6000"]  # fmt: skip

    def answers(self):
        try:
            reply = dns.query.udp(dns.message.make_query("host-000.example.com.", "A"), "127.0.0.1", port=self.port, timeout=0.5)
            return reply.rcode() == 0
        except (OSError, dns.exception.DNSException):
            return False


class Peer(Server):
    """
    Any other server: --peer NAME=COMMAND. COMMAND may contain {port}, {zone} (master file of cluster.local), {zones} (the directory with
    the master files of this zone and the reverse zones), {objects} (directory of manifests) and {directory} (a directory for the server).
    """

    def __init__(self, directory, name, command, zones, objects, **kw):
        self.name = name
        super().__init__(directory, **kw)
        self.given, self.zone, self.objects = command, zones.get("cluster.local."), objects

    def command(self):
        places = {"zone": self.zone, "zones": os.path.dirname(self.zone), "objects": self.objects, "directory": self.directory}
        return shlex.split(self.given.format(port=self.port, **places))


# Reverse zones on octet boundaries: one for Services and one for endpoints.
REVERSE = ("--reverse-cidrs=10.0.0.0/8,100.0.0.0/8",)
ZONES = ("cluster.local.", "10.in-addr.arpa.", "100.in-addr.arpa.")


def print_zones(source, directory):
    """Returns the zones that kubedns makes from the objects: {zone name: master file}."""
    shutil.rmtree(directory, ignore_errors=True)
    os.makedirs(directory)
    files = {}
    for zone in ZONES:
        files[zone] = os.path.join(directory, zone + "zone")
        command = [Kubedns.program, *source, *REVERSE, f"--print-zone={zone}", "--ns-addresses=127.0.0.1"]
        with open(files[zone], "wb") as out:
            done = subprocess.run(command, stdout=out, stderr=subprocess.PIPE, timeout=300, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{shlex.join(command)}: exit {done.returncode}\n{done.stderr.decode()}")
    return files
