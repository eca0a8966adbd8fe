"""Changes the sources in small ways and shows which changes the unit tests and the fuzz seeds do not notice.

	mutants.py list COUNT                            chooses COUNT changes and writes them to tests/mutants.txt
	mutants.py run RESULTS [--minutes N] [--again BEFORE]  tests each change that has no line in the file RESULTS yet
	mutants.py show RESULTS [BEFORE]                 prints the table, the survivors, and which of them were killed BEFORE

A change (a mutant) flips a condition, changes a constant or changes a return value in one function of FOLDERS. `list` is deterministic
(SEED) and leaves out changes that do not compile or give the same machine code. `run` works in a copy of the tree, build-mutants/tree. For
each mutant it builds and runs only those tests that link the changed function, as the linker's map says, and stops at the first that fails
twice. It can be interrupted at any time: the same command continues. It stops after N minutes (default 120). With --again it takes only the
mutants that were killed BEFORE, and begins with the test that killed them. A test that fails without a change is left out.
"""

import argparse
import collections
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import time

import dialect

ROOT = pathlib.Path(__file__).resolve().parents[1]
LIST = ROOT / "tests/mutants.txt"
PLACE = ROOT / "build-mutants"
TREE = PLACE / "tree"
FOLDERS = ("kubedns", "treecache", "lib", "nanny")
SEED = 20261129
FLIPS = {"==": "!=", "!=": "==", "<": "<=", "<=": "<", ">": ">=", ">=": ">", "&&": "||", "||": "&&"}
FLAGS = ["-std=c17", "-D_GNU_SOURCE", "-D_LGPL_SOURCE", "-I.", "-Ibuild", '-DVERSION="0"', "-O1", "-w"]
BUILD = ["make", "-s", "-j2", "VERSION=0", "BUILD=build", "OPTIMISE=-O0 -ffunction-sections -fdata-sections", "HARDENING=-fPIE", "WARNINGS=-w",
         "LDFLAGS=-Wl,-Map=$@.map"]

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


def changed(text, mutant):
    """Returns the source with the change, or None if the source no longer has the line."""
    lines = text.split("\n")
    for name, _, begin, end in functions(text):
        if name != mutant.function:
            continue
        found = [n for n in range(begin, end) if lines[n].strip() == mutant.line]
        if len(found) > mutant.nth:
            at = found[mutant.nth]
            column = len(lines[at]) - len(lines[at].lstrip()) + mutant.column
            assert lines[at][column:].startswith(mutant.old), mutant
            lines[at] = lines[at][:column] + mutant.new + lines[at][column + len(mutant.old):]
            return "\n".join(lines)
    return None


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


def copy_tree():
    """Makes TREE equal to the tree. A file that did not change keeps its time, so that make does not compile it again."""
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout.split("\0")[:-1]
    for name in names:
        source, copy = ROOT / name, TREE / name
        if not source.exists() or source.is_symlink():
            continue
        if not copy.exists() or copy.read_bytes() != source.read_bytes():
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, copy)
            shutil.copymode(source, copy)
    for copy in [p for folder in (*FOLDERS, "tests/unit", "tests/fuzz") for p in (TREE / folder).rglob("*.[ch]")]:
        if not (ROOT / copy.relative_to(TREE)).exists():
            copy.unlink()


def run_test(name, seconds):
    """Runs a unit test or a fuzz target over its seeds in TREE. Returns (whether it passed, seconds)."""
    fuzz = name.startswith("fuzz_")
    command = [f"build/tests/replay/{name}", f"tests/fuzz/seeds/{name.removeprefix('fuzz_')}"] if fuzz else [f"build/tests/unit/{name}"]
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


def target(name):
    return f"build/tests/{'replay' if name.startswith('fuzz_') else 'unit'}/{name}"


def baseline():
    """Builds and runs all tests without a change. Returns {test: seconds} of those that pass and {test: {(archive, object, function)}}."""
    names = sorted(p.stem for folder, kind in (("unit", "test"), ("fuzz", "fuzz")) for p in (TREE / "tests" / folder).glob(f"{kind}_*.c"))
    subprocess.run([*BUILD, *map(target, names)], cwd=TREE, check=True)
    seconds, linked = {}, {}
    for name in names:
        passed, took = run_test(name, 120)
        if not passed:
            print(f"left out, because it fails without a change: {name}", flush=True)
            continue
        seconds[name] = took
        kept = (TREE / f"{target(name)}.map").read_text().split("Linker script and memory map", 1)[1]
        linked[name] = {found.groups() for found in re.finditer(r"^ \.text\.(?:unlikely\.)?(\w+)\s+0x0*[1-9a-f]\w*\s+0x\w+ \S*?(\w+)\.a\((\w+)\.o\)", kept, re.M)}
    return seconds, linked


def test_mutant(mutant, seconds, linked, first):
    """Returns (result, the test that noticed the change)."""
    path, stem = TREE / mutant.file, pathlib.Path(mutant.file).stem
    original = path.read_text()
    text = changed(original, mutant)
    if text is None:
        return "gone", ""
    wanted = (mutant.function, mutant.file.split("/")[0], stem)
    tests = [name for name in seconds if wanted in linked[name]]
    tests.sort(key=lambda name: (name != first, name.split("_", 1)[1] != stem, stem not in name, seconds[name]))
    if not tests:
        return "no test", ""
    try:
        path.write_text(text)
        for name in tests:
            if subprocess.run([*BUILD, target(name)], cwd=TREE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode:
                return "not built", ""
            limit = 20 + 10 * seconds[name]
            if not run_test(name, limit)[0] and not run_test(name, limit)[0]:
                return "killed", name
        return "survived", f"{len(tests)} tests"
    finally:
        path.write_text(original)


def run(results, minutes, before):
    end = time.monotonic() + 60 * minutes
    done = read_results(results)
    earlier = read_results(before) if before else {}
    copy_tree()
    seconds, linked = baseline()
    print(f"{len(seconds)} tests pass in {sum(seconds.values()):.0f} s", flush=True)
    for number, mutant in enumerate(read_list(), 1):
        if number in done or before and earlier.get(number, [""])[0] != "killed":
            continue
        if time.monotonic() > end:
            print("time is up")
            break
        begun = time.monotonic()
        result, test = test_mutant(mutant, seconds, linked, earlier[number][1] if before else None)
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
