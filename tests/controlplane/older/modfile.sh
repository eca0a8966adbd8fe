#!/bin/sh
# Writes k8s-MINOR.mod and .sum for the Kubernetes VERSION (1.33.13). As in k8s.io/kubernetes itself, its staging modules are replaced by
# the modules of the same release.
set -eu
cd "$(dirname "$0")"
version=$1
file=k8s-${version%.*}.mod
staging=$(GOFLAGS=-mod=mod go mod download -json "k8s.io/kubernetes@v$version" | sed -n 's/.*"GoMod": "\(.*\)",/\1/p')
{
	echo 'module older'
	echo
	sed -n '/^go /p; /^godebug/p' "$staging"
	echo
	echo "require k8s.io/kubernetes v$version"
	echo
	echo 'replace ('
	sed -n "s|^\t*\(replace \)*\(k8s.io/[a-z-]*\) => \./staging/.*|\t\2 => \2 v0.${version#*.}|p" "$staging"
	# Prints the other versions that the release pins. A module that requires the release does not inherit these versions.
	sed -n 's|^\t\([a-z][^ ]* => [^./][^ ]* v[^ ]*\)$|\t\1|p' "$staging"
	echo ')'
} >"$file"
rm -f "${file%.mod}.sum"
go mod tidy -modfile="$file"
