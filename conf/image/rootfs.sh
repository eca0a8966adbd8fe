#!/bin/sh
# rootfs.sh ARCHITECTURE ROOT COMMON FILE...: builds the file system of an image. A FILE is a program, or data below /usr/share. Copies the
# files, all shared libraries that the programs need, their licences, and files that scanners read: the release, and dpkg's record of each
# package in /var/lib/dpkg/status.d. Adds the few files that libc and dnsmasq need. There is no shell and no package manager. The layer below
# already has the files of the directory COMMON, so the script leaves them out. COMMON is "" if there is no layer below. The script runs none
# of the programs, so that they can be of another architecture.
set -eu

arch=$1
root=$2
common=$3
shift 3
gnu=$(dpkg-architecture "-a$arch" -qDEB_HOST_GNU_TYPE 2>/dev/null)
libdir=/usr/lib/$(dpkg-architecture "-a$arch" -qDEB_HOST_MULTIARCH 2>/dev/null)

if [ -z "$common" ]; then
	mkdir -p "$root/etc" "$root/run" "$root/tmp"
	chmod 1777 "$root/tmp" "$root/run"
	# dnsmasq looks up the user nobody by name, even if it cannot change its user.
	printf '%s\n' 'root:x:0:0:root:/:/nologin' 'nobody:x:65534:65534:nobody:/:/nologin' >"$root/etc/passwd"
	printf '%s\n' 'root:x:0:' 'nogroup:x:65534:' >"$root/etc/group"
	mkdir -p "$root/usr/lib"
	cp -L /etc/os-release "$root/usr/lib/os-release"
	ln -s ../usr/lib/os-release "$root/etc/os-release"
fi

# Succeeds if the image has the file $1 already, in this layer or in the layer below.
present() {
	[ -e "$root$1" ] || { [ -n "$common" ] && [ -e "$common$1" ]; }
}

# Prints the package that contains FILE. /lib is a link to /usr/lib, and dpkg may use either name. dpkg also lists diversions of the file.
owner() {
	{ dpkg-query -S "$1" 2>/dev/null || dpkg-query -S "${1#/usr}" 2>/dev/null || dpkg-query -S "/usr$1" 2>/dev/null || true; } | sed '/^diversion by /d; s/[:,].*//; q'
}

# Records the installed version of PACKAGE. Scanners use Debian's patch level in the version to know which vulnerabilities are fixed.
record() {
	status=/var/lib/dpkg/status.d/$1
	! present "$status" || return 0
	mkdir -p "$root$(dirname "$status")"
	# base-files is installed only for the machine's own architecture. Its files are the same everywhere.
	installed=$1:$arch
	dpkg-query -W "$installed" >/dev/null 2>&1 || installed=$1
	dpkg-query -W -f "Package: \${Package}\nStatus: install ok installed\nArchitecture: $arch\nSource: \${source:Package} (\${source:Version})\nVersion: \${Version}\nNewer: \${Newer}\nSuite: \${Suite}\nMaintainer: \${Maintainer}\nDescription: \${binary:Summary}\n" \
		"$installed" | sed '/^\(Newer\|Suite\): $/d' >"$root$status"
}

# Copies the file $1 to $2, with its package's record and licence. Programs of this project have no package.
copy() {
	mkdir -p "$root$(dirname "$2")"
	cp -L "$1" "$root$2"
	package=$(owner "$1")
	[ -n "$package" ] || return 0
	record "$package"
	licence=/usr/share/doc/$package/copyright
	if ! present "$licence.gz"; then
		mkdir -p "$root/usr/share/doc/$package"
		gzip -9nc "$licence" >"$root$licence.gz"
	fi
}

# Copies the libraries that the file $1 needs, and the libraries that these need.
libraries() {
	for needed in $("$gnu-objdump" -p "$1" | sed -n 's/^ *NEEDED *//p'); do
		case $needed in ld-linux*) continue ;; esac
		present "$libdir/$needed" && continue
		copy "$libdir/$needed" "$libdir/$needed"
		(libraries "$libdir/$needed")
	done
}

[ -n "$common" ] || record base-files
for program in "$@"; do
	case $program in /usr/share/*) copy "$program" "$program" && continue ;; esac
	copy "$program" "/usr/sbin/$(basename "$program")"
	loader=$("$gnu-readelf" -l "$program" | sed -n 's/.*interpreter: \(.*\)]/\1/p')
	present "$loader" || copy "$loader" "$loader"
	libraries "$program"
done
# The names of functions stay, 0.1 MB for kubedns, so that perf can print them (docs/runbook.md).
"$gnu-strip" --strip-debug "$root"/usr/sbin/*
