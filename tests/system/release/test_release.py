"""
make release: the same commit always gives the same bytes, on every machine and at any time. All files have the commit's version, and a
publisher can sign them.
"""

import base64
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import tarfile
import uuid

import pytest
import yaml
from repository import commit_working_tree, git, needs_git

ROOT = pathlib.Path(__file__).resolve().parents[3]
WITHOUT = {"NO_PACKAGES": "1", "NO_IMAGES": "1", "ONCE": "yes"}  # leaves out the parts that take minutes, and the second build
TWICE = {**WITHOUT, "ONCE": ""}


@pytest.fixture
def origin(tmp_path):
    """Without its tests, a release takes half the time. make release reads none of them."""
    return commit_working_tree(tmp_path / "origin", without=["tests"])


def unfixed():
    """The rows of conf/unfixed: (package, version, places, date, what is missing and why)."""
    rows = [line.split(" | ") for line in (ROOT / "conf/unfixed").read_text().splitlines() if not line.startswith("#")]
    return [(*row[0].split(" "), *row[1:]) for row in rows]


def release(tree, umask=0o022, code=0, **env):
    """Runs make release. Returns {file: SHA-256} from SHA256SUMS, or the error output of make if it fails."""
    done = subprocess.run(["make", "-s", "release", f"BUILD={tree}/out"], cwd=tree, env={**os.environ, "MAKEFLAGS": "", **env}, umask=umask, capture_output=True, text=True, check=False)
    assert done.returncode == (2 if code else 0), done.stderr
    if code:
        return done.stderr
    assert all(f"  {package} {version} | " in done.stderr for package, version, *_ in unfixed()), "it prints conf/unfixed"
    assert not (tree / "out/bin").exists(), "the packages must be built in a copy, not in the tree"
    made = tree / "out/release"
    sums = dict(reversed(line.split("  ")) for line in (made / "SHA256SUMS").read_text().splitlines())
    assert sums == {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in made.iterdir() if not p.name.startswith("SHA256SUMS")}
    return sums


def twice(origin, tmp_path, **env):
    """Makes releases in two clones, with different directories, years, time zones and umasks."""
    git(tmp_path, "clone", "-q", origin, "first")
    git(tmp_path, "clone", "-q", origin, "elsewhere/second")
    second = tmp_path / "elsewhere/second"
    for path in second.rglob("*"):
        if ".git" not in path.parts and not path.is_symlink():
            os.utime(path, (1000000000, 1000000000))
    again = [{"IMAGE_ARGS": f"--build-arg REBUILD={uuid.uuid4()}"} for _ in range(2)]
    return (release(tmp_path / "first", **env, **again[0]), release(second, umask=0o077, TZ="Asia/Tokyo", LC_ALL="C.UTF-8", **env, **again[1]))


def member(archive, name):
    with tarfile.open(archive) as tar:
        return tar.extractfile(name).read().decode()


def test_each_row_of_unfixed_is_about_the_packages_that_the_images_have():
    """If a package has a new version, somebody must read its changes, and then delete or change the row."""
    images = dict(line.split() for line in (ROOT / "conf/image/packages").read_text().splitlines())
    for package, version, places, date, why in unfixed():
        assert re.fullmatch(r"20\d\d-\d\d-\d\d", date) and why
        if "images" in places:
            assert images.get(package) == version, f"conf/unfixed: {package} {version}: the images have {images.get(package)}"


@needs_git
def test_two_clones_give_the_same_bytes(origin, tmp_path):
    first, second = twice(origin, tmp_path, **WITHOUT)
    assert first == second and len(first) == 5


@needs_git
@pytest.mark.soak
def test_two_clones_give_the_same_packages_and_images(tmp_path):
    """Compiles everything twice, without a cache of the compiler or of the image builder."""
    first, second = twice(commit_working_tree(tmp_path / "origin"), tmp_path, CCACHE_DISABLE="1", ONCE="yes")
    assert first == second and len([name for name in first if name.endswith(".deb")]) == 3
    if shutil.which("docker") and subprocess.run(["docker", "info"], capture_output=True, check=False).returncode == 0:
        assert len([name for name in first if name.endswith((".oci.tar", ".spdx.json"))]) == 12
        (tag,) = {re.sub(r"kubedns-(.*)\.oci\.tar", r"\1", name).replace("+", "-") for name in first if re.match(r"kubedns-.*\.oci\.tar", name)}
        own = subprocess.run(["docker", "version", "-f", "{{.Server.Arch}}"], capture_output=True, text=True, check=True).stdout.strip()
        other = "-amd64" if own == "arm64" else "-arm64"
        subprocess.run(["docker", "rmi", *(f"{name}:{tag}{arch}" for name in ("kubedns", "nanny", "nanny-unbound", "sidecar") for arch in ("", other))], capture_output=True, check=True)


