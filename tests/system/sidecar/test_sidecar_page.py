"""
The page in Debian's Chromium, drawn from a real sidecar's document: its text in each state, use by keyboard, hostile text, screenshots.
No error may appear in the console. Without scripts the page shows the text version.
"""

import contextlib
import json
import os
import re
import signal
import subprocess
import urllib.parse

import dns.rcode
import pytest

import chromium
from pod_world import Pod
from sidecar_world import BUILD, NAME, Dnsmasq, FakeDns, Sidecar, good, rcode, silent, slow, until
from waiting import sanitized

pytestmark = pytest.mark.skipif(not chromium.available(), reason="needs chromium")
SHOTS = os.path.join(BUILD, "screenshots")
os.makedirs(SHOTS, exist_ok=True)
HOSTILE = "<script>alert(1)</script>"
MEMORY_KIB = 8 * 1024


@pytest.fixture
def page(browser):
    """The browser. At the end its console may not contain an error."""
    browser.errors.clear()
    browser.view(1200, 900)
    yield browser
    browser.open("about:blank")  # an open page would request a sidecar that has ended. This also collects the last messages.
    # The browser reports each HTTP error status in the console. /ask returns an error status if the query is invalid or gets no answer.
    assert [e for e in browser.errors if not re.search(r"status of (400|503) .*/ask\?", e)] == []


@pytest.fixture(scope="module")
def pod():
    p = Pod({"stubDomains": json.dumps({"acme.example": ["127.0.0.1:5399"], "corp.example": ["10.0.0.53"]}),
             "upstreamNameservers": json.dumps(["127.0.0.1:5399"])},
            f"--probe=any,127.0.0.1:9,{NAME},3600,ANY")
    yield p
    p.close()


def show(page, url):
    """Opens the page and waits until its script has drawn it."""
    page.open(url)
    page.wait("!document.querySelector('main').hidden")


def shoot(page, name, url):
    """Takes screenshots at desktop and phone width, light and dark. Nothing may extend beyond the page's width."""
    for width, form in ((1200, "desktop"), (390, "phone")):
        page.view(width, 900, mobile=width < 500)
        show(page, url)
        for dark in (False, True):  # only the style sheet depends on this
            page.view(width, 900, dark=dark, mobile=width < 500)
            assert page.js("document.documentElement.scrollWidth") <= width
            page.screenshot(os.path.join(SHOTS, f"{name}-{form}-{'dark' if dark else 'light'}.png"))
    page.view(1200, 900)


def heading(page):
    return page.js("document.querySelector('h1').textContent")


@pytest.fixture(scope="module")
def healthy():
    """A pod with five probes that all get answers, and an upstream server that answers."""
    with FakeDns(good) as upstream:
        p = Pod({"stubDomains": json.dumps({"acme.example": [f"127.0.0.1:{upstream.port}"]}),
                 "upstreamNameservers": json.dumps([f"127.0.0.1:{upstream.port}"])},
                *(f"--probe={label},{upstream.server},{NAME},1,{kind}" for label, kind in (("a", "A"), ("b", "AAAA"), ("c", "SRV"))))
        until(lambda: p.sidecar.status()["level"] == "well", 20, "everything being well")
        until(lambda: p.sidecar.status()["nanny"]["up"] and p.sidecar.status()["kubedns"]["up"], 15, "the other two being seen")
        p.upstream = upstream
        yield p
        p.close()


def test_healthy(page, healthy):
    client = Dnsmasq.ask
    holder = type("Client", (), {"port": healthy.dnsmasq_port})
    for i in range(60):
        client(holder, f"n{i % 12}.example.org")
    until(lambda: healthy.sidecar.status()["dnsmasq"]["misses"] >= 12)
    show(page, healthy.sidecar.url("/"))
    assert heading(page).startswith("DNS is healthy: all 5 probes are answered")
    text = page.text()
    for words in ("Answered from the cache", "synced", "Servers by domain", "acme.example", "confirmed",
                  f"127.0.0.1:{healthy.upstream.port}", "Name or address"):
        assert words in text
    assert page.js("document.querySelectorAll('#findings li').length") == 0
    assert page.js("document.querySelectorAll('svg.plot .last').length") >= 6
    shoot(page, "healthy", healthy.sidecar.url("/"))


