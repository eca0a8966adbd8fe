/* Clients share a few places. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "kubedns/serve/upstream/turns.h"

enum { PLACES = 8, QUERIES = 20 };

static struct turns *turns;
static struct turn queries[10][QUERIES]; /* by client */

static int
begin(void **state)
{
	(void)state;
	turns = turns_new(PLACES);
	return 0;
}

static int
end(void **state)
{
	(void)state;
	for (unsigned c = 0; c < 10; c++)
		for (unsigned q = 0; q < QUERIES; q++)
			turns_leave(turns, &queries[c][q]);
	turns_free(turns);
	return 0;
}

/* Returns how many of `count` queries of the client have a place at once. */
static unsigned
ask(uint32_t client, unsigned count)
{
	unsigned placed = 0;

	for (unsigned q = 0; q < count; q++)
		placed += turns_ask(turns, &queries[client][q], client);
	return placed;
}

static void
one_client_has_at_most_half(void **state)
{
	(void)state;
	assert_int_equal(ask(0, QUERIES), PLACES / 2);
	assert_null(turns_next(turns));
	assert_int_equal(ask(1, QUERIES), PLACES / 4);
	assert_int_equal(ask(2, QUERIES), 1);
	assert_int_equal(ask(3, QUERIES), 1);
	assert_int_equal(ask(4, QUERIES), 0);
	assert_null(turns_next(turns));
}

static void
a_client_that_comes_late_does_not_wait_behind_all_queries_of_another(void **state)
{
	(void)state;
	ask(0, QUERIES), ask(1, QUERIES), ask(2, QUERIES), ask(3, QUERIES);
	assert_int_equal(ask(4, 1), 0);
	assert_int_equal(ask(5, 1), 0);
	turns_leave(turns, &queries[0][0]);
	assert_ptr_equal(turns_next(turns), &queries[4][0]); /* the first who may have a place */
	assert_null(turns_next(turns));
	turns_leave(turns, &queries[0][1]);
	assert_ptr_equal(turns_next(turns), &queries[5][0]);
}

static void
a_client_gets_one_query_in_each_turn(void **state)
{
	(void)state;
	assert_int_equal(ask(0, 4) + ask(1, 2) + ask(2, 1) + ask(3, 1), PLACES);
	ask(4, 3), ask(5, 3);
	for (unsigned q = 0; q < 4; q++)
		turns_leave(turns, &queries[0][q]);
	assert_ptr_equal(turns_next(turns), &queries[4][0]);
	assert_ptr_equal(turns_next(turns), &queries[5][0]);
	assert_null(turns_next(turns)); /* each has half of what the others leave */
	turns_leave(turns, &queries[1][0]), turns_leave(turns, &queries[1][1]);
	assert_ptr_equal(turns_next(turns), &queries[4][1]);
	assert_ptr_equal(turns_next(turns), &queries[5][1]);
}

static void
a_query_that_ends_while_it_waits_is_passed_over(void **state)
{
	(void)state;
	ask(0, 6);
	turns_leave(turns, &queries[0][4]);
	turns_leave(turns, &queries[0][0]);
	assert_ptr_equal(turns_next(turns), &queries[0][5]);
	assert_null(turns_next(turns));
}

int
main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(one_client_has_at_most_half, begin, end),
		cmocka_unit_test_setup_teardown(
		    a_client_that_comes_late_does_not_wait_behind_all_queries_of_another, begin,
		    end),
		cmocka_unit_test_setup_teardown(a_client_gets_one_query_in_each_turn, begin, end),
		cmocka_unit_test_setup_teardown(
		    a_query_that_ends_while_it_waits_is_passed_over, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
