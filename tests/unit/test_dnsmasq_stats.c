/* Counters made from the statistics of dnsmasq. They only grow, even if dnsmasq restarts, its cache
 * is flushed, a number overflows or the upstreams change. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "sidecar/containers/dnsmasq_stats.h"
#include "lib/clock.h"

static struct dnsmasq_stats cache;
static struct dnsmasq_stats_sample sample;
static int64_t now_ns;

static int
setup(void **state)
{
	(void)state;
	memset(&cache, 0, sizeof cache);
	memset(&sample, 0, sizeof sample);
	now_ns = 1000 * NS_PER_S;
	return 0;
}

static void
read_numbers(uint32_t hits, uint32_t misses, uint32_t evictions, uint32_t insertions)
{
	sample.counters[STAT_HITS] = hits;
	sample.counters[STAT_MISSES] = misses;
	sample.counters[STAT_EVICTIONS] = evictions;
	sample.counters[STAT_INSERTIONS] = insertions;
	now_ns += 5 * NS_PER_S;
	dnsmasq_stats_update(&cache, &sample, now_ns, (double)now_ns / 1e9);
}

static void
assert_counters(uint64_t hits, uint64_t misses, uint64_t evictions, uint64_t insertions)
{
	assert_int_equal(cache.counters[STAT_HITS], hits);
	assert_int_equal(cache.counters[STAT_MISSES], misses);
	assert_int_equal(cache.counters[STAT_EVICTIONS], evictions);
	assert_int_equal(cache.counters[STAT_INSERTIONS], insertions);
}

static void
set_upstreams(size_t count, const char *const *texts)
{
	sample.upstream_count = count;
	for (size_t i = 0; i < count; i++)
		assert_int_equal(dnsmasq_stats_parse_upstream((const uint8_t *)texts[i],
				     strlen(texts[i]), &sample.upstreams[i]),
		    0);
}
#define UPSTREAMS(...)                                                                             \
	set_upstreams(sizeof((const char *[]){ __VA_ARGS__ }) / sizeof(char *),                    \
	    (const char *[]){ __VA_ARGS__ })

static void
the_first_reading_is_taken_as_it_is(void **state)
{
	(void)state;
	read_numbers(100, 50, 1, 60);
	assert_counters(100, 50, 1, 60);
	read_numbers(110, 52, 1, 63);
	assert_counters(110, 52, 1, 63);
	assert_int_equal(cache.restarts + cache.flushes, 0);
}

static void
a_restart_counts_on_from_where_it_was(void **state)
{
	(void)state;
	read_numbers(1000, 500, 10, 600);
	read_numbers(7, 3, 0, 4);
	assert_counters(1007, 503, 10, 604);
	assert_int_equal(cache.restarts, 1);
	read_numbers(9, 3, 0, 4);
	assert_counters(1009, 503, 10, 604);
	assert_int_equal(cache.restarts, 1);
}

/* After a restart of dnsmasq, one of its numbers has already passed the old value. */
static void
a_restart_is_seen_in_any_number(void **state)
{
	(void)state;
	read_numbers(1000, 5, 0, 6);
	read_numbers(3, 9, 0, 12);
	assert_counters(1003, 14, 0, 18);
}

static void
a_flush_resets_insertions_alone(void **state)
{
	(void)state;
	read_numbers(1000, 500, 10, 600);
	read_numbers(1010, 505, 0, 5);
	assert_counters(1010, 505, 10, 605);
	assert_int_equal(cache.flushes, 1);
	assert_int_equal(cache.restarts, 0);
	assert_true(cache.flushed_s > 0);
}

static void
a_wrap_of_32_bits_is_no_restart(void **state)
{
	(void)state;
	read_numbers(4294967290u, 100, 0, 0);
	read_numbers(5, 101, 0, 0);
	assert_counters(4294967290u + UINT64_C(11), 101, 0, 0);
	assert_int_equal(cache.restarts, 0);
}

static void
counters_stay_while_dnsmasq_is_away(void **state)
{
	(void)state;
	read_numbers(100, 50, 0, 0);
	dnsmasq_stats_fail(&cache, "timeout", now_ns);
	dnsmasq_stats_fail(&cache, "timeout", now_ns);
	assert_counters(100, 50, 0, 0);
	assert_false(cache.up);
	assert_int_equal(cache.errors, 2);
	read_numbers(101, 50, 0, 0);
	assert_true(cache.up);
	assert_string_equal(cache.error, "");
}

static void
numbers_as_dnsmasq_prints_them(void **state)
{
	static const struct {
		const char *text;
		uint32_t value;
	} good[] = { { "0", 0 }, { "4294967295", 4294967295u }, { "-1", 4294967295u },
		{ "-2147483648", 2147483648u } };

	static const char *const bad[] = { "", "-", "1 ", " 1", "4294967296", "99999999999", "1x",
		"+1" };
	uint32_t value;

	(void)state;
	for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
		assert_int_equal(dnsmasq_stats_parse_number(
				     (const uint8_t *)good[i].text, strlen(good[i].text), &value),
		    0);
		assert_int_equal(value, good[i].value);
	}
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
		assert_true(dnsmasq_stats_parse_number(
				(const uint8_t *)bad[i], strlen(bad[i]), &value) < 0);
}

