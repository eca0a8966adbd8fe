/*
 * The writer's side of endpoints: pools, which address is counted where, and the indexes that
 * follow.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

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
		if (pool->chunks[i].chunk->slot == slot)
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

/* Makes `chunk` (NULL: nothing) what its slot and the pool show, in place of `old` (NULL: nothing
 * yet). */
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
		*entry = (struct pool_chunk){ chunk, chunk->counted, chunk->family };
		count_chunk(pool, chunk, 1);
		slots_set(cache, &cache->next.slots, chunk->slot, chunk);
	}
	if (old != chunk)
		cow_drop(cache, old);
}

/* --- the runs of a chunk --- */

static int
entry_of(const struct chunk *chunk, unsigned from, unsigned to, const uint8_t *addr)
{
	for (unsigned i = from; i < to; i++)
		if (memcmp(chunk_addr(chunk, i), addr, family_len(chunk->family)) == 0)
			return (int)i;
	return -1;
}

/*
 * Another chunk of the owner that shows this address: in its counted run, or (counted false) behind
 * it.
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
		if (entry_of(other, from, to, addr) >= 0)
			return other;
	}
	return NULL;
}

static int
by_addr4(const void *a, const void *b)
{
	return memcmp(a, b, 4);
}

static int
by_addr16(const void *a, const void *b)
{
	return memcmp(a, b, 16);
}

/* The chunk's published addresses in order, each once; caller frees. */
static uint8_t *
sorted_addrs(const struct chunk *chunk, size_t *count)
{
	size_t len = family_len(chunk->family);
	uint8_t *sorted = xmalloc(chunk->published * len);

	memcpy(sorted, chunk->bytes, chunk->published * len);
	qsort(sorted, chunk->published, len, len == 4 ? by_addr4 : by_addr16);
	*count = 0;
	for (size_t i = 0; i < chunk->published; i++)
		if (*count == 0 || memcmp(sorted + i * len, sorted + (*count - 1) * len, len) != 0)
			memmove(sorted + (*count)++ * len, sorted + i * len, len);
	return sorted;
}

static bool
has_addr(const uint8_t *sorted, size_t count, size_t len, const uint8_t *addr)
{
	return count > 0 &&
	       bsearch(addr, sorted, count, len, len == 4 ? by_addr4 : by_addr16) != NULL;
}

/* Sorts the entries into their three runs. */
static void
chunk_runs(struct treecache *cache, struct chunk *chunk, bool not_ready_too)
{
	unsigned published = 0;

	for (unsigned i = 0; i < chunk->count; i++)
		if (not_ready_too || chunk_ready(chunk, i))
			chunk_swap(chunk, i, published++);
	chunk->published = (uint16_t)published;

	size_t count, len = family_len(chunk->family);
	uint8_t *mine = sorted_addrs(chunk, &count);
	bool *taken = xcalloc(count, sizeof *taken);
	unsigned counted = 0;
	for (unsigned i = 0; i < published; i++) {
		const uint8_t *found = bsearch(
		    chunk_addr(chunk, i), mine, count, len, len == 4 ? by_addr4 : by_addr16);
		size_t at = (size_t)(found - mine) / len;
		if (taken[at] || shown_elsewhere(cache, chunk, chunk_addr(chunk, i), true) != NULL)
			continue;
		taken[at] = true;
		chunk_swap(chunk, i, counted++);
	}
	chunk->counted = (uint16_t)counted;
	free(taken);
	free(mine);
}

/* Lets another chunk of the owner count an address that `chunk` counted and no longer shows. */
static void
hand_over(
    struct treecache *cache, struct owner *owner, const struct chunk *chunk, const uint8_t *addr)
{
	const struct chunk *heir = shown_elsewhere(cache, chunk, addr, false);

	if (heir == NULL || shown_elsewhere(cache, chunk, addr, true) != NULL)
		return;
	struct pool *pool = edit_pool(cache, owner);
	count_chunk(pool, heir, -1);
	struct chunk *copy = cow_edit(cache, writers(heir), chunk_bytes(heir));
	chunk_swap(
	    copy, (unsigned)entry_of(copy, copy->counted, copy->published, addr), copy->counted);
	copy->counted++;
	count_chunk(pool, copy, 1);
	*find_chunk(pool, copy->slot) = (struct pool_chunk){ copy, copy->counted, copy->family };
	slots_set(cache, &cache->next.slots, copy->slot, copy);
}

