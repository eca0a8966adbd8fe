/* Messages from untrusted clients. Only bytes of the message are read. Malformed messages are
 * refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "lib/wire.h"

enum { ID = 7, AT = DNS_HEADER };

/* A message: a header of zeros, and then these bytes. */
struct message {
	uint8_t wire[600];
	size_t len;
};

static struct message
message(const void *bytes, size_t len)
{
	struct message m = { .len = DNS_HEADER + len };

	memcpy(m.wire + DNS_HEADER, bytes, len);
	return m;
}
#define MESSAGE(text) message(text, sizeof(text) - 1)

/* Reads the name at `at`. Returns its length, or -errno. `*end` is the offset after the name. */
static int
read_at(const struct message *m, size_t at, size_t *end, struct dname *name)
{
	int rc = wire_read_name(m->wire, m->len, &at, name);

	*end = at;
	return rc < 0 ? rc : name->len;
}

static void
pointer_leads_to_a_name_before_it(void **state)
{
	struct message m = MESSAGE("\1a\0\1b\xc0\x0c");
	struct dname name;
	size_t end;

	(void)state;
	assert_int_equal(read_at(&m, AT + 3, &end, &name), 5);
	assert_memory_equal(name.wire, "\1b\1a", 5);
	assert_int_equal(end, m.len);
}

static void
pointer_that_does_not_lead_backwards_is_refused(void **state)
{
	struct message itself = MESSAGE("\xc0\x0c"), forward = MESSAGE("\xc0\x0e\0");
	struct message circle = MESSAGE("\1a\xc0\x0c"), header = MESSAGE("\xc0\x02");
	struct dname name;
	size_t end;

	(void)state;
	assert_int_equal(read_at(&itself, AT, &end, &name), -EBADMSG);
	assert_int_equal(read_at(&forward, AT, &end, &name), -EBADMSG);
	assert_int_equal(read_at(&circle, AT, &end, &name), -EBADMSG);
	assert_int_equal(read_at(&header, AT, &end, &name), -EBADMSG);
}

/* The name "a" continues into the name that points at it. So its value would depend on the bytes
 * after the pointer. */
static void
name_pointed_at_must_end_before_who_points(void **state)
{
	struct message m = MESSAGE("\1a\1b\xc0\x0c\0");
	struct message into = MESSAGE("\4a\xc0\x0cy\0");
	struct dname name;
	size_t end;

	(void)state;
	assert_int_equal(read_at(&m, AT + 2, &end, &name), -EBADMSG);
	assert_int_equal(read_at(&into, AT + 2, &end, &name), -EBADMSG);
}

/* If each label is at another place, the longest name needs 127 pointers. Another pointer would
 * point at a pointer. It would cost time and add no label. */
static void
pointers_lead_to_127_others_at_most(void **state)
{
	struct message m = MESSAGE("\1a\0");
	struct dname name;
	size_t end, last = AT;

	(void)state;
	for (unsigned i = 0; i < 126; i++) {
		size_t at = m.len;

		memcpy(m.wire + at, "\1b", 2);
		wire_put16(m.wire + at + 2, 0xc000 | (unsigned)last);
		last = at;
		m.len += 4;
	}
	assert_int_equal(read_at(&m, last, &end, &name), 255);
	wire_put16(m.wire + AT + 3, 0xc000 | AT);
	m.len = AT + 5;
	for (unsigned i = 0; i < 127; i++) {
		wire_put16(m.wire + m.len, 0xc000 | (unsigned)(m.len - 2));
		m.len += 2;
		assert_int_equal(read_at(&m, m.len - 2, &end, &name), i + 2 > 127 ? -EBADMSG : 3);
	}
}

static void
name_has_255_bytes_at_most(void **state)
{
	uint8_t labels[256] = { 0 };
	struct dname name;
	size_t end, at = 0;

	(void)state;
	for (; at < 192; at += 64)
		labels[at] = 63;
	labels[at] = 61; /* 3 x 64 + 62 + 1 for the root are 255 */
	struct message m = message(labels, 255);
	assert_int_equal(read_at(&m, AT, &end, &name), 255);
	labels[at] = 62;
	m = message(labels, 256);
	assert_int_equal(read_at(&m, AT, &end, &name), -EBADMSG);
}

