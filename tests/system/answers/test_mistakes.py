"""
The real programs get deliberate mistakes. Each message names the mistake, its place and its value, and says what to do. Flags that are
invalid by themselves are in test_life, test_namespaces, test_loops and test_sidecar_probes.
"""

import json
import os
import shutil
import subprocess

import pytest
from api_world import ApiServer
from kubedns_process import BUILD, PROGRAM, Kubedns
from objects import service
from world import start, write

NANNY, SIDECAR = (os.path.abspath(os.path.join(BUILD, "bin", name)) for name in ("nanny", "sidecar"))
SERVICE = """kind: Service
apiVersion: v1
metadata: {name: web, namespace: default}
spec:
  clusterIP: 10.96.0.1
  ports: [{name: http, port: 80}]
"""
SLICE = """kind: EndpointSlice
apiVersion: discovery.k8s.io/v1
metadata: {name: web-1, namespace: default, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
endpoints: [{addresses: [10.1.0.1]}]
ports: [{name: http, port: 80}]
"""


def run(*command):
    env = {k: v for k, v in os.environ.items() if not k.startswith("KUBERNETES_")}
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=30, env=env, check=False)
    return done.returncode, done.stderr


CONFIGURATION = [
    ("upstreamNameservers", "8.8.8.8", ['"8.8.8.8": an address without brackets; write ["8.8.8.8"]']),
    ("upstreamNameservers", '["tls://1.1.1.1"]', ['"tls://1.1.1.1" (server 1): the server name is missing', "write tls://ADDRESS#SERVER-NAME"]),
    ("upstreamNameservers", '["https://1.1.1.1/dns-query"]', ['"https://1.1.1.1/dns-query" (server 1): only tls:// is supported', "write ADDRESS, ADDRESS:PORT or tls://ADDRESS#SERVER-NAME"]),
    ("upstreamNameservers", '["8.8.8.8:99999"]', ['"8.8.8.8:99999" (server 1): port out of range, 1 to 65535']),
    ("upstreamNameservers", '["dns.google"]', ['"dns.google" (server 1): not an address, but a name; an address such as 10.0.0.10 is needed']),
    ("upstreamNameservers", '["8.8.8"]', ['"8.8.8" (server 1): not an address, such as 10.0.0.10, 10.0.0.10:53 or [fd00::10]:53']),
    ("federations", "x", ['"x": not name=domain, such as east=east.example.org']),
    ("stubDomains", '{"a.b": ["1.2.3.4",]}', ["line 1, column 20: a comma before the end of a list; remove it"]),
    ("stubDomains", "{'a.b': ['1.2.3.4']}", ["line 1, column 10: strings must be in double quotes"]),
    ("stubDomains", '{"cluster.local": ["1.2.3.4"]}', ['"cluster.local": is the cluster domain, which kubedns answers: remove it']),
    ("stubDomains", '{"a.b": "1.2.3.4"}', ['"a.b": its servers must be an array of strings, such as ["10.0.0.1"]']),
    ("stubDomains", '{"a.b": ["010.1.1.1"]}', ['"010.1.1.1" (server 1 of "a.b"): not an address: a number with a leading zero', "write it without"]),
    ("stubDomains", "a.b:\n- 1.2.3.4\n", ['must be a JSON object of domains, such as {"acme.local": ["10.0.0.1"]}']),
]  # fmt: skip


@pytest.mark.parametrize(("key", "value", "says"), CONFIGURATION, ids=[f"{c[0]}: {c[1]}" for c in CONFIGURATION])
def test_a_key_of_the_configmap(tmp_path, key, value, says):
    objects, config = tmp_path / "objects", tmp_path / "config"
    objects.mkdir()
    config.mkdir()
    (objects / "web.yaml").write_text(SERVICE)
    (config / key).write_text(value)
    checks = [run(PROGRAM, "--check", f"--objects-dir={objects}", f"--config-dir={config}")]
    if key == "stubDomains":
        checks.append(run(NANNY, "-check", f"-configDir={config}"))
    for code, errors in checks:
        assert code == 2
        for part in (str(config), key, *says):
            assert part in errors, errors


