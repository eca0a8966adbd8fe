"""Git repositories that contain the working tree, for tests of releases."""

import os
import pathlib
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]

needs_git = pytest.mark.skipif(not (ROOT / ".git").exists(), reason="no repository here")


def git(tree, *args, **env):
    who = {f"GIT_{who}_{what}": text for who in ("AUTHOR", "COMMITTER") for what, text in (("NAME", "n"), ("EMAIL", "n@localhost"))}
    done = subprocess.run(["git", *args], cwd=tree, env={**os.environ, **who, **env}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def commit_working_tree(made, without=()):
    """
    Makes a repository with one commit that contains the working tree, without these folders. The commit has no tag and the same time as the
    real last commit. Git does not compress the repository.
    """
    made.mkdir()
    for name in git(ROOT, "ls-files", "-co", "--exclude-standard", "-z").split("\0"):
        if name and name.split("/")[0] not in without and os.path.lexists(ROOT / name):
            (made / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, made / name, follow_symlinks=False)
    git(made, "init", "-q")
    for setting in ("core.compression", "pack.window"):
        git(made, "config", setting, "0")
    git(made, "add", "-A")
    time = git(ROOT, "log", "-1", "--format=%cI")
    git(made, "commit", "-qm", "all", GIT_AUTHOR_DATE=time, GIT_COMMITTER_DATE=time)
    return made