static void
name_and_record_cut_at_every_length_are_refused(void **state)
{
	static const char bytes[] = "\3www\xc0\x0c\0\1\0\1\0\0\0\36\0\4\12\0\0\1";
	struct message m = MESSAGE("\1a\0");
	size_t record_len = sizeof bytes - 1;
	struct record record;

	(void)state;
	memcpy(m.wire + m.len, bytes, record_len);
	for (size_t len = 0; len < record_len; len++) {
		size_t at = m.len;

		assert_int_equal(wire_read_record(m.wire, m.len + len, &at, &record), -EBADMSG);
	}
	size_t at = m.len;
	assert_int_equal(wire_read_record(m.wire, m.len + record_len, &at, &record), 0);
	assert_int_equal(at, m.len + record_len);
	assert_int_equal(record.type, TYPE_A);
	assert_int_equal(record.ttl_s, 30);
	assert_int_equal(record.rdata_len, 4);
	assert_memory_equal(record.rdata, "\12\0\0\1", 4);
}

/* --- queries --- */

/* A query for a/A. It has `additional` records, which are these bytes. */
static struct message
query_with(unsigned additional, const void *bytes, size_t len)
{
	struct message m = { 0 };

	m.len = query_write(m.wire, sizeof m.wire, ID, (const uint8_t *)"\1a", TYPE_A, CLASS_IN, 0);
	wire_put16(m.wire + 10, additional);
	memcpy(m.wire + m.len, bytes, len);
	m.len += len;
	return m;
}
#define WITH(count, text) query_with(count, text, sizeof(text) - 1)
#define OPT               "\0\0\51\4\xd0\0\0\x80\0"

static enum query_result
read_query(struct query *query, const struct message *m)
{
	return query_read(query, m->wire, m->len);
}

/* If the question cannot be read, no value of the previous query stays. Otherwise the value would
 * be counted. */
static void
what_has_no_question_has_no_type(void **state)
{
	static const uint8_t notify[] = { 0, 1, 0x20, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 6, 0, 1 };
	static const uint8_t two_questions[] = { 0, 1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 6, 0,
		1 };
	static const struct {
		const uint8_t *wire;
		size_t len;
	} odd[] = { { notify, 4 }, { notify, sizeof notify },
		{ two_questions, sizeof two_questions } };
	struct message m = WITH(1, OPT "\0\0");
	struct query query;

	(void)state;
	for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
		assert_int_equal(read_query(&query, &m), QUERY_OK);
		assert_true(query.qtype != 0 && query.qclass != 0);
		query_read(&query, odd[i].wire, odd[i].len);
		assert_false(query.has_question);
		assert_int_equal(query.qtype, 0);
		assert_int_equal(query.qclass, 0);
	}
}

static void
opt_gives_size_and_flags(void **state)
{
	struct message m = WITH(1, OPT "\0\0");
	struct query query;

	(void)state;
	assert_int_equal(read_query(&query, &m), QUERY_OK);
	assert_true(query.has_edns && query.edns_do);
	assert_int_equal(query.udp_size, 1232);
	assert_int_equal(query.id, ID);
}

/* See RFC 6891, section 6.1.1. */
static void
second_opt_or_one_below_the_root_is_formerr(void **state)
{
	struct message two = WITH(2, OPT "\0\0" OPT "\0\0");
	struct message below = WITH(1, "\1x" OPT "\0\0");
	struct query query;

	(void)state;
	assert_int_equal(read_query(&query, &two), QUERY_FORMERR);
	assert_int_equal(read_query(&query, &below), QUERY_FORMERR);
}

static void
options_must_fill_their_length(void **state)
{
	struct message nsid = WITH(1, OPT "\0\4\0\3\0\0");
	struct message longer = WITH(1, OPT "\0\5\0\3\0\2x");
	struct message cut = WITH(1, OPT "\0\3\0\3\0");
	struct query query;

	(void)state;
	assert_int_equal(read_query(&query, &nsid), QUERY_OK);
	assert_true(query.wants_nsid);
	assert_int_equal(read_query(&query, &longer), QUERY_FORMERR);
	assert_int_equal(read_query(&query, &cut), QUERY_FORMERR);
}

/* 127 labels of one byte make a complete name. Another label would not fit into the message or into
 * `labels`. */
static void
question_has_127_labels_at_most(void **state)
{
	struct query query;

	(void)state;
	for (unsigned labels = 126; labels <= 128; labels++) {
		struct message m = { .len = DNS_HEADER };

		wire_put16(m.wire + 4, 1);
		for (unsigned i = 0; i < labels; i++) {
			memcpy(m.wire + m.len, "\1a", 2);
			m.len += 2;
		}
		memcpy(m.wire + m.len, "\0\0\1\0\1", 5);
		m.len += 5;
		assert_int_equal(read_query(&query, &m), labels > 127 ? QUERY_FORMERR : QUERY_OK);
		if (labels <= 127)
			assert_int_equal(query.label_count, labels);
	}
}

