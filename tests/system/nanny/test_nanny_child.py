"""dnsmasq and the nanny die in every way and at every moment of the table in nanny(8). The programs must behave as the table says."""

import contextlib
import fcntl
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time

import dns.message
import pytest
from hurry import Clock
from nanny_world import ARGS, DNSMASQ, ENGINE, Server, World, constant, only_dnsmasq
from waiting import alive, wait_for

pytestmark = pytest.mark.spread


@pytest.fixture
def upstream():
    s = Server(constant("10.9.0.1"))
    yield s
    s.close()


@pytest.fixture
def standin(world):
    """Starts the nanny with a stand-in for dnsmasq. `signals()` returns the signals that the stand-in received."""
    if ENGINE != "dnsmasq":
        pytest.skip("the stand-in plays dnsmasq")
    # If root starts the nanny, it becomes the user nobody. So it needs a directory in which nobody can read and execute files. /dev/shm is
    # noexec in containers.
    place = tempfile.mkdtemp(prefix="nanny-standin-")
    os.chmod(place, 0o755)
    path = os.path.join(place, "standin")
    shutil.copy(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "helpers", "nanny_standin.py"), path)
    os.chmod(path, 0o755)
    log = os.path.join(world.run, "signals")

    def start(mode, *flags, **kwargs):
        return world.start("-sandbox=off", *flags, exec_=path, args=[f"--mode={mode}", f"--signals={log}"], ready=False, **kwargs)

    def signals():
        try:
            with open(log, encoding="ascii") as f:
                return f.read().split("\n")[:-1]
        except FileNotFoundError:
            return []

    start.signals = signals
    yield start
    shutil.rmtree(place)


@pytest.fixture
def clock(tmp_path):
    return Clock(tmp_path)


@contextlib.contextmanager
def running(clock):
    """The clock runs until the end of this block. Then it stands still, so that nothing is due. Yields the environment of a nanny with this clock."""
    with clock.running(1):
        yield {"env": {**os.environ, **clock.env}}


def state(world):
    return world.config()["dnsmasq"]["state"]


def tcp_client(port):
    """A TCP client that sends one query and keeps its connection. dnsmasq has forked a process for it."""
    sock = socket.create_connection(("127.0.0.1", port), timeout=60)
    query = dns.message.make_query("version.bind", "TXT", "CH").to_wire()
    sock.sendall(len(query).to_bytes(2, "big") + query)
    with sock.makefile("rb") as stream:
        stream.read(int.from_bytes(stream.read(2), "big"))
    return sock


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as f:
        return [int(p) for p in f.read().split()]


# dnsmasq's deaths


def test_killed_dnsmasq_is_started_again_at_once(world, upstream, clock):
    world.write(upstreamNameservers=[str(upstream)])
    with running(clock) as options:
        world.start(**options)
    pid = world.pid()
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: world.config()["dnsmasq"]["pid"] not in (0, pid))
    with running(clock):
        world.wait_confirmed()
    assert world.ask("a.example.test") == "10.9.0.1"
    assert "killed by signal 9" in world.log()
    assert world.metric("nanny_child_restarts_total") == 1


@only_dnsmasq("its TCP processes")
def test_tcp_processes_of_a_dead_dnsmasq_end_before_the_next_start(world, upstream):
    world.write(upstreamNameservers=[str(upstream)])
    world.start()
    clients = [tcp_client(world.port) for _ in range(5)]
    pid = world.pid()
    orphans = children(pid)
    assert len(orphans) == 5
    os.kill(pid, signal.SIGKILL)
    world.wait_config(lambda c: c["confirmed"] and c["dnsmasq"]["pid"] not in (0, pid))
    assert not any(alive(p) for p in orphans)
    assert world.ask("a.example.test") == "10.9.0.1"
    assert world.config()["dnsmasq"]["deaths"] == 1  # the port was free, so dnsmasq did not die twice
    assert [c.recv(1) for c in clients] == [b""] * 5


