"""The images: how large, what is inside, what they say of themselves."""

import io
import json
import tarfile

import pytest

from run import docker, run

GOAL_MB = {"kubedns": 20, "nanny": 15, "sidecar": 10}
OLD_ENTRY_POINTS = {"kubedns": "kube-dns", "nanny": "dnsmasq-nanny", "sidecar": "sidecar"}


@pytest.fixture(scope="module")
def contents(images, tmp_path_factory):
    """The files of each image, as the engine would unpack them."""
    import subprocess
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
    expected = {f"usr/sbin/{name}"} | ({"usr/sbin/dnsmasq"} if name == "nanny" else set())
    assert programs - engine == expected
    for word in ("bin/sh", "bash", "busybox", "apt", "dpkg"):
        assert not any(f.endswith("/" + word) for f in contents[name]), word
    setuid = [f for f, m in contents[name].items() if m.mode & 0o6000]
    assert not setuid


@pytest.mark.parametrize("name", GOAL_MB)
def test_libraries_come_with_their_licences(contents, name):
    assert any(f == "usr/share/doc/libc6/copyright.gz" for f in contents[name])
    assert name != "nanny" or "usr/share/doc/dnsmasq/copyright.gz" in contents[name]


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
    assert labels["org.opencontainers.image.version"] == images
    assert labels["org.opencontainers.image.revision"] not in ("", "unknown")
    # The nanny may have to begin as root, where port 53 is privileged; the manifests say 65534 for all three.
    assert config.get("User", "") == ("" if name == "nanny" else "65534:65534")


@pytest.mark.parametrize("name", GOAL_MB)
def test_version_and_old_entry_point(images, name):
    old = docker("run", "--rm", "--read-only", "--cap-drop", "ALL", "--user", "65534:65534", "--network", "none",
                 "--entrypoint", f"/{OLD_ENTRY_POINTS[name]}", f"{name}:{images}", "--version")
    assert images in old


def test_one_dockerfile_for_both_architectures():
    text = open(run("git", "rev-parse", "--show-toplevel").strip() + "/conf/image/Dockerfile").read()
    assert "amd64" not in text.replace("(amd64 and arm64 are what we run)", "") and "x86_64" not in text
