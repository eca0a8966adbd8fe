#include <stdlib.h>
#include <string.h>

#include "kubedns/store_internal.h"
#include "lib/xalloc.h"

static bool
same_pod(const void *entry, const void *key)
{
	/* 64 bits of keyed hash stand for a name that nobody asks for again. */
	return ((const struct pod *)entry)->name_hash == *(const uint64_t *)key;
}

static bool
same_share(const void *entry, const void *key)
{
	const struct share *a = entry, *b = key;

	return a->number == b->number && addr_equal(&a->addr, &b->addr);
}

/* One pod more, or fewer, has this address. */
static void
pod_addr(struct store *store, const struct addr *addr, uint32_t number, bool present)
{
	struct share key = { .number = number, .addr = *addr };

	key.hash = (uint32_t)store_hash(number, addr->bytes, addr_len(addr));
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

static void
show_pod(struct store *store, const struct pod *pod, bool present)
{
	struct addr addr;

	for (unsigned i = 0; i < (unsigned)pod->count4 + pod->count6; i++) {
		bool v4 = i < pod->count4;
		const uint8_t *bytes =
		    v4 ? pod->addrs + 4 * i : pod->addrs + 4 * pod->count4 + 16 * (i - pod->count4);
		addr = (struct addr){ .family = v4 ? AF_INET : AF_INET6 };
		memcpy(addr.bytes, bytes, addr_len(&addr));
		pod_addr(store, &addr, pod->number, present);
	}
}

void
pod_drop(struct store *store, struct pod *pod)
{
	struct namespace *namespace = store->by_number[pod->number - 1];

	show_pod(store, pod, false);
	table_remove(&store->pods, pod);
	free(pod);
	namespace->uses--;
	namespace_drop(store, namespace);
}

static size_t
count_family(const struct object *object, uint8_t family)
{
	size_t count = 0;

	for (size_t i = 0; i < object->pod.addr_count; i++)
		count += object->pod.addrs[i].family == family;
	return count > UINT8_MAX ? UINT8_MAX : count;
}

/* A running pod; its addresses are shown, and its namespace's entry is in use. */
static void
add_pod(struct store *store, uint64_t name_hash, struct namespace *namespace,
    const struct object *object)
{
	size_t count4 = count_family(object, AF_INET), count6 = count_family(object, AF_INET6);
	struct pod *pod = xcalloc(1, sizeof *pod + 4 * count4 + 16 * count6);
	size_t at4 = 0, at6 = 0;

	pod->hash = (uint32_t)name_hash;
	pod->name_hash = name_hash;
	pod->number = namespace->number;
	pod->mark = store->mark[OBJECT_POD];
	pod->count4 = (uint8_t)count4;
	pod->count6 = (uint8_t)count6;
	for (size_t i = 0; i < object->pod.addr_count; i++) {
		const struct addr *addr = &object->pod.addrs[i];
		if (addr->family == AF_INET && at4 < count4)
			memcpy(pod->addrs + 4 * at4++, addr->bytes, 4);
		else if (addr->family == AF_INET6 && at6 < count6)
			memcpy(pod->addrs + 4 * count4 + 16 * at6++, addr->bytes, 16);
	}
	namespace->uses++;
	table_add(&store->pods, pod);
	show_pod(store, pod, true);
}

void
pod_event(struct store *store, bool deleted, const struct object *object)
{
	uint64_t name_hash = store_hash_names(store, object->namespace, object->name);
	struct pod *old = table_find(&store->pods, (uint32_t)name_hash, same_pod, &name_hash);
	bool wanted = !deleted && object->pod.running && object->pod.addr_count > 0;
	struct namespace *namespace = wanted ? namespace_get(store, object->namespace)
					     : namespace_find(store, object->namespace);

	if (namespace == NULL)
		return;
	namespace->uses++; /* neither going nor coming may drop it in between */
	if (old != NULL)
		pod_drop(store, old);
	if (wanted)
		add_pod(store, name_hash, namespace, object);
	namespace->uses--;
	namespace_drop(store, namespace);
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
