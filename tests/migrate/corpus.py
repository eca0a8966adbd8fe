"""
make test-corpus: compares a real CoreDNS that serves Corefiles with kubedns, the nanny and dnsmasq that serve their translation.

    corpus.py [--coredns FILE] [--topology front] [--results FILE] [--part K/N] [FILE or FOLDER...]      default: tests/migrate/corpus

For each file, CoreDNS, the front and the classic topology get the same 200 queries: for names of the cluster, reverse names, names in the Corefile
(zones, hosts, rewrites, templates) and external names. The rcode, the answer section and its lowest TTL are compared.

The programs run in network and mount namespaces (needs root), so the Corefile and the printed kustomization are used unchanged. Every
address after `forward` is the address of a stand-in DNS server. Servers of different `forward` lines give different answers. /etc is an
overlay, and tests/apiserver is the cluster.

A difference is announced if the report has a line `changes` or `NO EQUIVALENT` that says what differs, in the server block that CoreDNS uses
for the name, and that names the name (announcements.py). docs/from-coredns.md lists nine differences of all clusters. Exit status 1: a
difference is neither announced nor listed.

The answers are kept in --directory. If only kubedns-migrate changes, only Corefiles whose translation changes are asked again.
"""

import argparse
import collections
import functools
import ipaddress
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import zlib

import dns.exception
import dns.flags
import dns.message
import dns.query
import dns.rcode
import dns.rdatatype
import dns.rrset
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests/helpers")]

from announcements import Difference, World, below, zone_of  # noqa: E402
from apiserver import ApiServer  # noqa: E402
from overlays import copy  # noqa: E402

BUILD = pathlib.Path(os.environ.get("BUILD", ROOT / "build")).resolve()
QUESTIONS = 200
RESOLV_CONF = "192.0.2.53"
ADDRESS = re.compile(r"\[?((?:\d{1,3}\.){3}\d{1,3}|[0-9a-fA-F]*:[0-9a-fA-F:]*:[0-9a-fA-F:.]*)\]?(?::(\d+))?$")
# Options of old CoreDNS versions. Later versions ignored or renamed them, and the version used here refuses them.
GONE = re.compile(r"^\s*(upstream|resyncperiod\s.*|spray|fail_timeout.*|protocol\s.*)\s*$", re.M)
# The Corefile of the distribution, for clusters of which the corpus has only the ConfigMap coredns-custom.
DISTRIBUTION = """.:53 {
    errors
    health
    ready
    kubernetes cluster.local in-addr.arpa ip6.arpa {
        pods insecure
        fallthrough in-addr.arpa ip6.arpa
    }
    prometheus :9153
    import custom/*.override
    forward . /etc/resolv.conf
    cache 30
    loop
    reload
    loadbalance
}
import custom/*.server
"""


class Skipped(Exception):
    """A file that cannot be compared, with the reason."""


# The stand-in DNS servers: one process in its own namespace. Each line on its standard input is {address: {port: group}}.


def stand_in_answer(query, group):
    name, rdtype = query.question[0].name, dns.rdatatype.to_text(query.question[0].rdtype)
    text, reply = name.to_text(omit_final_dot=True).lower(), dns.message.make_response(query, recursion_available=True)
    number = zlib.crc32(group.encode()) & 0xFFFF
    first = text.split(".")[0]
    ttl = 86400 if first.startswith(("mail", "1")) else 60  # CoreDNS's cache limits one, or both
    if first.startswith("nx") or text.endswith("cluster.local") or first.startswith("no-such"):
        reply.set_rcode(dns.rcode.NXDOMAIN)
        reply.authority.append(dns.rrset.from_text("example.", 30, "IN", "SOA", "ns.example. host.example. 1 3600 600 86400 30"))
        return reply
    records = {"A": f"100.64.{number >> 8}.{number & 255}", "AAAA": f"2001:db8:aaaa::{number:x}", "TXT": f'"{group}" "{text[:200]}"', "MX": f"10 mail-{number}.outside.example.",
               "PTR": f"host-{number}.outside.example.", "NS": f"ns-{number}.outside.example.", "HINFO": f'"{group}" "x"'}  # fmt: skip
    if first == "alias" and rdtype in ("A", "AAAA"):
        reply.answer.append(dns.rrset.from_text(name, 60, "IN", "CNAME", "target.outside.example."))
        name = "target.outside.example."
    if rdtype in records and (rdtype == "PTR") == text.endswith(".arpa"):
        reply.answer.append(dns.rrset.from_text(name, ttl, "IN", rdtype, records[rdtype]))
    else:
        reply.authority.append(dns.rrset.from_text("example.", 30, "IN", "SOA", "ns.example. host.example. 1 3600 600 86400 30"))
    return reply


@functools.lru_cache(10000)
def stand_in_reply(rest, group):
    """The answer to a query without its ID, also without its ID. CoreDNS and both topologies send most queries once each."""
    return stand_in_answer(dns.message.from_wire(b"\0\0" + rest), group).to_wire()[2:]


def stand_in_serve(sock, group):
    while True:
        wire, client = sock.recvfrom(65535)
        try:
            sock.sendto(wire[:2] + stand_in_reply(wire[2:], group[0]), client)
        except (dns.exception.DNSException, IndexError, OSError):
            continue


def stand_in_serve_tcp(listener, group):
    while True:
        peer, _ = listener.accept()
        threading.Thread(target=stand_in_stream, args=(peer, group), daemon=True).start()


