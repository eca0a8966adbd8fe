#!/bin/sh
# `make lint`: what can be wrong without a test that runs: formatting, static analysis, includes between folders, manuals, scripts, and
# documents that mislead. All steps run. The script fails if any step finds something. Figures about form are in `make report`.
set -u
cd "$(dirname "$0")/.." || exit 1
failed=0
python=${PYTHON:-python3}

step() {
	echo "lint: $1"
	shift
	"$@" || failed=1
}

# Runs clang-tidy with .clang-tidy, one file per run, because with several files a finding in one once appeared in another. It analyses only
# files that are linked into a program, because the analyser does not know that cmocka's assertions return only when they are true. A file
# without findings is skipped until the file, a header that it includes or the configuration changes. The stamps in build/tidy/ are named by
# the hash of all these files. The analyser follows each function through at most 75,000 states, a third of its default. This takes 40 % of
# the time, and still finds as many of the planted leaks (252 of 269).
# shellcheck disable=SC2317 # called by step
analyse() {
	mkdir -p build/tidy
	find build/tidy -type f -mtime +14 -delete
	# shellcheck disable=SC2016,SC2086 # expanded by the inner shell; a list of words
	printf '%s\n' $sources_of_programs | TIDY_VERSION=$(clang-tidy --version) xargs -P "$(nproc)" -n 1 sh -c '
		flags="-std=c17 -D_GNU_SOURCE -D_LGPL_SOURCE -DVERSION=\"0\" -I. -Ibuild"
		read_too=$(clang -MM $flags "$1" | sed "s/^[^:]*://; s/\\\\$//") || exit 1
		stamp=build/tidy/$({ echo "$1" "$flags" "$TIDY_VERSION"; sha256sum .clang-tidy tests/lint.sh $read_too; } | sha256sum | cut -d" " -f1)
		[ -e "$stamp" ] && exec touch "$stamp"
		clang-tidy -quiet "$1" -- $flags -Xclang -analyzer-config -Xclang max-nodes=75000 2>/dev/null && touch "$stamp"' tidy
}

# This checks only the formatting. `make vet` looks for mistakes, but compiles 565 MB of modules the first time.
# shellcheck disable=SC2317 # called by step
check_go() {
	unformatted=$(gofmt -l tests/controlplane tests/cluster/nodes tests/helm tests/spdx tests/bench/lookup) && [ -z "$unformatted" ] && return
	echo "gofmt would change: $unformatted"
	return 1
}

# Each folder may include its own headers, headers of the folders after the colon, and the single headers listed there. The row of
# kubedns/modules is for each module. A module may not include headers of another one.
arrows='
lib:
treecache: lib
kubedns/cluster: kubedns/cluster/external/object_external.h treecache lib
kubedns/cluster/external: kubedns/cluster treecache lib
kubedns/cluster/clusterset: kubedns/cluster treecache lib
kubedns/api: kubedns/cluster kubedns/cluster/external/object_external.h lib
kubedns/manifests: kubedns/cluster kubedns/cluster/external/object_external.h lib
kubedns/audit: kubedns/api kubedns/cluster lib
kubedns/answer: kubedns/cluster/tree_content.h treecache lib
kubedns/modules: kubedns/module.h kubedns/answer kubedns/serve kubedns/serve/observe treecache lib
kubedns/serve: kubedns/serve/net kubedns/serve/upstream kubedns/serve/observe kubedns/answer treecache lib
kubedns/serve/net: kubedns/serve kubedns/serve/upstream/inflight.h kubedns/serve/observe kubedns/answer treecache lib
kubedns/serve/upstream: kubedns/serve kubedns/serve/net/batch_io.h kubedns/serve/observe kubedns/answer treecache lib
kubedns/serve/observe: kubedns/answer treecache lib
kubedns/show: kubedns/answer kubedns/cluster kubedns/cluster/external kubedns/cluster/clusterset treecache lib
kubedns/config: kubedns/module.h kubedns/api/api_source.h kubedns/answer kubedns/cluster kubedns/cluster/external kubedns/cluster/clusterset kubedns/pages/query_log.h kubedns/serve/net/sockets.h kubedns/serve/upstream/forwarded_cache.h treecache lib
kubedns/pages: kubedns/config kubedns/api kubedns/audit kubedns/manifests kubedns/cluster kubedns/answer kubedns/serve kubedns/serve/observe kubedns/serve/upstream/forwarded_cache.h kubedns/show lib
kubedns/run: kubedns kubedns/config kubedns/pages kubedns/api kubedns/audit kubedns/manifests kubedns/cluster kubedns/serve kubedns/serve/observe kubedns/serve/upstream/forwarded_cache.h treecache lib
kubedns: kubedns/run kubedns/config kubedns/pages kubedns/api kubedns/audit kubedns/manifests kubedns/cluster kubedns/serve kubedns/serve/observe kubedns/serve/upstream/forwarded_cache.h kubedns/show treecache lib
nanny: nanny/dnsmasq nanny/unbound nanny/node nanny/servers lib
nanny/dnsmasq: nanny nanny/servers lib
nanny/unbound: nanny nanny/servers lib
nanny/node: nanny lib
nanny/servers: nanny/nanny.h nanny/config.h lib
sidecar: sidecar/containers sidecar/probes sidecar/verdict sidecar/page lib
sidecar/containers: sidecar/history.h sidecar/probes/dns_exchange.h lib
sidecar/probes: sidecar/history.h sidecar/containers/nanny_config.h lib
sidecar/verdict: sidecar sidecar/containers lib
sidecar/page: sidecar sidecar/containers sidecar/probes sidecar/verdict lib
migrate: lib
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
			if (from ~ "^kubedns/modules/")
				allowed[from] = allowed["kubedns/modules"] from " "
			if (!index(allowed[from], " " to " ") && !index(allowed[from], " " header " ")) {
				print at[1] ":" at[2] ": " from "/ may not include " header " (the table of arrows is in tests/lint.sh)"
				bad = 1
			}
		}
		END { exit bad }'
}

# What the documents and manuals say of the programs: links, commands, flags, metrics, ConfigMaps. The commands run the programs in $BUILD.
# shellcheck disable=SC2317 # called by step
check_documents() {
	"$python" -m pytest -c tests/pytest.ini -q -rfEs -n "$(nproc)" -o cache_dir=build/documents-cache tests/documents
}

sources_of_programs=$(find lib treecache kubedns nanny sidecar migrate -name '*.c' | sort)
sources=$(find lib treecache kubedns nanny sidecar migrate tests -name '*.c' | sort)
headers=$(find lib treecache kubedns nanny sidecar migrate tests -name '*.h' | sort)
python_files=$(find conf tests -name '*.py' | sort)
pages=$(find kubedns nanny sidecar migrate -name '*.[578]' | sort)
scripts=$(grep -rlE '^#!.*\b(sh|bash)\b' --exclude-dir='build*' --exclude-dir=.git --exclude='*.md' . | sort)

# shellcheck disable=SC2086 # lists of words
{
	step form clang-format --dry-run -Werror $sources $headers
	step arrows check_arrows
	step python "$python" -m pyflakes $python_files
	step modules "$python" tests/module_names.py
	! command -v gofmt >/dev/null || step go check_go
	! command -v go >/dev/null || step workflows build/tools/actionlint
	step analysis analyse
	[ -z "$pages" ] || step manuals mandoc -Tlint -W warning $pages
	[ -z "$scripts" ] || step scripts shellcheck $scripts
	step documents check_documents
}
exit $failed
