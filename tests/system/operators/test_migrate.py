"""
kubedns-migrate reads Corefiles of real clusters, and kubectl's output.

tests/migrate/NAME.corefile is a case. A mark after each line gives the expected verdict: #= carried over, #~ changes, #! no equivalent. A
line with several verdicts has several marks. Lines that begin with #: give text that the output must contain.
"""

import functools
import json
import os
import pathlib
import re
import resource
import shlex
import subprocess
import sys

import pytest
import yaml

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "migrate"))
from announcements import Difference, World
from test_chart import SETTINGS, objects
from test_chart import pytestmark as needs_helm
from overlays import copy, kustomize, needs_kubectl

ROOT = pathlib.Path(__file__).resolve().parents[3]
KUBEDNS = pathlib.Path(os.environ.get("BUILD", ROOT / "build")) / "bin/kubedns"
MIGRATE = KUBEDNS.with_name("kubedns-migrate")
CASES = ROOT / "tests/migrate"
NAMES = sorted(p.stem for p in CASES.glob("*.corefile"))
MARKS = {"carried over": "=", "changes": "~", "NO EQUIVALENT": "!"}
TEXT_KEYS = ("federations", "hosts", "records", "rewrites")
ENVIRONMENT = {**os.environ, "DNS_ZONE": ".", "DNS_UPSTREAM": "192.0.2.53"}

read, read_all = (functools.partial(load, Loader=yaml.CSafeLoader) for load in (yaml.load, yaml.load_all))  # half of the CPU time of the tests


def migrate(path, text=None, *flags):
    p = subprocess.run([MIGRATE, *flags, path], input=text, capture_output=True, text=True, env=ENVIRONMENT, timeout=30)
    return p.returncode, p.stdout, p.stderr


def verdicts(out):
    """Returns {(file, line): marks} from a report."""
    found = {}
    for file, lines, verdict in re.findall(r"^# (\S+):([0-9, ]+): .*\n#     (changes|NO EQUIVALENT): ", out, re.M):
        for line in lines.split(", "):
            found.setdefault((file, int(line)), set()).add(MARKS[verdict])
    for file, items in re.findall(r"^# carried over, (\S+): (.*(?:\n#     .*)*)", out, re.M):
        for line in re.findall(r"(?:^|, |\n#     )(\d+) ", items):
            found.setdefault((file, int(line)), set()).add(MARKS["carried over"])
    return {place: "".join(sorted(marks)) for place, marks in found.items()}


def value_of(key, value):
    """The parsed value of a ConfigMap key: JSON or a list of lines."""
    return value.splitlines() if key in TEXT_KEYS else json.loads(value)


def printed(out):
    """The parts of the output that an operator applies: the ConfigMap's keys, and the flags of each container in the kustomization."""
    documents = [d for d in read_all(out) if d]
    data = next((d["data"] for d in documents if d.get("kind") == "ConfigMap"), {})
    overlay = next(d for d in documents if d.get("kind") == "Kustomization")
    patches = {p["target"]["kind"]: read(p["patch"]) for p in overlay.get("patches", [])}
    flags = {"kubedns": [], "dnsmasq": [], "nanny": []}
    for p in patches.get("Deployment", []):
        if p["op"] != "test":
            number, _, place = p["path"].split("/")[5:]
            flags["kubedns" if number == "0" else "nanny" if place == "0" else "dnsmasq"].append(p["value"])
    return {key: value_of(key, value) for key, value in data.items()}, flags, overlay


def wanted(path):
    marks, said = {}, {}
    for n, line in enumerate(path.read_text().splitlines(), 1):
        if m := re.search(r"#([=~!]+)$", line):
            marks[str(path), n] = "".join(sorted(m[1]))
        if m := re.match(r"#: (\S+) ?(.*)", line):
            said[m[1]] = m[2]
    return marks, said


@pytest.mark.parametrize("name", NAMES)
def test_each_line_has_its_verdict(name):
    path = CASES / f"{name}.corefile"
    code, out, err = migrate(path)
    assert code == 0, err
    marks, said = wanted(path)
    found = {place: m for place, m in verdicts(out).items() if "/custom/" not in place[0]}
    assert found == marks
    data, flags, overlay = printed(out)
    assert data == {k: said[k].split("; ") if k in TEXT_KEYS else json.loads(said[k])
                    for k in ("stubDomains", "upstreamNameservers", *TEXT_KEYS) if k in said}  # fmt: skip
    for program in flags:
        assert sorted(flags[program]) == sorted(shlex.split(said.get(program, ""))), program
    assert overlay.get("components", []) == [f"../components/{c}" for c in said.get("components", "").split()]
    assert ("engine: unbound" in out.splitlines()) == ("components" in said)  # the chart's value
    if "domain" in said:
        assert f"clusterDomain: {said['domain']}," in out


def test_a_case_for_every_plugin_of_the_default_build():
    """The plugin names in plugin.cfg of CoreDNS 1.15.0."""
    plugins = """root metadata geoip cancel proxyproto quic grpc_server https https3 timeouts multisocket reload nsid bufsize bind debug trace
        ready health pprof shed prometheus errors log dnstap local dns64 any chaos loadbalance tsig rewrite autopath acl cache header dnssec
        tls minimal template transfer hosts route53 azure clouddns k8s_external kubernetes file auto secondary etcd loop forward grpc
        erratic whoami on sign view nomad siit dynupdate""".split()
    text = "".join(f"{p}\n" for p in plugins)
    code, out, _ = migrate("-", ". {\n" + text + "}\n")
    assert code == 0 and "not a plugin of CoreDNS's default build" not in out
    assert len(verdicts(out.replace("(standard input)", "stdin"))) == len(plugins) + 1
    used = {line.split()[0] for p in CASES.glob("*.corefile") for line in p.read_text().splitlines() if line.split()}
    assert not set(plugins) - used


SECRETS = [
    # plugins of the default build, whose options are known
    "tsig {\n secret axfr.example. HIDDEN\n}", "tsig {\n secret axfr.example. HIDDEN HIDDEN\n}", "tsig {\n Secret axfr.example. HIDDEN\n}",
    "tsig secret axfr.example. HIDDEN", "azure {\n secret HIDDEN\n}", "route53 {\n aws_access_key HIDDEN HIDDEN\n}",
    "etcd {\n credentials reader HIDDEN\n}", "forward . https://me:HIDDEN@dns.example",
    # other plugins, whose options are unknown
    "netbox {\n token HIDDEN\n}", 'redisc {\n password "HIDDEN more"\n}', "azuredns {\n client_secret HIDDEN\n}", "x {\n api_token HIDDEN\n}",
    "x {\n apikey HIDDEN\n}", "x {\n access_token HIDDEN\n}", "x {\n passwd HIDDEN\n}", "x token=HIDDEN", "x {\n dsn HIDDEN\n}",
    'pdsql postgres "host=db dbname=x password=HIDDEN"', 'mysql {\n dsn "user:HIDDEN@tcp(db)/x"\n}', "redis redis://:HIDDEN@host",
    "x {\n password {$HIDING}\n}",
]


@pytest.mark.parametrize("text", SECRETS)
def test_no_secret_is_printed(text):
    p = subprocess.run([MIGRATE, "-"], input=f". {{\n{text}\n}}\n", capture_output=True, text=True, timeout=30, env={**ENVIRONMENT, "HIDING": "HIDDEN"})
    assert p.returncode == 0 and "HIDDEN" not in p.stdout + p.stderr
    plugin = text.split()[0]
    assert re.search(rf"^# \(standard input\):2: {plugin}", p.stdout, re.M)


def test_a_line_with_a_secret_keeps_what_is_public():
    _, out, _ = migrate("-", ". {\n tsig {\n  secret axfr.example. HIDDEN\n  secret\n }\n}\n")
    assert re.search(r"3, 4: secret axfr.example. \(not printed\); secret\n#     changes: a line NAME ALGORITHM SECRET in the file of --transfer-key", out)


def test_no_secret_of_a_deployment_is_printed():
    deployment = {"kind": "Deployment", "metadata": {"name": "kube-dns"}, "spec": {"template": {"spec": {"containers": [
        {"name": "kubedns", "image": "k", "args": ["--token=HIDDEN", "--ttl=7"]}, {"name": "other", "image": "o", "args": ["--password=HIDDEN"]}]}}}}
    code, out, err = migrate("-", yaml.safe_dump(deployment))
    assert code == 0 and "HIDDEN" not in out + err
    assert printed(out)[1]["kubedns"] == ["--ttl=7"] and re.search(r"--token= \(not printed\)\n#     NO EQUIVALENT", out)


TOPOLOGIES = pytest.mark.parametrize("topology", ["classic", "front"])


@needs_kubectl
@TOPOLOGIES
@pytest.mark.parametrize("name", NAMES)
def test_what_is_printed_can_be_applied(tmp_path, name, topology):
    """The kustomization renders, each program accepts its flags, and kubedns and nanny accept the ConfigMap."""
    data, flags, overlay = printed(migrate(CASES / f"{name}.corefile", None, f"--topology={topology}")[1])
    made = copy(tmp_path)
    (made / "mine").mkdir()
    (made / "mine/kustomization.yaml").write_text(yaml.safe_dump(overlay))
    (tmp_path / "config").mkdir()
    for key, value in data.items():
        (tmp_path / "config" / key).write_text("\n".join(value) if key in TEXT_KEYS else json.dumps(value))
    (tmp_path / "objects").mkdir()
    (tmp_path / "objects/namespaces.yaml").write_text(yaml.safe_dump_all(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": n}} for n in ("default", "prod", "staging")))
    rendered = render_overlay(made)
    args = {c["name"]: c["args"] for c in rendered["spec"]["template"]["spec"]["containers"]}
    for program in flags:
        assert set(flags[program]) <= set(args["dnsmasq" if program == "nanny" else program])
    assert ("--port=10153" in args["dnsmasq"]) == (topology == "front")
    dnsmasq = [a.replace("$(CLUSTER_DOMAIN)", "cluster.local") for a in args["dnsmasq"][args["dnsmasq"].index("--") + 1:]]
    dnsmasq = [a for a in dnsmasq if a != "-k"]
    p = subprocess.run(["/usr/sbin/dnsmasq", "--test", "-C", "/dev/null", *dnsmasq], capture_output=True, text=True, timeout=30)
    assert p.returncode == 0, p.stderr
    resolvers = [a for a in args["kubedns"] if a.startswith(("--resolver=", "--search-resolver=", "--dns-port="))]  # without one, kubedns refuses tls:// servers
    p = subprocess.run([KUBEDNS, f"--objects-dir={tmp_path}/objects", f"--config-dir={tmp_path}/config", "--check", *resolvers, *flags["kubedns"]], capture_output=True, text=True, timeout=30)
    assert p.returncode == 0 and "0 mistakes" in p.stderr, p.stderr
    (tmp_path / "run").mkdir()
    resolv = tmp_path / "resolv.conf"  # the machine's own resolv.conf may name the address at which dnsmasq would listen
    resolv.write_text("nameserver 192.0.2.53\n")
    # The machine's unbound may be too old. Without unbound, the nanny refuses tls:// servers and --dns64, and nothing else.
    unbound = "--engine=unbound" in args["dnsmasq"]
    p = subprocess.run([KUBEDNS.with_name("nanny"), "--check", f"-configDir={tmp_path}/config", f"-runDir={tmp_path}/run", f"-resolvConf={resolv}", *flags["nanny"]], capture_output=True, text=True, timeout=30)
    if unbound:
        errors = [line for line in p.stderr.splitlines() if " error: " in line]
        assert errors and all("dnsmasq cannot encrypt queries" in line or "only --engine=unbound makes AAAA records" in line for line in errors), p.stderr
        return
    assert p.returncode == 0 and "keeping previous" not in p.stderr, p.stderr


def render_overlay(made):
    return next(o for o in read_all(kustomize(made, made / "mine")) if o and o["kind"] == "Deployment")


@needs_kubectl
@TOPOLOGIES
def test_a_flag_of_the_manifest_is_replaced(tmp_path, topology):
    _, _, overlay = printed(migrate(CASES / "policy.corefile", None, f"--topology={topology}")[1])
    made = copy(tmp_path)
    (made / "mine").mkdir()
    (made / "mine/kustomization.yaml").write_text(yaml.safe_dump(overlay))
    args = {c["name"]: c["args"] for c in render_overlay(made)["spec"]["template"]["spec"]["containers"]}["dnsmasq"]
    assert "--dns-forward-max=9000" in args and "--dns-forward-max=6000" not in args


@needs_helm
@TOPOLOGIES
@pytest.mark.parametrize("name", NAMES)
def test_the_chart_makes_the_same_of_the_printed_values(tmp_path, name, topology):
    out = migrate(CASES / f"{name}.corefile", None, f"--topology={topology}")[1]
    data, flags, overlay = printed(out)
    values = list(read_all(out))[-1]
    (tmp_path / "values.yaml").write_text(yaml.safe_dump(values))
    made = objects("-f", tmp_path / "values.yaml", *SETTINGS)
    (tmp_path / "k").mkdir()
    copied = copy(tmp_path / "k", clusterDomain=values["clusterDomain"])
    (copied / "mine").mkdir()
    (copied / "mine/kustomization.yaml").write_text(yaml.safe_dump(overlay))
    pods = [d["spec"]["template"]["spec"]["containers"] for d in (made["Deployment", "kube-dns"], render_overlay(copied))]
    theirs, ours = ({c["name"]: (sorted(c["args"]), c["env"]) for c in containers} for containers in pods)
    assert ours == theirs
    config = made.get(("ConfigMap", "kube-dns"), {"data": {}})["data"]
    assert {k: value_of(k, v) for k, v in config.items()} == data


COREDNS = {"apiVersion": "v1", "kind": "List", "items": [
    {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "coredns"}, "data": {
        "Corefile": ".:53 {\n  kubernetes corp.local {\n    ttl 30\n  }\n  forward . 192.0.2.1\n  import custom/*.override\n}\nimport custom/*.server\n"}},
    {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "coredns-custom"}, "data": {
        "log.override": "log\n", "x.server": "x.example {\n  forward . 10.0.0.1\n}\n", "notes": "}"}},
    {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "coredns"}, "spec": {"replicas": 2, "template": {"spec": {
        "tolerations": [{"key": "CriticalAddonsOnly"}, {"key": "node-role.kubernetes.io/control-plane"}],
        "containers": [{"name": "coredns", "image": "registry.example/coredns:v1", "args": ["-conf", "/etc/coredns/Corefile"]},
                       {"name": "proxy", "image": "registry.example/proxy:v1"}]}}}},
    {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "kube-dns"}, "spec": {"clusterIP": "10.96.0.10"}}]}


@pytest.mark.parametrize("dump", [yaml.safe_dump, json.dumps])
def test_objects_as_kubectl_prints_them(dump):
    code, out, err = migrate("-", dump(COREDNS))
    assert code == 0, err
    data, flags, overlay = printed(out)
    assert data == {"upstreamNameservers": ["192.0.2.1"], "stubDomains": {"x.example": ["10.0.0.1"]}}
    assert flags == {"kubedns": ["--pods=disabled", "--log-queries"], "dnsmasq": [], "nanny": []}
    assert overlay["resources"] == ["../front"]
    assert "clusterDomain: corp.local, clusterIP: 10.96.0.10," in out
    found = verdicts(out)
    assert found["Corefile", 2] == "~" and found["log.override", 1] == "~" and found["x.server", 2] == "="
    assert re.search(r"container proxy: .*\n#     NO EQUIVALENT: not a container of the DNS", out)
    assert re.search(r"tolerations\n#     changes: .*components/control-plane", out)


def without_corefile(**volume):
    spec = {"containers": [{"name": "coredns", "image": "registry.example/coredns:v1"}], "volumes": [
        {"name": "more", "configMap": {"name": "more", "optional": True}}, {"name": "config-volume", "configMap": volume}]}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "dns-server"}, "spec": {"replicas": 3, "template": {"spec": spec}}}


def test_migrate_reports_a_coredns_deployment_without_its_corefile():
    """kubeadm's ConfigMap has no label, so a list by label contains only the Deployment."""
    code, out, err = migrate("-", yaml.safe_dump(without_corefile(name="cluster-dns")))
    assert code == 2 and out == ""
    assert "Corefile is missing" in err and "get configmap/cluster-dns ..." in err


def test_the_steps_name_coredns_s_deployment_and_its_replicas():
    corefile = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cluster-dns"}, "data": {"Corefile": ".:53 {\n errors\n}\n"}}
    code, out, err = migrate("-", yaml.safe_dump_all([without_corefile(name="cluster-dns"), corefile]))
    assert code == 0, err
    assert "scale deployment/kube-dns --replicas=3\n" in out and "scale deployment/dns-server --replicas=0\n" in out and "scale deployment/dns-server --replicas=3\n" in out


