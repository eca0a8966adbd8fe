"""The images: their size, their contents, and their metadata."""

import io
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import time

import pytest

from cluster import ROOT, version
from http_requests import Port, send_all
from run import docker, run
from waiting import wait_for

# MB. On Debian 12, with Debian's own libcurl, libmicrohttpd and GnuTLS, the images with kubedns, dnsmasq and the sidecar had 20.9, 10.0 and 9.6.
GOAL_MB = {"kubedns": 11, "nanny": 8, "nanny-unbound": 25, "sidecar": 8}
READER = pathlib.Path(os.environ.get("BUILD", ROOT / "build")).resolve() / "spdx"
PROGRAM = {"kubedns": "kubedns", "nanny": "nanny", "nanny-unbound": "nanny", "sidecar": "sidecar"}
COMPANIONS = {"kubedns": ["kubedns-migrate"], "nanny": ["dnsmasq"], "nanny-unbound": ["unbound"]}  # programs in the image besides the first one
OLD_ENTRY_POINTS = {"kubedns": "kube-dns", "nanny": "dnsmasq-nanny", "nanny-unbound": "dnsmasq-nanny", "sidecar": "sidecar"}


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
    engine = {".dockerenv", "dev/console", "etc/hosts", "etc/hostname", "etc/resolv.conf"}  # created in every container
    programs = {f for f, m in contents[name].items() if m.isfile() and m.mode & 0o111 and ".so" not in f}
    expected = {f"usr/sbin/{PROGRAM[name]}"} | {f"usr/sbin/{p}" for p in COMPANIONS.get(name, ())}
    assert programs - engine == expected
    for word in ("bin/sh", "bash", "busybox", "apt", "dpkg"):
        assert not any(f.endswith("/" + word) for f, m in contents[name].items() if not m.isdir()), word
    setuid = [f for f, m in contents[name].items() if m.mode & 0o6000]
    assert not setuid


@pytest.mark.parametrize("name", GOAL_MB)
def test_programs_keep_the_names_of_functions_for_perf(images, tmp_path, name):
    container = docker("create", f"{name}:{images}").strip()
    try:
        docker("cp", f"{container}:/usr/sbin/{PROGRAM[name]}", tmp_path / "program")
    finally:
        docker("rm", container)
    listed = run("readelf", "--wide", "--syms", tmp_path / "program")
    functions = [line.split() for line in listed.splitlines() if " FUNC " in line and " UND " not in line]
    assert {"main", "http_run"} <= {words[-1] for words in functions}
    assert ".debug_info" not in run("readelf", "--wide", "--sections", tmp_path / "program")


@pytest.mark.parametrize("name", GOAL_MB)
def test_libraries_come_with_their_licences(contents, name):
    assert any(f == "usr/share/doc/libc6/copyright.gz" for f in contents[name])
    for package in {"nanny": ["dnsmasq-base"], "nanny-unbound": ["unbound", "libssl3t64", "dns-root-data"]}.get(name, ()):
        assert f"usr/share/doc/{package}/copyright.gz" in contents[name]


EVERYWHERE = {"base-files", "libc6", "libmicrohttpd12t64", "libseccomp2"}
PACKAGES = {"kubedns": EVERYWHERE | {"libcurl3t64-gnutls", "libgnutls30t64", "libmimalloc3"},
            "nanny": EVERYWHERE | {"dnsmasq-base", "libcares2"}, "sidecar": EVERYWHERE,
            "nanny-unbound": EVERYWHERE | {"unbound", "libcares2", "libssl3t64", "dns-root-data"}}
# Debian's packages of dnsmasq, libmicrohttpd, GnuTLS and libcurl need these. conf/image/compile.sh compiles all four without them.
UNUSED_TLS = ["libp11-kit", "libffi", "libidn2", "libunistring", "libcrypto"]
UNUSED = {"kubedns": ["libldap", "libssh", "libkrb5", "libgssapi", "librtmp", "libngtcp2", "libnghttp3", "libssl", *UNUSED_TLS],
          "nanny": ["libdbus", "libsystemd", "libnftables", "libgnutls", "libp11-kit", "libcrypto"], "sidecar": ["libcurl", *UNUSED_TLS],
          "nanny-unbound": ["libgnutls", "libcurl"]}


