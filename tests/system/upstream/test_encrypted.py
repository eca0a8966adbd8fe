"""kubedns cannot encrypt queries. It never sends a query for a name that the ConfigMap wants encrypted, in any topology."""

import json

import dns.edns
import dns.message
import dns.rcode
import pytest
from dnsnet import EXTERNAL, EXTERNAL_TARGET, WEB, WEB_IP, Upstream, answered, query, udp, world
from kubedns_process import known
from test_forward import addresses

TLS = "tls://192.0.2.53#dns.test"
MISTAKE = "tls://192.0.2.53"  # the name of the server is missing
ENCRYPTED = "the ConfigMap asks for TLS for this name, and kubedns cannot encrypt queries"


def write(config, **keys):
    """Writes or replaces the keys, each at once."""
    config.mkdir(exist_ok=True)
    for key, value in keys.items():
        new = config.with_name(key + ".new")
        new.write_text(value if isinstance(value, str) else json.dumps(value))
        new.rename(config / key)


def up(tmp_path, upstream, *args, **keys):
    config = tmp_path / "config"
    write(config, **keys)
    k = world(tmp_path, "--threads=1", f"--nameservers={upstream.address}", f"--config-dir={config}", "--config-period=1s", *args)
    k.wait_ready()
    return k


def rcode(k, name, **kw):
    return dns.rcode.to_text(udp(k, query(name, **kw), timeout=6).rcode())


def said(reply):
    """Returns the code and the text of the extended error."""
    return next(((option.code, option.text) for option in reply.options if isinstance(option, dns.edns.EDEOption)), None)


def sent(upstream):
    return [str(message.question[0].name) for message, _, _ in upstream.asked]


@pytest.mark.parametrize(
    "keys",
    [
        {"upstreamNameservers": [MISTAKE]},
        {"upstreamNameservers": [TLS]},  # correct, but this kubedns has nothing that encrypts
        {"upstreamNameservers": f'["{TLS}"'},
        {"stubDomains": {"corp..test": [TLS]}},
    ],
    ids=["mistake", "no engine", "no JSON", "unreadable stub domain"],
)
def test_a_refused_key_with_tls_stops_external_names(tmp_path, keys):
    with Upstream() as u, up(tmp_path, u, **keys) as k:
        reply = udp(k, query("www.example.com", use_edns=0))
        assert dns.rcode.to_text(reply.rcode()) == "SERVFAIL" and ENCRYPTED in reply.to_text(), reply
        assert addresses(udp(k, query(WEB))) == [WEB_IP] and rcode(k, "no.default.svc.cluster.local") == "NXDOMAIN"
        alias = udp(k, query(EXTERNAL))
        assert alias.rcode() == dns.rcode.NOERROR and EXTERNAL_TARGET in alias.to_text() and addresses(alias) == []
        assert sent(u) == [] and "get SERVFAIL until it is corrected" in k.log(), k.log()
        assert "SERVFAIL: the ConfigMap asks for TLS for this name" in k.http("/explain?name=www.example.com")[1]


def test_a_refused_key_without_tls_falls_back_but_a_stub_domain_does_not(tmp_path):
    """Names of a stub domain never go to the upstream servers, which do not know them."""
    with Upstream() as u, up(tmp_path, u, upstreamNameservers=["8.8.8"], stubDomains={"corp.test": ["8.8.8"], "b.test": ["192.0.2.9"]}) as k:
        assert rcode(k, "www.example.com") == "NOERROR"
        reply = udp(k, query("a.corp.test", use_edns=0))
        assert reply.rcode() == dns.rcode.SERVFAIL and said(reply) == (22, 'ConfigMap key stubDomains: "8.8.8" (server 1 of "corp.test"): not an address, such as 10.0.0.10, 10.0.0.10:53 or [fd00::10]:53'), reply
        assert 'SERVFAIL: ConfigMap key stubDomains: "8.8.8" (server 1' in k.http("/explain?name=a.corp.test")[1]
        assert sent(u) == ["www.example.com."]


