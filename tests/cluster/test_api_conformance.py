"""
Compares the stand-in of tests/apiserver with the real kube-apiserver: the same objects and requests must give the same answers. The order
of fields must be equal too where a streaming client depends on it. Every difference is a bug of the stand-in.
"""

import json
import pathlib
import re
import ssl
import sys
import urllib.request

import pytest
from realapi import RealApi, read

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
from apiserver import ApiServer  # noqa: E402

SERVICES, SLICES, NAMESPACES = "/api/v1/services", "/apis/discovery.k8s.io/v1/endpointslices", "/api/v1/namespaces"
WATCHLIST = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
MINE = "labelSelector=test=conformance"


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    api = RealApi(tmp_path_factory.mktemp("real"), controllers="")
    labels = {"test": "conformance"}
    for n in range(5):
        api.apply({"kind": "Service", "apiVersion": "v1", "metadata": {"name": f"s{n}", "namespace": "default", "labels": labels},
                   "spec": {"clusterIP": "None", "ports": [{"name": "http", "port": 80}]}})  # fmt: skip
    api.apply({"kind": "EndpointSlice", "apiVersion": "discovery.k8s.io/v1", "metadata": {"name": "s0-a", "namespace": "default",
               "labels": {**labels, "kubernetes.io/service-name": "s0"}}, "addressType": "IPv4",
               "endpoints": [{"addresses": ["192.0.2.9"]}], "ports": []})  # fmt: skip
    yield api
    api.stop()


class StandIn:
    """The stand-in with the real server's objects and the same request function."""

    def __init__(self, real):
        self.api = ApiServer(http2=False)
        for path, kind, version in ((SERVICES, "Service", "v1"), (SLICES, "EndpointSlice", "discovery.k8s.io/v1"),
                                    (NAMESPACES, "Namespace", "v1")):  # fmt: skip
            for item in json.loads(real.request(path)[2])["items"]:
                self.api.put({"kind": kind, "apiVersion": version, **item})

    def request(self, path, token=None, headers=None, timeout=5, method="GET", body=None):
        at = self.api.address()
        auth = {} if token == "" else {"Authorization": f"Bearer {token or at['token']}"}
        asked = urllib.request.Request(at["url"] + path, data=body, method=method, headers={"User-Agent": "x", **auth, **(headers or {})})
        return read(asked, ssl.create_default_context(cafile=at["ca"]), timeout)


@pytest.fixture(scope="module")
def stand_in(real):
    it = StandIn(real)
    yield it
    it.api.close()


def normal(text):
    """Removes values that are different on two servers: versions, tokens, UIDs and counts of other objects."""
    text = re.sub(r'"resourceVersion":"\d*"', '"resourceVersion":"N"', text)
    text = re.sub(r'"continue":"[^"]*"', '"continue":"T"', text)
    text = re.sub(r"resource version: \d+ \(\d+\)", "resource version: N (N)", text)
    text = re.sub(r"current: \d+", "current: N", text)
    return text.strip()


def both(real, stand_in, path, **kw):
    """The two normalized answers: (status, content type, encoding, body)."""
    out = []
    for server in (real, stand_in):
        status, headers, body = server.request(path, **kw)
        headers = {k.lower(): v for k, v in headers.items()}
        out.append((status, headers.get("content-type"), headers.get("content-encoding"), headers.get("retry-after"), normal(body.decode())))
    return out


SAME = [
    SERVICES + "?" + MINE,
    SLICES + "?" + MINE,
    SERVICES + "?limit=2&" + MINE,
    SERVICES + "?limit=2&resourceVersion=0&" + MINE,
    SERVICES + "?fieldSelector=metadata.name=s1",
    SERVICES + "?labelSelector=nothing=here",
    "/api/v1/namespaces/default/services?" + MINE,
    "/api/v1/namespaces/default/services/s1",
    "/api/v1/namespaces/default/services/nobody",
    "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/nobody",
    "/apis/nosuch.k8s.io/v1/endpointslices",
    SERVICES + "?limit=1&resourceVersion=99999999&resourceVersionMatch=NotOlderThan",
    SERVICES + "?resourceVersion=abc",
    SERVICES + "?watch=1&resourceVersion=abc",
    SERVICES + "?watch=1&timeoutSeconds=0.5",
    SERVICES + "?limit=abc",
    SERVICES + "?fieldSelector=spec.nothing=b",
    SERVICES + "?watch=1&sendInitialEvents=true",
    SERVICES + "?watch=1&resourceVersionMatch=NotOlderThan&resourceVersion=1",
    "/readyz",
]


@pytest.mark.parametrize("path", SAME)
def test_the_same_answer(real, stand_in, path):
    theirs, ours = both(real, stand_in, path)
    assert ours == theirs


@pytest.mark.parametrize("token", ["wrong", ""])
def test_the_same_refusal_of_strangers(real, stand_in, token):
    theirs, ours = both(real, stand_in, SERVICES, token=token)
    assert ours == theirs


