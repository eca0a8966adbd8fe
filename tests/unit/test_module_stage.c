/* Which names the stage of a module gets. The stage of this test answers here.cluster.local. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "kubedns/answer/stage.h"
#include "tests/unit/answer_bed.h"

static const uint8_t label[] = "\4here", address[] = { 192, 0, 2, 7 };
static unsigned calls;

static uint64_t
lengths(const void *options)
{
	(void)options;
	return UINT64_C(1) << label[0];
}

static enum step
answer_here(struct lookup *l)
{
	calls++;
	if (l->below != 1 || memcmp(l->name.wire, label, sizeof label - 1) != 0)
		return STEP_NEXT;
	reply_existence(l->reply, FOUND, l->apex);
	reply_record(l->reply, l->owner, TYPE_A, 0, address, sizeof address);
	return STEP_DONE;
}

static const struct stage stage = {
	.lengths = lengths, .answer = answer_here, .sentence = "a test"
};

static int
begin(void **state)
{
	static const struct stage *const stages[] = { &stage, NULL };

	bed_begin(state);
	bed.config.module_stages = stages;
	stages_build(&bed.config);
	bed_service("alias", SERVICE_EXTERNALNAME, "here.cluster.local", "");
	bed_service("other", SERVICE_EXTERNALNAME, "gone.cluster.local", "");
	bed_publish();
	calls = 0;
	return 0;
}

static void
a_stage_answers_names_that_the_zone_does_not_have(void **state)
{
	(void)state;
	bed_expect("here", "A", "NOERROR A 192.0.2.7");
	bed_expect("gone", "A", "NXDOMAIN SOA of cluster.local.");
	bed_expect("alias.default.svc", "CNAME", "NOERROR CNAME here");
	assert_int_equal(calls, 2);
}

static void
a_name_whose_last_label_has_another_length_costs_no_call(void **state)
{
	(void)state;
	bed_expect("nowhere", "A", "NXDOMAIN SOA of cluster.local.");
	assert_int_equal(calls, 0);
}

static void
the_target_of_an_alias_reaches_the_stage(void **state)
{
	(void)state;
	bed_expect("alias.default.svc", "A", "NOERROR CNAME here, here: A 192.0.2.7");
	bed_expect("other.default.svc", "A", "NXDOMAIN CNAME gone SOA of cluster.local.");
}

/* --fallthrough applies to a target only if no stage has it. */
static void
a_target_that_no_stage_has_may_be_sent_to_other_servers(void **state)
{
	(void)state;
	bed.parts.upstream.fallthrough = &bed.config.zone;
	bed.parts.upstream.fallthrough_count = 1;
	bed_forwarding(true);
	bed_publish();
	bed_expect("other.default.svc", "A", "CHASE gone.cluster.local.");
	bed_expect("alias.default.svc", "A", "NOERROR CNAME here, here: A 192.0.2.7");
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, bed_end)
	const struct CMUnitTest tests[] = {
		TEST(a_stage_answers_names_that_the_zone_does_not_have),
		TEST(a_name_whose_last_label_has_another_length_costs_no_call),
		TEST(the_target_of_an_alias_reaches_the_stage),
		TEST(a_target_that_no_stage_has_may_be_sent_to_other_servers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
