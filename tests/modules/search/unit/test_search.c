/* Search completion: the server goes through the search list of a pod. The search list is declared
 * in the name (X.<namespace>.s), or inferred from the first NXDOMAIN of a pod with default
 * settings. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "kubedns/modules/search/search.h"
#include "tests/modules/search/search_parts.h"
#include "tests/unit/answer_bed.h"

/* Returns how the last query was completed. */
static const struct search_progress *
walk(void)
{
	static const struct search_progress none;

	return bed.info.claim.owner == &search_copy ? (const void *)bed.info.claim.block : &none;
}

/*
 * The namespace default has the Services web, db (headless, one ready endpoint, one that is not
 * ready), out (an alias of www.example.com) and gone (an alias of a Service that does not exist).
 * The namespace prod has web and api. The namespace off disables search completion.
 */
static int
begin(void **state)
{
	bed_begin(state);
	search_options = (struct search_options){ 0 };
	bed.config.module_stages = search_stages(false);
	stages_build(&bed.config);
	bed_service("web", SERVICE_CLUSTERIP, "10.96.0.1", "http/tcp/80");
	bed_service("db", SERVICE_HEADLESS, NULL, "sql/tcp/5432");
	bed_slice("db", "db-1", "sql/tcp/5432", "10.1.0.1=db-0 !10.1.0.2=db-1");
	bed_service("out", SERVICE_EXTERNALNAME, "www.example.com", "");
	bed_service("gone", SERVICE_EXTERNALNAME, "nothing.default.svc.cluster.local", "");
	bed_namespace("prod");
	bed_service("web", SERVICE_CLUSTERIP, "10.96.1.1", "http/tcp/80");
	bed_service("api", SERVICE_CLUSTERIP, "10.96.1.2", "http/tcp/80");
	bed_namespace_labelled("off", true);
	bed_publish();
	return 0;
}

static void
inferred(void)
{
	search_options.inferred = true;
	stages_build(&bed.config);
}

static void
extras(const char *first, const char *second)
{
	search_options.extra_count = 0;
	search_add_extra(first);
	if (second != NULL)
		search_add_extra(second);
}

static void
expect_told(const char *rcode, const char *answer, const char *authority, const char *want)
{
	const char *got = bed_told(rcode, answer, authority);

	if (strcmp(got, want) != 0)
		fail_msg(
		    "told %s:\n  %s\nwant\n  %s", rcode == NULL ? "nothing" : rcode, got, want);
}

/* Returns the TTL of the first record of the reply. This record is the CNAME of the name in the
 * query. */
static uint32_t
alias_ttl(void)
{
	size_t at = DNS_HEADER + (size_t)bed.info.query.question_len;

	assert_int_equal(wire_get16(bed.out + at + 2), TYPE_CNAME);
	return wire_get32(bed.out + at + 6);
}

/* --- declared --- */

static void
the_first_candidate_that_exists_answers(void **state)
{
	(void)state;
	bed_expect(
	    "web.default.s", "A", "NOERROR CNAME web.default.svc, web.default.svc: A 10.96.0.1");
	bed_expect(
	    "web.prod.default.s", "A", "NOERROR CNAME web.prod.svc, web.prod.svc: A 10.96.1.1");
	bed_expect(
	    "web.prod.svc.default.s", "A", "NOERROR CNAME web.prod.svc, web.prod.svc: A 10.96.1.1");
	bed_expect("web.prod.svc.cluster.local.default.s", "A",
	    "NOERROR CNAME web.prod.svc, web.prod.svc: A 10.96.1.1");
	/* The name does not mean the Service in another namespace. */
	bed_expect("api.default.s", "A", "CHASE api.");
	bed_expect("api.prod.s", "A", "NOERROR CNAME api.prod.svc, api.prod.svc: A 10.96.1.2");
	assert_int_equal(walk()->form, SEARCH_DECLARED);
}

static void
existence_does_not_depend_on_the_type(void **state)
{
	(void)state;
	bed_expect("web.default.s", "AAAA", "NOERROR CNAME web.default.svc SOA of cluster.local.");
	bed_expect("web.default.s", "TXT", "NOERROR CNAME web.default.svc SOA of cluster.local.");
	/* The name of a namespace is an empty non-terminal. It exists, so the search ends. */
	bed_expect("prod.default.s", "A", "NOERROR CNAME prod.svc SOA of cluster.local.");
	bed_expect(
	    "cluster.local.default.s", "A", "NOERROR CNAME cluster.local. SOA of cluster.local.");
}

