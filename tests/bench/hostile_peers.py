"""Other servers under the same hostile load (`--peer`), each with one thread on kubedns's CPU. CoreDNS uses the Corefile of its Kubernetes
manifest and the stand-in API server. unbound has the same names as local zones. Both query the dead upstream server themselves, with
their own caches.
"""

import contextlib
import os
import urllib.request

import dns.exception
import dns.message
import dns.query
import dns.rcode
import questions
import servers
from results import DIRECTORY
from waiting import free_port

from apiserver import ApiProcess

ABSENT = "nobody.ns-00000.svc.cluster.local."


class CoreDns(servers.Server):
    name = "coredns"

    def __init__(self, program, kubeconfig, upstream, **kw):
        super().__init__(DIRECTORY, **kw)
        self.program, self.kubeconfig, self.upstream = program, kubeconfig, upstream

    def take_ports(self):
        super().take_ports()
        self.healthz = free_port()

    def environment(self):
        return {**super().environment(), "GOMAXPROCS": str(self.threads)}

    def command(self):
        corefile = f""".:{self.port} {{
    bind 127.0.0.1
    errors
    health 127.0.0.1:{self.healthz}
    kubernetes cluster.local in-addr.arpa ip6.arpa {{
        kubeconfig {self.kubeconfig}
        pods insecure
        fallthrough in-addr.arpa ip6.arpa
        ttl 30
    }}
    forward . 127.0.0.1:{self.upstream} {{
        max_concurrent 1000
    }}
    cache 30
    loadbalance
}}
"""
        return [self.program, "-conf", self.write("Corefile", corefile)]

    def answers(self):
        """True once CoreDNS answers NXDOMAIN for a missing name. Until it has read the cluster, it answers SERVFAIL."""
        with contextlib.suppress(OSError, dns.exception.DNSException):
            return dns.query.udp(dns.message.make_query(ABSENT, "A"), "127.0.0.1", port=self.port, timeout=0.5).rcode() == dns.rcode.NXDOMAIN
        return False

    def health(self):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.healthz}/health", timeout=5) as r:
                return r.status
        except OSError as e:
            return getattr(e, "code", 0)


class Unbound(servers.Server):
    """Debian's settings, except that it permits as many TCP connections as the attacks open. Debian's settings have no rate limits for clients."""

    name = "unbound"

    def __init__(self, program, zones, upstream, **kw):
        super().__init__(DIRECTORY, **kw)
        self.program, self.zones, self.upstream = program, zones, upstream

    def command(self):
        lines = ["server:", f"    num-threads: {self.threads}", f"    port: {self.port}", "    interface: 127.0.0.1", '    username: ""', '    chroot: ""',
                 f'    directory: "{self.directory}"', '    pidfile: ""', "    use-syslog: no", "    do-not-query-localhost: no", "    do-daemonize: no",
                 '    module-config: "iterator"', "    incoming-num-tcp: 1000", '    local-zone: "10.in-addr.arpa." nodefault', "remote-control:",
                 "    control-enable: no", "forward-zone:", '    name: "."', f"    forward-addr: 127.0.0.1@{self.upstream}"]  # fmt: skip
        for zone, path in self.zones.items():
            lines += ["auth-zone:", f'    name: "{zone}"', f'    zonefile: "{path}"', "    for-upstream: no", "    for-downstream: yes"]
        return [self.program, "-d", "-c", self.write("unbound.conf", "\n".join(lines) + "\n")]

    def health(self):
        return None


PROGRAMS = {"coredns": None, "unbound": "unbound"}


def read(text):
    """Parses --peer NAME[=PROGRAM]. Returns (name, program)."""
    name, _, program = text.partition("=")
    program = program or PROGRAMS.get(name)
    if name not in PROGRAMS or not program:
        raise ValueError(f"{text}: unknown server; use coredns=PROGRAM or unbound[=PROGRAM]")
    return name, program


@contextlib.contextmanager
def makers(wanted, people, source):
    """Yields {name: make(upstream's port)} for these peers. Their sources exist until the context ends."""
    with contextlib.ExitStack() as stack:
        made = {}
        for name, program in wanted:
            if name == "coredns":
                api = stack.enter_context(ApiProcess())
                api.load(**vars(people))
                api.fill(questions.externals())
                config = api.kubeconfig(os.path.join(DIRECTORY, "hostile-kubeconfig"))
                made[name] = lambda upstream, program=program, config=config: CoreDns(program, config, upstream)
            else:
                zones = servers.print_zones(source, os.path.join(DIRECTORY, "hostile-zones"))
                made[name] = lambda upstream, program=program, zones=zones: Unbound(program, zones, upstream)
        yield made
