/*
 * A stage that tries several names for a query, also at other servers (struct claim in answer.h). The stage of
 * this test answers NAME.try in the zone: it tries c0.example and then c1.example.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "kubedns/answer/stage.h"
#include "kubedns/serve/observe/stats.h"
#include "tests/unit/answer_bed.h"

enum { TRIED_MAX = 2, TTL_S = 30, FIRST_COUNTER = 3, COUNTERS = 2 };

struct tried {
	unsigned denied;
	uint32_t ttl_s;
};

static unsigned finished; /* number of calls of finish() */

static uint64_t
lengths(const void *options)
{
	return UINT64_C(1) << *(const uint8_t *)options;
}

static enum step
answer_try(struct lookup *l)
{
	const uint8_t *label = l->stage->options;

	if (memcmp(l->name.wire + l->name.offsets[l->below - 1], label, *label + 1u) != 0)
		return STEP_NEXT;
	struct tried *tried = stage_claim(l);
	if (tried->denied == TRIED_MAX) {
		reply_negative(l->reply, NXDOMAIN, l->apex, tried->ttl_s);
		return STEP_DONE;
	}
	struct dname *target = &l->info->target;
	dname_from_text(target, tried->denied == 0 ? "c0.example." : "c1.example.");
	reply_record(l->reply, DNS_HEADER, TYPE_CNAME, TTL_S, target->wire, target->len);
	reply_existence(l->reply, FOUND, 0);
	l->info->claim.candidate = true;
	l->info->claim.last = tried->denied == TRIED_MAX - 1;
	l->asked = false;
	return STEP_OTHERS;
}

static void
denied(void *block, uint32_t ttl_s)
{
	struct tried *tried = block;

	tried->ttl_s = tried->denied++ == 0 || ttl_s < tried->ttl_s ? ttl_s : tried->ttl_s;
}

static void
finish(struct reply *reply)
{
	(void)reply;
	finished++;
}

static void
replied(const struct answer_info *info, uint64_t *counters)
{
	stage_add(&counters[info->rcode == RCODE_NOERROR]);
}

static const uint8_t label[] = "\3try";
static const struct stage stage = { .lengths = lengths,
	.answer = answer_try,
	.denied = denied,
	.finish = finish,
	.replied = replied,
	.sentence = "a test",
	.options = label,
	.first_counter = FIRST_COUNTER };

static int
begin(void **state)
{
	static const struct stage *const stages[] = { &stage, NULL };

	bed_begin(state);
	bed.config.module_stages = stages;
	stages_build(&bed.config);
	finished = 0;
	return 0;
}

static void
expect_told(const char *rcode, const char *answer, const char *authority, const char *want)
{
	assert_string_equal(bed_told(rcode, answer, authority), want);
}

static void
the_first_candidate_that_another_server_has_answers(void **state)
{
	(void)state;
	for (unsigned again = 0; again < 2; again++) { /* a new query has a new block */
		bed_expect("web.try", "A", "CHASE c0.example.");
		expect_told("NXDOMAIN", "", "", "CHASE c1.example.");
		expect_told("NOERROR", "c1.example. 60 IN A 192.0.2.1", "",
		    "NOERROR CNAME c1.example., c1.example.: A 192.0.2.1");
		assert_int_equal(finished, again + 1);
	}
}

static void
a_candidate_that_failed_ends_the_walk(void **state)
{
	(void)state;
	bed_expect("web.try", "A", "CHASE c0.example.");
	expect_told(NULL, "", "", "SERVFAIL");
	bed_expect("web.try", "A", "CHASE c0.example.");
	expect_told("REFUSED", "", "", "SERVFAIL");
	assert_int_equal(finished, 0);
}

static void
the_stage_learns_how_long_a_denial_may_be_kept(void **state)
{
	(void)state;
	bed_expect("web.try", "A", "CHASE c0.example.");
	expect_told("NXDOMAIN", "", "example. 60 IN SOA ns.example. host.example. 1 2 3 4 7",
	    "CHASE c1.example.");
	expect_told("NXDOMAIN", "", "", "NXDOMAIN SOA of cluster.local.");
	assert_int_equal(wire_get32(bed.out + bed.info.len - 4), 7);
}

static void
only_the_last_candidate_is_filtered(void **state)
{
	struct answer_context *context = calloc(1, sizeof *context);

	(void)state;
	context->forwarding = context->filter_a = true;
	treecache_context(bed.cache, context);
	bed_publish();
	bed_expect("web.try", "A", "CHASE c0.example.");
	assert_int_equal(finished, 0);
	bed_told("NXDOMAIN", "", "");
	assert_true(bed.info.filtered);
	assert_true(finished > 0);
}

static void
a_query_that_no_stage_has_claimed_belongs_to_nobody(void **state)
{
	(void)state;
	bed_expect("web.try", "A", "CHASE c0.example.");
	assert_ptr_equal(bed.info.claim.stage, &stage);
	bed_expect("web.tri", "A", "NXDOMAIN SOA of cluster.local.");
	assert_null(bed.info.claim.stage);
	assert_null(bed.info.claim.owner);
	bed_expect("www.example.com.", "A", "FORWARD");
	assert_null(bed.info.claim.owner);
}

/* The stage's counters begin with its first one. Replies to other queries are not counted there. */
static void
the_stage_counts_the_replies_to_its_queries(void **state)
{
	struct stats *stats =
	    calloc(1, sizeof *stats + (FIRST_COUNTER + COUNTERS) * sizeof(uint64_t));

	(void)state;
	bed_expect("web.try", "A", "CHASE c0.example.");
	bed_told("NOERROR", "c0.example. 60 IN A 192.0.2.1", "");
	stats_reply(stats, PROTO_UDP, &bed.info, bed.info.len);
	bed_expect("web.try", "A", "CHASE c0.example.");
	bed_told(NULL, "", "");
	stats_reply(stats, PROTO_UDP, &bed.info, bed.info.len);
	bed_ask("other", "A");
	stats_reply(stats, PROTO_UDP, &bed.info, bed.info.len);
	for (unsigned i = 0; i < FIRST_COUNTER; i++)
		assert_int_equal(stats->modules[i], 0);
	assert_int_equal(stats->modules[FIRST_COUNTER], 1);
	assert_int_equal(stats->modules[FIRST_COUNTER + 1], 1);
	free(stats);
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, bed_end)
	const struct CMUnitTest tests[] = {
		TEST(the_first_candidate_that_another_server_has_answers),
		TEST(a_candidate_that_failed_ends_the_walk),
		TEST(the_stage_learns_how_long_a_denial_may_be_kept),
		TEST(only_the_last_candidate_is_filtered),
		TEST(a_query_that_no_stage_has_claimed_belongs_to_nobody),
		TEST(the_stage_counts_the_replies_to_its_queries),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
