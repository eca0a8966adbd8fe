"""kubectl-dns with a stand-in for kubectl, whose port-forwards lead to real programs."""

import itertools
import os
import pathlib
import stat
import subprocess
import threading

import pytest
import yaml

from dnsnet import query, udp
from kubedns_process import Kubedns
from test_compare import BASE, service
from test_queries import recorded
from test_options import pod as a_pod
from test_top import burst, within_a_minute
from sidecar_world import Sidecar
from tls_world import NannyPage
from waiting import free_port, wait_for

ROOT = pathlib.Path(__file__).resolve().parents[3]
PLUGIN = ROOT / "conf/kubernetes/kubectl-dns"

STAND_IN = """#!/bin/sh
shift 2  # -n NAMESPACE
case $1 in
get) cat {dir}/pods ;;
logs) cat {dir}/logs 2>/dev/null ;;
port-forward)
    port=$(sed -n "s|^$2 $3 ||p" {dir}/ports)
    [ -n "$port" ] || {{ echo "error: unable to forward port because pod is not running"; exit 1; }}
    echo "Forwarding from 127.0.0.1:$port -> ${{3#:}}"
    exec sleep 60 ;;
esac
"""


@pytest.fixture
def world(tmp_path):
    path = tmp_path / "kubectl"
    path.write_text(STAND_IN.format(dir=tmp_path))
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    running = []

    def pod(name, objects, *flags):
        directory = tmp_path / name
        directory.mkdir()
        (directory / "objects.yaml").write_text(yaml.safe_dump_all(objects))
        running.append(Kubedns(f"--objects-dir={directory}", "--drain=0s", *flags))
        running[-1].wait_ready()
        with open(tmp_path / "pods", "a") as f:
            f.write(f"{name}\n")
        with open(tmp_path / "ports", "a") as f:
            f.write(f"pod/{name} :8081 {running[-1].healthz}\n")
            f.write(f"pod/{name} :10054 {sidecar.port}\n")
        return running[-1]
    with Sidecar() as sidecar:
        yield pod
    for k in running:
        k.stop()


def plugin(tmp_path, *args):
    p = subprocess.run([PLUGIN, *args], env={**os.environ, "KUBECTL": str(tmp_path / "kubectl")}, capture_output=True, text=True, timeout=60)
    return p.returncode, p.stdout, p.stderr


def test_why_merges_pods_that_say_the_same_and_shows_the_one_that_does_not(tmp_path, world):
    for name in ("dns-a", "dns-b"):
        world(name, BASE)
    world("dns-c", [BASE[0], service("web", "10.0.0.9")])
    code, out, err = plugin(tmp_path, "why", "web.default.svc.cluster.local")
    assert code == 0, err
    first, second = out.split("# 1 pods: ")
    assert first.startswith("# 2 pods: dns-a dns-b\n") and "10.0.0.1" in first and "from Service default/web" in first
    assert second.startswith("dns-c\n") and "10.0.0.9" in second


def test_why_names_the_servers_that_fail(tmp_path, world):
    world("dns-a", BASE)
    dead = free_port()
    with NannyPage([f"127.0.0.1:{dead}"]) as nanny, Sidecar(f"--nanny-url={nanny.url}", f"--dnsmasq-port={free_port()}", "--kubedns-url=", peers=True) as sidecar:
        ports = (tmp_path / "ports").read_text()
        (tmp_path / "ports").write_text("".join(line for line in ports.splitlines(True) if ":10054" not in line) + f"pod/dns-a :10054 {sidecar.port}\n")
        wait_for(lambda: "dns_check_failure{" in sidecar.get("/metrics")[1], 20)
        code, out, err = plugin(tmp_path, "why", "www.example.com")
    assert code == 0, err
    assert out.endswith(f"\ndns-a: upstream server 127.0.0.1:{dead} fails: connection_refused\n")


def test_a_pod_that_cannot_be_asked_is_said_and_the_others_answer(tmp_path, world):
    world("dns-a", BASE)
    with open(tmp_path / "pods", "a") as f:
        f.write("dns-gone\n")
    code, out, err = plugin(tmp_path, "why", "web.default.svc.cluster.local")
    assert code == 1 and "dns-gone: error: unable to forward port" in err and "# 1 pods: dns-a" in out


def test_status_is_the_page_s_first_sentence(tmp_path):
    """kubectl dns prints the status of a sidecar whose kubedns does not answer."""
    (tmp_path / "kubectl").write_text(STAND_IN.format(dir=tmp_path))
    (tmp_path / "kubectl").chmod(0o755)
    with Sidecar("--probe=kubedns,127.0.0.1:9,kubernetes.default.svc.cluster.local,1,A") as s:
        (tmp_path / "pods").write_text("dns-a\n")
        (tmp_path / "ports").write_text(f"pod/dns-a :10054 {s.port}\n")
        code, out, err = plugin(tmp_path, "status")
        assert code == 1, err
        name, level, sentence = out.split(maxsplit=2)
        assert name == "dns-a" and level != "well" and "unknown" not in level and sentence.strip()


