/* The reply writer: the records that fit, truncation, and the records that are always included. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "kubedns/answer/reply.h"

static struct answer_config config;
static const struct tree tree = { .seed = 0x9e3779b97f4a7c15, .serial = 7 };
static uint8_t out[DNS_TCP_MAX], wire[512];
static struct query query;
static struct reply reply;

/* Starts a reply to a/A for a client that accepts `size` bytes. `size` is 0 without EDNS. `max` is
 * the size of the buffer. */
static void
begin(uint16_t size, bool tcp, size_t max)
{
	struct answer_request request = {
		.config = &config, .tree = &tree, .query = wire, .out = out, .max = max, .tcp = tcp
	};

	dname_from_text(&config.zone, "cluster.local.");
	config.ttl_s = 30;
	config.negative_ttl_s = 5;
	request.query_len = query_write(
	    wire, sizeof wire, 77, (const uint8_t *)"\1a\7cluster\5local", TYPE_A, CLASS_IN, size);
	assert_int_equal(query_read(&query, wire, request.query_len), QUERY_OK);
	reply_begin(&reply, &request, &query, true);
}

static void
put_addrs(unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		reply_addr(&reply, DNS_HEADER, AF_INET,
		    (uint8_t[]){ 10, 0, (uint8_t)(i >> 8), (uint8_t)i });
}

static unsigned
count_of(enum section section)
{
	return wire_get16(out + 6 + 2 * section);
}

static bool
is_cut(void)
{
	return wire_get16(out + 2) & FLAG_TC;
}

/* The limit includes the OPT. It is 512 bytes without EDNS. With EDNS, it is the size that the
 * client sent, up to 1,232 bytes. TCP has no limit. */
static void
answers_fill_what_the_client_takes_and_no_more(void **state)
{
	static const struct {
		uint16_t size;
		bool tcp;
		size_t limit;
	} rows[] = { { 0, false, 512 }, { 100, false, 512 }, { 600, false, 600 },
		{ 1232, false, 1232 }, { 4096, false, 1232 }, { 0, true, 65535 },
		{ 512, true, 65535 } };

	(void)state;

	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		begin(rows[i].size, rows[i].tcp, rows[i].tcp ? DNS_TCP_MAX : DNS_UDP_PAYLOAD);
		put_addrs(5000);
		size_t len = reply_end(&reply);
		assert_in_range(len, rows[i].limit - 16 - 6, rows[i].limit);
		assert_true(is_cut());
		assert_int_equal(count_of(SECTION_ADDITIONAL), rows[i].size > 0);
	}
}

/* The last record that fits is complete. After the first record that does not fit, no other record
 * is tried. */
static void
answer_section_is_cut_on_a_record_border(void **state)
{
	(void)state;
	begin(0, false, DNS_UDP_PAYLOAD);
	size_t capacity = 512 - reply.w.len;
	put_addrs((unsigned)(capacity / 16));
	assert_false(reply.truncated || reply.full);
	reply_addr(&reply, DNS_HEADER, AF_INET6, (uint8_t[16]){ 0 });
	assert_true(reply.truncated && reply.full);
	size_t before = reply.w.len;
	put_addrs(1);
	assert_int_equal(reply.w.len, before);
	assert_int_equal(reply_end(&reply), before);
	assert_int_equal(count_of(SECTION_ANSWER), capacity / 16);
}

static void
additional_records_are_left_out_without_tc(void **state)
{
	(void)state;
	begin(0, false, DNS_UDP_PAYLOAD);
	put_addrs(3);
	reply.section = SECTION_ADDITIONAL;
	put_addrs(5000);
	assert_true(reply.full);
	reply_end(&reply);
	assert_false(is_cut());
	assert_int_equal(count_of(SECTION_ANSWER), 3);
	assert_in_range(count_of(SECTION_ADDITIONAL), 20, 31);
}

static void
header_says_what_the_query_said_and_that_recursion_is_there(void **state)
{
	(void)state;
	begin(0, false, DNS_UDP_PAYLOAD);
	reply_end(&reply);
	assert_int_equal(wire_get16(out), 77);
	assert_int_equal(wire_get16(out + 2), FLAG_QR | FLAG_RD | FLAG_RA);
	assert_memory_equal(out + DNS_HEADER, wire + DNS_HEADER, query.question_len);
}

