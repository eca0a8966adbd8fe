#!/bin/sh
# rootfs.sh ROOT COMMON PROGRAM...: what an image is made of. Copies the programs (and libraries, named *.so*), the closure of their shared libraries with
# the licences of those and what scanners read (the release, and dpkg's record of each package, one file each below
# /var/lib/dpkg/status.d), and the few files that libc and dnsmasq want, and nothing else: no shell, no package manager.
# What the directory COMMON holds comes from the layer below and is left out; with "" there is no such layer.
set -eu

root=$1
common=$2
shift 2

if [ -z "$common" ]; then
	mkdir -p "$root/etc" "$root/run" "$root/tmp"
	chmod 1777 "$root/tmp" "$root/run"
	# dnsmasq asks for nobody by name even where it may not change its user.
	printf '%s\n' 'root:x:0:0:root:/:/nologin' 'nobody:x:65534:65534:nobody:/:/nologin' >"$root/etc/passwd"
	printf '%s\n' 'root:x:0:' 'nogroup:x:65534:' >"$root/etc/group"
	mkdir -p "$root/usr/lib"
	cp -L /etc/os-release "$root/usr/lib/os-release"
	ln -s ../usr/lib/os-release "$root/etc/os-release"
fi

# The package that FILE came from, for its licence; /lib is a link to /usr/lib, and dpkg may know either name.
owner() {
	dpkg-query -S "$1" 2>/dev/null || dpkg-query -S "${1#/usr}" 2>/dev/null || dpkg-query -S "/usr$1" 2>/dev/null || true
}

# What is installed of PACKAGE: its version has Debian's patch level, by which scanners know what is mended.
record() {
	status=/var/lib/dpkg/status.d/$1
	if [ -e "$root$status" ] || { [ -n "$common" ] && [ -e "$common$status" ]; }; then
		return 0
	fi
	mkdir -p "$root$(dirname "$status")"
	if [ -e "/usr/share/doc/$1/status" ]; then # built here from Debian's source
		cp "/usr/share/doc/$1/status" "$root$status"
	elif ! dpkg-query -W -f 'Package: ${Package}\nStatus: install ok installed\nArchitecture: ${Architecture}\nSource: ${source:Package} (${source:Version})\nVersion: ${Version}\nMaintainer: ${Maintainer}\nDescription: ${binary:Summary}\n' "$1" >"$root$status" 2>/dev/null; then
		rm "$root$status" # our own program
	fi
}

copy() {
	if [ -e "$root$2" ] || { [ -n "$common" ] && [ -e "$common$2" ]; }; then
		return 0
	fi
	mkdir -p "$root$(dirname "$2")"
	cp -L "$1" "$root$2"
	package=$(owner "$1" | sed -n '1s/[:,].*//p')
	: "${package:=$(basename "$1")}" # built here, from a package of that name or from our own source
	record "$package"
	licence=/usr/share/doc/$package/copyright
	if [ -e "$licence" ] && { [ -z "$common" ] || [ ! -e "$common$licence.gz" ]; }; then
		mkdir -p "$root/usr/share/doc/$package"
		gzip -9nc "$licence" >"$root$licence.gz"
	fi
}

[ -n "$common" ] || record base-files
for program in "$@"; do
	case $program in
	*.so*) copy "$program" "$program" ;; # a library that its program loads when it needs it
	*) copy "$program" "/usr/sbin/$(basename "$program")" ;;
	esac
	ldd "$program" | grep -q 'not found' && { ldd "$program" >&2; exit 1; }
	# Names with their slash: "libx.so => /lib/.../libx.so (0x..)" and the loader's own "/lib64/ld-linux..so.2 (0x..)".
	ldd "$program" | sed -n 's/^[^/]*\(\/[^ ]*\) (0x.*/\1/p' | while read -r library; do
		copy "$library" "$library"
	done
done
strip --strip-unneeded "$root"/usr/sbin/* 2>/dev/null || true
