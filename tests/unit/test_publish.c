/* What readers see after an iteration of the main thread, with which serial, and when replaced
 * nodes are freed. */
#include "lib/clock.h"
#include "tests/unit/main_thread.h"

#include <stdio.h>

#include "kubedns/answer/answer.h"

enum { MANY = 3000 /* so many Services that their replaced nodes exceed 256 KiB */ };

static int
begin(void **state)
{
	*state = main_thread_new(NULL, false);
	return 0;
}

static void
many_services(struct kubedns *k, enum event_type type, unsigned net)
{
	char name[16], address[ADDR_TEXT_MAX];

	for (unsigned i = 0; i < MANY; i++) {
		snprintf(name, sizeof name, "s%u", i);
		snprintf(address, sizeof address, "10.%u.%u.%u", net, i / 250, i % 250 + 1);
		service_event(k, type, name, address);
	}
}

/* --- what readers see --- */

static void
before_the_first_sync_readers_get_settings_and_no_names(void **state)
{
	struct kubedns *k = *state;

	assert_int_equal(iterate(k), 1);
	assert_non_null(seen(k).context);
	assert_false(seen(k).synced);
	service_event(k, EVENT_ADDED, "web", "10.96.0.1");
	assert_int_equal(iterate(k), 0);
	assert_false(readers_see(k, "web.shop.svc"));

	config_map_event(k, EVENT_ADDED, "hosts", "10.0.0.1 db.example");
	assert_int_equal(iterate(k), 1);
	assert_non_null(((const struct answer_context *)seen(k).context)->names);
	assert_false(seen(k).synced);
}

static void
the_first_sync_shows_all_that_came_before_it(void **state)
{
	struct kubedns *k = *state;

	iterate(k);
	service_event(k, EVENT_ADDED, "web", "10.96.0.1");
	iterate(k);
	k->status.synced = true;
	assert_int_equal(iterate(k), 1);
	assert_true(seen(k).synced);
	assert_true(readers_see(k, "web.shop.svc"));
}

static void
a_sync_that_takes_too_long_is_noted_and_waited_for(void **state)
{
	struct kubedns *k = *state;

	iterate(k);
	assert_false(k->status.sync_timed_out);
	k->started_ms -= k->options.source.initial_sync_timeout_ms + 1;
	iterate(k);
	assert_true(k->status.sync_timed_out);
	assert_false(seen(k).synced);
}

static void
all_changes_of_a_turn_are_one_publish(void **state)
{
	struct kubedns *k = *state;

	service_event(k, EVENT_ADDED, "a", "10.96.0.1");
	service_event(k, EVENT_ADDED, "b", "10.96.0.2");
	config_map_event(k, EVENT_ADDED, "hosts", "10.0.0.1 db.example");
	assert_false(readers_see(k, "a.shop.svc"));
	assert_null(((const struct answer_context *)seen(k).context)->names);
	assert_int_equal(iterate(k), 1);
	assert_true(readers_see(k, "a.shop.svc"));
	assert_true(readers_see(k, "b.shop.svc"));
	assert_non_null(((const struct answer_context *)seen(k).context)->names);
}

static void
a_turn_without_a_change_publishes_nothing(void **state)
{
	struct kubedns *k = *state;

	service_event(k, EVENT_ADDED, "web", "10.96.0.1");
	iterate(k);
	int64_t published_ms = k->published_ms;
	const struct node *root = seen(k).root;
	assert_int_equal(iterate(k), 0);
	/* The same Service is listed again. */
	event_sink_take(k, OBJECT_SERVICE, EVENT_LISTING, NULL);
	service_event(k, EVENT_ADDED, "web", "10.96.0.1");
	event_sink_take(k, OBJECT_SERVICE, EVENT_SYNCED, NULL);
	assert_int_equal(iterate(k), 0);
	assert_int_equal(k->published_ms, published_ms);
	assert_ptr_equal(seen(k).root, root);
}

