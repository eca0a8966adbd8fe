/* Objects in a response that arrives in pieces of any size. Some tests send input that is neither a
 * list nor events. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kubedns/api/framer.h"

/* The items that the framer passed on. A bar follows each item. The members of the head are
 * "KEY=VALUE". */
static char got[4096];
static int refuse_after; /* the sink returns -ECANCELED after this many items */
static const char *why;
static size_t held_max;

static void
note(const char *bytes, size_t len)
{
	size_t at = strlen(got);

	if (at + len + 2 < sizeof got)
		snprintf(got + at, sizeof got - at, "%.*s|", (int)len, bytes);
}

static int
on_item(void *arg, const char *bytes, size_t len)
{
	(void)arg;
	note(bytes, len);
	return refuse_after && --refuse_after == 0 ? -ECANCELED : 0;
}

static int
on_head(void *arg, const char *key, const char *bytes, size_t len)
{
	char text[256];

	(void)arg;
	snprintf(text, sizeof text, "%s=%.*s", key, (int)len, bytes);
	note(text, strlen(text));
	return 0;
}

/* Feeds the whole text in pieces of `piece` bytes, and then the end. Each piece is a separate heap
 * block. */
static int
feed(enum framer_form form, const char *text, size_t len, size_t piece, size_t item_max)
{
	const struct framer_sink sink = { .item = on_item, .head = on_head };
	struct framer f;
	int error = 0;

	got[0] = '\0';
	framer_init(&f, form, item_max, &sink);
	for (size_t at = 0; at < len && error == 0; at += piece) {
		size_t n = len - at < piece ? len - at : piece;
		char *copy = malloc(n);

		memcpy(copy, text + at, n);
		error = framer_feed(&f, copy, n);
		free(copy);
	}
	if (error == 0)
		error = framer_end(&f);
	why = f.why;
	held_max = f.held_max;
	framer_clear(&f);
	return error;
}

/* The result must not depend on the size of the pieces. */
static void
expect(enum framer_form form, const char *text, int error, const char *wanted)
{
	size_t len = strlen(text);

	for (size_t piece = 1; piece <= len + 1; piece++) {
		int refuse = refuse_after;

		assert_int_equal(feed(form, text, len, piece, 1 << 20), error);
		assert_string_equal(got, wanted);
		refuse_after = refuse;
	}
}

static void
a_list_gives_kind_metadata_and_items_whatever_the_pieces(void **state)
{
	(void)state;
	expect(FRAMER_LIST,
	    "{\"kind\":\"ServiceList\",\"apiVersion\":\"v1\",\"metadata\":{\"resourceVersion\":"
	    "\"7\"},"
	    "\"items\":[{\"a\":\"}]\"},{\"b\":[1,{\"c\":\"\\\"{\\\\\"}]}]}\n",
	    0,
	    "kind=\"ServiceList\"|metadata={\"resourceVersion\":\"7\"}|{\"a\":\"}]\"}|{\"b\":[1,{"
	    "\"c\":\"\\\"{\\\\\"}]}|");
}

/* The API server writes lists of custom resources in this order. */
static void
a_list_whose_items_come_before_its_kind_and_metadata_gives_them_in_that_order(void **state)
{
	(void)state;
	expect(FRAMER_LIST,
	    "{\"apiVersion\":\"x/"
	    "v1\",\"items\":[{\"a\":1},{\"b\":2}],\"kind\":\"XList\",\"metadata\":"
	    "{\"continue\":\"c\",\"resourceVersion\":\"7\"}}\n",
	    0,
	    "{\"a\":1}|{\"b\":2}|kind=\"XList\"|metadata={\"continue\":\"c\",\"resourceVersion\":"
	    "\"7\"}"
	    "|");
}

