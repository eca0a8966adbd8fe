/*
 * The writer's side of endpoints: owners, their endpoint sets, and the replacement of slices.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "lib/wire.h"
#include "lib/xalloc.h"
#include "treecache/endpoint_set.h"

/* Whether it is better to store the slices of each address, because a change has looked at very
 * many other slices for `count` addresses. The next change would look at as many slices again. */
static inline bool
endpoints_crowded(size_t found, size_t count)
{
	return found > 16 * count + 256;
}

/* Keys of an index, 4 or 16 bytes each, sorted and without duplicates. */
struct endpoint_keys {
	uint8_t *bytes; /* from malloc() */
	size_t count, len;
};

static size_t
endpoint_set_size(unsigned capacity)
{
	return sizeof(struct endpoint_set) + capacity * sizeof(struct endpoint_set_slice);
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
	*endpoints =
	    (struct endpoint_set){ .epoch = endpoints->epoch, .owner = owner, .capacity = 1 };
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

/* Returns a copy of the owner's endpoint set that the writer may change, with space for one more
 * slice. Copies only if necessary. The owner, and its node if the set is attached, point to the
 * result. */
static struct endpoint_set *
endpoint_set_edit(struct treecache *cache, struct owner *owner)
{
	struct endpoint_set *endpoints = owner->endpoints;

	if (endpoints->count == endpoints->capacity) {
		unsigned capacity = endpoints->capacity * 2;

		endpoints = cow_new(cache, endpoint_set_size(capacity));
		uint32_t epoch = endpoints->epoch;
		memcpy(endpoints, owner->endpoints, endpoint_set_size(owner->endpoints->count));
		endpoints->epoch = epoch;
		endpoints->capacity = capacity;
		cow_drop(cache, owner->endpoints);
	} else {
		endpoints = cow_edit(cache, endpoints, endpoint_set_size(endpoints->capacity));
	}
	owner->endpoints = endpoints;
	if (endpoints->flags & ENDPOINTS_ATTACHED)
		treecache_edit(cache, owner->name)->endpoints = endpoints;
	return endpoints;
}

/* Returns the position of a slice in its set, or the position at which to insert it. */
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

/* Returns the set's entry for a slice that is in it. */
static struct endpoint_set_slice *
endpoint_set_find_slice(struct endpoint_set *endpoints, const struct slice_endpoints *slice)
{
	unsigned place = slice_place(endpoints, slice);

	assert(place < endpoints->count && endpoints->slices[place].slot == slice->slot);
	return &endpoints->slices[place];
}

/* Adds (sign 1) or subtracts (sign -1) the slice's part of the set's totals. */
static void
endpoint_set_count(struct endpoint_set *endpoints, const struct slice_endpoints *slice, int sign)
{
	uint32_t *total = slice->family == AF_INET ? &endpoints->total4 : &endpoints->total6;

	*total += (uint32_t)(sign * slice->unique);
	endpoints->published += (uint32_t)(sign * slice->published);
	endpoints->dashed += (uint32_t)(sign * slice->dashed);
}

static struct endpoint_set_slice
endpoint_set_entry(const struct slice_endpoints *slice)
{
	return (struct endpoint_set_slice){ slice, slice->slot, slice->unique, slice->family };
}

/* Returns a copy of the slice that the writer may change, and puts it in the slice's place in the set. */
static struct slice_endpoints *
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

/* For table_find(). The hash is the owner's id, which is unique, so equal hashes mean the same owner. */
static bool
is_owners(const void *entry, const void *key)
{
	(void)entry;
	(void)key;
	return true;
}

/* Returns the owner's entry in a table that has entries for some owners, or NULL. An entry begins
 * with the owner's id. */
static void *
kept_of_owner(const struct table *table, const struct owner *owner)
{
	return table->count == 0 ? NULL : table_find(table, owner->id, is_owners, NULL);
}

/* --- the indexes of endpoints --- */

/*
 * The writer's side of the endpoint indexes: the keys of a slice, and the changes when another
 * slice replaces it.
 */

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

static void
endpoint_keys_sort(struct endpoint_keys *keys)
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

/* Returns the position of `key`, or keys->count if it is missing. */
static size_t
endpoint_keys_find(const struct endpoint_keys *keys, const uint8_t *key)
{
	const uint8_t *found = keys->count == 0 ? NULL
						: bsearch(key, keys->bytes, keys->count, keys->len,
						      keys->len == 4 ? by_addr4 : by_addr16);

	return found == NULL ? keys->count : (size_t)(found - keys->bytes) / keys->len;
}

/* Returns the published addresses of the slice. Returns no keys if `slice` is NULL. */
static struct endpoint_keys
endpoint_addr_keys(const struct slice_endpoints *slice)
{
	struct endpoint_keys keys = { 0 };

	if (slice == NULL)
		return keys;
	keys =
	    (struct endpoint_keys){ .count = slice->published, .len = family_len(slice->family) };
	keys.bytes = xmalloc(keys.count * keys.len);
	memcpy(keys.bytes, slice->bytes, keys.count * keys.len);
	endpoint_keys_sort(&keys);
	return keys;
}

/* Returns the writer's reverse index for this family. */
static struct pair_btree *
endpoint_index_writers_reverse(struct treecache *cache, uint8_t family)
{
	return family == AF_INET ? &cache->next.reverse4 : &cache->next.reverse6;
}

/* Whether each published address of the slice is published once. An address that is published
 * several times is in the unique run at most once. */
static bool
addrs_distinct(const struct slice_endpoints *slice)
{
	for (unsigned i = slice->unique; i < slice->published; i++) {
		const uint8_t *addr = slice_addr(slice, i);

		if (slice_has_addr(slice, 0, slice->unique, addr) ||
		    (i > slice->unique &&
			memcmp(slice_addr(slice, i - 1), addr, family_len(slice->family)) == 0))
			return false;
	}
	return true;
}

/* Returns the slice's keys in the endpoint index; none if `slice` is NULL. `*distinct` is set to
 * whether no two published entries share an address or a host name. */
static struct endpoint_keys
endpoint_index_keys(
    const struct treecache *cache, const struct slice_endpoints *slice, bool *distinct)
{
	struct endpoint_keys keys = { .len = 4 };

	*distinct = true;
	if (slice == NULL)
		return keys;
	keys.bytes = xmalloc(slice->published * 2u * 4u);
	for (unsigned i = 0; i < slice->published; i++) {
		const uint8_t *name = slice_name(slice, i);

		endpoint_addr_key(&cache->next, slice->owner, slice_addr(slice, i), slice->family,
		    name != NULL, keys.bytes + 4 * keys.count++);
		if (name != NULL)
			endpoint_name_key(
			    &cache->next, slice->owner, name, keys.bytes + 4 * keys.count++);
	}
	size_t all = keys.count;
	endpoint_keys_sort(&keys);
	*distinct = keys.count == all && addrs_distinct(slice);
	return keys;
}

/* Changes a slot's keys in an index from `old` to `new`; frees both. */
static void
endpoint_index_change(struct treecache *cache, struct pair_btree *index, uint32_t slot,
    struct endpoint_keys old, struct endpoint_keys new)
{
	size_t i = 0, j = 0, len = index->key_len;

	while (i < old.count || j < new.count) {
		int order = i == old.count   ? 1
			    : j == new.count ? -1
					     : memcmp(old.bytes + i * len, new.bytes + j *len, len);

		if (order < 0)
			pair_btree_remove(cache, index, old.bytes + i * len, slot);
		else if (order > 0)
			pair_btree_insert(cache, index, new.bytes + j *len, slot);
		i += order <= 0;
		j += order >= 0;
	}
	free(old.bytes);
	free(new.bytes);
}

/* Changes the slot's keys in the reverse index, which has published addresses only. Either slice
 * may be NULL. */
static void
endpoint_index_reverse(
    struct treecache *cache, const struct slice_endpoints *old, const struct slice_endpoints *slice)
{
	const struct slice_endpoints *one = slice != NULL ? slice : old;

	if (one != NULL)
		endpoint_index_change(cache, endpoint_index_writers_reverse(cache, one->family),
		    one->slot | SLOT_OF_SLICE, endpoint_addr_keys(old), endpoint_addr_keys(slice));
}

/*
 * Whether no other slice of the owner publishes a host name of `slice`. Clears `alone` in every
 * other slice that does. `old` is the former version of the slice, or NULL. If `alone` is set in `old`,
 * names that are at the same index in both versions need no search, and are skipped.
 */
static bool
endpoint_index_names_alone(struct treecache *cache, struct owner *owner,
    const struct slice_endpoints *old, const struct slice_endpoints *slice)
{
	bool alone = true;

	for (unsigned i = 0; i < slice->published; i++) {
		const uint8_t *name = slice_name(slice, i);
		const struct slice_endpoints *other;
		struct pair_walk walk = { 0 };
		unsigned found = 0;
		uint8_t key[4];
		bool before = old != NULL && old->alone && i < old->published;

		if (name == NULL || (before && slice_find_name(old, i, i + 1, name) == i))
			continue;
		endpoint_name_key(&cache->next, owner, name, key);
		/* Two other slices are enough. If there are more, they have already cleared each
		 * other's flag. */
		while (found < 2 && (other = index_next_value(&cache->next, &cache->next.endpoints,
					 key, &walk)) != NULL) {
			if (other->slot == slice->slot || other->owner != owner)
				continue;
			alone = false;
			found++;
			if (other->alone)
				endpoint_set_edit_slice(cache, owner, other)->alone = false;
		}
	}
	return alone;
}

/* --- the slices of each address --- */

/*
 * For sets whose slices share very many addresses (endpoints_crowded), this table stores which
 * slices publish each address, in order. With the table, each address of a changed slice costs one
 * lookup. Without it, each address would cost a search through all other slices.
 */

/* The table of one owner. */
struct addr_holders {
	uint32_t hash; /* the owner's id */
	struct table v4, v6;
};

struct holders_of_addr {
	uint32_t hash;
	uint32_t count; /* not 0 */
	union {
		uint32_t one;
		uint32_t *slots; /* used if `count` is above 1; in the order of slice_compare(),
				  * with a capacity that is a power of two */
	};
	uint8_t addr[]; /* 4 or 16 bytes */
};

static bool
same_addr4(const void *entry, const void *key)
{
	const struct holders_of_addr *of = entry;

	return memcmp(of->addr, key, 4) == 0;
}

static bool
same_addr16(const void *entry, const void *key)
{
	const struct holders_of_addr *of = entry;

	return memcmp(of->addr, key, 16) == 0;
}

static uint32_t
addr_hash(const struct treecache *cache, const uint8_t *addr, size_t len)
{
	return hash_fold(hash64(cache->next.seed, addr, len));
}

static struct holders_of_addr *
find(const struct treecache *cache, const struct addr_holders *holders, const uint8_t *addr,
    size_t len)
{
	return table_find(len == 4 ? &holders->v4 : &holders->v6, addr_hash(cache, addr, len),
	    len == 4 ? same_addr4 : same_addr16, addr);
}

static uint32_t *
slots_of(struct holders_of_addr *of)
{
	return of->count == 1 ? &of->one : of->slots;
}

static const struct slice_endpoints *
slice_in(const struct treecache *cache, uint32_t slot)
{
	return slot_table_get(&cache->next.slots, slot);
}

/* Returns the position of a slice among the slices that publish the address, or the position at
 * which to insert it. */
static uint32_t
place_of_slot(
    const struct treecache *cache, struct holders_of_addr *of, const struct slice_endpoints *slice)
{
	const uint32_t *slots = slots_of(of);
	uint32_t low = 0, high = of->count;

	while (low < high) {
		uint32_t middle = (low + high) / 2;

		if (slice_compare(slice_in(cache, slots[middle]), slice) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static void
add(struct treecache *cache, struct addr_holders *holders, const struct slice_endpoints *slice,
    const uint8_t *addr, size_t len)
{
	struct holders_of_addr *of = find(cache, holders, addr, len);

	if (of == NULL) {
		of = xmalloc(sizeof *of + len);
		*of = (struct holders_of_addr){
			.hash = addr_hash(cache, addr, len), .count = 1, .one = slice->slot
		};
		memcpy(of->addr, addr, len);
		table_add(len == 4 ? &holders->v4 : &holders->v6, of);
		return;
	}
	uint32_t place = place_of_slot(cache, of, slice), first = of->one;
	if (of->count == 1) {
		of->slots = xcalloc(2, sizeof *of->slots);
		of->slots[0] = first;
	} else if ((of->count & (of->count - 1)) == 0) {
		of->slots = xreallocarray(of->slots, 2 * (size_t)of->count, sizeof *of->slots);
	}
	memmove(of->slots + place + 1, of->slots + place, (of->count - place) * sizeof *of->slots);
	of->slots[place] = slice->slot;
	of->count++;
}

static void
take_away(struct treecache *cache, struct addr_holders *holders,
    const struct slice_endpoints *slice, const uint8_t *addr, size_t len)
{
	struct holders_of_addr *of = find(cache, holders, addr, len);

	if (of->count == 1) {
		table_remove(len == 4 ? &holders->v4 : &holders->v6, of);
		free(of);
		return;
	}
	uint32_t place = place_of_slot(cache, of, slice), *slots = of->slots;
	memmove(slots + place, slots + place + 1, (--of->count - place) * sizeof *slots);
	if (of->count == 1) {
		of->one = slots[0];
		free(slots);
	}
}

struct addr_holders *
addr_holders_find(const struct treecache *cache, const struct owner *owner)
{
	return kept_of_owner(&cache->addr_holders, owner);
}

struct addr_holders *
addr_holders_new(struct treecache *cache, const struct owner *owner)
{
	struct addr_holders *holders = xmalloc(sizeof *holders);
	const struct endpoint_set *endpoints = owner->endpoints;

	*holders = (struct addr_holders){ .hash = owner->id };
	table_add(&cache->addr_holders, holders);
	for (unsigned c = 0; c < endpoints->count; c++) {
		struct endpoint_keys addrs = endpoint_addr_keys(endpoints->slices[c].slice);

		for (size_t i = 0; i < addrs.count; i++)
			add(cache, holders, endpoints->slices[c].slice, addrs.bytes + i * addrs.len,
			    addrs.len);
		free(addrs.bytes);
	}
	return holders;
}

static void
free_table(struct table *table)
{
	struct holders_of_addr *of;
	size_t place = 0;

	while ((of = table_next(table, &place)) != NULL) {
		if (of->count > 1)
			free(of->slots);
		free(of);
	}
	table_free(table);
}

static void
holders_free(struct addr_holders *holders)
{
	free_table(&holders->v4);
	free_table(&holders->v6);
	free(holders);
}

/* Updates the table when `slice` replaces `old` (either may be NULL). May free `holders`. Call it
 * while the set still has `old`. */
static void
addr_holders_change(struct treecache *cache, struct addr_holders *holders,
    const struct slice_endpoints *old, const struct slice_endpoints *slice)
{
	struct endpoint_keys was = endpoint_addr_keys(old), is = endpoint_addr_keys(slice);

	for (size_t i = 0; i < was.count; i++) {
		const uint8_t *addr = was.bytes + i * was.len;

		if (endpoint_keys_find(&is, addr) == is.count)
			take_away(cache, holders, old, addr, was.len);
	}
	for (size_t i = 0; i < is.count; i++) {
		const uint8_t *addr = is.bytes + i * is.len;

		if (endpoint_keys_find(&was, addr) == was.count)
			add(cache, holders, slice, addr, is.len);
	}
	free(was.bytes);
	free(is.bytes);
	if (holders->v4.count + holders->v6.count > 0)
		return;
	table_remove(&cache->addr_holders, holders);
	holders_free(holders);
	if (cache->addr_holders.count == 0)
		table_free(&cache->addr_holders);
}

/* Returns the lowest slice, other than `but`, that publishes this address. The address has the
 * family of `but`. Returns NULL if there is no such slice. */
static const struct slice_endpoints *
addr_holders_lowest(const struct treecache *cache, const struct addr_holders *holders,
    const struct slice_endpoints *but, const uint8_t *addr)
{
	struct holders_of_addr *of = find(cache, holders, addr, family_len(but->family));
	uint32_t skip;

	if (of == NULL)
		return NULL;
	skip = slots_of(of)[0] == but->slot;
	return skip < of->count ? slice_in(cache, slots_of(of)[skip]) : NULL;
}

void
addr_holders_free_all(struct treecache *cache)
{
	struct addr_holders *holders;
	size_t place = 0;

	while ((holders = table_next(&cache->addr_holders, &place)) != NULL)
		holders_free(holders);
	table_free(&cache->addr_holders);
}

/* --- the runs of a slice --- */

/*
 * Sorts the entries of a slice into its runs. This decides which entries are published, and which
 * slice of the owner counts an address. The lowest slice (slice_compare) that publishes an address
 * counts it. The order in which slices arrive does not matter. If a change finds very many other
 * slices, the slices of each address are stored from then on (addr_holders_find).
 */

/* State of a search for other slices of an owner. */
struct search {
	struct treecache *cache;
	struct owner *owner;
	/* NULL: use the endpoint index to find slices that may have an address. */
	const struct addr_holders *holders;
	size_t addrs, found; /* number of addresses searched for in the index, and of slices looked
			      * at */
};

static bool
publishes(const struct slice_endpoints *slice, const uint8_t *addr)
{
	return slice_has_addr(slice, 0, slice->unique, addr) ||
	       slice_has_addr(slice, slice->unique, slice->published, addr);
}

/* Returns the lowest slice, except `but`, that publishes this address. If `but` does not count the
 * address, that slice does. Returns NULL if there is no such slice. */
static const struct slice_endpoints *
lowest_other(struct search *search, const struct slice_endpoints *but, const uint8_t *addr)
{
	const struct tree *tree = &search->cache->next;
	const struct slice_endpoints *other, *lowest = NULL;
	uint8_t key[4];

	if (search->holders != NULL)
		return addr_holders_lowest(search->cache, search->holders, but, addr);
	search->addrs++;
	for (int named = 0; named < 2; named++) {
		struct pair_walk walk = { 0 };

		endpoint_addr_key(tree, search->owner, addr, but->family, named, key);
		while ((other = index_next_value(tree, &tree->endpoints, key, &walk)) != NULL) {
			search->found++;
			if (other->slot != but->slot && other->owner == search->owner &&
			    other->family == but->family &&
			    (lowest == NULL || slice_compare(other, lowest) < 0) &&
			    publishes(other, addr))
				lowest = other;
		}
	}
	return lowest;
}

/* Sets whether a slice of the set counts an address. The slice publishes the address. */
static void
set_counted(struct treecache *cache, struct owner *owner, const struct slice_endpoints *slice,
    const uint8_t *addr, bool counted)
{
	struct slice_endpoints *copy = endpoint_set_edit_slice(cache, owner, slice);
	struct endpoint_set *endpoints = endpoint_set_edit(cache, owner);

	endpoint_set_count(endpoints, copy, -1);
	unsigned in_unique = slice_lower_bound(copy, 0, copy->unique, addr),
		 in_doubles = slice_lower_bound(copy, copy->unique, copy->published, addr);
	if (counted) {
		slice_move(copy, in_doubles, in_unique);
		copy->unique++;
	} else {
		slice_move(copy, in_unique, in_doubles - 1);
		copy->unique--;
	}
	endpoint_set_count(endpoints, copy, 1);
	*endpoint_set_find_slice(endpoints, copy) = endpoint_set_entry(copy);
}

/*
 * Whether the slice counts this address, which it publishes. If so, a higher slice that counted the
 * address no longer does. If `old` (may be NULL) published the address, no search is needed. If
 * `old` counted the address, no lower slice publishes it. Otherwise a lower slice does.
 */
static bool
takes_addr(struct search *search, const struct slice_endpoints *old,
    const struct slice_endpoints *slice, const uint8_t *addr)
{
	if (old != NULL && slice_has_addr(old, 0, old->unique, addr))
		return true;
	if (old != NULL && slice_has_addr(old, old->unique, old->published, addr))
		return false;
	const struct slice_endpoints *other = lowest_other(search, slice, addr);
	if (other == NULL)
		return true;
	if (slice_compare(other, slice) < 0)
		return false;
	set_counted(search->cache, search->owner, other, addr, false);
	return true;
}

static int
by_entry(const void *a, const void *b, void *slice)
{
	return slice_compare_entries(slice, *(const uint16_t *)a, *(const uint16_t *)b);
}

/* Fills `order` with the positions of the slice's entries, sorted by slice_compare_entries. */
static void
sort_entries(struct slice_endpoints *slice, uint16_t *order)
{
	bool sorted = true;

	for (unsigned i = 0; i < slice->count; i++) {
		order[i] = (uint16_t)i;
		sorted &= i == 0 || slice_compare_entries(slice, i - 1, i) <= 0;
	}
	if (!sorted)
		qsort_r(order, slice->count, sizeof *order, by_entry, slice);
}

/* Sorts the entries of `slice` into their runs. `search` is NULL if the owner has no other slices. */
static void
sort_runs(struct search *search, const struct slice_endpoints *old, struct slice_endpoints *slice,
    bool not_ready_too)
{
	enum { UNIQUE, DOUBLE, NOT_READY, RUNS };
	size_t count = slice->count, addr_len = family_len(slice->family), len[RUNS] = { 0 };
	uint16_t *order = xcalloc((1 + RUNS) * count, sizeof *order);
	const uint8_t *last = NULL;
	bool moved = false;

	sort_entries(slice, order);
	for (size_t i = 0; i < count; i++) {
		unsigned run = NOT_READY;

		if (not_ready_too || slice_ready(slice, order[i])) {
			const uint8_t *addr = slice_addr(slice, order[i]);
			bool first = last == NULL || memcmp(last, addr, addr_len) != 0;

			run = first && (search == NULL || takes_addr(search, old, slice, addr))
				  ? UNIQUE
				  : DOUBLE;
			last = addr;
		}
		order[(1 + run) * count + len[run]++] = order[i];
	}
	slice->unique = (uint16_t)len[UNIQUE];
	slice->published = (uint16_t)(len[UNIQUE] + len[DOUBLE]);
	for (size_t run = 0, at = 0; run < RUNS; run++)
		for (size_t i = 0; i < len[run]; i++, at++) {
			order[at] = order[(1 + run) * count + i];
			moved |= order[at] != at;
		}
	if (moved)
		slice_reorder(slice, order);
	free(order);
}

/* Handles the addresses that `old` counted and `slice` (may be NULL) does not publish. The lowest
 * other slice that publishes such an address now counts it. */
static void
hand_over(
    struct search *search, const struct slice_endpoints *old, const struct slice_endpoints *slice)
{
	for (unsigned i = 0; i < old->unique; i++) {
		const uint8_t *addr = slice_addr(old, i);

		if (slice != NULL && publishes(slice, addr))
			continue;
		const struct slice_endpoints *heir = lowest_other(search, old, addr);
		if (heir != NULL)
			set_counted(search->cache, search->owner, heir, addr, true);
	}
}

/*
 * Sorts the entries of `slice`, which replaces `old` (either may be NULL), into their three runs.
 * Higher slices stop counting the addresses that `slice` publishes. If `old` counted an address and
 * `slice` does not publish it, the lowest other slice that publishes it now counts it. Call it
 * while the set still has `old`.
 */
static void
endpoint_dedup_change(struct treecache *cache, struct owner *owner,
    const struct slice_endpoints *old, struct slice_endpoints *slice, bool not_ready_too)
{
	struct addr_holders *holders = addr_holders_find(cache, owner);
	struct search search = { .cache = cache, .owner = owner, .holders = holders };
	bool others = owner->endpoints->count > (old != NULL);

	if (slice != NULL)
		sort_runs(others ? &search : NULL, old, slice, not_ready_too);
	if (others && old != NULL)
		hand_over(&search, old, slice);
	if (endpoints_crowded(search.found, search.addrs))
		holders = addr_holders_new(cache, owner);
	if (holders != NULL)
		addr_holders_change(cache, holders, old, slice);
}

/* --- replacing a slice --- */

/* Puts `slice` into its slot and into the endpoint set, in place of `old`. Either slice may be NULL. */
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

/* Replaces `old` by `slice` (either may be NULL) in the set, the slots and the indexes. `old_flags`
 * are the set's flags when `old` was indexed, `flags` the new flags. */
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
	/* A slice that changes its family is treated as a new slice, with a new slot. */
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

/* Adds the owner's own slot to an index under this key, or removes it. Allocates the slot if
 * necessary. */
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
