"""
The drawings that the page's script makes from a document, in Debian's Chromium: charts, figures and tables. Also hostile text in every
string of the document.
"""

import copy
import json

import pytest

import chromium
from sidecar_world import NAME, FakeDns, Sidecar, good, until
from test_sidecar_page import show

pytestmark = pytest.mark.skipif(not chromium.available(), reason="needs chromium")
HOSTILE = "\"'><img src=x onerror=alert(1)><script>alert(1)</script>\u202e\x1b[2J"
ANSWERS = ("NOERROR", "NXDOMAIN", "SERVFAIL", "REFUSED", "other")
NONE = [0] * 60
KUBEDNS = {"seen": True, "up": True, "error": "", "ready": True, "reasons": "", "synced": True, "silent": False, "source": "api", "newestEventTime": 1.7e9,
           "resources": [{"resource": "services", "synced": True, "lastEventTime": 1.7e9 - 60}], "objects": {"service": 1234567.0},
           "memoryBytes": None, "memoryLimitBytes": None, "answersOverTime": {rcode: NONE for rcode in ANSWERS},
           "topKnown": False, "topClients": [], "topNames": [], "topRates": [], "neighbourCount": 0, "neighbours": []}
CONFIG = {"confirmed": True, "confirmedAt": "2026-11-25T01:12:44Z",
          "refused": [{"key": "federations", "reason": "not JSON", "previousInForce": False}],
          "names": [{"name": "ns.corp", "addresses": [{"address": "10.0.0.53"}]}, {"name": "ns.lost", "addresses": []}],
          "upstreams": {"servers": ["9.9.9.9:53"], "source": "upstreamNameservers", "refused": "it leads back here"},
          "stubDomains": {"count": 50, "inForce": {f"d{i}.test": ["ns.corp:53", "ns.lost:53"] for i in range(45)}}}


@pytest.fixture(scope="module")
def drawn(browser):
    """Returns the browser with the page of a sidecar, and the sidecar's document. The page does not update itself."""
    with FakeDns(good) as server, Sidecar(f"--probe=p,{server.server},{NAME},1,A", "--dnsmasq-poll-interval-ms=86400000",
                                          f"--dnsmasq-port={server.port}") as sidecar:  # fmt: skip
        until(lambda: sidecar.probe("p")["state"] == "ok")
        browser.view(1200, 900)
        show(browser, sidecar.url("/"))
        browser.js("document.getElementById('pause').click()")
        browser.document = {**sidecar.status(), "time": 1.7e9, "uptimeSeconds": 3600}
        yield browser
        browser.open("about:blank")


@pytest.fixture
def draw(drawn):
    """Draws the document with these members replaced, and returns the text of a panel."""

    def draw(panel="kubedns", **members):
        drawn.js(f"draw({json.dumps({**copy.deepcopy(drawn.document), **members})})")
        return drawn.js(f"document.getElementById('{panel}').innerText")

    drawn.js("show_answer()")  # an earlier test may have left the hint that only loopback clients may ask
    drawn.errors.clear()
    yield draw
    assert drawn.errors == []


def kubedns(**members):
    return {**KUBEDNS, **members}


def last(count, *before):
    return [*NONE[: 59 - len(before)], *before, count]


def test_answers_are_drawn_by_rcode_one_on_the_other(draw, drawn):
    answers = {**KUBEDNS["answersOverTime"], "NOERROR": last(50), "NXDOMAIN": last(30), "REFUSED": last(20)}
    text = draw("answers", kubedns=kubedns(answersOverTime=answers))
    assert "10/s" in text and "100 in total" in text
    assert "50 NOERROR, 30 NXDOMAIN, 0 SERVFAIL, 20 REFUSED" in drawn.js("document.querySelector('#answers title').textContent")
    # From the bottom at 100 up to the top: a bar of one half, a bar of three tenths, and a bar of two tenths of the height.
    assert drawn.js("[...document.querySelectorAll('#answers path:not(.grid)')].map(p => p.getAttribute('class') + ' ' + p.getAttribute('d'))") == [
        "bar M591 100.0v-50.0h8v50.0z", "softbar M591 50.0v-30.0h8v30.0z", "badbar ", "badbar M591 20.0v-20.0h8v20.0z", "badbar "]


