/* What the core makes of the modules of a build. This test has modules of its own in place of the list. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "kubedns/cluster/tree_content.h"
#include "kubedns/config/module_set.h"

enum { MANY = 20 };

struct options {
	bool on;
};

static unsigned completed; /* number of calls of snapshot_complete() */

static uint64_t
lengths(const void *options)
{
	(void)options;
	return 1;
}

static bool
takes(const void *state, const struct answer_config *answers, const struct query *query,
    bool has_tsig)
{
	(void)state;
	(void)answers;
	(void)query;
	return has_tsig;
}

static int
check(void *options, const struct module_given *given, struct module_wants *wants)
{
	wants->enabled = ((struct options *)options)->on;
	wants->namespace_label = (struct namespace_label){ "kind", "special" };
	return given->zone == NULL ? -1 : 0;
}

static int
check_other(void *options, const struct module_given *given, struct module_wants *wants)
{
	(void)given;
	wants->enabled = ((struct options *)options)->on;
	wants->messages = true;
	return 0;
}

static void *
open_module(const void *options, struct module_core *core)
{
	(void)core;
	return (void *)(uintptr_t)options; /* any pointer */
}

static void
snapshot_complete(void *state)
{
	assert_non_null(state);
	completed++;
}

#define STAGE                                                                                      \
	{                                                                                          \
		.lengths = lengths, .sentence = "a test"                                           \
	}
static const struct stage stages[] = { STAGE, STAGE, STAGE };
static struct stage many_stages[MANY];
static const struct message_handler messages = { .takes = takes };
static const struct module first = { .name = "first",
	.options_size = sizeof(struct options),
	.check = check,
	.stages = stages,
	.stage_count = 3,
	.counters = 2,
	.messages = &messages,
	.open = open_module };
static const struct module second = { .name = "second",
	.options_size = sizeof(struct options),
	.check = check_other,
	.stages = many_stages,
	.stage_count = MANY,
	.counters = 1000,
	.messages = &messages,
	.open = open_module,
	.snapshot_complete = snapshot_complete };
static const struct module never = { .name = "never", .stages = stages, .stage_count = 3 };

const struct module *const modules_built_in[] = { &first, &second, &never, NULL };
const struct flag modules_absent_flags[] = { { .name = NULL } };

static struct module_set set;
static struct answer_config config;

/* Enables the first and the second module, or one of them. */
static void
begin(bool first_on, bool second_on)
{
	static const struct flag none = { .name = NULL };
	static const struct dname zone = { 1, "" };
	const struct module_given given = { .zone = &zone };

	for (size_t i = 0; i < MANY; i++)
		many_stages[i] = (struct stage)STAGE;
	completed = 0;
	config = (struct answer_config){ 0 };
	modules_init(&set, &none);
	((struct options *)set.instances[0].options)->on = first_on;
	((struct options *)set.instances[1].options)->on = second_on;
	assert_int_equal(modules_check(&set, &given), 0);
	modules_add_answers(&set, &config);
}

static size_t
length(const struct stage *const *list)
{
	size_t n = 0;

	while (list[n] != NULL)
		n++;
	return n;
}

static void
the_numbers_of_modules_stages_and_counters_have_no_limit(void **state)
{
	(void)state;
	begin(true, true);
	assert_int_equal(length(config.module_stages), 3 + MANY);
	assert_int_equal(set.counters, 1002);
	assert_ptr_equal(config.handlers[1]->takes, takes);
	assert_null(config.handlers[2]);
	assert_true(set.wants.messages);
	assert_string_equal(set.wants.namespace_label.key, "kind");
	modules_free(&set);
}

static void
a_stage_gets_what_the_core_has_for_its_module(void **state)
{
	struct module_core core = { 0 };

	(void)state;
	begin(true, true);
	const struct stage *last = config.module_stages[2 + MANY];
	assert_ptr_equal(config.module_stages[2]->options, set.instances[0].options);
	assert_int_equal(config.module_stages[2]->namespace_flag, NODE_LABELLED);
	assert_int_equal(config.module_stages[2]->order, ORDER_MISSING);
	assert_ptr_equal(last->options, set.instances[1].options);
	assert_int_equal(last->first_counter, 2);
	assert_null(last->state);
	modules_open(&set, &core);
	assert_ptr_equal(last->state, set.instances[1].state);
	assert_ptr_equal(config.handlers[1]->state, set.instances[1].state);
	modules_stopped(&set);
	modules_free(&set);
}

static void
a_module_that_is_not_enabled_adds_nothing(void **state)
{
	struct module_core core = { 0 };

	(void)state;
	begin(false, true);
	assert_int_equal(length(config.module_stages), MANY);
	assert_int_equal(config.module_stages[0]->first_counter, 0);
	assert_null(config.handlers[1]);
	assert_null(set.wants.namespace_label.key);
	modules_free(&set);
	begin(true, false);
	assert_int_equal(set.counters, 2);
	assert_false(set.wants.messages);
	modules_open(&set, &core);
	assert_false(modules_take_snapshots(&set));
	modules_snapshot_complete(&set);
	assert_int_equal(completed, 0);
	modules_stopped(&set);
	modules_free(&set);
}

static void
only_open_modules_get_snapshots(void **state)
{
	struct module_core core = { 0 };

	(void)state;
	begin(true, true);
	assert_false(modules_take_snapshots(&set));
	modules_open(&set, &core);
	assert_true(modules_take_snapshots(&set));
	modules_snapshot_complete(&set);
	assert_int_equal(completed, 1);
	modules_stopped(&set);
	modules_snapshot_complete(&set);
	assert_int_equal(completed, 1);
	modules_free(&set);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_numbers_of_modules_stages_and_counters_have_no_limit),
		cmocka_unit_test(a_stage_gets_what_the_core_has_for_its_module),
		cmocka_unit_test(a_module_that_is_not_enabled_adds_nothing),
		cmocka_unit_test(only_open_modules_get_snapshots),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