static void
upstreams_that_cannot_be_read_are_refused(void **state)
{
	static const char *const bad[] = { "", "10.0.0.1 5 1", "10.0.0.1#0 5 1",
		"10.0.0.1#99999 5 1", "10.0.0.1#53 5", "10.0.0.1#53 5 1 2", "10.0.0.1#53  5 1x",
		"x#53 5 1", "<b>#53 5 1", "10.0.0.1#53 99999999999 1" };
	struct dnsmasq_stats_sample_upstream u;

	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
		if (dnsmasq_stats_parse_upstream((const uint8_t *)bad[i], strlen(bad[i]), &u) == 0)
			fail_msg("accepted: %s", bad[i]);
}

static void
upstreams_of_both_families(void **state)
{
	(void)state;
	UPSTREAMS("10.0.0.1#53 5 1", "2001:db8::1#5353 7 0");
	read_numbers(1, 1, 0, 0);
	assert_int_equal(cache.upstream_count, 2);
	assert_int_equal(cache.upstreams[0].queries, 5);
	assert_int_equal(cache.upstreams[0].failed, 1);
	assert_int_equal(cache.upstreams[1].server.addr.family, AF_INET6);
	assert_int_equal(cache.upstreams[1].server.port, 5353);
}

static void
an_upstream_that_takes_anothers_place_does_not_inherit_its_queries(void **state)
{
	(void)state;
	UPSTREAMS("10.0.0.1#53 5000 10");
	read_numbers(1, 1, 0, 0);
	UPSTREAMS("10.0.0.2#53 5001 10");
	read_numbers(2, 2, 0, 0);
	assert_int_equal(cache.upstream_count, 1);
	assert_int_equal(cache.upstreams[0].queries, 0);
	UPSTREAMS("10.0.0.2#53 5004 11");
	read_numbers(3, 3, 0, 0);
	assert_int_equal(cache.upstreams[0].queries, 3);
	assert_int_equal(cache.upstreams[0].failed, 1);
}

/* When a server is removed, its counts are added to the server that stays. */
static void
counts_belong_to_a_generation_and_begin_again_with_it(void **state)
{
	(void)state;
	sample.generation = 512;
	UPSTREAMS("10.0.0.1#53 400 0");
	read_numbers(1, 1, 0, 0);
	assert_int_equal(cache.upstreams[0].queries, 0);
	UPSTREAMS("10.0.0.1#53 420 0");
	read_numbers(2, 2, 0, 0);
	assert_int_equal(cache.upstreams[0].queries, 20);
	sample.generation = 513;
	UPSTREAMS("10.0.0.1#53 596 196");
	read_numbers(3, 3, 0, 0);
	assert_int_equal(cache.upstreams[0].queries, 0);
	assert_int_equal(cache.upstreams[0].failed, 0);
	assert_int_equal(buckets_sum(&cache.upstreams[0].recent_queries, now_ns), 0);
	UPSTREAMS("10.0.0.1#53 600 196");
	read_numbers(4, 4, 0, 0);
	assert_int_equal(cache.upstreams[0].queries, 4);
	assert_int_equal(buckets_sum(&cache.upstreams[0].recent_failed, now_ns), 0);
}

static void
a_restarted_dnsmasq_with_another_generation_counts_from_its_start(void **state)
{
	(void)state;
	sample.generation = 512;
	UPSTREAMS("10.0.0.1#53 400 0");
	read_numbers(100, 100, 0, 0);
	sample.generation = 513;
	UPSTREAMS("10.0.0.1#53 7 2");
	read_numbers(1, 1, 0, 0);
	assert_int_equal(cache.upstreams[0].queries, 7);
	assert_int_equal(cache.upstreams[0].failed, 2);
}

static void
an_upstream_counts_on_after_a_restart(void **state)
{
	(void)state;
	UPSTREAMS("10.0.0.1#53 50 5");
	read_numbers(100, 100, 0, 0);
	UPSTREAMS("10.0.0.1#53 2 0");
	read_numbers(1, 1, 0, 0);
	assert_int_equal(cache.upstreams[0].queries, 52);
	assert_int_equal(cache.upstreams[0].failed, 5);
}

static void
the_table_of_upstreams_is_bounded(void **state)
{
	(void)state;
	for (unsigned round = 0; round < 3; round++) {
		sample.upstream_count = UPSTREAMS_MAX;
		for (unsigned i = 0; i < UPSTREAMS_MAX; i++)
			sample.upstreams[i] = (struct dnsmasq_stats_sample_upstream){
				.server = { { AF_INET, { 10, 0, (uint8_t)round, (uint8_t)i } }, 53 }
			};
		sample.dropped = 2;
		read_numbers(round, round, 0, 0);
	}
	assert_int_equal(cache.upstream_count, UPSTREAMS_MAX);
	assert_int_equal(cache.upstreams_dropped, 6);
	assert_int_equal(cache.upstreams[5].server.addr.bytes[2], 2);
}

