/* The messages of a zone transfer are parsed by ldns, which shares no code with kubedns. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <ldns/ldns.h>

#include "kubedns/modules/transfer/xfr_writer.h"
#include "lib/addr.h"
#include "tests/unit/answer_bed.h"

/* The records that were sent, as text, and the number of messages. */
static struct {
	char *text;
	size_t size;
	FILE *out;
	unsigned messages, stop_after, opts;
} got;

static bool
take(void *arg, uint8_t *message, size_t len)
{
	ldns_pkt *packet = NULL;

	(void)arg;
	assert_true(len <= XFR_MESSAGE_MAX - XFR_TAIL_MAX);
	assert_int_equal(ldns_wire2pkt(&packet, message, len), LDNS_STATUS_OK);
	assert_int_equal(ldns_pkt_id(packet), 0x1234);
	assert_true(ldns_pkt_aa(packet) && ldns_pkt_qr(packet));
	assert_int_equal(ldns_pkt_qdcount(packet), got.messages == 0);
	if (ldns_pkt_edns(packet)) {
		assert_int_equal(got.messages, 0);
		assert_true(ldns_pkt_edns_do(packet));
		got.opts++;
	}
	ldns_rr_list_print(got.out, ldns_pkt_answer(packet));
	ldns_pkt_free(packet);
	return ++got.messages != got.stop_after;
}

static struct xfr_writer writer;

static void
begin(const char *zone)
{
	static uint8_t query[512], buf[XFR_MESSAGE_MAX];
	struct dname name;

	got.messages = got.stop_after = got.opts = 0;
	got.out = open_memstream(&got.text, &got.size);
	dname_from_text(&name, zone);
	query_write(query, sizeof query, 0x1234, name.wire, TYPE_AXFR, CLASS_IN, 0);
	writer = (struct xfr_writer){
		.send = take, .query = query, .question_len = (uint16_t)(name.len + 4)
	};
	xfr_begin(&writer, buf);
}

static bool
put(const char *owner, const char *addr)
{
	struct dname name;
	struct addr a;

	dname_from_text(&name, owner);
	addr_parse(addr, &a);
	const struct zone_record record = { &name, 30, TYPE_A, 4, a.bytes };
	return xfr_put(&writer, &record);
}

static void
end(void)
{
	fclose(got.out);
	free(got.text);
}

static void
owners_come_back_whatever_they_share(void **state)
{
	static const char *const owners[] = { "cluster.local.", "a.cluster.local.",
		"b.a.cluster.local.", "b.a.cluster.local.", "a.a.cluster.local.",
		"c.b.a.a.cluster.local.", "x.local.", "local.", ".", "b.a.cluster.local.",
		"a.b.c.d.", "b.c.d.", "d." };
	char want[4096] = "";
	(void)state;

	begin("Cluster.local.");
	for (size_t i = 0; i < sizeof owners / sizeof owners[0]; i++) {
		assert_true(put(owners[i], "10.0.0.1"));
		sprintf(want + strlen(want), "%s\t30\tIN\tA\t10.0.0.1\n", owners[i]);
	}
	assert_true(xfr_end(&writer));
	fflush(got.out);
	assert_int_equal(got.messages, 1);
	/* Names are compressed to the question, so they have its spelling. */
	for (char *p = got.text; *p != '\0'; p++)
		*p = *p == 'C' ? 'c' : *p;
	assert_string_equal(got.text, want);
	assert_int_equal(writer.records, sizeof owners / sizeof owners[0]);
	end();
}

static void
a_zone_that_is_larger_than_a_message_goes_into_several(void **state)
{
	char owner[128];

	(void)state;

	begin("cluster.local.");
	for (unsigned i = 0; i < 5000; i++) {
		snprintf(
		    owner, sizeof owner, "host-%u.service-%u.default.svc.cluster.local.", i, i / 7);
		assert_true(put(owner, "10.0.0.1"));
	}
	assert_true(xfr_end(&writer));
	fflush(got.out);
	unsigned lines = 0;
	for (const char *p = got.text; (p = strchr(p, '\n')) != NULL; p++)
		lines++;
	assert_int_equal(lines, 5000);
	assert_true(got.messages > 5 && got.messages == writer.messages);
	assert_int_equal(got.opts, 0);
	/* 5,000 records have about 40 bytes each. A message has 15 KB. */
	assert_true(got.messages < 20);
	end();
}