/* Readers use the number of a namespace in the tree to find its lists. */
static void
the_table_of_visibility_comes_with_its_namespaces(void **state)
{
	(void)state;
	struct kubedns *k = main_thread_new(NULL, true);

	k->status.synced = true;
	namespace_event(k, EVENT_ADDED, "shop");
	assert_int_equal(iterate(k), 1);
	const struct visibility *first = k->status.visibility;
	assert_non_null(first);
	assert_ptr_equal(((const struct answer_context *)seen(k).context)->visibility, first);
	namespace_event(k, EVENT_ADDED, "team");
	assert_int_equal(iterate(k), 1);
	assert_ptr_not_equal(k->status.visibility, first);
	assert_ptr_equal(
	    ((const struct answer_context *)seen(k).context)->visibility, k->status.visibility);
	main_thread_free(k);
}

/* --- the serial --- */

static void
the_serial_is_the_unix_time_of_the_change(void **state)
{
	struct kubedns *k = *state;

	service_event(k, EVENT_ADDED, "web", "10.96.0.1");
	uint32_t before = (uint32_t)clock_wall_s();
	iterate(k);
	assert_in_range(seen(k).serial, before, (uint32_t)clock_wall_s());
}

/* For a secondary, a lower serial means an older zone. */
static void
a_clock_that_is_set_back_does_not_set_the_serial_back(void **state)
{
	struct kubedns *k = *state;

	enum { HOUR_S = 3600 };

	iterate(k);
	/* This is as if the clock had been an hour ahead until now. */
	k->wall_ahead_ns += HOUR_S * NS_PER_S;
	service_event(k, EVENT_ADDED, "web", "10.96.0.1");
	iterate(k);
	uint32_t now_s = (uint32_t)clock_wall_s();
	assert_in_range(seen(k).serial, now_s + HOUR_S - 2, now_s + HOUR_S + 1);
}

/* --- freeing --- */

static void
a_few_replaced_nodes_wait_for_a_quiet_second(void **state)
{
	struct kubedns *k = *state;

	service_event(k, EVENT_ADDED, "web", "10.96.0.1");
	iterate(k);
	service_event(k, EVENT_MODIFIED, "web", "10.96.0.2");
	iterate(k);
	assert_true(treecache_garbage(k->cache) > 0);
	assert_int_equal(reclaim_due_ms(k), k->published_ms + 1000);
	reclaim_when_quiet(k);
	assert_true(treecache_garbage(k->cache) > 0);

	k->published_ms -= 1000;
	assert_true(reclaim_due_ms(k) <= clock_mono_ms());
	reclaim_when_quiet(k);
	assert_int_equal(treecache_garbage(k->cache), 0);
	assert_int_equal(reclaim_due_ms(k), CLOCK_NEVER);
}

static void
many_replaced_nodes_are_freed_at_once(void **state)
{
	struct kubedns *k = *state;

	many_services(k, EVENT_ADDED, 96);
	iterate(k);
	many_services(k, EVENT_MODIFIED, 97);
	assert_int_equal(iterate(k), 1);
	assert_int_equal(treecache_garbage(k->cache), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
		    before_the_first_sync_readers_get_settings_and_no_names, begin,
		    main_thread_end),
		cmocka_unit_test_setup_teardown(
		    the_first_sync_shows_all_that_came_before_it, begin, main_thread_end),
		cmocka_unit_test_setup_teardown(
		    a_sync_that_takes_too_long_is_noted_and_waited_for, begin, main_thread_end),
		cmocka_unit_test_setup_teardown(all_changes_of_a_turn_are_one_publish,
		    main_thread_begin_synced, main_thread_end),
		cmocka_unit_test_setup_teardown(a_turn_without_a_change_publishes_nothing,
		    main_thread_begin_synced, main_thread_end),
		cmocka_unit_test(the_table_of_visibility_comes_with_its_namespaces),
		cmocka_unit_test_setup_teardown(the_serial_is_the_unix_time_of_the_change,
		    main_thread_begin_synced, main_thread_end),
		cmocka_unit_test_setup_teardown(
		    a_clock_that_is_set_back_does_not_set_the_serial_back, main_thread_begin_synced,
		    main_thread_end),
		cmocka_unit_test_setup_teardown(a_few_replaced_nodes_wait_for_a_quiet_second,
		    main_thread_begin_synced, main_thread_end),
		cmocka_unit_test_setup_teardown(many_replaced_nodes_are_freed_at_once,
		    main_thread_begin_synced, main_thread_end),
	};

	rcu_join();
	int rc = cmocka_run_group_tests(tests, NULL, NULL);
	rcu_part();
	return rc;
}
