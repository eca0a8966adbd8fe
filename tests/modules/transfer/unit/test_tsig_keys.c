/* The file of --transfer-key: lines that are keys, the errors for other lines, and the key that
 * signs NOTIFY to an address. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "kubedns/modules/transfer/tsig_keys.h"

#define SECRET "mPpNk0Ozd8GU05MbV0VCTtTMUcAtvVHmRHJg2CLl0ck="

static struct tsig_keys keys;
static char why[TSIG_WHY_MAX];

static int
parse(const char *text)
{
	char copy[TSIG_FILE_MAX + 1];
	size_t len = strlen(text);

	memcpy(copy, text, len);
	*why = '\0';
	return tsig_keys_parse(&keys, copy, len, why);
}

static void
lines_are_keys(void **state)
{
	static const struct {
		const char *text;
		size_t count;
	} rows[] = {
		{ "a hmac-sha256 " SECRET, 1 }, { "a hmac-sha256 " SECRET "\n", 1 },
		{ "a.example. HMAC-SHA512. " SECRET "\r\n\r\nb hmac-sha384\t" SECRET "\t# new\n",
		    2 },
		{ "# nobody's\n\n \t\na hmac-sha256 " SECRET " 192.0.2.1 2001:db8::1", 1 },
		{ "a hmac-sha256 MDEyMzQ1Njc4OWFiY2RlZg==", 1 }, /* 16 bytes */
	};

	(void)state;

	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		if (parse(rows[i].text) < 0)
			fail_msg("row %zu: %s", i, why);
		assert_int_equal(keys.count, rows[i].count);
	}
	assert_int_equal(keys.items[0].key.secret_len, 16);
	assert_memory_equal(keys.items[0].key.secret, "0123456789abcdef", 16);
}

static void
what_is_wrong_is_said_with_its_line_and_without_a_secret(void **state)
{
	static const struct {
		const char *text, *why;
	} rows[] = {
		{ "", "line 1: no key in the file" },
		{ "a hmac-sha256", "line 1: a name, an algorithm and a secret are needed" },
		{ "\n\na..b hmac-sha256 " SECRET, "line 3: \"a..b\": not a name" },
		{ ". hmac-sha256 " SECRET, "line 1: \".\": not a name" },
		{ "a hmac-sha256 " SECRET "\nA hmac-sha512 " SECRET,
		    "line 2: \"A\": an earlier key has this name" },
		{ "a hmac-sha1 " SECRET,
		    "line 1: \"hmac-sha1\": not a supported algorithm: hmac-sha256, hmac-sha384 or "
		    "hmac-sha512" },
		{ "a hmac-sha256 ?" SECRET, "line 1: the secret is not base64" },
		{ "a hmac-sha256 AAAA=A", "line 1: the secret is not base64" },
		{ "a hmac-sha256 " SECRET " somewhere",
		    "line 1: \"somewhere\": not an address; NOTIFY to it is signed with the key" },
	};

	(void)state;

	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		assert_int_equal(parse(rows[i].text), -EINVAL);
		assert_string_equal(why, rows[i].why);
	}
	assert_int_equal(parse("a hmac-sha256 c2hvcnQ="), -EINVAL);
	assert_non_null(strstr(why, "less than 16 bytes"));
	char nul[] = "a hmac-sha256 " SECRET "\n#\0";
	assert_int_equal(tsig_keys_parse(&keys, nul, sizeof nul - 1, why), -EINVAL);
}

static void
lists_are_bounded(void **state)
{
	char text[4096] = "";

	(void)state;

	for (int i = 0; i < TSIG_KEYS_MAX; i++)
		sprintf(text + strlen(text), "k%d hmac-sha256 " SECRET "\n", i);
	assert_int_equal(parse(text), 0);
	strcat(text, "more hmac-sha256 " SECRET "\n");
	assert_int_equal(parse(text), -EINVAL);
	assert_string_equal(why, "line 17: \"more\": at most 16 keys");
	strcpy(text, "a hmac-sha256 " SECRET);
	for (int i = 0; i < TSIG_KEY_NOTIFY_MAX; i++)
		sprintf(text + strlen(text), " 192.0.2.%d", i);
	assert_int_equal(parse(text), 0);
	strcat(text, " 192.0.2.99");
	assert_int_equal(parse(text), -EINVAL);
	assert_string_equal(why, "line 1: \"192.0.2.99\": a key has at most 16 addresses");
	strcpy(text, "a hmac-sha256 ");
	memset(text + strlen(text), 'A', 400);
	assert_int_equal(parse(text), -EINVAL);
	assert_string_equal(why, "line 1: the secret has more than 256 bytes");
}

static void
notify_is_signed_with_the_first_that_names_the_address_or_else_none(void **state)
{
	static const struct {
		const char *text, *addr, *key; /* NULL if there is no key */
	} rows[] = {
		{ "a hmac-sha256 " SECRET "\nb hmac-sha256 " SECRET, "192.0.2.1", "a." },
		{ "a hmac-sha256 " SECRET "\nb hmac-sha256 " SECRET " 192.0.2.1", "192.0.2.1",
		    "b." },
		{ "a hmac-sha256 " SECRET " 192.0.2.2\nb hmac-sha256 " SECRET, "192.0.2.1", "b." },
		{ "a hmac-sha256 " SECRET " 192.0.2.2 192.0.2.1\nb hmac-sha256 " SECRET
		  " 192.0.2.1",
		    "192.0.2.1", "a." },
		{ "a hmac-sha256 " SECRET " 2001:db8::1\nb hmac-sha256 " SECRET, "2001:db8::1",
		    "a." },
		{ "a hmac-sha256 " SECRET " 192.0.2.2", "192.0.2.1", NULL },
	};
	char name[DNAME_TEXT_MAX];
	struct addr addr;

	(void)state;

	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		assert_int_equal(parse(rows[i].text), 0);
		assert_int_equal(addr_parse(rows[i].addr, &addr), 0);
		const struct tsig_key *key = tsig_keys_for_notify(&keys, &addr);
		if (rows[i].key == NULL)
			assert_null(key);
		else
			assert_string_equal(dname_to_text(key->name.wire, name), rows[i].key);
	}
}

static void
a_ring_knows_whether_keys_have_changed(void **state)
{
	struct tsig tsig = { .mac_len = 0 };
	struct tsig_key key;

	(void)state;

	assert_int_equal(parse("a hmac-sha256 " SECRET), 0);
	struct tsig_ring *ring = tsig_ring_new(&keys);
	assert_int_equal(parse("A  hmac-sha256 " SECRET " # the same"), 0);
	assert_false(tsig_ring_set(ring, &keys));
	dname_from_text(&tsig.key, "b");
	dname_from_text(&tsig.algorithm, "hmac-sha256");
	assert_false(tsig_ring_find(ring, &tsig, &key));
	assert_int_equal(parse("a hmac-sha256 " SECRET "\nb hmac-sha256 " SECRET), 0);
	assert_true(tsig_ring_set(ring, &keys));
	assert_int_equal(tsig_ring_count(ring), 2);
	assert_true(tsig_ring_find(ring, &tsig, &key));
	tsig_ring_free(ring);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_are_keys),
		cmocka_unit_test(what_is_wrong_is_said_with_its_line_and_without_a_secret),
		cmocka_unit_test(lists_are_bounded),
		cmocka_unit_test(
		    notify_is_signed_with_the_first_that_names_the_address_or_else_none),
		cmocka_unit_test(a_ring_knows_whether_keys_have_changed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
