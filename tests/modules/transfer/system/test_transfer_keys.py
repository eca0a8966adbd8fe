"""Signed zone transfers (TSIG, RFC 8945). A client with a key gets the zone, and each message has a valid signature. Each error is as the RFC requires."""

import socket
import struct
import subprocess
import time
import unittest.mock

import dns.flags
import dns.message
import dns.name
import dns.opcode
import dns.query
import dns.rcode
import dns.rdatatype
import dns.tsig
import dns.tsigkeyring
import dns.xfr
import dns.zone
import pytest
from dnsnet import Tcp, framed, query, udp
from hurry import Clock
from kubedns_process import PROGRAM
from objects import endpoint_slice, service
from secondaries import HMACS, Bind, Knot, Nsd, key_lines, lines, lines_of, make_key
from waiting import free_port
from world import Z, one_of_everything, start, write

pytestmark = pytest.mark.spread

REVERSE = "10.in-addr.arpa"
HERE = ("--reverse-cidrs=10.0.0.0/8", "--ns-addresses=127.0.0.1")
# A transfer has five messages.
LARGE = [*one_of_everything(), service("many", "None"), endpoint_slice("many", [f"10.8.{i // 256}.{i % 256}" for i in range(300)])]
KEYS = [make_key(f"key-{algorithm[5:]}.example", algorithm) for algorithm in HMACS]
STRANGE = make_key("strange.example")


def tsig_key(key):
    return dns.tsig.Key(key[0], key[2], key[1])


def signed(message, key, **kw):
    message.use_tsig(tsig_key(key), **kw)
    return message


def with_keys(tmp_path, *keys, items=None, args=(), to="127.0.0.0/8", **kw):
    path = tmp_path / "keys"
    path.write_text(key_lines(*keys))
    return start(tmp_path, items or one_of_everything(), *HERE, f"--transfer-to={to}", f"--transfer-key={path}", "--config-period=1s", *args, **kw)


def printed(kubedns, zone):
    return lines_of(subprocess.run([PROGRAM, f"--print-zone={zone}", f"--objects-dir={kubedns.objects}", *HERE], capture_output=True, text=True,
                                   timeout=60, check=True).stdout)  # fmt: skip


def transferred(kubedns, zone, key, kept=None):
    """Transfers the zone by AXFR, or by IXFR into `kept`. dnspython verifies each message."""
    got = kept or dns.zone.Zone(f"{zone}.", relativize=False)
    asked, _ = dns.xfr.make_query(got, keyring=tsig_key(key))
    dns.query.inbound_xfr(kubedns.host, got, query=asked, port=kubedns.port, timeout=30, lifetime=60)
    return got


@pytest.mark.parametrize("key", KEYS, ids=HMACS)
def test_every_message_of_a_transfer_is_signed(tmp_path, key):
    """The clock stands still while this client gets no CPU. Otherwise kubedns could drop it as a client that has stopped reading."""
    clock = Clock(tmp_path)
    with with_keys(tmp_path, *KEYS, items=LARGE, env=clock.env) as k, clock.running(1):
        k.wait_ready()
        zone = transferred(k, Z, key)
        assert lines(zone) == printed(k, Z) and len(lines(zone)) > 1500
        with Tcp(k, timeout=30) as tcp:
            tcp.send(signed(query(Z, "AXFR"), key))
            messages = [unverified(tcp.read_wire()) for _ in range(4)]
        assert all(message.had_tsig for message in messages)
        write(k.objects, [service("new", "10.96.1.1")], name="new.json")
        k.wait(lambda: k.ask(f"new.default.svc.{Z}") == {"10.96.1.1"})
        transferred(k, Z, key, zone)
        assert lines(zone) == printed(k, Z)
        k.wait(lambda: k.metric("kubedns_transfers_total", kind="IXFR", result="whole") == 1)  # the counter changes after the client has read the last byte
        assert k.metric("kubedns_transfer_keys") == 3 and k.metric("kubedns_transfer_keys_failing") == 0