def test_in_front_the_servfail_of_the_engine_gets_the_reason(tmp_path):
    """The engine's SERVFAIL for a stub domain without a usable server has no extended error, or one about the engine."""

    def failing(request, _tcp):
        reply = dns.message.make_response(request)
        reply.set_rcode(dns.rcode.SERVFAIL)
        return reply.to_wire()

    stubs = {"corp.test": ["8.8.8"], "twice.test": ["192.0.2.1"], "Twice.test": ["192.0.2.2"], "good.test": ["192.0.2.9"]}
    with Upstream(failing) as engine, Upstream() as u, up(tmp_path, u, f"--resolver={engine.address}", stubDomains=stubs) as k:
        reply = udp(k, query("a.corp.test", use_edns=0))
        assert reply.rcode() == dns.rcode.SERVFAIL and said(reply)[0] == 22 and '"8.8.8" (server 1 of "corp.test")' in said(reply)[1], reply
        assert said(udp(k, query("a.twice.test", use_edns=0))) == (22, 'ConfigMap key stubDomains: "twice.test": is given twice')
        assert said(udp(k, query("a.good.test", use_edns=0))) is None
        write(tmp_path / "config", stubDomains={"corp.test": ["9.9.9"]})
        k.wait(lambda: '"9.9.9"' in said(udp(k, query("a.corp.test", use_edns=0)))[1])
        assert sent(u) == []


def test_the_reason_of_a_whole_text_is_that_of_each_of_its_domains(tmp_path):
    with Upstream() as u, up(tmp_path, u, stubDomains='{"corp.test": ["tls://192.0.2.1#a.test"') as k:
        code, text = said(udp(k, query("a.corp.test", use_edns=0)))
        assert code == 22 and text.startswith("ConfigMap key stubDomains: ") and "column" in text, text
        assert sent(u) == []


def test_a_correction_ends_it_and_an_earlier_good_value_prevents_it(tmp_path):
    with Upstream() as u, Upstream() as other, up(tmp_path, u, upstreamNameservers=[MISTAKE]) as k:
        assert rcode(k, "a.example.com") == "SERVFAIL"
        write(tmp_path / "config", upstreamNameservers=[other.address])
        k.wait(lambda: rcode(k, "b.example.com") == "NOERROR")
        write(tmp_path / "config", upstreamNameservers=[MISTAKE])
        k.wait(lambda: "keeping previous" in k.log())
        assert rcode(k, "c.example.com") == "NOERROR" and sent(u) == []


@pytest.mark.parametrize("servers", [[TLS], [MISTAKE]], ids=["correct", "mistake"])
def test_names_of_a_tls_stub_domain_are_never_forwarded(tmp_path, servers):
    """In the classic topology, unbound sends all names below a local name to kubedns."""
    keys = {"stubDomains": {"corp.test": servers, "plain.corp.test": ["192.0.2.9"]}, "hosts": "10.0.0.5 git.corp.test\n"}
    with Upstream() as u, up(tmp_path, u, *known("--search-extra=corp.test"), **keys) as k:
        assert addresses(udp(k, query("git.corp.test"))) == ["10.0.0.5"]
        assert rcode(k, "x.git.corp.test") == rcode(k, "a.corp.test") == "SERVFAIL"
        assert rcode(k, "www.example.com") == "NOERROR"
        assert rcode(k, "a.plain.corp.test") == "NOERROR"
        assert not [name for name in sent(u) if "corp" in name and "plain" not in name], sent(u)


def test_an_alias_into_a_tls_stub_domain_is_not_followed(tmp_path):
    keys = {"stubDomains": {"example.net": [TLS]}}
    with Upstream() as u, up(tmp_path, u, **keys) as k:
        assert EXTERNAL_TARGET in udp(k, query(EXTERNAL)).to_text() and sent(u) == []


@pytest.mark.parametrize("keys", [{"upstreamNameservers": [MISTAKE]}, {"stubDomains": {"example.com": [MISTAKE]}}], ids=["upstreams", "stub domain"])
def test_in_front_only_the_engine_gets_the_query(tmp_path, keys):
    """kubedns repeats a query that the engine answers SERVFAIL at the upstream servers, but not this one."""

    def failing(request, _tcp):
        reply = answered(request)
        reply.set_rcode(dns.rcode.SERVFAIL)
        return reply

    with Upstream(failing) as engine, Upstream() as u, up(tmp_path, u, f"--resolver={engine.address}", **keys) as k:
        assert rcode(k, "www.example.com") == "SERVFAIL" and sent(u) == []
        assert sent(engine) == ["www.example.com."]


def test_the_search_resolver_follows_aliases_and_kubedns_does_not(tmp_path):
    """The classic topology. dnsmasq or unbound is the search resolver, and gets the targets of aliases."""
    with Upstream() as engine, Upstream() as u, up(tmp_path, u, f"--search-resolver={engine.address}", upstreamNameservers=[MISTAKE]) as k:
        assert addresses(udp(k, query(EXTERNAL))) == ["192.0.2.1"]
        assert rcode(k, "www.example.com") == "SERVFAIL"
        assert sent(engine) == [EXTERNAL_TARGET + "."] and sent(u) == []