def stand_in_stream(peer, group):
    try:
        with peer, peer.makefile("rb") as stream:
            while len(prefix := stream.read(2)) == 2:
                wire = stand_in_answer(dns.message.from_wire(stream.read(int.from_bytes(prefix, "big"))), group[0]).to_wire()
                peer.sendall(len(wire).to_bytes(2, "big") + wire)
    except (OSError, dns.exception.DNSException, IndexError):
        return


def stand_in_open(address, port, group):
    six = ":" in address
    subprocess.run(["ip", *(["-6"] if six else []), "addr", "add", f"{address}/{128 if six else 32}", "dev", "lo", *(["nodad"] if six else [])],
                   check=False, capture_output=True)  # fmt: skip
    family = socket.AF_INET6 if six else socket.AF_INET
    udp, tcp = socket.socket(family, socket.SOCK_DGRAM), socket.socket(family, socket.SOCK_STREAM)
    udp.bind((address, port))
    tcp.bind((address, port))
    tcp.listen()
    threading.Thread(target=stand_in_serve, args=(udp, group), daemon=True).start()
    threading.Thread(target=stand_in_serve_tcp, args=(tcp, group), daemon=True).start()


def stand_in():
    groups = {}  # (address, port): [group]; the next file changes it
    for line in sys.stdin:
        for address, ports in json.loads(line).items():
            for port, group in ports.items():
                if (address, port) in groups:
                    groups[address, port][0] = group
                    continue
                groups[address, port] = [group]
                try:
                    stand_in_open(address, int(port), groups[address, port])
                except OSError as e:
                    print(f"{address} port {port}: {e}", file=sys.stderr)
        print("ready", flush=True)


# The old configuration.


def chart_corefile(servers):
    """The Corefile that the coredns chart makes from its `servers`."""
    out = []
    for server in servers:
        zones = [f"{z.get('scheme', '')}{z.get('zone', '')}:{server.get('port', 53)}" for z in server.get("zones") or [{"zone": "."}]]
        out.append(" ".join(zones) + " {")
        for plugin in server.get("plugins", []):
            line = f"    {plugin['name']} {plugin.get('parameters', '')}".rstrip()
            block = plugin.get("configBlock")
            out.append(line + (" {\n" + "\n".join(f"        {x}" for x in str(block).splitlines()) + "\n    }" if block else ""))
        out.append("}")
    return "\n".join(out) + "\n"


def find_servers(value):
    if isinstance(value, dict):
        if isinstance(value.get("servers"), list) and any("plugins" in s for s in value["servers"] if isinstance(s, dict)):
            return value["servers"]
        for v in value.values():
            if found := find_servers(v):
                return found
    return None


class Old:
    """One file of the corpus, in the form that CoreDNS reads: the Corefile, the files next to it, and the text for kubedns-migrate."""

    def __init__(self, path):
        self.path, self.given, self.files, self.custom = path, path.read_text(), {}, {}
        if path.suffix == ".corefile":
            self.corefile = self.given
            return
        documents = [d for d in yaml.safe_load_all(self.given) if isinstance(d, dict)]
        self.corefile = None
        for d in documents:
            if d.get("kind") == "ConfigMap":
                data = {k: str(v) for k, v in (d.get("data") or {}).items()}
                if "Corefile" in data:
                    self.corefile = data.pop("Corefile")
                    self.files.update(data)
                else:
                    self.custom.update(data)
        if self.corefile is None and self.custom:
            self.corefile = DISTRIBUTION
            added = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "coredns", "namespace": "kube-system"}, "data": {"Corefile": DISTRIBUTION}}
            self.given = self.given.rstrip() + "\n---\n" + yaml.safe_dump(added, sort_keys=False)
        if self.corefile is None and (servers := next(filter(None, map(find_servers, documents)), None)):
            self.corefile = chart_corefile(servers)
        if self.corefile is None:
            raise Skipped("no Corefile in it")

    def text(self):
        """The Corefile and the files that it may import."""
        return "\n".join([self.corefile, *(v for k, v in self.custom.items() if k.endswith((".server", ".override")))])

    def for_coredns(self):
        """Adapts the file to today's CoreDNS: `proxy` became `forward`, and old options of kubernetes were removed."""
        return GONE.sub("", re.sub(r"^(\s*)proxy\b", r"\1forward", self.corefile, flags=re.M))

    def groups(self):
        """Returns {address: {port: group}} for all servers. The servers in one line give the same answers."""
        made = {RESOLV_CONF: {53: RESOLV_CONF}}
        for line in self.text().splitlines():
            words = line.split("#")[0].split()
            if len(words) < 3 or words[0] not in ("forward", "proxy", "grpc"):
                continue
            found = [m for m in (ADDRESS.match(re.sub(r"^[a-z]+://", "", w.split("%")[0])) for w in words[2:]) if m]
            group = next((made[m[1]][int(m[2] or 53)] for m in found if int(m[2] or 53) in made.get(m[1], {})), None) or (found[0][0] if found else None)
            for m in found:
                try:
                    if ipaddress.ip_address(m[1]).is_loopback:
                        continue
                except ValueError:
                    continue
                made.setdefault(m[1], {})[int(m[2] or 53)] = group
        return made


