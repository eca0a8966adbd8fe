"""
Sends a query for every row of the specification's tables of names and records to the real kubedns. A case consists of a name, a type and
the expected answer.
"""

import dns.flags
import dns.rdatatype
import pytest
from world import Z, ask, expect, one_of_everything, start, texts


@pytest.fixture(scope="module")
def kubedns(tmp_path_factory):
    path = tmp_path_factory.mktemp("world")
    with start(path, one_of_everything(), "--ns-addresses=192.0.2.53,2001:db8::53", "--nameservers=127.0.0.1:1",
               "--reverse-cidrs=10.96.0.0/12,fd00:10:96::/108") as k:  # fmt: skip
        k.wait_ready()
        yield k


ROWS = [
    # existence
    ("apex_ns", Z, "NS", "NOERROR", [f"ns.dns.{Z}."]),
    ("apex_other_types_are_nodata", Z, "A", "NOERROR", []),
    ("ns_dns_has_this_servers_addresses", f"ns.dns.{Z}", "A", "NOERROR", ["192.0.2.53"]),
    ("ns_dns_has_its_ipv6_addresses", f"ns.dns.{Z}", "AAAA", "NOERROR", ["2001:db8::53"]),
    ("dns_is_nodata", f"dns.{Z}", "A", "NOERROR", []),
    ("dns_version_is_the_schema", f"dns-version.{Z}", "TXT", "NOERROR", ['"1.1.0"']),
    ("dns_version_other_types_are_nodata", f"dns-version.{Z}", "A", "NOERROR", []),
    ("svc_is_nodata", f"svc.{Z}", "A", "NOERROR", []),
    ("pod_is_nodata", f"pod.{Z}", "TXT", "NOERROR", []),
    ("pod_of_a_namespace_is_nodata", f"default.pod.{Z}", "A", "NOERROR", []),
    ("pod_of_no_namespace_is_nxdomain", f"nowhere.pod.{Z}", "A", "NXDOMAIN", []),
    ("namespace_is_nodata", f"default.svc.{Z}", "A", "NOERROR", []),
    ("empty_namespace_is_nodata", f"empty.svc.{Z}", "A", "NOERROR", []),
    ("namespace_known_by_its_service_is_nodata", f"inferred.svc.{Z}", "A", "NOERROR", []),
    ("no_such_namespace", f"nowhere.svc.{Z}", "A", "NXDOMAIN", []),
    ("no_such_service", f"nothing.default.svc.{Z}", "A", "NXDOMAIN", []),
    ("tcp_below_a_service_is_nodata", f"_tcp.web.default.svc.{Z}", "SRV", "NOERROR", []),
    ("udp_without_a_udp_port_is_nxdomain", f"_udp.web.default.svc.{Z}", "SRV", "NXDOMAIN", []),
    ("tcp_below_a_headless_service_is_nodata", f"_tcp.db.default.svc.{Z}", "A", "NOERROR", []),
    ("port_name_asked_for_a_is_nodata", f"_http._tcp.web.default.svc.{Z}", "A", "NOERROR", []),
    ("headless_port_name_asked_for_a_is_nodata", f"_pg._tcp.db.default.svc.{Z}", "A", "NOERROR", []),
    ("the_underscores_belong_to_the_name", f"http.tcp.web.default.svc.{Z}", "SRV", "NXDOMAIN", []),
    ("anything_else_in_the_zone", f"else.{Z}", "A", "NXDOMAIN", []),
    ("below_a_pod_name", f"x.1-2-3-4.default.pod.{Z}", "A", "NXDOMAIN", []),
    # ClusterIP
    ("cluster_ip_a", f"web.default.svc.{Z}", "A", "NOERROR", ["10.96.0.10"]),
    ("cluster_ip_aaaa", f"web.default.svc.{Z}", "AAAA", "NOERROR", ["fd00:10:96::a"]),
    ("cluster_ip_other_type_is_nodata", f"web.default.svc.{Z}", "TXT", "NOERROR", []),
    ("cname_query_at_a_cluster_ip_is_nodata", f"web.default.svc.{Z}", "CNAME", "NOERROR", []),
    ("nodeport_is_a_cluster_ip", f"nodeport.default.svc.{Z}", "A", "NOERROR", ["10.96.0.11"]),
    ("no_address_yet_no_name_yet", f"pending.default.svc.{Z}", "A", "NXDOMAIN", []),
    ("case_is_ignored", f"WEB.Default.SVC.{Z.upper()}", "A", "NOERROR", ["10.96.0.10"]),
    # headless
    ("headless_ready_addresses_of_all_slices_once", f"db.default.svc.{Z}", "A", "NOERROR", ["10.1.1.1", "10.1.1.2", "10.1.1.3", "10.1.1.4"]),
    ("headless_aaaa", f"six.default.svc.{Z}", "AAAA", "NOERROR", ["2001:db8::1", "2001:db8::", "2001:db8::5"]),
    ("headless_of_another_family_is_nodata", f"db.default.svc.{Z}", "AAAA", "NOERROR", []),
    ("headless_without_a_ready_endpoint_is_nxdomain", f"down.default.svc.{Z}", "A", "NXDOMAIN", []),
    ("publish_not_ready_addresses", f"unready.default.svc.{Z}", "A", "NOERROR", ["10.1.4.1"]),
    ("tolerate_unready_endpoints_annotation", f"annotated.default.svc.{Z}", "A", "NOERROR", ["10.1.5.1"]),
    # endpoints
    ("endpoint_by_hostname", f"db-0.db.default.svc.{Z}", "A", "NOERROR", ["10.1.1.1"]),
    ("endpoint_by_address", f"10-1-1-3.db.default.svc.{Z}", "A", "NOERROR", ["10.1.1.3"]),
    ("endpoint_with_a_hostname_has_no_address_name", f"10-1-1-1.db.default.svc.{Z}", "A", "NXDOMAIN", []),
    ("endpoint_that_is_not_ready", f"10-1-1-9.db.default.svc.{Z}", "A", "NXDOMAIN", []),
    ("endpoint_below_a_cluster_ip", f"front.web.default.svc.{Z}", "A", "NOERROR", ["10.1.0.2"]),
    ("endpoint_address_below_a_cluster_ip", f"10-1-0-1.web.default.svc.{Z}", "A", "NOERROR", ["10.1.0.1"]),
    ("endpoint_ipv6", f"2001-db8--1.six.default.svc.{Z}", "AAAA", "NOERROR", ["2001:db8::1"]),
    ("endpoint_ipv6_with_a_trailing_dash_gets_a_zero", f"2001-db8--0.six.default.svc.{Z}", "AAAA", "NOERROR", ["2001:db8::"]),
    ("endpoint_of_both_families_a", f"pair.six.default.svc.{Z}", "A", "NOERROR", ["10.1.2.5"]),
    ("endpoint_of_both_families_aaaa", f"pair.six.default.svc.{Z}", "AAAA", "NOERROR", ["2001:db8::5"]),
    ("below_an_endpoint", f"x.db-0.db.default.svc.{Z}", "A", "NXDOMAIN", []),
    # SRV
    ("srv_cluster_ip_port", f"_https._tcp.web.default.svc.{Z}", "SRV", "NOERROR", [f"0 100 443 web.default.svc.{Z}."]),
    ("srv_cluster_ip_bare_name", f"web.default.svc.{Z}", "SRV", "NOERROR",
     [f"0 50 80 web.default.svc.{Z}.", f"0 50 443 web.default.svc.{Z}."]),
    ("srv_unnamed_port_at_the_bare_name", f"unnamed.default.svc.{Z}", "SRV", "NOERROR", [f"0 100 8080 unnamed.default.svc.{Z}."]),
    ("srv_headless_port", f"_pg._tcp.db.default.svc.{Z}", "SRV", "NOERROR",
     [f"0 25 5432 {e}.db.default.svc.{Z}." for e in ("db-0", "db-1", "10-1-1-3", "10-1-1-4")]),
    ("srv_headless_bare_name", f"db.default.svc.{Z}", "SRV", "NOERROR",
     [f"0 25 5432 {e}.db.default.svc.{Z}." for e in ("db-0", "db-1", "10-1-1-3", "10-1-1-4")]),
    ("srv_of_no_such_port", f"_nope._tcp.db.default.svc.{Z}", "SRV", "NXDOMAIN", []),
    ("headless_without_ports_has_addresses", f"portless.default.svc.{Z}", "A", "NOERROR", ["10.1.6.1"]),
    ("headless_without_ports_has_no_srv", f"portless.default.svc.{Z}", "SRV", "NOERROR", []),
    # ExternalName
    ("external_name_inside_is_followed", f"in.default.svc.{Z}", "A", "NOERROR", [f"web.default.svc.{Z}.", "10.96.0.10"]),
    ("external_name_chain_is_followed", f"chain.default.svc.{Z}", "AAAA", "NOERROR",
     [f"in.default.svc.{Z}.", f"web.default.svc.{Z}.", "fd00:10:96::a"]),
    ("external_name_asked_for_its_cname", f"out.default.svc.{Z}", "CNAME", "NOERROR", ["www.example.net."]),
    ("external_name_that_is_an_address", f"literal.default.svc.{Z}", "A", "NOERROR", ["192.0.2.7"]),
    # PTR
    ("ptr_cluster_ip", "10.0.96.10.in-addr.arpa", "PTR", "NOERROR", [f"web.default.svc.{Z}."]),
    ("ptr_cluster_ip_v6", "a.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.6.9.0.0.0.1.0.0.0.0.D.F.ip6.arpa", "PTR", "NOERROR",
     [f"web.default.svc.{Z}."]),
    ("ptr_headless_endpoint_by_hostname", "1.1.1.10.in-addr.arpa", "PTR", "NOERROR", [f"db-0.db.default.svc.{Z}."]),
    ("ptr_headless_endpoint_in_two_slices_once", "3.1.1.10.in-addr.arpa", "PTR", "NOERROR", [f"10-1-1-3.db.default.svc.{Z}."]),
    ("ptr_other_types_are_nodata", "1.1.1.10.in-addr.arpa", "A", "NOERROR", []),
    ("reverse_zone_unknown_address", "99.0.96.10.in-addr.arpa", "PTR", "NXDOMAIN", []),
    ("reverse_zone_empty_non_terminal", "0.96.10.in-addr.arpa", "PTR", "NOERROR", []),
    ("reverse_zone_nothing_below", "77.96.10.in-addr.arpa", "PTR", "NXDOMAIN", []),
    ("reverse_zone_apex_ns", "96.10.in-addr.arpa", "NS", "NOERROR", [f"ns.dns.{Z}."]),
    ("reverse_zone_name_that_is_no_number", "x.96.10.in-addr.arpa", "PTR", "NXDOMAIN", []),
    # pods
    ("pod_insecure", f"1-2-3-4.default.pod.{Z}", "A", "NOERROR", ["1.2.3.4"]),
    ("pod_insecure_ipv6", f"2001-db8--9.default.pod.{Z}", "AAAA", "NOERROR", ["2001:db8::9"]),
    ("pod_of_no_namespace", f"1-2-3-4.nowhere.pod.{Z}", "A", "NXDOMAIN", []),
    ("pod_label_that_is_no_address", f"1-2-3-444.default.pod.{Z}", "A", "NXDOMAIN", []),
    ("pod_other_family_is_nodata", f"1-2-3-4.default.pod.{Z}", "AAAA", "NOERROR", []),
    ("pod_srv_is_nodata", f"1-2-3-4.default.pod.{Z}", "SRV", "NOERROR", []),
    # ANY
    ("any_is_hinfo", f"web.default.svc.{Z}", "ANY", "NOERROR", ['"RFC8482" ""']),
    ("any_at_an_external_name_is_its_cname", f"out.default.svc.{Z}", "ANY", "NOERROR", ["www.example.net."]),
    ("any_of_nothing_is_nxdomain", f"nothing.default.svc.{Z}", "ANY", "NXDOMAIN", []),
]  # fmt: skip


