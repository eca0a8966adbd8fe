/*
 * The content of the tree with a cluster set, and what readers see. The tests use any order of
 * events, selected namespaces, and sets of any size. They also check reverse zones and
 * explanations.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kubedns/answer/zone_diff.h"
#include "kubedns/cluster/label_selector.h"
#include "kubedns/show/explain.h"
#include "kubedns/show/zone.h"
#include "lib/xalloc.h"
#include "tests/unit/clusterset_fixture.h"

/* --- the order of events --- */

static char *
printed(void)
{
	char *text = NULL;
	size_t len, index;
	FILE *out = open_memstream(&text, &len);

	assert_int_equal(zone_find(&bed.config, "clusterset.local", &index), 0);
	assert_int_equal(zone_print(out, &bed.config, tree_current(bed.cache), index), 0);
	fclose(out);
	return text;
}

static void
order_of_events_does_not_matter(void **state)
{
	static const char *const events[] = { HEADLESS,
		IMPORT("ip", "ClusterSetIP", "'10.42.0.1'", HTTPS),
		SLICE("a", OF("headless", "c2"), "IPv4",
		    HOST("10.1.0.1", "a") "," PLAIN("10.1.0.9"), HTTPS),
		SLICE("b", OF("headless", "c1"), "IPv4", HOST("10.1.0.1", "a"),
		    PORT("x", "TCP", "1")),
		SLICE("c", OF("headless", "c1"), "IPv6", HOST("2001:db8::1", "a"), HTTPS),
		SLICE("d", OF("ip", "c1"), "IPv4", PLAIN("10.1.0.2"), HTTPS) };
	enum { COUNT = sizeof events / sizeof events[0], ROUNDS = 300 };
	struct clusterset_config with = config();
	unsigned order[COUNT];
	char *want = NULL;

	(void)state;
	for (unsigned i = 0; i < COUNT; i++)
		order[i] = i;
	srandom(3);
	for (unsigned round = 0; round < ROUNDS; round++) {
		begin_with(&with);
		for (unsigned i = 0; i < COUNT; i++) {
			queue(EVENT_ADDED, events[order[i]]);
			if (random() % 2)
				clusterset_settle(set);
			if (random() % 3 == 0) { /* the object is deleted and added again */
				queue(EVENT_DELETED, events[order[i]]);
				if (random() % 2)
					clusterset_settle(set);
				queue(EVENT_ADDED, events[order[i]]);
			}
		}
		settle();
		char *text = printed();
		if (want == NULL)
			want = text;
		else
			assert_string_equal(text, want);
		if (text != want)
			free(text);
		for (unsigned i = COUNT - 1; i > 0; i--) {
			unsigned k = (unsigned)random() % (i + 1), swap = order[i];

			order[i] = order[k];
			order[k] = swap;
		}
	}
	assert_non_null(
	    strstr(want, "a.c1.headless.test.svc.clusterset.local. 30 IN AAAA 2001:db8::1"));
	free(want);
}

static void
nothing_is_left_when_all_is_gone(void **state)
{
	(void)state;
	char *before = printed();
	add(HEADLESS);
	add(SLICE("a", OF("headless", "c2"), "IPv4", HOST("10.1.0.1", "a"), HTTPS));
	add(IMPORT("ip", "ClusterSetIP", "'10.42.0.1'", HTTPS));
	tell(EVENT_DELETED, HEADLESS);
	tell(EVENT_DELETED, IMPORT("ip", "ClusterSetIP", "", ""));
	tell(EVENT_DELETED, SLICE("a", "", "IPv4", "", ""));
	char *after = printed();
	assert_string_equal(after, before);
	struct clusterset_counts counts = clusterset_counts(set);
	assert_int_equal(
	    counts.ip + counts.headless + counts.slices + counts.endpoints + counts.cut, 0);
	free(before);
	free(after);
}

/* --- selected namespaces --- */

static void
say_namespace(struct store *store, const char *name, const char *team)
{
	struct object_key_value label = { "team", team, strlen(team) };
	const struct object object = { .kind = OBJECT_NAMESPACE,
		.namespace = "",
		.name = name,
		.resource_version = "",
		.labels = &label,
		.label_count = 1 };

	store_event(store, OBJECT_NAMESPACE, EVENT_MODIFIED, &object);
	clusterset_event(set, OBJECT_NAMESPACE, EVENT_MODIFIED, &object);
	settle();
}

