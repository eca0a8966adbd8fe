"""
--namespaces with a name that does not exist: kubedns reports it at once and suggests the probable name. --namespace-labels: names appear
and disappear with the labels.
"""

import subprocess

import dns.rdatatype
import dns.rrset
import pytest
from dnsnet import Upstream, answered
from kubedns_process import PROGRAM
from objects import namespace, service
from world import Z, start, write

WORLD = [namespace("default"), namespace("shop"), service("web", "10.96.0.10"), service("cart", "10.96.0.11", ns="shop")]


@pytest.mark.parametrize("name", ["Default", "kube_system", "a.b"])
def test_what_cannot_be_a_namespace_is_refused(tmp_path, name):
    done = subprocess.run([PROGRAM, f"--namespaces={name}", f"--objects-dir={tmp_path}"], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 2 and f'--namespaces: "{name}": not the name of a namespace' in done.stderr, done.stderr


def test_a_misspelt_namespace_is_said_with_the_one_that_was_meant(tmp_path):
    """A bug: kubedns had 0 Services, answered NXDOMAIN for every name, was ready, and reported nothing."""
    with start(tmp_path, WORLD, "--namespaces=defualt,shop") as k:
        k.wait_ready()
        told = '"defualt": neither the Namespace nor a Service in it exists, so all its names get NXDOMAIN; did you mean "default"?'
        assert k.log().count(told) == 1, k.log()
        assert told in k.http("/readiness")[1]
        assert k.metric("kubedns_namespaces_missing") == 1
        assert k.ask(f"web.default.svc.{Z}") == "NXDOMAIN" and k.ask(f"cart.shop.svc.{Z}") == {"10.96.0.11"}
        write(k.objects, [*WORLD, namespace("defualt")])  # now a namespace with the unusual name exists
        k.wait(lambda: k.metric("kubedns_namespaces_missing") == 0)
        assert '"defualt": exists now' in k.log() and k.http("/readiness")[1] == "ok\n"
        write(k.objects, WORLD)
        k.wait(lambda: k.metric("kubedns_namespaces_missing") == 1)
        assert k.log().count(told) == 2


def test_namespaces_that_exist_say_nothing(tmp_path):
    with start(tmp_path, WORLD, "--namespaces=default,shop") as k:
        k.wait_ready()
        assert "--namespaces" not in k.log() and k.http("/readiness")[1] == "ok\n"
        assert k.metric("kubedns_namespaces_missing") == 0


@pytest.mark.parametrize("selector, why", [("team in a", "in parentheses"), ("=a", "key is missing"), ("a=b,", "key is missing at the end")])
def test_what_is_no_selector_is_refused(tmp_path, selector, why):
    done = subprocess.run([PROGRAM, f"--namespace-labels={selector}", f"--objects-dir={tmp_path}"], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 2 and f'--namespace-labels: "{selector}"' in done.stderr and why in done.stderr, done.stderr


def test_names_come_and_go_with_the_labels_of_their_namespace(tmp_path):
    """The namespace's labels decide whether a Service's address, its PTR and the names of pods exist. --explain says why an answer is missing."""
    cart, ptr, pod = f"cart.shop.svc.{Z}", "11.0.96.10.in-addr.arpa", f"10-1-2-3.shop.pod.{Z}"

    def world(**labels):
        return [namespace("default", dns="yes"), namespace("shop", **labels), service("web", "10.96.0.10"), service("cart", "10.96.0.11", ns="shop")]

    with start(tmp_path, world(), "--namespace-labels=dns in (yes,public),!hidden", "--reverse-cidrs=10.0.0.0/8") as k:
        k.wait_ready()
        gone = "NXDOMAIN"
        assert k.ask(f"web.default.svc.{Z}") == {"10.96.0.10"}
        assert [k.ask(cart), k.ask(ptr, "PTR"), k.ask(pod), k.ask(f"shop.svc.{Z}")] == [gone] * 4
        why = k.http(f"/explain?name={cart}")[1]
        assert "The namespace shop is in the cluster, but its labels are not those of --namespace-labels." in why, why
        for labels, there in [({"dns": "public"}, True), ({"dns": "public", "hidden": ""}, False), ({"dns": "yes"}, True), ({"dns": "no"}, False)]:
            write(k.objects, world(**labels))
            k.wait(lambda there=there: k.ask(cart) == ({"10.96.0.11"} if there else gone))
            assert k.ask(ptr, "PTR") == ({cart + "."} if there else gone)
            assert k.ask(pod) == ({"10.1.2.3"} if there else gone)
        assert k.ask(f"web.default.svc.{Z}") == {"10.96.0.10"}


def test_a_fallthrough_zone_that_is_not_ours_is_refused(tmp_path):
    done = subprocess.run([PROGRAM, "--fallthrough=cluster.locl", f"--objects-dir={tmp_path}"], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 2 and '--fallthrough: "cluster.locl": not in --domain, --clusterset-domain or a reverse zone' in done.stderr, done.stderr


@pytest.mark.parametrize("flag, zone, reverse", [("--fallthrough", True, True), (f"--fallthrough=old.{Z}", False, False), ("--fallthrough=in-addr.arpa", False, True)])
def test_what_is_not_in_our_zones_is_asked_upstream(tmp_path, flag, zone, reverse):
    """The zone is shared with another server. kubedns answers queries for its own names and forwards queries for all other names."""
    def behave(request, _tcp):
        if str(request.question[0].name).startswith("stolen"):
            reply = answered(request)
            reply.answer.append(dns.rrset.from_text(f"web.default.svc.{Z}.", 60, "IN", "A", "192.0.2.66"))
            return reply
        pointer = request.question[0].rdtype == dns.rdatatype.PTR
        return answered(request, "printer.example.com." if pointer else "192.0.2.1")

    with Upstream(behave) as up, start(tmp_path, WORLD, flag, f"--nameservers={up.address}", "--reverse-cidrs=10.0.0.0/8") as k:
        k.wait_ready()
        there = {"192.0.2.1"}
        assert k.ask(f"web.default.svc.{Z}") == {"10.96.0.10"} and k.ask(f"web.default.svc.{Z}", "AAAA") == frozenset()
        assert k.ask(f"nothing.default.svc.{Z}") == (there if zone else "NXDOMAIN")
        asked = len(up.asked)
        assert k.ask(f"printer.old.{Z}") == ("NXDOMAIN" if "arpa" in flag else there)
        assert k.ask("9.9.9.10.in-addr.arpa", "PTR") == ({"printer.example.com."} if reverse else "NXDOMAIN")
        assert len(up.asked) == asked + ("arpa" not in flag) + reverse
        assert k.metric("kubedns_fallthrough_total") == len(up.asked)
        if zone:  # the other server cannot override names that kubedns has
            assert k.ask(f"stolen.default.svc.{Z}") == frozenset()
        why = k.http(f"/explain?name=nothing.default.svc.{Z}")[1]
        assert ("Because of --fallthrough, the query is sent to the upstream servers." in why) == zone, why


def test_fallthrough_without_a_value_spares_other_zones_of_ours(tmp_path):
    """An external zone, a cluster set and a zone of records give their own negative answers. So no upstream server can add names to these private zones."""
    conf = tmp_path / "conf"
    conf.mkdir()
    (conf / "records").write_text("lab.test. SOA ns hostmaster 1 3600 600 86400 60\n")
    with Upstream(lambda request, _tcp: answered(request, "192.0.2.1")) as up, start(
            tmp_path, WORLD, "--fallthrough", f"--nameservers={up.address}", "--external-zones=ex.test",
            "--clusterset-domain=clusterset.local", f"--config-dir={conf}") as k:  # fmt: skip
        k.wait_ready()
        for name in ("gone.ex.test", "gone.lab.test", "gone.default.svc.clusterset.local"):
            assert k.ask(name) == "NXDOMAIN", name
        assert k.metric("kubedns_fallthrough_total") == 0
        assert k.ask(f"gone.default.svc.{Z}") == {"192.0.2.1"}
        assert k.metric("kubedns_fallthrough_total") == 1
