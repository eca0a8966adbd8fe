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

# Which folder may include from which: its own, and those after the colon, or one header of theirs.
arrows='
lib:
treecache: lib
kubedns/cluster: treecache lib
kubedns/api: kubedns/cluster lib
kubedns/manifests: kubedns/cluster lib
kubedns/answer: kubedns/cluster/tree_content.h treecache lib
kubedns/serve: kubedns/answer treecache lib
kubedns/show: kubedns/answer kubedns/cluster treecache lib
kubedns: kubedns/api kubedns/manifests kubedns/cluster kubedns/answer kubedns/serve kubedns/show treecache lib
nanny: lib
sidecar: lib
'

# shellcheck disable=SC2317,SC2086 # called by step; a list of words
check_arrows() {
	grep -n '^#include "' $sources $headers | ARROWS=$arrows awk '
		BEGIN {
			n = split(ENVIRON["ARROWS"], lines, "\n")
			for (i = 1; i <= n; i++)
				if (split(lines[i], part, ": *") > 1)
					allowed[part[1]] = " " part[1] " " part[2] " "
		}
		{
			split($0, at, ":"); split($0, quoted, "\"")
			from = at[1]; sub("/[^/]*$", "", from)
			header = quoted[2]; to = header; sub("/[^/]*$", "", to)
			if (from ~ /^tests/)
				next
			if (!index(allowed[from], " " to " ") && !index(allowed[from], " " header " ")) {
				print at[1] ":" at[2] ": " from "/ may not include " header " (the table of arrows is in tests/lint.sh)"
				bad = 1
			}
		}
		END { exit bad }'
}

sources=$(find lib treecache kubedns nanny sidecar tests -name '*.c' | sort)
headers=$(find lib treecache kubedns nanny sidecar tests -name '*.h' | sort)
pages=$(find kubedns nanny sidecar -name '*.8' | sort)
scripts=$(grep -rlE '^#!.*\b(sh|bash)\b' --exclude-dir='build*' --exclude-dir=.git --exclude='*.md' . | sort)

# shellcheck disable=SC2086 # lists of words
{
	step form clang-format --dry-run -Werror $sources $headers
	step arrows check_arrows
	step analysis analyse
	[ -z "$pages" ] || step manuals mandoc -Tlint -W warning $pages
	[ -z "$scripts" ] || step scripts shellcheck $scripts
}
exit $failed
