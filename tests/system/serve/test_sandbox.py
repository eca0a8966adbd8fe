"""
What each process can still do after its startup. The loader puts a library (inside.c) into the real programs. The library tries what an
intruder would try, in the main thread and in a worker, and logs the results.
"""

import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile

import dns.message
import dns.query
import pytest
from kubedns_process import PROGRAM, Kubedns
from nanny_world import ARGS, DNSMASQ, Server, World, constant, only_dnsmasq
from sidecar_world import Sidecar
from waiting import free_port, sanitized, wait_for

pytestmark = pytest.mark.skipif(sanitized(), reason="a sanitizer's library must be loaded first, and it needs system calls that the sandbox refuses")

FILES = {"shadow", "read", "write", "create", "unlink"}
KERNEL = {"mount", "unshare", "bpf", "io_uring", "userfaultfd", "perf", "keys", "chroot", "process_vm_readv", "pidfd_getfd", "init_module",
          "setns"}
SOCKETS = {"unix", "raw", "packet", "vsock", "netfilter"}
# Ways around Landlock's checks of TCP and signals. The system call filter must close them.
AROUND = {"fastopen-sendto", "fastopen-sendmsg", "fastopen-sendmmsg", "mptcp", "listen-unbound", "clone-namespaces", "limits-of-another"}
# A file without a path, which Landlock does not judge, and a Unix socket of another program.
OTHERS = {"exec-memfd", "unix-connect"}
ALL = FILES | KERNEL | SOCKETS | AROUND | OTHERS | {"connect", "listen", "kill", "ptrace", "exec", "fork"}

# The layers: Landlock refuses with EACCES (EPERM for signals), the system call filter with ENOSYS.
LANDLOCK, SYSCALLS = {"EACCES", "EPERM"}, {"ENOSYS"}

# The nanny must still start dnsmasq, connect to servers on any port and send signals. So for the nanny, Landlock refuses some attempts that
# the filter refuses for the other programs. dnsmasq listens during startup, and a filter cannot distinguish dnsmasq's socket from an
# intruder's. If a socket has no address, it can listen: the kernel chooses its port.
EXPECTED = {
    "kubedns": {name: SYSCALLS for name in KERNEL | SOCKETS | AROUND | OTHERS | {"write", "create", "unlink", "kill", "ptrace", "exec", "fork"}} | dict.fromkeys(
        ("shadow", "read", "connect", "listen"), LANDLOCK),
    "nanny": {name: SYSCALLS for name in KERNEL | SOCKETS | AROUND | OTHERS | {"ptrace"}} | dict.fromkeys(FILES | {"listen", "kill", "exec"}, LANDLOCK)
    | {"listen-unbound": {"ok"}, "fork": {"ok"}},
    "dnsmasq": {name: SYSCALLS for name in KERNEL | SOCKETS | AROUND | OTHERS | {"ptrace", "exec", "exec-itself"}} | dict.fromkeys(
        FILES | {"connect", "listen", "kill", "unlink-servers"}, LANDLOCK)
    | {"listen-unbound": {"ok"}, "fork": {"ok"}},
    # unbound opens its control socket, queries tls:// servers at any TCP port, and starts no process.
    "unbound": {name: SYSCALLS for name in KERNEL | SOCKETS | AROUND | OTHERS | {"ptrace", "exec", "exec-itself"}} | dict.fromkeys(
        FILES | {"listen", "kill", "unlink-servers"}, LANDLOCK)
    | {"connect": {"ok"}, "unix": {"ok"}, "unix-connect": {"ECONNREFUSED"}, "listen-unbound": {"ok"}, "fork": {"ok"}},
}
EXPECTED["sidecar"] = EXPECTED["kubedns"]


@pytest.fixture(scope="module")
def library():
    with tempfile.TemporaryDirectory(prefix="inside-") as place:
        path = os.path.join(place, "inside.so")
        source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "helpers", "inside.c")
        subprocess.run([os.environ.get("CC", "cc"), "-O1", "-Wall", "-shared", "-fPIC", "-o", path, source], check=True)
        yield path


@pytest.fixture
def outside(library):
    """The environment of a process under test: a secret file that every user can read, and a server that listens."""
    with tempfile.TemporaryDirectory(prefix="outside-") as place, socket.create_server(("127.0.0.1", 0)) as server:
        os.chmod(place, 0o777)
        with open(os.path.join(place, "secret"), "w", encoding="ascii") as f:
            f.write("secret")
        os.chmod(os.path.join(place, "secret"), 0o666)
        open(os.path.join(place, "removable"), "w", encoding="ascii").close()
        with socket.socket(socket.AF_UNIX) as unix:
            unix.bind(os.path.join(place, "socket"))
        os.chmod(os.path.join(place, "socket"), 0o777)
        yield {"LD_PRELOAD": library, "INSIDE_DIR": place, "INSIDE_PORT": str(server.getsockname()[1]), "INSIDE_FREE_PORT": str(free_port()),
               "INSIDE_FILTERS": filters()}


