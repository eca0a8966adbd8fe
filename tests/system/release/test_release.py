"""make release: of one commit the same bytes, wherever and whenever, with its version everywhere, signed if asked."""

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

ROOT = pathlib.Path(__file__).resolve().parents[3]
WITHOUT = {"NO_PACKAGES": "1", "NO_IMAGES": "1"}  # what takes minutes

needs_git = pytest.mark.skipif(not (ROOT / ".git").exists(), reason="no repository here")


def git(tree, *args, **env):
    who = {f"GIT_{who}_{what}": text for who in ("AUTHOR", "COMMITTER") for what, text in (("NAME", "n"), ("EMAIL", "n@localhost"))}
    done = subprocess.run(["git", *args], cwd=tree, env={**os.environ, **who, **env}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture
def origin(tmp_path):
    """What is in the working tree as a repository of one commit, without a tag, of the time of its last one."""
    made = tmp_path / "origin"
    made.mkdir()
    for name in git(ROOT, "ls-files", "-co", "--exclude-standard", "-z").split("\0"):
        if name and os.path.lexists(ROOT / name):
            (made / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, made / name, follow_symlinks=False)
    git(made, "init", "-q")
    git(made, "add", "-A")
    time = git(ROOT, "log", "-1", "--format=%cI")
    git(made, "commit", "-qm", "all", GIT_AUTHOR_DATE=time, GIT_COMMITTER_DATE=time)
    return made


def release(tree, umask=0o022, code=0, **env):
    """{file: SHA-256} of what it makes, as SHA256SUMS has it; or what it says when it refuses."""
    done = subprocess.run(["make", "-s", "release", f"BUILD={tree}/out"], cwd=tree, env={**os.environ, "MAKEFLAGS": "", **env}, umask=umask, capture_output=True, text=True, check=False)
    assert done.returncode == (2 if code else 0), done.stderr
    if code:
        return done.stderr
    assert not (tree / "out/bin").exists(), "the packages are built in a copy, not here"
    made = tree / "out/release"
    sums = dict(reversed(line.split("  ")) for line in (made / "SHA256SUMS").read_text().splitlines())
    assert sums == {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in made.iterdir() if not p.name.startswith("SHA256SUMS")}
    return sums


def twice(origin, tmp_path, **env):
    """Two clones, in folders, years, zones and with masks of their own."""
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


@needs_git
def test_two_clones_give_the_same_bytes(origin, tmp_path):
    first, second = twice(origin, tmp_path, **WITHOUT)
    assert first == second and len(first) == 3


@needs_git
@pytest.mark.soak
def test_two_clones_give_the_same_packages_and_images(origin, tmp_path):
    """Everything compiled twice, without a compiler's or an engine's cache."""
    first, second = twice(origin, tmp_path, CCACHE_DISABLE="1")
    assert first == second and len([name for name in first if name.endswith(".deb")]) == 3
    if shutil.which("docker") and subprocess.run(["docker", "info"], capture_output=True, check=False).returncode == 0:
        assert len([name for name in first if name.endswith((".oci.tar", ".spdx.json"))]) == 6
        (tag,) = {re.sub(r"kubedns-(.*)\.oci\.tar", r"\1", name).replace("+", "-") for name in first if re.match(r"kubedns-.*\.oci\.tar", name)}
        subprocess.run(["docker", "rmi", *(f"{name}:{tag}" for name in ("kubedns", "nanny", "sidecar"))], capture_output=True, check=True)


@needs_git
def test_between_two_versions_everything_says_so(origin, tmp_path):
    version = git(origin, "describe", "--always", "--abbrev=12")
    number = subprocess.run(["make", "-s", "image-tag"], cwd=origin, capture_output=True, text=True, check=True).stdout.strip()
    version = f"{number}+1.g{version}"
    tag = version.replace("+", "-")  # an image's has no "+"
    assert set(release(origin, **WITHOUT)) == {f"kubedns-{version}.tar.gz", f"kubedns-chart-{version}.tgz", f"kubedns-manifests-{version}.tar.gz"}
    made = origin / "out/release"
    chart = yaml.safe_load(member(made / f"kubedns-chart-{version}.tgz", "kubedns/Chart.yaml"))
    assert (chart["version"], chart["appVersion"]) == (version, tag)
    settings = yaml.safe_load(member(made / f"kubedns-manifests-{version}.tar.gz", f"kubedns-manifests-{version}/kubernetes/settings/settings.yaml"))["data"]
    assert [settings[f"{n}Image"] for n in ("kubedns", "nanny", "sidecar")] == [f"{n}:{tag}" for n in ("kubedns", "nanny", "sidecar")]
    with tarfile.open(made / f"kubedns-{version}.tar.gz") as tar:
        tar.extractall(tmp_path / "source")
    assert subprocess.run(["make", "-s", "version"], cwd=tmp_path / f"source/kubedns-{version}", capture_output=True, text=True, check=True).stdout == version + "\n"


@needs_git
def test_a_tag_is_a_release_once_the_changelog_has_its_number(origin):
    number = subprocess.run(["make", "-s", "image-tag"], cwd=origin, capture_output=True, text=True, check=True).stdout.strip()
    changes = origin / "CHANGELOG.md"
    changes.write_text(changes.read_text().replace("## Next\n", "## Next\n\n* More.\n", 1) if "## Next" in changes.read_text()
                       else changes.read_text().replace(f"## {number}\n", f"## Next\n\n## {number}\n", 1))
    assert "changes that are not committed" in release(origin, code=1, **WITHOUT)
    git(origin, "commit", "-qam", "next")
    (origin / "lib/stray.c").write_text("int stray;\n")  # the images would be built with it
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
