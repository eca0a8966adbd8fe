"""The benches' own tools: a judge that finds wrong answers, an asker that counts what is lost, a follower of changes, a gate that closes."""

import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "bench"))
BUILD = os.path.abspath(os.environ.get("BUILD", os.path.join(HERE, "..", "..", "build")))
ASKER = os.path.join(BUILD, "tests", "bench", "asker")

import charts  # noqa: E402
import instructions  # noqa: E402
import questions  # noqa: E402
import results  # noqa: E402
import servers  # noqa: E402

pytestmark = pytest.mark.skipif(not os.path.exists(ASKER), reason="make bench-tools builds them")
PEOPLE = questions.population.Population(namespaces=20, services=20, slices=30)


def test_a_lookup_in_front_costs_the_packets_of_the_search_list_and_no_aaaa_upstream():
    """bench-lookup with one library: a cluster name is the first candidate, an outside name the fourth, each asked for A and AAAA."""
    command = [sys.executable, os.path.join(HERE, "..", "bench", "bench.py"), "lookup", "--lookups=20", "--repeats=1", "--resolvers=glibc",
               "--servers=front-filter"]  # fmt: skip
    environment = {k: v for k, v in os.environ.items() if k != "BENCH_NETWORK"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False, env={**environment, "BUILD": BUILD})
    if "needs a network namespace" in done.stderr:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stdout + done.stderr
    rows = {r["name"]: r for r in results.load()["lookup"]["rows"]}
    assert (rows["cluster"]["packets"], rows["outside"]["packets"]) == (2, 8)
    assert rows["outside"]["upstream"] <= 1 and rows["outside"]["upstream_aaaa"] == 0 and rows["outside"]["cpu_us"] > 0


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


@pytest.mark.timing  # where the server waits for a CPU its queue overflows, or the flood is held back
def test_a_flood_counts_answers_and_codes(kubedns, tmp_path):
    path = tmp_path / "questions"
    path.write_text("web-00000.ns-00000.svc.cluster.local. A\nmissing.ns-00000.svc.cluster.local. A\n")
    got = json.loads(asker("flood", kubedns.port, path, 0.5, 4, 40))
    assert got["sent"] > 1000 and got["answered"] == got["sent"] and got["lost"] == 0
    assert got["seconds"] >= 0.5
    codes = got["rcodes"]
    assert set(codes) == {"NOERROR", "NXDOMAIN"} and abs(codes["NOERROR"] - codes["NXDOMAIN"]) <= 1


def test_a_flood_counts_what_is_lost(tmp_path):
    """Each client gives its ten up after half a second of silence, and goes on."""
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
    """An answer that waits 300 ms makes those behind it late too: the percentiles say so."""
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
    # Of a hundred, thirty waited between 0 and 300 ms.
    assert got["latency_us"]["p90"] > 100_000


def test_the_follower_sees_a_change_after_it_was_made(kubedns, objects, tmp_path):
    """Neither before, nor for what does not change."""
    path = tmp_path / "follow"
    path.write_text("web-00000.ns-00000.svc.cluster.local. A there\nnew.ns-00000.svc.cluster.local. A there\n")
    follower = subprocess.Popen([ASKER, "follow", str(kubedns.port), str(path), str(kubedns.process.pid)], stdout=subprocess.PIPE, text=True)
    assert int(follower.stdout.readline().split()[-1]) > 0
    manifest = {"kind": "Service", "metadata": {"name": "new", "namespace": "ns-00000"}, "spec": {"clusterIP": "10.96.9.9"}}
    (objects / "new").write_text(json.dumps(manifest))
    made = time.monotonic_ns()
    os.rename(objects / "new", objects / "new.json")
    seen = int(follower.stdout.readline().split()[-1])
    follower.wait(timeout=10)
    assert made < seen < made + 5_000_000_000


def test_the_gate_refuses_more_than_five_per_cent(tmp_path, monkeypatch, capsys):
    kept = tmp_path / "instructions.json"
    kept.write_text(json.dumps({"figures": {"cluster_a": 1000, "nxdomain": 1000}}))
    monkeypatch.setattr(instructions, "KEPT", str(kept))
    monkeypatch.setattr(results, "DIRECTORY", str(tmp_path))
    monkeypatch.setattr(results, "PATH", str(tmp_path / "results.json"))
    monkeypatch.setattr(instructions, "DIRECTORY", str(tmp_path))
    monkeypatch.setattr(instructions, "measure", lambda a: {"cluster_a": 1049, "nxdomain": 1051})
    assert instructions.main([]) == 1
    said = capsys.readouterr().err
    assert "nxdomain: 1,051" in said and "cluster_a" not in said
    assert instructions.main(["--update"]) == 0
    assert instructions.main([]) == 0


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