def blocks_of(text):
    """Parses a Corefile without imports: [(zones, [(words, [words of its block])])]. This is enough to find the block that decides a name."""
    blocks, depth, zones, lines = [], 0, [], []
    for n, line in enumerate(text.splitlines(), 1):
        words = re.sub(r"(^|\s)#.*", "", line).split()
        if not words:
            continue
        opens, closes = words[-1] == "{", words == ["}"] or words[-1] == "}"
        if depth == 0 and words[0] != "}":
            if words[0] == "import" or words[0].startswith("("):
                depth += opens
                continue
            zones += [zone_of(w.rstrip(",")) for w in words if w != "{"]
            if opens:
                blocks.append((zones, lines := []))
                zones, depth = [], 1
            continue
        if depth == 1 and not closes:
            lines.append((n, [w for w in words if w != "{"], []))
        elif depth > 1 and lines:
            lines[-1][2].append(words)
        depth += opens - closes
    return blocks


def has_plugin(old, name, plugin):
    """True if a server block that may answer the name has the plugin."""
    blocks = [(max((z for z in zones if below(name, z)), key=len, default=None), lines) for zones, lines in blocks_of(old.text())]
    longest = max((z for z, _ in blocks if z is not None), key=len, default=None)
    return any(zone == longest and any(words[0] == plugin for _, words, _ in lines) for zone, lines in blocks)


def hosts_are_last(old, name):
    """True if hosts has no fallthrough in the block of the name, so CoreDNS returns SERVFAIL for all other names."""
    return has_plugin(old, name, "hosts") and not re.search(r"^\s+fallthrough\s*$", old.text(), re.M)


# The cluster.


def service(name, namespace, ip, ports=(("http", "TCP", 80),), **spec):
    ips = {"clusterIPs": [ip, *spec.pop("also", ())]} if ip else {}
    return {"kind": "Service", "apiVersion": "v1", "metadata": {"name": name, "namespace": namespace},
            "spec": {**({"clusterIP": ip, **ips} if ip else {}), "ports": [{"name": n, "port": p, "protocol": t, "targetPort": p} for n, t, p in ports], **spec}}  # fmt: skip


def slices(name, namespace, *endpoints, ports=(("http", "TCP", 80),), family="IPv4"):
    return {"kind": "EndpointSlice", "apiVersion": "discovery.k8s.io/v1", "addressType": family,
            "metadata": {"name": f"{name}-{family.lower()}", "namespace": namespace, "labels": {"kubernetes.io/service-name": name}},
            "ports": [{"name": n, "port": p, "protocol": t} for n, t, p in ports],
            "endpoints": [{"addresses": [a], "conditions": {"ready": ready}, **({"hostname": h} if h else {})} for a, h, ready in endpoints]}  # fmt: skip


OBJECTS = [
    *({"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": n}} for n in ("default", "kube-system", "shop")),
    service("kubernetes", "default", "10.96.0.1", (("https", "TCP", 443),)), slices("kubernetes", "default", ("192.168.0.2", "", True), ports=(("https", "TCP", 6443),)),
    service("kube-dns", "kube-system", "10.96.0.10", (("dns", "UDP", 53), ("dns-tcp", "TCP", 53))),
    service("traefik", "kube-system", "10.96.0.20"), service("web", "shop", "10.96.1.1", (("http", "TCP", 80), ("https", "TCP", 443))),
    slices("web", "shop", ("10.1.0.5", "", True)),
    service("dual", "shop", "10.96.1.2", also=("fd00:96::2",), ipFamilies=["IPv4", "IPv6"]),
    service("db", "shop", "None", (("pg", "TCP", 5432),)), slices("db", "shop", ("10.1.0.1", "db-0", True), ("10.1.0.2", "db-1", True), ports=(("pg", "TCP", 5432),)),
    service("nohost", "shop", "None"), slices("nohost", "shop", ("10.1.0.3", "", True), ("10.1.0.4", "", True)),
    service("broken", "shop", "None"), slices("broken", "shop", ("10.1.0.9", "", False)),
    service("empty", "shop", "None"),
    service("ext", "shop", "", (), type="ExternalName", externalName="www.outside.example"),
]  # fmt: skip


def cluster_questions(domain):
    svc = f"svc.{domain}"
    for name in ("kubernetes.default", "web.shop", "dual.shop", "kube-dns.kube-system", "traefik.kube-system", "db.shop", "nohost.shop", "ext.shop"):
        yield from ((f"{name}.{svc}", "A"), (f"{name}.{svc}", "AAAA"))
    for name in ("broken.shop", "empty.shop", "no-such-service.shop", "web.no-such-namespace", "shop", "db-0.db.shop", "db-1.db.shop", "db-9.db.shop"):
        yield (f"{name}.{svc}", "A")
    for name in ("_https._tcp.kubernetes.default", "_http._tcp.web.shop", "_https._tcp.web.shop", "_dns._udp.kube-dns.kube-system", "_pg._tcp.db.shop",
                 "_nothing._tcp.web.shop", "web.shop", "_http._udp.web.shop"):  # fmt: skip
        yield (f"{name}.{svc}", "SRV")
    yield from ((f"web.shop.{svc}", "TXT"), (f"web.shop.{svc}", "MX"), (f"ext.shop.{svc}", "CNAME"), (svc, "A"), (domain, "A"), (domain, "SOA"), (domain, "NS"),
                (f"dns-version.{domain}", "TXT"), (f"10-1-0-5.shop.pod.{domain}", "A"), (f"10-9-9-9.no-such.pod.{domain}", "A"), (f"no-such.{domain}", "A"),
                (f"www.outside.example.shop.{svc}", "A"), (f"www.outside.example.{svc}", "A"), (f"www.outside.example.{domain}", "AAAA"))  # fmt: skip
    for address in ("10.96.0.1", "10.96.0.10", "10.96.1.1", "10.1.0.1", "10.1.0.2", "10.1.0.5", "10.96.9.9", "8.8.4.4", "172.16.1.1"):
        yield (".".join(reversed(address.split("."))) + ".in-addr.arpa", "PTR")
    yield (ipaddress.ip_address("fd00:96::2").reverse_pointer, "PTR")
    yield (ipaddress.ip_address("2001:db8:1::1").reverse_pointer, "PTR")


