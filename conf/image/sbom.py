#!/usr/bin/env python3
"""
sbom.py <ARCHIVE >DOCUMENT

What is in an image, as SPDX 2.3 in JSON: the program with its hash and each Debian package from dpkg's record of it in the image, with the patch
level and the source package, by which scanners know what is mended. ARCHIVE is oci.py's. The same image gives the same document.
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
    """A package URL (purl-spec), as an external reference."""
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
            "externalRefs": purl("deb/debian", name, version, arch=fields["Architecture"], distro=f"debian-{release}")}


def contents(saved, image, name):
    """The program's SHA-256, dpkg's records, and Debian's release, of an image."""
    program, found, release = None, {}, "unknown"
    for member, content in files(saved, image):
        if member.name == f"usr/sbin/{name}":
            program = hashlib.sha256(content.read()).hexdigest()
        elif member.name.startswith(STATUS):
            fields = record(content)
            found[fields["Package"]] = fields
        elif member.name == "usr/lib/os-release":
            lines = dict(line.split("=", 1) for line in content.read().decode().splitlines() if "=" in line)
            release = lines["VERSION_ID"].strip('"')
    if program is None:
        sys.exit(f"sbom.py: the image has no usr/sbin/{name}")
    return program, [debian_package(found[p], release) for p in sorted(found)]


def document(archive):
    with tarfile.open(fileobj=archive) as saved:
        (manifest,) = json.load(saved.extractfile("index.json"))["manifests"]
        (image,) = json.load(saved.extractfile("manifest.json"))
        config = json.load(saved.extractfile(image["Config"]))
        labels = config["config"]["Labels"]
        name, version = (labels[f"org.opencontainers.image.{label}"] for label in ("title", "version"))
        digest = manifest["digest"].split(":")[1]
        program, packages = contents(saved, image, name)
    whole = {**UNKNOWN, "SPDXID": "SPDXRef-Image", "name": f"{name}-image", "versionInfo": version, "primaryPackagePurpose": "CONTAINER",
             "licenseDeclared": "NOASSERTION", "checksums": [{"algorithm": "SHA256", "checksumValue": digest}],
             "externalRefs": purl("oci", name, f"sha256:{digest}", arch=config["architecture"])}
    ours = {**UNKNOWN, "SPDXID": "SPDXRef-Program", "name": name, "versionInfo": version, "primaryPackagePurpose": "APPLICATION",
            "licenseDeclared": labels["org.opencontainers.image.licenses"], "sourceInfo": f"revision {labels['org.opencontainers.image.revision']}",
            "checksums": [{"algorithm": "SHA256", "checksumValue": program}], "externalRefs": purl("generic", name, version)}
    within = [{"spdxElementId": "SPDXRef-Image", "relationshipType": "CONTAINS", "relatedSpdxElement": p["SPDXID"]} for p in (ours, *packages)]
    return {"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": f"{name}-{version}",
            "documentNamespace": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, digest)}",
            "creationInfo": {"created": config["created"], "creators": [f"Tool: sbom.py-{version}"]}, "packages": [whole, ours, *packages],
            "relationships": [{"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES", "relatedSpdxElement": "SPDXRef-Image"}, *within]}


if __name__ == "__main__":
    if len(sys.argv) != 1:
        sys.exit(__doc__.strip())
    json.dump(document(io.BytesIO(sys.stdin.buffer.read())), sys.stdout, indent=1)
    print()
