/* When a probe is due, the statistics of a probe, and how much of its history is kept. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/clock.h"
#include "lib/wire.h"
#include "sidecar/probes/dns_exchange.h"
#include "sidecar/probes/probe.h"
#include "sidecar/page/status.h"
#include "tests/unit/emulator.h"

static struct probe probe;
static const int64_t start_ns = 50000 * NS_PER_S;

static int
setup(void **state)
{
	struct probe_spec spec;
	char why[SPEC_WHY_MAX];

	(void)state;
	assert_int_equal(spec_parse(&spec, "p,127.0.0.1,x,5", why), 0);
	probe_init(&probe, &spec, start_ns, 20 * NS_PER_MS);
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	probe_close(&probe);
	return 0;
}

static void
record(enum cause cause, double ms, int64_t at_ns)
{
	struct dns_exchange r = {
		.reply.cause = cause, .sent_ns = at_ns, .latency_ns = (int64_t)(ms * 1e6)
	};

	probe_record(&probe, &r, at_ns, 1.7e9 + (double)(at_ns - start_ns) / 1e9);
}

static void
it_is_due_at_whole_intervals_without_drift(void **state)
{
	(void)state;
	assert_int_equal(probe.due_ns, start_ns + 20 * NS_PER_MS);
	probe_schedule(&probe, probe.due_ns + 3 * NS_PER_MS);
	assert_int_equal(probe.due_ns, start_ns + 20 * NS_PER_MS + 5 * NS_PER_S);
}

static void
a_long_pause_is_followed_by_one_question(void **state)
{
	(void)state;
	probe_schedule(&probe, start_ns + 3600 * NS_PER_S);
	assert_true(probe.due_ns > start_ns + 3600 * NS_PER_S);
	assert_true(probe.due_ns <= start_ns + 3605 * NS_PER_S);
}

static void
its_timeout_ends_before_the_next_question(void **state)
{
	(void)state;
	assert_int_equal(probe_timeout_ms(&probe), 2000);
	probe.spec.interval_s = 1;
	assert_int_equal(probe_timeout_ms(&probe), 900);
}

/* The first datagrams of a socket may arrive before the kernel timestamps datagrams. So the test
 * sends more than one query and keeps the timestamps enabled. */
static void
its_latency_ends_when_the_answer_comes_not_when_it_is_read(void **state)
{
	enum { QUESTIONS_MAX = 1000 };
	struct sockaddr_in sin = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	socklen_t len = sizeof sin;
	const int on = 1;
	bool earlier = false;
	struct dns_exchange exchange;

	(void)state;
	skip_under_emulator("SO_TIMESTAMPNS");
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on), 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&sin, len), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&sin, &len), 0);
	const struct server server = { { AF_INET, { 127, 0, 0, 1 } }, ntohs(sin.sin_port) };
	dns_exchange_init(&exchange);
	for (int i = 0; i < QUESTIONS_MAX && !earlier; i++) {
		uint8_t message[512];

		assert_false(dns_exchange_ask(
		    &exchange, &server, &probe.spec.name, TYPE_A, CLASS_IN, PROBE_TIMEOUT_MS));
		ssize_t n = recvfrom(fd, message, sizeof message, 0, (struct sockaddr *)&sin, &len);
		assert_true(n > DNS_HEADER);
		message[2] |= 0x80; /* the bit QR: a response without a record */
		assert_int_equal(
		    sendto(fd, message, (size_t)n, 0, (struct sockaddr *)&sin, len), n);
		struct pollfd answer = { .fd = exchange.fd, .events = POLLIN };
		assert_int_equal(poll(&answer, 1, PROBE_TIMEOUT_MS), 1);
		int64_t read_ns = clock_mono_ns();
		assert_true(dns_exchange_run(&exchange, POLLIN));
		assert_int_equal(exchange.reply.cause, CAUSE_NO_RECORDS);
		earlier = exchange.sent_ns + exchange.latency_ns < read_ns;
	}
	assert_true(earlier);
	dns_exchange_close(&exchange);
	close(fd);
}

static void
results_are_counted_by_cause(void **state)
{
	(void)state;
	record(CAUSE_OK, 0.2, start_ns);
	record(CAUSE_TIMEOUT, 2000, start_ns + 1);
	record(CAUSE_NOT_READY, 1, start_ns + 2);
	record(CAUSE_NXDOMAIN, 1, start_ns + 3);
	assert_int_equal(probe.results[CAUSE_OK], 1);
	assert_int_equal(probe_failures(&probe), 2);
	assert_int_equal(probe.latency_ms.buckets[0], 1);
	assert_true(probe.latency_ms.sum > 0.199 && probe.latency_ms.sum < 0.201);
	assert_true(probe.latency_s == 0);
	assert_string_equal(probe.error, "NXDOMAIN");
}