def named_questions(text):
    """The names in the Corefile and in the files next to it. Host names come first, because they are the most frequent."""
    name = re.compile(r"^[A-Za-z0-9_*-]+(\.[A-Za-z0-9_-]+)*\.?$")
    for line in text.splitlines():
        words = re.sub(r"(^|\s)#.*", "", line).split()
        if not words:
            continue
        try:
            address = ipaddress.ip_address(words[0])
            yield (address.reverse_pointer, "PTR")
            yield from ((w, t) for w in words[1:] if name.match(w) for t in ("A", "AAAA", "TXT"))
            continue
        except ValueError:
            pass
        for word in words if words[0] in ("rewrite", "template", "file", "hosts", "forward", "proxy", "acl", "kubernetes", "k8s_external") or words[-1] == "{" else ():
            word = zone_of(word.replace("\\.", ".").replace("(.*)", "any").replace(".*", "any").strip("^$\"'"))
            if "." in word and name.match(word) and not word.endswith("arpa") and not re.match(r"^[\d.]+$", word):
                yield from ((word, "A"), (f"www.{word}", "A"), (f"www.{word}", "AAAA"), (f"a.b.{word}", "A"), (f"nx.{word}", "A"), (word, "SOA"))


def questions(old, domain):
    found = dict.fromkeys(cluster_questions(domain))
    room = QUESTIONS - 40
    beside = "\n".join([old.text(), *old.files.values(), *old.custom.values()])
    for q in named_questions(beside):
        if len(found) >= room:
            break
        found.setdefault((q[0].rstrip(".").lower().replace("*", "any"), q[1]))
    n = 0
    while len(found) < QUESTIONS:
        base = ("www.outside.example", "alias.outside.example", "nx.outside.example", "single", "a.b.c.test", "www.corp", f"w{n}.elsewhere.example")[n % 7]
        for t in ("A", "AAAA", "TXT", "MX", "SRV"):
            if len(found) < QUESTIONS:
                found.setdefault((base, t))
        n += 1
    return list(found)


# Servers.


class Servers:
    """Programs that run together, with their logs in `directory`."""

    def __init__(self, directory, api):
        self.directory, self.running, self.environment = directory, [], {**api.environment(), "PATH": os.environ["PATH"] + ":/usr/sbin"}

    def start(self, name, command):
        with open(self.directory / f"{name}.log", "ab") as log:
            self.running.append((name, subprocess.Popen([str(c) for c in command], stdout=log, stderr=log, env=self.environment, cwd="/etc/coredns")))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for _name, p in self.running:
            p.send_signal(signal.SIGTERM if _name != "coredns" else signal.SIGKILL)
        for _name, p in self.running:
            try:
                p.wait(15)
            except subprocess.TimeoutExpired:
                p.kill()
                p.wait()

    def wait_answers(self, name, failures=False):
        """Waits until the cluster's names can be resolved. With `failures`, SERVFAIL is an answer."""
        deadline = time.monotonic() + 25
        while time.monotonic() < deadline:
            for program, p in self.running:
                if p.poll() is not None:
                    log = (self.directory / f"{program}.log").read_text(errors="replace").strip().splitlines()
                    raise Skipped(f"{program} does not start: {log[-1][:200] if log else p.returncode}")
            if answers_now(name, "A", failures):
                return
            time.sleep(0.02)
        raise Skipped(f"{self.running[0][0]} is not ready after 25 s")


def record(rdata):
    """Returns an SOA record without its serial, which is a time, and without its last number, the TTL of negative answers."""
    return rdata.replace(serial=0, minimum=0) if rdata.rdtype == dns.rdatatype.SOA else rdata


IN_FLIGHT = 24  # queries that wait for an answer at the same time


def ask_all(questions):
    """Returns [(rcode and answer section as a text that can be compared, lowest TTL)]. Repeats queries without a useful answer once, because a server may
    be late on a busy machine."""
    answers = ask_once(questions)
    again = [n for n, (text, _) in enumerate(answers) if text in ("SERVFAIL", "no answer")]
    for n, answer in zip(again, ask_once([questions[n] for n in again])):
        answers[n] = answer
    return answers


