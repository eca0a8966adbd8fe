"""The manifests as an operator renders them, and queries to a server."""

import pathlib
import shutil
import time

import yaml

from run import run

ROOT = pathlib.Path(__file__).resolve().parents[2]
REGISTRY = "suite.invalid/dns"  # the tests write this address into settings.yaml
DNS_IP = "10.96.0.10"
DOMAIN = "cluster.local"


def version():
    return run("make", "-s", "-C", ROOT, "version").strip()


def image_tag():
    return run("make", "-s", "-C", ROOT, "image-tag").strip()


def manifests(directory, overlay, files=None, **settings):
    """Returns the overlay's objects as text, with the operator's settings. They are rendered from a copy of conf/kubernetes with `files` added."""
    copy = pathlib.Path(directory) / f"kubernetes-{time.monotonic_ns()}"
    shutil.copytree(ROOT / "conf/kubernetes", copy)
    path = copy / "settings/settings.yaml"
    text = path.read_text()
    for name, value in {"clusterIP": DNS_IP, "registry": REGISTRY, **settings}.items():
        line = next(i for i in text.splitlines() if i.startswith(f"  {name}:"))
        text = text.replace(line, f"  {name}: {value}")
    path.write_text(text)
    for name, content in (files or {}).items():
        (copy / name).parent.mkdir(exist_ok=True)
        (copy / name).write_text(content)
    return run("kubectl", "kustomize", copy / overlay)


def objects(text):
    return [o for o in yaml.safe_load_all(text) if o]


def query(server, name, rtype="A", tcp=False, port=53, timeout=5):
    """Sends one query from the host directly to a pod."""
    import dns.message
    import dns.query
    message = dns.message.make_query(name, rtype, use_edns=0, payload=1232)
    ask = dns.query.tcp if tcp else dns.query.udp_with_fallback
    reply = ask(message, server, port=port, timeout=timeout)
    return reply if tcp else reply[0]


def records(reply):
    return sorted(str(r) for rrset in reply.answer for r in rrset)


def http_get(address, port, path, timeout=5):
    import http.client
    connection = http.client.HTTPConnection(address, port, timeout=timeout)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()
