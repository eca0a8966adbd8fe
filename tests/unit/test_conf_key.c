/* What is known of a key: the verdict on its present content, and how often it was refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "lib/conf_key.h"
#include "lib/hash.h"
#include "lib/xalloc.h"

static struct conf_key key;

static void
judge(const char *text, const char *error)
{
	conf_key_judge(&key, "test", "federations", text, text ? strlen(text) : 0,
	    error ? xstrdup(error) : NULL);
}

static int
finish(void **state)
{
	(void)state;
	conf_key_clear(&key);
	return 0;
}

static void
each_refused_content_counts_once(void **state)
{
	(void)state;
	judge("x", "not name=domain");
	judge("x", "not name=domain");
	assert_int_equal(key.refused, 1);
	assert_string_equal(key.error, "not name=domain");
	judge("y", "not name=domain");
	assert_int_equal(key.refused, 2);
	judge("y", "is given twice");
	assert_int_equal(key.refused, 3);
}

static void
a_good_content_ends_the_error_and_the_same_bad_one_after_it_counts_again(void **state)
{
	(void)state;
	judge("x", "bad");
	assert_true(key.error_since > 0);
	judge("a=b", NULL);
	assert_null(key.error);
	assert_true(key.present);
	judge("x", "bad");
	assert_int_equal(key.refused, 2);
	judge(NULL, NULL);
	assert_null(key.error);
	assert_false(key.present);
}

static void
the_hash_is_fnv_1a(void **state)
{
	(void)state;
	assert_true(hash_fnv1a(HASH_START, "", 0) == UINT64_C(0xcbf29ce484222325));
	assert_true(hash_fnv1a(HASH_START, "foobar", 6) == UINT64_C(0x85944171f73967e8));
}

int
main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(each_refused_content_counts_once, finish),
		cmocka_unit_test_teardown(
		    a_good_content_ends_the_error_and_the_same_bad_one_after_it_counts_again,
		    finish),
		cmocka_unit_test(the_hash_is_fnv_1a),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