def ask_once(questions):
    """Sends all queries to port 53, twice if there is no answer."""
    wires = [n.to_bytes(2, "big") + query_of(*q) for n, q in enumerate(questions)]
    answers, tries, deadlines, left = [None] * len(wires), [0] * len(wires), {}, collections.deque(range(len(wires)))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.connect(("127.0.0.1", 53))
        while left or deadlines:
            while left and len(deadlines) < IN_FLIGHT:
                n = left.popleft()
                deadlines[n], tries[n] = time.monotonic() + 6, tries[n] + 1
                s.send(wires[n])
            s.settimeout(max(0.01, min(deadlines.values()) - time.monotonic()))
            try:
                wire = s.recv(65535)
            except OSError:  # nothing arrived in time
                for n in [n for n, deadline in deadlines.items() if deadline <= time.monotonic()]:
                    del deadlines[n]
                    if tries[n] < 2:
                        left.append(n)
                    else:
                        answers[n] = "no answer", None
                continue
            n = int.from_bytes(wire[:2], "big")
            if deadlines.pop(n, None):
                answers[n] = as_text(wire, wires[n])
    return answers


@functools.lru_cache(10000)
def query_of(name, rdtype):
    """The query without its ID."""
    return dns.message.make_query(name, rdtype, use_edns=0, payload=4096, id=0).to_wire()[2:]


def as_text(wire, query):
    if wire[2] & 2:  # truncated
        try:
            return text_of(dns.query.tcp(dns.message.from_wire(query), "127.0.0.1", timeout=6).to_wire()[2:])
        except (dns.exception.DNSException, OSError, EOFError) as e:
            return type(e).__name__, None
    return text_of(wire[2:])


@functools.lru_cache(10000)
def text_of(rest):
    """The text of a message without its ID."""
    try:
        reply = dns.message.from_wire(b"\0\0" + rest, ignore_trailing=True)
    except dns.exception.DNSException as e:
        return type(e).__name__, None
    records = sorted(f"{s.name} {dns.rdatatype.to_text(s.rdtype)} {record(r)}".lower() for s in reply.answer for r in s)
    return " ".join([dns.rcode.to_text(reply.rcode()), *(f"[{r}]" for r in records)]), min((s.ttl for s in reply.answer), default=None)


def answers_now(name, rdtype, failures=False):
    """True if the server on port 53 answers within a second. SERVFAIL only counts with `failures`."""
    query = dns.message.make_query(name, rdtype)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.settimeout(1)
        s.connect(("127.0.0.1", 53))
        try:
            s.send(query.to_wire())
            return dns.message.from_wire(s.recv(65535)).rcode() != dns.rcode.SERVFAIL or failures
        except (dns.exception.DNSException, OSError):
            return False


def write_files(old):
    """Writes the pod's /etc/coredns into the overlay."""
    for place, files in (("/etc/coredns", {**old.files, "Corefile": old.for_coredns()}), ("/etc/coredns/custom", old.custom)):
        shutil.rmtree(place, ignore_errors=True)
        os.makedirs(place)
        for name, text in files.items():
            pathlib.Path(place, name).write_text(text)
    pathlib.Path("/etc/resolv.conf").write_text(f"nameserver {RESOLV_CONF}\n")


def migrate(old, topology, directory):
    given = directory / ("Corefile" if old.path.suffix == ".corefile" else "objects.yaml")
    given.write_text(old.given)
    p = subprocess.run([BUILD / "bin/kubedns-migrate", f"--topology={topology}", given], capture_output=True, text=True, timeout=30, check=False)
    if p.returncode:
        raise Skipped(f"kubedns-migrate: {p.stderr.strip()[:200]}")
    (directory / f"report-{topology}").write_text(p.stdout)
    return p.stdout


def containers(printed, directory, domain):
    """Writes the printed ConfigMap. Returns the arguments of each container as kustomize renders them."""
    documents = [d for d in yaml.safe_load_all(printed) if d]
    data = next((d["data"] for d in documents if d.get("kind") == "ConfigMap"), {})
    for place in ("/etc/kube-dns", "/etc/k8s/dns/dnsmasq-nanny"):
        shutil.rmtree(place, ignore_errors=True)
        os.makedirs(place)
        for key, value in data.items():
            pathlib.Path(place, key).write_text(value)
    overlay = next(d for d in documents if d.get("kind") == "Kustomization")
    args = [list(a) for a in rendered(directory.parent, overlay["resources"][0], tuple(overlay.get("components", ())))]
    for patch in overlay.get("patches", []):
        for op in yaml.safe_load(patch["patch"]) if patch["target"]["kind"] == "Deployment" else ():
            number, _, place = op["path"].split("/")[5:]
            if op["op"] == "add":
                args[int(number)].insert(len(args[int(number)]) if place == "-" else int(place), op["value"])
            elif op["op"] == "test":
                assert args[int(number)][int(place)] == op["value"], op
            else:
                args[int(number)][int(place)] = op["value"]
    return {name: [re.sub(r"^(--?drain)=.*", r"\1=0s", a.replace("$(CLUSTER_DOMAIN)", domain)) for a in args[i]] for i, name in enumerate(("kubedns", "dnsmasq"))}


@functools.cache
def rendered(workspace, resource, components):
    """The arguments of kubedns and of the nanny without patches. kubectl renders each overlay once, because it takes longer than the queries."""
    directory = workspace / f"overlay-{pathlib.Path(resource).name}{len(components)}"
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    made = copy(directory)
    (made / "mine").mkdir()
    (made / "mine/kustomization.yaml").write_text(yaml.safe_dump({"resources": [resource], "components": list(components)}))
    text = subprocess.run(["kubectl", "kustomize", made / "mine"], capture_output=True, text=True, check=True, timeout=60).stdout
    deployment = next(o for o in yaml.safe_load_all(text) if o and o["kind"] == "Deployment")
    return [c["args"] for c in deployment["spec"]["template"]["spec"]["containers"]][:2]