@needs_git
def test_between_two_versions_everything_says_so(origin, tmp_path):
    version = git(origin, "describe", "--always", "--abbrev=12")
    number = subprocess.run(["make", "-s", "image-tag"], cwd=origin, capture_output=True, text=True, check=True).stdout.strip()
    version = f"{number}+1.g{version}"
    tag = version.replace("+", "-")  # an image tag cannot contain "+"
    assert set(release(origin, **WITHOUT)) == {f"kubedns-{version}.tar.gz", f"kubedns-chart-{version}.tgz", f"kubedns-manifests-{version}.tar.gz", "RELEASE-NOTES.md",
                                             f"kubedns-{version}.provenance.json"}
    made = origin / "out/release"
    chart = yaml.safe_load(member(made / f"kubedns-chart-{version}.tgz", "kubedns/Chart.yaml"))
    assert (chart["version"], chart["appVersion"]) == (version, tag)
    shown = chart["annotations"]
    assert [i["image"] for i in yaml.safe_load(shown["artifacthub.io/images"])] == [f"{n}:{tag}" for n in ("kubedns", "nanny", "nanny-unbound", "sidecar")]
    section = re.split(r"^## .*$", (origin / "CHANGELOG.md").read_text(), flags=re.M)[1].strip()
    assert (made / "RELEASE-NOTES.md").read_text() == section + "\n"
    changes = yaml.safe_load(shown["artifacthub.io/changes"])
    assert len(changes) == len(re.findall(r"^\* ", section, flags=re.M)) and not any("](" in change for change in changes[:1])
    settings = yaml.safe_load(member(made / f"kubedns-manifests-{version}.tar.gz", f"kubedns-manifests-{version}/kubernetes/settings/settings.yaml"))["data"]
    assert [settings[f"{n}Image"] for n in ("kubedns", "nanny", "nannyUnbound", "sidecar")] \
        == [f"{n}:{tag}" for n in ("kubedns", "nanny", "nanny-unbound", "sidecar")]
    with tarfile.open(made / f"kubedns-{version}.tar.gz") as tar:
        tar.extractall(tmp_path / "source")
    assert subprocess.run(["make", "-s", "version"], cwd=tmp_path / f"source/kubedns-{version}", capture_output=True, text=True, check=True).stdout == version + "\n"


@needs_git
def test_a_release_whose_second_build_differs_is_refused(origin):
    with (origin / "conf/notes.py").open("a") as notes:
        notes.write('    if "notes" in sys.argv:\n        print(pathlib.Path.cwd())\n')
    git(origin, "commit", "-qam", "not reproducible")
    said = release(origin, code=1, **TWICE)
    assert "two builds of" in said and "RELEASE-NOTES.md" in said and "kubedns-chart" not in said


@needs_git
def test_openssl_verifies_what_a_key_file_signs(origin, tmp_path):
    key, public = tmp_path / "key.pem", tmp_path / "public.pem"
    subprocess.run(["openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", key], check=True)
    subprocess.run(["openssl", "pkey", "-in", key, "-pubout", "-out", public], capture_output=True, check=True)
    release(origin, SIGN=str(key), **TWICE)
    sums = origin / "out/release/SHA256SUMS"
    signature = tmp_path / "signature"
    signature.write_bytes(base64.b64decode((origin / "out/release/SHA256SUMS.sig").read_text(), validate=True))

    def verify():
        return subprocess.run(["openssl", "dgst", "-sha256", "-verify", public, "-signature", signature, sums], capture_output=True, check=False).returncode

    assert verify() == 0
    sums.write_text("another\n")
    assert verify() == 1


@needs_git
def test_a_tag_is_a_release_once_the_changelog_has_its_number(origin):
    number = subprocess.run(["make", "-s", "image-tag"], cwd=origin, capture_output=True, text=True, check=True).stdout.strip()
    changes = origin / "CHANGELOG.md"
    changes.write_text(changes.read_text().replace("## Next\n", "## Next\n\n* More.\n", 1) if "## Next" in changes.read_text()
                       else changes.read_text().replace(f"## {number}\n", f"## Next\n\n## {number}\n", 1))
    assert "uncommitted changes" in release(origin, code=1, **WITHOUT)
    git(origin, "commit", "-qam", "next")
    (origin / "lib/stray.c").write_text("int stray;\n")  # the images would contain this file
    assert "lib/stray.c is not committed" in release(origin, code=1, **WITHOUT)
    (origin / "lib/stray.c").unlink()
    git(origin, "tag", f"v{number}")
    assert 'still has a section "## Next"' in release(origin, code=1, **WITHOUT)
    changes.write_text(changes.read_text().replace("## Next\n", ""))
    git(origin, "commit", "-qam", "numbered")
    git(origin, "tag", "-f", f"v{number}")
    assert f"kubedns-{number}.tar.gz" in release(origin, **WITHOUT)
    git(origin, "tag", "-d", f"v{number}")
    git(origin, "tag", "v9.9.9")
    assert 'no section "## 9.9.9"' in release(origin, code=1, **WITHOUT)


@needs_git
@pytest.mark.skipif(not shutil.which("gpg"), reason="no gpg here")
def test_the_checksums_are_signed_if_asked(origin, tmp_path):
    home = tmp_path / "gnupg"
    home.mkdir(mode=0o700)
    env = {**os.environ, "GNUPGHOME": str(home)}

    def gpg(*args):
        return subprocess.run(["gpg", "--batch", *args], env=env, capture_output=True, text=True, check=False)

    try:
        assert gpg("--passphrase", "", "--quick-generate-key", "release@localhost", "ed25519", "sign", "1d").returncode == 0
        release(origin, SIGN="release@localhost", GNUPGHOME=str(home), **WITHOUT)
        made = origin / "out/release"
        assert gpg("--verify", made / "SHA256SUMS.asc", made / "SHA256SUMS").returncode == 0
        (made / "SHA256SUMS").write_text("another\n")
        assert gpg("--verify", made / "SHA256SUMS.asc", made / "SHA256SUMS").returncode == 1
    finally:
        subprocess.run(["gpgconf", "--kill", "all"], env=env, check=False)
