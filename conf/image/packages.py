#!/usr/bin/env python3
"""docker save IMAGE... | packages.py: the Debian packages of the images, as scanners find them: "name version" a line, each once."""

import io
import json
import sys
import tarfile

STATUS = "var/lib/dpkg/status.d/"


def files(saved, image):
    """(member, content) of each regular file of an image of manifest.json, from an open archive of `docker save` or oci.py."""
    for path in image["Layers"]:
        with tarfile.open(fileobj=saved.extractfile(path)) as layer:
            for member in layer:
                if member.isreg():
                    member.name = member.name.removeprefix("./")
                    yield member, layer.extractfile(member)


def record(content):
    """dpkg's record of a package: {field: value}."""
    return dict(line.split(": ", 1) for line in content.read().decode().splitlines() if ": " in line)


def packages(archive):
    """{name: version} of what `docker save` gives (a binary file)."""
    found = {}
    with tarfile.open(fileobj=archive) as saved:
        for image in json.load(saved.extractfile("manifest.json")):
            for member, content in files(saved, image):
                if member.name.startswith(STATUS):
                    fields = record(content)
                    found[fields["Package"]] = fields["Version"]
    return found


if __name__ == "__main__":
    for name, version in sorted(packages(io.BytesIO(sys.stdin.buffer.read())).items()):
        print(name, version)
