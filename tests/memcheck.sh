#!/bin/sh
# shellcheck disable=SC2317,SC2094 # stages are called by name; basename reads no file
#
# Runs the tests that were built in $BUILD under Valgrind's memcheck. Fails if a test fails or if memcheck reports anything about a process.
# No report is suppressed. Stages, as arguments (default: both):
#	programs	the unit tests, and the fuzz targets over their seeds
#	system		the tests $SYSTEM_TESTS below tests/system, with kubedns under memcheck
# The sample of system tests covers each path of a query: cluster names, the root, malformed messages and refused transfers, over UDP and
# TCP. It also covers other servers, through the forwarder and through the relay to dnsmasq. `make memcheck` builds $BUILD with the C library's
# allocator and without zeroed locals, since both hide uninitialised bytes.
set -u

: "${BUILD:=build-memcheck}" "${PYTHON:=python3}" "${JOBS:=2}" "${TIMEOUT:=300}"
: "${SYSTEM_TESTS:=serve/test_protocol.py answers/test_answers.py serve/test_tcp.py::test_a_query_for_the_root_over_tcp_is_answered_and_counted \
serve/test_tcp.py::test_a_thousand_queries_in_one_write_get_a_thousand_replies ../modules/transfer/system/test_transfer.py::test_others_are_refused \
../modules/transfer/system/test_transfer.py::test_a_refused_transfer_is_counted_with_its_own_rcode ../modules/transfer/system/test_transfer.py::test_every_reply_has_an_opt_if_the_query_had_one \
../modules/transfer/system/test_transfer_keys.py::test_errors_of_keys_and_signatures_are_not_signed upstream/test_forward.py::test_letter_case_edns_and_do_survive \
upstream/test_forward.py::test_a_truncated_reply_is_asked_for_again_over_tcp upstream/test_forward.py::test_garbage_from_upstream_hurts_nobody \
upstream/test_forward.py::test_an_external_name_is_followed_through_the_forwarder \
upstream/test_relay.py::test_other_names_come_from_dnsmasqs_cache_and_cluster_names_do_not \
upstream/test_relay.py::test_a_reply_too_long_for_udp_is_whole_over_tcp_and_cut_over_udp upstream/test_relay.py::test_forged_replies_are_not_believed}"
# This list has the tests to leave out: tests that measure CPU time, take minutes, run out of descriptors, look for their own name, forbid
# system calls, or need pidfd_open(). Debian 12's Valgrind does not have pidfd_open(). The nanny needs pidfd_open() too.
left_out="test_documents test_endpoint_prices test_external_prices test_http_bind test_http_listeners test_snapshots test_port test_sandbox \
test_srv_prices test_stale_forks test_store_pods test_tree"
cd "$(dirname "$0")/.." || exit 1
BUILD=$(cd "$BUILD" && pwd) || exit 1
place=$BUILD/memcheck
logs=$place/logs

# Writes a script to $1 that runs program $2 under memcheck, with the arguments $3 before its own. memcheck's log is empty if it finds
# nothing.
wrap() {
	{
		echo '#!/bin/sh'
		echo "# A wrapper of memcheck.sh. The tests recognise it and allow more time."
		echo "exec valgrind -q --error-exitcode=99 --log-file='$logs/$(basename "$1").%p' '$2' $3 \"\$@\""
	} >"$1"
	chmod +x "$1"
}

programs() {
	for program in "$BUILD"/tests/unit/test_* "$BUILD"/tests/replay/fuzz_*; do
		name=$(basename "$program")
		case " $left_out " in *" $name "*) continue ;; esac
		case $program in
		*.*) continue ;;
		*/replay/*) wrap "$place/tests/$name" "$program" "$(find tests -type d -path "*/fuzz/seeds/${name#fuzz_}")" ;;
		*) wrap "$place/tests/$name" "$program" "" ;;
		esac
	done
	# shellcheck disable=SC2016 # for the shell that xargs starts
	printf '%s\n' "$place"/tests/* | xargs -P "$JOBS" -I{} timeout -k 5 "$TIMEOUT" sh -c \
		'"$1" >"$1.out" 2>&1 </dev/null || { echo "--- $1: exit status $?"; tail -30 "$1.out"; exit 1; }' sh {} || failed=1
}

system() {
	ln -s "$BUILD"/bin/* "$place/bin"
	rm "$place/bin/kubedns"
	wrap "$place/bin/kubedns" "$BUILD/bin/kubedns" --sandbox=off # Valgrind needs system calls that the sandbox refuses
	# shellcheck disable=SC2046,SC2086 # lists of words
	BUILD=$place "$PYTHON" -m pytest -c tests/pytest.ini -q -rfE --durations=5 -o cache_dir="$place/cache" -n "$JOBS" --dist load \
		$(for test in $SYSTEM_TESTS; do [ ! -e "tests/system/${test%%::*}" ] || echo "tests/system/$test"; done) </dev/null || failed=1
}

rm -rf "$place"
mkdir -p "$place/bin" "$place/tests" "$logs"
failed=0
[ $# = 0 ] && set -- programs system
for stage in "$@"; do
	case $stage in
	programs | system) "$stage" ;;
	*)
		echo "memcheck.sh: no such stage: $stage" >&2
		exit 2
		;;
	esac
done
# Other lines are warnings about system calls.
grep -l '^==' -r "$logs" | sort >"$place/found"
while read -r log; do
	failed=1
	echo "--- $log"
	head -60 "$log"
done <"$place/found"
echo "memcheck: $(find "$logs" -type f | wc -l) processes, $(wc -l <"$place/found") with errors"
exit "$failed"
