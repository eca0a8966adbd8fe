"""
Knot, NSD and BIND as secondaries of a cluster that changes a hundred times a second. Each has its own key. `make soak` runs ten minutes
with 10,000 Services (SECONDARIES_SECONDS sets another time). `make test` runs some seconds.

PYTEST_ARGS=-s shows the transfers, and with `make soak` also their cost for other clients. To measure the cost, the test stops the
secondaries in every second time window and compares the answers of both kinds of windows. If the machine has two or more CPUs, one CPU is
only for the server, so that the measurement does not include the secondaries' work.
"""

import contextlib
import os
import random
import subprocess
import time

import pytest
from dnsnet import query, udp
from kubedns_process import PROGRAM, Kubedns
from objects import endpoint_slice, service
from secondaries import HMACS, Bind, Knot, Nsd, Secondary, key_lines, lines_of, make_key
from turns import SteadyAsker, Turns, before_others
from waiting import free_port, sanitized
from world import Z, one_of_everything, start, write

REVERSE = "10.in-addr.arpa"
ZONES = (Z, REVERSE)
HERE = ("--reverse-cidrs=10.0.0.0/8", "--ns-addresses=127.0.0.1")
HOSTS = ("127.0.0.11", "127.0.0.12", "127.0.0.1")  # BIND listens only at addresses of network interfaces

LATER_MS = 0.1  # a smaller difference between the medians of the windows' p99 latencies does not matter


def printed(kubedns, zone):
    return lines_of(subprocess.run([PROGRAM, f"--print-zone={zone}", f"--objects-dir={kubedns.objects}", *HERE], capture_output=True, text=True,
                                   timeout=60, check=True).stdout)  # fmt: skip


def cluster(count):
    return [*one_of_everything(), *(service(f"s{i}", f"10.{100 + i // 62500}.{i // 250 % 250}.{i % 250 + 1}", ns=f"ns{i % 100}") for i in range(count))]


class Changes:
    """
    Random changes to 50 Services. After a change, a Service has a cluster address, is headless with up to 20 endpoints, or is deleted.
    ten() changes ten Services.
    """

    def __init__(self, objects):
        self.objects, self.draw, self.live = objects, random.Random(19), {}

    def ten(self):
        for _ in range(10):
            i = self.draw.randrange(50)
            addresses = [f"10.201.{i}.{n}" for n in range(1, self.draw.randrange(2, 20))]
            self.live[i] = self.draw.choice([[], [service(f"c{i}", f"10.200.{i}.{self.draw.randrange(1, 250)}")],
                                             [service(f"c{i}", "None"), endpoint_slice(f"c{i}", addresses)]])  # fmt: skip
        write(self.objects, [item for items in self.live.values() for item in items], name="changes.json")


@contextlib.contextmanager
def cpus():
    """Yields a CPU for the server. If the machine has more than one CPU, this process and its child processes do not use the server's CPU."""
    allowed = os.sched_getaffinity(0)
    own = min(allowed)
    os.sched_setaffinity(0, allowed - {own} or allowed)
    try:
        yield own
    finally:
        os.sched_setaffinity(0, allowed)


@contextlib.contextmanager
def served(tmp_path, services, prefix=()):
    """Yields a kubedns with this many Services, and its three secondaries once they have its zones."""
    keys = [make_key(f"{name}.example", algorithm) for name, algorithm in zip(("knot", "nsd", "bind"), HMACS)]
    ports = [free_port() for _ in HOSTS]
    (tmp_path / "keys").write_text(key_lines(*((*key, host) for key, host in zip(keys, HOSTS))))
    notify = ",".join(f"{host}:{port}" for host, port in zip(HOSTS, ports))
    args = (f"--transfer-to={','.join(HOSTS)}", f"--transfer-key={tmp_path / 'keys'}", f"--transfer-notify={notify}")
    with start(tmp_path, cluster(services), *HERE, *args, prefix=prefix) as k:
        k.wait_ready(60)
        with Knot(tmp_path / "knot", [k.port], ZONES, HOSTS[0], keys[0], ports[0]) as knot, \
                Nsd(tmp_path / "nsd", [k.port], ZONES, HOSTS[1], keys[1], ports[1]) as nsd, \
                Bind(tmp_path / "bind", [k.port], ZONES, HOSTS[2], keys[2], ports[2]) as bind:  # fmt: skip
            servers = (knot, nsd, bind)
            for server in servers:
                for zone in ZONES:
                    k.wait(lambda server=server, zone=zone: server.serial(zone), 60, server.log)
            yield k, servers


def change(k, servers, seconds, turns, each_tenth):
    """Makes a hundred changes a second. Stops the secondaries in every second window. Calls `each_tenth` after each tenth of the time."""
    changes, begun = Changes(k.objects), time.monotonic()
    for turn in range(seconds * 10):
        if turn % seconds == 0:
            each_tenth()
        if turns.due():
            let = Secondary.go_on if turns.begin() else Secondary.pause
            for server in servers:
                let(server)
        changes.ten()
        time.sleep(max(0, begun + (turn + 1) / 10 - time.monotonic()))
    print(f"\n{seconds * 100} changes in {time.monotonic() - begun:.1f} s")
    turns.end()
    for server in servers:
        server.go_on()
    each_tenth()