static void
its_state_is_dated_by_the_change(void **state)
{
	(void)state;
	record(CAUSE_TIMEOUT, 2000, start_ns + 5 * NS_PER_S);
	record(CAUSE_SERVFAIL, 1, start_ns + 10 * NS_PER_S);
	assert_int_equal(probe.since_ns, start_ns + 5 * NS_PER_S);
	record(CAUSE_OK, 1, start_ns + 15 * NS_PER_S);
	assert_int_equal(probe.since_ns, start_ns + 15 * NS_PER_S);
}

static void
assert_health(bool expected, const char *json)
{
	bool ok;
	char *text = status_healthcheck(&probe, &ok);

	assert_string_equal(text, json);
	assert_int_equal(ok, expected);
	free(text);
}

static void
health_reads_as_kube_dns_wrote_it(void **state)
{
	(void)state;
	assert_health(
	    false, "{\"IsOk\":false,\"LatencySeconds\":0,\"Err\":\"waiting for first probe\"}");
	record(CAUSE_OK, 0.279437, start_ns);
	assert_health(true, "{\"IsOk\":true,\"LatencySeconds\":0.000279437,\"Err\":\"\"}");
	record(CAUSE_OK, 0.089157, start_ns); /* Go also writes this value without an exponent */
	assert_health(true, "{\"IsOk\":true,\"LatencySeconds\":0.000089157,\"Err\":\"\"}");
	record(CAUSE_OK, 1500, start_ns);
	assert_health(true, "{\"IsOk\":true,\"LatencySeconds\":1.5,\"Err\":\"\"}");
	record(CAUSE_OK, 2000, start_ns);
	assert_health(true, "{\"IsOk\":true,\"LatencySeconds\":2,\"Err\":\"\"}");
	record(CAUSE_NOT_READY, 0.2, start_ns);
	assert_health(true, "{\"IsOk\":true,\"LatencySeconds\":0,\"Err\":\"not ready\"}");
	record(CAUSE_TIMEOUT, 2000, start_ns);
	assert_health(false, "{\"IsOk\":false,\"LatencySeconds\":0,\"Err\":\"timeout\"}");
}

static void
history_keeps_ten_minutes_and_no_more(void **state)
{
	struct history_summary summary;

	(void)state;
	for (int i = 0; i < 1000; i++)
		record(i % 10 == 0 ? CAUSE_TIMEOUT : CAUSE_OK, i, start_ns + i * 5 * NS_PER_S);
	assert_int_equal(probe.history.count, 121);
	assert_null(history_get(&probe.history, 121));
	int64_t now = start_ns + 999 * 5 * NS_PER_S;
	history_summary(&probe.history, now - HISTORY_S * NS_PER_S, &summary);
	assert_int_equal(summary.total, 121);
	assert_int_equal(summary.failed, 12);
	assert_true(summary.max_ms == 999);
	assert_true(summary.p50_ms > 930 && summary.p50_ms < 945);
	history_summary(&probe.history, now + NS_PER_S, &summary);
	assert_int_equal(summary.total, 0);
	assert_true(isnan(summary.p99_ms));
}

static void
buckets_forget_after_ten_minutes(void **state)
{
	struct buckets b = { 0 };

	(void)state;
	buckets_add(&b, start_ns, 5);
	buckets_add(&b, start_ns + 30 * NS_PER_S, 7);
	assert_int_equal(buckets_get(&b, start_ns + 30 * NS_PER_S, 0), 7);
	assert_int_equal(buckets_get(&b, start_ns + 30 * NS_PER_S, 3), 5);
	assert_int_equal(buckets_sum(&b, start_ns + 30 * NS_PER_S), 12);
	assert_int_equal(buckets_sum(&b, start_ns + 600 * NS_PER_S), 7);
	assert_int_equal(buckets_sum(&b, start_ns + 6000 * NS_PER_S), 0);
	buckets_add(&b, start_ns + 6000 * NS_PER_S, 1);
	assert_int_equal(buckets_sum(&b, start_ns + 6000 * NS_PER_S), 1);
	buckets_add(&b, start_ns + 6000 * NS_PER_S, UINT64_MAX);
	assert_int_equal(buckets_get(&b, start_ns + 6000 * NS_PER_S, 0), UINT32_MAX);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(it_is_due_at_whole_intervals_without_drift),
		T(a_long_pause_is_followed_by_one_question),
		T(its_timeout_ends_before_the_next_question),
		T(its_latency_ends_when_the_answer_comes_not_when_it_is_read),
		T(results_are_counted_by_cause),
		T(its_state_is_dated_by_the_change),
		T(health_reads_as_kube_dns_wrote_it),
		T(history_keeps_ten_minutes_and_no_more),
		T(buckets_forget_after_ten_minutes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
