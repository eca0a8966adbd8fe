"""
Mistakes made on purpose, with the real programs: each message says what is wrong, with its value, where, and what to do. Flags that are
wrong by themselves are in test_life, test_namespaces, test_loops and test_sidecar_probes.
"""

import json
import os
import shutil
import subprocess

import pytest
from kubedns_process import BUILD, PROGRAM
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


def run(*command):
    env = {k: v for k, v in os.environ.items() if not k.startswith("KUBERNETES_")}
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=30, env=env, check=False)
    return done.returncode, done.stderr


CONFIGURATION = [
    ("upstreamNameservers", "8.8.8.8", ['"8.8.8.8": an address alone; write ["8.8.8.8"]']),
    ("upstreamNameservers", '["tls://1.1.1.1"]', ['"tls://1.1.1.1" (server 1): a URL', "write ADDRESS or ADDRESS:PORT"]),
    ("upstreamNameservers", '["8.8.8.8:99999"]', ['"8.8.8.8:99999" (server 1): port out of range, 1 to 65535']),
    ("upstreamNameservers", '["dns.google"]', ['"dns.google" (server 1): not an address, but a name; an address such as 10.0.0.10 is needed']),
    ("upstreamNameservers", '["8.8.8"]', ['"8.8.8" (server 1): not an address, such as 10.0.0.10, 10.0.0.10:53 or [fd00::10]:53']),
    ("federations", "x", ['"x": not name=domain, such as east=east.example.org']),
    ("stubDomains", '{"a.b": ["1.2.3.4",]}', ["line 1, column 20: a comma before the end of a list; take it out"]),
    ("stubDomains", "{'a.b': ['1.2.3.4']}", ["line 1, column 10: strings stand in double quotes"]),
    ("stubDomains", '{"cluster.local": ["1.2.3.4"]}', ['"cluster.local": is the cluster domain, which kubedns answers: take it out']),
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
    if key == "stubDomains":
        code, errors = run(NANNY, "-check", f"-configDir={config}")
    else:
        code, errors = run(PROGRAM, "--check", f"--objects-dir={objects}", f"--config-dir={config}")
    assert code == 2
    for part in (str(config), key, *says):
        assert part in errors, errors


MANIFESTS = [
    (("clusterIP", "clusterIp"), ["a.yaml:1: Service default/web", '"clusterIp" is unknown; clusterIP is meant']),
    (("kind: Service", "kind: Servcie"), ['a.yaml:1: kind "Servcie" is unknown; Service is meant']),
    (("10.96.0.1", "10.96.0.300"), ['a.yaml:1: Service default/web: clusterIP "10.96.0.300" is not an address']),
    (("  clusterIP", "\tclusterIP"), ["a.yaml:5:", "is it a tab? YAML is indented by spaces"]),
    (("port: 80", "port: http"), ['a.yaml:1: Service default/web: port "http" is not a number from 1 to 65535']),
    (("name: web,", "name: Web_1,"), ["a.yaml:1: Web_1: metadata.name is not a DNS label: small letters, digits and '-'"]),
    (("name: web, ", ""), ["a.yaml:1: metadata.name is missing"]),
]


@pytest.mark.parametrize(("slip", "says"), MANIFESTS, ids=[m[0][1] or "no name" for m in MANIFESTS])
def test_a_manifest(tmp_path, slip, says):
    (tmp_path / "a.yaml").write_text(SERVICE)
    assert run(PROGRAM, "--check", f"--objects-dir={tmp_path}")[0] == 0, "but for the slip it is right"
    (tmp_path / "a.yaml").write_text(SERVICE.replace(*slip))
    code, errors = run(PROGRAM, "--check", f"--objects-dir={tmp_path}")
    assert code == 2
    for part in says:
        assert part in errors, errors


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
    """/proc takes no directory from anybody."""
    code, errors = run(NANNY, f"-configDir={tmp_path}", "-runDir=/proc", "-metricsAddr=", "--", "--port=1")
    assert code == 1 and "run directory /proc: " in errors and "mount a tmpfs there that uid" in errors and "-runDir" in errors, errors


SIDECARS = [
    (["--probe=kubedns,127.0.0.1:10053"], ['--probe "kubedns,127.0.0.1:10053": label,server[:port],name[,interval_s[,type]] is needed']),
    (["--probe=a,127.0.0.1,x.y", "--probe=a,127.0.0.1,x.z"], ['"a,127.0.0.1,x.z": the label is taken by probe a']),
    (["--probe=a,127.0.0.1,x.y,abc"], ['the interval is 1 to 86400 whole seconds: "abc"']),
    (["--dnsmasq-addr=localhost"], ['--dnsmasq-addr "localhost": not an address, such as 127.0.0.1']),
    (["--kubedns-url=foo"], ['--kubedns-url "foo": it begins with http://', "such as http://127.0.0.1:8081"]),
]


@pytest.mark.parametrize(("args", "says"), SIDECARS, ids=[s[0][-1] for s in SIDECARS])
def test_a_flag_of_the_sidecar(args, says):
    code, errors = run(SIDECAR, "--check", *args)
    assert code == 2
    for part in says:
        assert part in errors, errors


def test_the_settings_of_the_overlays(tmp_path):
    folder = os.path.join(os.path.dirname(__file__), "..", "..", "conf", "kubernetes")
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
        (("reg.example", "https://reg.example"), "registry: https://reg.example/dns: images are named without a scheme: reg.example/dns"),
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
    (NANNY, "-kubednsServer=x:y", "kubednsServer=x:y"),
    (SIDECAR, "--no-such-flag", "unknown flag --no-such-flag"),
])
def test_a_flag_of_a_file_is_refused_with_the_file_and_its_line(tmp_path, program, flag, says):
    """As the Debian packages' services have it. The last of two counts, as systemd reads them."""
    flags = tmp_path / "default"
    flags.write_text(f'# ARGS="not this"\nARGS="--old"\n\n  ARGS="{flag}"\nARGS_MORE=x\n')
    name = os.path.basename(program)
    for variable, line in (("ARGS", f"{name}: the flags are in {flags}:4, ARGS"),
                           ("OTHER", f'{name}: the flags should be in {flags}, as OTHER="..."; it has no such line')):
        code, errors = run("env", f"FLAGS_FROM={flags}:{variable}", program, flag)
        first, second, usage = errors.splitlines()
        assert (code, second) == (2, line) and says in first and usage.startswith(f"usage: {name} ")
    assert len(run(program, flag)[1].splitlines()) == 2
