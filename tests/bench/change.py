"""make bench-change: 100 changes of the ConfigMap while dnsmasq, under the nanny, answers 5,000 queries a second. The control is the same
load while dnsmasq is killed and restarted, as kube-dns's nanny does.

The bench classifies every query:

* lost: no answer in 6 s
* SERVFAIL or REFUSED
* wrong: between the query and the answer, the answering server was never configured for the name or for a domain above the name
* early: the answer is right, but it comes from a server of a domain above, although a stub domain for the name was in force. The query was
  in flight when the stub domain was added.
* late: the query came up to a second after a change, over a TCP connection that was open before the change, and an old server answered.
  dnsmasq keeps the old servers for such a connection until the nanny ends the connection. Later queries of this kind count as wrong. With
  unbound, also: a cached answer up to 20 ms after a change.

A configuration is in force from the moment when it is written until the bench sees dnsmasq with a later configuration. The bench observes
this from outside and does not rely on the nanny. Each configuration sends mark.test to a different address, and queries for mark.test run
all the time (Marks). If the nanny confirms a configuration earlier, the confirmation counts as false.

Packets that the kernel dropped before dnsmasq could read them are reported beside the losses. A machine that pauses loses such packets
whatever dnsmasq does.
"""

import argparse
import ctypes
import json
import os
import re
import select
import shutil
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, ".."), os.path.join(HERE, "..", "helpers")]
from nanny_world import ENGINE, engine_flags  # noqa: E402
from waiting import free_port  # noqa: E402

BUILD = os.path.abspath(os.environ.get("BUILD", "build"))
LOAD = os.path.join(BUILD, "tests", "bench", "change_load")
NANNY = os.path.join(BUILD, "bin", "nanny")
DNSMASQ = shutil.which("dnsmasq", path="/usr/sbin:" + os.environ.get("PATH", ""))
KINDS = ["cached", "uncached", "kept", "slow", "tcp", "held"]
HELD_US = 1000000
# unbound flushes the cached answers of former servers just after it has the new servers.
FLUSH_US = {"unbound": 20000}.get(ENGINE, 0)
MARK_EVERY_S = 0.002
ZONES = {"cached": "", "uncached": "", "kept": "keep.test", "slow": "slow.test"}
DNSMASQ_ARGS = ["-k", "--cache-size=1000", "--no-negcache", "--dns-loop-detect", "--log-facility=-", "--no-hosts", "--dns-forward-max=1500",
                "--max-tcp-connections=100", "--server=/cluster.local/127.0.0.1#10053"]  # fmt: skip


def prefer():
    """Gives the test priority over other work on the machine, if permitted. dnsmasq inherits this."""
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(10))
    except PermissionError:
        pass


def now_us():
    return time.monotonic_ns() // 1000


def configurations():
    """
    Yields (stub domains, upstreams) without end. Servers are given by their numbers in change_load. Every configuration has "keep.test".
    """
    cycle = [
        ({"slow.test": [3]}, [1]), ({"slow.test": [4]}, [1]), ({}, [1]), ({"slow.test": [3, 4]}, [1]), ({"slow.test": [4]}, [1, 2]),
        ({"slow.test": [4], "extra.test": [6]}, [2]), ({"extra.test": [6, 5]}, [2]), ({"slow.test": [3]}, [1, 2]), ({"a.slow.test": [6], "slow.test": [4, 3]}, [1]),
        ({}, [2]), ({"slow.test": [4]}, [2]), ({"slow.test": [3], "test": [2]}, [1]), ({"test": [1]}, [2]),
    ]  # fmt: skip
    while True:
        for stubs, upstreams in cycle:
            yield {"keep.test": [5], **stubs}, upstreams


def allowed(config, zone):
    """Returns two sets of servers for names in `zone`: the servers of the nearest domain, and the servers of this domain and all domains above it."""
    stubs, upstreams = config
    routes = []
    while zone:
        if zone in stubs:
            routes.append(stubs[zone])
        zone = zone.partition(".")[2]
    routes.append(upstreams)
    return set(routes[0]), set().union(*routes)