def test_soa_is_signed_for_who_signs(tmp_path):
    """The reply is signed over UDP and TCP, and for IXFR over UDP. A client without a key still gets the SOA, but no zone."""
    with with_keys(tmp_path, *KEYS) as k:
        k.wait_ready()
        for key in KEYS:
            with Tcp(k) as tcp:
                for zone, type_ in ((Z, "SOA"), (REVERSE, "SOA"), (Z, "IXFR")):
                    for edns in (-1, 0):
                        asked = signed(query(zone, type_, use_edns=edns), key)
                        replies = [dns.query.udp(asked, k.host, port=k.port, timeout=5)]
                        if type_ == "SOA":
                            replies.append(dns.query.tcp(asked, k.host, port=k.port, timeout=5, sock=tcp.socket))
                        for reply in replies:
                            assert reply.had_tsig and reply.answer[0].rdtype == dns.rdatatype.SOA and reply.answer[0].name.to_text() == f"{zone}."
                            assert reply.edns == edns and reply.flags & dns.flags.AA
        plain = udp(k, query(Z, "SOA"))
        assert plain.answer and not plain.had_tsig
        with Tcp(k) as tcp:
            for type_ in ("AXFR", "IXFR"):
                reply = tcp.ask(query(Z, type_))
                assert reply.rcode() == dns.rcode.REFUSED and not reply.had_tsig and not reply.answer
        assert udp(k, query(Z, "IXFR")).rcode() == dns.rcode.REFUSED
        assert k.metric("kubedns_transfer_refused_total", reason="key") == 3
        assert "not signed with a key of --transfer-key" in k.log()


def unverified(wire):
    """Parses a message without verifying its TSIG."""
    with unittest.mock.patch("dns.tsig.validate", lambda *_: None):
        return dns.message.from_wire(wire, keyring=tsig_key(STRANGE))


def raw(kubedns, wire):
    """Returns the reply's bytes, because dnspython would reject some of these replies."""
    with socket.socket() as s:
        s.settimeout(5)
        s.connect((kubedns.host, kubedns.port))
        s.sendall(framed(wire))
        length = struct.unpack("!H", s.recv(2, socket.MSG_WAITALL))[0]
        return s.recv(length, socket.MSG_WAITALL)


def tsig_of(wire):
    message = unverified(wire)
    return message, message.tsig[0]


BAD = {
    "BADKEY, a name": (lambda: signed(query(Z, "AXFR"), STRANGE).to_wire(), dns.rcode.NOTAUTH, 17, 0, "key"),
    "BADKEY, an algorithm": (lambda: signed(query(Z, "AXFR"), (KEYS[0][0], "hmac-sha512", KEYS[0][2])).to_wire(), dns.rcode.NOTAUTH, 17, 0, "key"),
    "BADKEY, an old algorithm": (lambda: signed(query(Z, "SOA"), (KEYS[0][0], "hmac-sha1", KEYS[0][2])).to_wire(), dns.rcode.NOTAUTH, 17, 0, "key"),
    "BADSIG": (lambda: signed(query(Z, "AXFR"), (*KEYS[0][:2], STRANGE[2])).to_wire(), dns.rcode.NOTAUTH, 16, 0, "signature"),
    "BADSIG of a SOA": (lambda: signed(query(Z, "SOA"), (*KEYS[2][:2], STRANGE[2])).to_wire(), dns.rcode.NOTAUTH, 16, 0, "signature"),
}


@pytest.mark.parametrize("case", BAD)
def test_errors_of_keys_and_signatures_are_not_signed(tmp_path, case):
    wire, rcode, error, mac_len, reason = BAD[case]
    with with_keys(tmp_path, *KEYS) as k:
        k.wait_ready()
        message, tsig = tsig_of(raw(k, wire()))
        assert (message.rcode(), tsig.error, len(tsig.mac)) == (rcode, error, mac_len) and not message.answer
        assert k.metric("kubedns_transfer_refused_total", reason=reason) == 1
        assert transferred(k, Z, KEYS[0])


