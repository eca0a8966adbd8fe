"""
The reason for a missing answer, as users see it with dig and kdig. The tests query kubedns directly, through dnsmasq, and while the API
server is down. A query without an OPT record gets no reason.
"""

import contextlib
import json
import re
import shutil
import subprocess

import dns.flags
import pytest
from api_world import World, name
from dnsnet import query, udp
from kubedns_process import PROGRAM, Kubedns
from objects import namespace, service
from waiting import free_port, wait_for
from world import Z, ask, one_of_everything, start

SENTENCES = [
    (f"10-1-1-9.db.default.svc.{Z}", "A", "10-1-1-9 is not ready"),
    (f"web.empty.svc.{Z}", "A", "Service web is in namespace default, not in empty"),
    (f"google.com.default.svc.{Z}", "A", "no Service com: a search-list expansion of google.com"),
    (f"down.default.svc.{Z}", "A", "no endpoint of Service down is ready (total: 1)"),
    (f"web.defualt.svc.{Z}", "A", "no namespace defualt; Service web is in namespace default"),
    (f"nodeport.default.svc.{Z}", "AAAA", "the name has IPv4 addresses only"),
    (f"pending.default.svc.{Z}", "A", "Service pending has no address yet"),
]

NOBODY_YET = (subprocess.CalledProcessError,)  # dig fails with this exception while no server listens


@pytest.fixture(scope="module")
def kubedns(tmp_path_factory):
    with start(tmp_path_factory.mktemp("why"), one_of_everything()) as k:
        k.wait_ready()
        yield k


def told(program, port, asked, type_="A", *options):
    """The extended errors that dig or kdig prints."""
    if not shutil.which(program):
        pytest.skip(f"{program} is not installed")
    done = subprocess.run([program, "@127.0.0.1", "-p", str(port), *options, asked, type_], capture_output=True, text=True, timeout=20, check=True)
    if program == "dig":
        return re.findall(r"; EDE: \d+ \([^)]*\): \((.*)\)", done.stdout)
    return re.findall(r"EDE: \d+ \([^)]*\): '(.*)'", done.stdout)


@pytest.mark.parametrize("program", ["dig", "kdig"])
@pytest.mark.parametrize(("asked", "type_", "says"), SENTENCES, ids=[s[0] for s in SENTENCES])
def test_dig_and_kdig_say_why(kubedns, program, asked, type_, says):
    options = ["+edns"] if program == "kdig" else []
    assert told(program, kubedns.port, asked, type_, *options) == [says]


def test_a_query_without_an_opt_gets_nothing_more(kubedns):
    for asked, type_, _ in SENTENCES:
        reply, longer = udp(kubedns, query(asked, type_)), udp(kubedns, query(asked, type_, use_edns=0))
        assert reply.edns == -1 and longer.edns == 0
        assert (reply.rcode(), reply.answer, reply.authority) == (longer.rcode(), longer.answer, longer.authority)
        assert len(reply.to_wire()) < len(longer.to_wire()) - 20


def test_a_small_client_gets_what_fits(kubedns):
    """The client's OPT record allows 512 bytes. The query name has the maximum length, and the reason would repeat it."""
    label = "a" * 60
    asked = f"{label}.{label}.{label}.default.svc.{Z}"
    message = query(asked, "A")
    message.use_edns(0, payload=512)
    reply = udp(kubedns, message)
    assert len(reply.to_wire()) <= 512
    assert reply.rcode() == 3 and not reply.flags & dns.flags.TC


@contextlib.contextmanager
def dnsmasq_before(kubedns, *options):
    """Starts a dnsmasq that forwards to kubedns, as in the classic topology. Yields dnsmasq's port."""
    port = free_port()
    command = ["dnsmasq", "-k", "-C", "/dev/null", "--pid-file=", "--no-resolv", "--no-hosts", "--bind-interfaces", "--listen-address=127.0.0.1",
               f"--port={port}", f"--server=/{Z}/127.0.0.1#{kubedns.port}", *options]  # fmt: skip
    with subprocess.Popen(command) as process:
        wait_for(lambda: told("dig", port, f"nothing.{Z}") is not None, passing=NOBODY_YET)
        yield port
        process.terminate()