static void
other_types_and_kinds_of_names_are_completed_too(void **state)
{
	(void)state;
	bed_expect("_http._tcp.web.default.s", "SRV",
	    "NOERROR CNAME _http._tcp.web.default.svc, "
	    "_http._tcp.web.default.svc: SRV 0 100 80 web.default.svc "
	    "+ web.default.svc: A 10.96.0.1");
	bed_expect("db.default.s", "A", "NOERROR CNAME db.default.svc, db.default.svc: A 10.1.0.1");
	bed_expect("db-0.db.default.s", "A",
	    "NOERROR CNAME db-0.db.default.svc, db-0.db.default.svc: A 10.1.0.1");
	bed_expect("_sql._tcp.db.default.s", "SRV",
	    "NOERROR CNAME _sql._tcp.db.default.svc, "
	    "_sql._tcp.db.default.svc: SRV 0 100 5432 db-0.db.default.svc "
	    "+ db-0.db.default.svc: A 10.1.0.1");
	bed_expect("10-1-0-9.default.pod.default.s", "A",
	    "NOERROR 10-1-0-9.default.pod: A 10.1.0.9, CNAME 10-1-0-9.default.pod");
	bed_expect("web.default.s", "CNAME", "NOERROR CNAME web.default.svc");
	bed_expect("web.default.s", "ANY", "NOERROR CNAME web.default.svc");
	bed_expect("1.0.96.10.in-addr.arpa.default.s", "PTR",
	    "NOERROR 1.0.96.10.in-addr.arpa.: PTR web.default.svc, "
	    "CNAME 1.0.96.10.in-addr.arpa.");
	bed_service("twin", SERVICE_CLUSTERIP, "10.96.1.1", "");
	bed_publish();
	bed_expect("1.1.96.10.in-addr.arpa.default.s", "PTR",
	    "NOERROR 1.1.96.10.in-addr.arpa.: PTR twin.off.svc, "
	    "1.1.96.10.in-addr.arpa.: PTR web.prod.svc, CNAME 1.1.96.10.in-addr.arpa.");
}

static void
an_alias_that_is_found_is_followed(void **state)
{
	(void)state;
	bed_expect("out.default.s", "A", "CHASE www.example.com.");
	expect_told("NOERROR", "www.example.com. 7 A 192.0.2.1", "",
	    "NOERROR CNAME out.default.svc, out.default.svc: CNAME www.example.com., "
	    "www.example.com.: A 192.0.2.1");
	assert_int_equal(alias_ttl(), 7);
	/* An alias exists even if its target does not. The negative result is the answer. */
	bed_ask("out.default.s", "A");
	expect_told("NXDOMAIN", "", "",
	    "NXDOMAIN CNAME out.default.svc, out.default.svc: CNAME www.example.com.");
	bed_expect("gone.default.s", "A",
	    "NXDOMAIN CNAME gone.default.svc, gone.default.svc: CNAME nothing.default.svc "
	    "SOA of cluster.local.");
}

static void
outside_candidates_are_asked_in_order(void **state)
{
	(void)state;
	extras("corp.example.", "lab.example.");
	bed_expect("git.default.s", "A", "CHASE git.corp.example.");
	expect_told("NXDOMAIN", "", "", "CHASE git.lab.example.");
	expect_told("NXDOMAIN", "", "", "CHASE git.");
	expect_told("NXDOMAIN", "", "", "NXDOMAIN SOA of cluster.local.");
	bed_ask("git.default.s", "A");
	expect_told("NXDOMAIN", "", "", "CHASE git.lab.example.");
	expect_told("NOERROR", "git.lab.example. 60 A 192.0.2.7", "",
	    "NOERROR CNAME git.lab.example., git.lab.example.: A 192.0.2.7");
	assert_int_equal(walk()->form, SEARCH_DECLARED);
	bed_expect("www.example.com.default.s", "MX", "CHASE www.example.com.corp.example.");
	expect_told("NXDOMAIN", "", "", "CHASE www.example.com.lab.example.");
	expect_told("NXDOMAIN", "", "", "CHASE www.example.com.");
	expect_told("NOERROR", "www.example.com. 60 MX 10 mail.example.com.", "",
	    "NOERROR CNAME www.example.com., www.example.com.: MX 10 mail.example.com.");
}