static void
indented_lists_are_read_too(void **state)
{
	(void)state;
	expect(FRAMER_LIST, "{\n \"kind\" : \"A\" ,\r\n\t\"items\" : [ {} , { \"x\" : 1 } ]\n}\n ",
	    0, "kind=\"A\"|{}|{ \"x\" : 1 }|");
}

static void
unknown_members_of_every_type_are_skipped(void **state)
{
	(void)state;
	expect(FRAMER_LIST,
	    "{\"a\":1,\"b\":null,\"c\":[[]],\"d\":{\"items\":[{}]},\"e\":\"}\",\"f\":true,\"kind\":"
	    "\"K\"}",
	    0, "kind=\"K\"|");
}

static void
null_items_are_an_empty_list(void **state)
{
	(void)state;
	expect(FRAMER_LIST, "{\"kind\":\"K\",\"items\":null,\"metadata\":{}}", 0,
	    "kind=\"K\"|metadata={}|");
	expect(FRAMER_LIST, "{\"items\":[]}", 0, "");
	expect(FRAMER_LIST, "{}", 0, "");
}

static void
events_come_one_by_one(void **state)
{
	(void)state;
	expect(FRAMER_EVENTS, "{\"type\":\"ADDED\"}\n{\"type\":\"X\",\"object\":{\"a\":\"}\"}}\n",
	    0, "{\"type\":\"ADDED\"}|{\"type\":\"X\",\"object\":{\"a\":\"}\"}}|");
	expect(FRAMER_EVENTS, "", 0, "");
	expect(FRAMER_EVENTS, "\n\n", 0, "");
}

static void
half_an_event_is_an_error_at_the_end(void **state)
{
	(void)state;
	expect(
	    FRAMER_EVENTS, "{\"a\":1}\n{\"type\":\"ADDED\",\"object\":{", -EBADMSG, "{\"a\":1}|");
}

static void
a_list_that_stops_anywhere_is_an_error(void **state)
{
	static const char whole[] =
	    "{\"kind\":\"K\",\"items\":[{\"a\":1},{}],\"metadata\":{\"x\":\"y\"}}";

	(void)state;
	for (size_t len = 0; len < sizeof whole - 1; len++)
		assert_int_equal(feed(FRAMER_LIST, whole, len, 5, 1000), -EBADMSG);
	assert_int_equal(feed(FRAMER_LIST, whole, sizeof whole - 1, 5, 1000), 0);
}

static void
html_garbage_and_wrong_shapes_are_errors(void **state)
{
	static const char *const bad[] = { "<html>", "[]", "1", "\"a\"", "{\"items\":{}}",
		"{\"items\":1}", "{\"items\":[1]}", "{\"items\":[{} {}]}", "{\"items\":[,{}]}",
		"{\"items\":[{},]}", "{\"a\" 1}", "{1:2}", "{\"a\":1 \"b\":2}", "{\"a\":1,}",
		"{} {}", "{\"kind\":\"K\"} x", "\xff\xfe" };
	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		if (feed(FRAMER_LIST, bad[i], strlen(bad[i]), 1, 100) != -EBADMSG)
			fail_msg("taken for a list: %s", bad[i]);
		assert_non_null(why);
	}
	assert_int_equal(feed(FRAMER_EVENTS, "<html>", 6, 6, 100), -EBADMSG);
	assert_non_null(strstr(why, "HTML"));
	assert_int_equal(feed(FRAMER_EVENTS, "{}]", 3, 3, 100), -EBADMSG);
}

static void
an_object_over_the_limit_is_an_error_and_one_at_it_is_not(void **state)
{
	/* The item has 17 bytes. */
	static const char text[] = "{\"items\":[{\"a\":\"123456789\"}]}";

	(void)state;
	for (size_t piece = 1; piece < sizeof text; piece++) {
		assert_int_equal(feed(FRAMER_LIST, text, sizeof text - 1, piece, 17), 0);
		assert_int_equal(feed(FRAMER_LIST, text, sizeof text - 1, piece, 16), -EMSGSIZE);
	}
}

