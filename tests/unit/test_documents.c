/* A file of manifests: its objects, the meaning of YAML scalars, and the errors that make a file
 * invalid. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "lib/documents.h"

/* The objects that the sink has received: one "LINE:HINT:JSON\n" for each object. */
static char got[1 << 22];
static size_t got_len;
static struct documents_error error;

static void
note(void *arg, struct json_object *json, const char *hint, unsigned line)
{
	(void)arg;
	if (got_len > sizeof got / 2)
		return; /* the tests of large files do not compare the objects */
	got_len += (size_t)snprintf(got + got_len, sizeof got - got_len, "%u:%s:%s\n", line,
	    hint != NULL ? hint : "-",
	    json_object_to_json_string_ext(json, JSON_C_TO_STRING_PLAIN));
}

static int
read_bytes(enum documents_format format, const void *bytes, size_t len)
{
	/* fmemopen() needs a buffer that is not const and not empty. */
	char *copy = malloc(len + 1);

	memcpy(copy, bytes, len);
	FILE *in = len > 0 ? fmemopen(copy, len, "r") : fopen("/dev/null", "r");
	assert_non_null(in);
	got[0] = '\0';
	got_len = 0;
	int err = documents_read(in, format, note, NULL, &error);
	fclose(in);
	free(copy);
	return err;
}

static int
yaml(const char *text)
{
	return read_bytes(DOCUMENTS_YAML, text, strlen(text));
}

static int
json(const char *text)
{
	return read_bytes(DOCUMENTS_JSON, text, strlen(text));
}

static void
a_document_is_an_object_with_its_line(void **state)
{
	(void)state;
	assert_int_equal(yaml("# a comment\nkind: Service\nmetadata:\n  name: web\n"), 0);
	assert_string_equal(got, "2:-:{\"kind\":\"Service\",\"metadata\":{\"name\":\"web\"}}\n");
	assert_int_equal(json("\n{\"kind\":\"Service\"}"), 0);
	assert_string_equal(got, "2:-:{\"kind\":\"Service\"}\n");
}

static void
documents_follow_each_other(void **state)
{
	(void)state;
	assert_int_equal(yaml("---\na: 1\n---\n# nothing here\n---\nb: 2\n...\n---\n"), 0);
	assert_string_equal(got, "2:-:{\"a\":1}\n6:-:{\"b\":2}\n");
	assert_int_equal(json("{\"a\":1}\n{\"b\":2}{ }"), 0);
	assert_string_equal(got, "1:-:{\"a\":1}\n2:-:{\"b\":2}\n2:-:{}\n");
}

static void
a_file_may_hold_nothing(void **state)
{
	static const char *const empty[] = { "", "\n", "# only a comment\n", "---\n---\n" };

	(void)state;
	for (size_t i = 0; i < sizeof empty / sizeof empty[0]; i++) {
		assert_int_equal(yaml(empty[i]), 0);
		assert_string_equal(got, "");
	}
	assert_int_equal(json(" \n"), 0);
}

static void
items_of_a_list_are_handed_on_one_by_one(void **state)
{
	(void)state;
	assert_int_equal(
	    yaml("apiVersion: v1\nitems:\n- kind: Service\n  n: 1\n- kind: Pod\nkind: List\n"), 0);
	assert_string_equal(got, "3:-:{\"kind\":\"Service\",\"n\":1}\n5:-:{\"kind\":\"Pod\"}\n");
	assert_int_equal(
	    json("{\"items\":[\n{\"kind\":\"Service\"},\n{\"kind\":\"Pod\"}],\"kind\":\"List\"}"),
	    0);
	assert_string_equal(got, "2:-:{\"kind\":\"Service\"}\n3:-:{\"kind\":\"Pod\"}\n");
}

static void
items_get_the_kind_of_their_list(void **state)
{
	(void)state;
	assert_int_equal(yaml("kind: ServiceList\nitems:\n- n: 1\n"), 0);
	assert_string_equal(got, "3:Service:{\"n\":1}\n");
	assert_int_equal(json("{\"kind\":\"EndpointSliceList\",\"items\":[{}]}"), 0);
	assert_string_equal(got, "1:EndpointSlice:{}\n");
	assert_int_equal(json("{\"kind\":\"List\",\"items\":[{}]}"), 0);
	assert_string_equal(got, "1:-:{}\n");
}

static void
a_list_may_be_empty(void **state)
{
	static const char *const lists[] = { "{\"kind\":\"List\",\"items\":[]}",
		"{\"items\":null,\"kind\":\"PodList\"}", "{\"kind\":\"ServiceList\"}" };

	(void)state;
	for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
		assert_int_equal(yaml(lists[i]), 0);
		assert_string_equal(got, "");
		assert_int_equal(json(lists[i]), 0);
		assert_string_equal(got, "");
	}
}

