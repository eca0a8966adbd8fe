"""`make page-picture` takes sidecar/page/page.png, the picture in README.md: the status page of the real programs while one pod floods them.

	page_picture.py [FILE]

Three pods look up names for three minutes. Then a fourth sends as fast as it can. The picture is taken meanwhile and ends below the top clients.
"""

import base64
import contextlib
import json
import pathlib
import socket
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests/helpers")]

import dns.message  # noqa: E402

from chromium import Browser  # noqa: E402
from objects import namespace, service  # noqa: E402
from pod_world import Pod  # noqa: E402
from sidecar_world import BUILD, FakeDns, until  # noqa: E402

QUIET_S = 180
WIDTH = 1265
SERVICES = ["web", "db", "cart", "api"]
# The pods' addresses: name, lookups a second, and the names that it looks up.
CLIENTS = {
    "127.0.0.2": ("web-7d9c4-x2kfp", 60, ["db.shop.svc.cluster.local", "cart.shop.svc.cluster.local", "api.example.com.shop.svc.cluster.local",
                                          "api.example.com.svc.cluster.local", "api.example.com.cluster.local"]),
    "127.0.0.3": ("cart-5b8d6-q9zlm", 30, ["db.shop.svc.cluster.local", "web.shop.svc.cluster.local"]),
    "127.0.0.4": ("agent-mt4wz", 12, ["kubernetes.default.svc.cluster.local", "web.shop.svc.cluster.local.monitoring.svc.cluster.local"]),
}
CRAWLER, CRAWLED = "127.0.0.9", "web.shop.svc.cluster.local"


def pod_object(name, ns, address):
    return {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": name, "namespace": ns}, "spec": {"nodeName": "node-1"},
            "status": {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}]}}  # fmt: skip


def write_objects(directory):
    objects = [namespace(n) for n in ("default", "shop", "batch", "monitoring")]
    objects += [service("kubernetes", "10.96.0.1"), *(service(s, f"10.96.1.{i}", "shop") for i, s in enumerate(SERVICES, 1))]
    objects += [pod_object(name, "monitoring" if "agent" in name else "shop", address) for address, (name, _, _) in CLIENTS.items()]
    objects.append(pod_object("crawler-0", "batch", CRAWLER))
    (directory / "objects.json").write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": objects}))


def queries(names):
    return [dns.message.make_query(name, kind).to_wire() for name in names for kind in ("A", "AAAA")]


def look_up(address, port, rate, names, ended):
    """Sends a query from the address `rate` times a second. Nobody reads the answers."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.bind((address, 0))
        s.connect(("127.0.0.1", port))
        wires, sent = queries(names), 0
        while not ended.wait(1 / rate):
            s.send(wires[sent % len(wires)])
            sent += 1


def take(pod, path):
    browser = Browser()
    try:
        browser.view(WIDTH, 900)
        browser.open(pod.sidecar.url("/"))
        browser.wait(f"document.querySelector('.rates') !== null && document.querySelector('#verdict').innerText.includes('{CRAWLER}')")
        bottom = browser.js("document.querySelector('.rates').getBoundingClientRect().bottom + window.scrollY + 40")
        clip = {"x": 0, "y": 0, "width": WIDTH, "height": int(bottom), "scale": 1}
        image = browser.call("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)["data"]
        path.write_bytes(base64.b64decode(image))
        print(browser.js("document.querySelector('#verdict').innerText"))
    finally:
        browser.close()


def main(path=ROOT / "sidecar/page/page.png"):
    with contextlib.ExitStack() as stack:
        directory = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        directory.chmod(0o755)
        (directory / "objects").mkdir()
        write_objects(directory / "objects")
        upstream = stack.enter_context(FakeDns())
        pod = Pod({"upstreamNameservers": json.dumps([upstream.server])}, kubedns=[f"--objects-dir={directory}/objects", "--client-pods=all"], interval=5)
        stack.callback(pod.close)
        until(lambda: pod.sentence().startswith("DNS is healthy"), 60)
        ended = threading.Event()
        stack.callback(ended.set)
        for address, (_, rate, names) in CLIENTS.items():
            threading.Thread(target=look_up, args=(address, pod.kubedns_port, rate, names, ended), daemon=True).start()
        time.sleep(QUIET_S)
        (directory / "queries").write_text("".join(wire.hex() + "\n" for wire in queries([CRAWLED])))
        flood = subprocess.Popen([f"{BUILD}/tests/bench/hostile", "udp", CRAWLER, str(pod.kubedns_port), directory / "queries", "120", "0"],
                                 stdout=subprocess.DEVNULL)  # fmt: skip
        stack.callback(flood.wait)
        stack.callback(flood.kill)
        until(lambda: CRAWLER in pod.sentence(), 110, lambda: f"the crawler in the sentence: {pod.sentence()}")
        take(pod, pathlib.Path(path))


if __name__ == "__main__":
    main(*sys.argv[1:])
