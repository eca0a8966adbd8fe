/* Pods in the store: which addresses each namespace's running pods have, and what that costs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "kubedns/cluster/store_internal.h"
#include "lib/rcu.h"

enum {
	PODS = 120,
	NAMESPACES = 6,
	ADDRS = 40,
	POD_ADDRS = 4,
	STEPS = 30000,
	LISTED = 200,
	MANY = 100
};

struct model_pod {
	struct addr addrs[POD_ADDRS];
	size_t count; /* 0: it has none, or does not run */
};

struct bed {
	struct treecache *cache;
	struct store *store;
	struct model_pod pods[PODS];
	bool present[NAMESPACES]; /* the Namespace object is there */
	unsigned random;
};

static unsigned
pick(struct bed *bed, unsigned below)
{
	bed->random = bed->random * 1103515245u + 12345u;
	return (bed->random >> 16) % below;
}

/* Every fourth is an IPv6 address. */
static struct addr
addr_of(unsigned n)
{
	return n % 4 == 3
		   ? (struct addr){ AF_INET6, { 0xfd, [14] = (uint8_t)(n >> 8), (uint8_t)n } }
		   : (struct addr){ AF_INET, { 10, 1, (uint8_t)(n >> 8), (uint8_t)n } };
}

static const char *
namespace_of(unsigned i)
{
	static char name[16];

	snprintf(name, sizeof name, "ns-%u", i % NAMESPACES);
	return name;
}

static void
tell_pod(
    struct bed *bed, enum event_type type, unsigned i, const struct model_pod *pod, bool running)
{
	struct addr addrs[POD_ADDRS];
	char name[16];
	struct object o = { .kind = OBJECT_POD,
		.namespace = namespace_of(i),
		.name = name,
		.resource_version = "" };

	snprintf(name, sizeof name, "p-%u", i);
	memcpy(addrs, pod->addrs, sizeof addrs);
	o.pod.addrs = addrs;
	o.pod.addr_count = pod->count;
	o.pod.running = running;
	store_event(bed->store, OBJECT_POD, type, &o);
}

static void
bed_begin(struct bed *bed)
{
	struct store_config config = { .records = { .ttl_s = 30 } };

	*bed = (struct bed){ .cache = treecache_new(3), .random = 5 };
	assert_int_equal(dname_from_text(&config.records.zone, "cluster.local."), 0);
	bed->store = store_new(bed->cache, &config);
}

static void
bed_end(struct bed *bed)
{
	struct addr v4 = { .family = AF_INET }, v6 = { .family = AF_INET6 };
	uint32_t number = 0;

	store_free(bed->store);
	assert_false(pods_seek(treecache_next(bed->cache), &v4, &number));
	assert_false(pods_seek(treecache_next(bed->cache), &v6, &number));
	treecache_free(bed->cache);
}

static bool
model_has(const struct bed *bed, unsigned namespace, const struct addr *addr)
{
	for (unsigned i = namespace; i < PODS; i += NAMESPACES)
		for (size_t a = 0; a < bed->pods[i].count; a++)
			if (addr_equal(&bed->pods[i].addrs[a], addr))
				return true;
	return false;
}

static void
check(const struct bed *bed)
{
	size_t running = 0;

	struct addr addrs[ADDRS];
	const char *namespaces[ADDRS];
	for (unsigned a = 0; a < ADDRS; a++)
		addrs[a] = addr_of(a);
	store_pod_namespaces(bed->store, addrs, ADDRS, namespaces);
	for (unsigned a = 0; a < ADDRS; a++) {
		bool any = false;
		for (unsigned n = 0; n < NAMESPACES; n++)
			any |= model_has(bed, n, &addrs[a]);
		assert_int_equal(namespaces[a] != NULL, any);
		if (any)
			assert_true(model_has(bed, (unsigned)atoi(namespaces[a] + 3), &addrs[a]));
	}
	for (unsigned i = 0; i < PODS; i++)
		running += bed->pods[i].count > 0;
	assert_int_equal(store_count(bed->store, OBJECT_POD), running);
	for (unsigned n = 0; n < NAMESPACES; n++) {
		const struct namespace *namespace = namespace_find(bed->store, namespace_of(n));
		bool used = bed->present[n];
		for (unsigned a = 0; a < ADDRS; a++) {
			struct addr addr = addr_of(a);
			bool has = model_has(bed, n, &addr);
			used |= has;
			assert_int_equal(namespace != NULL && pods_has(treecache_next(bed->cache),
								  &addr, namespace->number),
			    has);
		}
		assert_int_equal(namespace != NULL, used); /* none stays for nothing */
	}
}

