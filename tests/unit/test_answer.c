/*
 * ldns, which shares no code with us, parses every message that we write. The tests also send every
 * kind of message that an attacker can send.
 */
#include "kubedns/answer/message.h"
#include "tests/unit/answer_world.h"

enum { RANDOM_PACKETS = 100000 };

static const char *const names[] = { "cluster.local.", "ns.dns.cluster.local.",
	"dns-version.cluster.local.", "web.default.svc.cluster.local.",
	"_http._tcp.web.default.svc.cluster.local.", "db.default.svc.cluster.local.",
	"_http._tcp.db.default.svc.cluster.local.", "h-3.db.default.svc.cluster.local.",
	"10-1-0-1.db.default.svc.cluster.local.", "big.default.svc.cluster.local.",
	"_http._tcp.big.default.svc.cluster.local.", "in.default.svc.cluster.local.",
	"out.default.svc.cluster.local.", "nothing.default.svc.cluster.local.",
	"1-2-3-4.default.pod.cluster.local.", "1-2-3-4.x.pod.cluster.local.",
	"1.0.96.10.in-addr.arpa.", "3.0.1.10.in-addr.arpa.", "example.com.", "." };
static const uint16_t types[] = { TYPE_A, TYPE_AAAA, TYPE_SRV, TYPE_PTR, TYPE_SOA, TYPE_NS,
	TYPE_TXT, TYPE_CNAME, TYPE_HTTPS, TYPE_CAA, TYPE_DS, TYPE_HINFO, TYPE_ANY, TYPE_AXFR };
static const uint16_t sizes[] = { 0, 512, 700, 1232, 4096 };

static void
ldns_reads_every_message_and_none_is_longer_than_the_client_takes(void **state)
{
	(void)state;
	unsigned replies = 0;

	for (size_t n = 0; n < sizeof names / sizeof names[0]; n++)
		for (size_t t = 0; t < sizeof types / sizeof types[0]; t++)
			for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++)
				for (unsigned tcp = 0; tcp < 2; tcp++) {
					enum answer_outcome outcome = ask(names[n], types[t],
					    sizes[s], tcp > 0, (uint32_t)(n + t));

					if (outcome == ANSWER_FORWARD)
						continue;
					size_t limit = sizes[s] < 512    ? 512
						       : sizes[s] > 1232 ? 1232
									 : sizes[s];
					assert_true(world.info.len <= (tcp ? 65535 : limit));
					ldns_pkt *pkt = read_again();
					assert_int_equal(ldns_pkt_edns(pkt), sizes[s] > 0);
					assert_int_equal(ldns_pkt_tc(pkt), world.info.truncated);
					ldns_pkt_free(pkt);
					replies++;
				}
	assert_true(replies > 2000);
}

static void
a_query_cut_at_every_length_is_formerr_or_nothing(void **state)
{
	(void)state;
	struct dname name;
	uint8_t query[512];

	dname_from_text(&name, "web.default.svc.cluster.local.");
	size_t len = query_write(query, sizeof query, 77, name.wire, TYPE_A, CLASS_IN, 1232);
	for (size_t cut = 0; cut < len; cut++) {
		/* The buffer has the exact size, so a sanitizer detects overreads. */
		uint8_t *copy = malloc(cut + 1);

		memcpy(copy, query, cut);
		enum answer_outcome outcome = ask_wire(copy, cut, false, 0);
		if (cut < DNS_HEADER)
			assert_int_equal(outcome, ANSWER_DROP);
		else
			assert_int_equal(world.info.rcode, RCODE_FORMERR);
		free(copy);
	}
}

static void
a_compression_loop_in_the_question_is_formerr(void **state)
{
	(void)state;
	uint8_t query[] = { 0, 77, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0xc0, 12, 0, 1, 0, 1 };

	assert_int_equal(ask_wire(query, sizeof query, false, 0), ANSWER_REPLY);
	assert_int_equal(world.info.rcode, RCODE_FORMERR);
}

static void
a_padded_query_of_4096_bytes_is_answered(void **state)
{
	(void)state;
	struct dname name;
	uint8_t query[4096] = { 0 };

	dname_from_text(&name, "web.default.svc.cluster.local.");
	size_t len = query_write(query, sizeof query, 77, name.wire, TYPE_A, CLASS_IN, 1232);
	wire_put16(query + len - 2, (unsigned)(sizeof query - len));
	wire_put16(query + len, 12); /* padding, RFC 7830 */
	wire_put16(query + len + 2, (unsigned)(sizeof query - len - 4));
	assert_int_equal(ask_wire(query, sizeof query, false, 0), ANSWER_REPLY);
	ldns_pkt *pkt = read_again();
	assert_int_equal(ldns_pkt_ancount(pkt), 1);
	ldns_pkt_free(pkt);
}

