"""
Moves a cluster's DNS from a real CoreDNS, using only the output of `kubedns-migrate`. Then compares every name on both servers.

COREDNS=FILE names a CoreDNS of the default build. `make test-cluster` sets it. Without it these tests are skipped. Everything runs on
loopback.
"""

import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

import pytest
import yaml

from realapi import environment_ctl
from waiting import free_port, wait_for

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("BUILD", ROOT / "build")).resolve() / "bin"
COREDNS = os.environ.get("COREDNS")
# Replaces 127.0.0.1 in the Corefile for kubedns-migrate. A loopback server would be a server in the pod itself, which has no equivalent.
POD_REACHES = "192.0.2.53"
OUTSIDE = ["www.outside.example", "alias.outside.example", "x.corp.example", "legacy.example", "nothing.outside.example"]

pytestmark = pytest.mark.skipif(not COREDNS, reason="COREDNS names no CoreDNS")

COREFILE = """
.:{port} {{
    bind 127.0.0.1
    errors
    kubernetes cluster.local in-addr.arpa ip6.arpa {{
        kubeconfig {kubeconfig}
        pods insecure
        fallthrough in-addr.arpa ip6.arpa
        ttl 30
    }}
    hosts {{
        192.0.2.99 legacy.example
        fallthrough
    }}
    forward . {server}:{upstream}
    cache 30
    loadbalance
}}
corp.example:{port} {{
    bind 127.0.0.1
    forward . {server}:{stub}
}}
"""


@contextlib.contextmanager
def running(*command):
    p = subprocess.Popen(list(map(str, command)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield p
    finally:
        p.send_signal(signal.SIGTERM)
        try:
            p.wait(30)
        finally:
            p.kill()


def dnsmasq(port, *records):
    return running("/usr/sbin/dnsmasq", "-k", "-C", "/dev/null", "--no-resolv", "--no-hosts", "--pid-file=", f"--port={port}",
                   "--listen-address=127.0.0.1", "--bind-interfaces", "--address=/#/", *records)


def answers(port, name="kubernetes.default.svc.cluster.local"):
    out = subprocess.run(["dig", "@127.0.0.1", "-p", str(port), "+short", "+tries=1", "+time=1", name], capture_output=True, text=True)
    return out.stdout.strip()


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory):
    directory = tmp_path_factory.mktemp("plane")
    ctl = environment_ctl()
    with running(ctl, "up", "--dir", directory, "--port", 0, "--controllers", ""):
        wait_for(lambda: (directory / "ready").exists(), 90, "the API server")
        subprocess.run([ctl, "load", "--kubeconfig", directory / "kubeconfig", "-namespaces", "20", "-services", "100", "-slices", "200"],
                       check=True, timeout=300, stdout=subprocess.DEVNULL)
        yield directory / "kubeconfig"


def arguments(printed, tmp_path, ports):
    """The arguments of each container in the printed overlay, as kustomize renders it. Only addresses and paths are changed for this machine."""
    sys.path.insert(0, str(ROOT / "tests/helpers"))
    from overlays import copy
    configmap, overlay, _ = (d for d in yaml.safe_load_all(printed) if d)
    for key, value in configmap["data"].items():
        (tmp_path / "config" / key).write_text(value.replace(POD_REACHES, "127.0.0.1"))
    made = copy(tmp_path)
    (made / "mine").mkdir()
    (made / "mine/kustomization.yaml").write_text(yaml.safe_dump(overlay))
    text = subprocess.run(["kubectl", "kustomize", made / "mine"], capture_output=True, text=True, check=True, timeout=60).stdout
    deployment = next(o for o in yaml.safe_load_all(text) if o and o["kind"] == "Deployment")
    here = {r"\$\(CLUSTER_DOMAIN\)": "cluster.local", r"(?<=[=:#])53(?=,|$)": ports["clients"], r"\b10053\b": ports["kubedns"],
            r"\b10153\b": ports["dnsmasq"], r"\b8081\b": ports["health"], "-runDir=/run": f"-runDir={tmp_path}/run", "/run/sidecar/": f"{tmp_path}/",
            "/etc/k8s/dns/dnsmasq-nanny": tmp_path / "config", "/etc/kube-dns": tmp_path / "config"}
    made = {}
    for c in deployment["spec"]["template"]["spec"]["containers"]:
        made[c["name"]] = list(c["args"])
        for old, new in here.items():
            made[c["name"]] = [re.sub(old, str(new), a) for a in made[c["name"]]]
    return made


@pytest.fixture
def open_directory():
    """If root starts the nanny, it becomes nobody, who cannot read pytest's directories."""
    with tempfile.TemporaryDirectory(prefix="move-") as name:
        path = pathlib.Path(name)
        path.chmod(0o755)
        yield path


@pytest.mark.parametrize("topology", ["front", "classic"])
def test_by_the_printed_steps_and_no_name_is_answered_otherwise(kubeconfig, open_directory, topology):
    tmp_path = open_directory
    ports = {n: free_port() for n in ("coredns", "dnsmasq", "kubedns", "health", "metrics", "upstream", "stub")}
    ports["clients"] = ports["kubedns" if topology == "front" else "dnsmasq"]
    for name, mode in (("config", 0o755), ("run", 0o777)):
        (tmp_path / name).mkdir(mode=mode)
        (tmp_path / name).chmod(mode)
    text = COREFILE.format(port=ports["coredns"], kubeconfig=kubeconfig, server=POD_REACHES, upstream=ports["upstream"], stub=ports["stub"])
    corefile = tmp_path / "Corefile"
    corefile.write_text(text.replace(POD_REACHES, "127.0.0.1"))
    printed = subprocess.run([BIN / "kubedns-migrate", f"--topology={topology}", "-"], input=text, capture_output=True, text=True, check=True, timeout=30).stdout
    assert "NO EQUIVALENT" not in printed
    args = arguments(printed, tmp_path, ports)
    # In the classic topology clients query dnsmasq. By default it listens on port 53 of every address. The test's dnsmasq needs another port.
    here = [] if topology == "front" else [f"--port={ports['dnsmasq']}", "--listen-address=127.0.0.1", "--bind-interfaces"]
    with dnsmasq(ports["upstream"], "--host-record=www.outside.example,192.0.2.80,2001:db8::80", "--cname=alias.outside.example,www.outside.example"), \
            dnsmasq(ports["stub"], "--host-record=x.corp.example,192.0.2.81"), running(COREDNS, "-conf", corefile), \
            running(BIN / "kubedns", *args["kubedns"], f"--kubecfg-file={kubeconfig}"), \
            running(BIN / "nanny", f"-metricsAddr=127.0.0.1:{ports['metrics']}", *args["dnsmasq"], *here):
        for server in ("coredns", "clients"):
            wait_for(lambda s=server: answers(ports[s]) == "10.96.0.1" and answers(ports[s], "x.corp.example") == "192.0.2.81", 60, server)
        env = {**os.environ, "KUBECONFIG": str(kubeconfig), "CLUSTER_DOMAIN": "cluster.local"}
        compared = subprocess.run([ROOT / "conf/kubernetes/compare", f"127.0.0.1:{ports['coredns']}", f"127.0.0.1:{ports['clients']}", *OUTSIDE],
                                  env=env, capture_output=True, text=True, timeout=300)
        print(compared.stderr, compared.stdout, json.dumps(args, indent=1))
        assert compared.returncode == 0 and compared.stdout == "compare: 0 differences, 0 without a reason\n"
        assert int(compared.stderr.split("compare: ")[1].split()[0]) > 500
