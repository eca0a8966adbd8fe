#!/bin/sh
# Runs the tests that were built in $BUILD and counts them. Stages, as arguments (default: all of them):
#	unit	the cmocka programs in $BUILD/tests/unit, UNIT_JOBS at a time
#	replay	each fuzz target of $BUILD/tests/replay over its seeds
#	system	pytest over tests/system and the tests of the tests' own tools, in three phases:
#		1. PYTEST_JOBS at a time. Most of the time these tests wait, and each has ports and files of its own.
#		2. Tests marked `quiet`, QUIET_JOBS at a time. They load the machine or fail when others load it.
#		3. Tests marked `timing`, one by one. They compare durations, so a busy machine fails them too. Only these are
#		   repeated when they fail. There may be TIMING_TESTS of them.
#		PYTEST_ARGS adds to the command. SOAK=1 runs the tests that take more than a minute instead.
# All stages run even if one fails. The last line is "N passed, N failed" and names the tests that passed only when they were
# repeated. More than REPEATS of those are a failure. The lines before it count the skipped tests by reason, and say how many
# tests may be repeated.
set -u

: "${BUILD:=build}" "${PYTHON:=python3}" "${PYTEST_JOBS:=6}" "${QUIET_JOBS:=2}" "${TIMING_TESTS:=10}" "${PYTEST_ARGS:=}" "${SYSTEM_TESTS:=tests/system tests/apiserver}" "${UNIT_JOBS:=$(nproc)}" "${UNIT_TIMEOUT:=300}" "${SYSTEM_TIMEOUT:=1500}" "${REPEATS:=3}"
cd "$(dirname "$0")/.." || exit 1
mkdir -p "$BUILD" && BUILD=$(cd "$BUILD" && pwd) || exit 1
export BUILD
logs=$BUILD/test-logs
mkdir -p "$logs"
rm -f "$logs/skipped"
passed=0 failed=0 repeated='' repeatable=''

# The number that a line of $1 gives to the pattern $2, or 0.
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

# The programs of $BUILD/tests/$1 whose names begin with $2 and whose source is still there.
programs() {
	for program in "$BUILD/tests/$1/$2"_*; do
		name=$(basename "$program")
		case $name in *.*) continue ;; esac
		[ -f "$program" ] && [ -f "tests/$3/$name.c" ] && echo "$name"
	done
}

# Runs the programs of $BUILD/tests/$1 that are named on standard input, UNIT_JOBS at a time, each with its folder below $2 as argument
# if $2 is given. Each leaves its output in $logs/NAME.log and its exit status in $logs/NAME.status.
run_programs() {
	# shellcheck disable=SC2016 # for the shell that xargs starts
	dir=$BUILD/tests/$1 seeds=${2:-} logs=$logs timeout=$UNIT_TIMEOUT xargs -P "$UNIT_JOBS" -I{} sh -c \
		'timeout -k 5 "$timeout" "$dir/$1" ${seeds:+"$seeds/${1#fuzz_}"} >"$logs/$1.log" 2>&1 </dev/null; echo $? >"$logs/$1.status"' sh {}
}

unit() {
	programs unit test unit | run_programs unit
	for name in $(programs unit test unit); do
		log=$logs/$name.log status=$(cat "$logs/$name.status")
		ok=$(number "$log" '^\[  PASSED  \] \([0-9]*\) test.*')
		bad=$(number "$log" '^\[  FAILED  \] \([0-9]*\) test.*')
		skip=$(number "$log" '^\[  SKIPPED \] \([0-9]*\) test.*')
		if [ "$status" != 0 ] || [ "$bad" != 0 ] || [ "$ok" = 0 ]; then
			[ "$bad" = 0 ] && bad=1 # it crashed, hung, or tested nothing
			show_failure "$name: exit status $status" "$log"
		fi
		[ "$skip" = 0 ] || yes "$name" | head -n "$skip" >>"$logs/skipped"
		count "$ok" "$bad"
	done
	echo "unit: $passed passed, $failed failed"
}