/* Names in the RDATA of another server's records are decompressed. */
static void
names_in_records_of_other_servers_stay_whole(void **state)
{
	static const struct {
		const char *type, *record, *want;
	} rows[] = {
		{ "MX", "a.example. 60 MX 10 a.example.", "MX 10 a.example." },
		{ "SRV", "a.example. 60 SRV 1 2 3 a.example.", "SRV 1 2 3 a.example." },
		{ "NS", "a.example. 60 NS a.example.", "NS a.example." },
		{ "SOA", "a.example. 60 SOA a.example. a.example. 1 2 3 4 5",
		    "SOA a.example. a.example. 1 2 3 4 5" },
		{ "TXT", "a.example. 60 TXT \"words\"", "TXT \"words\"" },
	};
	char want[256];

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		bed_expect("a.example.default.s", rows[i].type, "CHASE a.example.");
		snprintf(
		    want, sizeof want, "NOERROR CNAME a.example., a.example.: %s", rows[i].want);
		expect_told("NOERROR", rows[i].record, "", want);
	}
}

static void
one_failure_before_a_hit_is_a_failure(void **state)
{
	(void)state;
	extras("corp.example.", NULL);
	bed_ask("git.default.s", "A");
	expect_told("SERVFAIL", "", "", "SERVFAIL");
	bed_ask("git.default.s", "A");
	expect_told(NULL, "", "", "SERVFAIL");
	bed_ask("git.default.s", "A");
	expect_told("NXDOMAIN", "", "", "CHASE git.");
	expect_told("REFUSED", "", "", "SERVFAIL");
	bed_ask("git.default.s", "A");
	expect_told("NXDOMAIN", "", "", "CHASE git.");
	expect_told(NULL, "", "", "SERVFAIL");
}

static void
an_empty_answer_ends_the_walk_with_the_denial(void **state)
{
	(void)state;
	extras("corp.example.", NULL);
	bed_ask("git.default.s", "AAAA");
	expect_told("NOERROR", "",
	    "corp.example. 900 SOA ns.corp.example. h.corp.example. 1 2 3 4 20",
	    "NOERROR CNAME git.corp.example. SOA of corp.example.");
	assert_int_equal(alias_ttl(), 20);
}

static void
the_alias_lives_no_longer_than_the_chain_and_30_s(void **state)
{
	(void)state;
	bed_ask("www.example.com.default.s", "A");
	expect_told("NOERROR", "www.example.com. 3600 A 192.0.2.1", "",
	    "NOERROR CNAME www.example.com., www.example.com.: A 192.0.2.1");
	assert_int_equal(alias_ttl(), 30);
	bed_ask("www.example.com.default.s", "A");
	bed_told("NOERROR",
	    "www.example.com. 3600 CNAME www.example.net.\nwww.example.net. 3 A 192.0.2.1", "");
	assert_int_equal(alias_ttl(), 3);
	bed.config.ttl_s = 10;
	bed_ask("db.default.s", "A"); /* records of a headless Service have a short TTL */
	assert_int_equal(alias_ttl(), 10);
	bed_ask("web.default.s", "AAAA"); /* the answer is NODATA with the TTL of the SOA */
	assert_int_equal(alias_ttl(), 5);
}

static void
nothing_found_lives_no_longer_than_any_denial(void **state)
{
	(void)state;
	bed.config.negative_ttl_s = 20;
	bed_ask("x.default.s", "A");
	expect_told("NXDOMAIN", "", ". 7 SOA a. b. 1 2 3 4 900", "NXDOMAIN SOA of cluster.local.");
	size_t soa = DNS_HEADER + (size_t)bed.info.query.question_len;
	assert_int_equal(wire_get16(bed.out + soa + 2), TYPE_SOA);
	assert_int_equal(wire_get32(bed.out + soa + 6), 7);
	/* This name is about to exist, so the answer must not be cached. */
	bed_ask("db-1.db.default.s", "A");
	expect_told("NXDOMAIN", "", ". 7 SOA a. b. 1 2 3 4 900", "NXDOMAIN SOA of cluster.local.");
	soa = DNS_HEADER + (size_t)bed.info.query.question_len;
	assert_int_equal(wire_get32(bed.out + soa + 6), 0);
}

