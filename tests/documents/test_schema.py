"""Compares each program's schema (the source of --help) with its manual, the chart and the manifests."""

import pathlib
import re
import subprocess

import pytest
import yaml
from kubedns_process import PROGRAM
from overlays import ROOT

BIN = pathlib.Path(PROGRAM).parent
PROGRAMS = {"kubedns": "kubedns/kubedns.8", "nanny": "nanny/nanny.8", "sidecar": "sidecar/sidecar.8"}
KEYS = "Keys of the ConfigMap, which take effect while the program runs"
# klog's own flags are the same for all programs. One paragraph of each manual covers them.
COMMON = {"check", "log-format", "sandbox", "v", "version", "help"}


def schema(program):
    """Returns {group: {name: (argument, help)}} from the program's --help."""
    text = subprocess.run([BIN / program, "--help=all"], capture_output=True, text=True, check=True).stdout
    groups, group = {}, None
    for line in text.splitlines():
        heading = re.fullmatch(r"(\S.*):", line)
        row = re.fullmatch(r"  (?:--?)?([A-Za-z][\w-]*)(?:\[?=(\S+?)\]?)? +(\S.*)", line)
        if heading and not line.startswith("usage"):
            group = groups.setdefault(heading[1], {})
        elif row and group is not None:
            group[row[1]] = (row[2], row[3])
    return groups


def flags(program):
    return {name: row for group, rows in schema(program).items() if group != KEYS for name, row in rows.items()}


def manual(program):
    """The program's manual, and the pages of its modules."""
    return "".join(page.read_text() for page in [ROOT / PROGRAMS[program], *ROOT.glob(f"{program}/modules/*/*.7")])


def manual_flags(program):
    """
    The flags in the manual's list: `.It Fl -name Ns = ...`, or several names with commas between them. The arguments
    after `--` are in other sections. They do not count.
    """
    text = re.sub(r"^\.Sh (?:DNSMASQ'S ARGUMENTS|UNBOUND AS THE ENGINE)$.*?(?=^\.Sh )", "", manual(program), flags=re.M | re.S)
    found = set()
    for line in re.findall(r"^\.It Fl (.*)$", text, re.M):
        names = [re.match(r"(?:Fl )?-?([A-Za-z][\w-]*)(.*)", part) for part in line.split(" , ")]
        found.add(names[0][1])
        found.update(m[1] for m in names[1:] if m and not names[0][2])
    return found


@pytest.mark.parametrize("program", PROGRAMS)
def test_each_flag_belongs_to_a_group_and_has_a_line(program):
    groups = schema(program)
    assert len(groups) >= 4 and "Common to the programs" in groups and all(groups.values())
    assert set(groups["Common to the programs"]) == COMMON
    assert all(help_ for rows in groups.values() for _, help_ in rows.values())


@pytest.mark.parametrize("program", PROGRAMS)
def test_help_shows_the_first_flags_and_says_how_to_see_all(program):
    first = subprocess.run([BIN / program, "--help"], capture_output=True, text=True, check=True).stdout
    assert set(re.findall(r"^(\S.*):$", first, re.M)) == {"Basics", "Commands", "Common to the programs"}
    own = {name for name in re.findall(r"^  --([\w-]+)", first, re.M) if name not in COMMON}
    assert own
    missing = len(set(flags(program)) - COMMON - own)
    assert f"\n{missing} more flags: {program} --help=all\n" in first


