#!/bin/sh
# Runs the tests that were built in $BUILD and counts them. Stages, as arguments (default: all of them):
#	unit	the cmocka programs in $BUILD/tests/unit, UNIT_JOBS at a time
#	replay	each fuzz target of $BUILD/tests/replay over its seeds
#	system	pytest over tests/system, tests/apiserver and tests/modules, in two phases:
#		1. Tests without a mark, PYTEST_JOBS at a time (default: eight for two processors, because they mostly wait). Each test has its own ports and files.
#		2. Tests marked `quiet`, QUIET_JOBS at a time (default: three for two processors). Each of them loads the machine.
#		PYTEST_ARGS adds to the command. With SOAK=1, only the tests marked `soak` run. They take more than a minute each.
#	modules	the core of kubedns without modules (tests/modules.sh none)
# The other stages run beside the first phase of `system`, because its tests mostly wait. All stages run even if one fails, and no test is
# repeated. The last line is "N passed, N failed". The lines before it count the skipped
# tests by reason.
set -u

processors=$(nproc)
: "${BUILD:=build}" "${PYTHON:=python3}" "${PYTEST_JOBS:=$((4 * processors))}" "${QUIET_JOBS:=$(((3 * processors + 1) / 2))}" "${PYTEST_ARGS:=}" "${SYSTEM_TESTS:=tests/system tests/apiserver tests/modules}" "${UNIT_JOBS:=$processors}" "${UNIT_TIMEOUT:=300}" "${SYSTEM_TIMEOUT:=1500}"
cd "$(dirname "$0")/.." || exit 1
mkdir -p "$BUILD" && BUILD=$(cd "$BUILD" && pwd) || exit 1
export BUILD
# Each worker of pytest reads all tests. Without compiled files this takes eight seconds of a processor, most of them for the assertions.
unset PYTHONDONTWRITEBYTECODE
export PYTHONPYCACHEPREFIX="$BUILD/pycache"
logs=$BUILD/test-logs
mkdir -p "$logs"
rm -f "$logs/skipped"
passed=0 failed=0 beside=

# Prints the number that the pattern $2 matches in the file $1 (the last such line), or 0.
number() {
	n=$(sed -n "s/$2/\\1/p" "$1" | tail -1)
	echo "${n:-0}"
}

count() {
	passed=$((passed + $1)) failed=$((failed + $2))
}

show_failure() {
	echo "--- $1"
	cat "$2"
	echo "---"
}

# Lists the programs of $BUILD/tests/$1 whose names begin with $2. Skips programs without a source file in a folder tests/$3 or
# tests/modules/MODULE/$3.
programs() {
	for program in "$BUILD/tests/$1/$2"_*; do
		name=$(basename "$program")
		case $name in *.*) continue ;; esac
		[ -f "$program" ] || continue
		for source in "tests/$3/$name.c" tests/modules/*/"$3/$name.c"; do
			[ ! -f "$source" ] || echo "$name"
		done
	done
}

# Runs the programs of $BUILD/tests/$1 whose names come on standard input, UNIT_JOBS at a time. A fuzz target gets its folder of seeds as
# argument. Its output is in $logs/NAME.log, its exit status in $logs/NAME.status.
run_programs() {
	# shellcheck disable=SC2016 # for the shell that xargs starts
	dir=$BUILD/tests/$1 logs=$logs timeout=$UNIT_TIMEOUT xargs -P "$UNIT_JOBS" -I{} sh -c \
		'name=$1
		set -- tests/fuzz/seeds/"${name#fuzz_}" tests/modules/*/fuzz/seeds/"${name#fuzz_}"
		[ -d "$1" ] || shift
		[ -d "$1" ] || set --
		timeout -k 5 "$timeout" "$dir/$name" ${1:+"$1"} >"$logs/$name.log" 2>&1 </dev/null; echo $? >"$logs/$name.status"' sh {}
}

unit() {
	programs unit test unit | run_programs unit
	for name in $(programs unit test unit); do
		log=$logs/$name.log status=$(cat "$logs/$name.status")
		ok=$(number "$log" '^\[  PASSED  \] [a-z: ]*\([0-9][0-9]*\) test.*')
		bad=$(number "$log" '^\[  FAILED  \] [a-z: ]*\([0-9][0-9]*\) test.*')
		skip=$(number "$log" '^\[  SKIPPED \] [a-z: ]*\([0-9][0-9]*\) test.*')
		if [ "$status" != 0 ] || [ "$bad" != 0 ] || [ $((ok + skip)) = 0 ]; then
			[ "$bad" = 0 ] && bad=1 # the program crashed, hung, or has no tests
			show_failure "$name: exit status $status" "$log"
		fi
		[ "$skip" = 0 ] || yes "$name" | head -n "$skip" >>"$logs/skipped"
		count "$ok" "$bad"
	done
	echo "unit: $passed passed, $failed failed"
}

