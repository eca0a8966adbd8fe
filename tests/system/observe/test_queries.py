"""The last answers. Every worker records them, and an operator reads them over HTTP after an incident."""

import json
import re
import socket

import dns.rcode
from dnsnet import EXTERNAL, WEB, Tcp, Upstream, query, silent, udp, world

MISSING = "nothing.default.svc.cluster.local"


def lines(kubedns, parameters=""):
    status, text = kubedns.http("/queries" + parameters)
    assert status == 200, text
    return text.splitlines()


def records(kubedns, parameters=""):
    """The records, newest first."""
    return [json.loads(line) for line in lines(kubedns, "?format=json" + parameters)]


def recorded(kubedns, count):
    """Waits until `count` answers are recorded. kubedns records an answer shortly after it has sent it."""
    kubedns.wait(lambda: len(records(kubedns)) == count)
    return records(kubedns)


def test_each_answer_is_there_with_who_asked_and_how_it_was_made(tmp_path):
    with Upstream() as u, world(tmp_path, f"--nameservers={u.address}") as k:
        k.wait_ready()
        udp(k, query(WEB), source="127.0.0.2")
        udp(k, query(MISSING, "AAAA"), source="127.0.0.3")
        udp(k, query("www.example.com"))
        udp(k, query(EXTERNAL))
        with Tcp(k) as t:
            t.ask(query(WEB.upper()))
        found = recorded(k, 5)
    seen = [(r["client"], r["proto"], r["type"], r["name"], r["rcode"], r["made"]) for r in reversed(found)]
    assert seen == [
        ("127.0.0.2", "udp", "A", WEB + ".", "NOERROR", "cluster"),
        ("127.0.0.3", "udp", "AAAA", MISSING + ".", "NXDOMAIN", "cluster"),
        ("127.0.0.1", "udp", "A", "www.example.com.", "NOERROR", "forwarded"),
        ("127.0.0.1", "udp", "A", EXTERNAL + ".", "NOERROR", "chased"),
        ("127.0.0.1", "tcp", "A", WEB + ".", "NOERROR", "cluster"),
    ]
    assert all(r["size"] > 12 and 0 < r["took_ms"] < 4000 and not r["truncated"] for r in found)
    assert sorted(r["time"] for r in found) == [r["time"] for r in reversed(found)]


def test_a_filter_shows_what_matches_it_and_nothing_else(tmp_path):
    with world(tmp_path) as k:
        k.wait_ready()
        for i in range(4):
            udp(k, query(WEB), source=f"127.0.0.{2 + i}")
            udp(k, query(MISSING, "AAAA"), source=f"127.0.0.{2 + i}")
        recorded(k, 8)
        assert {r["client"] for r in records(k, "&client=127.0.0.3")} == {"127.0.0.3"}
        assert {r["client"] for r in records(k, "&client=127.0.0.4/31")} == {"127.0.0.4", "127.0.0.5"}
        assert {r["name"] for r in records(k, "&rcode=nxdomain")} == {MISSING + "."}
        assert {r["name"] for r in records(k, "&type=A")} == {WEB + "."}
        assert {r["name"] for r in records(k, "&name=WEB.default.svc.cluster.local")} == {WEB + "."}
        assert len(records(k, "&name=svc.cluster.local")) == 8
        assert not records(k, "&name=example.com")
        assert not records(k, "&client=::1")
        assert len(records(k, "&limit=3")) == 3
        assert len(records(k, "&last=5m")) == 8
        fourth = records(k)[3]["time"]
        assert len(records(k, f"&after={fourth}")) == 3
        assert [r["client"] for r in records(k, "&client=127.0.0.2&type=AAAA&rcode=NXDOMAIN")] == ["127.0.0.2"]


def test_lines_say_how_far_back_they_go(tmp_path):
    with world(tmp_path) as k:
        k.wait_ready()
        assert lines(k) == ["# no answer"]
        udp(k, query(WEB))
        recorded(k, 1)
        time = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z"
        first, last = lines(k)
        assert re.fullmatch(rf"{time} 127\.0\.0\.1:\d+ udp A {WEB}\. NOERROR \d+ cluster \d+\.\d{{3}}ms", first)
        assert re.fullmatch(rf"# looked back to {time}", last)


def test_a_filter_that_matches_none_of_many_holds_nobody_up(tmp_path):
    """
    In one iteration the main loop looks at 50,000 records at most, because it also serves health and the API. The HTTP client meanwhile
    gets a line about the progress of the search.
    """
    asked = 120000
    with world(tmp_path, "--threads=1", "--recorder=64M") as k:
        k.wait_ready()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.settimeout(30)
            s.connect((k.host, k.port))
            wire = query(WEB).to_wire()
            for _ in range(asked // 100):  # a reply is at most 100 queries late, so both sockets have space for all packets
                for _ in range(100):
                    s.send(wire)
                assert {s.recv(512)[3] & 15 for _ in range(100)} == {dns.rcode.NOERROR}
        told = lines(k, "?rcode=REFUSED")
        assert [re.sub(" to .*", "", line) for line in told] == ["# looking, back", "# looking, back", "# looked back"]
        assert told[0] > told[1]
        assert lines(k, "?rcode=REFUSED&format=json") == ["", ""]
        shown = [line for line in lines(k, f"?format=json&limit={2 * asked}&rcode=NOERROR") if line]
        assert len(shown) >= asked and json.loads(shown[-1])["name"] == f"{WEB}."


def test_a_parameter_that_is_not_understood_is_named_with_what_is(tmp_path):
    with world(tmp_path) as k:
        k.wait_ready()
        for bad in ("client=web", "client=10.0.0.0/33", "rcode=NOPE", "type=QQ", "name=a..b", "last=yesterday", "limit=0", "format=xml", "after=noon"):
            status, text = k.http(f"/queries?{bad}")
            name, _, value = bad.partition("=")
            assert status == 400 and text.startswith(f"{name}={value}: ") and text.endswith(" is needed\n"), text


def test_names_that_nobody_expects_are_escaped(tmp_path):
    message = query("x.cluster.local").to_wire().replace(b"\x01x", b'\x05a"\\\n.\x03\xc3\xa9z')
    with world(tmp_path) as k:
        k.wait_ready()
        udp(k, message)
        assert [r["name"] for r in recorded(k, 1)] == ['a\\"\\\\\\010\\..\\195\\169z.cluster.local.']
        assert "\n" not in lines(k)[0] and "\\010" in lines(k)[0]


def test_what_no_server_answers_and_what_is_refused_is_there_too(tmp_path):
    with Upstream(silent) as u, world(tmp_path, f"--nameservers={u.address}") as k:
        k.wait_ready()
        udp(k, query("www.example.com"), timeout=6)
        found = recorded(k, 1)[0]
        assert found["rcode"] == "SERVFAIL"
        assert found["made"] == "forwarded" and 3000 < found["took_ms"] < 4300
    with world(tmp_path, "--nameservers=") as k:
        k.wait_ready()
        udp(k, b"\0\1\1\0\0\2\0\0\0\0\0\0")
        assert [(r["rcode"], r["name"]) for r in recorded(k, 1)] == [("FORMERR", "")]


def test_off_keeps_nothing(tmp_path):
    with world(tmp_path, "--recorder=off") as k:
        k.wait_ready()
        udp(k, query(WEB))
        assert k.http("/queries") == (404, "answers are not recorded: --recorder=off\n")
