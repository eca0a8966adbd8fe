"""
Compares our answers with nsd's answers. nsd serves the zone that --print-zone writes. The queries leave out everything that a static
zone cannot hold: pod names, ANY, the bare names of empty namespaces, and the target of an external CNAME. Record sets are compared
without their order.
"""

import os
import random
import shutil
import subprocess
import sys
import time

import pytest
from asking import ask
from bulk_asking import Bulk
from kubedns_process import PROGRAM, Kubedns
from waiting import free_port, wait_for

HERE = os.path.dirname(__file__)
POPULATION = os.path.join(HERE, "..", "..", "apiserver", "population.py")
Z = "cluster.local"
NS = "--ns-addresses=192.0.2.53"
NSD = """
server:
  ip-address: 127.0.0.1
  port: {port}
  username: ""
  chroot: ""
  zonesdir: "{dir}"
  database: ""
  pidfile: "{dir}/nsd.pid"
  zonelistfile: "{dir}/zone.list"
  xfrdfile: "{dir}/xfrd.state"
  logfile: "{dir}/nsd.log"
  server-count: 1
  refuse-any: yes
  rrl-ratelimit: 0
remote-control:
  control-enable: no
zone:
  name: "{zone}"
  zonefile: "{dir}/zone"
"""


def serve(tmp_path, services, namespaces, slices, headless):
    objects = tmp_path / "objects"
    sizes = [f"--services={services}", f"--namespaces={namespaces}", f"--slices={slices}", f"--headless={headless}"]
    subprocess.run([sys.executable, POPULATION, *sizes, objects], check=True, stdout=subprocess.DEVNULL)
    begun = time.monotonic()
    with open(tmp_path / "zone", "wb") as zone:
        subprocess.run([PROGRAM, "--print-zone", f"--objects-dir={objects}", NS], check=True, stdout=zone, stderr=subprocess.DEVNULL)
    print(f"--print-zone: {time.monotonic() - begun:.1f} s, {os.path.getsize(tmp_path / 'zone')} bytes")
    checked = subprocess.run(["named-checkzone", "-q", Z, tmp_path / "zone"])
    assert checked.returncode == 0
    return objects


def questions(zone, count, seed=1):
    """Names of the zone with any type, the same names with one label changed or added, and their parents."""
    draw = random.Random(seed)
    with open(zone, encoding="ascii") as f:
        names = sorted({line.split(" ", 1)[0] for line in f})
    for _ in range(count):
        name = draw.choice(names)
        kind = draw.random()
        if kind < 0.15:
            name = f"nope.{name}"
        elif kind < 0.3:
            first, _, rest = name.partition(".")
            name = f"{first}x.{rest}"
        elif kind < 0.4 and name.count(".") > 3:
            name = name.partition(".")[2]
        yield name, draw.choice(["A", "A", "AAAA", "SRV", "SRV", "TXT", "CNAME", "NS", "SOA"])


def substance(reply):
    """The parts of a reply that must be equal: rcode, AA and, unless the reply is truncated, the answer with its TTLs and a negative answer's authority."""
    negative = frozenset(record[:2] for record in reply.authority if record[1] == "SOA")
    return reply.rcode, reply.aa, reply.tc or frozenset(reply.answer), reply.tc or negative


def compare(tmp_path, objects, count):
    port = free_port()
    (tmp_path / "nsd.conf").write_text(NSD.format(port=port, dir=tmp_path, zone=Z))
    nsd = subprocess.Popen([shutil.which("nsd") or "/usr/sbin/nsd", "-d", "-c", tmp_path / "nsd.conf"],
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
    try:
        with Kubedns(f"--objects-dir={objects}", NS, directory=str(tmp_path)) as k:
            k.wait_ready(60)
            print(f"serving {k.memory()}")
            wait_for(lambda: ask(port, Z, "SOA"), what=lambda: (tmp_path / "nsd.log").read_text())
            asked = list(questions(tmp_path / "zone", count))
            with Bulk(k.port, recursion=True) as ours, Bulk(port, recursion=True) as theirs:
                replies = zip(asked, ours.ask_udp(asked, edns=1232), theirs.ask_udp(asked, edns=1232), strict=True)
            differences, cut = [], 0
            for (name, type_), *pair in replies:
                a, b = map(substance, pair)
                if a[2] is True or b[2] is True:  # the servers truncate replies at different places
                    cut += 1
                    a, b = a[:2], b[:2]
                # An SOA's serial is the time of the last change in seconds. The two runs of kubedns start at different times.
                if type_ == "SOA" and a[2:] and a[2]:
                    a, b = a[:2], b[:2]
                if a != b:
                    differences.append((name, type_, a, b))
            print(f"{count} questions, {cut} cut, {len(differences)} different")
            assert differences == [], differences[:5]
    finally:
        nsd.kill()
        nsd.wait()


def test_our_answers_are_nsds_for_a_small_cluster(tmp_path):
    compare(tmp_path, serve(tmp_path, 200, 100, 300, 60), 6000)


@pytest.mark.soak
def test_our_answers_are_nsds_for_10000_services(tmp_path):
    compare(tmp_path, serve(tmp_path, 10000, 10000, 15000, 1000), 100_000)
