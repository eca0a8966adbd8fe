"""Shows the way of a query, from the UDP socket to the reply, with all branches. The calls are read from the object files.

	way.py BUILD [-v]

A stop is a function that a function of another file calls and that itself calls another file. A climb is a call back into a file whose
function has not returned yet. Functions that call no other file are leaves. The output has their number, and -v prints their names too. The
way begins where a packet is read and where another server's reply is read, and goes through the folders of FOLDERS; a call through a table
in TABLES counts as a call. Functions that the compiler inlines, such as functions in headers, are part of their caller.
"""

import pathlib
import re
import subprocess
import sys
from collections import defaultdict

ROOT = pathlib.Path(__file__).resolve().parents[1]
FOLDERS = ("kubedns/answer", "kubedns/serve", "kubedns/modules")
STARTS = [("kubedns/serve/net/udp.c", "udp_readable"), ("kubedns/serve/upstream/upstream.c", "upstream_event")]
# Calls through a pointer: the file, the pattern of the call, and the pattern of the functions' names in the tables.
TABLES = [
    ("kubedns/answer/answer.c", r"->answer\(", r"\.answer = (\w+)"),
    ("kubedns/serve/upstream/inflight.c", r"ops\.(?:ask|ask_on|retry|forget)\(", r"\.(?:ask|ask_on|retry|forget) = (\w+)"),
    ("kubedns/serve/upstream/forwarded_reply.c", r"->(?:capacity|done)\(", r"\b(client_reserve|client_done)\b"),
]


def plain(symbol):
    """The function's name in the source. The compiler adds a suffix if it splits or copies a function."""
    return re.sub(r"\.(part|constprop|isra|cold)\b.*$", "", symbol.removeprefix(".text."))


def read_objects(build):
    """Returns {(file, function): functions that it calls, in order}, {global function: its file} and {file: its functions}."""
    calls, owner, own = defaultdict(list), {}, defaultdict(set)
    for folder in FOLDERS:
        for path in sorted((build / folder).rglob("*.o")):
            source = str(path.relative_to(build).with_suffix(".c"))
            if not (ROOT / source).exists():
                continue
            for line in subprocess.run(["nm", path], capture_output=True, text=True, check=True).stdout.splitlines():
                kind, name = line.split()[-2:]
                if kind in "Tt":
                    own[source].add(plain(name))
                if kind == "T":
                    owner[name] = source
            function = None
            for line in subprocess.run(["objdump", "-dr", "--no-show-raw-insn", path], capture_output=True, text=True, check=True).stdout.splitlines():
                begin = re.match(r"[0-9a-f]+ <([^>]+)>:$", line)
                to = re.search(r"R_[A-Z0-9_]+\s+([.\w]+)", line)
                if begin:
                    function = plain(begin[1])
                elif to and function:
                    calls[source, function].append(plain(to[1]))
    return calls, owner, own


def functions_of_tables(owner, own):
    """Returns {(file, call): the functions that the tables name}."""
    targets = defaultdict(list)
    sources = {s: (ROOT / s).read_text() for s in own}
    for source, call, entry in TABLES:
        if not re.search(call, sources[source]):
            print(f"{source} no longer has a call {call}: correct TABLES")
        for other, text in sorted(sources.items()):
            targets[source, call] += [(other, name) for name in re.findall(entry, text) if name in own[other]]
        if not targets[source, call]:
            print(f"no table has {entry}: correct TABLES")
    return targets


def callers(source, call, compiled):
    """Returns the compiled functions of the file that contain the call. The call may also be in a function that was inlined into them."""
    bodies, name = defaultdict(list), None
    for line in (ROOT / source).read_text().splitlines():
        begin = re.match(r"([a-z_]\w*)\(", line)
        name = begin[1] if begin else name
        bodies[name].append(line)
    found, left = set(), [n for n, lines in bodies.items() if n and any(re.search(call, line) for line in lines)]
    while left:
        name = left.pop()
        if name in found:
            continue
        found.add(name)
        if name not in compiled:
            left += [n for n, lines in bodies.items() if n and n != name and any(re.search(rf"\b{name}\(", line) for line in lines)]
    return [n for n in found if n in compiled]


class Way:
    def __init__(self, build):
        self.calls, self.owner, self.own = read_objects(build)
        self.doors, self.climbs, self.seen = [], set(), set()
        for (source, call), targets in functions_of_tables(self.owner, self.own).items():
            for function in callers(source, call, {f for s, f in self.calls if s == source}):
                self.calls[source, function] += targets

    def next(self, at):
        """Returns the functions that a function calls: (file, function), each once."""
        found = {}
        for to in self.calls[at]:
            if isinstance(to, tuple):
                found[to] = None
            elif to in self.own[at[0]]:
                found[at[0], to] = None
            elif to in self.owner:
                found[self.owner[to], to] = None
        return list(found)

    def walk(self, at, inside=(), depth=0):
        self.seen.add(at)
        for to in self.next(at):
            enters = to[0] != at[0]
            if enters and to[0] in inside:
                self.climbs.add((at[0], to[0]))
            if to not in self.seen:
                if enters:
                    self.doors.append((depth, to))
                self.walk(to, (*inside, to[0]), depth + enters)

    def is_stop(self, function):
        """True if the function calls another file, directly or through functions of its own file."""
        left, known = [function], {function}
        while left:
            for to in self.next(left.pop()):
                if to[0] != function[0]:
                    return True
                if to not in known:
                    known.add(to)
                    left.append(to)
        return False


def report(build, verbose=False):
    sys.setrecursionlimit(10000)
    way = Way(build)
    for start in STARTS:
        if start not in way.calls:
            print(f"{start[0]} has no function {start[1]}: correct STARTS, or build first")
            return
        way.doors.append((0, start))
        way.walk(start, (start[0],), 1)
    stops = [(depth, f) for depth, f in way.doors if way.is_stop(f)]
    for depth, function in way.doors if verbose else []:
        print(f"{'  ' * depth}{function[1]}  {function[0].removeprefix('kubedns/')}{'' if way.is_stop(function) else '  (leaf)'}")
    for at, to in sorted(way.climbs):
        print(f"climb: {at} calls back into {to}")
    print(f"{len(stops)} stops in {len({f[0] for _, f in stops})} files, {len(way.climbs)} climbs; {len(way.doors) - len(stops)} leaves; "
          f"{len({f[0] for _, f in way.doors})} files with them")


if __name__ == "__main__":
    report(pathlib.Path(sys.argv[1]), "-v" in sys.argv)
