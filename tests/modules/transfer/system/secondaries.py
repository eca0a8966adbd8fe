"""
Knot, NSD and BIND as secondaries of kubedns, each with its own directory. `source` is the address at which it listens and from which it
sends queries, because kubedns distinguishes secondaries by address. `key` is the TSIG key (name, algorithm, secret), or None.
"""

import base64
import contextlib
import os
import secrets
import signal
import subprocess

import dns.rdatatype
from dnsnet import query, udp
from waiting import free_port

HMACS = ("hmac-sha256", "hmac-sha384", "hmac-sha512")


def make_key(name, algorithm="hmac-sha256"):
    return name, algorithm, base64.b64encode(secrets.token_bytes(32)).decode()


def key_lines(*keys):
    """Returns the text of a file for --transfer-key. After a key there may be addresses of servers."""
    return "".join(" ".join(key) + "\n" for key in keys)


def lines(zone):
    """The records of a dns.zone.Zone except the SOA, as in lines_of()."""
    return sorted(f"{name} {ttl} IN {dns.rdatatype.to_text(rdata.rdtype)} {rdata.to_text()}"
                  for name, ttl, rdata in zone.iterate_rdatas() if rdata.rdtype != dns.rdatatype.SOA)  # fmt: skip


def lines_of(text):
    """
    The records of a zone except the SOA, from the text that --print-zone or kdig prints. Both print whole names. dnspython would need a second
    of CPU to read 2,000 records.
    """
    return sorted(" ".join(line.split()) for line in text.splitlines() if line and not line.startswith(";") and line.split()[3] != "SOA")


class Secondary:
    """`primaries` are ports of 127.0.0.1 or (host, port). The secondary offers its zones by AXFR to 127.0.0.1, without a key."""

    def __init__(self, directory, primaries, zones, source="127.0.0.1", key=None, port=None):
        self.host, self.port, self.dir, self.key = source, port or free_port(), directory, key
        self.primaries = [p if isinstance(p, tuple) else ("127.0.0.1", p) for p in primaries]
        self.zones = zones
        directory.mkdir(exist_ok=True)
        (directory / "conf").write_text(self.config())
        with open(directory / "out", "ab") as out:
            self.process = subprocess.Popen(self.command(), stdout=out, stderr=out, start_new_session=True)

    def config(self):
        raise NotImplementedError

    def command(self):
        raise NotImplementedError

    def again(self):
        """Writes the configuration again, for example with another key."""
        (self.dir / "conf").write_text(self.config())

    def pause(self):
        """Stops (SIGSTOP) all processes of this server."""
        os.killpg(self.process.pid, signal.SIGSTOP)

    def go_on(self):
        os.killpg(self.process.pid, signal.SIGCONT)

    def log(self):
        return "".join(path.read_text(errors="replace")[-4000:] for name in ("log", "out") if (path := self.dir / name).exists())

    def serial(self, zone):
        try:
            reply = udp(self, query(zone, "SOA"), timeout=1)
        except OSError:
            return None
        return reply.answer[0][0].serial if reply and reply.answer else None

    def address(self, name):
        reply = udp(self, query(name), timeout=1)
        return reply.answer[0][0].to_text() if reply and reply.answer else None

    def lines(self, zone):
        """The lines_of() the secondary's copy of the zone."""
        return lines_of(subprocess.run(["kdig", "+noall", "+answer", "-b", "127.0.0.1", "-p", str(self.port), f"@{self.host}", zone, "AXFR"],
                                       capture_output=True, text=True, timeout=60, check=True).stdout)  # fmt: skip

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        self.process.terminate()
        with contextlib.suppress(ProcessLookupError):
            self.go_on()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if kind:
            print(self.log())