@pytest.mark.parametrize("name", PACKAGES)
def test_scanners_find_every_package_with_its_patch_level(images, name):
    """Scanners can read the release and dpkg's records from an image without a package manager."""
    tool = ROOT / "conf/image/packages.py"
    found = dict(line.split() for line in run("sh", "-c", f"docker save {name}:{images} | {sys.executable} {tool}").splitlines())
    assert PACKAGES[name] <= set(found)
    assert all(version[0].isdigit() for version in found.values())
    if name == "nanny":
        assert found["dnsmasq-base"].startswith("2.91-1+deb13u"), "the version must include the patch level; the program itself prints 2.91"
    if name == "nanny-unbound":
        assert re.match(r"1[.]2\d[.]\d+-\d", found["unbound"])


@pytest.mark.parametrize("name", GOAL_MB)
def test_as_released_the_sbom_lists_the_same_and_the_engine_loads_the_archive(images, tmp_path, name):
    """SPDX's own library reads the SBOM (make spdx)."""
    tools, archive = ROOT / "conf/image", tmp_path / "image.tar"
    run("sh", "-c", f"docker save {name}:{images} | {sys.executable} {tools}/oci.py 1700000000 >{archive}")
    listed = [line.split() for line in run("sh", "-c", f"{sys.executable} {tools}/sbom.py <{archive} | {READER}").splitlines()]
    found = [line.split() for line in run("sh", "-c", f"docker save {name}:{images} | {sys.executable} {tools}/packages.py").splitlines()]
    assert listed[0][:2] == [PROGRAM[name], version()]
    assert sorted(p[:2] for p in listed[1:]) == found
    if name == "nanny":
        assert any(p.startswith("pkg:deb/debian/dnsmasq-base@2.91-1%2Bdeb13u") for _, _, p in listed)
    before = docker("image", "inspect", "-f", "{{.Id}}", f"{name}:{images}")
    assert f"{name}:{images}" in docker("load", "-qi", archive)
    assert docker("image", "inspect", "-f", "{{.Id}}", f"{name}:{images}") == before


def test_the_packages_are_those_that_the_repository_lists(images):
    """
    The images have these packages in these upstream versions. Debian's revision may be another one, because a fix by Debian must not make
    this test fail. `make images` prints such differences, and `make freshen` finds missing fixes.
    """
    names = " ".join(f"{name}:{images}" for name in GOAL_MB)
    made = run("sh", "-c", f"docker save {names} | {sys.executable} {ROOT}/conf/image/packages.py")

    def upstream(text):
        return [(name, version.rpartition("-")[0]) for name, version in map(str.split, text.splitlines())]

    assert upstream(made) == upstream((ROOT / "conf/image/packages").read_text())


@pytest.mark.parametrize("version, status", [("1.0", 1), ("9999", 0)])
def test_a_fix_that_debian_has_and_the_image_lacks_is_listed(version, status):
    """`make freshen` gives the packages of the images to this script. It asks Debian's archive."""
    base = os.environ.get("BASE", "kubedns-base:trixie")
    done = subprocess.run(["sh", ROOT / "conf/image/fixes.sh", base], input=f"libc6 {version}\n", capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.startswith("libc6: the image has 1.0, Debian has ")) == (status, status == 1), done.stderr


