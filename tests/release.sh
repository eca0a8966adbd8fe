#!/bin/bash
# release.sh [other] [arm64] [unbound] [http] [deb]: builds and tests this tree for systems other than the machine's own Debian release. Without
# arguments, the script does `other` and `arm64`.
#
#	other    Debian 12 on a machine with Debian 13, and Debian 13 on a machine with Debian 12
#	arm64    Debian 13, cross-compiled for arm64, with the programs and tests under qemu-user. qemu-user has no seccomp, no socket filters
#	         and no netlink of nftables. Tests of these are skipped and counted. Instead, the script compares the system calls of the
#	         programs with the sandbox's list
#	unbound  Debian 13 with the nanny's tests under --engine=unbound, because Debian 12's unbound is too old
#	http     Debian 13 with the hostile HTTP requests, because Debian 12's libmicrohttpd does not have the faults of Debian 13's
#	deb      builds the Debian packages on the other release, and tests them there with docker
#
# Each system has a root file system with the packages that the Makefile lists. It is made from Debian's archive and kept in ROOTS for a
# week. In it the script builds with -Werror, runs the unit tests and the fuzz seeds, starts the programs on the example manifests, and sends
# them queries. The tree is mounted read-only. Needs root, mmdebstrap and a Debian mirror. If one of these is missing, the script says so and
# exits with 3.
set -eu
cd "$(dirname "$0")/.."
: "${ROOTS:=${XDG_CACHE_HOME:-/var/cache}/kubedns-roots}" "${JOBS:=$(nproc)}"
here=$PWD
newest=trixie

say() { echo "release.sh: $*"; }
cannot() {
	say "$1 cannot run: $2" >&2
	exit 3
}

# Prints the packages for building and running, and the packages that the unit tests and this script need.
packages() { make -s packages DEPS="build run unit" && echo iproute2 procps "$(command -v ccache >/dev/null && echo ccache)"; }

# Prints the packages for the tests of the nanny and of HTTP.
packages_system() {
	packages && echo unbound dns-root-data strace python3 python3-pytest python3-pytest-xdist python3-dnspython python3-yaml python3-cryptography python3-h2 python3-openssl
}

# Prints the packages for building the Debian packages.
packages_deb() { make -s packages DEPS="build deb" && echo git iproute2; }

# Prints the packages for arm64: libraries and headers for arm64, and tools for the machine's own architecture.
packages_arm64() {
	for package in $(packages); do
		case $package in
		gcc) echo gcc-aarch64-linux-gnu ;;
		*-dev) echo "$package:arm64" ;;
		*) echo "$package" ;;
		esac
	done
	echo qemu-user
}

# Makes the root file system $2 of release $1 for the architectures $3, with the packages $4..., unless it exists. Its name contains the
# hash of the packages.
make_root() {
	local release=$1 root=$2 architectures=$3
	shift 3
	mkdir -p "$ROOTS"
	exec 9>"$root.lock"
	flock 9
	find "$root" -maxdepth 0 -mtime +7 -exec rm -rf --one-file-system {} + 2>/dev/null || true
	if [ ! -d "$root" ]; then
		say "making $root"
		rm -rf --one-file-system "$root.new"
		mmdebstrap --quiet --variant=minbase --architectures="$architectures" --include="$*" "$release" "$root.new" >"$root.log" 2>&1 || {
			tail -20 "$root.log" >&2
			cannot "$release ($architectures)" "its root file system was not made: $root.log"
		}
		mv "$root.new" "$root"
	fi
	exec 9>&-
}

# Runs the function $2... of this script in the root file system $1, in new namespaces. When the function ends, its processes and mounts
# disappear. Its only network is loopback. Results stay in the directory build-release.
in_root() {
	local root=$1
	shift
	mkdir -p "$ROOTS/ccache" "$here/build-release"
	# shellcheck disable=SC2016 # expanded by the inner shell
	unshare --mount --pid --net --fork --kill-child bash -c '
		set -eu
		root=$1 tree=$2 cache=$3
		shift 3
		mkdir -p "$root/src" "$root/cache" "$root/results"
		mount --bind "$root" "$root" # `ip netns exec` needs a mount at /
		mount --bind "$tree" "$root/src" && mount -o remount,bind,ro "$root/src"
		mount --bind "$cache" "$root/cache"
		mount --bind "$tree/build-release" "$root/results"
		mount -t proc proc "$root/proc"
		mount --rbind /dev "$root/dev"
		mount -t tmpfs -o mode=1777 tmp "$root/tmp"
		mount -t tmpfs run "$root/run"
		exec chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 CCACHE_DIR=/cache "$@"' \
		in_root "$root" "$here" "$ROOTS/ccache" VERSION="$(make -s version)" JOBS="$JOBS" bash /src/tests/release.sh inside "$@" &
	# The first process of a process namespace ignores signals that it does not handle.
	inner=$!
	# shellcheck disable=SC2064 # the number is known now
	trap "kill -KILL $inner 2>/dev/null || :" EXIT
	trap 'exit 1' INT TERM HUP
	wait "$inner"
}

