/*
 * Services and slices in the store. The tree depends only on the objects, not on the order in which
 * they arrived.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "kubedns/cluster/store.h"
#include "lib/rcu.h"

enum { SERVICES = 2, SLICES = 5, ENDPOINTS = 4, WALKS = 400, STEPS = 30 };

struct bed {
	struct treecache *cache;
	struct store *store;
};

static struct bed
bed_new(void)
{
	struct store_config config = { .records = { .ttl_s = 30 } };
	struct bed bed = { .cache = treecache_new(3) };

	assert_int_equal(dname_from_text(&config.records.zone, "cluster.local."), 0);
	bed.store = store_new(bed.cache, &config);
	return bed;
}

static void
bed_free(struct bed *bed)
{
	store_free(bed->store);
	treecache_free(bed->cache);
}

static void
tell(struct bed *bed, enum event_type type, const struct object *object)
{
	store_event(bed->store, object->kind, type, object);
}

static struct object
service_object(const char *name, enum service_type type, bool not_ready_too)
{
	return (struct object){ .kind = OBJECT_SERVICE,
		.namespace = "ns",
		.name = name,
		.resource_version = "",
		.service = {
		    .type = type, .external_name = "", .publish_not_ready = not_ready_too } };
}

/* A slice with one endpoint. The endpoint has the address 10.1.0.`last` and this host name. */
struct one_slice {
	struct object object;
	struct object_slice slice;
	struct object_endpoint endpoint;
};

static struct object *
slice_object(struct one_slice *one, const char *name, const char *service, uint8_t last)
{
	one->endpoint =
	    (struct object_endpoint){ .addr = { AF_INET, { 10, 1, 0, last } }, .ready = true };
	one->slice = (struct object_slice){ .name = name,
		.service = service,
		.family = AF_INET,
		.endpoints = &one->endpoint,
		.endpoint_count = 1 };
	one->object = (struct object){ .kind = OBJECT_SLICES,
		.namespace = "ns",
		.name = name,
		.resource_version = "",
		.slices = &one->slice,
		.slice_count = 1 };
	return &one->object;
}

/* Returns the other endpoints of the Service of 10.1.0.`own`, as the last bytes of their addresses,
 * in order. "4 6-" means that endpoint 6 is not ready. */
static const char *
neighbours(const struct bed *bed, uint8_t own)
{
	static char text[64];
	const struct addr self = { AF_INET, { 10, 1, 0, own } };
	struct neighbour found[4];
	size_t count = store_neighbours(bed->store, "ns", &self, 1, found, 4);

	text[0] = '\0';
	for (int last = 0; last < 256; last++)
		for (size_t i = 0; i < count; i++)
			if (found[i].addr.bytes[3] == last)
				snprintf(text + strlen(text), sizeof text - strlen(text), "%d%s ",
				    last, found[i].ready ? "" : "-");
	return text;
}

/* Returns the slice with this port added. */
static struct object *
with_port(struct one_slice *one, struct object *object, uint16_t number)
{
	static struct object_port port;

	port = (struct object_port){ .name = "dns", .protocol = "udp", .port = number };
	one->slice.ports = &port;
	one->slice.port_count = 1;
	return object;
}

