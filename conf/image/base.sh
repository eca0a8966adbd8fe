#!/bin/sh
# Makes the image debian:bookworm-slim from Debian packages, where no registry is in reach. Does nothing if the image is
# there or can be pulled. Needs root (or a subuid range), mmdebstrap, docker and a Debian mirror; about half a minute.
set -eu

image=${1:-debian:bookworm-slim}
docker image inspect "$image" >/dev/null 2>&1 && exit 0
if [ -z "${BASE_OFFLINE:-}" ] && timeout 60 docker pull -q "$image" 2>/dev/null; then
	exit 0
fi
command -v mmdebstrap >/dev/null || {
	echo "base.sh: no registry in reach and no mmdebstrap: apt-get install mmdebstrap" >&2
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
	--aptopt='Acquire::Check-Valid-Until "false"' \
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