# In the root: builds into /tmp/build. Arguments go to make.
build() {
	cd /src
	local gcc=${CROSS:-}gcc
	say "building with $("$gcc" -dumpmachine) gcc $("$gcc" -dumpfullversion), libcurl $(dpkg-query -W -f '${Version}' 'libcurl4-gnutls-dev*')"
	make -s -j"$JOBS" BUILD=/tmp/build VERSION="$VERSION" CC="$(command -v ccache) $gcc" AR="${CROSS:-}ar" WERROR=-Werror all unit-tests
}

# In the root: replaces each program by a script that runs it under qemu-user. For the three programs, qemu-user writes their system calls to
# /tmp/trace.PROGRAM.PID. Tests that need what qemu-user does not have read EMULATOR and skip themselves.
emulate() {
	local program trace
	for program in /tmp/build/bin/* /tmp/build/tests/unit/test_* /tmp/build/tests/replay/fuzz_*; do
		case $program in
		*.*) continue ;;
		*/bin/*) trace="-strace -D /tmp/trace.$(basename "$program").\$\$" ;;
		*) trace= ;;
		esac
		mv "$program" "$program.arm64"
		printf '#!/bin/sh\nEMULATOR=qemu-user exec qemu-aarch64 %s "%s" "$@"\n' "$trace" "$program.arm64" >"$program"
		chmod 755 "$program"
	done
}

# In the root: fails if the program $1 made a system call that lib/sandbox_syscalls.c does not name, after it had entered its sandbox.
# qemu-user has no seccomp and refuses nothing. Which calls a program makes depends on the architecture's C library.
check_calls() {
	local calls name
	calls=$(sed -n '/ seccomp(/,$s/^[0-9]* \([a-z0-9_]*\)(.*/\1/p' /tmp/trace."$1".* | sort -u)
	[ "$(echo "$calls" | wc -w)" -gt 20 ] || {
		say "$1: no system calls after it entered its sandbox" >&2
		return 1
	}
	for name in $calls; do
		case $name in seccomp) continue ;; esac
		grep -qF "\"$name\"" lib/sandbox_syscalls.c || {
			say "$1: the sandbox refuses $name(), which it calls on arm64" >&2
			return 1
		}
	done
	say "$1: the sandbox allows the $(echo "$calls" | wc -w) system calls that it makes"
}

# In the root: starts `make run` and queries its programs.
smoke() {
	local run answer
	BUILD=/tmp/build bash conf/example/run.sh >/tmp/run.log 2>&1 &
	run=$!
	for _ in $(seq 600); do
		grep -q '^Ctrl-C stops' /tmp/run.log && break
		kill -0 $run 2>/dev/null || break
		sleep 0.1
	done
	while read -r port transport name type expected; do
		answer=$(dig @127.0.0.1 -p "$port" +"$transport" +tries=2 +time=2 +noall +comments +answer "$name" "$type" </dev/null 2>&1)
		case $answer in *"$expected"*) continue ;; esac
		printf 'release.sh: %s %s at port %s (%s) has no "%s": %s\n' "$name" "$type" "$port" "$transport" "$expected" "$answer" >&2
		cat /tmp/run.log >&2
		return 1
	done <<-LIST
		10053 notcp web.default.svc.cluster.local A $(sed -n 's/.*clusterIP: *\(10[0-9.]*\).*/\1/p' conf/example/objects/web.yaml | head -1)
		10053 tcp _http._tcp.web.default.svc.cluster.local SRV web.default.svc.cluster.local.
		10053 notcp missing.default.svc.cluster.local A status: NXDOMAIN
		1053 notcp web.default.svc.cluster.local A status: NOERROR
		1053 tcp missing.default.svc.cluster.local A status: NXDOMAIN
	LIST
	# The sidecar starts last, and `make run` does not wait for it. Under qemu-user, its first probe takes a while.
	for _ in $(seq 300); do
		curl -fsS http://127.0.0.1:10054/metrics 2>/tmp/curl.log | grep '^dns_probe_success' >/tmp/probes || :
		grep -q '} 1' /tmp/probes && break
		sleep 0.1
	done
	grep -q '} 1' /tmp/probes || {
		say "no probe of the sidecar succeeds within 30 s: $(cat /tmp/probes /tmp/curl.log)" >&2
		cat /tmp/run.log >&2
		return 1
	}
	kill $run
	wait $run || { say "make run ended with status $?" >&2; cat /tmp/run.log >&2; return 1; }
	say "smoke: kubedns, dnsmasq behind the nanny, and the sidecar answer"
}

