"""
make publish: what `make release` made is in a registry, signed, with the same digests. A second run changes nothing, and a changed byte is
refused, at each place where a byte can change. `make test-publish` gives the programs in the environment. The release is the one of the working
tree, with tiny images and without Debian packages. The registry is distribution.
"""

import base64
import hashlib
import http.client
import io
import json
import os
import pathlib
import re
import shutil
import ssl
import subprocess
import sys
import tarfile
import urllib.parse

import pytest
import yaml
from overlays import KUBECTL, needs_kubectl
from repository import ROOT, commit_working_tree, git
from waiting import free_port, wait_for

TOOLS = pathlib.Path(os.environ.get("TOOLS", ROOT / "build/tools"))
HELM = pathlib.Path(os.environ.get("HELM_CLI", ROOT / "build/helm-cli/helm"))
IMAGES = {"kubedns": "kubedns", "nanny": "nanny", "nanny-unbound": "nanny", "sidecar": "sidecar"}  # the program of each image
MANIFESTS = ", ".join(f"application/vnd.{kind}+json" for kind in ("oci.image.index.v1", "oci.image.manifest.v1"))


def sha256(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def run(*args, code=0, **options):
    done = subprocess.run(args, stdout=subprocess.PIPE, text=True, check=False, **{"stderr": subprocess.STDOUT, **options})
    assert done.returncode == code, f"{args}: exit {done.returncode}\n{done.stdout}"
    return done.stdout


def make_key(folder):
    run("openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", folder / "key.pem")
    run("openssl", "pkey", "-in", folder / "key.pem", "-pubout", "-out", folder / "public.pem")


def pack(files):
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(data), 0o755
            tar.addfile(member, io.BytesIO(data))
    return made.getvalue()


def saved_image(name, version, *architectures):
    """Returns what `docker save` prints for an image that contains a program of a few bytes and a record of one package."""
    files, images = {}, []
    for architecture in architectures:
        record = f"Package: libc6\nStatus: install ok installed\nArchitecture: {architecture}\nVersion: 2.41-12\nDescription: libc\n"
        layer = pack({f"usr/sbin/{IMAGES[name]}": f"\x7fELF {name} {architecture}".encode(), "usr/lib/os-release": b'VERSION_ID="13"\n',
                      "var/lib/dpkg/status.d/libc6": record.encode()})
        labels = {"title": name, "version": version, "revision": "abc", "licenses": "Apache-2.0"}
        files[f"{architecture}.json"] = json.dumps({
            "architecture": architecture, "os": "linux", "created": "2026-11-29T00:00:00Z",
            "config": {"Entrypoint": [f"/usr/sbin/{IMAGES[name]}"], "Labels": {f"org.opencontainers.image.{k}": v for k, v in labels.items()}},
            "rootfs": {"type": "layers", "diff_ids": [sha256(layer)]}}).encode()
        files[f"{architecture}/layer.tar"] = layer
        images.append({"Config": f"{architecture}.json", "RepoTags": [f"{name}:{version.replace('+', '-')}-{architecture}"],
                       "Layers": [f"{architecture}/layer.tar"]})
    return pack({**files, "manifest.json": json.dumps(images).encode()})


class Release:
    """What `make release` makes of the commit in `tree`, without Debian packages. The images have other content, but come from the same tools."""

    def __init__(self, tree, key):
        self.tree, self.files = tree, tree / "out/release"
        without = {"NO_PACKAGES": "1", "NO_IMAGES": "1", "ONCE": "yes", "MAKEFLAGS": ""}
        run("make", "-s", "release", "BUILD=out", cwd=tree, env={**os.environ, **without})
        (self.chart,) = self.files.glob("kubedns-chart-*.tgz")
        self.version = self.chart.name.removeprefix("kubedns-chart-").removesuffix(".tgz")
        self.tag = self.version.replace("+", "-")
        for name in IMAGES:
            archive = self.tool("image/oci.py", "1700000000", data=saved_image(name, self.version, "amd64", "arm64"))
            (self.files / f"{name}-{self.version}.oci.tar").write_bytes(archive)
            for architecture in ("amd64", "arm64"):
                (self.files / f"{name}-{self.version}.{architecture}.spdx.json").write_bytes(self.tool("image/sbom.py", architecture, data=archive))
        provenance = self.files / f"kubedns-{self.version}.provenance.json"
        provenance.unlink()
        (self.files / "SHA256SUMS").unlink()
        provenance.write_bytes(self.tool("provenance.py", self.version, git(tree, "rev-parse", "HEAD"), self.files))
        write_sums(self.files)
        (self.files / "SHA256SUMS.sig").write_text(signature(key, self.files / "SHA256SUMS"))

    def tool(self, script, *args, data=None):
        return subprocess.run([sys.executable, self.tree / "conf" / script, *args], input=data, stdout=subprocess.PIPE, check=True).stdout


def write_sums(files):
    sums = [f"{sha256(f.read_bytes()).removeprefix('sha256:')}  {f.name}\n" for f in sorted(files.iterdir()) if not f.name.startswith("SHA256SUMS")]
    (files / "SHA256SUMS").write_text("".join(sums))


def signature(key, file):
    return base64.b64encode(subprocess.run(["openssl", "dgst", "-sha256", "-sign", key, file], stdout=subprocess.PIPE, check=True).stdout).decode()


class Registry:
    """distribution, with TLS and a password, as a real registry has. Its files are in `directory`."""

    def __init__(self, directory):
        self.directory = directory
        self.blobs = directory / "data/docker/registry/v2/blobs/sha256"
        self.port = free_port()
        self.host = f"127.0.0.1:{self.port}"  # oras uses no TLS for the name localhost
        run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=registry",
            "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", directory / "tls.key", "-out", directory / "tls.crt")
        hashed = run("perl", "-e", 'print crypt("secret", q($2b$05$saltsaltsaltsaltsaltse))')
        (directory / "htpasswd").write_text(f"publisher:{hashed}\n")
        (directory / "config.yml").write_text(json.dumps({
            "version": "0.1", "log": {"accesslog": {"disabled": False}, "level": "warn"},
            "storage": {"filesystem": {"rootdirectory": str(directory / "data")}, "delete": {"enabled": True}},
            "http": {"addr": f"127.0.0.1:{self.port}", "tls": {"certificate": str(directory / "tls.crt"), "key": str(directory / "tls.key")}},
            "auth": {"htpasswd": {"realm": "test", "path": str(directory / "htpasswd")}}}))
        home = directory / "home"
        (home / ".docker").mkdir(parents=True)
        self.token = base64.b64encode(b"publisher:secret").decode()
        # What `docker login` writes.
        (home / ".docker/config.json").write_text(json.dumps({"auths": {self.host: {"auth": self.token}}}))
        self.env = {**{k: v for k, v in os.environ.items() if not k.startswith(("GITHUB_", "XDG_", "DOCKER_", "MAKE"))},
                    "HOME": str(home), "SSL_CERT_FILE": str(directory / "tls.crt"), "COSIGN": str(TOOLS / "cosign"), "ORAS": str(TOOLS / "oras"),
                    "HELM": str(HELM)}
        self.start()

    def start(self):
        self.process = subprocess.Popen([TOOLS / "registry", "serve", self.directory / "config.yml"], stdout=open(self.directory / "log", "a"),
                                        stderr=subprocess.STDOUT)
        wait_for(lambda: self.get("/v2/")[0] == 200, what="the registry answers", passing=(OSError,))

    def stop(self):
        self.process.terminate()
        self.process.wait()

    def get(self, path):
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, context=ssl.create_default_context(cafile=str(self.directory / "tls.crt")))
        try:
            connection.request("GET", path, headers={"Accept": MANIFESTS, "Authorization": f"Basic {self.token}"})
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def manifest(self, name, reference):
        """Returns the manifest and its digest."""
        status, data = self.get(f"/v2/dns/{name}/manifests/{urllib.parse.quote(reference)}")
        assert status == 200, (name, reference, data)
        return json.loads(data), sha256(data)

    def referrers(self, name, digest):
        """Returns {type: [manifest]} of the artifacts that refer to a digest. distribution has no referrers API, so clients keep a tag."""
        index, _ = self.manifest(name, digest.replace(":", "-"))
        found = {}
        for described in index["manifests"]:
            found.setdefault(described["artifactType"], []).append(self.manifest(name, described["digest"]))
        return found

    def state(self):
        """The content of the registry: each file with its hash."""
        data = self.directory / "data"
        return {str(p.relative_to(data)): sha256(p.read_bytes()) for p in data.rglob("*") if p.is_file() and "_uploads" not in p.parts}

    def publish(self, release, page, sign, path="dns", tree=ROOT, **options):
        return run("sh", tree / "conf/publish.sh", release, f"{self.host}/{path}", page, env={**self.env, "SIGN": str(sign)}, **options)


