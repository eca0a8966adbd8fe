"""conf/kubernetes/compare: two servers asked the same, and each difference with its reason."""

import contextlib
import os
import pathlib
import stat
import subprocess

import pytest
import yaml

from kubedns_process import Kubedns

ROOT = pathlib.Path(__file__).resolve().parents[2]
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
        service("db", "None"), endpoints("db", "10.1.0.1", "10.1.0.2")]


def kubectl(tmp_path):
    """Prints what kubectl's template would make of BASE."""
    path = tmp_path / "kubectl"
    path.write_text("""#!/bin/sh
case $2 in
services) printf 'web.default 10.0.0.1 http/TCP\\ndb.default None http/TCP\\n' ;;
endpointslices) printf 'db-0.db.default\\ndb-1.db.default\\n' ;;
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


def compare(tmp_path, *args):
    env = {**os.environ, "KUBECTL": str(kubectl(tmp_path)), "CLUSTER_DOMAIN": "cluster.local"}
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
    assert "compare: 29 questions" in err


def test_a_missing_service_another_address_and_a_lost_port_are_unexplained(tmp_path):
    other = [BASE[0], service("web", "10.0.0.9", (("metrics", "TCP"),)), BASE[2], endpoints("db", "10.1.0.1")]
    with server(tmp_path, "a", BASE) as a, server(tmp_path, "b", other) as b:
        code, out, _ = compare(tmp_path, a, b)
    assert code == 1
    found = {block.split("\n")[0]: block for block in out.replace("\n    ", "\t").splitlines()}
    names = {line.split("\t")[0] for line in found}
    assert {"web.default.svc.cluster.local A", "_http._tcp.web.default.svc.cluster.local SRV", "db-1.db.default.svc.cluster.local A",
            "1.0.0.10.in-addr.arpa PTR"} <= names
    assert "old: web.default.svc.cluster.local. in a 10.0.0.1\t" in next(line for line in found if line.startswith("web.default.svc.cluster.local A"))
    assert "without a reason" in out and " 0 without" not in out


def test_a_server_that_is_not_there(tmp_path, questions):
    with server(tmp_path, "a", BASE) as a:
        code, out, _ = compare(tmp_path, "--names", questions, a, "127.0.0.1:1")
        assert code == 1 and out.count("UNEXPLAINED: NEW gives no answer") == 2
        code, out, _ = compare(tmp_path, "--names", questions, "127.0.0.1:1", a)
        assert code == 0 and out.count("OLD gives no answer") == 2


def test_weights_and_names_of_endpoints_have_a_reason(tmp_path):
    questions = tmp_path / "q"
    questions.write_text("_http._tcp.db.default.svc.cluster.local SRV\n")
    unnamed = endpoints("db", "10.1.0.1", "10.1.0.2")
    for i, e in enumerate(unnamed["endpoints"]):
        del e["hostname"]
        e["targetRef"] = {"kind": "Pod", "name": f"pod-{i}"}
    with server(tmp_path, "a", [*BASE[:3], unnamed]) as a, server(tmp_path, "b", [*BASE[:3], unnamed], "--endpoint-pod-names") as b:
        code, out, _ = compare(tmp_path, "--names", questions, a, b)
    assert code == 0 and "names of endpoints without a host name" in out, out


@pytest.mark.parametrize("args", [[], ["127.0.0.1"], ["--wrong", "a", "b"], ["--names"]])
def test_usage(tmp_path, args):
    code, _, err = compare(tmp_path, *args)
    assert code == 2 and "usage: compare" in err
