"""
The query log writes answers to the log. A flag switches it on at startup, or an HTTP request switches it on and off. It has filters. If
there are too many answers, it writes a sample.
"""

import re
import signal
import socket
import subprocess
import urllib.error
import urllib.request

import dns.message
import dns.rcode
from dnsnet import WEB, Upstream, query, silent, udp, world
from kubedns_process import PROGRAM
from test_queries import lines as lines_of, recorded
from test_top import burst

MISSING = "nothing.default.svc.cluster.local"


def switch(kubedns, method, parameters="", host=None):
    url = f"http://{kubedns.host}:{kubedns.healthz}/log-queries{parameters}"
    request = urllib.request.Request(url, method=method, headers={"Host": host} if host else {})
    try:
        with urllib.request.urlopen(request, timeout=5) as r:
            return r.status, r.read().decode()
    except urllib.error.HTTPError as e:
        return e.code, e.read().decode()


def logged(kubedns):
    return re.findall(r"kubedns: info: query (?!log:)(.*)", kubedns.log())


def test_every_answer_is_a_line_in_the_order_in_which_they_were_given(tmp_path):
    with Upstream() as u, world(tmp_path, f"--nameservers={u.address}", "--log-queries") as k:
        k.wait_ready()
        for i in range(20):
            udp(k, query(f"n{i}.default.svc.cluster.local"), source="127.0.0.2")
        udp(k, query("www.example.com"))
        k.wait(lambda: len(logged(k)) == 21)
        assert [line.split()[3] for line in logged(k)] == [f"n{i}.default.svc.cluster.local." for i in range(20)] + ["www.example.com."]
        assert re.fullmatch(r"127\.0\.0\.2:\d+ udp A n0\.default\.svc\.cluster\.local\. NXDOMAIN \d+ cluster \d+\.\d{3}ms", logged(k)[0])
        assert logged(k)[20].split()[6] == "forwarded"


def test_the_answers_of_the_end_are_logged(tmp_path):
    """A query that still waits for another server at SIGTERM gets SERVFAIL, after the last iteration of the loop."""
    with Upstream(silent) as u:
        k = world(tmp_path, f"--nameservers={u.address}", "--log-queries", "--drain=0s")
        k.wait_ready()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.settimeout(10)
            s.connect((k.host, k.port))
            s.send(query("last.example.com").to_wire())
            k.wait(lambda: u.asked)
            k.process.send_signal(signal.SIGTERM)
            assert k.process.wait(timeout=10) == 0
            assert dns.message.from_wire(s.recv(4096)).rcode() == dns.rcode.SERVFAIL
        assert [line.split()[3:5] for line in logged(k)] == [["last.example.com.", "SERVFAIL"]]


def test_a_filter_of_the_command_line_holds(tmp_path):
    with world(tmp_path, "--log-queries=client=127.0.0.2/31,rcode=NXDOMAIN") as k:
        k.wait_ready()
        for source in ("127.0.0.2", "127.0.0.3", "127.0.0.4"):
            udp(k, query(WEB), source=source)
            udp(k, query(MISSING), source=source)
        k.wait(lambda: len(logged(k)) == 2)
        assert [(line.split(":")[0], line.split()[4]) for line in logged(k)] == [("127.0.0.2", "NXDOMAIN"), ("127.0.0.3", "NXDOMAIN")]


def test_it_is_switched_while_kubedns_runs(tmp_path):
    with world(tmp_path) as k:
        k.wait_ready()
        assert switch(k, "GET") == (200, "off\n")
        udp(k, query(WEB))
        recorded(k, 1)
        assert switch(k, "PUT", "?type=AAAA") == (200, "on\n")
        assert switch(k, "GET") == (200, "on\n")
        udp(k, query(WEB))
        udp(k, query(WEB, "AAAA"))
        k.wait(lambda: len(logged(k)) == 1)
        udp(k, query(WEB, "AAAA"))
        recorded(k, 4)
        assert switch(k, "DELETE") == (200, "off\n")  # kubedns writes the earlier answers before it switches off
        assert len(logged(k)) == 2
        udp(k, query(WEB, "AAAA"))
        recorded(k, 5)
        assert switch(k, "PUT", "?for=3s") == (200, "on\n")
        udp(k, query(WEB))
        k.wait(lambda: "query log: off: the time in for= is over" in k.log())
        assert len(logged(k)) == 3 and " A " in logged(k)[2]


def test_only_the_pod_itself_may_switch_it_and_mistakes_are_named(tmp_path):
    with world(tmp_path, "--debug-remote") as k:
        k.wait_ready()
        assert switch(k, "PUT", host="dns.example")[0] == 403 and switch(k, "GET") == (200, "off\n")
        assert switch(k, "POST")[0] == 405
        assert switch(k, "PUT", "?rate=1") == (400, "rate=1: a number of lines a second from 5 to 100000 is needed\n")
        assert switch(k, "PUT", "?for=long")[0] == switch(k, "PUT", "?client=web")[0] == 400
        assert switch(k, "GET") == (200, "off\n")
        request = urllib.request.Request(f"http://{k.host}:{k.healthz}/queries", method="PUT")
        try:
            urllib.request.urlopen(request, timeout=5)
        except urllib.error.HTTPError as e:
            assert (e.code, e.headers["Allow"]) == (405, "GET, HEAD")
        else:
            raise AssertionError("PUT /queries was accepted")


def test_of_too_many_answers_an_even_part_is_written_and_the_log_says_so(tmp_path):
    with world(tmp_path, "--threads=1") as k:
        k.wait_ready()
        assert switch(k, "PUT", "?rate=50")[0] == 200
        burst(k, "127.0.0.2", query(WEB), 4000)
        burst(k, "127.0.0.3", query(WEB), 4000)
        k.wait(lambda: len(lines_of(k, "?limit=100000")) == 8001)  # the extra line has the age of the oldest record
        assert switch(k, "DELETE")[0] == 200
        told = re.search(r"query log: (\d+) of 8000 answers were written: the limit is rate=50 lines a second", k.log())
        lines = logged(k)
        assert told and int(told.group(1)) == len(lines) and 10 <= len(lines) < 800
        assert {line.split(":")[0] for line in lines} == {"127.0.0.2", "127.0.0.3"}


def test_a_mistake_on_the_command_line_is_named():
    for flag, said in (
        ("--log-queries=rcode=NOPE", '"rcode=NOPE": an rcode such as NXDOMAIN or SERVFAIL is needed'),
        ("--log-queries=who", '"who": client=, name=, type=, rcode= or rate= is needed'),
    ):
        done = subprocess.run([PROGRAM, flag, "--check"], capture_output=True, text=True, timeout=10, check=False)
        assert done.returncode == 2 and said in done.stderr, done.stderr
    done = subprocess.run([PROGRAM, "--log-queries", "--recorder=off"], capture_output=True, text=True, timeout=10, check=False)
    assert done.returncode == 2 and "remove --recorder=off" in done.stderr