#define TSIG_BEHIND_OWNER "\0\372\0\377\0\0\0\0\0\0"

/* The reader only finds the end of an owner. A pointer counts as two bytes. */
static void
owners_in_a_query_are_stepped_over(void **state)
{
	static const struct {
		const char *owner;
		size_t len;
		enum query_result result;
	} rows[] = { { "\0", 1, QUERY_SIGNED }, { "\3key\0", 5, QUERY_SIGNED },
		{ "\xc0\x0c", 2, QUERY_SIGNED }, { "\3key\xc0\x0c", 6, QUERY_SIGNED },
		/* a pointer at itself, forward or into the header, and an invalid label */
		{ "\xc0\x13", 2, QUERY_FORMERR }, { "\xc0\x20", 2, QUERY_FORMERR },
		{ "\xc0\x02", 2, QUERY_FORMERR }, { "\x40", 1, QUERY_FORMERR },
		{ "\3ke", 3, QUERY_FORMERR }, { "\xc0", 1, QUERY_FORMERR } };
	struct query query;

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		uint8_t bytes[32];

		memcpy(bytes, rows[i].owner, rows[i].len);
		memcpy(bytes + rows[i].len, TSIG_BEHIND_OWNER, 10);
		struct message m = query_with(1, bytes, rows[i].len + 10);
		if (read_query(&query, &m) != rows[i].result)
			fail_msg("owner %zu", i);
	}
}

/* A query never needs more than eight records, even with an OPT, a TSIG and the SOA of an IXFR. */
static void
more_than_eight_records_in_a_query_are_formerr(void **state)
{
	struct query query;

	(void)state;
	for (unsigned count = 1; count < 12; count++) {
		uint8_t bytes[12 * 11];

		for (unsigned i = 0; i < count; i++)
			memcpy(bytes + (size_t)11 * i, "\0" TSIG_BEHIND_OWNER, 11);
		struct message m = query_with(count, bytes, (size_t)11 * count);
		assert_int_equal(read_query(&query, &m), count <= 8 ? QUERY_SIGNED : QUERY_FORMERR);
	}
}

static void
bytes_after_the_last_record_are_formerr(void **state)
{
	struct message m = WITH(1, OPT "\0\0x"), none = WITH(0, "x");
	struct query query;

	(void)state;
	assert_int_equal(read_query(&query, &m), QUERY_FORMERR);
	assert_int_equal(read_query(&query, &none), QUERY_FORMERR);
}

static void
first_overflow_of_a_writer_sticks(void **state)
{
	uint8_t buf[4];
	struct writer w = { .buf = buf, .max = sizeof buf };

	(void)state;
	writer_put16(&w, 1);
	writer_put32(&w, 2);
	assert_true(w.overflow);
	writer_put16(&w, 3); /* these two bytes would fit */
	assert_int_equal(w.len, 2);
	assert_int_equal(query_write(buf, sizeof buf, ID, (const uint8_t *)"", 1, 1, 0), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pointer_leads_to_a_name_before_it),
		cmocka_unit_test(pointer_that_does_not_lead_backwards_is_refused),
		cmocka_unit_test(name_pointed_at_must_end_before_who_points),
		cmocka_unit_test(pointers_lead_to_127_others_at_most),
		cmocka_unit_test(name_has_255_bytes_at_most),
		cmocka_unit_test(name_and_record_cut_at_every_length_are_refused),
		cmocka_unit_test(what_has_no_question_has_no_type),
		cmocka_unit_test(opt_gives_size_and_flags),
		cmocka_unit_test(second_opt_or_one_below_the_root_is_formerr),
		cmocka_unit_test(options_must_fill_their_length),
		cmocka_unit_test(question_has_127_labels_at_most),
		cmocka_unit_test(owners_in_a_query_are_stepped_over),
		cmocka_unit_test(more_than_eight_records_in_a_query_are_formerr),
		cmocka_unit_test(bytes_after_the_last_record_are_formerr),
		cmocka_unit_test(first_overflow_of_a_writer_sticks),
	};

	return cmocka_run_group_tests_name("wire", tests, NULL, NULL);
}
