"""conf/image: images that differ only in when and in which order they were built become the same bytes; archives and SBOMs that others read."""

import hashlib
import io
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile

import pytest

TOOLS = pathlib.Path(__file__).resolve().parents[3] / "conf/image"
STATUS = b"Package: libx++\nStatus: install ok installed\nArchitecture: amd64\nSource: x (1.2)\nVersion: 1.2-3+deb12u4\nDescription: a library\n"
FILES = {"etc/passwd": b"root:x:0:0::/:/nologin\n", "usr/lib/os-release": b'NAME="Debian"\nVERSION_ID="12"\n', "usr/sbin/program": b"\x7fELF...",
         "var/lib/dpkg/status.d/libx": STATUS}
LABELS = {"org.opencontainers.image." + label: value for label, value in
          {"title": "program", "version": "1.0+2.gabc", "revision": "abc", "licenses": "Apache-2.0"}.items()}
READER = pathlib.Path(os.environ.get("BUILD", TOOLS.parents[1] / "build")) / "spdx"

needs_skopeo = pytest.mark.skipif(not shutil.which("skopeo"), reason="no skopeo here")
needs_reader = pytest.mark.skipif(not READER.exists(), reason="make spdx was not run (it needs Go)")


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
              "config": {"Hostname": str(mtime), "Image": f"sha256:{mtime}", "User": "65534:65534", "Entrypoint": ["/usr/sbin/program"], "Cmd": None,
                         "Labels": LABELS},
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
        assert config["config"] == {"User": "65534:65534", "Entrypoint": ["/usr/sbin/program"], "Labels": LABELS}
        assert config["created"] == "2023-11-14T22:13:20Z"
    with tarfile.open(fileobj=io.BytesIO(layer)) as files:
        assert {m.name: files.extractfile(m).read() for m in files} == FILES
        assert {m.name: m.mode for m in files}["usr/sbin/program"] == 0o755


def test_packages_are_listed_with_their_patch_level():
    assert run("packages.py", saved(FILES, 1000)) == b"libx++ 1.2-3+deb12u4\n"


def archive(mtime=1000, **order):
    """The image that was built at this time, as it is published."""
    return run("oci.py", run("reproducible.py", saved(FILES, mtime, **order), "1700000000"), "1700000000")


def test_two_builds_are_the_same_archive_and_sbom():
    first, second = archive(), archive(2000, order=lambda items: items[::-1])
    assert first == second and run("sbom.py", first) == run("sbom.py", second)


def test_each_blob_of_the_archive_is_named_for_its_digest_and_the_manifest_leads_to_all():
    with tarfile.open(fileobj=io.BytesIO(archive())) as tar:
        data = {m.name: tar.extractfile(m).read() for m in tar if m.isreg()}
        assert {m.mtime for m in tar} == {1700000000} and {m.uname for m in tar} == {""}
    blobs = {name: content for name, content in data.items() if name.startswith("blobs/")}
    assert all(name == "blobs/sha256/" + hashlib.sha256(content).hexdigest() for name, content in blobs.items())
    (described,) = json.loads(data["index.json"])["manifests"]
    assert described["annotations"] == {"org.opencontainers.image.ref.name": "1"}
    assert described["platform"] == {"architecture": "amd64", "os": "linux"}
    manifest = json.loads(blobs["blobs/" + described["digest"].replace(":", "/")])
    named = [described, manifest["config"], *manifest["layers"]]
    assert {"blobs/" + d["digest"].replace(":", "/"): d["size"] for d in named} == {name: len(content) for name, content in blobs.items()}


def test_a_layer_that_is_not_the_configurations_is_refused():
    whole = saved(FILES, 1000)
    torn = whole.replace(b"root:x:0:0::/:/nologin", b"root:x:0:0::/:/bin/sh ")
    done = subprocess.run([sys.executable, TOOLS / "oci.py", "1700000000"], input=torn, capture_output=True, check=False)
    assert done.returncode == 1 and b"is not the layer sha256:" in done.stderr


@needs_skopeo
@pytest.mark.parametrize("transport", ["oci-archive", "docker-archive"])
def test_skopeo_reads_the_archive_and_copies_it_unchanged(tmp_path, transport):
    (tmp_path / "image.tar").write_bytes(archive())
    source = f"{transport}:{tmp_path}/image.tar:{'1' if transport == 'oci-archive' else 'program:1'}"
    seen = json.loads(subprocess.run(["skopeo", "inspect", source], capture_output=True, check=True).stdout)
    assert seen["Labels"] == LABELS and seen["Created"] == "2023-11-14T22:13:20Z"
    subprocess.run(["skopeo", "--insecure-policy", "copy", source, f"dir:{tmp_path}/copy"], capture_output=True, check=True)
    if transport == "oci-archive":  # the digest by which a registry would know it
        assert seen["Digest"] == "sha256:" + hashlib.sha256((tmp_path / "copy/manifest.json").read_bytes()).hexdigest()
        with tarfile.open(tmp_path / "image.tar") as tar:
            assert seen["Digest"] == json.load(tar.extractfile("index.json"))["manifests"][0]["digest"]


@needs_reader
def test_spdx_reads_the_sbom():
    done = subprocess.run([READER], input=run("sbom.py", archive()), capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.decode().splitlines() == [
        "program 1.0+2.gabc pkg:generic/program@1.0%2B2.gabc",
        "libx++ 1.2-3+deb12u4 pkg:deb/debian/libx%2B%2B@1.2-3%2Bdeb12u4?arch=amd64&distro=debian-12"]


def test_the_sbom_is_of_this_image_and_program():
    made = archive()
    document = json.loads(run("sbom.py", made))
    with tarfile.open(fileobj=io.BytesIO(made)) as tar:
        (image,) = json.load(tar.extractfile("index.json"))["manifests"]
    sums = {p["name"]: c["checksumValue"] for p in document["packages"] for c in p.get("checksums", [])}
    assert sums == {"program-image": image["digest"].split(":")[1], "program": hashlib.sha256(FILES["usr/sbin/program"]).hexdigest()}
    assert document["creationInfo"]["created"] == "2023-11-14T22:13:20Z"
