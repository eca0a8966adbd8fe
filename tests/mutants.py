"""Changes the sources in small ways and shows which changes the unit tests and the fuzz seeds do not notice.

	mutants.py list COUNT                            chooses COUNT changes and writes them to tests/mutants.txt
	mutants.py run RESULTS [--minutes N] [--again BEFORE]  tests each change that has no line in the file RESULTS yet
	mutants.py show RESULTS [BEFORE]                 prints the table, the survivors, and which of them were killed BEFORE

A change (a mutant) flips a condition, changes a constant or changes a return value in one function of FOLDERS. `list` is deterministic
(SEED) and leaves out changes that do not compile or give the same machine code. `run` works on a copy of the last commit, build-mutants/tree. For
each mutant it builds and runs only those tests that execute the changed line, as gcov says, and stops at the first that fails twice. A test
that ends without writing gcov's counters counts as executing all that it links. It can be interrupted at any time: the same command continues.
It stops after N minutes (default 120). With --again it takes only the mutants that were killed BEFORE, and begins with the test that killed
them. A test that fails without a change, or takes more than SLOW_S seconds, is left out.
"""

import argparse
import collections
import functools
import hashlib
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import dialect

ROOT = pathlib.Path(__file__).resolve().parents[1]
LIST = ROOT / "tests/mutants.txt"
PLACE = ROOT / "build-mutants"
TREE = PLACE / "tree"
FOLDERS = ("kubedns", "treecache", "lib", "nanny")
SEED = 20261129
SLOW_S = 40  # a test that takes longer is left out
FLIPS = {"==": "!=", "!=": "==", "<": "<=", "<=": "<", ">": ">=", ">=": ">", "&&": "||", "||": "&&"}
FLAGS = ["-std=c17", "-D_GNU_SOURCE", "-D_LGPL_SOURCE", "-I.", "-Ibuild", '-DVERSION="0"', "-O1", "-w"]
MAKE = ["make", "-s", "-j2", "VERSION=0", "OPTIMISE=-O0 -ffunction-sections -fdata-sections", "HARDENING=-fPIE", "WARNINGS=-w", "ALLOCATOR="]
BUILD = [*MAKE, "BUILD=build"]
COVERED = [*MAKE, "BUILD=build-covered", "SANITIZE=--coverage -fprofile-update=atomic"]

Mutant = collections.namedtuple("Mutant", "file function line nth column old new")


def functions(text):
    """Yields (name, type, number of the first line, number of the line after the last one) of each function in a source of the house's form."""
    lines, name, begun = text.split("\n"), None, None
    for number, line in enumerate(lines):
        if found := re.match(r"([a-z_]\w*)\(", line):
            name, kind = found[1], lines[number - 1]
        elif line == "{" and name:
            begun = number + 1
        elif line == "}" and begun is not None:
            yield name, kind, begun, number
            name = begun = None
        elif line.endswith(";") and begun is None:
            name = None


def changes(line, code, kind):
    """Yields (what, column, old, new) for a line. `code` is the line without comments and strings, `kind` the type of its function."""
    if re.search(r"\b(?:\w*assert|log_\w+|sizeof)\b", code):
        return
    for found in re.finditer(r"(?<![<>=!\-&|])(==|!=|<=|>=|<|>|&&|\|\|)(?![<>=&|])(?= |$)", code):
        yield "condition", found.start(), found[1], FLIPS[found[1]]
    if (found := re.match(r"\s*(?:if|while) \((.*)\)(?: \{)?$", code)) and found[1].count("(") == found[1].count(")"):
        old = line[found.start(1):found.end(1)]
        yield "condition", found.start(1), old, f"!({old})"
    array = dialect.is_declaration(code) and "[" in code
    for found in re.finditer(r"(?<![\w.\[\"'])(\d+)(?![\w.\"'])", code):
        if not array and not code.lstrip().startswith(("return ", "case ", "#")):
            yield "constant", found.start(), found[1], "0" if found[1] == "1" else str(int(found[1]) + 1)
    if found := re.match(r"\s*return (.+);$", code):
        old = line[found.start(1):found.end(1)]
        if "*" in kind:
            new = None if old == "NULL" else "NULL"
        elif re.search(r"\bbool$", kind):
            new = {"true": "false", "false": "true"}.get(old, f"!({old})")
        elif re.search(r"\b(?:int|long|size_t|ssize_t|u?int\d+_t)$", kind):
            new = "1" if old == "0" else "0"
        else:
            new = None
        if new is not None:
            yield "return", found.start(1), old, new


