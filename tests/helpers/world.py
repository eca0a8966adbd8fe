"""A small cluster with one object of each kind in dns.md's tables, and functions to compare queries with expected answers."""

import json

import dns.flags
import dns.rcode
import dns.rdatatype
from dnsnet import Tcp, query, udp
from kubedns_process import Kubedns
from objects import endpoint_slice, namespace, service

Z = "cluster.local"
SOA = "SOA"  # expects only the zone's SOA in the authority section


def slice_of(service_name, endpoints, suffix="s1", ns="default", ports=(("http", 80),), family="IPv4"):
    """An EndpointSlice from (address, hostname or None, ready or None) triples."""
    made = endpoint_slice(service_name, [], ns=ns, suffix=suffix, ports=ports)
    made["addressType"] = family
    for address, hostname, ready in endpoints:
        endpoint = {"addresses": [address], "conditions": {} if ready is None else {"ready": ready}}
        if hostname:
            endpoint["hostname"] = hostname
        made["endpoints"].append(endpoint)
    return made


def dual(name, v4, v6, ns="default", **kw):
    made = service(name, v4, ns=ns, **kw)
    made["spec"]["clusterIPs"] = [v4, v6]
    return made


def external(name, target, ns="default"):
    made = service(name, "", ns=ns)
    made["spec"] = {"type": "ExternalName", "externalName": target}
    return made


def one_of_everything():
    unready = service("unready", "None")
    unready["spec"]["publishNotReadyAddresses"] = True
    annotated = service("annotated", "None")
    annotated["metadata"]["annotations"] = {"service.alpha.kubernetes.io/tolerate-unready-endpoints": "true"}
    return [
        namespace("default"),
        namespace("empty"),
        dual("web", "10.96.0.10", "fd00:10:96::a", ports=(("http", 80), ("https", 443))),
        service("nodeport", "10.96.0.11", type="NodePort"),
        service("unnamed", "10.96.0.12", ports=(("", 8080),)),
        service("pending", "", type="LoadBalancer"),
        slice_of("web", [("10.1.0.1", None, True), ("10.1.0.2", "front", True)]),
        service("db", "None", ports=(("pg", 5432),)),
        slice_of("db", [("10.1.1.1", "db-0", True), ("10.1.1.2", "db-1", None), ("10.1.1.3", None, True), ("10.1.1.9", None, False)],
                 ports=(("pg", 5432),)),
        slice_of("db", [("10.1.1.3", None, True), ("10.1.1.4", None, True)], suffix="s2", ports=(("pg", 5432),)),
        service("six", "None"),
        slice_of("six", [("2001:db8::1", None, True), ("2001:db8::", None, True), ("2001:db8::5", "pair", True)], family="IPv6"),
        slice_of("six", [("10.1.2.5", "pair", True)], suffix="s4"),
        service("down", "None"),
        slice_of("down", [("10.1.3.1", None, False)]),
        unready,
        slice_of("unready", [("10.1.4.1", None, False)]),
        annotated,
        slice_of("annotated", [("10.1.5.1", None, False)]),
        service("portless", "None", ports=()),
        slice_of("portless", [("10.1.6.1", None, True)], ports=()),
        external("out", "www.example.net"),
        external("in", f"web.default.svc.{Z}"),
        external("chain", f"in.default.svc.{Z}"),
        external("loop", f"pool.default.svc.{Z}"),
        external("pool", f"loop.default.svc.{Z}"),
        external("literal", "192.0.2.7"),
        external("dangling", f"nothing.default.svc.{Z}"),
        service("only", "10.96.0.40", ns="inferred"),
    ]  # fmt: skip


def start(tmp_path, items, *args, **kw):
    directory = tmp_path / "objects"
    directory.mkdir(exist_ok=True)
    write(directory, items)
    kubedns = Kubedns(f"--objects-dir={directory}", *args, directory=str(tmp_path), **kw)
    kubedns.objects = directory
    return kubedns


def write(directory, items, name="all.json"):
    """Writes the file as an editor does: to a temporary file that is then renamed."""
    aside = directory / f".{name}.tmp"
    aside.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": items}))
    aside.rename(directory / name)


def ask(kubedns, name, type_="A", tcp=False, **kw):
    message = query(name, type_, **kw)
    if not tcp:
        return udp(kubedns, message)
    with Tcp(kubedns) as client:
        return client.ask(message)


def texts(rrsets, type_=None):
    """The RDATA of the records as sorted texts. With `type_`, only records of this type."""
    return sorted(rd.to_text() for rrset in rrsets for rd in rrset if type_ is None or rrset.rdtype == dns.rdatatype.from_text(type_))


def expect(reply, rcode="NOERROR", answer=(), type_=None, aa=True, soa=None):
    """Checks a reply: its rcode, AA, the answer's RDATA in any order, and the SOA of a negative answer."""
    assert reply is not None, "no reply"
    assert dns.rcode.to_text(reply.rcode()) == rcode, reply
    assert bool(reply.flags & dns.flags.AA) == aa, reply
    assert texts(reply.answer, type_) == sorted(answer), reply
    negative = not answer if soa is None else soa
    assert bool([r for r in reply.authority if r.rdtype == dns.rdatatype.SOA]) == negative, reply
