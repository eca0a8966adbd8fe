/*
 * The writer's side of endpoints: owners, their endpoint sets, and replacing a slice by another.
 */
#include <assert.h>
#include <string.h>

#include "lib/xalloc.h"
#include "treecache/endpoint_internal.h"

static size_t
endpoint_set_size(unsigned room)
{
	return sizeof(struct endpoint_set) + room * sizeof(struct endpoint_set_slice);
}

struct owner *
treecache_owner(struct treecache *cache, const uint8_t *name)
{
	size_t len = dname_length(name, DNAME_MAX);
	struct owner *owner = xmalloc(sizeof *owner + len);
	struct endpoint_set *endpoints = cow_new(cache, endpoint_set_size(1));

	owner->id = ++cache->owner_count;
	owner->slot = 0;
	owner->len = (uint8_t)len;
	memcpy(owner->name, name, len);
	*endpoints = (struct endpoint_set){ .epoch = endpoints->epoch, .owner = owner, .room = 1 };
	owner->endpoints = endpoints;
	return owner;
}

void
treecache_owner_free(struct treecache *cache, struct owner *owner)
{
	assert(owner->endpoints->count == 0 && (owner->endpoints->flags & ENDPOINTS_ATTACHED) == 0);
	if (owner->slot != 0)
		slot_release(cache, owner->slot);
	cow_drop(cache, owner->endpoints);
	treecache_retire(cache, owner);
}

/* The owner's endpoint set, copied if it is not the writer's own, with room for one slice more; the
 * owner, and its node if the set is attached, point to the result. */
struct endpoint_set *
endpoint_set_edit(struct treecache *cache, struct owner *owner)
{
	struct endpoint_set *endpoints = owner->endpoints;

	if (endpoints->count == endpoints->room) {
		unsigned room = endpoints->room * 2;
		endpoints = cow_new(cache, endpoint_set_size(room));
		uint32_t epoch = endpoints->epoch;
		memcpy(endpoints, owner->endpoints, endpoint_set_size(owner->endpoints->count));
		endpoints->epoch = epoch;
		endpoints->room = room;
		cow_drop(cache, owner->endpoints);
	} else {
		endpoints = cow_edit(cache, endpoints, endpoint_set_size(endpoints->room));
	}
	owner->endpoints = endpoints;
	if (endpoints->flags & ENDPOINTS_ATTACHED)
		treecache_edit(cache, owner->name)->endpoints = endpoints;
	return endpoints;
}

