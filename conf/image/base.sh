#!/bin/sh
# base.sh IMAGE: sees that the image is there from which all others are built. Nothing is pulled by a tag, which can change:
#
#	kubedns-base:bookworm	is made here from Debian's archive, whose signatures apt verifies. Needs root (or a subuid range), mmdebstrap,
#				docker and a Debian mirror; about half a minute
#	NAME@sha256:DIGEST	is pulled
#	any other		must be on the machine already
set -eu

image=$1
docker image inspect "$image" >/dev/null 2>&1 && exit 0
case $image in
kubedns-base:bookworm) ;;
*@sha256:*) exec docker pull -q "$image" ;;
*)
	echo "base.sh: BASE=$image: not on this machine, and a tag can change: give a digest (BASE=$image@sha256:...)," \
		"or leave BASE out to have the base image made from Debian's archive" >&2
	exit 1
	;;
esac
command -v mmdebstrap >/dev/null || {
	echo "base.sh: the base image is made with mmdebstrap: apt-get install mmdebstrap, or name one by its digest: BASE=debian@sha256:..." >&2
	exit 1
}

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT INT TERM

# The same bytes from the same packages, whenever it runs.
: "${SOURCE_DATE_EPOCH:=1700000000}"
export SOURCE_DATE_EPOCH

# As Docker's own Debian images do: no package files are kept, so that an apt layer does not carry 78 MB of caches.
cat >"$dir/docker-clean" <<'CLEAN'
DPkg::Post-Invoke { "rm -f /var/cache/apt/archives/*.deb /var/cache/apt/archives/partial/*.deb /var/cache/apt/*.bin || true"; };
APT::Update::Post-Invoke { "rm -f /var/cache/apt/archives/*.deb /var/cache/apt/archives/partial/*.deb /var/cache/apt/*.bin || true"; };
Dir::Cache::pkgcache "";
Dir::Cache::srcpkgcache "";
CLEAN

# What the hooks print is only of interest when one fails.
# shellcheck disable=SC2016 # $1 is mmdebstrap's, for its hooks
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
	bookworm "$dir/slim.tar" >"$dir/log" 2>&1 || {
	cat "$dir/log" >&2
	exit 1
}
docker import -c 'CMD ["bash"]' "$dir/slim.tar" "$image" >/dev/null
echo "base.sh: made $image from Debian packages" >&2