@pytest.mark.parametrize("wrong", ["missing", "file"])
def test_a_configuration_directory_that_cannot_be_read(tmp_path, wrong):
    """The error names the flag, and says what is wrong."""
    objects, config = tmp_path / "objects", tmp_path / "config"
    objects.mkdir()
    (objects / "web.yaml").write_text(SERVICE)
    if wrong == "file":
        config.write_text("")
    why = "no such directory" if wrong == "missing" else "Not a directory"
    for flag, command in ((f"--config-dir={config}", [PROGRAM, "--check", f"--objects-dir={objects}", f"--config-dir={config}"]),
                          (f"-configDir={config}", [NANNY, "--check", f"-configDir={config}", "-resolvConf=/dev/null"])):  # fmt: skip
        code, errors = run(*command)
        assert code == 2
        assert any(" error: " in line and f"{flag}: {why}: create the directory, or correct the flag" in line for line in errors.splitlines()), errors


def test_a_stub_domain_without_a_server(tmp_path):
    """kube-dns accepts such a domain. The nanny accepts it too and logs it. --check of both programs reports it as a mistake."""
    objects, config = tmp_path / "objects", tmp_path / "config"
    objects.mkdir()
    config.mkdir()
    (objects / "web.yaml").write_text(SERVICE)
    (config / "stubDomains").write_text('{"a.example": ["10.0.0.1"], "corp.example": []}')
    says = f'conf {config}: stubDomains: "corp.example": has no server, so it has no effect: give it one, or remove the domain'
    for command in ([PROGRAM, "--check", f"--objects-dir={objects}", f"--config-dir={config}"], [NANNY, "-check", f"-configDir={config}", "-resolvConf=/dev/null"]):
        code, errors = run(*command)
        assert code == 2 and f" error: {says}" in errors, errors


MANIFESTS = [
    (("clusterIP", "clusterIp"), ["a.yaml:1: Service default/web", '"clusterIp" is unknown; did you mean clusterIP?']),
    (("kind: Service", "kind: Servcie"), ['a.yaml:1: kind "Servcie" is unknown; did you mean Service?']),
    (("10.96.0.1", "10.96.0.300"), ['a.yaml:1: Service default/web: clusterIP "10.96.0.300" is not an address']),
    (("  clusterIP", "\tclusterIP"), ["a.yaml:5:", "is it a tab? YAML is indented by spaces"]),
    (("port: 80", "port: http"), ['a.yaml:1: Service default/web: port "http" is not a number from 1 to 65535']),
    (("name: web,", "name: Web_1,"), ["a.yaml:1: Web_1: metadata.name is not a DNS label: small letters, digits and '-'"]),
    (("name: web, ", ""), ["a.yaml:1: metadata.name is missing"]),
    (("apiVersion: v1", "apiVersion: v2"), ['a.yaml:1: Service: apiVersion "v2" is unknown; did you mean v1?; ignored']),
    (("clusterIP: 10.96.0.1", "type: ExternalName\n  externalName: http://foo/"),
     ['a.yaml:1: Service default/web: externalName "http://foo/" is not a DNS name; use a host name such as www.example.org']),
    ((SERVICE, SLICE.replace("labels: {kubernetes.io/service-name: web}", "labels: {}")),
     ["a.yaml:1: EndpointSlice default/web-1: label kubernetes.io/service-name is missing, so no Service has these endpoints"]),
    ((SERVICE, SLICE.replace("discovery.k8s.io/v1", "discovery.k8s.io/v1alpha1")),
     ['a.yaml:1: EndpointSlice: apiVersion "discovery.k8s.io/v1alpha1" is unknown; did you mean discovery.k8s.io/v1?; ignored']),
]  # fmt: skip


@pytest.mark.parametrize(("slip", "says"), MANIFESTS, ids=[m[0][1] or "no name" for m in MANIFESTS])
def test_a_manifest(tmp_path, slip, says):
    (tmp_path / "a.yaml").write_text(SERVICE)
    assert run(PROGRAM, "--check", f"--objects-dir={tmp_path}")[0] == 0, "without the mistake the manifest must be valid"
    (tmp_path / "a.yaml").write_text(SERVICE.replace(*slip))
    code, errors = run(PROGRAM, "--check", f"--objects-dir={tmp_path}")
    assert code == 2
    for part in says:
        assert part in errors, errors


