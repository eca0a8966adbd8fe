"""
--answer-cache: kubedns caches other servers' answers for seconds. The tests check which queries it still forwards, which clients share an
answer, and when it drops a cached answer.
"""

import os
import subprocess

import dns.edns
import dns.flags
import dns.message
import dns.rcode
import dns.rrset
import pytest
from dnsnet import EXTERNAL, EXTERNAL_TARGET, Tcp, Upstream, answered, query, udp, world
from hurry import Clock
from kubedns_process import PROGRAM
from nanny_world import Server, World
from outside_names import addresses, asked, cluster
from world import Z, start

CACHE = "--answer-cache=64k"
REST = 5  # seconds after a change of the configuration in which kubedns caches no answers


def resolver(request, _tcp):
    """The first label of a name decides its answer. Negative answers have an SOA with a TTL of a minute."""
    question = request.question[0]
    kind = str(question.name).split(".")[0]
    reply = dns.message.make_response(request, recursion_available=True)
    soa = dns.rrset.from_text("example.com.", 60, "IN", "SOA", "ns. host. 1 2 3 4 60")
    if kind == "broken":
        reply.set_rcode(dns.rcode.SERVFAIL)
    elif kind == "cut":
        reply.flags |= dns.flags.TC
    elif kind == "brief":
        return answered(request, "192.0.2.1", ttl=0)
    elif kind in ("none", "bare"):
        reply.set_rcode(dns.rcode.NXDOMAIN)
    elif kind == "many":
        return answered(request, *(f"192.0.2.{i}" for i in range(20)))
    elif not str(question.name).endswith((".example.com.", "example.net.", "example.")):
        reply.set_rcode(dns.rcode.NXDOMAIN)
    else:
        return answered(request, "192.0.2.1")
    if kind not in ("bare", "broken"):
        reply.authority.append(soa)
    return reply


def front(tmp_path, u, *args):
    """The clock of kubedns stands still, so a slow resolver gets no query twice. `k.clock` moves it."""
    clock = Clock(tmp_path)
    k = start(tmp_path, cluster(), "--threads=1", f"--resolver={u.address}", f"--nameservers={u.address}", *args, env=clock.env)
    k.clock = clock
    k.wait_ready()
    return k


def counters(k):
    return {c: k.metric(f"kubedns_answer_cache_{c}_total") for c in ("hits", "misses", "evictions")}


def test_without_it_each_question_is_asked(tmp_path):
    with Upstream(resolver) as u, front(tmp_path, u) as k:
        for _ in range(5):
            assert addresses(udp(k, query("www.example.com"))) == ["192.0.2.1"]
        assert len(u.asked) == 5 and counters(k) == {"hits": 0, "misses": 0, "evictions": 0}


@pytest.mark.parametrize("name,rcode,questions", [
    ("www.example.com", dns.rcode.NOERROR, 1),
    ("none.example.com", dns.rcode.NXDOMAIN, 1),
    ("bare.example.com", dns.rcode.NXDOMAIN, 5),
    ("broken.example.com", dns.rcode.SERVFAIL, 5),
    ("cut.example.com", dns.rcode.NOERROR, 5),
    ("brief.example.com", dns.rcode.NOERROR, 5),
])  # fmt: skip
def test_five_clients_ask_and_the_resolver_is_asked(tmp_path, name, rcode, questions):
    with Upstream(resolver) as u, front(tmp_path, u, CACHE) as k:
        replies = [udp(k, query(name, id=100 + i), source=f"127.0.0.{2 + i}") for i in range(5)]
        assert [(r.id, r.rcode()) for r in replies] == [(100 + i, rcode) for i in range(5)]
        assert all([s.to_rdataset() for s in r.answer] == [s.to_rdataset() for s in replies[0].answer] for r in replies)
        sent = questions * (2 if rcode == dns.rcode.SERVFAIL else 1)  # first to the resolver, then to the upstream server
        assert len(u.asked) == sent
        assert counters(k) == {"hits": 5 - questions, "misses": questions, "evictions": 0}
        assert k.metric("kubedns_forward_queries_total") == sent and k.metric("kubedns_forward_in_flight") == 0


def test_an_answer_is_made_for_each_client_anew(tmp_path):
    """
    Each client gets its own ID, spelling of the name, OPT, size and transport. If two queries differ in something that may change the
    answer, kubedns forwards both.
    """
    with Upstream(resolver) as u, front(tmp_path, u, CACHE) as k:
        assert len(addresses(udp(k, query("many.example.com")))) == 20
        reply = udp(k, query("MANY.Example.com", use_edns=0, payload=512))
        assert reply.edns == 0 and str(reply.question[0].name) == "MANY.Example.com." and len(addresses(reply)) == 20
        with Tcp(k) as tcp:
            assert len(addresses(tcp.ask(query("many.example.com")))) == 20
        assert len(u.asked) == 1
        cookie = dns.edns.GenericOption(dns.edns.OptionType.COOKIE, b"12345678")
        for other in (query("many.example.com", want_dnssec=True), query("many.example.com", use_edns=0, options=[cookie]),
                      query("many.example.com", flags=dns.flags.RD | dns.flags.CD)):  # fmt: skip
            before = len(u.asked)
            assert len(addresses(udp(k, other))) == 20 and len(u.asked) == before + 1