@pytest.mark.parametrize("off, fudge", [(-400, 300), (400, 300), (-400, 65535)])
def test_bad_time_is_signed_as_of_the_clients_time_and_has_ours(tmp_path, monkeypatch, off, fudge):
    """RFC 8945 section 5.2.3: the reply is signed with the client's time, so that the client accepts it. A fudge of more than 300 s counts as 300 s."""
    with with_keys(tmp_path, *KEYS) as k:
        k.wait_ready()
        asked = signed(query(Z, "AXFR"), KEYS[1], fudge=fudge)
        now = time.time
        monkeypatch.setattr(time, "time", lambda: now() + off)
        wire = raw(k, asked.to_wire())
        message, tsig = tsig_of(wire)
        assert message.rcode() == dns.rcode.NOTAUTH and tsig.error == 18 and len(tsig.mac) == 48
        assert abs(int.from_bytes(tsig.other, "big") - now()) < 5 and abs(tsig.time_signed - now() - off) < 5
        with pytest.raises(dns.tsig.PeerBadTime):
            dns.message.from_wire(wire, keyring=tsig_key(KEYS[1]), request_mac=asked.mac)
        # Verify the MAC as dnspython would do it without the error.
        start_of = len(wire) - len(tsig.to_wire(origin=None)) - 10 - len(dns.name.from_text(KEYS[1][0]).to_wire())
        digest = dns.tsig._digest(wire[:10] + struct.pack("!H", struct.unpack("!H", wire[10:12])[0] - 1) + wire[12:start_of],
                                  tsig_key(KEYS[1]), tsig, None, asked.mac)  # fmt: skip
        assert digest.sign() == tsig.mac
        assert k.metric("kubedns_transfer_refused_total", reason="time") == 1


def cut_mac(wire, length):
    """Returns the query with its MAC shortened to this length."""
    tsig = tsig_of(wire)[1]
    rdata = tsig.to_wire(origin=None)
    at = len(tsig.algorithm.to_wire()) + 8
    shorter = rdata[:at] + struct.pack("!H", length) + (rdata[at + 2 : at + 2 + len(tsig.mac)] + bytes(64))[:length] + rdata[at + 2 + len(tsig.mac) :]
    return wire[: -len(rdata) - 2] + struct.pack("!H", len(shorter)) + shorter


@pytest.mark.parametrize("length, rcode, error", [(31, "NOTAUTH", 22), (16, "NOTAUTH", 22), (15, "FORMERR", None), (0, "FORMERR", None), (33, "FORMERR", None)])
def test_a_cut_mac_is_not_accepted(tmp_path, length, rcode, error):
    with with_keys(tmp_path, *KEYS) as k:
        k.wait_ready()
        message = unverified(raw(k, cut_mac(signed(query(Z, "AXFR"), KEYS[0]).to_wire(), length)))
        assert dns.rcode.to_text(message.rcode()) == rcode and not message.answer
        assert (message.tsig[0].error if message.had_tsig else None) == error


def test_a_tsig_that_is_not_last_or_not_alone_is_a_format_error(tmp_path):
    with with_keys(tmp_path, *KEYS) as k:
        k.wait_ready()
        for type_ in ("SOA", "AXFR"):
            wire = signed(query(Z, type_), KEYS[0]).to_wire()
            size = len(wire) - len(query(Z, type_).to_wire())
            for behind in (wire[-size:], b"\0\0\1\0\1\0\0\0\0\0\4\1\2\3\4"):
                reply = dns.message.from_wire(raw(k, wire[:10] + b"\0\2" + wire[12:] + behind))
                assert reply.rcode() == dns.rcode.FORMERR


def test_an_address_is_needed_beside_the_key(tmp_path):
    """The refusal is signed. So the secondary logs REFUSED and no problem with the key."""
    with with_keys(tmp_path, *KEYS, to="127.0.0.2") as k:
        k.wait_ready()
        reply = dns.query.tcp(signed(query(Z, "AXFR"), KEYS[0]), "127.0.0.1", port=k.port, timeout=5)
        assert reply.rcode() == dns.rcode.REFUSED and reply.had_tsig
        assert dns.query.udp(signed(query(Z, "SOA"), KEYS[0]), "127.0.0.1", port=k.port, timeout=5).answer
        assert dns.query.tcp(signed(query("example.org", "AXFR"), KEYS[0]), "127.0.0.1", port=k.port, timeout=5, source="127.0.0.2").rcode() == dns.rcode.NOTAUTH