def candidates(path):
    """Yields (what, Mutant) for a source."""
    text = (ROOT / path).read_text()
    lines, code = text.split("\n"), dialect.blanked(text).split("\n")
    for name, kind, begin, end in functions(text):
        seen = collections.Counter()
        for number in range(begin, end):
            stripped = lines[number].strip()
            indent = len(lines[number]) - len(lines[number].lstrip())
            for what, column, old, new in changes(lines[number], code[number].rstrip(), kind):
                yield what, Mutant(path, name, stripped, seen[stripped], column - indent, old, new)
            seen[stripped] += 1


def place(text, mutant):
    """Returns the number of the mutant's line, from 0, or None if the source no longer has it."""
    lines = text.split("\n")
    for name, _, begin, end in functions(text):
        if name == mutant.function:
            found = [n for n in range(begin, end) if lines[n].strip() == mutant.line]
            if len(found) > mutant.nth:
                return found[mutant.nth]
    return None


def changed(text, mutant):
    """Returns the source with the change, or None if the source no longer has the line."""
    lines, at = text.split("\n"), place(text, mutant)
    if at is None:
        return None
    column = len(lines[at]) - len(lines[at].lstrip()) + mutant.column
    assert lines[at][column:].startswith(mutant.old), mutant
    lines[at] = lines[at][:column] + mutant.new + lines[at][column + len(mutant.old):]
    return "\n".join(lines)


def machine_code(path, text):
    """Returns the object file of a source with this text, or None if it does not compile."""
    out = PLACE / "check.o"
    source = (ROOT / path).read_text() if text is None else text
    ran = subprocess.run(["cc", *FLAGS, f"-I{(ROOT / path).parent}", "-x", "c", "-c", "-o", out, "-"], input=source, text=True, cwd=ROOT,
                         stderr=subprocess.DEVNULL)
    return out.read_bytes() if ran.returncode == 0 else None


def choose(count):
    PLACE.mkdir(exist_ok=True)
    by_kind = collections.defaultdict(list)
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.c")):
            for what, mutant in candidates(str(path.relative_to(ROOT))):
                by_kind[what].append(mutant)
    chance = random.Random(SEED)
    for kind in sorted(by_kind):
        chance.shuffle(by_kind[kind])
    originals, chosen = {}, []
    while len(chosen) < count:
        kind = sorted(by_kind)[len(chosen) % len(by_kind)]
        mutant = by_kind[kind].pop()
        if mutant.file not in originals:
            originals[mutant.file] = machine_code(mutant.file, None)
        code = machine_code(mutant.file, changed((ROOT / mutant.file).read_text(), mutant))
        if code is not None and originals[mutant.file] is not None and code != originals[mutant.file]:
            chosen.append(mutant)
    LIST.write_text("# Written by tests/mutants.py list: file, function, line, which of several equal lines, column, old text, new text.\n"
                    + "".join("\t".join(map(str, m)) + "\n" for m in chosen))
    left = {kind: len(rest) for kind, rest in by_kind.items()}
    print(f"{len(chosen)} mutants in {LIST.relative_to(ROOT)}; not taken: {left}")


def read_list():
    rows = [line.split("\t") for line in LIST.read_text().splitlines() if not line.startswith("#")]
    return [Mutant(file, function, line, int(nth), int(column), old, new) for file, function, line, nth, column, old, new in rows]


def read_results(path):
    """Returns {mutant's number in the list: [result, test, seconds]}."""
    if not path.exists():
        return {}
    rows = [line.split("\t") for line in path.read_text().splitlines() if not line.startswith("#")]
    return {int(number): rest for number, *rest in rows}


def copy_tree(commit):
    """Makes TREE equal to the commit. A file that does not change keeps its time, so that make does not compile it again."""
    with tempfile.TemporaryDirectory() as new:
        archive = subprocess.run(["git", "archive", commit], cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
        subprocess.run(["tar", "-x", "-C", new], input=archive, check=True)
        for source in sorted(p for p in pathlib.Path(new).rglob("*") if p.is_file() and not p.is_symlink()):
            copy = TREE / source.relative_to(new)
            if not copy.exists() or copy.read_bytes() != source.read_bytes():
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, copy)
                shutil.copymode(source, copy)
        for copy in [p for folder in (*FOLDERS, "tests/unit", "tests/fuzz", "tests/modules") for p in (TREE / folder).rglob("*.[ch]")]:
            if not (new / copy.relative_to(TREE)).exists():
                copy.unlink()


