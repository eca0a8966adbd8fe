"""conf/kubernetes/compare sends the same queries to two servers and explains each difference."""

import contextlib
import os
import pathlib
import stat
import socket
import subprocess
import threading

import dns.message
import dns.rcode
import dns.rdatatype
import dns.reversename
import dns.rrset
import pytest
import yaml

from kubedns_process import Kubedns

ROOT = pathlib.Path(__file__).resolve().parents[3]
COMPARE = ROOT / "conf/kubernetes/compare"


def service(name, ip, ports=(("http", "TCP"),)):
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": "default"},
            "spec": {"clusterIP": ip, "ports": [{"name": n, "port": 80, "protocol": p} for n, p in ports]}}


def endpoints(name, *addresses):
    return {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {"name": f"{name}-1", "namespace": "default", "labels": {"kubernetes.io/service-name": name}}, "addressType": "IPv4",
            "ports": [{"name": "http", "port": 80, "protocol": "TCP"}],
            "endpoints": [{"addresses": [a], "hostname": f"{name}-{i}"} for i, a in enumerate(addresses)]}


BASE = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}, service("web", "10.0.0.1"),
        service("db", "None"), endpoints("db", "10.1.0.1", "10.1.0.2"), service("six", "fd00:10:96::80")]


def kubectl(tmp_path, config="", aliases=()):
    """
    A stand-in for kubectl. It prints what kubectl's templates would print for BASE and for `aliases` (lines "NAME.NAMESPACE TARGET").
    `config` is the stand-in's output for the ConfigMap coredns.
    """
    path = tmp_path / "kubectl"
    (tmp_path / "config").write_text(config)
    (tmp_path / "aliases").write_text("".join(f"{a}\n" for a in aliases))
    path.write_text(f"""#!/bin/sh
case "$*" in
*ExternalName*) cat {tmp_path}/aliases ;;
*"get services"*) printf 'web.default 10.0.0.1 http/TCP\\nsix.default fd00:10:96::80 http/TCP\\ndb.default None http/TCP\\n'; sed 's/ .*/ -/' {tmp_path}/aliases ;;
*"get endpointslices"*) printf 'db-0.db.default\\ndb-1.db.default\\n' ;;
*"get configmap coredns "*) cat {tmp_path}/config ;;
esac
""")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@contextlib.contextmanager
def server(tmp_path, name, objects, *args):
    directory = tmp_path / name
    directory.mkdir()
    (directory / "objects.yaml").write_text(yaml.safe_dump_all(objects))
    k = Kubedns(f"--objects-dir={directory}", "--drain=0s", *args)
    try:
        k.wait_ready()
        yield f"127.0.0.1:{k.port}"
    finally:
        k.stop()


def compare(tmp_path, *args, config="", aliases=(), patient=True):
    """Runs conf/kubernetes/compare. With `patient`, dig uses the normal timeouts: three attempts of 2 s. Otherwise dig makes one attempt of 1 s."""
    env = {**os.environ, "KUBECTL": str(kubectl(tmp_path, config, aliases)), "CLUSTER_DOMAIN": "cluster.local"}
    if not patient:
        hasty = tmp_path / "dig"
        hasty.write_text('#!/bin/sh\nexec dig "$@" +tries=1 +time=1\n')
        hasty.chmod(0o755)
        env["DIG"] = str(hasty)
    p = subprocess.run([COMPARE, *args], env=env, capture_output=True, text=True, timeout=120)
    return p.returncode, p.stdout, p.stderr


@pytest.fixture
def questions(tmp_path):
    path = tmp_path / "questions"
    path.write_text("web.default.svc.cluster.local A\nnew.default.svc.cluster.local A\n-f/etc/passwd A\n")
    return path


@pytest.mark.parametrize("way", [[], ["--tcp"]])
def test_two_servers_of_one_cluster_do_not_differ(tmp_path, way):
    with server(tmp_path, "a", BASE) as a, server(tmp_path, "b", BASE, "--ttl=5") as b:
        code, out, err = compare(tmp_path, *way, a, b)
    assert (code, out) == (0, "compare: 0 differences, 0 without a reason\n"), out
    assert "compare: 33 queries" in err


