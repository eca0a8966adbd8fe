"""
A random cluster in one of the topologies, with random flags, a random ConfigMap, and names to query. The upstream server and the server of
the stub domains answer every query with records of their own, so a reply shows which server it comes from.
"""

import ipaddress
import json
import random
import re
import subprocess
import urllib.parse

import dns.edns
import dns.flags
import dns.message
import dns.query
import dns.rcode
import dns.rdatatype
import dns.rrset
from dnsnet import Upstream
from kubedns_process import PROGRAM, known
from nanny_world import ARGS as DNSMASQ_ARGS
from nanny_world import World as Nanny
from objects import namespace, service
from random_cluster import ADDRESSES4, ADDRESSES6, CLUSTER4, CLUSTER6, HOSTS, NAMESPACES, SERVICES, Generator
from waiting import wait_for
from world import external, start

Z, APPS, SET, FED = "cluster.local", "apps.example.com", "clusterset.local", "fed.example"
TYPES = ["A", "AAAA", "SRV", "TXT", "NS", "PTR", "SOA"]
TOPOLOGIES = ["standalone", "classic", "front", "node"]
POD = "127.100.0.1"  # the address of a pod in namespace a
UPSTREAM, STUB = "upstream", "stub"
MARKS = {UPSTREAM: {"A": "203.0.113.1", "AAAA": "2001:db8:ffff::1", "TXT": '"upstream"', "SRV": "0 1 1 upstream.invalid.", "NS": "upstream.invalid.",
                    "PTR": "upstream.invalid."},
         STUB: {"A": "203.0.113.2", "AAAA": "2001:db8:ffff::2", "TXT": '"stub"', "SRV": "0 1 1 stub.invalid.", "NS": "stub.invalid.",
                "PTR": "stub.invalid."}}  # fmt: skip
STUBS = ["corp.test", "in.corp.test", f"legacy.{Z}", f"b.svc.{Z}", "local", "10.in-addr.arpa", "1.1.10.in-addr.arpa", "8.b.d.0.1.0.0.2.ip6.arpa"]
REWRITES = [f"exact db.example db.default.svc.{Z}", "exact web.example www.example.net", f"suffix svc.old.example svc.{Z}",
            f"exact gone.example nothing.default.svc.{Z}", f"exact x.default.svc.{Z} web.default.svc.{Z}", "exact host.example own.example",
            "suffix alias.example corp.test"]  # fmt: skip
RECORDS = f"""
$ORIGIN zone.example.
@      3600 IN SOA ns hostmaster ( 1 7200 1800 1209600 60 )
       3600 NS ns
ns     60 A 10.0.0.53
www    60 A 10.0.0.7
alias  60 CNAME www
inside 60 CNAME web.default.svc.{Z}.
away   60 CNAME www.elsewhere.example.
a.b.c  60 TXT "deep"
*.any  60 A 10.0.0.9
given.default.svc.{Z}. 60 A 10.9.9.9
"""
HOSTS_KEY = f"10.0.0.8 own.example\n2001:db8::8 own.example six.example\n10.0.0.9 web.a.svc.{Z}\n"
REFUSED = {"stubDomains": '{"corp.test": ["10.0.0.1",}', "hosts": "10.0.0 own.example\n", "records": "www 60 A ten\n", "rewrites": "exact only\n",
           "federations": "fed"}  # fmt: skip


def marked(who):
    """The behaviour of an upstream server whose records are marked."""

    def behave(request, _tcp):
        reply = dns.message.make_response(request, recursion_available=True)
        question = request.question[0]
        text = MARKS[who].get(dns.rdatatype.to_text(question.rdtype))
        if str(question.name).startswith("missing"):
            reply.set_rcode(dns.rcode.NXDOMAIN)
        if str(question.name).startswith("missing") or not text:
            reply.authority.append(dns.rrset.from_text(question.name, 7, "IN", "SOA", f"{who}.invalid. host.invalid. 1 2 3 4 7"))
        else:
            reply.answer.append(dns.rrset.from_text(question.name, 7, "IN", dns.rdatatype.to_text(question.rdtype), text))
        return reply

    return behave


