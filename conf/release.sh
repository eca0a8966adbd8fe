#!/bin/sh
# release.sh VERSION DIRECTORY: what is published of a version, from what git has committed: the source, the chart, the Debian packages and, with
# docker, the images with what is in them, and their checksums. The same commit gives the same bytes. `make release` calls it. With SIGN=KEY in the
# environment, gpg signs the checksums; NO_PACKAGES and NO_IMAGES leave those out.
#
# A release is the commit that the tag vVERSION names; VERSION of any other is X.Y.Z+COMMITS.gREVISION (conf/version.sh), and it is none.
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

[ -z "$(git status --porcelain --untracked-files=no)" ] || die "there are changes that are not committed: git status"
# These the images are built from, whatever git knows of it; the source archive has only what is committed.
untracked=$(git ls-files --others --exclude-standard -- lib treecache kubedns nanny sidecar migrate conf/image | head -1)
[ -z "$untracked" ] || die "$untracked is not committed, and would be in the images alone: commit or remove it"
number=${version%%+*}
grep -q "^## $number\$" CHANGELOG.md || die "CHANGELOG.md has no section \"## $number\""
head -1 debian/changelog | grep -qF "($number)" || die "debian/changelog does not begin with $number"
if [ "$number" != "$version" ]; then
	say "HEAD has no tag of a version: no release, $version"
elif grep -q '^## Next$' CHANGELOG.md; then
	die "CHANGELOG.md still has a section \"## Next\" at the tag v$version: give it its number"
fi
# A tag of an image has no "+".
tag=$(echo "$version" | tr + -)
# Times in archives are the commit's.
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH TZ=UTC LC_ALL=C

rm -rf "$out"
mkdir -p "$out"
out=$(cd "$out" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM HUP

# archive NAME FOLDER, in $work: sorted, nobody's, of one time, links followed.
archive() {
	tar -C "$work" --sort=name --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX --mtime="@$SOURCE_DATE_EPOCH" --dereference \
		--format=ustar -cf - "$2" | gzip -9n >"$out/$1"
}

say "source"
git -c tar.umask=0022 archive --format=tar --prefix="kubedns-$version/" \
	--add-virtual-file="kubedns-$version/.version:$version" HEAD | gzip -9n >"$out/kubedns-$version.tar.gz"

say "chart"
git archive --format=tar --prefix=tree/ HEAD conf | tar -x -C "$work"
sed -i "s/^version: .*/version: $version/; s/^appVersion: .*/appVersion: $tag/" "$work/tree/conf/helm/kubedns/Chart.yaml"
sed -i "s/^\(  \(kubedns\|nanny\|sidecar\)Image: \2\):.*/\1:$tag/" "$work/tree/conf/kubernetes/settings/settings.yaml"
cp -RL "$work/tree/conf/helm/kubedns" "$work/kubedns"
archive "kubedns-chart-$version.tgz" kubedns

say "manifests"
mv "$work/tree/conf" "$work/kubedns-manifests-$version"
archive "kubedns-manifests-$version.tar.gz" "kubedns-manifests-$version"

if [ -z "${NO_PACKAGES:-}" ]; then
	say "Debian packages"
	# The source is unpacked where the packages are built at every run: the folder's name is in nothing that is published.
	(unset SOURCE_DATE_EPOCH && make -s deb >&2)
	cp "${BUILD:-build}"/deb/*.deb "$out"
	rm -f "$out"/*-dbgsym_*
fi

if [ -n "${NO_IMAGES:-}" ]; then
	:
elif command -v docker >/dev/null && docker info >/dev/null 2>&1; then
	say "images"
	make -s images REGISTRY= IMAGE_TAG="$tag" >&2
	for image in kubedns nanny sidecar; do
		docker save "$image:$tag" | "${PYTHON:-python3}" conf/image/oci.py "$SOURCE_DATE_EPOCH" >"$out/$image-$version.oci.tar"
		"${PYTHON:-python3}" conf/image/sbom.py <"$out/$image-$version.oci.tar" >"$out/$image-$version.spdx.json"
	done
else
	say "no docker: without the images"
fi

(cd "$out" && sha256sum -- * >SHA256SUMS)
[ -z "${SIGN:-}" ] || gpg --batch --armor --detach-sign --local-user "$SIGN" "$out/SHA256SUMS"
cat "$out/SHA256SUMS"
