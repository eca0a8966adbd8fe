/* The records of a reply, one by one. Some replies are written by ldns, others are malformed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <ldns/ldns.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/wire.h"

static const char *const answers[] = { "a.example. 30 IN CNAME b.example.",
	"b.example. 30 IN MX 10 c.example.", NULL };
static const char *const authority[] = { "example. 60 IN NS ns.example.", NULL };
static const char *const additional[] = { "_x._tcp.example. 5 IN SRV 1 2 3 d.example.", NULL };

static void
push(ldns_pkt *pkt, ldns_pkt_section section, const char *const *records)
{
	for (; *records != NULL; records++) {
		ldns_rr *rr = NULL;

		assert_int_equal(
		    ldns_rr_new_frm_str(&rr, *records, 30, NULL, NULL), LDNS_STATUS_OK);
		ldns_pkt_push_rr(pkt, section, rr);
	}
}

/* Returns a message with records in all three sections. ldns compresses it. The caller frees it. */
static uint8_t *
message(size_t *len)
{
	uint8_t *wire = NULL;
	ldns_pkt *pkt = ldns_pkt_query_new(
	    ldns_dname_new_frm_str("a.example."), LDNS_RR_TYPE_MX, LDNS_RR_CLASS_IN, LDNS_QR);

	push(pkt, LDNS_SECTION_ANSWER, answers);
	push(pkt, LDNS_SECTION_AUTHORITY, authority);
	push(pkt, LDNS_SECTION_ADDITIONAL, additional);
	assert_int_equal(ldns_pkt2wire(&wire, pkt, len), LDNS_STATUS_OK);
	ldns_pkt_free(pkt);
	return wire;
}

static void
every_record_comes_once_with_its_section_and_target(void **state)
{
	static const struct {
		enum walk_section section;
		uint16_t type;
		size_t fixed;
		const char *owner, *target;
	} want[] = { { WALK_ANSWER, TYPE_CNAME, 0, "a.example.", "b.example." },
		{ WALK_ANSWER, 15, 2, "b.example.", "c.example." },
		{ WALK_AUTHORITY, TYPE_NS, 0, "example.", "ns.example." },
		{ WALK_ADDITIONAL, TYPE_SRV, 6, "_x._tcp.example.", "d.example." } };
	struct reply_walk walk;
	size_t len;
	uint8_t *wire = message(&len);

	(void)state;

	assert_true(reply_walk_begin(&walk, wire, len));
	assert_int_equal(walk.left[WALK_ANSWER], 2);
	for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
		struct dname target;
		char text[DNAME_TEXT_MAX];

		assert_int_equal(reply_walk_next(&walk), 1);
		assert_int_equal(walk.section, want[i].section);
		assert_int_equal(walk.record.type, want[i].type);
		assert_string_equal(dname_to_text(walk.record.owner.wire, text), want[i].owner);
		assert_int_equal(reply_walk_target(&walk, want[i].fixed, &target), 0);
		assert_string_equal(dname_to_text(target.wire, text), want[i].target);
	}
	assert_int_equal(reply_walk_next(&walk), 0);
	assert_int_equal(reply_walk_next(&walk), 0);
	assert_true(reply_walk_ended(&walk));
	free(wire);
}

static void
a_message_cut_anywhere_is_malformed_and_never_read_behind_its_end(void **state)
{
	size_t len;
	uint8_t *wire = message(&len);

	(void)state;

	for (size_t cut = 0; cut < len; cut++) {
		/* The message is in memory of its own, so a sanitizer detects reads past its end. */
		uint8_t *copy = malloc(cut + 1);

		memcpy(copy, wire, cut);
		struct reply_walk walk;
		int more = reply_walk_begin(&walk, copy, cut) ? 1 : -EBADMSG;
		while (more > 0)
			more = reply_walk_next(&walk);
		assert_int_equal(more, -EBADMSG);
		free(copy);
	}
	free(wire);
}

static void
questions_are_stepped_over_however_many_there_are(void **state)
{
	static const uint8_t none[] = { 0, 1, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0 };
	static const uint8_t two[] = { 0, 1, 0x80, 0, 0, 2, 0, 1, 0, 0, 0, 0, 1, 'a', 0, 0, 1, 0, 1,
		0xc0, 12, 0, 28, 0, 1, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 9, 0, 4, 10, 0, 0, 1 };
	struct reply_walk walk;

	(void)state;

	assert_true(reply_walk_begin(&walk, none, sizeof none));
	assert_int_equal(reply_walk_next(&walk), 0);
	assert_true(reply_walk_begin(&walk, two, sizeof two));
	assert_int_equal(reply_walk_next(&walk), 1);
	assert_int_equal(walk.record.type, TYPE_A);
	assert_int_equal(reply_walk_next(&walk), 0);
	assert_true(reply_walk_ended(&walk));
}

/* The RDATA of a CNAME can be wrong in three ways: it has one more byte after the name, it ends
 * before the name ends, or it is empty. */
static void
a_target_fills_its_rdata(void **state)
{
	static const struct {
		uint8_t len, bytes[6];
		int result;
	} rows[] = { { 3, { 1, 'b', 0 }, 0 }, { 2, { 0xc0, 12 }, 0 },
		{ 4, { 1, 'b', 0, 0 }, -EBADMSG }, { 2, { 1, 'b', 0 }, -EBADMSG },
		{ 0, { 0 }, -EBADMSG } };

	(void)state;

	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		uint8_t wire[64] = { 0, 1, 0x80, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 'a', 0, 0, 5, 0, 1,
			0, 0, 0, 9, 0, rows[i].len };
		struct reply_walk walk;
		struct dname target;

		memcpy(wire + 25, rows[i].bytes, sizeof rows[i].bytes);
		assert_true(reply_walk_begin(&walk, wire, 25u + rows[i].len));
		assert_int_equal(reply_walk_next(&walk), 1);
		assert_int_equal(reply_walk_target(&walk, 0, &target), rows[i].result);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_record_comes_once_with_its_section_and_target),
		cmocka_unit_test(a_message_cut_anywhere_is_malformed_and_never_read_behind_its_end),
		cmocka_unit_test(questions_are_stepped_over_however_many_there_are),
		cmocka_unit_test(a_target_fills_its_rdata),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
