/* The reason for a negative answer. A client that sends an OPT gets it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "kubedns/answer/reason.h"
#include "tests/unit/answer_bed.h"

/* The Services of the namespace default: web and db (db-0 is ready; db-1 and 10.1.0.3 are not). The
 * Services of prod: api, ghost (headless, no ready endpoint), empty (headless), elsewhere
 * (ExternalName). */
static int
begin(void **state)
{
	bed_begin(state);
	bed_service("web", SERVICE_CLUSTERIP, "10.96.0.1", "http/tcp/80");
	bed_service("db", SERVICE_HEADLESS, "", "sql/tcp/5432");
	bed_slice("db", "db-x", "sql/tcp/5432", "10.1.0.1=db-0 !10.1.0.2=db-1 !10.1.0.3");
	bed_namespace("prod");
	bed_service("api", SERVICE_CLUSTERIP, "10.96.0.2", "http/tcp/80");
	bed_service("ghost", SERVICE_HEADLESS, "", "");
	bed_slice("ghost", "ghost-x", "", "!10.1.0.7=ghost-0 !10.1.0.8=ghost-1");
	bed_service("empty", SERVICE_HEADLESS, "", "");
	bed_service("elsewhere", SERVICE_EXTERNALNAME, "www.example.com", "");
	bed_publish();
	return 0;
}

static const struct {
	const char *name, *type, *why;
} rows[] = {
	/* endpoints */
	{ "db-1.db.default.svc", "A", "0: db-1 is not ready" },
	{ "10-1-0-3.db.default.svc", "A", "0: 10-1-0-3 is not ready" },
	{ "db-7.db.default.svc", "A", "0: no endpoint db-7 in Service db" },
	{ "ghost-1.ghost.prod.svc", "A", "0: ghost-1 is not ready" },
	{ "ghost-2.ghost.prod.svc", "A", "0: no endpoint of Service ghost is ready (total: 2)" },
	{ "ghost.prod.svc", "A", "0: no endpoint of Service ghost is ready (total: 2)" },
	{ "_sql._tcp.ghost.prod.svc", "SRV",
	    "0: no endpoint of Service ghost is ready (total: 2)" },
	{ "empty.prod.svc", "A", "0: Service empty has no endpoints" },
	{ "_sqk._tcp.db.default.svc", "SRV",
	    "0: Service db has no port of this name and protocol" },
	{ "_http._udp.web.default.svc", "SRV",
	    "0: Service web has no port of this name and protocol" },
	{ "a.pin._zone.web.default.svc", "A",
	    "0: with --zonal, headless Services have names ZONE.pin._zone and ZONE.prefer._zone" },
	{ "x.web.default.svc", "A", "0: no endpoint x in Service web" },
	/* Services and namespaces */
	{ "api.default.svc", "A", "0: Service api is in namespace prod, not in default" },
	{ "api.prdo.svc", "A", "0: no namespace prdo; Service api is in namespace prod" },
	{ "wbe.default.svc", "A", "0: no Service wbe in namespace default" },
	{ "wbe.prdo.svc", "A",
	    "0: no namespace prdo: perhaps a search-list expansion of wbe.prdo" },
	{ "prdo.svc", "A", "0: no namespace prdo" },
	{ "db-0.dbx.default.svc", "A", "0: no Service dbx in namespace default" },
	/* a reason does not mention a name that no PTR record shows */
	{ "elsewhere.default.svc", "A", "0: no Service elsewhere in namespace default" },
	{ "ghost.default.svc", "A", "0: no Service ghost in namespace default" },
	/* search lists */
	{ "google.com.default.svc", "A",
	    "0: no Service com: a search-list expansion of google.com" },
	{ "www.google.com.svc", "A",
	    "0: no namespace com: a search-list expansion of www.google.com" },
	{ "google.com", "A", "0: no name com: a search-list expansion of google.com" },
	{ "web.default.svc.cluster.local.prod.svc", "A",
	    "0: no Service local: a search-list expansion of web.default.svc.cluster.local" },
	{ "api.prod.default.svc", "A", "0: no Service prod: a search-list expansion of api.prod" },
	/* short names */
	{ "api.prod", "A", "0: the label svc is missing: use api.prod.svc.cluster.local" },
	{ "api", "A", "0: no name api in cluster.local; Service api is in namespace prod" },
	{ "nothing", "A", "0: no name nothing in cluster.local" },
	{ "x.dns", "A", "0: no name x in cluster.local" },
	/* pods */
	{ "10-1-0-9.nowhere.pod", "A", "0: no namespace nowhere" },
	{ "db-0.default.pod", "A", "0: db-0 is not an address with dashes, such as 10-1-2-3" },
	{ "x.10-1-0-9.default.pod", "A", "0: no name exists below the name of a pod" },
	/* the name exists */
	{ "web.default.svc", "AAAA", "0: the name has IPv4 addresses only" },
	{ "db.default.svc", "AAAA", "0: the name has IPv4 addresses only" },
	{ "db-0.db.default.svc", "AAAA", "0: the name has IPv4 addresses only" },
	{ "10-1-0-9.default.pod", "AAAA", "0: the name has IPv4 addresses only" },
	{ "web.default.svc", "MX", "0: the name exists, but has no records of type MX" },
	{ "default.svc", "A", "0: the name has no records of its own" },
	/* the name has the records */
	{ "web.default.svc", "A", "" },
	{ "db.default.svc", "A", "" },
	/* the client chose these bytes */
	{ "a\\000b\\.c.default.svc", "A", "0: no Service a\\000b\\046c in namespace default" },
};