@pytest.fixture
def dnsmasq(kubedns):
    with dnsmasq_before(kubedns, "--no-negcache") as port:
        yield port


def test_dnsmasq_hands_the_sentence_on_to_a_client_with_an_opt(kubedns, dnsmasq):
    for asked, type_, says in SENTENCES:
        assert told("dig", dnsmasq, asked, type_) == [says]
        assert told("dig", dnsmasq, asked, type_, "+noedns") == []


def test_dnsmasq_drops_the_extended_error_of_a_cached_denial_but_explain_works(kubedns):
    """
    docs/runbook.md describes this: dnsmasq 2.90 returns no extended errors from its cache. The answer for an endpoint that is not ready has
    a TTL of 0, so dnsmasq never caches it.
    """
    with dnsmasq_before(kubedns, "--cache-size=1000") as port:
        for asked, type_, says in SENTENCES:
            assert told("dig", port, asked, type_) == [says]
            kept = "ready" not in says
            for program, *options in (("dig",), ("kdig", "+edns")):
                assert told(program, port, asked, type_, *options) == ([] if kept else [says]), asked
        # The first client sent no OPT record, as most resolver libraries do.
        assert told("dig", port, f"first.empty.svc.{Z}", "A", "+noedns") == told("dig", port, f"first.empty.svc.{Z}") == []
        assert told("dig", kubedns.port, f"first.empty.svc.{Z}") == ["no Service first in namespace empty"]
        command = ["dig", "@127.0.0.1", "-p", str(port), "+short", f"web.empty._explain.{Z}", "TXT"]
        for _ in range(3):
            out = wait_for(lambda: subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout)
            assert "Service web is in namespace default, not in empty" in out


def test_while_the_api_server_is_away_answers_say_for_how_long(tmp_path):
    with World(tmp_path) as world:
        world.watching()
        assert told("dig", world.kubedns.port, name("kept")) == []
        world.api.stop("rst")

        def stale():
            return told("dig", world.kubedns.port, name("kept"))

        said = wait_for(stale, 30)
        assert re.fullmatch(r"stale for \d+ s: the Kubernetes API does not answer", said[0]), said
        assert int(re.search(r"\d+", said[0])[0]) in range(5, 40)
        assert told("dig", world.kubedns.port, name("nobody"))[-1].startswith("stale for ")
        assert told("dig", world.kubedns.port, name("kept"), "A", "+noedns") == []
        world.api.restart()
        wait_for(lambda: not stale(), 60)


def test_not_synced_and_refused_say_why(tmp_path):
    with Kubedns("--kube-master-url=http://127.0.0.1:1", "--nameservers=127.0.0.1:1", directory=str(tmp_path)) as k:
        wait_for(lambda: told("dig", k.port, f"web.default.svc.{Z}") == ["not synced yet: kubedns is still reading the cluster"], passing=NOBODY_YET)
        assert told("dig", k.port, "www.example.com") == ["no upstream server answered"]


def test_equal_objects_in_any_order_give_equal_answers(tmp_path):
    """If several Services match, the choice does not depend on the history of changes."""
    said = set()
    for order in (1, -1):
        items = [service("api", f"10.96.1.{n}", ns=f"ns-{n}") for n in range(1, 4)][::order]
        directory = tmp_path / str(order)
        directory.mkdir()
        with start(directory, [namespace("web"), *items]) as k:
            k.wait_ready()
            said.update(told("dig", k.port, f"api.web.svc.{Z}"))
    assert said == {"Service api is in namespace ns-1 and others, not in web"}


# The command, HTTP and DNS return the same text of the whole explanation.