class ConfigMap:
    """A mount as the kubelet writes it."""

    def __init__(self, path):
        self.path, self.count = path, 0
        os.makedirs(path)
        os.chmod(path, 0o755)

    def write(self, keys):
        """Replaces all keys at once. Returns the time in microseconds."""
        self.count += 1
        new, data = f"..{self.count}", os.path.join(self.path, "..data")
        old = os.readlink(data) if os.path.islink(data) else None
        os.mkdir(os.path.join(self.path, new))
        for key, value in keys.items():
            with open(os.path.join(self.path, new, key), "wb") as f:
                f.write(value if isinstance(value, bytes) else value.encode())
            link = os.path.join(self.path, key)
            if not os.path.islink(link):
                os.symlink(os.path.join("..data", key), link)
        os.symlink(new, data + "_tmp")
        when = now_us()
        os.rename(data + "_tmp", data)
        if old:
            shutil.rmtree(os.path.join(self.path, old))
        return when


class Load:
    def __init__(self):
        self.process = subprocess.Popen([LOAD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, preexec_fn=prefer)
        self.servers_port = int(self.process.stdout.readline().split()[1])

    def server(self, number, separator=":"):
        return f"127.0.0.{number}{separator}{self.servers_port}"

    def start(self, port, seconds, rate, tcp_rate):
        self.process.stdin.write(f"{port} {seconds} {rate} {tcp_rate}\n")
        self.process.stdin.flush()

    def finish(self):
        """Returns the queries, and the number of queries whose connection ended before the answer."""
        out, _ = self.process.communicate(timeout=120)
        *lines, last = out.splitlines()
        return [tuple(int(x) for x in line.split()) for line in lines], int(last.split()[1])


class Marks:
    """
    Finds out which configuration dnsmasq has. A query for "N.mark.test" arrives here at 127.10.a.b, where a and b are the number of the
    configuration.
    """

    def __init__(self):
        self.server, self.client = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))
        self.server.setsockopt(socket.IPPROTO_IP, 8, 1)  # IP_PKTINFO
        self.server.bind(("0.0.0.0", 0))
        self.port = self.server.getsockname()[1]
        self.asked, self.seen, self.ended = [], [], False  # asked: time of query N; seen: (N, time of its arrival, configuration)

    def text(self, number):
        return f"127.10.{number >> 8}.{number & 255}:{self.port}"

    def start(self, port):
        self.client.connect(("127.0.0.1", port))
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def stop(self):
        self.ended = True
        self.thread.join(5)

    def ask(self):
        label = str(len(self.asked)).encode()
        self.asked.append(now_us())
        name = bytes([len(label)]) + label + b"\x04mark\x04test\0"
        try:
            self.client.send(struct.pack(">6H", len(self.asked) & 0xFFFF, 0x100, 1, 0, 0, 0) + name + b"\0\x01\0\x01")
        except OSError:
            pass

    def answer(self):
        wire, control, _, peer = self.server.recvmsg(512, 64)
        at = control[0][2][8:12]  # struct in_pktinfo: ipi_addr
        number = int(wire[13 : 13 + wire[12]])
        end = wire.index(0, 12) + 5
        self.seen.append((number, now_us(), at[2] << 8 | at[3]))
        reply = wire[:2] + b"\x81\x80" + wire[4:6] + bytes(6) + wire[12:end]
        self.server.sendmsg([reply], [(socket.IPPROTO_IP, 8, struct.pack("i4s4x", 0, at))], 0, peer)

    def run(self):
        due = time.monotonic()
        while not self.ended:
            wait = max(0, due - time.monotonic())
            for sock in select.select([self.server, self.client], [], [], wait)[0]:
                try:
                    if sock is self.server:
                        self.answer()
                    else:
                        sock.recv(512)
                except OSError:
                    pass
            if time.monotonic() >= due:
                self.ask()
                due = time.monotonic() + MARK_EVERY_S

    def ends(self, count):
        """Returns the time when each of the first `count` configurations was replaced: a later configuration was seen. Infinity for the last one."""
        first, later = [1 << 62] * count, 1 << 62
        for _, when, config in self.seen:
            first[config] = min(first[config], when)
        ends = [0] * count
        for config in reversed(range(count)):
            ends[config] = later
            later = min(later, first[config])
        return ends

    def false(self, confirmed):
        """Returns the number of queries that followed an old configuration, although the nanny had confirmed a newer configuration before the query."""
        newest = {}
        count, i, highest = 0, 0, -1
        for number, sent in enumerate(self.asked):
            while i < len(confirmed) and confirmed[i][0] < sent:
                highest = max(highest, confirmed[i][1])
                i += 1
            newest[number] = highest
        for number, _, config in self.seen:
            count += config < newest[number]
        return count


