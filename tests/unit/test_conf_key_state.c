/* What is known of a key: the verdict on its present content, and how often it was refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "lib/conf_key_state.h"
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

/* Whether padded or not, the same; every byte, the length and the seed count. */
static void
the_hash_covers_every_byte_and_the_length(void **state)
{
	uint8_t bytes[32 + HASH_PAD] = "abcdefghijklmnopqrstuvwxyz012345";

	(void)state;
	for (size_t len = 0; len <= 32; len++) {
		uint64_t hash = hash64(HASH_START, bytes, len);
		assert_true(hash == hash64_padded(HASH_START, bytes, len));
		assert_true(hash != hash64(HASH_START + 2, bytes, len));
		assert_true(len == 0 || hash != hash64(HASH_START, bytes, len - 1));
		for (size_t i = 0; i < len; i++) {
			bytes[i] ^= 1;
			assert_true(hash != hash64(HASH_START, bytes, len));
			bytes[i] ^= 1;
		}
	}
}

int
main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(each_refused_content_counts_once, finish),
		cmocka_unit_test_teardown(
		    a_good_content_ends_the_error_and_the_same_bad_one_after_it_counts_again,
		    finish),
		cmocka_unit_test(the_hash_covers_every_byte_and_the_length),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