def filters():
    """The number of seccomp filters of this process. Every process that it starts inherits them."""
    with open("/proc/self/status", encoding="ascii", errors="replace") as f:
        return next((line.split()[1] for line in f if line.startswith("Seccomp_filters:")), "0")


def attempts(log, program):
    """Returns {thread: {attempt: outcome}} for the threads that have finished all attempts."""
    found = {}
    for thread, attempt, outcome in re.findall(rf"inside {program} (\S+) (\S+) (\S+)", log):
        found.setdefault(thread, {})[attempt] = outcome
    return {thread: tried for thread, tried in found.items() if tried.pop("end", None)}


def check(tried, expected):
    expected = {**expected, "limits-of-itself": {"ok"}}
    wrong = {name: (tried.get(name), sorted(errnos)) for name, errnos in expected.items() if tried.get(name) not in errnos}
    assert not wrong, f"attempt: (outcome, expected): {wrong}"
    assert ALL <= set(tried)


def has_tried(log, program, threads=1):
    found = attempts(log(), program)
    return found if len(found) >= threads else None


@pytest.fixture
def objects():
    with tempfile.TemporaryDirectory(prefix="objects-") as place:
        yield place


def test_kubedns_refuses_all_of_it_in_every_thread(outside, objects):
    with Kubedns(f"--objects-dir={objects}", "--threads=2", env=outside) as kubedns:
        found = kubedns.wait(lambda: has_tried(kubedns.log, "kubedns", 3), what=kubedns.log)
        assert {"worker00", "worker01"} < set(found)
        for tried in found.values():
            check(tried, EXPECTED["kubedns"])
        kubedns.wait_ready()
        assert all(kubedns.metric("kubedns_sandbox", layer=layer) == 1 for layer in ("no_new_privs", "capabilities", "files", "tcp", "syscalls"))


def test_share_port_changes_the_sandbox_only_for_listening(outside, objects):
    with Kubedns(f"--objects-dir={objects}", "--share-port", "--threads=1", env=outside) as kubedns:
        found = kubedns.wait(lambda: has_tried(kubedns.log, "kubedns", 2), what=kubedns.log)
        for tried in found.values():
            check(tried, EXPECTED["kubedns"] | {"listen-unbound": {"ok"}})


def test_without_the_sandbox_the_same_attempts_succeed(outside, objects):
    with Kubedns(f"--objects-dir={objects}", "--sandbox=off", "--threads=1", env={**outside, "INSIDE_FILTERS": "-1"}) as kubedns:
        found = kubedns.wait(lambda: has_tried(kubedns.log, "kubedns", 2), what=kubedns.log)
        for tried in found.values():
            done = {name for name, outcome in tried.items() if outcome == "ok"}
            assert {"read", "write", "create", "connect", "listen", "unix", "kill", "exec"} | AROUND <= done
            assert tried["exec-memfd"] == "ENOEXEC" and tried["unix-connect"] == "ECONNREFUSED" and tried["unlink"] in ("ok", "ENOENT")
            assert not {name for name in KERNEL | {"ptrace"} if tried[name] == "ENOSYS"} - {"perf", "userfaultfd", "init_module"}
        assert kubedns.metric("kubedns_sandbox", layer="syscalls") == 0


def test_the_sidecar_refuses_all_of_it(outside, monkeypatch):
    for name, value in outside.items():
        monkeypatch.setenv(name, value)
    with Sidecar() as sidecar:
        found = wait_for(lambda: has_tried(sidecar.said, "sidecar"), what=sidecar.said)
        check(found["sidecar"], EXPECTED["sidecar"])


def test_without_the_sandbox_the_sidecar_gets_around(outside, monkeypatch):
    for name, value in {**outside, "INSIDE_FILTERS": "-1"}.items():
        monkeypatch.setenv(name, value)
    with Sidecar("--sandbox=off") as sidecar:
        found = wait_for(lambda: has_tried(sidecar.said, "sidecar"), what=sidecar.said)
        assert AROUND <= {name for name, outcome in found["sidecar"].items() if outcome == "ok"}


@pytest.fixture
def world():
    world = World()
    yield world
    world.close()


def start_nanny(world, outside, *args):
    # dnsmasq's loader reads the library inside the sandbox, so the library is in the directory of a file that dnsmasq's arguments name.
    place = os.path.join(world.dir, "lib")
    os.mkdir(place)
    shutil.copy(outside["LD_PRELOAD"], place)
    with open(os.path.join(place, "hosts"), "w", encoding="ascii") as f:
        f.write("10.0.0.7 named.example\n")
    env = {**os.environ, "INSIDE_SERVERS": os.path.join(world.run, "nanny", "servers.conf"), **outside,
           "LD_PRELOAD": os.path.join(place, "inside.so"), "INSIDE_EXEC": DNSMASQ}  # fmt: skip
    return world.start(*args, args=[*ARGS, f"--addn-hosts={place}/hosts"], env=env)