def objects_of(draw):
    """A random cluster with a few objects that the flags need."""
    cluster = Generator(draw.randrange(1 << 30)).cluster.values()
    balanced = service("web", "10.96.9.1", "b", type="LoadBalancer")
    balanced["metadata"]["annotations"] = {"external-dns.alpha.kubernetes.io/hostname": f"www.{APPS},*.wild.{APPS},away.{APPS}"}
    balanced["status"] = {"loadBalancer": {"ingress": [{"ip": "198.51.100.1"}]}}
    waiting = service("late", "10.96.9.2", "b", type="LoadBalancer")
    waiting["metadata"]["annotations"] = {"external-dns.alpha.kubernetes.io/hostname": f"late.{APPS}"}
    alias = service("alb", "10.96.9.3", "b", type="LoadBalancer")
    alias["metadata"]["annotations"] = {"external-dns.alpha.kubernetes.io/hostname": f"alb.{APPS}"}
    alias["status"] = {"loadBalancer": {"ingress": [{"hostname": "lb.example.net"}]}}
    imports = [{"apiVersion": "multicluster.x-k8s.io/v1alpha1", "kind": "ServiceImport", "metadata": {"name": name, "namespace": "a"},
                "spec": {"type": "ClusterSetIP" if ips else "Headless", "ips": ips, "ports": [{"name": "http", "port": 80, "protocol": "TCP"}]}}
               for name, ips in (("web", ["10.42.0.1"]), ("none", []))]  # fmt: skip
    client = {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "client", "namespace": "a"}, "spec": {"nodeName": "n"},
              "status": {"phase": "Running", "podIP": POD, "podIPs": [{"ip": POD}]}}  # fmt: skip
    seen = namespace("b")
    seen["metadata"]["annotations"] = {"kubedns/visible-to": draw.choice(["a", "default"])}
    return [*cluster, seen, balanced, waiting, alias, *imports, client, external("far", "www.example.com", "b"), external("near", f"web.b.svc.{Z}", "b"),
            external("corp", "host.corp.test", "b"), external("gone", f"nothing.a.svc.{Z}", "b"), external("twice", f"far.b.svc.{Z}", "b")]  # fmt: skip


def flags_of(draw, topology):
    """Random flags. Each flag is rare enough that its absence is tested too."""
    some = [
        *(flag for flag in ("--search-completion=inferred", "--wildcards", "--ignore-empty-service", "--filter-aaaa=on", "--filter-a=on",
                            "--ptr=cidrs", "--endpoint-pod-names", "--zonal", f"--clusterset-domain={SET}", "--nearest") if draw.random() < 0.25),
        *(["--filter-except=corp.test"] if draw.random() < 0.1 else []),
        draw.choice(["--pods=insecure", "--pods=verified", "--pods=disabled"]),
        *draw.choice([[], [], ["--reverse-cidrs=10.96.0.0/12"], ["--reverse-cidrs=10.0.0.0/8,2001:db8::/32"]]),
        *draw.choice([[], [], ["--fallthrough"], [f"--fallthrough=b.svc.{Z},96.10.in-addr.arpa"], [f"--fallthrough={Z},{SET}"]]),
        *draw.choice([[], [f"--external-zones={APPS}"], [f"--external-zones={APPS}", "--external-headless"]]),
        *draw.choice([[], [], ["--visibility=labels", "--client-pods=all"]]),
        *draw.choice([[], [], ["--search-extra=extra.example"]]),
        *draw.choice([[], [], ["--namespaces=default,a"]]),
    ]  # fmt: skip
    flags = known(*some, *(["--node-role"] if topology == "node" else []))
    nearby = "--nearest" in flags or "--zonal" in flags
    if nearby and "--client-pods=all" not in flags:
        flags += ["--node-name=n", "--zone=z"]
    return flags


def fit_together(flags, topology, empty):
    """Whether kubedns accepts the flags together."""
    flags = [*flags, *({"standalone": [], "classic": ["--search-resolver=127.0.0.1:1"]}.get(topology, ["--resolver=127.0.0.1:1"]))]
    return subprocess.run([PROGRAM, "--check", f"--objects-dir={empty}", *flags], capture_output=True, check=False).returncode == 0


def keys_of(draw, topology, upstream, stub):
    """A random ConfigMap, as text for each key. Some keys are refused."""
    keys = {"upstreamNameservers": json.dumps([upstream.address])}
    some = {"hosts": HOSTS_KEY, "records": RECORDS, "rewrites": "".join(f"{r}\n" for r in draw.sample(REWRITES, draw.randrange(1, len(REWRITES)))),
            "federations": f"fed={FED}"}  # fmt: skip
    if topology != "standalone":  # kubedns alone has no servers of stub domains
        some["stubDomains"] = json.dumps({domain: [stub.address] for domain in draw.sample(STUBS, draw.randrange(1, 5))})
    for key, text in some.items():
        chance = draw.random()
        if chance < 0.6:
            keys[key] = text
        elif chance < 0.75 and key in REFUSED:
            keys[key] = REFUSED[key]
    return keys


