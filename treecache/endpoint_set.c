/*
 * The writer's side of endpoints:
 * endpoint sets, which address is unique where, and the indexes that follow.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "lib/wire.h"
#include "lib/xalloc.h"
#include "treecache/internal.h"

/* --- owners and endpoint sets --- */

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

/* The owner's endpoint set, the writer's own and with room for one slice more, in its place in the tree. */
static struct endpoint_set *
edit_endpoint_set(struct treecache *cache, struct owner *owner)
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

static struct endpoint_set_slice *
find_slice(struct endpoint_set *endpoints, uint32_t slot)
{
	for (unsigned i = 0; i < endpoints->count; i++)
		if (endpoints->slices[i].slot == slot)
			return &endpoints->slices[i];
	return NULL;
}

static void
count_slice(struct endpoint_set *endpoints, const struct slice_endpoints *slice, int sign)
{
	uint32_t *total = slice->family == AF_INET ? &endpoints->total4 : &endpoints->total6;

	*total += (uint32_t)(sign * slice->unique);
	endpoints->published += (uint32_t)(sign * slice->published);
}

static struct endpoint_set_slice
endpoint_set_entry(const struct slice_endpoints *slice)
{
	return (struct endpoint_set_slice){ slice, slice->slot, slice->unique, slice->family };
}

/* The writer's own copy of a slice that is shown, in its place. */
static struct slice_endpoints *
edit_slice(struct treecache *cache, struct owner *owner, const struct slice_endpoints *slice)
{
	struct slice_endpoints *copy = cow_edit(cache, writers(slice), slice_bytes(slice));

	if (copy != slice) {
		find_slice(edit_endpoint_set(cache, owner), copy->slot)->slice = copy;
		slots_set(cache, &cache->next.slots, copy->slot, copy);
	}
	return copy;
}

/* Makes `slice` (NULL: nothing) what its slot and the endpoint set show,
 * in place of `old` (NULL: nothing yet). */
static void
show_slice(struct treecache *cache, struct owner *owner, const struct slice_endpoints *old,
    const struct slice_endpoints *slice)
{
	struct endpoint_set *endpoints = edit_endpoint_set(cache, owner);
	struct endpoint_set_slice *entry = old == NULL ? NULL : find_slice(endpoints, old->slot);

	if (old != NULL)
		count_slice(endpoints, old, -1);
	if (slice == NULL) {
		memmove(entry, entry + 1,
		    (size_t)(endpoints->slices + endpoints->count - entry - 1) * sizeof *entry);
		endpoints->count--;
		slot_release(cache, old->slot);
	} else {
		if (entry == NULL)
			entry = &endpoints->slices[endpoints->count++];
		*entry = endpoint_set_entry(slice);
		count_slice(endpoints, slice, 1);
		slots_set(cache, &cache->next.slots, slice->slot, slice);
	}
	if (old != slice)
		cow_drop(cache, old);
}

/* --- the runs of a slice --- */

/*
 * Another slice of the owner that shows this address:
 * in its unique run, or (unique false) behind it.
 */
static const struct slice_endpoints *
shown_elsewhere(
    struct treecache *cache, const struct slice_endpoints *slice, const uint8_t *addr, bool unique)
{
	uint8_t key[4];
	uint64_t next_slot = 0;
	const struct slice_endpoints *other;

	endpoint_addr_key(&cache->next, slice->owner, addr, slice->family, key);
	while ((other = index_next_value(&cache->next, &cache->next.endpoints, key, &next_slot)) !=
	       NULL) {
		if (other->slot == slice->slot || other->owner != slice->owner ||
		    other->family != slice->family)
			continue;
		unsigned from = unique ? 0 : other->unique,
			 to = unique ? other->unique : other->published;
		if (slice_find_addr(other, from, to, addr) < to)
			return other;
	}
	return NULL;
}

static int
by_addr4(const void *a, const void *b)
{
	uint32_t na = wire_get32(a), nb = wire_get32(b);

	return (na > nb) - (na < nb);
}

static int
by_addr16(const void *a, const void *b)
{
	return memcmp(a, b, 16);
}

/* Keys of an index, 4 or 16 bytes each, in order, each once. */
struct keys {
	uint8_t *bytes; /* from malloc */
	size_t count, len;
};