def test_two_servers_that_do_not_know_the_cluster_are_no_comparison(tmp_path):
    """This happens if a device in the network answers for both servers, or if the domain is not the cluster's domain."""
    hijacker = Answers({("example.com", "A"): ["192.0.2.1"]})
    code, out, err = compare(tmp_path, hijacker.address, hijacker.address)
    assert code == 2 and f"OLD, {hijacker.address}, knows no Service of cluster.local, so nothing was compared" in err and out == "", (out, err)


def test_a_missing_service_another_address_and_a_lost_port_are_unexplained(tmp_path):
    other = [BASE[0], service("web", "10.0.0.9", (("metrics", "TCP"),)), BASE[2], endpoints("db", "10.1.0.1")]
    with server(tmp_path, "a", BASE) as a, server(tmp_path, "b", other) as b:
        code, out, _ = compare(tmp_path, a, b)
    assert code == 1
    found = {block.split("\n")[0]: block for block in out.replace("\n    ", "\t").splitlines()}
    names = {line.split("\t")[0] for line in found}
    assert {"web.default.svc.cluster.local A", "_http._tcp.web.default.svc.cluster.local SRV", "db-1.db.default.svc.cluster.local A",
            "1.0.0.10.in-addr.arpa PTR", f"{dns.reversename.from_address('fd00:10:96::80').to_text(omit_final_dot=True)} PTR"} <= names
    assert "old: web.default.svc.cluster.local. in a 10.0.0.1\t" in next(line for line in found if line.startswith("web.default.svc.cluster.local A"))
    assert "without a reason" in out and " 0 without" not in out


def test_a_server_that_is_not_there(tmp_path, questions):
    with server(tmp_path, "a", BASE) as a:
        for servers, silent in (((a, "127.0.0.1:1"), "NEW, 127.0.0.1:1,"), (("127.0.0.1:1", a), "OLD, 127.0.0.1:1,"),
                                (("127.0.0.1:1", "127.0.0.1:2"), "OLD, 127.0.0.1:1,")):
            code, out, err = compare(tmp_path, "--names", questions, *servers)
            assert code == 2 and f"{silent} answered no query, so nothing was compared" in err and out == "", (out, err)


class Answers(threading.Thread):
    """A server that answers from `records`, {(name, type): [rdata]}. Other names get NXDOMAIN, and names in `silent` get no answer."""

    def __init__(self, records, silent=(), ttl=0):
        super().__init__(daemon=True)
        self.records, self.silent, self.ttl, self.asked = records, silent, ttl, 0
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.socket.getsockname()[1]
        self.start()

    def run(self):
        while True:
            try:
                wire, client = self.socket.recvfrom(4096)
            except OSError:
                return
            query = dns.message.from_wire(wire)
            name, type_ = query.question[0].name, dns.rdatatype.to_text(query.question[0].rdtype)
            self.asked += 1
            key = (name.to_text(omit_final_dot=True).lower(), type_)
            if key[0] in self.silent:
                continue
            reply = dns.message.make_response(query)
            found = self.records.get(key)
            if callable(found):
                found = found(self.asked)
            if found is None and not any(n == key[0] for n, _ in self.records):
                reply.set_rcode(dns.rcode.NXDOMAIN)
            elif isinstance(found, tuple):
                reply.answer.append(dns.rrset.from_text(name, self.ttl, "IN", *found[:1], *found[1]))
            elif found:
                reply.answer.append(dns.rrset.from_text(name, self.ttl, "IN", type_, *found))
            self.socket.sendto(reply.to_wire(), client)


def ask_both(tmp_path, old, new, *names, config=None, **kw):
    old, new = Answers(old, **kw), Answers(new)
    (tmp_path / "q").write_text("".join(f"{n}\n" for n in ("web.default.svc.cluster.local A", *names)))
    args = ["--names", tmp_path / "q"]
    if config is not None:
        (tmp_path / "Corefile").write_text(config)
        args += ["--config", tmp_path / "Corefile"]
    try:
        return compare(tmp_path, *args, old.address, new.address, patient=not old.silent)
    finally:
        for server in (old, new):
            server.socket.close()