/* The test varies the space that is left when the next record does not fit. These owners cannot be
 * compressed. */
static void
first_message_alone_has_an_opt_if_the_query_had_one(void **state)
{
	char owner[128];

	(void)state;

	for (unsigned len = 1; len < 60; len++) {
		begin("cluster.local.");
		writer.has_edns = writer.edns_do = true;
		snprintf(owner, sizeof owner, "%0*u.cluster.local.", (int)len, 0);
		for (unsigned i = 0; i < 2000; i++)
			assert_true(put(i == 0 ? owner : i % 2 == 0 ? "a." : "b.", "10.0.0.1"));
		assert_true(xfr_end(&writer));
		assert_true(got.messages > 1);
		assert_int_equal(got.opts, 1);
		end();
	}
}

static void
nothing_is_put_after_the_receiver_has_had_enough(void **state)
{
	unsigned taken = 0;

	(void)state;

	begin("cluster.local.");
	got.stop_after = 2;
	for (unsigned i = 0; i < 5000; i++)
		taken += put("a.cluster.local.", "10.0.0.1") ? 1 : 0;
	assert_true(taken > 1000 && taken < 4000);
	assert_false(xfr_end(&writer));
	assert_int_equal(got.messages, 2);
	end();
}

/* Writes the cluster of the bed. The walk is the same as for --print-zone. */
static bool
take_record(void *arg, const struct zone_record *record)
{
	(void)arg;
	return xfr_put(&writer, record);
}

static void
a_zone_has_no_record_twice(void **state)
{
	struct zone_walk walk = { .config = &bed.config,
		.trees = { tree_current(bed.cache), NULL },
		.take = take_record };
	ldns_rr_list *list = ldns_rr_list_new();
	ldns_rr *rr;

	(void)state;

	bed_service("db", SERVICE_HEADLESS, NULL, "pg/tcp/5432 pgu/udp/5432");
	/* The slices have an address in two slices, a name with two addresses, and a name that is
	 * the address of another endpoint. */
	bed_slice("db", "db-1", "pg/tcp/5432 pgu/udp/5432", "10.1.0.1=db-0 10.1.0.2 10.1.0.3=x");
	bed_slice(
	    "db", "db-2", "pg/tcp/5432", "10.1.0.1=db-0 10.1.0.2 10.1.0.4=db-0 10.1.0.5=10-1-0-2");
	bed_slice("db", "db-3", "pg/tcp/5433", "2001:db8::1=db-0 2001:db8::2");
	bed_publish();
	walk.trees.tree = tree_current(bed.cache);
	begin("cluster.local.");
	zone_walk_begin(&walk);
	assert_true(zone_walk_zone(&walk, 0));
	zone_walk_end(&walk);
	assert_true(xfr_end(&writer));
	fflush(got.out);
	for (char *line = strtok(got.text, "\n"); line != NULL; line = strtok(NULL, "\n")) {
		assert_int_equal(ldns_rr_new_frm_str(&rr, line, 30, NULL, NULL), LDNS_STATUS_OK);
		for (size_t i = 0; i < ldns_rr_list_rr_count(list); i++)
			if (ldns_rr_compare(ldns_rr_list_rr(list, i), rr) == 0)
				fail_msg("twice: %s", line);
		ldns_rr_list_push_rr(list, rr);
	}
	assert_true(ldns_rr_list_rr_count(list) > 25);
	ldns_rr_list_deep_free(list);
	end();
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(owners_come_back_whatever_they_share),
		cmocka_unit_test(a_zone_that_is_larger_than_a_message_goes_into_several),
		cmocka_unit_test(first_message_alone_has_an_opt_if_the_query_had_one),
		cmocka_unit_test(nothing_is_put_after_the_receiver_has_had_enough),
		cmocka_unit_test_setup_teardown(a_zone_has_no_record_twice, bed_begin, bed_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