static void
neighbours_are_the_other_endpoints_of_ones_own_service_for_port_53(void **state)
{
	(void)state;
	struct bed bed = bed_new();
	struct one_slice one;
	struct object service = service_object("dns", SERVICE_CLUSTERIP, false),
		      web = service_object("web", SERVICE_CLUSTERIP, false);

	tell(&bed, EVENT_ADDED, &service);
	tell(&bed, EVENT_ADDED, &web);
	tell(&bed, EVENT_ADDED, with_port(&one, slice_object(&one, "dns-a", "dns", 1), 53));
	assert_string_equal(neighbours(&bed, 1), "");
	tell(&bed, EVENT_ADDED, with_port(&one, slice_object(&one, "dns-b", "dns", 2), 53));
	with_port(&one, slice_object(&one, "dns-c", "dns", 3), 53);
	one.endpoint.ready = false;
	tell(&bed, EVENT_ADDED, &one.object);
	/* Adds a Service of these servers for metrics. One endpoint of this Service is another
	 * server. */
	tell(&bed, EVENT_ADDED, with_port(&one, slice_object(&one, "web-a", "web", 1), 9153));
	tell(&bed, EVENT_ADDED, with_port(&one, slice_object(&one, "web-b", "web", 8), 9153));
	assert_string_equal(neighbours(&bed, 1), "2 3- ");
	assert_string_equal(neighbours(&bed, 3), "1 2 ");
	assert_string_equal(neighbours(&bed, 8), "");
	assert_string_equal(neighbours(&bed, 9), "");
	/* A slice in another namespace contains the address of this server. Another slice of the
	 * same Service contains another address. */
	struct object foreign = *with_port(&one, slice_object(&one, "evil-a", "evil", 1), 53);
	foreign.namespace = "tenant";
	tell(&bed, EVENT_ADDED, &foreign);
	foreign = *with_port(&one, slice_object(&one, "evil-b", "evil", 66), 53);
	foreign.namespace = "tenant";
	tell(&bed, EVENT_ADDED, &foreign);
	assert_string_equal(neighbours(&bed, 1), "2 3- ");
	tell(&bed, EVENT_DELETED, slice_object(&one, "dns-b", "dns", 2));
	assert_string_equal(neighbours(&bed, 1), "3- ");
	bed_free(&bed);
}

static const struct endpoint_set *
set_of(const struct bed *bed, const char *service)
{
	struct dname name;
	char text[64];

	snprintf(text, sizeof text, "%s.ns.svc.", service);
	assert_int_equal(dname_from_text(&name, text), 0);
	const struct node *node = tree_find(treecache_next(bed->cache), name.wire);
	return node == NULL ? NULL : node->endpoints;
}

/* Returns the number of addresses of a Service, or -1 if the Service does not exist. */
static int
addresses(const struct bed *bed, const char *service)
{
	const struct endpoint_set *set = set_of(bed, service);

	return set == NULL ? -1 : (int)(set->total4 + set->total6);
}

static void
slices_may_come_before_their_service_and_stay_after_it(void **state)
{
	(void)state;
	struct bed bed = bed_new();
	struct object db = service_object("db", SERVICE_HEADLESS, false);
	struct one_slice a;

	tell(&bed, EVENT_ADDED, slice_object(&a, "db-a", "db", 1));
	assert_int_equal(addresses(&bed, "db"), -1);
	tell(&bed, EVENT_ADDED, &db);
	assert_int_equal(addresses(&bed, "db"), 1);
	tell(&bed, EVENT_DELETED, &db);
	assert_int_equal(addresses(&bed, "db"), -1);
	tell(&bed, EVENT_ADDED, &db);
	assert_int_equal(addresses(&bed, "db"), 1);
	tell(&bed, EVENT_DELETED, &a.object);
	assert_int_equal(addresses(&bed, "db"), 0);
	bed_free(&bed);
}

static void
a_slice_whose_label_changes_moves_to_the_other_service(void **state)
{
	(void)state;
	struct bed bed = bed_new();
	struct object db = service_object("db", SERVICE_HEADLESS, false),
		      web = service_object("web", SERVICE_HEADLESS, false);
	struct one_slice a;

	tell(&bed, EVENT_ADDED, &db);
	tell(&bed, EVENT_ADDED, &web);
	tell(&bed, EVENT_ADDED, slice_object(&a, "x", "db", 1));
	tell(&bed, EVENT_MODIFIED, slice_object(&a, "x", "web", 1));
	assert_int_equal(addresses(&bed, "db"), 0);
	assert_int_equal(addresses(&bed, "web"), 1);
	tell(&bed, EVENT_MODIFIED, slice_object(&a, "x", NULL, 1));
	assert_int_equal(addresses(&bed, "web"), 0);
	bed_free(&bed);
}

static void
the_label_is_compared_letter_for_letter(void **state)
{
	(void)state;
	struct bed bed = bed_new();
	struct object db = service_object("db", SERVICE_HEADLESS, false);
	struct one_slice a, b;

	tell(&bed, EVENT_ADDED, &db);
	tell(&bed, EVENT_ADDED, slice_object(&a, "a", "db", 1));
	tell(&bed, EVENT_ADDED, slice_object(&b, "b", "Db", 2));
	assert_int_equal(addresses(&bed, "db"), 1);
	bed_free(&bed);
}

