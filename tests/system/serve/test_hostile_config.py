"""A ConfigMap key of 900 KB has no use and takes long to read. kubedns still opens its port in time and keeps answering."""

import os
import time

import pytest
from asking import Asker
from objects import namespace, service
from world import Z, start

WEB = f"web.default.svc.{Z}"
WORLD = [namespace("default"), service("web", "10.96.0.10")]
SIZE = 900 * 1024
HOSTILE = {
    "blanks and a bracket": " " * SIZE + "]",
    "blanks in a name": "a" + " " * SIZE + "b=c.org",
    "brackets": "[" * SIZE,
    "one string": '["' + "x" * SIZE + '"]',
    "50,000 entries": "[" + ",".join(f'"10.{i // 250}.{i % 250}.1"' for i in range(50000)) + "]",
    "50,000 federations": ",".join(f"f{i}=b.org" for i in range(50000)),
}


def write_keys(directory, text):
    """Writes both keys, each by an atomic rename."""
    for key in ("federations", "upstreamNameservers"):
        (directory / f".{key}").write_text(text)
        os.rename(directory / f".{key}", directory / key)


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_the_port_opens_and_answers_go_on(tmp_path, text):
    conf = tmp_path / "conf"
    conf.mkdir()
    write_keys(conf, text)
    with start(tmp_path, WORLD, f"--config-dir={conf}", "--config-period=1h") as k:
        k.wait(lambda: k.http("/healthz")[0] == 200, 30)
        opened = time.monotonic() - k.begun
        k.wait_ready(30)
        assert k.metric("kubedns_config_error", key="federations") == 1
        write_keys(conf, "null")
        k.wait(lambda: k.metric("kubedns_config_error") == 0, 30)
        with Asker(k.port, {(WEB, "A"): {"10.96.0.10"}}) as asker:
            begun = time.monotonic()
            write_keys(conf, text)
            k.wait(lambda: k.metric("kubedns_config_error") == 2, 30)
            judged = time.monotonic() - begun
        print(f"health answers {1000 * opened:.0f} ms after the start; a change is rejected after {1000 * judged:.0f} ms, "
              f"{asker.asked} queries answered meanwhile")
        asker.clean(least=1)