WEB = {("web.default.svc.cluster.local", "A"): ["10.0.0.1"]}


def test_a_question_that_neither_answers_is_no_comparison(tmp_path):
    old, new = Answers(WEB, silent=["lost.example"]), Answers(WEB, silent=["lost.example"])
    (tmp_path / "q").write_text("web.default.svc.cluster.local A\nlost.example A\n")
    code, out, _ = compare(tmp_path, "--names", tmp_path / "q", old.address, new.address, patient=False)
    assert code == 1 and "UNEXPLAINED: neither server answers, so nothing was compared" in out, out


def test_compare_fails_if_the_old_server_answers_nothing(tmp_path):
    code, out, _ = ask_both(tmp_path, WEB, {**WEB, ("a.example", "A"): ["192.0.2.1"]}, "a.example A", silent=["a.example"])
    assert code == 1 and "UNEXPLAINED: OLD gives no answer" in out, out


@pytest.mark.parametrize("ttl", [0, 2])
def test_an_external_name_with_other_addresses_is_unexplained(tmp_path, ttl):
    """
    The causes can be a different server for a stub domain, or a missing entry of `hosts` or `rewrites`. If the name also exists in the
    Internet, only the address is different.
    """
    name = ("git.corp.example", "A")
    code, out, err = ask_both(tmp_path, {**WEB, name: ["10.0.0.5"]}, {**WEB, name: ["203.0.113.5"]}, "git.corp.example A", ttl=ttl)
    assert code == 1 and "UNEXPLAINED: an external name with different records" in out, out
    assert ("waiting 2 s until neither server has them in its cache" in err) == (ttl == 2), err


def test_an_external_name_whose_addresses_change_is_explained(tmp_path):
    name = ("cdn.example", "A")
    code, out, _ = ask_both(tmp_path, {**WEB, name: lambda n: [f"192.0.2.{n}"]}, {**WEB, name: ["192.0.2.200"]}, "cdn.example A")
    assert code == 0 and "whose addresses change all the time" in out, out


SRV = ("_http._tcp.db.default.svc.cluster.local", "SRV")


@pytest.mark.parametrize("old, new, why", [
    (["0 50 80 a.db.default.svc.cluster.local.", "0 50 80 b.db.default.svc.cluster.local."],
     ["0 100 80 a.db.default.svc.cluster.local.", "0 100 80 b.db.default.svc.cluster.local."], "SRV priority or weight"),
    (["0 50 80 a.db.default.svc.cluster.local.", "0 50 80 b.db.default.svc.cluster.local."],
     ["0 50 80 10-0-0-1.db.default.svc.cluster.local.", "0 50 80 10-0-0-2.db.default.svc.cluster.local."], "--endpoint-pod-names"),
    (["0 50 80 a.db.default.svc.cluster.local."], ["0 50 8080 a.db.default.svc.cluster.local."], "UNEXPLAINED"),
    (["0 50 80 a.db.default.svc.cluster.local.", "0 50 80 b.db.default.svc.cluster.local."], ["0 50 80 a.db.default.svc.cluster.local."], "UNEXPLAINED"),
    (["0 50 80 a.db.default.svc.cluster.local."], ["0 50 80 a.web.default.svc.cluster.local."], "UNEXPLAINED"),
])
def test_srv_records_differ_in_weight_and_names_alone(tmp_path, old, new, why):
    code, out, _ = ask_both(tmp_path, {**WEB, SRV: old}, {**WEB, SRV: new}, " ".join(SRV))
    assert why in out and code == ("UNEXPLAINED" in why), out


COREFILE = """.:53 {
    hosts {
        10.0.0.5 git.office.example # the old one
        fallthrough
    }
    rewrite name exact alias.office.example web.default.svc.cluster.local
    rewrite name suffix .old.example .new.example
    kubernetes cluster.local in-addr.arpa ip6.arpa
    forward . /etc/resolv.conf
}
corp.example:53 {
    forward . 10.9.9.9
}
"""


