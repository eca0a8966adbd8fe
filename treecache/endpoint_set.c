/*
 * The writer's side of endpoints:
 * pools, which address is counted where, and the indexes that follow.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "lib/wire.h"
#include "lib/xalloc.h"
#include "treecache/internal.h"

/* --- owners and pools --- */

static size_t
pool_size(unsigned room)
{
	return sizeof(struct pool) + room * sizeof(struct pool_chunk);
}

struct owner *
treecache_owner(struct treecache *cache, const uint8_t *name)
{
	size_t len = dname_length(name, DNAME_MAX);
	struct owner *owner = xmalloc(sizeof *owner + len);
	struct pool *pool = cow_new(cache, pool_size(1));

	owner->id = ++cache->owner_count;
	owner->slot = 0;
	owner->len = (uint8_t)len;
	memcpy(owner->name, name, len);
	*pool = (struct pool){ .epoch = pool->epoch, .owner = owner, .room = 1 };
	owner->pool = pool;
	return owner;
}

void
treecache_owner_free(struct treecache *cache, struct owner *owner)
{
	assert(owner->pool->count == 0 && (owner->pool->flags & POOL_ATTACHED) == 0);
	if (owner->slot != 0)
		slot_release(cache, owner->slot);
	cow_drop(cache, owner->pool);
	treecache_retire(cache, owner);
}

/* The owner's pool, the writer's own and with room for one chunk more, in its place in the tree. */
static struct pool *
edit_pool(struct treecache *cache, struct owner *owner)
{
	struct pool *pool = owner->pool;

	if (pool->count == pool->room) {
		unsigned room = pool->room * 2;
		pool = cow_new(cache, pool_size(room));
		uint32_t epoch = pool->epoch;
		memcpy(pool, owner->pool, pool_size(owner->pool->count));
		pool->epoch = epoch;
		pool->room = room;
		cow_drop(cache, owner->pool);
	} else {
		pool = cow_edit(cache, pool, pool_size(pool->room));
	}
	owner->pool = pool;
	if (pool->flags & POOL_ATTACHED)
		treecache_edit(cache, owner->name)->pool = pool;
	return pool;
}

static struct pool_chunk *
find_chunk(struct pool *pool, uint32_t slot)
{
	for (unsigned i = 0; i < pool->count; i++)
		if (pool->chunks[i].slot == slot)
			return &pool->chunks[i];
	return NULL;
}

static void
count_chunk(struct pool *pool, const struct chunk *chunk, int sign)
{
	uint32_t *total = chunk->family == AF_INET ? &pool->total4 : &pool->total6;

	*total += (uint32_t)(sign * chunk->counted);
	pool->published += (uint32_t)(sign * chunk->published);
}

static struct pool_chunk
pool_entry(const struct chunk *chunk)
{
	return (struct pool_chunk){ chunk, chunk->slot, chunk->counted, chunk->family };
}

/* The writer's own copy of a chunk that is shown, in its place. */
static struct chunk *
edit_chunk(struct treecache *cache, struct owner *owner, const struct chunk *chunk)
{
	struct chunk *copy = cow_edit(cache, writers(chunk), chunk_bytes(chunk));

	if (copy != chunk) {
		find_chunk(edit_pool(cache, owner), copy->slot)->chunk = copy;
		slots_set(cache, &cache->next.slots, copy->slot, copy);
	}
	return copy;
}

/* Makes `chunk` (NULL: nothing) what its slot and the pool show,
 * in place of `old` (NULL: nothing yet). */
static void
show_chunk(struct treecache *cache, struct owner *owner, const struct chunk *old,
    const struct chunk *chunk)
{
	struct pool *pool = edit_pool(cache, owner);
	struct pool_chunk *entry = old == NULL ? NULL : find_chunk(pool, old->slot);

	if (old != NULL)
		count_chunk(pool, old, -1);
	if (chunk == NULL) {
		memmove(entry, entry + 1,
		    (size_t)(pool->chunks + pool->count - entry - 1) * sizeof *entry);
		pool->count--;
		slot_release(cache, old->slot);
	} else {
		if (entry == NULL)
			entry = &pool->chunks[pool->count++];
		*entry = pool_entry(chunk);
		count_chunk(pool, chunk, 1);
		slots_set(cache, &cache->next.slots, chunk->slot, chunk);
	}
	if (old != chunk)
		cow_drop(cache, old);
}

/* --- the runs of a chunk --- */

/*
 * Another chunk of the owner that shows this address:
 * in its counted run, or (counted false) behind it.
 */
static const struct chunk *
shown_elsewhere(
    struct treecache *cache, const struct chunk *chunk, const uint8_t *addr, bool counted)
{
	uint8_t key[4];
	uint64_t next_slot = 0;
	const struct chunk *other;

