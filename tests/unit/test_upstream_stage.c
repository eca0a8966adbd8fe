/* --filter-aaaa and --filter-a: queries for external names that kubedns answers itself, and the
 * answers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <ldns/ldns.h>

#include "kubedns/answer/upstream_stage.h"
#include "tests/unit/answer_bed.h"

static void
filter(bool a, bool aaaa)
{
	struct answer_context *context = calloc(1, sizeof *context);

	context->forwarding = true;
	context->filter_a = a;
	context->filter_aaaa = aaaa;
	treecache_context(bed.cache, context);
	bed_publish();
}

static void
aaaa_of_outside_names_is_nodata_and_nothing_else_is_touched(void **state)
{
	(void)state;
	filter(false, true);
	bed_expect("www.example.com.", "AAAA", "NOERROR SOA of www.example.com.");
	assert_true(bed.info.filtered);
	assert_int_equal(bed.info.system, SYSTEM_RECURSIVE);
	static const char *const passed[] = { "A", "HTTPS", "SVCB", "MX", "TXT", "ANY", "CNAME" };
	for (size_t i = 0; i < sizeof passed / sizeof passed[0]; i++) {
		bed_expect("www.example.com.", passed[i], "FORWARD");
		assert_false(bed.info.filtered);
	}
	bed_expect("4.3.2.1.in-addr.arpa.", "PTR", "FORWARD");
}

static void
a_of_outside_names_the_other_way_round(void **state)
{
	(void)state;
	filter(true, false);
	bed_expect("www.example.com.", "A", "NOERROR SOA of www.example.com.");
	bed_expect("www.example.com.", "AAAA", "FORWARD");
}

static void
off_nothing_is_denied(void **state)
{
	(void)state;
	filter(false, false);
	bed_expect("www.example.com.", "AAAA", "FORWARD");
	bed_expect("www.example.com.", "A", "FORWARD");
}

/* The filter does not apply to names in our zone. Their records are in the tree. */
static void
cluster_names_keep_their_addresses(void **state)
{
	(void)state;
	bed_service("six", SERVICE_CLUSTERIP, "fd00::1", "http/tcp/80");
	filter(false, true);
	bed_expect("six.default.svc", "AAAA", "NOERROR AAAA fd00::1");
	assert_false(bed.info.filtered);
	bed_expect("six.default.svc", "A", "NOERROR SOA of cluster.local.");
	bed_expect("none.default.svc", "AAAA", "NXDOMAIN SOA of cluster.local.");
}

/* The alias itself is ours and is returned. Its target is an external name. */
static void
alias_that_leads_outside_is_said_and_its_target_denied(void **state)
{
	(void)state;
	bed_service("out", SERVICE_EXTERNALNAME, "www.example.net", "");
	bed_service("twice", SERVICE_EXTERNALNAME, "out.default.svc.cluster.local", "");
	filter(false, true);
	bed_expect(
	    "out.default.svc", "AAAA", "NOERROR CNAME www.example.net. SOA of www.example.net.");
	bed_expect("twice.default.svc", "AAAA",
	    "NOERROR CNAME out.default.svc, out.default.svc: CNAME www.example.net. SOA of "
	    "www.example.net.");
	bed_expect("out.default.svc", "A", "CHASE www.example.net.");
}

static void
zones_that_are_excepted_are_asked(void **state)
{
	static struct dname zones[2];

	(void)state;
	assert_int_equal(dname_from_text(&zones[0], "v6.example.com"), 0);
	assert_int_equal(dname_from_text(&zones[1], "example.org"), 0);
	bed.parts.upstream.filter_except = zones;
	bed.parts.upstream.filter_except_count = 2;
	bed_service("out", SERVICE_EXTERNALNAME, "www.example.org", "");
	filter(false, true);
	bed_expect("v6.example.com.", "AAAA", "FORWARD");
	bed_expect("a.b.v6.example.com.", "AAAA", "FORWARD");
	bed_expect("example.org.", "AAAA", "FORWARD");
	bed_expect("out.default.svc", "AAAA", "CHASE www.example.org.");
	bed_expect("xv6.example.com.", "AAAA", "NOERROR SOA of xv6.example.com.");
	bed_expect("example.com.", "AAAA", "NOERROR SOA of example.com.");
}

static void
excepted_zone_is_that_of_the_name_that_others_are_asked_for(void **state)
{
	static struct dname zone;

	(void)state;
	assert_int_equal(dname_from_text(&zone, "v6.example.com"), 0);
	bed.parts.upstream.filter_except = &zone;
	bed.parts.upstream.filter_except_count = 1;
	bed_context("exact in.example a.v6.example.com\nexact out.v6.example.com b.example", "null")
	    ->filter_aaaa = true;
	bed_publish();
	bed_expect("in.example.", "AAAA", "CHASE a.v6.example.com.");
	bed_expect("out.v6.example.com.", "AAAA", "NOERROR SOA of out.v6.example.com.");
}

/* Sends one query over UDP with EDNS. The bytes of the reply are in bed.out. */
static enum answer_outcome
ask_edns(const char *text, uint16_t type, bool with_do)
{
	uint8_t query[512];
	struct dname name;
	struct answer_request request = { .config = &bed.config,
		.tree = tree_current(bed.cache),
		.query = query,
		.out = bed.out,
		.max = DNS_UDP_PAYLOAD };

	assert_int_equal(dname_from_text(&name, text), 0);
	request.query_len = query_write(query, sizeof query, 7, name.wire, type, CLASS_IN, 1232);
	if (with_do)
		query[request.query_len - 4] |= 0x80;
	return answer(&request, &bed.info);
}

