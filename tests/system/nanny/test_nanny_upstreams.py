"""Upstreams from the ConfigMap or resolv.conf, forwarding loops, kube-dns's own arguments, privileges."""

import json
import os
import re
import socket
import subprocess
import urllib.error
import urllib.request

import dns.edns
import dns.exception
import dns.message
import dns.query
import pytest
from dnsnet import Upstream, answered, silent
from nanny_world import ARGS, ENGINE, Server, World, constant, engine_flags, only_dnsmasq
from netns import Namespace
from test_relay import OPTIONS, by_subnet
from waiting import alive, wait_for

KUBE_DNS = ["-k", "--cache-size=1000", "--no-negcache", "--dns-loop-detect", "--log-facility=-", "--server=/cluster.local/127.0.0.1#10053",
            "--server=/in-addr.arpa/127.0.0.1#10053", "--server=/ip6.arpa/127.0.0.1#10053"]  # fmt: skip


def inside(function):
    """Calls the function in a network namespace of its own, because servers of resolv.conf always use port 53. Its programs are inside, too."""
    with Namespace() as space:
        space.do(lambda: function(space))


def test_resolv_conf_is_used_watched_and_gives_way_to_the_configmap(world):
    def check(_):
        servers = [Server(constant(f"10.9.0.{i}"), f"127.0.0.{10 + i}", 53) for i in (1, 2, 3)]
        try:
            world.resolv("search x y\nnameserver 127.0.0.11\noptions ndots:5 edns0 trust-ad\n")
            world.start()
            assert world.ask("a.test") == "10.9.0.1"
            assert "ndots" not in world.log()
            world.resolv("nameserver 127.0.0.12\n")
            wait_for(lambda: world.ask("b.test") == "10.9.0.2")
            world.write(upstreamNameservers=["127.0.0.13"])
            wait_for(lambda: world.ask("c.test") == "10.9.0.3")
            assert world.config()["upstreams"]["source"] == "upstreamNameservers"
            world.write()
            wait_for(lambda: world.ask("d.test") == "10.9.0.2")
            assert world.config()["upstreams"]["source"] == "resolv.conf"
        finally:
            world.stop()
            for server in servers:
                server.close()

    inside(check)


def test_resolv_conf_that_names_ourselves_is_refused_and_cluster_names_go_on():
    # dnsmasq listens on port 53 of a pod whose resolv.conf has systemd-resolved's address. In a pod, no other program listens at that address.
    def refused(address, kubedns):
        w = World()
        w.port = 53
        try:
            w.resolv(f"nameserver {address}\n")
            w.start(args=[*ARGS, f"--server=/cluster.local/127.0.0.1#{kubedns.port}"])
            assert "forwarding loop" in w.log() and "cluster names are still answered" in w.log(), w.log()
            assert w.config()["upstreams"] == {"source": "none", "servers": [], "refused": w.config()["upstreams"]["refused"]}
            assert w.ask("x.svc.cluster.local") == "10.96.0.1"
            assert w.ask("a.test") == "REFUSED"
            assert w.metric("nanny_upstream_loop") == 1
        finally:
            w.close()

    def used():
        other, w = Server(constant("10.9.0.9"), "127.0.0.53", 53), World()
        w.port = 53
        try:
            w.resolv("nameserver 127.0.0.53\n")
            w.start(args=[*ARGS, "--listen-address=127.0.0.1", "--bind-interfaces"])
            assert w.ask("a.test") == "10.9.0.9", w.log()
        finally:
            w.close()
            other.close()

    def check(space):
        kubedns = Server(constant("10.96.0.1"))
        try:
            for address in ("127.0.0.53", "127.0.0.1", space.there):
                refused(address, kubedns)
        finally:
            kubedns.close()
        used()

    inside(check)


def test_the_service_that_leads_here_is_refused_as_upstream(world):
    """The kubelet puts the Service's address into the environment. It is not an address of the pod."""
    before = Server(constant("10.9.0.1"))
    try:
        world.write(upstreamNameservers=[str(before)])
        world.start(env={**os.environ, "KUBE_DNS_SERVICE_HOST": "10.96.0.10", "KUBE_DNS_SERVICE_PORT": "53"})
        world.write(upstreamNameservers=["10.96.0.10"])
        refused = world.wait_config(lambda c: c["refused"])["refused"]
        assert "10.96.0.10:53 is the Service that leads to this pod" in refused[0]["reason"], refused
        assert world.ask("a.test") == "10.9.0.1"
        world.write(upstreamNameservers=["10.96.0.10:5353"])
        world.wait_config(lambda c: not c["refused"])
    finally:
        before.close()


