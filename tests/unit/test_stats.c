#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kubedns/serve/observe/stats.h"
#include "lib/metrics.h"

static struct answer_info
reply(enum answer_system system, uint16_t qtype, uint8_t rcode, bool truncated)
{
	return (struct answer_info){
		.system = system, .rcode = rcode, .truncated = truncated, .query.qtype = qtype
	};
}

enum page { SKYDNS, OURS, COREDNS };

static char *
page_of(const struct stats *stats, enum page page)
{
	struct metrics *m = metrics_new(METRICS_TEXT);
	size_t len;

	if (page == SKYDNS)
		stats_metrics_skydns(stats, m, "skydns", "skydns");
	else if (page == OURS)
		stats_metrics(stats, m, 7);
	else
		stats_metrics_coredns(stats, m, "dns://:53", "cluster.local.");
	return metrics_finish(m, &len);
}

/* Returns the value of the series `series` on a page. The series must be on the page exactly once. */
static double
value(const struct stats *stats, enum page page, const char *series)
{
	char *text = page_of(stats, page), *found = NULL;
	size_t len = strlen(series);

	for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n"))
		if (strncmp(line, series, len) == 0 && line[len] == ' ') {
			assert_null(found);
			found = line + len;
		}
	if (found == NULL)
		fail_msg("%s is missing", series);
	double v = strtod(found, NULL);
	free(text);
	return v;
}

static void
each_reply_counts_for_one_cause(void **state)
{
	(void)state;
	static const struct {
		uint8_t rcode;
		bool truncated;
		enum stats_proto proto;
		enum stats_cause cause;
	} cases[] = {
		{ RCODE_NXDOMAIN, false, PROTO_UDP, CAUSE_NXDOMAIN },
		{ RCODE_REFUSED, false, PROTO_UDP, CAUSE_REFUSED },
		{ RCODE_SERVFAIL, false, PROTO_TCP, CAUSE_SERVFAIL },
		{ RCODE_NOERROR, true, PROTO_UDP, CAUSE_TRUNCATED },
		{ RCODE_NXDOMAIN, true, PROTO_UDP, CAUSE_TRUNCATED },
		{ RCODE_NOERROR, true, PROTO_TCP, CAUSE_OVERFLOW },
		{ RCODE_NOERROR, false, PROTO_UDP, CAUSE_COUNT },
		{ RCODE_FORMERR, false, PROTO_UDP, CAUSE_COUNT },
	};
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct stats stats = { 0 };
		struct answer_info info =
		    reply(SYSTEM_REVERSE, TYPE_PTR, cases[i].rcode, cases[i].truncated);

		stats_reply(&stats, cases[i].proto, &info, 100);
		for (size_t s = 0; s < SYSTEM_COUNT; s++)
			for (size_t c = 0; c < CAUSE_COUNT; c++)
				assert_int_equal(
				    stats.errors[s][c], s == SYSTEM_REVERSE && c == cases[i].cause);
	}
}

static void
queries_count_by_transport_family_type_and_system(void **state)
{
	(void)state;
	struct stats stats = { 0 };
	struct answer_info info = reply(SYSTEM_AUTH, TYPE_AAAA, 0, false);
	stats_query(&stats, PROTO_TCP, FAMILY_6, &info, 40);
	info.query.qtype = 65280;
	info.system = SYSTEM_RECURSIVE;
	stats_query(&stats, PROTO_UDP, FAMILY_4, &info, 40);
	assert_true(
	    value(&stats, OURS,
		"kubedns_dns_requests_total{proto=\"tcp\",family=\"ipv6\",type=\"AAAA\"}") == 1);
	assert_true(
	    value(&stats, OURS,
		"kubedns_dns_requests_total{proto=\"udp\",family=\"ipv4\",type=\"other\"}") == 1);
	assert_true(value(&stats, COREDNS,
			"coredns_dns_requests_total{server=\"dns://:53\",zone=\"cluster.local.\","
			"proto=\"tcp\",family=\"2\",type=\"AAAA\"}") == 1);
	assert_true(value(&stats, SKYDNS,
			"skydns_skydns_dns_request_count_total{system=\"recursive\"}") == 1);
}

/* The bounds of each family must be bounds of the fine buckets too. A value that equals a bound is
 * in its bucket. The next higher value is in the next bucket. */
static void
every_family_sorts_sizes_by_its_own_bounds(void **state)
{
	(void)state;
	static const unsigned sizes[] = { 12, 64, 65, 100, 101, 128, 129, 200, 201, 256, 257, 300,
		301, 400, 401, 511, 512, 513, 1023, 1024, 1025, 1232, 1233, 2047, 2048, 4095, 4096,
		8192, 8193, 8291, 8292, 16000, 16384, 32000, 48000, 49152, 64000, 65535 };
	static const unsigned skydns[] = { 0, 512, 1024, 1500, 2048, 4096, 8192, 12288, 16384,
		49152, 65536 };
	static const unsigned ours[] = { 64, 128, 256, 512, 1232, 4096, 16384, 65536 };
	static const unsigned coredns[] = { 0, 100, 200, 300, 400, 511, 1023, 2047, 4095, 8291,
		16000, 32000, 48000, 64000 };
	static const struct {
		enum page page;
		const unsigned *bounds;
		size_t count;
		const char *format;
	} families[] = {
		{ SKYDNS, skydns, sizeof skydns / sizeof skydns[0],
		    "skydns_skydns_dns_response_size_bytes_bucket{system=\"auth\",le=\"%u\"}" },
		{ OURS, ours, sizeof ours / sizeof ours[0],
		    "kubedns_dns_response_size_bytes_bucket{proto=\"udp\",le=\"%u\"}" },
		{ COREDNS, coredns, sizeof coredns / sizeof coredns[0],
		    "coredns_dns_response_size_bytes_bucket{server=\"dns://"
		    ":53\",zone=\"cluster.local.\","
		    "proto=\"udp\",le=\"%u\"}" },
	};
	struct stats stats = { 0 };
	struct answer_info info = reply(SYSTEM_AUTH, TYPE_A, 0, false);
	for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
		stats_reply(&stats, PROTO_UDP, &info, sizes[i]);
	for (size_t f = 0; f < sizeof families / sizeof families[0]; f++)
		for (size_t b = 0; b < families[f].count; b++) {
			char series[256];
			unsigned expected = 0;

			for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
				expected += sizes[i] <= families[f].bounds[b];
			snprintf(series, sizeof series, families[f].format, families[f].bounds[b]);
			assert_int_equal(
			    (unsigned)value(&stats, families[f].page, series), expected);
		}
}