def test_the_same_refusal_of_users_without_the_right(real, stand_in):
    token = (pathlib.Path(real.service_account) / "token").read_text().strip()
    stand_in.api.add_token(token)
    stand_in.api.forbid("endpointslices")
    stand_in.api.forbid("configmaps")
    paths = (SLICES, SLICES + "?watch=1", "/api/v1/namespaces/kube-system/configmaps?fieldSelector=metadata.name=kube-dns")
    answers = [both(real, stand_in, path, token=token) for path in paths]
    stand_in.api.allow("endpointslices")
    stand_in.api.allow("configmaps")
    for theirs, ours in answers:
        assert ours == theirs


@pytest.mark.parametrize("path", [SERVICES, SLICES])
def test_the_same_watch_list(real, stand_in, path):
    """Events in any order, then the bookmark."""
    theirs, ours = both(real, stand_in, f"{path}?{WATCHLIST}&{MINE}", timeout=3)
    assert ours[:4] == theirs[:4]
    assert sorted(ours[4].splitlines()) == sorted(theirs[4].splitlines())
    assert ours[4].splitlines()[-1] == theirs[4].splitlines()[-1]


@pytest.mark.parametrize("path", [SERVICES, SLICES, NAMESPACES, "/api/v1/endpoints", "/api/v1/pods", "/api/v1/nodes", "/api/v1/configmaps"])
def test_the_same_bookmark(real, stand_in, path):
    theirs, ours = both(real, stand_in, f"{path}?{WATCHLIST}&labelSelector=nothing=here", timeout=1.5)
    assert ours == theirs


def test_the_same_silence_about_the_future(real, stand_in):
    theirs, ours = both(real, stand_in, SERVICES + "?watch=1&resourceVersion=99999999", timeout=2)
    assert ours == theirs and ours[4] == ""


def test_the_same_events(real, stand_in):
    """Two watches see one object that is added, changed and deleted."""
    version = json.loads(real.request(SERVICES + "?limit=1")[2])["metadata"]["resourceVersion"]
    path = "/api/v1/namespaces/default/services"
    obj = {"kind": "Service", "apiVersion": "v1", "metadata": {"name": "moving"}, "spec": {"clusterIP": "None", "ports": [{"port": 1}]}}
    json_type = {"Content-Type": "application/json"}
    real.request(path, method="POST", headers=json_type, body=json.dumps(obj).encode())
    made = json.loads(real.request(path + "/moving")[2])
    changed = {**made, "metadata": {**made["metadata"], "labels": {"a": "b"}}}
    real.request(path + "/moving", method="PUT", headers=json_type, body=json.dumps(changed).encode())
    changed = json.loads(real.request(path + "/moving")[2])
    real.request(path + "/moving", method="DELETE")
    ours_from = stand_in.api.version()
    stand_in.api.put(made)
    stand_in.api.put(changed)
    stand_in.api.delete("services", "default", "moving")
    got = []
    for server, start in ((real, version), (stand_in, ours_from)):
        lines = server.request(f"{path}?watch=1&resourceVersion={start}&fieldSelector=metadata.name=moving", timeout=2)[2]
        versions = [int(json.loads(line)["object"]["metadata"]["resourceVersion"]) for line in lines.splitlines()]
        assert versions == sorted(set(versions)) and len(versions) == 3
        got.append(normal(lines.decode()))
    assert got[1] == got[0]


def test_the_same_expiry_after_a_restart(real, stand_in):
    version = json.loads(real.request(SERVICES + "?limit=1")[2])["metadata"]["resourceVersion"]
    real.apply({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "later", "namespace": "default"}})
    ours_from = stand_in.api.version()
    stand_in.api.advance()
    real.kill_api()
    stand_in.api.restart()
    theirs = real.request(f"{SERVICES}?watch=1&resourceVersion={version}", timeout=3)
    ours = stand_in.request(f"{SERVICES}?watch=1&resourceVersion={ours_from}", timeout=3)
    assert (ours[0], normal(ours[2].decode())) == (theirs[0], normal(theirs[2].decode()))


def test_the_same_user_agents_get_indented_json(real, stand_in):
    for agent in ("curl/8.0", "Wget/1.2", "Mozilla/5.0 (X11)", "kubedns/0.1 (linux/amd64)", "xcurl"):
        indented = []
        for server in (real, stand_in):
            body = server.request(SERVICES + "?" + MINE, headers={"User-Agent": agent})[2]
            indented.append(b"\n  " in body)
        assert indented[0] == indented[1], agent


def test_gzip_for_the_same_answers(real, stand_in):
    for path in (SERVICES, SERVICES + "?" + WATCHLIST):
        encodings = [s.request(path, headers={"Accept-Encoding": "gzip"}, timeout=2)[1].get("content-encoding") for s in (real, stand_in)]
        assert encodings[0] == encodings[1]
