#!/bin/sh
# modules.sh none    links the core of kubedns alone, in $BUILD-none: with the objects of $BUILD, and an empty list of modules. Runs the unit
#                    tests that differ from those of $BUILD, starts kubedns and sends it queries. kubedns-migrate must print no flag of a
#                    module. Then adds the example of docs/contributing.md to a copy of the tree, and tests it.
# modules.sh example the last part of `none` again.
# modules.sh each    for each module: copies the tree without the module's folder, its tests and its line in the list. Compiles the copy, and
#                    runs the core's unit tests. The flags of the module must be unknown. The documents whose links, metrics or tests do
#                    not exist in the copy must be among the files that `module_names.py --outside` prints.
# modules.sh all     runs the system tests for `none`, too.
# The last line is "N passed, N failed".
set -u
cd "$(dirname "$0")/.." || exit 1
: "${BUILD:=build}" "${PYTHON:=python3}" "${JOBS:=$(nproc)}"
BUILD=${BUILD#"$PWD/"}
mkdir -p "$BUILD-none" && none=$(cd "$BUILD-none" && pwd) || exit 1
smoke="tests/system/serve/test_udp.py::test_replies_leave_from_the_address_that_was_asked_in_both_families"
passed=0 failed=0

# Builds the targets after $2 of the tree $1 in $2.
build() {
	tree=$1 to=$2
	shift 2
	make -s -j"$JOBS" -C "$tree" BUILD="$to" WERROR=-Werror ${VERSION:+VERSION="$VERSION"} "$@"
}

# Compiles the tree $1 in $2, from scratch. The usual build shows the warnings that depend on optimisation.
compile() {
	build "$1" "$2" OPTIMISE="-O0 -g0" HARDENING=-fPIE kubedns-tests
}

# Links kubedns alone and kubedns-migrate in $none. The objects of the core are those of $BUILD, because none of them depends on MODULES. make compiles the rest.
link_alone() {
	make -s -j"$JOBS" BUILD="$BUILD" kubedns-tests &&
		(cd "$BUILD" && find kubedns treecache lib migrate version version.o -path kubedns/modules -prune -o -type f \
			! -name 'module_table.*' ! -name 'module_flags.*' \( -name '*.o' -o -name version \) -print0 | xargs -0 cp -p --parents -t "$none") &&
		MODULES='' build . "$none" "$none/bin/kubedns" "$none/bin/kubedns-migrate"
}

# Links the core's unit tests that contain a list of modules or code of a module. Every other unit test is the same program without modules.
link_different() {
	nm -g --defined-only "$BUILD"/kubedns/module_table.o "$BUILD"/kubedns/modules/*/*.o | awk 'NF == 3 { print $3 }' >"$none/symbols"
	for source in tests/unit/test_*.c; do
		program=$BUILD/tests/unit/$(basename "$source" .c)
		[ ! -f "$program" ] || echo "$program"
	done | xargs nm -A --defined-only | awk 'NR == FNR { of_modules[$1]; next } $NF in of_modules { print substr($1, 1, index($1, ":") - 1) }' \
		"$none/symbols" - | sort -u >"$none/different"
	[ -s "$none/symbols" ] || return
	[ ! -s "$none/different" ] || sed "s|^$BUILD/|$none/|" "$none/different" | MODULES='' xargs make -s -j"$JOBS" BUILD="$none"
}

# Adds the numbers of "N passed, N failed", the last line of the file $1.
count() {
	n=$(sed -n '$ s/^\([0-9]*\) passed, [0-9]* failed$/\1/p' "$1")
	bad=$(sed -n '$ s/^[0-9]* passed, \([0-9]*\) failed$/\1/p' "$1")
	passed=$((passed + ${n:-0})) failed=$((failed + ${bad:-1}))
}

# Runs the command after $1 and counts it. If it fails, prints $1.
check() {
	wrong=$1
	shift
	if "$@"; then
		passed=$((passed + 1))
	else
		echo "modules.sh: $wrong"
		failed=$((failed + 1))
	fi
}

# Runs the unit tests of the tree $1, which were built in $2.
unit() {
	BUILD=$2 sh "$1/tests/run.sh" unit >"$2/unit.log" 2>&1 || cat "$2/unit.log"
	count "$2/unit.log"
}

# Runs the unit test test_$1 in $none.
unit_test() {
	"$none/tests/unit/test_$1" >"$none/test_$1.log" 2>&1 || { cat "$none/test_$1.log" && return 1; }
}

says_none() {
	"$none/bin/kubedns" --version | grep -qx 'modules: none'
}

# Whether kubedns-migrate translates Corefiles with plugins of all modules to flags that the kubedns in $none accepts.
migrates_to_core() {
	for plugins in every-other autopath; do
		"$none/bin/kubedns-migrate" "tests/migrate/$plugins.corefile"
	done >"$none/migrated" 2>&1
	grep -q 'kubedns of this build has no --' "$none/migrated" || return
	for flag in $(sh kubedns/modules/table.sh --flags kubedns/modules/*/); do
		! grep -q -e "^[^#].*--$flag=" "$none/migrated" || return
	done
}

