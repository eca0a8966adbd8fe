"""The real nanny with the real dnsmasq, a ConfigMap as the kubelet mounts it, and name servers that belong to the test."""

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import urllib.error
import urllib.request

import dns.flags
import dns.message
import dns.query
import dns.rcode
import dns.rdatatype
import dns.rrset
import pytest

from waiting import free_port, wait_for

BUILD = os.path.abspath(os.environ.get("BUILD", "build"))
NANNY = os.path.join(BUILD, "bin", "nanny")
# The engine of all tests that do not ask for one: `make test ENGINE=unbound` runs them with the other one.
ENGINE = os.environ.get("ENGINE") or "dnsmasq"
DNSMASQ = shutil.which("dnsmasq", path="/usr/sbin:" + os.environ.get("PATH", ""))
UNBOUND = shutil.which("unbound", path="/usr/sbin:" + os.environ.get("PATH", "")) or "/usr/sbin/unbound"
ARGS = ["-k", "--cache-size=1000", "--no-negcache", "--no-hosts", "--log-facility=-"]


def engine_flags(exec_=None):
    """The nanny's flags for the engine. `exec_` is another program in its place."""
    return [f"-engine={ENGINE}", f"-unboundExec={exec_ or UNBOUND}"] if ENGINE == "unbound" else [f"-dnsmasqExec={exec_ or DNSMASQ}"]


def only_dnsmasq(why):
    """Marks a test that is about dnsmasq itself."""
    return pytest.mark.skipif(ENGINE != "dnsmasq", reason=f"about dnsmasq: {why}")


def lines_of_zones(text, args):
    """
    unbound's forward zones in the notation of dnsmasq's servers file, one line for each server. Servers in the arguments do not count, and
    neither does the server of names without servers: 127.0.1.3, or in the output of --check 127.0.0.1@1.
    """
    lines = []
    for zone in text.split("forward-zone:\n")[1:]:
        name = re.search(r'name: "(.*)\."', zone)[1]
        lines += [f"server={'/' + name + '/' if name else ''}{a}#{p}" for a, p in re.findall(r"forward-addr: (\S+?)@(\d+)", zone) if a != "127.0.1.3" and p != "1"]
    given = {arg.removeprefix("--") for arg in args}
    return [line for line in lines if line not in given]


class Server:
    """A name server on loopback. `answer(query)` returns a list of records as text, an int for an rcode, or None for no reply."""

    def __init__(self, answer, address="127.0.0.1", port=0, tcp=False):
        self.answer, self.asked = answer, []
        self.sock, self.listener = socket.socket(socket.AF_INET, socket.SOCK_DGRAM), None
        self.sock.bind((address, port or (free_port() if tcp else 0)))
        self.address, self.port = self.sock.getsockname()
        threading.Thread(target=self.run, daemon=True).start()
        if tcp:
            self.listener = socket.create_server((address, self.port))
            threading.Thread(target=self.accept, daemon=True).start()

    def reply_to(self, data):
        """The reply as bytes, or None."""
        query = dns.message.from_wire(data)
        question = query.question[0]
        self.asked.append((question.name.to_text().lower(), dns.rdatatype.to_text(question.rdtype)))
        result = self.answer(question.name.to_text().lower(), dns.rdatatype.to_text(question.rdtype))
        if result is None:
            return None
        reply = dns.message.make_response(query, recursion_available=True)
        if isinstance(result, int):
            reply.set_rcode(result)
        else:
            for owner, ttl, rdtype, rdata in result:
                reply.answer.append(dns.rrset.from_text(owner, ttl, "IN", rdtype, rdata))
        return reply.to_wire()

    def run(self):
        while True:
            try:
                data, peer = self.sock.recvfrom(4096)
                if not data:  # after close()
                    return
                wire = self.reply_to(data)
                if wire:
                    self.sock.sendto(wire, peer)
            except OSError:
                return

    def accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.run_tcp, args=(connection,), daemon=True).start()

    def run_tcp(self, connection):
        with connection, connection.makefile("rb") as stream:
            while len(prefix := stream.read(2)) == 2:
                wire = self.reply_to(stream.read(int.from_bytes(prefix, "big")))
                if wire:
                    connection.sendall(len(wire).to_bytes(2, "big") + wire)

    def close(self):
        for end in filter(None, (self.sock, self.listener)):
            with contextlib.suppress(OSError):  # the socket is not connected, but its thread wakes up and ends
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def __str__(self):
        return f"{self.address}:{self.port}"


def constant(address):
    """Answers each A query with one address, and other queries with no records."""
    return lambda name, rdtype: [(name, 0, "A", address)] if rdtype == "A" else []