@pytest.mark.parametrize("tcp", [False, True], ids=["udp", "tcp"])
@pytest.mark.parametrize(("name", "type_", "rcode", "answer"), [r[1:] for r in ROWS], ids=[r[0] for r in ROWS])
def test_row(kubedns, name, type_, rcode, answer, tcp):
    reply = ask(kubedns, name, type_, tcp=tcp)
    expect(reply, rcode, answer)
    assert reply.question[0].name.to_text() == f"{name}.", "the answer must keep the query's spelling"
    for rrset in reply.answer:
        assert rrset.ttl == (28800 if "dns-version" in name else 30)


@pytest.mark.parametrize("type_", ["A", "AAAA", "SRV", "HTTPS", "PTR", "SOA", "CAA", "DS", "HINFO", "ANY"])
def test_a_pod_query_without_a_namespace_does_not_crash(kubedns, type_):
    """A single SRV or HTTPS query for such a name crashed kube-dns."""
    expect(ask(kubedns, f"1-2-3-4.x.pod.{Z}", type_), "NXDOMAIN")


def test_apex_soa(kubedns):
    reply = ask(kubedns, Z, "SOA")
    expect(reply, "NOERROR", texts(reply.answer))
    soa = reply.answer[0][0]
    assert (soa.mname.to_text(), soa.rname.to_text()) == (f"ns.dns.{Z}.", f"hostmaster.{Z}.")
    assert (soa.refresh, soa.retry, soa.expire, soa.minimum) == (7200, 1800, 86400, 5)