STUBS = {"corp.example": ["192.0.2.1"], f"legacy.{Z}": ["192.0.2.2"]}
EXPLAINED = [
    # a member that is not ready
    (f"10-1-1-9.db.default.svc.{Z}", ["10-1-1-9 is not ready", "readiness probes: kubectl -n default describe pod"]),
    (f"web.empty.svc.{Z}", ["Service web is in namespace default, not in empty", "SERVICE.NAMESPACE"]),
    ("www.corp.example", ["in the stub domain corp.example.", "stubDomains"]),
    (f"x.legacy.{Z}", ["But clients do not get this answer: the name is in the stub domain legacy.cluster.local. (stubDomains)"]),
    (f"google.com.default.svc.{Z}", ["no Service com: a search-list expansion of google.com", "A final dot in the name avoids these queries."]),
    ("web", ["web is a short name", "Service web is in namespace default"]),
    ("web.default", [f"a pod's search list completes it to web.default.svc.{Z}.", "exists", "10.96.0.10"]),
    ("web.default.svc", [f"a pod's search list completes it to web.default.svc.{Z}.", "10.96.0.10"]),
    ("db-0.db.default", [f"completes it to db-0.db.default.svc.{Z}.", "10.1.1.1"]),
    ("wbe.default", ["no Service wbe in namespace default", "Nearest there: web", "The resolver then queries wbe.default. itself"]),
    (f"zzzzz.default.svc.{Z}", ["no Service zzzzz in namespace default"]),
    (f"web.default.{Z}", [f"the label svc is missing: use web.default.svc.{Z}"]),
    ("web.defualt", ["not in a zone of this server", "If it is meant as SERVICE.NAMESPACE: no namespace defualt; Service web is in namespace default"]),
    ("wbe.defualt", ["If it is meant as SERVICE.NAMESPACE: no namespace defualt."]),
    ("www.example.org", ["not in a zone of this server"]),
]


@pytest.fixture(scope="module")
def explaining(tmp_path_factory):
    directory = tmp_path_factory.mktemp("explaining")
    (directory / "config").mkdir()
    (directory / "config" / "stubDomains").write_text(json.dumps(STUBS))
    with start(directory, one_of_everything(), f"--config-dir={directory / 'config'}") as k:
        k.wait_ready()
        yield k


def by_command(kubedns, asked):
    done = subprocess.run([PROGRAM, f"--explain={asked}", f"--healthz-port={kubedns.healthz}"], capture_output=True, text=True, timeout=20, check=True)
    return done.stdout


def by_dns(kubedns, asked, **kw):
    """Returns the lines of the explanation over DNS. If kubedns has sent too many explanations shortly before, it may refuse to send one."""
    asked = asked.rstrip(".")

    def answered():
        reply = ask(kubedns, f"{asked}._explain.{Z}", "TXT", use_edns=0, payload=1232, **kw)
        return reply if reply.rcode() == 0 else None

    reply = wait_for(answered)
    assert len(reply.to_wire()) <= 1232
    (record,) = reply.answer[0]
    return [s.decode() for s in record.strings]


@pytest.mark.parametrize(("asked", "says"), EXPLAINED, ids=[e[0] for e in EXPLAINED])
def test_command_http_and_dns_explain_alike(explaining, asked, says):
    text = by_command(explaining, asked)
    assert text == explaining.http(f"/explain?name={asked}")[1]
    lines = by_dns(explaining, asked)
    for part in says:
        assert part in text, text
        assert part in " ".join(lines), lines
    assert set(lines) <= set(text.splitlines()) | {"..."}, "DNS must not say more than the command"


def explained_in_front(tmp_path, stub_domains, name):
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "stubDomains").write_text(stub_domains)
    with start(tmp_path, one_of_everything(), f"--config-dir={tmp_path / 'config'}", "--resolver=127.0.0.1:9") as k:
        k.wait_ready()
        return by_command(k, name)


def test_in_front_a_stub_domain_above_a_zone_gets_the_names_that_kubedns_does_not_have(tmp_path):
    """The explanation said that the stub domain had no effect, although its servers got the query."""
    text = explained_in_front(tmp_path, '{"10.in-addr.arpa": ["192.0.2.1"]}', "9.9.9.10.in-addr.arpa")
    assert "it is in the stub domain 10.in-addr.arpa., so dnsmasq or unbound sends the query to that domain's servers" in text, text
    assert "no effect" not in text and "upstream servers" not in text


