"""Shows that a commit changed only comments: compares the code of two commits without comments, docstrings and layout.

same_code.py COMMIT COMMIT    the files that differ between the two commits
same_code.py COMMIT           the files that differ between the commit and its parent

It compares C, Go, Python, shell and make files. It lists other files without a comparison. Exit status 1: code differs, or a file was added or removed.
"""

import ast
import re
import subprocess
import sys
from pathlib import PurePath

# Literals come first, so that comment marks in them do not count. A line break in a backquoted string of Go belongs to the string.
C_TOKEN = re.compile(
    r"""(?P<comment>/\*.*?\*/|//[^\n]*)"""
    r"""|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|`[^`]*`"""
    r"""|[A-Za-z_]\w*|\.?\d(?:[eEpP][+-]|[\w.'])*"""
    r"""|\\\n|\n|<<=|>>=|\.\.\.|->|\+\+|--|&\^|<<|>>|:=|<-|[<>=!+\-*/%&|^]=|&&|\|\||\#\#|\S""",
    re.S | re.X | re.A,
)
HEREDOC = re.compile(r"<<(-?)\s*\\?(['\"]?)(\w+)\2")


def code_of_c(text):
    """Returns the tokens. Line breaks count only at the end of a preprocessor directive."""
    tokens, directive, fresh = [], False, True
    for found in C_TOKEN.finditer(text):
        token = found[0]
        if found["comment"] or token == "\\\n":
            continue
        if token == "\n":
            if directive:
                tokens.append(token)
            directive, fresh = False, True
            continue
        directive = directive or (fresh and token == "#")
        fresh = False
        tokens.append(token)
    return tokens


def code_of_go(text):
    """Returns the tokens and line ends, because a line end can end a statement. Empty lines do not count. Comments for the compiler (//go:) do count."""
    lines = []
    for line in C_TOKEN.sub(lambda found: " " if found["comment"] and not found[0].startswith("//go:") else found[0], text).split("\n"):
        if line.strip():
            lines.append(line.split())
    return lines


def code_of_python(text):
    """Returns the syntax tree without docstrings."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return ast.dump(tree)


def code_of_script(text):
    """Returns the lines without comment lines and empty lines. In a here-document, every line counts."""
    lines, end, tabs = [], None, False
    for line in text.split("\n"):
        if end is not None:
            if (line.lstrip("\t") if tabs else line) == end:
                end = None
            lines.append(line)
        elif line.startswith("#!") or (line.strip() and not line.lstrip().startswith("#")):
            lines.append(line)
            found = HEREDOC.search(line)
            if found:
                end, tabs = found[3], bool(found[1])
    return lines


def reader(path, text):
    """The function that reads the code of such a file, or None."""
    suffix = PurePath(path).suffix
    if suffix in (".c", ".h", ".def", ".inc"):
        return code_of_c
    if suffix == ".go":
        return code_of_go
    first = text.split("\n", 1)[0]
    if suffix == ".py" or (first.startswith("#!") and "python" in first):
        return code_of_python
    if suffix in (".sh", ".mk") or PurePath(path).name == "Makefile" or re.match(r"#!.*\b(sh|bash)\b", first):
        return code_of_script
    return None


def git(*args):
    return subprocess.run(["git", *args], check=True, stdout=subprocess.PIPE).stdout.decode(errors="surrogateescape")


def main(before, after):
    same = True
    changes = git("diff", "-z", "--name-status", "--no-renames", before, after).split("\0")[:-1]
    for status, path in zip(changes[::2], changes[1::2]):
        if status != "M":
            print(f"{path}: {'added' if status == 'A' else 'removed' if status == 'D' else 'changed its type'}")
            same = False
            continue
        texts = [git("show", f"{commit}:{path}") for commit in (before, after)]
        code = reader(path, texts[1])
        if code is None:
            print(f"{path}: not compared")
        elif code(texts[0]) == code(texts[1]):
            print(f"{path}: same code")
        else:
            print(f"{path}: the code differs")
            same = False
    return 0 if same else 1


if __name__ == "__main__":
    if not 2 <= len(sys.argv) <= 3:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1] if len(sys.argv) == 3 else sys.argv[1] + "^", sys.argv[-1]))