def test_a_libmicrohttpd_before_the_least_version_is_refused():
    """The base image lacks dpkg-dev, so the test provides the only command of it that compile.sh runs before it refuses the version."""
    base = os.environ.get("BASE", "kubedns-base:trixie")
    command = r"""printf '#!/bin/sh\necho DEB_HOST_GNU_TYPE=a DEB_HOST_MULTIARCH=a\n' >/usr/bin/dpkg-architecture
        chmod 755 /usr/bin/dpkg-architecture
        exec sh -s amd64 libmicrohttpd 1.0.1-4 "" 1.0.10"""
    with open(ROOT / "conf/image/compile.sh", encoding="utf-8") as script:
        done = subprocess.run(["docker", "run", "--rm", "-i", base, "sh", "-c", command], stdin=script, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "libmicrohttpd 1.0.1-4: conf/image/pins requires 1.0.10 or newer" in done.stderr


@pytest.mark.parametrize("user", ["0:0", "65534:65534"])
@pytest.mark.parametrize("name, args", [("kubedns", ["--objects-dir=/tmp", "--dns-port=10053"]), ("sidecar", []), ("nanny", ["--", "--port=10053"]),
                                        ("nanny-unbound", ["--engine=unbound", "--", "--port=10053"])])
def test_confined_in_a_plain_container(images, name, args, user):
    """
    Runs as root with the engine's capabilities, and as nobody without capabilities. Every layer of the sandbox must work, whatever seccomp
    filter the engine uses.
    """
    container = docker("run", "-d", "--network", "none", "--user", user, f"{name}:{images}", *args).strip()
    try:
        said = wait_log(container, "sandbox: ", 2 if PROGRAM[name] == "nanny" else 1)
    finally:
        docker("rm", "-f", container)
    assert all("sandbox: no_new_privs, capabilities, files, tcp, signals, syscalls" in line for line in said), said


@pytest.mark.parametrize("name, args, port", [("kubedns", ["--objects-dir=/tmp", "--dns-port=10053"], 8081), ("sidecar", [], 10054),
                                              ("nanny", ["--", "--port=10053"], 10056), ("nanny-unbound", ["--engine=unbound", "--", "--port=10053"], 10056)])
def test_no_http_request_ends_a_program(images, report, name, args, port):
    container = docker("run", "-d", f"{name}:{images}", *args).strip()
    try:
        address = docker("inspect", "-f", "{{.NetworkSettings.IPAddress}}", container).strip()
        wait_for(lambda: Port(address, port, "/healthz").health() == "200", timeout=30, what=lambda: docker("logs", container))
        found = send_all(address, port, "/healthz")
        assert docker("inspect", "-f", "{{.State.Running}}", container).strip() == "true"
    finally:
        docker("rm", "-f", container)
    report(f"hostile HTTP requests to {name}", "it answers after each", f"it answers after each of {sum(sum(c.values()) for c in found.values())}")


def wait_log(container, text, count):
    deadline = time.monotonic() + 30
    while True:
        out = subprocess.run(["docker", "logs", container], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True).stdout
        lines = [line for line in out.splitlines() if text in line]
        if len(lines) >= count:
            return lines
        assert time.monotonic() < deadline, out
        time.sleep(0.05)


def test_dnsmasq_has_only_the_documented_compile_options(images):
    said = docker("run", "--rm", "--network", "none", "--entrypoint", "/usr/sbin/dnsmasq", f"nanny:{images}", "--version")
    options = next(line for line in said.splitlines() if line.startswith("Compile time options:")).split()
    assert {"IPv6", "DNSSEC", "IDN2", "loop-detect", "inotify"} <= set(options)
    assert {"no-DBus", "no-conntrack", "no-nftset", "no-ipset", "no-scripts", "no-DHCP", "no-TFTP"} <= set(options)


@pytest.mark.parametrize("name", UNUSED)
def test_no_library_of_an_unused_feature(contents, name):
    for library in UNUSED[name]:
        assert not any(library in f for f in contents[name]), library


def test_the_sidecar_of_the_image_verifies_certificates(images, tmp_path):
    """The images have a GnuTLS with fewer features. A system test of tls:// servers runs with the sidecar and the libraries of the image."""
    root, wrapper = tmp_path / "root", tmp_path / "bin/sidecar"
    for directory in (root, wrapper.parent):
        directory.mkdir()
    container = docker("create", f"sidecar:{images}").strip()
    try:
        run("sh", "-c", f"docker export {container} | tar -x -C {root} lib64 usr")
    finally:
        docker("rm", container)
    loader, = root.glob("lib64/ld-linux-*")
    library_path, = root.glob("usr/lib/*-linux-gnu")
    used = run(loader, "--library-path", library_path, "--list", root / "usr/sbin/sidecar")
    assert f"libgnutls.so.30 => {library_path}/" in used, "the loader also finds this machine's own libraries"
    wrapper.write_text(f'#!/bin/sh\nexec {loader} --library-path {library_path} {root}/usr/sbin/sidecar "$@"\n')
    wrapper.chmod(0o755)
    said = run(sys.executable, "-m", "pytest", "-c", ROOT / "tests/pytest.ini", "-q", "-n", "0",
               ROOT / "tests/system/sidecar/test_sidecar_tls.py::test_each_reason_is_named", env={"BUILD": str(tmp_path)})
    assert "1 passed" in said


@pytest.mark.parametrize("name", GOAL_MB)
def test_labels_and_user(images, name):
    config = json.loads(docker("image", "inspect", "-f", "{{json .Config}}", f"{name}:{images}"))
    labels = config["Labels"]
    assert labels["org.opencontainers.image.version"] == version()
    assert labels["org.opencontainers.image.revision"] not in ("", "unknown")
    # If port 53 is privileged, the nanny may have to start as root. The manifests set user 65534 for all three programs.
    assert config.get("User", "") == ("" if PROGRAM[name] == "nanny" else "65534:65534")


@pytest.mark.parametrize("name", GOAL_MB)
def test_version_and_old_entry_point(images, name):
    old = docker("run", "--rm", "--read-only", "--cap-drop", "ALL", "--user", "65534:65534", "--network", "none",
                 "--entrypoint", f"/{OLD_ENTRY_POINTS[name]}", f"{name}:{images}", "--version")
    assert images in old


def test_the_kubedns_image_translates_a_corefile(images):
    """kubedns-migrate runs as the Dockerfile documents it: with standard input and without mounts."""
    out = docker("run", "--rm", "-i", "--read-only", "--cap-drop", "ALL", "--network", "none", "--entrypoint",
                 "/usr/sbin/kubedns-migrate", f"kubedns:{images}", "-",
                 input=".:53 {\n    kubernetes cluster.local\n    forward . 192.0.2.53\n    cache 30\n}\n")
    assert "upstreamNameservers" in out and "192.0.2.53" in out


@pytest.fixture(scope="module")
def arm64(images):
    """
    The tag of the arm64 images, and the emulator that runs their programs. All commits use the same tag, and `make test-images` makes arm64
    images only on request. Images of another commit are not tested.
    """
    tag, emulator = f"{images}-arm64", shutil.which("qemu-aarch64-static")
    make = 'make test-images ARCHITECTURES="amd64 arm64"'
    label = '{{index .Config.Labels "org.opencontainers.image.version"}}'
    found = subprocess.run(["docker", "image", "inspect", "-f", label, *(f"{name}:{tag}" for name in GOAL_MB)], capture_output=True, text=True, check=False)
    if found.returncode != 0:
        pytest.skip(f"no arm64 images here: {make}")
    if others := set(found.stdout.split()) - {version()}:
        pytest.skip(f"the arm64 images here are of {' and '.join(sorted(others))}: {make}")
    if not emulator:
        pytest.skip("no qemu-user-static here")
    return tag, emulator


@pytest.mark.parametrize("name, program", [(name, program) for name in GOAL_MB for program in [PROGRAM[name], *COMPANIONS.get(name, ())]])
def test_arm64_programs_start_under_an_emulator(arm64, name, program):
    tag, emulator = arm64
    flag, expected = {"dnsmasq": ("--version", "Dnsmasq version 2."), "unbound": ("-V", "Version 1.")}.get(program, ("--version", version()))
    assert expected in docker("run", "--rm", "--read-only", "--cap-drop", "ALL", "--user", "65534:65534", "--network", "none", "-v", f"{emulator}:/emulator:ro",
                              "--entrypoint", "/emulator", f"{name}:{tag}", f"/usr/sbin/{program}", flag)


@pytest.mark.parametrize("name", GOAL_MB)
def test_both_architectures_are_one_index_with_the_same_packages(arm64, images, tmp_path, name):
    """Revisions of a binary package (+b1) differ between architectures. Its source is the same."""
    tools, archive = ROOT / "conf/image", tmp_path / "image.tar"
    run("sh", "-c", f"docker save {name}:{images} {name}:{arm64[0]} | {sys.executable} {tools}/oci.py 1700000000 >{archive}")
    sboms = [json.loads(run("sh", "-c", f"{sys.executable} {tools}/sbom.py {a} <{archive}")) for a in ("amd64", "arm64")]
    sources = [{p["sourceInfo"] for p in sbom["packages"] if p.get("supplier") == "Organization: Debian"} for sbom in sboms]
    assert sources[0] == sources[1] and sources[0]
    programs = [next(p for p in sbom["packages"] if p["SPDXID"] == "SPDXRef-Program")["checksums"] for sbom in sboms]
    assert programs[0] != programs[1]


def test_one_dockerfile_for_both_architectures():
    text = open(run("git", "rev-parse", "--show-toplevel").strip() + "/conf/image/Dockerfile").read()
    instructions = re.sub(r"^#.*$", "", text, flags=re.M)
    assert "amd64" not in instructions and "x86_64" not in instructions
