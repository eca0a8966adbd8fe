#!/bin/sh
# release.sh VERSION DIRECTORY: builds everything that is published for a version, from what is committed in git: the source, the chart, the
# manifests, the Debian packages, the provenance and the checksums. With docker, it also builds the images and their SBOMs. The same commit gives
# the same bytes: the script makes everything twice, the second time in a clone in another directory, and compares. `make release` calls this
# script.
# Environment: SIGN=FILE.pem signs the checksums, each image archive and each SBOM with that private key and openssl. SIGN=KEY signs the
# checksums with that key of gpg. SIGN=keyless signs nothing here, because conf/publish.sh signs in the registry. NO_PACKAGES leaves out the
# Debian packages, NO_IMAGES the images, and ONCE the second build. A release is a commit with the tag vVERSION. For other commits VERSION is
# X.Y.Z+COMMITS.gREVISION (conf/version.sh), which is not a release.
set -eu

version=$1
out=$2
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"

say() { echo "release: $*" >&2; }
die() {
	say "$*"
	exit 1
}

[ -z "$(git status --porcelain --untracked-files=no)" ] || die "uncommitted changes: see git status"
# The images are built from these folders, including untracked files. The source archive contains only committed files.
untracked=$(git ls-files --others --exclude-standard -- lib treecache kubedns nanny sidecar migrate conf/image | head -1)
[ -z "$untracked" ] || die "$untracked is not committed, but would be in the images: commit or remove it"
number=${version%%+*}
grep -q "^## $number\$" CHANGELOG.md || die "CHANGELOG.md has no section \"## $number\""
head -1 debian/changelog | grep -qF "($number)" || die "debian/changelog does not begin with $number"
if [ "$number" != "$version" ]; then
	say "HEAD has no version tag: $version is not a release"
elif grep -q '^## Next$' CHANGELOG.md; then
	die "CHANGELOG.md still has a section \"## Next\" at the tag v$version: give it its number"
fi
# An image tag cannot contain "+".
tag=$(echo "$version" | tr + -)
# Archives use the time of the commit.
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH TZ=UTC LC_ALL=C

rm -rf "$out"
mkdir -p "$out"
out=$(cd "$out" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM HUP

# archive NAME FOLDER: makes a reproducible archive of a folder in $work, with sorted names, owner 0 and one time. Follows links.
archive() {
	tar -C "$work" --sort=name --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX --mtime="@$SOURCE_DATE_EPOCH" --dereference \
		--format=ustar -cf - "$2" | gzip -9n >"$out/$1"
}

say "these packages lack security fixes (conf/unfixed):"
sed '/^#/d; s/^/  /' conf/unfixed >&2

say "source"
git -c tar.umask=0022 archive --format=tar --prefix="kubedns-$version/" \
	--add-virtual-file="kubedns-$version/.version:$version" HEAD | gzip -9n >"$out/kubedns-$version.tar.gz"

say "chart"
git archive --format=tar --prefix=tree/ HEAD conf | tar -x -C "$work"
sed -i "s/^version: .*/version: $version/; s/^appVersion: .*/appVersion: $tag/" "$work/tree/conf/helm/kubedns/Chart.yaml"
sed -i "s/^\(  \(kubedns\|nanny\|nannyUnbound\|sidecar\)Image: [a-z-]*\):.*/\1:$tag/" "$work/tree/conf/kubernetes/settings/settings.yaml"
cp -RL "$work/tree/conf/helm/kubedns" "$work/kubedns"
python3 conf/notes.py "$number" annotations "$tag" >>"$work/kubedns/Chart.yaml"
archive "kubedns-chart-$version.tgz" kubedns

say "release notes"
python3 conf/notes.py "$number" notes >"$out/RELEASE-NOTES.md"

say "manifests"
mv "$work/tree/conf" "$work/kubedns-manifests-$version"
archive "kubedns-manifests-$version.tar.gz" "kubedns-manifests-$version"

if [ -z "${NO_PACKAGES:-}" ]; then
	say "Debian packages"
	# Each run unpacks the source into a new folder. The folder's name does not appear in published files.
	(unset SOURCE_DATE_EPOCH && make -s deb >&2)
	cp "${BUILD:-build}"/deb/*.deb "$out"
	rm -f "$out"/*-dbgsym_*
fi

if [ -n "${NO_IMAGES:-}" ]; then
	:
elif command -v docker >/dev/null && docker info >/dev/null 2>&1; then
	say "images"
	# The tag of the other architecture ends with its name (mk/images.mk).
	other=arm64
	[ "$(docker version -f '{{.Server.Arch}}')" != arm64 ] || other=amd64
	make -s images REGISTRY= IMAGE_TAG="$tag" ARCHITECTURES="amd64 arm64" >&2
	for image in kubedns nanny nanny-unbound sidecar; do
		for each in "$image:$tag" "$image:$tag-$other"; do
			docker save "$each" | "${PYTHON:-python3}" conf/image/packages.py --current >"$work/packages" ||
				[ -n "${OLD_SOURCES:-}" ] || die "$each lacks fixes of Debian (see above): OLD_SOURCES=yes releases it with this fault"
		done
		archive=$out/$image-$version.oci.tar
		docker save "$image:$tag" "$image:$tag-$other" | "${PYTHON:-python3}" conf/image/oci.py "$SOURCE_DATE_EPOCH" >"$archive"
		for architecture in amd64 arm64; do
			"${PYTHON:-python3}" conf/image/sbom.py $architecture <"$archive" >"$out/$image-$version.$architecture.spdx.json"
		done
	done
else
	say "no docker: images are left out"
fi

say "provenance"
"${PYTHON:-python3}" conf/provenance.py "$version" "$(git rev-parse HEAD)" "$out" >"$work/provenance"
mv "$work/provenance" "$out/kubedns-$version.provenance.json"

(cd "$out" && sha256sum -- * >SHA256SUMS)

if [ -z "${ONCE:-}" ]; then
	say "the same again, in another directory"
	git clone -q --no-local "$root" "$work/again"
	git -C "$work/again" checkout -q "$(git rev-parse HEAD)"
	(cd "$work/again" && umask 077 && ONCE=yes SIGN='' CCACHE_DISABLE=1 BUILD="$work/again/out" IMAGE_ARGS="--build-arg REBUILD=$$" \
		sh conf/release.sh "$version" "$work/second" >/dev/null)
	diff "$out/SHA256SUMS" "$work/second/SHA256SUMS" >&2 || die "two builds of $version differ in the files above"
fi

# sign FILE: the signature has the form that `cosign verify-blob` reads, too.
sign() {
	openssl dgst -sha256 -sign "$SIGN" "$1" | base64 -w0 >"$1.sig"
}

if [ -n "${SIGN:-}" ] && [ -f "$SIGN" ]; then
	for file in "$out"/*.oci.tar "$out"/*.spdx.json "$out/SHA256SUMS"; do
		[ ! -e "$file" ] || sign "$file"
	done
elif [ -n "${SIGN:-}" ] && [ "$SIGN" != keyless ]; then
	gpg --batch --armor --detach-sign --local-user "$SIGN" "$out/SHA256SUMS"
fi
cat "$out/SHA256SUMS"