def names_of(draw, count):
    """Names of every kind, absolute, without the final dot. Most of them are near an existing name."""
    first = [*SERVICES, "far", "near", "corp", "gone", "twice", "late", "nothing", "wbe"]
    spaces = [*NAMESPACES, "b", "b", "nowhere", "kube-system"]
    pods = [a.replace(".", "-") for a in ADDRESSES4] + ["2001-db8--1", "x"]

    def one():
        s, ns, host = draw.choice(first), draw.choice(spaces), draw.choice([*HOSTS, *pods, "late-0"])
        reverse = [ipaddress.ip_address(a).reverse_pointer for a in [*ADDRESSES4, *ADDRESSES6, *CLUSTER4, *CLUSTER6, "10.42.0.1", "10.250.0.9", "192.0.2.77", "8.8.8.8"]]
        kinds = {
            "service": [f"{s}.{ns}.svc.{Z}"] * 4,
            "endpoint": [f"{host}.{s}.{ns}.svc.{Z}"] * 2,
            "port": [f"_{draw.choice(['http', 'dns', 'x'])}._{draw.choice(['tcp', 'udp'])}.{s}.{ns}.svc.{Z}", f"_tcp.{s}.{ns}.svc.{Z}"],
            "parent": [f"{ns}.svc.{Z}", f"svc.{Z}", Z, f"dns-version.{Z}", f"pod.{Z}", f"{ns}.pod.{Z}", f"ns.dns.{Z}", f"dns.{Z}", f"kubernetes.{Z}"],
            "pod": [f"{draw.choice(pods)}.{ns}.pod.{Z}", f"x.{draw.choice(pods)}.{ns}.pod.{Z}"],
            "short": [f"{s}.{ns}.{Z}", f"{s}.{Z}", f"x.y.{Z}", f"{ns}.{Z}"],
            "searched": [f"www.example.com.{ns}.svc.{Z}", f"example.com.{Z}", f"www.example.com.svc.{Z}", f"{s}.{ns}.svc.{Z}.{ns}.svc.{Z}",
                         f"missing.example.com.{ns}.svc.{Z}", f"host.corp.test.{ns}.svc.{Z}", f"{s}.b.{ns}.svc.{Z}"],
            "declared": [f"{s}.{draw.choice(spaces)}.{ns}.s.{Z}", f"{s}.{ns}.s.{Z}", f"www.example.com.{ns}.s.{Z}", f"{ns}.s.{Z}", f"s.{Z}",
                         f"missing.example.com.{ns}.s.{Z}"],
            "zonal": [f"z.pin._zone.{s}.{ns}.svc.{Z}", f"prefer._zone.{s}.{ns}.svc.{Z}", f"a.b._zone.{s}.{ns}.svc.{Z}"],
            "federation": [f"{s}.{ns}.fed.svc.{Z}", f"{ns}.fed.svc.{Z}", f"fed.svc.{Z}", f"x.{s}.{ns}.fed.svc.{Z}"],
            "wildcard": [f"*.{ns}.svc.{Z}", f"{s}.*.svc.{Z}", f"*.{s}.{ns}.svc.{Z}", f"any.{ns}.svc.{Z}"],
            "stub": ["host.corp.test", "x.in.corp.test", "corp.test", f"db.legacy.{Z}", f"legacy.{Z}", f"{s}.b.svc.{Z}", f"x.y.b.svc.{Z}", "printer.local"],
            "local": ["own.example", "six.example", "www.zone.example", "alias.zone.example", "inside.zone.example", "away.zone.example", "zone.example",
                      "none.zone.example", "b.c.zone.example", "x.y.any.zone.example", f"given.default.svc.{Z}", f"web.a.svc.{Z}"],
            "rewritten": ["db.example", "web.example", f"{s}.{ns}.svc.old.example", "gone.example", f"x.default.svc.{Z}", "host.example", "host.alias.example"],
            "reverse": [*draw.sample(reverse, 6), "10.in-addr.arpa", "96.10.in-addr.arpa", "9.96.10.in-addr.arpa", "x.1.10.in-addr.arpa",
                        "8.b.d.0.1.0.0.2.ip6.arpa", "1.8.b.d.0.1.0.0.2.ip6.arpa", "250.10.in-addr.arpa"],
            "external": [f"www.{APPS}", f"a.b.wild.{APPS}", f"wild.{APPS}", f"late.{APPS}", f"alb.{APPS}", f"none.{APPS}", APPS, f"{s}.{ns}.{APPS}",
                         f"{ns}.{APPS}", f"{host}.{s}.{ns}.{APPS}"],
            "clusterset": [f"web.a.svc.{SET}", f"none.a.svc.{SET}", f"x.a.svc.{SET}", f"a.svc.{SET}", SET, f"_http._tcp.web.a.svc.{SET}"],
            "outside": ["www.example.com", "missing.example.com", "www.corp.example", "a.b.c.d.example.net", "_tcp.example.org"],
        }  # fmt: skip
        return draw.choice(kinds[draw.choice(list(kinds))])

    out = set()
    while len(out) < count:
        out.add(one())
    return sorted(out)