static void
namespaces_that_are_left_out_have_no_imports(void **state)
{
	static char listed[] = "test", also[] = "prod";

	char *const namespaces[] = { listed, also, NULL };
	struct label_selector *selector = NULL;
	struct store_config stored = { .namespaces = namespaces };
	struct clusterset_config with = config();
	struct treecache *tree = treecache_new(1);
	char *why = NULL;

	(void)state;
	assert_int_equal(label_selector_parse("team=a", &selector, &why), 0);
	stored.namespace_labels = selector;
	assert_int_equal(dname_from_text(&stored.records.zone, "cluster.local"), 0);
	struct store *store = store_new(tree, &stored);
	with.store = store;
	begin_with(&with);
	say_namespace(store, "test", "b");
	say_namespace(store, "prod", "a");
	say_namespace(store, "dev", "a");
	add(IMPORT_IN("test", "ip", "ClusterSetIP", "'10.42.0.1'", ""));
	add(IMPORT_IN("prod", "ip", "ClusterSetIP", "'10.42.0.2'", ""));
	add(IMPORT_IN("dev", "ip", "ClusterSetIP", "'10.42.0.3'", ""));
	EXPECT({ "ip.test.svc" ZONE, "A", GONE },
	    { "ip.prod.svc" ZONE, "A", "NOERROR A 10.42.0.2" }, { "ip.dev.svc" ZONE, "A", GONE },
	    { "1.0.42.10.in-addr.arpa.", "PTR", "FORWARD" });
	say_namespace(store, "test", "a");
	say_namespace(store, "prod", "b");
	EXPECT(
	    { "ip.test.svc" ZONE, "A", "NOERROR A 10.42.0.1" }, { "ip.prod.svc" ZONE, "A", GONE });
	begin_with(&(const struct clusterset_config){ .zone = zone });
	store_free(store);
	treecache_free(tree);
	label_selector_free(selector);
}

/* --- limits --- */

/* Adds a slice of `count` endpoints with `ports` ports. It is like a slice that was read from JSON. */
static void
add_large(const char *name, const char *cluster, unsigned count, unsigned ports)
{
	struct object_slice slice = { .name = name, .family = AF_INET };
	const struct object object = { .kind = OBJECT_SLICES,
		.namespace = "test",
		.name = name,
		.resource_version = "",
		.slices = &slice,
		.slice_count = 1,
		.import = { "headless", cluster } };

	slice.endpoints = xcalloc(count, sizeof *slice.endpoints);
	slice.endpoint_count = count;
	for (unsigned i = 0; i < count; i++)
		slice.endpoints[i] = (struct object_endpoint){ .ready = true,
			.addr = { .family = AF_INET,
			    .bytes = { 10, (uint8_t)name[0], (uint8_t)(i >> 8), (uint8_t)i } } };
	slice.ports = xcalloc(ports, sizeof *slice.ports);
	slice.port_count = ports;
	for (unsigned i = 0; i < ports; i++)
		slice.ports[i] = (struct object_port){
			.name = "", .protocol = "tcp", .port = (uint16_t)(i + 1)
		};
	clusterset_event(set, OBJECT_SLICES, EVENT_ADDED, &object);
	free(slice.endpoints);
	free(slice.ports);
}

static void
import_of_any_size_has_all_its_names(void **state)
{
	(void)state;
	queue(EVENT_ADDED, HEADLESS);
	add_large("b", "c2", 3000, 1);
	add_large("a", "c1", 3000, 1);
	settle();
	assert_int_equal(clusterset_counts(set).endpoints, 6000);
	assert_int_equal(clusterset_counts(set).cut, 0);
	EXPECT({ "10-97-11-183.c1.headless" SVC, "A", "NOERROR A 10.97.11.183" },
	    { "10-98-11-183.c2.headless" SVC, "A", "NOERROR A 10.98.11.183" });
	/* The set is larger than a message. */
	bed_ask("headless" SVC, "A");
	assert_true(bed.info.truncated);
	tell(EVENT_DELETED, SLICE("a", "", "IPv4", "", ""));
	assert_int_equal(clusterset_counts(set).endpoints, 3000);
	EXPECT({ "10-97-11-183.c1.headless" SVC, "A", GONE });
}

/* The tree stores the endpoints and the ports. It does not store one record for each pair, which
 * would be 80 million records. */
static void
ports_times_endpoints_are_never_in_memory(void **state)
{
	(void)state;
	queue(EVENT_ADDED, HEADLESS);
	struct mallinfo2 before = mallinfo2();
	add_large("b", "c2", 4000, 20000);
	settle();
	struct mallinfo2 after = mallinfo2();
	assert_in_range(after.uordblks + after.hblkhd - before.uordblks - before.hblkhd, 0,
	    4000 * 100 + 20000 * 200);
	assert_int_equal(clusterset_counts(set).endpoints, 4000);
	assert_int_equal(clusterset_counts(set).cut, 0);
	EXPECT({ "10-98-0-1.c2.headless" SVC, "A", "NOERROR A 10.98.0.1" });
	bed_ask("headless" SVC, "SRV");
	assert_true(bed.info.truncated);
}

