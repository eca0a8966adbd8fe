"""An upstream server with some external names, and a small cluster, for tests of names that lead to other servers."""

import dns.flags
import dns.message
import dns.rcode
import dns.rdatatype
import dns.rrset
from objects import namespace, service
from world import external

OUTSIDE = {"www.example.com.": "192.0.2.1", "git.corp.example.": "192.0.2.2", "big.example.com.": None}
BIG = 150


def upstream(request, tcp):
    """Some external names exist and have A records only. All other names get a negative answer with a TTL of one minute."""
    question = request.question[0]
    reply = dns.message.make_response(request, recursion_available=True)
    name = str(question.name)
    if name == "broken.example.com.":
        reply.set_rcode(dns.rcode.SERVFAIL)
    elif name not in OUTSIDE:
        reply.set_rcode(dns.rcode.NXDOMAIN)
        reply.authority.append(dns.rrset.from_text(".", 60, "IN", "SOA", "ns. host. 1 2 3 4 60"))
    elif question.rdtype != dns.rdatatype.A:
        reply.authority.append(dns.rrset.from_text("example.com.", 60, "IN", "SOA", "ns. host. 1 2 3 4 60"))
    elif name.startswith("big.") and not tcp:
        reply.flags |= dns.flags.TC
    else:
        addresses = [f"192.0.2.{i}" for i in range(1, BIG + 1)] if name.startswith("big.") else [OUTSIDE[name]]
        reply.answer.append(dns.rrset.from_text(question.name, 60, "IN", "A", *addresses))
    return reply


def cluster():
    declines = namespace("off")
    declines["metadata"]["labels"] = {"kubedns/search-completion": "off"}
    return [namespace("default"), namespace("prod"), declines, service("web", "10.96.0.1"), service("web", "10.96.1.1", ns="prod"),
            external("out", "www.example.com"), service("idle", "None")]  # fmt: skip


def asked(u):
    return [(str(m.question[0].name).rstrip("."), dns.rdatatype.to_text(m.question[0].rdtype)) for m, _, _ in u.asked]


def addresses(reply):
    return sorted(r.to_text() for s in reply.answer if s.rdtype in (dns.rdatatype.A, dns.rdatatype.AAAA) for r in s)


def alias(reply):
    """The target and the TTL of the CNAME at the queried name."""
    first = reply.answer[0]
    assert first.rdtype == dns.rdatatype.CNAME and first.name == reply.question[0].name
    return first[0].target.to_text().rstrip("."), first.ttl
