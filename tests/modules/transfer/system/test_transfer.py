"""Zone transfers to dnspython and to the name servers that operators use, and clients that may not get transfers."""

import contextlib
import socket
import subprocess
import threading
import time

import dns.flags
import dns.message
import dns.opcode
import dns.query
import dns.rcode
import dns.rdatatype
import dns.rrset
import dns.zone
import pytest
import random_cluster
from dnsnet import Tcp, framed, query, udp
from hurry import Clock
from kubedns_process import PROGRAM
from objects import endpoint_slice, service
from secondaries import Knot, lines
from waiting import free_port, sanitized, wait_for
from world import Z, one_of_everything, start, write

pytestmark = pytest.mark.spread

REVERSE = ("10.in-addr.arpa", "0.1.0.0.0.0.d.f.ip6.arpa")
HERE = ("--reverse-cidrs=10.0.0.0/8,fd00:10::/32", "--ns-addresses=127.0.0.1", "--transfer-to=127.0.0.1")
SMALL = [*one_of_everything(), service("dup", "None"), endpoint_slice("dup", ["10.1.9.1", "10.1.9.2"], hostnames=["a", "a"])]


def large(count=40000):
    """A cluster whose zone has several megabytes, more than a socket's buffer."""
    slices = [endpoint_slice("many", [f"10.{8 + i // 65536}.{i // 256 % 256}.{i % 256}" for i in range(at, at + 500)], suffix=str(at))
              for at in range(0, count, 500)]  # fmt: skip
    return [*one_of_everything(), service("many", "None"), *slices]


@contextlib.contextmanager
def hurried(tmp_path, objects, *args):
    """Starts kubedns with clocks that run twenty times as fast, because serials are times in seconds. Yields kubedns and its clock."""
    clock = Clock(tmp_path)
    clock.set_wall_forward()
    with clock.running(20), start(tmp_path, objects, *args, env=clock.env) as k:
        k.wait_ready()
        yield k, clock


def printed(directory, zone, *args):
    text = subprocess.run([PROGRAM, f"--print-zone={zone}", f"--objects-dir={directory}", *HERE, *args], capture_output=True, text=True,
                          timeout=60, check=True).stdout  # fmt: skip
    return dns.zone.from_text(text, origin=f"{zone}.", relativize=False)


def transferred(kubedns, zone, source=None):
    got = dns.zone.Zone(f"{zone}.", relativize=False)
    dns.query.inbound_xfr(kubedns.host, got, port=kubedns.port, timeout=30, lifetime=60, source=source)
    return got


def axfr(zone=Z, id=7, **kw):
    return query(zone, "AXFR", id=id, **kw)


def records_of(tcp, id=7):
    """The records of a transfer on an open connection, including both SOAs."""
    count = soas = 0
    while soas < 2:
        message = tcp.read()
        assert message is not None and message.rcode() == 0 and message.id == id, message
        count += sum(len(rrset) for rrset in message.answer)
        soas += sum(rrset.rdtype == dns.rdatatype.SOA for rrset in message.answer)
    return count


def test_a_transfer_is_what_print_zone_prints(tmp_path):
    with start(tmp_path, SMALL, *HERE) as k:
        k.wait_ready()
        for zone in (Z, *REVERSE):
            got = lines(transferred(k, zone))
            assert got == lines(printed(k.objects, zone)) and len(got) > (40 if zone == Z else 1)
        assert counted(k, 3) == [3, 0]
        assert f"transfer of {Z}. to 127.0.0.1: AXFR, serial " in k.log()


def test_a_serial_names_one_content(tmp_path):
    """
    The serial is a time in seconds. If a client requests a transfer in the same second as a change, the transfer waits until this second is
    over. It contains the zone as it was at the end of this second.
    """
    with hurried(tmp_path, SMALL, *HERE) as (k, _):
        for i in range(1, 6):
            write(k.objects, [*SMALL, service("new", f"10.96.1.{i}")])
            k.wait(lambda i=i: k.ask(f"new.default.svc.{Z}") == {f"10.96.1.{i}"})
            serial = udp(k, query(Z, "SOA")).answer[0][0].serial
            got = transferred(k, Z)
            assert got.find_rdataset(f"new.default.svc.{Z}.", "A")[0].to_text() == f"10.96.1.{i}"
            assert got.find_rdataset(f"{Z}.", "SOA")[0].serial >= serial