static void
items_of_another_kind_are_a_member_like_any_other(void **state)
{
	(void)state;
	assert_int_equal(yaml("kind: Menu\nitems: [a]\n"), 0);
	assert_string_equal(got, "1:-:{\"kind\":\"Menu\",\"items\":[\"a\"]}\n");
	assert_int_equal(json("{\"kind\":\"Menu\",\"items\":[\"a\"]}"), 0);
	assert_string_equal(got, "1:-:{\"kind\":\"Menu\",\"items\":[\"a\"]}\n");
}

static void
assert_scalar(const char *text, const char *expected)
{
	char doc[256], want[256];

	snprintf(doc, sizeof doc, "v: %s\n", text);
	snprintf(want, sizeof want, "1:-:{\"v\":%s}\n", expected);
	assert_int_equal(yaml(doc), 0);
	assert_string_equal(got, want);
}

static void
quoted_scalars_are_strings(void **state)
{
	(void)state;
	assert_scalar("\"80\"", "\"80\"");
	assert_scalar("'true'", "\"true\"");
	assert_scalar("\"\"", "\"\"");
	assert_scalar("!!str 80", "\"80\"");
	assert_scalar("! 80", "\"80\"");
	assert_scalar("|-\n  80", "\"80\"");
	assert_scalar("\"a\\tb\\u00e9\"", "\"a\\tb\xc3\xa9\"");
}

