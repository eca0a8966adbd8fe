/*
 * Pods' addresses (for --pods=verified) and the nodes' zone and region (for federations). Queries
 * name a pod by its address, so of its own name a 64-bit keyed hash is enough. Pods on their host's
 * network share its address: the store counts how many have each address.
 */
#include <stdlib.h>
#include <string.h>

#include "kubedns/cluster/store_internal.h"
#include "lib/xalloc.h"

static bool
same_share(const void *entry, const void *key)
{
	const struct share *a = entry, *b = key;

	return a->number == b->number && addr_equal(&a->addr, &b->addr);
}

/* One pod more, or fewer, has this address. */
static void
show_addr(struct store *store, const struct addr *addr, uint32_t number, bool present)
{
	struct share key = { .number = number, .addr = *addr };

	key.hash = (uint32_t)hash64(
	    treecache_next(store->cache)->seed + number, addr->bytes, addr_len(addr));
	struct share *share = table_find(&store->shares, key.hash, same_share, &key);
	if (present && pods_has(treecache_next(store->cache), addr, number)) {
		if (share == NULL) {
			share = xmalloc(sizeof *share);
			*share = key;
			table_add(&store->shares, share);
		}
		share->more++;
	} else if (present || share == NULL) {
		treecache_pod(store->cache, addr, number, present);
	} else if (--share->more == 0) {
		table_remove(&store->shares, share);
		free(share);
	}
}

static bool
has_addr(const struct object *object, const struct addr *addr)
{
	for (size_t i = 0; i < object->pod.addr_count; i++)
		if (addr_equal(&object->pod.addrs[i], addr))
			return true;
	return false;
}

static void
drop_addr(struct store *store, struct pod_table *table, struct pod_addr *entry)
{
	struct namespace *namespace = store->by_number[entry->number - 1];
	struct addr addr = pod_table_addr(table, entry);

	show_addr(store, &addr, namespace->number, false);
	pod_table_remove(table, entry);
	namespace->uses--;
	namespace_drop(store, namespace);
}

/* Drops the pod's addresses except those that `object` still has; NULL: all. */
static void
forget_addrs(
    struct store *store, struct pod_table *table, uint64_t name_hash, const struct object *object)
{
	struct pod_addr *entry = NULL;

	while ((entry = pod_table_next(table, name_hash, entry)) != NULL) {
		struct addr addr = pod_table_addr(table, entry);
		if (object != NULL && has_addr(object, &addr))
			continue;
		drop_addr(store, table, entry);
		entry = NULL; /* removing moves entries: start again */
	}
}

static void
forget_pod(struct store *store, uint64_t name_hash, const struct object *object)
{
	forget_addrs(store, &store->pods[0], name_hash, object);
	forget_addrs(store, &store->pods[1], name_hash, object);
}

static bool
has_pod(const struct store *store, uint64_t name_hash)
{
	return pod_table_next(&store->pods[0], name_hash, NULL) != NULL ||
	       pod_table_next(&store->pods[1], name_hash, NULL) != NULL;
}

/* Adds an address of a running pod; marks it as seen if it is known already. */
static void
note_addr(
    struct store *store, uint64_t name_hash, struct namespace *namespace, const struct addr *addr)
{
	struct pod_table *table = &store->pods[addr->family == AF_INET ? 0 : 1];
	uint8_t mark = store->mark[OBJECT_POD];
	struct pod_addr *entry = NULL;

	while ((entry = pod_table_next(table, name_hash, entry)) != NULL)
		if (memcmp(entry->bytes, addr->bytes, addr_len(addr)) == 0) {
			entry->mark = mark;
			return;
		}
	pod_table_add(table, name_hash, namespace->number, mark, addr);
	namespace->uses++;
	show_addr(store, addr, namespace->number, true);
}