static void
what_a_relist_does_not_show_is_gone(void **state)
{
	(void)state;
	struct bed bed = bed_new();
	struct object db = service_object("db", SERVICE_HEADLESS, false);
	struct one_slice a, b;

	tell(&bed, EVENT_ADDED, &db);
	tell(&bed, EVENT_ADDED, slice_object(&a, "a", "db", 1));
	tell(&bed, EVENT_ADDED, slice_object(&b, "b", "db", 2));
	store_event(bed.store, OBJECT_SLICES, EVENT_LISTING, NULL);
	tell(&bed, EVENT_ADDED, slice_object(&b, "b", "db", 2));
	assert_int_equal(addresses(&bed, "db"), 2);
	store_event(bed.store, OBJECT_SLICES, EVENT_SYNCED, NULL);
	assert_int_equal(addresses(&bed, "db"), 1);
	assert_int_equal(store_count(bed.store, OBJECT_SLICES), 1);
	bed_free(&bed);
}

static void
an_object_that_was_cut_is_counted_each_time(void **state)
{
	(void)state;
	struct bed bed = bed_new();
	struct object db = service_object("db", SERVICE_HEADLESS, false);
	struct one_slice a;

	tell(&bed, EVENT_ADDED, &db);
	slice_object(&a, "a", "db", 1)->cut = true;
	tell(&bed, EVENT_ADDED, &a.object);
	tell(&bed, EVENT_MODIFIED, &a.object);
	assert_int_equal(store_cut_total(bed.store), 2);
	db.cut = true;
	tell(&bed, EVENT_MODIFIED, &db);
	assert_int_equal(store_cut_total(bed.store), 3);
	db.cut = a.object.cut = false;
	tell(&bed, EVENT_MODIFIED, &db);
	tell(&bed, EVENT_MODIFIED, &a.object);
	assert_int_equal(store_cut_total(bed.store), 3);
	bed_free(&bed);
}

/* --- after any sequence of events, the state equals that of a new store --- */

struct walk {
	unsigned random;
	bool there[SERVICES + SLICES];
	enum service_type types[SERVICES];
	bool not_ready_too[SERVICES];
	struct object_slice slices[SLICES];
	struct object_endpoint endpoints[SLICES][ENDPOINTS];
};

static const char *const service_names[SERVICES] = { "db", "web" };
static const char *const slice_names[SLICES] = { "db-c", "db-a", "web-b", "db-b", "db-d" };
static struct object_port lists[3][2] = { { { "pg", "tcp", 5432 }, { "dns", "udp", 53 } },
	{ { "pg", "tcp", 5433 }, { "dns", "tcp", 53 } },
	{ { "pg", "tcp", 5432 }, { "", "tcp", 1 } } };

static unsigned
pick(struct walk *w, unsigned below)
{
	w->random = w->random * 1103515245u + 12345u;
	return (w->random >> 16) % below;
}

/* Chooses a slice with few different addresses and host names, so slices overlap. Some host names
 * are addresses with dashes. */
static void
choose_slice(struct walk *w, unsigned s)
{
	static const char *const hosts[] = { NULL, NULL, "h-0", "h-1", "10-1-0-2" };
	struct object_slice *slice = &w->slices[s];

	*slice = (struct object_slice){ .name = slice_names[s],
		.service = service_names[pick(w, 8) == 0],
		.family = pick(w, 6) == 0 ? AF_INET6 : AF_INET,
		.ports = lists[pick(w, 3)],
		.port_count = 2,
		.endpoints = w->endpoints[s],
		.endpoint_count = pick(w, ENDPOINTS + 1) };
	for (size_t i = 0; i < slice->endpoint_count; i++)
		w->endpoints[s][i] = (struct object_endpoint){
			.addr = { slice->family, { 10, 1, 0, (uint8_t)pick(w, 5) } },
			.ready = pick(w, 4) > 0,
			.hostname = hosts[pick(w, 5)],
		};
}

static struct object
object_at(struct walk *w, unsigned i)
{
	struct object o = { .kind = OBJECT_SLICES, .namespace = "ns", .resource_version = "" };

	if (i < SERVICES)
		return service_object(service_names[i], w->types[i], w->not_ready_too[i]);
	o.name = slice_names[i - SERVICES];
	o.slices = &w->slices[i - SERVICES];
	o.slice_count = 1;
	return o;
}

