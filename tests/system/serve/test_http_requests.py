"""No HTTP request ends a program. tests/http_requests.py has the requests, which other tests send to the images and to the Debian packages."""

from contextlib import closing

import pytest
from http_requests import CRASH, send_all
from nanny_world import World
from objects import namespace
from sidecar_world import Sidecar
from world import start

pytestmark = pytest.mark.spread


def survives(port, process):
    """Sends all requests. The program must answer each time, and must be the same process at the end."""
    found = send_all("127.0.0.1", port, "/healthz")
    assert process.poll() is None
    assert set(found[CRASH]) <= {"200", "404"}


def test_kubedns(tmp_path):
    with start(tmp_path, [namespace("default")]) as k:
        k.wait_ready()
        survives(k.healthz, k.process)


def test_sidecar():
    with Sidecar() as sidecar:
        survives(sidecar.port, sidecar.process)


def test_nanny():
    with closing(World()) as world:
        world.start()
        survives(world.http, world.process)