def test_kube_dns_as_kubectl_prints_it():
    deployment = {"kind": "Deployment", "metadata": {"name": "kube-dns"}, "spec": {"replicas": 3, "template": {"spec": {"containers": [
        {"name": "kubedns", "image": "k", "args": ["--domain=Corp.Local.", "--dns-port=10053", "--federations=f=f.example", "--v=2"]},
        {"name": "dnsmasq", "image": "d", "args": ["-v=2", "--", "-k", "--cache-size=5000", "--no-negcache", "--log-facility=-",
                                                   "--server=/corp.local/127.0.0.1#10053", "--server=/a.example/10.0.0.1"]},
        {"name": "sidecar", "image": "s", "args": ["--v=2"]}]}}}}
    config = {"kind": "ConfigMap", "metadata": {"name": "kube-dns"},
              "data": {"stubDomains": '{"corp.example": ["10.0.0.53"]}', "upstreamNameservers": "8.8.8.8"}}
    code, out, err = migrate("-", yaml.safe_dump_all([{"apiVersion": "apps/v1", **deployment}, {"apiVersion": "v1", **config}]))
    assert code == 0, err
    data, flags, overlay = printed(out)
    assert data == {"stubDomains": {"corp.example": ["10.0.0.53"]}}
    assert flags == {"kubedns": ["--federations=f=f.example"], "dnsmasq": ["--cache-size=5000", "--server=/a.example/10.0.0.1"], "nanny": []}
    assert overlay["resources"] == ["../replace-kube-dns"]
    assert "clusterDomain: corp.local," in out
    assert re.search(r"upstreamNameservers\n#     NO EQUIVALENT: left out: ", out)
    assert re.search(r"--log-facility=-\n#     changes: the nanny sets this itself", out)


@pytest.mark.parametrize("text, place, said", [
    (".:53 {\n  errors\n", ":2: ", "the brace of .:53 at line 1 is not closed"),
    (".:53 {\n  forward . 1.1.1.1 {\n    max_fails 1\n}\n", ":4: ", "is not closed"),
    (". {\n}\n}\n", ":3: ", "closing brace without an opening brace"),
    ("{\n}\n", ":1: ", "brace without a zone"),
    ("(s) {\n  errors\n", ":2: ", "snippet (s) is not closed"),
    (". {\n  import\n}\n", ":3: ", "import: needs a file or a snippet"),
    (". {\n  import a/*/*\n}\n", ":2: ", "more than one wildcard"),
    ("(a) {\n  import a\n}\n. {\n  import a\n}\n", ":2: ", "does one of them import itself"),
    ("kind: ConfigMap\ndata: {a: b\n", ":", "did not find"),
])
def test_a_mistake_has_its_file_line_and_reason(text, place, said):
    code, out, err = migrate("-", text)
    assert code == 2 and out == ""
    assert place in err and said in err, err


def test_a_snippet_that_imports_another_ten_times_and_so_on_has_an_end():
    text = "(s0) {\n errors\n}\n" + "".join(
        f"(s{i}) {{\n" + f" import s{i - 1}\n" * 10 + "}\n" for i in range(1, 12)) + ". {\n import s11\n}\n"
    code, _, err = migrate("-", text)
    assert code == 2 and "more than 200000 words" in err


def test_a_line_that_several_blocks_import_is_reported_once():
    text = "(s) {\n log\n errors\n}\n" + "".join(f"{zone} {{\n import s\n forward . 10.0.0.1\n}}\n" for zone in ("a.example", "b.example", "c.example"))
    out = of(configmap("coredns", Corefile=text))[0]
    assert "# Corefile:2: log\n" in out and out.count(" errors") == 1


def test_a_file_that_is_not_there():
    code, _, err = migrate("/nowhere/Corefile")
    assert code == 2 and "/nowhere/Corefile: No such file" in err


def test_the_flag_that_kubedns_had_names_the_program():
    p = subprocess.run([KUBEDNS, f"--migrate={CASES}/kubeadm.corefile"], capture_output=True, text=True, timeout=30)
    assert p.returncode == 2 and p.stdout == ""
    assert f"moved to a separate program: run kubedns-migrate {CASES}/kubeadm.corefile\n" in p.stderr


@pytest.mark.parametrize("args", [[], ["a", "b"], ["--no-such-flag", "a"]])
def test_a_mistake_on_the_command_line_shows_the_usage(args):
    p = subprocess.run([MIGRATE, *args], capture_output=True, text=True, timeout=30)
    assert p.returncode == 2 and p.stdout == "" and "usage: kubedns-migrate " in p.stderr


def configmap(name, **data):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {k.replace("__", "."): v for k, v in data.items()}}


def of(*objects_, flags=()):
    """Returns the report for a list of objects, and the parts that an operator applies."""
    code, out, err = migrate("-", yaml.safe_dump_all(objects_), *flags)
    assert code == 0, err
    return out, *printed(out)


CLOSED = ".:53 {\n kubernetes cluster.local in-addr.arpa ip6.arpa {\n  pods insecure\n  fallthrough in-addr.arpa ip6.arpa\n  ttl 30\n }\n}\n"
OPEN = CLOSED[:-2] + " forward . /etc/resolv.conf\n}\n"


@pytest.mark.parametrize("topology", ["front", "classic"])
def test_with_a_tls_upstream_no_text_or_flag_is_only_for_dnsmasq(topology):
    """The nanny ignores flags that unbound does not have."""
    forward = " forward . tls://192.0.2.53 {\n  tls_servername dns.example\n }\n"
    rest = " log\n cache 60\n template IN AAAA .\n template ANY ANY gone.example {\n  rcode NXDOMAIN\n }\n}\n"
    out, _, flags, overlay = of(configmap("coredns", Corefile=CLOSED[:-2] + forward + rest), flags=[f"--topology={topology}"])
    assert overlay["components"] == ["../components/engine-unbound"] and flags["nanny"] == [] and "--local=/gone.example/" in flags["dnsmasq"]
    assert not any("--address" in flag or "--filter-AAAA" in flag for flag in flags["dnsmasq"])
    assert ("NO EQUIVALENT: no filter in the classic topology with unbound" in out) == (topology == "classic")
    report = out.partition("\n---")[0]
    assert "dnsmasq's" not in report and "dnsmasq behind" not in report and "dnsmasq answers" not in report, report


@pytest.mark.parametrize("text", ["", "# nothing\n", "\n \n", "---\n", "apiVersion: v1\nkind: List\nitems: []\n"])
def test_nothing_is_no_configuration(text):
    """The input is empty, as when kubectl fails in `kubectl get ... | kubedns-migrate`."""
    code, out, err = migrate("-", text)
    assert code == 2 and out == "" and "nothing to migrate" in err


def test_coredns_custom_by_itself_is_read_and_the_corefile_is_missed():
    out, data, flags, _ = of(configmap("coredns-custom", a__server="corp.example {\n forward . 10.0.0.53\n}\n", b__override="log\n", README="x"))
    assert data == {"stubDomains": {"corp.example": ["10.0.0.53"]}} and flags == {"kubedns": ["--log-queries"], "dnsmasq": [], "nanny": []}
    assert re.search(r"Corefile\n#     NO EQUIVALENT: missing: .*configmap/coredns-custom", out)
    assert re.search(r"README of ConfigMap coredns-custom\n#     NO EQUIVALENT: not read", out)


def test_a_backup_beside_the_corefile_is_not_read():
    """kubeadm's upgrade leaves such a backup."""
    out, data, _, _ = of(configmap("coredns", Corefile=OPEN.replace("/etc/resolv.conf", "10.0.0.1"), **{"Corefile-backup": OPEN.replace("/etc/resolv.conf", "10.9.9.9")}))
    assert data == {"upstreamNameservers": ["10.0.0.1"]}
    assert re.search(r"^# carried over, .*: Corefile-backup of ConfigMap coredns", out, re.M)


def test_k3s_node_hosts_are_carried_over():
    corefile = OPEN[:-2] + " hosts /etc/coredns/NodeHosts {\n  ttl 60\n  fallthrough\n }\n}\n"
    out, data, _, _ = of(configmap("coredns", Corefile=corefile, NodeHosts="10.0.0.1 node-1\n10.0.0.2 node-2 # the second\n\nnonsense\n10.0.0.3 bad..name *.wild.example\n"))
    assert data == {"hosts": ["10.0.0.1 node-1", "10.0.0.2 node-2"], "records": ["*.wild.example A 10.0.0.3"]}
    assert re.search(r"hosts /etc/coredns/NodeHosts\n#     changes: the ConfigMap's key hosts, with the current 2 lines of NodeHosts", out)
    found = verdicts(out)
    assert found["NodeHosts", 4] == "!" and found["NodeHosts", 5] == "~" and ("NodeHosts", 1) not in found


def test_a_file_of_a_zone_is_carried_over(tmp_path):
    """The zone is a key of the ConfigMap or a file beside the Corefile. The TTLs equal the TTLs in CoreDNS's answers."""
    zone = "@ IN SOA ns host 1 3600 600 86400 60\n@ IN NS ns\nns IN A 10.0.0.53\nwww 60 IN A 10.0.0.7\n"
    corefile = OPEN + "lab.example {\n file /etc/coredns/db.lab\n}\n"
    wanted_ = ["$ORIGIN lab.example.", "$TTL 3600", *zone.splitlines(), "$ORIGIN ."]
    out, data, _, _ = of(configmap("coredns", Corefile=corefile, db__lab=zone))
    assert data == {"records": wanted_}
    (tmp_path / "Corefile").write_text(corefile)
    (tmp_path / "db.lab").write_text(zone)
    assert printed(migrate(tmp_path / "Corefile")[1])[0] == {"records": wanted_}
    (tmp_path / "db.lab").write_text("sub NS ns.other.example.\n")
    out = migrate(tmp_path / "Corefile")[1]
    assert printed(out)[0] == {} and re.search(r"file /etc/coredns/db.lab\n#     NO EQUIVALENT: left out: ", out)


@pytest.mark.parametrize("zone, block, wanted_", [
    # the SOA record of a domain above the zone, and records of that domain
    ("_dns.lab.example", ".", ["$ORIGIN _dns.lab.example.", "$TTL 3600", "_dns.lab.example. IN SOA ns.lab.example. host.lab.example. 1 3600 600 86400 60",
                               "_dns.lab.example. IN NS ns.lab.example.", "x._dns.lab.example. IN TXT \"x\"", "$ORIGIN ."]),
    # the block answers only a part of the zone
    ("lab.example", "_dns.lab.example", ["$ORIGIN lab.example.", "$TTL 3600", "_dns.lab.example. IN SOA ns.lab.example. host.lab.example. 1 3600 600 86400 60",
                                         "_dns.lab.example. IN NS ns.lab.example.", "x._dns.lab.example. IN TXT \"x\"", "$ORIGIN ."]),
    ("lab.example", "other.example", None),  # the block does not answer the zone
])
def test_the_records_of_a_zone_file_stay_in_its_zone(zone, block, wanted_):
    text = ("lab.example. IN SOA ns.lab.example. host.lab.example. (\n 1 3600 600 86400 60 )\n IN NS ns.lab.example.\nns.lab.example. IN A 10.0.0.53\n"
            "ns.lab.example. IN A 10.0.0.53\n_dns.lab.example. IN NS ns.lab.example.\nx._dns.lab.example. IN TXT \"x\"\n")
    blocks = f"{block} {{\n file db.lab {zone}\n}}\n" + (OPEN if block != "." else "")
    out, data, _, _ = of(configmap("coredns", Corefile=blocks, db__lab=text))
    assert data == ({"records": wanted_} if wanted_ else {})
    assert wanted_ is None or verdicts(out)["Corefile", 2] == "="  # CoreDNS does not serve the records outside of the zone either
    assert wanted_ or "file db.lab lab.example (no effect in CoreDNS)" in out


def test_proxy_is_what_forward_was():
    out, data, flags, _ = of(configmap("coredns", Corefile=CLOSED[:-2] + " proxy . 10.1.0.1 10.1.0.2 {\n  policy sequential\n  protocol grpc\n }\n}\nb.example {\n proxy . 10.2.0.1\n}\n"))
    assert data == {"upstreamNameservers": ["10.1.0.1", "10.1.0.2"], "stubDomains": {"b.example": ["10.2.0.1"]}}
    assert flags["dnsmasq"] == ["--strict-order"] and flags["nanny"] == [] and re.search(r"protocol grpc\n#     NO EQUIVALENT", out)


# (expression, replacement, {name: the name that CoreDNS looks up, or None}).
PATTERNS = [
    (r"(.+)\.a\.com", "{1}.x", {"api.a.com": "api.x", "b.c.a.com": "b.c.x", "api.a.com.org": "api.x", "a.com": None}),
    (r"([a-z0-9-]+)\.a\.com", "{1}.x", {"api-1.a.com": "api-1.x", "b.c.a.com": "c.x"}),
    (r"([^.]+)\.a\.com", "{1}.x", {"api.a.com": "api.x", "b.c.a.com": "c.x"}),
    (r"(\w+)\.a\.com", "{1}.x", {"api.a.com": "api.x", "my-api.a.com": "api.x"}),
    (r"([a-z]*)\.a\.com", "{1}x", {"api.a.com": "apix", "1.a.com": "x"}),
    (r"(.*?)\.a\.com", "{1}.x", {"b.c.a.com": "b.c.x"}),
    (r"(.+)\.a\.com\.$", "{1}.x", {"api.a.com": "api.x", "api.a.com.org": None}),
    (r"(.*)\.a\.com\.", "{1}.x", {"api.a.com": "api.x", "api.a.com.org": "api.x", "api.a.community": None}),
    (r"([a-z]+)\.([a-z]+)\.a\.com", "{1}.{2}.x", {"web.shop.a.com": "web.shop.x", "q.web.shop.a.com": "web.shop.x"}),
    (r"^api[.]a[.]com[.]$", "x.y", {"api.a.com": "x.y", "api.a.com.org": None}),
    (r"^api\.a\.com\.?$", "x.y", {"api.a.com": "x.y"}),
    (r"api\.a\.com|web\.a\.com", "x.y", {"api.a.com": "x.y", "my.web.a.com.org": "x.y", "b.a.com": None}),
    (r"^api\.a\.com\.$|^(web)\.a\.com\.$", "x{1}.y", {"api.a.com": "x.y", "web.a.com": "xweb.y", "web.a.com.org": None}),
    (r"(^(?:[^\.]+\.)+)b\.com\.b\.com", "{1}c", {"a.b.com.b.com": "a.c", "a.b.com": None}),
    # CoreDNS compares names with a final dot, and uses a dot in a group as part of the new name.
    (r"(.+)\.a\.com$", "{1}.x", "="), (r"(.+)[.]a[.]com$", "{1}.x", "="), (r"^(api|web)$", "x.y", "="),
    (r"^a\.(.*)$", "{1}x", "!"), (r"^a\.(.*)", "{1}.x", "!"), (r"a\.(.*).a\.com", "{0}.x", "!"), (r"(a|b)+\.a\.com", "{1}.x", "!"), (r"\pL\.a\.com", "x.y", "!"),
]  # fmt: skip


@pytest.mark.parametrize("expression, to, wanted_", PATTERNS, ids=[p[0] for p in PATTERNS])
def test_a_pattern_rewrites_names_as_in_coredns(expression, to, wanted_):
    """CoreDNS searches for an expression anywhere in the name, and kubedns compares a pattern with the whole name."""
    text = in_root(f"rewrite name regex {expression} {to} answer auto")
    out, data, *_ = of(configmap("coredns", Corefile=text))
    if not isinstance(wanted_, dict):
        assert "rewrites" not in data and verdicts(out)["Corefile", 8] == wanted_
        return
    _, pattern, new = data["rewrites"][0].split()
    for name, want in wanted_.items():
        m = re.fullmatch(pattern, name, re.S)
        assert (m and re.sub(r"\{(\d)\}", lambda g: m[int(g[1])] or "", new)) == want, (pattern, name)


def test_patterns_are_printed_for_a_topology_in_which_they_work():
    corefile = OPEN[:-2] + " rewrite name regex (.*)\\.my\\.domain {1}.default.svc.cluster.local\n rewrite name regex x(.)\\.b {1}.c\n}\n"
    out, data, _, overlay = of(configmap("coredns", Corefile=corefile))
    assert overlay["resources"] == ["../front"] and len(data["rewrites"]) == 2 and "topology: front\n" in out
    out, data, _, overlay = of(configmap("coredns", Corefile=corefile), flags=["--topology=classic"])
    assert overlay["resources"] == ["../replace-kube-dns"] and data["rewrites"] == ["suffix my.domain default.svc.cluster.local"]
    assert "NO EQUIVALENT: no patterns in the classic topology" in out


