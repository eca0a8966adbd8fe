"""--namespaces with a name that does not exist: said at once, and what was probably meant."""

import subprocess

import pytest
from kubedns_process import PROGRAM
from objects import namespace, service
from world import Z, start, write

WORLD = [namespace("default"), namespace("shop"), service("web", "10.96.0.10"), service("cart", "10.96.0.11", ns="shop")]


@pytest.mark.parametrize("name", ["Default", "kube_system", "a.b"])
def test_what_cannot_be_a_namespace_is_refused(name):
    done = subprocess.run([PROGRAM, f"--namespaces={name}", "--objects-dir=/tmp"], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 2 and f'--namespaces: "{name}": not the name of a namespace' in done.stderr, done.stderr


def test_a_misspelt_namespace_is_said_with_the_one_that_was_meant(tmp_path):
    """0 Services, every name NXDOMAIN, readiness ok, and no word: so it was."""
    with start(tmp_path, WORLD, "--namespaces=defualt,shop") as k:
        k.wait_ready()
        told = '"defualt": neither the Namespace nor a Service in it is known, so all its names are NXDOMAIN; did you mean "default"?'
        assert k.log().count(told) == 1, k.log()
        assert told in k.http("/readiness")[1]
        assert k.metric("kubedns_namespaces_missing") == 1
        assert k.ask(f"web.default.svc.{Z}") == "NXDOMAIN" and k.ask(f"cart.shop.svc.{Z}") == {"10.96.0.11"}
        write(k.objects, [*WORLD, namespace("defualt")])  # so it was meant after all
        k.wait(lambda: k.metric("kubedns_namespaces_missing") == 0)
        assert '"defualt": exists now' in k.log() and k.http("/readiness")[1] == "ok\n"
        write(k.objects, WORLD)
        k.wait(lambda: k.metric("kubedns_namespaces_missing") == 1)
        assert k.log().count(told) == 2


def test_namespaces_that_exist_say_nothing(tmp_path):
    with start(tmp_path, WORLD, "--namespaces=default,shop") as k:
        k.wait_ready()
        assert "--namespaces" not in k.log() and k.http("/readiness")[1] == "ok\n"
        assert k.metric("kubedns_namespaces_missing") == 0