@pytest.mark.parametrize("memory, limit, words", [
    (25e6, 134e6, "Memory: 25 of 134 MB; before the alert at 85\u00a0% there is room for about 74,000 more Services of 15 endpoints each."),
    (114e6, 134e6, "Memory: 114 of 134 MB."), (113.8e6, 134e6, "room for about 83 more Services"),
    (25e6, None, "Memory: 25 MB; the container has no limit."),
])  # fmt: skip
def test_what_the_memory_limit_allows_is_said(draw, memory, limit, words):
    assert words in draw(kubedns=kubedns(memoryBytes=memory, memoryLimitBytes=limit))


@pytest.mark.parametrize("members, card, now", [
    ({}, "well", "synced"), ({"silent": True}, "degraded", "out of date"), ({"ready": False, "reasons": "no list yet"}, "degraded", "not ready"),
    ({"up": False, "ready": False, "error": "timeout"}, "stale", "no answer"),
])  # fmt: skip
def test_kubedns_that_knows_old_things_is_not_shown_as_synced(draw, drawn, members, card, now):
    text = draw(kubedns=kubedns(**members))
    assert drawn.js("document.querySelector('#kubedns .card').className") == f"card {card}"
    assert drawn.js("document.querySelector('#kubedns .now').textContent") == now
    assert ("kubedns does not answer: timeout. The figures below are old." in text) == (card == "stale") and ("no list yet" in text) == (now == "not ready")
    assert "60 seconds ago" in text and "1,234,567" in text


def test_the_other_pods_are_links(draw, drawn):
    others = [{"address": "10.0.0.2", "ready": True}, {"address": "10.0.0.9", "ready": False}, {"address": "fd00::2", "ready": True}]
    text = draw("neighbours", kubedns=kubedns(neighbourCount=3, neighbours=others), port=10054)
    assert "10.0.0.2 ready" in text and "10.0.0.9 not ready" in text
    assert drawn.js("[...document.querySelectorAll('#neighbours a')].map(a => a.href)") == [
        "http://10.0.0.2:10054/", "http://10.0.0.9:10054/", "http://[fd00::2]:10054/"]
    text = draw("neighbours", kubedns=kubedns(neighbourCount=3), mayAsk=False)
    assert "Their addresses are shown to loopback peers only: use kubectl port-forward." in text


def talker(name, pod="", **counts):
    return {"name": name, "pod": pod, "perSecond": 0, "queries": 0, "nxdomain": 0, "searchWalk": 0, "aaaa": 0, "outside": 0, **counts}


def test_top_clients_are_a_table_with_shares(draw, drawn):
    clients = [talker("10.0.0.9", "pod shop/web-1", perSecond=50.4, queries=6000, nxdomain=4500, searchWalk=3000, aaaa=60), talker("127.0.0.1")]
    names = [talker("web.default.svc.cluster.local.", perSecond=3.27)]
    draw("top", kubedns=kubedns(topKnown=True, topClients=clients, topNames=names))
    rows = drawn.js("[...document.querySelectorAll('#top tbody tr')].map(tr => [...tr.cells].map(c => c.innerText.replace(/\\s+/g, ' ').trim()))")
    assert rows == [["10.0.0.9 pod shop/web-1", "50", "75 %", "50 %", "1 %", "0 %"],
                    ["127.0.0.1 dnsmasq, for its clients, and the sidecar", "0.0", "0 %", "0 %", "0 %", "0 %"],
                    ["web.default.svc.cluster.local.", "3.3", "0 %", "0 %", "0 %", "0 %"]]
    assert drawn.js("document.querySelector('#top .rate path').getAttribute('d')") == "M0 0h100.0v4H0z"
    assert draw("top", kubedns=kubedns(topKnown=True), mayAsk=False).endswith("Shown to loopback peers only: use kubectl port-forward.")


