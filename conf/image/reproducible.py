#!/usr/bin/env python3
"""
docker save IMAGE... | reproducible.py SECONDS [ARCHITECTURE] | docker load

Removes everything from images that differs between two builds: the times and the order of files, the build times, and the names of the
containers used. The same files then give the same bytes and the same image IDs. SECONDS (SOURCE_DATE_EPOCH) becomes the time of all files.
Layers that images share stay shared. ARCHITECTURE becomes the architecture of the images. It is for cross-compiled images, which the engine
labels with its own architecture.
"""

import hashlib
import io
import json
import sys
import tarfile
import time

# The fields of an image's configuration that the Dockerfile sets. The other fields describe the build: parent, container, engine.
KEPT = ("User", "ExposedPorts", "Env", "Entrypoint", "Cmd", "WorkingDir", "Labels", "StopSignal", "Volumes")


def add(out, member, data=None):
    member.pax_headers = {}
    out.addfile(member, data)


def normal_layer(data, seconds):
    """Returns the layer's archive, sorted by name, with one time for all files and without user names."""
    made = io.BytesIO()
    with tarfile.open(fileobj=io.BytesIO(data)) as layer, tarfile.open(fileobj=made, mode="w", format=tarfile.GNU_FORMAT) as out:
        # Hard links go last, because they must follow their targets.
        for member in sorted(layer.getmembers(), key=lambda m: (m.islnk(), m.name)):
            content = layer.extractfile(member) if member.isreg() else None
            member.mtime, member.uname, member.gname = seconds, "", ""
            add(out, member, content)
    return made.getvalue()


def normal_config(config, layers, seconds, architecture):
    created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
    kept = {k: config[k] for k in ("architecture", "os", "variant") if k in config}
    if architecture:
        kept = {"architecture": architecture, "os": config["os"]}
    return {**kept, "created": created, "config": {k: config["config"][k] for k in KEPT if config["config"].get(k)},
            "history": [{"created": created, "created_by": "make images"} for _ in layers],
            "rootfs": {"type": "layers", "diff_ids": ["sha256:" + digest for digest in layers]}}


def convert(archive, out, seconds, architecture=None):
    """Rewrites the output of `docker save`: its manifest.json and the files that it refers to. Input and output are binary files."""
    with tarfile.open(fileobj=archive) as saved:
        def read(name):
            return saved.extractfile(name).read()

        files, manifest, done = {}, [], {}
        for image in json.loads(read("manifest.json")):
            for path in image["Layers"]:
                if path not in done:
                    layer = normal_layer(read(path), seconds)
                    done[path] = hashlib.sha256(layer).hexdigest()
                    files[done[path] + ".tar"] = layer
            layers = [done[path] for path in image["Layers"]]
            config = json.dumps(normal_config(json.loads(read(image["Config"])), layers, seconds, architecture), sort_keys=True).encode()
            name = hashlib.sha256(config).hexdigest() + ".json"
            files[name] = config
            manifest.append({"Config": name, "RepoTags": image["RepoTags"], "Layers": [d + ".tar" for d in layers]})
    files["manifest.json"] = json.dumps(manifest, sort_keys=True).encode()
    with tarfile.open(fileobj=out, mode="w|", format=tarfile.GNU_FORMAT) as made:
        for name, data in sorted(files.items()):
            member = tarfile.TarInfo(name)
            member.size, member.mtime = len(data), seconds
            add(made, member, io.BytesIO(data))


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3) or not sys.argv[1].isdigit():
        sys.exit(__doc__.strip())
    convert(io.BytesIO(sys.stdin.buffer.read()), sys.stdout.buffer, int(sys.argv[1]), *sys.argv[2:])