def test_without_keys_a_tsig_is_passed_over(tmp_path):
    with start(tmp_path, one_of_everything(), *HERE, "--transfer-to=127.0.0.1") as k:
        k.wait_ready()
        message = unverified(raw(k, signed(query(Z, "SOA"), KEYS[0]).to_wire()))
        assert message.answer and not message.had_tsig
        assert not [name for name in k.metrics() if name.startswith("kubedns_transfer_keys")]


def test_keys_are_replaced_while_it_runs(tmp_path):
    old, new = make_key("old.example"), make_key("new.example", "hmac-sha512")
    with with_keys(tmp_path, old) as k:
        k.wait_ready()

        def fails(key):
            try:
                transferred(k, Z, key)
                return False
            except dns.tsig.PeerBadKey:
                return True

        assert fails(new)
        for keys, good, bad in (((old, new), [old, new], []), ((new,), [new], [old])):
            (tmp_path / "aside").write_text("# now\n" + key_lines(*keys))
            (tmp_path / "aside").rename(tmp_path / "keys")
            k.wait(lambda keys=keys: k.metric("kubedns_transfer_keys") == len(keys) and "changed, %d keys" % len(keys) in k.log())
            assert [fails(key) for key in good + bad] == [False] * len(good) + [True] * len(bad)
        (tmp_path / "keys").write_text("new.example hmac-md5 " + new[2] + "\n")
        k.wait(lambda: k.metric("kubedns_transfer_keys_failing") == 1)
        assert not fails(new) and 'line 1: "hmac-md5": not a supported algorithm' in k.log() and new[2] not in k.log()
        (tmp_path / "keys").unlink()
        k.wait(lambda: "No such file or directory" in k.log())
        assert not fails(new) and k.metric("kubedns_transfer_keys") == 1
        (tmp_path / "keys").write_text(key_lines(new))
        k.wait(lambda: k.metric("kubedns_transfer_keys_failing") == 0)
        assert k.log().count("No such file") == 1 and "good again" in k.log()


SECRET = "mPpNk0Ozd8GU05MbV0VCTtTMUcAtvVHmRHJg2CLl0ck="


@pytest.mark.parametrize("text, said", [
    ("", "no key in the file"),
    ("# nothing\n\n", "no key in the file"),
    ("a", "line 1: a name, an algorithm and a secret are needed"),
    ("a hmac-sha256", "line 1: a name, an algorithm and a secret are needed"),
    (f"a hmac-sha256 {SECRET}\nb hmac-md5 {SECRET}", 'line 2: "hmac-md5": not a supported algorithm: hmac-sha256, hmac-sha384 or hmac-sha512'),
    (f"a hmac-sha1 {SECRET}", '"hmac-sha1": not a supported algorithm'),
    (f"a..b hmac-sha256 {SECRET}", '"a..b": not a name'),
    (f"a hmac-sha256 {SECRET}\nA. hmac-sha256 {SECRET}", 'line 2: "A.": an earlier key has this name'),
    ("a hmac-sha256 x!", "line 1: the secret is not base64"),
    ("a hmac-sha256 c2hvcnQ=", "the secret has less than 16 bytes"),
    (f"a hmac-sha256 {'A' * 400}", "the secret has more than 256 bytes"),
    (f"a hmac-sha256 {SECRET} ns.example", '"ns.example": not an address'),
    ("".join(f"k{i} hmac-sha256 {SECRET}\n" for i in range(17)), "at most 16 keys"),
    ("x" * 20000, "more than 16 KB"),
    (None, "No such file or directory"),
])  # fmt: skip
def test_a_file_without_good_keys_is_refused_and_no_secret_is_shown(tmp_path, text, said):
    path = tmp_path / "keys"
    if text is not None:
        path.write_text(text)
    done = subprocess.run([PROGRAM, "--check", "--transfer-to=127.0.0.1", f"--transfer-key={path}"], capture_output=True, text=True, timeout=30)
    assert done.returncode == 2 and f'--transfer-key: "{path}": ' in done.stderr and said in done.stderr and SECRET not in done.stderr


