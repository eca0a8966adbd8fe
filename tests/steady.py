"""
Runs tests again and again on a machine without processor time, and counts their failures. `make steady` runs the tests of tests/timed.txt,
whose results depend on time: 20 times beside programs that keep all processors busy, and 20 times on one processor. `make steady-all` runs the
whole suite: 5 times quiet, 3 times beside those programs and 3 times on one processor.

Each result is written to the file at once. If the command is interrupted, the next one continues with the tests that are missing. Results of
another commit are in another file. At the end the command writes a table beside the file, and fails if a test has failed or never ran.
"""

import argparse
import collections
import contextlib
import os
import pathlib
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parent
ROUNDS = {"listed": {"loaded": 20, "single": 20}, "all": {"quiet": 5, "loaded": 3, "single": 3}}
PROGRAM_TIMEOUT_S = 600
BUSY = "import os, sys\nwhile os.getppid() == int(sys.argv[1]):\n    sum(range(100000))"


# As a plugin of pytest (-p steady): leaves out the tests that this round has already run, and writes each result.


def done_of_round():
    wanted = os.environ["STEADY_MODE"], int(os.environ["STEADY_ROUND"])
    return {r.test for r in read(os.environ["STEADY_FILE"]) if (r.mode, r.round) == wanted}


def pytest_collection_modifyitems(config, items):
    done = done_of_round()
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in done])
    items[:] = [item for item in items if item.nodeid not in done]


class Reports:
    """Joins the reports of a test's phases. Only the process that distributes the tests writes."""

    def __init__(self):
        self.worst, self.took = {}, collections.Counter()

    def pytest_runtest_logreport(self, report):
        test = report.nodeid
        self.took[test] += report.duration
        if report.failed or self.worst.get(test) is None or (report.skipped and self.worst[test] == "passed"):
            self.worst[test] = report.outcome
        if report.failed:
            note(f"{os.environ['STEADY_MODE']} {os.environ['STEADY_ROUND']} {test} ({report.when})\n{report.longreprtext}")
        if report.when == "teardown":
            write(os.environ["STEADY_FILE"], os.environ["STEADY_MODE"], os.environ["STEADY_ROUND"], self.worst[test], self.took[test], test)


def pytest_configure(config):
    if "STEADY_FILE" in os.environ and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Reports())


# The file of results. A line is: mode, round, outcome, seconds, test.

Result = collections.namedtuple("Result", "mode round outcome seconds test")


def read(path):
    """Returns the results. An interrupted write leaves a line without an end, which does not count."""
    try:
        lines = pathlib.Path(path).read_text(encoding="utf-8").split("\n")[:-1]
    except FileNotFoundError:
        return []
    fields = (line.split("\t") for line in lines)
    return [Result(f[0], int(f[1]), f[2], float(f[3]), f[4]) for f in fields if len(f) == 5]


def write(path, mode, number, outcome, seconds, test):
    with open(path, "a", encoding="utf-8") as f:
        f.write(f"{mode}\t{number}\t{outcome}\t{seconds:.2f}\t{test}\n")


def note(text):
    """Adds the output of a failed test to the file of failures."""
    with open(os.environ["STEADY_FILE"] + ".failures", "a", encoding="utf-8") as f:
        f.write(text.rstrip() + "\n\n")


def table(results, rounds):
    """Returns the table as text, and true if each test has passed or was skipped in each round. The tests that failed come first."""
    rows = collections.defaultdict(lambda: {mode: [] for mode in rounds})
    for r in results:
        rows[r.test][r.mode].append(r)
    failures = {test: sum(r.outcome == "failed" for mode in modes.values() for r in mode) for test, modes in rows.items()}
    missing = {test: sum(max(0, rounds[mode] - len(modes[mode])) for mode in rounds) for test, modes in rows.items()}
    modes = list(rounds)
    lines = ["| test | " + " | ".join(f"{m}: runs, failed, slowest" for m in modes) + " |", "|---|" + "---|" * len(modes)]
    for test in sorted(rows, key=lambda t: (-failures[t], t)):
        cells = [f"{len(of)}, {sum(r.outcome == 'failed' for r in of)}, {max((r.seconds for r in of), default=0):.1f} s" for of in rows[test].values()]
        skipped = " (skipped)" if all(r.outcome == "skipped" for of in rows[test].values() for r in of) else ""
        lines.append(f"| {test}{skipped} | " + " | ".join(cells) + " |")
    summary = f"{len(rows)} tests, {len(results)} runs, {sum(failures.values())} failures, {sum(missing.values())} runs missing"
    return summary + "\n\n" + "\n".join(lines) + "\n", bool(rows) and not any(failures.values()) and not any(missing.values())


# The command.