def sent_to(reply):
    """Which server's records are in the reply, or None."""
    for who, records in MARKS.items():
        for rrset in reply.answer:
            if any(rd.to_text() == records.get(dns.rdatatype.to_text(rrset.rdtype)) for rd in rrset):
                return who
        if any(rd.to_text().startswith(f"{who}.invalid. ") for rrset in reply.authority for rd in rrset):
            return who
    return None


def ede(reply):
    """The texts of the extended errors that are kubedns's own."""
    texts = [option.text or "" for option in reply.options if isinstance(option, dns.edns.EDEOption)]
    return [text for text in texts if text and not text.startswith(("upstream", "stale"))]


class WhyWorld:
    """The programs of one topology. `ask()` queries what clients query. `why()` returns the text behind `kubectl dns why`."""

    def __init__(self, tmp_path, topology, seed):
        self.draw, self.topology, self.parts = random.Random(f"{topology} {seed}"), topology, []
        try:
            self.upstream, self.stub = (self._with(Upstream(marked(who))) for who in (UPSTREAM, STUB))
            self.flags = next(flags for _ in range(100) if fit_together(flags := flags_of(self.draw, topology), topology, tmp_path))
            self.keys = keys_of(self.draw, topology, self.upstream, self.stub)
            self._start(tmp_path)
        except BaseException:
            self.close()
            raise

    def _with(self, part):
        self.parts.append(part)
        return part

    def _start(self, tmp_path):
        nanny, flags = None, [*self.flags, "--threads=1", "--drain=0s"]
        if self.topology == "standalone":
            conf = tmp_path / "config"
            conf.mkdir()
            for key, text in self.keys.items():
                (conf / key).write_text(text)
            flags.append(f"--config-dir={conf}")
        else:
            nanny = self._with(Nanny())
            nanny.write(**self.keys)
            flags.append(f"--config-dir={nanny.conf}")
            flags.append(f"--{'search-resolver' if self.topology == 'classic' else 'resolver'}=127.0.0.1:{nanny.port}")
        self.kubedns = self._with(start(tmp_path, objects_of(self.draw), *flags))
        self.port = self.kubedns.port
        if nanny:
            zones = [Z, "in-addr.arpa", "ip6.arpa", *([APPS] if f"--external-zones={APPS}" in flags else []), *([SET] if f"--clusterset-domain={SET}" in flags else [])]
            servers = [f"--server=/{zone}/127.0.0.1#{self.port}" for zone in zones]
            args = [arg for arg in DNSMASQ_ARGS if not arg.startswith("--cache")] + ["--cache-size=0"]
            nanny.start(f"-kubednsServer=127.0.0.1:{self.port}", args=[*args, *(servers if self.topology == "classic" else ["--listen-address=127.0.0.1", "--bind-interfaces"])])
            if self.topology == "classic":
                self.port = nanny.port
        self.kubedns.wait_ready()
        wait_for(lambda: self.ask("www.example.org", "A").rcode() == 0)

    def ask(self, name, type_, source=None):
        """The reply that a client gets, over UDP and, if it is truncated, over TCP."""
        message = dns.message.make_query(name, type_, use_edns=0, payload=1232)
        return dns.query.udp_with_fallback(message, "127.0.0.1", port=self.port, timeout=20, source=source)[0]

    def why(self, name, client=None):
        status, text = self.kubedns.http(f"/explain?name={urllib.parse.quote(name)}" + (f"&client={client}" if client else ""))
        assert status == 200, text
        return text

    def described(self):
        return f"{self.topology}: {' '.join(self.flags)}; {json.dumps(self.keys)}"

    def close(self):
        for part in reversed(self.parts):
            (part.stop if hasattr(part, "wait_ready") else part.close)()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


RECORD = re.compile(r"^  (\S+\.) (\d+) ([A-Z]+[0-9]*) (.+)$", re.M)


class Said:
    """What an explanation says about the answer."""

    def __init__(self, text):
        self.text = text
        self.records = {(owner.lower(), int(ttl), type_, data.lower()) for owner, ttl, type_, data in RECORD.findall(text)}
        self.more = re.search(r"^  and \d+ more", text, re.M) is not None
        self.rcodes = set(re.findall(r"\b(NXDOMAIN|SERVFAIL|REFUSED)\b", re.sub("^AAAA: .*", "", text, flags=re.M)))  # of A
        self.sent = {who for who, words in ((STUB, "to that domain's servers"), (UPSTREAM, "to the upstream servers"))
                     if words in text}  # fmt: skip
        # a candidate of a search list is sent to other servers, and their answer decides
        self.maybe = "used if it exists there" in text