def test_it_lives_and_costs_little(page, healthy):
    """A browser shows the page. The figures update without a reload, and the sidecar uses at most 8 MB of resident memory."""
    show(page, healthy.sidecar.url("/"))
    page.js("window.__same = true")
    first = page.js("document.getElementById('when').textContent")
    page.wait(f"document.getElementById('when').textContent !== {json.dumps(first)}", 10)
    assert page.js("window.__same") is True
    memory = healthy.sidecar.memory_kib()
    print(f"sidecar with five probes and the page open: {memory} KiB resident")
    assert sanitized() or memory <= MEMORY_KIB


def test_paused_it_stands_still(page, healthy):
    show(page, healthy.sidecar.url("/"))
    page.js("document.getElementById('pause').click()")
    assert page.js("document.getElementById('pause').textContent") == "Resume updates"
    first = page.js("document.getElementById('when').textContent")
    assert page.js("new Promise(r => setTimeout(() => r(document.getElementById('when').textContent), 3500))") == first
    page.js("document.getElementById('pause').click()")
    page.wait(f"document.getElementById('when').textContent !== {json.dumps(first)}", 10)


def test_a_name_is_asked_by_keyboard(page, healthy):
    show(page, healthy.sidecar.url("/"))
    page.js("document.querySelector('input[name=name]').focus()")
    page.call("Input.insertText", text=NAME)
    page.call("Input.dispatchKeyEvent", type="keyDown", key="Enter", code="Enter", windowsVirtualKeyCode=13, text="\r")
    page.wait("document.getElementById('answer').innerText.includes('answered')")
    answer = page.js("document.getElementById('answer').innerText")
    assert re.search(re.escape(NAME) + r"\. \d+ A 10\.96\.0\.1\n", answer) and "Why" in answer
    assert page.js("document.activeElement.name") == "name"  # the focus has not moved


def test_answers_of_every_kind(page, healthy):
    answers = {"nope.default.svc.cluster.local": "There is no such name", "10.96.0.1": "1.0.96.10.in-addr.arpa. PTR",
               "a..b": "That is not a DNS name", "": "That is not a DNS name"}
    for name, words in answers.items():
        show(page, healthy.sidecar.url("/ask?" + urllib.parse.urlencode({"name": name, "type": "A"})))
        page.wait(f"document.getElementById('answer').innerText.includes({json.dumps(words)})")


def framed(page):
    """The text of the frame that the page shows without scripts."""
    tree = page.call("Page.getFrameTree")["frameTree"]
    assert [f["frame"]["url"].split("/")[-1] for f in tree["childFrames"]] == ["status.txt"]
    strings = page.call("DOMSnapshot.captureSnapshot", computedStyles=[])["strings"]
    return "\n".join(strings)


def test_without_scripts_there_is_the_sentence_and_the_command(page, pod):
    """In a browser without scripts, and in a terminal."""
    # Until then, the findings change while the sidecar learns how the upstream server fails.
    until(lambda: "no upstream server answers" in pod.sentence(), 30)
    page.view(1200, 900, scripts=False)
    page.open(pod.sidecar.url("/"))
    assert "this browser runs no scripts" in page.text()
    # The text version shows the problem. The page itself is hidden.
    finding = pod.sidecar.status()["findings"][-1]
    page.wait("document.querySelector('iframe').clientHeight > 100")
    until(lambda: finding["todo"] in framed(page))
    assert page.js("[...document.querySelectorAll('header, main, footer')].every(e => !e.checkVisibility())")
    assert page.js("document.querySelector('meta[http-equiv=refresh]') !== null")
    page.view(1200, 900, scripts=True)
    until(lambda: pod.sidecar.get("/status.txt")[1].startswith(pod.sentence()))
    status, text = pod.sidecar.get("/status.txt")
    commands = [f["command"] for f in pod.sidecar.status()["findings"] if f["command"]]
    assert status == 200 and commands and all(f"  $ {c}\n" in text for c in commands)
    assert pod.sidecar.headers("/status.txt")["Content-Type"] == "text/plain; charset=utf-8"