static void
change_pod(struct bed *bed, unsigned i)
{
	struct model_pod *pod = &bed->pods[i];

	if (pick(bed, 4) == 0) {
		bool deleted = pick(bed, 2) == 0;
		tell_pod(bed, deleted ? EVENT_DELETED : EVENT_MODIFIED, i, pod, deleted);
		pod->count = 0;
		return;
	}
	if (pick(bed, 4) > 0) { /* else it is told again as it is */
		pod->count = pick(bed, POD_ADDRS + 1);
		for (size_t a = 0; a < pod->count; a++)
			pod->addrs[a] = addr_of(pick(bed, ADDRS)); /* one may come twice */
	}
	tell_pod(bed, EVENT_MODIFIED, i, pod, true);
}

static void
change_namespace(struct bed *bed, unsigned n)
{
	struct object o = { .kind = OBJECT_NAMESPACE,
		.namespace = "",
		.name = namespace_of(n),
		.resource_version = "" };

	bed->present[n] = !bed->present[n];
	store_event(
	    bed->store, OBJECT_NAMESPACE, bed->present[n] ? EVENT_ADDED : EVENT_DELETED, &o);
}

/* Some pods are gone, and nobody said so; a listing may break off and begin again. */
static void
relist(struct bed *bed)
{
	unsigned kept = pick(bed, 4);

	store_event(bed->store, OBJECT_POD, EVENT_LISTING, NULL);
	for (unsigned i = pick(bed, 2) * PODS; i < PODS; i += 2)
		tell_pod(bed, EVENT_ADDED, i, &bed->pods[i], true);
	store_event(bed->store, OBJECT_POD, EVENT_LISTING, NULL);
	for (unsigned i = 0; i < PODS; i++)
		if (pick(bed, 4) <= kept)
			tell_pod(bed, EVENT_ADDED, i, &bed->pods[i], true);
		else
			bed->pods[i].count = 0;
	store_event(bed->store, OBJECT_POD, EVENT_SYNCED, NULL);
}

static void
a_namespace_has_the_addresses_of_its_running_pods_through_any_changes(void **state)
{
	(void)state;
	static struct bed bed;

	bed_begin(&bed);
	for (unsigned step = 0; step < STEPS; step++) {
		if (pick(&bed, LISTED) == 0)
			relist(&bed);
		else if (pick(&bed, 20) == 0)
			change_namespace(&bed, pick(&bed, NAMESPACES));
		else
			change_pod(&bed, pick(&bed, PODS));
		if (step % 10 == 0)
			check(&bed);
		if (step % 50 == 0)
			treecache_publish(bed.cache, 1, true), treecache_reclaim(bed.cache);
	}
	bed_end(&bed);
}

static void
pods_that_are_told_again_as_they_were_change_nothing(void **state)
{
	(void)state;
	static struct bed bed;

	bed_begin(&bed);
	for (unsigned i = 0; i < PODS; i++) {
		bed.pods[i] = (struct model_pod){ { addr_of(4 * i), addr_of(4 * i + 3) }, 2 };
		tell_pod(&bed, EVENT_ADDED, i, &bed.pods[i], true);
	}
	assert_true(treecache_publish(bed.cache, 1, true));
	store_event(bed.store, OBJECT_POD, EVENT_LISTING, NULL);
	for (unsigned i = 0; i < PODS; i++)
		tell_pod(&bed, EVENT_ADDED, i, &bed.pods[i], true);
	assert_int_equal(bed.store->pods[0].count, PODS);
	assert_int_equal(bed.store->shares.count, 0);
	store_event(bed.store, OBJECT_POD, EVENT_SYNCED, NULL);
	assert_int_equal(store_count(bed.store, OBJECT_POD), PODS);
	assert_false(treecache_publish(bed.cache, 2, true));
	bed_end(&bed);
}

