"""The manual pages as a set: links between pages, where a flag is described, and the commands that they show."""

import gzip
import pathlib
import re
import shlex
import subprocess

import pytest
import yaml
from kubedns_process import PROGRAM
from overlays import ROOT

BIN = pathlib.Path(PROGRAM).parent
PAGES = {path.name: path.read_text() for program in ("kubedns", "nanny", "sidecar", "migrate") for path in sorted((ROOT / program).rglob("*.[578]"))}
MODULES = sorted(path.name for path in (ROOT / "kubedns/modules").rglob("*.7"))
FEATURES = sorted(name for name in PAGES if name.endswith((".5", ".7")) and name not in MODULES)


def items(page):
    """Returns {flag: text} from a page's lists of flags."""
    parts = re.split(r"^\.It Fl -?([A-Za-z][\w-]*)", PAGES[page], flags=re.M)
    return {flag: text.partition("\n.El\n")[0] for flag, text in zip(parts[1::2], parts[2::2])}


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_to_pages_and_documents_that_exist(page):
    links = {f"{name}.{section}" for name, section in re.findall(r"^\.(?:It )?Xr ([\w-]+) (\d)", PAGES[page], re.M)}
    ours = {link for link in links if link.startswith(("kubedns", "nanny", "sidecar"))}
    assert ours - set(PAGES) == set()
    assert [d for d in re.findall(r"^\.Pa ((?:docs|conf)/[\w./-]+)", PAGES[page], re.M) if not (ROOT / d.rstrip(".")).exists()] == []


def test_the_first_page_names_each_feature_page_with_a_line():
    named = re.findall(r"^\.It Xr ([\w-]+) (\d)\n(?!\.)\S", PAGES["kubedns.8"], re.M)
    assert sorted(f"{name}.{section}" for name, section in named) == FEATURES


def test_make_install_adds_a_line_for_the_page_of_each_module(tmp_path):
    subprocess.run(["make", "-s", "install", f"DESTDIR={tmp_path}", f"BUILD={BIN.parent}"], cwd=ROOT, check=True, capture_output=True)
    page = gzip.decompress((tmp_path / "usr/share/man/man8/kubedns.8.gz").read_bytes()).decode()
    named = re.findall(r"^\.It Xr ([\w-]+) (\d)\n(?!\.)\S", page, re.M)
    assert MODULES and sorted(f"{name}.{section}" for name, section in named) == sorted(FEATURES + MODULES)
    assert all((tmp_path / f"usr/share/man/man7/{name}.gz").exists() for name in MODULES)


def test_a_flag_that_refers_to_a_page_is_described_there():
    referring = {}
    for flag, text in items("kubedns.8").items():
        page = re.search(r"see\n\.Xr (kubedns-\w+) (\d)", text)
        if page:
            referring[flag] = f"{page[1]}.{page[2]}"
    assert len(referring) > 15
    missing = {flag: page for flag, page in referring.items() if not re.search(rf"^\.(?:It )?Fl -{flag}\b(?!-)", PAGES[page], re.M)}
    assert missing == {}


def commands():
    """Yields (page, arguments) for each example that starts one of our programs."""
    for page, text in PAGES.items():
        blocks = [block.replace("\\e\n", " ") for block in re.findall(r"^\.Bd .*?\n(.*?)^\.Ed", text, re.M | re.S)]
        for command in [*re.findall(r"^\.Dl (.*)$", text, re.M), *blocks]:
            if re.match(r"(kubedns|nanny|sidecar) ", command) and "--explain" not in command:
                yield page, shlex.split(command.strip())


COMMANDS = list(commands())


@pytest.mark.parametrize("page, command", COMMANDS, ids=[f"{page}-{i}" for i, (page, _) in enumerate(COMMANDS)])
def test_the_commands_that_are_shown_are_accepted(tmp_path, page, command):
    (tmp_path / "keys").write_text("secondary-1 hmac-sha256 MDEyMzQ1Njc4OWFiY2RlZg== 192.0.2.53\n")
    command = [arg.replace("/etc/kubedns-transfer/keys", f"{tmp_path}/keys") for arg in command]
    command = [re.sub(r"^(--?config-?[dD]ir)=.*", rf"\1={tmp_path}", arg) for arg in command]  # --check refuses a missing directory
    added = [] if command[0] != "kubedns" or any("objects-dir" in arg for arg in command) else [f"--objects-dir={ROOT}/conf/example/objects"]
    if not any("print-zone" in arg for arg in command):
        added.append("--check")
    end = command.index("--") if "--" in command else len(command)
    done = subprocess.run([BIN / command[0], *command[1:end], *added, *command[end:]], cwd=ROOT, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, f"{page}: {' '.join(command)}\n{done.stderr}"


def test_the_configmaps_that_are_shown_are_accepted(tmp_path):
    blocks = re.findall(r"^\.Bd .*?\n(data:\n.*?)^\.Ed", PAGES["kubedns-config.5"], re.M | re.S)
    assert len(blocks) >= 2
    (tmp_path / "resolv.conf").write_text("nameserver 192.0.2.1\n")
    for i, block in enumerate(blocks):
        config = tmp_path / str(i)
        config.mkdir()
        for key, value in yaml.safe_load(block)["data"].items():
            (config / key).write_text(value)
        for command in (["nanny", "--check", f"-configDir={config}", f"-resolvConf={tmp_path}/resolv.conf"],
                        ["kubedns", "--check", f"--config-dir={config}", f"--objects-dir={ROOT}/conf/example/objects"]):  # fmt: skip
            done = subprocess.run([BIN / command[0], *command[1:]], capture_output=True, text=True, timeout=30, check=False)
            assert done.returncode == 0 and "refused" not in done.stderr, done.stdout + done.stderr