def test_names_of_the_old_configuration_are_asked_and_must_be_equal(tmp_path):
    """By default the script reads these names from the ConfigMap: names of stub domains, hosts and rewrites."""
    records = {**WEB, ("git.office.example", "A"): ["10.0.0.5"], ("alias.office.example", "A"): ["10.0.0.1"], ("corp.example", "SOA"): [
        "ns.corp.example. a.corp.example. 1 2 3 4 5"], ("5.0.0.10.in-addr.arpa", "PTR"): ["git.office.example."]}
    old, same, world = Answers(records), Answers(records), Answers({**WEB, ("git.office.example", "A"): ["203.0.113.1"]})
    code, out, err = compare(tmp_path, old.address, same.address, "a.example", config=COREFILE)
    assert code == 0 and "compare: 0 differences" in out, out
    code, out, _ = compare(tmp_path, old.address, world.address, "a.example", config=COREFILE)
    lost = {line for line in out.splitlines() if not line.startswith(" ") and not line.startswith("compare")}
    assert lost == {"git.office.example A", "alias.office.example A", "alias.office.example AAAA", "corp.example SOA", "corp.example NS",
                    "corp.example A", "5.0.0.10.in-addr.arpa PTR"}, out
    assert code == 1 and out.count("UNEXPLAINED: the old configuration has this name") == len(lost), out


REPORT = """# From Corefile: 1 line has no equivalent, 2 change, 1 is carried over.
#
# Corefile:4, 9: rewrite name substring a.old.example b; rewrite name regex (.*)\\.lab\\.example {1}.b
#     NO EQUIVALENT: no rewrites of this kind
#
# Corefile:2: kubernetes cluster.local
#     changes: kubedns also answers the cluster's reverse names
#
# carried over, Corefile: 1 .
"""


def test_the_names_of_a_report_are_asked_and_differences_announced(tmp_path):
    (tmp_path / "report").write_text(REPORT)
    old, new = ({**WEB, ("a.old.example", "A"): [a], ("compare.lab.example", "A"): [a], ("same.example", "A"): ["10.0.0.1"]} for a in ("10.0.0.5", "10.0.0.6"))
    new["compare.b.example", "A"] = ["10.0.0.9"]
    (tmp_path / "q").write_text("web.default.svc.cluster.local A\ncompare.b.example A\n")
    a, b = Answers(old), Answers({**new, ("9.0.0.10.in-addr.arpa", "PTR"): ["x.example."]})
    with (tmp_path / "q").open("a") as f:
        f.write("9.0.0.10.in-addr.arpa PTR\n")
    code, out, _ = compare(tmp_path, "--names", tmp_path / "q", "--report", tmp_path / "report", a.address, b.address)
    assert code == 1 and "4 differences, 1 without a reason" in out, out
    assert out.count("announced: Corefile:4, 9: NO EQUIVALENT: no rewrites of this kind") == 2 and "announced: Corefile:2: changes: kubedns also answers" in out


@pytest.mark.parametrize("config, asked", [
    (COREFILE, {"git.office.example A", "git.office.example AAAA", "5.0.0.10.in-addr.arpa PTR", "alias.office.example A", "alias.office.example AAAA",
                "compare.old.example A", "corp.example SOA", "corp.example NS", "corp.example A"}),
    ('{"corp.example": ["10.0.0.53"],\n "b.example": ["10.0.0.54"]}', {f"{n}.example {t}" for n in ("corp", "b") for t in ("SOA", "NS", "A")}),
    ("2001:DB8::1:0:a six.example\n1:2:3:4:5:6:7:8 full.example\n::1 localhost\n", {"six.example A", "six.example AAAA", "full.example A", "full.example AAAA",
     "localhost A", "localhost AAAA", *(f"{dns.reversename.from_address(a).to_text(omit_final_dot=True)} PTR" for a in ("2001:db8::1:0:a", "1:2:3:4:5:6:7:8", "::1"))}),
    ("10.42.0.1 node-a node-b.example\n", {"node-a A", "node-a AAAA", "node-b.example A", "node-b.example AAAA", "1.0.42.10.in-addr.arpa PTR"}),
    (".:53 {\n forward . 10.0.0.1 2001:db8::1\n}\n", set()),
    ("dns://b.example:5353 {\n}\n", {"b.example SOA", "b.example NS", "b.example A"}),
])
def test_what_is_asked_of_a_configuration(tmp_path, config, asked):
    everything = Answers({**WEB})
    (tmp_path / "Corefile").write_text(config)
    (tmp_path / "q").write_text("web.default.svc.cluster.local A\n")
    names = set()
    answer = everything.records.get

    class Noted(dict):
        def get(self, key, default=None):
            names.add(" ".join(key))
            return answer(key, default)
    everything.records = Noted(WEB)
    compare(tmp_path, "--names", tmp_path / "q", "--config", tmp_path / "Corefile", everything.address, everything.address)
    assert names - {"web.default.svc.cluster.local A"} == asked


