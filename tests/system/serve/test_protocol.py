"""A table of protocol cases: the query as bytes and the expected reply."""

import socket
import struct

import dns.edns
import dns.flags
import dns.message
import dns.opcode
import dns.rcode
import pytest
from dnsnet import Tcp, query, udp
from objects import namespace, service
from world import Z, ask, expect, slice_of, start, texts

WEB = f"web.default.svc.{Z}"
MANY = f"many.default.svc.{Z}"


@pytest.fixture(scope="module")
def kubedns(tmp_path_factory):
    objects = [namespace("default"), service("web", "10.96.0.10"), service("many", "None")]
    objects += [slice_of("many", [(f"10.9.{s}.{i}", None, True) for i in range(100)], suffix=str(s)) for s in range(5)]
    with start(tmp_path_factory.mktemp("protocol"), objects, "--nameservers=127.0.0.1:1") as k:
        k.wait_ready()
        yield k


def test_over_the_size_is_tc_on_a_record_border_with_the_opt_kept(kubedns):
    for size, limit in ((None, 512), (512, 512), (700, 700), (1232, 1232), (4096, 1232)):
        message = query(MANY) if size is None else query(MANY, use_edns=0, payload=size)
        reply = udp(kubedns, message)
        assert reply.flags & dns.flags.TC
        assert limit - 40 <= len(reply.to_wire(max_size=65535)) <= limit
        assert (reply.edns == 0) == (size is not None)


def test_additional_is_dropped_first_and_without_tc(kubedns, tmp_path):
    objects = [namespace("default"), service("s", "None"), slice_of("s", [(f"10.9.0.{i}", f"a-long-host-name-{i:02d}", True) for i in range(6)])]
    with start(tmp_path, objects) as k:
        k.wait_ready()
        reply = ask(k, f"_http._tcp.s.default.svc.{Z}", "SRV")
        assert not reply.flags & dns.flags.TC
        assert len(texts(reply.answer)) == 6
        assert len(texts(reply.additional)) < 6


def test_whole_over_tcp(kubedns):
    with Tcp(kubedns) as client:
        reply = client.ask(query(MANY))
    assert len(reply.answer[0]) == 500 and not reply.flags & dns.flags.TC


def test_every_reply_to_edns_has_an_opt_with_do_copied(kubedns):
    for name in (WEB, f"nothing.{Z}", "."):
        reply = udp(kubedns, query(name, use_edns=0, want_dnssec=True, flags=0))
        assert reply.edns == 0 and reply.ednsflags & dns.flags.DO


def test_edns_version_above_0_is_badvers(kubedns):
    message = query(WEB)
    message.use_edns(edns=1)  # make_query takes 1 for True
    reply = udp(kubedns, message)
    assert reply.rcode() == dns.rcode.BADVERS and reply.edns == 0 and not reply.answer


def test_nsid_when_asked(kubedns):
    import socket

    reply = udp(kubedns, query(WEB, use_edns=0, options=[dns.edns.GenericOption(dns.edns.NSID, b"")]))
    assert [o.to_wire() for o in reply.options if o.otype == dns.edns.NSID] == [socket.gethostname().encode()]
    assert not udp(kubedns, query(WEB, use_edns=0)).options


def test_unknown_options_are_ignored(kubedns):
    reply = udp(kubedns, query(WEB, use_edns=0, options=[dns.edns.GenericOption(65001, b"x" * 50)]))
    expect(reply, "NOERROR", ["10.96.0.10"])


@pytest.mark.parametrize("count", [0, 2])
def test_qdcount_other_than_1_is_formerr(kubedns, count):
    wire = bytearray(query(WEB).to_wire())
    wire[4:6] = struct.pack("!H", count)
    assert udp(kubedns, bytes(wire)).rcode() == dns.rcode.FORMERR


def test_trailing_garbage_is_formerr(kubedns):
    assert udp(kubedns, query(WEB).to_wire() + b"x").rcode() == dns.rcode.FORMERR


def test_a_response_is_never_answered(kubedns):
    message = query(WEB)
    message.flags |= dns.flags.QR
    assert udp(kubedns, message.to_wire(), timeout=0.3) is None


