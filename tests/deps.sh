#!/bin/sh
# Installs those Debian packages of the arguments that are missing, and prints their names. Called by `make deps`, `run` and `test`.
set -eu

missing=
for package in "$@"; do
	if command -v dpkg-query >/dev/null 2>&1; then
		status=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)
		[ "$status" = installed ] && continue
	fi
	missing="$missing $package"
done
[ -z "$missing" ] && exit 0

if ! command -v apt-get >/dev/null 2>&1 || ! grep -qs '^ID\(_LIKE\)\{0,1\}=.*debian' /etc/os-release; then
	echo "This is not Debian. Install what your system calls these packages of Debian 12, then use \`make all\` or \`make check\`:" >&2
	printf '  %s\n' "$@" >&2
	exit 1
fi
echo "Debian packages missing:$missing"

sudo=
if [ "$(id -u)" != 0 ]; then
	command -v sudo >/dev/null 2>&1 || {
		echo "As root: apt-get install --no-install-recommends$missing" >&2
		exit 1
	}
	sudo=sudo
fi

# The tests need name servers and Prometheus only as programs. Their packages must not start services on this machine.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
	trap '$sudo rm -f "$policy"' EXIT
	trap 'exit 1' INT TERM HUP
	printf '#!/bin/sh\nexit 101\n' | $sudo tee "$policy" >/dev/null
	$sudo chmod 755 "$policy"
fi
# shellcheck disable=SC2086 # a list of words
install() {
	$sudo env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 -qq "$@" </dev/null >/dev/null
}
install update
# shellcheck disable=SC2086 # a list of words
install install -y --no-install-recommends $missing
