"""Top clients and top names of all workers, estimated from a sample."""

import json
import socket
import time

from dnsnet import WEB, query, world
from objects import namespace
from test_options import pod
from waiting import wait_for
from world import start

WALK = "google.com.default.svc.cluster.local"
WINDOW = 32


def within_a_minute():
    """
    Waits until at least 20 seconds of the current minute of the monotonic clock are left. kubedns halves all counts at the end of a
    minute. Queries before that moment would count half as much as later queries.
    """
    wait_for(lambda: time.monotonic() % 60 < 40, 30)


def burst(kubedns, source, message, count):
    wire = message.to_wire()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.bind((source, 0))
        s.settimeout(5)
        s.connect((kubedns.host, kubedns.port))
        for _ in range(count // WINDOW):
            for _ in range(WINDOW):
                s.send(wire)
            for _ in range(WINDOW):
                s.recv(4096)


def top(kubedns, parameters=""):
    status, text = kubedns.http("/top?format=json" + parameters)
    assert status == 200, text
    return json.loads(text)


def about(counted, asked):
    """
    True if a count is right within a fifth. The sample takes 1 of 40 answers by chance. With 300 samples, a larger error is beyond three
    standard deviations.
    """
    return 0.8 * asked < counted < 1.2 * asked


def test_the_heaviest_clients_and_names_are_named_by_kind(tmp_path):
    with world(tmp_path, "--threads=2") as k:
        k.wait_ready()
        within_a_minute()
        for source in ("127.0.0.2", "127.0.0.3"):  # the packets of each socket go to one worker
            burst(k, source, query(WEB), 8000)
        burst(k, "127.0.0.2", query(WALK, "AAAA"), 16000)
        found = top(k)
        assert about(found["queries"], 32000) and about(found["nxdomain"], 16000) and found["outside"] == 0
        first, second = found["clients"]
        assert (first["address"], second["address"]) == ("127.0.0.2", "127.0.0.3")
        assert about(first["queries"], 24000) and about(first["search_walk"], 16000) and about(first["aaaa"], 16000)
        assert about(second["queries"], 8000) and second["search_walk"] == second["nxdomain"] == second["aaaa"] == 0
        assert [n["name"] for n in top(k, "&by=search_walk")["names"]] == [WALK + "."]
        assert {n["name"] for n in found["names"]} == {WALK + ".", WEB + "."}
        assert len(top(k, "&limit=1")["clients"]) == 1
        text = k.http("/top")[1]
        assert text.startswith("# about ") and text.index("127.0.0.2") < text.index("127.0.0.3")
        assert 0.7 < k.metric("kubedns_top_client_ratio", **{"class": "queries"}) < 0.8
        assert k.metric("kubedns_top_name_ratio", **{"class": "search_walk"}) == 1
        assert k.metric("kubedns_top_client_ratio", **{"class": "outside"}) == 0
        series = [s for s in k.metrics() if s.startswith("kubedns_top_")]
        assert len(series) == 10
        assert k.http("/top?by=size") == (400, "by=size: queries, nxdomain, search_walk, aaaa or outside is needed\n")
        assert k.http("/top?limit=0")[0] == k.http("/top?limit=101")[0] == k.http("/top?format=xml")[0] == 400
        assert k.http("/top?limit=9")[0] == k.http("/top?limit=100")[0] == 200
        # A name may contain any byte. The page must still be valid JSON.
        burst(k, "127.0.0.2", query(r'"a\\b".default.svc.cluster.local.'), 8000)
        assert r'\"a\\b\".default.svc.cluster.local.' in [n["name"] for n in top(k)["names"]]


def test_a_client_that_is_a_watched_pod_is_shown_with_its_namespace(tmp_path):
    k = start(tmp_path, [namespace("prod"), pod("a", "prod", "127.0.0.2")], "--pods=verified")
    with k:
        k.wait_ready()
        within_a_minute()
        burst(k, "127.0.0.2", query(WEB), 2000)
        burst(k, "127.0.0.3", query(WEB), 1000)
        assert [(c["address"], c.get("namespace")) for c in top(k)["clients"]] == [("127.0.0.2", "prod"), ("127.0.0.3", None)]
        assert "127.0.0.2 namespace prod\n" in k.http("/top")[1]


def test_off_counts_nothing(tmp_path):
    with world(tmp_path, "--recorder=off") as k:
        k.wait_ready()
        assert k.http("/top") == (404, "answers are not counted: --recorder=off\n")
        assert len([s for s in k.metrics() if s.startswith("kubedns_top_")]) == 10