static void
what_nobody_wants_is_not_held_however_large(void **state)
{
	static char text[100000];

	(void)state;
	int len = snprintf(text, sizeof text, "{\"unknown\":[%*s],\"items\":[{}]}", 90000, "");
	assert_int_equal(feed(FRAMER_LIST, text, (size_t)len, 1000, 100), 0);
	assert_string_equal(got, "{}|");
	assert_int_equal(held_max, 0);
}

static void
the_memory_of_a_large_object_is_given_back(void **state)
{
	size_t len = 1 << 20;
	char *text = malloc(len);

	(void)state;
	memset(text, ' ', len);
	text[0] = '{';
	text[len - 1] = '}';
	assert_int_equal(feed(FRAMER_EVENTS, text, len, 4096, len), 0);
	assert_int_equal(held_max, 0);
	free(text);
}

static void
a_sink_that_refuses_ends_it(void **state)
{
	(void)state;
	refuse_after = 2;
	expect(FRAMER_EVENTS, "{}{\"a\":1}{}", -ECANCELED, "{}|{\"a\":1}|");
	refuse_after = 0;
}

/* Reads byte by byte, and must find the same end. A backslash outside a string is invalid JSON, but
 * also escapes the next byte. */
static const char *
nested_slowly(const char *p, const char *end)
{
	int depth = 0;
	bool string = false;

	for (; p < end; p++) {
		if (*p == '\\') {
			p += p + 1 < end && (p[1] == '"' || p[1] == '\\');
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
the_fast_scan_finds_what_a_slow_one_finds(void **state)
{
	static const char alphabet[] = "{}[]\"\"\\\\a ";
	unsigned seed = 1;
	unsigned found = 0;

	(void)state;
	for (unsigned round = 0; round < 20000; round++) {
		char text[300];
		size_t len = (size_t)(rand_r(&seed) % 298) + 2,
		       brackets = (size_t)(rand_r(&seed) % 3) ? 10 : 2;

		text[0] = '{';
		for (size_t i = 1; i < len; i++)
			text[i] = (size_t)rand_r(&seed) % 10 < brackets
				      ? alphabet[(size_t)rand_r(&seed) % 10]
				      : 'x';
		const char *wanted = nested_slowly(text, text + len), *end = NULL;
		/* The input is split into two pieces. */
		size_t cut = (size_t)rand_r(&seed) % len;
		struct json_skip scan = { 0 };
		end = cut ? json_skip_nested(&scan, text, text + cut) : NULL;
		if (end == NULL)
			end = json_skip_nested(&scan, text + cut, text + len);
		if (end != wanted)
			fail_msg("%.*s: %td, not %td (cut at %zu)", (int)len, text, end - text,
			    wanted - text, cut);
		found += wanted != NULL;
	}
	assert_true(found > 1000);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_list_gives_kind_metadata_and_items_whatever_the_pieces),
		cmocka_unit_test(
		    a_list_whose_items_come_before_its_kind_and_metadata_gives_them_in_that_order),
		cmocka_unit_test(indented_lists_are_read_too),
		cmocka_unit_test(unknown_members_of_every_type_are_skipped),
		cmocka_unit_test(null_items_are_an_empty_list),
		cmocka_unit_test(events_come_one_by_one),
		cmocka_unit_test(half_an_event_is_an_error_at_the_end),
		cmocka_unit_test(a_list_that_stops_anywhere_is_an_error),
		cmocka_unit_test(html_garbage_and_wrong_shapes_are_errors),
		cmocka_unit_test(an_object_over_the_limit_is_an_error_and_one_at_it_is_not),
		cmocka_unit_test(what_nobody_wants_is_not_held_however_large),
		cmocka_unit_test(the_memory_of_a_large_object_is_given_back),
		cmocka_unit_test(a_sink_that_refuses_ends_it),
		cmocka_unit_test(the_fast_scan_finds_what_a_slow_one_finds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
