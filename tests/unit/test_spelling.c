/* How far apart two names are, and which known name an unknown one was meant to be. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "lib/spelling.h"

static size_t
distance(const char *a, const char *b)
{
	return spelling_distance(a, strlen(a), b, strlen(b));
}

static void
each_mistake_counts_one(void **state)
{
	static const struct {
		const char *a, *b;
		size_t distance;
	} pairs[] = { { "", "", 0 }, { "web", "web", 0 }, { "Web_1", "web-1", 0 }, { "", "web", 3 },
		{ "web", "", 3 }, { "web", "wb", 1 }, { "wb", "web", 1 }, { "web", "wab", 1 },
		{ "wbe", "web", 1 }, { "ewbx", "webx", 1 }, { "Servcie", "Service", 1 },
		{ "kitten", "sitting", 3 }, { "abcd", "badc", 2 } };
	(void)state;

	for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
		if (distance(pairs[i].a, pairs[i].b) != pairs[i].distance)
			fail_msg("%s, %s: %zu, want %zu", pairs[i].a, pairs[i].b,
			    distance(pairs[i].a, pairs[i].b), pairs[i].distance);
}

static void
the_nearest_word_is_taken_if_it_is_near_at_all(void **state)
{
	(void)state;
	struct spelling s = spelling_of("upstreamNameserver", 18);

	spelling_try(&s, "stubDomains");
	assert_null(s.word);
	spelling_try(&s, "upstreamNameservers");
	spelling_try(&s, "upstream");
	assert_string_equal(s.word, "upstreamNameservers");
	s = spelling_of("x", 1);
	spelling_try(&s, "y");
	assert_null(s.word);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_mistake_counts_one),
		cmocka_unit_test(the_nearest_word_is_taken_if_it_is_near_at_all),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
