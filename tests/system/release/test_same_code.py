"""tests/same_code.py must call the code the same if only comments changed, and different after every other change."""

import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[2] / "same_code.py"


@pytest.fixture
def compare(tmp_path):
    """compare({path: text}, {path: text}) makes two commits in a new repository. It returns the tool's exit status and output lines."""

    def git(*args):
        subprocess.run(["git", "-c", "user.name=t", "-c", "user.email=t@example.org", *args], cwd=tmp_path, check=True, stdout=subprocess.DEVNULL)

    def commit(files):
        git("rm", "-rqf", "--ignore-unmatch", ".")
        for path, text in files.items():
            (tmp_path / path).write_text(text, encoding="utf-8")
        git("add", "-A")
        git("commit", "-qm", "c", "--allow-empty")

    def run(before, after):
        git("init", "-q")
        commit(before)
        commit(after)
        done = subprocess.run([sys.executable, TOOL, "HEAD"], cwd=tmp_path, stdout=subprocess.PIPE, text=True, check=False)
        return done.returncode, done.stdout.splitlines()

    return run


@pytest.mark.parametrize(
    "name, before, after",
    [
        ("a.c", "int a; /* old */\nint\nb(void);\n", "/* new\n * text */\nint a;\nint b(void); // more\n"),
        ("a.h", "#define A \\\n\t1 /* old */\n", "/* new */\n#define A 1\n"),
        ("a.go", "package a // old\n\nvar  b = 1\n", "package a\n// new\nvar b = 1 /* more */\n"),
        ("a.py", '"""Old."""\n# old\ndef f():\n    """Old."""\n', '"""New."""\ndef f():  # new\n    """New\n\n    text."""\n'),
        ("a.sh", "#!/bin/sh\n# old\ntrue\n", "#!/bin/sh\ntrue\n\n\t# new\n"),
        ("Makefile", "# old\na:\n\ttrue\n", "a:\n\ttrue\n# new\n"),
    ],
)
def test_comments_and_layout_do_not_count(compare, name, before, after):
    assert compare({name: before}, {name: after}) == (0, [f"{name}: same code"])


@pytest.mark.parametrize(
    "name, before, after",
    [
        ("a.c", 'char *a = "/* old */";\n', 'char *a = "/* new */";\n'),
        ("a.c", "char a = '\"'; /* \" */\nint b;\n", "char a = '\"'; /* \" */\nint c;\n"),
        ("a.c", "int a = b - -c;\n", "int a = b --c;\n"),
        ("a.c", "#define A\n1\n", "#define A 1\n"),
        ("a.c", "x = a /* c */ b;\n", "x = ab;\n"),
        ("a.go", "package a\n\n//go:embed b\nvar c string\n", "package a\n\nvar c string\n"),
        ("a.go", "package a\n\nvar b = `// old`\n", "package a\n\nvar b = `// new`\n"),
        ("a.py", 'A = "# old"\n', 'A = "# new"\n'),
        ("a.py", 'def f():\n    return """Old."""\n', 'def f():\n    return """New."""\n'),
        ("a.sh", "#!/bin/sh\ncat <<-EOF\n\t# old\n\tEOF\n", "#!/bin/sh\ncat <<-EOF\n\t# new\n\tEOF\n"),
        ("a.sh", "#!/bin/sh\necho # old\n", "#!/bin/bash\necho # old\n"),
    ],
)
def test_code_counts(compare, name, before, after):
    assert compare({name: before}, {name: after}) == (1, [f"{name}: the code differs"])


def test_an_added_and_a_removed_file_are_no_comments(compare):
    assert compare({"a.c": "int a;\n"}, {"b.c": "int a;\n"}) == (1, ["a.c: removed", "b.c: added"])


def test_other_files_are_listed(compare):
    assert compare({"README.md": "old\n"}, {"README.md": "new\n"}) == (0, ["README.md: not compared"])
