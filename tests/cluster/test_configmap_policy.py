"""
The admission policy of components/configmap-policy in the real API server: which values of the ConfigMap kube-dns it refuses. It must refuse
no value that kubedns and the nanny accept. The good values are those of the documents, of conf/, of the unit tests and of the fuzz targets'
seeds: whatever `--check` accepts.
"""

import ast
import json
import os
import pathlib
import re
import shutil
import subprocess

import pytest
import yaml
from realapi import RealApi
from waiting import wait_for

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("BUILD", ROOT / "build"))
PATH = "/api/v1/namespaces/kube-system/configmaps"
DOMAIN = '{"corp.example": ["10.0.0.53"]}'
JSON_OBJECT, JSON_ARRAY, CHARACTER = "must be a JSON object", "must be a JSON array", "a character that JSON does not have"

# (key, value, words of the reason)
BAD = [
    ("stubDomains", "corp.example=10.0.0.53", JSON_OBJECT),
    ("stubDomains", "corp.example: [10.0.0.53]", JSON_OBJECT),
    ("stubDomains", '["10.0.0.53"]', JSON_OBJECT),
    ("stubDomains", '{"corp.example": "10.0.0.53"}', JSON_OBJECT),
    ("stubDomains", '{"corp.example": [10.0.0.53]}', JSON_OBJECT),
    ("stubDomains", '{"corp.example": ["10.0.0.53"]', JSON_OBJECT),
    ("stubDomains", '{"corp.example": ["10.0.0.53"],}', JSON_OBJECT),
    ("stubDomains", '{"corp.example": ["10.0.0.53",]}', JSON_OBJECT),
    ("stubDomains", '{"corp.example": ["10.0.0.53" "10.0.1.53"]}', JSON_OBJECT),
    ("stubDomains", '{"corp.example": ["10.0.0.53"]} # office', JSON_OBJECT),
    ("stubDomains", '{"corp.example": ["10.0.0.53, 10.0.1.53"]}', JSON_OBJECT),
    ("stubDomains", '{"corp.example": [""]}', JSON_OBJECT),
    ("stubDomains", '{"": ["10.0.0.53"]}', JSON_OBJECT),
    ("stubDomains", "{“corp.example”: [“10.0.0.53”]}", CHARACTER),
    ("stubDomains", "{'corp.example': ['10.0.0.53']}", CHARACTER),
    ("stubDomains", '{"corp.example":\u00a0["10.0.0.53"]}', CHARACTER),
    ("stubDomains", '\ufeff{"corp.example": ["10.0.0.53"]}', CHARACTER),
    ("stubDomains", '{"corp.example"\uff1a ["10.0.0.53"]}', CHARACTER),
    ("stubDomains", '{"corp.example": ["10.0.0.256"]}', "10.0.0.256: not an address"),
    ("stubDomains", '{"corp.example": ["10.0.0"]}', "10.0.0: not an address"),
    ("stubDomains", '{"corp.example": ["10.0.0.53", "fd00::g"]}', "fd00::g: not an address"),
    ("stubDomains", '{"a.example": ["ns.a.example"], "b.example": ["10.0.0.053:53"]}', "10.0.0.053: not an address"),
    ("stubDomains", '{"corp.example": ["0.0.0.0"]}', "0.0.0.0: not an address"),
    ("stubDomains", '{"corp.example": ["10.0.0.53#5353"]}', "10.0.0.53#5353: not an address"),
    ("stubDomains", '{"corp.example": ["https://10.0.0.53/dns-query"]}', "https://10.0.0.53/dns-query: not an address"),
    ("stubDomains", '{"corp.example": ["tls://10.0.0.53"]}', "tls://10.0.0.53: not an address"),
    ("stubDomains", '{"corp.example": ["tls://10.0.0.530#ns.corp.example"]}', "10.0.0.530: not an address"),
    ("stubDomains", '{"corp.example": ["[fd00::53"]}', "[fd00::53: not an address"),
    ("upstreamNameservers", "8.8.8.8", JSON_ARRAY),
    ("upstreamNameservers", "8.8.8.8, 8.8.4.4", JSON_ARRAY),
    ("upstreamNameservers", "[8.8.8.8]", JSON_ARRAY),
    ("upstreamNameservers", "- 8.8.8.8", JSON_ARRAY),
    ("upstreamNameservers", '"8.8.8.8"', JSON_ARRAY),
    ("upstreamNameservers", '{"8.8.8.8": 53}', JSON_ARRAY),
    ("upstreamNameservers", '["8.8.8.8",]', JSON_ARRAY),
    ("upstreamNameservers", '[["8.8.8.8"]]', JSON_ARRAY),
    ("upstreamNameservers", '[""]', JSON_ARRAY),
    ("upstreamNameservers", '[null]', JSON_ARRAY),
    ("upstreamNameservers", '["8.8.8.8 "]', JSON_ARRAY),
    ("upstreamNameservers", "[“8.8.8.8”]", CHARACTER),
    ("upstreamNameservers", "['8.8.8.8']", CHARACTER),
    ("upstreamNameservers", '["8.8.8"]', "8.8.8: not an address"),
    ("upstreamNameservers", '["8.8.8.8", "dns.google"]', "dns.google: not an address"),
    ("upstreamNameservers", '["8.8.8.8:53:53"]', "8.8.8.8:53:53: not an address"),
    ("upstreamNameservers", '["8.8.8.8#53"]', "8.8.8.8#53: not an address"),
    ("upstreamNameservers", '["tsl://9.9.9.9#dns.quad9.net"]', "not an address"),
    ("upstreamNameservers", '["::"]', ":: not an address"),
    ("upstreamNameservers", '["::ffff:8.8.8.8"]', "::ffff:8.8.8.8: not an address"),
    ("hosts", "db.example 10.0.0.5", "db.example 10.0.0.5: a line must be an address and names"),
    ("hosts", "10.0.0.5 db.example\n10.0.0 web.example", "10.0.0 web.example: a line"),
    ("hosts", '{"db.example": "10.0.0.5"}', "a line must be an address"),
    ("hosts", "10.0.0.5 büro.example", "a line must be an address"),
    ("hosts", "10.0.0.5, db.example", "a line must be an address"),
    ("rewrites", "shop.example web.default.svc.cluster.local", "a line must be exact, suffix or regex"),
    ("rewrites", "exact shop.example", "a line must be exact, suffix or regex"),
    ("rewrites", "exact a.example b.example\nname exact c.example d.example", "name exact c.example d.example: a line"),
    ("rewrites", "exact a.example b.example # comment", "a line must be exact"),
    ("federations", '{"east": "east.example.org"}', "must be name=domain"),
    ("federations", "east", "must be name=domain"),
    ("federations", "east=", "must be name=domain"),
    ("federations", "east=east.example.org, west", "must be name=domain"),
    ("logLevel", "debug", "must be a number from 0 to 10"),
    ("logLevel", "11", "must be a number from 0 to 10"),
    ("logLevel", "-1", "must be a number from 0 to 10"),
]  # fmt: skip

