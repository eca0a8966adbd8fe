#!/bin/sh
# packages.py ... | fixes.sh BASE: reads "name version" lines and prints those for which Debian's archive has a newer version: "name: the
# image has VERSION, Debian has VERSION". Exits with 1 if there are any. It asks apt in a container of the base image BASE, and so uses the
# archives of BASE, not the pins. A package that the archive does not know is an error.
set -eu

docker run --rm -i "$1" sh -c '
	set -eu
	apt-get update -qq >&2
	status=0
	while read -r name version; do
		newest=$(apt-cache policy "$name" | sed -n "s/^  Candidate: //p")
		if [ -z "$newest" ]; then
			echo "$name: Debian has no package of this name"
			status=1
		elif dpkg --compare-versions "$newest" gt "$version"; then
			echo "$name: the image has $version, Debian has $newest"
			status=1
		fi
	done
	exit $status'
