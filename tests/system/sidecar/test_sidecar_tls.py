"""
The sidecar queries tls:// upstream servers over TLS, and says why one of them fails. The servers are stand-ins with certificates that the
tests make.
"""

import re
import time

import dns.rcode
import pytest

from hurry import Clock
from sidecar_world import NAME, FakeDns, Sidecar, good, rcode, silent, until
from tls_world import DAY, Authority, NannyPage, TlsDns
from waiting import free_port

NAME_OF_SERVER = "dns.test"


@pytest.fixture
def authority():
    return Authority()


@pytest.fixture
def bundle(tmp_path, authority):
    path = tmp_path / "ca.pem"
    path.write_text(authority.bundle)
    return path


def watch(nanny, bundle, ports, *args, env=None):
    return Sidecar(f"--dnsmasq-port={free_port()}", f"--nanny-url={nanny.url}", "--kubedns-url=", f"--upstream-ca={bundle}",
                   *(f"--upstream-port={port}" for port in ports), *args, peers=True, env=env)


def url(port, name=NAME_OF_SERVER):
    return f"tls://127.0.0.1:{port}#{name}"


def server(sidecar, port):
    """What /status.json says about the server at the port."""
    return next((s for s in sidecar.status()["servers"] if s["server"] == f"127.0.0.1:{port}"), {"state": "unknown", "failing": None})


def is_failing(sidecar, port, reason):
    return server(sidecar, port)["failing"] and server(sidecar, port)["state"] == reason


def is_well(sidecar, port):
    return server(sidecar, port)["state"] in ("ok", "no_records", "nxdomain") and not server(sidecar, port)["failing"]


def test_each_reason_is_named(tmp_path, authority, bundle):
    fine = authority.issue(tmp_path)
    weak = Authority("Another CA").issue(tmp_path)
    refused = free_port()
    servers = {
        "well": TlsDns(fine, good),
        "tls_wrong_name": TlsDns(authority.issue(tmp_path, "other.test"), good),
        "tls_expired": TlsDns(authority.issue(tmp_path, begin=-DAY, end=-DAY / 24), good),
        "tls_not_yet_valid": TlsDns(authority.issue(tmp_path, begin=DAY / 24, end=DAY), good),
        "tls_unknown_ca": TlsDns(weak, good),
        "tls_handshake": TlsDns(fine, good, tls=False),
        "tls_stalled": TlsDns(fine, good, stalled=True),
        "timeout": TlsDns(fine, silent),
        "servfail": TlsDns(fine, rcode(dns.rcode.SERVFAIL)),
    }
    ports = {reason: s.port for reason, s in servers.items()} | {"connection_refused": refused}
    try:
        with NannyPage([url(port) for port in ports.values()]) as nanny, watch(nanny, bundle, ports.values()) as sidecar:
            until(lambda: is_well(sidecar, ports["well"]), what=lambda: sidecar.status()["servers"])
            for reason, port in ports.items():
                if reason == "well":
                    continue
                until(lambda: is_failing(sidecar, port, reason), what=lambda: f"{reason}: {server(sidecar, port)}")
                labels = {"check": "upstream", "server": f"127.0.0.1:{port}"}
                assert sidecar.value("dns_check_success", **labels) == 0
                assert sidecar.value("dns_check_failure", reason=reason, **labels) == 1
                assert server(sidecar, port)["failure"]
            assert not [k for k in sidecar.metrics() if k[0] == "dns_check_failure" and f"127.0.0.1:{ports['well']}" in dict(k[1]).values()]
            says = [finding["what"] for finding in sidecar.status()["findings"]]
            assert any("has an expired certificate" in what for what in says), says
            # Nothing was sent in plain text, and no query to a server that is not verified.
            for reason, s in servers.items():
                assert s.plain == 0, reason
                assert (s.queries > 0) == (reason in ("well", "timeout", "servfail")), (reason, s.queries)
    finally:
        for s in servers.values():
            s.close()


def test_a_renewed_certificate_is_seen_within_seconds(tmp_path, authority, bundle):
    with TlsDns(authority.issue(tmp_path, end=-DAY / 24), good) as upstream, NannyPage([url(upstream.port)]) as nanny, \
            Clock(tmp_path).running(1) as clock, watch(nanny, bundle, [upstream.port], env=clock.env) as sidecar:
        until(lambda: is_failing(sidecar, upstream.port, "tls_expired"))
        assert "has an expired certificate" in sidecar.get("/status.txt")[1]
        assert upstream.queries == 0
        upstream.certificate, begun = authority.issue(tmp_path), clock.seconds()
        until(lambda: is_well(sidecar, upstream.port))
        assert clock.seconds() - begun < 5