def test_a_table_of_top_clients_without_a_row_is_left_out(draw, drawn):
    """After a flood the page still draws the rates, although no client sends enough queries to be ranked."""
    rates = [{"name": "10.0.0.9", "pod": "", "answersOverTime": last(0, 1000)}, {"name": "10.0.0.8", "pod": "", "answersOverTime": last(3)}]
    text = draw("top", kubedns=kubedns(topKnown=True, topRates=rates))
    assert "Too few queries in the last two minutes to rank." in text and drawn.js("document.querySelector('.top-table')") is None
    assert "at most 100 a second" in text and "at most less than 1 a second" in text and text.count("100/s") == 2
    text = draw("top", kubedns=kubedns(topKnown=True, topClients=[talker("10.0.0.9")], topRates=rates))
    assert "Too few" not in text and drawn.js("[...document.querySelectorAll('#top caption')].map(c => c.innerText)") == ["Clients"]


def test_a_silent_upstream_is_named_where_dnsmasq_counts_nothing(draw, drawn):
    upstream = {"server": "9.9.9.9:53", "queries": 4, "failed": 1, "recentQueries": 4, "recentFailed": 1, "failure": "does not answer",
                "queriesOverTime": last(4), "failedOverTime": last(1)}
    dnsmasq = {**drawn.document["dnsmasq"], "up": True, "upstreamCount": 1, "upstreams": [upstream]}
    assert "does not answer 4 queries 1 failed" in draw("upstreams", dnsmasq=dnsmasq).replace("\n", " ")
    assert drawn.js("[...document.querySelectorAll('#upstreams path:not(.grid)')].map(p => p.getAttribute('d'))") == [
        "M591 100.0v-20.0h8v20.0z", "M591 80.0v-60.0h8v60.0z"]


SERVERS = [{"check": "upstream", "server": "192.0.2.1:853", "tlsName": "dns.test", "domain": "", "state": "tls_expired", "failing": True,
            "failure": "has an expired certificate", "sinceSeconds": 75, "answered": 9, "failed": 7},
           {"check": "stub", "server": "192.0.2.2:853", "tlsName": "ns.corp", "domain": "corp", "state": "ok", "failing": False,
            "failure": "", "sinceSeconds": 3, "answered": 1, "failed": 0}]  # fmt: skip


def test_tls_servers_are_shown_with_the_reason_of_a_failure(draw):
    text = draw("upstreams", servers=SERVERS)
    assert "192.0.2.1:853 TLS, dns.test" in text and "has an expired certificate for" in text
    assert "192.0.2.2:853 TLS, ns.corp, for corp" in text and "answers for" in text
    assert "no upstream server" not in text and "Unknown yet" not in text
    assert "TLS" not in draw("upstreams", servers=[])


def test_the_configuration_is_shown_as_far_as_it_is_there(draw, drawn):
    nanny = {"seen": True, "up": True, "error": "", "confirmed": True, "refusedKeys": ["federations"], "config": CONFIG}
    text = draw("config", nanny=nanny)
    for words in ("confirmed", "Refused: federations not JSON There was no good value before it.", "Not used: it leads back here", "ns.corp:53 is 10.0.0.53",
                  "ns.lost:53 not resolved", "and 10 more stub domains", "every other name upstreamNameservers"):  # fmt: skip
        assert words in " ".join(text.split()), words
    # A nanny of another version may send anything.
    for odd in ({}, {member: 7 for member in CONFIG}, {member: [7, None, "x"] for member in CONFIG}, {**CONFIG, "stubDomains": {"inForce": {"a.test": [None, 7, {}]}}}):
        assert "In force" in draw("config", nanny={**nanny, "config": odd})
    assert "It lists the cluster, and is shown to loopback peers only" in draw("config", nanny={**nanny, "config": None}, mayAsk=False)


