"""All places with the version's number have the number of the newest version in CHANGELOG.md."""

import re

import yaml
from overlays import ROOT

TEXT = (ROOT / "CHANGELOG.md").read_text()
SECTIONS = re.findall(r"^## (.*)$", TEXT, re.M)


def test_chart_settings_and_package_have_the_number_of_the_newest_version():
    number = next(s for s in SECTIONS if s != "Next")
    assert re.fullmatch(r"\d+\.\d+\.\d+", number) and SECTIONS.index(number) <= 1
    chart = yaml.safe_load((ROOT / "conf/helm/kubedns/Chart.yaml").read_text())
    settings = yaml.safe_load((ROOT / "conf/kubernetes/settings/settings.yaml").read_text())["data"]
    package = re.match(r"kubedns \((.*?)\) ", (ROOT / "debian/changelog").read_text())
    found = {chart["version"], chart["appVersion"], package[1], *(settings[f"{n}Image"].rpartition(":")[2] for n in ("kubedns", "nanny", "nannyUnbound", "sidecar"))}
    assert found == {number}
