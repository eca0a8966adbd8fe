#!/usr/bin/env python3
"""
docker save IMAGE... | packages.py [--current]

Prints the Debian packages in the images, as scanners find them: one "name version" per line, without duplicates. The images contain
programs that are compiled from Debian's source packages. If the archive had a newer binary package than source package, a line on standard
error names both versions. With --current the exit status is then 1.
"""

import io
import json
import sys
import tarfile

STATUS = "var/lib/dpkg/status.d/"


def files(saved, image):
    """Yields (member, content) for each regular file of an image. `archive` is an open archive from `docker save` or oci.py."""
    for path in image["Layers"]:
        with tarfile.open(fileobj=saved.extractfile(path)) as layer:
            for member in layer:
                if member.isreg():
                    member.name = member.name.removeprefix("./")
                    yield member, layer.extractfile(member)


def record(content):
    """Parses dpkg's record of a package: {field: value}."""
    return dict(line.split(": ", 1) for line in content.read().decode().splitlines() if ": " in line)


def packages(archive):
    """Returns {name: record} of the packages in the output of `docker save` (a binary file)."""
    found = {}
    with tarfile.open(fileobj=archive) as saved:
        for image in json.load(saved.extractfile("manifest.json")):
            for member, content in files(saved, image):
                if member.name.startswith(STATUS):
                    fields = record(content)
                    found[fields["Package"]] = fields
    return found


def main(arguments):
    if arguments not in ([], ["--current"]):
        sys.exit(__doc__.strip())
    old = False
    for name, fields in sorted(packages(io.BytesIO(sys.stdin.buffer.read())).items()):
        print(name, fields["Version"])
        if "Newer" in fields:
            old = True
            print(f"packages.py: {name}: compiled from {fields['Version']}, but Debian has {fields['Newer']}: its source package is not in the archive;"
                  " build again when it is, or set another archive in conf/image/pins", file=sys.stderr)
    return 1 if old and arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