def test_others_are_refused(tmp_path):
    with start(tmp_path, SMALL, *HERE) as k:
        k.wait_ready()
        with socket.socket() as s:
            s.bind(("127.0.0.2", 0))
            s.connect((k.host, k.port))
            s.sendall(framed(axfr()))
            reply = dns.message.from_wire(s.recv(4096)[2:])
            assert reply.rcode() == dns.rcode.REFUSED and not reply.answer
        assert k.metric("kubedns_transfer_refused_total", reason="address") == 1
        with Tcp(k) as tcp:
            assert tcp.ask(axfr(f"default.svc.{Z}")).rcode() == dns.rcode.NOTAUTH
            assert tcp.ask(axfr("example.org")).rcode() == dns.rcode.NOTAUTH
            assert tcp.ask(query(Z, "SOA")).answer  # the connection stays usable
        assert udp(k, axfr()).rcode() == dns.rcode.REFUSED  # AXFR requires TCP
        soa = udp(k, query(Z, "IXFR"))
        assert [rrset.rdtype for rrset in soa.answer] == [dns.rdatatype.SOA]


def test_a_refused_transfer_is_counted_with_its_own_rcode(tmp_path):
    """A bug: kubedns counted the rcode of the previous query, because both queries use the same memory of the worker."""
    with start(tmp_path, SMALL, *HERE) as k:
        k.wait_ready()

        def counted():
            rcodes = ("NOERROR", "NXDOMAIN", "REFUSED", "NOTAUTH")
            return {rcode: k.metric("kubedns_dns_responses_total", rcode=rcode) or 0 for rcode in rcodes}

        def gained(before):
            return {rcode: n - before[rcode] for rcode, n in counted().items() if n != before[rcode]}

        with Tcp(k) as tcp:
            for ask, wrong, rcode in ((tcp.ask, axfr("example.org"), "NOTAUTH"), (lambda q: udp(k, q), axfr(), "REFUSED")):
                assert ask(query(f"no-such.default.svc.{Z}")).rcode() == dns.rcode.NXDOMAIN
                before = counted()
                for _ in range(20):
                    assert dns.rcode.to_text(ask(wrong).rcode()) == rcode
                k.wait(lambda: gained(before) == {rcode: 20}, what=lambda: f"{rcode}: {gained(before)}")


@pytest.mark.parametrize("edns", [-1, 0])
def test_every_reply_has_an_opt_if_the_query_had_one(tmp_path, edns):
    """RFC 6891 section 6.1.1. If a transfer has several messages, the first message has the OPT (RFC 5936 section 2.2.5)."""
    with start(tmp_path, SMALL, *HERE) as k:
        k.wait_ready()
        with Tcp(k) as tcp:
            replies = [tcp.ask(axfr(zone, use_edns=edns)) for zone in (Z, "example.org")]
            replies.append(tcp.ask(query(Z, "IXFR", use_edns=edns)))  # the zone without its SOA
        replies += [udp(k, query(Z, type_, use_edns=edns)) for type_ in ("AXFR", "IXFR")]
        assert [reply.rcode() for reply in replies] == [dns.rcode.NOERROR, dns.rcode.NOTAUTH, dns.rcode.FORMERR, dns.rcode.REFUSED, dns.rcode.NOERROR]
        assert [reply.edns for reply in replies] == [edns] * 5


def test_without_the_flag_nobody_gets_one(tmp_path):
    with start(tmp_path, SMALL) as k:
        k.wait_ready()
        with Tcp(k) as tcp:
            for type_ in ("AXFR", "IXFR"):
                assert tcp.ask(query(Z, type_)).rcode() == dns.rcode.REFUSED
        assert not [name for name in k.metrics() if name.startswith("kubedns_transfer")]


@pytest.mark.parametrize("value", ["10.0.0.0/33", "example.org", "10.0.0.1/x", "10.0.0.0/0"])
def test_a_wrong_prefix_is_refused_with_usage(value):
    done = subprocess.run([PROGRAM, "--check", f"--transfer-to={value}"], capture_output=True, text=True, timeout=30)
    assert done.returncode == 2 and f'--transfer-to: "{value}": not an address or a prefix' in done.stderr and "usage: " in done.stderr