def test_migrate_keeps_or_reports_that_external_names_are_refused():
    out, _, flags, _ = of(configmap("coredns", Corefile=CLOSED))
    assert flags["nanny"] == ["-resolvConf=/dev/null"] and "Without the flag they go to the servers of the node's resolv.conf" in out
    assert of(configmap("coredns", Corefile=OPEN))[2]["nanny"] == []
    out, _, flags, _ = of(configmap("coredns", Corefile=CLOSED[:-2] + " unbound\n}\n"))
    assert flags["nanny"] == [] and re.search(r"NO EQUIVALENT: no forward: .*; CoreDNS had unbound", out)
    out, _, flags, _ = of(configmap("coredns", Corefile="corp.example {\n forward . 10.0.0.53\n}\n"))
    assert flags["nanny"] == [] and "changes: names outside these zones go to the servers of the node" in out


def test_a_closed_cluster_is_closed_in_the_classic_topology_too():
    """kubedns forwards reverse names and names below those of hosts itself."""
    out, _, flags, _ = of(configmap("coredns", Corefile=CLOSED), flags=["--topology=classic"])
    assert flags["nanny"] == ["-resolvConf=/dev/null"] and "--nameservers=127.0.0.1:9" in flags["kubedns"] and "Without both flags they go to" in out


OTHER = "apps.example:53 {\n rewrite name suffix .apps.example .default.svc.cluster.local\n kubernetes cluster.local {\n  namespaces default\n  ttl 5\n  pods insecure\n }\n cache 5\n forward . 10.0.0.9\n}\n"


@pytest.mark.parametrize("text", [OPEN + OTHER, OTHER + OPEN])
def test_options_of_a_zone_s_block_do_not_change_the_cluster(text):
    out, _, flags, _ = of(configmap("coredns", Corefile=text))
    assert flags == {"kubedns": ["--reverse-all-endpoints"], "dnsmasq": [], "nanny": []}
    assert re.search(r"namespaces default; ttl 5\n#     NO EQUIVALENT: left out: it is only for the queries of this server block", out)
    assert re.search(r"^# carried over, .*\d+ pods insecure,.*\d+ pods insecure", out, re.M | re.S)
    assert re.search(r"cache 5\n#     changes: left out: ", out)


def test_a_forward_of_one_zone_leaves_the_cluster_closed():
    out, _, flags, _ = of(configmap("coredns", Corefile=CLOSED[:-2] + " forward corp.example 10.0.0.1\n}\n"))
    assert flags["nanny"] == ["-resolvConf=/dev/null"] and "changes: no line forwards names outside these zones" in out


@pytest.mark.parametrize("rest", [
    " forward outside.example 10.0.0.1\n forward . 10.0.0.2 {\n  except outside.example\n }\n}\n",
    " forward . 10.0.0.2\n}\noutside.example {\n template ANY ANY outside.example {\n  rcode NXDOMAIN\n }\n forward . 10.0.0.1\n}\n",
])
def test_a_domain_is_not_both_a_stub_domain_and_in_a_flag(rest):
    """The nanny ignores the whole key stubDomains then."""
    _, data, flags, _ = of(configmap("coredns", Corefile=CLOSED[:-2] + rest))
    assert ("outside.example" in data.get("stubDomains", {})) + sum("/outside.example/" in f for f in flags["dnsmasq"]) == 1


@pytest.mark.parametrize("topology", ["front", "classic"])
def test_a_filter_of_the_root_s_block_is_not_for_other_blocks(topology):
    out, _, flags, _ = of(configmap("coredns", Corefile=OPEN[:-2] + " template IN AAAA .\n}\nlab.example {\n forward . 10.0.0.1\n}\n"), flags=[f"--topology={topology}"])
    assert flags["kubedns"][1:] == (["--filter-aaaa=on", "--filter-except=lab.example"] if topology == "front" else []) and flags["dnsmasq"] == []
    assert ("NO EQUIVALENT: left out: it is not for the zones of the other server blocks" in out) == (topology == "classic")


def test_a_reverse_name_of_hosts_in_another_block():
    out = of(configmap("coredns", Corefile=OPEN[:-2] + " hosts {\n  10.5.0.1 a.example\n  fallthrough\n }\n}\n10.in-addr.arpa {\n forward . 10.0.0.1\n}\n"))[0]
    assert re.search(r"10.5.0.1 a.example\n#     changes: .*CoreDNS passes it to another server block", out)


@pytest.mark.parametrize("block, said", [
    ("lab.example {\n forward b.lab.example 10.0.0.1\n}\n", "no line of this block forwards its names: CoreDNS returns SERVFAIL"),
    ("lab.example {\n errors\n}\n", "no line of this block forwards its names: CoreDNS returns SERVFAIL"),
    ("10.in-addr.arpa {\n forward . /etc/resolv.conf\n}\n", "the cluster's reverse names in the reverse zone of another server block"),
])
def test_names_that_a_zone_s_block_does_not_answer(block, said):
    assert said in of(configmap("coredns", Corefile=OPEN + block))[0] and said not in of(configmap("coredns", Corefile=OPEN))[0]


def test_a_second_kubernetes_in_a_block_is_left_out():
    out, _, flags, _ = of(configmap("coredns", Corefile=OPEN[:-2] + " import custom/*.override\n}\n"), configmap("coredns-custom", a__override="kubernetes cluster.local {\n ttl 5\n}\n"))
    assert flags["kubedns"] == ["--reverse-all-endpoints"] and out.count("NO EQUIVALENT: left out") == 2 and "can only be used once per Server Block" in out


@pytest.mark.parametrize("first, second, said", [
    (".:5301 {\n", ".:5302 {\n", "only for its own port or transport"),
    (".:53 {\n", "tls://. {\n", "only for its own port or transport"),
    (".:53 {\n", ". {\n bind 10.0.0.7\n", "listens on other addresses"),
    (".:53 {\n", "corp.example {\n bind 127.0.0.1\n", "listens on other addresses"),
    (". {\n", ".:53 {\n view inside {\n  expr incidr(client_ip(), '10.9.0.0/24')\n }\n", "only for the clients of its view"),
    (". {\n", "corp.example {\n view inside {\n  expr incidr(client_ip(), '10.9.0.0/24')\n }\n", "only for the clients of its view"),
    (". {\n", ".:53 {\n", "an earlier server block has the same zones"),
])
@pytest.mark.parametrize("turned", [False, True])
def test_blocks_with_other_clients_are_never_mixed(first, second, said, turned):
    one, two = f"{first} kubernetes cluster.local\n forward . 10.0.0.1\n}}\n", f"{second} hosts {{\n  10.9.0.5 app.corp.example\n }}\n forward . 10.0.0.2\n}}\n"
    if turned and "same zones" in said:
        pytest.skip("the first block counts")
    out, data, _, _ = of(configmap("coredns", Corefile=two + one if turned else one + two))
    assert data == {"upstreamNameservers": ["10.0.0.1"]} and "NO EQUIVALENT: left out: " in out and said in out
    assert re.search(r"hosts; 10.9.0.5 app.corp.example; forward . 10.0.0.2\n#     NO EQUIVALENT: left out with its server block", out)


def test_a_name_of_another_block_is_left_out():
    """CoreDNS passes the query to the block with the longest zone."""
    out, data, _, _ = of(configmap("coredns", Corefile=OPEN[:-2] + " hosts {\n  10.0.0.1 a.corp.example b.example\n  fallthrough\n }\n}\ncorp.example {\n forward . 10.0.0.53\n}\n"))
    assert data == {"hosts": ["10.0.0.1 b.example"], "stubDomains": {"corp.example": ["10.0.0.53"]}}
    assert 'without "a.corp.example": another server block has this name' in out


def test_the_first_forward_of_a_block_gets_the_names():
    forward = " forward corp.example 10.0.0.1\n forward . 10.0.0.2 {\n  except lab.example x.example\n }\n forward corp.example 10.0.0.3\n forward lab.example 10.0.0.4\n forward . 10.0.0.5\n}\n"
    out, data, flags, _ = of(configmap("coredns", Corefile=CLOSED[:-2] + forward))
    assert data == {"upstreamNameservers": ["10.0.0.2"], "stubDomains": {"corp.example": ["10.0.0.1"], "lab.example": ["10.0.0.4"], "x.example": ["10.0.0.5"]}}
    assert flags["dnsmasq"] == [] and "forward corp.example 10.0.0.3 (no effect in CoreDNS)" in out


def test_options_of_a_forward_that_coredns_never_uses():
    forward = " forward . 10.0.0.2\n forward x.example 10.0.0.3 10.0.0.4 {\n  policy sequential\n  max_concurrent 9000\n  force_tcp\n }\n}\n"
    out, _, flags, _ = of(configmap("coredns", Corefile=CLOSED[:-2] + forward))
    assert flags["dnsmasq"] == [] and "force_tcp (no effect in CoreDNS)" in out and " 0 lines have no equivalent" in out


@pytest.mark.parametrize("option, all_endpoints", [("", True), ("  noendpoints\n", False)])
def test_endpoints_of_every_service_have_ptr_records_as_in_coredns(option, all_endpoints):
    out, _, flags, _ = of(configmap("coredns", Corefile=OPEN.replace("  ttl 30\n", "  ttl 30\n" + option)))
    assert ("--reverse-all-endpoints" in flags["kubedns"]) is all_endpoints
    _, _, flags, _ = of(configmap("coredns", Corefile=". {\n kubernetes cluster.local\n forward . 10.0.0.1\n}\n"))
    assert "--reverse-all-endpoints" not in flags["kubedns"]


def test_a_corefile_without_kubernetes_gets_the_names_of_the_cluster():
    out, *_ = of(configmap("coredns", Corefile=". {\n forward . 10.0.0.1\n}\n"))
    assert "changes: kubedns also answers the cluster's names and reverse names" in out
    out, *_ = of(configmap("coredns", Corefile=OPEN))
    assert "kubedns also answers the cluster's names and reverse names" not in out


def test_a_suffix_with_a_dot_holds_for_the_suffix_itself():
    out, data, *_ = of(configmap("coredns", Corefile=OPEN[:-2] + " rewrite name suffix .apps.example .shop.svc.cluster.local answer auto\n}\n"))
    assert data["rewrites"] == ["suffix apps.example shop.svc.cluster.local"] and "changes: the ConfigMap's key rewrites; the suffix itself is rewritten too" in out


def test_the_name_server_of_an_external_zone_is_another():
    out, *_ = of(configmap("coredns", Corefile=OPEN[:-2] + " k8s_external out.example\n}\n"))
    assert "changes: --external-zones; the zone's name server is ns.dns.ZONE, where CoreDNS has ns1.dns.ZONE" in out


def test_reverse_names_that_coredns_denies():
    out, _, flags, _ = of(configmap("coredns", Corefile=OPEN.replace("  fallthrough in-addr.arpa ip6.arpa\n", "")))
    assert re.search(r"changes: .*A reverse name that the cluster does not have is forwarded; CoreDNS returns NXDOMAIN", out)
    _, _, flags, _ = of(configmap("coredns", Corefile=". {\n kubernetes cluster.local 10.in-addr.arpa 2.1.10.in-addr.arpa 172.16.0.0/16 {\n  pods insecure\n  ttl 30\n }\n forward . 10.0.0.1\n}\n"))
    assert flags["kubedns"] == ["--reverse-cidrs=10.0.0.0/8,10.1.2.0/24,172.16.0.0/16", "--ptr=cidrs", "--reverse-all-endpoints"]


INTO = "web.shop.svc.cluster.local"


@pytest.mark.parametrize("line, marks, said", [
    (f"rewrite name exact a.example {INTO}", "~", "CoreDNS changes them back"),
    (f"rewrite name regex ^a\\.example\\.$ {INTO} answer auto", "~", "CoreDNS changes them back"),
    ("rewrite name suffix a.example b.example answer auto", "~", "CoreDNS changes them back"),
    ("rewrite name exact a.example b.example", "=", ""),
    (f"rewrite name regex ^(.*)\\.a\\.example\\.$ {{1}}.{INTO} answer name x y", "=", ""),
])
def test_a_rewrite_whose_targets_coredns_restores(line, marks, said):
    out = of(configmap("coredns", Corefile=f".:53 {{\n {line}\n kubernetes cluster.local\n forward . 10.0.0.1\n}}\n"))[0]
    assert verdicts(out)["Corefile", 2] == marks and said in out
    assert said or "CoreDNS changes them back" not in out


def test_answer_name_on_its_own_line_restores_names():
    block = f" rewrite stop {{\n  name regex ^(.*)\\.a\\.example\\.$ {{1}}.{INTO}\n  answer name (.*)\\.{INTO} {{1}}.a.example\n }}\n"
    out = of(configmap("coredns", Corefile=".:53 {\n" + block + " kubernetes cluster.local\n forward . 10.0.0.1\n}\n"))[0]
    assert verdicts(out)["Corefile", 3] == "=" and "not the new name" not in out


def test_hosts_without_a_ttl_have_another_ttl():
    def text(ttl, option):
        return f".:53 {{\n hosts {{\n  10.0.0.5 a.example\n  fallthrough\n{option} }}\n kubernetes cluster.local {{\n  ttl {ttl}\n }}\n forward . 10.0.0.1\n}}\n"

    out = of(configmap("coredns", Corefile=text(30, "")))[0]
    assert verdicts(out)["Corefile", 2] == "~" and "the TTL of these names is kubedns's --ttl; CoreDNS's default is 3600" in out
    for same in (text(3600, ""), text(30, "  ttl 30\n")):
        out = of(configmap("coredns", Corefile=same))[0]
        assert verdicts(out)["Corefile", 2] == "=" and "CoreDNS's default is 3600" not in out


@pytest.mark.parametrize("cache, place, said", [
    ("cache 30 {\n  serve_stale\n }", 4, "changes: dnsmasq's --max-cache-ttl=30: .* The first answer to a client has the TTL of the upstream server"),
    ("cache {\n  serve_stale\n }", 4, "changes: dnsmasq caches a record for its TTL; CoreDNS limits the TTL to 3600 s"),
    ("cache {\n  success 1000 600 30\n }", 5, "Records are cached for their TTL, at most the --max-cache-ttl above. The minimum TTL is left out"),
    ("cache 60 {\n  success 1000\n }", 5, "Records are cached for their TTL, at most the --max-cache-ttl above\n"),
])
def test_the_ttls_of_a_cache(cache, place, said):
    out = of(configmap("coredns", Corefile=f".:53 {{\n kubernetes cluster.local\n forward . 10.0.0.1\n {cache}\n}}\n"))[0]
    assert verdicts(out)["Corefile", place] == "~" and re.search(said, out)
    assert "CoreDNS limits the TTL to 3600 s" not in out or "600 30" not in cache
    assert ("--max-cache-ttl=600" in out) == ("600 30" in cache)  # the TTL of success, not the TTL of cache


def test_nodelocal_dnscache_stays():
    """Its lines are not in the output, so they are not carried over."""
    out, data, flags, _ = of({"kind": "DaemonSet", "metadata": {"name": "node-local-dns"}, "spec": {"template": {"spec": {"containers": [{"name": "node-cache", "image": "n"}]}}}},
                             configmap("coredns", Corefile="cluster.local {\n errors\n bind 169.254.20.10\n cache {\n  success 9984 30\n }\n forward . 10.96.0.10\n}\n"))
    assert data == {} and not any(flags.values()) and "# carried over, " not in out
    assert "0 lines have no equivalent, 0 change, 0 are carried over, 7 stay in NodeLocal DNSCache." in out
    assert re.search(r"NodeLocal DNSCache stays: keep its DaemonSet and its Corefile.* Its lines are not translated:\n#\n# stays, .*container node-cache", out, re.S)


@pytest.mark.parametrize("text, needed", [
    ("forward . tls://192.0.2.53 {\n tls_servername dns.example\n}", True),
    ("forward lab.example tls://192.0.2.53 {\n tls_servername dns.example\n}", True),
    ("forward . 192.0.2.53", False),
])
def test_the_steps_name_what_tls_servers_need(text, needed):
    steps = of(configmap("coredns", Corefile=OPEN[:-2].replace(" forward . /etc/resolv.conf\n", "") + text + "\n}\n"))[0].partition("# Steps")[2]
    assert ("create configmap upstream-ca --from-file=ca.crt=/etc/ssl/certs/ca-certificates.crt\n" in steps) == needed
    assert ("Push the image nanny-unbound" in steps) == needed and ("upstream-ca of step 2 is needed with Helm" in steps) == needed


