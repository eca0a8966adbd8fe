/* Waits after failures. A wait is random, between zero and a limit (full jitter). The limit doubles
 * with each failure, and is reset after two minutes without a failure. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "kubedns/api/backoff.h"

/* The test makes many first waits, many second waits, and so on. With full jitter, the longest wait
 * is near the limit and the shortest is near zero. */
static void
waits_stay_below_a_limit_that_doubles_to_thirty_seconds(void **state)
{
	static const int64_t limits[] = { 800, 1600, 3200, 6400, 12800, 25600, 30000, 30000,
		30000 };

	enum { N = sizeof limits / sizeof *limits, ROUNDS = 500 };
	int64_t least[N], most[N] = { 0 };
	(void)state;
	for (unsigned round = 0; round < ROUNDS; round++) {
		struct backoff b = { 0 };

		for (unsigned i = 0; i < N; i++) {
			int64_t ms = backoff_failed(&b, 1000, BACKOFF_MAX_MS);

			assert_in_range(ms, 0, limits[i]);
			least[i] = round == 0 || ms < least[i] ? ms : least[i];
			most[i] = ms > most[i] ? ms : most[i];
		}
	}
	for (unsigned i = 0; i < N; i++) {
		assert_true(most[i] > limits[i] * 9 / 10);
		assert_true(least[i] < limits[i] / 10);
	}
}

static void
a_server_that_is_away_is_looked_for_within_five_seconds(void **state)
{
	static const int64_t limits[] = { 800, 1600, 3200, 5000, 5000, 5000 };

	(void)state;
	for (unsigned round = 0; round < 500; round++) {
		struct backoff b = { 0 };

		for (unsigned i = 0; i < sizeof limits / sizeof *limits; i++)
			assert_in_range(
			    backoff_failed(&b, 1000, BACKOFF_AWAY_MAX_MS), 0, limits[i]);
	}
}

static void
no_number_of_failures_overflows(void **state)
{
	struct backoff b = { .failures = 4000000000 };

	(void)state;
	assert_in_range(backoff_failed(&b, 1, BACKOFF_MAX_MS), 0, BACKOFF_MAX_MS);
}

static void
two_good_minutes_forget(void **state)
{
	struct backoff b = { .failures = 10 };

	(void)state;
	backoff_good(&b, 1000);
	backoff_good(&b, 50000); /* there was no failure since the first call */
	assert_in_range(
	    backoff_failed(&b, 1000 + BACKOFF_GOOD_MS, BACKOFF_MAX_MS), 0, BACKOFF_FIRST_MS);
	assert_int_equal(b.failures, 1);
}

static void
less_than_two_good_minutes_do_not(void **state)
{
	struct backoff b = { .failures = 10 };

	(void)state;
	backoff_good(&b, 1000);
	backoff_failed(&b, 1000 + BACKOFF_GOOD_MS - 1, BACKOFF_MAX_MS);
	assert_int_equal(b.failures, 11);
	backoff_failed(&b, 1000 + 2 * BACKOFF_GOOD_MS, BACKOFF_MAX_MS);
	assert_int_equal(b.failures, 12);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(waits_stay_below_a_limit_that_doubles_to_thirty_seconds),
		cmocka_unit_test(a_server_that_is_away_is_looked_for_within_five_seconds),
		cmocka_unit_test(no_number_of_failures_overflows),
		cmocka_unit_test(two_good_minutes_forget),
		cmocka_unit_test(less_than_two_good_minutes_do_not),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
