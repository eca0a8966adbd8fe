"""The images: how large, what is inside, what they say of themselves."""

import io
import json
import os
import pathlib
import subprocess
import sys
import tarfile
import time

import pytest

from cluster import ROOT, version
from run import docker, run

# kubedns's was 20 before PCRE2, which is 0.6 of it.
GOAL_MB = {"kubedns": 21, "nanny": 15, "sidecar": 10}
READER = pathlib.Path(os.environ.get("BUILD", ROOT / "build")).resolve() / "spdx"
COMPANIONS = {"kubedns": ["kubedns-migrate"], "nanny": ["dnsmasq"]}  # programs beside the one that gives the image its name
OLD_ENTRY_POINTS = {"kubedns": "kube-dns", "nanny": "dnsmasq-nanny", "sidecar": "sidecar"}


@pytest.fixture(scope="module")
def contents(images, tmp_path_factory):
    """The files of each image, as the engine would unpack them."""
    files = {}
    for name in GOAL_MB:
        container = docker("create", f"{name}:{images}").strip()
        try:
            data = subprocess.run(["docker", "export", container], stdout=subprocess.PIPE, check=True).stdout
        finally:
            docker("rm", container)
        with tarfile.open(fileobj=io.BytesIO(data)) as tar:
            files[name] = {m.name: m for m in tar.getmembers()}
    return files


@pytest.mark.parametrize("name", GOAL_MB)
def test_size(images, report, name):
    size = int(docker("image", "inspect", "-f", "{{.Size}}", f"{name}:{images}")) / 1e6
    report(f"image {name}", f"at most {GOAL_MB[name]} MB", f"{size:.1f} MB")
    assert size <= GOAL_MB[name]


@pytest.mark.parametrize("name", GOAL_MB)
def test_only_what_runs_is_inside(contents, name):
    engine = {".dockerenv", "dev/console", "etc/hosts", "etc/hostname", "etc/resolv.conf"}  # made for every container
    programs = {f for f, m in contents[name].items() if m.isfile() and m.mode & 0o111 and ".so" not in f}
    expected = {f"usr/sbin/{name}"} | {f"usr/sbin/{p}" for p in COMPANIONS.get(name, ())}
    assert programs - engine == expected
    for word in ("bin/sh", "bash", "busybox", "apt", "dpkg"):
        assert not any(f.endswith("/" + word) for f, m in contents[name].items() if not m.isdir()), word
    setuid = [f for f, m in contents[name].items() if m.mode & 0o6000]
    assert not setuid


@pytest.mark.parametrize("name", GOAL_MB)
def test_libraries_come_with_their_licences(contents, name):
    assert any(f == "usr/share/doc/libc6/copyright.gz" for f in contents[name])
    assert name != "nanny" or "usr/share/doc/dnsmasq/copyright.gz" in contents[name]


EVERYWHERE = {"base-files", "libc6", "libmicrohttpd12", "libseccomp2"}
PACKAGES = {"kubedns": EVERYWHERE | {"libcurl3-gnutls", "libmimalloc2.0", "libc-ares2"}, "nanny": EVERYWHERE | {"dnsmasq-base", "libc-ares2"},
            "sidecar": EVERYWHERE}


@pytest.mark.parametrize("name", PACKAGES)
def test_scanners_find_every_package_with_its_patch_level(images, name):
    """The release and dpkg's records, as scanners read them from an image without a package manager."""
    tool = ROOT / "conf/image/packages.py"
    found = dict(line.split() for line in run("sh", "-c", f"docker save {name}:{images} | {sys.executable} {tool}").splitlines())
    assert PACKAGES[name] <= set(found)
    assert all(version[0].isdigit() for version in found.values())
    if name == "nanny":
        assert found["dnsmasq-base"].startswith("2.90-4~deb12u"), "with the patch level: the program itself says 2.90"


@pytest.mark.parametrize("name", GOAL_MB)
def test_as_released_the_sbom_lists_the_same_and_the_engine_loads_the_archive(images, tmp_path, name):
    """SPDX's own library reads it (make spdx)."""
    tools, archive = ROOT / "conf/image", tmp_path / "image.tar"
    run("sh", "-c", f"docker save {name}:{images} | {sys.executable} {tools}/oci.py 1700000000 >{archive}")
    listed = [line.split() for line in run("sh", "-c", f"{sys.executable} {tools}/sbom.py <{archive} | {READER}").splitlines()]
    found = [line.split() for line in run("sh", "-c", f"docker save {name}:{images} | {sys.executable} {tools}/packages.py").splitlines()]
    assert listed[0][:2] == [name, version()]
    assert sorted(p[:2] for p in listed[1:]) == found
    if name == "nanny":
        assert any(p.startswith("pkg:deb/debian/dnsmasq-base@2.90-4~deb12u") for _, _, p in listed)
    before = docker("image", "inspect", "-f", "{{.Id}}", f"{name}:{images}")
    assert f"{name}:{images}" in docker("load", "-qi", archive)
    assert docker("image", "inspect", "-f", "{{.Id}}", f"{name}:{images}") == before


