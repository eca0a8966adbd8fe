/* States that the programs report to each other. Each state has a unique name. An unknown name is
 * not a state. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "lib/program_state.h"

static void
each_state_of_dnsmasq_is_read_from_its_name(void **state)
{
	(void)state;
	for (unsigned i = 0; i < CHILD_STATE_COUNT; i++)
		assert_int_equal(child_state_named(child_state_name((enum child_state)i)), i);
}

static void
a_name_of_a_newer_nanny_is_no_state(void **state)
{
	(void)state;
	assert_int_equal(child_state_named(""), CHILD_STATE_UNKNOWN);
	assert_int_equal(child_state_named("hibernating"), CHILD_STATE_UNKNOWN);
	assert_int_equal(child_state_named("stopped, for good"), CHILD_STATE_UNKNOWN);
}

static void
each_reason_has_a_name_of_its_own(void **state)
{
	(void)state;
	for (unsigned i = 0; i < READINESS_COUNT; i++)
		for (unsigned k = 0; k < i; k++)
			assert_string_not_equal(readiness_reason_name((enum readiness_reason)i),
			    readiness_reason_name((enum readiness_reason)k));
}

int
main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_state_of_dnsmasq_is_read_from_its_name),
		cmocka_unit_test(a_name_of_a_newer_nanny_is_no_state),
		cmocka_unit_test(each_reason_has_a_name_of_its_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