def test_top_counts_clients_and_names(tmp_path):
    (tmp_path / "kubectl").write_text(STAND_IN.format(dir=tmp_path))
    (tmp_path / "kubectl").chmod(0o755)
    (tmp_path / "pods").write_text("dns-a\ndns-b\n")
    code, _, err = plugin(tmp_path, "top")
    assert code == 1 and "--log-queries" in err
    (tmp_path / "logs").write_text("".join(f"2026 nanny: info: dnsmasq: query[A] {n}.example from 10.0.0.{c}\n" for n, c in (("a", 1), ("b", 1), ("a", 2))))
    code, out, _ = plugin(tmp_path, "top")
    lines = [line.split() for line in out.splitlines()]
    assert code == 0 and lines[0][-1] == "6" and ["4", "10.0.0.1"] in lines and ["4", "a.example"] in lines and ["6", "A"] in lines


@pytest.mark.parametrize("args", [[], ["wyh"], ["why"], ["--what"], ["log", "x"]])
def test_usage(tmp_path, args):
    code, _, err = plugin(tmp_path, *args)
    assert code == 2 and "why NAME" in err


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_is_printed_to_stdout(tmp_path, flag):
    for args in ([flag], ["why", flag], ["status", flag]):
        code, out, err = plugin(tmp_path, *args)
        assert code == 0 and "why NAME" in out and err == ""
    check = subprocess.run([PLUGIN.parent / "check", flag], capture_output=True, text=True, timeout=20)
    assert check.returncode == 0 and "check beside front" in check.stdout and check.stderr == ""


def test_a_name_that_is_none(tmp_path):
    code, _, err = plugin(tmp_path, "why", "a/../config")
    assert code == 2 and "not a name" in err


def test_top_adds_up_what_all_pods_say(tmp_path, world):
    within_a_minute()
    for name in ("dns-a", "dns-b"):
        k = world(name, BASE)
        burst(k, "127.0.0.2", query("web.default.svc.cluster.local"), 6400)
        burst(k, "127.0.0.3", query("no.default.svc.cluster.local", "AAAA"), 1600)
    code, out, err = plugin(tmp_path, "top")
    assert code == 0, err
    lists = out.split("names\n")
    clients = [line.split() for line in lists[0].splitlines()[1:-1]]
    names = [line.split() for line in lists[1].splitlines()]
    assert [c[-1] for c in clients] == ["127.0.0.2", "127.0.0.3"]
    assert 0.8 * 12800 < int(clients[0][1]) < 1.2 * 12800 and clients[0][2] == "0"
    assert 0.6 * 3200 < int(clients[1][1]) < 1.4 * 3200 and clients[1][1] == clients[1][2] == clients[1][4]
    assert [n[-1] for n in names] == ["web.default.svc.cluster.local.", "no.default.svc.cluster.local."]


def test_top_names_a_client_once_though_not_every_pod_knows_it(tmp_path, world):
    """If there is a DNS pod on each node, each DNS pod knows only the clients on its own node."""
    client = a_pod("web-1", "default", "127.0.0.2", node="node-a")
    within_a_minute()
    for name, objects, flags in (("dns-a", [], []), ("dns-b", [client], ["--client-pods=all"]), ("dns-c", [], [])):
        burst(world(name, [*BASE, *objects], *flags), "127.0.0.2", query("web.default.svc.cluster.local"), 1600)
    code, out, err = plugin(tmp_path, "top")
    assert code == 0, err
    (line,) = [line.split() for line in out.split("names\n")[0].splitlines() if "127.0.0.2" in line]
    assert line[6:] == ["127.0.0.2", "pod", "default/web-1", "on", "node-a"] and int(line[1]) > 3000


def test_queries_of_all_pods_are_in_the_order_of_time(tmp_path, world):
    pods = [world(name, BASE) for name in ("dns-a", "dns-b")]
    for i in range(6):
        udp(pods[i % 2], query(f"n{i}.default.svc.cluster.local"), source="127.0.0.2")
    udp(pods[0], query("web.default.svc.cluster.local"))
    recorded(pods[0], 4)
    recorded(pods[1], 3)
    code, out, err = plugin(tmp_path, "queries", "rcode=NXDOMAIN", "client=127.0.0.2")
    assert code == 0, err
    assert [(line.split()[1], line.split()[5][:2]) for line in out.splitlines()] == [(f"[dns-{'ab'[i % 2]}]", f"n{i}") for i in range(6)]
    assert plugin(tmp_path, "queries", "who=me")[0] == plugin(tmp_path, "queries", "name=a;b")[0] == 2


def test_queries_are_followed_until_it_is_interrupted(tmp_path, world):
    pods = [world(name, BASE) for name in ("dns-a", "dns-b")]
    p = subprocess.Popen([PLUGIN, "queries", "-f"], env={**os.environ, "KUBECTL": str(tmp_path / "kubectl")}, stdout=subprocess.PIPE, text=True)
    try:
        lines, number = [], itertools.count()
        threading.Thread(target=lambda: [lines.append(line) for line in p.stdout], daemon=True).start()

        def followed():
            for k in pods:
                udp(k, query(f"n{next(number)}.default.svc.cluster.local"))
            return len(lines) >= 20 and {line.split()[0] for line in lines} == {"[dns-a]", "[dns-b]"}

        wait_for(followed, 30, lambda: f"20 lines of both pods: {lines}")
        assert len(set(lines)) == len(lines)
    finally:
        p.terminate()
        p.wait(10)