def test_negative_answers_carry_the_soa_with_the_negative_ttl(kubedns):
    for name in (f"nothing.default.svc.{Z}", f"svc.{Z}"):
        soa = ask(kubedns, name).authority[0]
        assert (soa.name.to_text(), soa.ttl, soa[0].minimum) == (f"{Z}.", 5, 5)


def test_reverse_address_outside_of_our_zones_owns_its_soa(kubedns):
    reply = ask(kubedns, "1.1.1.10.in-addr.arpa", "TXT")
    assert reply.authority[0].name.to_text() == "1.1.1.10.in-addr.arpa."


def test_ns_has_glue(kubedns):
    reply = ask(kubedns, Z, "NS")
    assert texts(reply.additional) == ["192.0.2.53", "2001:db8::53"]


def test_srv_targets_of_both_families_are_in_additional(kubedns):
    assert texts(ask(kubedns, f"_http._tcp.web.default.svc.{Z}", "SRV").additional) == ["10.96.0.10", "fd00:10:96::a"]
    reply = ask(kubedns, f"_http._tcp.six.default.svc.{Z}", "SRV")
    pair = [r for r in reply.additional if r.name.to_text().startswith("pair.")]
    assert texts(pair) == ["10.1.2.5", "2001:db8::5"]
    assert len([rd for r in reply.answer for rd in r if rd.target.to_text().startswith("pair.")]) == 1, "one SRV per name"