def test_a_connection_goes_on_after_a_transfer_and_before(tmp_path):
    """The client sends everything at once: a query, a transfer, another query, and another transfer."""
    with start(tmp_path, large(500), *HERE) as k:
        k.wait_ready()
        with Tcp(k, timeout=30) as tcp:
            tcp.send(query(Z, "SOA", id=1), axfr(), query(Z, "NS", id=2), axfr(REVERSE[0], id=8), query(Z, "SOA", id=3))
            assert tcp.read().id == 1
            first = records_of(tcp)
            assert tcp.read().id == 2
            second = records_of(tcp, 8)
            assert tcp.read().id == 3
        assert first > 1500 and second > 500


def test_a_slow_reader_does_not_hold_the_writer_back_and_loses_its_transfer(tmp_path):
    clock = Clock(tmp_path)
    with start(tmp_path, large(), *HERE, "--threads=1", env=clock.env) as k, contextlib.ExitStack() as time_passes:
        time_passes.enter_context(clock.running(1))
        k.wait_ready()
        whole = k.memory()["VmRSS"]
        with Tcp(k, receive_buffer=4096, timeout=30) as slow:
            slow.send(axfr())
            for i in range(1, 20):
                write(k.objects, [service("new", f"10.96.1.{i}")], name="new.json")
                k.wait(lambda i=i: k.ask(f"new.default.svc.{Z}") == {f"10.96.1.{i}"})
            assert sanitized() or k.memory()["VmRSS"] < whole + 3000
            time_passes.enter_context(clock.running(20))
            k.wait(lambda: k.metric("kubedns_transfers_total", result="cut") == 1, 30)
            assert "the client stopped reading" in k.log()
        k.wait(lambda: k.metric("kubedns_transfer_held_bytes") < 1000000, 30)
        assert lines(transferred(k, REVERSE[1]))


def test_many_at_once(tmp_path):
    """One address requests many transfers. kubedns runs one, lets some wait, and refuses the others. Queries are still answered, and memory is bounded."""
    with start(tmp_path, large(), *HERE, "--threads=1") as k:
        k.wait_ready()
        before = k.memory()["VmRSS"]
        clients = [Tcp(k, timeout=60) for _ in range(400)]
        for client in clients:
            client.send(axfr())
        slowest = 0.0
        for _ in range(200):
            begun = time.monotonic()
            assert k.ask(f"web.default.svc.{Z}") == {"10.96.0.10"}
            slowest = max(slowest, time.monotonic() - begun)
        assert sanitized() or k.memory()["VmRSS"] < before + 3000
        k.wait(lambda: k.metric("kubedns_transfer_refused_total", reason="queue") > 300)
        for client in clients:
            client.socket.close()
        k.wait(lambda: k.metric("kubedns_transfer_held_bytes") == 0, 60)
        print(f"slowest answer meanwhile: {slowest * 1000:.1f} ms")