@pytest.mark.parametrize("zones, cidrs", [
    ("10.96.0.0/16 fd00:96::/112", "10.96.0.0/16,fd00:96::/112"),
    ("10.99.7.7/14", "10.96.0.0/16,10.97.0.0/16,10.98.0.0/16,10.99.0.0/16"),
    ("10.1.2.252/31", "10.1.2.252/32,10.1.2.253/32"),
    ("fd00:96::/110", "fd00:96::/112,fd00:96::1:0/112,fd00:96::2:0/112,fd00:96::3:0/112"),
    ("fd00:97ff::/31", "fd00:97fe::/32,fd00:97ff::/32"),
    ("fd00:97f0::/27", "fd00:97e0::/28,fd00:97f0::/28"),
    ("0.0.0.0/7", "0.0.0.0/8,1.0.0.0/8"),
])
def test_a_network_of_any_length_is_a_range(zones, cidrs):
    """CoreDNS also divides a network into reverse zones at octets (IPv6: digits)."""
    text = f". {{\n kubernetes cluster.local {zones} {{\n  pods insecure\n  ttl 30\n }}\n forward . 10.0.0.1\n}}\n"
    out, _, flags, _ = of(configmap("coredns", Corefile=text))
    assert flags["kubedns"] == [f"--reverse-cidrs={cidrs}", "--ptr=cidrs", "--reverse-all-endpoints"] and verdicts(out)["Corefile", 2] == "="
    out, _, flags, _ = of(configmap("coredns", Corefile=text.replace("  ttl", "  fallthrough " + zones.split()[-1] + "\n  ttl")))
    assert "--ptr=cidrs" not in flags["kubedns"] and "reverse names of the cluster's addresses outside these zones" in out


@pytest.mark.parametrize("zones, said", [
    ("10.96.0.0/16", "3 are carried over"),
    ("10.96.0.0/16 {\n fallthrough in-addr.arpa\n }", "reverse names of the cluster's addresses outside these zones"),
    ("in-addr.arpa {\n fallthrough in-addr.arpa\n }", "kubedns also answers reverse names of the cluster's IPv6 addresses"),
    ("", "kubedns also answers the cluster's reverse names"),
])
def test_reverse_names_outside_of_the_zones(zones, said):
    out, _, flags, _ = of(configmap("coredns", Corefile=f". {{\n kubernetes cluster.local {zones}\n forward . 10.0.0.1\n}}\n"))
    assert said in out and ("--ptr=cidrs" in flags["kubedns"]) is (zones == "10.96.0.0/16")


@pytest.mark.parametrize("line, flag", [("", "--pods=disabled"), ("  pods disabled\n", "--pods=disabled"), ("  pods verified\n", "--pods=verified"), ("  pods insecure\n", None)])
def test_coredns_has_no_names_of_pods_by_default(line, flag):
    _, _, flags, _ = of(configmap("coredns", Corefile=OPEN.replace("  pods insecure\n", line)))
    assert [f for f in flags["kubedns"] if f.startswith("--pods")] == [flag] * bool(flag)


@pytest.mark.parametrize("after, announced", [(" forward . 10.0.0.1\n", False), ("", True)])
def test_a_fallthrough_to_nothing_is_no_lookup_in_coredns(after, announced):
    out, *_ = of(configmap("coredns", Corefile=f"corp.example {{\n hosts {{\n  10.0.0.1 a.corp.example\n  fallthrough\n }}\n{after}}}\n{OPEN}"))
    assert ("CoreDNS returns SERVFAIL for them" in out) is announced


@pytest.mark.parametrize("head, through, announced", [
    ("hosts", "fallthrough", False), ("hosts", "fallthrough a.example", True), ("hosts", "fallthrough in-addr.arpa ip6.arpa", True), ("hosts", "fallthrough .", False),
    ("hosts /etc/hosts a.example", "fallthrough a.example", False), ("hosts /etc/hosts a.example b.example", "fallthrough a.example", True),
])  # fmt: skip
def test_a_fallthrough_of_some_zones_refuses_all_other_names_in_coredns(head, through, announced):
    out, *_ = of(configmap("coredns", Corefile=OPEN[:-2] + f" {head} {{\n  10.0.0.1 a.example\n  {through}\n }}\n}}\n"))
    assert ("CoreDNS returns SERVFAIL for them" in out) is announced


@pytest.mark.parametrize("text, said", [
    (OPEN[:-2] + " rewrite name a.example b.example\n}\n", "CoreDNS also applies them to the targets of ExternalName Services"),
    (OPEN[:-2] + " hosts /no/such/file {\n  reload 15s\n  fallthrough\n }\n}\n", "Until then these names are looked up like any other name"),
    (OPEN[:-2] + " log {\n  class error\n }\n}\n", "only for SERVFAIL; CoreDNS also logs other errors"),
    (OPEN[:-2] + ' template IN A . {\n  answer "{{ .Name }} 60 IN A 192.0.2.1"\n }\n}\n', "a stub domain cannot be for all names"),
    (OPEN[:-2] + " whoami\n}\n", ": 1 line has no equivalent, "),
])
def test_the_report_says_the_consequence(text, said):
    out = of(configmap("coredns", Corefile=text))[0]
    assert said in out and not any(option in out[out.index("# carried over") : out.index("# Steps")] for option in ("reload 15s", "9 fallthrough"))


def test_a_file_for_a_server_block_has_no_server_blocks():
    """Else its template would announce every difference of the cluster's names."""
    known = World({"egress.override": "template IN ANY cluster.local {\n  match ^x[.]y[.]$\n}\n"}, "", "cluster.local").known
    head, match = known["egress.override", 1], known["egress.override", 2]
    assert head.plugin == "template" and head.zones is None and match.head is head and head.body == [match]


@needs_kubectl
@pytest.mark.parametrize("port, other", [("8053", True), ("53", False)])
def test_pods_of_coredns_with_another_port(tmp_path, port, other):
    """Until CoreDNS is scaled down, the Service has pods of both. Only a targetPort with a name reaches both ports."""
    out, _, _, overlay = of(configmap("coredns", Corefile=OPEN.replace(".:53", f".:{port}")))
    for text in "must print dns/UDP/8053 and dns-tcp/TCP/8053", "patch service kube-dns", "OLD:8053 NEW", "NetworkPolicies that allow only port 8053":
        assert (text in out) is other
    if other:
        assert out.index("must print dns/UDP") < out.index("patch service kube-dns") < out.index("kubectl apply -k") and verdicts(out)["Corefile", 1] == "~"
        made = copy(tmp_path)
        (made / "mine").mkdir()
        (made / "mine/kustomization.yaml").write_text(yaml.safe_dump(overlay))
        service = next(o for o in read_all(kustomize(made, made / "mine")) if o and o["kind"] == "Service")
        for p in json.loads(re.search(r"patch service kube-dns --type=json -p '(.*)'", out)[1]):
            number, key = p["path"].split("/")[3:]
            assert service["spec"]["ports"][int(number)][key] == p["value"]


@pytest.mark.parametrize("rewrites, key, said", [
    (["exact a.example b.example", "exact A.example. c.example"], ["exact a.example b.example"], "exact A.example. c.example (no effect in CoreDNS)"),
    (["suffix .a.example .b.example", "suffix a.example c.example"], ["suffix a.example b.example"], "changes: left out: an earlier rewrite has this suffix"),
    (["regex (.*)\\.a\\.example$ {1}.b.example", "exact x.example y.example"], ["exact x.example y.example"], "(no effect in CoreDNS)"),
])  # fmt: skip
def test_rewrites_that_kubedns_would_refuse_or_coredns_never_uses(rewrites, key, said):
    """kubedns refuses the key rewrites as a whole if it has two rewrites of one name."""
    out, data, *_ = of(configmap("coredns", Corefile=OPEN[:-2] + "".join(f" rewrite name {r}\n" for r in rewrites) + "}\n"))
    assert data["rewrites"] == key and said in out


def test_a_rewrite_of_the_cluster_s_second_zone_is_its_only_rewrite():
    text = ".:53 {\n rewrite name suffix .old.example .new.example\n kubernetes cluster.local old.example\n forward . 10.0.0.1\n}\n"
    assert of(configmap("coredns", Corefile=text))[1]["rewrites"] == ["suffix old.example new.example"]


@pytest.mark.parametrize("zone, announced", [(".", False), ("corp.example", True)])
def test_ptr_records_of_hosts_of_a_zones_block(zone, announced):
    out, *_ = of(configmap("coredns", Corefile=f"{zone} {{\n hosts {{\n  10.0.0.1 a.corp.example\n  fallthrough\n }}\n forward . 10.0.0.1\n}}\n"))
    assert ("the reverse names of these addresses" in out) is announced


@pytest.mark.parametrize("blocks, front, classic", [
    ("log", "--log-queries", ["--log-queries"]),
    ("log . {\n class error\n}", "--log-queries=rcode=SERVFAIL", []),
    ("log {\n class denial\n class error\n}", "--log-queries=rcode=NXDOMAIN", []),
    ("log {\n class all\n}", "--log-queries", ["--log-queries"]),
    ("}\ncorp.example {\n forward . 10.0.0.53\n log", "--log-queries=name=corp.example", []),
    ("log . {\n class error\n}\n}\ncorp.example {\n forward . 10.0.0.53\n log {\n class error\n}", "--log-queries=rcode=SERVFAIL", []),
])
def test_a_log_of_errors_is_no_log_of_every_query(blocks, front, classic):
    corefile = configmap("coredns", Corefile=OPEN[:-2] + blocks + "\n}\n")
    _, _, flags, _ = of(corefile)
    assert flags["kubedns"] == ["--reverse-all-endpoints", front] and flags["dnsmasq"] == []
    out, _, flags, _ = of(corefile, flags=["--topology=classic"])
    assert flags["kubedns"] == ["--reverse-all-endpoints"] and flags["dnsmasq"] == classic and (classic or "NO EQUIVALENT: dnsmasq logs all queries or none" in out)


@pytest.mark.parametrize("domain", ["home.arpa", "xarpa", "k8s.home.arpa"])
def test_a_domain_that_ends_in_arpa_is_no_reverse_zone(domain):
    out, data, _, _ = of(configmap("coredns", Corefile=f". {{\n kubernetes {domain}\n forward . 10.0.0.1\n}}\n"))
    assert f'clusterDomain: "{domain}"\n' in out


@pytest.mark.parametrize("domain", ["null", "123", "yes", "0x1f", "1.5", "on"])
def test_a_cluster_domain_is_a_string_whatever_it_is(domain):
    out, _, _, _ = of(configmap("coredns", Corefile=f". {{\n kubernetes {domain}\n forward . 10.0.0.1\n}}\n"))
    assert list(read_all(out))[-1]["clusterDomain"] == domain
    assert read(re.search(r"settings.yaml: (clusterDomain: [^,]*),", out)[1]) == {"clusterDomain": domain}


@pytest.mark.parametrize("server", ["127.0.0.1", "127.0.0.53:5353", "::1", "0.0.0.0"])
def test_a_server_that_is_the_pod_itself_is_left_out(server):
    out, data, _, _ = of(configmap("coredns", Corefile=OPEN + f"a.example {{\n forward . {server}\n}}\nb.example {{\n forward . 10.0.0.2\n}}\n"))
    assert data == {"stubDomains": {"b.example": ["10.0.0.2"]}} and re.search(r"NO EQUIVALENT: a loopback or unspecified address is this pod", out)


@pytest.mark.parametrize("zone, said", [
    ("a+b.example", "left out: \"a+b.example\" cannot be a stub domain's name"),
    ("$ZONE", "a placeholder, which another program replaces"),
    ("{$NOT_SET}", "environment variable NOT_SET is not set here"),
])  # fmt: skip
def test_a_stub_domain_without_a_name_does_not_take_the_others_along(zone, said):
    """For one invalid domain the nanny rejects the whole key."""
    out, data, _, _ = of(configmap("coredns", Corefile=OPEN + f"{zone} {{\n forward . 10.0.0.1\n}}\nb.example {{\n forward . 10.0.0.2\n}}\n"))
    assert data == {"stubDomains": {"b.example": ["10.0.0.2"]}} and f"NO EQUIVALENT: {said}" in out
    assert verdicts(out)["Corefile", 10] == "!"


def test_more_servers_than_a_key_takes():
    servers = " ".join(f"10.0.0.{i}" for i in range(1, 31))
    out, data, _, _ = of(configmap("coredns", Corefile=CLOSED[:-2] + f" forward . {servers}\n}}\na.example {{\n forward . {servers}\n}}\n"))
    assert len(data["upstreamNameservers"]) == 15 and len(data["stubDomains"]["a.example"]) == 16
    assert out.count("further ones are left out") == 2


def test_two_backslashes_before_a_quote_end_the_word():
    """CoreDNS reads such a line in the same way: the text after the quote does not belong to the word."""
    out, data, _, _ = of(configmap("coredns", Corefile=OPEN[:-2] + ' log . "a\\\\"\n}\nlast.example {\n forward . 10.0.0.9\n}\n'))
    assert data == {"stubDomains": {"last.example": ["10.0.0.9"]}}


