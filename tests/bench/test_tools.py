"""The benches' own tools: the judge finds wrong answers, the asker counts lost queries, and the follower sees changes. `make report` runs this."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
BUILD = os.path.abspath(os.environ.get("BUILD", os.path.join(HERE, "..", "..", "build")))
ASKER = os.path.join(BUILD, "tests", "bench", "asker")

import charts  # noqa: E402
import features  # noqa: E402
import hostile  # noqa: E402
import hostile_peers  # noqa: E402
import node  # noqa: E402
import questions  # noqa: E402
import servers  # noqa: E402
import upstream_engines  # noqa: E402

pytestmark = pytest.mark.skipif(not os.path.exists(ASKER), reason="make bench-tools builds them")
PEOPLE = questions.population.Population(namespaces=20, services=20, slices=30)


def test_lost_wrong_and_stale_answers_are_told_apart():
    class Place:
        put = []

        def put_name(self, n, change):
            self.put.append((n, change))

    loader = node.Loader(Place(), 2, 0.001)
    loader.stop()
    loader.change(0)
    assert Place.put == [(0, 0), (1, 0), (0, 1)]
    changed = loader.history[0][1][1]
    asked = {
        "right": (changed + 1, 0, 1, 900, 1, 30, 0, "-"),
        "just before the change": (changed - 0.5, 0, 1, 900, 0, 30, 0, "-"),
        "stale": (changed + 2, 0, 1, 900, 0, 30, 0, "-"),
        "asked again": (changed - 0.5, 0, 2, 1000900, 0, 20, 0, "t"),  # the second attempt is half a second after the change
        "of the other name, stale never": (changed + 2, 1, 1, 900, 0, 30, 0, "-"),
        "a change that never was": (changed + 2, 1, 1, 900, 1, 30, 0, "-"),
        "wrong, then right": (changed + 2, 1, 2, 1000900, 0, 30, 1, "w"),
        "lost": (changed + 2, 1, 5, -1, 0, 0, 0, "f"),
        "late, by the second try of 5 s": (changed + 2, 1, 2, 5_600_000, 0, 30, 0, "t"),
    }
    # One attempt per second. The last field is the time from the first attempt to the last, in microseconds.
    lines = [f"{int(at * 1e6)} 0 {name} A 0 {tries} {us} {change} {ttl} {wrong} {why} {(tries - 1) * 1000000}" for at, name, tries, us, change, ttl, wrong, why in asked.values()]
    row, _ = node.judge([*lines, "pause 1000"], loader)
    assert (row["asked"], row["lost"], row["again"], row["tries"], row["wrong"], row["stale"], row["central"]) == (9, 1, 4, 5, 2, 2, 1)
    assert 1.9 < row["oldest_s"] < 2.1 and row["why"] == {"t": 2, "w": 1, "f": 1}


@pytest.fixture(scope="module")
def objects(tmp_path_factory):
    directory = tmp_path_factory.mktemp("bench") / "objects"
    questions.write_objects(PEOPLE, str(directory))
    return directory


@pytest.fixture(scope="module")
def kubedns(objects):
    with servers.Kubedns(str(objects.parent), [f"--objects-dir={objects}"], *servers.REVERSE) as server:
        yield server


@pytest.mark.parametrize("kind", questions.KINDS)
def test_kubedns_answers_each_kind_as_the_objects_say(kubedns, kind):
    assert questions.judge(PEOPLE, kind, kubedns.port, count=30) == []


def hostile_row(server, lost=0, sent=100, rcodes=None, health=200):
    victim = {"sent": sent, "lost": lost, "rcodes": rcodes or {"NOERROR": sent - lost}, "p99_ms": 1.25}
    return {"server": server, "attack": "flood", "victims": {"ask": victim}, "rss_before_kb": 10240, "during": {"healthz": health, "rss_kb": 20480}}


def test_hostile_bench_prints_one_line_for_each_server():
    rows = [hostile_row("kubedns"), hostile_row("coredns", 7, rcodes={"NOERROR": 90, "REFUSED": 3}), hostile_row("unbound", 100, health=None)]
    assert hostile.table(rows).splitlines()[2] == (
        "| flood | 0; 1.2 |  | 200 | 10 to 20 | 7 lost, 3 REFUSED; 1.2 |  | 200 | 10 to 20 | all |  | - | 10 to 20 |")


@pytest.mark.parametrize("text, want", [("unbound", ("unbound", "unbound")), ("unbound=/opt/u", ("unbound", "/opt/u")), ("coredns=/opt/c", ("coredns", "/opt/c")),
                                        ("coredns", None), ("bind=/usr/sbin/named", None)])  # fmt: skip
def test_a_peer_is_named_with_its_program(text, want):
    if want is None:
        with pytest.raises(ValueError, match="coredns=PROGRAM"):
            hostile_peers.read(text)
    else:
        assert hostile_peers.read(text) == want


def test_unbound_is_unpacked_after_an_interrupted_run(tmp_path, monkeypatch):
    """mmdebstrap refuses a directory that is not empty."""
    programs, roots = tmp_path / "bin", tmp_path / "roots"
    programs.mkdir()
    fake = programs / "mmdebstrap"
    fake.write_text('#!/bin/sh\nfor root; do :; done\nmkdir "$root" || exit 1\nmkdir -p "$root/usr/lib/here"\ntouch "$root/usr/lib/here/libc.so.6" "$root/usr/lib/here/ld-linux.so.2"\n')
    fake.chmod(0o755)
    (roots / "trixie-bench-unbound.new" / "usr").mkdir(parents=True)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setattr(upstream_engines, "DIRECTORY", str(tmp_path / "bench"))
    script, known = upstream_engines.unbound_program("/bin/false", str(roots))
    assert not known and str(roots / "trixie-bench-unbound") in open(script, encoding="utf-8").read()
    assert not (roots / "trixie-bench-unbound.new").exists()


def test_scale_bench_compares_a_feature_with_the_baseline_of_the_same_round():
    def runs(*values):
        return [{"cpu_s": cpu, "rss_kb": kb, "asked_kb": kb, "answer_ns": 1000} for cpu, kb in values]

    measured = [{"objects": "plain", "what": "nothing", "runs": runs((1, 1024), (2, 1024), (4, 1024))},
                {"objects": "plain", "what": "--x", "runs": runs((2, 2048), (4, 2048), (4, 4096))},
                {"objects": "plain", "what": "--y", "runs": [{"cpu_s": 1, "rss_kb": 1024}]}]  # fmt: skip
    assert features.table(measured).splitlines()[2:] == [
        "| nothing | 2.00 s | 1.0 MB | 1.0 MB | 1.0 us |", "| --x | 2.00 x | +1.0 MB | +1.0 MB | 1.00 x |", "| --y | 1.00 x | +0.0 MB |  |  |"]


def test_a_fast_wrong_answer_is_found(tmp_path):
    with servers.Reflector(str(tmp_path)) as reflector:
        wrong = questions.judge(PEOPLE, "cluster_a", reflector.port, count=10)
        assert len(wrong) == 10
        assert "127.0.0.1" in wrong[0] and "10.96." in wrong[0]


def test_the_same_seed_gives_the_same_questions(tmp_path):
    one, two, other = (questions.write(PEOPLE, "mix", str(tmp_path / str(n)), count=500, seed=seed) for n, seed in ((1, 5), (2, 5), (3, 6)))
    with open(one, "rb") as a, open(two, "rb") as b, open(other, "rb") as c:
        first = a.read()
        assert first == b.read()
        assert first != c.read()


def asker(*arguments):
    done = subprocess.run([ASKER, *map(str, arguments)], capture_output=True, text=True, timeout=60, check=True)
    return done.stdout


def test_the_asker_counts_answers_and_codes(kubedns, tmp_path):
    path = tmp_path / "questions"
    path.write_text("web-00000.ns-00000.svc.cluster.local. A\nmissing.ns-00000.svc.cluster.local. A\n")
    got = json.loads(asker("load", kubedns.port, path, 500, 1, 4))
    assert got["sent"] == 500 and got["lost"] == 0
    assert got["rcodes"] == {"NOERROR": 250, "NXDOMAIN": 250}
    assert 0 < got["latency_us"]["p50"] <= got["latency_us"]["p99"] <= got["latency_us"]["max"] * 1.02


def test_a_flood_counts_answers_and_codes(kubedns, tmp_path):
    path = tmp_path / "questions"
    path.write_text("web-00000.ns-00000.svc.cluster.local. A\nmissing.ns-00000.svc.cluster.local. A\n")
    got = json.loads(asker("flood", kubedns.port, path, 0.5, 4, 40))
    assert got["sent"] > 1000 and got["answered"] == got["sent"] and got["lost"] == 0
    assert got["seconds"] >= 0.5
    codes = got["rcodes"]
    assert set(codes) == {"NOERROR", "NXDOMAIN"} and abs(codes["NOERROR"] - codes["NXDOMAIN"]) <= 1


def test_a_flood_loses_nothing_when_the_whole_machine_pauses(kubedns, tmp_path):
    """The asker continues first. It must not give up before the server has continued too."""
    path = tmp_path / "questions"
    path.write_text("web-00000.ns-00000.svc.cluster.local. A\n")
    with subprocess.Popen([ASKER, "flood", str(kubedns.port), path, "1", "4", "40"], stdout=subprocess.PIPE, text=True) as flood:
        time.sleep(0.1)
        kubedns.process.send_signal(signal.SIGSTOP)
        flood.send_signal(signal.SIGSTOP)
        time.sleep(0.7)
        flood.send_signal(signal.SIGCONT)
        time.sleep(0.02)
        kubedns.process.send_signal(signal.SIGCONT)
        got = json.loads(flood.communicate(timeout=30)[0])
    assert got["answered"] > 1000 and got["lost"] == 0


def test_a_flood_counts_what_is_lost(tmp_path):
    """After half a second without an answer, each client gives up its ten queries and sends the next ten."""
    path = tmp_path / "questions"
    path.write_text("a.example. A\n")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        got = json.loads(asker("flood", silent.getsockname()[1], path, 0.8, 2, 20))
    assert got["answered"] == 0 and got["sent"] == got["lost"] == 40


def test_the_asker_counts_what_is_lost(tmp_path):
    path = tmp_path / "questions"
    path.write_text("a.example. A\n")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        got = json.loads(asker("load", silent.getsockname()[1], path, 100, 0.5, 1))
    assert got["sent"] == 50 and got["lost"] == 50


def test_the_asker_is_not_kinder_to_a_server_that_stalls(tmp_path):
    """If an answer takes 300 ms, the following answers are late too. The percentiles must show this."""
    path = tmp_path / "questions"
    path.write_text("a.example. A\n")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stalling:
        stalling.bind(("127.0.0.1", 0))
        stalling.settimeout(10)

        def serve():
            for n in range(100):
                query, peer = stalling.recvfrom(512)
                if n == 50:
                    time.sleep(0.3)
                stalling.sendto(query[:2] + b"\x84\x00" + query[4:], peer)

        thread = threading.Thread(target=serve)
        thread.start()
        got = json.loads(asker("load", stalling.getsockname()[1], path, 100, 1, 1))
        thread.join()
    assert got["answered"] == 100
    # Thirty of a hundred queries waited between 0 and 300 ms.
    assert got["latency_us"]["p90"] > 100_000


def test_the_follower_sees_a_change_after_it_was_made(kubedns, objects, tmp_path):
    """The follower reports each change only after it was made."""
    path = tmp_path / "follow"
    path.write_text("web-00000.ns-00000.svc.cluster.local. A there\nnew.ns-00000.svc.cluster.local. A there\nnew.ns-00000.svc.cluster.local. A 10.96.9.10\n")
    follower = subprocess.Popen([ASKER, "follow", str(kubedns.port), str(path), str(kubedns.process.pid)], stdout=subprocess.PIPE, text=True)
    assert int(follower.stdout.readline().split()[-1]) > 0
    for address in ("10.96.9.9", "10.96.9.10"):
        manifest = {"kind": "Service", "metadata": {"name": "new", "namespace": "ns-00000"}, "spec": {"clusterIP": address}}
        (objects / "new").write_text(json.dumps(manifest))
        made = time.monotonic_ns()
        os.rename(objects / "new", objects / "new.json")
        seen = int(follower.stdout.readline().split()[-1])
        assert made < seen < made + 5_000_000_000
    follower.wait(timeout=10)


def test_slopes_are_the_exponent_of_growth():
    assert charts.slope([(n, 3 * n**2) for n in (1, 10, 100)]) == pytest.approx(2)
    assert charts.slope([(n, 7) for n in (1, 10, 100)]) == pytest.approx(0)


def test_zones_hold_what_kubedns_answers(objects, tmp_path):
    if not shutil.which("knotd"):
        pytest.skip("knot is not installed")
    zones = servers.print_zones([f"--objects-dir={objects}"], str(tmp_path / "zones"))
    with servers.Knot(str(tmp_path), zones) as knot:
        for kind in questions.KINDS:
            assert questions.judge(PEOPLE, kind, knot.port, count=20) == []