@pytest.fixture(scope="module")
def registry(tmp_path_factory):
    made = Registry(tmp_path_factory.mktemp("registry"))
    yield made
    made.stop()


@pytest.fixture(scope="module")
def key(registry):
    make_key(registry.directory)
    return registry.directory / "key.pem"


@pytest.fixture(scope="module")
def release(tmp_path_factory, key):
    """A release of a commit without a tag. Its version has a plus sign, which no tag of an image can have."""
    made = Release(commit_working_tree(tmp_path_factory.mktemp("release") / "tree"), key)
    assert "+" in made.version
    return made


@pytest.fixture(scope="module")
def published(registry, key, release):
    """The page of the first `make publish`."""
    os.utime(release.tree / "tests/helm/go.mod", (0, 0))  # else make builds Helm again
    run("make", "-s", "publish", "BUILD=out", f"REGISTRY={registry.host}/dns", f"SIGN={key}", f"ORAS={TOOLS / 'oras'}", f"COSIGN={TOOLS / 'cosign'}",
        f"HELM_CLI={HELM}", cwd=release.tree, env=registry.env)
    return (release.tree / "out/install.md").read_text()


def images(objects):
    return {c["image"] for o in objects if o["kind"] in ("Deployment", "DaemonSet") for c in o["spec"]["template"]["spec"]["containers"]}