def test_a_refused_key_of_stub_domains_is_said(tmp_path):
    """ "My stub domain is ignored": the value has a comma too many, so kubedns and the nanny refuse it."""
    text = explained_in_front(tmp_path, '{"corp.test": ["192.0.2.1"],}', "a.corp.test")
    assert "the query is sent to the upstream servers.\nConfigMap key stubDomains is refused" in text, text


def test_nothing_without_likeness_is_called_nearest(explaining):
    assert "Nearest" not in by_command(explaining, f"zzzzz.default.svc.{Z}")


def test_dns_does_not_name_what_no_ptr_tells(explaining):
    """The operator's command names an ExternalName Service and a namespace with similar names. An explanation over DNS does not."""
    assert "Nearest there: out" in by_command(explaining, f"ouut.default.svc.{Z}")
    assert "Nearest there: default" in by_command(explaining, f"defualt.svc.{Z}")
    assert not [line for line in by_dns(explaining, f"ouut.default.svc.{Z}") + by_dns(explaining, f"defualt.svc.{Z}") if "Nearest" in line]


def test_the_objects_are_the_operators_alone(explaining):
    assert "from Service default/web" in by_command(explaining, "web.default")
    assert not [line for line in by_dns(explaining, "web.default") if "from " in line]


def test_an_empty_name_is_a_mistake_and_starts_no_server():
    for args in (["--explain="], ["--explain", ""]):
        done = subprocess.run([PROGRAM, *args], capture_output=True, text=True, timeout=10, check=False)
        assert done.returncode == 2 and '--explain: "": a name is missing' in done.stderr, done.stderr


def test_dig_and_kdig_show_the_explanation_through_dnsmasq_too(kubedns, dnsmasq):
    for program in ("dig", "kdig"):
        if shutil.which(program):
            for port in (kubedns.port, dnsmasq):
                command = [program, "@127.0.0.1", "-p", str(port), "+short", f"web.empty._explain.{Z}", "TXT"]
                out = wait_for(lambda command=command: subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout)
                assert "Service web is in namespace default, not in empty" in out


def test_other_types_at_an_explanation_have_no_data_and_a_small_client_comes_again_by_tcp(explaining):
    reply = ask(explaining, f"web._explain.{Z}", "A")
    assert reply.rcode() == 0 and not reply.answer and reply.authority
    message = query(f"db.default.svc.{Z}._explain.{Z}", "TXT")  # no OPT record: 512 bytes
    reply = wait_for(lambda: (r := udp(explaining, message)).rcode() == 0 and r)
    assert reply.flags & dns.flags.TC and not reply.answer and len(reply.to_wire()) <= 512
    assert any("db-0.db" in line for line in by_dns(explaining, f"db.default.svc.{Z}", tcp=True))


def test_explanations_are_so_many_a_second_and_counted(tmp_path):
    with start(tmp_path, one_of_everything(), "--threads=1") as k:
        k.wait_ready()
        codes = [ask(k, f"web._explain.{Z}", "TXT").rcode() for _ in range(100)]
        assert 2 <= codes.count(0) < 100 and set(codes) == {0, 5}
        assert told("dig", k.port, f"web._explain.{Z}", "TXT") in ([], ["too many explanations at once: try again in a second"])
        assert k.metric("kubedns_explanations_total", result="refused") >= codes.count(5)
        assert k.metric("kubedns_explanations_total", result="made") >= codes.count(0)
        assert ask(k, f"web.default.svc.{Z}").rcode() == 0


def test_off_there_is_no_such_name(tmp_path):
    with start(tmp_path, one_of_everything(), "--explain-by-dns=off") as k:
        k.wait_ready()
        assert ask(k, f"web._explain.{Z}", "TXT").rcode() == 3
