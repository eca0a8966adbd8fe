/* The record sets of headless Services. Each endpoint is in the answer once, even if it is in
 * several slices. The answer has as many endpoints as fit into the message. */
#include "kubedns/answer/answer.h"
#include "tests/unit/answer_world.h"

static void
each_endpoint_that_has_a_name_answers_it_once(void **state)
{
	static const struct {
		const char *name;
		unsigned addresses;
	} shared[] = { { "pair", 2 }, { "lone", 1 }, { "both", 2 }, { "only", 1 }, { "none", 0 } };

	(void)state;

	for (size_t i = 0; i < sizeof shared / sizeof shared[0]; i++) {
		char name[64];

		snprintf(name, sizeof name, "%s.same.default.svc.cluster.local.", shared[i].name);
		assert_int_equal(ask(name, TYPE_A, 1232, false, 0), ANSWER_REPLY);
		ldns_pkt *pkt = read_again();
		assert_int_equal(ldns_pkt_ancount(pkt), shared[i].addresses);
		ldns_pkt_free(pkt);
		ask(name, TYPE_AAAA, 1232, false, 0);
		assert_int_equal(world.info.rcode, shared[i].addresses > 0 ? 0 : RCODE_NXDOMAIN);
	}
	/* An SRV answer names each host once, and adds all its addresses. */
	ask("_http._tcp.same.default.svc.cluster.local.", TYPE_SRV, 1232, false, 0);
	ldns_pkt *pkt = read_again();
	assert_int_equal(ldns_pkt_ancount(pkt), 4);
	assert_int_equal(ldns_pkt_arcount(pkt), 6);
	ldns_pkt_free(pkt);
}

/* The second record equals the first, so it is removed again, together with its addresses. */
static void
a_target_that_a_wildcard_finds_twice_brings_its_addresses_once(void **state)
{
	(void)state;
	world.parts.zone.wildcards = true;
	ask("_dns.*.dual.default.svc.cluster.local.", TYPE_SRV, 1232, false, 0);
	world.parts.zone.wildcards = false;
	ldns_pkt *pkt = read_again();
	assert_int_equal(ldns_pkt_ancount(pkt), 1);
	assert_int_equal(ldns_pkt_arcount(pkt), 2);
	for (size_t i = 0; i < 2; i++)
		assert_int_equal(
		    ldns_dname_compare(ldns_rr_rdf(ldns_rr_list_rr(ldns_pkt_answer(pkt), 0), 3),
			ldns_rr_owner(ldns_rr_list_rr(ldns_pkt_additional(pkt), i))),
		    0);
	ldns_pkt_free(pkt);
}

static void
no_srv_record_comes_twice_and_none_is_left_out(void **state)
{
	static const char *const wanted[] = { "53 a", "9153 a", "8080 a", "53 10-4-0-2",
		"9153 10-4-0-2", "8080 10-4-0-2" };
	(void)state;

	assert_int_equal(
	    ask("ports.default.svc.cluster.local.", TYPE_SRV, 1232, false, 0), ANSWER_REPLY);
	ldns_pkt *pkt = read_again();
	char *text = ldns_rr_list2str(ldns_pkt_answer(pkt));
	assert_int_equal(ldns_pkt_ancount(pkt), 6);
	for (size_t i = 0; i < 6; i++) {
		char target[64];

		snprintf(target, sizeof target, " %s.ports.default", wanted[i]);
		assert_non_null(strstr(text, target));
	}
	assert_int_equal(ldns_pkt_arcount(pkt), 2);
	free(text);
	ldns_pkt_free(pkt);
	ask("web.default.svc.cluster.local.", TYPE_SRV, 1232, false, 0);
	pkt = read_again();
	/* The Service has three ports. Two of them have the same number. */
	assert_int_equal(ldns_pkt_ancount(pkt), 2);
	ldns_pkt_free(pkt);
}

/* In a zone of 234 bytes, "h-3.db.default.svc" fits into a name, and "10-1-0-1.db.default.svc" does
 * not. */
static void
a_target_that_is_longer_than_names_may_be_is_left_out(void **state)
{
	struct dname zone = world.config.zone, name;
	char text[DNAME_TEXT_MAX];

	(void)state;
	snprintf(text, sizeof text, "%063d.%063d.%063d.%040d.", 0, 0, 0, 0);
	assert_int_equal(dname_from_text(&world.config.zone, text), 0);
	assert_int_equal(world.config.zone.len, 234);
	snprintf(text, sizeof text, "db.default.svc.%063d.%063d.%063d.%040d.", 0, 0, 0, 0);
	assert_int_equal(ask(text, TYPE_SRV, 1232, true, 0), ANSWER_REPLY);
	ldns_pkt *pkt = read_again();
	assert_int_equal(ldns_pkt_ancount(pkt), 3); /* three of the seven have a host name */
	assert_int_equal(dname_from_text(&name, text), 0);
	for (unsigned i = 0; i < 3; i++) {
		const ldns_rr *rr = ldns_rr_list_rr(ldns_pkt_answer(pkt), i);

		/* the target is "h-0" and then the name in the query */
		assert_int_equal(ldns_rdf_size(ldns_rr_rdf(rr, 3)), name.len + 4);
	}
	ldns_pkt_free(pkt);
	world.config.zone = zone;
}

static void
a_set_that_is_too_large_for_udp_is_cut_on_a_record_border(void **state)
{
	(void)state;
	assert_int_equal(
	    ask("big.default.svc.cluster.local.", TYPE_A, 1232, false, 0), ANSWER_REPLY);
	ldns_pkt *pkt = read_again();
	assert_true(ldns_pkt_tc(pkt));
	assert_true(ldns_pkt_edns(pkt));
	assert_true(ldns_pkt_ancount(pkt) > 60);
	ldns_pkt_free(pkt);
}

/* A message has at most 65,535 bytes, and an A record needs 16 bytes. So TCP can carry 4,092 of the
 * 5,000 addresses. */
static void
a_set_that_is_too_large_for_tcp_is_cut_there_too(void **state)
{
	(void)state;
	assert_int_equal(ask("big.default.svc.cluster.local.", TYPE_A, 0, true, 0), ANSWER_REPLY);
	ldns_pkt *pkt = read_again();
	assert_true(ldns_pkt_tc(pkt));
	assert_in_range(ldns_pkt_ancount(pkt), 4080, 4095);
	ldns_pkt_free(pkt);
}

static void
every_address_of_a_large_set_comes_first_sometime(void **state)
{
	(void)state;
	static bool seen[65536];
	unsigned distinct = 0;

	for (uint32_t rotation = 0; rotation < BIG; rotation++) {
		ask("big.default.svc.cluster.local.", TYPE_A, 1232, false, rotation);
		const uint8_t *first = world.out + DNS_HEADER + world.info.query.question_len + 12;
		unsigned n = first[2] * 256u + first[3];
		distinct += !seen[n];
		seen[n] = true;
	}
	assert_int_equal(distinct, BIG);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_endpoint_that_has_a_name_answers_it_once),
		cmocka_unit_test(a_target_that_a_wildcard_finds_twice_brings_its_addresses_once),
		cmocka_unit_test(no_srv_record_comes_twice_and_none_is_left_out),
		cmocka_unit_test(a_target_that_is_longer_than_names_may_be_is_left_out),
		cmocka_unit_test(a_set_that_is_too_large_for_udp_is_cut_on_a_record_border),
		cmocka_unit_test(a_set_that_is_too_large_for_tcp_is_cut_there_too),
		cmocka_unit_test(every_address_of_a_large_set_comes_first_sometime),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
