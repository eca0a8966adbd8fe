/* Strict parsing of JSON with every version of json-c, including characters beyond ASCII. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <json-c/json.h>

#include "lib/json_strict.h"

static void
characters_beyond_ascii_are_accepted_in_strings(void **state)
{
	static const char text[] =
	    "{\"n\xc3\xa9\":[\"\xe2\x82\xac, \xc2\xba\",\"\xf0\x9f\x98\x80\"]} ";

	(void)state;
	struct json_object *object = json_strict_object(text, strlen(text), 4);
	assert_non_null(object);
	assert_string_equal(json_object_to_json_string_ext(object, JSON_C_TO_STRING_PLAIN),
	    "{\"n\xc3\xa9\":[\"\xe2\x82\xac, \xc2\xba\",\"\xf0\x9f\x98\x80\"]}");
	json_object_put(object);
}

static void
comments_bad_encoding_and_what_follows_are_refused(void **state)
{
	static const char *const texts[] = { "{\"a\":1,}", "{/* */\"a\":1}", "{\"a\":\"\xff\"}",
		"{\"a\":\"\xe2\x82\"}", "{\"a\":1}\xc3\xa9", "{\"a\":\xc3\xa9}",
		"\xc3\xa9{\"a\":1}", "{\"a\":1", "{\"a\":1} x", "[1]", "" };

	(void)state;
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
		assert_null(json_strict_object(texts[i], strlen(texts[i]), 4));
}

/* The text may be split between any two characters: the value is the same. The position of an error
 * counts from the start of the whole text. */
static void
a_text_may_come_in_parts(void **state)
{
	static const char text[] = "{\"a\":\"x\xc3\xa9y\"}rest";
	struct json_tokener *tokener = json_strict_new(4);
	size_t end;

	(void)state;
	for (size_t cut = 1; cut < strlen(text) - 4; cut++) {
		if (((uint8_t)text[cut] & 0xc0) == 0x80)
			continue;
		json_tokener_reset(tokener);
		assert_null(json_strict_parse(tokener, 0, text, cut, &end));
		assert_int_equal(json_tokener_get_error(tokener), json_tokener_continue);
		assert_int_equal(end, cut);
		struct json_object *object =
		    json_strict_parse(tokener, 0, text + cut, strlen(text) - cut, &end);
		assert_non_null(object);
		assert_string_equal(text + cut + end, "rest");
		json_object_put(object);
	}
	json_tokener_reset(tokener);
	assert_null(json_strict_parse(tokener, 0, "{\"a\xc3\xa9\":1,}", 10, &end));
	assert_int_equal(end, 9);
	json_tokener_free(tokener);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(characters_beyond_ascii_are_accepted_in_strings),
		cmocka_unit_test(comments_bad_encoding_and_what_follows_are_refused),
		cmocka_unit_test(a_text_may_come_in_parts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
