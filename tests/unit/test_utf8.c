/* UTF-8 as in RFC 3629. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "lib/utf8.h"

static void
reads(const char *bytes, size_t len, uint32_t expected)
{
	uint32_t cp = 0;

	assert_int_equal(utf8_read(bytes, strlen(bytes), &cp), len);
	assert_int_equal(cp, expected);
}

static void
refuses(const char *bytes)
{
	uint32_t cp = 0;

	assert_int_equal(utf8_read(bytes, strlen(bytes), &cp), 0);
}

static void
characters_of_one_to_four_bytes_are_read(void **state)
{
	(void)state;
	reads("a", 1, 'a');
	reads("\x7f", 1, 0x7f);
	reads("\xc2\x80", 2, 0x80);
	reads("\xdf\xbf", 2, 0x7ff);
	reads("\xe0\xa0\x80", 3, 0x800);
	reads("\xed\x9f\xbf", 3, 0xd7ff);
	reads("\xee\x80\x80", 3, 0xe000);
	reads("\xef\xbf\xbf", 3, 0xffff);
	reads("\xf0\x90\x80\x80", 4, 0x10000);
	reads("\xf4\x8f\xbf\xbf", 4, 0x10ffff);
	reads("\xc3\xa9tat", 2, 0xe9);
}

static void
overlong_forms_surrogates_and_what_is_beyond_unicode_are_refused(void **state)
{
	(void)state;
	refuses("\xc0\x80");
	refuses("\xc1\xbf");
	refuses("\xe0\x9f\xbf");
	refuses("\xf0\x8f\xbf\xbf");
	refuses("\xed\xa0\x80");
	refuses("\xed\xbf\xbf");
	refuses("\xf4\x90\x80\x80");
	refuses("\xf8\x88\x80\x80\x80");
	refuses("\xff");
}

static void
what_is_cut_off_or_interrupted_is_refused(void **state)
{
	(void)state;
	refuses("\x80");
	refuses("\xc3");
	refuses("\xe2\x82");
	refuses("\xf0\x9f\x98");
	refuses("\xe2\x82z");
	refuses("\xc3\xc3");
}

static void
the_whole_characters_of_a_text_are_counted(void **state)
{
	static const struct {
		const char *text;
		size_t whole;
	} rows[] = { { "", 0 }, { "plain text, longer than a word", 30 },
		{ "\xc3\xa9t\xc3\xa9", 5 }, { "eight by\xe2\x82\xac and more than that", 30 },
		{ "1234567\xf0\x9f\x98\x80", 11 },
		{ "12345678\xff"
		  "9",
		    8 },
		{ "1234567\xe2\x82", 7 }, { "\x80", 0 }, { "abc\xed\xa0\x80", 3 } };

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		assert_int_equal(utf8_whole(rows[i].text, strlen(rows[i].text)), rows[i].whole);
}

int
main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(characters_of_one_to_four_bytes_are_read),
		cmocka_unit_test(overlong_forms_surrogates_and_what_is_beyond_unicode_are_refused),
		cmocka_unit_test(what_is_cut_off_or_interrupted_is_refused),
		cmocka_unit_test(the_whole_characters_of_a_text_are_counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