def test_the_packages_are_those_that_the_repository_lists(images):
    """Fails when Debian has mended something since: look at what, then `make image-packages`."""
    names = " ".join(f"{name}:{images}" for name in GOAL_MB)
    assert run("sh", "-c", f"docker save {names} | {sys.executable} {ROOT}/conf/image/packages.py") == (ROOT / "conf/image/packages").read_text()


@pytest.mark.parametrize("user", ["0:0", "65534:65534"])
@pytest.mark.parametrize("name, args", [("kubedns", ["--objects-dir=/tmp", "--dns-port=10053"]), ("sidecar", []), ("nanny", ["--", "--port=10053"])])
def test_confined_in_a_plain_container(images, name, args, user):
    """As root with the engine's capabilities, and as nobody with none: every layer, whatever the engine's own filter is."""
    container = docker("run", "-d", "--network", "none", "--user", user, f"{name}:{images}", *args).strip()
    try:
        said = wait_log(container, "sandbox: ", 2 if name == "nanny" else 1)
    finally:
        docker("rm", "-f", container)
    assert all("sandbox: no_new_privs, capabilities, files, tcp, signals, syscalls" in line for line in said), said


def wait_log(container, text, count):
    deadline = time.monotonic() + 30
    while True:
        out = subprocess.run(["docker", "logs", container], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True).stdout
        lines = [line for line in out.splitlines() if text in line]
        if len(lines) >= count:
            return lines
        assert time.monotonic() < deadline, out
        time.sleep(0.05)


def test_dnsmasq_can_what_the_documents_say_and_nothing_that_a_pod_cannot_use(images, contents):
    said = docker("run", "--rm", "--network", "none", "--entrypoint", "/usr/sbin/dnsmasq", f"nanny:{images}", "--version")
    options = next(line for line in said.splitlines() if line.startswith("Compile time options:")).split()
    assert {"IPv6", "DNSSEC", "IDN2", "loop-detect", "inotify"} <= set(options)
    assert {"no-DBus", "no-conntrack", "no-nftset", "no-ipset", "no-scripts", "no-DHCP", "no-TFTP"} <= set(options)
    for library in ("libdbus", "libsystemd", "libnftables"):
        assert not any(library in f for f in contents["nanny"]), library


@pytest.mark.parametrize("name", GOAL_MB)
def test_labels_and_user(images, name):
    config = json.loads(docker("image", "inspect", "-f", "{{json .Config}}", f"{name}:{images}"))
    labels = config["Labels"]
    assert labels["org.opencontainers.image.version"] == version()
    assert labels["org.opencontainers.image.revision"] not in ("", "unknown")
    # The nanny may have to begin as root, where port 53 is privileged; the manifests say 65534 for all three.
    assert config.get("User", "") == ("" if name == "nanny" else "65534:65534")


@pytest.mark.parametrize("name", GOAL_MB)
def test_version_and_old_entry_point(images, name):
    old = docker("run", "--rm", "--read-only", "--cap-drop", "ALL", "--user", "65534:65534", "--network", "none",
                 "--entrypoint", f"/{OLD_ENTRY_POINTS[name]}", f"{name}:{images}", "--version")
    assert images in old


def test_the_kubedns_image_translates_a_corefile(images):
    """As the Dockerfile says it is run: from standard input, with nothing mounted."""
    out = docker("run", "--rm", "-i", "--read-only", "--cap-drop", "ALL", "--network", "none", "--entrypoint",
                 "/usr/sbin/kubedns-migrate", f"kubedns:{images}", "-",
                 input=".:53 {\n    kubernetes cluster.local\n    forward . 192.0.2.53\n    cache 30\n}\n")
    assert "upstreamNameservers" in out and "192.0.2.53" in out


def test_one_dockerfile_for_both_architectures():
    text = open(run("git", "rev-parse", "--show-toplevel").strip() + "/conf/image/Dockerfile").read()
    assert "amd64" not in text.replace("(amd64 and arm64 are what we run)", "") and "x86_64" not in text
