"""conf/image: images that differ only in build time and build order become byte-identical. Other tools can read the archives and SBOMs."""

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
    """Returns what `docker save` prints for an image with one layer and this build time."""
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


def test_a_package_that_debian_has_fixed_since_is_reported():
    image = saved({**FILES, "var/lib/dpkg/status.d/libx": STATUS + b"Newer: 1.2-3+deb12u5\n"}, 1000)
    for arguments, status in ((), 0), (("--current",), 1):
        done = subprocess.run([sys.executable, TOOLS / "packages.py", *arguments], input=image, capture_output=True, check=False)
        assert (done.returncode, done.stdout) == (status, b"libx++ 1.2-3+deb12u4\n")
        assert b"libx++: compiled from 1.2-3+deb12u4, but Debian has 1.2-3+deb12u5" in done.stderr
    assert run("packages.py", saved(FILES, 1000), "--current") == b"libx++ 1.2-3+deb12u4\n"


def archive(mtime=1000, files=None, **order):
    """The published archive of an image with this build time."""
    return run("oci.py", run("reproducible.py", saved(files or FILES, mtime, **order), "1700000000"), "1700000000")


@pytest.mark.parametrize("suite, distro", [(b"", "debian-12"), (b"Suite: forky\n", "debian-forky")])
def test_the_sbom_names_the_release_that_a_package_comes_from(suite, distro):
    """Scanners look there for the fixes of the package."""
    made = archive(files={**FILES, "var/lib/dpkg/status.d/libx": STATUS + suite})
    libx = json.loads(run("sbom.py", made))["packages"][2]
    assert libx["externalRefs"][0]["referenceLocator"].endswith(f"distro={distro}")


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


def two_architectures(seconds=1000, turned=False):
    """Returns what `docker save` prints for the program's images for amd64 and arm64, whose programs differ. Docker's order is arbitrary."""
    arm = {**FILES, "usr/sbin/program": b"\x7fELF arm", "var/lib/dpkg/status.d/libx": STATUS.replace(b"amd64", b"arm64")}
    images = [(saved(FILES, seconds), [], "program:1"), (saved(arm, seconds + 1), ["arm64"], "program:1-arm64")]
    members, manifest = [], []
    for data, architecture, tag in images:
        with tarfile.open(fileobj=io.BytesIO(run("reproducible.py", data, "1700000000", *architecture))) as tar:
            for m in tar:
                if m.name == "manifest.json":
                    manifest += [{**image, "RepoTags": [tag]} for image in json.load(tar.extractfile(m))]
                else:
                    members.append((m.name, tar.extractfile(m).read()))
    return pack([*members, ("manifest.json", json.dumps(manifest[::-1] if turned else manifest).encode())], 1000)


def test_images_of_two_architectures_are_one_index():
    made = run("oci.py", two_architectures(), "1700000000")
    assert made == run("oci.py", two_architectures(2000), "1700000000")
    assert made == run("oci.py", two_architectures(turned=True), "1700000000")
    with tarfile.open(fileobj=io.BytesIO(made)) as tar:
        (top,) = json.load(tar.extractfile("index.json"))["manifests"]
        assert top["mediaType"] == "application/vnd.oci.image.index.v1+json" and top["annotations"] == {"org.opencontainers.image.ref.name": "1"}
        index = tar.extractfile("blobs/" + top["digest"].replace(":", "/")).read()
        assert (len(index), "sha256:" + hashlib.sha256(index).hexdigest()) == (top["size"], top["digest"])
        manifests = json.loads(index)["manifests"]
        assert [m["platform"] for m in manifests] == [{"architecture": a, "os": "linux"} for a in ("amd64", "arm64")]
        for m in manifests:
            manifest = json.load(tar.extractfile("blobs/" + m["digest"].replace(":", "/")))
            config = json.load(tar.extractfile("blobs/" + manifest["config"]["digest"].replace(":", "/")))
            assert config["architecture"] == m["platform"]["architecture"]
    for architecture, program in (("amd64", FILES["usr/sbin/program"]), ("arm64", b"\x7fELF arm")):
        whole, ours, libx = json.loads(run("sbom.py", made, architecture))["packages"]
        assert whole["checksums"][0]["checksumValue"] in {m["digest"].split(":")[1] for m in manifests if m["platform"]["architecture"] == architecture}
        assert ours["checksums"][0]["checksumValue"] == hashlib.sha256(program).hexdigest()
        assert f"arch={architecture}&" in libx["externalRefs"][0]["referenceLocator"]
    refused = subprocess.run([sys.executable, TOOLS / "sbom.py"], input=made, capture_output=True, check=False)
    assert refused.returncode == 1 and b"amd64, arm64: give one" in refused.stderr


@needs_skopeo
def test_skopeo_copies_the_whole_index(tmp_path):
    (tmp_path / "image.tar").write_bytes(run("oci.py", two_architectures(), "1700000000"))
    source = f"oci-archive:{tmp_path}/image.tar:1"
    raw = subprocess.run(["skopeo", "inspect", "--raw", source], capture_output=True, check=True).stdout
    with tarfile.open(tmp_path / "image.tar") as tar:
        assert "sha256:" + hashlib.sha256(raw).hexdigest() == json.load(tar.extractfile("index.json"))["manifests"][0]["digest"]
    subprocess.run(["skopeo", "--insecure-policy", "copy", "--all", source, f"dir:{tmp_path}/copy"], capture_output=True, check=True)
    assert (tmp_path / "copy/manifest.json").read_bytes() == raw
    for architecture in ("amd64", "arm64"):
        seen = subprocess.run(["skopeo", "--override-arch", architecture, "inspect", source], capture_output=True, check=True).stdout
        assert json.loads(seen)["Architecture"] == architecture


def test_an_index_with_two_images_of_one_architecture_is_refused():
    whole = two_architectures().replace(b'"architecture": "arm64"', b'"architecture": "amd64"')
    done = subprocess.run([sys.executable, TOOLS / "oci.py", "1700000000"], input=whole, capture_output=True, check=False)
    assert done.returncode == 1 and b"two images have the platform" in done.stderr


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
    if transport == "oci-archive":  # the digest that a registry would compute
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