def test_every_control_has_a_name_and_every_chart_words(page, healthy):
    show(page, healthy.sidecar.url("/"))
    tree = page.call("Accessibility.getFullAXTree")["nodes"]
    named = [(n["role"]["value"], n.get("name", {}).get("value", "")) for n in tree if not n.get("ignored") and "role" in n]
    for role in ("textbox", "combobox", "button", "link", "image", "heading", "table", "status"):
        of_role = [name for r, name in named if r == role]
        assert of_role, f"no {role} at all"
        if role != "status":
            assert all(of_role), f"{role} without a name: {of_role}"
    assert any(name.startswith("Latency of probe") and "median" in name for _, name in named)
    # Tab reaches every focusable element, in the order of the page.
    count = page.js("document.querySelectorAll('a[href],button:not([hidden]),input,select,[tabindex=\"0\"]').length")
    seen = []
    for _ in range(count):
        page.call("Input.dispatchKeyEvent", type="keyDown", key="Tab", code="Tab", windowsVirtualKeyCode=9)
        seen.append(page.js("[...document.querySelectorAll('*')].indexOf(document.activeElement)"))
    assert seen == sorted(seen) and len(set(seen)) == count


CONTRAST = """
(() => {
	const rgb = c => c.match(/[\\d.]+/g).map(Number);
	const lum = ([r, g, b]) => [r, g, b].map(v => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
		.reduce((s, v, i) => s + v * [0.2126, 0.7152, 0.0722][i], 0);
	const back = e => { for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor); if (c.length < 4 || c[3] > 0) return c; } return [255, 255, 255]; };
	const bad = [];
	const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	while (walker.nextNode()) {
		const e = walker.currentNode.parentElement;
		if (!walker.currentNode.data.trim() || !e.checkVisibility() || e.closest("noscript,title,script,option"))
			continue;
		const [a, b] = [lum(rgb(getComputedStyle(e).color)), lum(back(e))].sort((x, y) => y - x);
		if ((a + 0.05) / (b + 0.05) < 4.5)
			bad.push(e.className + ": " + walker.currentNode.data.slice(0, 40) + " " + ((a + 0.05) / (b + 0.05)).toFixed(2));
	}
	return bad;
})()
"""


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_text_can_be_read(page, pod, dark):
    """Contrast of all text, WCAG 2.2 level AA, with problems on the page."""
    until(lambda: pod.sidecar.status()["findings"])
    page.view(1200, 900, dark=dark)
    show(page, pod.sidecar.url("/"))
    assert page.js(CONTRAST) == []


def test_a_refused_key_is_named(page, healthy):
    healthy.write("upstreamNameservers", '["8.8.8.8.8"]')
    try:
        until(lambda: "upstreamNameservers" in healthy.sidecar.status()["nanny"]["refusedKeys"], 15, "the refusal")
        show(page, healthy.sidecar.url("/"))
        assert "upstreamNameservers was refused" in heading(page)
        text = page.text()
        assert "8.8.8.8.8" in text and "kubectl -n kube-system edit configmap kube-dns" in text
        page.screenshot(os.path.join(SHOTS, "refused-desktop-light.png"))
    finally:
        healthy.write("upstreamNameservers", json.dumps([f"127.0.0.1:{healthy.upstream.port}"]))
        until(lambda: healthy.sidecar.status()["level"] == "well", 15)


