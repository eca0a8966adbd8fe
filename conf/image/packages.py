#!/usr/bin/env python3
"""docker save IMAGE... | packages.py: the Debian packages of the images, as scanners find them: "name version" a line, each once."""

import io
import json
import sys
import tarfile

STATUS = "var/lib/dpkg/status.d/"


def packages(archive):
    """{name: version} of what `docker save` gives (a binary file)."""
    found = {}
    with tarfile.open(fileobj=archive) as saved:
        paths = {path for image in json.load(saved.extractfile("manifest.json")) for path in image["Layers"]}
        for path in paths:
            with tarfile.open(fileobj=saved.extractfile(path)) as layer:
                for member in layer:
                    if member.isreg() and member.name.removeprefix("./").startswith(STATUS):
                        fields = dict(line.split(": ", 1) for line in layer.extractfile(member).read().decode().splitlines() if ": " in line)
                        found[fields["Package"]] = fields["Version"]
    return found


if __name__ == "__main__":
    for name, version in sorted(packages(io.BytesIO(sys.stdin.buffer.read())).items()):
        print(name, version)