replay() {
	before_ok=$passed before_bad=$failed
	programs replay fuzz fuzz | run_programs replay
	for name in $(programs replay fuzz fuzz); do
		if [ "$(cat "$logs/$name.status")" = 0 ]; then
			count 1 0
		else
			count 0 1
			show_failure "$name over its seeds" "$logs/$name.log"
		fi
	done
	echo "fuzz seeds: $((passed - before_ok)) targets passed, $((failed - before_bad)) failed"
}

# Prints the sum of attribute $2 over the test suites of the JUnit file $1.
junit() {
	sed 's/<testsuite /\n&/g' "$1" | sed -n "s/^<testsuite [^>]* $2=\"\\([0-9]*\\)\".*/\\1/p" | awk '{ n += $1 } END { print n + 0 }'
}

# Runs pytest over the tests of $tests that the marker expression $2 selects, with the options $3... The report is $logs/$1.xml.
pytest_phase() {
	xml=$logs/$1.xml marker=$2 all=0
	shift 2
	rm -f "$xml"
	# shellcheck disable=SC2086 # lists of words
	timeout -k 20 "$SYSTEM_TIMEOUT" "$PYTHON" -m pytest -c tests/pytest.ini -q -rfEs --durations=10 -p no:cacheprovider --junitxml="$xml" \
		-m "$marker" "$@" $PYTEST_ARGS $tests </dev/null
	status=$?
	if [ ! -s "$xml" ]; then
		echo "pytest ended with status $status and no report"
		count 0 1
		return
	fi
	all=$(junit "$xml" tests) bad=$(($(junit "$xml" failures) + $(junit "$xml" errors))) skip=$(junit "$xml" skipped)
	# 5: PYTEST_ARGS selected no test of this phase
	[ $status != 0 ] && [ $status != 5 ] && [ "$bad" = 0 ] && bad=1
	count $((all - bad - skip)) "$bad"
	[ "$skip" = 0 ] || sed 's/<skipped /\n&/g' "$xml" | sed -n 's/^<skipped [^>]*message="\([^"]*\)".*/\1/p' | sed 's/&quot;/"/g' | awk 1 >>"$logs/skipped"
}

system() {
	tests=$SYSTEM_TESTS
	if [ -n "${SOAK:-}" ]; then
		pytest_phase soak soak -n 0
		return
	fi
	# Compiles all tests once, before each worker would do it. Later runs compile only what has changed.
	[ -d "$PYTHONPYCACHEPREFIX" ] || "$PYTHON" -m pytest -c tests/pytest.ini -qq --collect-only -p no:cacheprovider tests/system tests/apiserver tests/modules >/dev/null 2>&1
	pytest_phase system "not soak and not quiet" -n "$PYTEST_JOBS" --dist load
	join_beside
	# Each worker reads all files that it is given, so it is given those with such tests.
	case $tests in
	*::*) ;;
	*)
		# shellcheck disable=SC2086 # a list of words
		tests=$(grep -rlw --include='*.py' mark.quiet $tests)
		[ -n "$tests" ] || return 0
		;;
	esac
	pytest_phase quiet "quiet and not soak" -n "$QUIET_JOBS" --dist load
}

modules() {
	before_ok=$passed before_bad=$failed
	sh tests/modules.sh none >"$logs/modules.log" 2>&1
	count "$(number "$logs/modules.log" '^\([0-9]*\) passed, [0-9]* failed$')" "$(number "$logs/modules.log" '^[0-9]* passed, \([0-9]*\) failed$')"
	[ $failed = "$before_bad" ] || show_failure "the core without modules" "$logs/modules.log"
	echo "core without modules: $((passed - before_ok)) passed, $((failed - before_bad)) failed"
}

# Runs the stages in the background, before anything is counted. join_beside() prints their output and adds their counts.
start_beside() {
	rm -f "$logs/beside.count"
	(
		for stage in "$@"; do "$stage"; done
		echo "$passed $failed" >"$logs/beside.count"
	) >"$logs/beside.log" 2>&1 &
	beside=$!
	trap 'kill 0' INT # the background would ignore Ctrl-C
}

join_beside() {
	[ -n "$beside" ] || return 0
	wait "$beside"
	beside=
	cat "$logs/beside.log"
	read -r ok bad <"$logs/beside.count" || ok=0 bad=1
	count "$ok" "$bad"
}

case $BUILD in
*/build) all="unit replay modules system" ;;
*) all="unit replay system" ;; # a sanitized build, or the core alone
esac
# shellcheck disable=SC2086 # a list of words
[ $# = 0 ] && set -- $all
others='' system=''
for stage in "$@"; do
	case $stage in
	unit | replay | modules) others="$others $stage" ;;
	system) system=yes ;;
	*)
		echo "run.sh: no such stage: $stage" >&2
		exit 2
		;;
	esac
done
# shellcheck disable=SC2086 # a list of words
[ -z "$others" ] || start_beside $others
[ -z "$system" ] || system
join_beside
[ ! -s "$logs/skipped" ] || sort "$logs/skipped" | uniq -c | sort -rn | sed 's/^ *\([0-9]*\) /\1 skipped: /'
echo "$passed passed, $failed failed"
[ $failed = 0 ] && [ $passed -gt 0 ]