def commit_of(results):
    """Returns the commit that a file of results is about: HEAD, if the file is new. An interrupted run goes on with its own commit."""
    if not results.exists():
        head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
        results.write_text(f"# {head}\n")
    return results.read_text().split()[1]


def run_test(name, seconds, build="build"):
    """Runs a unit test or a fuzz target over its seeds in TREE. Returns (whether it passed, seconds)."""
    seeds = TREE.glob(f"tests/**/fuzz/seeds/{name.removeprefix('fuzz_')}") if name.startswith("fuzz_") else []
    command = [target(name, build), *seeds]
    begun = time.monotonic()
    process = subprocess.Popen(command, cwd=TREE, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        passed = process.wait(seconds) == 0
    except subprocess.TimeoutExpired:
        passed = False
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()
    return passed, time.monotonic() - begun


def target(name, build="build"):
    return f"{build}/tests/{'replay' if name.startswith('fuzz_') else 'unit'}/{name}"


def lines_of(name, files):
    """Runs a test with gcov's counters. Returns {file: executed lines}. An empty list is a file of which the test left no counters."""
    for old in (TREE / "build-covered").rglob("*.gcda"):
        old.unlink()
    run_test(name, 30, "build-covered")
    counters = {file: f"build-covered/{file.removesuffix('.c')}.gcda" for file in files}
    there = [path for path in counters.values() if (TREE / path).exists()]
    said = subprocess.run(["gcov", "-t", "-j", *there], cwd=TREE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True).stdout if there else ""
    executed = {}
    for report in map(json.loads, said.splitlines()):
        for file in report["files"]:
            executed.setdefault(file["file"], set()).update(line["line_number"] for line in file["lines"] if line["count"])
    # A multi-line statement has its counter at its first line. Lines without a counter count as the line before them.
    counted = {file["file"]: {line["line_number"] for line in file["lines"]} for report in map(json.loads, said.splitlines()) for file in report["files"]}
    return {file: [sorted(executed[file]), sorted(counted[file])] for file in files if file in executed}


def sources_hash():
    found = hashlib.sha256()
    for path in sorted(p for folder in (*FOLDERS, "tests/unit", "tests/fuzz", "tests/modules") for p in (TREE / folder).rglob("*.[ch]")):
        found.update(path.read_bytes())
    return found.hexdigest()


def baseline(mutants):
    """
    Builds and runs all tests without a change. Returns {test: seconds} of those that pass, and {test: {file: [executed lines, lines with
    counters]}}. Keeps both in PLACE while the sources stay the same.
    """
    names = sorted(p.stem for folder, kind in (("unit", "test"), ("modules/*/unit", "test"), ("fuzz", "fuzz"), ("modules/*/fuzz", "fuzz")) for p in (TREE / "tests").glob(f"{folder}/{kind}_*.c"))
    files = sorted({m.file for m in mutants if (TREE / m.file).exists()})
    kept, seconds, covered = PLACE / f"covered-{sources_hash()[:12]}.json", {}, {}
    known = json.loads(kept.read_text()) if kept.exists() else {}
    if subprocess.run([*BUILD, "-k", *map(target, names)], cwd=TREE).returncode:
        built = [name for name in names if subprocess.run([*BUILD, "-q", target(name)], cwd=TREE).returncode == 0]
        print(f"left out, because they do not compile: {set(names) - set(built)}", flush=True)
        names = built
    if not set(names) <= set(known):
        subprocess.run([*COVERED, *(target(name, "build-covered") for name in names)], cwd=TREE, check=True)
    for name in names:
        if name not in known:
            passed, took = run_test(name, SLOW_S)
            known[name] = [passed, took, lines_of(name, files) if passed else {}]
            kept.write_text(json.dumps(known))
        passed, took, covered[name] = known[name]
        if passed:
            seconds[name] = took
        else:
            print(f"left out, because it fails without a change, or takes more than {SLOW_S} s: {name}", flush=True)
    print(f"{len(seconds)} tests pass in {sum(seconds.values()):.0f} s", flush=True)
    return seconds, covered


@functools.cache
def symbols(name):
    return subprocess.run(["nm", TREE / target(name)], stdout=subprocess.PIPE, text=True, check=True).stdout


def executes(name, covered, mutant, at):
    """Whether a test executes line `at` (from 0). A test that forks, or left no counters for the file, executes all that it links."""
    if mutant.file not in covered or re.search(r" U fork\b", symbols(name)):
        return re.search(rf" [tT] {mutant.function}$", symbols(name), re.M) is not None
    executed, counted = covered[mutant.file]
    return max((line for line in counted if line <= at + 1), default=0) in executed


def kills(name, seconds):
    """Builds a test of the changed tree and runs it. Returns whether it failed twice, or None if it was not built."""
    if subprocess.run([*BUILD, target(name)], cwd=TREE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode:
        return None
    return not run_test(name, seconds)[0] and not run_test(name, seconds)[0]


@functools.cache
def passes(name):
    """Whether a test is there and passes without a change."""
    return kills(name, 60) is False


def test_mutant(mutant, tests_for, first):
    """
    Returns (result, the test that noticed the change). Runs the test `first`, if it is given, and then the tests of the list that
    tests_for() returns, [(name, seconds)].
    """
    path = TREE / mutant.file
    original = path.read_text() if path.exists() else ""
    text = changed(original, mutant)
    if text is None:
        return "gone", ""
    try:
        if first and passes(first):
            path.write_text(text)
            if kills(first, 60):
                return "killed", first
            path.write_text(original)
        tests = tests_for(place(original, mutant))
        path.write_text(text)
        for name, seconds in tests:
            killed = kills(name, 20 + 10 * seconds)
            if killed or killed is None:
                return "killed" if killed else "not built", name
        return "survived" if tests else "no test", f"{len(tests)} tests"
    finally:
        path.write_text(original)


def run(results, minutes, before):
    end = time.monotonic() + 60 * minutes
    done, mutants = read_results(results), read_list()
    earlier = read_results(before) if before else {}
    copy_tree(commit_of(results))
    whole = functools.cache(lambda: baseline(mutants))
    for number, mutant in enumerate(mutants, 1):
        if number in done or before and earlier.get(number, [""])[0] != "killed":
            continue
        if time.monotonic() > end:
            print("time is up")
            break

        def tests_for(at, mutant=mutant):
            seconds, covered = whole()
            stem = pathlib.Path(mutant.file).stem
            tests = [name for name in seconds if executes(name, covered[name], mutant, at)]
            return [(name, seconds[name]) for name in sorted(tests, key=lambda name: (name.split("_", 1)[1] != stem, stem not in name, seconds[name]))]

        begun = time.monotonic()
        result, test = test_mutant(mutant, tests_for, earlier[number][1] if before else None)
        with results.open("a") as out:
            out.write(f"{number}\t{result}\t{test}\t{time.monotonic() - begun:.0f}\n")
    show(results, before)


def show(results, before):
    mutants, done = read_list(), read_results(results)
    earlier = read_results(before) if before else {}
    table = collections.defaultdict(collections.Counter)
    for number, (result, *_) in done.items():
        for row in (mutants[number - 1].file.split("/")[0], "all"):
            table[row][result] += 1
            table[row]["mutants"] += 1
    columns = ["mutants", "killed", "survived", "no test", "gone", "not built"]
    print("| folder | " + " | ".join(columns) + " |\n|---" + "|---" * len(columns) + "|")
    for row in [f for f in FOLDERS if f in table] + ["all"]:
        print(f"| {row} | " + " | ".join(str(table[row][c]) for c in columns) + " |")
    for number, (result, test, _) in sorted(done.items()):
        m = mutants[number - 1]
        if result in ("survived", "no test"):
            print(f"{number}: {result} ({test}): {m.file}: {m.function}(): {m.line}: {m.old} -> {m.new}")
    for number in sorted(n for n in done if earlier.get(n, [""])[0] == "killed" and done[n][0] != "killed"):
        print(f"{number}: killed before by {earlier[number][1]}, now {done[number][0]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list").add_argument("count", type=int)
    running = commands.add_parser("run")
    running.add_argument("results", type=pathlib.Path)
    running.add_argument("--minutes", type=int, default=120)
    running.add_argument("--again", type=pathlib.Path)
    showing = commands.add_parser("show")
    showing.add_argument("results", type=pathlib.Path)
    showing.add_argument("before", type=pathlib.Path, nargs="?")
    args = parser.parse_args()
    if args.command == "list":
        choose(args.count)
    elif args.command == "run":
        run(args.results, args.minutes, args.again)
    else:
        show(args.results, args.before)


if __name__ == "__main__":
    sys.exit(main())