# The differences that docs/from-coredns.md lists for every cluster.


def rewritten(old, name):
    """True if the Corefile rewrites the name, as an exact name or by a suffix."""
    rules = re.findall(r"^\s*rewrite (?:stop |continue )?name (exact |suffix |)(\S+) \S+(?: answer auto)?$", old.text(), re.M)
    return any(below(name, zone_of(f)) if kind == "suffix " else name == zone_of(f) for kind, f in rules)


def documented(d, topology, is_rewritten, world):
    """The differences that docs/from-coredns.md lists for every cluster."""
    name, rdtype, theirs, ours = d.name, d.rdtype, d.theirs, d.ours
    if d.ttls:
        is_soa = (rdtype, name, topology, d.ttls[1]) == ("SOA", world.domain, "classic", 0)
        return ["docs/from-coredns.md: TTL of the zone's SOA record"] if is_soa else []
    if (rdtype, theirs, ours) == ("SOA", "NOERROR", "NXDOMAIN"):
        return ["docs/from-coredns.md: SOA of a name that does not exist"]
    if rdtype == "ANY" and theirs == "NOERROR" and ours.endswith(' hinfo "rfc8482" ""]') and not world.has_plugin(name, "any"):
        return ["docs/from-coredns.md: ANY queries without the plugin any"]
    if name == "localhost" and rdtype in ("A", "AAAA") and "localhost. a" in ours and not world.has_plugin(name, "local"):
        return ["docs/from-coredns.md: localhost without the plugin local"]
    if ours.startswith("NXDOMAIN [") and theirs == "NOERROR" + ours[len("NXDOMAIN") :] and theirs.endswith(" cname www.outside.example.]"):
        return ["docs/from-coredns.md: an ExternalName Service whose target does not exist"]
    if theirs == "NOERROR" and rdtype not in ("A", "AAAA", "CNAME") and " cname www.outside.example.]" in ours:
        return ["docs/from-coredns.md: other types of an ExternalName Service"]
    if (rdtype, theirs, topology) == ("SOA", "NOERROR", "classic") and ours.startswith(f"NOERROR [{name}. soa ns.dns."):
        return ["docs/from-coredns.md: SOA of a rewritten name"]
    if rdtype not in ("A", "AAAA") and (theirs, ours) == ("NXDOMAIN", "NOERROR") and any(re.fullmatch(rf"[^.]+\.svc\.{re.escape(world.domain)}", n) for n in world.names(d)):
        return ["docs/from-coredns.md: other types of a namespace's name"]
    cached = is_rewritten or (name == "www.outside.example" and world.has_plugin(name, "template"))  # the target of the Service ext
    if cached and (theirs, ours, topology) == ("NXDOMAIN", "NOERROR", "classic"):
        return ["docs/from-coredns.md: a rewritten name whose new name does not exist"]
    return []


# The queries of a random Corefile (random_corefiles.py): each aims at a directive.


def aims_of(path):
    """Returns [(name, type, first line, last line, plugin)], or None if the file has no such list."""
    aims = path.with_suffix(".json")
    return [tuple(a) for a in json.loads(aims.read_text())] if aims.exists() else None


def differences(asked, theirs, ours):
    """Returns the answers that differ, and those of which only the TTL differs. Caches count down, so one second is no difference."""
    for q, (t, t_ttl), (o, o_ttl) in zip(asked, theirs, ours):
        if t != o:
            yield Difference(q, t, o)
        elif None not in (t_ttl, o_ttl) and abs(t_ttl - o_ttl) > 1 and not q[0].startswith("kubernetes.default.svc."):  # wait_answers() asked this name
            yield Difference(q, t, o, (t_ttl, o_ttl))


def count_directives(aims, world, differ):
    """Counts the directives whose queries all had equal answers, and those of them that are carried over. Returns the counts, and the report's lines
    about the others. If a TTL differs because of another directive, such as cache, the answer counts as equal."""
    lines = {line.number: line.text for line in world.lines if line.file == "Corefile"}
    directives, counts, needless = collections.defaultdict(set), collections.Counter(), []
    for name, rdtype, first, last, plugin in aims:
        directives[first, last, plugin].add((name, rdtype))
    for (first, last, plugin), asked in directives.items():
        counts["directives"] += 1
        own = range(first, last + 1)
        if not any((d.name, d.rdtype) in asked and (not d.ttls or not why or any(w.number in own for w in why if w.file == "Corefile")) for d, why in differ):
            said = [lines[n] for n in own if n in lines]
            counts.update(equal=1, carried=not said)
            counts[f"{plugin} equal"] += 1
            counts[f"{plugin} carried over"] += not said
            needless += said[:1]
    return counts, needless


# Results of earlier runs. A run that was interrupted continues with the files that have no result.


def stamp_of(*files):
    """A number that changes with the files."""
    return zlib.crc32(b"".join(pathlib.Path(f).read_bytes() for f in files))


def kept_answers(file, stamp, asked, ask):
    """Returns the answers in the file if they have the same stamp and the same queries. Otherwise asks, and writes the file. So only a Corefile
    whose translation has changed is asked again when kubedns-migrate changes."""
    key = [stamp, [list(q) for q in asked]]
    kept = json.loads(file.read_text()) if file.exists() else {}
    if kept.get("key") != key:
        kept = {"key": key, "answers": ask()}
        file.write_text(json.dumps(kept))
    return [tuple(a) for a in kept["answers"]]