static void
times_are_in_seconds_in_every_family(void **state)
{
	(void)state;
	struct stats stats = { 0 };
	stats_took(&stats.times[SYSTEM_AUTH], 250000, 3);
	stats_took(&stats.times[SYSTEM_AUTH], 250001, 2);
	stats_took(&stats.times[SYSTEM_AUTH], 3000000000, 1);
	assert_true(
	    value(&stats, OURS,
		"kubedns_dns_request_duration_seconds_bucket{system=\"auth\",le=\"0.00025\"}") ==
	    3);
	assert_true(
	    value(&stats, OURS,
		"kubedns_dns_request_duration_seconds_bucket{system=\"auth\",le=\"0.0005\"}") == 5);
	assert_true(value(&stats, OURS,
			"kubedns_dns_request_duration_seconds_count{system=\"auth\"}") == 6);
	assert_true(
	    value(&stats, SKYDNS,
		"skydns_skydns_dns_request_duration_seconds_bucket{system=\"auth\",le=\"2.5\"}") ==
	    5);
	assert_true(
	    value(&stats, SKYDNS,
		"skydns_skydns_dns_request_duration_seconds_bucket{system=\"auth\",le=\"5\"}") ==
	    6);
	double sum = value(
	    &stats, SKYDNS, "skydns_skydns_dns_request_duration_seconds_sum{system=\"auth\"}");
	assert_true(sum > 3.00124 && sum < 3.00126);
}

static void
sums_are_of_all_workers(void **state)
{
	(void)state;
	struct stats *sums = calloc(1, sizeof *sums + 2 * sizeof *sums->modules);
	struct stats *module = calloc(1, sizeof *module + 2 * sizeof *module->modules);
	static struct stats sum, a, b;
	stats_drop(&a, DROP_TCP_IDLE);
	stats_drop(&b, DROP_TCP_IDLE);
	stats_add(&b.tcp_connections, 5);
	stats_sub(&b.tcp_connections, 2);
	stats_sum(&sum, &a, 0);
	stats_sum(&sum, &b, 0);
	assert_true(value(&sum, OURS, "kubedns_dns_dropped_total{reason=\"tcp_idle\"}") == 2);
	assert_true(value(&sum, OURS, "kubedns_dns_dropped_total{reason=\"receive_queue\"}") == 7);
	assert_true(value(&sum, OURS, "kubedns_tcp_connections") == 3);
	module->modules[1] = 3;
	stats_sum(sums, module, 2);
	stats_sum(sums, module, 2);
	assert_int_equal(sums->modules[0], 0);
	assert_int_equal(sums->modules[1], 6);
	free(sums);
	free(module);
}

static void
every_series_is_there_from_the_start(void **state)
{
	(void)state;
	static const struct stats none;
	static const char *const systems[] = { "auth", "recursive", "reverse" };
	static const char *const causes[] = { "nxdomain", "truncated", "refused", "overflow",
		"servfail" };
	char series[128];
	for (size_t s = 0; s < 3; s++)
		for (size_t c = 0; c < 5; c++) {
			snprintf(series, sizeof series,
			    "skydns_skydns_dns_error_count_total{system=\"%s\",cause=\"%s\"}",
			    systems[s], causes[c]);
			assert_true(value(&none, SKYDNS, series) == 0);
		}
	assert_true(value(&none, SKYDNS,
			"skydns_skydns_dns_cachemiss_count_total{cache=\"response\"}") == 0);
	assert_true(value(&none, OURS, "kubedns_dns_responses_total{rcode=\"BADVERS\"}") == 0);
}

static void
an_empty_part_of_the_prefix_takes_its_underscore_along(void **state)
{
	(void)state;
	static const struct stats none;
	static const struct {
		const char *namespace, *subsystem, *expected;
	} cases[] = { { "kubedns", "dns", "\nkubedns_dns_dns_request_count_total{" },
		{ "", "skydns", "\nskydns_dns_request_count_total{" },
		{ "skydns", "", "\nskydns_dns_request_count_total{" },
		{ "", "", "\ndns_request_count_total{" } };
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct metrics *m = metrics_new(METRICS_TEXT);
		size_t len;

		stats_metrics_skydns(&none, m, cases[i].namespace, cases[i].subsystem);
		char *text = metrics_finish(m, &len);
		assert_non_null(strstr(text, cases[i].expected));
		free(text);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_reply_counts_for_one_cause),
		cmocka_unit_test(queries_count_by_transport_family_type_and_system),
		cmocka_unit_test(every_family_sorts_sizes_by_its_own_bounds),
		cmocka_unit_test(times_are_in_seconds_in_every_family),
		cmocka_unit_test(sums_are_of_all_workers),
		cmocka_unit_test(every_series_is_there_from_the_start),
		cmocka_unit_test(an_empty_part_of_the_prefix_takes_its_underscore_along),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
