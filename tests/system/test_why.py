"""
Why there is no answer, as people see it: by dig and kdig in any pod, straight and through dnsmasq, while the API server is away; and a
query without an OPT gets nothing more.
"""

import re
import shutil
import subprocess

import dns.flags
import pytest
from api_world import World, name
from dnsnet import query, udp
from kubedns_process import Kubedns
from objects import namespace, service
from waiting import free_port, wait_for
from world import Z, one_of_everything, start

SENTENCES = [
    (f"10-1-1-9.db.default.svc.{Z}", "A", "10-1-1-9 is not ready"),
    (f"web.empty.svc.{Z}", "A", "Service web is in namespace default, not in empty"),
    (f"google.com.default.svc.{Z}", "A", "no Service com: a search-list expansion of google.com"),
    (f"down.default.svc.{Z}", "A", "no endpoint of Service down is ready, of 1"),
    (f"web.defualt.svc.{Z}", "A", "no namespace defualt; Service web is in namespace default"),
    (f"nodeport.default.svc.{Z}", "AAAA", "the name has IPv4 addresses only"),
    (f"pending.default.svc.{Z}", "A", "Service pending has no address yet"),
]


@pytest.fixture(scope="module")
def kubedns(tmp_path_factory):
    with start(tmp_path_factory.mktemp("why"), one_of_everything()) as k:
        k.wait_ready()
        yield k


def told(program, port, asked, type_="A", *options):
    """The extended errors that the program shows."""
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
    """512 bytes, said with an OPT: a name as long as they come, whose sentence would repeat it."""
    label = "a" * 60
    asked = f"{label}.{label}.{label}.default.svc.{Z}"
    message = query(asked, "A")
    message.use_edns(0, payload=512)
    reply = udp(kubedns, message)
    assert len(reply.to_wire()) <= 512
    assert reply.rcode() == 3 and not reply.flags & dns.flags.TC


@pytest.fixture
def dnsmasq(kubedns):
    """The classic topology's dnsmasq in front."""
    port = free_port()
    command = ["dnsmasq", "-k", "-C", "/dev/null", "--pid-file=", "--no-resolv", "--no-hosts", "--bind-interfaces", "--listen-address=127.0.0.1",
               f"--port={port}", f"--server=/{Z}/127.0.0.1#{kubedns.port}", "--no-negcache"]  # fmt: skip
    with subprocess.Popen(command) as process:
        wait_for(lambda: told("dig", port, f"nothing.{Z}") is not None)
        yield port
        process.terminate()


def test_dnsmasq_hands_the_sentence_on_to_a_client_with_an_opt(kubedns, dnsmasq):
    for asked, type_, says in SENTENCES:
        assert told("dig", dnsmasq, asked, type_) == [says]
        assert told("dig", dnsmasq, asked, type_, "+noedns") == []


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
        wait_for(lambda: told("dig", k.port, f"web.default.svc.{Z}") == ["not synced yet: the cluster is being read"])
        assert told("dig", k.port, "www.example.com") == ["no upstream server answered"]


def test_the_same_objects_say_the_same_whatever_came_first(tmp_path):
    """Which of several Services is named does not depend on history."""
    said = set()
    for order in (1, -1):
        items = [service("api", f"10.96.1.{n}", ns=f"ns-{n}") for n in range(1, 4)][::order]
        directory = tmp_path / str(order)
        directory.mkdir()
        with start(directory, [namespace("web"), *items]) as k:
            k.wait_ready()
            said.update(told("dig", k.port, f"api.web.svc.{Z}"))
    assert said == {"Service api is in namespace ns-1 and others, not in web"}