/* The answer has the extended error 17. It may be cached for --ttl. It is not authoritative. */
static void
denial_says_that_it_was_filtered(void **state)
{
	ldns_pkt *pkt = NULL;

	(void)state;
	filter(false, true);
	assert_int_equal(ask_edns("www.example.com", TYPE_AAAA, false), ANSWER_REPLY);
	assert_int_equal(ldns_wire2pkt(&pkt, bed.out, bed.info.len), LDNS_STATUS_OK);
	assert_false(ldns_pkt_aa(pkt));
	assert_true(ldns_pkt_ra(pkt));
	const ldns_rdf *edns = ldns_pkt_edns_data(pkt);
	static const char filtered[] = "\0\17\0\20\0\21filtered: AAAA";
	assert_int_equal(ldns_rdf_size(edns), sizeof filtered - 1);
	assert_memory_equal(ldns_rdf_data(edns), filtered, sizeof filtered - 1);
	ldns_rr *soa = ldns_rr_list_rr(ldns_pkt_authority(pkt), 0);
	assert_int_equal(ldns_rr_ttl(soa), 30);
	assert_int_equal(ldns_rdf2native_int32(ldns_rr_rdf(soa, 6)), 30);
	ldns_pkt_free(pkt);
}

static void
query_with_do_is_asked_for_its_sender_would_miss_the_signature(void **state)
{
	(void)state;
	filter(false, true);
	assert_int_equal(ask_edns("www.example.com", TYPE_AAAA, true), ANSWER_FORWARD);
}

/* The store always knows whether any object has an address of a family. */
static void
families_of_the_cluster_come_and_go(void **state)
{
	(void)state;
	assert_false(store_has_family(bed.store, AF_INET));
	assert_false(store_has_family(bed.store, AF_INET6));
	bed_service("web", SERVICE_CLUSTERIP, "10.96.0.1", "");
	assert_true(store_has_family(bed.store, AF_INET));
	bed_service("web", SERVICE_CLUSTERIP, "fd00::1", "");
	assert_false(store_has_family(bed.store, AF_INET));
	assert_true(store_has_family(bed.store, AF_INET6));
	bed_service("web", SERVICE_HEADLESS, NULL, "");
	assert_false(store_has_family(bed.store, AF_INET6));
	bed_slice("web", "web-1", "", "fd00::2 !fd00::3");
	bed_slice("web", "web-2", "", "10.1.0.1");
	assert_true(store_has_family(bed.store, AF_INET));
	assert_true(store_has_family(bed.store, AF_INET6));
	bed_slice("web", "web-1", "", "10.1.0.2");
	assert_false(store_has_family(bed.store, AF_INET6));
	bed_slice("web", "web-1", "", "!fd00::2");
	assert_true(store_has_family(bed.store, AF_INET6));
	struct object gone = { .kind = OBJECT_SLICES,
		.namespace = "default",
		.name = "web-1",
		.resource_version = "2" };
	store_event(bed.store, OBJECT_SLICES, EVENT_DELETED, &gone);
	assert_false(store_has_family(bed.store, AF_INET6));
	assert_true(store_has_family(bed.store, AF_INET));
}

/* Other servers may know the name, as with an external name. So the answer is not NXDOMAIN. */
static void
name_that_falls_through_is_filtered_as_an_outside_name(void **state)
{
	struct dname zone;
	ldns_pkt *pkt = NULL;

	(void)state;
	filter(false, true);
	assert_int_equal(dname_from_text(&zone, "cluster.local."), 0);
	bed.parts.upstream.fallthrough = &zone;
	bed.parts.upstream.fallthrough_count = 1;
	bed_expect("none.default.svc", "AAAA", "NOERROR SOA of none.default.svc");
	assert_true(bed.info.filtered);
	assert_false(bed.info.fell_through);
	bed_expect_why("none.default.svc", "AAAA", "17: filtered: AAAA");
	assert_int_equal(ldns_wire2pkt(&pkt, bed.out, bed.info.len), LDNS_STATUS_OK);
	assert_int_equal(ldns_pkt_nscount(pkt), 1);
	assert_false(ldns_pkt_aa(pkt));
	ldns_pkt_free(pkt);
	bed_expect("none.default.svc", "A", "FORWARD");
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, bed_begin, bed_end)
	const struct CMUnitTest tests[] = {
		TEST(aaaa_of_outside_names_is_nodata_and_nothing_else_is_touched),
		TEST(a_of_outside_names_the_other_way_round),
		TEST(off_nothing_is_denied),
		TEST(cluster_names_keep_their_addresses),
		TEST(alias_that_leads_outside_is_said_and_its_target_denied),
		TEST(zones_that_are_excepted_are_asked),
		TEST(excepted_zone_is_that_of_the_name_that_others_are_asked_for),
		TEST(denial_says_that_it_was_filtered),
		TEST(query_with_do_is_asked_for_its_sender_would_miss_the_signature),
		TEST(name_that_falls_through_is_filtered_as_an_outside_name),
		TEST(families_of_the_cluster_come_and_go),
	};
#undef TEST

	return cmocka_run_group_tests(tests, NULL, NULL);
}
