"""
A client that sends as fast as it can does not take DNS away from others. This file has a short form of each attack. `make bench-hostile`
measures the attacks.
"""

import json
import os
import subprocess

import pytest
from bulk_asking import question
from dnsnet import MANY, WEB, query, world
from kubedns_process import BUILD

HOSTILE = os.path.join(os.path.abspath(BUILD), "tests", "bench", "hostile")
ATTACKER = "127.0.0.2"


@pytest.fixture(autouse=True)
def built():
    if not os.path.exists(HOSTILE):
        pytest.skip(f"needs {HOSTILE}: make bench-tools")


def write(path, messages):
    path.write_text("".join((m if isinstance(m, bytes) else m.to_wire()).hex() + "\n" for m in messages))
    return str(path)


def hostile(how, source, kubedns, messages, seconds, count, *wait, prefix=()):
    return subprocess.Popen([*prefix, HOSTILE, how, source, *map(str, (kubedns.port, messages, seconds, count, *wait))], stdout=subprocess.PIPE, text=True)


def pointers(i):
    """A query whose additional section is a chain of compression pointers, 4 KB in all."""
    head = query(WEB, id=i).to_wire()
    chain = b"".join((0xC000 | (len(head) + 2 * n - 2 if n else 12)).to_bytes(2, "big") for n in range(2000))
    return head[:10] + b"\0\x40" + head[12:] + chain


ATTACKS = {
    "existing names": ("udp", 0, [query(WEB, id=i) for i in range(64)]),
    "random names": ("udp", 0, [question(f"x{i * 7919 % 100000}.default.svc.cluster.local", "A", i, recursion=True) for i in range(4096)]),
    "headless answers": ("udp", 0, [query(MANY, id=i, use_edns=0, payload=4096) for i in range(64)]),
    "pointers": ("udp", 0, [pointers(i) for i in range(16)]),
    "over TCP": ("tcp", 50, [query(WEB, id=i) for i in range(64)]),
    "over TCP, long answers": ("tcp", 50, [query(MANY, id=i) for i in range(64)]),
    "over TCP, never reading": ("mute", 1000, [query(MANY, id=i) for i in range(64)]),
    "connections": ("connect", 100, [query(WEB)]),
}


@pytest.mark.quiet
@pytest.mark.parametrize("attack", ATTACKS)
def test_an_attack_takes_nothing_from_others(tmp_path, attack):
    """A victim repeats a message once. On a busy machine an answer may be late, so the victim waits for a minute."""
    how, count, messages = ATTACKS[attack]
    with world(tmp_path, "--threads=1") as k:
        k.wait_ready()
        asked = write(tmp_path / "asked", [query(WEB)])
        victims = [hostile(way, "127.0.0.1", k, asked, 2, 100, 60) for way in ("ask", "asktcp")]
        attacker = hostile(how, ATTACKER, k, write(tmp_path / "attack", messages), 1, count, 60)
        assert json.loads(attacker.communicate(timeout=120)[0])["sent"] > 0
        for victim in victims:
            seen = json.loads(victim.communicate(timeout=120)[0])
            assert seen["lost"] == 0 and set(seen["rcodes"]) == {"NOERROR"}, seen
        assert k.http("/healthz")[0] == 200


def overloaded(tmp_path, *args):
    """A worker that gets a sixtieth of one CPU. The attacker has the rest of this CPU and sends more queries than the worker can answer."""
    cpu = ["taskset", "-c", str(min(os.sched_getaffinity(0)))]
    k = world(tmp_path, "--threads=1", *args, prefix=[*cpu, "nice", "-n", "19"])
    k.wait_ready()
    attacker = hostile("udp", ATTACKER, k, write(tmp_path / "attack", [query(WEB, id=i) for i in range(64)]), 3, 0, prefix=cpu)
    return k, attacker


def test_held_back_clients_are_logged_and_released(tmp_path):
    k, attacker = overloaded(tmp_path)
    with k:
        k.wait(lambda: k.metric("kubedns_client_shed_total") > 0)
        attacker.wait(120)
        assert f"packets from {ATTACKER} are answered" in k.log()
        k.wait(lambda: k.metric("kubedns_clients_held") == 0)
        assert k.http("/readiness") == (200, "ok\n")
        assert "all packets are answered again" in k.log()


def test_off_holds_nobody_back(tmp_path):
    k, attacker = overloaded(tmp_path, "--fair-share=off")
    with k:
        attacker.wait(120)
        assert k.metric("kubedns_dns_dropped_total", reason="receive_queue") > 0
        assert k.metric("kubedns_client_shed_total") == 0 and "held back" not in k.log()
