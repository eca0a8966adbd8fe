"""`make lint` runs this: the documents are consistent with the project: links work, each alert has its section in the runbook, and everything that the documents name exists."""

import contextlib
import os
import re
import subprocess

import pytest
import yaml

import api_world
import nanny_world
from dnsnet import WEB_IP, query, udp, world
from kubedns_process import BUILD
from objects import namespace
from sidecar_world import Sidecar
from overlays import ROOT, RULES
from waiting import free_port
from world import start

DOCUMENTS = sorted(p.relative_to(ROOT) for p in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("conf/**/*.md"), *ROOT.glob("tests/**/*.md")])
RUNBOOK = ROOT / "docs/runbook.md"


def prose(document):
    """Returns the text of the document without its code blocks."""
    return re.sub(r"```.*?```", "", (ROOT / document).read_text(), flags=re.S)


def anchors(document):
    """Returns the anchors that GitHub generates for the headings."""
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in re.findall(r"^#+ (.*)$", prose(document), re.M)}


def alerts():
    return [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"] if "alert" in rule]


@pytest.mark.parametrize("document", DOCUMENTS, ids=str)
def test_links_lead_somewhere(document):
    for target in re.findall(r"\]\(([^)]+)\)", prose(document)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        found = (ROOT / document).parent / path if path else ROOT / document
        assert found.exists(), f"{document}: {target}"
        if anchor:
            assert anchor in anchors(found), f"{document}: {target}; there are {sorted(anchors(found))}"


def test_documents_that_programs_manuals_and_manifests_name_exist():
    """Messages, manual pages and comments name a page by its path, with an anchor or with a heading in quotes."""
    said = subprocess.run(["git", "grep", "-hoE", "docs/[a-z/-]+\\.md(#[a-z0-9-]+|, \\\\?\"[^\"\\]+)?", "--", "*.c", "*.[5-8]", "*.yaml", "*.tpl", "*.txt", "*.js", "conf"],
                          cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\n")  # fmt: skip
    assert len(said) > 50
    for reference in filter(None, said):
        path, anchor, heading = re.fullmatch(r'([^#,]+)(?:#(.*)|, \\?"(.*))?', reference).groups()
        assert (ROOT / path).exists(), reference
        assert anchor is None or anchor in anchors(path), reference
        assert heading is None or re.search(rf"^#+ {re.escape(heading)}$", (ROOT / path).read_text(), re.M), reference


def test_each_alert_has_its_section_of_the_runbook_and_the_other_way_round():
    sections = re.findall(r"^## (\w+)$", RUNBOOK.read_text(), re.M)
    assert sections == [rule["alert"] for rule in alerts()]
    for rule in alerts():
        assert rule["annotations"]["runbook_url"] == f"docs/runbook.md#{rule['alert'].lower()}"
    for section in re.split(r"^## ", RUNBOOK.read_text(), flags=re.M)[1:]:
        assert len(section) > 150, section


@pytest.mark.parametrize("document", [d for d in DOCUMENTS if d.name != "CHANGELOG.md"], ids=str)
def test_alerts_that_are_named_exist(document):
    named = set(re.findall(r"\bDNS[A-Z][a-z]+(?:[A-Z][a-z]+)*\b", prose(document))) - {"DNSCache"}  # part of "NodeLocal DNSCache"
    assert named <= {rule["alert"] for rule in alerts()}


@pytest.mark.parametrize("document", DOCUMENTS, ids=str)
def test_make_targets_that_are_named_exist(document):
    rules = "\n".join(path.read_text() for path in [ROOT / "Makefile", *ROOT.glob("mk/*.mk")])
    targets = {name for names in re.findall(r"^([a-z][a-z -]*):", rules, re.M) for name in names.split()}
    named = {word for text in re.findall(r"`make ([^`]+)`", (ROOT / document).read_text()) for word in text.split()[:1]}
    assert {n for n in named if "=" not in n and "/" not in n} <= targets


def test_the_stages_are_those_of_the_table():
    table = re.findall(r'^\tX\([a-z_]*, "([a-z ]*)"\)', (ROOT / "kubedns/answer/stages.h").read_text(), re.M)
    assert table and table == re.findall(r"^[0-9]*\. \*\*([a-z ]*)\*\*:", (ROOT / "docs/how-it-works.md").read_text(), re.M)


def test_each_folder_of_the_system_tests_is_described():
    folders = {path.parent.name for path in (ROOT / "tests/system").rglob("test_*.py")}
    assert folders == set(re.findall(r"^\| `(\w+)/` \|", (ROOT / "tests/system/README.md").read_text(), re.M))


def test_each_promise_of_security_md_names_tests_that_exist():
    text = (ROOT / "SECURITY.md").read_text()
    for file, test in re.findall(r"`(test_\w+\.py)::(\w+)`", text):
        found = [path for folder in ("system", "modules") for path in (ROOT / "tests" / folder).rglob(file)]
        assert found and re.search(rf"^def {test}\(", found[0].read_text(), re.M), f"SECURITY.md: {file}::{test}"
    promises = text[text.index("## What is promised") : text.index("If you can break one of these")].split("\n* ")[1:]
    assert len(promises) >= 7 and all(re.search("Tests?: ", promise) for promise in promises[:-1])  # the last promise refers to a table


@pytest.mark.parametrize("document", DOCUMENTS, ids=str)
def test_metrics_that_are_named_exist(document):
    named = set(re.findall(r"\b((?:kubedns|nanny|dnsmasq|dns|sidecar)_[a-z_]+[a-z])\b(?!\.|/)", (ROOT / document).read_text()))
    sources = subprocess.run(["git", "grep", "-hE", "(kubedns|nanny|dnsmasq|dns|sidecar)_", "--", "*.c", "*.h", "*.[578]", "*.yaml"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    sources += "".join(re.findall(r'"\w+", METRIC_', (ROOT / document).read_text()))  # of an example
    missing = {name for name in named if name not in sources and re.sub(r"_(bucket|count|sum)$", "", name) not in sources}
    assert not missing, f"{document}: {missing}"


def families(page):
    return {line.split()[2] for line in page.splitlines() if line.startswith("# TYPE ")}


def kubedns_families(tmp_path):
    """
    The metric families of kubedns with each source of objects and with the optional features. Some features exclude each other, so there
    are several runs.
    """
    zones = ("--external-zones=ext.example", "--external-headless", "--clusterset-domain=clusterset.local")
    clients = ("--resolver=127.0.0.1:9", "--client-pods=all", "--nearest", "--zonal", "--search-completion=inferred", "--answer-cache=1M", "--memory=64M",
               "--fallthrough", "--filter-aaaa=auto", "--coredns-metrics", "--pods=verified", "--wildcards")
    found = set()
    # The flags of modules that have metrics only if they are enabled.
    lines = {page.parent.name: re.search(r"^\.\\\" test: (--.*)$", page.read_text(), re.M) for page in ROOT.glob("kubedns/modules/*/*.7")}
    modules = [flag.replace("TESTS", f"{ROOT}/tests/modules/{name}") for name, line in lines.items() if line for flag in line[1].split()]
    with api_world.World(tmp_path, *zones, *clients, *modules, "--hosts-namespaces=own", "--until-synced=127.0.0.1:9") as w:
        found |= families(w.kubedns.http("/metrics")[1])
    for more in (zones, ("--visibility=labels", "--client-pods=all")):
        with start(tmp_path, [namespace("default")], *more) as k:
            k.wait_ready()
            found |= families(k.http("/metrics")[1])
    return found


def nanny_families(_):
    made = nanny_world.World()
    try:
        return families(made.start().get("/metrics")[1])
    finally:
        made.close()


def sidecar_families(_):
    with Sidecar("--probe=kube-dns,127.0.0.1:9,a.example,5,A", "--coredns-metrics", peers=True) as s:
        return families(s.get("/metrics")[1])


@pytest.mark.parametrize(("program", "of"), [("kubedns", kubedns_families), ("nanny", nanny_families), ("sidecar", sidecar_families)])
def test_each_metric_is_in_the_manual_page(tmp_path, program, of):
    manual = {"kubedns": "kubedns/man/kubedns-metrics.7"}.get(program, f"{program}/{program}.8")
    pages = [(ROOT / manual).read_text(), *(page.read_text() for page in ROOT.glob(f"{program}/modules/*/*.7"))]
    page = "".join(found[1] for found in (re.search(r"^\.Sh METRICS\n(.*?)^\.Sh ", text, re.M | re.S) for text in pages) if found)
    found = {re.sub(r"^kubedns_probe_.*(_latency_ms|_errors)$", r"\1", name) for name in of(tmp_path)}
    # Some metrics depend on more than flags, for example on a container's memory limit. Their names are in the source code.
    for folder in (program, "lib"):
        for path in (ROOT / folder).rglob("*.c"):
            found |= set(re.findall(r'\(\s*m,\s*"([a-z][a-z0-9_]+)"', path.read_text()))
    missing = sorted(found - set(re.findall(r"[a-z_][a-z0-9_]*", page)))
    assert len(found) > 20 and not missing, missing


def config_maps(document):
    """The data of each ConfigMap in the document."""
    blocks = re.findall(r"```(?:yaml)?\n(.*?)```", (ROOT / document).read_text(), re.S)
    shown = [yaml.safe_load(block) for block in blocks if "kind: ConfigMap" in block]
    return [o["data"] for o in shown]


SHOWN = [(d, i, data) for d in DOCUMENTS for i, data in enumerate(config_maps(d))]


@pytest.mark.parametrize("document, i, data", SHOWN, ids=[f"{d}-{i}" for d, i, _ in SHOWN])
def test_configmaps_that_are_shown_are_accepted(tmp_path, document, i, data):
    (tmp_path / "config").mkdir()
    for key, value in data.items():
        (tmp_path / "config" / key).write_text(value)
    resolv = tmp_path / "resolv.conf"
    resolv.write_text("nameserver 192.0.2.1\n")
    tls = any("tls://" in value for value in data.values())
    resolver = ["--resolver=127.0.0.1:10153"] if tls else []
    for command in ([os.path.join(BUILD, "bin/nanny"), "--check", f"-configDir={tmp_path}/config", f"-resolvConf={resolv}"],
                    [os.path.join(BUILD, "bin/kubedns"), "--check", *resolver, f"--config-dir={tmp_path}/config", f"--objects-dir={ROOT}/conf/example/objects"]):  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
        if tls and command[0].endswith("nanny"):  # dnsmasq refuses such servers, and nothing else
            errors = [line for line in done.stderr.splitlines() if " error: " in line]
            assert errors and all("dnsmasq cannot encrypt queries" in line for line in errors), done.stderr
            continue
        assert done.returncode == 0 and "refused" not in done.stderr, f"{done.stdout}{done.stderr}"


def test_the_runbooks_grep_finds_the_line_of_a_refused_key(tmp_path):
    section = RUNBOOK.read_text().split("## DNSConfigRefused\n")[1].split("\n## ")[0]
    (pattern,) = re.findall(r"logs POD -c dnsmasq \| grep '([^']+)'", section)
    (tmp_path / "stubDomains").write_text('{"corp.example": ["8.8.8"]}')
    done = subprocess.run([os.path.join(BUILD, "bin/nanny"), "--check", f"-configDir={tmp_path}"], capture_output=True, text=True, timeout=30, check=False)
    found = [line for line in done.stderr.splitlines() if pattern in line]
    assert done.returncode == 2 and len(found) == 1 and "stubDomains" in found[0] and "8.8.8" in found[0], done.stderr


def test_the_runbooks_explanations_are_those_of_kubedns():
    """
    reason.c has `$` and a letter in place of a name or number. The runbook has a word in capitals or an example there. explain.c adds sentences
    about refused keys.
    """
    table = RUNBOOK.read_text().split("| explanation | fix |\n|---|---|\n")[1].split("\n\n")[0]
    listed = [text for row in table.splitlines() for text in re.findall("`([^`]+)`", row.split("|")[1])]
    source = re.sub(r"(\$[A-Z]\.?)+(svc\.\$Z)?", "*", "".join((ROOT / "kubedns" / f).read_text() for f in ("answer/reason.c", "show/explain.c")))
    assert len(listed) >= 10
    for text in listed:
        assert re.sub(r"\b(NAMESPACE|NAME|OTHER|N|db-1|cluster\.local)\b", "*", text) in source, text


def test_the_hosts_that_are_shown_are_answered(tmp_path):
    (data,) = [data for document, _, data in SHOWN if document.name == "names.md" and "db.example" in data.get("hosts", "")]
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "hosts").write_text(data["hosts"])
    with world(tmp_path, f"--config-dir={tmp_path}/config", "--threads=1") as k:
        k.wait_ready()
        for name, kind, address in (("db.example", "A", "10.0.0.5"), ("db2.example", "A", "10.0.0.5"), ("db.example", "AAAA", "2001:db8::5")):
            assert [str(r) for rr in udp(k, query(name, kind)).answer for r in rr] == [address]
        assert sorted(str(r) for rr in udp(k, query("5.0.0.10.in-addr.arpa", "PTR")).answer for r in rr) == ["db.example.", "db2.example."]


def test_the_records_that_are_shown_are_answered(tmp_path):
    (data,) = [data for document, _, data in SHOWN if document.name == "names.md" and "records" in data]
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "records").write_text(data["records"])
    with world(tmp_path, f"--config-dir={tmp_path}/config", "--threads=1") as k:
        k.wait_ready()
        for name, kind, wanted in (("www.lab.example", "A", ["10.0.0.7"]), ("any.apps.lab.example", "A", ["www.lab.example.", "10.0.0.7"]), ("lab.example", "CAA", ['0 issue "ca.example"']),
                                   ("build.lab.example", "A", ["web.default.svc.cluster.local.", WEB_IP]), ("_ldap._tcp.lab.example", "SRV", ["0 5 389 ldap.corp.example."]),
                                   ("key.other.example", "TXT", ['"only this name: other.example is looked up upstream"']), ("x.web.example", "A", ["10.0.0.8"])):  # fmt: skip
            assert [str(r) for rr in udp(k, query(name, kind)).answer for r in rr] == wanted, name
        assert udp(k, query("no.lab.example")).rcode() == 3


def test_the_rewrites_that_are_shown_are_followed(tmp_path):
    (data,) = [data for document, _, data in SHOWN if document.name == "names.md" and "rewrites" in data]
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "rewrites").write_text(data["rewrites"])
    with world(tmp_path, f"--config-dir={tmp_path}/config", "--threads=1") as k:
        k.wait_ready()
        for name in ("shop.example", "web.default.k8s.example", "web.dev.example"):
            (answer,) = udp(k, query(name)).answer
            assert (str(answer.name), [str(r) for r in answer]) == (f"{name}.", [WEB_IP])


KUBECTL = """#!/bin/sh
# Two pods; a port-forward leads to the program whose port is in the file with the pod's name.
shift 2
case $1 in
get) printf 'pod/a\\npod/b\\n' ;;
port-forward) exec python3 -c '
import socket, sys, threading
def copy(a, b):
    while data := a.recv(65536):
        b.sendall(data)
    b.shutdown(socket.SHUT_WR)
listener = socket.create_server(("127.0.0.1", PORT))
while True:
    near, _ = listener.accept()
    far = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
    for pair in ((near, far), (far, near)):
        threading.Thread(target=copy, args=pair, daemon=True).start()
' "$(cat DIR/${2#pod/})" ;;
logs) cat DIR/*.log ;;
esac
"""


def test_the_query_log_is_switched_on_in_each_pod_as_it_is_shown(tmp_path):
    text = (ROOT / "docs/queries.md").read_text()
    (loop,) = re.findall(r"^```\n(for pod in .*?)^```", text, re.M | re.S)
    (tmp_path / "bin").mkdir()
    port = free_port()
    (tmp_path / "bin/kubectl").write_text(KUBECTL.replace("DIR", str(tmp_path)).replace("PORT", str(port)))
    (tmp_path / "bin/kubectl").chmod(0o755)
    with contextlib.ExitStack() as stack:
        pods = []
        for name in "ab":
            (tmp_path / f"of-{name}").mkdir()
            pods.append(stack.enter_context(world(tmp_path / f"of-{name}", "--threads=1")))
            pods[-1].wait_ready()
            (tmp_path / name).write_text(str(pods[-1].healthz))
            os.symlink(pods[-1].log_path, tmp_path / f"{name}.log")
        assert "18081:8081" in loop
        switch, tail = loop.replace("client=10.1.2.3", "client=127.0.0.1").replace("18081", str(port)).split("done\n")
        env = {**os.environ, "PATH": f"{tmp_path}/bin:{os.environ['PATH']}"}
        done = subprocess.run(["sh", "-c", switch + "done"], env=env, capture_output=True, text=True, timeout=60, check=False)
        assert done.stdout.split().count("on") == 2, done
        for k in pods:
            udp(k, query("web.default.svc.cluster.local"))
        for k in pods:
            k.wait(lambda k=k: "web.default.svc.cluster.local" in k.log())
        shown = subprocess.run(["sh", "-c", tail], env=env, capture_output=True, text=True, timeout=60, check=True).stdout
        assert shown.count("web.default.svc.cluster.local") == 2
