"""Measures how the sources are divided: circles of object files, small files, internal headers, files at the top of kubedns/.

	house.py BUILD [-v]

A circle is a group of object files that need each other's symbols, as nm lists them. No file of a circle can be read, tested or removed
without the other files. Prints a line for each figure; with -v, also the files of each circle.
"""

import pathlib
import subprocess
import sys
from collections import defaultdict

ROOT = pathlib.Path(__file__).resolve().parents[1]
FOLDERS = ("kubedns", "nanny", "sidecar", "migrate", "treecache", "lib")
SMALL = 60  # lines; .c files with fewer lines are counted


def symbols(build):
    """Returns {object: (defined, needed)}: the global symbols that each object file in the folders defines and needs."""
    found = {}
    for folder in FOLDERS:
        for path in sorted((build / folder).rglob("*.o")):
            if not (ROOT / path.relative_to(build)).with_suffix(".c").exists():
                continue  # the source file no longer exists or is generated
            defined, needed = set(), set()
            for line in subprocess.run(["nm", "-g", path], capture_output=True, text=True, check=True).stdout.splitlines():
                *_, kind, name = line.split()
                (needed if kind == "U" else defined).add(name)
            found[str(path.relative_to(build).with_suffix(".c"))] = (defined, needed)
    return found


def needs(found):
    """
    Returns {object: the objects that define the symbols it needs}. A program's main.c does not count. Symbols of the same name in other
    programs do not count either.
    """
    owners = defaultdict(set)
    for name, (defined, _) in found.items():
        for symbol in defined:
            owners[symbol].add(name)
    graph = {}
    for name, (_, needed) in found.items():
        program = name.split("/")[0]
        graph[name] = {o for s in needed for o in owners[s] if o != name and o.split("/")[0] in (program, "treecache", "lib")}
    return graph


def circles(graph):
    """The strongly connected components with more than one object (Tarjan, without recursion)."""
    index, low, stack, on_stack, result = {}, {}, [], set(), []
    for root in graph:
        if root in index:
            continue
        work = [(root, iter(sorted(graph[root])))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            node, edges = work[-1]
            for to in edges:
                if to not in index:
                    index[to] = low[to] = len(index)
                    stack.append(to)
                    on_stack.add(to)
                    work.append((to, iter(sorted(graph[to]))))
                    break
                if to in on_stack:
                    low[node] = min(low[node], index[to])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    group = []
                    while True:
                        top = stack.pop()
                        on_stack.discard(top)
                        group.append(top)
                        if top == node:
                            break
                    if len(group) > 1:
                        result.append(sorted(group))
    return sorted(result, key=lambda g: (-len(g), g))


def report(build, verbose=False):
    unbuilt = [s for f in FOLDERS for s in (ROOT / f).rglob("*.c") if s.name != "main.c" and not (build / s.relative_to(ROOT)).with_suffix(".o").exists()]
    if unbuilt:
        print(f"{len(unbuilt)} sources have no object file in {build}, such as {unbuilt[0].relative_to(ROOT)}: build first")
        return
    groups = circles(needs(symbols(build)))
    sources = [p for f in FOLDERS for p in (ROOT / f).rglob("*.[ch]")]
    lines = {p: len(p.read_text().splitlines()) for p in sources}
    figures = {
        "circles": len(groups),
        "files in the largest circle": max(map(len, groups), default=0),
        "files in circles": sum(map(len, groups)),
        "internal headers": sum(p.name.endswith("_internal.h") for p in sources),
        "small .c files": sum(p.suffix == ".c" and lines[p] < SMALL for p in sources),
        "files at the top of kubedns/": sum(p.is_file() for p in (ROOT / "kubedns").iterdir()),
        "files of C": len(sources),
        "lines of C": sum(lines.values()),
    }
    for group in groups if verbose else []:
        print("circle:", " ".join(group))
    print(", ".join(f"{figure} {name}" for name, figure in figures.items()))


if __name__ == "__main__":
    report(pathlib.Path(sys.argv[1]), "-v" in sys.argv)