# In the root: the system tests $1, with the nanny's engine $2.
system_tests() {
	make -s -j"$JOBS" BUILD=/tmp/build VERSION="$VERSION" CC="$(command -v ccache) gcc" all bench-tools
	ENGINE=$2 BUILD=/tmp/build PYTHON=/usr/bin/python3 PYTHONDONTWRITEBYTECODE=1 SYSTEM_TESTS=$1 sh tests/run.sh system
}

# In the root: builds the Debian packages. git refuses a repository of another user unless it is named.
debian_packages() {
	export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=safe.directory GIT_CONFIG_VALUE_0=/src
	make -s deb BUILD=/results VERSION="$VERSION"
}

inside() {
	cd /src
	ip link set lo up
	case $1 in
	unbound)
		system_tests tests/system/nanny unbound
		return
		;;
	http)
		system_tests tests/system/serve/test_http_requests.py dnsmasq
		say "libmicrohttpd $(dpkg-query -W -f '${Version}' libmicrohttpd-dev): no HTTP request ends a program"
		return
		;;
	deb)
		debian_packages
		return
		;;
	esac
	[ "$1" = native ] || export CROSS=aarch64-linux-gnu-
	build
	[ "$1" = native ] || emulate
	BUILD=/tmp/build UNIT_JOBS=$JOBS UNIT_TIMEOUT=$([ "$1" = arm64 ] && echo 1200 || echo 300) sh tests/run.sh unit replay
	smoke
	if [ "$1" = arm64 ]; then
		for program in kubedns nanny sidecar; do check_calls $program; done
	fi
}

part() {
	local begun=$SECONDS release root list inside=$1
	[ "$(id -u)" = 0 ] || cannot "$1" "it needs root, for namespaces and chroot"
	command -v mmdebstrap >/dev/null || cannot "$1" "apt-get install mmdebstrap"
	# shellcheck disable=SC1091 # the machine's own
	release=$(. /etc/os-release && [ "${VERSION_CODENAME:-}" = trixie ] && echo bookworm || echo trixie)
	case $1 in
	other) list=$(packages) inside=native ;;
	arm64) release=$newest list=$(packages_arm64) ;;
	unbound | http) release=$newest list=$(packages_system) ;;
	deb) list=$(packages_deb) ;;
	esac
	list=$(echo "$list" | tr ' ' '\n' | sort -u)
	root=$ROOTS/$release-${1/http/unbound}-$(echo "$list" | sha256sum | cut -c1-12)
	# shellcheck disable=SC2086 # a list of words
	make_root "$release" "$root" "$(dpkg --print-architecture)$([ "$1" != arm64 ] || echo ,arm64)" $list
	say "$1: the root file system of $release is there after $((SECONDS - begun)) s"
	in_root "$root" "$inside"
	if [ "$1" = deb ] && docker info >/dev/null 2>&1; then
		BUILD=build-release BASE=kubedns-base:$release bash tests/packages/run.sh
	elif [ "$1" = deb ]; then
		say "deb: the packages were built, but not installed: no docker here"
	fi
	say "$1: passed on Debian $release in $((SECONDS - begun)) s"
}

if [ "${1:-}" = inside ]; then
	shift
	inside "$@"
	exit
fi
[ $# != 0 ] || set -- other arm64
for name in "$@"; do
	case $name in
	other | arm64 | unbound | http | deb) part "$name" ;;
	*)
		echo "usage: release.sh [other] [arm64] [unbound] [http] [deb]" >&2
		exit 2
		;;
	esac
done