def block(page, word):
    """The commands of the block of the page that has this word."""
    (found,) = [text for text in re.findall(r"^```\n(.*?)^```$", page, re.M | re.S) if word in text]
    return found


@pytest.fixture
def copy(release, tmp_path):
    """A copy of the release that a test may change."""
    return pathlib.Path(shutil.copytree(release.files, tmp_path / "release"))


def test_the_registry_has_each_image_as_one_index_with_the_digest_of_its_archive(registry, release, published):
    for name in IMAGES:
        with tarfile.open(release.files / f"{name}-{release.version}.oci.tar") as archive:
            (described,) = json.load(archive.extractfile("index.json"))["manifests"]
        index, digest = registry.manifest(name, release.tag)
        assert digest == described["digest"] and f"{registry.host}/dns/{name}:{release.tag}@{digest}" in published
        assert [m["platform"]["architecture"] for m in index["manifests"]] == ["amd64", "arm64"]


def test_each_image_has_its_sbom_and_its_provenance_as_referrers(registry, release, published):
    for name in IMAGES:
        index, digest = registry.manifest(name, release.tag)
        for image in index["manifests"]:
            ((sbom, _),) = registry.referrers(name, image["digest"])["application/spdx+json"]
            assert sbom["subject"]["digest"] == image["digest"]
            (file,) = sbom["layers"]
            document = json.loads(registry.get(f"/v2/dns/{name}/blobs/{file['digest']}")[1])
            (whole,) = [p for p in document["packages"] if p["SPDXID"] == "SPDXRef-Image"]
            assert "sha256:" + whole["checksums"][0]["checksumValue"] == image["digest"]
        ((provenance, _),) = registry.referrers(name, digest)["application/vnd.in-toto+json"]
        statement = json.loads(registry.get(f"/v2/dns/{name}/blobs/{provenance['layers'][0]['digest']}")[1])
        assert digest.removeprefix("sha256:") in [s["digest"]["sha256"] for s in statement["subject"]]
        commit = statement["predicate"]["buildDefinition"]["resolvedDependencies"][0]["digest"]["gitCommit"]
        assert commit.startswith(release.version.rpartition(".g")[2]) if "+" in release.version else commit


def test_everything_is_signed(registry, release, published):
    """The commands of the page verify images, chart and files. SBOMs and provenance are verified here."""
    commands = block(published, "cosign verify").splitlines()
    assert len(commands) == len(IMAGES) + 2
    references = [c.split()[-1] for c in commands]
    for name in IMAGES:
        index, digest = registry.manifest(name, release.tag)
        for image in (digest, *(m["digest"] for m in index["manifests"])):
            references.append(f"{registry.host}/dns/{name}@{image}")
            attached = registry.referrers(name, image)
            references += [f"{registry.host}/dns/{name}@{d}" for kind in attached if "sigstore" not in kind for _, d in attached[kind]]
    assert len(references) == len(IMAGES) + 2 + len(IMAGES) * 6
    for reference in references:
        run(TOOLS / "cosign", "verify", "--key", registry.directory / "public.pem", "--insecure-ignore-tlog=true", reference, env=registry.env)


def test_another_key_does_not_verify(registry, release, published, tmp_path):
    make_key(tmp_path)
    said = run(TOOLS / "cosign", "verify", "--key", tmp_path / "public.pem", "--insecure-ignore-tlog=true", block(published, "cosign verify").split()[5],
               env=registry.env, code=1)
    assert "no matching signatures" in said or "could not verify" in said, said