def test_values_of_the_coredns_chart(tmp_path):
    values = {"replicaCount": 2, "service": {"clusterIP": "10.96.0.10"}, "servers": [
        {"zones": [{"zone": "."}], "port": 53, "plugins": [
            {"name": "kubernetes", "parameters": "corp.local in-addr.arpa", "configBlock": "fallthrough in-addr.arpa\nttl 30"},
            {"name": "forward", "parameters": ". 10.9.9.9"}]},
        {"zones": [{"zone": "a.example"}], "port": 53, "plugins": [{"name": "forward", "parameters": ". 10.0.0.53"}]}]}
    release = {"apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "metadata": {"name": "coredns"}, "spec": {"values": values}}
    config = {"apiVersion": "helm.cattle.io/v1", "kind": "HelmChartConfig", "metadata": {"name": "rke2-coredns"}, "spec": {"valuesContent": yaml.safe_dump(values)}}
    for given in (values, release, config):
        out, data, _, _ = of(given)
        assert data == {"upstreamNameservers": ["10.9.9.9"], "stubDomains": {"a.example": ["10.0.0.53"]}}
        assert "clusterDomain: corp.local, clusterIP: 10.96.0.10," in out
    out = of(configmap("coredns", Corefile=OPEN), {**release, "spec": {"chart": "x"}}, {"kind": "Gizmo", "metadata": {"name": "x"}})[0]
    assert re.search(r"HelmRelease coredns\n#     NO EQUIVALENT: not read", out) and re.search(r"Gizmo x\n#     NO EQUIVALENT: not read", out)


def test_other_wrappers_of_a_corefile_are_read():
    """The configuration of EKS's add-on, and a chart that contains the coredns chart with zone files."""
    assert of({"corefile": "a.example {\n forward . 10.0.0.1\n}\n", "replicaCount": 2})[1] == {"stubDomains": {"a.example": ["10.0.0.1"]}}
    zone = "@ IN SOA ns host 1 3600 600 86400 60\n"
    values = {"coredns": {"servers": [{"zones": [{"zone": "lab.example"}], "plugins": [{"name": "file", "parameters": "/etc/coredns/db.lab"}]}],
                          "zoneFiles": [{"filename": "db.lab", "domain": "lab.example", "contents": zone}]}}
    assert of(values)[1] == {"records": ["$ORIGIN lab.example.", "$TTL 3600", zone.strip(), "$ORIGIN ."]}


@pytest.mark.parametrize("given", [
    {"kind": "Gizmo", "metadata": {"name": "x"}}, {"apiVersion": "operator.openshift.io/v1", "kind": "DNS", "metadata": {"name": "default"}, "spec": {"servers": []}},
    {"kind": "HelmChartConfig", "metadata": {"name": "rke2-coredns"}, "spec": {"valuesContent": "nodelocal: {enabled: true}\n"}}, {"dns_mode": "coredns"},
    {"kind": "ConfigMap", "metadata": {"name": "other"}, "data": {"notes": "x"}},
    {"kind": "Service", "metadata": {"name": "kube-dns"}, "spec": {"clusterIP": "10.96.0.10"}},
])
def test_input_without_a_configuration_makes_no_kustomization(given):
    code, out, err = migrate("-", yaml.safe_dump(given))
    assert code == 2 and out == "" and "nothing to migrate" in err


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_utf_16_is_named(tmp_path, encoding):
    """PowerShell's `>` writes UTF-16."""
    (tmp_path / "Corefile").write_bytes(OPEN.encode(encoding))
    code, out, err = migrate(tmp_path / "Corefile")
    assert code == 2 and out == "" and "is UTF-16: save it as UTF-8" in err


def test_federations_in_the_form_of_old_documentation():
    assert of(configmap("kube-dns", federations='{"foo": "foo.feddomain.example"}'))[1] == {"federations": ["foo=foo.feddomain.example"]}


@pytest.mark.parametrize("domain", ["east.svc.cluster.local", "my.cluster.local"])
@pytest.mark.parametrize("given", ["kube-dns", "coredns"])
def test_a_stub_domain_inside_the_cluster_s_domain(domain, given):
    """CockroachDB's and Confluent's set-ups for several clusters, and the example in Kubernetes' documentation."""
    config = configmap("kube-dns", stubDomains=json.dumps({domain: ["192.0.2.4"], "corp.test": ["192.0.2.5"]})) if given == "kube-dns" else configmap(
        "coredns", Corefile=OPEN + f"{domain}:53 {{\n forward . 192.0.2.4\n}}\ncorp.test {{\n forward . 192.0.2.5\n}}\n")
    assert of(config)[1] == {"stubDomains": {domain: ["192.0.2.4"], "corp.test": ["192.0.2.5"]}}


def test_one_wrong_stub_domain_does_not_take_the_others_along():
    out, data, _, _ = of(configmap("kube-dns", stubDomains='{"svc.cluster.local": ["192.0.2.4"], "corp.test": ["192.0.2.5"]}'))
    assert data == {"stubDomains": {"corp.test": ["192.0.2.5"]}} and re.search(r"NO EQUIVALENT: left out: .*svc.cluster.local.*; the other stub domains are carried over", out)


@pytest.mark.parametrize("rule, data", [
    ("name substring a.example b.example", {}), ("name prefix a b", {}), ("name a.example b.example c.example", {}), ("name Suffix a.example b.example", {"rewrites": ["suffix a.example b.example"]}),
    ("name a.example b.example", {"rewrites": ["exact a.example b.example"]}),
    ("name exact a.example b.example answer value (.*) {1}.x.", {"rewrites": ["exact a.example b.example"]}),
    ("stop {\n  name suffix a.example b.example\n  answer name auto\n  answer value (.*) {1}.x.\n }", {"rewrites": ["suffix a.example b.example"]}),
])
def test_a_rewrite_that_is_not_understood_is_not_another_rewrite(rule, data):
    out, found, _, _ = of(configmap("coredns", Corefile=OPEN[:-2] + f" rewrite {rule}\n}}\n"))
    assert found == data and ("NO EQUIVALENT: no rewrites of this kind" in out) == (data == {})
    assert ("NO EQUIVALENT: the targets of CNAME, SRV, MX and NS records are not rewritten" in out) == ("value" in rule)


def test_a_hosts_name_that_a_template_answers():
    block = OPEN[:-2] + ' template IN A example.com {\n  match .*\\.example\\.com\n  answer "{{ .Name }} 60 IN A 192.168.2.1"\n  fallthrough\n }\n hosts {\n  192.168.0.11 aaa.example.com\n  192.168.0.12 b.example\n  fallthrough\n }\n}\n'
    out = of(configmap("coredns", Corefile=block))[0]
    assert re.search(r"192.168.0.11 aaa.example.com\n#     changes: .*In CoreDNS, a template of this server block answers", out)
    assert not re.search(r"b.example\n#     changes", out)


def test_a_placeholder_is_not_a_second_domain():
    out, _, _, _ = of(configmap("coredns", Corefile=OPEN.replace("cluster.local", "$DNS_DOMAIN")))
    assert "NO EQUIVALENT: $DNS_DOMAIN is a placeholder for the cluster's domain" in out and "only the placeholder $DNS_DOMAIN for the domain" in out


@pytest.mark.parametrize("line, carried", [
    ("rewrite name regex (.*)\\.b\\.example {1}.c.example answer auto", True), ("rewrite name regex (.*)\\.b\\.example {1}.c.example", False),
    ("template ANY ANY gone.example {\n  rcode NXDOMAIN\n }", True), ("template ANY ANY gone.example {\n  rcode NXDOMAIN\n  fallthrough\n }", False),
])
def test_a_line_with_the_same_answers_is_carried_over(line, carried):
    assert ("0 change" in of(configmap("coredns", Corefile=OPEN[:-2] + f" {line}\n}}\n"))[0]) == carried


INSIDE = "web.shop.svc.cluster.local"
CORP = "corp.example {\n forward . 10.0.0.1\n}\n"


def in_root(*lines):
    return OPEN[:-2] + "".join(f" {line}\n" for line in lines) + "}\n"


def in_corp(*lines):
    return OPEN + CORP[:-2] + "".join(f" {line}\n" for line in lines) + "}\n"


def line_of(text, line):
    """Returns the number of the line in the Corefile."""
    (n,) = [n for n, t in enumerate(text.splitlines(), 1) if t.strip() == line.splitlines()[0]]
    return n


@pytest.mark.parametrize("text, line, mark, said", [
    # rewrites: `continue` and the order matter only if another rewrite may apply to the name
    (in_root("rewrite continue name exact a.example x.test"), "rewrite continue name exact a.example x.test", "=", ""),
    (in_root("rewrite continue name exact a.example b.example", f"rewrite name b.example {INSIDE}"), "rewrite continue name exact a.example b.example", "~",
     "the new name is not rewritten again"),
    (in_root("rewrite name regex ^([a-z]+)\\.b\\.example\\.$ {1}.c.example answer auto", "rewrite name a.example x.test"), "rewrite name a.example x.test", "=", ""),
    (in_root("rewrite name regex ^([a-z]+)\\.b\\.example\\.$ {1}.c.example answer auto", f"rewrite name a.b.example {INSIDE}"), f"rewrite name a.b.example {INSIDE}", "~",
     "it takes precedence over rewrites above it"),
    (in_root("rewrite name suffix b.example x.example", "rewrite name suffix a.b.example y.example"), "rewrite name suffix a.b.example y.example", "~",
     "it takes precedence over rewrites above it"),
    # rewrites and the zones of other server blocks
    (in_root("rewrite name exact a.example www.corp.example") + CORP, "rewrite name exact a.example www.corp.example", "~", "not only on this block's servers"),
    (in_corp("rewrite name exact a.corp.example b.corp.example"), "rewrite name exact a.corp.example b.corp.example", "=", ""),
    (in_corp("rewrite name exact a.corp.example b.example"), "rewrite name exact a.corp.example b.example", "~", "not only on this block's servers"),
    (in_root("rewrite name suffix example x.test") + CORP, "rewrite name suffix example x.test", "~", "it also applies to names in the zones of other server blocks"),
    (in_corp("rewrite name suffix b.example x.corp.example"), "rewrite name suffix b.example x.corp.example", "=", "(no effect in CoreDNS)"),
    (in_root("rewrite name regex ^(.*)\\.corp\\.example\\.$ {1}.x.test answer auto") + CORP, "rewrite name regex ^(.*)\\.corp\\.example\\.$ {1}.x.test answer auto", "=",
     "(no effect in CoreDNS)"),
    (in_root("template IN A {\n  match .*\\.a\\.example\n  answer \"{{ .Name }} 60 IN A 192.0.2.1\"\n }"), "template IN A {", "~", "CoreDNS also answered names that go on after the end of the pattern"),
    (in_root("rewrite name suffix a.example shop.svc.cluster.local"), "rewrite name suffix a.example shop.svc.cluster.local", "~", "rewrites: the answer has the name of the query, not the new name"),
    # other directives
    (in_root("hosts {\n  10.0.0.5 www.corp.example a.example\n  fallthrough\n }") + CORP, "10.0.0.5 www.corp.example a.example", "~",
     'without "www.corp.example": another server block has this name, so CoreDNS does not answer it here; CoreDNS returns such names only for the reverse name of the address'),
    (in_root("hosts {\n  10.0.0.5 www.corp.example a.example\n  fallthrough\n }") + CORP + "10.in-addr.arpa {\n forward . /etc/resolv.conf\n}\n", "10.0.0.5 www.corp.example a.example", "~",
     "so CoreDNS does not answer it here. kubedns also answers the reverse name of this address"),
    (CLOSED.replace("in-addr.arpa ip6.arpa {", "in-addr.arpa {").replace("  fallthrough in-addr.arpa ip6.arpa\n", "")[:-2] + " forward . 10.0.0.1\n}\n", "kubernetes cluster.local in-addr.arpa {", "~",
     "--reverse-cidrs=CIDR,... does the same for ranges. kubedns also answers reverse names of the cluster's IPv6 addresses"),
    (CLOSED[:-2] + " forward x.example 10.0.0.2 {\n  policy sequential\n }\n forward . /etc/resolv.conf\n}\n", "policy sequential", "=", ""),
    (CLOSED[:-2] + " forward x.example 10.0.0.2 10.0.0.3 {\n  policy sequential\n }\n forward . /etc/resolv.conf\n}\n", "policy sequential", "~", "--strict-order"),
    (in_corp("hosts {\n  10.0.0.5 a.corp.example\n  ttl 60\n  fallthrough\n }"), "ttl 60", "~", "--ttl applies"),
    (in_root('template IN A example {\n  answer "{{ .Name }} 60 IN A 192.0.2.1"\n }') + CORP, "template IN A example {", "~", "The records also answer names in zones of other server blocks"),
    (in_corp("kubernetes cluster.local {\n  pods verified\n }"), "kubernetes cluster.local {", "=", "(no effect in CoreDNS)"),
    (in_root("cache 20") + CORP[:-2] + f" rewrite name a.corp.example {INSIDE}\n kubernetes cluster.local in-addr.arpa ip6.arpa {{\n  pods insecure\n  fallthrough in-addr.arpa ip6.arpa\n  ttl  30\n }}\n}}\n",
     "ttl  30", "!", "kubedns has one setting for all queries"),
    (in_corp("kubernetes cluster.local {\n  pods verified\n }", f"rewrite name a.corp.example {INSIDE}"), "kubernetes cluster.local {", "~", "the cluster's names, with the options"),
])
def test_what_changes_an_answer_is_announced_and_nothing_else(text, line, mark, said):
    out = of(configmap("coredns", Corefile=text))[0]
    assert verdicts(out)["Corefile", line_of(text, line)] == mark and said in out


@pytest.mark.parametrize("query, theirs, ours, ttls, announced", [
    (("a.corp.example", "A"), "NOERROR [a.corp.example. a 10.0.0.5]", "NOERROR [a.corp.example. a 10.0.0.5]", (3600, 30), True),  # hosts
    (("a.corp.example", "A"), "NOERROR [a.corp.example. a 10.0.0.5]", "NXDOMAIN", None, False),
    (("b.corp.example", "A"), "NOERROR [b.corp.example. a 10.0.0.6]", "NOERROR [b.corp.example. a 10.0.0.6]", (3600, 30), False),
    (("a.example", "SRV"), "NOERROR [a.example. srv 0 100 80 a.example.]", f"NOERROR [a.example. srv 0 100 80 {INSIDE}.]", None, True),  # rewrite
    (("a.example", "A"), "NOERROR [a.example. a 10.96.0.1]", "NXDOMAIN", None, False),
    (("b.example", "SRV"), "NOERROR [b.example. srv 0 100 80 b.example.]", f"NOERROR [b.example. srv 0 100 80 {INSIDE}.]", None, False),
    (("a.example", "ANY"), "NOERROR [a.example. hinfo any obsoleted]", "NOERROR [a.example. a 10.0.0.1]", None, True),  # any
    (("c.example", "A"), "NOERROR [c.example. a 10.0.0.1]", "NXDOMAIN", None, False),
    (("c.example", "A"), "REFUSED", "NOERROR [c.example. a 10.0.0.1]", None, True),  # acl
])
def test_a_line_announces_only_the_differences_that_its_sentence_names(query, theirs, ours, ttls, announced):
    """The judge of make test-corpus and make test-random-corefiles."""
    text = in_root(f"rewrite name exact a.example {INSIDE}", "any", "acl {\n  block\n }") + CORP[:-2] + " hosts {\n  10.0.0.5 a.corp.example\n  fallthrough\n }\n}\n"
    world = World({"Corefile": text}, of(configmap("coredns", Corefile=text))[0], "cluster.local")
    assert bool(world.announcing(Difference(query, theirs, ours, ttls))) is announced


SOME = "the template in line 8 answers some of these names before file does"


@pytest.mark.parametrize("template, more, said", [
    ("example", "", "the template in line 8 answers these names before file does"),
    ("a.b.example", "A IN A 10.0.0.1\n", SOME),
    ("a.b.example", "x.a IN A 10.0.0.1\n", SOME),
    ("a.b.example", "* IN A 10.0.0.1\n", SOME),
    ("a.b.example", "*.a IN A 10.0.0.1\n", SOME),
    ("a.b.example", "xa IN A 10.0.0.1\n*.c IN A 10.0.0.1\n", ""),
    ("c.example", "", ""),
])
def test_a_file_whose_names_a_template_answers(template, more, said):
    zone = "@ IN SOA ns host 1 3600 600 86400 60\n@ IN NS ns\nns IN A 10.0.0.53\n" + more
    text = in_root(f"template ANY ANY {template} {{\n  rcode NXDOMAIN\n }}", "file db.b b.example")
    out = of(configmap("coredns", Corefile=text, db__b=zone))[0]
    assert verdicts(out)["Corefile", line_of(text, "file db.b b.example")] == ("~" if said else "=") and said in out


@pytest.mark.parametrize("cache, mark", [("cache 30", "~"), ("cache 7200", "="), ("", "=")])
def test_coredns_s_cache_limits_the_ttls_of_a_file(cache, mark):
    text = in_root(cache, "file db.b b.example") if cache else in_root("file db.b b.example")
    out = of(configmap("coredns", Corefile=text, db__b="@ IN SOA ns host 1 3600 600 86400 60\n@ IN NS ns\nns IN A 10.0.0.53\n"))[0]
    assert verdicts(out)["Corefile", line_of(text, "file db.b b.example")] == mark and ("CoreDNS's cache limits them to 30 s" in out) == (mark == "~")


def test_the_ttl_of_cluster_names_is_at_most_that_of_coredns_s_cache():
    text = OPEN[:-2].replace("ttl 30", "ttl 60") + " cache 20\n hosts {\n  10.0.0.5 a.example\n  fallthrough\n }\n}\n"
    out, _, flags, _ = of(configmap("coredns", Corefile=text))
    assert "--ttl=20" in flags["kubedns"] and verdicts(out)["Corefile", line_of(text, "hosts {")] == "="


def test_a_name_that_two_forwards_except_has_no_servers():
    """Before, the second forward got the name that it excepts."""
    text = OPEN + "corp.example {\n forward . 10.0.0.1 {\n  except x.corp.example\n }\n forward . /etc/resolv.conf {\n  except x.corp.example\n }\n}\n"
    out, _, flags, _ = of(configmap("coredns", Corefile=text))
    assert "--local=/x.corp.example/" in flags["dnsmasq"] and "--server=/x.corp.example/#" not in flags["dnsmasq"]
    assert verdicts(out)["Corefile", 11] == "~" and verdicts(out)["Corefile", 13] == "="


@pytest.mark.parametrize("first, flags", [("", []), (" {\n  except x.example\n }", []), (" {\n  except y.example\n }", ["--local=/y.example/"]), (" {\n  except a.y.example\n }", ["--local=/a.y.example/"])])
def test_an_except_of_a_name_that_an_earlier_forward_of_the_root_has(first, flags):
    text = CLOSED[:-2] + f" forward . /etc/resolv.conf{first}\n forward . /etc/resolv.conf {{\n  except y.example\n }}\n}}\n"
    assert of(configmap("coredns", Corefile=text))[2]["dnsmasq"] == flags


def test_a_forward_that_excepts_its_own_zone():
    _, data, *_ = of(configmap("coredns", Corefile=OPEN[:-2] + " forward x.example 10.0.0.1 {\n  except x.example\n }\n}\n"))
    assert "stubDomains" not in data
    text = CLOSED[:-2] + " forward x.example 10.0.0.1 {\n  except x.example\n }\n}\n"
    assert "because of except, CoreDNS forwards only x.example itself to these servers" in of(configmap("coredns", Corefile=text))[0]


EXCEPT = "{\n  except a.x.example\n }\n"


@pytest.mark.parametrize("text, stubs", [
    (OPEN + f"x.example {{\n forward x.example 10.0.0.1 {EXCEPT} forward x.example 10.0.0.2\n}}\n", {"x.example": ["10.0.0.1"], "a.x.example": ["10.0.0.2"]}),
    (CLOSED + f"x.example {{\n forward x.example 10.0.0.1 {EXCEPT} forward . 10.0.0.2\n}}\n", {"x.example": ["10.0.0.1"], "a.x.example": ["10.0.0.2"]}),
    (CLOSED[:-2] + f" forward x.example 10.0.0.1 {EXCEPT} forward a.x.example 10.0.0.2\n}}\n", {"x.example": ["10.0.0.1"], "a.x.example": ["10.0.0.2"]}),
    (CLOSED[:-2] + f" forward x.example 10.0.0.1 {EXCEPT} forward b.a.x.example 10.0.0.2\n}}\n", {"x.example": ["10.0.0.1"], "b.a.x.example": ["10.0.0.2"]}),
    (OPEN + f"example {{\n forward x.example 10.0.0.1 {EXCEPT} forward . 10.0.0.2\n}}\n", {"x.example": ["10.0.0.1"], "a.x.example": ["10.0.0.2"], "example": ["10.0.0.2"]}),
    (OPEN + f"x.example {{\n forward x.example 10.0.0.1 {EXCEPT} forward x.example 10.0.0.2 {EXCEPT} forward . 10.0.0.3\n}}\n",
     {"x.example": ["10.0.0.1"], "a.x.example": ["10.0.0.3"]}),
    (OPEN + f"x.example {{\n forward a.x.example 10.0.0.1\n forward x.example 10.0.0.2 {EXCEPT} forward . 10.0.0.3\n}}\n", {"a.x.example": ["10.0.0.1"], "x.example": ["10.0.0.2"]}),
])
def test_an_excepted_name_goes_to_the_servers_of_the_next_forward(text, stubs):
    _, data, flags, _ = of(configmap("coredns", Corefile=text))
    assert data["stubDomains"] == stubs and "--server=/a.x.example/#" not in flags["dnsmasq"]


def test_an_excepted_name_that_no_other_forward_has_gets_no_servers():
    """Before, the report said that the next forward has the name, although it excepts the name too."""
    text = OPEN + f"x.example {{\n forward x.example 10.0.0.1 {EXCEPT} forward x.example 10.0.0.2 {EXCEPT}}}\n"
    out, data, flags, _ = of(configmap("coredns", Corefile=text))
    assert data["stubDomains"] == {"x.example": ["10.0.0.1"]} and "--local=/a.x.example/" in flags["dnsmasq"]
    assert "except a.x.example\n#     changes: dnsmasq's --local: these names get NXDOMAIN" in out


@pytest.mark.parametrize("blocks", ["a.x.example {\n forward . /etc/resolv.conf\n}\n", "a.x.example {\n forward a.x.example /etc/resolv.conf\n}\n"])
def test_a_block_below_a_name_that_the_root_excepts_keeps_the_node_s_servers(blocks):
    text = CLOSED[:-2] + " forward . /etc/resolv.conf {\n  except x.example\n }\n}\n"
    _, _, flags, _ = of(configmap("coredns", Corefile=text + blocks))
    assert {"--local=/x.example/", "--server=/a.x.example/#"} <= set(flags["dnsmasq"])


def test_a_block_below_another_zone_of_the_root_keeps_the_node_s_servers():
    text = CLOSED[:-2] + " forward x.example 10.0.0.1\n forward  . /etc/resolv.conf\n}\na.x.example {\n forward . /etc/resolv.conf\n}\n"
    out, data, flags, _ = of(configmap("coredns", Corefile=text))
    assert data["stubDomains"] == {"x.example": ["10.0.0.1"]} and "--server=/a.x.example/#" in flags["dnsmasq"]
    assert verdicts(out)["Corefile", line_of(text, "forward . /etc/resolv.conf")] == "="


def test_a_block_that_the_root_excepts_itself_needs_no_flag():
    text = CLOSED[:-2] + " forward . /etc/resolv.conf {\n  except x.example\n }\n}\nx.example {\n forward . /etc/resolv.conf\n}\n"
    assert not of(configmap("coredns", Corefile=text))[2]["dnsmasq"]


@pytest.mark.parametrize("topology, code", [("front", "gets REFUSED too"), ("classic", "gets REFUSED or SERVFAIL too")])
def test_an_external_name_in_a_closed_cluster(topology, code):
    assert code in of(configmap("coredns", Corefile=CLOSED), flags=[f"--topology={topology}"])[0]


ZONE = "@ IN SOA ns host 1 3600 600 86400 60\n@ IN NS ns\nns IN A 10.0.0.53\n"
ANSWER = '{\n  answer "{{ .Name }} 60 IN A 192.0.2.1"\n }'


@pytest.mark.parametrize("zone, uncovered", [("x.example", None), ("z.x.example", None), ("z.b.x.example", "b.x.example"), ("z.c.b.x.example", "b.x.example")])
def test_names_that_a_wildcard_does_not_cover_because_of_records_below_it(zone, uncovered):
    hosts = f"hosts {{\n  10.0.0.5 {zone}\n  fallthrough\n }}"
    for text in in_root(f"template IN A x.example {ANSWER}", f"file db.b {zone}"), in_root(f"template IN A x.example {ANSWER}", hosts), in_root(f"template IN A {zone} {ANSWER}", f"template IN A x.example {ANSWER}"):
        out = of(configmap("coredns", Corefile=text, db__b=ZONE))[0]
        assert re.findall(r'does not cover other names in "(.*?)"', out) == [uncovered] * (uncovered is not None)


def test_a_wildcard_does_not_cover_names_below_a_template_for_one_name():
    one = ANSWER.replace("{\n", "{\n  match ^b\\.x\\.example\\.$\n", 1)
    text = in_root(f"template IN A x.example {one}", f"template IN A x.example {ANSWER}")
    assert 'does not cover other names in "b.x.example"' in of(configmap("coredns", Corefile=text))[0]


@pytest.mark.parametrize("topology, template, kind, said", [("front", ANSWER, "exact", False), ("classic", ANSWER, "exact", True), ("classic", "{\n  rcode NXDOMAIN\n }", "exact", False),
                                                            ("classic", ANSWER, "suffix", False)])
def test_names_below_a_rewritten_name_in_a_stub_domain_that_a_template_answers(topology, template, kind, said):
    text = in_corp(f"template IN A {template}", f"rewrite name {kind} a.corp.example {INSIDE}")
    out = of(configmap("coredns", Corefile=text), flags=[f"--topology={topology}"])[0]
    assert ('names below "a.corp.example" go to the servers of the stub domain' in out) is said


def test_a_template_for_one_name_has_no_wildcard():
    text = in_root('template IN A x.example {\n  match ^x\\.example\\.$\n  answer "{{ .Name }} 60 IN A 192.0.2.1"\n }', "file db.b z.b.x.example")
    assert "does not cover" not in of(configmap("coredns", Corefile=text, db__b=ZONE))[0]


@pytest.mark.parametrize("lines, mark", [
    ("file db.b x.example", "="),
    ("file db.b x.example\n forward . 10.0.0.1", "="),
    ("file db.b a.x.example\n forward . 10.0.0.1", "~"),
    ("hosts {\n  10.0.0.5 a.x.example\n }", "="),
    ("forward . 10.0.0.1", "~"),
    ("rewrite name suffix s.x.example shop.svc.cluster.local answer auto", "="),
    ("rewrite name suffix s.x.example other.example", "~"),
    ("rewrite ttl exact a.x.example 60", "~"),
    ("auto x.example", "~"),
])
def test_the_cache_of_a_zone_s_block_changes_only_answers_that_it_limits(lines, mark):
    for cache, ttl in ("cache 30", mark), ("cache 20", "~"), ("cache 20 x.example", "~"):
        text = OPEN + f"x.example {{\n {cache} {{\n  serve_stale\n }}\n {lines}\n}}\n"
        found = verdicts(of(configmap("coredns", Corefile=text, db__b=ZONE))[0])
        assert found["Corefile", line_of(text, cache + " {")] == found["Corefile", line_of(text, "serve_stale")] == ttl


def test_hosts_without_a_name_of_its_block_changes_nothing():
    hosts = "hosts {\n  10.0.0.5 a.example b.example\n  ttl 5\n  no_reverse\n  fallthrough\n }"
    text = OPEN + f"x.example {{\n {hosts}\n forward . 10.0.0.1\n}}\n"
    out, data, *_ = of(configmap("coredns", Corefile=text))
    found = verdicts(out)
    assert "hosts" not in data and {found["Corefile", line_of(text, w)] for w in ("hosts {", "10.0.0.5 a.example b.example", "ttl 5", "no_reverse")} == {"="}
    for other in "a.x.example", "*.x.example", "a..b":
        found = verdicts(of(configmap("coredns", Corefile=text.replace("b.example", other)))[0])
        assert found["Corefile", line_of(text, "hosts {")] == found["Corefile", line_of(text, "hosts {") + 1] == "~"


def test_a_reverse_name_of_hosts_without_other_names():
    hosts = "hosts {\n  10.0.0.5 a.x.example\n  fallthrough\n }"
    text = in_root(hosts) + "x.example {\n forward . 10.0.0.1\n}\n"
    out = of(configmap("coredns", Corefile=text))[0]
    assert "CoreDNS returns such names only for the reverse name of the address" in out and verdicts(out)["Corefile", line_of(text, "hosts {")] == "~"
    text = OPEN + f"y.example 10.in-addr.arpa {{\n {hosts}\n forward . 10.0.0.1\n}}\n"  # CoreDNS skips names outside of the block's zones
    out = of(configmap("coredns", Corefile=text))[0]
    assert {verdicts(out)["Corefile", line_of(text, line)] for line in ("hosts {", "10.0.0.5 a.x.example")} == {"="}


@pytest.mark.parametrize("line, seen", [
    ("rewrite ttl exact a.example 30", False),
    ("rewrite ttl a.example 30", False),
    ("rewrite ttl exact a.x.example 30", True),
    ("rewrite ttl suffix example 30", True),
    ("rewrite continue name b.x.example a.example\n rewrite ttl exact a.example 30", True),
    ("template ANY ANY a.example {\n  rcode NXDOMAIN\n }", False),
    ("template ANY ANY example {\n  rcode NXDOMAIN\n }", True),
    ("rewrite name b.x.example a.example\n template ANY ANY a.example {\n  rcode NXDOMAIN\n }", True),
])
def test_lines_for_names_that_the_block_never_gets_change_nothing(line, seen):
    text = OPEN + f"x.example {{\n {line}\n forward . 10.0.0.1\n}}\n"
    found = verdicts(of(configmap("coredns", Corefile=text))[0])
    judged = next(t.strip() for t in line.splitlines() if t.strip().startswith(("rewrite ttl", "template")))
    assert (found["Corefile", line_of(text, judged)] != "=") is seen


def test_all_differences_of_reverse_names_are_announced():
    text = OPEN.replace("in-addr.arpa ip6.arpa {", "in-addr.arpa {").replace("  fallthrough in-addr.arpa ip6.arpa\n", "") + "168.192.in-addr.arpa {\n forward . /etc/resolv.conf\n}\n"
    out = of(configmap("coredns", Corefile=text))[0]
    assert "does the same for ranges. kubedns also answers reverse names of the cluster's IPv6 addresses; CoreDNS does not. kubedns also answers the cluster's reverse names in" in out


@pytest.mark.parametrize("topology, mark", [("front", "="), ("classic", "~")])
def test_names_below_those_of_hosts_inside_a_stub_domain(topology, mark):
    text = OPEN + CORP + "a.corp.example {\n hosts {\n  10.0.0.5 x.a.corp.example\n  fallthrough\n }\n forward  . /etc/resolv.conf\n}\n"
    out = of(configmap("coredns", Corefile=text), flags=[f"--topology={topology}"])[0]
    assert verdicts(out)["Corefile", line_of(text, "forward  . /etc/resolv.conf")] == mark


def test_a_line_of_hosts_with_two_differences():
    text = in_root("template ANY ANY x.example {\n  rcode NXDOMAIN\n }", "hosts {\n  10.0.0.5 a.x.example www.corp.example\n  fallthrough\n }") + CORP
    assert re.search(r'without "www.corp.example": .*a template of this server block answers "a.x.example" before hosts does', of(configmap("coredns", Corefile=text))[0])


def test_a_root_block_that_forwards_only_some_names():
    out = of(configmap("coredns", Corefile=". {\n forward x.example 10.0.0.1\n}\n"))[0]
    assert "names that no line forwards go to the servers of the node's resolv.conf; CoreDNS with only this Corefile returns SERVFAIL for them" in out


def test_a_pattern_that_becomes_a_suffix_in_the_classic_topology():
    text = in_root("rewrite name regex (.*)\\.a\\.example {1}.shop.svc.cluster.local")
    out = of(configmap("coredns", Corefile=text), flags=["--topology=classic"])[0]
    assert "the answer has the name of the query, not the new name; CoreDNS also rewrote names that go on after the end of the pattern" in out


@pytest.mark.parametrize("name, near", [("rewirte", " (did you mean rewrite?)"), ("acme", "")])
def test_a_plugin_that_may_be_misspelt_gets_a_suggestion(name, near):
    out = of(configmap("coredns", Corefile=in_root(f"{name} name a.example b.example")))[0]
    assert f"not a plugin of CoreDNS's default build{near}: keep a small CoreDNS" in out


@pytest.mark.parametrize("name, suffix, any_character", [
    ("a\\.example", "a.example", False), ("a.example", "a.example", True), ("a\\.example\\.$", "a.example", False), ("a\\d\\.example", None, False), ("a[.]example", None, False)])  # fmt: skip
def test_in_the_classic_topology_a_suffix_is_only_what_the_pattern_says(name, suffix, any_character):
    out, data, _, _ = of(configmap("coredns", Corefile=in_root(f"rewrite name regex (.*)\\.{name} {{1}}.shop.svc.cluster.local")), flags=["--topology=classic"])
    assert data.get("rewrites", []) == ([f"suffix {suffix} shop.svc.cluster.local"] if suffix else [])
    assert ("a dot without a backslash matched any character in CoreDNS" in out) is any_character
    assert ("NO EQUIVALENT: no patterns in the classic topology" in out) is (suffix is None)


@pytest.mark.parametrize("topology, stub", [("front", False), ("classic", True)])
def test_a_template_for_a_stub_domain_itself(topology, stub):
    answer = '{\n  answer "{{ .Name }} 60 IN A 192.0.2.1"\n }'
    for text in in_corp(f"template IN A {answer}"), CLOSED[:-2] + f" template IN A x.example {answer}\n forward x.example 10.0.0.1\n}}\n":
        out = of(configmap("coredns", Corefile=text), flags=[f"--topology={topology}"])[0]
        assert ("the servers of the stub domain answer the zone's own name" in out) is stub


def test_a_template_below_a_stub_domain():
    text = CLOSED[:-2] + ' template IN A a.x.example {\n  answer "{{ .Name }} 60 IN A 192.0.2.1"\n }\n forward x.example 10.0.0.1\n}\n'
    assert "the servers of the stub domain answer" not in of(configmap("coredns", Corefile=text), flags=["--topology=classic"])[0]


@pytest.mark.parametrize("topology, silent", [("front", False), ("classic", True)])
def test_servers_in_order_that_all_fail(topology, silent):
    text = CLOSED[:-2] + " forward x.example 10.0.0.1 10.0.0.2 {\n  policy sequential\n }\n}\n"
    out, _, flags, _ = of(configmap("coredns", Corefile=text), flags=[f"--topology={topology}"])
    assert "--strict-order" in flags["dnsmasq"] and ("return SERVFAIL or REFUSED, clients get no reply" in out) is silent


@pytest.mark.parametrize("topology, cached", [("front", False), ("classic", True)])
def test_an_except_with_the_target_of_a_service(topology, cached):
    text = CLOSED[:-2] + " forward . 10.0.0.1 {\n  except x.example\n }\n}\n"
    out = of(configmap("coredns", Corefile=text), flags=[f"--topology={topology}"])[0]
    assert "these names get NXDOMAIN" in out and ("or NOERROR without records" in out) is cached


DENIED = "template ANY ANY %s {\n  rcode NXDOMAIN\n }"


@pytest.mark.parametrize("forward", ["forward b.corp.example 10.0.0.2", "forward b.corp.example 10.0.0.2 {\n  except a.b.corp.example\n }\n forward . 10.0.0.1"])
def test_a_forward_of_names_that_a_template_denies_has_no_servers(forward):
    text = OPEN + f"corp.example {{\n {DENIED % 'corp.example'}\n {forward}\n}}\n"
    out, data, flags, _ = of(configmap("coredns", Corefile=text))
    assert "stubDomains" not in data and flags["dnsmasq"] == ["--address=/corp.example/"]
    assert verdicts(out)["Corefile", line_of(text, forward)] == "="


def test_a_block_below_a_name_that_the_root_denies_keeps_the_node_s_servers():
    text = in_root(DENIED % "lab.example") + "deep.lab.example {\n forward . /etc/resolv.conf\n}\n"
    assert sorted(of(configmap("coredns", Corefile=text))[2]["dnsmasq"]) == ["--address=/lab.example/", "--server=/deep.lab.example/#"]


def test_a_block_below_a_stub_domain_uses_the_servers_of_all_other_names():
    text = CLOSED[:-2] + " forward . 10.0.0.9\n}\n" + CORP + "a.corp.example {\n forward . /etc/resolv.conf\n}\n"
    out, _, flags, _ = of(configmap("coredns", Corefile=text))
    assert flags["dnsmasq"] == ["--server=/a.corp.example/#"] and "names of this zone go to the servers of all other names" in out


def test_a_template_of_zones_of_which_the_block_has_one():
    text = in_corp(DENIED % "a.corp.example other.example")
    assert of(configmap("coredns", Corefile=text))[2]["dnsmasq"] == ["--address=/a.corp.example/"]


@pytest.mark.parametrize("body, mark, said", [
    ('match ^a\\.b\\.corp\\.example\\.$\n  answer "{{ .Name }} 60 IN A 192.0.2.1"', "~", True),
    ('match ^a\\.b\\.corp\\.example\\.$\n  answer "{{ .Name }} 60 IN A 192.0.2.1"\n  fallthrough other.example', "~", True),
    ('match ^a\\.b\\.corp\\.example\\.$\n  answer "{{ .Name }} 60 IN A 192.0.2.1"\n  fallthrough', "~", False),
    ('match ^ip-(.*)\n  answer "{{ .Name }} 60 IN A 10.0.0.{{ index .Match 1 }}"', "!", True),
    ('match .*\n  answer "{{ .Name }} 60 IN A 192.0.2.1"', "~", False),
])
def test_a_template_that_passes_no_other_name_on(body, mark, said):
    text = in_corp(f"template IN A {{\n  {body}\n }}")
    out = of(configmap("coredns", Corefile=text))[0]
    assert verdicts(out)["Corefile", line_of(text, "template IN A {")] == mark
    assert ("CoreDNS returns SERVFAIL for names that do not match, because the template has no fallthrough" in out) is said


@pytest.mark.parametrize("head, record, records, said", [
    ("IN ANY", "A 192.0.2.1", 2, "These names then have no records of other types; CoreDNS returned this record for all types"),
    ("IN ANY", "CNAME x.test.", 2, "For types other than A and AAAA, kubedns also looks up the target of the alias"),
    ("IN A", "CNAME x.test.", 2, "These names are then aliases for all types; CoreDNS looked other types up"),
    ("IN AAAA", "A 192.0.2.1", 0, "not translated"),
    ("IN A", 'A 192.0.2.1" "{{ .Name }} 60 IN A 192.0.2.2', 0, "it has more than one record"),
])
def test_the_types_of_a_template(head, record, records, said):
    out, data, _, _ = of(configmap("coredns", Corefile=in_root(f'template {head} x.example {{\n  answer "{{{{ .Name }}}} 60 IN {record}"\n }}')))
    assert len(data.get("records", [])) == records and said in out


@pytest.mark.parametrize("head", ["IN A x.example", "IN AAAA ."])
def test_a_condition_of_coredns_1_15_is_not_ignored(head):
    out, data, flags, _ = of(configmap("coredns", Corefile=in_root(f'template {head} {{\n  answer "{{{{ .Name }}}} 60 IN A 192.0.2.1"\n  expr client_ip() startsWith "10."\n }}')))
    assert "records" not in data and "--filter-aaaa=on" not in flags["kubedns"]
    assert "NO EQUIVALENT: not translated: it has an option that kubedns does not have" in out


def test_a_rewrite_with_metadata_is_not_another_rewrite():
    out, data, _, _ = of(configmap("coredns", Corefile=in_root("rewrite name regex (.*)\\.x\\.example {1}.{/kubernetes/client-namespace}.svc.cluster.local metadata answer auto")))
    assert "rewrites" not in data and "NO EQUIVALENT: no rewrites of this kind" in out


@pytest.mark.parametrize("through, mark", [("\n  fallthrough", "="), ("", "!")])
def test_a_pattern_of_names_that_the_block_never_gets(through, mark):
    text = in_root(f'template IN A {{\n  match ^a\\.corp\\.example\\.$\n  answer "{{{{ .Name }}}} 60 IN A 192.0.2.1"{through}\n }}') + CORP
    assert verdicts(of(configmap("coredns", Corefile=text))[0])["Corefile", line_of(text, "template IN A {")] == mark


@pytest.mark.parametrize("ttl, record", [("60 IN ", "60 A 192.0.2.1"), ("IN 60 ", "60 A 192.0.2.1"), ("IN ", "3600 IN A 192.0.2.1"), ("", "3600 A 192.0.2.1")])
def test_an_answer_without_a_ttl_has_that_of_coredns(ttl, record):
    data = of(configmap("coredns", Corefile=in_root(f'template IN A x.example {{\n  answer "{{{{ .Name }}}} {ttl}A 192.0.2.1"\n }}')))[1]
    assert data["records"][0].replace("IN ", "") == f"x.example. {record}".replace("IN ", "")


@pytest.mark.parametrize("cache, ttl, flag", [("cache 30", 0, "--ttl=5"), ("cache 30 {\n  success 100 30 0\n }", 0, "--ttl=0"), ("cache 30 {\n  success 100 30 10\n }", 7, "--ttl=10"),
                                              ("cache 30 x.example", 0, "--ttl=0"), ("errors", 0, "--ttl=0"), ("cache 20", 60, "--ttl=20")])
def test_coredns_s_cache_raises_and_limits_ttls(cache, ttl, flag):
    text = in_root(cache).replace("ttl 30", f"ttl {ttl}")
    assert flag in of(configmap("coredns", Corefile=text))[2]["kubedns"]


@pytest.mark.parametrize("directive, said", [('template IN A x.example {\n  answer "{{ .Name }} 0 IN A 192.0.2.1"\n }', "CoreDNS's cache raises the TTL to 5 s"),
                                             ("file db.b x.example", "CoreDNS's cache raises them to 5 s")])
def test_coredns_s_cache_raises_ttls_of_other_names(directive, said):
    for cache, raised in ("cache 3600", True), ("errors", False):
        out = of(configmap("coredns", Corefile=in_root(cache, directive), db__b="$TTL 1\n" + ZONE))[0]
        assert (said in out) is raised and ("raises TTLs below 5 s" in out) is raised


def test_a_wildcard_does_not_cover_a_name_with_a_template_for_the_names_below_it():
    below = ANSWER.replace("{\n", "{\n  match .*\\.b\\.x\\.example\\.$\n  fallthrough\n", 1)
    text = in_root(f"template IN A {below}", f"template IN A x.example {ANSWER}")
    assert 'does not cover other names in "b.x.example"' in of(configmap("coredns", Corefile=text))[0]
    text = in_root(f"template IN A {below}", "file db.b x.example")
    assert '"b.x.example" then exists in the zone of the file' in of(configmap("coredns", Corefile=text, db__b=ZONE))[0]


@pytest.mark.parametrize("match", [".*\\.x\\.example$", "^(.*\\.)?x\\.example$", "^a\\.x\\.example$", "^a-([0-9]*)[.]x[.]example$", "(^|\\.)x\\.example$ ^x$"])
@pytest.mark.parametrize("through, mark", [("\n  fallthrough", "="), ("", "~")])
def test_a_template_whose_patterns_match_no_name(match, through, mark):
    """CoreDNS compares names with a final dot. Without fallthrough, it returns SERVFAIL for all names of the template."""
    text = in_root(f'template IN A x.example {{\n  match {match}\n  answer "{{{{ .Name }}}} 60 IN A 192.0.2.1"{through}\n }}', "hosts {\n  10.0.0.5 a.x.example\n  fallthrough\n }")
    out, data, _, _ = of(configmap("coredns", Corefile=text))
    assert "records" not in data and verdicts(out)["Corefile", line_of(text, "template IN A x.example {")] == mark
    assert ("CoreDNS returns SERVFAIL for names that do not match" in out) is (mark == "~") and "In CoreDNS, a template" not in out


def test_a_template_with_several_patterns():
    out, data, _, _ = of(configmap("coredns", Corefile=in_root('template IN A {\n  match ^a\\.x\\.test\\.$ ^b\\.x\\.test\\.$\n  answer "{{ .Name }} 60 IN A 192.0.2.1"\n  fallthrough\n }')))
    assert "records" not in data and "NO EQUIVALENT: not translated: it has several patterns" in out


def test_a_denial_with_a_record_in_another_section():
    text = in_root('template ANY ANY x.example {\n  rcode NXDOMAIN\n  authority "x.example. 60 IN SOA ns.x.example. host.x.example. 1 60 60 60 60"\n }')
    out, _, flags, _ = of(configmap("coredns", Corefile=text))
    assert flags["dnsmasq"] == ["--address=/x.example/"] and "the answer has no record in other sections" in out


@pytest.mark.parametrize("first, second, said", [
    (DENIED % "a.x.example", f"template IN A x.example {ANSWER}", True),
    (DENIED % "x.example", f"template IN A a.x.example {ANSWER}", True),
    (f"template IN A x.example {ANSWER}", f"template IN A a.x.example {ANSWER}", True),
    (f"template IN A x.example {ANSWER}", DENIED % "x.example", True),
    (f"template IN A a.x.example {ANSWER}", f"template IN A x.example {ANSWER}", False),
    (DENIED % "a.x.example", DENIED % "x.example", False),
    (f"template IN A x.example {ANSWER}", "template IN AAAA x.example {\n  answer \"{{ .Name }} 60 IN AAAA 2001:db8::1\"\n }", False),
    (f"template IN A x.example {ANSWER}", f"template IN A y.example {ANSWER}", False),
])
def test_templates_with_the_same_names(first, second, said):
    text = in_root(first, second)
    out = of(configmap("coredns", Corefile=text))[0]
    assert (f"the template in line {line_of(text, first)} has some of these names too" in out) is said


@pytest.mark.parametrize("rcode, zone, mark", [("NOERROR", "x.example", "="), ("NOERROR", "a.x.example", "="), ("NXDOMAIN", "x.example", "~"), ("NOERROR", "example", "!"), ("REFUSED", "x.example", "!")])
def test_a_template_without_records_for_names_of_another(rcode, zone, mark):
    empty = f"template IN AAAA {zone} {{\n  rcode {rcode}\n }}"
    text = in_root(f"template IN A x.example {ANSWER}", empty)
    assert verdicts(of(configmap("coredns", Corefile=text))[0])["Corefile", line_of(text, empty)] == mark


@pytest.mark.parametrize("topology", ["front", "classic"])
def test_names_of_a_template_that_another_forward_has(topology):
    text = OPEN + f"corp.example {{\n template IN A corp.example {ANSWER}\n %s\n}}\n"
    for forwards, said in (("forward b.corp.example 10.0.0.2\n forward . 10.0.0.1", True), ("forward . 10.0.0.1 {\n  except b.corp.example\n }\n forward . 10.0.0.2", True),
                           ("forward . 10.0.0.1\n forward b.corp.example 10.0.0.2", False)):  # fmt: skip
        out = of(configmap("coredns", Corefile=text % forwards), flags=[f"--topology={topology}"])[0]
        assert ('names in "b.corp.example" go to the servers of another forward' in out) is said


@pytest.mark.parametrize("line", ["hosts {\n  10.0.0.5 a.b.x.example\n  fallthrough\n }", f"template IN A a.b.x.example {ANSWER}", "file db.b a.b.x.example"])
def test_an_empty_name_in_the_zone_of_a_file(line):
    for zone, said in ("x.example", True), ("b.x.example", False), ("a.b.x.example", False), ("y.example", False):
        text = in_root(f"file db.b {zone}", line)
        assert ('"b.x.example" then exists in the zone of the file in line' in of(configmap("coredns", Corefile=text, db__b=ZONE))[0]) is said
    assert "then exists in the zone of the file" not in of(configmap("coredns", Corefile=in_root("file db.none x.example", line), db__b=ZONE))[0]


@pytest.mark.parametrize("zone, said", [("a.b.example", True), ("b.example", False)])
def test_names_beside_the_zone_of_another_block_that_no_wildcard_covers(zone, said):
    hosts = f"{zone} {{\n hosts {{\n  10.0.0.5 x.{zone}\n  fallthrough\n }}\n forward . 10.0.0.1\n}}\n"
    for line, sentence in (f"template IN A example {ANSWER}", 'does not cover other names in "b.example"'), ("file db.b example", '"b.example" then exists in the zone'):
        assert (sentence in of(configmap("coredns", Corefile=in_root(line) + hosts, db__b=ZONE))[0]) is said


@pytest.mark.parametrize("topology, pierced", [("front", False), ("classic", True)])
def test_names_that_an_except_denies(topology, pierced):
    one = ANSWER.replace("{\n", "{\n  match ^a\\.x\\.example\\.$\n  fallthrough\n", 1)
    for line in "hosts {\n  10.0.0.5 a.x.example\n  fallthrough\n }", f"template IN A {one}":
        text = CLOSED[:-2] + f" {line}\n forward . 10.0.0.1 {{\n  except x.example\n }}\n}}\n"
        out = of(configmap("coredns", Corefile=text), flags=[f"--topology={topology}"])[0]
        assert "these names get NXDOMAIN" in out and ("but not names below those of hosts, rewrite and template" in out) is pierced


@pytest.mark.parametrize("text, line, mark, said", [
    (OPEN + CORP[:-2] + ' template IN A {\n  match ^ip-(.*)-1\n  answer "{{ .Name }} 60 IN A 10.0.0.{{ index .Match 1 }}"\n }\n}\n', "template IN A {", "!",
     "not translated: the answer depends on the query, or the pattern is not a name. These names are looked up like any other name; CoreDNS answered A queries for names in corp.example that match ^ip-(.*)-1; "
     "CoreDNS returns SERVFAIL for names that do not match"),
    (OPEN + CORP[:-2] + " template ANY ANY {\n  match ^x[0-9]\n  rcode NXDOMAIN\n }\n}\n", "template ANY ANY {", "~", "CoreDNS answered all queries for names in corp.example that match ^x[0-9]"),
    (OPEN + CORP[:-2] + ' template IN A {\n  answer "{{ .Name }} 60 IN A 10.0.0.1"\n }\n}\n', "template IN A {", "~",
     "key records, for names in corp.example. These names then have no records of other types; CoreDNS looked them up"),
    (in_root("any"), "any", "~", "ANY queries for external names go to the upstream servers"),
    (in_root("nsid here"), "nsid here", "=", "--server-id=here"),
    (in_root("nsid"), "nsid", "=", ""),
    (in_corp("nsid here"), "nsid here", "~", "the text is the pod's name, or that of --server-id, for all names"),
    (in_root("local"), "local", "~", "dnsmasq answers localhost itself, with a TTL of 0. It sends localhost.DOMAIN"),
    (in_root("autopath @kubernetes").replace("pods insecure", "pods verified"), "autopath @kubernetes", "~", "clients send one query for a name instead of four"),
    (in_root("autopath @kubernetes").replace("pods insecure", "pods verified"), "autopath @kubernetes", "~", "only for types A and AAAA, and for names with a dot"),
    (in_root("autopath @kubernetes"), "autopath @kubernetes", "=", "autopath @kubernetes (no effect in CoreDNS)"),
    (in_root("autopath /etc/resolv.conf"), "autopath /etc/resolv.conf", "~", "took the list from a file"),
    (in_root("acl {\n  block\n }"), "acl {", "!", "until you act, every client that reaches the Service gets answers for all names, also external ones"),
    (in_root("cache 30 corp.example x.test"), "cache 30 corp.example x.test", "~", "CoreDNS cached only names in corp.example, x.test, and queried the servers for each query for another name"),
    (in_corp("cache 20"), "cache 20", "~", "CoreDNS limits the TTLs of the names in this server block to 20 s"),
    (in_corp("dns64"), "dns64", "!", "CoreDNS made AAAA records from A records for names in corp.example."),
])
def test_the_report_says_what_a_directive_did_and_what_happens_now(text, line, mark, said):
    out = of(configmap("coredns", Corefile=text))[0]
    assert verdicts(out)["Corefile", line_of(text, line)] == mark and said in out


def test_all_names_that_a_template_answers_before_hosts_are_named():
    out = of(configmap("coredns", Corefile=in_root("template ANY ANY x.example {\n  rcode NXDOMAIN\n }", "hosts {\n  10.0.0.5 a.x.example b.example c.x.example\n  fallthrough\n }")))[0]
    assert 'answers "a.x.example", "c.x.example" before hosts does' in out


@pytest.mark.parametrize("topology, flag", [("front", True), ("classic", False)])
def test_the_text_of_nsid(topology, flag):
    out, _, flags, _ = of(configmap("coredns", Corefile=in_root("nsid my pod")), flags=[f"--topology={topology}"])
    assert ("--server-id=my pod" in flags["kubedns"]) is flag and ("answers have no option NSID" in out) is not flag


def test_a_log_with_a_variable_that_is_not_set_has_no_flag():
    for log in ("log {$UNSET}", "log {\n  class {$UNSET}\n }"):
        out, _, flags, _ = of(configmap("coredns", Corefile=in_root(log)))
        assert not [f for f in flags["kubedns"] if "log" in f]
    _, _, flags, _ = of(configmap("coredns", Corefile=in_root("log {$UNSET}") + CORP[:-2] + " log\n}\n"))
    assert "--log-queries=name=corp.example" in flags["kubedns"]


def test_a_ttl_of_hosts_that_is_the_cluster_s():
    text = in_corp("hosts {\n  10.0.0.5 a.corp.example\n  ttl 30\n  fallthrough\n }")
    assert verdicts(of(configmap("coredns", Corefile=text))[0])["Corefile", text.count("\n", 0, text.rindex("ttl 30")) + 1] == "="


def test_a_pattern_of_the_root_s_block_is_not_for_other_blocks():
    data = of(configmap("coredns", Corefile=in_root("rewrite name regex ^a\\.(.*)\\.$ {1}") + CORP))[1]
    assert data["rewrites"] == ["regex (?!(?:.*\\.)?(?:corp\\.example)$)a\\.(.*) {1}"]


@pytest.mark.parametrize("blocks", [
    CORP + "a.corp.example {\n forward . /etc/resolv.conf\n}\n",
    "corp.example {\n forward . 10.0.0.1 {\n  except a.corp.example\n }\n forward . /etc/resolv.conf\n}\n",
])
def test_external_names_inside_a_stub_domain_go_to_the_node_s_servers(blocks):
    _, data, flags, _ = of(configmap("coredns", Corefile=OPEN + blocks))
    assert data == {"stubDomains": {"corp.example": ["10.0.0.1"]}} and "--server=/a.corp.example/#" in flags["dnsmasq"]


@pytest.mark.parametrize("option, stub", [("", None), (" {\n  fallthrough\n }", {"corp.example": ["10.0.0.1"]})])
def test_a_zone_that_file_answers_is_no_stub_domain(option, stub):
    """In the classic topology, dnsmasq would send the zone's names to the servers of the stub domain."""
    zone = "@ IN SOA ns host 1 3600 600 86400 60\n@ IN NS ns\nns IN A 10.0.0.53\n"
    data = of(configmap("coredns", Corefile=in_corp(f"file db.corp corp.example{option}"), db__corp=zone))[1]
    assert data.get("stubDomains") == stub and "records" in data


@pytest.mark.parametrize("topology, mark", [("front", "~"), ("classic", "=")])
def test_reverse_names_in_a_stub_domain(topology, mark):
    """The servers of the stub domain answer the cluster's reverse names, as in CoreDNS. In front, kubedns answers those of hosts."""
    text = in_root("hosts {\n  10.0.0.5 a.example\n  fallthrough\n }") + "10.in-addr.arpa {\n forward . 10.0.0.1\n}\n"
    found = verdicts(of(configmap("coredns", Corefile=text), flags=[f"--topology={topology}"])[0])
    assert found["Corefile", 2] == "=" and found["Corefile", line_of(text, "10.0.0.5 a.example")] == mark


@pytest.mark.parametrize("topology, mark", [("front", "="), ("classic", "~")])
def test_names_below_those_of_hosts_are_not_denied_in_the_classic_topology(topology, mark):
    text = in_root("template ANY ANY gone.example {\n  rcode NXDOMAIN\n }", "hosts {\n  10.0.0.5 a.gone.example\n  fallthrough\n }")
    out = of(configmap("coredns", Corefile=text), flags=[f"--topology={topology}"])[0]
    assert verdicts(out)["Corefile", line_of(text, "template ANY ANY gone.example {")] == mark


def test_a_zone_file_above_the_zone_of_another_block():
    zone = "@ IN SOA ns host 1 3600 600 86400 60\n@ IN NS ns\nns IN A 10.0.0.53\n"
    out = of(configmap("coredns", Corefile=in_root("file db.example example") + CORP, db__example=zone))[0]
    assert "names in zones of other server blocks below this zone get the answers of this zone" in out


def test_a_second_domain_is_a_rewrite():
    out, data, _, _ = of(configmap("coredns", Corefile=OPEN.replace("cluster.local", "prod.example cluster.local")))
    assert data == {"rewrites": ["suffix cluster.local prod.example"]} and "gives the same names to cluster.local" in out


@pytest.mark.parametrize("server, said", [
    ("127.0.0.1:5353", "unencrypted, to the servers of the node's resolv.conf"), ("https://10.0.0.1", "unencrypted, to the servers of the node's resolv.conf"),
    ("10.0.0.2 tls://10.0.0.1", "to the other servers of this line"),
])
def test_the_consequence_until_the_reader_acts(server, said):
    out = of(configmap("coredns", Corefile=OPEN.replace("/etc/resolv.conf", server)))[0]
    assert f"Until then these queries go {said}" in out


def test_an_import_without_a_match_in_the_custom_configmap():
    corefile = OPEN[:-2] + " import custom/*.override\n}\n"
    assert "no file here matches" in of(configmap("coredns", Corefile=corefile))[0]
    assert "no file here matches" not in of(configmap("coredns", Corefile=corefile), configmap("coredns-custom", a__server="b.example {\n forward . 10.0.0.1\n}\n"))[0]


@pytest.mark.parametrize("topology, said", [("front", "a TTL of 5 s"), ("classic", "--negative-ttl=0 in the manifest")])
def test_negative_answers_in_each_topology(topology, said):
    assert said in of(configmap("coredns", Corefile=OPEN[:-2] + " cache {\n  denial 100\n }\n}\n"), flags=[f"--topology={topology}"])[0]


def test_localhost_with_unbound_needs_a_step():
    out = of(configmap("coredns", Corefile=CLOSED[:-2] + " local\n forward . tls://192.0.2.53 {\n  tls_servername dns.example\n }\n}\n"))[0]
    assert "NO EQUIVALENT: unbound does not answer localhost itself" in out


def test_the_report_begins_with_what_needs_the_reader():
    out = of(configmap("coredns", Corefile=OPEN[:-2] + " cache 30\n erratic\n erratic\n}\n"))[0]
    words = re.findall(r"^#     (NO EQUIVALENT|changes)|^# (carried over), |^# (Steps)", out, re.M)
    assert ["".join(w) for w in words] == ["NO EQUIVALENT", "changes", "carried over", "Steps"]
    assert "Corefile:9, 10: erratic; erratic\n" in out


def test_federations_are_printed():
    assert of(configmap("kube-dns", federations="f=f.example,g=g.example"))[1] == {"federations": ["f=f.example,", "g=g.example"]}
    assert of(configmap("coredns", Corefile=OPEN[:-2] + " federation cluster.local {\n  f f.example\n }\n}\n"))[1] == {"federations": ["f=f.example,"]}


@pytest.mark.parametrize("value", ["[null]", '{"a": 1}', '[["8.8.8.8"]]', "nonsense", '["8.8.8.8"', '["127.0.0.1:x"]'])
def test_a_wrong_key_of_kube_dns_is_left_out(value):
    out, data, _, _ = of(configmap("kube-dns", upstreamNameservers=value, stubDomains='{"a.example": ["10.0.0.1", "ns.example:5353"]}'))
    assert data == {"stubDomains": {"a.example": ["10.0.0.1", "ns.example:5353"]}} and re.search(r"upstreamNameservers\n#     NO EQUIVALENT: left out", out)


def test_flags_that_a_sentence_names_are_printed():
    corefile = OPEN[:-2] + " autopath @kubernetes\n dnstap unix:///run/dnstap.sock full\n cache 30\n}\n"
    _, _, flags, _ = of(configmap("coredns", Corefile=corefile.replace("ttl 30", "ttl 30\n  pods verified")))
    assert sorted(flags["kubedns"]) == ["--dnstap=unix:/run/dnstap.sock", "--pods=verified", "--reverse-all-endpoints", "--search-completion=inferred"]
    assert flags["dnsmasq"] == ["--max-cache-ttl=30"]
    assert of(configmap("coredns", Corefile=corefile.replace("unix:///run/dnstap.sock", "tcp://10.0.0.9:6000")))[2]["kubedns"][-1] == "--dnstap=tcp:10.0.0.9:6000"


@needs_kubectl
def test_pods_verified_gets_its_right(tmp_path):
    out, _, _, overlay = of(configmap("coredns", Corefile=OPEN.replace("ttl 30", "pods verified")))
    made = copy(tmp_path)
    (made / "mine").mkdir()
    (made / "mine/kustomization.yaml").write_text(yaml.safe_dump(overlay))
    role = next(o for o in read_all(kustomize(made, made / "mine")) if o and o["kind"] == "ClusterRole")
    rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]}
    assert rule in role["rules"] and list(read_all(out))[-1]["extraRules"] == [rule]


