#!/usr/bin/env python3
"""
provenance.py VERSION COMMIT DIRECTORY >STATEMENT

Writes the provenance of a release: an in-toto statement with SLSA's predicate. It says that `make release` made the files in DIRECTORY, and the
images in their archives, from this commit. The same release gives the same statement. On GitHub's runners, the statement also names the
repository and the workflow, from the environment that GitHub sets. Elsewhere the builder is the person who signs the release.
"""

import hashlib
import json
import os
import pathlib
import sys
import tarfile


def subject(name, digest):
    return {"name": name, "digest": {"sha256": digest.removeprefix("sha256:")}}


def images(archive):
    """Yields (name, digest) for the index of the archive, and for the image of each architecture."""
    name = archive.name.removesuffix(".oci.tar")
    with tarfile.open(archive) as layout:
        (top,) = json.load(layout.extractfile("index.json"))["manifests"]
        yield f"{name} image", top["digest"]
        for image in json.load(layout.extractfile("blobs/" + top["digest"].replace(":", "/"))).get("manifests", []):
            yield f"{name} image {image['platform']['architecture']}", image["digest"]


def statement(version, commit, directory):
    files = sorted(directory.iterdir())
    subjects = [subject(file.name, hashlib.sha256(file.read_bytes()).hexdigest()) for file in files]
    subjects += [subject(*image) for file in files if file.name.endswith(".oci.tar") for image in images(file)]
    source, builder = {"digest": {"gitCommit": commit}}, "urn:kubedns:signer"
    if os.environ.get("GITHUB_ACTIONS") == "true":
        server = os.environ["GITHUB_SERVER_URL"]
        source["uri"] = f"git+{server}/{os.environ['GITHUB_REPOSITORY']}@{os.environ['GITHUB_REF']}"
        builder = f"{server}/{os.environ['GITHUB_WORKFLOW_REF']}"
    return {"_type": "https://in-toto.io/Statement/v1", "subject": subjects, "predicateType": "https://slsa.dev/provenance/v1",
            "predicate": {"buildDefinition": {"buildType": "urn:kubedns:make-release", "externalParameters": {"version": version},
                                              "resolvedDependencies": [source]},
                          "runDetails": {"builder": {"id": builder}}}}


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__.strip())
    json.dump(statement(*sys.argv[1:3], pathlib.Path(sys.argv[3])), sys.stdout, indent=1)
    print()