def test_the_nanny_refuses_all_but_its_child(world, outside):
    start_nanny(world, outside)
    found = wait_for(lambda: has_tried(world.log, "nanny"), what=world.log)
    check(found["nanny"], EXPECTED["nanny"])
    assert found["nanny"]["exec-itself"] == "ok"  # "itself" is dnsmasq's program, which the nanny must be able to start again


@only_dnsmasq("test_nanny_unbound.py has the test for unbound")
def test_dnsmasq_refuses_all_but_dns(world, outside):
    start_nanny(world, outside)
    found = wait_for(lambda: has_tried(world.log, "dnsmasq"), what=world.log)
    check(found["dnsmasq"], EXPECTED["dnsmasq"])


@pytest.mark.parametrize("program", ["nanny", "dnsmasq"])
def test_without_the_sandbox_the_nanny_and_dnsmasq_get_around(world, outside, program):
    start_nanny(world, {**outside, "INSIDE_FILTERS": "-1", "INSIDE_SERVERS": "/no/such/file"}, "--sandbox=off")
    found = wait_for(lambda: has_tried(world.log, program), what=world.log)
    done = {name for name, outcome in found[program].items() if outcome == "ok"}
    # The parent process may belong to another user, for the nanny under test and for dnsmasq, when root runs the tests.
    assert AROUND - {"limits-of-another"} <= done and found[program]["limits-of-another"] in ("ok", "EPERM")


@pytest.mark.parametrize("program", ["kubedns", "nanny", "sidecar"])
def test_a_mode_that_does_not_exist_is_refused(program):
    done = subprocess.run([os.path.join(os.path.dirname(PROGRAM), program), "--sandbox=maybe"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert '--sandbox: "maybe" is not on, off or log' in done.stderr


def test_check_says_what_the_kernel_offers(objects):
    done = subprocess.run([PROGRAM, "--check", f"--objects-dir={objects}"], capture_output=True, text=True, check=False)
    assert re.search(r"sandbox: --sandbox=on; this kernel has Landlock \w+ \(version \d", done.stderr)


def test_log_refuses_nothing_and_says_so(outside, objects):
    with Kubedns(f"--objects-dir={objects}", "--sandbox=log", "--threads=1", env=outside) as kubedns:
        found = kubedns.wait(lambda: has_tried(kubedns.log, "kubedns", 2), what=kubedns.log)
        for tried in found.values():
            assert all(tried[name] == "ok" for name in ("read", "write", "create", "connect", "unix", "exec"))
        assert "sandbox: log: " in kubedns.log()


def over_tcp(world, name):
    """The addresses in the answer. Without an answer the result is empty."""
    try:
        reply = dns.query.tcp(dns.message.make_query(name, "A"), "127.0.0.1", port=world.port, timeout=5)
    except (OSError, EOFError):
        return []
    return [rdata.to_text() for rrset in reply.answer for rdata in rrset]


def test_a_port_that_comes_too_late_for_the_sandbox_is_said_once(world):
    server = Server(constant("10.9.0.1"), tcp=True)
    try:
        world.start()
        world.write(stubDomains={"acme.test": [str(server)]})
        world.wait_log("the sandbox does not allow it")
        wait_for(lambda: "10.9.0.1" in str(world.ask("www.acme.test")))  # over UDP
        world.write(stubDomains={"acme.test": [str(server)], "other.test": [str(server)]})
        wait_for(lambda: "10.9.0.1" in str(world.ask("www.other.test")))
        assert world.log().count("the sandbox does not allow it") == 1
        asked = len(server.asked)
        assert over_tcp(world, "tcp.acme.test") == [] and len(server.asked) == asked  # dnsmasq itself tries TCP Fast Open first
        os.kill(world.pid(), signal.SIGKILL)  # the next dnsmasq knows the port at its startup
        wait_for(lambda: over_tcp(world, "tcp.acme.test") == ["10.9.0.1"])
    finally:
        server.close()


def test_kubedns_says_which_upstream_came_too_late(objects, tmp_path):
    (tmp_path / "conf").mkdir()
    with Kubedns(f"--objects-dir={objects}", f"--config-dir={tmp_path}/conf", "--nameservers=127.0.0.1:53") as kubedns:
        kubedns.wait_ready()
        assert "the sandbox does not allow TCP port" not in kubedns.log()
        (tmp_path / "conf/upstreamNameservers").write_text('["127.0.0.1:5399"]')
        kubedns.wait(lambda: "upstream 127.0.0.1:5399: the sandbox does not allow TCP port 5399" in kubedns.log())