# The policy sees no mistake here. The programs refuse these values.
ONLY_THE_PROGRAMS = [
    ("stubDomains", '{"corp.example": ["10.0.0.53"], "corp.example": ["10.0.1.53"]}'),
    ("stubDomains", '{"-corp.example": ["10.0.0.53"]}'),
    ("stubDomains", '{"cluster.local": ["10.0.0.53"]}'),
    ("stubDomains", '{"corp.example": ["10.0.0.53:99999"]}'),
    ("stubDomains", '{"corp.example": ["10.0.0\\u002e530"]}'),
    ("stubDomains", '{"a.example": [], "b.example": null}'),
    ("upstreamNameservers", '["224.0.0.1"]'),
    ("upstreamNameservers", json.dumps([f"10.0.0.{n}" for n in range(1, 17)])),
    ("hosts", "10.0.0.5 db..example"),
    ("records", "www.example A 10.0.0"),
    ("rewrites", "regex ( a.example"),
    ("federations", "east=east..example"),
]

GOOD = [
    ("stubDomains", ""), ("stubDomains", " \n"), ("stubDomains", "null"), ("stubDomains", "{}"),
    ("stubDomains", '{"10": ["[fd00::53]", "fd00::54", "[fd00::55]:5353", "10.0.0.53:5353", "ns.a.example:53", "10\\u002e0.0.1"]}'),
    ("stubDomains", '\t{\r\n"10.in-addr.arpa"\n:\n[ "tls://10.0.0.53#ns.corp.example" , "tls:\\/\\/10.0.0.54:853#ns.corp.example" ] , "x_1.example.":["ns"] }\n\n'),
    ("stubDomains", json.dumps({f"d{n}.example": ["10.0.0.53", "ns.example:53"] for n in range(700)})),
    ("stubDomains", json.dumps({f"d{n}.example": ["10.0.0.53"] for n in range(20000)})),
    ("upstreamNameservers", ""), ("upstreamNameservers", "null "), ("upstreamNameservers", "[]"),
    ("upstreamNameservers", '["10.0.0.53", "64:ff9b::192.0.2.1", "1:2:3:4:5:6:7::"]'),
    ("upstreamNameservers", '["tls://[2620:fe::fe]:853#dns.quad9.net", "tls://9.9.9.9#dns.quad9.net."]'),
    ("hosts", ""), ("hosts", "null"), ("hosts", "# only a comment: ü\n\n"), ("hosts", "::FFFF:10.0.0.5 db.example\r\n\t0:0:0:0:0:ffff:a00:5\tx.example#c"),
    ("hosts", "fe80::1%lo0 localhost\n255.255.255.255 broadcasthost\n10.0.0.5"),
    ("hosts", "".join(f"10.0.{n // 200}.{n % 200} n{n}.example\n" for n in range(1100))),
    ("hosts", "".join(f"10.{n // 40000}.{n // 200 % 200}.{n % 200} n{n}.example\n" for n in range(9000))),
    ("rewrites", ""), ("rewrites", "null\n"), ("rewrites", "  # a comment\n\nregex\t(.+)#\\.dev  {1}.default.svc.cluster.local\t\r\n"),
    ("federations", " "), ("federations", "null"), ("federations", "\n east = east.example.org ,west=west.example.org, \n"),
    ("logLevel", ""), ("logLevel", " "), ("logLevel", "null"), ("logLevel", "0"), ("logLevel", "10\n"), ("logLevel", "007"),
    ("notes", "{'anything'"), ("records", 'a.example TXT “x”'),
]  # fmt: skip