@only_dnsmasq("its arguments")
def test_kube_dns_arguments_unchanged(world):
    upstream, kubedns = Server(constant("10.9.0.1")), Server(constant("10.96.0.1"))
    args = [a.replace("10053", str(kubedns.port)) for a in KUBE_DNS]
    try:
        world.write(upstreamNameservers=[str(upstream)], stubDomains={"acme.local": [str(upstream)]})
        command = [world.command()[0], "-v=2", "-logtostderr", f"-configDir={world.conf}", "-restartDnsmasq=true", "-metricsAddr=127.0.0.1:0",
                   f"-resolvConf={world.dir}/resolv.conf", f"-runDir={world.run}", *engine_flags(), "--", *args, f"--port={world.port}"]  # fmt: skip
        world.command = lambda *_, **__: command
        world.start()
        assert world.ask("x.svc.cluster.local") == "10.96.0.1"
        assert world.ask("4.3.2.1.in-addr.arpa", "A") == "10.96.0.1"
        assert world.ask("a.example.test") == "10.9.0.1"
        got = world.config()["dnsmasq"]["arguments"]
        assert got[1 : 1 + len(args)] == args
        world.write(upstreamNameservers=[str(upstream)], stubDomains={"in-addr.arpa": [str(upstream)]})
        world.wait_config(lambda c: c["refused"] and "command line" in c["refused"][0]["reason"])
        assert world.ask("4.3.2.1.in-addr.arpa", "A") == "10.96.0.1"
    finally:
        upstream.close()
        kubedns.close()


def ask(world, name, timeout=3, **kw):
    return dns.query.udp(dns.message.make_query(name, "A", use_edns=0, **kw), "127.0.0.1", port=world.port, timeout=timeout)


def addresses(reply):
    return [rr.address for rrset in reply.answer for rr in rrset]


def test_a_silent_upstream_costs_no_name(world):
    """
    Clients query this dnsmasq directly, so it sends each query to all servers at once. Otherwise up to 50 queries would be lost, because
    dnsmasq would send them only to the silent server.
    """
    with Upstream() as one, Upstream() as other:
        world.write(upstreamNameservers=[one.address, other.address])
        world.start(args=KUBE_DNS)
        assert ENGINE == "unbound" or "--all-servers" in world.config()["dnsmasq"]["arguments"]
        assert addresses(ask(world, "first.example.com")) == ["192.0.2.1"]
        for bad, good in ((one, other), (other, one)):
            bad.behave, good.behave = silent, lambda request, tcp: answered(request, "192.0.2.2")
            for n in range(60):
                assert addresses(ask(world, f"n{n}-{bad.port}.example.com", timeout=2)) == ["192.0.2.2"]


def test_when_all_upstreams_are_silent_known_names_are_answered(world):
    """dnsmasq does this behind kubedns only, as in the front topology: in front of kubedns it would return expired cluster names too."""
    with Upstream(lambda request, tcp: answered(request, "192.0.2.1", ttl=1)) as one, Upstream(silent) as other:
        world.write(upstreamNameservers=[one.address, other.address])
        world.start(args=KUBE_DNS[:-3])
        assert addresses(ask(world, "www.example.com")) == ["192.0.2.1"]
        one.behave = silent

        def stale():
            reply = ask(world, "www.example.com")
            assert addresses(reply) == ["192.0.2.1"]
            return reply if ENGINE == "unbound" or reply.answer[0].ttl == 0 else None

        wait_for(lambda: (reply := stale()) and [o.code for o in reply.options if o.otype == dns.edns.OptionType.EDE] == [3])


def test_the_engine_says_that_it_does_not_check_signatures(world):
    """kubedns asks for this record, in validation.h."""
    with Upstream() as u:
        world.write(upstreamNameservers=[u.address])
        world.start(args=KUBE_DNS[:-3])
        assert world.ask("dnssec.nanny.invalid", "TXT") == '"off"'


def test_a_clients_subnet_and_mac_address_do_not_reach_the_upstream(world):
    """The upstream's answer is cached for all clients, so it must not depend on one client. Other options do reach the upstream: see SECURITY.md."""
    mac = dns.edns.GenericOption(65001, b"\2\0\0\0\0\1")
    with Upstream(by_subnet) as u:
        world.write(upstreamNameservers=[u.address])
        world.start(args=KUBE_DNS)
        assert addresses(ask(world, "cdn.example.com", options=[OPTIONS[0], mac])) == ["192.0.2.1"]
        assert addresses(ask(world, "cdn.example.com")) == ["192.0.2.1"]
        assert all(o.otype not in (dns.edns.OptionType.ECS, 65001) for m, _, _ in u.asked for o in m.options)


