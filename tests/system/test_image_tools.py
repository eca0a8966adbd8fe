"""conf/image: images that differ only in when and in which order they were built become the same bytes; what packages they carry."""

import hashlib
import io
import json
import pathlib
import subprocess
import sys
import tarfile

TOOLS = pathlib.Path(__file__).resolve().parents[2] / "conf/image"
STATUS = b"Package: libx\nStatus: install ok installed\nSource: x (1.2)\nVersion: 1.2-3+deb12u4\nDescription: a library\n"
FILES = {"etc/passwd": b"root:x:0:0::/:/nologin\n", "usr/sbin/program": b"\x7fELF...", "var/lib/dpkg/status.d/libx": STATUS}


def pack(files, mtime):
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        for name, data in files:
            member = tarfile.TarInfo(name)
            member.size, member.mtime, member.uname = len(data), mtime, f"user{mtime}"
            member.mode = 0o755 if "sbin" in name else 0o644
            tar.addfile(member, io.BytesIO(data))
    return made.getvalue()


def saved(files, mtime, order=lambda items: items):
    """As `docker save` gives an image of one layer that was built at this time."""
    layer = pack(order(list(files.items())), mtime)
    config = {"architecture": "amd64", "os": "linux", "created": f"time {mtime}", "container": f"container {mtime}", "docker_version": "20.10",
              "config": {"Hostname": str(mtime), "Image": f"sha256:{mtime}", "User": "65534:65534", "Entrypoint": ["/usr/sbin/program"], "Cmd": None},
              "history": [{"created": f"time {mtime}", "created_by": f"COPY dir:{mtime}"}],
              "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(layer).hexdigest()]}}
    manifest = [{"Config": f"{mtime}.json", "RepoTags": ["program:1"], "Layers": [f"{mtime}/layer.tar"]}]
    return pack([(f"{mtime}/layer.tar", layer), (f"{mtime}.json", json.dumps(config).encode()), ("manifest.json", json.dumps(manifest).encode())], mtime)


def run(tool, data, *args):
    done = subprocess.run([sys.executable, TOOLS / tool, *args], input=data, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def test_two_builds_of_the_same_files_are_the_same_image():
    first, second = saved(FILES, 1000), saved(FILES, 2000, order=lambda items: items[::-1])
    assert first != second
    assert run("reproducible.py", first, "1700000000") == run("reproducible.py", second, "1700000000")


def test_another_file_mode_or_time_is_another_image():
    base = run("reproducible.py", saved(FILES, 1000), "1700000000")
    assert run("reproducible.py", saved({**FILES, "etc/passwd": b"other"}, 1000), "1700000000") != base
    assert run("reproducible.py", saved({**FILES, "usr/bin/program": b"\x7fELF..."}, 1000), "1700000000") != base
    assert run("reproducible.py", saved(FILES, 1000), "1700000001") != base


def test_the_result_is_whole_and_names_its_own_digests():
    out = run("reproducible.py", saved(FILES, 1000), "1700000000")
    with tarfile.open(fileobj=io.BytesIO(out)) as tar:
        (image,) = json.load(tar.extractfile("manifest.json"))
        data = tar.extractfile(image["Config"]).read()
        assert image["Config"] == hashlib.sha256(data).hexdigest() + ".json" and image["RepoTags"] == ["program:1"]
        config = json.loads(data)
        layer = tar.extractfile(image["Layers"][0]).read()
        assert config["rootfs"]["diff_ids"] == ["sha256:" + hashlib.sha256(layer).hexdigest()]
        assert config["config"] == {"User": "65534:65534", "Entrypoint": ["/usr/sbin/program"]}
        assert config["created"] == "2023-11-14T22:13:20Z"
    with tarfile.open(fileobj=io.BytesIO(layer)) as files:
        assert {m.name: files.extractfile(m).read() for m in files} == FILES
        assert {m.name: m.mode for m in files}["usr/sbin/program"] == 0o755


def test_packages_are_listed_with_their_patch_level():
    assert run("packages.py", saved(FILES, 1000)) == b"libx 1.2-3+deb12u4\n"
