"""How the charts of the status page look in Debian's Chromium. `make report` runs this, because a chart that looks wrong fails nothing."""

import pytest

import chromium
import test_sidecar_drawing
from test_sidecar_drawing import KUBEDNS, kubedns, last

pytestmark = pytest.mark.skipif(not chromium.available(), reason="needs chromium")
draw, drawn = test_sidecar_drawing.draw, test_sidecar_drawing.drawn  # fixtures


@pytest.mark.parametrize("uptime_s", [1, 109, 111, 119, 121, 289, 291, 299, 301, 3600])
def test_no_bar_is_drawn_outside_its_chart(draw, drawn, uptime_s):
    """The sidecar may have started at the end of a bucket, and "now" may be at the beginning of one."""
    buckets = min(60, 2 + uptime_s // 10)
    draw("answers", kubedns=kubedns(answersOverTime={**KUBEDNS["answersOverTime"], "NOERROR": [0] * (60 - buckets) + [1] * buckets}), uptimeSeconds=uptime_s)
    begin, width, bar = drawn.js("""(svg => [svg.viewBox.baseVal.x, svg.viewBox.baseVal.width, svg.querySelector('.bar').getBBox()])
        (document.querySelector('#answers svg')).map(v => v.x === undefined ? v : [v.x, v.x + v.width])""")
    assert begin <= bar[0] and bar[1] <= begin + width


def test_the_heaviest_are_drawn_on_one_scale(draw, drawn):
    rates = [{"name": "10.0.0.9", "pod": "pod shop/web-1", "answersOverTime": last(41000)}, {"name": "10.0.0.8", "pod": "", "answersOverTime": last(20000)}]
    draw("top", kubedns=kubedns(topKnown=True, topRates=rates))
    assert drawn.js("[...document.querySelectorAll('.rates title')].map(t => t.textContent)") == [
        f"Answers to {client} over the last 10 minutes: about {rate} a second at most." for client, rate in (("10.0.0.9", "4,100"), ("10.0.0.8", "2,000"))]
    # The axis of both charts ends at 50,000 queries in ten seconds.
    assert drawn.js("[...document.querySelectorAll('.rates .bar')].map(p => p.getAttribute('d'))") == ["M591 100.0v-82.0h8v82.0z", "M591 100.0v-40.0h8v40.0z"]
    assert drawn.js("[...document.querySelectorAll('.rates .y span:first-child')].map(s => s.textContent)") == ["5,000/s"] * 2


def test_points_of_a_thinned_history_are_joined_and_gaps_are_not(draw, drawn):
    """The sidecar sends only the worst of 5 consecutive points, so two neighbours are up to 9 intervals apart."""
    history = [[60000, 100], [51000, 100], [50000, 100], [30000, 100]]
    draw("probes", historyStep=5, probes=[{**drawn.document["probes"][0], "history": history}])
    assert drawn.js("document.querySelector('#probes path.line').getAttribute('d')") == "M540.0 100.0h0L549.0 100.0L550.0 100.0M570.0 100.0h0"


def test_decades_hold_what_is_between(drawn):
    for low, high, decades in ((0.05, 0.4, [-2, 0]), (3, 3, [0, 2]), (0.02, 1999, [-2, 4]), (0, 1e9, [-2, 4])):
        assert drawn.js(f"decades({low}, {high})") == decades


LINES = "[...document.querySelectorAll('.servers li h3')].map(h => Math.round(h.clientHeight / parseFloat(getComputedStyle(h).lineHeight)))"


@pytest.mark.parametrize("width", [1200, 390, 320])
def test_the_name_of_a_failing_server_is_not_broken_in_letters(draw, drawn, width):
    """The names of the servers have priority over the figures beside them."""
    failure, dnsmasq = "does not complete the TLS handshake", drawn.document["dnsmasq"]
    plain = {"server": "192.168.100.100:5353", "failure": failure, "recentQueries": 12345, "recentFailed": 12345, "queriesOverTime": last(9),
             "failedOverTime": last(9)}
    encrypted = {"check": "upstream", "server": "192.168.100.101:853", "tlsName": "dns.test", "domain": "", "state": "tls_stalled", "failing": True,
                 "failure": failure, "sinceSeconds": 3000, "answered": 0, "failed": 57}
    drawn.view(width, 900, mobile=width < 500)
    text = draw("upstreams", dnsmasq={**dnsmasq, "seen": True, "up": True, "upstreamCount": 1, "upstreams": [plain]}, servers=[encrypted])
    assert plain["server"] in text and encrypted["server"] in text and text.count(failure) == 2
    lines = drawn.js(LINES)
    scroll = drawn.js("document.documentElement.scrollWidth")
    drawn.view(1200, 900)
    assert len(lines) == 2 and max(lines) <= 2 and scroll <= width