def drops(port):
    """Returns the number of packets that the kernel dropped because the buffers of the port's sockets were full."""
    total = 0
    for name in ("/proc/net/udp", "/proc/net/udp6"):
        with open(name, encoding="ascii") as f:
            for line in f.readlines()[1:]:
                fields = line.split()
                if int(fields[1].rpartition(":")[2], 16) == port:
                    total += int(fields[-1])
    return total


def enlarge_buffers(pid, port):
    """
    Gives dnsmasq's UDP sockets room for 4 MB of packets, if permitted. The default has room for 277 packets. If the virtual machine pauses
    for a tenth of a second, more packets arrive, and some are lost. Such losses have nothing to do with a change of the configuration.
    """
    pidfd_getfd, so_rcvbufforce = 438, 33
    syscall = ctypes.CDLL(None, use_errno=True).syscall
    with open("/proc/net/udp", encoding="ascii") as f:
        rows = [line.split() for line in f.readlines()[1:]]
    inodes = {f"socket:[{r[9]}]" for r in rows if int(r[1].rpartition(":")[2], 16) == port}
    pidfd = os.pidfd_open(pid)
    for fd in os.listdir(f"/proc/{pid}/fd"):
        if os.readlink(f"/proc/{pid}/fd/{fd}") in inodes:
            copy = syscall(pidfd_getfd, pidfd, int(fd), 0)
            if copy >= 0:
                with socket.socket(fileno=copy) as sock:
                    sock.setsockopt(socket.SOL_SOCKET, so_rcvbufforce, 4 << 20)
    os.close(pidfd)


class Nanny:
    """The nanny with its own directory. Each line that confirms a configuration adds to `confirmations`."""

    def __init__(self, directory, port, extra=()):
        self.lines, self.confirmations, self.changed = [], [], threading.Condition()
        resolv = os.path.join(directory, "resolv.conf")
        with open(resolv, "w", encoding="ascii") as f:
            f.write("")
        os.makedirs(os.path.join(directory, "run"))
        os.chmod(os.path.join(directory, "run"), 0o777)
        command = [NANNY, "-restartDnsmasq=true", f"-configDir={directory}/conf", f"-resolvConf={resolv}", f"-runDir={directory}/run", *engine_flags(),
                   "-metricsAddr=", "-drain=0s", *extra, "--", *DNSMASQ_ARGS, f"--port={port}"]  # fmt: skip
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, preexec_fn=prefer)
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self):
        for line in self.process.stderr:
            with self.changed:
                self.lines.append(line.rstrip())
                if "has configuration" in line or "answers" in line:
                    self.confirmations.append((now_us(), line))
                self.changed.notify_all()

    def wait_confirmed(self, after, timeout=10):
        """Waits until there are more than `after` confirmations. Returns the time of confirmation number `after`, counted from 0."""
        with self.changed:
            if not self.changed.wait_for(lambda: len(self.confirmations) > after, timeout):
                raise RuntimeError("the nanny did not confirm the change in time:\n" + "\n".join(self.lines[-20:]))
            return self.confirmations[after][0]

    def dnsmasq_pid(self):
        return next(int(l.rpartition(" ")[2]) for l in reversed(self.lines) if "started as process" in l)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(20)
        self.thread.join(5)


def keys_of(config, load, mark):
    stubs, upstreams = config
    text = {"mark.test": [mark], **{d: [load.server(s) for s in servers] for d, servers in stubs.items()}}
    return {"stubDomains": json.dumps(text), "upstreamNameservers": json.dumps([load.server(s) for s in upstreams])}


