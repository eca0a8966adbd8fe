/*
 * The targets of SRV records (endpoint_srv_count.c): those of a slice; and those of a whole set whose slices
 * share very many, each with the lists of ports that it is under, and in how many slices. To search the other
 * slices for each target of a slice that changes would cost their number; here a target is looked up.
 */
#include <stdlib.h>
#include <string.h>

#include "lib/hash.h"
#include "lib/xalloc.h"
#include "treecache/endpoint_internal.h"

/* --- of a slice --- */

static int
by_hash(const void *a, const void *b)
{
	const struct slice_target *ta = a, *tb = b;

	if (ta->hash != tb->hash)
		return ta->hash < tb->hash ? -1 : 1;
	return (ta->i > tb->i) - (ta->i < tb->i);
}

const uint8_t *
srv_target_label(
    const struct slice_endpoints *slice, unsigned i, uint8_t derived[TARGET_LABEL_ROOM])
{
	const uint8_t *name = slice_name(slice, i);
	struct addr addr = { .family = slice->family };

	if (name != NULL)
		return name;
	memcpy(addr.bytes, slice_addr(slice, i), addr_len(&addr));
	return tree_addr_label(&addr, derived);
}

struct slice_targets
slice_targets_of(const struct treecache *cache, const struct slice_endpoints *slice, bool spelled)
{
	struct slice_targets targets = { 0 };
	uint8_t derived[TARGET_LABEL_ROOM];
	uint64_t seed = cache->next.seed;
	size_t kept = 0;

	if (slice == NULL || slice->published == 0)
		return targets;
	targets.items = xcalloc(slice->published, sizeof *targets.items);
	targets.count = slice->published;
	for (unsigned i = 0; i < slice->published; i++) {
		const uint8_t *name =
		    spelled ? srv_target_label(slice, i, derived) : slice_name(slice, i);
		targets.items[i] =
		    (struct slice_target){ name != NULL ? hash64(seed, name, 1u + *name)
							: hash64(seed + 1, slice_addr(slice, i),
							      family_len(slice->family)),
			    i };
	}
	qsort(targets.items, targets.count, sizeof *targets.items, by_hash);
	for (size_t i = 0; i < targets.count; i++)
		if (i == 0 || targets.items[i].hash != targets.items[kept - 1].hash)
			targets.items[kept++] = targets.items[i];
	targets.count = kept;
	return targets;
}

/* --- of a set --- */

/* One owner's. */
struct srv_targets {
	uint32_t hash; /* the owner's id */
	struct table items;
};

struct srv_target {
	uint32_t hash; /* of the key */
	uint32_t count;
	uint64_t key;
	uint64_t ports; /* of all lists */
	struct srv_target_list {
		const struct ports *ports;
		uint32_t slices; /* not 0 */
	} * lists;               /* by address */
};

static bool
same_key(const void *entry, const void *key)
{
	const struct srv_target *target = entry;

	return target->key == *(const uint64_t *)key;
}

struct srv_targets *
srv_targets_find(const struct treecache *cache, const struct owner *owner)
{
	return kept_of_owner(&cache->srv_targets, owner);
}

struct srv_targets *
srv_targets_new(struct treecache *cache, const struct owner *owner)
{
	struct srv_targets *targets = xmalloc(sizeof *targets);

	*targets = (struct srv_targets){ .hash = owner->id };
	table_add(&cache->srv_targets, targets);
	return targets;
}

static void
targets_free(struct srv_targets *targets)
{
	struct srv_target *target;
	size_t place = 0;

	while ((target = table_next(&targets->items, &place)) != NULL) {
		free(target->lists);
		free(target);
	}
	table_free(&targets->items);
	free(targets);
}

void
srv_targets_drop(struct treecache *cache, struct srv_targets *targets)
{
	if (targets == NULL)
		return;
	table_remove(&cache->srv_targets, targets);
	targets_free(targets);
	if (cache->srv_targets.count == 0)
		table_free(&cache->srv_targets);
}

void
srv_targets_free_all(struct treecache *cache)
{
	struct srv_targets *targets;
	size_t place = 0;

	while ((targets = table_next(&cache->srv_targets, &place)) != NULL)
		targets_free(targets);
	table_free(&cache->srv_targets);
}

bool
srv_targets_empty(const struct srv_targets *targets)
{
	return targets->items.count == 0;
}

struct srv_target *
srv_target_at(struct srv_targets *targets, uint64_t key)
{
	uint32_t hash = hash_fold(key);
	struct srv_target *target = table_find(&targets->items, hash, same_key, &key);

	if (target == NULL) {
		target = xmalloc(sizeof *target);
		*target = (struct srv_target){ .hash = hash, .key = key };
		table_add(&targets->items, target);
	}
	return target;
}

struct srv_target *
srv_targets_next(const struct srv_targets *targets, size_t *place)
{
	return table_next(&targets->items, place);
}

size_t
srv_target_count(const struct srv_target *target)
{
	return target->count;
}

uint64_t
srv_target_ports(const struct srv_target *target)
{
	return target->ports;
}

const struct ports *
srv_target_list(const struct srv_target *target, size_t i)
{
	return target->lists[i].ports;
}

static size_t
list_place(const struct srv_target *target, const struct ports *ports)
{
	size_t low = 0, high = target->count;

	while (low < high) {
		size_t middle = (low + high) / 2;
		if ((uintptr_t)target->lists[middle].ports < (uintptr_t)ports)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

bool
srv_target_add(struct srv_target *target, const struct ports *ports)
{
	size_t place = list_place(target, ports);
	bool first = place == target->count || target->lists[place].ports != ports;

	if (first) {
		/* Room for a power of two. */
		if ((target->count & (target->count - 1)) == 0)
			target->lists = xreallocarray(target->lists,
			    target->count == 0 ? 1 : 2 * target->count, sizeof *target->lists);
		memmove(target->lists + place + 1, target->lists + place,
		    (target->count - place) * sizeof *target->lists);
		target->lists[place] = (struct srv_target_list){ ports, 0 };
		target->count++;
		target->ports += srv_list_ports(ports);
	}
	target->lists[place].slices++;
	return first;
}

bool
srv_target_remove(
    struct srv_targets *targets, struct srv_target **target, const struct ports *ports)
{
	struct srv_target *from = *target;
	size_t place = list_place(from, ports);

	if (--from->lists[place].slices > 0)
		return false;
	memmove(from->lists + place, from->lists + place + 1,
	    (--from->count - place) * sizeof *from->lists);
	from->ports -= srv_list_ports(ports);
	if (from->count == 0) {
		table_remove(&targets->items, from);
		free(from->lists);
		free(from);
		*target = NULL;
	}
	return true;
}