def until_equal(k, servers):
    """Waits until each secondary has the last serial. Then compares the contents, because zones with equal serials must be equal."""
    write(k.objects, [service("last", "10.250.0.1")], name="last.json")
    ended = time.monotonic()
    k.wait(lambda: k.ask(f"last.default.svc.{Z}") == {"10.250.0.1"})
    last = {zone: udp(k, query(zone, "SOA")).answer[0][0].serial for zone in ZONES}
    waiting = [(server, zone) for server in servers for zone in ZONES]
    while waiting:
        assert time.monotonic() < ended + 60, waiting[0][0].log()
        for server, zone in [*waiting]:
            if server.serial(zone) == last[zone]:
                print(f"{type(server).__name__} has {zone} {time.monotonic() - ended:.2f} s after the last change")
                waiting.remove((server, zone))
        time.sleep(0.02)
    for zone in ZONES:
        want = printed(k, zone)
        for server in servers:
            assert server.lines(zone) == want, (type(server).__name__, zone)


def check(k, seconds, memory):
    """Checks the counts of transfers, and the memory in kB after each tenth of the time."""
    counts = {kind: int(k.metric("kubedns_transfers_total", kind=kind, result="whole")) for kind in ("AXFR", "IXFR")}
    cut = int(k.metric("kubedns_transfers_total", result="cut"))
    print(f"transfers: {counts}, {cut} cut; {int(k.metric('kubedns_transfer_records_total'))} records, "
          f"{int(k.metric('kubedns_transfer_bytes_total')) / 1e6:.1f} MB; NOTIFY "
          f"{int(k.metric('kubedns_notify_total', result='sent'))} sent, {int(k.metric('kubedns_notify_total', result='answered'))} answered")  # fmt: skip
    assert cut == 0 and k.metric("kubedns_transfer_refused_total") == 0, k.log()[-3000:]
    assert counts["AXFR"] <= 12 and counts["IXFR"] >= seconds, counts
    assert sanitized() or memory[-1] < memory[1] + 6000, memory


def test_secondaries_keep_up_with_a_hundred_changes_a_second(tmp_path):
    memory = []
    with served(tmp_path, 1000) as (k, servers):
        change(k, servers, 5, Turns(1), lambda: memory.append(k.memory()["VmRSS"]))
        until_equal(k, servers)
        check(k, 5, memory)


@pytest.mark.soak
def test_secondaries_keep_up_for_ten_minutes(tmp_path):
    """Also compares the answers to other clients, with the secondaries at work and without. The short test has too few windows for this."""
    seconds, turns, memory = int(os.environ.get("SECONDARIES_SECONDS", 600)), Turns(5), []
    with cpus() as own, served(tmp_path, 10000, ("setsid", "taskset", "-c", str(own))) as (k, servers), \
            Kubedns(f"--objects-dir={k.objects}", *HERE, directory=str(tmp_path), prefix=("setsid",)) as without:  # fmt: skip
        without.wait_ready(60)
        for kubedns in (k, without):
            before_others(kubedns.pid)
        with SteadyAsker(tmp_path / "asked", f"web.default.svc.{Z}", 500, (k.port, without.port)) as asker:
            change(k, servers, seconds, turns, lambda: memory.append((k.memory()["VmRSS"], without.memory()["VmRSS"])))
        until_equal(k, servers)
        answers, others = map(turns.compare, asker.took)
        print(f"answers, with the secondaries at work in every other window:\n{answers}")
        print(f"the same for a server without --transfer-to, on the CPU of the secondaries:\n{others}")
        print(f"memory, kB, with transfers and without, each tenth of the time: {memory}; CPU {k.cpu_s():.1f} s and {without.cpu_s():.1f} s")
        alone = os.sched_getaffinity(k.pid).isdisjoint(os.sched_getaffinity(0))  # otherwise the secondaries use the server's CPU
        check(k, seconds, [with_ for with_, _ in memory])
    assert sanitized() or not alone or not answers.later(0.99, LATER_MS)


def two_primaries(tmp_path, seconds):
    """
    Two replicas of one cluster. A replica's serial is the time, in seconds, when it saw the last change. The secondary transfers the zone
    from the replica that sends a NOTIFY. At the end it has all changes, because the zone with the highest serial includes the last change.
    After a switch to the other replica it gets the whole zone, because the same serial may mean different contents at the two replicas.
    """
    port = free_port()
    args = ("--transfer-to=127.0.0.1", f"--transfer-notify=127.0.0.1:{port}")
    with start(tmp_path, cluster(100), *HERE, *args) as one, \
            Kubedns(f"--objects-dir={one.objects}", *HERE, *args, directory=str(tmp_path), host="127.0.0.2") as two:  # fmt: skip
        one.wait_ready()
        two.wait_ready()
        with Knot(tmp_path / "knot", [one.port, ("127.0.0.2", two.port)], ZONES, port=port) as knot:
            for zone in ZONES:
                one.wait(lambda zone=zone: knot.serial(zone), 60, knot.log)
            changes, begun, seen = Changes(one.objects), time.monotonic(), []
            for turn in range(seconds * 10):
                changes.ten()
                seen += filter(None, [knot.serial(Z)])  # on a busy machine there may be no reply within a second
                time.sleep(max(0, begun + (turn + 1) / 10 - time.monotonic()))
            assert seen == sorted(seen), "the secondary's serial went back"
            want = {zone: printed(one, zone) for zone in ZONES}
            one.wait(lambda: all(knot.lines(zone) == want[zone] for zone in ZONES), 60, knot.log)
        for kubedns in (one, two):
            print({kind: int(kubedns.metric("kubedns_transfers_total", kind=kind, result="whole")) for kind in ("AXFR", "IXFR")})
            assert kubedns.metric("kubedns_transfers_total", kind="AXFR", result="whole") + kubedns.metric("kubedns_notify_total", result="answered") > 0


def test_a_secondary_of_two_replicas(tmp_path):
    two_primaries(tmp_path, 3)


@pytest.mark.soak
def test_a_secondary_of_two_replicas_for_two_minutes(tmp_path):
    two_primaries(tmp_path, 120)
