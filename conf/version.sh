#!/bin/sh
# version.sh: prints the version for make. At a commit with the tag vX.Y.Z, the version is X.Y.Z. COMMITS commits later it is
# X.Y.Z+COMMITS.gREVISION. Without git, the version comes from the source archive. `make release` puts the file .version into its tarball,
# and git archive fills in the lines below. If no tag is known (none yet, or a shallow clone), X.Y.Z is the newest version in CHANGELOG.md.
set -eu
cd "$(dirname "$0")/.."

# Filled in by git archive (.gitattributes).
# shellcheck disable=SC2016
described='$Format:%(describe:tags=true,match=v[0-9]*,abbrev=12)$'
# shellcheck disable=SC2016
commit='$Format:%H$'

# v1.2.3 -> 1.2.3, v1.2.3-4-gabc -> 1.2.3+4.gabc
of_tag() {
	echo "$1" | sed -e 's/^v//' -e 's/-\([0-9]*\)-\(g[0-9a-f]*\)$/+\1.\2/'
}

if [ -e .version ]; then
	cat .version
	exit
fi
newest=$(sed -n 's/^## \([0-9][0-9.]*\)$/\1/p' CHANGELOG.md | head -1)
# Ignores the git repository of a directory above, because this tree may be unpacked inside another repository.
if [ "$(git rev-parse --show-toplevel 2>/dev/null)" = "$(pwd -P)" ] && git rev-parse -q --verify HEAD >/dev/null; then
	if described=$(git describe --tags --match 'v[0-9]*' --abbrev=12 2>/dev/null); then
		of_tag "$described"
	else
		echo "$newest+$(git rev-list --count HEAD).g$(git rev-parse --short=12 HEAD)"
	fi
	exit
fi
case $described in
v*) of_tag "$described" ;;
*)
	case $commit in
	*Format*) echo "$newest" ;;
	*) echo "$newest+g$(echo "$commit" | cut -c1-12)" ;;
	esac
	;;
esac