def test_names_of_a_zone_s_block_stay_in_the_zone():
    """CoreDNS passes a query to the block of its zone only. The block's hosts, rewrites and templates do not affect other names."""
    block = """a.example {
 hosts {
  10.0.0.1 x.a.example csghub other.example
  fallthrough
 }
 rewrite name exact other.example y.a.example
 rewrite name exact z.a.example web.default.svc.cluster.local
 rewrite name regex (.*)\\.old {1}.new
 template IN A b.example {
  answer "{{ .Name }} 60 IN A 10.0.0.2"
 }
 forward . 10.0.0.53
}
"""
    out, data, _, _ = of(configmap("coredns", Corefile=OPEN + block))
    assert data["hosts"] == ["10.0.0.1 x.a.example"] and 'without "csghub", "other.example": not below this server block' in out
    assert data["rewrites"] == ["exact z.a.example web.default.svc.cluster.local", r"regex (?=(?:.*\.)?(?:a\.example)$).*(.*)\.old.* {1}.new".replace(".*(.*)", "(.*)")]
    assert "records" not in data
    assert "rewrite name exact other.example y.a.example (no effect in CoreDNS)" in out
    assert re.search(r"rewrite name exact z.a.example .*\n#     changes: .*CoreDNS sends it to this block's servers", out)


