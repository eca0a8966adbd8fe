#!/bin/sh
# `make lint`: form, static analysis, manual pages, scripts. All of them run; any finding fails.
set -u
cd "$(dirname "$0")/.." || exit 1
failed=0

step() {
	echo "lint: $1"
	shift
	"$@" || failed=1
}

# clang-tidy with .clang-tidy, one file a run: over several it once brought a finding from one into another. What is linked into a program, no more: the
# analyser does not know that cmocka's assertions return only when they hold.
# shellcheck disable=SC2317 # called by step
analyse() {
	# shellcheck disable=SC2016 # expanded by the inner shell
	find lib treecache kubedns nanny sidecar -name '*.c' | sort | xargs -P "$(nproc)" -n 1 sh -c '
		clang-tidy -quiet "$@" -- -std=c17 -D_GNU_SOURCE -D_LGPL_SOURCE -DVERSION=\"0\" -I. 2>/dev/null' tidy
}

sources=$(find lib treecache kubedns nanny sidecar tests -name '*.c' | sort)
headers=$(find lib treecache kubedns nanny sidecar tests -name '*.h' | sort)
pages=$(find kubedns nanny sidecar -name '*.8' | sort)
scripts=$(grep -rlE '^#!.*\b(sh|bash)\b' --exclude-dir='build*' --exclude-dir=.git --exclude='*.md' . | sort)

# shellcheck disable=SC2086 # lists of words
{
	step form clang-format --dry-run -Werror $sources $headers
	step analysis analyse
	[ -z "$pages" ] || step manuals mandoc -Tlint -W warning $pages
	[ -z "$scripts" ] || step scripts shellcheck $scripts
}
exit $failed