static void
plain_scalars_are_what_kubectl_makes_of_them(void **state)
{
	static const char *const rows[][2] = {
		{ "", "null" },
		{ "~", "null" },
		{ "null", "null" },
		{ "NULL", "null" },
		{ "true", "true" },
		{ "False", "false" },
		{ "yes", "true" },
		{ "off", "false" },
		{ "y", "\"y\"" },
		{ "80", "80" },
		{ "-7", "-7" },
		{ "+7", "7" },
		{ "0", "0" },
		{ "0x1F", "31" },
		{ "0o17", "15" },
		{ "010", "8" },
		{ "0b101", "5" },
		{ "08", "8.0" },
		{ "!!int 5", "5" },
		{ "9223372036854775807", "9223372036854775807" },
		{ "1.5", "1.5" },
		{ "-.5", "-0.5" },
		{ "1.2.3", "\"1.2.3\"" },
		{ "10.96.0.1", "\"10.96.0.1\"" },
		{ "None", "\"None\"" },
		{ "nan", "\"nan\"" },
		{ "infinity", "\"infinity\"" },
		{ "0x", "\"0x\"" },
		{ "1:30", "\"1:30\"" },
		{ "2026-11-02T09:14:05Z", "\"2026-11-02T09:14:05Z\"" },
		{ "fd00::1", "\"fd00::1\"" },
		{ "-", "\"-\"" },
		{ "+", "\"+\"" },
		{ ".", "\".\"" },
		{ "e", "\"e\"" },
		{ "0-1", "\"0-1\"" },
		{ "12abc", "\"12abc\"" },
		{ "deadbeef", "\"deadbeef\"" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		if (strcmp(rows[i][0], "-") == 0)
			continue; /* "-" alone begins a list */
		assert_scalar(rows[i][0], rows[i][1]);
	}
}

static void
managed_fields_are_not_built(void **state)
{
	(void)state;
	assert_int_equal(
	    yaml("kind: Pod\nmetadata:\n  managedFields:\n  - {a: {b: [1, {c: 2}]}}\n  name: x\n"),
	    0);
	assert_string_equal(
	    got, "1:-:{\"kind\":\"Pod\",\"metadata\":{\"managedFields\":null,\"name\":\"x\"}}\n");
}

static void
assert_broken(int err, unsigned line, const char *reason)
{
	assert_int_equal(err, -EBADMSG);
	assert_int_equal(error.line, line);
	if (strstr(error.reason, reason) == NULL)
		fail_msg("\"%s\" does not hold \"%s\"", error.reason, reason);
}

static void
a_broken_file_is_named_with_line_and_reason(void **state)
{
	(void)state;
	assert_broken(yaml("a: 1\nb: [1\n"), 3, "expected");
	assert_broken(yaml("a: 1\n b: 2\n"), 2, "not allowed");
	assert_broken(yaml("a: \"x\n"), 2, "end of stream");
	assert_broken(yaml("a: 1\n\tb: 2\n"), 2, "");
	assert_broken(yaml("a: \xff\n"), 1, "UTF-8");
	assert_broken(yaml("- a\n"), 1, "not an object");
	assert_broken(yaml("\nhello\n"), 2, "not an object");
	assert_broken(json("{\"a\":1,\n\"b\":[1\n"), 3, "ends in the middle");
	assert_broken(json("{\"a\":1\n"), 2, "ends in the middle");
	assert_broken(json("{\n\"a\":tru}"), 2, "boolean");
	assert_broken(json("{\"a\" 1}"), 1, "':' expected");
	assert_broken(json("{\"a\":1 \"b\":2}"), 1, "',' or '}' expected");
	assert_broken(json("{\"a\":1,}"), 1, "a key expected");
	assert_broken(json("{\"items\":[1,]}"), 1, "unexpected");
	assert_broken(json("[]"), 1, "not an object");
	assert_broken(json("{\"a\":\"\xff\"}"), 1, "utf-8");
	assert_broken(json("{\"a\":\n\"\xed\xa0\x80\"}"), 2, "utf-8");
	assert_broken(json("{\"a\":\"\xc3"), 1, "utf-8");
}

/* A file is read in chunks of 64 KiB, so a character may be in two chunks. */
static void
json_is_utf8_at_every_place_of_a_character(void **state)
{
	static const struct {
		const char *bytes;
		bool good;
	} rows[] = { { "\xc3\xa9", true }, { "\xe2\x82\xac", true }, { "\xf0\x9f\x98\x80", true },
		{ "\xe2\x82", false }, { "\xff", false }, { "\xf0\x9f\x98", false } };
	static char text[65536 + 64];

	(void)state;
	for (size_t row = 0; row < sizeof rows / sizeof *rows; row++)
		for (size_t before = 65536 - 5; before <= 65536 + 1; before++) {
			size_t len = strlen(rows[row].bytes);

			memset(text, 'x', before);
			memcpy(text, "{\"a\":\"", 6);
			memcpy(text + before, rows[row].bytes, len);
			memcpy(text + before + len, "y\"}", 4);
			int err = json(text);
			assert_int_equal(err, rows[row].good ? 0 : -EBADMSG);
			if (rows[row].good)
				assert_memory_equal(strrchr(got, 'y') - len, rows[row].bytes, len);
			else
				assert_non_null(strstr(error.reason, "utf-8"));
		}
}

static void
objects_before_the_break_were_handed_on(void **state)
{
	(void)state;
	assert_broken(yaml("a: 1\n---\nb: [\n"), 4, "");
	assert_string_equal(got, "1:-:{\"a\":1}\n");
	assert_broken(json("{\"items\":[{\"a\":1},{\"b\":"), 1, "ends in the middle");
	assert_string_equal(got, "1:-:{\"a\":1}\n");
}

static void
aliases_tags_and_odd_keys_are_refused(void **state)
{
	(void)state;
	assert_broken(yaml("a: &x 1\nb: *x\n"), 2, "aliases");
	assert_broken(yaml("x: &x {a: 1}\nb:\n  <<: *x\n"), 3, "aliases");
	assert_broken(yaml("a: !!binary aGk=\n"), 1, "unknown tag");
	assert_broken(yaml("a: !include x\n"), 1, "unknown tag");
	assert_broken(yaml("? [a]\n: 1\n"), 1, "key is not a scalar");
	assert_broken(yaml("? *x\n: 1\n"), 1, "");
	assert_broken(yaml("\"a\\0b\": 1\n"), 1, "NUL");
	assert_broken(json("{\"a\\u0000b\":1}"), 1, "NUL");
	/* An anchor without an alias is allowed. */
	assert_int_equal(yaml("a: &x 1\n"), 0);
}

static void
a_key_that_comes_twice_is_refused(void **state)
{
	(void)state;
	assert_broken(yaml("a: 1\nb: 2\na: 3\n"), 3, "twice");
	assert_broken(yaml("m:\n  a: 1\n  a: 1\n"), 3, "twice");
	assert_broken(json("{\"a\":1,\n\"a\":1}"), 2, "twice");
	assert_broken(yaml("items: [1]\nitems: [2]\n"), 2, "twice");
}

/* Returns `head`, then `count` times `body`, then `tail`. */
static char *
repeat(const char *head, const char *body, size_t count, const char *tail)
{
	size_t len = strlen(body);
	char *text = malloc(strlen(head) + len * count + strlen(tail) + 1);
	char *p = stpcpy(text, head);

	for (size_t i = 0; i < count; i++)
		p = stpcpy(p, body);
	strcpy(p, tail);
	return text;
}

static void
nesting_has_a_limit(void **state)
{
	(void)state;
	char *text = repeat("{\"a\":", "[", DOCUMENTS_DEPTH + 1, "");
	assert_broken(yaml(text), 1, "too deep");
	assert_broken(json(text), 1, "nesting");
	free(text);
	text = repeat("managedFields: ", "[", 10000, "");
	assert_broken(yaml(text), 1, "");
	free(text);
	text = repeat(
	    "{\"a\":[1],\"managedFields\":", "{\"a\":", 30, "1}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}");
	assert_int_equal(yaml(text), 0);
	free(text);
}

static void
an_object_has_a_limit_that_a_list_has_not(void **state)
{
	const size_t mebibyte = 1 << 20;
	char *item = repeat("{\"a\":\"", "x", mebibyte - 100, "\"}");
	char *items = repeat(item, ",\n", 1, item);

	(void)state;
	char *list = repeat("{\"items\":[", items, 1, "");
	free(items);
	items = repeat(",", item, 1, "");
	char *long_list = repeat(list, items, 10, "]}");
	got_len = 0;
	assert_int_equal(yaml(long_list), 0);
	assert_int_equal(json(long_list), 0);
	free(long_list);
	free(list);
	free(items);
	free(item);
	char *large = repeat("{\"a\":[1", ",\"0123456789abcdef\"", 600000, "]}");
	assert_broken(yaml(large), 1, "8 MiB");
	assert_broken(json(large), 1, "8 MiB");
	free(large);
}

static void
many_small_members_of_a_document_count_as_one_object(void **state)
{
	(void)state;
	char *text = malloc(20 << 20), *p = stpcpy(text, "{");
	for (unsigned i = 0; i < 900000; i++)
		p += sprintf(p, "\"k%07u\":1,", i);
	strcpy(p, "\"z\":1}");
	assert_broken(json(text), 1, "8 MiB");
	assert_broken(yaml(text), 1, "8 MiB");
	free(text);
}

static void
values_may_lie_across_chunks(void **state)
{
	(void)state;
	/* With one of the values of `pad`, each number, name and escape is at the end of a chunk. */
	for (size_t pad = 65500; pad < 65560; pad++) {
		char *text = repeat("", " ", pad,
		    "{\"kind\":\"List\",\"items\":[{\"n\":12345,\"b\":true},{\"s\":\"\\u00e9\"}]}");

		assert_int_equal(json(text), 0);
		assert_string_equal(
		    got, "1:-:{\"n\":12345,\"b\":true}\n1:-:{\"s\":\"\xc3\xa9\"}\n");
		free(text);
	}
}

static void
a_file_cut_anywhere_is_broken_or_shorter_but_never_wrong(void **state)
{
	static const char text[] = "{\"items\":[{\"kind\":\"Service\",\"metadata\":{\"name\":\"a\"}"
				   "},{\"n\":[1,2]}],\"kind\":\"List\"}";

	(void)state;
	for (size_t len = 1; len < sizeof text - 1; len++) {
		assert_int_equal(read_bytes(DOCUMENTS_JSON, text, len), -EBADMSG);
		assert_int_equal(read_bytes(DOCUMENTS_YAML, text, len), -EBADMSG);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_document_is_an_object_with_its_line),
		cmocka_unit_test(documents_follow_each_other),
		cmocka_unit_test(a_file_may_hold_nothing),
		cmocka_unit_test(items_of_a_list_are_handed_on_one_by_one),
		cmocka_unit_test(items_get_the_kind_of_their_list),
		cmocka_unit_test(a_list_may_be_empty),
		cmocka_unit_test(items_of_another_kind_are_a_member_like_any_other),
		cmocka_unit_test(quoted_scalars_are_strings),
		cmocka_unit_test(plain_scalars_are_what_kubectl_makes_of_them),
		cmocka_unit_test(managed_fields_are_not_built),
		cmocka_unit_test(a_broken_file_is_named_with_line_and_reason),
		cmocka_unit_test(json_is_utf8_at_every_place_of_a_character),
		cmocka_unit_test(objects_before_the_break_were_handed_on),
		cmocka_unit_test(aliases_tags_and_odd_keys_are_refused),
		cmocka_unit_test(a_key_that_comes_twice_is_refused),
		cmocka_unit_test(nesting_has_a_limit),
		cmocka_unit_test(an_object_has_a_limit_that_a_list_has_not),
		cmocka_unit_test(many_small_members_of_a_document_count_as_one_object),
		cmocka_unit_test(values_may_lie_across_chunks),
		cmocka_unit_test(a_file_cut_anywhere_is_broken_or_shorter_but_never_wrong),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