static void
random_and_mutated_packets_get_replies_that_ldns_reads(void **state)
{
	(void)state;
	uint32_t random = 1;

	for (unsigned n = 0; n < 2 * RANDOM_PACKETS; n++) {
		uint8_t query[600];
		size_t len;

		if (n < RANDOM_PACKETS) {
			len = (random = random * 1664525u + 1013904223u) >> 23;
			for (size_t i = 0; i < len; i++)
				query[i] =
				    (uint8_t)((random = random * 1664525u + 1013904223u) >> 24);
		} else {
			struct dname name;

			dname_from_text(&name, names[n % (sizeof names / sizeof names[0])]);
			len = query_write(query, sizeof query, 77, name.wire, types[n % 13],
			    CLASS_IN, n % 3 ? 1232 : 0);
			for (unsigned m = 0; m <= n % 4; m++) {
				random = random * 1664525u + 1013904223u;
				query[(random >> 8) % len] = (uint8_t)(random >> 24);
			}
		}
		enum answer_outcome outcome = ask_wire(query, len, n % 2, n);
		if (outcome != ANSWER_REPLY)
			continue;
		ldns_pkt *pkt = NULL;
		assert_true(world.info.len >= DNS_HEADER);
		assert_int_equal(ldns_wire2pkt(&pkt, world.out, world.info.len), LDNS_STATUS_OK);
		ldns_pkt_free(pkt);
	}
}

static unsigned offered; /* number of calls of takes() */

/* The module of this test takes IXFR, and TXT queries with a TSIG. */
static bool
takes(const void *state, const struct answer_config *answers, const struct query *query,
    bool has_tsig)
{
	assert_ptr_equal(state, &world);
	assert_ptr_equal(answers, &world.config);
	offered++;
	return query->qtype == TYPE_IXFR || (has_tsig && query->qtype == TYPE_TXT);
}

static enum answer_outcome
ask_with_tsig(uint16_t type, bool has_tsig)
{
	static const uint8_t tsig[] = { 0, 0, TYPE_TSIG, 0, CLASS_ANY, 0, 0, 0, 0, 0, 0 };
	struct dname name;
	uint8_t query[512];

	dname_from_text(&name, "web.default.svc.cluster.local.");
	size_t len = query_write(query, sizeof query, 77, name.wire, type, CLASS_IN, 0);
	memcpy(query + len, tsig, sizeof tsig);
	wire_put16(query + 10, has_tsig);
	return ask_wire(query, has_tsig ? len + sizeof tsig : len, false, 0);
}

static void
a_module_takes_refused_queries_and_queries_with_a_tsig_and_no_others(void **state)
{
	(void)state;
	const struct message_handler handler = { .takes = takes, .state = &world };
	const struct message_handler *const handlers[] = { &handler, NULL };

	assert_int_equal(ask_with_tsig(TYPE_IXFR, false), ANSWER_REPLY);
	assert_int_equal(world.info.rcode, RCODE_REFUSED);
	world.config.handlers = handlers;
	assert_int_equal(ask_with_tsig(TYPE_IXFR, false), ANSWER_MODULE);
	assert_ptr_equal(world.info.handler, &handler);
	assert_int_equal(ask_with_tsig(TYPE_IXFR, true), ANSWER_MODULE);
	assert_int_equal(ask_with_tsig(TYPE_TXT, true), ANSWER_MODULE);
	assert_int_equal(world.info.below, -1); /* the query has no name that the stages look up */
	assert_int_equal(offered, 3);           /* once for each query */
	assert_int_equal(ask_with_tsig(TYPE_TXT, false), ANSWER_REPLY);
	assert_null(world.info.handler);
	assert_int_equal(world.info.rcode, RCODE_NOERROR);
	assert_int_equal(ask_with_tsig(TYPE_A, true), ANSWER_REPLY);
	assert_int_equal(world.info.rcode, RCODE_NOERROR);
	assert_int_equal(ask_with_tsig(TYPE_AXFR, false), ANSWER_REPLY);
	assert_int_equal(world.info.rcode, RCODE_REFUSED);
	world.config.handlers = NULL;
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ldns_reads_every_message_and_none_is_longer_than_the_client_takes),
		cmocka_unit_test(a_query_cut_at_every_length_is_formerr_or_nothing),
		cmocka_unit_test(a_compression_loop_in_the_question_is_formerr),
		cmocka_unit_test(a_padded_query_of_4096_bytes_is_answered),
		cmocka_unit_test(
		    a_module_takes_refused_queries_and_queries_with_a_tsig_and_no_others),
		cmocka_unit_test(random_and_mutated_packets_get_replies_that_ldns_reads),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
