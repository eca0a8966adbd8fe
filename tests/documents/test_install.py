"""The pages of docs/install: each is written from its recipe in conf/install."""

import re

import pytest

from recipes import NAMES, PAGES, Recipe
from test_recipes import LABELS

README = PAGES / "README.md"


@pytest.mark.parametrize("name", NAMES)
def test_the_page_is_the_recipe(name):
    assert (PAGES / f"{name}.md").read_text() == Recipe(name).page(), "run: python3 tests/recipes.py"
    assert f"({name}.md)" in README.read_text()


def test_no_page_is_without_a_recipe():
    assert {p.stem for p in PAGES.glob("*.md")} == {*NAMES, "README"}


def test_the_table_has_these_names():
    rows = re.findall(r"^\| .* \|$", README.read_text().partition("## What other software looks for")[2], re.M)
    for software, *names in [("Loki", "kube-dns.kube-system.svc"), ("Cilium", "k8s-app: kube-dns", "kube-system", "53"), ("Istio", "53"),
                             ("cert-manager", "53"), ("cluster-proportional-autoscaler", "Deployment/kube-dns", "kube-dns-autoscaler"),
                             ("add-on conventions", *LABELS, "`dns`", "`dns-tcp`")]:
        (row,) = [r for r in rows if software in r.split("|")[1]]
        assert all(n in row for n in names), row
