#!/bin/sh
# base.sh [--again] IMAGE: makes sure that the base image of all other images exists. --again makes it even if it exists. It pulls no image by its
# tag, because a tag can change:
#
#	kubedns-base:RELEASE	is made here from Debian's archive, whose signatures apt verifies. RELEASE is trixie (Debian 13), or bookworm
#				(Debian 12), on which only the Debian packages are tested. Needs root (or a subuid range), mmdebstrap,
#				docker and a Debian mirror; about half a minute
#	NAME@sha256:DIGEST	is pulled
#	any other		must be on the machine already
set -eu

again=
[ "$1" != --again ] || { again=yes; shift; }
image=$1
[ -n "$again" ] || ! docker image inspect "$image" >/dev/null 2>&1 || exit 0
case $image in
kubedns-base:trixie | kubedns-base:bookworm) ;;
*@sha256:*) exec docker pull -q "$image" ;;
*)
	echo "base.sh: BASE=$image: not on this machine, and a tag can change: give a digest (BASE=$image@sha256:...)," \
		"or leave BASE out to build the base image from Debian's archive" >&2
	exit 1
	;;
esac
command -v mmdebstrap >/dev/null || {
	echo "base.sh: mmdebstrap, which builds the base image, is missing: apt-get install mmdebstrap, or give an image with its digest: BASE=debian@sha256:..." >&2
	exit 1
}

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT INT TERM

# The image's bytes depend only on the packages, not on the time of the build.
: "${SOURCE_DATE_EPOCH:=1700000000}"
export SOURCE_DATE_EPOCH

# The image keeps no package files, like Docker's own Debian images. Otherwise an apt layer would contain 78 MB of caches.
cat >"$dir/docker-clean" <<'CLEAN'
DPkg::Post-Invoke { "rm -f /var/cache/apt/archives/*.deb /var/cache/apt/archives/partial/*.deb /var/cache/apt/*.bin || true"; };
APT::Update::Post-Invoke { "rm -f /var/cache/apt/archives/*.deb /var/cache/apt/archives/partial/*.deb /var/cache/apt/*.bin || true"; };
Dir::Cache::pkgcache "";
Dir::Cache::srcpkgcache "";
CLEAN

# The output of the hooks is shown only if one fails.
# shellcheck disable=SC2016 # mmdebstrap replaces $1 in its hooks
mmdebstrap --quiet --variant=minbase --include=usr-is-merged \
	--hook-dir=/usr/share/mmdebstrap/hooks/merged-usr \
	--dpkgopt='path-exclude=/usr/share/man/*' \
	--dpkgopt='path-exclude=/usr/share/info/*' \
	--dpkgopt='path-exclude=/usr/share/locale/*' \
	--dpkgopt='path-exclude=/usr/share/doc/*' \
	--dpkgopt='path-include=/usr/share/doc/*/copyright' \
	--customize-hook="copy-in '$dir/docker-clean' /etc/apt/apt.conf.d/" \
	--customize-hook='rm -rf "$1"/var/lib/apt/lists/* "$1"/var/cache/apt/*.bin "$1"/var/log/apt "$1"/var/log/dpkg.log' \
	--customize-hook='rm -f "$1"/etc/resolv.conf "$1"/etc/hostname' \
	"${image#kubedns-base:}" "$dir/slim.tar" >"$dir/log" 2>&1 || {
	cat "$dir/log" >&2
	exit 1
}
docker import -c 'CMD ["bash"]' "$dir/slim.tar" "$image" >/dev/null
echo "base.sh: made $image from Debian packages" >&2
