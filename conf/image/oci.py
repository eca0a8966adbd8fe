#!/usr/bin/env python3
"""
docker save IMAGE | oci.py SECONDS >ARCHIVE

The image as an OCI archive: a tar of an OCI image layout (image-spec 1.0: oci-layout, index.json, blobs), which skopeo, podman, containerd and
oras read, with the manifest.json by which `docker load` does. The same image gives the same bytes, and so the digest that a registry has it
under when the archive is copied there as it is. SECONDS (of SOURCE_DATE_EPOCH) is the time of the archive's files.
"""

import hashlib
import io
import json
import sys
import tarfile
import zlib

OCI = "application/vnd.oci.image."


def compressed(data):
    """gzip without a time or a name, whichever Python writes it."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    return packer.compress(data) + packer.flush()


def text(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


class Layout:
    """Files of an image layout by name; a blob is named for its digest."""

    def __init__(self):
        self.files = {"oci-layout": text({"imageLayoutVersion": "1.0.0"})}

    def blob(self, kind, data):
        """Its descriptor (image-spec, descriptor.md)."""
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


def convert(archive, out, seconds):
    """From what `docker save` gives of one image, a binary file, to another."""
    layout = Layout()
    with tarfile.open(fileobj=archive) as saved:
        (image,) = json.load(saved.extractfile("manifest.json"))
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
    layout.files["index.json"] = text({"schemaVersion": 2, "mediaType": OCI + "index.v1+json", "manifests": [
        {**manifest, "platform": platform, "annotations": {"org.opencontainers.image.ref.name": name.rpartition(":")[2]}}]})
    layout.files["manifest.json"] = text([{"Config": path(described), "RepoTags": [name], "Layers": [path(layer) for layer in layers]}])
    layout.write(out, seconds)


if __name__ == "__main__":
    if len(sys.argv) != 2 or not sys.argv[1].isdigit():
        sys.exit(__doc__.strip())
    convert(io.BytesIO(sys.stdin.buffer.read()), sys.stdout.buffer, int(sys.argv[1]))
