"""
--filter-aaaa and --filter-a: if the cluster does not use an address family, kubedns answers such queries for external names with NODATA
itself. Also the caching of negative answers in dnsmasq.
"""

import json
import pathlib

import dns.edns
import dns.flags
import dns.message
import dns.rcode
import dns.rdatatype
import dns.rrset
import yaml
from dnsnet import EXTERNAL, EXTERNAL_TARGET, WEB, WEB_IP, Upstream, query, udp, world
from objects import service
from test_relay import Dnsmasq


ROOT = pathlib.Path(__file__).parents[3]
OUTSIDE = "www.example.com"


def upstream(request, _tcp):
    """
    Every external name has only an A record, so AAAA queries get NODATA. Names that begin with "no" do not exist. Caches may keep both
    negative answers for a minute.
    """
    question = request.question[0]
    reply = dns.message.make_response(request, recursion_available=True)
    if question.rdtype == dns.rdatatype.A and not str(question.name).startswith("no"):
        reply.answer.append(dns.rrset.from_text(question.name, 60, "IN", "A", "192.0.2.1"))
        return reply
    if str(question.name).startswith("no"):
        reply.set_rcode(dns.rcode.NXDOMAIN)
    reply.authority.append(dns.rrset.from_text("example.com.", 60, "IN", "SOA", "ns. host. 1 2 3 4 60"))
    return reply


def asked(u):
    return [(str(m.question[0].name).rstrip("."), dns.rdatatype.to_text(m.question[0].rdtype)) for m, _, _ in u.asked]


def ede(reply):
    return [o.code for o in reply.options if o.otype == dns.edns.OptionType.EDE]


def put_service(tmp_path, name, ip):
    (tmp_path / "objects" / f"{name}.json").write_text(json.dumps(service(name, ip)))


def test_auto_denies_aaaa_while_the_cluster_has_no_ipv6_and_no_longer(tmp_path):
    with Upstream(upstream) as u, world(tmp_path, "--filter-aaaa=auto", "--ns-addresses=192.0.2.53", f"--nameservers={u.address}",
                                        "--config-period=100ms") as k:  # fmt: skip
        k.wait_ready()
        reply = udp(k, query(OUTSIDE, "AAAA", use_edns=0))
        assert reply.rcode() == dns.rcode.NOERROR and not reply.answer and ede(reply) == [dns.edns.EDECode.FILTERED]
        assert reply.authority[0].ttl == 30 and str(reply.authority[0].name) == f"{OUTSIDE}." and not reply.flags & dns.flags.AA
        assert [str(r) for r in udp(k, query(OUTSIDE)).answer[0]] == ["192.0.2.1"]
        assert udp(k, query(OUTSIDE, "HTTPS")).rcode() == dns.rcode.NOERROR
        external = udp(k, query(EXTERNAL, "AAAA"))
        assert str(external.answer[0][0]) == f"{EXTERNAL_TARGET}." and str(external.authority[0].name) == f"{EXTERNAL_TARGET}."
        assert asked(u) == [(OUTSIDE, "A"), (OUTSIDE, "HTTPS")]
        assert k.metric("kubedns_dns_filtered_total", type="AAAA") == 2 and k.metric("kubedns_dns_filtered_total", type="A") == 0
        assert "AAAA queries get NODATA" in k.http(f"/explain?name={OUTSIDE}")[1]
        put_service(tmp_path, "six", "fd00::6")
        k.wait(lambda: not ede(udp(k, query(OUTSIDE, "AAAA", use_edns=0))), what=lambda: "AAAA asked upstream")
        assert (OUTSIDE, "AAAA") in asked(u) and "but for" not in k.http(f"/explain?name={OUTSIDE}")[1]
        (tmp_path / "objects" / "six.json").unlink()
        k.wait(lambda: ede(udp(k, query(OUTSIDE, "AAAA", use_edns=0))), what=lambda: "AAAA denied again")
        assert "--filter-aaaa: queries of this family for external names are forwarded again" in k.log()


def test_an_ipv6_address_of_this_server_is_ipv6_in_the_cluster(tmp_path):
    with Upstream(upstream) as u, world(tmp_path, "--filter-aaaa=auto", "--ns-addresses=192.0.2.53,2001:db8::53",
                                        f"--nameservers={u.address}") as k:  # fmt: skip
        k.wait_ready()
        assert not ede(udp(k, query(OUTSIDE, "AAAA", use_edns=0))) and asked(u) == [(OUTSIDE, "AAAA")]


def test_before_the_first_sync_only_what_is_certain_is_denied(tmp_path):
    """`on` takes effect with the first packet. With `auto`, kubedns does not know the cluster's address families yet."""
    for mode, sees in (("on", []), ("auto", [(OUTSIDE, "AAAA")])):
        with Upstream(upstream) as u, world(tmp_path, f"--filter-aaaa={mode}", "--ns-addresses=192.0.2.53", f"--nameservers={u.address}",
                                            f"--objects-dir={tmp_path}/absent") as k:  # fmt: skip
            k.wait(lambda k=k: udp(k, query(WEB), timeout=0.5) is not None)  # the first query may come too early
            udp(k, query(OUTSIDE, "AAAA"))
            assert asked(u) == sees


def test_exceptions_and_the_other_family(tmp_path):
    with Upstream(upstream) as u, world(tmp_path, "--filter-a=on", "--filter-except=v4.example.com,example.org", f"--nameservers={u.address}") as k:
        k.wait_ready()
        for name in (OUTSIDE, "a.v4.example.com", "example.org"):
            udp(k, query(name))
        assert asked(u) == [("a.v4.example.com", "A"), ("example.org", "A")]
        assert [str(r) for r in udp(k, query(WEB)).answer[0]] == [WEB_IP], "the filter must not affect cluster names"


def front_dnsmasq_args():
    """dnsmasq's arguments in the front topology's manifest, except for its listening address."""
    with open(ROOT / "conf/kubernetes/components/front/kustomization.yaml", encoding="utf-8") as f:
        patch = yaml.safe_load(yaml.safe_load(f)["patches"][0]["patch"])
    args = next(c for c in patch["spec"]["template"]["spec"]["containers"] if c["name"] == "dnsmasq")["args"]
    return [a for a in args[args.index("--") + 1 :] if a.partition("=")[0] not in ("-k", "--port", "--listen-address", "--bind-interfaces")]


def test_denials_of_outside_names_are_asked_once_in_front(tmp_path):
    """With --no-negcache all fifty queries would go to the upstream server."""
    with Upstream(upstream) as u, Dnsmasq(u, args=front_dnsmasq_args()) as d, world(tmp_path, f"--resolver={d.address}") as k:
        k.wait_ready()
        for _ in range(50):
            assert not udp(k, query(OUTSIDE, "AAAA")).answer
            assert udp(k, query("no.example.com")).rcode() == dns.rcode.NXDOMAIN
        assert asked(u) == [(OUTSIDE, "AAAA"), ("no.example.com", "A")]
