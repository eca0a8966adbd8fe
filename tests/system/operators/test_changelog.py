"""CHANGELOG.md: short entries, each with a link. All places with the version's number have the same number."""

import re

import yaml
from overlays import ROOT

TEXT = (ROOT / "CHANGELOG.md").read_text()
SECTIONS = re.findall(r"^## (.*)$", TEXT, re.M)


def entries():
    """Each entry, with all its lines."""
    return re.findall(r"^\* .*\n(?:  .*\n)*", TEXT, re.M)


def test_an_entry_has_two_lines_at_most_and_a_link():
    assert len(entries()) > 100
    assert [e for e in entries() if e.count("\n") > 2] == []
    assert [e for e in entries() if not re.search(r"\]\([\w./#-]+\)", e)] == []


def test_each_section_and_each_entry_is_there_once():
    assert len(set(SECTIONS)) == len(SECTIONS) and len(set(entries())) == len(entries())
    headings = [heading for section in TEXT.split("\n## ") for heading in re.findall(r"^### .*$", section, re.M)]
    assert len(set(headings)) == len(headings)


def test_chart_settings_and_package_have_the_number_of_the_newest_version():
    number = next(s for s in SECTIONS if s != "Next")
    assert re.fullmatch(r"\d+\.\d+\.\d+", number) and SECTIONS.index(number) <= 1
    chart = yaml.safe_load((ROOT / "conf/helm/kubedns/Chart.yaml").read_text())
    settings = yaml.safe_load((ROOT / "conf/kubernetes/settings/settings.yaml").read_text())["data"]
    package = re.match(r"kubedns \((.*?)\) ", (ROOT / "debian/changelog").read_text())
    found = {chart["version"], chart["appVersion"], package[1], *(settings[f"{n}Image"].rpartition(":")[2] for n in ("kubedns", "nanny", "nannyUnbound", "sidecar"))}
    assert found == {number}
