"""The page in Debian's Chromium during an incident, caused with the real programs: dead upstream servers, a flood, a killed kubedns."""

import json
import os
import re
import subprocess

import dns.message
import pytest

import chromium
import test_sidecar_page
from pod_world import Pod
from sidecar_world import BUILD, NAME, FakeDns, until
from test_sidecar_page import heading, shoot, show

pytestmark = pytest.mark.skipif(not chromium.available(), reason="needs chromium")
HOSTILE = os.path.join(BUILD, "tests", "bench", "hostile")
CLIENT = "127.0.0.9"

page = test_sidecar_page.page  # a fixture


@pytest.fixture
def pod():
    with FakeDns() as upstream:
        p = Pod({"upstreamNameservers": json.dumps([upstream.server])})
        p.upstream = upstream
        until(lambda: p.sentence().startswith("DNS is healthy"), 30)
        yield p
        p.close()


@pytest.fixture
def night(pod, page):
    """A browser for the pod's page. It leaves the page before the pod ends, because a missing sidecar would put an error in the console."""
    yield page
    page.open("about:blank")


def test_dead_upstreams(pod, night):
    pod.upstream.stop()
    until(lambda: "no upstream server answers" in pod.sentence(), 20)
    shoot(night, "upstreams-dead", pod.sidecar.url("/"))
    assert "no upstream server answers" in heading(night) and night.js("document.querySelector('#verdict').className") == "verdict degraded"
    # The upstream servers' panel shows this too, although dnsmasq has not counted a failure.
    assert "refuses connections" in night.js("document.getElementById('upstreams').innerText")
    # So does the question box, if a name gets no answer.
    night.open(pod.sidecar.url("/ask?name=www.example.com&type=A"))
    night.wait("document.getElementById('answer').innerText.includes('Why')", 20)
    answer = night.js("document.getElementById('answer').innerText")
    assert f"upstream server {pod.upstream.server} refuses connections" in answer, answer
    pod.upstream.start()


def test_kubedns_killed(pod, night):
    pod.kill("kubedns")
    until(lambda: pod.sentence().startswith("DNS is down: kubedns is not running"), 20)
    shoot(night, "kubedns-killed", pod.sidecar.url("/"))
    assert night.js("document.querySelector('#verdict').className") == "verdict down"
    assert "kubedns is not running" in night.js("document.getElementById('journal').innerText")


RATES = """[...document.querySelectorAll('.rates li')].map(li => [li.querySelector('h3').innerText.trim(), li.querySelector('svg title').textContent,
    Math.max(0, ...[...li.querySelector('.bar').getAttribute('d').matchAll(/v-([0-9.]+)/g)].map(m => +m[1])), li.querySelector('.plot').clientWidth,
    li.querySelector('.y span').textContent])"""


def drawn_over_time(pod, night):
    """Checks the chart of the top clients' rates below the chart of the probes' latency, wide and narrow, light and dark."""
    for width, dark in ((1200, False), (390, True), (1200, True), (390, False)):
        night.view(width, 900, dark=dark, mobile=width < 500)
        show(night, pod.sidecar.url("/"))
        rates = night.js(RATES)
        name, title, tallest, plot, axis = rates[0]
        assert name.startswith(CLIENT) and re.fullmatch(rf"Answers to {CLIENT} over the last 10 minutes: about [0-9,]+ a second at most\.", title), rates
        # All charts share one axis, and the top client nearly fills it. The rates of the pod's own dnsmasq and sidecar are tiny in comparison.
        assert tallest > 40 and {r[4] for r in rates} == {axis} and all(r[2] < 5 for r in rates[1:]), rates
        assert plot > 150
        # The chart shows the same ten minutes as the latency chart and has the same size.
        assert len(set(night.js("[...document.querySelectorAll('#probes svg.plot, .rates svg.plot')].map(s => s.getAttribute('viewBox'))"))) == 1
        assert night.js(test_sidecar_page.CONTRAST) == []
    night.view(1200, 900)
    tree = night.call("Accessibility.getFullAXTree")["nodes"]
    images = [n.get("name", {}).get("value", "") for n in tree if not n.get("ignored") and n.get("role", {}).get("value") == "image"]
    assert all(images) and any(f"Answers to {CLIENT}" in i for i in images)


def test_who_floods_is_named(pod, night, tmp_path):
    """The page shows the top client and the name in its queries, from real packets. Also at phone width."""
    if not os.path.exists(HOSTILE):
        pytest.skip(f"needs {HOSTILE}: make bench-tools")
    until(lambda: pod.sidecar.status()["kubedns"]["up"], 20)  # kubedns does not know when answers from before the first reading were sent
    (tmp_path / "queries").write_text("".join(dns.message.make_query(NAME, "AAAA", id=i).to_wire().hex() + "\n" for i in range(64)))
    subprocess.run([HOSTILE, "udp", CLIENT, str(pod.kubedns_port), tmp_path / "queries", "3", "2000"], check=True, stdout=subprocess.DEVNULL, timeout=30)
    show(night, pod.sidecar.url("/"))
    night.wait("document.querySelector('.rates') !== null", 20)
    shoot(night, "flood", pod.sidecar.url("/"))
    for width in (1200, 390):
        night.view(width, 900, mobile=width < 500)
        show(night, pod.sidecar.url("/"))
        first = night.js("[...document.querySelectorAll('.top-table')].map(t => t.querySelector('tbody tr').innerText)")
        assert first[0].startswith(CLIENT) and first[1].startswith(NAME)
        assert "100" in first[0]  # percent of AAAA queries
        # The column is wide enough to show a name in one or two lines.
        assert night.js("Math.min(...[...document.querySelectorAll('.top-table tbody th')].map(t => t.clientWidth))") > 100
    night.view(1200, 900)
    drawn_over_time(pod, night)
    # Neither Prometheus nor strangers see the client's address.
    assert CLIENT not in pod.sidecar.get("/status.json", {"Host": "evil.example"})[1]