def test_a_history_has_gaps_failures_and_a_logarithmic_axis(draw, drawn):
    history = [[9000, 100], [8000, 1000], [3000, 10000], [2000, "timeout"], [1000, "not_ready"], [0, 100]]
    draw("probes", probes=[{**drawn.document["probes"][0], "history": history}])
    paths = drawn.js("Object.fromEntries([...document.querySelectorAll('#probes path[class]:not(.grid)')].map(p => [p.getAttribute('class'), p.getAttribute('d')]))")
    assert paths == {"fail": "M598.0 0V100", "wait": "M599.0 0V100", "line": "M591.0 100.0h0L592.0 50.0M597.0 0.0h0M600.0 100.0h0", "last": "M600.0 100.0h0"}
    assert drawn.js("[...document.querySelectorAll('#probes .y span')].map(s => s.textContent)") == ["10 ms", "1 ms", "0.1 ms"]


def test_numbers_read_as_people_read_them(drawn):
    for expression, text in (("ms(0.314)", "0.31 ms"), ("ms(12.4)", "12 ms"), ("ms(1999)", "2.0 s"), ("ms(null)", "-"), ("duration(0.2)", "less than a second"),
                             ("duration(1)", "1 second"), ("duration(119)", "119 seconds"), ("duration(120)", "2 minutes"), ("duration(86400 * 3)", "3 days"),
                             ("count(1234567)", "1,234,567"), ("count(-1)", "0"), ("percent(0.99999)", "99.9 %"), ("percent(null)", "-"), ("time(0)", "never"),
                             ("time(1.7e9)", "2023-11-14 22:13:20 UTC"), ("about(74666)", "74,000")):  # fmt: skip
        assert drawn.js(f"format.{expression}") == text


def everywhere(value, key=""):
    """Returns the document with hostile text in every string, except for the words that control the script."""
    if isinstance(value, dict):
        return {(k if key != "objects" and key != "inForce" else HOSTILE): everywhere(v, k) for k, v in value.items()}
    if isinstance(value, list):
        return [everywhere(v, key) for v in value]
    return HOSTILE if isinstance(value, str) and key not in ("level", "surroundings", "source", "state") else value


def hostile(drawn):
    upstream = {"server": "x", "queries": 1, "failed": 0, "recentQueries": 1, "recentFailed": 0, "failure": "x", "queriesOverTime": last(1), "failedOverTime": NONE}
    rates = [{"name": "x", "pod": "x", "answersOverTime": last(1)}]
    whole = {**copy.deepcopy(drawn.document), "level": "down", "surroundings": "pod",
             "findings": [{"level": "down", "what": "x", "meaning": "x", "todo": "x", "command": "x"}],
             "events": [{"time": 1.7e9, "level": "down", "what": "x"}],
             "nanny": {"seen": True, "up": False, "error": "x", "refusedKeys": ["x"], "config": CONFIG},
             "kubedns": kubedns(up=False, error="x", topKnown=True, topClients=[talker("x", "x")], topNames=[talker("x")], topRates=rates, neighbourCount=1,
                                neighbours=[{"address": "x", "ready": True}])}  # fmt: skip
    whole["dnsmasq"] = {**whole["dnsmasq"], "upstreams": [upstream]}
    whole["servers"] = copy.deepcopy(SERVERS)
    whole["probes"][0]["state"] = "timeout"
    return everywhere(whole)


ELEMENTS = "[...new Set([...document.querySelectorAll('*')].map(e => e.tagName.toLowerCase()))].sort()"
ATTRIBUTES = "[...new Set([...document.querySelectorAll('*')].flatMap(e => e.getAttributeNames()))].sort()"


