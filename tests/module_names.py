"""
The core of kubedns names no module (kubedns/module.h). Takes the names that each module declares in its folder, and looks for them in the
core and in the code that the programs share:

- flags, as `--flag`, as `Fl -flag` in a manual page, or as a C string in a row, rule or call of lib/flags.h. Other strings may be words;
- metric families, which are C strings that begin with kubedns_ or skydns_;
- structs, enumerators, macros and functions of the module's headers, if their names have an underscore. A name without one may be an
  ordinary word. A file that declares an enumerator of the same name itself does not name the module's.

Modules have no keys of the ConfigMap: lib/conf_keys.c has all of them. Also compares the packages of each module.mk with the Dockerfile and debian/control, which nothing generates. Prints a line for each
finding, and fails if there is one.

	module_names.py [FOLDER]            # default: this tree
	module_names.py --outside MODULE    # prints the files outside of the module's folders that name it, with the names. To delete the module,
	                                    # look at these files
"""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(sys.argv[1] if len(sys.argv) == 2 else pathlib.Path(__file__).parents[1])
CORE = ("kubedns", "lib", "treecache", "nanny", "sidecar")
FLAG_STRING = r'(?:\{ "|\bEXCLUDES\("|\bNEEDS\("(?:[^"]*\|)?|\bflags_(?:given|refuse)\((?:[^"()]+, )?")'
COMMENT = re.compile(r"/\*.*?\*/", re.S)


def enumerators(code):
    lists = re.findall(r"\benum(?: \w+)? \{(.*?)\}", COMMENT.sub("", code), re.S)
    return {name for inside in lists for name in re.findall(r"(?:^|,)\s*([A-Z][A-Z0-9_]+)", inside)}


def declared(folder):
    """Returns {name: pattern that finds a use of it}."""
    table = subprocess.run(["sh", ROOT / "kubedns/modules/table.sh", "--flags", folder], capture_output=True, text=True, check=True).stdout
    found = {f"--{flag}": rf'(--|Fl -|{FLAG_STRING}){flag}(?![\w-])' for flag in table.split()}
    for path in sorted(folder.glob("*.[ch]")):
        code = COMMENT.sub("", path.read_text(encoding="utf-8"))
        strings = re.findall(r'"((?:kubedns|skydns)_[a-z_]+[a-z])"', code)
        symbols = re.findall(r"(?:struct|enum) (\w+) \{|^#define (\w+)|\b([a-z]\w*)\(", code, re.M) if path.suffix == ".h" else []
        for name in strings + [name for match in symbols for name in match] + (sorted(enumerators(code)) if path.suffix == ".h" else []):
            if "_" in name and not name.startswith("KUBEDNS_MODULES_"):
                found[name] = rf"\b{name}\b"
    return found


def texts():
    for folder in CORE:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".c", ".h", ".8", ".7", ".5", ".js") and "kubedns/modules/" not in str(path.relative_to(ROOT)):
                yield path.relative_to(ROOT), path.read_text(encoding="utf-8")


def packages(folder):
    made = (folder / "module.mk").read_text(encoding="utf-8") if (folder / "module.mk").exists() else ""
    line = re.search(rf"^{folder.name}_PACKAGES := (.*)$", made, re.M)
    for package in line[1].split() if line else []:
        for name in ("conf/image/Dockerfile", "debian/control"):
            if not re.search(rf"(?<![\w.+-]){re.escape(package)}(?![\w.+-])", (ROOT / name).read_text(encoding="utf-8")):
                yield f"{name}: does not have {package}, which kubedns/modules/{folder.name}/module.mk needs"


def outside(module):
    """Prints each file of the tree, outside of the module's folders, that has its flags, metrics, manual page, folders or tests."""
    own = (f"kubedns/modules/{module}/", f"tests/modules/{module}/")
    names = [name for name in declared(ROOT / own[0]) if name.startswith(("--", "kubedns_", "skydns_"))]
    names += [path.name for path in (ROOT / own[1]).rglob("test_*.*")]
    names += [f"kubedns-{module}", f"modules/{module}"]
    pattern = re.compile("|".join(rf'(?:--|Fl -|"){name[2:]}(?![\w-])' if name.startswith("--") else rf"(?<![\w-]){re.escape(name)}(?![\w-])"
                                  for name in sorted(names, key=len, reverse=True)))  # fmt: skip
    files = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    for file in (file for file in files if not file.startswith(own) and (ROOT / file).is_file()):
        found = sorted(set(pattern.findall((ROOT / file).read_text(encoding="utf-8", errors="replace"))))
        if found:
            print(f"{file}: {', '.join(found)}")


def main():
    if sys.argv[1:2] == ["--outside"]:
        outside(sys.argv[2])
        return
    core = list(texts())
    shared = "\n".join(text for path, text in core if path.suffix == ".h")
    own = {path: enumerators(text) for path, text in core}
    findings = []
    for folder in sorted(path for path in (ROOT / "kubedns/modules").iterdir() if path.is_dir()):
        for name, pattern in declared(folder).items():
            if re.search(rf"\b{re.escape(name)}\(", shared) and not name.startswith(f"{folder.name}_"):
                continue  # a function of the core that the module's header calls
            findings += [f"{path}:{text.count(chr(10), 0, at.start()) + 1}: names {name} of the module {folder.name}"
                         for path, text in core if name not in own[path] for at in re.finditer(pattern, text)]
        findings += packages(folder)
    print(*findings, sep="\n", end="\n" if findings else "")
    sys.exit(bool(findings))


if __name__ == "__main__":
    main()