def test_the_second_push_changes_nothing(registry, key, release, published, tmp_path):
    before = registry.state()
    registry.publish(release.files, tmp_path / "install.md", key)
    assert registry.state() == before
    assert (tmp_path / "install.md").read_text() == published


@pytest.mark.parametrize("changed", ["image", "chart"])
def test_a_published_tag_is_never_replaced(registry, key, release, published, copy, changed):
    """A release of the same version with another image or another chart, whose checksums are right."""
    before = registry.state()
    if changed == "image":
        path, tag = copy / f"nanny-{release.version}.oci.tar", f"nanny:{release.tag}"
        path.write_bytes(release.tool("image/oci.py", "1700000000", data=saved_image("sidecar", release.version, "amd64", "arm64")))
    else:
        path, tag = copy / release.chart.name, f"charts/kubedns:{release.version.replace('+', '_')}"
        path.write_bytes(path.read_bytes() + b"\0")
    write_sums(copy)
    (copy / "SHA256SUMS.sig").unlink()
    said = registry.publish(copy, copy / "page", key, code=1)
    assert f"dns/{tag} exists and has other content" in said
    assert registry.state() == before


def test_a_release_with_a_changed_byte_is_not_pushed(registry, key, release, published, copy):
    archive = copy / f"kubedns-{release.version}.oci.tar"
    data = bytearray(archive.read_bytes())
    data[len(data) // 2] ^= 1
    archive.write_bytes(data)
    said = registry.publish(copy, copy / "page", key, path="changed", code=1)
    assert f"kubedns-{release.version}.oci.tar: FAILED" in said and "differ from SHA256SUMS" in said
    assert registry.get("/v2/changed/kubedns/tags/list")[0] == 404


def test_checksums_that_another_key_signed_are_refused(registry, key, release, published, copy, tmp_path):
    make_key(tmp_path)
    (copy / "SHA256SUMS.sig").write_text(signature(tmp_path / "key.pem", copy / "SHA256SUMS"))
    assert "SHA256SUMS.sig is not a signature" in registry.publish(copy, copy / "page", key, path="changed", code=1)


def test_without_a_key_nothing_is_pushed(registry, release, published, tmp_path):
    for sign, expected in (("", "must be a file with a private key"), ("keyless", "needs IDENTITY and ISSUER")):
        assert expected in registry.publish(release.files, tmp_path / "page", sign, path="changed", code=1)
    assert registry.get("/v2/changed/kubedns/tags/list")[0] == 404


def test_an_image_is_pulled_by_its_digest_and_a_changed_byte_in_the_registry_is_refused(registry, release, published, tmp_path):
    index, digest = registry.manifest("nanny", release.tag)
    reference = f"docker://{registry.host}/dns/nanny@{digest}"
    run("skopeo", "copy", "-q", "--all", "--preserve-digests", reference, f"oci:{tmp_path}/pulled:x", env=registry.env)
    assert json.loads((tmp_path / "pulled/index.json").read_text())["manifests"][0]["digest"] == digest
    image, _ = registry.manifest("nanny", index["manifests"][0]["digest"])
    layer = image["layers"][-1]["digest"].removeprefix("sha256:")
    blob = registry.blobs / layer[:2] / layer / "data"
    data = blob.read_bytes()
    try:
        blob.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
        said = run("skopeo", "copy", "-q", "--all", reference, f"oci:{tmp_path}/changed:x", env=registry.env, code=1)
        assert "does not match" in said or "igest" in said, said
    finally:
        blob.write_bytes(data)


def test_a_signature_does_not_verify_another_image(registry, release, published, tmp_path):
    """An image with one changed byte has another digest. If an attacker pushes it with the tag, the signature is missing."""
    index, _ = registry.manifest("sidecar", release.tag)
    reference = f"{registry.host}/dns/sidecar@{index['manifests'][0]['digest']}"
    run("skopeo", "copy", "-q", f"docker://{reference}", f"dir:{tmp_path}/image", env=registry.env)
    manifest = json.loads((tmp_path / "image/manifest.json").read_text())
    config = tmp_path / "image" / manifest["config"]["digest"].removeprefix("sha256:")
    changed = config.read_bytes().replace(b"/usr/sbin/sidecar", b"/usr/sbin/sidecaR")
    manifest["config"]["digest"] = sha256(changed)
    (tmp_path / "image" / manifest["config"]["digest"].removeprefix("sha256:")).write_bytes(changed)
    (tmp_path / "image/manifest.json").write_text(json.dumps(manifest))
    run("skopeo", "copy", "-q", f"dir:{tmp_path}/image", f"docker://{registry.host}/dns/sidecar:changed", env=registry.env)
    verify = (TOOLS / "cosign", "verify", "--key", registry.directory / "public.pem", "--insecure-ignore-tlog=true")
    run(*verify, reference, env=registry.env)
    assert "no signatures found" in run(*verify, f"{registry.host}/dns/sidecar:changed", env=registry.env, code=10)


def test_helm_pulls_the_chart_of_the_release(registry, release, published, tmp_path):
    run(HELM, "pull", f"oci://{registry.host}/dns/charts/kubedns", "--version", release.version, "-d", tmp_path, env=registry.env)
    (pulled,) = tmp_path.glob("*.tgz")
    assert pulled.read_bytes() == release.chart.read_bytes()


def test_helm_renders_the_chart_from_the_registry(registry, release, published):
    """The command of the page, with `template` in place of `install`. Without a cluster, Helm takes Kubernetes 1.20."""
    command = block(published, "helm -n").replace("helm ", f"{HELM} ", 1).replace(" install ", " template --kube-version 1.36 ")
    objects = [o for o in yaml.safe_load_all(run("sh", "-c", command, env=registry.env, stderr=subprocess.DEVNULL)) if o]
    assert images(objects) == {f"{registry.host}/dns/{name}:{release.tag}" for name in ("kubedns", "nanny", "sidecar")}


@needs_kubectl
def test_the_files_of_the_page_give_manifests_that_only_need_the_lines_of_the_page(registry, release, published, tmp_path):
    for command in block(published, "oras pull").splitlines():
        run("sh", "-c", command.replace("oras ", f"{TOOLS}/oras ", 1), cwd=tmp_path, env=registry.env)
    settings = tmp_path / f"kubedns-manifests-{release.version}/kubernetes/settings/settings.yaml"
    text = settings.read_text().replace("clusterIP: SET-ME", "clusterIP: 10.96.0.10")
    lines = block(published, "kubednsImage:").splitlines()
    assert len(lines) == 1 + len(IMAGES)
    for line in lines:
        text, found = re.subn(rf"^{line.split(':')[0]}:.*$", line, text, flags=re.M)
        assert found == 1, line
    settings.write_text(text)
    objects = [o for o in yaml.safe_load_all(run(*KUBECTL, "kustomize", settings.parents[1] / "front")) if o]
    digests = {name: registry.manifest(name, release.tag)[1] for name in ("kubedns", "nanny", "sidecar")}
    assert images(objects) == {f"{registry.host}/dns/{name}:{release.tag}@{digest}" for name, digest in digests.items()}


def test_only_a_tag_that_a_signer_signed_is_published(registry, key, tmp_path):
    """The refusal of the empty SIGN is the next one after those of the tag."""
    tree = commit_working_tree(tmp_path / "tree")
    number = run("make", "-s", "image-tag", cwd=tree).strip()
    changelog = (tree / "CHANGELOG.md").read_text()
    (tree / "CHANGELOG.md").write_text(changelog.replace("## Next\n", ""))
    run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "ours")
    run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "other")
    (tree / "conf/signers").write_text(f'n@localhost namespaces="git" {(tmp_path / "ours.pub").read_text()}')
    git(tree, "commit", "-qam", "numbered")
    git(tree, "tag", f"v{number}")
    release = Release(tree, key)
    assert release.version == number

    def refusal():
        return registry.publish(release.files, tmp_path / "page", "", path="tagged", tree=tree, code=1)

    def sign(name, commit="HEAD"):
        git(tree, "-c", "gpg.format=ssh", "-c", f"user.signingKey={tmp_path / name}.pub", "tag", "-f", "-s", "-m", number, f"v{number}", commit)

    assert f"the tag v{number} has no signature by a key of conf/signers" in refusal()
    sign("other")
    assert f"the tag v{number} has no signature by a key of conf/signers" in refusal()
    sign("ours", "HEAD~1")
    assert f"was not made from the commit of the tag v{number}" in refusal()
    sign("ours")
    assert "must be a file with a private key" in refusal()
    git(tree, "tag", "-d", f"v{number}")
    assert f"there is no tag v{number}" in refusal()
    try:
        run("gpg", "--batch", "--passphrase", "", "--quick-generate-key", "n@localhost", "ed25519", "sign", "1d", env=registry.env)
        git(tree, "tag", "-s", "-u", "n@localhost", "-m", number, f"v{number}", HOME=registry.env["HOME"])
        assert "must be a file with a private key" in refusal()
    finally:
        run("gpgconf", "--kill", "all", env=registry.env)