def test_opcode_other_than_query_is_notimp(kubedns):
    for opcode in (dns.opcode.STATUS, dns.opcode.NOTIFY, dns.opcode.UPDATE):
        wire = bytearray(query(WEB).to_wire())
        wire[2] = wire[2] & 0x87 | opcode << 3
        with Tcp(kubedns) as client:
            client.send(bytes(wire))
            assert client.read().rcode() == dns.rcode.NOTIMP


def test_a_notimp_has_none_of_the_bits_of_a_query(kubedns):
    """RFC 8906: RD, RA and CD have a meaning in a QUERY only. A bug set RA and copied RD and CD."""
    for opcode in (1, 3, 6, 15):
        message = query(WEB)
        message.flags |= dns.flags.RD | dns.flags.CD
        wire = bytearray(message.to_wire())
        wire[2] = wire[2] & 0x87 | opcode << 3
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.settimeout(5)
            s.sendto(bytes(wire), (kubedns.host, kubedns.port))
            reply = s.recv(512)
        flags = reply[2] << 8 | reply[3]
        assert flags & 15 == dns.rcode.NOTIMP and flags >> 11 & 15 == opcode and flags & 0x8000, hex(flags)
        assert not flags & (dns.flags.RD | dns.flags.RA | dns.flags.CD | dns.flags.AA), hex(flags)


def test_other_classes_are_refused(kubedns):
    assert udp(kubedns, query(WEB, rdclass="HS")).rcode() == dns.rcode.REFUSED


@pytest.mark.parametrize("type_", ["AXFR", "IXFR"])
def test_transfers_are_refused(kubedns, type_):
    wire = query(Z, type_).to_wire()
    assert udp(kubedns, wire).rcode() == dns.rcode.REFUSED


def test_rd_and_cd_are_copied_and_ra_says_that_there_is_a_forwarder(kubedns):
    for flags in (0, dns.flags.RD, dns.flags.CD, dns.flags.RD | dns.flags.CD):
        reply = udp(kubedns, query(WEB, flags=flags))
        assert reply.flags & (dns.flags.RD | dns.flags.CD) == flags
        assert reply.flags & dns.flags.RA and reply.flags & dns.flags.AA and reply.flags & dns.flags.QR


def test_a_query_of_4096_bytes_is_accepted(kubedns):
    padding = dns.edns.GenericOption(dns.edns.PADDING, b"\0" * (4096 - len(query(WEB, use_edns=0).to_wire()) - 4))
    message = query(WEB, use_edns=0, options=[padding])
    wire = message.to_wire(max_size=65535)
    assert len(wire) == 4096
    expect(udp(kubedns, wire), "NOERROR", ["10.96.0.10"])


def test_a_compression_loop_is_formerr(kubedns):
    wire = struct.pack("!HHHHHH", 7, 0x100, 1, 0, 0, 0) + b"\xc0\x0c\0\1\0\1"
    assert udp(kubedns, wire).rcode() == dns.rcode.FORMERR


def test_before_the_first_sync_our_zones_are_servfail_with_ede_not_ready(tmp_path):
    from kubedns_process import Kubedns

    with Kubedns("--kube-master-url=http://127.0.0.1:1", "--reverse-cidrs=198.51.100.0/24", directory=str(tmp_path)) as k:
        k.wait(lambda: k.http("/readiness")[0] == 503)
        for name, type_ in ((WEB, "A"), ("1.0.0.10.in-addr.arpa", "PTR"), ("1.0.168.192.in-addr.arpa", "PTR"),
                            ("1.100.51.198.in-addr.arpa", "PTR"), ("x.100.51.198.in-addr.arpa", "PTR"),
                            ("0." * 29 + "0.d.f.ip6.arpa", "PTR")):  # fmt: skip
            reply = udp(k, query(name, type_, use_edns=0))
            assert reply.rcode() == dns.rcode.SERVFAIL, name
            assert [o.code for o in reply.options if o.otype == dns.edns.EDE] == [14], name
        assert udp(k, query("1.2.0.192.in-addr.arpa", "PTR", flags=0)).rcode() == dns.rcode.REFUSED, "the zone is not ours"
