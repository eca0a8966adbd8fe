/* The reply that a client gets when another server has replied to kubedns. */
#include "kubedns/answer/answer.h"
#include "kubedns/answer/external_zones.h"
#include "tests/unit/answer_world.h"

static size_t
upstream_reply(const ldns_pkt *query, const char *const *records, uint8_t **wire)
{
	ldns_pkt *reply = ldns_pkt_clone(query);
	size_t len = 0;

	ldns_pkt_set_qr(reply, true);
	for (; *records != NULL; records++) {
		ldns_rr *rr = NULL;

		assert_int_equal(
		    ldns_rr_new_frm_str(&rr, *records, 60, NULL, NULL), LDNS_STATUS_OK);
		ldns_pkt_push_rr(reply, LDNS_SECTION_ANSWER, rr);
	}
	assert_int_equal(ldns_pkt2wire(wire, reply, &len), LDNS_STATUS_OK);
	ldns_pkt_free(reply);
	return len;
}

static void
a_chased_reply_is_our_cname_and_upstreams_addresses(void **state)
{
	(void)state;
	static const char *const records[] = { "www.example.net. 60 IN CNAME edge.example.org.",
		"edge.example.org. 60 IN A 192.0.2.1", NULL };
	struct dname name;
	uint8_t query[512], *upstream = NULL;

	dname_from_text(&name, "out.default.svc.cluster.local.");
	size_t len = query_write(query, sizeof query, 77, name.wire, TYPE_A, CLASS_IN, 1232);
	assert_int_equal(ask_wire(query, len, false, 0), ANSWER_CHASE);
	ldns_pkt *asked = ldns_pkt_query_new(
	    ldns_dname_new_frm_str("www.example.net."), LDNS_RR_TYPE_A, LDNS_RR_CLASS_IN, LDNS_RD);
	size_t upstream_len = upstream_reply(asked, records, &upstream);
	pass_on(answer_chased, query, len, upstream, upstream_len);
	ldns_pkt *pkt = read_again();
	assert_int_equal(ldns_pkt_ancount(pkt), 3);
	assert_int_equal(ldns_pkt_get_rcode(pkt), LDNS_RCODE_NOERROR);
	ldns_pkt_free(pkt);
	assert_int_equal(ask_wire(query, len, false, 0), ANSWER_CHASE);
	pass_on(answer_chased, query, len, NULL, 0);
	pkt = read_again();
	assert_int_equal(ldns_pkt_get_rcode(pkt), LDNS_RCODE_SERVFAIL);
	ldns_pkt_free(pkt);
	ldns_pkt_free(asked);
	free(upstream);
}

/* The reply of another server has records for names in our zones. They are removed, and the rcode
 * stays. */
static void
upstreams_records_of_our_zones_are_not_passed_on(void **state)
{
	(void)state;
	static const char *const first[] = { "web.default.svc.cluster.local. 60 IN A 192.0.2.66",
		"www.example.net. 60 IN A 192.0.2.1", NULL };
	static const char *const last[] = {
		"www.example.net. 60 IN CNAME web.DEFAULT.svc.cluster.local.",
		"web.default.svc.cluster.local. 60 IN A 192.0.2.66", NULL
	};
	static const char *const reverse[] = {
		"www.example.net. 60 IN CNAME 1.0.96.10.in-addr.arpa.",
		"1.0.96.10.in-addr.arpa. 60 IN A 192.0.2.66", NULL
	};
	/* A bug: the zone of --clusterset-domain was not protected. */
	static const char *const set[] = {
		"www.example.net. 60 IN CNAME web.default.svc.clusterset.local.",
		"web.default.svc.clusterset.local. 60 IN A 192.0.2.66", NULL
	};
	/* Everybody may have records of an external zone. */
	static const char *const external[] = {
		"www.example.net. 60 IN CNAME web.apps.example.com.",
		"web.apps.example.com. 60 IN A 192.0.2.66", NULL
	};
	static const struct {
		const char *const *records;
		unsigned kept, chased; /* numbers of records. `chased` includes our own CNAME */
	} rows[] = { { first, 0, 2 }, { last, 1, 2 }, { reverse, 1, 2 }, { set, 1, 2 },
		{ external, 2, 3 } };
	struct reverse_zone zone = { .prefix = addr("10.0.0.0"), .bits = 8 };
	struct dname names[2];
	const struct external_zones zones = {
		.zones = names, .zone_count = 2, .clusterset = &names[1]
	};
	uint8_t query[512];

	assert_int_equal(dname_from_text(&zone.name, "10.in-addr.arpa."), 0);
	dname_from_text(&names[0], "apps.example.com.");
	dname_from_text(&names[1], "clusterset.local.");
	external_zones_set(&world.config, &zones);
	world.parts.reverse.zones = &zone;
	world.parts.reverse.zone_count = 1;
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
		for (unsigned chase = 0; chase < 2; chase++) {
			struct dname name;
			uint8_t *upstream = NULL;

			dname_from_text(
			    &name, chase ? "out.default.svc.cluster.local." : "www.example.net.");
			size_t len =
			    query_write(query, sizeof query, 77, name.wire, TYPE_A, CLASS_IN, 1232);
			assert_int_equal(
			    ask_wire(query, len, false, 0), chase ? ANSWER_CHASE : ANSWER_FORWARD);
			ldns_pkt *asked =
			    ldns_pkt_query_new(ldns_dname_new_frm_str("www.example.net."),
				LDNS_RR_TYPE_A, LDNS_RR_CLASS_IN, LDNS_RD);
			size_t upstream_len = upstream_reply(asked, rows[i].records, &upstream);
			pass_on(chase ? answer_chased : answer_forwarded, query, len, upstream,
			    upstream_len);
			ldns_pkt *pkt = read_again();
			assert_int_equal(
			    ldns_pkt_ancount(pkt), chase ? rows[i].chased : rows[i].kept);
			assert_int_equal(ldns_pkt_get_rcode(pkt), LDNS_RCODE_NOERROR);
			assert_true(ldns_pkt_edns(pkt));
			ldns_pkt_free(pkt);
			ldns_pkt_free(asked);
			free(upstream);
		}
	world.parts.reverse.zone_count = 0;
	external_zones_set(&world.config, NULL);
}

