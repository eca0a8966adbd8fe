"""The page in Debian's Chromium in the states of a bad night, brought about with the real programs: upstreams dead, a flood, kubedns killed."""

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

browser, page = test_sidecar_page.browser, test_sidecar_page.page  # fixtures


@pytest.fixture
def pod():
    with FakeDns() as upstream:
        p = Pod({"upstreamNameservers": json.dumps([upstream.server])})
        p.upstream = upstream
        until(lambda: p.sentence().startswith("DNS is well"), 30)
        yield p
        p.close()


@pytest.fixture
def night(pod, page):
    """The browser beside the pod; its tab is empty before the pod ends, or it would complain of a sidecar that is gone."""
    yield page
    page.open("about:blank")


def test_dead_upstreams(pod, night):
    pod.upstream.stop()
    until(lambda: "no upstream server answers" in pod.sentence(), 20)
    shoot(night, "upstreams-dead", pod.sidecar.url("/"))
    assert "no upstream server answers" in heading(night) and night.js("document.querySelector('#verdict').className") == "verdict degraded"
    # The panel of the upstream servers says so too, where dnsmasq has counted nothing.
    assert "refuses connections" in night.js("document.getElementById('upstreams').innerText")
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
    """The rates of the heaviest clients below the probes' latency: wide and narrow, light and dark."""
    for width, dark in ((1200, False), (390, True), (1200, True), (390, False)):
        night.view(width, 900, dark=dark, mobile=width < 500)
        show(night, pod.sidecar.url("/"))
        rates = night.js(RATES)
        name, title, tallest, plot, axis = rates[0]
        assert name.startswith(CLIENT) and re.fullmatch(rf"Answers to {CLIENT} over the last 10 minutes: about [0-9,]+ a second at most\.", title), rates
        # One axis for all, which the heaviest nearly fills; the pod's own dnsmasq and sidecar are next to nothing beside a flood.
        assert tallest > 40 and {r[4] for r in rates} == {axis} and all(r[2] < 5 for r in rates[1:]), rates
        assert plot > 150
        # The same ten minutes as the latency above, in the same shape.
        assert len(set(night.js("[...document.querySelectorAll('#probes svg.plot, .rates svg.plot')].map(s => s.getAttribute('viewBox'))"))) == 1
        assert night.js(test_sidecar_page.CONTRAST) == []
    night.view(1200, 900)
    tree = night.call("Accessibility.getFullAXTree")["nodes"]
    images = [n.get("name", {}).get("value", "") for n in tree if not n.get("ignored") and n.get("role", {}).get("value") == "image"]
    assert all(images) and any(f"Answers to {CLIENT}" in i for i in images)


def test_who_floods_is_named(pod, night, tmp_path):
    """The heaviest client and the name that it asks for, by real packets; on a phone too."""
    if not os.path.exists(HOSTILE):
        pytest.skip(f"needs {HOSTILE}: make bench-tools")
    until(lambda: pod.sidecar.status()["kubedns"]["up"], 20)  # what came before the first reading has no time
    (tmp_path / "queries").write_text("".join(dns.message.make_query(NAME, "AAAA", id=i).to_wire().hex() + "\n" for i in range(64)))
    subprocess.run([HOSTILE, "udp", CLIENT, str(pod.kubedns_port), tmp_path / "queries", "3", "0"], check=True, stdout=subprocess.DEVNULL, timeout=30)
    show(night, pod.sidecar.url("/"))
    night.wait("document.querySelector('.rates') !== null", 20)
    shoot(night, "flood", pod.sidecar.url("/"))
    for width in (1200, 390):
        night.view(width, 900, mobile=width < 500)
        show(night, pod.sidecar.url("/"))
        first = night.js("[...document.querySelectorAll('.top-table')].map(t => t.querySelector('tbody tr').innerText)")
        assert first[0].startswith(CLIENT) and first[1].startswith(NAME)
        assert "100" in first[0]  # per cent of AAAA
        # A name is read in a line or two, not a letter a line.
        assert night.js("Math.min(...[...document.querySelectorAll('.top-table tbody th')].map(t => t.clientWidth))") > 100
    night.view(1200, 900)
    drawn_over_time(pod, night)
    # Prometheus and strangers are not told who.
    assert CLIENT not in pod.sidecar.get("/status.json", {"Host": "evil.example"})[1]