@contextlib.contextmanager
def surroundings(mode):
    """Keeps all processors busy, or permits one of them only."""
    allowed, busy = os.sched_getaffinity(0), []
    if mode == "loaded":
        busy = [subprocess.Popen([sys.executable, "-c", BUSY, str(os.getpid())]) for _ in allowed]
    if mode == "single":
        os.sched_setaffinity(0, {max(allowed)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)
        for process in busy:
            process.kill()
            process.wait()


def run_programs(build, programs, done):
    """Runs the unit tests and the fuzz targets over their seeds, one at a time."""
    for program in programs:
        if program in done:
            continue
        name, begun = program.partition("/")[2], time.monotonic()
        command = [str(build / "tests" / program)] + ([str(seeds) for seeds in HERE.glob(f"**/fuzz/seeds/{name.removeprefix('fuzz_')}")] if program.startswith("replay/") else [])
        try:
            ended = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=PROGRAM_TIMEOUT_S, cwd=ROOT)
            passed, said = ended.returncode == 0, ended.stdout + ended.stderr
        except subprocess.TimeoutExpired:
            passed, said = False, f"not within {PROGRAM_TIMEOUT_S} s"
        if not passed:
            note(f"{os.environ['STEADY_MODE']} {os.environ['STEADY_ROUND']} {program}\n{said}")
        write(os.environ["STEADY_FILE"], os.environ["STEADY_MODE"], os.environ["STEADY_ROUND"], "passed" if passed else "failed", time.monotonic() - begun, program)


def run_round(build, programs, tests, arguments):
    run_programs(build, programs, done_of_round())
    if not tests:
        return
    jobs = 4 * len(os.sched_getaffinity(0))  # as in run.sh
    command = [sys.executable, "-m", "pytest", "-c", str(HERE / "pytest.ini"), "-p", "steady", "-q", "--tb=short", "-p", "no:cacheprovider", "-n", str(jobs)]
    ended = subprocess.run([*command, *arguments, *tests], stdin=subprocess.DEVNULL, cwd=ROOT).returncode
    if ended not in (0, 1, 5):  # 5: this round has already run all of them
        sys.exit(f"pytest ended with {ended}")


def built(build, kind, sources):
    return [f"{kind}/{source.stem}" for source in sorted(sources) if (build / "tests" / kind / source.stem).is_file()]


def commit():
    def git(*words):
        return subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=True).stdout.strip()

    return git("rev-parse", "--short=12", "HEAD") + ("-changed" if git("status", "--porcelain", "--untracked-files=no") else "")


def main():
    parser = argparse.ArgumentParser(description="Runs tests again and again on a busy machine and counts their failures.")
    parser.add_argument("what", choices=ROUNDS, help="listed: the tests of tests/timed.txt; all: the whole suite")
    parser.add_argument("--rounds", default="", metavar="MODE=N,...", help="other numbers of rounds, such as loaded=2,single=2")
    parser.add_argument("--only", nargs="+", help="run these tests (unit/NAME, replay/NAME, or as pytest names them) instead of the listed ones")
    args, arguments = parser.parse_known_args()
    build = pathlib.Path(os.environ.get("BUILD", ROOT / "build")).absolute()
    rounds = ROUNDS[args.what]
    if args.rounds:
        rounds = {mode: int(n) for mode, n in (part.split("=") for part in args.rounds.split(","))}
    if args.only or args.what == "listed":
        names = args.only or [line for line in (HERE / "timed.txt").read_text(encoding="utf-8").split("\n") if line and not line.startswith("#")]
        programs = [name for name in names if name.startswith(("unit/", "replay/"))]
        tests = [name for name in names if name not in programs]
    else:
        programs = built(build, "unit", [*HERE.glob("unit/test_*.c"), *HERE.glob("modules/*/unit/test_*.c")]) + built(build, "replay", [*HERE.glob("fuzz/fuzz_*.c"), *HERE.glob("modules/*/fuzz/fuzz_*.c")])
        tests = [str(HERE / "system"), str(HERE / "apiserver"), str(HERE / "modules")]
    folder = build / "steady"
    folder.mkdir(parents=True, exist_ok=True)
    results = folder / f"{args.what}-{commit()}.tsv"
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ.update(BUILD=str(build), PYTHONPYCACHEPREFIX=str(build / "pycache"), STEADY_FILE=str(results), PYTHONPATH=os.pathsep.join([str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])]))
    for mode, count in rounds.items():
        with surroundings(mode):
            for number in range(1, count + 1):
                print(f"{mode}, round {number} of {count}", flush=True)
                os.environ.update(STEADY_MODE=mode, STEADY_ROUND=str(number))
                run_round(build, programs, tests, arguments)
    text, steady = table([r for r in read(results) if r.mode in rounds and r.round <= rounds[r.mode]], rounds)
    results.with_suffix(".md").write_text(text, encoding="utf-8")
    print(f"{text.partition(chr(10))[0]}; {results.with_suffix('.md')}")
    return 0 if steady else 1


if __name__ == "__main__":
    sys.exit(main())
