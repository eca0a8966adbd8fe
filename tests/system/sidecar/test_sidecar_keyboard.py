"""The page's newer panels used by keyboard only, in Debian's Chromium: the other pods, the top clients and the query form. No test clicks."""

import re
import socket

import pytest

import chromium
from api_world import ApiServer
from bulk_asking import Bulk
from objects import endpoint_slice, namespace, service
from pod_world import Pod
from sidecar_world import until
from test_sidecar_page import show

pytestmark = pytest.mark.skipif(not chromium.available(), reason="needs chromium")
KEYS = {"Tab": 9, "Enter": 13, " ": 32, "ArrowDown": 40}
OTHER = "127.0.0.7"


def pods_of(*others):
    return endpoint_slice("kube-dns", ["10.1.0.6", *others], "kube-system", ports=(("dns", 53),))


@pytest.fixture(scope="module")
def pod(tmp_path_factory):
    """A pod with another pod beside it. One client sends most of the queries to the pod's kubedns."""
    with ApiServer(listen=False) as api:
        api.fill([namespace("default"), namespace("kube-system"), service("kubernetes", "10.96.0.1", "default"),
                  service("kube-dns", "10.96.0.10", "kube-system", ports=(("dns", 53),)),
                  pods_of(OTHER)])
        api.start()
        p = Pod({}, kubedns=[f"--kubecfg-file={api.kubeconfig(tmp_path_factory.mktemp('api') / 'kubeconfig')}", "--ns-addresses=10.1.0.6"])
        try:
            until(lambda: p.sidecar.status()["kubedns"]["neighbours"], 20, "kubedns's answering")
            Bulk(p.kubedns_port).ask_udp([("kubernetes.default.svc.cluster.local", "A")] * 5000)
            until(lambda: p.sidecar.status()["kubedns"]["topKnown"] and p.sidecar.status()["mayAsk"], 20, "all three panels")
            p.api = api
            yield p
        finally:
            p.close()


@pytest.fixture
def page(pod):
    browser = chromium.Browser()
    try:
        browser.view(1200, 900)
        show(browser, pod.sidecar.url("/"))
        yield browser
    finally:
        browser.close()


def press(page, key):
    text = {"text": "\r"} if key == "Enter" else {"text": " "} if key == " " else {}
    event = {"key": key, "code": "Space" if key == " " else key, "windowsVirtualKeyCode": KEYS[key]}
    page.call("Input.dispatchKeyEvent", type="keyDown", **event, **text)
    page.call("Input.dispatchKeyEvent", type="keyUp", **event)


def tab_to(page, selector):
    """Presses Tab until the element has the focus, and checks that the focus is visible."""
    for _ in range(60):
        press(page, "Tab")
        if page.js(f"document.activeElement.matches({selector!r})"):
            style = page.js("(s => [s.outlineStyle, s.outlineWidth])(getComputedStyle(document.activeElement))")
            assert style == ["solid", "3px"]
            return
    raise AssertionError(f"pressed Tab 60 times without reaching {selector}")


def test_to_the_other_pod_and_on_from_there(pod, page):
    tab_to(page, "#neighbours a")
    assert page.js("document.activeElement.textContent") == OTHER
    pod.api.put(pods_of(OTHER, "127.0.0.8"))
    until(lambda: "127.0.0.8" in pod.sidecar.get("/status.json")[1], 20, "a third pod on the page")
    for _ in range(2):  # after two updates the page has the new document
        shown = page.js("document.getElementById('when').textContent")
        page.wait(f"document.getElementById('when').textContent !== {shown!r}", 20)
    assert page.js("document.activeElement.textContent") == OTHER  # a new pod in the list does not move the focus
    with socket.create_server((OTHER, pod.sidecar.port)) as other:
        other.settimeout(30)
        press(page, "Enter")
        with other.accept()[0] as client:
            assert client.recv(4096).startswith(b"GET / HTTP/1.1\r\n")


def test_a_question_of_another_type(page):
    tab_to(page, "#ask input[name=name]")
    page.call("Input.insertText", text="kubernetes.default.svc.cluster.local")
    tab_to(page, "#ask select[name=type]")
    before = page.js("document.activeElement.value")
    press(page, "ArrowDown")
    chosen = page.js("document.activeElement.value")
    assert chosen != before
    tab_to(page, "#ask button")
    press(page, " ")
    page.wait("/answered|no .*record/i.test(document.getElementById('answer').innerText)")
    assert re.search(rf"\b{chosen}\b", page.js("location.search")) and page.js("document.activeElement.matches('#ask button')")


def test_who_asks_most_is_a_table_that_is_read_out_and_goes_on(page):
    tables = page.js("""[...document.querySelectorAll('#top table')].map(t => [t.caption.textContent, [...t.tHead.querySelectorAll('th')].every(h => h.scope === 'col'),
        [...t.tBodies[0].rows].every(r => r.cells[0].scope === 'row' && r.cells[0].textContent !== '')])""")
    assert tables == [["Clients", True, True], ["Names", True, True]]
    assert "127.0.0.1" in page.js("document.querySelector('#top').innerText")
    tab_to(page, "#neighbours a")  # the tables have no element that can have the focus
    assert page.js("document.querySelectorAll('#top a, #top button, #top input, #top [tabindex]').length") == 0
