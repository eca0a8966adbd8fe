/* Deadlines: which deadline is earlier, and how long poll() waits for one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "lib/clock.h"

static void
never_is_later_than_every_deadline(void **state)
{
	(void)state;
	assert_int_equal(clock_earlier(5, 7), 5);
	assert_int_equal(clock_earlier(7, 5), 5);
	assert_int_equal(clock_earlier(0, CLOCK_NEVER), 0);
	assert_int_equal(clock_earlier(CLOCK_NEVER, 7), 7);
	assert_int_equal(clock_earlier(CLOCK_NEVER, CLOCK_NEVER), CLOCK_NEVER);
}

static void
poll_waits_until_the_deadline_and_for_never_without_end(void **state)
{
	(void)state;
	assert_int_equal(clock_wait_ms(1500, 1000), 500);
	assert_int_equal(clock_wait_ms(1000, 1000), 0);
	assert_int_equal(clock_wait_ms(999, 1000), 0);
	/* 0 is a time in the past. It does not mean "never". */
	assert_int_equal(clock_wait_ms(0, 1000), 0);
	assert_int_equal(clock_wait_ms(CLOCK_NEVER, 1000), -1);
	assert_int_equal(clock_wait_ms(CLOCK_NEVER - 1, 1000), INT_MAX);
	assert_int_equal(clock_wait_ns(CLOCK_NEVER, 1000), -1);
	assert_int_equal(clock_wait_ns(CLOCK_NEVER - 1, 1000), INT_MAX);
}

static void
poll_does_not_return_before_a_deadline_in_nanoseconds(void **state)
{
	(void)state;
	assert_int_equal(clock_wait_ns(1000, 1000), 0);
	assert_int_equal(clock_wait_ns(1001, 1000), 1);
	assert_int_equal(clock_wait_ns(1000 + NS_PER_MS, 1000), 1);
	assert_int_equal(clock_wait_ns(1001 + NS_PER_MS, 1000), 2);
	assert_int_equal(clock_wait_ns(1, 1000), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(never_is_later_than_every_deadline),
		cmocka_unit_test(poll_waits_until_the_deadline_and_for_never_without_end),
		cmocka_unit_test(poll_does_not_return_before_a_deadline_in_nanoseconds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