def test_stopped_dnsmasq_is_killed_when_it_has_been_silent_for_too_long(world, clock):
    with running(clock) as options:
        world.start("-silence=2s", **options)
    pid = world.pid()
    assert world.get("/healthz") == (200, "ok\n")
    os.kill(pid, signal.SIGSTOP)
    clock.run_until(lambda: world.config()["dnsmasq"]["pid"] not in (0, pid), 10, what=world.log)
    wait_for(world.answers)
    with running(clock):
        world.wait_confirmed()
    assert "no answer for" in world.log() and world.metric("nanny_dnsmasq_silences_total") == 1
    assert world.get("/healthz") == (200, "ok\n") and world.answers()


def test_health_and_readiness_follow_the_silence(world, standin, tmp_path):
    clock = Clock(tmp_path)
    standin("mute", "-silence=3s", env={**os.environ, **clock.env})
    assert world.get("/readiness")[0] == 503
    assert world.get("/healthz")[0] == 200
    clock.run_until(lambda: world.metric("nanny_dnsmasq_silences_total") >= 1, 5, what=world.log)
    wait_for(lambda: len(standin.signals()) >= 2)  # the nanny started it again
    assert world.get("/readiness")[0] == 503
    assert world.get("/healthz")[0] == 503  # the new dnsmasq has not answered yet


def test_a_nanny_that_stands_still_does_not_stop_dnsmasq(world, upstream):
    world.write(upstreamNameservers=[str(upstream)])
    world.start(args=[*ARGS, "--log-queries"])
    os.kill(world.process.pid, signal.SIGSTOP)
    try:
        for i in range(600):  # dnsmasq logs more than 100 kB
            assert world.ask(f"n{i}.example.test") == "10.9.0.1"
    finally:
        os.kill(world.process.pid, signal.SIGCONT)


def test_five_deaths_in_a_minute_end_the_nanny(world, clock):
    termination = os.path.join(world.dir, "termination")
    with open(termination, "w", encoding="ascii"):
        os.chmod(termination, 0o666)
    with running(clock) as options:
        world.start(**options)
        for death in range(5):
            pid = world.wait_config(lambda c: c["confirmed"] and c["dnsmasq"]["pid"])["dnsmasq"]["pid"]
            os.kill(pid, signal.SIGKILL)
            if death < 4:
                world.wait_config(lambda c, d=death: c["dnsmasq"]["deaths"] == d + 1)
    assert world.wait_exit() == 1
    assert "killed by signal 9" in world.lines[-1] and "giving up" in world.lines[-1]
    with open(termination, encoding="ascii") as f:
        assert "killed by signal 9" in f.read()


def test_a_child_that_exits_3_for_ever(world, standin, tmp_path):
    clock = Clock(tmp_path)
    standin("exit:3", env={**os.environ, **clock.env})
    for deaths in range(1, 6):
        wait_for(lambda n=deaths: world.log().count("exited with status 3") >= n, what=world.log)
        clock.run_until(lambda n=deaths: world.log().count("started as process") > n or world.process.poll() is not None, 8, what=world.log)
    assert world.wait_exit() == 1 and clock.seconds() < 8
    assert [s.partition(" ")[0] for s in standin.signals()] == ["start"] * 5
    assert "status 3" in world.lines[-1] and "stand-in says hello" in world.lines[-1]


# dnsmasq cannot start: each cause has its own message


def test_no_such_program(world):
    world.start(exec_="/nonexistent/dnsmasq", ready=False)
    assert world.wait_exit() == 2
    assert "/nonexistent/dnsmasq cannot be started: No such file" in world.log()


def test_not_executable(world):
    path = os.path.join(world.dir, "plain")
    with open(path, "w", encoding="ascii"):
        pass
    world.start(exec_=path, ready=False)
    assert world.wait_exit() == 2
    assert "cannot be started: Permission denied" in world.log()


@only_dnsmasq("its arguments")
def test_refused_argument(world):
    world.start(args=[*ARGS, "--no-such-option"], ready=False)
    assert world.wait_exit() == 2
    assert "it refuses its arguments" in world.log() and "bad command line options" in world.log()
    assert "does not support --no-such-option: remove it" in world.log() and "its arguments:" in world.log()