def judge(records, history, held_us=HELD_US):
    """
    Counts the queries of each kind. `history` has (from, until, configuration): a configuration may be in force from the time when it is
    written until a later one is seen.
    """
    result = {"questions": len(records), "lost": 0, "servfail": 0, "refused": 0, "other": 0, "wrong": 0, "early": 0, "late": 0, "latest_ms": 0, "by_kind": {},
              "examples": []}  # fmt: skip
    first = 0
    for kind, sent, received, rcode, server in sorted(records, key=lambda r: r[1]):
        name = KINDS[kind]
        by = result["by_kind"].setdefault(name, {"questions": 0, "lost": 0, "answered_by": {}})
        by["questions"] += 1
        if not received:
            result["lost"] += 1
            by["lost"] += 1
            result["examples"].append((name, sent, received, rcode, server))
            continue
        if rcode:
            result[{2: "servfail", 5: "refused"}.get(rcode, "other")] += 1
            result["examples"].append((name, sent, received, rcode, server))
            continue
        by["answered_by"][server] = by["answered_by"].get(server, 0) + 1
        while first < len(history) and history[first][1] < sent - held_us:
            first += 1
        zones = ["", "slow.test"] if name in ("tcp", "held") else [ZONES[name]]
        good, above, late = set(), set(), {}
        for start, end, config in history[first:]:
            if start > received:
                break
            for zone in zones:
                nearest, all_ = allowed(config, zone or "ext.test")
                if end >= sent:
                    good |= nearest
                    above |= all_
                elif name == "held" or (name == "cached" and end >= sent - FLUSH_US):
                    late.update(dict.fromkeys(all_, (sent - end) / 1000))
        if server in late and server not in above:
            result["late"] += 1
            result["latest_ms"] = max(result["latest_ms"], late[server])
            continue
        if server in above - good:
            result["early"] += 1
        if server not in above:
            result["wrong"] += 1
            result["examples"].append((name, sent, received, rcode, server, sorted(good)))
    result["examples"] = result["examples"][:20]
    return result


def under_nanny(changes=100, gap_s=1.05, rate=5000, tcp_rate=40, burst=0, held_us=HELD_US):
    """
    The run with the nanny. Returns the counts, and the times from the swap of ..data to the confirmation. At the end it makes `burst` more
    changes 0.1 s apart. The nanny may combine these. `gap_s` is more than a second, so that each of the earlier changes has its own reload.
    For `held_us` after a change, an answer over an older TCP connection counts as late.
    """
    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
        os.chmod(directory, 0o755)
        load, port, source, marks = Load(), free_port(), configurations(), Marks()
        conf = ConfigMap(os.path.join(directory, "conf"))
        history, took, confirmations = [], [], []

        def write():
            config = next(source)
            when = conf.write(keys_of(config, load, marks.text(len(history))))
            history.append([when, None, config])
            return when

        write()
        nanny = Nanny(directory, port)
        try:
            nanny.wait_confirmed(0)
            time.sleep(0.2)
            enlarge_buffers(nanny.dnsmasq_pid(), port)
            before = drops(port)
            seconds = int(changes * gap_s + burst * 0.1 + (3 if burst else 2))
            marks.start(port)
            load.start(port, seconds, rate, tcp_rate)
            time.sleep(1)
            for _ in range(changes):
                done, when = len(nanny.confirmations), write()
                confirmed = nanny.wait_confirmed(done)
                confirmations.append((confirmed, len(history) - 1))
                took.append((confirmed - when) / 1000)
                time.sleep(max(0, gap_s - (now_us() - when) / 1e6))
            for _ in range(burst):
                write()
                time.sleep(0.1)
            records, closed = load.finish()
            dropped = drops(port) - before
        finally:
            load.process.kill()
            nanny.stop()
            if marks.asked:
                marks.stop()
    for entry, end in zip(history, marks.ends(len(history)), strict=True):
        entry[1] = end
    if not marks.seen or marks.seen[-1][2] != len(history) - 1:
        raise RuntimeError("dnsmasq never used the last configuration")
    result = judge(records, history, held_us)
    result.update(false=marks.false(confirmations), marks=len(marks.seen), closed=closed)
    own = [int(ms) for ms in re.findall(r"(\d+) ms after the change", "\n".join(nanny.lines))]
    result.update(seen_to_confirmed_ms={"median": statistics.median(own), "worst": max(own[:changes])}, changes=changes + burst, reloads=len(nanny.confirmations) - 1, kernel_drops=dropped, confirm_ms={"median": statistics.median(took), "worst": max(took)},
                  trouble=[l for l in nanny.lines if " error: " in l or "process" in l][:10])  # fmt: skip
    return result


