"""conf/version.sh and make: the version comes from git or from the source archive, and the programs report it."""

import os
import pathlib
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
AUTHOR = {f"GIT_{who}_{what}": text for who in ("AUTHOR", "COMMITTER")
          for what, text in (("NAME", "n"), ("EMAIL", "n@localhost"), ("DATE", "2026-01-02T03:04:05Z"))}


def git(tree, *args):
    env = {**os.environ, **AUTHOR, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
    return subprocess.run(["git", *args], cwd=tree, env=env, capture_output=True, text=True, check=True).stdout.strip()


def version(tree):
    return subprocess.run(["sh", tree / "conf/version.sh"], cwd="/", capture_output=True, text=True, check=True).stdout.strip()


def files(tree):
    (tree / "conf").mkdir(parents=True)
    shutil.copy(ROOT / "conf/version.sh", tree / "conf")
    shutil.copy(ROOT / ".gitattributes", tree)
    (tree / "CHANGELOG.md").write_text("# Changes\n\n## Next\n\n* A.\n\n## 1.2.0\n\n* B.\n\n## 1.1.9\n")
    return tree


@pytest.fixture
def tree(tmp_path):
    """A repository with one commit."""
    made = files(tmp_path / "tree")
    git(made, "init", "-q")
    git(made, "add", "-A")
    git(made, "commit", "-qm", "first")
    return made


def unpacked(tree, to, *args):
    to.mkdir()
    data = subprocess.run(["git", "archive", *args, "HEAD"], cwd=tree, capture_output=True, check=True).stdout
    subprocess.run(["tar", "-x"], cwd=to, input=data, check=True)
    return to


def test_a_tag_is_the_version_and_commits_after_it_are_counted(tree):
    git(tree, "tag", "v1.2.3")
    assert version(tree) == "1.2.3"
    git(tree, "commit", "-q", "--allow-empty", "-m", "more")
    git(tree, "tag", "another")  # not a version
    assert version(tree) == f"1.2.3+1.g{git(tree, 'rev-parse', 'HEAD')[:12]}"


def test_without_a_tag_it_is_the_changelogs_and_all_commits(tree):
    assert version(tree) == f"1.2.0+1.g{git(tree, 'rev-parse', 'HEAD')[:12]}"


def test_an_archive_keeps_its_version(tree, tmp_path):
    head = git(tree, "rev-parse", "HEAD")[:12]
    assert version(unpacked(tree, tmp_path / "untagged")) == f"1.2.0+g{head}"
    git(tree, "tag", "v1.2.3")
    assert version(unpacked(tree, tmp_path / "tagged")) == "1.2.3"
    assert version(unpacked(tree, tmp_path / "released", "--add-virtual-file=.version:9.8.7+1.gabc")) == "9.8.7+1.gabc"


def test_an_archive_inside_another_repository_does_not_take_its_version(tree):
    inner = unpacked(tree, tree / "inner")
    git(tree, "tag", "v7.7.7")
    assert version(inner).startswith("1.2.0+g")


def test_files_alone_have_the_changelogs(tmp_path):
    assert version(files(tmp_path / "files")) == "1.2.0"


def test_the_programs_say_it_and_nothing_else_is_compiled_for_another(tmp_path):
    """A commit changes the version. Then make compiles only one object again and links the programs."""
    def make(*args):
        return subprocess.run(["make", "-n", f"BUILD={tmp_path}", *args], cwd=ROOT, capture_output=True, text=True, check=True).stdout

    compiled = [line for line in make("VERSION=5.6.7").splitlines() if " -c " in line]
    (one,) = [line for line in compiled if "5.6.7" in line]
    assert len(compiled) > 100 and f"-o {tmp_path}/version.o lib/version.c" in one
    built = os.environ.get("BUILD", ROOT / "build")
    expected = pathlib.Path(built, "version").read_text()  # the version from git at the time of the build
    said = {name: subprocess.run([f"{built}/bin/{name}", "--version"], capture_output=True, text=True, check=True).stdout for name in ("kubedns", "nanny", "sidecar", "kubedns-migrate")}
    modules = " ".join((ROOT / "kubedns/modules/list").read_text().split())
    assert said == {name: f"{name} {expected}" + (f"modules: {modules}\n" if name == "kubedns" else "") for name in said}
