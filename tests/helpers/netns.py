"""A network namespace with a link to the test's own namespace. Tests can drop packets there without affecting the machine."""

import concurrent.futures
import ctypes
import os
import socket
import subprocess

import pytest
from waiting import claim, disclaim

CLONE_NEWNET = 0x40000000


def run(*command, check=True):
    return subprocess.run(command, capture_output=True, text=True, check=check)


def has_ipv6():
    """True if ::1 exists. Containers often do not have it."""
    try:
        with socket.socket(socket.AF_INET6) as s:
            s.bind(("::1", 0))
        return True
    except OSError:
        return False


def needs_ipv6():
    if not has_ipv6():
        pytest.skip("needs IPv6: this machine has no ::1")


def do_inside(name, function):
    """Calls the function in a thread inside the namespace, and returns its result. Sockets and programs that it opens and starts stay inside."""

    def run():
        with open(f"/run/netns/{name}", "rb") as f:
            if ctypes.CDLL(None, use_errno=True).setns(f.fileno(), CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), "setns")
        return function()

    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        return pool.submit(run).result()


class Namespace:
    """A namespace and its link. `here` is the address of the test's end, `there` the address inside. The link disappears with the namespace."""

    def __init__(self):
        self.claimed = claim(1 << 20, (1 << 20) + 4095)
        number = self.claimed & 4095
        self.name, self.link = f"kd{os.getpid()}-{number}", f"kd{number}"
        prefix, last = f"198.18.{64 + (number >> 6)}", (number & 63) << 2  # 198.18.0.0/15 is for benchmarks (RFC 2544)
        self.here, self.there = f"{prefix}.{last + 1}", f"{prefix}.{last + 2}"
        made = run("ip", "netns", "add", self.name, check=False)
        if made.returncode:
            pytest.skip(f"needs the right to make network namespaces: {made.stderr.strip()}")
        try:
            run("ip", "link", "add", self.link, "type", "veth", "peer", "name", "eth0", "netns", self.name)
            run("ip", "addr", "add", f"{self.here}/30", "dev", self.link)
            run("ip", "link", "set", self.link, "up")
            self.inside("ip", "addr", "add", f"{self.there}/30", "dev", "eth0")
            self.inside("ip", "link", "set", "eth0", "up")
            self.inside("ip", "link", "set", "lo", "up")
        except subprocess.CalledProcessError:
            self.close()
            raise

    @property
    def prefix(self):
        return ["ip", "netns", "exec", self.name]

    def inside(self, *command, **kw):
        return run(*self.prefix, *command, **kw)

    def do(self, function):
        return do_inside(self.name, function)

    def drop_tcp(self, client_port=None, lost=("ours", "theirs")):
        """
        Drops TCP packets from the test's end ("ours") and from the other end ("theirs"). With `client_port`, drops only packets of the
        connection that has this port at the test's end.
        """
        for whose, chain, side in (("ours", "INPUT", "--sport"), ("theirs", "OUTPUT", "--dport")):
            which = [side, str(client_port)] if client_port else []
            if whose in lost:
                self.inside("iptables", "-I", chain, "-p", "tcp", *which, "-j", "DROP")

    def pass_all(self):
        self.inside("iptables", "-F", "INPUT")
        self.inside("iptables", "-F", "OUTPUT")

    def close(self):
        run("ip", "netns", "del", self.name, check=False)
        run("ip", "link", "del", self.link, check=False)
        disclaim(self.claimed)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def client_ports(address, port, pid):
    """The local ports of a process's established connections to this address and port."""
    out = run("ss", "-Htnp", "state", "established", "dst", f"{address}:{port}").stdout
    return [line.split()[2].rpartition(":")[2] for line in out.splitlines() if f"pid={pid}," in line]
