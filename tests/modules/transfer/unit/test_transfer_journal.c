/* The serial of an IXFR client, and the order of serials. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "kubedns/modules/transfer/journal.h"
#include "lib/wire.h"
#include "lib/xalloc.h"

#include <errno.h>
#include <stdlib.h>

static void
serials_are_on_a_circle(void **state)
{
	static const struct {
		uint32_t a, b;
		bool before, after;
	} rows[] = {
		{ 0, 0, false, false },
		{ 1, 2, true, false },
		{ 0xffffffff, 0, true, false },
		{ 0xfffffff0, 5, true, false },
		{ 0, 0x7fffffff, true, false },
		{ 0, 0x80000001, false, true },
		{ 1795358338, 1795358339, true, false },
		{ 0x80000000, 0x7fffffff, false, true },
		{ 0, 0x80000000, true, true }, /* the order is undefined, trust neither */
		{ 0x80000000, 0, true, true },
	};

	(void)state;

	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		assert_int_equal(serial_before(rows[i].a, rows[i].b), rows[i].before);
		assert_int_equal(serial_before(rows[i].b, rows[i].a), rows[i].after);
	}
}

/* 2,147,483,648 seconds are 68 years. In 2106, the clock wraps to 0. */
static void
a_journal_goes_on_over_the_end_of_the_circle(void **state)
{
	static const struct {
		uint32_t has;
		int count; /* -1 if the journal does not reach back to `has` */
	} rows[] = { { 0xfffffffd, -1 }, { 0xfffffffe, 4 }, { 0xffffffff, 3 }, { 0, 2 }, { 1, 1 },
		{ 2, 0 }, { 0x7ffffffd, 0 }, { 0x80000000, -1 } };
	struct journal journal;
	struct change *made[4], **taken;
	size_t count;

	(void)state;

	journal_init(&journal, 4096, 1);
	journal_begin(&journal, 0, 0xfffffffe);
	for (uint32_t i = 0; i < 4; i++) {
		made[i] = xmalloc(sizeof *made[i]);
		*made[i] = (struct change){ .to = 0xffffffff + i };
		atomic_init(&made[i]->uses, 1);
	}
	journal_add(&journal, made, 4);
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		bool reaches = journal_take(&journal, 0, rows[i].has, &taken, &count);

		assert_int_equal(reaches ? (int)count : -1, rows[i].count);
		for (size_t c = 0; c < count; c++)
			change_drop(taken[c]);
		free(taken);
	}
	journal_free(&journal);
}

static void
a_full_journal_of_one_zone_still_reaches_back_in_another(void **state)
{
	struct change *made[3], **taken;
	struct journal journal;
	size_t count;

	(void)state;

	/* There is space for two changes. The first one, of zone 1, is removed. */
	journal_init(&journal, 2 * sizeof *made[0], 2);
	journal_begin(&journal, 0, 10);
	journal_begin(&journal, 1, 10);
	for (uint32_t i = 0; i < 3; i++) {
		made[i] = xmalloc(sizeof *made[i]);
		*made[i] = (struct change){ .zone = i == 1 ? 0 : 1, .to = 11 + i };
		atomic_init(&made[i]->uses, 1);
	}
	journal_add(&journal, made, 3);
	assert_false(journal_take(&journal, 1, 10, &taken, &count));
	assert_true(journal_take(&journal, 0, 10, &taken, &count));
	assert_int_equal(count, 1);
	change_drop(taken[0]);
	free(taken);
	assert_true(journal_take(&journal, 1, 11, &taken, &count));
	assert_int_equal(count, 1);
	change_drop(taken[0]);
	free(taken);
	journal_free(&journal);
}

static void
the_serial_is_that_of_the_soa_in_the_authority_section(void **state)
{
	static const char soa[] = "\300\14\0\6\0\1\0\0\0\0\0\30\300\14\300\14\1\2\3\4"
				  "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
	uint8_t wire[512];
	struct dname name;
	uint32_t serial = 0;

	(void)state;

	dname_from_text(&name, "cluster.local.");
	size_t at = query_write(wire, sizeof wire, 1, name.wire, TYPE_IXFR, CLASS_IN, 0);
	size_t question_len = at - DNS_HEADER, len = at + sizeof soa;
	assert_int_equal(ixfr_serial(wire, at, question_len, &serial), -EBADMSG);
	memcpy(wire + at, soa, sizeof soa);
	assert_int_equal(ixfr_serial(wire, len, question_len, &serial), -EBADMSG);
	wire[9] = 1;
	assert_int_equal(ixfr_serial(wire, len, question_len, &serial), 0);
	assert_int_equal(serial, 0x01020304);
	for (size_t cut = at; cut < len; cut++)
		assert_int_equal(ixfr_serial(wire, cut, question_len, &serial), -EBADMSG);
	wire[at + 3] = TYPE_NS;
	assert_int_equal(ixfr_serial(wire, len, question_len, &serial), -EBADMSG);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(serials_are_on_a_circle),
		cmocka_unit_test(a_journal_goes_on_over_the_end_of_the_circle),
		cmocka_unit_test(a_full_journal_of_one_zone_still_reaches_back_in_another),
		cmocka_unit_test(the_serial_is_that_of_the_soa_in_the_authority_section),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