@pytest.mark.parametrize("match, names", [
    (r".*\.example\.com", ["*.example.com."]), (r"^(.*)\.example\.com\.$", ["*.example.com."]), (r"(.+)[.]example[.]com[.]?$", ["*.example.com."]),
    (r"(^|[.])example[.]com[.]$", ["example.com.", "*.example.com."]), (r"^db\.example\.com\.$", ["db.example.com."]),
    (r"^a[0-9]\.example\.com\.$", None), (r"example\.com", None), (r".*\.(a|b)\.example\.com", None),
])
def test_a_template_with_a_simple_match_and_a_constant_answer(match, names):
    out, data, _, _ = of(configmap("coredns", Corefile=OPEN[:-2] + f' template IN A {{\n  match "{match}"\n  answer "{{{{ .Name }}}} 60 IN A 10.0.0.2"\n }}\n}}\n'))
    assert data == ({"records": [f"{n} 60 IN A 10.0.0.2" for n in names]} if names else {})
    assert names or "NO EQUIVALENT: not translated: the answer depends on the query" in out


def test_a_file_of_hosts_by_a_relative_name(tmp_path):
    (tmp_path / "Corefile").write_text(OPEN[:-2] + " hosts my.hosts {\n  fallthrough\n }\n}\n")
    assert re.search(r"hosts my.hosts\n#     NO EQUIVALENT: the file is not here", migrate(tmp_path / "Corefile")[1])
    (tmp_path / "my.hosts").write_text("10.0.0.1 a.example\n")
    assert printed(migrate(tmp_path / "Corefile")[1])[0] == {"hosts": ["10.0.0.1 a.example"]}
    (tmp_path / "my.hosts").write_bytes(b"10.0.0.1 a.example\n\0\n10.0.0.2 b.example")  # lines after a NUL byte; the last line has no newline
    assert printed(migrate(tmp_path / "Corefile")[1])[0] == {"hosts": ["10.0.0.1 a.example", "10.0.0.2 b.example"]}