class World:
    """A directory with `conf` (the mount), `run` and `resolv.conf`. `start()` runs the nanny with it."""

    def __init__(self):
        self.dir = tempfile.mkdtemp(prefix="nanny-", dir="/dev/shm")
        os.chmod(self.dir, 0o755)
        self.conf, self.run = os.path.join(self.dir, "conf"), os.path.join(self.dir, "run")
        os.mkdir(self.conf)
        os.mkdir(self.run)
        os.chmod(self.run, 0o777)
        self.port, self.count, self.process, self.log_path = free_port(), 0, None, os.path.join(self.dir, "log")
        self.resolv("")

    def resolv(self, text):
        path = os.path.join(self.dir, "resolv.conf")
        with open(path + ".new", "w", encoding="ascii") as f:
            f.write(text)
        os.rename(path + ".new", path)

    def write(self, **keys):
        """Writes a new set of keys and swaps it in as the kubelet does. Values are text, bytes, or data for JSON."""
        self.count += 1
        data, new = os.path.join(self.conf, "..data"), f"..{self.count}"
        old = os.readlink(data) if os.path.islink(data) else None
        os.mkdir(os.path.join(self.conf, new))
        for key, value in keys.items():
            if not isinstance(value, (str, bytes)):
                value = json.dumps(value)
            with open(os.path.join(self.conf, new, key), "wb") as f:
                f.write(value.encode() if isinstance(value, str) else value)
            link = os.path.join(self.conf, key)
            if not os.path.lexists(link):
                os.symlink(os.path.join("..data", key), link)
        os.symlink(new, data + "_tmp")
        os.rename(data + "_tmp", data)
        if old:
            shutil.rmtree(os.path.join(self.conf, old))

    def command(self, *flags, args=None, exec_=None):
        args = ARGS if args is None else args
        return [NANNY, "-restartDnsmasq=true", f"-configDir={self.conf}", f"-resolvConf={self.dir}/resolv.conf", f"-runDir={self.run}",
                *engine_flags(exec_), "-metricsAddr=127.0.0.1:0", "-drain=0s", f"-terminationLog={self.dir}/termination", *flags,
                "--", *args, f"--port={self.port}"]  # fmt: skip

    def start(self, *flags, args=None, exec_=None, ready=True, prefix=(), **popen):
        self.args = ARGS if args is None else args
        command = [*prefix, *self.command(*flags, args=args, exec_=exec_)]
        with open(self.log_path, "wb") as log:  # a file and no pipe: the log is always complete, because no thread has to read it first
            self.process = subprocess.Popen(command, stderr=log, **popen)
        if ready:
            self.wait_confirmed()
        return self

    def log(self):
        try:
            with open(self.log_path, encoding="utf-8", errors="replace") as f:
                return f.read()
        except FileNotFoundError:
            return ""

    @property
    def lines(self):
        return self.log().splitlines()

    @property
    def http(self):
        """Returns the nanny's HTTP port, or None if the nanny has not logged it yet."""
        said = re.search(r"http: listening on port (\d+)\n", self.log())
        return int(said[1]) if said else None

    def wait_log(self, text, timeout=60):
        return wait_for(lambda: next((l for l in self.lines if text in l), None), timeout, what=lambda: f"no line with {text!r}:\n{self.log()}")

    def get(self, path):
        """Status and text of a page."""
        wait_for(lambda: self.http, what=self.log)
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.http}{path}", timeout=60) as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def config(self):
        return json.loads(self.get("/config")[1])

    def wait_config(self, predicate, timeout=60):
        seen = {}

        def ask():
            seen["last"] = self.config()
            return seen["last"] if predicate(seen["last"]) else None

        return wait_for(ask, timeout, what=lambda: json.dumps(seen.get("last"), indent=1) + "\n" + self.log())

    def wait_confirmed(self, timeout=60):
        return self.wait_config(lambda c: c["confirmed"], timeout)

    def metric(self, name):
        for line in self.get("/metrics")[1].splitlines():
            if line.startswith(name + " "):
                return float(line.rpartition(" ")[2])
        raise AssertionError(f"no metric {name}")

    def pid(self):
        """dnsmasq's process ID."""
        return wait_for(lambda: self.config()["dnsmasq"]["pid"])

    def file(self):
        """Returns the lines of the servers file without the marker."""
        with open(os.path.join(self.run, "nanny", "servers.conf"), encoding="ascii") as f:
            text = f.read()
        lines = lines_of_zones(text, self.args) if ENGINE == "unbound" else text.splitlines()
        assert "generation.nanny.invalid" in lines[-1]
        return lines[:-1]

    def ask(self, name, rdtype="A", timeout=3, port=None):
        """The address or addresses in the answer, or the rcode as text."""
        reply = dns.query.udp(dns.message.make_query(name, rdtype), "127.0.0.1", port=port or self.port, timeout=timeout)
        if reply.rcode():
            return dns.rcode.to_text(reply.rcode())
        return " ".join(sorted(r.to_text() for rrset in reply.answer for r in rrset))

    def answers(self):
        """True if dnsmasq answers, with any result."""
        try:
            query = dns.message.make_query("version.bind", "TXT", "CH")
            return bool(dns.query.udp(query, "127.0.0.1", port=self.port, timeout=1).answer)
        except (dns.exception.Timeout, OSError):
            return False

    def check(self, args=None):
        """Runs nanny --check with the directory. Returns its exit status, its output and its log."""
        done = subprocess.run(self.command("--check", args=args), capture_output=True, text=True, errors="replace", timeout=20, check=False)
        lines = done.stdout.splitlines()
        if ENGINE == "unbound":
            lines = [line for line in lines if line.startswith("#")] + lines_of_zones(done.stdout, args or ARGS)
        return done.returncode, lines, done.stderr

    def wait_exit(self, timeout=30):
        """Waits for the nanny's exit status. The log is complete by then."""
        return self.process.wait(timeout)

    def stop(self, sig=signal.SIGTERM, timeout=10):
        if self.process and self.process.poll() is None:
            self.process.send_signal(sig)
            try:
                self.process.wait(timeout)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
                raise
        return self.process.returncode if self.process else None

    def close(self):
        try:
            self.stop()
        finally:
            shutil.rmtree(self.dir, ignore_errors=True)
