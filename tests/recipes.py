"""
The recipes of conf/install, and their pages in docs/install. `python3 tests/recipes.py` writes the pages. The tests compare the pages with the
recipes, and run the recipes' commands.
"""

import pathlib
import textwrap

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[1]
DATA, PAGES = ROOT / "conf/install", ROOT / "docs/install"
STEPS = ["check", "overlay", "stop", "beside", "compare", "switch", "verify", "undo", "upgrade"]
NAMES = sorted(p.stem for p in DATA.glob("*.yaml") if p.stem != "common")
FIELDS = {"title", "old", "replicas", "service", "label", "restores", "overlay", "steps", "loses", "unverified", "sources", "tested"}


class Recipe:
    def __init__(self, name):
        self.name = name
        self.data = yaml.safe_load((DATA / f"{name}.yaml").read_text())
        assert set(self.data) == FIELDS, f"{name}: {set(self.data) ^ FIELDS}"
        self.common = yaml.safe_load((DATA / "common.yaml").read_text())
        assert set(self.data["steps"]) <= set(STEPS) == set(self.common), name

    def fill(self, text):
        for key in ("old", "replicas", "service", "label"):
            text = text.replace(f"@{key}@", str(self.data[key]))
        return text

    def step(self, name):
        """Returns the step's title, text and commands. The text and the commands may be empty."""
        own = self.data["steps"].get(name, {})
        merged = {**self.common[name], **own}
        return merged["title"], self.fill(merged.get("text", "")), self.fill(merged.get("run", ""))

    def page(self):
        """Returns the page in docs/install."""
        d = self.data
        parts = [f"# {d['title']}", f"<!-- Written from conf/install/{self.name}.yaml by `python3 tests/recipes.py`. Do not edit this page. -->",
                 f"kubedns becomes the cluster's DNS behind the Service `{d['service']}`. The old Deployment `{d['old']}` stays in the cluster with 0 pods, so "
                 "you can [roll back](#roll-back) at any time. [Other distributions](README.md).",
                 "Run the commands in the folder of this release. kubectl needs the rights of an administrator. Pods use the old DNS until the step "
                 "*Switch*.",
                 "**Not run on the distribution itself.** The commands below run in the tests, on a real API server. The [last section](#sources-and-tests) "
                 "says what is simulated.",
                 "## What restores the old DNS", d["restores"], "## What you lose", bullets(d["loses"])]
        number = 0
        for name in STEPS:
            title, text, run = self.step(name)
            if not (text or run):
                continue
            heading = title if name in ("verify", "undo", "upgrade") else f"{(number := number + 1)}. {title}"
            parts.append(f"## {heading}")
            parts += [text] if text else []
            parts += [f"```yaml\n{d['overlay']}```"] if name == "overlay" else []
            parts += [f"```\n{run}```"] if run else []
        parts += ["## Sources and tests", "| Fact | Source | Version |\n|---|---|---|\n"
                  + "\n".join(f"| {s['fact']} | {s['where']} | {s['version']} |" for s in d["sources"]),
                  f"**Tested** (`tests/cluster/test_recipes.py`): {d['tested']}", "**Not verified:**", bullets(d["unverified"])]
        return "\n\n".join(wrapped(p.rstrip("\n")) for p in parts) + "\n"


def bullets(items):
    return "\n".join(f"* {i}" for i in items)


def wrapped(part):
    """Breaks the lines of prose and lists at 140 characters. Leaves code, tables, headings and comments as they are."""
    if part.startswith(("```", "|", "#", "<!--")):
        return part
    return "\n\n".join(
        "\n".join(fill(line, "  ") for line in p.splitlines()) if p.startswith("* ") else fill(" ".join(p.split()), "") for p in part.split("\n\n"))


def fill(line, indent):
    return textwrap.fill(line, 140, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


if __name__ == "__main__":
    for each in NAMES:
        (PAGES / f"{each}.md").write_text(Recipe(each).page())
