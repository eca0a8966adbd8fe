#!/usr/bin/env python3
"""
notes.py NUMBER notes: prints the release notes of the version, which are its section of CHANGELOG.md (or the section "Next").
notes.py NUMBER annotations TAG: prints the annotations of the chart that Artifact Hub shows: licence, category, images with TAG, and changes.
"""

import json
import pathlib
import re
import sys

IMAGES = ("kubedns", "nanny", "nanny-unbound", "sidecar")


def section(changelog, number):
    """Returns the lines of the section, without its heading and without empty lines at its ends."""
    parts = re.split(r"^## (.*)$", changelog, flags=re.M)
    sections = dict(zip(parts[1::2], parts[2::2]))
    text = sections.get("Next", sections.get(number))
    if text is None:
        sys.exit(f'notes.py: CHANGELOG.md has no section "## {number}" and no section "## Next"')
    return text.strip().splitlines()


def entries(lines):
    """Returns the text of each list item. Links become their text, because Artifact Hub shows plain text."""
    found = []
    for line in lines:
        if line.startswith("* "):
            found.append(line[2:])
        elif line.startswith("  ") and found:
            found[-1] += " " + line.strip()
    return [re.sub(r"\s*\[[^]]*\]\([^)]*\)$", "", re.sub(r"`", "", text)) for text in found]


def annotations(lines, tag):
    values = {"artifacthub.io/category": "networking", "artifacthub.io/license": "Apache-2.0", "artifacthub.io/changes": entries(lines),
              "artifacthub.io/images": [{"name": name, "image": f"{name}:{tag}", "platforms": ["linux/amd64", "linux/arm64"]} for name in IMAGES]}
    # Every value of an annotation is a string. Artifact Hub reads the lists as YAML, and JSON is YAML.
    text = {key: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False) for key, value in values.items()}
    return "annotations:\n" + "".join(f"  {key}: {json.dumps(value, ensure_ascii=False)}\n" for key, value in text.items())


def main(arguments):
    if arguments[1:2] not in (["notes"], ["annotations"]) or len(arguments) != (2 if arguments[1] == "notes" else 3):
        sys.exit(__doc__.strip())
    lines = section((pathlib.Path(__file__).resolve().parents[1] / "CHANGELOG.md").read_text(), arguments[0])
    print("\n".join(lines) if arguments[1] == "notes" else annotations(lines, arguments[2]), end="\n" if arguments[1] == "notes" else "")


if __name__ == "__main__":
    main(sys.argv[1:])
