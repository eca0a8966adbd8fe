"""kubedns-migrate over Corefiles as clusters have them, and over what kubectl prints.

tests/migrate/NAME.corefile is a case: behind each line stands what is to become of it (#= carried over, #~ changes, #! no equivalent,
more than one where the line gets more than one verdict), and lines that begin with #: say what has to be printed.
"""

import json
import os
import pathlib
import re
import shlex
import subprocess

import pytest
import yaml

from test_chart import SETTINGS, objects
from test_chart import pytestmark as needs_helm
from test_manifests import copy, needs_kubectl

ROOT = pathlib.Path(__file__).resolve().parents[2]
KUBEDNS = pathlib.Path(os.environ.get("BUILD", ROOT / "build")) / "bin/kubedns"
MIGRATE = KUBEDNS.with_name("kubedns-migrate")
CASES = ROOT / "tests/migrate"
NAMES = sorted(p.stem for p in CASES.glob("*.corefile"))
MARKS = {"carried over": "=", "changes": "~", "NO EQUIVALENT": "!"}
TEXT_KEYS = ("hosts", "records", "rewrites")
ENVIRONMENT = {**os.environ, "DNS_ZONE": ".", "DNS_UPSTREAM": "192.0.2.53"}


def migrate(path, text=None):
    p = subprocess.run([MIGRATE, path], input=text, capture_output=True, text=True, env=ENVIRONMENT, timeout=30)
    return p.returncode, p.stdout, p.stderr


def verdicts(out):
    """{(file, line): marks} of a report."""
    found = {}
    for place, verdict in re.findall(r"^# (\S+:\d+): .*\n#     ([a-zA-Z ]+): ", out, re.M):
        file, line = place.rsplit(":", 1)
        found.setdefault((file, int(line)), set()).add(MARKS[verdict])
    return {place: "".join(sorted(marks)) for place, marks in found.items()}


def value_of(key, value):
    """What a key of the ConfigMap says: JSON, or lines."""
    return value.splitlines() if key in TEXT_KEYS else json.loads(value)


def printed(out):
    """What is to be applied: the ConfigMap's keys, and the flags of each container in the kustomization."""
    documents = [d for d in yaml.safe_load_all(out) if d]
    data = next((d["data"] for d in documents if d.get("kind") == "ConfigMap"), {})
    overlay = next(d for d in documents if d.get("kind") == "Kustomization")
    patches = yaml.safe_load(overlay["patches"][0]["patch"]) if "patches" in overlay else []
    flags = {"kubedns": [], "dnsmasq": []}
    for p in patches:
        if p["op"] != "test":
            flags[["kubedns", "dnsmasq"][int(p["path"].split("/")[5])]].append(p["value"])
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
    data, flags, _ = printed(out)
    assert data == {k: said[k].split("; ") if k in TEXT_KEYS else json.loads(said[k])
                    for k in ("stubDomains", "upstreamNameservers", *TEXT_KEYS) if k in said}  # fmt: skip
    for program in flags:
        assert sorted(flags[program]) == sorted(shlex.split(said.get(program, ""))), program
    if "domain" in said:
        assert f"clusterDomain: {said['domain']}," in out


def test_a_case_for_every_plugin_of_the_default_build():
    """CoreDNS 1.14.7's plugin.cfg, by name."""
    plugins = """root metadata geoip cancel proxyproto quic grpc_server https https3 timeouts multisocket reload nsid bufsize bind debug trace
        ready health pprof shed prometheus errors log dnstap local dns64 any chaos loadbalance tsig rewrite autopath acl cache header dnssec
        tls minimal template transfer hosts route53 azure clouddns k8s_external kubernetes file auto secondary etcd loop forward grpc
        erratic whoami on sign view nomad""".split()
    text = "".join(f"{p}\n" for p in plugins)
    code, out, _ = migrate("-", ". {\n" + text + "}\n")
    assert code == 0 and "not a plugin of CoreDNS's default build" not in out
    assert len(verdicts(out.replace("(standard input)", "stdin"))) == len(plugins) + 1
    used = {line.split()[0] for p in CASES.glob("*.corefile") for line in p.read_text().splitlines() if line.split()}
    assert not set(plugins) - used


