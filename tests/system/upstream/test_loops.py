"""Upstream servers that are kubedns itself. kubedns refuses them at startup, ignores them in the ConfigMap, and reports them once."""

import subprocess

import pytest
from dnsnet import Upstream
from kubedns_process import PROGRAM
from objects import namespace, service
from waiting import free_port
from world import Z, start

WORLD = [namespace("default"), service("web", "10.96.0.10")]


@pytest.mark.parametrize("bind, resolver", [("127.0.0.1", "127.0.0.1"), ("0.0.0.0", "127.0.0.1"), ("0.0.0.0", "[::1]"), ("::", "127.0.0.53")])
def test_a_resolver_that_is_kubedns_itself_is_refused(tmp_path, bind, resolver):
    """A bug: kubedns accepted such a resolver, and one query became 473 queries."""
    port = free_port()
    done = subprocess.run([PROGRAM, f"--dns-bind-address={bind}", f"--dns-port={port}", f"--resolver={resolver}:{port}",
                           f"--healthz-port={free_port()}", f"--objects-dir={tmp_path}"],
                          capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 2, done.stderr
    assert f'--resolver: "{resolver}:{port}" is' in done.stderr and "a forwarding loop" in done.stderr, done.stderr


def test_a_resolver_at_another_loopback_port_is_not_a_loop(tmp_path):
    with start(tmp_path, WORLD, f"--resolver=127.0.0.1:{free_port()}") as k:
        k.wait_ready()


def test_upstreams_that_are_kubedns_itself_are_left_out_and_said_once(tmp_path):
    conf = tmp_path / "conf"
    conf.mkdir()
    with Upstream() as u, start(tmp_path, WORLD, f"--nameservers={u.address}", f"--config-dir={conf}", "--config-period=50ms", "--dns-bind-address=0.0.0.0") as k:
        k.wait_ready()
        assert k.ask("www.example.net") == {"192.0.2.1"}
        upstreams = [f"127.0.0.1:{k.port}", f"127.0.0.53:{k.port}"]
        (conf / "upstreamNameservers").write_text(str(upstreams).replace("'", '"'))
        k.wait(lambda: "forwarding loop" in k.log())
        assert k.metric("kubedns_upstreams") == 0
        assert k.ask("www.example.net") == "REFUSED"
        assert k.ask(f"web.default.svc.{Z}") == {"10.96.0.10"}
        scrapes = k.metric("process_cpu_seconds_total")
        (conf / "federations").write_text("f=b.org")  # another key changes, and the periodic reading continues
        k.wait(lambda: k.metric("kubedns_config_last_change_timestamp_seconds") > 0 and k.metric("process_cpu_seconds_total") > scrapes)
        said = [line for line in k.log().splitlines() if "forwarding loop" in line]
        assert len(said) == 1 and all(u in said[0] for u in upstreams), said
