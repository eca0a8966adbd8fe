/* What becomes of another server's reply on its way to our client. */
#include "kubedns/answer/answer.h"
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

/* What another server says of names in our zones: its answers stop there, its rcode stays. */
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
	static const struct {
		const char *const *records;
		unsigned kept, chased; /* with our own CNAME */
	} rows[] = { { first, 0, 2 }, { last, 1, 2 }, { reverse, 1, 2 } };
	struct reverse_zone zone = { .prefix = addr("10.0.0.0"), .bits = 8 };
	uint8_t query[512];

	assert_int_equal(dname_from_text(&zone.name, "10.in-addr.arpa."), 0);
	world.config.reverse_zones = &zone;
	world.config.reverse_zone_count = 1;
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
	world.config.reverse_zone_count = 0;
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

/* Whatever upstream sends, at every length and with any byte changed,
 * what we pass on is a message. */
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

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_chased_reply_is_our_cname_and_upstreams_addresses),
		cmocka_unit_test(upstreams_records_of_our_zones_are_not_passed_on),
		cmocka_unit_test(refused_by_every_server_is_refused_and_says_by_whom),
		cmocka_unit_test(mutated_upstream_replies_are_passed_on_whole_or_not_at_all),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