@only_dnsmasq("its versions")
def test_an_older_dnsmasq_is_told_by_the_option_that_it_does_not_know(world):
    """The stand-in is an older dnsmasq that does not know --fast-dns-retry, which the nanny adds. One flag has a spelling mistake."""
    old = pathlib.Path(world.dir, "dnsmasq")  # the nanny's user can read this directory
    listed = "".join(f"    --{name}=<x>\n" for name in ("port", "no-resolv", "conf-file", "pid-file", "log-facility", "servers-file", "dns-forward-max",
                                                        "cache-size", "user", "group", "listen-address", "bind-interfaces"))  # fmt: skip
    old.write_text(f"#!/bin/sh\n[ $1 = --version ] && echo 'Dnsmasq version 2.80  Copyright' && exit\n[ $1 = --help ] && echo '{listed}' && exit\nexit 1\n")
    old.chmod(0o755)
    world.start(exec_=str(old), args=[*ARGS, "--chache-size=10"], ready=False)
    world.wait_exit()
    assert f"dnsmasq {old}: version 2.80 does not support --fast-dns-retry, which needs version 2.88" in world.log()
    assert "does not support --chache-size: did you mean --cache-size?" in world.log()


@pytest.mark.parametrize("line, found", [("Version 1.22.0", "version 1.22.0"), ("Version 1.26.0", "version 1.26.0"), ("hello", "unknown version")])
def test_an_old_unbound_is_refused_in_one_line(world, line, found):
    old = pathlib.Path(world.dir, "unbound")
    old.write_text(f"#!/bin/sh\necho '{line}'\n")
    old.chmod(0o755)
    world.start("-engine=unbound", f"-unboundExec={old}", ready=False)
    assert world.wait_exit() == 2
    refusals = [l for l in world.lines if f"unbound {old}: {found}: --engine=unbound needs version 1.26.1 or newer, because older" in l]
    assert len(refusals) == 1 and "or use --engine=dnsmasq" in refusals[0], world.log()


def test_port_in_use(world):
    with socket.socket() as other:
        other.bind(("127.0.0.1", world.port))
        other.listen()
        world.start(ready=False)
        assert world.wait_exit() == 1
    # A thread reads dnsmasq's last lines, perhaps after dnsmasq has exited.
    wait_for(lambda: "address is in use" in world.lines[-1])
    assert ENGINE == "unbound" or "warning: dnsmasq: failed to create listening socket" in world.log()
    assert "Address already in use" in world.lines[-1]


# signals to the nanny


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGINT])
def test_sigterm_drains_and_exits_with_0(world, upstream, sig, clock):
    world.write(upstreamNameservers=[str(upstream)])
    with running(clock) as options:
        world.start("-drain=2s", **options)
    pid = world.pid()
    world.process.send_signal(sig)
    wait_for(lambda: world.get("/readiness")[0] == 503)
    assert state(world) == "draining"
    assert world.get("/healthz")[0] == 200
    assert world.ask("a.example.test") == "10.9.0.1"
    assert 1.9 <= clock.run_until(lambda: world.process.poll() is not None, 10) < 4
    assert world.wait_exit() == 0
    assert not alive(pid)


def test_a_second_sigterm_does_not_wait(world):
    world.start("-drain=60s")
    pid = world.pid()
    world.process.send_signal(signal.SIGTERM)
    wait_for(lambda: state(world) == "draining")
    world.process.send_signal(signal.SIGTERM)
    assert world.wait_exit() == 0
    assert not alive(pid)


def test_sigkill_leaves_no_dnsmasq_behind(world):
    world.start()
    client = tcp_client(world.port)
    pid = world.pid()
    family = [pid, *children(pid)]
    assert len(family) == (2 if ENGINE == "dnsmasq" else 1)  # dnsmasq forks for a TCP client
    world.process.kill()
    world.wait_exit()
    wait_for(lambda: not any(alive(p) for p in family))
    client.close()


def test_death_while_draining_is_answered_by_a_new_child(world, upstream, clock):
    world.write(upstreamNameservers=[str(upstream)])
    with running(clock) as options:
        world.start("-drain=3s", **options)
    pid = world.pid()
    world.process.send_signal(signal.SIGTERM)
    wait_for(lambda: state(world) == "draining")
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: world.config()["dnsmasq"]["pid"] not in (0, pid))
    wait_for(world.answers)
    assert world.ask("a.example.test") == "10.9.0.1"
    clock.run_until(lambda: world.process.poll() is not None, 10)
    assert world.wait_exit() == 0