def test_hostile_text_in_every_string_is_text(draw, drawn):
    """Anyone who can name a Service or send a query may control strings of the document."""
    draw(**hostile(drawn))
    text = drawn.text()
    assert text.count("<script>alert(1)</script>") > 20
    assert "\u202e" not in text and "\x1b" not in text and "\ufffd" in text
    assert not {"img", "b", "i"} & set(drawn.js(ELEMENTS)) and drawn.js("document.scripts.length") == 1
    assert not any(name.startswith("on") or name == "style" for name in drawn.js(ATTRIBUTES))
    # A link leads to another pod over HTTP or within the page, never to a script. The last link, the operator's --prometheus-path, is not
    # checked.
    assert all(link.startswith(("http:", "/", "#")) for link in drawn.js("[...document.querySelectorAll('a')].map(a => a.getAttribute('href'))")[:-1])
    answer = {"state": "answered", "name": "x", "type": "A", "server": "x", "result": "x", "cause": "ok", "outcome": "x", "latencySeconds": 0.1, "overTcp": True,
              "records": ["x"], "why": ["x"], "whyError": ""}  # fmt: skip
    drawn.js(f"show_answer(answer({json.dumps({**everywhere(answer), 'cause': 'ok'})}))")
    assert "<script>alert(1)" in drawn.js("document.getElementById('answer').innerText") and drawn.js("document.scripts.length") == 1
    drawn.js("show_answer()")


WORDS = ("kubectl", "ConfigMap", "kubelet", "replica", "DNS pods", "port-forward")


@pytest.mark.parametrize("where", ["plain", "systemd"])
def test_without_kubernetes_no_word_of_it_is_said(draw, drawn, where):
    for may_ask in (True, False):
        draw(level="down", surroundings=where, podsCommand="", mayAsk=may_ask, kubedns=kubedns(topKnown=True, memoryBytes=1, memoryLimitBytes=9),
             nanny={"seen": True, "up": True, "error": "", "refusedKeys": [], "config": CONFIG})  # fmt: skip
        text = drawn.text()
        assert not [word for word in WORDS if word in text]


def test_unbound_has_no_cache_panel_and_its_servers_are_those_that_the_sidecar_checks(draw, drawn):
    servers = [{"check": "upstream", "server": server, "tlsName": tls, "domain": domain, "state": state, "failing": state != "ok", "failure": failure,
                "sinceSeconds": 30, "answered": 7, "failed": 0}
               for server, tls, domain, state, failure in (("192.0.2.1:853", "dns.test", "", "tls_expired", "has an expired certificate"),
                                                           ("192.0.2.2:53", "", "corp.test", "ok", ""))]
    nanny = {"seen": True, "up": True, "error": "", "refusedKeys": [], "engine": "unbound", "config": CONFIG}
    text = draw("upstreams", nanny=nanny, servers=servers)
    assert "192.0.2.1:853 TLS, dns.test\n\nhas an expired certificate for 30 seconds" in text and "192.0.2.2:53 for corp.test\n\nanswers for 30 seconds" in text
    assert "dnsmasq" not in text and drawn.js("document.getElementById('cache').hidden")
    assert "by unbound" in drawn.js("document.getElementById('config').innerText")
    # dnsmasq counts the queries to its servers itself.
    assert "192.0.2.2:53" not in draw("upstreams", nanny={**nanny, "engine": "dnsmasq"}, servers=servers)
    assert not drawn.js("document.getElementById('cache').hidden")


def test_notes_alone_are_not_called_wrong(draw):
    note = {"level": "note", "what": "n", "meaning": "m", "todo": "t", "command": ""}
    assert draw("findings", level="well", findings=[note]).startswith("Worth knowing")
    assert draw("findings", level="degraded", findings=[{**note, "level": "degraded"}, note]).startswith("What is wrong, and what to do")