static void
keys_sort(struct keys *keys)
{
	size_t kept = 0, len = keys->len;

	qsort(keys->bytes, keys->count, len, len == 4 ? by_addr4 : by_addr16);
	for (size_t i = 0; i < keys->count; i++) {
		const uint8_t *key = keys->bytes + i * len;
		if (kept == 0 || memcmp(key, keys->bytes + (kept - 1) * len, len) != 0)
			memmove(keys->bytes + kept++ * len, key, len);
	}
	keys->count = kept;
}

/* The place of `key`, or keys->count. */
static size_t
keys_find(const struct keys *keys, const uint8_t *key)
{
	const uint8_t *found = keys->count == 0 ? NULL
						: bsearch(key, keys->bytes, keys->count, keys->len,
						      keys->len == 4 ? by_addr4 : by_addr16);

	return found == NULL ? keys->count : (size_t)(found - keys->bytes) / keys->len;
}

/* The slice's published addresses; of none if it is NULL. */
static struct keys
addr_keys(const struct slice_endpoints *slice)
{
	struct keys keys = { 0 };

	if (slice == NULL)
		return keys;
	keys = (struct keys){ .count = slice->published, .len = family_len(slice->family) };
	keys.bytes = xmalloc(keys.count * keys.len);
	memcpy(keys.bytes, slice->bytes, keys.count * keys.len);
	keys_sort(&keys);
	return keys;
}

/* Whether entry `i` has the address that the slice's predecessor counts in the same place. */
static bool
counted_before(const struct slice_endpoints *old, const struct slice_endpoints *slice, unsigned i)
{
	return old != NULL && i < old->unique && old->family == slice->family &&
	       memcmp(slice_addr(old, i), slice_addr(slice, i), family_len(slice->family)) == 0;
}

/*
 * Sorts the entries into their three runs; `others`: the owner has other slices. Most of what `old`
 * (or NULL) counts comes again: nobody else does, so nobody need be asked.
 */
static void
slice_runs(struct treecache *cache, const struct slice_endpoints *old,
    struct slice_endpoints *slice, bool not_ready_too, bool others)
{
	unsigned published = 0, unique = 0;

	for (unsigned i = 0; i < slice->count; i++)
		if (not_ready_too || slice_ready(slice, i))
			slice_swap(slice, i, published++);
	slice->published = (uint16_t)published;

	struct keys mine = addr_keys(slice->distinct ? NULL : slice);
	bool *taken = xcalloc(mine.count, sizeof *taken);
	for (unsigned i = 0; i < published; i++) {
		const uint8_t *addr = slice_addr(slice, i);
		size_t at = mine.count == 0 ? 0 : keys_find(&mine, addr);
		if ((mine.count > 0 && taken[at]) ||
		    (others && !counted_before(old, slice, i) &&
			shown_elsewhere(cache, slice, addr, true) != NULL))
			continue;
		if (mine.count > 0)
			taken[at] = true;
		slice_swap(slice, i, unique++);
	}
	slice->unique = (uint16_t)unique;
	free(taken);
	free(mine.bytes);
}

/* Lets another slice of the owner count an address that `slice` unique and no longer shows. */
static void
hand_over(struct treecache *cache, struct owner *owner, const struct slice_endpoints *slice,
    const uint8_t *addr)
{
	const struct slice_endpoints *heir = shown_elsewhere(cache, slice, addr, false);

	if (heir == NULL || shown_elsewhere(cache, slice, addr, true) != NULL)
		return;
	struct slice_endpoints *copy = edit_slice(cache, owner, heir);
	struct endpoint_set *endpoints = edit_endpoint_set(cache, owner);
	count_slice(endpoints, copy, -1);
	slice_swap(copy, slice_find_addr(copy, copy->unique, copy->published, addr), copy->unique);
	copy->unique++;
	count_slice(endpoints, copy, 1);
	*find_slice(endpoints, copy->slot) = endpoint_set_entry(copy);
}

/* --- the indexes follow a slice --- */

static struct index *
writers_reverse(struct treecache *cache, uint8_t family)
{
	return family == AF_INET ? &cache->next.reverse4 : &cache->next.reverse6;
}

/* The keys that a slice has in the endpoint index, and whether each entry's were its own; of none
 * if it is NULL. */