/* dnsmasq counts six queries of the sidecar as hits. These would make an idle cache look perfect. */
static void
the_hit_ratio_leaves_out_our_own_questions(void **state)
{
	(void)state;
	read_numbers(1000, 1000, 0, 0);
	assert_true(isnan(dnsmasq_stats_hit_ratio(&cache, now_ns)));
	read_numbers(1006, 1000, 0, 0);
	assert_true(isnan(dnsmasq_stats_hit_ratio(&cache, now_ns)));
	read_numbers(1006 + 6 + 30, 1010, 0, 0);
	assert_true(fabs(dnsmasq_stats_hit_ratio(&cache, now_ns) - 0.75) < 1e-9);
	assert_true(isnan(dnsmasq_stats_hit_ratio(&cache, now_ns + 700 * NS_PER_S)));
}

/* A bug: the nanny probes dnsmasq each second, and its guard five times a second. An idle dnsmasq had a hit ratio of 1. */
static void
the_hit_ratio_leaves_out_the_probes_of_the_nanny(void **state)
{
	uint64_t probes = 500;
	uint32_t hits = 2000;

	(void)state;
	read_numbers(hits, 10, 0, 0);
	/* A reading also contains probes that the nanny's last count did not contain. */
	for (int i = 0; i < 100; i++) {
		dnsmasq_stats_nanny(&cache, probes += 5, now_ns);
		dnsmasq_stats_nanny(&cache, probes += 5, now_ns);
		read_numbers(hits += 6 + 10 + (i % 2 == 0 ? 3U : -3U), 10, 0, 0);
		assert_true(isnan(dnsmasq_stats_hit_ratio(&cache, now_ns)));
	}
	dnsmasq_stats_nanny(&cache, probes += 5, now_ns);
	assert_true(isnan(dnsmasq_stats_hit_ratio(&cache, now_ns)));
	read_numbers(hits += 6 + 5, 10, 0, 0); /* has all probes that are counted */
	/* The nanny may have made a count before the reading that the sidecar got first. */
	for (int i = 0; i < 100; i++) {
		read_numbers(hits += 6 + 5, 10, 0, 0);
		dnsmasq_stats_nanny(&cache, probes, now_ns);
		assert_true(isnan(dnsmasq_stats_hit_ratio(&cache, now_ns)));
		dnsmasq_stats_nanny(&cache, probes += 5, now_ns);
		assert_true(isnan(dnsmasq_stats_hit_ratio(&cache, now_ns)));
	}
	/* a nanny that restarts counts from 0 */
	probes = 0;
	for (int i = 0; i < 4; i++) {
		dnsmasq_stats_nanny(&cache, probes += 10, now_ns);
		read_numbers(hits += 6 + 10 + 300, 10 + 100 * (uint32_t)(i + 1), 0, 0);
	}
	dnsmasq_stats_nanny(&cache, probes += 10, now_ns);
	dnsmasq_stats_nanny(&cache, probes, now_ns);
	assert_true(fabs(dnsmasq_stats_hit_ratio(&cache, now_ns) - 0.75) < 0.01);
	/* a dnsmasq that restarts, too */
	read_numbers(20, 5, 0, 0);
	dnsmasq_stats_nanny(&cache, probes += 10, now_ns);
	dnsmasq_stats_nanny(&cache, probes, now_ns);
	assert_true(fabs(dnsmasq_stats_hit_ratio(&cache, now_ns) - 0.75) < 0.01);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(the_first_reading_is_taken_as_it_is, setup),
		cmocka_unit_test_setup(a_restart_counts_on_from_where_it_was, setup),
		cmocka_unit_test_setup(a_restart_is_seen_in_any_number, setup),
		cmocka_unit_test_setup(a_flush_resets_insertions_alone, setup),
		cmocka_unit_test_setup(a_wrap_of_32_bits_is_no_restart, setup),
		cmocka_unit_test_setup(counters_stay_while_dnsmasq_is_away, setup),
		cmocka_unit_test_setup(numbers_as_dnsmasq_prints_them, setup),
		cmocka_unit_test_setup(upstreams_that_cannot_be_read_are_refused, setup),
		cmocka_unit_test_setup(upstreams_of_both_families, setup),
		cmocka_unit_test_setup(
		    an_upstream_that_takes_anothers_place_does_not_inherit_its_queries, setup),
		cmocka_unit_test_setup(
		    counts_belong_to_a_generation_and_begin_again_with_it, setup),
		cmocka_unit_test_setup(
		    a_restarted_dnsmasq_with_another_generation_counts_from_its_start, setup),
		cmocka_unit_test_setup(an_upstream_counts_on_after_a_restart, setup),
		cmocka_unit_test_setup(the_table_of_upstreams_is_bounded, setup),
		cmocka_unit_test_setup(the_hit_ratio_leaves_out_our_own_questions, setup),
		cmocka_unit_test_setup(the_hit_ratio_leaves_out_the_probes_of_the_nanny, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