/* Four labels of 59 bytes come before `svc`. With `svc` and the zone, the name has 262 bytes. */
#define LONG "a123456789b123456789c123456789d123456789e123456789f12345678"

static void
name_too_long_is_left_out(void **state)
{
	static const char slice[] =
	    "{'kind':'EndpointSlice','metadata':{'namespace':'" LONG
	    "','name':'s','labels':{" OF(LONG, LONG) "}},'addressType':'IPv4','endpoints':[" HOST(
		"10.1.0.1", LONG) "],'ports':[" HTTPS "]}";

	(void)state;
	add(IMPORT_IN(LONG, LONG, "Headless", "", ""));
	add(slice);
	/* The address of the endpoint is at the name of the import nevertheless. */
	EXPECT({ LONG "." LONG ".svc" ZONE, "A", "NOERROR A 10.1.0.1" },
	    { "1.0.1.10.in-addr.arpa.", "PTR", "FORWARD" });
	assert_int_equal(clusterset_counts(set).cut, 1);
}

/* --- the whole set, in other modules --- */

static void
before_it_is_synced_nothing_is_denied(void **state)
{
	(void)state;
	bed_reverse_zone("10.42.0.0/16");
	clusterset_free(set);
	treecache_free(cache);
	cache = treecache_new(7);
	struct clusterset_config with = config();
	set = clusterset_new(&with, cache, 7);
	zones.tree = cache;
	EXPECT({ "web" SVC, "A", "SERVFAIL" }, { "1.0.42.10.in-addr.arpa.", "PTR", "SERVFAIL" },
	    { "1.0.43.10.in-addr.arpa.", "PTR", "FORWARD" });
}

struct ptr_change {
	char text[2][256]; /* removed records, added records */
};

static bool
take_ptr(void *arg, size_t index, bool added, const struct zone_record *record)
{
	struct ptr_change *change = arg;

	if (record->type == TYPE_PTR && zone_at(&bed.config, index).kind == ZONE_REVERSE) {
		char target[DNAME_TEXT_MAX];
		size_t len = strlen(change->text[added]);

		snprintf(change->text[added] + len, sizeof change->text[added] - len, "%.99s ",
		    dname_to_text(record->rdata, target));
	}
	return true;
}

static void
expect_ptrs(const struct zone_snapshots *snapshots, const char *went, const char *came)
{
	struct ptr_change change = { { "", "" } };

	assert_true(zone_diff(&bed.config, snapshots, take_ptr, &change));
	assert_string_equal(change.text[false], went);
	assert_string_equal(change.text[true], came);
}

/* The PTR records are in the whole zone, and in the differences after a change of either tree. Both
 * trees change the serial. */
static void
ptrs_of_the_set_are_in_the_reverse_zones(void **state)
{
	char *text = NULL;
	size_t len, index;

	(void)state;
	bed_reverse_zone("10.3.0.0/16");
	bed_service("dummy", SERVICE_CLUSTERIP, "10.3.0.1", "");
	bed_publish();
	struct tree_hold *none = treecache_hold(cache);
	add(IMPORT("same", "ClusterSetIP", "'10.3.0.1'", HTTPS));
	add(IMPORT("other", "ClusterSetIP", "'10.3.0.2'", HTTPS));
	struct tree_hold *hold = treecache_hold(bed.cache);
	expect_ptrs(&(struct zone_snapshots){ { tree_current(bed.cache), tree_held(none) },
			{ tree_current(bed.cache), tree_current(cache) } },
	    "", "other.test.svc.clusterset.local. ");
	bed_service_delete("dummy");
	bed_publish();
	EXPECT({ "1.0.3.10.in-addr.arpa.", "PTR", "NOERROR PTR same.test.svc.clusterset.local." });
	expect_ptrs(&(struct zone_snapshots){ { tree_held(hold), tree_current(cache) },
			{ tree_current(bed.cache), tree_current(cache) } },
	    "dummy.default.svc.cluster.local. ", "same.test.svc.clusterset.local. ");
	tree_hold_drop(hold);
	tree_hold_drop(none);
	FILE *out = open_memstream(&text, &len);
	assert_int_equal(zone_find(&bed.config, "3.10.in-addr.arpa", &index), 0);
	assert_int_equal(zone_print(out, &bed.config, tree_current(bed.cache), index), 0);
	fclose(out);
	assert_non_null(
	    strstr(text, "1.0.3.10.in-addr.arpa. 30 IN PTR same.test.svc.clusterset.local.\n"));
	assert_non_null(
	    strstr(text, "2.0.3.10.in-addr.arpa. 30 IN PTR other.test.svc.clusterset.local.\n"));
	free(text);
	add(IMPORT("late", "ClusterSetIP", "'10.3.0.3'", HTTPS));
	const struct tree *own = tree_current(bed.cache), *imports = tree_current(cache);
	const struct zone_trees trees = { own, imports };
	assert_int_equal(zone_serial(&bed.config, zone_at(&bed.config, index), &trees),
	    own->serial > imports->serial ? own->serial : imports->serial);
	assert_int_equal(zone_serial(&bed.config, zone_at(&bed.config, 0), &trees), own->serial);
}