@pytest.mark.parametrize("program", PROGRAMS)
def test_help_takes_all_or_nothing(program):
    done = subprocess.run([BIN / program, "--help=everything"], capture_output=True, text=True)
    assert done.returncode == 2 and '--help: "everything" is not all' in done.stderr


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_manual_has_each_flag_and_no_other(program):
    documented, known = manual_flags(program), set(flags(program))
    assert known - documented - COMMON == set(), "not in the manual"
    assert documented - known == set(), "not in the schema"


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_manual_has_the_groups_of_the_help_in_its_order(program):
    options = re.search(r"^\.Sh OPTIONS\n(.*?)^\.Sh ", manual(program), re.M | re.S)[1]
    documented, group, seen = {}, None, set()
    for line in options.splitlines():
        if line.startswith(".Ss "):
            group = documented.setdefault(line[4:], [])
        elif line.startswith(".It Fl "):
            group += re.findall(r"Fl -?([A-Za-z][\w-]*)", line)
    printed = {}
    for name, rows in schema(program).items():
        if name not in (KEYS, "Modules"):  # each module has its own page
            printed[name] = [flag for flag in rows if flag not in seen]
            seen |= set(rows)
    assert list(documented.items()) == list(printed.items())


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_manual_names_each_default_of_a_number_or_a_choice(program):
    """If a flag's help line ends with a default in brackets, the flag's paragraph in the manual contains the same text."""
    items = re.split(r"^\.It Fl ", manual(program), flags=re.M)[1:]
    missing = []
    for name, (_, line) in flags(program).items():
        default = re.search(r" \(([\w.:/-]+)\)$", line)
        if not default or name in COMMON or default[1] == "false":
            continue
        said = [i for i in items if re.match(rf"-?{name}\b(?!-)", i)]
        if not any(default[1].rstrip(".") in i for i in said):
            missing.append((name, default[1]))
    assert missing == []


@pytest.mark.parametrize("program", ["kubedns", "nanny"])
def test_the_manual_has_each_key_of_the_configmap(program):
    keys = schema(program)[KEYS]
    assert {"upstreamNameservers", "hosts", "records", "rewrites"} <= set(keys)
    assert [k for k in keys if not re.search(rf"^\.It Cm {k}$", manual(program), re.M)] == []


def test_both_programs_read_the_same_configmap():
    kubedns, nanny = schema("kubedns")[KEYS], schema("nanny")[KEYS]
    assert set(kubedns) - set(nanny) == {"federations"} and set(nanny) - set(kubedns) == {"stubDomains"}
    assert all(kubedns[k] == nanny[k] for k in set(kubedns) & set(nanny))


def test_the_chart_has_a_value_for_each_key_of_the_configmap():
    template = (ROOT / "conf/helm/kubedns/templates/configmap.yaml").read_text()
    values = yaml.safe_load((ROOT / "conf/helm/kubedns/values.yaml").read_text())
    written = re.findall(r'with \.Values\.(\w+) [^}]*\}\}\{\{- \$_ := set \$data "(\w+)"', template)
    known = set(schema("kubedns")[KEYS]) | set(schema("nanny")[KEYS])
    assert {key for _, key in written} == known
    assert all(value == key and value in values for value, key in written)


def container_args():
    """Yields (file, program, flag) for each flag of our containers in the manifests and in the chart's files."""
    names = {"kubedns": "kubedns", "dnsmasq": "nanny", "sidecar": "sidecar"}
    for path in sorted([*(ROOT / "conf/kubernetes").rglob("*.yaml"), *(ROOT / "conf/helm/kubedns").rglob("*.yaml")]):
        if "templates" in path.parts:
            continue
        for o in yaml.safe_load_all(path.read_text()):
            for item in list(walk(o)):
                for arg in item.get("args") or []:
                    if arg == "--":
                        break
                    if item.get("name") in names and str(arg).startswith("-"):
                        yield path, names[item["name"]], re.match(r"--?([\w-]+)", arg)[1]


def walk(o):
    if isinstance(o, dict):
        if "name" in o and "args" in o:
            yield o
        for v in o.values():
            yield from walk(v)
    elif isinstance(o, list):
        for v in o:
            yield from walk(v)


def test_the_manifests_and_the_chart_give_only_flags_of_the_schema():
    known = {program: set(flags(program)) for program in PROGRAMS}
    given = list(container_args())
    assert len(given) > 20 and {program for _, program, _ in given} == set(PROGRAMS)
    assert [(str(path), program, flag) for path, program, flag in given if flag not in known[program]] == []


def test_the_charts_templates_give_kubedns_only_flags_of_the_schema():
    text = (ROOT / "conf/helm/kubedns/templates/_helpers.tpl").read_text() + (ROOT / "conf/helm/kubedns/templates/deployment.yaml").read_text()
    of_dnsmasq = set(re.findall(r"--([a-z0-9-]+)", "".join(re.findall(r"\$flag \(list ([^)]*)\)", text)))) | {"server"}
    given = set(re.findall(r'"--([a-z][a-z-]+[a-z])(?==|")', text)) - of_dnsmasq
    assert len(given) > 5 and sorted(given - set(flags("kubedns"))) == []