def test_what_is_right_or_another_groups_is_no_mistake(tmp_path):
    """kubedns must not report a Knative Service, valid spellings of ExternalNames, or a Service with its slices."""
    names = ["www.example.org", "www.example.org.", "_sip._tcp.example.org", "192.0.2.7", "\"2001:db8::77\"", "WWW.Example.org"]
    texts = [SERVICE.replace("clusterIP: 10.96.0.1", f"type: ExternalName\n  externalName: {name}").replace("web", f"e{i}") for i, name in enumerate(names)]
    texts += [SLICE, SERVICE.replace("apiVersion: v1", "apiVersion: serving.knative.dev/v1").replace("web", "knative"), SERVICE]
    (tmp_path / "a.yaml").write_text("---\n".join(texts))
    code, errors = run(PROGRAM, "--check", f"--objects-dir={tmp_path}")
    assert code == 0 and f"{len(texts) - 1} objects" in errors, errors


def test_a_corefile_in_the_configuration_is_named(tmp_path):
    """A user who migrates from CoreDNS keeps the key that CoreDNS reads."""
    config = tmp_path / "config"
    config.mkdir()
    (config / "Corefile").write_text(".:53 {\n forward . 1.1.1.1\n}\n")
    says = f"conf {config}: Corefile: this is CoreDNS's configuration, which is not read here; translate it with kubedns-migrate"
    with start(tmp_path, [service("web", "10.96.0.1")], f"--config-dir={config}", "--config-period=100ms") as k:
        k.wait(lambda: says in k.log())
    assert says in run(NANNY, "-check", f"-configDir={config}")[1]


def test_a_config_map_that_is_not_there_is_named(tmp_path):
    with ApiServer() as api:
        kubeconfig = api.kubeconfig(tmp_path / "kubeconfig")
        with Kubedns(f"--kubecfg-file={kubeconfig}", "--config-map=nope", directory=str(tmp_path)) as k:
            says = "conf ConfigMap kube-system/nope: no such ConfigMap; its keys have their defaults until it exists"
            k.wait(lambda: says in k.log())
            k.wait_ready()
            data = {"Corefile": ".:53 {}"}
            api.put({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "nope", "namespace": "kube-system"}, "data": data})
            k.wait(lambda: "conf ConfigMap kube-system/nope: Corefile: this is CoreDNS's configuration" in k.log())
            assert k.log().count(says) == 1


def test_dnsmasqs_flags_without_the_dashes_before_them():
    code, errors = run(NANNY, "--cache-size=1000")
    assert code == 2
    assert 'unknown flag --cache-size; dnsmasq\'s own flags stand after "--", as in: nanny -domain=cluster.local -- --cache-size=1000' in errors, errors


def test_a_kubeconfig(tmp_path):
    path = tmp_path / "kubeconfig"
    for text, says in (
        ("apiVersion: v1\nclusters:\n\t- name: x\n", ["line 3", "is it a tab?"]),
        ("apiVersion: v1\nkind: Config\nclusters: []\ncontexts: []\n", ["current-context is missing: set one with kubectl config use-context"]),
    ):
        path.write_text(text)
        code, errors = run(PROGRAM, "--check", f"--kubecfg-file={path}")
        assert code == 2
        for part in (str(path), *says):
            assert part in errors, errors
    code, errors = run(PROGRAM, "--check")
    assert code == 2 and "use --kubecfg-file, --kube-master-url or --objects-dir" in errors


def test_a_run_directory_that_cannot_be_written(tmp_path):
    """The run directory is in /proc, where no user can create a directory."""
    code, errors = run(NANNY, f"-configDir={tmp_path}", "-runDir=/proc", "-metricsAddr=", "--", "--port=1")
    assert code == 1 and "run directory /proc: " in errors and "mount a tmpfs there that uid" in errors and "-runDir" in errors, errors