def test_a_child_that_ignores_sigterm_is_killed(world, standin, clock):
    with running(clock) as options:
        standin("deaf", **options)
        wait_for(lambda: state(world) == "reloading")
    world.process.send_signal(signal.SIGTERM)
    wait_for(lambda: state(world) == "stopping")
    assert 4.9 <= clock.run_until(lambda: world.process.poll() is not None, 10) < 7
    assert world.wait_exit() == 0
    assert standin.signals()[-1] == "SIGTERM"


def test_a_second_sigterm_while_stopping_kills_at_once(world, standin, clock):
    """The usual 5 s for dnsmasq do not pass on the nanny's clock."""
    with running(clock) as options:
        standin("deaf", **options)
        wait_for(lambda: state(world) == "reloading")
    world.process.send_signal(signal.SIGTERM)
    wait_for(lambda: state(world) == "stopping")
    world.process.send_signal(signal.SIGTERM)
    assert world.wait_exit() == 0


def test_sigkill_while_starting_leaves_nothing_behind(world, standin):
    standin("mute")
    wait_for(standin.signals)
    pid = world.pid()
    assert state(world) == "starting"
    world.process.kill()
    world.wait_exit()
    wait_for(lambda: not alive(pid))
    assert standin.signals()[-1] == "SIGTERM"


@only_dnsmasq("its version")
def test_metrics_tell_the_version_that_dnsmasq_says(world):
    world.start()
    said = subprocess.run([DNSMASQ, "--version"], capture_output=True, text=True, check=True).stdout.split()[2]
    wait_for(lambda: f'nanny_dnsmasq_info{{version="{said}",package=""}} 1' in world.get("/metrics")[1])


def test_silence_while_draining_is_answered_by_a_new_child(world, clock):
    with running(clock) as options:
        world.start("-silence=1s", "-drain=60s", **options)  # the drain ends at the second SIGTERM, not after 60 s
    pid = world.pid()
    world.process.send_signal(signal.SIGTERM)
    wait_for(lambda: state(world) == "draining")
    os.kill(pid, signal.SIGSTOP)
    clock.run_until(lambda: world.config()["dnsmasq"]["pid"] not in (0, pid), 30, what=world.log)
    wait_for(world.answers, what=world.log)
    world.process.send_signal(signal.SIGTERM)
    assert world.wait_exit() == 0


def test_sigterm_while_backing_off_ends_at_once(world, standin, clock):
    standin("exit:3", env={**os.environ, **clock.env})
    wait_for(lambda: world.http and state(world) == "backing off")
    world.process.send_signal(signal.SIGTERM)
    assert world.wait_exit() == 0


def test_sigterm_while_starting(world, standin, clock):
    standin("mute", "-drain=1s", env={**os.environ, **clock.env})
    wait_for(standin.signals)
    assert state(world) == "starting"
    world.process.send_signal(signal.SIGTERM)
    clock.run_until(lambda: world.process.poll() is not None, 4)
    assert world.wait_exit() == 0
    assert standin.signals()[-1] == "SIGTERM"


# the moments of a change


def test_no_sighup_before_the_first_answer(world, standin):
    standin("mute")
    wait_for(standin.signals)
    assert standin.signals() == ["start ignored=True blocked=0"]
    world.write(stubDomains={"acme.test": ["10.0.0.1"]})
    world.wait_config(lambda c: c["keys"]["stubDomains"]["inForce"])
    time.sleep(0.3)  # an unwanted signal would arrive in this time
    assert state(world) == "starting" and len(standin.signals()) == 1


def test_what_is_not_confirmed_is_told_again_and_counted(world, standin):
    standin("answer")
    wait_for(lambda: state(world) == "reloading")
    assert world.get("/readiness")[0] == 200  # dnsmasq answers queries
    wait_for(lambda: standin.signals().count("SIGHUP") >= 2)
    assert world.config()["confirmed"] is False
    assert world.metric('nanny_reloads_total{result="timeout"}') >= 2


