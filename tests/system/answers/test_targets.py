"""The addresses of SRV targets in the additional section, and the PTRs of these addresses."""

import dns.message
import dns.query
import pytest
from objects import endpoint_slice, namespace, service
from world import Z, ask, start, texts

SLICES, EACH = 6, 60


def big_hostname(n):
    return f"db-{n}" if n % 3 else None


def big_slices():
    """The slices of a headless Service with 360 endpoints and two ports. Two thirds of the endpoints have a host name."""
    out = []
    for s in range(SLICES):
        one = endpoint_slice("big", [f"10.20.{s}.{n}" for n in range(EACH)], suffix=f"s{s}", ports=(("pg", 5432), ("x", 9), ("pg", 5433)))
        for n, endpoint in enumerate(one["endpoints"]):
            if big_hostname(s * EACH + n):
                endpoint["hostname"] = big_hostname(s * EACH + n)
        out.append(one)
    return out


@pytest.fixture(scope="module")
def kubedns(tmp_path_factory):
    objects = [
        namespace("default"),
        service("one", "None"), endpoint_slice("one", ["10.1.7.1", "10.1.7.2"]),
        service("two", "None"), endpoint_slice("two", ["10.1.7.1", "10.96.7.8"], hostnames=["zero", "shadow"]),
        service("a", "10.96.7.7"), service("b", "10.96.7.7"), service("c", "10.96.7.8"),
        service("pair", "None"), endpoint_slice("pair", ["10.1.8.1"], hostnames=["p-0"]),
        endpoint_slice("pair", ["2001:db8::8"], hostnames=["p-0"], suffix="six"),
        service("twins", "10.96.7.9", ports=(("http", 80), ("web", 80), ("https", 443))),
        service("big", "None", ports=(("pg", 5432),)), *big_slices(),
    ]  # fmt: skip
    with start(tmp_path_factory.mktemp("targets"), objects, "--reverse-cidrs=10.96.0.0/12", "--wildcards") as k:
        k.wait_ready()
        yield k


def ask_tcp(kubedns, name, type_):
    """Keeps each record of the reply separate, so that duplicates are visible."""
    return dns.query.tcp(dns.message.make_query(name, type_), "127.0.0.1", port=kubedns.port, timeout=10, one_rr_per_rrset=True)


def test_an_address_of_two_services_has_two_ptrs(kubedns):
    assert texts(ask(kubedns, "1.7.1.10.in-addr.arpa", "PTR").answer) == [f"10-1-7-1.one.default.svc.{Z}.", f"zero.two.default.svc.{Z}."]
    assert texts(ask(kubedns, "7.7.96.10.in-addr.arpa", "PTR").answer) == [f"a.default.svc.{Z}.", f"b.default.svc.{Z}."]


def test_a_cluster_ip_that_is_an_endpoint_too_answers_as_the_service(kubedns):
    assert texts(ask(kubedns, "8.7.96.10.in-addr.arpa", "PTR").answer) == [f"c.default.svc.{Z}."]


def test_ports_of_one_service_bring_its_address_once(kubedns):
    for name in ("twins", "*._tcp.twins", "*.*.twins"):
        reply = ask_tcp(kubedns, f"{name}.default.svc.{Z}", "SRV")
        ports = sorted(rd.port for r in reply.answer for rd in r)
        assert ports in ([80, 443], [80, 80, 443]) and texts(reply.additional) == ["10.96.7.9"], name


def test_an_endpoint_of_both_families_is_one_target_with_two_addresses(kubedns):
    reply = ask_tcp(kubedns, f"_http._tcp.pair.default.svc.{Z}", "SRV")
    assert texts(reply.answer) == [f"0 100 80 p-0.pair.default.svc.{Z}."]
    assert texts(reply.additional) == ["10.1.8.1", "2001:db8::8"]


def test_a_wildcards_services_bring_their_own_addresses(kubedns):
    reply = ask_tcp(kubedns, f"_http._tcp.*.default.svc.{Z}", "SRV")
    targets = {rd.target for r in reply.answer for rd in r}
    assert {r.name for r in reply.additional} == targets and len(targets) == 9
    for name in targets:
        addresses = texts(ask(kubedns, name.to_text()).answer) + texts(ask(kubedns, name.to_text(), "AAAA").answer)
        assert texts(r for r in reply.additional if r.name == name) == addresses, name


def test_each_target_of_a_large_set_comes_with_its_address(kubedns):
    name = f"_pg._tcp.big.default.svc.{Z}"
    reply = ask_tcp(kubedns, name, "SRV")
    records = [rd for r in reply.answer for rd in r]
    assert len(records) == 2 * SLICES * EACH and {(rd.weight, rd.port) for rd in records} == {(1, 5432), (1, 5433)}
    expected = {}
    for n in range(SLICES * EACH):
        s, i = divmod(n, EACH)
        expected[f"{big_hostname(n) or f'10-20-{s}-{i}'}.big.default.svc.{Z}."] = f"10.20.{s}.{i}"
    assert sorted({rd.target.to_text() for rd in records}) == sorted(expected)
    brought = {r.name.to_text(): texts([r]) for r in reply.additional}
    assert len(brought) == len(reply.additional)
    for name, addresses in brought.items():
        assert addresses == [expected[name]], name
    # A compression pointer can refer to the first 16,383 bytes only. Only the targets in this part of the answer have addresses.
    each = 12 + 6 + len(f"10-20-0-10.big.default.svc.{Z}.") + 1
    assert abs(len(brought) - 16383 / (2 * each)) < 20