def test_weights_and_names_of_endpoints_have_a_reason(tmp_path):
    questions = tmp_path / "q"
    questions.write_text("_http._tcp.db.default.svc.cluster.local SRV\n")
    unnamed = endpoints("db", "10.1.0.1", "10.1.0.2")
    for i, e in enumerate(unnamed["endpoints"]):
        del e["hostname"]
        e["targetRef"] = {"kind": "Pod", "name": f"pod-{i}"}
    with server(tmp_path, "a", [*BASE[:3], unnamed]) as a, server(tmp_path, "b", [*BASE[:3], unnamed], "--endpoint-pod-names") as b:
        code, out, _ = compare(tmp_path, "--names", questions, a, b)
    assert code == 0 and "the same endpoints and ports under other names: --endpoint-pod-names" in out, out


def test_help_says_what_is_asked_and_what_the_exit_status_means(tmp_path):
    code, out, err = compare(tmp_path, "--help")
    assert code == 0 and err == "" and out.startswith("compare [--tcp]") and "stub domains, hosts, rewrites" in out and "2: it could not compare" in out


@pytest.mark.parametrize("args", [[], ["127.0.0.1"], ["--wrong", "a", "b"], ["--names"]])
def test_usage(tmp_path, args):
    code, _, err = compare(tmp_path, *args)
    assert code == 2 and "usage: compare" in err


ALIAS = "alias.default.svc.cluster.local"


@pytest.mark.parametrize("target, old, new, reason", [
    ("203.0.113.9", {}, {(ALIAS, "A"): ["203.0.113.9"], (ALIAS, "AAAA"): []}, "the externalName of the Service is an address"),
    ("2001:db8::9", {}, {(ALIAS, "AAAA"): ["2001:db8::9"], (ALIAS, "A"): []}, "the externalName of the Service is an address"),
    ("203.0.113.9", {}, {(ALIAS, "A"): ["203.0.113.66"], (ALIAS, "AAAA"): []}, None),
    ("web.default.svc.cluster.local", {(ALIAS, "A"): [], (ALIAS, "AAAA"): []},
     {(ALIAS, "A"): [], (ALIAS, "AAAA"): ("CNAME", ["web.default.svc.cluster.local."])}, "has no record of this type: NEW returns the CNAME"),
    ("web.default.svc.cluster.local", {(ALIAS, "A"): [], (ALIAS, "AAAA"): []},
     {(ALIAS, "A"): [], (ALIAS, "AAAA"): ("CNAME", ["other.default.svc.cluster.local."])}, None),
    ("web.default.svc.cluster.local", {(ALIAS, "A"): ["10.0.0.1"], (ALIAS, "AAAA"): []},
     {(ALIAS, "A"): ("CNAME", ["web.default.svc.cluster.local."]), (ALIAS, "AAAA"): []}, None),
])
def test_external_names_that_coredns_answers_otherwise(tmp_path, target, old, new, reason):
    """The answers are copies of real answers of CoreDNS 1.14.7 and kubedns to the same queries."""
    web = {("web.default.svc.cluster.local", "A"): ["10.0.0.1"]}
    old, new = Answers({**web, **old}), Answers({**web, **new})
    code, out, _ = compare(tmp_path, old.address, new.address, aliases=[f"alias.default {target}"])
    assert ALIAS in out
    if reason:
        assert code == 0 and reason in out, out
    else:
        assert code == 1 and "UNEXPLAINED" in out, out