def test_death_by_sighup_while_reloading(world, standin, tmp_path):
    clock = Clock(tmp_path)
    standin("hup", env={**os.environ, **clock.env})
    for death in range(5):
        clock.run_until(lambda n=death: world.log().count("started as process") > n, 15, what=world.log)
        wait_for(lambda n=death: sum(line.startswith("start") for line in standin.signals()) > n, what=world.log)
        # Without confirmation, dnsmasq gets a SIGHUP after a second, and the SIGHUP kills it.
        clock.run_until(lambda n=death: world.log().count("exited with status 7") > n, 15, what=world.log)
    assert world.wait_exit() == 1
    assert "status 7" in world.lines[-1]
    assert standin.signals().count("SIGHUP") == 5


def test_a_change_and_its_opposite_during_a_reload_end_in_one_truth(world, upstream):
    world.write(upstreamNameservers=[str(upstream)])
    world.start()
    for i in range(20):
        world.write(upstreamNameservers=[str(upstream)], stubDomains={"acme.test": [f"10.0.0.{i + 1}"]})
    world.wait_config(lambda c: c["confirmed"] and c["keys"]["stubDomains"]["inForce"] == {"acme.test": ["10.0.0.20:53"]})
    assert world.file()[1:] == ["server=/acme.test/10.0.0.20#53"]
    assert world.metric("nanny_sighups_total") <= 4


@only_dnsmasq("unbound's file has no lines of removed domains")
def test_dropped_lines_are_counted_and_logged_once(world):
    """A bug: the nanny also counted them when it only planned the file to see whether it would change."""
    world.write(stubDomains={"d0.test": ["10.0.0.1"]})
    world.start()
    world.write(stubDomains={f"d{i}.test": ["10.0.0.1", "10.0.0.2"] for i in range(11000)})
    world.wait_config(lambda c: c["confirmed"] and len(c["keys"]["stubDomains"]["inForce"]) > 1, 60)
    world.write(stubDomains={"d0.test": ["10.0.0.1"]})
    world.wait_config(lambda c: c["confirmed"] and len(c["keys"]["stubDomains"]["inForce"]) == 1, 60)
    assert world.metric("nanny_servers_file_dropped_lines_total") == 2 * 10999 - 20000
    assert world.log().count("dropped 1998 lines") == 1, world.log()


@only_dnsmasq("unbound does not stop for new domains")
def test_very_many_new_domains_come_in_several_reloads(world, upstream):
    """dnsmasq compares each new domain with all its domains, and answers nobody meanwhile. 20,000 domains at once stopped it for 0.8 s."""
    world.write(stubDomains={"d0.test": [str(upstream)]})
    world.start()
    pid = world.pid()
    world.write(stubDomains={f"d{i}.test": [str(upstream)] for i in range(15000)})
    world.wait_config(lambda c: c["confirmed"] and len(c["keys"]["stubDomains"]["inForce"]) > 1)
    assert world.metric("nanny_sighups_total") >= 3
    assert world.metric("nanny_config_changes_total") == 1
    assert len(world.file()) >= 15000
    assert [world.ask(f"www.d{i}.test") for i in (0, 7500, 14999)] == ["10.9.0.1"] * 3
    assert world.pid() == pid


def test_the_same_content_again_is_no_sighup(world):
    world.write(stubDomains='{"acme.test":["10.0.0.1","10.0.0.2"]}')
    world.start()
    for text in ('{ "acme.test" : [ "10.0.0.1", "10.0.0.2" ] }', '{"ACME.test.":["10.0.0.2:53","10.0.0.1"]}'):
        world.write(stubDomains=text)
        world.wait_config(lambda c: not c["refused"])
    world.write(stubDomains=text, unknown="x")
    world.write(stubDomains={"acme.test": ["10.0.0.1", "10.0.0.2"], "b.test": []})  # another value for which the nanny writes the same lines
    world.wait_config(lambda c: "b.test" in c["keys"]["stubDomains"]["inForce"])
    assert world.metric("nanny_sighups_total") == 0


def test_without_restartdnsmasq_changes_are_only_reported(world, upstream):
    world.write(upstreamNameservers=[str(upstream)])
    world.start("-restartDnsmasq=false")
    world.write(upstreamNameservers=["10.0.0.9"])
    world.wait_log("-restartDnsmasq is false: not applied")
    assert world.file() == [f"server=127.0.0.1#{upstream.port}"]
    assert world.metric("nanny_config_changes_not_applied_total") == 1


# the log