def test_no_secret_is_printed():
    text = """. {
        tsig {
            secret axfr.example. HIDDEN1
            secret axfr.example. HIDDEN2 HIDDEN3
            secret
            Secret axfr.example. HIDDEN10
        }
        azure {
            secret HIDDEN4
        }
        route53 {
            aws_access_key HIDDEN5 HIDDEN6
        }
        etcd {
            credentials reader HIDDEN7
        }
        netbox {
            token HIDDEN8
        }
        redisc {
            password "HIDDEN9 more"
        }
    }
    example.org {
        tsig secret axfr.example. HIDDEN11
    }"""
    code, out, err = migrate("-", text)
    assert code == 0 and "HIDDEN" not in out + err
    assert re.search(r"3: secret axfr.example. \(not printed\)\n#     changes: as a line NAME ALGORITHM SECRET of the file of --transfer-key", out)
    assert "tsig secret axfr.example. (not printed)\n" in out
    assert "credentials reader (not printed)\n" in out and re.search(r"5: secret\n", out)


@needs_kubectl
@pytest.mark.parametrize("name", NAMES)
def test_what_is_printed_can_be_applied(tmp_path, name):
    """The kustomization renders, kubedns takes its flags and dnsmasq takes its own."""
    data, flags, overlay = printed(migrate(CASES / f"{name}.corefile")[1])
    made = copy(tmp_path)
    (made / "mine").mkdir()
    (made / "mine/kustomization.yaml").write_text(yaml.safe_dump(overlay))
    (tmp_path / "config").mkdir()
    for key in set(data) & set(TEXT_KEYS):
        (tmp_path / "config" / key).write_text("\n".join(data[key]))
    (tmp_path / "objects").mkdir()
    (tmp_path / "objects/namespaces.yaml").write_text(yaml.safe_dump_all(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": n}} for n in ("default", "prod", "staging")))
    rendered = render_overlay(made)
    args = {c["name"]: c["args"] for c in rendered["spec"]["template"]["spec"]["containers"]}
    for program in flags:
        assert set(flags[program]) <= set(args[program])
    dnsmasq = [a.replace("$(CLUSTER_DOMAIN)", "cluster.local") for a in args["dnsmasq"][args["dnsmasq"].index("--") + 1:]]
    dnsmasq = [a for a in dnsmasq if a != "-k"]
    p = subprocess.run(["/usr/sbin/dnsmasq", "--test", "-C", "/dev/null", *dnsmasq], capture_output=True, text=True, timeout=30)
    assert p.returncode == 0, p.stderr
    p = subprocess.run([KUBEDNS, f"--objects-dir={tmp_path}/objects", f"--config-dir={tmp_path}/config", "--check", *flags["kubedns"]], capture_output=True, text=True, timeout=30)
    assert p.returncode == 0 and "0 mistakes" in p.stderr, p.stderr


def render_overlay(made):
    from test_manifests import KUBECTL
    out = subprocess.run([*KUBECTL, "kustomize", made / "mine"], capture_output=True, text=True, timeout=60)
    assert out.returncode == 0, out.stderr
    return next(o for o in yaml.safe_load_all(out.stdout) if o and o["kind"] == "Deployment")


@needs_kubectl
def test_the_flags_that_are_replaced_in_the_front_topology_are_where_it_is_said(tmp_path):
    _, _, overlay = printed(migrate(CASES / "policy.corefile")[1])
    made = copy(tmp_path)
    (made / "mine").mkdir()
    text = yaml.safe_dump({**overlay, "components": ["../components/front"]}).replace("args/9,", "args/12,").replace("args/10,", "args/13,")
    (made / "mine/kustomization.yaml").write_text(text)
    args = {c["name"]: c["args"] for c in render_overlay(made)["spec"]["template"]["spec"]["containers"]}["dnsmasq"]
    assert "--port=10153" in args and "--dns-forward-max=9000" in args and "--dns-forward-max=6000" not in args


@needs_helm
@pytest.mark.parametrize("name", NAMES)
def test_the_chart_makes_the_same_of_the_printed_values(tmp_path, name):
    data, flags, overlay = printed(migrate(CASES / f"{name}.corefile")[1])
    values = list(yaml.safe_load_all(migrate(CASES / f"{name}.corefile")[1]))[-1]
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
    data, flags, _ = printed(out)
    assert data == {"upstreamNameservers": ["192.0.2.1"], "stubDomains": {"x.example": ["10.0.0.1"]}}
    assert flags == {"kubedns": [], "dnsmasq": ["--log-queries"]}
    assert "clusterDomain: corp.local, clusterIP: 10.96.0.10," in out
    found = verdicts(out)
    assert found["Corefile", 2] == "=" and found["log.override", 1] == "~" and found["x.server", 2] == "="
    assert re.search(r"container proxy: .*\n#     NO EQUIVALENT: a container that is none of the DNS's", out)
    assert re.search(r"tolerations\n#     changes: .*components/control-plane", out)


def without_corefile(**volume):
    spec = {"containers": [{"name": "coredns", "image": "registry.example/coredns:v1"}], "volumes": [
        {"name": "more", "configMap": {"name": "more", "optional": True}}, {"name": "config-volume", "configMap": volume}]}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "dns-server"}, "spec": {"replicas": 3, "template": {"spec": spec}}}