def test_hostile_text_is_text(page, healthy):
    """Hostile text in the query form and in the ConfigMap. A sidecar with such text in a probe's label refuses to start (test_sidecar_probes)."""
    names = [HOSTILE, '"><img src=x onerror=alert(1)>', "'\"&<>", "a" * 300, "x" * 63 + "." + "\\255." + HOSTILE, "%00", "%ff%fe", "\u202eevil"]
    for name in names:
        raw = name if name.startswith("%") else urllib.parse.quote(name)
        show(page, healthy.sidecar.url(f"/ask?name={raw}&type=A"))
        page.wait("!document.querySelector('[data-pending]') && document.getElementById('answer').innerText.length > 0")
        assert page.js("document.querySelectorAll('img, script:not([src])').length") == 0
    show(page, healthy.sidecar.url("/ask?" + urllib.parse.urlencode({"name": HOSTILE, "type": HOSTILE})))
    assert page.js("document.querySelector('input[name=name]').value") == HOSTILE
    bad = json.dumps({HOSTILE: ["<img src=x onerror=alert(1)>"]})
    healthy.write("stubDomains", bad)
    try:
        until(lambda: "stubDomains" in healthy.sidecar.status()["nanny"]["refusedKeys"], 15)
        show(page, healthy.sidecar.url("/"))
        assert "stubDomains" in heading(page)
        assert page.js("document.querySelectorAll('img, script:not([src])').length") == 0
    finally:
        healthy.write("stubDomains", "{}")
        until(lambda: healthy.sidecar.status()["level"] == "well", 15)


def test_nothing_but_its_own_may_run(page, healthy):
    """The Content-Security-Policy, as Chromium applies it."""
    show(page, healthy.sidecar.url("/"))
    for attempt in ("(() => { const s = document.createElement('script'); s.append('window.__ran = 1'); document.body.append(s); })()",
                    "document.querySelector('h1').setAttribute('onclick', 'window.__ran = 1'); document.querySelector('h1').click()",
                    "document.body.innerHTML = '<b>markup</b>'"):
        with contextlib.suppress(chromium.BrowserError):  # assignments that turn text into markup or code raise an error
            page.js(attempt)
    assert page.js("window.__ran") is None and page.js("document.querySelector('b')") is None
    assert page.js("fetch('http://127.0.0.1:9/').then(() => 'sent', () => 'refused')") == "refused"
    blocked = [e for e in page.errors if "Content Security Policy" in e or "This document requires 'Trusted" in e]
    assert len(blocked) >= 4
    page.errors[:] = [e for e in page.errors if e not in blocked]


def test_remote_peers_see_no_box_and_no_configuration(healthy):
    """With DNS rebinding, the script of a foreign page could connect from loopback. Its requests have the foreign Host header."""
    foreign = {"Host": "evil.example"}
    assert healthy.sidecar.get("/ask?name=x", foreign)[0] == 403
    status, text = healthy.sidecar.get("/status.json", foreign)
    shown = json.loads(text)
    assert status == 200 and shown["mayAsk"] is False and "config" not in shown["nanny"]
    assert shown["dnsmasq"]["upstreamCount"] > 0 and shown["dnsmasq"]["upstreams"] == [] and "acme.example" not in text


def own_address():
    """An address of this machine that is not loopback."""
    found = subprocess.run(["ip", "-o", "-4", "addr", "show", "scope", "global"], capture_output=True, text=True, check=False).stdout
    return found.split()[3].split("/")[0] if found else pytest.skip("this machine has no address but loopback")


@pytest.mark.parametrize("flags, shown", [([], False), (["--debug-remote"], True)], ids=["as it is", "debug-remote"])
def test_peers_from_elsewhere(page, healthy, flags, shown):
    """All peers from addresses other than loopback get metrics, health and the page. They get the query form and the configuration only with the flag."""
    address = own_address()
    with Sidecar(f"--dnsmasq-port={healthy.dnsmasq_port}", f"--nanny-url=http://127.0.0.1:{healthy.nanny_http}", "--kubedns-url=",
                 f"--probe=p,127.0.0.1:{healthy.dnsmasq_port},{NAME},1,A", *flags, address="0.0.0.0", peers=True) as sidecar:
        until(lambda: sidecar.status()["nanny"]["up"])
        sidecar.url = lambda path: f"http://{address}:{sidecar.port}{path}"
        assert [sidecar.get(path)[0] for path in ("/", "/metrics", "/status.json", "/status.txt", "/healthz", "/page.js")] == [200] * 6
        show(page, sidecar.url("/"))
        text = page.text()
        assert (page.js("document.querySelector('form').checkVisibility()"), "Servers by domain" in text, "port-forward" in text) == (shown, shown, not shown)
        page.open("about:blank")
        assert sidecar.get(f"/ask?name={NAME}&type=A")[0] in ((200, 202) if shown else (403,))  # 202: the query is sent and has no answer yet