def earlier_results(path, stamp):
    rows = [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")] if path.exists() else []
    return {r["file"]: r for r in rows if r["programs"] == stamp}


# One file.


def one(path, arguments, api, servers_of, workspace):
    old = Old(path)
    directory = workspace / path.stem
    directory.mkdir(parents=True, exist_ok=True)
    if "{{" in re.sub(r'"[^"]*"|`[^`]*`', "", old.corefile) and "template" not in old.corefile:
        raise Skipped("a template of another program")
    domain = next((zone_of(w[1]) for _, lines in blocks_of(old.text()) for _, w, _ in lines if w[0] == "kubernetes" and len(w) > 1), "cluster.local")
    if set("${}%<>") & set(domain):
        raise Skipped(f"a template of another program: the domain is {domain}")
    aims = aims_of(path)
    asked = list(dict.fromkeys(a[:2] for a in aims)) if aims else questions(old, domain)
    files = {"Corefile": old.corefile, **old.custom}

    def ask_coredns():
        servers_of(old.groups())
        write_files(old)
        with Servers(directory, api) as s:
            s.start("coredns", [arguments.coredns, "-conf", "/etc/coredns/Corefile"])
            s.wait_answers(f"kubernetes.default.svc.{domain}", not has_plugin(old, f"svc.{domain}", "kubernetes") or hosts_are_last(old, f"svc.{domain}"))
            return ask_all(asked)

    def ask_here():
        servers_of(old.groups())
        write_files(old)
        args = containers(printed, directory, domain)
        with Servers(directory, api) as s:
            s.start("kubedns", [BUILD / "bin/kubedns", *args["kubedns"]])
            s.start("nanny", [BUILD / "bin/nanny", *args["dnsmasq"]])
            s.wait_answers(f"kubernetes.default.svc.{domain}")
            wait_upstream()
            return ask_all(asked)

    result, given = {}, zlib.crc32(json.dumps([old.files, files]).encode())
    theirs = kept_answers(directory / "answers-coredns", [arguments.stamps["coredns"], given], asked, ask_coredns)
    for topology in arguments.topology:
        printed = migrate(old, topology, directory)
        applied = zlib.crc32(re.sub(r"^#.*\n", "", printed, flags=re.M).encode())
        ours = kept_answers(directory / f"answers-{topology}", [arguments.stamps["ours"], given, applied], asked, ask_here)
        world = World(files, printed, domain)
        differ = [(d, world.announcing(d)) for d in differences(asked, theirs, ours)]
        listed = [documented(d, topology, rewritten(old, d.name), world) for d, _ in differ]
        counts, needless = count_directives(aims or [], world, differ)
        result[topology] = {"asked": len(asked), "differ": len(differ), "listed": sum(bool(text) and not why for (_, why), text in zip(differ, listed)),
                            "silent": sum(not why and not text for (_, why), text in zip(differ, listed)), "directives": counts, "needless": needless}  # fmt: skip
        with open(directory / f"differences-{topology}", "w", encoding="utf-8") as f:
            for (d, why), text in zip(differ, listed):
                f.write(f"{'announced' if why or text else 'UNANNOUNCED'} {d.name} {d.rdtype}\n    CoreDNS: {d.theirs}{f' TTL {d.ttls[0]}' if d.ttls else ''}\n"
                        f"    here:    {d.ours}{f' TTL {d.ttls[1]}' if d.ttls else ''}\n" + "".join(f"    {w.file}:{w.number} {w.text}\n" for w in why[:3])
                        + "".join(f"    {t}\n" for t in text))  # fmt: skip
    return result


def wait_upstream():
    """Waits until dnsmasq answers, with any result."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and not answers_now("ready.outside.example", "TXT"):
        time.sleep(0.02)


def run(arguments):
    workspace = pathlib.Path(arguments.directory)
    stand = subprocess.Popen(["unshare", "--net", sys.executable, __file__, "--stand-in"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def servers_of(groups):
        stand.stdin.write(json.dumps(groups) + "\n")
        stand.stdin.flush()
        assert stand.stdout.readline() == "ready\n"

    servers_of({})

    def sh(*command):
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    there = ["nsenter", "--net", "-t", str(stand.pid)]
    sh("ip", "link", "set", "lo", "up")
    sh("ip", "link", "add", "eth0", "type", "veth", "peer", "name", "eth0", "netns", str(stand.pid))
    for enter, address in (([], "169.254.77.1"), (there, "169.254.77.2")):
        sh(*enter, "ip", "addr", "add", f"{address}/30", "dev", "eth0")
        sh(*enter, "ip", "-6", "addr", "add", f"fe80::77:{address[-1]}/64", "dev", "eth0", "nodad")
        sh(*enter, "ip", "-6", "addr", "add", f"fd77::{address[-1]}/64", "dev", "eth0", "nodad")
        sh(*enter, "ip", "link", "set", "eth0", "up")
        sh(*enter, "ip", "link", "set", "lo", "up")
    sh("ip", "route", "add", "default", "via", "169.254.77.2")
    sh("ip", "-6", "route", "add", "default", "via", "fd77::2")
    for place in ("/run", "/etc"):
        if place == "/etc":
            sh("mount", "-t", "tmpfs", "none", "/mnt")
            os.mkdir("/mnt/upper")
            os.mkdir("/mnt/work")
            sh("mount", "-t", "overlay", "overlay", "-o", "lowerdir=/etc,upperdir=/mnt/upper,workdir=/mnt/work", "/etc")
        else:
            sh("mount", "-t", "tmpfs", "-o", "mode=1777", "none", place)
    with ApiServer() as api:
        api.put_all(OBJECTS)
        api.service_account("/run/secrets/kubernetes.io/serviceaccount")
        for path in arguments.files:
            if str(path) in arguments.earlier:
                continue
            begin = time.monotonic()
            try:
                row = {"topologies": one(path, arguments, api, servers_of, workspace)}
            except (Skipped, yaml.YAMLError) as e:
                row = {"skipped": str(e).splitlines()[0]}
            row = {"file": str(path), "programs": arguments.stamp, **row, "seconds": round(time.monotonic() - begin, 2)}
            arguments.earlier[str(path)] = row
            with open(arguments.results, "a", encoding="utf-8") as f:
                f.write(json.dumps(row) + "\n")
            print(f"{path.name:28} {line_of(row)}", flush=True)
    stand.kill()
    stand.wait()
    return summary(arguments, [arguments.earlier[str(p)] for p in arguments.files])


def line_of(row):
    if "skipped" in row:
        return f"skipped: {row['skipped']}"
    return "; ".join(f"{t}: {r['asked'] - r['differ']} equal, {r['differ'] - r['listed'] - r['silent']} announced, {r['listed']} in the document, {r['silent']} unannounced" for t, r in row["topologies"].items())


def summary(arguments, rows):
    """Prints the tables of all files. Returns the exit status."""
    print("\n| | equal | announced | only in docs/from-coredns.md | unannounced | files equal in all | files skipped |\n|---|---|---|---|---|---|---|")
    skipped, unannounced = sum("skipped" in r for r in rows), 0
    for topology in arguments.topology:
        found = [r["topologies"][topology] for r in rows if topology in r.get("topologies", ())]
        asked, differ, listed, silent = (sum(r[k] for r in found) for k in ("asked", "differ", "listed", "silent"))
        unannounced += silent
        print(f"| {topology} | {asked - differ:,} | {differ - listed - silent:,} | {listed:,} | {silent:,} | {sum(not r['differ'] for r in found)} of {len(found)} | {skipped} |")
    for topology in arguments.topology:
        found = [r["topologies"][topology] for r in rows if topology in r.get("topologies", ())]
        counts = sum((collections.Counter(r["directives"]) for r in found), collections.Counter())
        if not counts["equal"]:
            continue
        print(f"\n{topology}: {counts['directives']} directives; of {counts['equal']} with only equal answers, {counts['carried']} are carried over"
              f" ({100 * counts['carried'] / counts['equal']:.1f} %). By plugin:",
              ", ".join(f"{p}: {counts[p + ' carried over']} of {n}" for p, n in ((k[:-6], v) for k, v in sorted(counts.items()) if k.endswith(" equal"))))  # fmt: skip
        print("Announced although the answers are equal:")
        for said, n in collections.Counter(re.sub(r"^(\S+).*?: ", r"\1: ", x) for r in found for x in r["needless"]).most_common(12):
            print(f"    {n:4} {said}")
    print(f"\nReports and differences: {arguments.directory}. Results: {arguments.results}")
    return 1 if unannounced else 0


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--coredns", default=BUILD / "coredns", help="CoreDNS 1.14.7 of the default build")
    p.add_argument("--topology", action="append", choices=["front", "classic"], help="both without it")
    p.add_argument("--directory", default=BUILD / "corpus", help="where reports and differences are left")
    p.add_argument("--results", type=pathlib.Path, help="file of results; files that have one are not run again (default: a new file in --directory)")
    p.add_argument("--part", default="1/1", metavar="K/N", help="run only every Nth file, from the Kth on")
    p.add_argument("--stand-in", action="store_true", help=argparse.SUPPRESS)
    p.add_argument("paths", nargs="*", default=[ROOT / "tests/migrate/corpus"], type=pathlib.Path)
    a = p.parse_args()
    if a.stand_in:
        return stand_in()
    if os.environ.get("CORPUS_INSIDE") != "1":
        os.execvpe("unshare", ["unshare", "--net", "--mount", sys.executable, *sys.argv], {**os.environ, "CORPUS_INSIDE": "1"})
    a.topology = a.topology or ["front", "classic"]
    files = [f for path in a.paths for f in (sorted(x for x in path.iterdir() if x.suffix in (".corefile", ".yaml")) if path.is_dir() else [path])]
    part, parts = map(int, a.part.split("/"))
    a.stamps = {"coredns": stamp_of(a.coredns), "ours": stamp_of(BUILD / "bin/kubedns", BUILD / "bin/nanny")}
    a.files, a.stamp = files[part - 1 :: parts], [*a.stamps.values(), stamp_of(BUILD / "bin/kubedns-migrate", ROOT / "tests/migrate/announcements.py")]
    os.makedirs(a.directory, exist_ok=True)
    if not a.results:
        a.results = pathlib.Path(a.directory, "results")
        a.results.unlink(missing_ok=True)
    a.earlier = earlier_results(a.results, a.stamp)
    return run(a)


if __name__ == "__main__":
    sys.exit(main())
