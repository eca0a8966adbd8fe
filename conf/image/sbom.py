#!/usr/bin/env python3
"""
sbom.py [ARCHITECTURE] <ARCHIVE >DOCUMENT

Lists the contents of an image as SPDX 2.3 in JSON: the program with its hash, and each Debian package from its dpkg record in the image.
Scanners use the patch level and the source package in a record to know which vulnerabilities are fixed. ARCHIVE is from oci.py. The same
image gives the same document. If the archive has images of several architectures, ARCHITECTURE selects one.
"""

import hashlib
import io
import json
import sys
import tarfile
import urllib.parse
import uuid

from packages import STATUS, files, record

UNKNOWN = {"downloadLocation": "NOASSERTION", "filesAnalyzed": False, "licenseConcluded": "NOASSERTION", "copyrightText": "NOASSERTION"}


def purl(kind, name, version, **qualifiers):
    """Returns a package URL (purl-spec) as an external reference."""
    url = f"pkg:{kind}/{urllib.parse.quote(name)}@{urllib.parse.quote(version, safe='')}"
    if qualifiers:
        url += "?" + "&".join(f"{k}={urllib.parse.quote(v, safe='')}" for k, v in sorted(qualifiers.items()))
    return [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": url}]


def debian_package(fields, release):
    name, version = fields["Package"], fields["Version"]
    source = fields.get("Source", name)
    if "(" not in source:
        source += f" ({version})"
    return {**UNKNOWN, "SPDXID": f"SPDXRef-Package-{name.replace('+', '.')}", "name": name, "versionInfo": version, "primaryPackagePurpose": "LIBRARY",
            "supplier": "Organization: Debian", "licenseDeclared": "NOASSERTION", "summary": fields.get("Description", name),
            "sourceInfo": f"Debian source package {source}; the licence is in the image's /usr/share/doc/{name}/copyright.gz",
            "externalRefs": purl("deb/debian", name, version, arch=fields["Architecture"], distro=f"debian-{fields.get('Suite', release)}")}


def contents(saved, image, path):
    """Returns three things from an image: the SHA-256 of the program at `path`, dpkg's records, and Debian's release."""
    program, found, release = None, {}, "unknown"
    for member, content in files(saved, image):
        if "/" + member.name == path:
            program = hashlib.sha256(content.read()).hexdigest()
        elif member.name.startswith(STATUS):
            fields = record(content)
            found[fields["Package"]] = fields
        elif member.name == "usr/lib/os-release":
            lines = dict(line.split("=", 1) for line in content.read().decode().splitlines() if "=" in line)
            release = lines["VERSION_ID"].strip('"')
    if program is None:
        sys.exit(f"sbom.py: the image has no {path}")
    return program, [debian_package(found[p], release) for p in sorted(found)]


def select(saved, architecture):
    """Returns three things of the image with this architecture: its manifest's descriptor, its entry in manifest.json, its configuration."""
    described = json.load(saved.extractfile("index.json"))["manifests"]
    if "platform" not in described[0]:  # an image index
        described = json.load(saved.extractfile("blobs/" + described[0]["digest"].replace(":", "/")))["manifests"]
    entries = json.load(saved.extractfile("manifest.json"))
    found = [(d, e) for d, e in zip(described, entries, strict=True) if architecture in (None, d["platform"]["architecture"])]
    if len(found) != 1:
        sys.exit(f"sbom.py: the archive has images for {', '.join(d['platform']['architecture'] for d in described)}: give one of these architectures")
    return *found[0], json.load(saved.extractfile(found[0][1]["Config"]))


def document(archive, architecture=None):
    with tarfile.open(fileobj=archive) as saved:
        manifest, image, config = select(saved, architecture)
        labels = config["config"]["Labels"]
        name, version = (labels[f"org.opencontainers.image.{label}"] for label in ("title", "version"))
        digest = manifest["digest"].split(":")[1]
        (path,) = config["config"]["Entrypoint"]
        program, packages = contents(saved, image, path)
    whole = {**UNKNOWN, "SPDXID": "SPDXRef-Image", "name": f"{name}-image", "versionInfo": version, "primaryPackagePurpose": "CONTAINER",
             "licenseDeclared": "NOASSERTION", "checksums": [{"algorithm": "SHA256", "checksumValue": digest}],
             "externalRefs": purl("oci", name, f"sha256:{digest}", arch=config["architecture"])}
    ours = {**UNKNOWN, "SPDXID": "SPDXRef-Program", "name": path.rpartition("/")[2], "versionInfo": version, "primaryPackagePurpose": "APPLICATION",
            "licenseDeclared": labels["org.opencontainers.image.licenses"], "sourceInfo": f"revision {labels['org.opencontainers.image.revision']}",
            "checksums": [{"algorithm": "SHA256", "checksumValue": program}], "externalRefs": purl("generic", path.rpartition("/")[2], version)}
    within = [{"spdxElementId": "SPDXRef-Image", "relationshipType": "CONTAINS", "relatedSpdxElement": p["SPDXID"]} for p in (ours, *packages)]
    return {"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": f"{name}-{version}",
            "documentNamespace": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, digest)}",
            "creationInfo": {"created": config["created"], "creators": [f"Tool: sbom.py-{version}"]}, "packages": [whole, ours, *packages],
            "relationships": [{"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES", "relatedSpdxElement": "SPDXRef-Image"}, *within]}


if __name__ == "__main__":
    if len(sys.argv) > 2:
        sys.exit(__doc__.strip())
    json.dump(document(io.BytesIO(sys.stdin.buffer.read()), *sys.argv[1:]), sys.stdout, indent=1)
    print()
