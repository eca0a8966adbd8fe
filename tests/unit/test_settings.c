/* Settings that change while kubedns runs. The tests begin with the event or the ConfigMap key and
 * end with the tree that readers see. */
#include "tests/unit/main_thread.h"

#include "kubedns/answer/answer.h"

static uint64_t
node_event(struct kubedns *k, const char *zone, const char *region)
{
	struct object node = { .kind = OBJECT_NODE,
		.namespace = "",
		.name = "n1",
		.resource_version = "",
		.node = { .zone = zone, .region = region } };

	event_sink_take(k, OBJECT_NODE, EVENT_MODIFIED, &node);
	return iterate(k);
}

static uint64_t
config_map(struct kubedns *k, const char *key, const char *value)
{
	config_map_event(k, EVENT_MODIFIED, key, value);
	return iterate(k);
}

/* --- the location of the cluster --- */

static void
a_node_that_says_the_same_again_publishes_nothing(void **state)
{
	struct kubedns *k = *state;

	assert_int_equal(node_event(k, "zone-a", "europe"), 1);
	assert_string_equal(context(k)->zone, "zone-a");
	assert_string_equal(context(k)->region, "europe");
	uint32_t serial = treecache_next(k->cache)->serial;
	for (int i = 0; i < 5; i++)
		assert_int_equal(node_event(k, "zone-a", "europe"), 0);
	assert_int_equal(treecache_next(k->cache)->serial, serial);
}

/* The value of a label may contain '_' and '.'. A kubelet sends the status of its Node every few
 * minutes. */
static void
a_zone_that_is_no_dns_label_publishes_nothing_with_each_event(void **state)
{
	struct kubedns *k = *state;

	static const char *const zones[] = { "az_1", "rack.3", "-a", "az_2" };

	for (size_t i = 0; i < sizeof zones / sizeof zones[0]; i++)
		for (int times = 0; times < 3; times++)
			assert_int_equal(node_event(k, zones[i], "eu_west"), 0);
	assert_string_equal(context(k)->zone, "");
	assert_string_equal(context(k)->region, "");
}

static void
a_usable_region_counts_beside_a_zone_that_is_not(void **state)
{
	struct kubedns *k = *state;

	assert_int_equal(node_event(k, "az_1", "europe"), 1);
	assert_string_equal(context(k)->zone, "");
	assert_string_equal(context(k)->region, "europe");
	assert_int_equal(node_event(k, "az_1", "europe"), 0);
}

static void
a_label_that_becomes_unusable_is_forgotten_once(void **state)
{
	struct kubedns *k = *state;

	node_event(k, "zone-a", "europe");
	assert_int_equal(node_event(k, "az_1", "europe"), 1);
	assert_string_equal(context(k)->zone, "");
	assert_int_equal(node_event(k, "az_1", "europe"), 0);
}

/* --- the ConfigMap --- */

static void
a_key_that_is_the_same_publishes_nothing(void **state)
{
	struct kubedns *k = *state;

	assert_int_equal(config_map(k, "hosts", "10.0.0.1 db.example"), 1);
	assert_non_null(context(k)->names);
	assert_int_equal(config_map(k, "hosts", "10.0.0.1 db.example"), 0);
	assert_int_equal(config_map(k, "hosts", "10.0.0.1  db.example  # the same"), 0);
}

static void
a_misspelt_key_that_asks_for_tls_closes_its_names(void **state)
{
	static const char *const names[] = { "upstreamNameserver", "upstreamnameservers",
		"UpstreamNameServers" };
	struct kubedns *k = *state;

	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
		assert_int_equal(config_map(k, names[i], "[\"tls://9.9.9.9#dns.quad9.net\"]"), 1);
		assert_true(context(k)->closed);
		assert_int_equal(config_map(k, names[i], "[\"9.9.9.9\"]"), 1);
		assert_false(context(k)->closed);
	}
}

static void
each_misspelling_of_a_key_that_asks_for_tls_closes_its_names(void **state)
{
	static struct object_key_value data[] = {
		{ "stubDomain", "{\"plain.test\": [\"10.0.0.1\"]}", 0 },
		{ "stubdomains", "{\"a.test\": [\"tls://10.0.0.1\"]}", 0 },
		{ "StubDomains", "{\"b.test\": [\"tls://10.0.0.1\"]}", 0 },
	};
	enum { COUNT = sizeof data / sizeof data[0] };
	const struct object map = { .kind = OBJECT_CONFIGMAP,
		.namespace = "kube-system",
		.name = "kube-dns",
		.resource_version = "",
		.data = data,
		.data_count = COUNT };
	struct kubedns *k = *state;

	for (int i = 0; i < COUNT; i++)
		data[i].len = strlen(data[i].value);
	event_sink_take(k, OBJECT_CONFIGMAP, EVENT_MODIFIED, &map);
	assert_int_equal(iterate(k), 1);
	assert_true(answer_stub_closed(context(k), (const uint8_t *)"\1a\4test"));
	assert_true(answer_stub_closed(context(k), (const uint8_t *)"\1b\4test"));
	assert_false(answer_stub_closed(context(k), (const uint8_t *)"\5plain\4test"));
}

static void
a_bad_key_keeps_its_last_value(void **state)
{
	struct kubedns *k = *state;

	config_map(k, "hosts", "10.0.0.1 db.example");
	assert_int_equal(config_map(k, "hosts", "10.0.0.x db.example"), 0);
	assert_non_null(context(k)->names);
	assert_int_equal(settings_mistakes(k->status.settings), 1);
}

