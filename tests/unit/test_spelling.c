/* The distance between two names, and the known name that is meant by a misspelt name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdbool.h>
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

/* If spelling_try() rejects a word early, its distance must be too large as well. */
static void
no_near_word_is_left_out_early(void **state)
{
	static const char *const words[] = { "resolv.conf", "resolve.conf", "RESOLV_CONF",
		"stubDomains", "subDomain", "domains", "upstreamNameservers", "upstream",
		"federations", "federation", "clusterIP", "clusterIp", "ready", "raedy", "serving",
		"ports", "port", "abcabcabc", "cbacbacba" };
	enum { COUNT = sizeof words / sizeof words[0] };
	(void)state;

	for (size_t i = 0; i < COUNT; i++)
		for (size_t k = 0; k < COUNT; k++) {
			struct spelling s = spelling_of(words[i], strlen(words[i]));
			bool near = distance(words[i], words[k]) < s.distance;

			spelling_try(&s, words[k]);
			assert_int_equal(s.word != NULL, near);
		}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_mistake_counts_one),
		cmocka_unit_test(the_nearest_word_is_taken_if_it_is_near_at_all),
		cmocka_unit_test(no_near_word_is_left_out_early),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