def test_clients_that_leave_leave_nothing(tmp_path):
    with start(tmp_path, large(8000), *HERE) as k:
        k.wait_ready()
        before = k.descriptors()

        def come_and_go():
            for _ in range(20):
                with Tcp(k) as tcp:
                    tcp.send(axfr())
                    tcp.socket.recv(100)

        threads = [threading.Thread(target=come_and_go) for _ in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        k.wait(lambda: k.descriptors() <= before, 30)
        assert lines(transferred(k, REVERSE[1]))


# Incremental transfers.


def ixfr(kubedns, zone):
    """Updates `zone`, a dns.zone.Zone, with IXFR."""
    dns.query.inbound_xfr(kubedns.host, zone, port=kubedns.port, timeout=30, lifetime=60)


def kinds(kubedns):
    return [int(kubedns.metric("kubedns_transfers_total", kind=kind, result="whole")) for kind in ("AXFR", "IXFR")]


def counted(kubedns, count):
    """Returns kinds() once this many transfers are counted. The sending thread counts and logs a transfer after the client has received all of it."""
    kubedns.wait(lambda: sum(kinds(kubedns)) >= count)
    return kinds(kubedns)


def serial_of(kubedns, zone=Z):
    return udp(kubedns, query(zone, "SOA")).answer[0][0].serial


def test_increments_lead_to_what_print_zone_prints(tmp_path):
    """A client updates its copy of a zone only by IXFR, after all kinds of changes. Sometimes one IXFR contains several changes."""
    generator = random_cluster.Generator(5)
    zones = (Z, REVERSE[0])
    args = ("--reverse-cidrs=10.0.0.0/8", "--ns-addresses=127.0.0.1", "--transfer-to=127.0.0.1")
    with hurried(tmp_path, list(generator.cluster.values()), *args) as (k, clock):
        kept = [transferred(k, zone) for zone in zones]
        for i in range(12):
            for _ in range(4):
                generator.change()
            before = serial_of(k)
            write(k.objects, list(generator.cluster.values()))
            k.wait(lambda before=before: serial_of(k) != before or i > 0, 5)
            if i % 3 == 1:
                continue
            for zone, copy in zip(zones, kept):
                ixfr(k, copy)
        write(k.objects, [service("last", "10.96.77.77")], name="last.json")
        k.wait(lambda: k.ask(f"last.default.svc.{Z}") == {"10.96.77.77"})
        assert k.metric("kubedns_publishes_total") > 5
        next_second(clock)
        for zone, copy in zip(zones, kept):
            ixfr(k, copy)
            assert lines(copy) == lines(printed(k.objects, zone))
        axfrs, ixfrs = counted(k, 6)
        assert axfrs == 2 and ixfrs >= 4, (axfrs, ixfrs)


def next_second(clock):
    """Waits for the next second of the clock."""
    begun = clock.seconds()
    wait_for(lambda: clock.seconds() > begun + 1)


def change(kubedns, value):
    write(kubedns.objects, [service("new", value)], name="new.json")
    kubedns.wait(lambda: kubedns.ask(f"new.default.svc.{Z}") == {value})


def test_increments_of_a_reverse_zone_while_hosts_replaces_the_name(tmp_path):
    """The name keeps its address from the ConfigMap key `hosts`, so the forward zone does not change. The Service's PTR changes."""
    conf = tmp_path / "conf"
    conf.mkdir()
    (conf / "hosts").write_text(f"10.9.9.9 new.default.svc.{Z}\n")
    with hurried(tmp_path, SMALL, *HERE, f"--config-dir={conf}") as (k, clock):
        kept = transferred(k, REVERSE[0])
        for i in range(1, 4):
            next_second(clock)
            write(k.objects, [service("new", f"10.96.1.{i}")], name="new.json")
            k.wait(lambda i=i: udp(k, query(f"{i}.1.96.10.in-addr.arpa", "PTR")).answer)
            ixfr(k, kept)
            assert lines(kept) == lines(printed(k.objects, REVERSE[0], f"--config-dir={conf}"))
        assert counted(k, 4) == [1, 3]


def test_who_is_up_to_date_gets_the_soa(tmp_path):
    with start(tmp_path, SMALL, *HERE) as k:
        k.wait_ready()
        kept = transferred(k, Z)
        assert counted(k, 1) == [1, 0]
        ixfr(k, kept)
        transferred(k, Z)
        assert counted(k, 2) == [2, 0], "the reply with only an SOA does not count as a transfer"


@pytest.mark.parametrize("ahead, said", [(30, False), (3600, True)])
def test_a_secondary_with_a_later_serial_is_said(tmp_path, ahead, said):
    """Another replica's serial may be some seconds later. A difference of an hour means that the clock was set back between two runs of kubedns."""
    with start(tmp_path, SMALL, *HERE) as k:
        k.wait_ready()
        asked = query(Z, "IXFR")
        asked.authority.append(dns.rrset.from_text(f"{Z}.", 30, "IN", "SOA", f"a. b. {serial_of(k) + ahead} 1 1 1 1"))
        with Tcp(k) as tcp:
            assert tcp.ask(asked).answer[0].rdtype == dns.rdatatype.SOA
        assert ("was the clock of this machine set back? Retransfer" in k.log()) == said


@pytest.mark.parametrize("args, why", [
    ((), "of another's giving"),  # the serial is the same, but it could come from another replica
    (("--transfer-journal=off",), "without a journal"),
])  # fmt: skip
def test_the_whole_zone_where_increments_cannot_be_trusted(tmp_path, args, why):
    with start(tmp_path, SMALL, *HERE, *args) as k:
        k.wait_ready()
        kept = transferred(k, Z) if args else printed(k.objects, Z)
        time.sleep(1.001 - time.time() % 1)  # serials are times in seconds
        change(k, "10.96.1.1")
        ixfr(k, kept)
        assert counted(k, 2 if args else 1) == [2 if args else 1, 0], why
        assert kept.find_rdataset(f"new.default.svc.{Z}.", "A")[0].to_text() == "10.96.1.1"


def test_the_journal_is_bounded(tmp_path):
    """The changes exceed the journal's size, so kubedns drops the oldest changes from it. A client that needs these changes gets the whole zone."""
    with hurried(tmp_path, SMALL, *HERE, "--transfer-journal=64k") as (k, clock):
        kept = transferred(k, Z)
        for i in range(6):
            next_second(clock)
            services = [service(f"s{n}", f"10.97.{i}.{n}") for n in range(200)]
            write(k.objects, services, name="many.json")
            k.wait(lambda i=i: k.ask(f"s199.default.svc.{Z}") == {f"10.97.{i}.199"})
            assert k.metric("kubedns_transfer_journal_bytes") <= 65536
        ixfr(k, kept)
        assert counted(k, 2) == [2, 0]
        change(k, "10.96.1.1")
        ixfr(k, kept)
        assert counted(k, 3) == [2, 1]


def test_headless_names_for_outside_are_transferred_and_so_are_their_changes(tmp_path):
    """These names come from the cluster's tree. If only the tree changes, the external zone's serial must rise too."""
    zone = "apps.example.com"
    flags = (f"--external-zones={zone}", "--external-headless")
    with hurried(tmp_path, SMALL, *HERE, *flags) as (k, clock):
        kept = transferred(k, zone)
        assert lines(kept) == lines(printed(k.objects, zone, *flags)) and "10.1.1.1" in str(lines(kept))
        name = f"db-0.new.default.{zone}"
        for last, ports in ((1, (("pg", 5432),)), (2, (("pg", 5432),)), (3, (("http", 80),))):
            next_second(clock)
            write(k.objects, [service("new", "None"), endpoint_slice("new", [f"10.201.0.{last}", "10.201.1.1"], hostnames=["db-0"], ports=ports)], name="new.json")
            k.wait(lambda last=last: k.ask(name) == {f"10.201.0.{last}"})
            ixfr(k, kept)
            assert lines(kept) == lines(printed(k.objects, zone, *flags))
            assert kept.find_rdataset(f"{name}.", "A")[0].to_text() == f"10.201.0.{last}"
            assert udp(k, query(zone, "SOA")).answer[0][0].serial == kept.find_rdataset(f"{zone}.", "SOA")[0].serial
        assert counted(k, 4) == [1, 3]


@pytest.mark.parametrize("wire", [b"", b"\0" * 20, b"\300\14\0\6\0\1\0\0\0\0\0\4\0\0\0\1", b"\300\14\0\6\0\1\0\0\0\0\0\30\300\14\300\300" + b"\1" * 20])
def test_an_ixfr_without_a_whole_soa_is_a_format_error(tmp_path, wire):
    with start(tmp_path, SMALL, *HERE) as k:
        k.wait_ready()
        message = bytearray(query(Z, "IXFR", id=7).to_wire() + wire)
        message[9] = 1 if wire else 0
        with Tcp(k) as tcp:
            assert tcp.ask(bytes(message)).rcode() == dns.rcode.FORMERR
            assert tcp.ask(query(Z, "SOA")).answer


class Listener:
    """A secondary that only receives NOTIFY and may answer it."""

    def __init__(self):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.socket.getsockname()[1]

    def hear(self, answer=True, timeout=5.0):
        """Returns (seconds since the epoch, zone, serial) of the next NOTIFY, or None."""
        self.socket.settimeout(timeout)
        try:
            wire, peer = self.socket.recvfrom(4096)
        except socket.timeout:
            return None
        message = dns.message.from_wire(wire)
        assert message.opcode() == dns.opcode.NOTIFY and message.flags & dns.flags.AA
        if answer:
            self.socket.sendto(dns.message.make_response(message).to_wire(), peer)
        return time.monotonic(), message.question[0].name.to_text(), message.answer[0][0].serial

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()


def test_changes_are_told_at_most_once_a_second(tmp_path):
    with Listener() as ear, start(tmp_path, SMALL, "--ns-addresses=127.0.0.1", "--transfer-to=127.0.0.1", f"--transfer-notify={ear.address}") as k:
        first = ear.hear()
        assert first[1] == f"{Z}."
        begun, heard = time.monotonic(), []
        while time.monotonic() < begun + 3:
            write(k.objects, [service("new", f"10.96.1.{1 + len(heard) % 200}", ports=((f"p{int(time.monotonic() * 1000) % 10**6}", 80),))], name="new.json")
            got = ear.hear(timeout=0.05)
            heard += [got] if got else []
        while got := ear.hear(timeout=2.5):
            heard.append(got)
        assert 2 <= len(heard) <= 6, heard
        serials = [serial for _, _, serial in heard]
        assert serials == sorted(set(serials)) and serials[0] > first[2]
        assert udp(k, query(Z, "SOA")).answer[0][0].serial == serials[-1]
        assert k.metric("kubedns_notify_total", result="answered") == len(heard) + 1


def test_who_does_not_answer_is_told_again(tmp_path):
    """After 1, 2 and 4 s, until it answers. The clock is kubedns's own."""
    clock = Clock(tmp_path)
    with Listener() as ear, start(tmp_path, SMALL, "--ns-addresses=127.0.0.1", "--transfer-to=127.0.0.1", f"--transfer-notify={ear.address}", env=clock.env) as k:
        heard = []

        def hears(answer):
            got = ear.hear(answer=answer, timeout=0.01)
            heard.extend([got] if got else [])
            return got

        k.wait_ready()
        clock.run_until(lambda: hears(answer=False), 10)
        waits = [clock.run_until(lambda: hears(answer=answer), 10) for answer in (False, False, True)]
        assert [round(s) for s in waits] == [1, 2, 4]
        k.wait(lambda: k.metric("kubedns_notify_total", result="answered") == 1)
        for _ in range(100):
            clock.forward(0.1)
            assert not hears(answer=True)


@pytest.mark.parametrize("args, said", [
    (["--transfer-notify=127.0.0.1"], "needs --transfer-to: without it, no server may"),
    (["--transfer-to=127.0.0.1", "--visibility=labels", "--resolver=127.0.0.1:5353"], "not with --transfer-to: transfers give these servers the names of all namespaces"),
    (["--transfer-to=127.0.0.1", "--transfer-journal=5M"], '--transfer-journal: "5M": must be off, or a size from 64k to 4M'),
    (["--transfer-to=127.0.0.1", "--transfer-notify=example.org"], '--transfer-notify: "example.org": not an address'),
    (["--transfer-to=127.0.0.1", "--transfer-notify=" + ",".join(["127.0.0.1"] * 17)], "at most 16 servers"),
    (["--transfer-to=127.0.0.1", "--visibility=labels", "--client-pods=all", "--resolver=127.0.0.1:10153"],
     '--visibility: "labels": not with --transfer-to: transfers give these servers the names of all namespaces'),
])  # fmt: skip
def test_wrong_values_are_refused_with_usage(args, said):
    done = subprocess.run([PROGRAM, "--check", *args], capture_output=True, text=True, timeout=30)
    assert done.returncode == 2 and said in done.stderr and "usage: " in done.stderr


# Name servers as secondaries.


def test_knot_as_a_secondary(tmp_path):
    port = free_port()
    with start(tmp_path, SMALL, *HERE, f"--transfer-notify=127.0.0.1:{port}") as k:
        k.wait_ready()
        with Knot(tmp_path / "knot", [k.port], (Z, *REVERSE), port=port) as knot:
            for zone in (Z, *REVERSE):
                k.wait(lambda zone=zone: knot.serial(zone), 30, knot.log)
                answer = udp(knot, query(f"web.default.svc.{Z}"))
                assert answer.answer[0][0].to_text() == "10.96.0.10"
            write(k.objects, [service("new", "10.96.1.77")], name="new.json")
            k.wait(lambda: knot.address(f"new.default.svc.{Z}") == "10.96.1.77", 5)  # only a NOTIFY can cause this: the secondary's own refresh is in two hours
        axfrs, ixfrs = counted(k, 4)
        assert axfrs == 3 and ixfrs >= 1
