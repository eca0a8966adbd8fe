"""
Compares search completion with a client's whole walk through its search list, for random clusters, namespaces and names X. The walk
follows glibc's rules (ndots 5, a pod's search list). The results to compare are the addresses, and whether the name exists. kubedns
completes declared names in one comparison and inferred names in the other. The known differences are:

without_address  declared: an earlier candidate exists but has no address (a namespace's name, a named port, an ExternalName whose target
                 does not exist). glibc continues with the next search domain. kubedns ends the walk here, so that A and AAAA take the
                 same path.
declared_name    both: X itself is short for a declared name (web.default.s). A walk is never part of another walk.
host_domain      inferred: a search domain that only the client knows has the name, and X itself exists too. The client queries its own
                 domain first, but kubedns knows only X. --search-extra removes the difference.
other_namespace  inferred: X does not exist, and X or a later name of the walk is Y.NAMESPACE.svc.ZONE with another namespace. It looks
                 like the first query for Y by a pod in that namespace, so kubedns completes it for that namespace.
"""

import json
import os
import random
import re
import zlib
from collections import Counter

import dns.flags
import dns.message
import dns.rcode
import dns.rdatatype
import dns.rrset
import pytest
from bulk_asking import Bulk
from dnsnet import Upstream
from hurry import hurry
from kubedns_process import Kubedns
from objects import namespace, service
from random_cluster import HOSTS, NAMESPACES, SERVICES, Generator
from waiting import wait_for

Z = "cluster.local"
NDOTS, EACH = 5, 25
EXTRA, HOST_DOMAIN = "corp.example", "lab.example"
KNOWN = {"without_address", "declared_name", "host_domain", "other_namespace"}


def outside(request, _tcp):
    """
    A third of all external names exist. Some of these have A records, some AAAA, some both, some neither. Caches may keep half of the
    negative answers.
    """
    question = request.question[0]
    reply = dns.message.make_response(request, recursion_available=True)
    draw = zlib.crc32(str(question.name).lower().encode())
    if draw % 3 != 0:
        reply.set_rcode(dns.rcode.NXDOMAIN)
    elif question.rdtype == dns.rdatatype.A and draw & 16:
        reply.answer.append(dns.rrset.from_text(question.name, 60, "IN", "A", f"192.0.2.{draw >> 8 & 127}"))
    elif question.rdtype == dns.rdatatype.AAAA and draw & 32:
        reply.answer.append(dns.rrset.from_text(question.name, 60, "IN", "AAAA", f"2001:db8:ffff::{draw >> 8 & 127:x}"))
    if not reply.answer and draw & 8:
        reply.authority.append(dns.rrset.from_text(".", 60, "IN", "SOA", "ns. host. 1 2 3 4 60"))
    return reply


class Servers:
    """
    Two kubedns: the first completes only declared names, the second also infers names. Both read the same objects and forward to the same
    upstream server.
    """

    def __init__(self, tmp_path, upstream, *args):
        self.directory, self.count = tmp_path / "objects", 0
        self.directory.mkdir()
        self.write([])
        common = [f"--objects-dir={self.directory}", f"--nameservers={upstream.address}", "--threads=1", "--drain=0s", *args]
        # The clocks are slow, so that the upstream server on a busy machine is not too late.
        self.kubedns = [Kubedns(*common, *more, directory=str(tmp_path), env=hurry(0.05)) for more in ([], ["--search-completion=inferred"])]
        for k in self.kubedns:
            k.wait_ready(30)
        self.bulks = self.plain, self.inferred = [Bulk(k.port, recursion=True) for k in self.kubedns]

    def write(self, objects):
        self.count += 1
        fence = [namespace("zz"), service("fence", self.fence(), ns="zz")]
        aside = self.directory / ".all.json.tmp"
        aside.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": [*objects, *fence]}))
        os.rename(aside, self.directory / "all.json")

    def fence(self):
        return f"10.255.{self.count >> 8}.{self.count & 255}"

    def show(self, objects):
        self.write(objects)
        name = [(f"fence.zz.svc.{Z}", "A")]
        for bulk in self.bulks:
            wait_for(lambda b=bulk: [r[3] for r in b.ask_udp(name)[0].answer] == [self.fence()], 30, lambda: "the new objects")

    def close(self):
        for bulk, kubedns in zip(self.bulks, self.kubedns, strict=True):
            bulk.close()
            kubedns.stop()


def names_of(draw):
    """
    A random X as programs write it: a short name, a name with a namespace, a complete name, the name of an endpoint, a port or a pod, a
    name that does not exist, or an external name.
    """
    s, ns, host = draw.choice(SERVICES), draw.choice([*NAMESPACES, "nowhere"]), draw.choice([*HOSTS, "10-1-0-1", "p"])
    return draw.choice([
        s, s, f"{s}.{ns}", f"{s}.{ns}", f"{s}.{ns}.svc", f"{s}.{ns}.svc.{Z}", f"{host}.{s}", f"{host}.{s}.{ns}", f"{host}.{s}.{ns}.svc.{Z}",
        f"_http._tcp.{s}", f"_http._tcp.{s}.{ns}", f"10-1-0-1.{ns}.pod", ns, f"{ns}.svc", f"svc.{Z}", Z, "svc", "s", f"{s}.{ns}.s",
        f"x{draw.randrange(9)}.example.com", f"x{draw.randrange(99)}.example.com", f"h{draw.randrange(9)}", f"a.b.c.d.e.x{draw.randrange(9)}.org",
        f"{s}.example.com", "www.example.com", "1.0.96.10.in-addr.arpa",
    ])  # fmt: skip