# Runs the system test $2 with the programs in $none, and counts it. Its output is in $1.
test_with() {
	check "failed: $2" env BUILD="$none" "$PYTHON" -m pytest -c tests/pytest.ini -q -p no:cacheprovider -n 0 "$2" </dev/null >"$1" 2>&1
	! tail -1 "$1" | grep -qv passed || cat "$1"
}

# Whether make builds all modules of the list of the tree $1.
reads_list() {
	make -s -C "$1" BUILD="$1/build" "$1/build/kubedns/module_table.c" &&
		[ "$(grep -c '^extern const struct module module_' "$1/build/kubedns/module_table.c")" = "$(wc -l <"$1/kubedns/modules/list")" ]
}

# Writes the files of the example to the tree $1. A file is the code block after the line that names it.
write_example() {
	mkdir -p "$1/kubedns/modules/whoami" "$1/tests/modules/whoami/unit"
	awk -v to="$1/" '
		/^[0-9]\. Write `.*\/modules\/whoami\// { split($0, quoted, "`"); file = to quoted[2] }
		/^```/ { inside = !inside && file != ""; if (!inside) file = ""; next }
		inside { print > file }' docs/contributing.md
}

# The core's objects in $none are newer than the sources of the copy, so make compiles the example and the list of modules.
example() {
	copy=$none/example
	mkdir -p "$copy"
	git ls-files -z | xargs -0 cp -a --parents -t "$copy"
	write_example "$copy"
	cp kubedns/modules/list "$copy/kubedns/modules/list"
	echo whoami >>"$copy/kubedns/modules/list"
	rm -f "$none"/kubedns/module_table.* # its dependencies have names in this folder
	check "make does not read a list of several modules" reads_list "$copy"
	MODULES=whoami VERSION=$(cat "$none/version") check "the example of docs/contributing.md does not compile" \
		build "$copy" "$none" "$none/bin/kubedns" "$none/tests/unit/test_whoami"
	check "the unit test of the example fails" unit_test whoami
	test_with "$none/example.log" "$copy/tests/system/release/test_example_module.py"
}

none() {
	rm -rf "$none"
	mkdir -p "$none"
	check "the core alone does not link" link_alone
	[ $failed = 0 ] || return
	check "--version does not say that there are no modules" says_none
	check "kubedns-migrate prints flags of modules" migrates_to_core
	check "a unit test does not link without modules" link_different
	[ ! -s "$none/different" ] || unit . "$none"
	test_with "$none/smoke.log" "$smoke"
	example
}

# Copies the tree to $2, without the module $1.
copy_without() {
	git ls-files -z | xargs -0 cp -a --parents -t "$2"
	rm -r "$2/kubedns/modules/$1" "$2/tests/modules/$1"
	sed -i "/^$1\$/d" "$2/kubedns/modules/list"
}

# Whether the program $1 does not know the flag $2.
is_unknown() {
	! "$1" --help=all | grep -q -e "--$2[ =]" && "$1" "--$2" 2>&1 | grep -q "unknown flag --$2"
}

# Whether `module_names.py --outside` prints each document that fails the checks of documents in the copy $2, which has no module $1.
knows_documents() {
	"$PYTHON" tests/module_names.py --outside "$1" >"$2/outside" || return
	(cd "$2" && git init -q && git add -A && COLUMNS=400 "$PYTHON" -m pytest -c tests/pytest.ini -q -rf -p no:cacheprovider tests/documents/test_documents.py \
		-k "links_lead or name_exist or promise or metrics_that") </dev/null >"$2/documents.log" 2>&1
	tail -1 "$2/documents.log" | grep -q passed || { cat "$2/documents.log" && return 1; }
	documents=$(sed -n 's/^FAILED .* AssertionError: \([^: ]*\).*/\1/p' "$2/documents.log" | sort -u)
	for document in $documents; do
		grep -q "^$document: " "$2/outside" || { echo "$document: names the module $1" && return 1; }
	done
}

each() {
	while read -r module; do
		copy=$(mktemp -d)
		bad_before=$failed
		copy_without "$module" "$copy"
		VERSION=copy check "the tree does not compile without the module $module" compile "$copy" "$copy/build"
		if [ $failed = "$bad_before" ]; then
			unit "$copy" "$copy/build"
			for flag in $(sh kubedns/modules/table.sh --flags "kubedns/modules/$module"); do
				check "without the module $module there is still --$flag" is_unknown "$copy/build/bin/kubedns" "$flag"
			done
			check "module_names.py --outside $module does not print a document that names the module" knows_documents "$module" "$copy"
		fi
		rm -rf "$copy"
	done <kubedns/modules/list
}

all() {
	none
	BUILD=$none PYTHON=$PYTHON sh tests/run.sh system | tee "$none/system.log"
	count "$none/system.log"
}

for stage in "$@"; do
	case $stage in
	none | example | each | all) "$stage" ;;
	*)
		echo "modules.sh: no such stage: $stage" >&2
		exit 2
		;;
	esac
done
echo "$passed passed, $failed failed"
[ $failed = 0 ] && [ $passed -gt 0 ]