/* Returns the serial of each zone, with a `?` if not all of its sources have been read. */
static const char *
serials(const struct tree *own, const struct tree *external)
{
	const struct zone_trees trees = { own, external };
	static char text[64];
	size_t len = 0;

	for (size_t i = 0; i < zone_count(&bed.config); i++) {
		const struct zone at = zone_at(&bed.config, i);

		len += (size_t)snprintf(text + len, sizeof text - len, "%s%u%s", i > 0 ? " " : "",
		    zone_serial(&bed.config, at, &trees),
		    zone_is_synced(&bed.config, at, &trees) ? "" : "?");
	}
	return text;
}

/* The zones are, in this order: the cluster's, a reverse zone, an external zone and the cluster set's. */
static void
the_serial_of_a_zone_is_the_latest_of_the_trees_that_have_its_records(void **state)
{
	const struct tree seven = { .serial = 7, .synced = true },
			  nine = { .serial = 9, .synced = true }, unread = { .serial = 0 };
	struct dname names[2] = { [1] = zone };
	struct external_zones both = zones;

	(void)state;
	assert_int_equal(dname_from_text(&names[0], "apps.example."), 0);
	both.zones = names;
	both.zone_count = 2;
	both.clusterset = &names[1];
	bed_reverse_zone("10.3.0.0/16");
	external_zones_set(&bed.config, &both);
	assert_string_equal(serials(&seven, &nine), "7 9 9 9");
	assert_string_equal(serials(&nine, &seven), "9 9 7 7");
	assert_string_equal(serials(&seven, &unread), "7 7? 0? 0?");
	both.headless = true;
	assert_string_equal(serials(&seven, &nine), "7 9 9 9");
	assert_string_equal(serials(&nine, &seven), "9 9 9 7");
	both.clusterset = NULL;
	external_zones_set(&bed.config, &both);
	assert_string_equal(serials(&seven, &nine), "7 7 9 9");
}

static void
explanations_name_the_import(void **state)
{
	struct explain_config explain = { .answers = &bed.config,
		.tree = tree_current(bed.cache),
		.store = bed.store,
		.clusterset = set };
	static const struct {
		const char *name, *want;
	} rows[] = {
		{ "ip" SVC, "from ClusterSetIP ServiceImport test/ip" },
		{ "headless" SVC, "and 1 ready endpoints of 1 EndpointSlices in 1 clusters" },
		{ "a.c1.headless" SVC, "from headless ServiceImport test/headless" },
		{ "lost" SVC,
		    "no ServiceImport test/lost exists, but 1 EndpointSlices refer to it" },
		{ "none" SVC,
		    "NXDOMAIN: none.test.svc.clusterset.local. is in --clusterset-domain" },
		{ "test.svc" ZONE, "no records (NODATA)" },
	};
	size_t len;

	(void)state;
	add(HEADLESS);
	add(IMPORT("ip", "ClusterSetIP", "'10.42.0.1'", HTTPS));
	add(SLICE("a", OF("headless", "c1"), "IPv4", HOST("10.1.0.1", "a"), HTTPS));
	add(SLICE("l", OF("lost", "c1"), "IPv4", HOST("10.1.0.2", "a"), HTTPS));
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		char *text = explain_text(&explain, rows[i].name, &len);

		if (strstr(text, rows[i].want) == NULL)
			fail_msg("%s: %s", rows[i].name, text);
		free(text);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = { ROW(order_of_events_does_not_matter),
		ROW(nothing_is_left_when_all_is_gone),
		ROW(namespaces_that_are_left_out_have_no_imports),
		ROW(import_of_any_size_has_all_its_names),
		ROW(ports_times_endpoints_are_never_in_memory), ROW(name_too_long_is_left_out),
		ROW(before_it_is_synced_nothing_is_denied),
		ROW(ptrs_of_the_set_are_in_the_reverse_zones),
		ROW(the_serial_of_a_zone_is_the_latest_of_the_trees_that_have_its_records),
		ROW(explanations_name_the_import) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