@pytest.fixture(scope="module")
def api(tmp_path_factory):
    directory = tmp_path_factory.mktemp("configmap")
    real = RealApi(directory / "real", controllers="serviceaccount,namespace")
    conf = directory / "conf"
    shutil.copytree(ROOT / "conf/kubernetes/components/configmap-policy", conf / "component")
    (conf / "kustomization.yaml").write_text("components: [component]\n")
    try:
        real.apply(configmap({"stubDomains": "old mistake", "hosts": "10.0.0.5 db.example"}))
        print(real.kubectl("apply", "-k", conf))
        wait_for(lambda: why(real, {"stubDomains": "new mistake"}), 60, "the policy in force")
        yield real
    finally:
        real.stop()


def configmap(data, name="kube-dns", ns="kube-system"):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": ns}, "data": data}


def why(api, data, name="kube-dns", ns="kube-system"):
    """The API server's reason for refusing an update of this ConfigMap, or "" if it accepts the update."""
    status, _, body = api.request(f"/api/v1/namespaces/{ns}/configmaps/{name}?fieldManager=test&force=true&dryRun=All", method="PATCH",
                                  headers={"Content-Type": "application/apply-patch+yaml"}, body=json.dumps(configmap(data, name, ns)).encode())  # fmt: skip
    if status in (200, 201):
        return ""
    answer = json.loads(body)
    assert status == 422 and "ValidatingAdmissionPolicy 'kube-dns-configmap'" in answer["message"], answer
    return answer["message"]