@only_dnsmasq("its arguments")
def test_what_breaks_supervision_is_overridden_with_a_warning(world):
    world.start(args=["-d", "--no-hosts", "--servers-file=/etc/passwd", "--log-facility=/tmp/x"])
    assert sum(": ignored: " in line for line in world.lines) == 3
    arguments = world.config()["dnsmasq"]["arguments"]
    assert "-d" not in arguments and "-k" in arguments and "--servers-file=/etc/passwd" not in arguments


def status(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        return dict(line.rstrip("\n").partition(":\t")[::2] for line in f)


def capabilities(pid, which="CapEff"):
    return int(status(pid)[which], 16)


VERSION = dns.message.make_query("version.bind", "TXT", "CH")
NET_BIND_SERVICE, SETGID, SETUID = 1 << 10, 1 << 6, 1 << 7


def privileged(world, *flags):
    """Starts the nanny at port 53 in a network namespace where ports below 1024 are privileged."""
    if os.geteuid() != 0:
        pytest.skip("needs root")
    space = Namespace()
    world.port = 53
    process = subprocess.Popen([*space.prefix, "setpriv", *flags, *world.command()], stderr=subprocess.PIPE, text=True)
    return space, process


def dnsmasq_of(process):
    def find():
        found = subprocess.run(["pgrep", "-P", str(process.pid), ENGINE], capture_output=True, text=True, check=False).stdout.split()
        return int(found[0]) if found else None

    return wait_for(find)


def answers_in(space):
    return wait_for(lambda: space.do(lambda: dns.query.udp(VERSION, "127.0.0.1", timeout=1)), passing=(OSError, dns.exception.Timeout))


def idle_client_in(space):
    """A connection over which dnsmasq has answered a query."""

    def connect():
        client = socket.create_connection(("127.0.0.1", 53))
        dns.query.send_tcp(client, VERSION)
        dns.query.receive_tcp(client)
        return client

    return space.do(connect)


@pytest.mark.parametrize("way", ["root-three", "root-two", "nobody-sysctl"])
def test_port_53_in_each_way_that_the_manual_gives(world, way):
    flags = {
        "root-three": ["--bounding-set=-all,+net_bind_service,+setuid,+setgid", "--no-new-privs"],
        "root-two": ["--bounding-set=-all,+net_bind_service,+setgid", "--no-new-privs"],
        "nobody-sysctl": ["--reuid=65534", "--regid=65534", "--clear-groups", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"],
    }[way]
    space, process = privileged(world, *flags) if way != "nobody-sysctl" else (None, None)
    if way == "nobody-sysctl":
        if os.geteuid() != 0:
            pytest.skip("needs root")
        space = Namespace()
        world.port = 53
        subprocess.run([*space.prefix, "sysctl", "-qw", "net.ipv4.ip_unprivileged_port_start=0"], check=True)
        process = subprocess.Popen([*space.prefix, "setpriv", *flags, *world.command()], stderr=subprocess.PIPE, text=True)
    try:
        assert answers_in(space)
        child = dnsmasq_of(process)
        uid = status(child)["Uid"].split()[0]
        assert status(process.pid)["Uid"].split()[0] == uid == ("0" if way == "root-two" else "65534")
        if way == "root-three":
            assert capabilities(process.pid) == capabilities(child) == NET_BIND_SERVICE
        if way == "nobody-sysctl":
            assert capabilities(process.pid) == capabilities(child) == 0
        if way == "root-two" and ENGINE == "dnsmasq":
            with open(f"/proc/{child}/cmdline", encoding="ascii") as f:
                assert "--user=root" in f.read().split("\0")
        if ENGINE == "dnsmasq":
            client = idle_client_in(space)
            client.settimeout(60)
            world.write(stubDomains={"acme.test": ["10.0.0.1"]})
            assert client.recv(1) == b""  # the nanny may inspect and end processes that dnsmasq forked
        process.kill()  # after the nanny's SIGKILL no process of any user remains
        process.wait()
        wait_for(lambda: not alive(child), timeout=3)
    finally:
        process.kill()
        process.wait()
        space.close()


def test_without_the_sysctl_the_log_says_why_port_53_cannot_be_bound(world):
    space, process = privileged(world, "--reuid=65534", "--regid=65534", "--clear-groups", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs")
    try:
        _, log = process.communicate(timeout=20)
        assert process.returncode == 1
        assert re.search(r"the port is not permitted.*Permission denied", log.splitlines()[-1])
    finally:
        space.close()


# HTTP


def test_config_is_served_on_loopback(world):
    world.start()
    assert world.get("/config")[0] == 200  # from loopback
    assert json.loads(world.get("/config")[1])["dnsmasq"]["state"] == "ready"
    assert world.get("/nothing")[0] == 404


@pytest.mark.parametrize("flag, expected", [((), 403), (("-debug-remote",), 200)])
def test_config_asked_from_elsewhere(world, flag, expected):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            pytest.skip("no address but loopback")
        here = probe.getsockname()[0]
    world.start("-metricsAddr=0.0.0.0:0", *flag)
    for path, status_ in (("/config", expected), ("/healthz", 200), ("/readiness", 200), ("/metrics", 200)):
        try:
            with urllib.request.urlopen(f"http://{here}:{world.http}{path}", timeout=5) as response:
                got = response.status
        except urllib.error.HTTPError as error:
            got = error.code
        assert got == status_, path


def test_sigusr1_and_loginterval_make_dnsmasq_log_its_statistics(world):
    world.start("-logInterval=1s")
    world.wait_log("unbound: queries " if ENGINE == "unbound" else "queries forwarded", timeout=5)


def test_dev_null_as_resolv_conf_has_no_servers(world):
    """A cluster without upstream servers: external names get REFUSED, and stub domains are answered."""
    stub = Server(constant("192.0.2.7"))
    try:
        world.write(stubDomains={"acme.test": [str(stub)]})
        world.start("-resolvConf=/dev/null")
        assert world.ask("x.acme.test") == "192.0.2.7"
        assert world.ask("www.example.com") == "REFUSED"
        assert "resolv.conf /dev/null: no upstream servers" in world.log() and "keeping the last good servers" not in world.log()
    finally:
        stub.close()


def test_kubedns_in_front_is_no_stub_domain_s_server(world):
    """In the front topology kubedns would send the query back to dnsmasq. In the classic topology kubedns may be a stub domain's server."""
    world.write(stubDomains={"acme.test": ["127.0.0.1"]})
    front, classic = ["-k", "--listen-address=127.0.0.9"], ["-k", "--listen-address=127.0.0.9", "--server=/cluster.local/127.0.0.1#53"]
    told = {}
    for name, args in (("front", front), ("classic", classic)):
        done = subprocess.run(world.command("--check", "-kubednsServer=127.0.0.1:53", args=args), capture_output=True, text=True, timeout=20)
        told[name] = done.returncode, "acme.test: server 127.0.0.1:53 is kubedns, which sends such names here: a forwarding loop" in done.stderr
    assert told == {"front": (2, True), "classic": (0, False)}


def test_only_unbound_ignores_what_a_stub_server_says_about_other_names(world):
    """The reply has a CNAME to a name outside the stub domain, and an address of this name. dnsmasq caches the address. SECURITY.md says so."""
    forged = Server(lambda name, rdtype: [(name, 60, "CNAME", "www.bank.test."), ("www.bank.test.", 60, "A", "203.0.113.66")])
    honest = Server(constant("10.9.0.1"))
    world.write(stubDomains={"acme.test": [str(forged)]}, upstreamNameservers=[str(honest)])
    world.start()
    world.ask("x.acme.test")
    assert world.ask("www.bank.test") == ("10.9.0.1" if ENGINE == "unbound" else "203.0.113.66")


@only_dnsmasq("unbound has one socket for each query, and its cost does not grow with them")
def test_many_queries_in_flight_share_dnsmasqs_sockets(world):
    """dnsmasq opens a socket for each query in flight, and each packet then costs time for each open socket."""
    upstream = Server(lambda name, rdtype: [(name, 0, "A", "10.9.0.1")] if name == "answered.test." else None)
    world.write(upstreamNameservers=[str(upstream)])
    world.start(args=[*ARGS, "--dns-forward-max=6000"])
    client, sent = socket.socket(socket.AF_INET, socket.SOCK_DGRAM), 0
    client.connect(("127.0.0.1", world.port))

    def seen():
        return len({name for name, _ in list(upstream.asked) if name.startswith("waits")})

    while sent < 1000:
        for _ in range(50):  # fewer than dnsmasq's receive buffer holds
            client.send(dns.message.make_query(f"waits{sent}.test", "A").to_wire())
            sent += 1
        wait_for(lambda: seen() == sent, what=lambda: f"{seen()} of {sent}")
    sockets = [f for f in os.listdir(f"/proc/{world.pid()}/fd") if os.readlink(f"/proc/{world.pid()}/fd/{f}").startswith("socket:")]
    assert 256 <= len(sockets) <= 400
    assert world.ask("answered.test") == "10.9.0.1"
    upstream.close()
    client.close()