static void
a_negative_answer_says_why(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
		bed_expect_why(rows[i].name, rows[i].type, rows[i].why);
}

static void
a_query_without_an_opt_gets_nothing_more(void **state)
{
	(void)state;
	assert_string_equal(bed_why("db-1.db.default.svc", "A", 0), "");
	size_t len = bed.info.len;
	assert_string_not_equal(bed_why("db-1.db.default.svc", "A", 1232), "");
	assert_int_equal(bed.info.len, len + 11 + 6 + strlen("db-1 is not ready"));
}

static void
a_sentence_without_room_is_left_out_whole(void **state)
{
	char name[600];
	const char *a60 = "aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeeeffffffffff";

	(void)state;
	/* The name has three labels of 60 bytes. A sentence that repeats the labels is truncated. */
	snprintf(name, sizeof name, "%s.%s.%s.default.svc", a60, a60, a60);
	const char *why = bed_why(name, "A", 1232);
	assert_non_null(strstr(why, "no Service aaaaaaaaaa"));
	assert_true(strlen(why) <= 3 + REASON_TEXT_MAX);
	bed_why(name, "A", 512); /* the reply must fit into 512 bytes */
	assert_int_equal(bed.info.rcode, RCODE_NXDOMAIN);
	assert_false(bed.info.truncated);
}

static void
few_of_the_same_name_are_told_many_are_not(void **state)
{
	char address[16], namespaces[10][8];

	(void)state;
	for (unsigned i = 0; i < 10; i++) {
		snprintf(namespaces[i], sizeof namespaces[i], "t%u", 9 - i);
		snprintf(address, sizeof address, "10.97.0.%u", i);
		bed_namespace(namespaces[i]);
		bed_service("cache", SERVICE_CLUSTERIP, address, "");
		bed_publish();
		if (i == 0)
			bed_expect_why("cache.default.svc", "A",
			    "0: Service cache is in namespace t9, not in default");
		else if (i < REASON_OWNERS_MAX)
			assert_non_null(
			    strstr(bed_why("cache.default.svc", "A", 1232), " and others"));
		else
			bed_expect_why(
			    "cache.default.svc", "A", "0: no Service cache in namespace default");
	}
	bed_namespace("t0");
	for (unsigned i = 0; i < 6;
	     /* t9 to t4 are deleted. The reason names the lowest namespace, in whatever order they
	      * were added. */
	     i++) {
		bed.namespace = namespaces[i];
		bed_service_delete("cache");
	}
	bed_publish();
	bed_expect_why("cache.default.svc", "A",
	    "0: Service cache is in namespace t0 and others, not in default");
}

