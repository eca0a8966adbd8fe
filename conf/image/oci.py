#!/usr/bin/env python3
"""
docker save IMAGE... | oci.py SECONDS >ARCHIVE

Converts the image to an OCI archive: a tar file of an OCI image layout (image-spec 1.0: oci-layout, index.json, blobs). skopeo, podman,
containerd and oras read it. It also has the manifest.json that `docker load` needs. The same image gives the same bytes, and therefore the
same digest in a registry if the archive is copied there unchanged. SECONDS (SOURCE_DATE_EPOCH) is the time of the archive's files. Several images
must be the same program for different architectures. The archive then has one image index, with a manifest for each architecture. Its name
is the first of their names in alphabetical order, so NAME:TAG and not NAME:TAG-arm64.
"""

import hashlib
import io
import json
import sys
import tarfile
import zlib

OCI = "application/vnd.oci.image."


def compressed(data):
    """Compresses with gzip, without time and name, in the same way in every Python version."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    return packer.compress(data) + packer.flush()


def text(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


class Layout:
    """The files of an image layout: {name: content}. The name of a blob is its digest."""

    def __init__(self):
        self.files = {"oci-layout": text({"imageLayoutVersion": "1.0.0"})}

    def blob(self, kind, data):
        """Adds a blob. Returns its descriptor (image-spec, descriptor.md)."""
        digest = hashlib.sha256(data).hexdigest()
        self.files[f"blobs/sha256/{digest}"] = data
        return {"mediaType": OCI + kind, "digest": f"sha256:{digest}", "size": len(data)}

    def write(self, out, seconds):
        with tarfile.open(fileobj=out, mode="w|", format=tarfile.USTAR_FORMAT) as made:
            for name in ("blobs", "blobs/sha256"):
                folder = tarfile.TarInfo(name)
                folder.type, folder.mode, folder.mtime = tarfile.DIRTYPE, 0o755, seconds
                made.addfile(folder)
            for name, data in sorted(self.files.items()):
                member = tarfile.TarInfo(name)
                member.size, member.mtime = len(data), seconds
                made.addfile(member, io.BytesIO(data))


def path(descriptor):
    return "blobs/" + descriptor["digest"].replace(":", "/")


def add_image(layout, saved, image):
    """Adds an image of an open archive. Returns its descriptor with the platform, and the entry of `docker load` for it."""
    (name,) = image["RepoTags"]
    config_bytes = saved.extractfile(image["Config"]).read()
    config = json.loads(config_bytes)
    layers = []
    for source, expected in zip(image["Layers"], config["rootfs"]["diff_ids"], strict=True):
        data = saved.extractfile(source).read()
        if "sha256:" + hashlib.sha256(data).hexdigest() != expected:
            sys.exit(f"oci.py: {name}: {source} is not the layer {expected} of its configuration")
        layers.append(layout.blob("layer.v1.tar+gzip", compressed(data)))
    described = layout.blob("config.v1+json", config_bytes)
    manifest = layout.blob("manifest.v1+json", text({"schemaVersion": 2, "mediaType": OCI + "manifest.v1+json", "config": described, "layers": layers}))
    platform = {k: config[k] for k in ("architecture", "os", "variant") if k in config}
    return {**manifest, "platform": platform}, {"Config": path(described), "RepoTags": [name], "Layers": [path(layer) for layer in layers]}


def index(manifests):
    return text({"schemaVersion": 2, "mediaType": OCI + "index.v1+json", "manifests": manifests})


def convert(archive, out, seconds):
    """Converts the output of `docker save`. Input and output are binary files."""
    layout = Layout()
    with tarfile.open(fileobj=archive) as saved:
        images = sorted(json.load(saved.extractfile("manifest.json")), key=lambda image: image["RepoTags"])  # docker's order is arbitrary
        manifests, entries = zip(*(add_image(layout, saved, image) for image in images))
    platforms = [m["platform"] for m in manifests]
    if any(p in platforms[:i] for i, p in enumerate(platforms)):
        sys.exit(f"oci.py: two images have the platform {platforms[0]}: an index has one image for each")
    top = manifests[0] if len(manifests) == 1 else layout.blob("index.v1+json", index(manifests))
    tag = entries[0]["RepoTags"][0].rpartition(":")[2]
    layout.files["index.json"] = index([{**top, "annotations": {"org.opencontainers.image.ref.name": tag}}])
    layout.files["manifest.json"] = text(entries)
    layout.write(out, seconds)


if __name__ == "__main__":
    if len(sys.argv) != 2 or not sys.argv[1].isdigit():
        sys.exit(__doc__.strip())
    convert(io.BytesIO(sys.stdin.buffer.read()), sys.stdout.buffer, int(sys.argv[1]))
