/* Pods in the store: the addresses of the running pods of each namespace, and the cost. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "kubedns/cluster/store_internal.h"
#include "kubedns/cluster/tree_content.h"
#include "lib/rcu.h"

enum { PODS = 120, NAMESPACES = 6, ADDRS = 40, POD_ADDRS = 4, STEPS = 30000, LISTED = 200 };

struct model_pod {
	struct addr addrs[POD_ADDRS];
	size_t count; /* 0 if the pod has no address or is not running */
};

struct bed {
	struct treecache *cache;
	struct store *store;
	struct model_pod pods[PODS];
	bool present[NAMESPACES]; /* whether the Namespace object exists */
	unsigned random;
};

static unsigned
pick(struct bed *bed, unsigned below)
{
	bed->random = bed->random * 1103515245u + 12345u;
	return (bed->random >> 16) % below;
}

/* Every fourth address is an IPv6 address. */
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
	o.pod.node = "node";
	o.pod.running = running;
	o.pod.ended = !running;
	store_event(bed->store, OBJECT_POD, type, &o);
}

static void
bed_begin(struct bed *bed, bool client_pods)
{
	struct store_config config = { .records = { .ttl_s = 30 }, .client_pods = client_pods };

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

	for (unsigned a = 0; a < ADDRS; a++) {
		struct addr addr = addr_of(a);
		struct store_pod pod;
		unsigned owners = 0;

		for (unsigned n = 0; n < NAMESPACES; n++)
			owners += model_has(bed, n, &addr);
		assert_int_equal(store_find_pod(bed->store, &addr, &pod), owners == 1);
		if (owners == 1)
			assert_true(model_has(bed, (unsigned)atoi(pod.namespace + 3), &addr));
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
		assert_int_equal(namespace != NULL, used); /* no unused namespace stays */
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
	if (pick(bed, 4) > 0) { /* otherwise the pod is reported again unchanged */
		pod->count = pick(bed, POD_ADDRS + 1);
		for (size_t a = 0; a < pod->count; a++)
			pod->addrs[a] = addr_of(pick(bed, ADDRS)); /* an address may occur twice */
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

/* Lists the pods. Some pods were deleted without an event. The listing may be interrupted and
 * restarted. */
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

	bed_begin(&bed, true);
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

	bed_begin(&bed, true);
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

struct client_row {
	const char *what;
	const char *phase; /* the phase of the pod */
	bool on_host, gone;
	/* by_client: --client-pods finds it as a client. by_name: the pod has a pod name. */
	bool by_client, by_name;
};

static void
tell_client(struct bed *bed, const char *namespace, const char *name, const char *node,
    const struct client_row *row)
{
	struct addr addr = addr_of(0);
	struct object o = {
		.kind = OBJECT_POD, .namespace = namespace, .name = name, .resource_version = ""
	};

	o.pod.addrs = &addr;
	o.pod.addr_count = 1;
	o.pod.node = node;
	o.pod.running = strcmp(row->phase, "running") == 0;
	o.pod.ended = strcmp(row->phase, "ended") == 0;
	o.pod.on_host = row->on_host;
	store_event(bed->store, OBJECT_POD, row->gone ? EVENT_DELETED : EVENT_MODIFIED, &o);
}

static bool
has_pod_name(const struct bed *bed)
{
	const struct namespace *prod = namespace_find(bed->store, "prod");
	struct addr addr = addr_of(0);

	return prod != NULL && pods_run(treecache_next(bed->cache), &addr, prod->number);
}

/* The pod prod/web-1 on node-a, from its start to its end. Each row is the next event of this pod. */
static void
a_client_is_the_pod_with_its_address_from_its_first_question_to_its_last(void **state)
{
	(void)state;
	static const struct client_row rows[] = {
		{ "it starts, with init containers", "starting", false, false, true, false },
		{ "it runs", "running", false, false, true, true },
		{ "it is told again", "running", false, false, true, true },
		{ "it returns on its host's network", "running", true, false, false, true },
		{ "and as it was", "running", false, false, true, true },
		{ "it ends, and still asks", "starting", false, false, true, false },
		{ "it has ended", "ended", false, false, false, false },
		{ "it runs on its host's network", "running", true, false, false, true },
		{ "it runs on its own again", "running", false, false, true, true },
		{ "it is gone", "running", false, true, false, false },
	};
	struct addr addr = addr_of(0);
	struct store_pod pod;
	static struct bed bed;

	for (unsigned client_pods = 0; client_pods < 2; client_pods++) {
		bed_begin(&bed, client_pods == 1);
		for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
			tell_client(&bed, "prod", "web-1", "node-a", &rows[i]);
			bool wanted = rows[i].by_client && (client_pods == 1 || rows[i].by_name);
			bool found = store_find_pod(bed.store, &addr, &pod);
			if (found != wanted || has_pod_name(&bed) != rows[i].by_name)
				fail_msg("%s", rows[i].what);
			if (client_pods == 1)
				assert_int_equal(
				    client_pods_find(bed.store->client_pods, &addr) != NULL,
				    wanted);
			if (!found)
				continue;
			assert_string_equal(pod.namespace, "prod");
			assert_int_equal(pod.name != NULL, client_pods);
			if (client_pods == 0)
				continue;
			assert_string_equal(pod.name, "web-1");
			assert_string_equal(pod.node, "node-a");
		}
		bed_end(&bed);
	}
}

/* If one pod ends while another pod starts, both may be reported with one address. */
static void
an_address_of_pods_of_two_namespaces_is_nobodys(void **state)
{
	(void)state;
	static const struct client_row runs = { .phase = "running" }, ends = { .phase = "ends" },
				       gone = { .phase = "running", .gone = true };
	struct addr addr = addr_of(0);
	struct store_pod pod;
	static struct bed bed;

	bed_begin(&bed, true);
	tell_client(&bed, "prod", "web-1", "a", &runs);
	tell_client(&bed, "test", "web-1", "b", &runs);
	assert_false(store_find_pod(bed.store, &addr, &pod));
	tell_client(&bed, "test", "web-1", "b", &gone);
	assert_true(store_find_pod(bed.store, &addr, &pod));
	assert_string_equal(pod.namespace, "prod");
	/* If two pods in one namespace have the address, the running pod gets it, whichever was
	 * reported last. */
	tell_client(&bed, "prod", "web-1", "a", &ends);
	tell_client(&bed, "prod", "web-2", "b", &runs);
	tell_client(&bed, "prod", "web-1", "a", &ends);
	assert_true(store_find_pod(bed.store, &addr, &pod));
	assert_string_equal(pod.name, "web-2");
	assert_string_equal(pod.node, "b");
	tell_client(&bed, "prod", "web-1", "a", &gone);
	assert_true(store_find_pod(bed.store, &addr, &pod));
	assert_string_equal(pod.name, "web-2");
	bed_end(&bed);
}

/* Returns a hash that is as good as a keyed hash. */
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
		assert_true(table.count <= table.capacity * 4 / 5);
		assert_true(i < 1000 || table.capacity < table.count / 5 * 8);
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
		cmocka_unit_test(
		    a_client_is_the_pod_with_its_address_from_its_first_question_to_its_last),
		cmocka_unit_test(an_address_of_pods_of_two_namespaces_is_nobodys),
		cmocka_unit_test(a_table_of_pods_is_never_much_larger_than_its_entries),
	};

	rcu_join();
	int rc = cmocka_run_group_tests(tests, NULL, NULL);
	rcu_part();
	return rc;
}