/* RFC 8020: if there are names below a name, it exists. */
static void
s_and_the_namespaces_below_it_are_empty_names(void **state)
{
	(void)state;
	bed_expect("s", "A", "NOERROR SOA of cluster.local.");
	bed_expect("default.s", "A", "NOERROR SOA of cluster.local.");
	bed_expect("nowhere.s", "A", "NOERROR SOA of cluster.local.");
	assert_int_equal(walk()->form, SEARCH_NONE);
	/* The namespace of the pod may not be known yet. */
	bed_expect("web.nowhere.s", "A", "CHASE web.");
}

static void
a_walk_is_never_part_of_a_walk(void **state)
{
	(void)state;
	bed_expect("web.default.s.default.s", "A", "CHASE web.default.s.");
	bed_expect("web.default.s.cluster.local.default.s", "A", "NXDOMAIN SOA of cluster.local.");
	bed_namespace("default");
	bed_service("turn", SERVICE_EXTERNALNAME, "turn.default.s.cluster.local", "");
	bed_publish();
	bed_expect("turn.default.s", "A",
	    "NXDOMAIN CNAME turn.default.svc, turn.default.svc: CNAME turn.default.s "
	    "SOA of cluster.local.");
}

static void
without_a_forwarder_an_unknown_name_is_refused(void **state)
{
	(void)state;
	bed_forwarding(false);
	bed_publish();
	bed_expect("www.example.com.default.s", "A", "REFUSED");
	bed_expect(
	    "web.default.s", "A", "NOERROR CNAME web.default.svc, web.default.svc: A 10.96.0.1");
	bed.parts.upstream.search_resolver = true; /* kubedns may now query dnsmasq */
	bed_expect("www.example.com.default.s", "A", "CHASE www.example.com.");
}

/* The name in the query has 255 bytes, the maximum. The first candidate has "svc" in place of "s",
 * so it would have 257 bytes. A longer domain has no candidate either. */
static void
candidates_that_are_too_long_do_not_exist(void **state)
{
	char x[240], name[300], want[300];

	(void)state;
	extras("a-domain-that-is-longer.corp.example.", "e.");
	memset(x, 'a', sizeof x);
	x[57] = x[115] = x[173] = '.';
	x[229] = '\0';
	snprintf(name, sizeof name, "%s.default.s.cluster.local.", x);
	snprintf(want, sizeof want, "CHASE %s.e.", x);
	bed_expect(name, "A", want);
	snprintf(want, sizeof want, "CHASE %s.", x);
	expect_told("NXDOMAIN", "", "", want);
	expect_told("NXDOMAIN", "", "", "NXDOMAIN SOA of cluster.local.");
}

static void
a_service_that_appears_during_the_walk_answers(void **state)
{
	(void)state;
	extras("corp.example.", NULL);
	bed_expect("late.default.s", "A", "CHASE late.corp.example.");
	expect_told("NXDOMAIN", "", "", "CHASE late.");
	bed_namespace("default");
	bed_service("late", SERVICE_CLUSTERIP, "10.96.0.9", "http/tcp/80");
	bed_publish();
	expect_told(
	    "NXDOMAIN", "", "", "NOERROR CNAME late.default.svc, late.default.svc: A 10.96.0.9");
}

/* Other servers have denied the first candidate. Then a local zone contains it. */
static void
a_candidate_that_becomes_local_during_the_walk_hides_no_later_one(void **state)
{
	(void)state;
	extras("lab.example.", "corp.example.");
	bed_expect("git.default.s", "A", "CHASE git.lab.example.");
	expect_told("NXDOMAIN", "", "", "CHASE git.corp.example.");
	bed_records("lab.example. SOA a. b. 1 2 3 4 5", "", "");
	bed_publish();
	expect_told("NXDOMAIN", "", "", "CHASE git.");
}

static void
filtered_types_are_denied_at_the_last_step_alone(void **state)
{
	struct answer_context *context = calloc(1, sizeof *context);

	(void)state;
	context->forwarding = context->filter_aaaa = true;
	treecache_context(bed.cache, context);
	bed_publish();
	extras("corp.example.", NULL);
	bed_expect("git.default.s", "AAAA", "CHASE git.corp.example.");
	search_options.extra_count = 0;
	bed_expect("www.example.com.default.s", "AAAA",
	    "NOERROR CNAME www.example.com. SOA of www.example.com.");
	assert_true(bed.info.filtered);
}

/* --- inferred --- */