static struct keys
endpoint_keys(const struct treecache *cache, const struct slice_endpoints *slice, bool *distinct)
{
	struct keys keys = { .len = 4 };

	*distinct = true;
	if (slice == NULL)
		return keys;
	keys.bytes = xmalloc(slice->count * 2u * 4u);
	for (unsigned i = 0; i < slice->count; i++) {
		const uint8_t *name = slice_name(slice, i);
		endpoint_addr_key(&cache->next, slice->owner, slice_addr(slice, i), slice->family,
		    keys.bytes + 4 * keys.count++);
		if (name != NULL)
			endpoint_name_key(
			    &cache->next, slice->owner, name, keys.bytes + 4 * keys.count++);
	}
	size_t all = keys.count;
	keys_sort(&keys);
	*distinct = keys.count == all;
	return keys;
}

/* Brings what an index holds of a slot from `old` to `new`; frees both. */
static void
index_change(
    struct treecache *cache, struct index *index, uint32_t slot, struct keys old, struct keys new)
{
	size_t i = 0, j = 0, len = index->key_len;

	while (i < old.count || j < new.count) {
		int order = i == old.count   ? 1
			    : j == new.count ? -1
					     : memcmp(old.bytes + i * len, new.bytes + j *len, len);
		if (order < 0)
			index_remove(cache, index, old.bytes + i * len, slot);
		else if (order > 0)
			index_insert(cache, index, new.bytes + j *len, slot);
		i += order <= 0;
		j += order >= 0;
	}
	free(old.bytes);
	free(new.bytes);
}

/* The same for the reverse index, which holds published addresses only; either may be NULL. */
static void
index_reverse(
    struct treecache *cache, const struct slice_endpoints *old, const struct slice_endpoints *slice)
{
	const struct slice_endpoints *one = slice != NULL ? slice : old;

	if (one != NULL)
		index_change(cache, writers_reverse(cache, one->family), one->slot, addr_keys(old),
		    addr_keys(slice));
}

/*
 * Whether no other slice of the owner has a host name of this one; one that has is told, so that a
 * reader who finds a slice alone need not look. Nor need this for what `old` (or NULL) had alone.
 */
static bool
names_alone(struct treecache *cache, struct owner *owner, const struct slice_endpoints *old,
    const struct slice_endpoints *slice)
{
	bool alone = true;

	for (unsigned i = 0; i < slice->count; i++) {
		const uint8_t *name = slice_name(slice, i);
		const struct slice_endpoints *other;
		uint64_t next_slot = 0;
		uint8_t key[4];
		bool before = old != NULL && old->alone && i < old->count;
		if (name == NULL || (before && slice_find_name(old, i, i + 1, name) == i))
			continue;
		endpoint_name_key(&cache->next, owner, name, key);
		while ((other = index_next_value(
			    &cache->next, &cache->next.endpoints, key, &next_slot)) != NULL) {
			if (other->slot == slice->slot || other->owner != owner)
				continue;
			alone = false;
			if (other->alone)
				edit_slice(cache, owner, other)->alone = false;
		}
	}
	return alone;
}

static bool
answers_ptr(uint32_t flags)
{
	return (flags & (ENDPOINTS_REVERSE | ENDPOINTS_ATTACHED)) ==
	       (ENDPOINTS_REVERSE | ENDPOINTS_ATTACHED);
}

/* Lets others count what `old` unique and `slice` does not show. */
static void
hand_over_gone(struct treecache *cache, struct owner *owner, const struct slice_endpoints *old,
    const struct slice_endpoints *slice)
{
	struct keys shown = addr_keys(slice != NULL && slice->family == old->family ? slice : NULL);

	for (unsigned i = 0; i < old->unique; i++)
		if (keys_find(&shown, slice_addr(old, i)) == shown.count)
			hand_over(cache, owner, old, slice_addr(old, i));
	free(shown.bytes);
}

/* Replaces `old` by `slice` everywhere; `flags` are the endpoint set's from now on, `old_flags` those that
 * `old` was indexed under. */