/* If kubedns starts when the key is empty, it has none of the names. So the running kubedns must
 * not have them either. */
static void
an_emptied_key_takes_its_names_along(void **state)
{
	struct kubedns *k = *state;

	static const char *const keys[][2] = { { "hosts", "10.0.0.1 db.example" },
		{ "records", "db.example. A 10.0.0.1" },
		{ "rewrites", "exact db.example web.default.svc.cluster.local" },
		{ "federations", "east=east.example.org" },
		{ "upstreamNameservers", "[\"192.0.2.53\"]" } };
	size_t upstreams = 0;

	for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
		for (int blank = 0; blank < 2; blank++) {
			assert_int_equal(config_map(k, keys[i][0], keys[i][1]), 1);
			assert_int_equal(config_map(k, keys[i][0], blank ? " \n" : ""), 1);
			assert_false(context(k)->own);
			assert_int_equal(context(k)->federation_count, 0);
			assert_int_equal(settings_mistakes(k->status.settings), 0);
		}
	}
	config_map(k, "upstreamNameservers", "[\"192.0.2.53\"]");
	assert_int_equal(config_map(k, "upstreamNameservers", ""), 1);
	const struct server *servers = settings_upstreams(k->status.settings, &upstreams);
	for (size_t i = 0; i < upstreams; i++)
		assert_false(servers[i].addr.bytes[0] == 192 && servers[i].addr.bytes[3] == 53);
}

/* kubedns sends queries in plain text, also to retry a SERVFAIL of --resolver. So it must never query a
 * tls:// server, nor the servers of resolv.conf in its place. */
static void
tls_upstreams_are_left_to_the_resolver(void **state)
{
	struct kubedns *k = *state;
	size_t count;

	config_map(k, "upstreamNameservers", "[\"192.0.2.53\"]");
	config_map(k, "upstreamNameservers", "[\"tls://9.9.9.9#dns.quad9.net\"]");
	assert_int_equal(settings_mistakes(k->status.settings), 1);
	settings_upstreams(k->status.settings, &count);
	assert_int_equal(count, 1);
	k->options.upstream.has_resolver = true;
	config_map(k, "upstreamNameservers", "[\"tls://9.9.9.9#dns.quad9.net\" ]");
	assert_int_equal(settings_mistakes(k->status.settings), 0);
	settings_upstreams(k->status.settings, &count);
	assert_int_equal(count, 0);
	config_map(k, "upstreamNameservers", "[\"192.0.2.53\"]");
	settings_upstreams(k->status.settings, &count);
	assert_int_equal(count, 1);
}

/* The hosts file of a Mac has two lines that are meaningless here. The other lines are used. */
static void
a_hosts_file_of_another_machine_is_taken(void **state)
{
	struct kubedns *k = *state;

	assert_int_equal(config_map(k, "hosts",
			     "255.255.255.255 broadcasthost\nfe80::1%lo0 localhost\n10.0.0.9\n"
			     "10.0.0.1 db.example"),
	    1);
	assert_int_equal(settings_mistakes(k->status.settings), 0);
	assert_non_null(context(k)->names);
}

static void
a_deleted_config_map_takes_its_names_along(void **state)
{
	struct kubedns *k = *state;
	struct object object = { .kind = OBJECT_CONFIGMAP, .namespace = "", .name = "kube-dns" };

	config_map(k, "hosts", "10.0.0.1 db.example");
	event_sink_take(k, OBJECT_CONFIGMAP, EVENT_DELETED, &object);
	assert_int_equal(iterate(k), 1);
	assert_null(context(k)->names);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_node_that_says_the_same_again_publishes_nothing,
		    main_thread_begin_synced, main_thread_end),
		cmocka_unit_test_setup_teardown(
		    a_zone_that_is_no_dns_label_publishes_nothing_with_each_event,
		    main_thread_begin_synced, main_thread_end),
		cmocka_unit_test_setup_teardown(a_usable_region_counts_beside_a_zone_that_is_not,
		    main_thread_begin_synced, main_thread_end),
		cmocka_unit_test_setup_teardown(a_label_that_becomes_unusable_is_forgotten_once,
		    main_thread_begin_synced, main_thread_end),
		cmocka_unit_test_setup_teardown(a_key_that_is_the_same_publishes_nothing,
		    main_thread_begin_synced, main_thread_end),
		cmocka_unit_test_setup_teardown(a_misspelt_key_that_asks_for_tls_closes_its_names,
		    main_thread_begin_synced, main_thread_end),
		cmocka_unit_test_setup_teardown(
		    each_misspelling_of_a_key_that_asks_for_tls_closes_its_names,
		    main_thread_begin_synced, main_thread_end),
		cmocka_unit_test_setup_teardown(
		    a_bad_key_keeps_its_last_value, main_thread_begin_synced, main_thread_end),
		cmocka_unit_test_setup_teardown(a_hosts_file_of_another_machine_is_taken,
		    main_thread_begin_synced, main_thread_end),
		cmocka_unit_test_setup_teardown(an_emptied_key_takes_its_names_along,
		    main_thread_begin_synced, main_thread_end),
		cmocka_unit_test_setup_teardown(tls_upstreams_are_left_to_the_resolver,
		    main_thread_begin_synced, main_thread_end),
		cmocka_unit_test_setup_teardown(a_deleted_config_map_takes_its_names_along,
		    main_thread_begin_synced, main_thread_end),
	};

	rcu_join();
	int rc = cmocka_run_group_tests(tests, NULL, NULL);
	rcu_part();
	return rc;
}