def accepted(tmp_path, key, value):
    """Whether kubedns and the nanny accept the value. dnsmasq refuses tls:// servers, which unbound accepts."""
    shutil.rmtree(tmp_path / "config", ignore_errors=True)
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / key).write_bytes(value.encode())
    (tmp_path / "resolv.conf").write_text("nameserver 192.0.2.1\n")
    for command in ([BUILD / "bin/nanny", "--check", f"-configDir={tmp_path}/config", f"-resolvConf={tmp_path}/resolv.conf"],
                    [BUILD / "bin/kubedns", "--check", f"--config-dir={tmp_path}/config", f"--objects-dir={ROOT}/conf/example/objects",
                     "--resolver=127.0.0.1:10153"]):  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=30, check=False)
        if any(" error: " in line and "dnsmasq cannot encrypt queries" not in line for line in done.stderr.splitlines()):
            return False
    return True


def shown():
    """The ConfigMaps of the documents and of conf/."""
    for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("conf/**/*.md")]:
        for block in re.findall(r"```(?:yaml)?\n(.*?)```", path.read_text(), re.S):
            if "kind: ConfigMap" in block:
                yield from yaml.safe_load(block)["data"].items()
    for path in ROOT.glob("conf/example/config/*"):
        if path.name != "README":
            yield path.name, path.read_text()


def tested():
    """The texts of the unit tests and the seeds of the fuzz targets."""
    keys = {"stubs": "stubDomains", "upstreams": "upstreamNameservers", "federations": "federations", "hosts": "hosts", "rewrites": "rewrites"}
    for path in ROOT.glob("tests/unit/test_conf*.c"):
        for name, literals in re.findall(r'\b(\w+?)(?:_of)?\(\s*((?:"(?:[^"\\]|\\.)*"\s*)+)[,)]', path.read_text()):
            text = "".join(ast.literal_eval(part) for part in re.findall(r'"(?:[^"\\]|\\.)*"', literals))
            for key in [keys[name]] if name in keys else keys.values():
                yield key, text.encode("latin-1", "replace").decode("utf-8", "replace")
    for name, key in keys.items():
        for seed in (ROOT / "tests/fuzz/seeds" / name).iterdir():
            yield key, seed.read_bytes().decode("utf-8", "replace")


def test_mistakes_are_refused_with_what_to_write(api, tmp_path):
    for key, value, reason in BAD:
        assert not accepted(tmp_path, key, value), f"the programs accept {key}: {value!r}"
        said = why(api, {key: value})
        assert key in said and reason in said, f"{key}: {value!r}: {said!r}"


def test_what_the_policy_does_not_see_is_refused_by_the_programs(api, tmp_path):
    for key, value in ONLY_THE_PROGRAMS:
        assert why(api, {key: value}) == "" and not accepted(tmp_path, key, value), f"{key}: {value!r}"


def test_no_value_is_refused_that_the_programs_accept(api, tmp_path):
    good = [(key, value) for key, value in dict.fromkeys([*GOOD, *shown(), *tested()]) if accepted(tmp_path, key, value)]
    assert set(GOOD) <= set(good), set(GOOD) - set(good)
    assert len(good) > len(GOOD) + 40, len(good)
    for key, value in good:
        assert why(api, {key: value}) == "", f"{key}: {value!r}"


def test_an_old_mistake_does_not_prevent_other_changes(api):
    assert why(api, {"stubDomains": "old mistake", "hosts": "10.0.0.6 db.example"}) == ""
    assert JSON_OBJECT in why(api, {"stubDomains": "another mistake", "hosts": "10.0.0.5 db.example"})
    assert why(api, {"stubDomains": DOMAIN}) == "" and why(api, {}) == ""


def test_keys_that_are_misspelt_are_refused_if_they_are_new(api):
    for key in ("stubdomains", "stubDomain", "stub-domains", "upstreamNameserver", "upstreamnameservers", "upstreamNameServers"):
        assert f"{key}: not a key" in why(api, {key: ""}), key
    for key in ("upstream", "servers", "stubDomainsOfLab"):
        assert why(api, {key: "x"}) == ""


def test_other_configmaps_are_not_judged(api):
    assert why(api, {"stubDomains": "mistake"}, name="other") == ""
    assert why(api, {"stubDomains": "mistake"}, ns="default") == ""
    status, _, body = api.request(f"{PATH}?dryRun=All", method="POST", headers={"Content-Type": "application/json"},
                                  body=json.dumps({**configmap({"logLevel": "x"}), "metadata": {"generateName": "kube-dns"}}).encode())  # fmt: skip
    assert status == 201, body