def test_an_alias_of_ours_and_the_name_itself_share_an_answer(tmp_path):
    with Upstream(resolver) as u, world(tmp_path, f"--resolver={u.address}", CACHE, "--threads=1") as k:
        k.wait_ready()
        for name in (EXTERNAL_TARGET, EXTERNAL, EXTERNAL_TARGET, EXTERNAL):
            assert addresses(udp(k, query(name, use_edns=0))) == ["192.0.2.1"]
        assert asked(u) == [(EXTERNAL_TARGET, "A")]


def test_people_see_what_came_from_it(tmp_path):
    with Upstream(resolver) as u, front(tmp_path, u, CACHE) as k:
        for _ in range(2):
            udp(k, query("www.example.com"))
        made = [line.split()[7] for line in k.http("/queries?name=www.example.com")[1].splitlines() if not line.startswith("#")]
        assert made == ["cached", "relayed"]
        assert "A: from the answer cache, 0 s old" in k.http("/explain?name=www.example.com")[1]
        assert "answer cache" not in k.http("/explain?name=other.example.com")[1]
        text = udp(k, query(f"www.example.com._explain.{Z}", "TXT"))
        assert "answer cache" not in text.to_text(), "DNS must not reveal other clients' queries"


def test_a_change_of_the_configuration_ends_what_was_kept(tmp_path):
    """A change of stub domains counts too, although kubedns does not use them itself. dnsmasq applies this change a little later."""
    config = tmp_path / "config"
    config.mkdir()
    with Upstream(resolver) as u, front(tmp_path, u, CACHE, f"--config-dir={config}") as k:
        ask = lambda: (udp(k, query("www.example.com")), len(u.asked))[1]  # noqa: E731
        assert [ask(), ask()] == [1, 1]
        for content in ('{"corp.example": ["192.0.2.53"]}', '{"corp.example": ["192.0.2.54"]}'):
            before = len(u.asked)
            (config / ".stubDomains").write_text(content)
            os.rename(config / ".stubDomains", config / "stubDomains")
            k.clock.run_until(lambda before=before: ask() > before, 60)
            before = len(u.asked)
            assert [ask(), ask()] == [before + 1, before + 2], "for a while kubedns must cache nothing"
        k.clock.run_until(lambda: [ask(), ask()][0] == len(u.asked), REST + 10)


def test_a_changed_stub_domain_is_in_force_as_soon_as_dnsmasq_has_it(tmp_path):
    """The nanny, dnsmasq and kubedns use the same mount. Only the stub domain's server changes."""
    nanny = World()
    before, after = (Server(lambda name, type_, address=a: [(name, 300, "A", address)]) for a in ("192.0.2.1", "192.0.2.2"))
    try:
        nanny.write(stubDomains={"corp.example": [f"127.0.0.1:{before.port}"]})
        nanny.start(args=["-k", "--cache-size=1000", "--no-hosts", "--log-facility=-"])
        with start(tmp_path, cluster(), f"--resolver=127.0.0.1:{nanny.port}", CACHE, f"--config-dir={nanny.conf}", "--threads=1") as k:
            k.wait_ready()
            ask = lambda: addresses(udp(k, query("git.corp.example")))  # noqa: E731
            assert [ask() for _ in range(3)] == [["192.0.2.1"]] * 3 and counters(k)["hits"] == 2
            nanny.write(stubDomains={"corp.example": [f"127.0.0.1:{after.port}"]})
            nanny.wait_log("dnsmasq: has configuration")
            assert k.http("/healthz")[0] == 200  # kubedns has seen the change when this iteration of its main loop ends
            assert ask() == ["192.0.2.2"]
    finally:
        nanny.close()
        before.close()
        after.close()


def test_an_answer_is_at_most_five_seconds_older_than_the_resolvers(tmp_path):
    addresses_now = ["192.0.2.1"]
    with Upstream(lambda request, tcp: answered(request, *addresses_now, ttl=300)) as u, front(tmp_path, u, CACHE) as k:
        assert addresses(udp(k, query("www.example.com"))) == ["192.0.2.1"]
        addresses_now[:] = ["192.0.2.2"]
        ttls = []

        def changed():
            reply = udp(k, query("www.example.com"))
            ttls.append(reply.answer[0].ttl)
            return addresses(reply) == ["192.0.2.2"]

        k.clock.run_until(changed, 6)
        assert ttls[:-1] == sorted(ttls[:-1], reverse=True) and set(ttls) == {300, 299, 298, 297, 296} and len(u.asked) == 2


def test_many_names_take_no_more_than_the_size(tmp_path):
    """There are more names than the cache can hold. The popular name stays in the cache, and memory stays bounded."""
    with Upstream(resolver) as u, front(tmp_path, u, CACHE) as k:
        for i in range(600):
            udp(k, query(f"x{i}.example.com"))
            udp(k, query("www.example.com"))
        assert asked(u).count(("www.example.com", "A")) == 1
        c = counters(k)
        assert c["hits"] >= 590 and c["evictions"] > 300


@pytest.mark.parametrize("value", ["1k", "2G", "much", ""])
def test_another_size_is_refused(value):
    done = subprocess.run([PROGRAM, f"--answer-cache={value}", "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and f'--answer-cache: "{value}": must be off, or a size from 64k to 1G' in done.stderr
