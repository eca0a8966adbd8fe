/* kubedns ends after SIGTERM when no more queries arrive, or when its time is over. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "kubedns/run/drain.h"
#include "lib/clock.h"

static void
not_begun_it_is_never_over(void **state)
{
	struct drain drain = { .until_ms = CLOCK_NEVER };

	(void)state;
	assert_false(drain_over(&drain, INT64_MAX - 1, 7, false));
	assert_int_equal(drain_due_ms(&drain, 5), CLOCK_NEVER);
}

static void
without_quiet_it_lasts_its_time_whoever_asks(void **state)
{
	struct drain drain = { .until_ms = CLOCK_NEVER };

	(void)state;
	drain_begin(&drain, 1000, 8000, 0, 10);
	assert_int_equal(drain_due_ms(&drain, 1000), 9000);
	assert_false(drain_over(&drain, 1000, 10, false));
	assert_false(drain_over(&drain, 8999, 10, false));
	assert_true(drain_over(&drain, 9000, 99, false));
	assert_int_equal(drain_due_ms(&drain, 9500), 9000);
}

static void
with_quiet_it_ends_when_nobody_asks(void **state)
{
	struct drain drain = { .until_ms = CLOCK_NEVER };

	(void)state;
	drain_begin(&drain, 1000, 8000, 2000, 10);
	assert_int_equal(drain_due_ms(&drain, 1000), 1000 + DRAIN_LOOK_MS);
	assert_int_equal(drain_due_ms(&drain, 8950), 9000);
	assert_false(drain_over(&drain, 2900, 10, false));
	assert_false(drain_over(&drain, 2990, 11, false)); /* a query has arrived */
	assert_false(drain_over(&drain, 4989, 11, false));
	assert_false(drain_over(&drain, 4990, 11, true)); /* the query waits for a server */
	assert_false(drain_over(&drain, 6989, 11, false));
	assert_true(drain_over(&drain, 6990, 11, false));
}

static void
who_goes_on_asking_is_answered_as_long_as_drain_says(void **state)
{
	struct drain drain = { .until_ms = CLOCK_NEVER };
	uint64_t questions = 0;

	(void)state;
	drain_begin(&drain, 0, 8000, 500, questions);
	for (int64_t now_ms = 0; now_ms < 8000; now_ms += 400)
		assert_false(drain_over(&drain, now_ms, ++questions, false));
	assert_true(drain_over(&drain, 8000, ++questions, false));
}

static void
no_time_at_all_is_over_at_once(void **state)
{
	struct drain drain = { .until_ms = CLOCK_NEVER };

	(void)state;
	drain_begin(&drain, 1, 0, 0, 3);
	assert_true(drain_over(&drain, 1, 3, false));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(not_begun_it_is_never_over),
		cmocka_unit_test(without_quiet_it_lasts_its_time_whoever_asks),
		cmocka_unit_test(with_quiet_it_ends_when_nobody_asks),
		cmocka_unit_test(who_goes_on_asking_is_answered_as_long_as_drain_says),
		cmocka_unit_test(no_time_at_all_is_over_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