def test_a_loop_of_external_names_ends_with_the_cnames_and_no_address(kubedns):
    reply = ask(kubedns, f"loop.default.svc.{Z}")
    assert reply.rcode() == 0 and texts(reply.answer, "A") == []
    assert 1 <= len(texts(reply.answer, "CNAME")) <= 8


def test_the_last_steps_rcode_is_the_replys(kubedns):
    reply = ask(kubedns, f"dangling.default.svc.{Z}")
    assert reply.rcode() == dns.rcode.NXDOMAIN
    assert texts(reply.answer) == [f"nothing.default.svc.{Z}."]
    assert reply.authority[0].rdtype == dns.rdatatype.SOA


def test_addresses_are_rotated_from_query_to_query(kubedns):
    firsts = {ask(kubedns, f"db.default.svc.{Z}").answer[0][0].to_text() for _ in range(64)}
    assert firsts == {"10.1.1.1", "10.1.1.2", "10.1.1.3", "10.1.1.4"}


@pytest.mark.parametrize("name", ["version.bind", "version.server", "hostname.bind", "id.server"])
def test_chaos_txt(kubedns, name):
    import socket

    text = texts(ask(kubedns, name, "TXT", rdclass="CH").answer)[0].strip('"')
    assert text.startswith("kubedns-") if "version" in name else text == socket.gethostname()


def test_other_chaos_names_are_refused(kubedns):
    assert ask(kubedns, "authors.bind", "TXT", rdclass="CH").rcode() == dns.rcode.REFUSED