static void
inferred_is_off_by_default(void **state)
{
	(void)state;
	bed_expect("www.example.com.default.svc", "A", "NXDOMAIN SOA of cluster.local.");
	assert_int_equal(walk()->form, SEARCH_NONE);
}

static void
the_rest_of_a_stock_pods_walk_is_done_at_once(void **state)
{
	(void)state;
	inferred();
	bed_expect("www.example.com.default.svc", "A", "CHASE www.example.com.");
	expect_told("NOERROR", "www.example.com. 60 A 192.0.2.1", "",
	    "NOERROR CNAME www.example.com., www.example.com.: A 192.0.2.1");
	assert_int_equal(walk()->form, SEARCH_INFERRED);
	bed_expect(
	    "web.prod.default.svc", "A", "NOERROR CNAME web.prod.svc, web.prod.svc: A 10.96.1.1");
	bed_expect(
	    "web.prod.svc.default.svc", "AAAA", "NOERROR CNAME web.prod.svc SOA of cluster.local.");
	bed_expect("web.prod.svc.cluster.local.default.svc", "A",
	    "NOERROR CNAME web.prod.svc, web.prod.svc: A 10.96.1.1");
}

static void
nothing_found_is_the_first_steps_denial(void **state)
{
	(void)state;
	inferred();
	bed_ask("nothing.example.default.svc", "A");
	expect_told("NXDOMAIN", "", ". 1 SOA a. b. 1 2 3 4 1", "NXDOMAIN SOA of cluster.local.");
	size_t soa = DNS_HEADER + (size_t)bed.info.query.question_len;
	assert_int_equal(wire_get32(bed.out + soa + 6), 5); /* --negative-ttl */
	bed_ask("nothing.example.default.svc", "A");
	expect_told(NULL, "", "", "SERVFAIL");
}

static void
what_is_not_a_lookup_of_a_stock_pod_is_left_alone(void **state)
{
	static const struct {
		const char *name, *type;
		enum search_refusal refusal;
	} rows[] = {
		{ "www.example.com.default.svc", "SRV", SEARCH_TYPE },
		{ "www.example.com.default.svc", "TXT", SEARCH_TYPE },
		{ "wbe.default.svc", "A", SEARCH_ONE_LABEL },
		{ "_ldap._tcp.example.com.default.svc", "A", SEARCH_UNDERSCORE },
		{ "www._x.com.default.svc", "A", SEARCH_UNDERSCORE },
		{ "www.example.com.nowhere.svc", "A", SEARCH_NO_NAMESPACE },
		{ "www.example.com.off.svc", "A", SEARCH_OPTED_OUT },
		{ "db-1.db.default.svc", "A", SEARCH_SERVICE }, /* not ready yet */
		{ "x.web.default.svc", "A", SEARCH_SERVICE },
		{ "a.b.web.default.svc", "AAAA", SEARCH_SERVICE },
	};

	(void)state;
	inferred();
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		bed_expect(rows[i].name, rows[i].type, "NXDOMAIN SOA of cluster.local.");
		assert_int_equal(walk()->form, SEARCH_REFUSED);
		assert_int_equal(walk()->refusal, rows[i].refusal);
	}
	bed_expect("nowhere.svc", "A", "NXDOMAIN SOA of cluster.local.");
	assert_int_equal(walk()->form, SEARCH_NONE);
	bed_forwarding(false);
	bed_publish();
	bed_expect("www.example.com.default.svc", "A", "NXDOMAIN SOA of cluster.local.");
	assert_int_equal(walk()->refusal, SEARCH_NO_RESOLVER);
}

static void
a_service_without_ready_endpoints_is_not_walked_past(void **state)
{
	(void)state;
	inferred();
	bed_namespace("default");
	bed_service("idle", SERVICE_HEADLESS, NULL, "");
	bed_publish();
	bed_expect("pod-0.idle.default.svc", "A", "NXDOMAIN SOA of cluster.local.");
	assert_int_equal(walk()->refusal, SEARCH_SERVICE);
}

