"""The documents say what is there: links lead somewhere, alerts have their section of the runbook, and what is named exists."""

import re
import subprocess

import pytest
import yaml

from test_manifests import ROOT, RULES

DOCUMENTS = sorted(p.relative_to(ROOT) for p in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("conf/**/*.md"), *ROOT.glob("tests/bench/*.md")])
RUNBOOK = ROOT / "docs/runbook.md"


def prose(document):
    """Without code blocks."""
    return re.sub(r"```.*?```", "", (ROOT / document).read_text(), flags=re.S)


def anchors(document):
    """Of its headings, as GitHub makes them."""
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


def test_each_alert_has_its_section_of_the_runbook_and_the_other_way_round():
    sections = re.findall(r"^## (\w+)$", RUNBOOK.read_text(), re.M)
    assert sections == [rule["alert"] for rule in alerts()]
    for rule in alerts():
        assert rule["annotations"]["runbook"] == f"docs/runbook.md#{rule['alert'].lower()}"
    for section in re.split(r"^## ", RUNBOOK.read_text(), flags=re.M)[1:]:
        assert len(section) > 150, section


@pytest.mark.parametrize("document", [d for d in DOCUMENTS if d.name != "CHANGELOG.md"], ids=str)
def test_alerts_that_are_named_exist(document):
    named = set(re.findall(r"\bDNS[A-Z][a-z]+(?:[A-Z][a-z]+)*\b", prose(document))) - {"DNSCache"}  # of "NodeLocal DNSCache"
    assert named <= {rule["alert"] for rule in alerts()}


@pytest.mark.parametrize("document", DOCUMENTS, ids=str)
def test_make_targets_that_are_named_exist(document):
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M)) | set(re.findall(r"^(bench[a-z -]*):", (ROOT / "Makefile").read_text(), re.M))
    targets |= {f"bench-{kind}" for kind in re.findall(r"^bench-(\w+):", (ROOT / "Makefile").read_text(), re.M)} | {"bench"}
    named = {word for text in re.findall(r"`make ([^`]+)`", (ROOT / document).read_text()) for word in text.split()[:1]}
    assert {n for n in named if "=" not in n} <= targets


@pytest.mark.parametrize("document", DOCUMENTS, ids=str)
def test_metrics_that_are_named_exist(document):
    named = set(re.findall(r"\b((?:kubedns|nanny|dnsmasq|dns|sidecar)_[a-z_]+[a-z])\b(?!\.|/)", (ROOT / document).read_text()))
    sources = subprocess.run(["git", "grep", "-hE", "(kubedns|nanny|dnsmasq|dns|sidecar)_", "--", "*.c", "*.h", "*.8", "*.yaml"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    missing = {name for name in named if name not in sources and re.sub(r"_(bucket|count|sum)$", "", name) not in sources}
    assert not missing, f"{document}: {missing}"
