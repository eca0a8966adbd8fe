/*
 * The end of a JSON value. The scanner under test reads 64 bytes at a time. A simple scanner, which
 * reads byte by byte, checks it. The value is placed at every offset in a block, and split at every
 * position.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kubedns/api/json_skip.h"

static const char *const nested[] = {
	"{}",
	"[]",
	"{\"a\":1}",
	"[[[[]]],{\"x\":[{}]}]",
	"{\"a\":\"}\"}",
	"{\"a\":\"\\\"}\"}",
	"{\"a\":\"\\\\\"}",
	"{\"a\":\"\\\\\\\"}]\"}",
	"[\"[{\",\"]}\",\"\\\\\",\"\\\\\\\\\\\"\"]",
	("{\"f:metadata\":{\"f:labels\":{\".\":{},\"k:{\\\"name\\\":\\\"a\\\"}\":{}}},"
	 "\"long\":\"0123456789012345678901234567890123456789012345678901234567890123456789\"}"),
};

/* Returns the end of the value that starts at `text`. The simple scanner finds it. */
static const char *
plain_end(const char *text)
{
	int depth = 0;
	bool string = false;

	for (const char *p = text; *p; p++) {
		if (string && *p == '\\') {
			p++;
		} else if (*p == '"') {
			string = !string;
		} else if (!string && strchr("{[", *p) != NULL) {
			depth++;
		} else if (!string && strchr("}]", *p) != NULL && --depth == 0) {
			return p + 1;
		}
	}
	return NULL;
}

static void
the_end_is_found_at_every_offset_of_a_block(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof nested / sizeof nested[0]; i++) {
		for (size_t before = 0; before < 70; before++) {
			char text[512];
			int len = snprintf(
			    text, sizeof text, "%*s%s,{\"next\":[]}", (int)before, "", nested[i]);
			const char *begin = text + before;
			struct json_skip scan = { 0 };

			assert_ptr_equal(
			    json_skip_nested(&scan, begin, text + len), plain_end(begin));
		}
	}
}

static void
the_end_is_found_wherever_the_input_is_cut(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof nested / sizeof nested[0]; i++) {
		size_t len = strlen(nested[i]);

		for (size_t cut = 1; cut < len; cut++) {
			struct json_skip scan = { 0 };
			/* Each piece is a separate heap block, so a sanitizer detects overreads. */
			char *first = strndup(nested[i], cut), *second = strdup(nested[i] + cut);

			assert_null(json_skip_nested(&scan, first, first + cut));
			assert_ptr_equal(json_skip_nested(&scan, second, second + len - cut),
			    second + len - cut);
			free(first);
			free(second);
		}
	}
}

static void
values_of_every_kind_end(void **state)
{
	static const char *const values[] = { "\"a\"", "\"\\\"\"", "\"\\\\\"", "true", "null",
		"-1.5e3", "{\"a\":[]}", "[1,2]" };
	(void)state;
	for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
		char text[64];
		size_t len = strlen(values[i]);

		snprintf(text, sizeof text, "%s,", values[i]);
		assert_ptr_equal(json_skip_value(text, text + len + 1), text + len);
	}
	const char open_string[] = "\"abc\\\"", open_object[] = "{\"a\":{}", number[] = "12";
	assert_null(json_skip_value(open_string, open_string + sizeof open_string - 1));
	assert_null(json_skip_value(open_object, open_object + sizeof open_object - 1));
	assert_null(json_skip_value(number, number + sizeof number - 1));
	assert_null(json_skip_value(number, number));
}

static void
a_string_says_whether_it_has_escapes(void **state)
{
	static const char plain[] = "\"0123456789abcdefghij\"",
			  escaped[] = "\"0123456789abcdefgh\\nij\"";
	bool escapes = false;

	(void)state;
	assert_ptr_equal(
	    json_skip_string(plain, plain + sizeof plain - 1, &escapes), plain + sizeof plain - 1);
	assert_false(escapes);
	assert_ptr_equal(json_skip_string(escaped, escaped + sizeof escaped - 1, &escapes),
	    escaped + sizeof escaped - 1);
	assert_true(escapes);
}

int
main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_end_is_found_at_every_offset_of_a_block),
		cmocka_unit_test(the_end_is_found_wherever_the_input_is_cut),
		cmocka_unit_test(values_of_every_kind_end),
		cmocka_unit_test(a_string_says_whether_it_has_escapes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