class Answers:
    """A server's A and AAAA answers for a list of names. The constructor sends all queries at once."""

    def __init__(self, bulk, names):
        questions = [(name, type_) for name in sorted(names) for type_ in ("A", "AAAA")]
        replies = dict(zip(questions, bulk.ask_udp(questions, 1232), strict=True))
        cut = [q for q, reply in replies.items() if reply.tc]
        replies.update(zip(cut, bulk.ask_tcp(cut), strict=True))
        self.of = {}
        for name in names:
            both = [replies[name, "A"], replies[name, "AAAA"]]
            assert all(r.rcode in (dns.rcode.NOERROR, dns.rcode.NXDOMAIN) for r in both), (name, both)
            addresses = frozenset(record[3] for r in both for record in r.answer if record[1] in ("A", "AAAA"))
            self.of[name] = addresses, any(r.rcode == dns.rcode.NOERROR or r.answer for r in both)


def walk(answers, x, search):
    """
    Acts like glibc's res_search(). If X has enough dots, X itself is the first candidate, otherwise the last. The walk continues after a
    name without addresses.
    """
    first = x.count(".") >= NDOTS
    exists = False
    for name in [*([x] if first else []), *(f"{x}.{domain}" for domain in search), *([] if first else [x])]:
        addresses, here = answers.of[name]
        if addresses:
            return addresses, True
        exists = exists or here
    return frozenset(), exists


def first_that_exists(answers, x, search):
    """The name that kubedns must look up for a declared name, by the documented rule."""
    for name in [*(f"{x}.{domain}" for domain in search), x]:
        if answers.of[name][1] and not is_declared(name):
            return answers.of[name]
    return frozenset(), False


def is_declared(name):
    return f".{name}".endswith(f".s.{Z}")


def later_questions(x, search):
    """The names of a walk, except for the first, that belong to another namespace."""
    return [name for name in [x, *(f"{x}.{domain}" for domain in search[1:])] if re.fullmatch(rf".+\..+\.[a-z]+\.svc\.{re.escape(Z)}", name)]


def compare(servers, cases, extra, differences):
    """A case is (namespace, X, true if the client has its own search domain)."""
    def stock(ns, own):
        return [f"{ns}.svc.{Z}", f"svc.{Z}", Z, *extra, *([HOST_DOMAIN] if own else [])]

    names = {name for ns, x, own in cases for name in [x, *(f"{x}.{d}" for d in stock(ns, own))]}
    plain = Answers(servers.plain, names | {f"{x}.{ns}.s.{Z}" for ns, x, _ in cases})
    inferred = Answers(servers.inferred, names)
    for ns, x, own in cases:
        known = stock(ns, False)
        want = walk(plain, x, known)
        declared, rule = walk(plain, x, [f"{ns}.s.{Z}"]), first_that_exists(plain, x, known)
        assert plain.of[f"{x}.{ns}.s.{Z}"] == rule, (ns, x, plain.of[f"{x}.{ns}.s.{Z}"], rule)
        own_name = any(is_declared(name) for name in [x, f"{x}.{Z}"])
        if declared != want:
            assert rule == (frozenset(), True) or own_name, ("declared", ns, x, declared, want)
            differences["declared_name" if own_name else "without_address"] += 1
        want, got = walk(plain, x, stock(ns, own)), walk(inferred, x, stock(ns, own))
        if got != want and any(inferred.of[name] != plain.of[name] for name in later_questions(x, stock(ns, own))):
            differences["other_namespace"] += 1
        elif got != want and own_name:
            differences["declared_name"] += 1
        elif got != want:
            assert own and plain.of[f"{x}.{HOST_DOMAIN}"][1] and plain.of[x][1], ("inferred", ns, x, got, want)
            differences["host_domain"] += 1
        differences["cases"] += 1


def run(tmp_path, seed, count):
    differences = Counter()
    for extra, cache in (([], "off"), ([EXTRA], "1M")):
        directory = tmp_path / f"extra{len(extra)}"
        directory.mkdir()
        with Upstream(outside) as u:
            servers = Servers(directory, u, f"--answer-cache={cache}", *(f"--search-extra={domain}" for domain in extra))
            try:
                for n in range(seed, seed + count // 2 // EACH):
                    draw = random.Random(n)
                    servers.show(Generator(n).cluster.values())
                    cases = [(draw.choice([*NAMESPACES, "nowhere"]), names_of(draw), draw.random() < 0.3) for _ in range(EACH)]
                    compare(servers, cases, extra, differences)
            finally:
                servers.close()
    print(f"{differences['cases']} cases: " + ", ".join(f"{differences[k]} {k}" for k in sorted(KNOWN)))
    assert differences["cases"] == count and set(differences) <= KNOWN | {"cases"}
    return differences


def test_completion_gives_what_the_whole_walk_gives(tmp_path):
    differences = run(tmp_path, 1, 300)
    assert differences["without_address"] < 60 and differences["host_domain"] < 20, "known differences must be rare"


@pytest.mark.soak
def test_completion_gives_what_the_whole_walk_gives_ten_thousand_times(tmp_path):
    run(tmp_path, 1000, 10000)