/* RFC 8914: an extended error is a code and then a text for people. The text is dropped before a
 * record is dropped. */
static void
extended_error_has_room_and_its_text_if_there_is_some(void **state)
{
	static const char text[] = "refused by 192.0.2.1:53";

	(void)state;

	for (unsigned full = 0; full < 2; full++) {
		begin(512, false, DNS_UDP_PAYLOAD);
		reply.ede = EDE_NOT_READY;
		reply.ede_text = text;
		put_addrs(full ? 100 : 1);
		size_t len = reply_end(&reply);
		assert_true(len <= 512);
		assert_int_equal(memmem(out, len, text, strlen(text)) == NULL, full);
		size_t tail = full ? 2 : 2 + strlen(text);
		assert_int_equal(wire_get16(out + len - tail), EDE_NOT_READY);
		assert_int_equal(wire_get16(out + len - tail - 2), tail);
	}
}

/* In each answer, the set starts with another record. All records are included. */
static void
sets_are_rotated(void **state)
{
	_Alignas(struct rrset) uint8_t capacity[sizeof(struct rrset) + 3 * 16];
	struct rrset *set = (void *)capacity;

	(void)state;

	*set = (struct rrset){ .type = TYPE_A, .count = 3, .len = 3 * 16 };
	for (unsigned i = 0; i < 3; i++) {
		static const uint8_t head[] = { 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 30, 0, 4, 10, 0, 0 };

		memcpy(set->data + 16 * i, head, sizeof head);
		set->data[16 * i + 15] = (uint8_t)i;
	}
	for (uint32_t rotation = 0; rotation < 6; rotation++) {
		begin(0, false, DNS_UDP_PAYLOAD);
		reply.rotation = rotation;
		size_t at = reply.w.len;
		reply_rrset(&reply, DNS_HEADER, set);
		reply_end(&reply);
		assert_int_equal(count_of(SECTION_ANSWER), 3);
		for (unsigned i = 0; i < 3; i++)
			assert_int_equal(out[at + 16 * i + 15], (rotation + i) % 3);
	}
}

static void
record_that_comes_twice_is_written_once(void **state)
{
	static struct record_table table;

	(void)state;

	begin(0, true, DNS_TCP_MAX);
	table.mask = 0;
	reply.table = &table;
	reply.dedup = true;
	for (unsigned round = 0; round < 3; round++)
		put_addrs(1000);
	reply_end(&reply);
	assert_int_equal(count_of(SECTION_ANSWER), 1000);
	assert_false(is_cut());
}

/* The names in the SOA are compressed. They point at the question, which ends with the zone. */
static void
soa_has_the_trees_serial_and_the_negative_ttl(void **state)
{
	struct record record;

	(void)state;

	begin(0, false, DNS_UDP_PAYLOAD);
	size_t at = reply.w.len;
	reply.section = SECTION_AUTHORITY;
	reply_soa(&reply, DNS_HEADER + 2, config.negative_ttl_s, config.negative_ttl_s);
	size_t len = reply_end(&reply);
	assert_int_equal(wire_read_record(out, len, &at, &record), 0);
	assert_true(dname_equal(record.owner.wire, config.zone.wire));
	assert_int_equal(record.ttl_s, 5);
	assert_int_equal(wire_get32(record.rdata + record.rdata_len - 20), 7);
	assert_int_equal(wire_get32(record.rdata + record.rdata_len - 4), 5);
	assert_true(record.rdata_len < 50);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(answers_fill_what_the_client_takes_and_no_more),
		cmocka_unit_test(answer_section_is_cut_on_a_record_border),
		cmocka_unit_test(additional_records_are_left_out_without_tc),
		cmocka_unit_test(header_says_what_the_query_said_and_that_recursion_is_there),
		cmocka_unit_test(extended_error_has_room_and_its_text_if_there_is_some),
		cmocka_unit_test(sets_are_rotated),
		cmocka_unit_test(record_that_comes_twice_is_written_once),
		cmocka_unit_test(soa_has_the_trees_serial_and_the_negative_ttl),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