static void
refused_by_every_server_is_refused_and_says_by_whom(void **state)
{
	(void)state;
	const struct upstream_reply none = { .refused_by = "refused by 192.0.2.53:53" };
	uint8_t query[512];
	struct dname name;

	for (unsigned edns = 0; edns < 2; edns++)
		for (unsigned chase = 0; chase < 2; chase++) {
			dname_from_text(
			    &name, chase ? "out.default.svc.cluster.local." : "www.example.net.");
			size_t len = query_write(
			    query, sizeof query, 77, name.wire, TYPE_A, CLASS_IN, edns ? 1232 : 0);
			struct answer_request request = request_for(query, len, false);
			ask_wire(query, len, false, 0);
			(chase ? answer_chased : answer_forwarded)(&request, &none, &world.info);
			ldns_pkt *pkt = read_again();
			assert_int_equal(ldns_pkt_get_rcode(pkt), LDNS_RCODE_REFUSED);
			assert_int_equal(world.info.rcode, RCODE_REFUSED);
			assert_int_equal(ldns_pkt_edns(pkt), edns);
			assert_int_equal(memmem(world.out, world.info.len, none.refused_by,
					     strlen(none.refused_by)) != NULL,
			    edns);
			ldns_pkt_free(pkt);
		}
}

/* The servers of --until-synced have refused a query for one of our names. */
static void
before_the_first_sync_refused_is_servfail_and_says_by_whom(void **state)
{
	(void)state;
	const struct upstream_reply none = { .refused_by = "refused by 192.0.2.53:53" };
	uint8_t query[512];
	struct dname name;

	dname_from_text(&name, "www.example.net.");
	size_t len = query_write(query, sizeof query, 77, name.wire, TYPE_A, CLASS_IN, 1232);
	struct answer_request request = request_for(query, len, false);
	ask_wire(query, len, false, 0);
	world.info.until_synced = true;
	answer_forwarded(&request, &none, &world.info);
	world.info.until_synced = false;
	ldns_pkt *pkt = read_again();
	assert_int_equal(ldns_pkt_get_rcode(pkt), LDNS_RCODE_SERVFAIL);
	assert_int_equal(world.info.rcode, RCODE_SERVFAIL);
	assert_non_null(
	    memmem(world.out, world.info.len, none.refused_by, strlen(none.refused_by)));
	ldns_pkt_free(pkt);
}

