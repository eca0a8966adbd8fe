/* The module that handles each event: the store, the settings, the list of wanted namespaces, or
 * the hosts of namespaces. The tests also check what the next iteration publishes. */
#include "tests/unit/main_thread.h"

#include "kubedns/answer/answer.h"

/* --- objects --- */

static void
a_service_goes_to_the_store_and_changes_no_settings(void **state)
{
	struct kubedns *k = *state;
	const struct answer_context *before = context(k);

	service_event(k, EVENT_ADDED, "web", "10.96.0.1");
	assert_int_equal(store_count(k->status.store, OBJECT_SERVICE), 1);
	assert_int_equal(iterate(k), 1);
	assert_true(readers_see(k, "web.shop.svc"));
	assert_ptr_equal(context(k), before);

	service_event(k, EVENT_DELETED, "web", "10.96.0.1");
	assert_int_equal(store_count(k->status.store, OBJECT_SERVICE), 0);
	iterate(k);
	assert_false(readers_see(k, "web.shop.svc"));
}

static void
a_listing_without_a_service_removes_it(void **state)
{
	struct kubedns *k = *state;

	service_event(k, EVENT_ADDED, "web", "10.96.0.1");
	service_event(k, EVENT_ADDED, "old", "10.96.0.2");
	event_sink_take(k, OBJECT_SERVICE, EVENT_LISTING, NULL);
	service_event(k, EVENT_ADDED, "web", "10.96.0.1");
	assert_int_equal(store_count(k->status.store, OBJECT_SERVICE), 2);
	event_sink_take(k, OBJECT_SERVICE, EVENT_SYNCED, NULL);
	assert_int_equal(store_count(k->status.store, OBJECT_SERVICE), 1);
	iterate(k);
	assert_true(readers_see(k, "web.shop.svc"));
	assert_false(readers_see(k, "old.shop.svc"));
}

/* --- the ConfigMap --- */

static void
the_config_map_goes_to_the_settings(void **state)
{
	struct kubedns *k = *state;

	config_map_event(k, EVENT_ADDED, "hosts", "10.0.0.1 db.example");
	assert_int_equal(iterate(k), 1);
	assert_non_null(context(k)->names);

	config_map_event(k, EVENT_DELETED, "hosts", "10.0.0.1 db.example");
	assert_int_equal(iterate(k), 1);
	assert_null(context(k)->names);
}

/* The start and the end of a listing have no object. */
static void
a_listing_of_the_config_map_changes_nothing(void **state)
{
	struct kubedns *k = *state;

	config_map_event(k, EVENT_ADDED, "hosts", "10.0.0.1 db.example");
	iterate(k);
	event_sink_take(k, OBJECT_CONFIGMAP, EVENT_LISTING, NULL);
	event_sink_take(k, OBJECT_CONFIGMAP, EVENT_SYNCED, NULL);
	assert_int_equal(iterate(k), 0);
	assert_non_null(context(k)->names);
}

/* With --objects-dir, only the directory is the configuration: kubedns ignores a ConfigMap among
 * the manifests. */
static void
a_config_map_among_manifests_is_not_the_configuration(void **state)
{
	struct kubedns *k = *state;

	k->status.manifests = (void *)k; /* only compared with NULL */
	config_map_event(k, EVENT_ADDED, "hosts", "10.0.0.1 db.example");
	assert_int_equal(iterate(k), 0);
	assert_null(context(k)->names);
}

/* --- namespaces --- */

static void
a_namespace_is_offered_for_one_that_is_wanted_and_missing(void **state)
{
	(void)state;
	static char misspelt[] = "shpo";
	static char *const wanted[] = { misspelt, NULL };
	struct kubedns *k = main_thread_new(wanted, false);

	k->status.synced = true;
	namespace_event(k, EVENT_ADDED, "shop");
	assert_int_equal(iterate(k), 1);
	char *notes = wanted_namespaces_notes(k->status.namespaces, true);
	assert_non_null(strstr(notes, "\"shpo\""));
	assert_non_null(strstr(notes, "shop"));
	free(notes);
	main_thread_free(k);
}

static void
a_config_map_of_a_namespace_gives_names_and_no_settings(void **state)
{
	struct kubedns *k = *state;
	static char shop[] = "shop";
	static const struct hosts_namespace namespaces[] = { { shop, NULL, 0 } };
	struct object_key_value data = { "hosts", "10.0.0.7 till.example", 21 };
	struct object object = { .kind = OBJECT_CONFIGMAP,
		.namespace = "shop",
		.name = "till",
		.created_s = 1,
		.data = &data,
		.data_count = 1 };

	k->status.hosts = hosts_maps_new(&k->options.answers, namespaces, 1);
	hosts_sink_take(k, "shop", EVENT_ADDED, &object);
	assert_null(context(k)->names);
	assert_int_equal(iterate(k), 1);
	assert_non_null(context(k)->names);
	assert_int_equal(settings_reads(k->status.settings), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_service_goes_to_the_store_and_changes_no_settings,
		    main_thread_begin_synced, main_thread_end),
		cmocka_unit_test_setup_teardown(a_listing_without_a_service_removes_it,
		    main_thread_begin_synced, main_thread_end),
		cmocka_unit_test_setup_teardown(
		    the_config_map_goes_to_the_settings, main_thread_begin_synced, main_thread_end),
		cmocka_unit_test_setup_teardown(a_listing_of_the_config_map_changes_nothing,
		    main_thread_begin_synced, main_thread_end),
		cmocka_unit_test_setup_teardown(
		    a_config_map_among_manifests_is_not_the_configuration, main_thread_begin_synced,
		    main_thread_end),
		cmocka_unit_test(a_namespace_is_offered_for_one_that_is_wanted_and_missing),
		cmocka_unit_test_setup_teardown(
		    a_config_map_of_a_namespace_gives_names_and_no_settings,
		    main_thread_begin_synced, main_thread_end),
	};

	rcu_join();
	int rc = cmocka_run_group_tests(tests, NULL, NULL);
	rcu_part();
	return rc;
}
