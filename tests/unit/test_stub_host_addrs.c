#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "lib/wire.h"
#include "nanny/servers/stub_hosts.h"

static struct stub_host name;
static int64_t now;

static int
setup(void **state)
{
	(void)state;
	now = 1000000;
	stub_host_init(&name, "ns.example.test", now);
	return 0;
}

static enum stub_host_change
answer(int family, const char *texts, unsigned ttl_s)
{
	struct addr addrs[STUB_HOST_KNOWN_MAX];
	size_t count = 0;
	char copy[2048], *save = NULL;

	snprintf(copy, sizeof copy, "%s", texts);
	for (char *one = strtok_r(copy, " ", &save); one != NULL; one = strtok_r(NULL, " ", &save))
		assert_int_equal(addr_parse(one, &addrs[count++]), 0);
	return stub_host_answer(&name, family, addrs, count, ttl_s, now, 0);
}

static void
expect_known(const char *want)
{
	char got[2048] = "", text[ADDR_TEXT_MAX];

	for (size_t i = 0; i < name.known_count; i++) {
		strcat(got, i ? " " : "");
		strcat(got, addr_format(&name.known[i].addr, text));
		strcat(got, name.known[i].current ? "" : "?");
	}
	assert_string_equal(got, want);
}

static void
the_first_answer_is_for_now(void **state)
{
	(void)state;
	assert_int_equal(answer(STUB_HOST_V4, "10.0.0.1", 30), STUB_HOST_NOW);
	assert_int_equal(answer(STUB_HOST_V6, "fd00::1", 30), STUB_HOST_LATER);
	expect_known("10.0.0.1 fd00::1");
}

static void
another_order_is_no_change(void **state)
{
	(void)state;
	answer(STUB_HOST_V4, "10.0.0.1 10.0.0.2", 30);
	assert_int_equal(answer(STUB_HOST_V4, "10.0.0.2 10.0.0.1", 30), STUB_HOST_SAME);
	expect_known("10.0.0.1 10.0.0.2");
}

static void
a_second_address_can_wait(void **state)
{
	(void)state;
	answer(STUB_HOST_V4, "10.0.0.1", 30);
	assert_int_equal(answer(STUB_HOST_V4, "10.0.0.1 10.0.0.2", 30), STUB_HOST_LATER);
}

static void
a_move_is_for_now_and_the_old_address_is_kept_for_a_while(void **state)
{
	(void)state;
	answer(STUB_HOST_V4, "10.0.0.1", 5);
	assert_int_equal(answer(STUB_HOST_V4, "10.0.0.2", 5), STUB_HOST_NOW);
	expect_known("10.0.0.1? 10.0.0.2");
	now += STUB_HOST_KEEP_MIN_MS - 1;
	assert_int_equal(stub_host_expire(&name, now), STUB_HOST_SAME);
	now++;
	assert_int_equal(stub_host_expire(&name, now), STUB_HOST_LATER);
	expect_known("10.0.0.2");
}

static void
rotation_settles_after_one_round(void **state)
{
	(void)state;
	static const char *const pool[] = { "10.0.0.1 10.0.0.2", "10.0.0.3 10.0.0.4",
		"10.0.0.5 10.0.0.6" };
	for (int i = 0; i < 30; i++, now += 30000) {
		enum stub_host_change change = answer(STUB_HOST_V4, pool[i % 3], 30);

		assert_int_equal(change == STUB_HOST_SAME, i >= 3);
		assert_int_equal(stub_host_expire(&name, now), STUB_HOST_SAME);
	}
	assert_int_equal(name.known_count, 6);
}

static void
failures_keep_what_is_known_and_back_off(void **state)
{
	(void)state;
	static const int64_t waits[] = { 1000, 2000, 4000, 8000, 16000, 30000, 30000 };
	answer(STUB_HOST_V4, "10.0.0.1", 5);
	for (unsigned i = 0; i < 7; i++) {
		stub_host_failure(&name, STUB_HOST_V4, "timeout", now, 0);
		assert_int_equal(name.family[STUB_HOST_V4].due_ms - now, waits[i]);
	}
	now += 86400000;
	assert_int_equal(stub_host_expire(&name, now), STUB_HOST_SAME);
	expect_known("10.0.0.1");
	assert_string_equal(name.family[STUB_HOST_V4].error, "timeout");
	answer(STUB_HOST_V4, "10.0.0.1", 5);
	assert_string_equal(name.family[STUB_HOST_V4].error, "");
	assert_int_equal(name.family[STUB_HOST_V4].failures, 0);
}

static void
the_last_addresses_are_never_let_go(void **state)
{
	(void)state;
	answer(STUB_HOST_V4, "10.0.0.1", 5);
	assert_int_equal(answer(STUB_HOST_V4, "", 5), STUB_HOST_SAME);
	now += 86400000;
	assert_int_equal(stub_host_expire(&name, now), STUB_HOST_SAME);
	expect_known("10.0.0.1?");
	assert_int_equal(answer(STUB_HOST_V6, "fd00::1", 5), STUB_HOST_NOW);
	assert_int_equal(stub_host_expire(&name, now), STUB_HOST_LATER);
	expect_known("fd00::1");
}

static void
refreshes_follow_the_ttl_within_bounds(void **state)
{
	(void)state;
	answer(STUB_HOST_V4, "10.0.0.1", 0);
	assert_int_equal(name.family[STUB_HOST_V4].due_ms - now, 5000);
	answer(STUB_HOST_V4, "10.0.0.1", 60);
	assert_int_equal(name.family[STUB_HOST_V4].due_ms - now, 60000);
	answer(STUB_HOST_V4, "10.0.0.1", 86400);
	assert_int_equal(name.family[STUB_HOST_V4].due_ms - now, 300000);
	struct addr addr;
	addr_parse("10.0.0.1", &addr);
	stub_host_answer(&name, STUB_HOST_V4, &addr, 1, 60, now, 255);
	assert_in_range(name.family[STUB_HOST_V4].due_ms - now, 54000, 54100);
}