static void
change(struct walk *w, struct bed *bed)
{
	unsigned i = pick(w, SERVICES + SLICES);
	bool gone = w->there[i] && pick(w, 4) == 0;

	if (gone) {
		struct object o = object_at(w, i);

		w->there[i] = false;
		/* In one of three cases, the event is lost until a relist. */
		if (pick(w, 3) > 0)
			tell(bed, EVENT_DELETED, &o);
		return;
	}
	w->there[i] = true;
	if (i < SERVICES) {
		w->types[i] = pick(w, 3) == 0 ? SERVICE_CLUSTERIP : SERVICE_HEADLESS;
		w->not_ready_too[i] = pick(w, 3) == 0;
	} else {
		choose_slice(w, i - SERVICES);
	}
	struct object o = object_at(w, i);
	tell(bed, EVENT_MODIFIED, &o);
}

/* Lists all objects. The first one is chosen at random. */
static void
relist(struct walk *w, struct bed *bed)
{
	unsigned first = pick(w, SERVICES + SLICES);

	store_event(bed->store, OBJECT_SERVICE, EVENT_LISTING, NULL);
	store_event(bed->store, OBJECT_SLICES, EVENT_LISTING, NULL);
	for (unsigned n = 0; n < SERVICES + SLICES; n++) {
		unsigned i = (first + n) % (SERVICES + SLICES);
		struct object o = object_at(w, i);

		if (w->there[i])
			tell(bed, EVENT_ADDED, &o);
	}
	store_event(bed->store, OBJECT_SERVICE, EVENT_SYNCED, NULL);
	store_event(bed->store, OBJECT_SLICES, EVENT_SYNCED, NULL);
}

static void
print_set(FILE *out, const struct endpoint_set *set)
{
	fprintf(out, "%u+%u addresses, %u published\n", set->total4, set->total6, set->published);
	for (unsigned c = 0; c < set->count; c++) {
		const struct slice_endpoints *slice = set->slices[c].slice;

		for (unsigned i = 0; i < slice->published; i++) {
			const uint8_t *name = slice_name(slice, i);

			fprintf(out, "%s %s 10.1.0.%u %.*s\n", slice->name,
			    i < slice->unique ? "counts" : "also has", slice_addr(slice, i)[3],
			    name == NULL ? 0 : name[0], name == NULL ? "" : (const char *)name + 1);
		}
	}
}

/* Returns the endpoints of the Services as text, as readers see them. */
static char *
shown(const struct bed *bed)
{
	char *text;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	assert_non_null(out);
	for (unsigned i = 0; i < SERVICES; i++) {
		const struct endpoint_set *set = set_of(bed, service_names[i]);

		fprintf(out, "%s:\n", service_names[i]);
		if (set != NULL)
			print_set(out, set);
	}
	fclose(out);
	return text;
}

static void
after_any_walk_the_tree_is_that_of_a_fresh_store(void **state)
{
	(void)state;
	size_t bytes = 0;

	for (unsigned walk = 0; walk < WALKS; walk++) {
		struct walk w = { .random = walk };
		struct bed bed = bed_new(), fresh = bed_new();

		for (unsigned step = 0; step < STEPS; step++) {
			change(&w, &bed);
			if (pick(&w, 10) == 0)
				relist(&w, &bed);
			if (pick(&w, 3) == 0)
				treecache_publish(bed.cache, step, true);
		}
		relist(&w, &bed);
		relist(&w, &fresh);
		char *was = shown(&bed), *is = shown(&fresh);
		assert_string_equal(was, is);
		bytes += strlen(was);
		free(was);
		free(is);
		bed_free(&bed);
		bed_free(&fresh);
	}
	assert_true(bytes > WALKS * 100);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(slices_may_come_before_their_service_and_stay_after_it),
		cmocka_unit_test(
		    neighbours_are_the_other_endpoints_of_ones_own_service_for_port_53),
		cmocka_unit_test(a_slice_whose_label_changes_moves_to_the_other_service),
		cmocka_unit_test(the_label_is_compared_letter_for_letter),
		cmocka_unit_test(what_a_relist_does_not_show_is_gone),
		cmocka_unit_test(an_object_that_was_cut_is_counted_each_time),
		cmocka_unit_test(after_any_walk_the_tree_is_that_of_a_fresh_store),
	};

	rcu_join();
	int rc = cmocka_run_group_tests(tests, NULL, NULL);
	rcu_part();
	return rc;
}