/* The place of a slice in its set, or where it would be. */
static unsigned
slice_place(const struct endpoint_set *endpoints, const struct slice_endpoints *slice)
{
	unsigned low = 0, high = endpoints->count;

	while (low < high) {
		unsigned middle = (low + high) / 2;
		if (slice_compare(endpoints->slices[middle].slice, slice) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

struct endpoint_set_slice *
endpoint_set_find_slice(struct endpoint_set *endpoints, const struct slice_endpoints *slice)
{
	unsigned place = slice_place(endpoints, slice);

	assert(place < endpoints->count && endpoints->slices[place].slot == slice->slot);
	return &endpoints->slices[place];
}

void
endpoint_set_count(struct endpoint_set *endpoints, const struct slice_endpoints *slice, int sign)
{
	uint32_t *total = slice->family == AF_INET ? &endpoints->total4 : &endpoints->total6;

	*total += (uint32_t)(sign * slice->unique);
	endpoints->published += (uint32_t)(sign * slice->published);
	endpoints->dashed += (uint32_t)(sign * slice->dashed);
}

struct endpoint_set_slice
endpoint_set_entry(const struct slice_endpoints *slice)
{
	return (struct endpoint_set_slice){ slice, slice->slot, slice->unique, slice->family };
}

/* The writer's own copy of a slice of the set, which it replaces there. */
struct slice_endpoints *
endpoint_set_edit_slice(
    struct treecache *cache, struct owner *owner, const struct slice_endpoints *slice)
{
	struct slice_endpoints *copy = cow_edit(cache, writers(slice), slice_bytes(slice));

	if (copy != slice) {
		endpoint_set_find_slice(endpoint_set_edit(cache, owner), copy)->slice = copy;
		slot_table_set(cache, &cache->next.slots, copy->slot, copy);
	}
	return copy;
}

/* Ids are distinct, and are the hashes. */
static bool
is_owners(const void *entry, const void *key)
{
	(void)entry;
	(void)key;
	return true;
}

void *
kept_of_owner(const struct table *table, const struct owner *owner)
{
	return table->count == 0 ? NULL : table_find(table, owner->id, is_owners, NULL);
}

/* Puts `slice` (NULL: nothing) into its slot and the endpoint set, in place of `old` (NULL: nothing
 * yet). */
static void
show_slice(struct treecache *cache, struct owner *owner, const struct slice_endpoints *old,
    const struct slice_endpoints *slice)
{
	struct endpoint_set *endpoints = endpoint_set_edit(cache, owner);
	unsigned place = slice_place(endpoints, old != NULL ? old : slice);
	struct endpoint_set_slice *entry = &endpoints->slices[place];
	size_t behind = (endpoints->count - place) * sizeof *entry;

	if (old != NULL)
		endpoint_set_count(endpoints, old, -1);
	if (slice == NULL) {
		memmove(entry, entry + 1, behind - sizeof *entry);
		endpoints->count--;
		slot_release(cache, old->slot);
	} else {
		if (old == NULL) {
			memmove(entry + 1, entry, behind);
			endpoints->count++;
		}
		*entry = endpoint_set_entry(slice);
		endpoint_set_count(endpoints, slice, 1);
		slot_table_set(cache, &cache->next.slots, slice->slot, slice);
	}
	if (old != slice)
		cow_drop(cache, old);
}

static bool
all_ready(const struct slice_endpoints *slice)
{
	for (unsigned i = 0; i < slice->count; i++)
		if (!slice_ready(slice, i))
			return false;
	return true;
}

static bool
answers_ptr(uint32_t flags)
{
	return (flags & (ENDPOINTS_REVERSE | ENDPOINTS_ATTACHED)) ==
	       (ENDPOINTS_REVERSE | ENDPOINTS_ATTACHED);
}

/* Replaces `old` by `slice` (either may be NULL) in the set, the slots and the indexes.
 * `old_flags`: the set's flags when `old` was indexed; `flags`: those from now on. */
static void
replace_slice(struct treecache *cache, struct owner *owner, const struct slice_endpoints *old,
    struct slice_endpoints *slice, uint32_t old_flags, uint32_t flags)
{
	assert(old != NULL || slice != NULL);
	bool others = owner->endpoints->count > (old != NULL), distinct;
	struct endpoint_keys from = endpoint_index_keys(cache, old, &distinct);

	endpoint_dedup_change(cache, owner, old, slice, flags & ENDPOINTS_NOT_READY);
	struct endpoint_keys to = endpoint_index_keys(cache, slice, &distinct);
	if (slice != NULL) {
		slice->distinct = distinct;
		slice->alone = !others || endpoint_index_names_alone(cache, owner, old, slice);
	}
	endpoint_index_change(
	    cache, &cache->next.endpoints, slice != NULL ? slice->slot : old->slot, from, to);
	endpoint_index_reverse(
	    cache, answers_ptr(old_flags) ? old : NULL, answers_ptr(flags) ? slice : NULL);
	show_slice(cache, owner, old, slice);
}

uint32_t
treecache_slice(
    struct treecache *cache, struct owner *owner, uint32_t slot, const struct slice_source *source)
{
	const struct slice_endpoints *old =
	    slot == 0 ? NULL : slot_table_get(&cache->next.slots, slot);
	uint32_t flags = owner->endpoints->flags;

	assert(source->count <= ENDPOINTS_MAX);
	/* A slice that changes its family is a new one: its slot is not kept either. */
	if (old != NULL && old->family != source->family) {
		treecache_slice_remove(cache, owner, slot);
		old = NULL;
		slot = 0;
	}
	if (slot == 0)
		slot = slot_alloc(cache);
	replace_slice(cache, owner, old, slice_pack(cache, owner, slot, source), flags, flags);
	return slot;
}

void
treecache_slice_remove(struct treecache *cache, struct owner *owner, uint32_t slot)
{
	uint32_t flags = owner->endpoints->flags;

	replace_slice(cache, owner, slot_table_get(&cache->next.slots, slot), NULL, flags, flags);
}

const struct slice_endpoints *
treecache_slice_at(const struct treecache *cache, uint32_t slot)
{
	return slot_table_get(&cache->next.slots, slot);
}

void
treecache_endpoint_set_flags(struct treecache *cache, struct owner *owner, uint32_t flags)
{
	uint32_t old_flags = owner->endpoints->flags;

	if (flags == old_flags)
		return;
	struct endpoint_set *endpoints = endpoint_set_edit(cache, owner);
	if (old_flags & ENDPOINTS_ATTACHED)
		treecache_edit(cache, owner->name)->endpoints = NULL;
	endpoints->flags = flags;
	for (unsigned i = 0; i < owner->endpoints->count; i++) {
		const struct slice_endpoints *old = owner->endpoints->slices[i].slice;
		if ((flags ^ old_flags) & ENDPOINTS_NOT_READY && !all_ready(old)) {
			struct slice_endpoints *copy = xmalloc(slice_bytes(old));
			memcpy(copy, old, slice_bytes(old));
			copy->epoch = cache->epoch;
			replace_slice(cache, owner, old, copy, old_flags, flags);
		} else {
			endpoint_index_reverse(cache, answers_ptr(old_flags) ? old : NULL,
			    answers_ptr(flags) ? old : NULL);
		}
	}
	if (flags & ENDPOINTS_ATTACHED)
		treecache_edit(cache, owner->name)->endpoints = owner->endpoints;
}

/* Adds the owner's own slot, made if missing, to an index under this key, or removes it. */
static void
owner_index(struct treecache *cache, struct pair_btree *index, const uint8_t *key,
    struct owner *owner, bool present)
{
	if (owner->slot == 0) {
		owner->slot = slot_alloc(cache);
		slot_table_set(cache, &cache->next.slots, owner->slot, (const uint8_t *)owner + 1);
	}
	if (present)
		pair_btree_insert(cache, index, key, owner->slot);
	else
		pair_btree_remove(cache, index, key, owner->slot);
}

void
treecache_owner_addr(
    struct treecache *cache, struct owner *owner, const struct addr *addr, bool present)
{
	owner_index(cache, endpoint_index_writers_reverse(cache, addr->family), addr->bytes, owner,
	    present);
}

void
treecache_owner_label(struct treecache *cache, struct owner *owner, bool present)
{
	uint8_t key[4];

	owner_label_key(&cache->next, owner->name, key);
	owner_index(cache, &cache->next.labels, key, owner, present);
}