static void
a_flood_of_addresses_is_bounded(void **state)
{
	(void)state;
	for (int i = 0; i < 200; i++, now += 1000) {
		char text[32];

		snprintf(text, sizeof text, "10.0.%d.1", i);
		answer(STUB_HOST_V4, text, 5);
		assert_true(name.known_count <= STUB_HOST_KNOWN_MAX);
	}
	assert_true(name.known[name.known_count - 1].current);
}

/* A record of a message: its owner, type and TTL, and its RDATA as text. */
struct rr {
	const char *owner;
	unsigned type;
	uint32_t ttl;
	const char *rdata;
};

static size_t
message(uint8_t *wire, const struct rr *records, size_t count)
{
	struct dname host;

	dname_from_text(&host, "ns.example.test");
	size_t len = query_write(wire, 4096, 1, host.wire, TYPE_A, CLASS_IN, 0);
	struct writer w = { .buf = wire, .len = len, .max = 4096 };
	wire_put16(wire + 6, (unsigned)count);
	for (size_t i = 0; i < count; i++) {
		struct dname owner, target;
		struct addr addr;

		dname_from_text(&owner, records[i].owner);
		writer_put(&w, owner.wire, owner.len);
		writer_put16(&w, records[i].type);
		writer_put16(&w, CLASS_IN);
		writer_put32(&w, records[i].ttl);
		if (records[i].type == TYPE_CNAME) {
			dname_from_text(&target, records[i].rdata);
			writer_put16(&w, target.len);
			writer_put(&w, target.wire, target.len);
		} else {
			assert_int_equal(addr_parse(records[i].rdata, &addr), 0);
			writer_put16(&w, (unsigned)addr_len(&addr));
			writer_put(&w, addr.bytes, addr_len(&addr));
		}
	}
	assert_false(w.overflow);
	return w.len;
}

static void
the_chain_of_aliases_gives_the_least_ttl(void **state)
{
	(void)state;
	static const struct rr records[] = {
		{ "b.test", TYPE_A, 50, "10.0.0.1" },
		{ "a.test", TYPE_CNAME, 7, "b.test" },
		{ "NS.example.test", TYPE_CNAME, 100, "A.test" },
		{ "b.test", TYPE_A, 60, "10.0.0.2" },
		{ "other.test", TYPE_A, 1, "10.0.0.9" },
		{ "b.test", TYPE_AAAA, 2, "fd00::1" },
	};
	uint8_t wire[4096];
	struct addr addrs[STUB_HOST_ADDRS_MAX];
	unsigned ttl;
	size_t len = message(wire, records, 6);
	assert_int_equal(
	    stub_hosts_parse_reply(wire, len, "ns.example.test", STUB_HOST_V4, addrs, &ttl), 2);
	assert_int_equal(ttl, 7);
	assert_int_equal(
	    stub_hosts_parse_reply(wire, len, "ns.example.test", STUB_HOST_V6, addrs, &ttl), 1);
	assert_int_equal(ttl, 2);
	for (size_t cut = 0; cut < len; cut++)
		assert_true(stub_hosts_parse_reply(
				wire, cut, "ns.example.test", STUB_HOST_V4, addrs, &ttl) <= 2);
}

static void
alias_loops_end(void **state)
{
	(void)state;
	static const struct rr records[] = { { "ns.example.test", TYPE_CNAME, 7, "b.test" },
		{ "b.test", TYPE_CNAME, 7, "ns.example.test" } };
	uint8_t wire[4096];
	struct addr addrs[STUB_HOST_ADDRS_MAX];
	unsigned ttl;
	assert_int_equal(stub_hosts_parse_reply(wire, message(wire, records, 2), "ns.example.test",
			     STUB_HOST_V4, addrs, &ttl),
	    0);
}

static void
addresses_that_nobody_can_be_asked_at_are_left_out(void **state)
{
	(void)state;
	static const struct rr records[] = { { "ns.example.test", TYPE_A, 7, "0.0.0.0" },
		{ "ns.example.test", TYPE_A, 7, "224.0.0.1" },
		{ "ns.example.test", TYPE_A, 7, "10.0.0.1" },
		{ "ns.example.test", TYPE_A, 7, "10.0.0.1" } };
	uint8_t wire[4096];
	struct addr addrs[STUB_HOST_ADDRS_MAX];
	unsigned ttl;
	assert_int_equal(stub_hosts_parse_reply(wire, message(wire, records, 4), "ns.example.test",
			     STUB_HOST_V4, addrs, &ttl),
	    1);
}

#define TEST(f) cmocka_unit_test_setup(f, setup)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(the_first_answer_is_for_now),
		TEST(another_order_is_no_change),
		TEST(a_second_address_can_wait),
		TEST(a_move_is_for_now_and_the_old_address_is_kept_for_a_while),
		TEST(rotation_settles_after_one_round),
		TEST(failures_keep_what_is_known_and_back_off),
		TEST(the_last_addresses_are_never_let_go),
		TEST(refreshes_follow_the_ttl_within_bounds),
		TEST(a_flood_of_addresses_is_bounded),
		TEST(the_chain_of_aliases_gives_the_least_ttl),
		TEST(alias_loops_end),
		TEST(addresses_that_nobody_can_be_asked_at_are_left_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