static void
a_member_among_too_many_that_are_not_ready_is_not_looked_for(void **state)
{
	static char endpoints[6000 * 32];
	size_t len = 0;

	(void)state;
	len += (size_t)snprintf(endpoints, sizeof endpoints, "10.9.9.9=big-ready");
	for (unsigned i = 0; i < 2 * REASON_ENDPOINTS_MAX; i++)
		len += (size_t)snprintf(endpoints + len, sizeof endpoints - len,
		    " !10.8.%u.%u=big-%u", i / 256, i % 256, i);
	bed_service("big", SERVICE_HEADLESS, "", "");
	bed_slice("big", "big-x", "", endpoints);
	bed_publish();
	bed_expect_why("big-3.big.prod.svc", "A", "0: big-3 is not ready");
	bed_expect_why(
	    "big-1000.big.prod.svc", "A", "0: no ready endpoint big-1000 in Service big");
}

static void
context(bool forwarding, int64_t stale_since_ns)
{
	struct answer_context *c = calloc(1, sizeof *c);

	c->forwarding = forwarding;
	c->stale_since_ns = stale_since_ns;
	treecache_context(bed.cache, c);
	bed_publish();
}

static void
while_the_api_is_away_each_answer_of_ours_says_how_old_it_is(void **state)
{
	(void)state;
	context(true, 1000000000);
	bed.now_ns = INT64_C(41000000000);
	bed_expect_why(
	    "web.default.svc", "A", "3: stale for 40 s: the Kubernetes API does not answer");
	bed_expect_why("db-1.db.default.svc", "A",
	    "0: db-1 is not ready; 19: stale for 40 s: the Kubernetes API does not answer");
	assert_string_equal(bed_why("web.default.svc", "A", 0), "");
	context(true, 0);
	bed_expect_why("web.default.svc", "A", "");
}

static void
a_refusal_says_why(void **state)
{
	(void)state;
	context(false, 0);
	bed_expect_why(
	    "example.com.", "A", "20: not in cluster.local, and kubedns has no upstream server");
	treecache_publish(bed.cache, 1700000001, false);
	bed_expect_why(
	    "web.default.svc", "A", "14: not synced yet: kubedns is still reading the cluster");
}

static void
pod_names_by_mode(void **state)
{
	(void)state;
	bed.parts.zone.pods = PODS_DISABLED;
	bed_expect_why("10-1-0-9.default.pod", "A", "0: pod names are disabled (--pods=disabled)");
	bed.parts.zone.pods = PODS_VERIFIED;
	bed_expect_why("10-1-0-9.default.pod", "A",
	    "0: no running pod in namespace default has the address 10-1-0-9");
}

static void
every_kind_has_a_sentence(void **state)
{
	char text[REASON_TEXT_MAX];
	struct dname zone;
	static const uint8_t wire[16] = "\1x";
	static const uint8_t offsets[1];
	const struct name name = { wire, offsets, 3, 1 };

	(void)state;
	dname_from_text(&zone, "cluster.local.");
	for (unsigned k = REASON_NONE + 1; k < REASON_SENTENCES; k++) {
		const struct reason reason = { .kind = k,
			.name = &name,
			.zone = &zone,
			.level = "Service",
			.qtype = TYPE_A,
			.text = "a mistake" };

		assert_true(reason_text(&reason, text) > 0);
		assert_null(strchr(text, '$'));
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_negative_answer_says_why, begin, bed_end),
		cmocka_unit_test_setup_teardown(
		    a_query_without_an_opt_gets_nothing_more, begin, bed_end),
		cmocka_unit_test_setup_teardown(
		    a_sentence_without_room_is_left_out_whole, begin, bed_end),
		cmocka_unit_test_setup_teardown(
		    few_of_the_same_name_are_told_many_are_not, begin, bed_end),
		cmocka_unit_test_setup_teardown(
		    a_member_among_too_many_that_are_not_ready_is_not_looked_for, begin, bed_end),
		cmocka_unit_test_setup_teardown(
		    while_the_api_is_away_each_answer_of_ours_says_how_old_it_is, begin, bed_end),
		cmocka_unit_test_setup_teardown(a_refusal_says_why, begin, bed_end),
		cmocka_unit_test_setup_teardown(pod_names_by_mode, begin, bed_end),
		cmocka_unit_test(every_kind_has_a_sentence),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