void
pod_event(struct store *store, bool deleted, const struct object *object)
{
	uint64_t name_hash = store_hash_names(store, object->namespace, object->name);
	bool wanted = !deleted && object->pod.running && object->pod.addr_count > 0;
	struct namespace *namespace = wanted ? namespace_get(store, object->namespace)
					     : namespace_find(store, object->namespace);

	if (namespace == NULL)
		return;
	if (object->cut)
		store_note_cut(store, object, &(bool){ false });
	namespace->uses++; /* or dropping its last address could free it */
	store->present_pods += (size_t)wanted - (size_t)has_pod(store, name_hash);
	forget_pod(store, name_hash, wanted ? object : NULL);
	for (size_t i = 0; wanted && i < object->pod.addr_count; i++)
		note_addr(store, name_hash, namespace, &object->pod.addrs[i]);
	namespace->uses--;
	namespace_drop(store, namespace);
}

static void
sweep_table(struct store *store, struct pod_table *table)
{
	struct pod_addr *entry;

	for (size_t i = 0; i < table->room; i++)
		while ((entry = pod_table_at(table, i)) != NULL &&
		       entry->mark != store->mark[OBJECT_POD]) {
			uint64_t name_hash = entry->name_hash;
			drop_addr(store, table, entry);
			store->present_pods -= !has_pod(store, name_hash);
		}
}

size_t
pods_sweep(struct store *store)
{
	size_t before = store->present_pods;

	sweep_table(store, &store->pods[0]);
	sweep_table(store, &store->pods[1]);
	return before - store->present_pods;
}

/* --- whose an address is --- */

struct wanted {
	const struct addr *addr;
	const char **namespace;
};

static int
by_addr(const void *a, const void *b)
{
	const struct addr *x = ((const struct wanted *)a)->addr,
			  *y = ((const struct wanted *)b)->addr;

	return x->family != y->family ? (x->family > y->family) - (x->family < y->family)
				      : memcmp(x->bytes, y->bytes, addr_len(x));
}

static void
find_in_table(const struct store *store, const struct pod_table *table, const struct wanted *wanted,
    size_t count)
{
	for (size_t i = 0; i < table->room; i++) {
		const struct pod_addr *entry = pod_table_at(table, i);
		if (entry == NULL)
			continue;
		const struct addr addr = pod_table_addr(table, entry);
		const struct wanted key = { .addr = &addr };
		const struct wanted *found = bsearch(&key, wanted, count, sizeof key, by_addr);
		if (found != NULL && *found->namespace == NULL)
			*found->namespace =
			    (const char *)store->by_number[entry->number - 1]->label + 1;
	}
}

void
store_pod_namespaces(
    const struct store *store, const struct addr *addrs, size_t count, const char **namespaces)
{
	struct wanted *wanted = xcalloc(count + 1, sizeof *wanted);

	for (size_t i = 0; i < count; i++) {
		namespaces[i] = NULL;
		wanted[i] = (struct wanted){ &addrs[i], &namespaces[i] };
	}
	qsort(wanted, count, sizeof *wanted, by_addr);
	for (size_t t = 0; count > 0 && t < 2; t++)
		find_in_table(store, &store->pods[t], wanted, count);
	free(wanted);
}

/* --- nodes --- */

static bool
same_host(const void *entry, const void *key)
{
	return strcmp(((const struct host *)entry)->name, key) == 0;
}

void
node_drop(struct store *store, struct host *host)
{
	table_remove(&store->hosts, host);
	free(host->zone);
	free(host->region);
	free(host);
}

void
node_event(struct store *store, bool deleted, const struct object *object)
{
	uint32_t hash = (uint32_t)store_hash_names(store, object->name, "");
	struct host *host = table_find(&store->hosts, hash, same_host, object->name);

	if (host != NULL)
		node_drop(store, host);
	if (deleted)
		return;
	host = xcalloc(1, sizeof *host + strlen(object->name) + 1);
	host->hash = hash;
	host->mark = store->mark[OBJECT_NODE];
	strcpy(host->name, object->name);
	host->zone = xstrdup(object->node.zone);
	host->region = xstrdup(object->node.region);
	table_add(&store->hosts, host);
}

void
store_location(const struct store *store, const char **zone, const char **region)
{
	const struct host *host, *first = NULL;
	size_t place = 0;

	while ((host = table_next(&store->hosts, &place)) != NULL)
		if (*host->zone != '\0' && *host->region != '\0' &&
		    (first == NULL || strcmp(host->name, first->name) < 0))
			first = host;
	*zone = first == NULL ? "" : first->zone;
	*region = first == NULL ? "" : first->region;
}