SIDECARS = [
    (["--probe=kubedns,127.0.0.1:10053"], ['--probe "kubedns,127.0.0.1:10053": label,server[:port],name[,interval_s[,type]] is needed']),
    (["--probe=a,127.0.0.1,x.y", "--probe=a,127.0.0.1,x.z"], ['"a,127.0.0.1,x.z": the label is taken by probe a']),
    (["--probe=a,127.0.0.1,x.y,abc"], ['the interval is 1 to 86400 whole seconds: "abc"']),
    (["--dnsmasq-addr=localhost"], ['--dnsmasq-addr "localhost": not an address, such as 127.0.0.1']),
    (["--kubedns-url=foo"], ['--kubedns-url "foo": must begin with http://', "such as http://127.0.0.1:8081"]),
]


@pytest.mark.parametrize(("args", "says"), SIDECARS, ids=[s[0][-1] for s in SIDECARS])
def test_a_flag_of_the_sidecar(args, says):
    code, errors = run(SIDECAR, "--check", *args)
    assert code == 2
    for part in says:
        assert part in errors, errors


def test_the_settings_of_the_overlays(tmp_path):
    folder = os.path.join(os.path.dirname(__file__), "..", "..", "..", "conf", "kubernetes")
    if not shutil.which("kubectl"):
        (tmp_path / "kubectl").write_text("#!/bin/sh\nexit 1\n")
        (tmp_path / "kubectl").chmod(0o755)
    shutil.copytree(folder, tmp_path / "kubernetes", ignore_dangling_symlinks=True)
    settings = tmp_path / "kubernetes" / "settings" / "settings.yaml"
    good = settings.read_text().replace("clusterIP: SET-ME", "clusterIP: 10.96.0.10").replace("registry: SET-ME", "registry: reg.example/dns")
    env = {**os.environ, "PATH": f"{os.environ['PATH']}:{tmp_path}"}
    for slip, says in (
        (("", ""), None),
        (("10.96.0.10", "10.96.0.300"), "clusterIP: 10.96.0.300: not an address"),
        (("reg.example", "https://reg.example"), "registry: https://reg.example/dns: image names have no scheme: reg.example/dns"),
    ):
        settings.write_text(good.replace(*slip) if slip[0] else good)
        done = subprocess.run(["sh", tmp_path / "kubernetes" / "check", "replace-kube-dns"], capture_output=True, text=True, timeout=60, env=env, check=False)
        said = done.stdout + done.stderr
        assert done.returncode == (0 if says is None else 1) and (says or "") in said, said


def test_a_manifest_that_is_mended_is_good_again(tmp_path):
    bad = service("web", "10.96.0.300")
    with start(tmp_path, [bad], "--config-period=100ms") as k:
        k.wait(lambda: 'clusterIP "10.96.0.300" is not an address' in k.log())
        write(tmp_path / "objects", [json.loads(json.dumps(bad).replace("10.96.0.300", "10.96.0.30"))])
        k.wait(lambda: "all.json: good again" in k.log())


@pytest.mark.parametrize(("program", "flag", "says"), [
    (PROGRAM, "--dns-port=53x", '--dns-port: "53x" is not a port, 0 to 65535'),
    (PROGRAM, "--domain=...", '--domain: "...": not a DNS name'),
    (NANNY, "-kubednsServer=x:y", '--kubednsServer: "x:y"'),
    (SIDECAR, "--no-such-flag", "unknown flag --no-such-flag"),
])
def test_a_flag_of_a_file_is_refused_with_the_file_and_its_line(tmp_path, program, flag, says):
    """The flags are in a file, as for the services of the Debian packages. If the file sets a variable twice, the last line counts, as in systemd."""
    flags = tmp_path / "default"
    flags.write_text(f'# ARGS="not this"\nARGS="--old"\n\n  ARGS="{flag}"\nARGS_MORE=x\n')
    name = os.path.basename(program)
    for variable, line in (("ARGS", f"{name}: the flags are in {flags}:4, ARGS"),
                           ("OTHER", f'{name}: add the flags to {flags} as OTHER="..."; it has no such line')):
        code, errors = run("env", f"FLAGS_FROM={flags}:{variable}", program, flag)
        first, second, usage = errors.splitlines()
        assert (code, second) == (2, line) and says in first and usage.startswith(f"usage: {name} ")
    assert len(run(program, flag)[1].splitlines()) == 2