replay() {
	before_ok=$passed before_bad=$failed
	programs replay fuzz fuzz | run_programs replay tests/fuzz/seeds
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

# The sum of an attribute over the test suites of a JUnit file.
junit() {
	sed 's/<testsuite /\n&/g' "$1" | sed -n "s/^<testsuite [^>]* $2=\"\\([0-9]*\\)\".*/\\1/p" | awk '{ n += $1 } END { print n + 0 }'
}

# pytest over the tests of marker expression $2, with the options $3...; $1 names its report.
pytest_phase() {
	xml=$logs/$1.xml marker=$2 all=0
	shift 2
	rm -f "$xml"
	# shellcheck disable=SC2086 # lists of words
	timeout -k 20 "$SYSTEM_TIMEOUT" "$PYTHON" -m pytest -c tests/pytest.ini -q -rfEs --durations=10 -o cache_dir="$logs/cache" --junitxml="$xml" \
		-m "$marker" "$@" $PYTEST_ARGS $SYSTEM_TESTS </dev/null
	status=$?
	if [ ! -s "$xml" ]; then
		echo "pytest ended with status $status and no report"
		count 0 1
		return
	fi
	all=$(junit "$xml" tests) bad=$(($(junit "$xml" failures) + $(junit "$xml" errors))) skip=$(junit "$xml" skipped)
	# 5: none of the tests chosen by PYTEST_ARGS is of this phase
	[ $status != 0 ] && [ $status != 5 ] && [ "$bad" = 0 ] && bad=1
	count $((all - bad - skip)) "$bad"
	[ "$skip" = 0 ] || sed 's/<skipped /\n&/g' "$xml" | sed -n 's/^<skipped [^>]*message="\([^"]*\)".*/\1/p' | sed 's/&quot;/"/g' >>"$logs/skipped"
}

# The tests that pytest would run again, by name.
last_failed() {
	sed -n 's/^ *"\(.*\)": true,\{0,1\}$/\1/p' "$logs/cache/v/cache/lastfailed" 2>/dev/null | sort
}

# How much of the processors' time a virtual machine's host has given to others in the last two seconds, in percent.
stolen() {
	{ head -1 /proc/stat && sleep 2 && head -1 /proc/stat; } | awk '
		{ steal[NR] = $9; for (i = 2; i <= 9; i++) all[NR] += $i }
		END { d = all[2] - all[1]; print int(d ? 100 * (steal[2] - steal[1]) / d : 0) }'
}

# Waits, a minute at most, until the host lets us have our processors: what has no time fails at whatever measures time.
settle() {
	for _ in 1 2 3 4 5 6 7 8 9 10; do
		share=$(stolen)
		[ "$share" -lt 10 ] && return
		echo "the host has $share % of the processors' time; waiting"
		sleep 4
	done
}

# The $1 tests about time that failed, alone, twice at most: a busy machine's doing is not the programs' fault, what fails again
# is. All of them have been shown above; those that pass now are named in the last line.
again() {
	left=$1 others=$((failed - $1))
	last_failed >"$logs/failed-first"
	for try in 1 2; do
		[ "$left" = 0 ] && break
		settle
		echo "$left tests about time failed; again, try $try of 2:"
		before_ok=$passed failed=0
		pytest_phase again "timing and not soak" -n 0 --last-failed
		left=$failed
		echo "$((passed - before_ok)) of them passed"
	done
	failed=$((others + left))
	last_failed >"$logs/failed-again"
	repeated=$(comm -23 "$logs/failed-first" "$logs/failed-again")
	repeats=$(comm -23 "$logs/failed-first" "$logs/failed-again" | wc -l)
	if [ "$repeats" -gt "$REPEATS" ]; then
		echo "$repeats tests passed only when repeated, more than $REPEATS: a busier machine than the tests can be believed on, or a slower program"
		count 0 1
	fi
}

system() {
	if [ -n "${SOAK:-}" ]; then
		pytest_phase soak soak -n 0
		return
	fi
	rm -rf "$logs/cache"
	pytest_phase system "not soak and not timing and not quiet" -n "$PYTEST_JOBS" --dist load
	pytest_phase quiet "quiet and not timing and not soak" -n "$QUIET_JOBS" --dist load
	before=$failed
	pytest_phase timing "timing and not soak" -n 0
	repeatable=$all
	if [ "$repeatable" -gt "$TIMING_TESTS" ]; then
		echo "$repeatable tests are marked timing, more than $TIMING_TESTS: make them wait for a condition or count, or mark them quiet"
		count 0 1
		before=$((before + 1))
	fi
	again $((failed - before))
}

[ $# = 0 ] && set -- unit replay system
for stage in "$@"; do
	case $stage in
	unit | replay | system) "$stage" ;;
	*)
		echo "run.sh: no such stage: $stage" >&2
		exit 2
		;;
	esac
done
[ ! -s "$logs/skipped" ] || sort "$logs/skipped" | uniq -c | sort -rn | sed 's/^ *\([0-9]*\) /\1 skipped: /'
[ -z "$repeatable" ] || echo "$repeatable tests may be repeated (marked timing), of $TIMING_TESTS at most"
[ -z "$repeated" ] || repeated="; passed only when repeated: $repeats ($(echo "$repeated" | paste -sd , | sed 's/,/, /g'))"
echo "$passed passed, $failed failed$repeated"
[ $failed = 0 ] && [ $passed -gt 0 ]