/* --fallthrough: other servers may know a candidate in our zones, so the candidate is sent to them. */
static void
names_that_fall_through_are_asked_of_others(void **state)
{
	struct dname zone;

	(void)state;
	inferred();
	assert_int_equal(dname_from_text(&zone, "cluster.local."), 0);
	bed.parts.upstream.fallthrough = &zone;
	bed.parts.upstream.fallthrough_count = 1;
	bed_expect("old.default.s", "A", "CHASE old.default.svc.cluster.local.");
	expect_told("NXDOMAIN", "", "", "CHASE old.svc.cluster.local.");
	expect_told("NXDOMAIN", "", "", "CHASE old.cluster.local.");
	expect_told("NOERROR", "old.cluster.local. 60 A 192.0.2.9", "",
	    "NOERROR CNAME old, old: A 192.0.2.9");
	bed_ask("old.default.s", "A");
	bed_told("NXDOMAIN", "", "");
	bed_told("NXDOMAIN", "", "");
	expect_told("NXDOMAIN", "", "", "CHASE old.");
	expect_told("NXDOMAIN", "", "", "NXDOMAIN SOA of cluster.local.");
	bed_expect("www.example.com.default.svc", "A", "FORWARD");
	assert_int_equal(walk()->refusal, SEARCH_FALLS_THROUGH);
	/* Names below `s` are never sent to other servers, because they would start another search. */
	bed_expect(
	    "web.default.s.default.s", "A", "CHASE web.default.s.default.svc.cluster.local.");
	bed_told("NXDOMAIN", "", "");
	expect_told("NXDOMAIN", "", "", "CHASE web.default.s.");
}

#define LABEL_OF_63 "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"

static void
a_candidate_whose_replacement_is_no_name_stays_as_it_is(void **state)
{
	(void)state;
	bed_context("regex ([^.]+)\\.old svc-{1}.new", "null");
	bed_publish();
	bed_expect("web.old.default.s", "A", "CHASE svc-web.new.");
	bed_expect(LABEL_OF_63 ".old.default.s", "A", "CHASE " LABEL_OF_63 ".old.");
	expect_told("NOERROR", LABEL_OF_63 ".old. 60 A 192.0.2.7", "",
	    "NOERROR CNAME " LABEL_OF_63 ".old., " LABEL_OF_63 ".old.: A 192.0.2.7");
}

/* The limit applies to all candidates of a query together. There are up to twelve. */
static void
after_a_pattern_at_its_bound_a_walk_tries_no_patterns(void **state)
{
#define MANY_A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	(void)state;
	/* The name in the query has no `svc`, so only its candidates reach the limit of the
	 * pattern. */
	bed_context("regex (?=.*\\.svc\\.)(a|aa)+[xy].* b\n"
		    "regex (a+|b+) late.example\nsuffix " MANY_A " named.example",
	    "null");
	bed_publish();
	bed_expect("bb.default.s", "A", "CHASE late.example.");
	assert_false(bed.info.rewrite_limit);
	bed_expect(MANY_A ".default.s", "A", "CHASE named.example.");
	assert_true(bed.info.rewrite_limit);
	bed_expect("a" MANY_A ".default.s", "A", "CHASE a" MANY_A ".");
	assert_true(bed.info.rewrite_limit);
}

static void
a_namespace_may_change_its_mind(void **state)
{
	(void)state;
	inferred();
	bed_expect("web.prod.off.svc", "A", "NXDOMAIN SOA of cluster.local.");
	bed_namespace_labelled("off", false);
	bed_publish();
	bed_expect(
	    "web.prod.off.svc", "A", "NOERROR CNAME web.prod.svc, web.prod.svc: A 10.96.1.1");
	bed_namespace_labelled("off", true);
	bed_publish();
	bed_expect("web.prod.off.svc", "A", "NXDOMAIN SOA of cluster.local.");
	/* In the declared form, the pod itself requests the search list. */
	bed_expect("web.prod.off.s", "A", "NOERROR CNAME web.prod.svc, web.prod.svc: A 10.96.1.1");
}

/* --- replies of other servers that cannot be read --- */

/* The search list ends with this answer to its last name. Returns the length of the reply. */
static size_t
reply_to(uint16_t type, const uint8_t *upstream, size_t upstream_len)
{
	uint8_t query[512];
	struct dname name;
	const struct upstream_reply said = { .wire = upstream, .len = upstream_len };
	struct answer_request request = { .config = &bed.config,
		.tree = tree_current(bed.cache),
		.query = query,
		.out = bed.out,
		.max = DNS_UDP_PAYLOAD };

	dname_from_text(&name, "www.example.com.default.s.cluster.local.");
	request.query_len =
	    query_write(query, sizeof query, 77, name.wire, type, CLASS_IN, DNS_UDP_PAYLOAD);
	assert_int_equal(answer(&request, &bed.info), ANSWER_CHASE);
	return answer_chased(&request, &said, &bed.info);
}