/* In seconds of the processor. */
static double
cost_of_namespaces(const struct bed *bed, const struct addr *addrs, size_t count)
{
	const char *namespaces[MANY];
	clock_t begun = clock();

	for (unsigned i = 0; i < 5; i++)
		store_pod_namespaces(bed->store, addrs, count, namespaces);
	assert_null(namespaces[count - 1]);
	return (double)(clock() - begun) / CLOCKS_PER_SEC;
}

/* /top shows a hundred clients, most of which may be no pods. */
static void
the_namespaces_of_many_addresses_cost_one_pass(void **state)
{
	(void)state;
	static struct bed bed;
	struct addr addrs[MANY];

	bed_begin(&bed);
	for (unsigned i = 0; i < 60000; i++) {
		struct model_pod pod = { { addr_of(4 * i) }, 1 };
		pod.addrs[0].bytes[1] = (uint8_t)(i >> 14);
		tell_pod(&bed, EVENT_ADDED, i, &pod, true);
	}
	for (unsigned i = 0; i < MANY; i++)
		addrs[i] = (struct addr){ AF_INET, { 192, 0, 2, (uint8_t)i } };
	assert_true(
	    cost_of_namespaces(&bed, addrs, MANY) < MANY / 4 * cost_of_namespaces(&bed, addrs, 1));
	bed_end(&bed);
}

/* A hash as good as a keyed one. */
static uint64_t
hash_of(unsigned i)
{
	return hash64(1, &i, sizeof i);
}

static void
a_table_of_pods_is_never_much_larger_than_its_entries(void **state)
{
	(void)state;
	enum { ENTRIES = 30000 };
	struct pod_table table = { .family = AF_INET };

	for (unsigned i = 0; i < ENTRIES; i++) {
		struct addr addr = { AF_INET,
			{ 10, (uint8_t)(i >> 16), (uint8_t)(i >> 8), (uint8_t)i } };
		pod_table_add(&table, hash_of(i), i + 1, 7, &addr);
		assert_true(table.count <= table.room * 4 / 5);
		assert_true(i < 1000 || table.room < table.count / 5 * 8);
	}
	for (unsigned i = 0; i < ENTRIES; i += 2) {
		struct pod_addr *entry = pod_table_next(&table, hash_of(i), NULL);
		assert_non_null(entry);
		assert_int_equal(entry->number, i + 1);
		assert_int_equal(((uint8_t *)entry - table.places) % 17, 0);
		pod_table_remove(&table, entry);
	}
	assert_int_equal(table.count, ENTRIES / 2);
	for (unsigned i = 0; i < ENTRIES; i++) {
		const struct pod_addr *entry = pod_table_next(&table, hash_of(i), NULL);
		assert_int_equal(entry != NULL, i % 2);
		if (entry != NULL)
			assert_int_equal(pod_table_addr(&table, entry).bytes[3], i & 255);
	}
	pod_table_free(&table);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
		    a_namespace_has_the_addresses_of_its_running_pods_through_any_changes),
		cmocka_unit_test(pods_that_are_told_again_as_they_were_change_nothing),
		cmocka_unit_test(the_namespaces_of_many_addresses_cost_one_pass),
		cmocka_unit_test(a_table_of_pods_is_never_much_larger_than_its_entries),
	};

	rcu_join();
	int rc = cmocka_run_group_tests(tests, NULL, NULL);
	rcu_part();
	return rc;
}