/* RFC 8914 section 2: the text is UTF-8, also after truncation. */
static void
text_of_an_extended_error_is_cut_between_characters(void **state)
{
	(void)state;
	uint8_t query[512], upstream[1024];
	struct dname name;

	dname_from_text(&name, "www.example.net.");
	size_t len = query_write(query, sizeof query, 77, name.wire, TYPE_A, CLASS_IN, 1232);
	for (unsigned before = 0; before < 4; before++) {
		size_t at =
		    query_write(upstream, sizeof upstream, 77, name.wire, TYPE_A, CLASS_IN, 1232);
		uint8_t *option = upstream + at;
		size_t text_len = before + 4 * 70u;

		wire_put16(upstream + 2, FLAG_QR | RCODE_SERVFAIL);
		wire_put16(upstream + at - 2, (unsigned)(6 + text_len));
		wire_put16(option, OPTION_EDE);
		wire_put16(option + 2, (unsigned)(2 + text_len));
		wire_put16(option + 4, 6);
		memset(option + 6, 'a', before);
		for (size_t i = before; i < text_len; i += 4)
			memcpy(option + 6 + i, "\360\237\230\200", 4);
		pass_on(answer_forwarded, query, len, upstream, at + 6 + text_len);
		const uint8_t *text = memmem(world.out, world.info.len, "upstream: ", 10);
		assert_non_null(text);
		size_t kept = (size_t)(world.out + world.info.len - text);
		assert_true(kept > 200);
		assert_int_equal((kept - 10 - before) % 4, 0);
		ldns_pkt *pkt = read_again();
		ldns_pkt_free(pkt);
	}
}

/* In the front topology, an upstream sends an extended error and dnsmasq passes it on. A client
 * that sends an OPT gets the reason and its origin. */
static void
upstreams_extended_error_is_passed_on_as_upstreams(void **state)
{
	(void)state;
	static const struct {
		size_t len;
		const char *options, *says; /* NULL if the reply has none */
		unsigned code;
	} rows[] = {
		{ 14, "\0\017\0\012\0\6expired!", "upstream: expired!", 6 },
		{ 6, "\0\017\0\2\0\021", "upstream", 17 },
		{ 14, "\0\3\0\4name\0\017\0\2\0\3", "upstream", 3 },           /* after an NSID */
		{ 16, "\0\017\0\4\0\6no\0\017\0\4\0\3no", "upstream: no", 6 }, /* the first one */
		{ 7, "\0\017\0\3\0\6\0", "upstream", 6 },
		/* terminal control sequences: a title, a cleared screen, a line break, a bidi
		 * override */
		{ 22, "\0\017\0\022\0\6a\033]0;b\a\033[2J\nc\302\233d", "upstream: a]0;b[2Jcd", 6 },
		{ 13, "\0\017\0\11\0\6a\342\200\256b\177c", "upstream: abc", 6 },
		{ 9, "\0\017\0\5\0\6a\377b", "upstream: a", 6 }, /* invalid UTF-8 */
		{ 0, "", NULL, 0 },
		{ 5, "\0\017\0\1\0", NULL, 0 },   /* without a code */
		{ 6, "\0\017\0\3\0\6", NULL, 0 }, /* longer than the OPT */
		{ 3, "\0\017\0", NULL, 0 },
	};
	uint8_t query[512], upstream[1024];
	struct dname name;

	dname_from_text(&name, "www.example.net.");
	for (size_t i = 0; i < 2 * sizeof rows / sizeof rows[0]; i++) {
		const bool edns = i % 2 == 0;
		const char *says = rows[i / 2].says;
		size_t len = query_write(
		    query, sizeof query, 77, name.wire, TYPE_A, CLASS_IN, edns ? 1232 : 0);
		size_t at =
		    query_write(upstream, sizeof upstream, 77, name.wire, TYPE_A, CLASS_IN, 1232);

		wire_put16(upstream + 2, FLAG_QR | RCODE_SERVFAIL);
		memcpy(upstream + at, rows[i / 2].options, rows[i / 2].len);
		wire_put16(upstream + at - 2, (unsigned)rows[i / 2].len);
		pass_on(answer_forwarded, query, len, upstream, at + rows[i / 2].len);
		ldns_pkt *pkt = read_again();
		assert_int_equal(ldns_pkt_get_rcode(pkt), LDNS_RCODE_SERVFAIL);
		assert_int_equal(ldns_pkt_edns(pkt), edns);
		if (says == NULL || !edns) {
			assert_null(memmem(world.out, world.info.len, "upstream", 8));
		} else {
			size_t size = 2 + strlen(says);
			const uint8_t *option = world.out + world.info.len - size - 4;

			assert_int_equal(wire_get16(option), OPTION_EDE);
			assert_int_equal(wire_get16(option + 2), size);
			assert_int_equal(wire_get16(option + 4), rows[i / 2].code);
			assert_memory_equal(option + 6, says, size - 2);
		}
		ldns_pkt_free(pkt);
	}
	/* A text of any length is truncated to the size that the client accepts. */
	size_t at = query_write(upstream, sizeof upstream, 77, name.wire, TYPE_A, CLASS_IN, 1232);
	wire_put16(upstream + 2, FLAG_QR | RCODE_SERVFAIL);
	memcpy(upstream + at, "\0\017\2\130\0\6", 6);
	memset(upstream + at + 6, 'x', 598);
	wire_put16(upstream + at - 2, 604);
	size_t len = query_write(query, sizeof query, 77, name.wire, TYPE_A, CLASS_IN, 512);
	assert_true(pass_on(answer_forwarded, query, len, upstream, at + 604) <= 512);
	assert_non_null(memmem(world.out, world.info.len, "upstream: xxx", 13));
}