/* If the SOA of the empty answer cannot be read, the result is the same as without a SOA. */
static void
a_denial_that_cannot_be_read_leaves_nothing_behind(void **state)
{
	static const uint8_t soa[] = { 0, 0, TYPE_SOA, 0, CLASS_IN, 0, 0, 0, 60, 0, 22, 0xc0,
		0xff /* a forward pointer */ };
	uint8_t upstream[512] = { 0 }, without[DNS_UDP_PAYLOAD];
	struct dname name;

	(void)state;
	dname_from_text(&name, "www.example.com.");
	size_t len = query_write(upstream, sizeof upstream, 1, name.wire, TYPE_AAAA, CLASS_IN, 0);
	wire_put16(upstream + 2, 0x8180);
	size_t less = reply_to(TYPE_AAAA, upstream, len);
	assert_true(less > DNS_HEADER && less <= sizeof without);
	memcpy(without, bed.out, less);
	wire_put16(upstream + 8, 1);
	memcpy(upstream + len, soa, sizeof soa);
	assert_int_equal(reply_to(TYPE_AAAA, upstream, len + sizeof soa + 20), less);
	assert_memory_equal(bed.out, without, less);
}

/* If one record of an answer cannot be read, no record is passed on. */
static void
an_answer_that_cannot_be_read_is_a_failure(void **state)
{
	static const uint8_t mx[] = { 0xc0, DNS_HEADER, 0, TYPE_MX, 0, CLASS_IN, 0, 0, 0, 60, 0, 4,
		0, 10, 0xc0, 0xff /* a forward pointer */ };
	uint8_t upstream[512];
	struct dname name;

	(void)state;
	dname_from_text(&name, "www.example.com.");
	size_t len = query_write(upstream, sizeof upstream, 1, name.wire, TYPE_MX, CLASS_IN, 0);
	wire_put16(upstream + 2, 0x8180);
	wire_put16(upstream + 6, 1);
	memcpy(upstream + len, mx, sizeof mx);
	reply_to(TYPE_MX, upstream, len + sizeof mx);
	assert_int_equal(bed.out[3] & 15, RCODE_SERVFAIL);
	assert_false(bed.info.truncated);
	assert_int_equal(wire_get16(bed.out + 6), 0);
}

int
main(void)
{
#define ROW(name) cmocka_unit_test_setup_teardown(name, begin, bed_end)
	const struct CMUnitTest tests[] = {
		ROW(the_first_candidate_that_exists_answers),
		ROW(existence_does_not_depend_on_the_type),
		ROW(other_types_and_kinds_of_names_are_completed_too),
		ROW(an_alias_that_is_found_is_followed),
		ROW(outside_candidates_are_asked_in_order),
		ROW(names_in_records_of_other_servers_stay_whole),
		ROW(one_failure_before_a_hit_is_a_failure),
		ROW(an_empty_answer_ends_the_walk_with_the_denial),
		ROW(the_alias_lives_no_longer_than_the_chain_and_30_s),
		ROW(nothing_found_lives_no_longer_than_any_denial),
		ROW(s_and_the_namespaces_below_it_are_empty_names),
		ROW(a_walk_is_never_part_of_a_walk),
		ROW(without_a_forwarder_an_unknown_name_is_refused),
		ROW(candidates_that_are_too_long_do_not_exist),
		ROW(a_service_that_appears_during_the_walk_answers),
		ROW(a_candidate_that_becomes_local_during_the_walk_hides_no_later_one),
		ROW(filtered_types_are_denied_at_the_last_step_alone),
		ROW(inferred_is_off_by_default),
		ROW(the_rest_of_a_stock_pods_walk_is_done_at_once),
		ROW(nothing_found_is_the_first_steps_denial),
		ROW(what_is_not_a_lookup_of_a_stock_pod_is_left_alone),
		ROW(a_service_without_ready_endpoints_is_not_walked_past),
		ROW(names_that_fall_through_are_asked_of_others),
		ROW(a_candidate_whose_replacement_is_no_name_stays_as_it_is),
		ROW(after_a_pattern_at_its_bound_a_walk_tries_no_patterns),
		ROW(a_namespace_may_change_its_mind),
		ROW(a_denial_that_cannot_be_read_leaves_nothing_behind),
		ROW(an_answer_that_cannot_be_read_is_a_failure),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