static void
replace_slice(struct treecache *cache, struct owner *owner, const struct slice_endpoints *old,
    struct slice_endpoints *slice, uint32_t old_flags, uint32_t flags)
{
	assert(old != NULL || slice != NULL);
	bool others = owner->endpoints->count > (old != NULL), distinct;
	struct keys from = endpoint_keys(cache, old, &distinct);
	struct keys to = endpoint_keys(cache, slice, &distinct);

	if (slice != NULL) {
		slice->distinct = distinct;
		slice_runs(cache, old, slice, flags & ENDPOINTS_NOT_READY, others);
		slice->alone = !others || names_alone(cache, owner, old, slice);
	}
	if (others && old != NULL)
		hand_over_gone(cache, owner, old, slice);
	index_change(
	    cache, &cache->next.endpoints, slice != NULL ? slice->slot : old->slot, from, to);
	index_reverse(
	    cache, answers_ptr(old_flags) ? old : NULL, answers_ptr(flags) ? slice : NULL);
	show_slice(cache, owner, old, slice);
}

uint32_t
treecache_slice(struct treecache *cache, struct owner *owner, uint32_t slot, uint8_t family,
    const struct ports *ports, const struct endpoint *endpoints, size_t count)
{
	const struct slice_endpoints *old = slot == 0 ? NULL : slots_get(&cache->next.slots, slot);
	uint32_t flags = owner->endpoints->flags;

	assert(count <= UINT16_MAX);
	if (old != NULL &&
	    old->family != family) { /* one name, another family: nothing can be kept */
		treecache_slice_remove(cache, owner, slot);
		old = NULL;
		slot = 0;
	}
	if (slot == 0)
		slot = slot_alloc(cache);
	struct slice_endpoints *slice =
	    slice_pack(cache, owner, slot, family, ports, endpoints, count);
	replace_slice(cache, owner, old, slice, flags, flags);
	return slot;
}

void
treecache_slice_remove(struct treecache *cache, struct owner *owner, uint32_t slot)
{
	uint32_t flags = owner->endpoints->flags;

	replace_slice(cache, owner, slots_get(&cache->next.slots, slot), NULL, flags, flags);
}

const struct slice_endpoints *
treecache_slice_at(const struct treecache *cache, uint32_t slot)
{
	return slots_get(&cache->next.slots, slot);
}

void
treecache_endpoint_set_flags(struct treecache *cache, struct owner *owner, uint32_t flags)
{
	uint32_t old_flags = owner->endpoints->flags;

	if (flags == old_flags)
		return;
	struct endpoint_set *endpoints = edit_endpoint_set(cache, owner);
	if (old_flags & ENDPOINTS_ATTACHED)
		treecache_edit(cache, owner->name)->endpoints = NULL;
	endpoints->flags = flags;
	for (unsigned i = 0; i < owner->endpoints->count; i++) {
		const struct slice_endpoints *old = owner->endpoints->slices[i].slice;
		if ((flags ^ old_flags) & ENDPOINTS_NOT_READY) {
			struct slice_endpoints *copy = xmalloc(slice_bytes(old));
			memcpy(copy, old, slice_bytes(old));
			copy->epoch = cache->epoch;
			replace_slice(cache, owner, old, copy, old_flags, flags);
		} else {
			index_reverse(cache, answers_ptr(old_flags) ? old : NULL,
			    answers_ptr(flags) ? old : NULL);
		}
	}
	if (flags & ENDPOINTS_ATTACHED)
		treecache_edit(cache, owner->name)->endpoints = owner->endpoints;
}

void
treecache_owner_addr(
    struct treecache *cache, struct owner *owner, const struct addr *addr, bool present)
{
	struct index *reverse = writers_reverse(cache, addr->family);

	if (owner->slot == 0) {
		owner->slot = slot_alloc(cache);
		slots_set(cache, &cache->next.slots, owner->slot, (const uint8_t *)owner + 1);
	}
	if (present)
		index_insert(cache, reverse, addr->bytes, owner->slot);
	else
		index_remove(cache, reverse, addr->bytes, owner->slot);
}

void
treecache_pod(struct treecache *cache, const struct addr *addr, uint32_t number, bool present)
{
	struct index *pods = addr->family == AF_INET ? &cache->next.pods4 : &cache->next.pods6;

	if (present)
		index_insert(cache, pods, addr->bytes, number);
	else
		index_remove(cache, pods, addr->bytes, number);
}