def respawn(port, config, load):
    stubs, upstreams = config
    command = [DNSMASQ, *DNSMASQ_ARGS, "-C", "/dev/null", "--pid-file=", "--no-resolv", "--user=root", "--group=root", f"--port={port}"]
    command += [f"--server=/{d}/{load.server(s, '#')}" for d, servers in stubs.items() for s in servers]
    command += [f"--server={load.server(s, '#')}" for s in upstreams]
    return subprocess.Popen(command, stderr=subprocess.DEVNULL, start_new_session=True, preexec_fn=prefer)


def kill_and_respawn(changes=20, gap_s=0.2, rate=5000, tcp_rate=0):
    """The control run, with the behaviour of kube-dns's nanny. It sends no TCP queries, because orphaned TCP processes would keep the port in use."""
    load, port, source = Load(), free_port(), configurations()
    config = next(source)
    child = respawn(port, config, load)
    history = [[now_us(), None, config]]
    try:
        time.sleep(0.5)
        load.start(port, int(changes * gap_s + 2), rate, tcp_rate)
        time.sleep(1)
        for _ in range(changes):
            config, when = next(source), now_us()
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            child = respawn(port, config, load)
            history[-1][1] = when + 100000
            history.append([when, None, config])
            time.sleep(gap_s)
        history[-1][1] = 1 << 62
        records, _ = load.finish()
    finally:
        load.process.kill()
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
    result = judge(records, history)
    result.update(changes=changes)
    return result


def report(title, r):
    print(f"{title}: {r['changes']} changes ({r.get('reloads', r['changes'])} reloads), {r['questions']} queries: {r['lost']} lost ({r.get('kernel_drops', 0)} of them dropped by the kernel), "
          f"{r['servfail']} SERVFAIL, {r['refused']} REFUSED, {r['wrong']} answered by a server that is not configured, {r['early']} early, {r['late']} late (at most {r['latest_ms']:.0f} ms)")  # fmt: skip
    if "marks" in r:
        print(f"  {r['marks']} queries for dnsmasq's configuration: {r['false']} answers contradict the nanny's confirmation; "
              f"{r['closed']} queries retried because their connection was closed")  # fmt: skip
    for kind, by in r["by_kind"].items():
        print(f"  {kind}: {by['questions']} queries, {by['lost']} lost, answered by {dict(sorted(by['answered_by'].items()))}")
    if "confirm_ms" in r:
        print(f"  from the swap of ..data to the confirmation: median {r['confirm_ms']['median']:.1f} ms, worst {r['confirm_ms']['worst']:.1f} ms; "
              f"from the nanny's detection of the change to the confirmation: median {r['seen_to_confirmed_ms']['median']} ms, worst {r['seen_to_confirmed_ms']['worst']} ms")
    for example in r["examples"][:5]:
        print("  ", example)


def main(argv):
    import results

    parser = argparse.ArgumentParser(prog="bench-change")
    parser.add_argument("--changes", type=int, default=100, help="changes of the ConfigMap (%(default)s)")
    parser.add_argument("--gap", type=float, default=1.05, help="seconds between two changes (%(default)s)")
    parser.add_argument("--rate", type=int, default=5000, help="queries a second (%(default)s)")
    parser.add_argument("--repeats", type=int, default=1, help="runs with the nanny (%(default)s)")
    args = parser.parse_args(argv)
    runs = []
    for _ in range(args.repeats):
        runs.append(under_nanny(args.changes, args.gap, args.rate, burst=50))
        report("nanny", runs[-1])
    control = kill_and_respawn(args.changes, args.gap / 4, args.rate)
    report("kill and respawn", control)
    results.save("change", {"nanny": runs, "kill_and_respawn": control})
    bad = any(r["lost"] or r["servfail"] or r["refused"] or r["wrong"] or r["false"] for r in runs)
    return 1 if bad or not control["lost"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