class Knot(Secondary):
    """Knot, with its journal and database in `directory`. It queries the SOA and then sends IXFR."""

    def config(self):
        key = "key:\n  - id: {}\n    algorithm: {}\n    secret: {}\n".format(*self.key) if self.key else ""
        by_key = f"\n    key: {self.key[0]}" if self.key else ""
        remotes = "".join(f"  - id: primary{i}\n    address: {host}@{port}\n    via: {self.host}{by_key}\n" for i, (host, port) in enumerate(self.primaries))
        zones = "".join(f"  - domain: {zone}\n" for zone in self.zones)
        return f"""
server:
    listen: {self.host}@{self.port}
    rundir: "{self.dir}"
    user: root
log:
  - target: "{self.dir}/log"
    any: info
database:
    storage: "{self.dir}"
{key}remote:
{remotes}acl:
  - id: primary
    address: 127.0.0.0/8{by_key}
    action: [notify]
  - id: reader
    address: 127.0.0.1
    action: [transfer]
template:
  - id: default
    storage: "{self.dir}"
    master: [{", ".join(f"primary{i}" for i in range(len(self.primaries)))}]
    acl: [primary, reader]
    zonefile-sync: -1
    zonefile-load: none
    journal-content: none
zone:
{zones}"""

    def command(self):
        return ["knotd", "-c", str(self.dir / "conf"), "-s", str(self.dir / "socket")]

    def control(self, *words):
        subprocess.run(["knotc", "-s", str(self.dir / "socket"), *words], check=True, capture_output=True, timeout=30)

    def again(self):
        super().again()
        self.control("reload")


class Nsd(Secondary):
    """
    NSD sends IXFR without a query for the SOA. After a transfer it reads the zone again in a new process, by default at most once per
    second (xfrd-reload-timeout).
    """

    def config(self):
        key = 'key:\n    name: "{}"\n    algorithm: {}\n    secret: "{}"\n'.format(*self.key) if self.key else ""
        by_key = self.key[0] if self.key else "NOKEY"
        request = "".join(f"    request-xfr: {host}@{port} {by_key}\n" for host, port in self.primaries)
        zones = "".join(f"""zone:
    name: "{zone}"
{request}    allow-notify: 127.0.0.0/8 {by_key}
    provide-xfr: 127.0.0.1 NOKEY
    outgoing-interface: {self.host}
""" for zone in self.zones)  # fmt: skip
        return f"""
server:
    ip-address: {self.host}@{self.port}
    username: ""
    chroot: ""
    zonesdir: "{self.dir}"
    zonelistfile: "{self.dir}/zone.list"
    xfrdfile: "{self.dir}/xfrd.state"
    xfrdir: "{self.dir}"
    pidfile: "{self.dir}/pid"
    database: ""
    logfile: "{self.dir}/log"
    verbosity: 2
    xfrd-reload-timeout: 0
    server-count: 1
remote-control:
    control-enable: yes
    control-interface: "{self.dir}/socket"
{key}{zones}"""

    def command(self):
        return ["nsd", "-d", "-c", str(self.dir / "conf")]

    def again(self):
        super().again()
        subprocess.run(["nsd-control", "-c", str(self.dir / "conf"), "reconfig"], check=True, capture_output=True, timeout=30)


class Bind(Secondary):
    """BIND queries the SOA and then sends IXFR."""

    def config(self):
        key = 'key "{}" {{ algorithm {}; secret "{}"; }};\n'.format(*self.key) if self.key else ""
        by_key = f' key "{self.key[0]}"' if self.key else ""
        notify = f'!{{ !127.0.0.0/8; any; }}; key "{self.key[0]}";' if self.key else "127.0.0.0/8;"
        primaries = "".join(f"{host} port {port}{by_key}; " for host, port in self.primaries)
        zones = "".join(f"""
zone "{zone}" {{
    type secondary;
    primaries {{ {primaries}}};
    allow-notify {{ {notify} }};
    allow-transfer {{ 127.0.0.1; }};
    transfer-source {self.host};
    file "{self.dir}/{zone}.zone";
}};""" for zone in self.zones)  # fmt: skip
        return f"""
options {{
    directory "{self.dir}";
    pid-file "{self.dir}/pid";
    session-keyfile "{self.dir}/session.key";
    listen-on port {self.port} {{ {self.host}; }};
    listen-on-v6 {{ none; }};
    recursion no;
    notify no;
    dnssec-validation no;
    transfer-format many-answers;
    empty-zones-enable no;
}};
controls {{ }};
{key}{zones}
"""

    def command(self):
        return ["named", "-g", "-n", "1", "-c", str(self.dir / "conf")]

    def again(self):
        super().again()
        self.process.send_signal(1)