/* --- the indexes follow a chunk --- */

static struct index *
writers_reverse(struct treecache *cache, uint8_t family)
{
	return family == AF_INET ? &cache->next.reverse4 : &cache->next.reverse6;
}

static int
by_key(const void *a, const void *b)
{
	return memcmp(a, b, 4);
}

/* The keys that a chunk has in the endpoint index, in order; caller frees. */
static uint8_t *
endpoint_keys(const struct treecache *cache, const struct chunk *chunk, size_t *count)
{
	uint8_t *keys = xmalloc(chunk->count * 2u * 4u);

	*count = 0;
	for (unsigned i = 0; i < chunk->count; i++) {
		const uint8_t *name = chunk_name(chunk, i);
		endpoint_addr_key(&cache->next, chunk->owner, chunk_addr(chunk, i), chunk->family,
		    keys + 4 * (*count)++);
		if (name != NULL)
			endpoint_name_key(&cache->next, chunk->owner, name, keys + 4 * (*count)++);
	}
	qsort(keys, *count, 4, by_key);
	return keys;
}

/* Brings the endpoint index from `old` to `chunk`, which have one slot; either may be NULL. */
static void
index_endpoints(struct treecache *cache, const struct chunk *old, const struct chunk *chunk)
{
	size_t old_count = 0, count = 0;
	uint8_t *old_keys = old == NULL ? NULL : endpoint_keys(cache, old, &old_count);
	uint8_t *keys = chunk == NULL ? NULL : endpoint_keys(cache, chunk, &count);

	for (size_t i = 0; i < count; i++)
		if (!has_addr(old_keys, old_count, 4, keys + 4 * i))
			index_insert(cache, &cache->next.endpoints, keys + 4 * i, chunk->slot);
	for (size_t i = 0; i < old_count; i++)
		if (!has_addr(keys, count, 4, old_keys + 4 * i))
			index_remove(cache, &cache->next.endpoints, old_keys + 4 * i, old->slot);
	free(old_keys);
	free(keys);
}

/* The same for the reverse index, which holds published addresses only. */
static void
index_reverse(struct treecache *cache, const struct chunk *old, const struct chunk *chunk)
{
	size_t old_count = 0, count = 0;
	size_t len = family_len(chunk != NULL ? chunk->family
				: old != NULL ? old->family
					      : AF_INET);
	uint8_t *old_addrs = old == NULL ? NULL : sorted_addrs(old, &old_count);
	uint8_t *addrs = chunk == NULL ? NULL : sorted_addrs(chunk, &count);
	struct index *reverse = writers_reverse(cache, len == 4 ? AF_INET : AF_INET6);

	for (size_t i = 0; i < count; i++)
		if (!has_addr(old_addrs, old_count, len, addrs + len * i))
			index_insert(cache, reverse, addrs + len * i, chunk->slot);
	for (size_t i = 0; i < old_count; i++)
		if (!has_addr(addrs, count, len, old_addrs + len * i))
			index_remove(cache, reverse, old_addrs + len * i, old->slot);
	free(old_addrs);
	free(addrs);
}

static bool
answers_ptr(uint32_t flags)
{
	return (flags & (POOL_REVERSE | POOL_ATTACHED)) == (POOL_REVERSE | POOL_ATTACHED);
}

/* Replaces `old` by `chunk` everywhere; `flags` are the pool's from now on, `old_flags` those that
 * `old` was indexed under. */
static void
replace_chunk(struct treecache *cache, struct owner *owner, const struct chunk *old,
    struct chunk *chunk, uint32_t old_flags, uint32_t flags)
{
	size_t count = 0, len = family_len(old == NULL ? AF_INET : old->family);
	uint8_t *shown = NULL;

	if (chunk != NULL) {
		chunk_runs(cache, chunk, flags & POOL_NOT_READY);
		if (old != NULL && old->family == chunk->family)
			shown = sorted_addrs(chunk, &count);
	}
	for (unsigned i = 0; old != NULL && i < old->counted; i++)
		if (!has_addr(shown, count, len, chunk_addr(old, i)))
			hand_over(cache, owner, old, chunk_addr(old, i));
	free(shown);
	index_endpoints(cache, old, chunk);
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