def test_a_reader_of_stderr_that_never_reads_blocks_nobody(world, upstream):
    world.write(upstreamNameservers=[str(upstream)])
    read, write = os.pipe()
    fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, 8192)
    process = subprocess.Popen(world.command("-v=4", args=[*ARGS, "--log-queries"]), stderr=write)
    os.close(write)
    try:
        wait_for(world.answers)
        for i in range(600):  # dnsmasq logs more than 100 kB
            assert world.ask(f"n{i}.example.test") == "10.9.0.1"
    finally:
        process.terminate()
        process.wait(60)
        os.close(read)


@only_dnsmasq("its log")
def test_dnsmasq_log_lines_have_the_level_that_they_mean(world):
    world.start("-v=4")
    world.wait_log("nanny: info: dnsmasq: started, version")
    world.wait_log("nanny: debug: dnsmasq: using nameserver")
    assert not re.search(r"(warning|error): dnsmasq: ", world.log())


# files


def test_the_servers_file_is_whole_and_on_disk_before_it_has_its_name(world):
    trace = os.path.join(world.dir, "trace")
    world.start(prefix=["strace", "-D", "-qq", "-o", trace, "-e", "trace=openat,fsync,renameat,renameat2,kill"])
    world.write(stubDomains={"acme.test": ["10.0.0.1"]})
    world.wait_config(lambda c: c["confirmed"] and c["keys"]["stubDomains"]["inForce"])
    world.stop()
    with open(trace, encoding="utf-8") as f:
        calls = [l for l in f if re.search(r'servers\.conf|^fsync|SIGHUP', l)]
    opened = max(i for i, l in enumerate(calls) if "servers.conf.new" in l and "O_TRUNC" in l)
    fd = calls[opened].rpartition("= ")[2].strip()
    then = calls[opened + 1 : opened + 4]
    assert then[0].startswith(f"fsync({fd})") and then[0].rstrip().endswith("= 0"), calls
    assert re.match(r'renameat2?\(\d+, "servers.conf.new", \d+, "servers.conf"', then[1]), calls
    assert ENGINE == "unbound" or "SIGHUP" in then[2], calls
    assert not any('"servers.conf"' in l for l in calls if l.startswith("openat")), calls


def test_the_run_directory_is_not_shared_and_is_cleaned_up(world):
    world.start()
    assert os.path.exists(f"{world.run}/nanny/servers.conf")
    second = subprocess.Popen([a if not a.startswith("--port=") else "--port=1" for a in world.command()], stderr=subprocess.DEVNULL)
    wait_for(lambda: os.path.isdir(f"{world.run}/nanny.1"))
    second.terminate()
    second.wait(10)
    world.stop()
    assert os.listdir(world.run) == []


def test_a_full_file_system_keeps_what_is_in_force(upstream):
    if os.geteuid() != 0:
        pytest.skip("needs root, to mount a small tmpfs")
    world = World()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k,mode=777", "tmpfs", world.run], check=True)
    try:
        world.write(upstreamNameservers=[str(upstream)])
        world.start()
        big = {f"d{i}.test": ["10.0.0.1"] for i in range(2000)}
        world.write(upstreamNameservers=[str(upstream)], stubDomains=big)
        world.wait_log(f"No space left on device; {ENGINE} keeps its current servers")
        assert world.ask("a.example.test") == "10.9.0.1"
        assert world.config()["confirmed"] is False
        world.write(upstreamNameservers=[str(upstream)], stubDomains={"acme.test": [str(upstream)]})
        world.wait_confirmed()
        assert world.ask("a.acme.test") == "10.9.0.1"
    finally:
        world.stop()
        subprocess.run(["umount", world.run], check=True)
        world.close()


def test_a_foreign_dnsmasq_on_the_port_is_not_taken_for_its_own(world):
    foreign = subprocess.Popen([DNSMASQ, "-k", "-C", "/dev/null", "--pid-file=", "--no-resolv", "--no-hosts", f"--port={world.port}", "--log-facility=-"],
                               stderr=subprocess.DEVNULL)  # fmt: skip
    try:
        wait_for(world.answers)
        world.start(ready=False)
        assert world.wait_exit() == 1
        assert "answers" not in world.log(), world.log()
        assert "Address already in use" in world.log() and f"port {world.port} is used by " in world.log()
        assert foreign.poll() is None
    finally:
        foreign.kill()
        foreign.wait()
