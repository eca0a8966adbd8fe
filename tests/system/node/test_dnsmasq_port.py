"""Ports on a shared network, in node-local and on an edge box: which other programs can bind them too, and how the nanny reports it."""

import json
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile

import pytest
import yaml
from node_world import LOCAL, NANNY, OUTSIDE, NodeWorld, Space

ROOT = pathlib.Path(__file__).resolve().parents[3]
THIEF = """
import socket, sys
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind((sys.argv[1], int(sys.argv[2])))
    print("bound", flush=True)
    sys.stdin.read()
"""


def dnsmasqs_address(world):
    """Returns the (address, port) of dnsmasq's UDP socket. Every process in the node's network can read this."""
    (row,) = [line.split() for line in world.node("ss", "-Hulnp").stdout.splitlines() if "dnsmasq" in line]
    return row[3].rsplit(":", 1)


def test_dnsmasqs_port_is_not_for_every_process_of_the_host(tmp_path):
    """dnsmasq sets SO_REUSEADDR. At port 10153 a process of any user could bind the same address, get every query and answer it."""

    def page(path):
        return world.node("curl", "-s", f"http://127.0.0.1:10056/{path}").stdout

    with NodeWorld(tmp_path) as world:
        # As in the pod, the programs use the host's network, where ports below 1024 are privileged.
        world.node("sysctl", "-qw", "net.ipv4.ip_unprivileged_port_start=1024")
        world.start_pod("pod-a")
        world.until(lambda: world.pod_is_ready("pod-a"), what="a pod that is ready")
        address, port = dnsmasqs_address(world)
        as_nobody = ("setpriv", "--reuid=1234", "--regid=1234", "--clear-groups", "--bounding-set=-all")
        refused = world.node(*as_nobody, sys.executable, "-c", THIEF, address, port, check=False, stdin=subprocess.DEVNULL)
        assert "PermissionError" in refused.stderr, refused
        assert world.node("dig", "+short", f"@{LOCAL}", OUTSIDE).stdout.strip() == "192.0.2.80"
        assert "nanny_dnsmasq_port_others 0\n" in page("metrics") and json.loads(page("config"))["dnsmasq"]["portSharedWith"] is None
        # A privileged process can still bind the address, and the nanny reports this.
        thief = ["ip", "netns", "exec", world.node.name, sys.executable, "-c", THIEF, address, port]
        with subprocess.Popen(thief, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout.readline() == "bound\n"
            world.until(lambda: "nanny_dnsmasq_port_others 1\n" in page("metrics"), what="the metric")
            assert json.loads(page("config"))["dnsmasq"]["portSharedWith"] == "a process of uid 0"
            assert f"port {port} is open in" in (tmp_path / "pod-a-nanny.log").read_text()
            world.until(lambda: 'dns_verdict_cause{cause="host"} 1\n' in world.node("curl", "-s", "http://127.0.0.1:10054/metrics").stdout,
                        what="the page's cause")
            process.stdin.close()
        world.until(lambda: "nanny_dnsmasq_port_others 0\n" in page("metrics"), what="the metric's end")
        assert f"port {port}: no other process uses it any more" in (tmp_path / "pod-a-nanny.log").read_text()


def capabilities(pid):
    status = dict(line.split(":", 1) for line in open(f"/proc/{pid}/status", encoding="ascii"))
    names = {10: "NET_BIND_SERVICE", 12: "NET_ADMIN"}
    bits = int(status["CapEff"], 16)
    return {names.get(bit, str(bit)) for bit in range(64) if bits >> bit & 1}


def test_the_capabilities_of_the_manifest_are_enough_and_each_process_has_its_own(tmp_path):
    """Starts the programs as the container engine does: root with the capabilities of the manifest. Executing a file adds no capability."""
    manifest = yaml.safe_load((ROOT / "conf/kubernetes/node-local/pods/kustomization.yaml").read_text())
    (daemonset,) = [yaml.safe_load(p["patch"]) for p in manifest["patches"] if "template" in p["patch"]]
    (dnsmasq,) = [c for c in daemonset["spec"]["template"]["spec"]["containers"] if c["name"] == "dnsmasq"]
    added = dnsmasq["securityContext"]["capabilities"]["add"]
    assert "--port=253" in dnsmasq["args"] and dnsmasq["securityContext"]["capabilities"]["drop"] == ["ALL"]
    bounding = ",".join(["-all", *(f"+{name.lower()}" for name in added)])
    with NodeWorld(tmp_path) as world:
        world.node("sysctl", "-qw", "net.ipv4.ip_unprivileged_port_start=1024")
        world.start_pod("pod-a", prefix=("setpriv", "--no-new-privs", f"--bounding-set={bounding}", f"--inh-caps={bounding}"))
        world.until(lambda: world.pod_is_ready("pod-a"), what="a pod that is ready")
        assert dnsmasqs_address(world)[1] == "253"
        (guard,), (process,) = world.pids("guard", "pod-a-nanny"), world.pids("dnsmasq", "pod-a-nanny")
        assert [capabilities(pid) for pid in (guard, world.running["pod-a-nanny"].pid, process)] == [
            {"NET_ADMIN"}, {"NET_BIND_SERVICE"}, {"NET_BIND_SERVICE"}]  # fmt: skip


JOIN = """
import socket, sys
with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as s:
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    s.bind((sys.argv[1], int(sys.argv[2])))
    s.listen()
"""


def test_the_ports_of_metrics_are_not_shared_with_others_that_run_as_nobody(tmp_path):
    """The next pod binds the same ports with SO_REUSEPORT, which every process of the same user can do. node-exporter's user is 65534."""

    def join(uid, address, port):
        return world.node("setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", sys.executable, "-c", JOIN, address, str(port), check=False).stderr

    with NodeWorld(tmp_path) as world:
        world.start_pod("pod-a")
        world.until(lambda: world.pod_is_ready("pod-a"), what="a pod that is ready")
        for port in (8081, 10054, 10055, 10056):
            for address in ("10.244.9.10", "127.0.0.1", "0.0.0.0"):
                assert "Address already in use" in join(65534, address, port)
        assert join(61053, "127.0.0.1", 10056) == "", "the next pod must be able to join"


def test_the_package_starts_dnsmasq_below_1024(tmp_path):
    """Starts the nanny as systemd does: its own user, one ambient capability, and the flags of /etc/default/kubedns-nanny."""
    (line,) = [line for line in (ROOT / "debian/kubedns-nanny.default").read_text().splitlines() if line.startswith("NANNY_ARGS=")]
    flags = shlex.split(shlex.split(line.split("=", 1)[1])[0])
    for other in ("kubedns", "kubedns-sidecar"):
        text = (ROOT / f"debian/{other}.default").read_text()
        assert "127.0.0.1:253" in text or "--dnsmasq-port=253" in text
    space = Space(f"kd{os.getpid()}deb")
    run_dir = tempfile.TemporaryDirectory(prefix="kd")
    os.chown(run_dir.name, 64123, 64123)
    flags = [f.replace("/run/kubedns-nanny", run_dir.name) for f in flags]
    cap = "-all,+net_bind_service"
    try:
        space("sysctl", "-qw", "net.ipv4.ip_unprivileged_port_start=1024")
        nanny = space.start("setpriv", "--reuid=64123", "--regid=64123", "--clear-groups", "--no-new-privs", f"--bounding-set={cap}",
                            f"--inh-caps={cap}", f"--ambient-caps={cap}", NANNY, "-terminationLog=/dev/null", *flags,
                            log=tmp_path / "nanny.log")  # fmt: skip
        try:
            for _ in range(100):
                out = space("dig", "+short", "+time=1", "+tries=1", "-p", "253", "@127.0.0.1", "TXT", "CH", "version.bind", check=False)
                if "dnsmasq" in out.stdout:
                    break
            else:
                pytest.fail((tmp_path / "nanny.log").read_text())
            refused = space("setpriv", "--reuid=1234", "--clear-groups", "--bounding-set=-all", sys.executable, "-c", THIEF, "127.0.0.1", "253",
                            check=False, stdin=subprocess.DEVNULL)  # fmt: skip
            assert "PermissionError" in refused.stderr, refused
        finally:
            nanny.terminate()
            nanny.wait(timeout=30)
    finally:
        space.close()
        run_dir.cleanup()


@pytest.mark.parametrize("nanny_port, before, after", [
    (253, "--resolver=127.0.0.1:10153 --drain=0s", "--resolver=127.0.0.1:253 --drain=0s"),
    (253, "--drain=0s --resolver=127.0.0.1:10153", "--drain=0s --resolver=127.0.0.1:253"),
    (253, "--resolver=127.0.0.1:101530", "--resolver=127.0.0.1:101530"),
    (253, "--resolver=10.0.0.1:10153", "--resolver=10.0.0.1:10153"),
    (10153, "--resolver=127.0.0.1:10153", "--resolver=127.0.0.1:10153"),  # the operator uses other flags
])  # fmt: skip
def test_an_upgrade_of_the_package_leads_kubedns_to_the_new_port(tmp_path, nanny_port, before, after):
    if not shutil.which("dpkg"):
        pytest.skip("needs dpkg")
    defaults = tmp_path / "etc/default"
    defaults.mkdir(parents=True)
    (defaults / "kubedns-nanny").write_text(f'NANNY_ARGS="-drain=0s -- -k --port={nanny_port} --listen-address=127.0.0.1"\n')
    (defaults / "kubedns").write_text(f'# --resolver=127.0.0.1:10153\nKUBEDNS_ARGS="{before}"\n')

    def configure(version):
        subprocess.run(["sh", ROOT / "debian/kubedns-nanny.postinst", "configure", version], env={**os.environ, "DPKG_ROOT": str(tmp_path)}, check=True)

    configure("")  # a first installation
    configure("0.1.1")
    assert before in (defaults / "kubedns").read_text()
    configure("0.1.0")
    assert (defaults / "kubedns").read_text() == f'# --resolver=127.0.0.1:10153\nKUBEDNS_ARGS="{after}"\n'
