"""`make report`: figures about the form of sources, texts and pictures. It only prints. No figure fails anything: code that is cut, moved or
renamed for a figure is worse than before.

	report.py BUILD [SECTION...]

Sections: lengths of functions and files; house: circles, small files, internal headers; way: the path of a query; dialect: style of C that
clang-format does not know; python: style; words: words that the texts do not use; sentences: long sentences of documents; manuals: order of
the sections; changelog: form of the entries; pictures: charts and page pictures that are older than their sources; looks: how the
charts of the status page look; bench: the tests of the benches' tools.
"""

import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

import dialect
import house
import way
import words

ROOT = pathlib.Path(__file__).resolve().parents[1]
FOLDERS = ("lib", "treecache", "kubedns", "nanny", "sidecar", "migrate")
DOCUMENTS = sorted(p for pattern in ("*.md", "docs/**/*.md", "conf/**/*.md") for p in ROOT.glob(pattern))
TEXTS = ("README.md", "SECURITY.md", "CHANGELOG.md", "Makefile", ".ci", "docs", "conf", "mk", "debian", *FOLDERS, "tests")
# pycodestyle runs without its rules about line length, continuation lines, one-letter names and tabs in text.
LOOSE = "--ignore=E101,E127,E128,E203,E501,E731,E741,W191,W503,W504"


def relative(path):
    return path.relative_to(ROOT)


def lengths(_):
    functions, files = [], []
    for path in sorted(p for folder in FOLDERS for p in (ROOT / folder).rglob("*.c")):
        lines, name, begun = path.read_text().splitlines(), None, 0
        files.append((len(lines), str(relative(path))))
        for number, line in enumerate(lines, 1):
            if found := re.match(r"([a-z_]\w*)\(", line):
                name = found[1]
            elif line == "{" and name:
                begun = number
            elif line == "}" and begun:
                functions.append((number - begun + 1, f"{relative(path)}:{begun}: {name}()"))
                name, begun = None, 0
            elif line.endswith(";") and not begun:
                name = None
    for what, sizes in (("functions", functions), ("files", files)):
        plain = [size for size, _ in sizes]
        print(f"{len(sizes)} {what}: median {statistics.median(plain):.0f} lines, nine in ten at most {statistics.quantiles(plain, n=10)[8]:.0f}. The longest:")
        for size, place in sorted(sizes, reverse=True)[:3]:
            print(f"  {size} {place}")


def dialects(_):
    dialect.check_itself()
    for path in sorted(p for folder in (*FOLDERS, "tests") for p in (ROOT / folder).rglob("*.[ch]")):
        for line, what in dialect.findings(path.read_text()):
            print(f"{relative(path)}:{line}: {what} (tests/dialect.py --fix)")


def python(_):
    files = sorted(str(relative(p)) for folder in ("conf", "tests") for p in (ROOT / folder).rglob("*.py"))
    subprocess.run([sys.executable, "-m", "pycodestyle", LOOSE, *files], cwd=ROOT, check=False)


def refused_words(_):
    names = subprocess.run(["git", "ls-files", "-z", *TEXTS], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout.split("\0")[:-1]
    refused = words.refused()
    for name in names:
        path = ROOT / name
        if "/seeds/" in name or path.suffix in (".svg", ".sum") or path == words.LIST or not path.is_file():
            continue
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue  # a picture
        for line, phrase in words.findings(text, refused):
            print(f'{name}:{line}: "{phrase}": write: {refused[phrase]}')


def sentences_of(text):
    """Yields the sentences of paragraphs, list items and table cells. A code span becomes one word. The target of a link is left out."""
    for block in re.split(r"\n\s*\n|\n(?=\s*(?:[*|#]|\d+\. ))", re.sub(r"```.*?```", "", text, flags=re.S)):
        if not block.lstrip().startswith("#"):
            for part in block.split("|") if block.lstrip().startswith("|") else [block]:
                part = re.sub(r"\]\([^)]*\)", "]", re.sub(r"`[^`]*`", "X", part))
                yield from re.split(r"(?<=[.?!])[*)]*\s+", re.sub(r"\s+", " ", re.sub(r"^\s*(?:\*|\d+\.)\s", "", part)).strip())


def sentences(_):
    """The longest sentences of each document, from 31 words."""
    for path in DOCUMENTS:
        if path.name != "CHANGELOG.md":
            for sentence in sentences_of(path.read_text()):
                if len(sentence.split()) > 30:
                    print(f"{relative(path)}: {len(sentence.split())} words: {sentence}")


def manuals(_):
    """Examples come first; the page of a feature also says how to check and to undo it."""
    for path in sorted(p for folder in FOLDERS for p in (ROOT / folder).rglob("*.[578]")):
        text = path.read_text()
        examples, flag = text.find("\n.Ss Examples\n"), text.find("\n.It Fl ")
        if examples < 0 or 0 <= flag < examples:
            print(f"{relative(path)}: no examples before the flags")
        elif path.suffix != ".8" and not (re.search(r"^Check", text, re.M) and re.search(r"^Undo", text, re.M)):
            print(f"{relative(path)}: no paragraphs that begin with Check and Undo")


def changelog(_):
    entries = re.findall(r"^\* .*\n(?:  .*\n)*", (ROOT / "CHANGELOG.md").read_text(), re.M)
    for entry in entries:
        for wrong, what in ((entry.count("\n") > 2, "more than two lines"), (not re.search(r"\]\([\w./#-]+\)", entry), "no link"), (entries.count(entry) > 1, "is there twice")):
            if wrong:
                print(f"CHANGELOG.md: {what}: {entry.splitlines()[0]}")


def changed(*names):
    """The time of the last commit that changed one of the files, or 0."""
    said = subprocess.run(["git", "log", "-1", "--format=%ct", "--", *names], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout
    return int(said or 0)


def pictures(_):
    page, picture = [f"sidecar/page/page.{kind}" for kind in ("js", "css", "html")], "sidecar/page/page.png"
    if changed(*page) > changed(picture):
        print(f"{picture}: older than {', '.join(name for name in page if changed(name) > changed(picture))}: run make page-picture")
    with tempfile.TemporaryDirectory() as drawn:
        subprocess.run([sys.executable, "tests/bench/published.py", drawn], cwd=ROOT, check=True)
        for path in sorted(pathlib.Path(drawn).iterdir()):
            if path.read_bytes() != (ROOT / "docs/charts" / path.name).read_bytes():
                print(f"docs/charts/{path.name}: differs from the figures in tests/bench/published.json: run make charts")


def tests_of(path):
    return lambda _: subprocess.run([sys.executable, "-m", "pytest", "-c", "tests/pytest.ini", "-q", "-p", "no:cacheprovider", path], cwd=ROOT, check=False)


SECTIONS = {"lengths": lengths, "house": house.report, "way": way.report, "dialect": dialects, "python": python, "words": refused_words,
            "sentences": sentences, "manuals": manuals, "changelog": changelog, "pictures": pictures, "looks": tests_of("tests/looks"), "bench": tests_of("tests/bench/test_tools.py")}


def main(build, *names):
    for name in names or SECTIONS:
        print(f"report: {name}", flush=True)
        SECTIONS[name](pathlib.Path(build))


if __name__ == "__main__":
    main(*sys.argv[1:])