def test_coredns_whose_corefile_is_not_there_is_no_coredns_without_configuration():
    """kubeadm gives its ConfigMap no label, so that a listing by label has the Deployment alone."""
    code, out, err = migrate("-", yaml.safe_dump(without_corefile(name="cluster-dns")))
    assert code == 2 and out == ""
    assert "Corefile is missing" in err and "get configmap/cluster-dns ..." in err


def test_the_steps_name_coredns_s_deployment_and_its_replicas():
    corefile = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cluster-dns"}, "data": {"Corefile": ".:53 {\n errors\n}\n"}}
    code, out, err = migrate("-", yaml.safe_dump_all([without_corefile(name="cluster-dns"), corefile]))
    assert code == 0, err
    assert "scale deployment/kube-dns --replicas=3;" in out and "scale deployment/dns-server --replicas=0." in out


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
    data, flags, _ = printed(out)
    assert data == {"stubDomains": {"corp.example": ["10.0.0.53"]}}
    assert flags == {"kubedns": ["--federations=f=f.example"], "dnsmasq": ["--cache-size=5000", "--server=/a.example/10.0.0.1"]}
    assert "clusterDomain: corp.local," in out
    assert re.search(r"upstreamNameservers\n#     NO EQUIVALENT: not the JSON", out)
    assert re.search(r"--log-facility=-\n#     changes: the nanny's", out)


@pytest.mark.parametrize("text, place, said", [
    (".:53 {\n  errors\n", ":2: ", "the brace of .:53 at line 1 is not closed"),
    (".:53 {\n  forward . 1.1.1.1 {\n    max_fails 1\n}\n", ":4: ", "is not closed"),
    (". {\n}\n}\n", ":3: ", "a closing brace that no brace opened"),
    ("{\n}\n", ":1: ", "a brace without a zone"),
    ("(s) {\n  errors\n", ":2: ", "snippet (s) is not closed"),
    (". {\n  import\n}\n", ":3: ", "import: of what is missing"),
    (". {\n  import a/*/*\n}\n", ":2: ", "one wildcard at most"),
    ("(a) {\n  import a\n}\n. {\n  import a\n}\n", ":2: ", "one of them imports itself"),
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


def test_a_file_that_is_not_there():
    code, _, err = migrate("/nowhere/Corefile")
    assert code == 2 and "/nowhere/Corefile: No such file" in err


def test_the_flag_that_kubedns_had_names_the_program():
    p = subprocess.run([KUBEDNS, f"--migrate={CASES}/kubeadm.corefile"], capture_output=True, text=True, timeout=30)
    assert p.returncode == 2 and p.stdout == ""
    assert f"a program of its own: kubedns-migrate {CASES}/kubeadm.corefile\n" in p.stderr


@pytest.mark.parametrize("args", [[], ["a", "b"], ["--no-such-flag", "a"]])
def test_a_mistake_on_the_command_line_shows_the_usage(args):
    p = subprocess.run([MIGRATE, *args], capture_output=True, text=True, timeout=30)
    assert p.returncode == 2 and p.stdout == "" and "usage: kubedns-migrate " in p.stderr