def test_dnsmasq_stopped(page, healthy):
    """An open page updates itself, and a page loaded afterwards shows the same."""
    show(page, healthy.sidecar.url("/"))
    child = int(subprocess.run(["pgrep", "-P", str(healthy.processes["nanny"].pid), "dnsmasq"], capture_output=True, text=True, check=True)
                .stdout.split()[0])
    os.kill(child, signal.SIGSTOP)
    try:
        page.wait("document.querySelector('h1').textContent.startsWith('DNS is down: dnsmasq does not answer')", 20)
        assert page.js("document.title").startswith("DNS is down")
        assert page.js("document.querySelector('#verdict').className") == "verdict down"
        page.wait("document.getElementById('cache').innerText.includes('The figures below are old')", 20)
        text = page.text()
        assert "What is wrong, and what to do" in text and "timeout" in text and "kubectl" in text
        # The page names its pod and says which figures are old.
        assert "one of several DNS pods" in text and "From the last statistics of dnsmasq" in text
        shoot(page, "dnsmasq-stopped", healthy.sidecar.url("/"))
    finally:
        with contextlib.suppress(ProcessLookupError):  # after 30 s the nanny kills dnsmasq and starts another
            os.kill(child, signal.SIGCONT)
    show(page, healthy.sidecar.url("/"))
    page.wait("document.querySelector('h1').textContent.startsWith('DNS is healthy')", 20)


def test_states_in_words(page):
    """The heading in every state except "healthy" and "dnsmasq does not answer"."""
    states = ((good, "DNS is healthy"), (rcode(dns.rcode.NXDOMAIN), "answers that the name does not exist"),
              (rcode(dns.rcode.SERVFAIL, 14), "is waiting for its first sync"), (rcode(dns.rcode.REFUSED), "DNS is down: p answers with REFUSED"),
              (silent, "DNS is down: p does not answer"))
    with FakeDns(good) as server, Sidecar(f"--probe=p,{server.server},{NAME},1,A", "--dnsmasq-poll-interval-ms=86400000",
                                          f"--dnsmasq-port={server.port}") as sidecar:
        show(page, sidecar.url("/"))
        for behaviour, words in states:
            server.udp = behaviour
            until(lambda: words in sidecar.status()["sentence"], what=words)
            page.js("document.dispatchEvent(new Event('visibilitychange'))")  # as when the user returns to the tab
            page.wait(f"document.querySelector('h1').textContent.includes({json.dumps(words)})", 15)
        page.open("about:blank")  # so that the page does not request a stopped sidecar


def test_when_the_sidecar_does_not_answer_the_page_says_since_when_and_recovers(browser):
    browser.view(1200, 900)
    with FakeDns(good) as server, Sidecar(f"--probe=p,{server.server},{NAME},1,A") as sidecar:
        until(lambda: sidecar.health("p")[0] == 200)
        show(browser, sidecar.url("/"))
        sidecar.process.send_signal(signal.SIGSTOP)
        browser.wait("document.body.classList.contains('stale-page')", 15)
        assert re.search(r"No answer from the sidecar since 20\d\d-\S+ \S+ UTC\.", browser.text())
        assert browser.js("document.title").startswith("No answer")
        sidecar.process.send_signal(signal.SIGCONT)
        browser.wait("!document.body.classList.contains('stale-page')", 15)
        assert "As of" in browser.text() and browser.js("document.title").startswith("DNS ")
        sidecar.process.kill()
        sidecar.process.wait()
        browser.wait("document.body.classList.contains('stale-page')", 15)
        browser.open("about:blank")
    browser.errors.clear()  # the browser rightly reports these failed requests


def test_slow_answers_are_shown_as_slow(page):
    with FakeDns(slow(0.2)) as server, Sidecar(f"--probe=p,{server.server},{NAME},1,A") as sidecar:
        until(lambda: sidecar.health("p")[0] == 200)
        show(page, sidecar.url("/"))
        assert page.js("parseInt(document.querySelector('.now').textContent)") >= 200
        page.open("about:blank")