def test_reverse_names_of_a_zone_s_hosts_are_said():
    corefile = OPEN + "a.example {\n hosts {\n  10.0.0.1 x.a.example\n  fallthrough\n }\n forward . 10.0.0.53\n}\n"
    assert re.search(r"\bhosts\n#     changes: the ConfigMap's key hosts, with which kubedns also answers the reverse names", of(configmap("coredns", Corefile=corefile))[0])


def test_hosts_without_fallthrough_say_what_coredns_says():
    assert "CoreDNS returns SERVFAIL for them" in of(configmap("coredns", Corefile=OPEN[:-2] + " hosts {\n  10.0.0.1 a.example\n }\n}\n"))[0]


def test_a_newline_in_the_file_s_name_stays_in_the_comment(tmp_path):
    path = tmp_path / "Core\nkind: Secret\nfile"
    path.write_text(OPEN)
    code, out, err = migrate(path)
    assert code == 0, err
    assert [d.get("kind") for d in read_all(out) if d] == ["Kustomization", None]


def test_a_pipe_that_is_imported_is_no_file(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "Corefile").write_text(". {\n import pipe\n forward . 10.0.0.1\n}\n")
    code, out, err = migrate(tmp_path / "Corefile")
    assert code == 0 and "pipe: Invalid argument" in err and "no such file here" in out


def test_more_imported_files_than_are_read_are_an_error(tmp_path):
    for i in range(1001):
        (tmp_path / f"{i}.server").write_text(f"z{i}.example {{\n forward . 10.0.0.1\n}}\n")
    (tmp_path / "Corefile").write_text("import *.server\n")
    code, out, err = migrate(tmp_path / "Corefile")
    assert code == 2 and out == "" and "Corefile:1: import *.server: more than 1000 files" in err
    (tmp_path / "0.server").unlink()
    assert len(printed(migrate(tmp_path / "Corefile")[1])[0]["stubDomains"]) == 1000


def test_all_namespaces_are_in_the_flag():
    names = [f"namespace-{i}" for i in range(300)]
    _, _, flags, _ = of(configmap("coredns", Corefile=OPEN.replace("ttl 30", f"ttl 30\n  namespaces {' '.join(names)}")))
    assert flags["kubedns"] == ["--reverse-all-endpoints", "--namespaces=" + ",".join(names)]


ROOT_BLOCK = ". {\n kubernetes cluster.local\n forward . 10.0.0.1 {\n  %s\n }\n}\n"
GROWING = {
    "except": lambda n: ROOT_BLOCK % ("except " + " ".join(f"z{i}.example" for i in range(n))),
    "excepts": lambda n: "corp.example {\n" + " forward corp.example 10.0.0.1 {\n  except a.corp.example\n }\n" * (n // 6) + "}\n",
    "excepts of the root": lambda n: ". {\n" + " forward . 10.0.0.1 {\n  except a.corp.example\n }\n" * (n // 6) + "}\n",
    "transfer": lambda n: ". {\n transfer {\n  to " + " ".join(f"10.{i >> 16}.{i >> 8 & 255}.{i & 255}" for i in range(n)) + "\n }\n}\n",
    "fallthrough": lambda n: ". {\n kubernetes cluster.local {\n  fallthrough " + " ".join(f"z{i}.cluster.local" for i in range(n)) + "\n }\n}\n",
    "external": lambda n: ". {\n k8s_external " + " ".join(f"z{i}.example" for i in range(n)) + "\n}\n",
    "template": lambda n: ". {\n template ANY ANY " + " ".join(f"z{i}.example" for i in range(n)) + " {\n  rcode NXDOMAIN\n }\n}\n",
    "labels": lambda n: ". {\n kubernetes cluster.local {\n  namespace_labels " + " ".join(f"label-{i}=x," for i in range(n)) + "\n }\n}\n",
    "multicluster": lambda n: ". {\n kubernetes cluster.local " + " ".join(f"z{i}.example" for i in range(n)) + " {\n  multicluster "
                              + " ".join(f"m{i}.example" for i in range(n)) + "\n }\n}\n",
    "zones and servers": lambda n: " ".join(f"z{i}.example" for i in range(n)) + " {\n forward . " + " ".join(["wrong"] * n) + "\n}\n",
    "zones and hosts": lambda n: " ".join(f"z{i}.example" for i in range(n)) + " {\n hosts {\n  10.0.0.1 " + " ".join(f"h.z{i}.example" for i in range(n)) + "\n }\n}\n",
    "snippets": lambda n: "".join(f"(s{i}) {{\n errors\n}}\n" for i in range(min(n, 1000))) + ". {\n" + "".join(f" import s{i % min(n, 1000)}\n" for i in range(n)) + "}\n",
}


@pytest.mark.parametrize("kind", GROWING)
def test_time_is_linear_in_the_words(tmp_path, kind):
    """
    With four times as many words, the program may use six times as much CPU time, plus 0.2 s for startup and noise. Quadratic time would be
    16 times as long.
    """
    def cost(n):
        (tmp_path / f"{n}.corefile").write_text(GROWING[kind](n))
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        p = subprocess.run([MIGRATE, tmp_path / f"{n}.corefile"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=120)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert p.returncode == 0, p.stderr
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    n = 12000 if kind in ("fallthrough", "labels") else 5000  # for this input, quadratic copying of strings is measurable only with more words
    least = min(cost(n) for _ in range(3))
    assert any(cost(4 * n) < 6 * least + 0.2 for _ in range(3))