	endpoint_addr_key(&cache->next, chunk->owner, addr, chunk->family, key);
	while ((other = index_next_value(&cache->next, &cache->next.endpoints, key, &next_slot)) !=
	       NULL) {
		if (other->slot == chunk->slot || other->owner != chunk->owner ||
		    other->family != chunk->family)
			continue;
		unsigned from = counted ? 0 : other->counted,
			 to = counted ? other->counted : other->published;
		if (chunk_find_addr(other, from, to, addr) < to)
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

/* The chunk's published addresses; of none if it is NULL. */
static struct keys
addr_keys(const struct chunk *chunk)
{
	struct keys keys = { 0 };

	if (chunk == NULL)
		return keys;
	keys = (struct keys){ .count = chunk->published, .len = family_len(chunk->family) };
	keys.bytes = xmalloc(keys.count * keys.len);
	memcpy(keys.bytes, chunk->bytes, keys.count * keys.len);
	keys_sort(&keys);
	return keys;
}

/* Whether entry `i` has the address that the chunk's predecessor counts in the same place. */
static bool
counted_before(const struct chunk *old, const struct chunk *chunk, unsigned i)
{
	return old != NULL && i < old->counted && old->family == chunk->family &&
	       memcmp(chunk_addr(old, i), chunk_addr(chunk, i), family_len(chunk->family)) == 0;
}

/*
 * Sorts the entries into their three runs; `others`: the owner has other chunks. Most of what `old`
 * (or NULL) counts comes again: nobody else does, so nobody need be asked.
 */
static void
chunk_runs(struct treecache *cache, const struct chunk *old, struct chunk *chunk,
    bool not_ready_too, bool others)
{
	unsigned published = 0, counted = 0;

	for (unsigned i = 0; i < chunk->count; i++)
		if (not_ready_too || chunk_ready(chunk, i))
			chunk_swap(chunk, i, published++);
	chunk->published = (uint16_t)published;

	struct keys mine = addr_keys(chunk->distinct ? NULL : chunk);
	bool *taken = xcalloc(mine.count, sizeof *taken);
	for (unsigned i = 0; i < published; i++) {
		const uint8_t *addr = chunk_addr(chunk, i);
		size_t at = mine.count == 0 ? 0 : keys_find(&mine, addr);
		if ((mine.count > 0 && taken[at]) ||
		    (others && !counted_before(old, chunk, i) &&
			shown_elsewhere(cache, chunk, addr, true) != NULL))
			continue;
		if (mine.count > 0)
			taken[at] = true;
		chunk_swap(chunk, i, counted++);
	}
	chunk->counted = (uint16_t)counted;
	free(taken);
	free(mine.bytes);
}

/* Lets another chunk of the owner count an address that `chunk` counted and no longer shows. */
static void
hand_over(
    struct treecache *cache, struct owner *owner, const struct chunk *chunk, const uint8_t *addr)
{
	const struct chunk *heir = shown_elsewhere(cache, chunk, addr, false);

	if (heir == NULL || shown_elsewhere(cache, chunk, addr, true) != NULL)
		return;
	struct chunk *copy = edit_chunk(cache, owner, heir);
	struct pool *pool = edit_pool(cache, owner);
	count_chunk(pool, copy, -1);
	chunk_swap(
	    copy, chunk_find_addr(copy, copy->counted, copy->published, addr), copy->counted);
	copy->counted++;
	count_chunk(pool, copy, 1);
	*find_chunk(pool, copy->slot) = pool_entry(copy);
}

/* --- the indexes follow a chunk --- */

static struct index *
writers_reverse(struct treecache *cache, uint8_t family)
{
	return family == AF_INET ? &cache->next.reverse4 : &cache->next.reverse6;
}

/* The keys that a chunk has in the endpoint index, and whether each entry's were its own; of none
 * if it is NULL. */
static struct keys
endpoint_keys(const struct treecache *cache, const struct chunk *chunk, bool *distinct)
{
	struct keys keys = { .len = 4 };

	*distinct = true;
	if (chunk == NULL)
		return keys;
	keys.bytes = xmalloc(chunk->count * 2u * 4u);
	for (unsigned i = 0; i < chunk->count; i++) {
		const uint8_t *name = chunk_name(chunk, i);
		endpoint_addr_key(&cache->next, chunk->owner, chunk_addr(chunk, i), chunk->family,
		    keys.bytes + 4 * keys.count++);
		if (name != NULL)
			endpoint_name_key(
			    &cache->next, chunk->owner, name, keys.bytes + 4 * keys.count++);
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
index_reverse(struct treecache *cache, const struct chunk *old, const struct chunk *chunk)
{
	const struct chunk *one = chunk != NULL ? chunk : old;

	if (one != NULL)
		index_change(cache, writers_reverse(cache, one->family), one->slot, addr_keys(old),
		    addr_keys(chunk));
}

/*
 * Whether no other chunk of the owner has a host name of this one; one that has is told, so that a
 * reader who finds a chunk alone need not look. Nor need this for what `old` (or NULL) had alone.
 */
static bool
names_alone(struct treecache *cache, struct owner *owner, const struct chunk *old,
    const struct chunk *chunk)
{
	bool alone = true;

	for (unsigned i = 0; i < chunk->count; i++) {
		const uint8_t *name = chunk_name(chunk, i);
		const struct chunk *other;
		uint64_t next_slot = 0;
		uint8_t key[4];
		bool before = old != NULL && old->alone && i < old->count;
		if (name == NULL || (before && chunk_find_name(old, i, i + 1, name) == i))
			continue;
		endpoint_name_key(&cache->next, owner, name, key);
		while ((other = index_next_value(
			    &cache->next, &cache->next.endpoints, key, &next_slot)) != NULL) {
			if (other->slot == chunk->slot || other->owner != owner)
				continue;
			alone = false;
			if (other->alone)
				edit_chunk(cache, owner, other)->alone = false;
		}
	}
	return alone;
}

static bool
answers_ptr(uint32_t flags)
{
	return (flags & (POOL_REVERSE | POOL_ATTACHED)) == (POOL_REVERSE | POOL_ATTACHED);
}

/* Lets others count what `old` counted and `chunk` does not show. */
static void
hand_over_gone(struct treecache *cache, struct owner *owner, const struct chunk *old,
    const struct chunk *chunk)
{
	struct keys shown = addr_keys(chunk != NULL && chunk->family == old->family ? chunk : NULL);

	for (unsigned i = 0; i < old->counted; i++)
		if (keys_find(&shown, chunk_addr(old, i)) == shown.count)
			hand_over(cache, owner, old, chunk_addr(old, i));
	free(shown.bytes);
}

/* Replaces `old` by `chunk` everywhere; `flags` are the pool's from now on, `old_flags` those that
 * `old` was indexed under. */
static void
replace_chunk(struct treecache *cache, struct owner *owner, const struct chunk *old,
    struct chunk *chunk, uint32_t old_flags, uint32_t flags)
{
	assert(old != NULL || chunk != NULL);
	bool others = owner->pool->count > (old != NULL), distinct;
	struct keys from = endpoint_keys(cache, old, &distinct);
	struct keys to = endpoint_keys(cache, chunk, &distinct);

	if (chunk != NULL) {
		chunk->distinct = distinct;
		chunk_runs(cache, old, chunk, flags & POOL_NOT_READY, others);
		chunk->alone = !others || names_alone(cache, owner, old, chunk);
	}
	if (others && old != NULL)
		hand_over_gone(cache, owner, old, chunk);
	index_change(
	    cache, &cache->next.endpoints, chunk != NULL ? chunk->slot : old->slot, from, to);
	index_reverse(
	    cache, answers_ptr(old_flags) ? old : NULL, answers_ptr(flags) ? chunk : NULL);
	show_chunk(cache, owner, old, chunk);
}

uint32_t
treecache_slice(struct treecache *cache, struct owner *owner, uint32_t slot, uint8_t family,
    const struct ports *ports, const struct endpoint *endpoints, size_t count)
{
	const struct chunk *old = slot == 0 ? NULL : slots_get(&cache->next.slots, slot);
	uint32_t flags = owner->pool->flags;

	assert(count <= UINT16_MAX);
	if (old != NULL &&
	    old->family != family) { /* one name, another family: nothing can be kept */
		treecache_slice_remove(cache, owner, slot);
		old = NULL;
		slot = 0;
	}
	if (slot == 0)
		slot = slot_alloc(cache);
	struct chunk *chunk = chunk_pack(cache, owner, slot, family, ports, endpoints, count);
	replace_chunk(cache, owner, old, chunk, flags, flags);
	return slot;
}

void
treecache_slice_remove(struct treecache *cache, struct owner *owner, uint32_t slot)
{
	uint32_t flags = owner->pool->flags;

	replace_chunk(cache, owner, slots_get(&cache->next.slots, slot), NULL, flags, flags);
}

const struct chunk *
treecache_chunk(const struct treecache *cache, uint32_t slot)
{
	return slots_get(&cache->next.slots, slot);
}

void
treecache_pool_flags(struct treecache *cache, struct owner *owner, uint32_t flags)
{
	uint32_t old_flags = owner->pool->flags;

	if (flags == old_flags)
		return;
	struct pool *pool = edit_pool(cache, owner);
	if (old_flags & POOL_ATTACHED)
		treecache_edit(cache, owner->name)->pool = NULL;
	pool->flags = flags;
	for (unsigned i = 0; i < owner->pool->count; i++) {
		const struct chunk *old = owner->pool->chunks[i].chunk;
		if ((flags ^ old_flags) & POOL_NOT_READY) {
			struct chunk *copy = xmalloc(chunk_bytes(old));
			memcpy(copy, old, chunk_bytes(old));
			copy->epoch = cache->epoch;
			replace_chunk(cache, owner, old, copy, old_flags, flags);
		} else {
			index_reverse(cache, answers_ptr(old_flags) ? old : NULL,
			    answers_ptr(flags) ? old : NULL);
		}
	}
	if (flags & POOL_ATTACHED)
		treecache_edit(cache, owner->name)->pool = owner->pool;
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
