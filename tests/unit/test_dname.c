#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/dname.h"

static void
only_capital_letters_are_folded_at_every_place(void **state)
{
	(void)state;
	for (size_t len = 0; len <= 33; len++)
		for (size_t at = 0; at < len; at++)
			for (unsigned c = 0; c < 256; c++) {
				uint8_t wire[40], expected[40];

				memset(wire, 'Z', sizeof wire);
				wire[at] = (uint8_t)c;
				memset(expected, 'z', len);
				memset(expected + len, 'Z', sizeof expected - len);
				expected[at] = (uint8_t)(c >= 'A' && c <= 'Z' ? c + 32 : c);
				dname_lower(wire, len);
				assert_memory_equal(wire, expected, sizeof wire);
			}
}

static void
neighbours_do_not_carry_into_each_other(void **state)
{
	(void)state;
	for (unsigned a = 0; a < 256; a++)
		for (unsigned b = 0; b < 256; b++) {
			uint8_t wire[8], expected[8];

			for (size_t i = 0; i < 8; i++) {
				wire[i] = (uint8_t)(i % 2 == 0 ? a : b);
				expected[i] = wire[i];
				if (expected[i] >= 'A' && expected[i] <= 'Z')
					expected[i] = (uint8_t)(expected[i] + 32);
			}
			dname_lower(wire, 8);
			assert_memory_equal(wire, expected, 8);
		}
}

/* Makes a name of `len` bytes in memory of its own, so a sanitizer detects reads past its end. */
static uint8_t *
make_name(size_t len, uint8_t fill)
{
	uint8_t *wire = malloc(len);
	size_t at = 0;

	assert_non_null(wire);
	while (len - at > 1) {
		size_t label = len - at - 2 < DNAME_LABEL_MAX ? len - at - 2 : DNAME_LABEL_MAX;

		if (len - at - 2 - label == 1) /* a length byte must not be the last byte */
			label--;
		wire[at] = (uint8_t)label;
		memset(wire + at + 1, fill, label);
		at += 1 + label;
	}
	wire[at] = 0;
	return wire;
}

static void
names_are_equal_in_any_case_and_differ_at_every_place(void **state)
{
	(void)state;
	for (size_t len = 3; len <= DNAME_MAX; len++) {
		uint8_t *small = make_name(len, 'x'), *capital = make_name(len, 'X');
		uint8_t *shorter = make_name(len > 3 ? len - 1 : 1, 'x');

		assert_true(dname_equal(small, capital));
		assert_false(dname_equal(small, shorter));
		assert_false(dname_equal(shorter, small));
		for (size_t at = 0; at < len; at++) {
			if (capital[at] != 'X')
				continue;
			capital[at] = 'X' - 32; /* the result is not a letter */
			assert_false(dname_equal(small, capital));
			assert_false(dname_equal(capital, small));
			capital[at] = 'X';
		}
		free(small);
		free(capital);
		free(shorter);
	}
}

static void
name_grows_to_255_bytes_and_no_further(void **state)
{
	struct dname name = { .len = 1 }, whole;
	char label[DNAME_LABEL_MAX + 1];

	(void)state;
	memset(label, 'x', sizeof label);
	assert_int_equal(dname_prepend(&name, label, sizeof label), -ENAMETOOLONG);
	assert_int_equal(dname_prepend(&name, label, 0), -ENAMETOOLONG);
	for (int i = 0; i < 3; i++)
		assert_int_equal(dname_prepend(&name, label, DNAME_LABEL_MAX), 0);
	whole = name; /* 193 bytes. 62 bytes are left, including the length byte of the label */
	assert_int_equal(dname_prepend(&name, label, 62), -ENAMETOOLONG);
	assert_int_equal(dname_prepend(&name, label, 61), 0);
	assert_int_equal(name.len, DNAME_MAX);
	assert_int_equal(dname_length(name.wire, sizeof name.wire), DNAME_MAX);

	struct dname suffix = { .len = 1 };
	assert_int_equal(dname_prepend(&suffix, label, 62), 0);
	assert_int_equal(dname_append(&whole, suffix.wire), -ENAMETOOLONG);
	assert_int_equal(whole.len, 193);
}

static void
zone_begins_at_a_label_border(void **state)
{
	struct dname zone, below, beside;

	(void)state;
	assert_int_equal(dname_from_text(&zone, "cluster.local."), 0);
	assert_int_equal(dname_from_text(&below, "a.CLUSTER.local."), 0);
	assert_int_equal(dname_from_text(&beside, "xcluster.local."), 0);
	assert_int_equal(dname_in_zone(zone.wire, zone.wire), 0);
	assert_int_equal(dname_in_zone(below.wire, zone.wire), 2);
	assert_int_equal(dname_in_zone(beside.wire, zone.wire), -1);
	assert_int_equal(dname_in_zone(zone.wire, below.wire), -1);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_capital_letters_are_folded_at_every_place),
		cmocka_unit_test(names_are_equal_in_any_case_and_differ_at_every_place),
		cmocka_unit_test(neighbours_do_not_carry_into_each_other),
		cmocka_unit_test(name_grows_to_255_bytes_and_no_further),
		cmocka_unit_test(zone_begins_at_a_label_border),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