def test_keys_need_somebody_who_gets_zones(tmp_path):
    done = subprocess.run([PROGRAM, "--check", "--transfer-key=/nothing"], capture_output=True, text=True, timeout=30)
    assert done.returncode == 2 and "needs --transfer-to: without it, no server may" in done.stderr


# NOTIFY.


def hear(ear, key):
    """Receives the next NOTIFY and verifies it with the key. Returns the message and its sender."""
    wire, peer = ear.recvfrom(4096)
    message = dns.message.from_wire(wire, keyring=tsig_key(key))
    assert message.opcode() == dns.opcode.NOTIFY and message.had_tsig
    return message, peer


def test_notify_is_signed_and_so_must_its_answer_be(tmp_path):
    """kubedns uses the first key that names the server's address. If there is no such key, it uses the first key without addresses."""
    for_all, for_two = KEYS[0], KEYS[2]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as two:
        for ear, host in ((one, "127.0.0.1"), (two, "127.0.0.2")):
            ear.bind((host, 0))
            ear.settimeout(10)
        servers = ",".join("%s:%d" % ear.getsockname() for ear in (one, two))
        with with_keys(tmp_path, for_all, (*for_two, "127.0.0.2"), args=(f"--transfer-notify={servers}",)) as k:
            for ear, key in ((one, for_all), (two, for_two)):
                for _ in range(2):  # kubedns sends one for each of two zones
                    message, peer = hear(ear, key)
                    reply = dns.message.make_response(message)
                    reply.tsig = reply.keyring = None
                    ear.sendto(reply.to_wire(), peer)
                    forged = dns.message.make_response(message)
                    forged.use_tsig(tsig_key((*key[:2], STRANGE[2])))
                    ear.sendto(forged.to_wire(), peer)
            k.wait(lambda: "is not signed with our key" in k.log())
            for ear, key in ((one, for_all), (two, for_two)):
                for _ in range(2):  # kubedns sends the NOTIFY again
                    message, peer = hear(ear, key)
                    ear.sendto(dns.message.make_response(message).to_wire(), peer)
            k.wait(lambda: k.metric("kubedns_notify_total", result="answered") == 4)
            for ear in (one, two):
                ear.settimeout(3)
                with pytest.raises(socket.timeout):
                    ear.recvfrom(4096)


# Name servers as secondaries.


@pytest.mark.parametrize("server", [Knot, Nsd, Bind])
def test_a_secondary_with_a_key_and_then_with_another(tmp_path, server):
    old, new, port = make_key("old.example"), make_key("new.example", "hmac-sha512"), free_port()
    with with_keys(tmp_path, old, args=(f"--transfer-notify=127.0.0.1:{port}",)) as k:
        k.wait_ready()
        with server(tmp_path / "server", [k.port], (Z, REVERSE), key=old, port=port) as secondary:

            def change(last):
                write(k.objects, [service("new", f"10.96.1.{last}")], name="new.json")
                k.wait(lambda: secondary.address(f"new.default.svc.{Z}") == f"10.96.1.{last}", 30, secondary.log)

            for zone in (Z, REVERSE):
                k.wait(lambda zone=zone: secondary.serial(zone), 30, secondary.log)
            change(77)  # only a NOTIFY can cause this: the secondary's own refresh is in two hours
            for zone in (Z, REVERSE):
                want = printed(k, zone)
                k.wait(lambda zone=zone, want=want: secondary.lines(zone) == want, 30, secondary.log)
            k.wait(lambda: k.metric("kubedns_transfers_total", kind="IXFR", result="whole") >= 1)
            refused = k.metric("kubedns_transfer_refused_total")
            (tmp_path / "keys").write_text(key_lines(old, new))
            k.wait(lambda: k.metric("kubedns_transfer_keys") == 2)
            (tmp_path / "keys").write_text(key_lines(new, old))
            k.wait(lambda: k.log().count("changed, 2 keys") == 2)
            secondary.key = new
            secondary.again()
            (tmp_path / "keys").write_text(key_lines(new))
            k.wait(lambda: k.metric("kubedns_transfer_keys") == 1)
            change(78)
            assert k.metric("kubedns_transfer_refused_total") == refused, k.log()