/* Our reply is a valid message, whatever upstream sends: at every length, and with any byte
 * changed. */
static void
mutated_upstream_replies_are_passed_on_whole_or_not_at_all(void **state)
{
	(void)state;
	static const char *const records[] = { "www.example.net. 60 IN CNAME edge.example.org.",
		"edge.example.org. 60 IN A 192.0.2.1", "edge.example.org. 60 IN A 192.0.2.2",
		NULL };
	struct dname name;
	uint8_t query[512], *upstream = NULL;
	uint32_t random = 5;

	dname_from_text(&name, "www.example.net.");
	size_t len = query_write(query, sizeof query, 77, name.wire, TYPE_A, CLASS_IN, 1232);
	ldns_pkt *asked = ldns_pkt_query_new(
	    ldns_dname_new_frm_str("www.example.net."), LDNS_RR_TYPE_A, LDNS_RR_CLASS_IN, LDNS_RD);
	size_t upstream_len = upstream_reply(asked, records, &upstream);
	for (unsigned n = 0; n < 50000; n++) {
		size_t cut = n < upstream_len ? n : upstream_len;
		uint8_t *copy = malloc(cut + 1);

		memcpy(copy, upstream, cut);
		for (unsigned m = 0; n > upstream_len && m < n % 4; m++) {
			random = random * 1664525u + 1013904223u;
			copy[(random >> 8) % cut] = (uint8_t)(random >> 24);
		}
		assert_true(pass_on(answer_forwarded, query, len, copy, cut) >= DNS_HEADER);
		assert_int_equal(wire_get16(world.out), 77);
		free(copy);
	}
	ldns_pkt_free(asked);
	free(upstream);
}

/* If one record of an answer cannot be read, no record is passed on. */
static void
an_answer_that_cannot_be_read_is_a_failure(void **state)
{
	static const uint8_t mx[] = { 0xc0, DNS_HEADER, 0, TYPE_MX, 0, CLASS_IN, 0, 0, 0, 60, 0, 4,
		0, 10, 0xc0, 0xff /* a forward pointer */ };
	uint8_t query[512], upstream[512];
	struct dname name;

	(void)state;
	dname_from_text(&name, "out.default.svc.cluster.local.");
	size_t len = query_write(query, sizeof query, 77, name.wire, TYPE_MX, CLASS_IN, 1232);
	assert_int_equal(ask_wire(query, len, false, 0), ANSWER_CHASE);
	dname_from_text(&name, "www.example.net.");
	size_t upstream_len =
	    query_write(upstream, sizeof upstream, 1, name.wire, TYPE_MX, CLASS_IN, 0);
	wire_put16(upstream + 2, 0x8180);
	wire_put16(upstream + 6, 1);
	memcpy(upstream + upstream_len, mx, sizeof mx);
	pass_on(answer_chased, query, len, upstream, upstream_len + sizeof mx);
	assert_int_equal(world.out[3] & 15, RCODE_SERVFAIL);
	assert_false(world.info.truncated);
	assert_int_equal(wire_get16(world.out + 6), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_chased_reply_is_our_cname_and_upstreams_addresses),
		cmocka_unit_test(upstreams_records_of_our_zones_are_not_passed_on),
		cmocka_unit_test(refused_by_every_server_is_refused_and_says_by_whom),
		cmocka_unit_test(before_the_first_sync_refused_is_servfail_and_says_by_whom),
		cmocka_unit_test(upstreams_extended_error_is_passed_on_as_upstreams),
		cmocka_unit_test(text_of_an_extended_error_is_cut_between_characters),
		cmocka_unit_test(an_answer_that_cannot_be_read_is_a_failure),
		cmocka_unit_test(mutated_upstream_replies_are_passed_on_whole_or_not_at_all),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