def test_a_changed_bundle_is_read_again(tmp_path, authority, bundle):
    other = Authority("Private CA")
    with TlsDns(other.issue(tmp_path), good) as upstream, NannyPage([url(upstream.port)]) as nanny, \
            Clock(tmp_path).running(5) as clock, watch(nanny, bundle, [upstream.port], env=clock.env) as sidecar:
        until(lambda: is_failing(sidecar, upstream.port, "tls_unknown_ca"))
        begun = clock.seconds()
        bundle.write_text(authority.bundle + other.bundle)
        until(lambda: is_well(sidecar, upstream.port))
        assert clock.seconds() - begun < 5
        bundle.write_text("no certificate")
        until(lambda: "the former certificates stay in force" in sidecar.said())
        answered = server(sidecar, upstream.port)["answered"] + server(sidecar, upstream.port)["failed"]
        until(lambda: server(sidecar, upstream.port)["answered"] + server(sidecar, upstream.port)["failed"] > answered)
        assert is_well(sidecar, upstream.port)
        begun = clock.seconds()
        bundle.write_text(authority.bundle)
        until(lambda: is_failing(sidecar, upstream.port, "tls_unknown_ca"))
        assert clock.seconds() - begun < 20


def test_a_missing_bundle_is_not_taken_for_a_dead_server(tmp_path, authority):
    with TlsDns(authority.issue(tmp_path), good) as upstream, NannyPage([url(upstream.port)]) as nanny, \
            watch(nanny, tmp_path / "ca.pem", [upstream.port]) as sidecar:
        until(lambda: is_failing(sidecar, upstream.port, "tls_ca_bundle"))
        assert sidecar.said().count("tls:// servers cannot be checked") == 1
        finding = next(f for f in sidecar.status()["findings"] if "cannot be verified" in f["what"])
        assert "does not check" in finding["meaning"] and "--upstream-ca" in finding["todo"]
        (tmp_path / "ca.pem").write_text(authority.bundle)
        until(lambda: is_well(sidecar, upstream.port), 5)


def test_stalled_handshakes_delay_no_other_query(tmp_path, authority, bundle):
    stalled = [TlsDns(authority.issue(tmp_path), good, stalled=True) for _ in range(6)]
    try:
        with FakeDns(good) as fast, NannyPage([url(s.port) for s in stalled]) as nanny, \
                watch(nanny, bundle, [s.port for s in stalled], f"--probe=fast,{fast.server},{NAME},1,A") as sidecar:
            for s in stalled:
                until(lambda: is_failing(sidecar, s.port, "tls_stalled"), 15)
            until(lambda: sidecar.probe("fast")["recentQueries"] >= 5)
            probe = sidecar.probe("fast")
            assert probe["recentFailed"] == 0
            # A handshake that the sidecar waits for would cost 2 s.
            assert probe["recentMaxSeconds"] < 1
    finally:
        for s in stalled:
            s.close()


def test_a_slow_handshake_is_not_a_slow_reply(tmp_path, authority, bundle):
    """A server whose replies take a second or more is queried every second, not every 5 seconds."""
    asked = []

    def note(request):
        asked.append(time.monotonic())
        return good(request)

    with TlsDns(authority.issue(tmp_path), note, handshake_s=1.1) as upstream, NannyPage([url(upstream.port)]) as nanny, \
            watch(nanny, bundle, [upstream.port]) as sidecar:
        until(lambda: len(asked) >= 2, 20)
        assert is_well(sidecar, upstream.port)
        assert asked[1] - asked[0] > 4


def test_stub_domains_use_tls_too(tmp_path, authority, bundle):
    with TlsDns(authority.issue(tmp_path, "ns.corp.test"), good) as stub, \
            NannyPage([], {"corp.test": [url(stub.port, "ns.corp.test")]}) as nanny, watch(nanny, bundle, [stub.port]) as sidecar:
        until(lambda: is_well(sidecar, stub.port))
        assert server(sidecar, stub.port)["tlsName"] == "ns.corp.test"
        assert stub.plain == 0


def test_each_port_that_the_sandbox_does_not_allow_is_reported_once(tmp_path, authority, bundle):
    with TlsDns(authority.issue(tmp_path), good) as one, TlsDns(authority.issue(tmp_path), good) as two, \
            NannyPage([url(one.port), url(two.port)]) as nanny, watch(nanny, bundle, []) as sidecar:
        sandbox = until(lambda: re.search("sandbox: (.*)", sidecar.said()))  # the sidecar logs its port first
        if "tcp" not in sandbox[1]:
            pytest.skip("the kernel does not restrict TCP")
        until(lambda: nanny.reads >= 3)
        for upstream in (one, two):
            assert sidecar.said().count(f"add --upstream-port={upstream.port}") == 1
            assert upstream.handshakes == 0
        assert sidecar.value("dns_checks_skipped") == 2
