/*
 * The runs of a slice: which entries are published, and which slice of an owner counts an address:
 * the lowest (slice_compare) of those that publish it, in whatever order they came.
 */
#include <stdlib.h>
#include <string.h>

#include "lib/xalloc.h"
#include "treecache/endpoint_internal.h"

/* Another slice of the owner that counts this address; NULL if there is none. */
static const struct slice_endpoints *
counted_elsewhere(struct treecache *cache, const struct slice_endpoints *slice, const uint8_t *addr)
{
	uint8_t key[4];
	uint64_t next_slot = 0;
	const struct slice_endpoints *other;

	endpoint_addr_key(&cache->next, slice->owner, addr, slice->family, key);
	while ((other = index_next_value(&cache->next, &cache->next.endpoints, key, &next_slot)) !=
	       NULL)
		if (other->slot != slice->slot && other->owner == slice->owner &&
		    other->family == slice->family && slice_has_addr(other, 0, other->unique, addr))
			return other;
	return NULL;
}

/* The lowest of the owner's other slices that publish this address; NULL if there is none. */
static const struct slice_endpoints *
lowest_elsewhere(struct treecache *cache, const struct slice_endpoints *slice, const uint8_t *addr)
{
	uint8_t key[4];
	uint64_t next_slot = 0;
	const struct slice_endpoints *other, *lowest = NULL;

	endpoint_addr_key(&cache->next, slice->owner, addr, slice->family, key);
	while ((other = index_next_value(&cache->next, &cache->next.endpoints, key, &next_slot)) !=
	       NULL)
		if (other->slot != slice->slot && other->owner == slice->owner &&
		    other->family == slice->family &&
		    (lowest == NULL || slice_compare(other, lowest) < 0) &&
		    (slice_has_addr(other, 0, other->unique, addr) ||
			slice_has_addr(other, other->unique, other->published, addr)))
			lowest = other;
	return lowest;
}

/* Makes a slice of the set, which publishes the address, count it or stop counting it. */
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

/* Whether the slice counts this address, which it publishes; a higher slice that counted it stops.
 * If `old` (or NULL) counted it, no lower slice publishes it: no search is needed. */
static bool
takes_addr(struct treecache *cache, struct owner *owner, const struct slice_endpoints *old,
    const struct slice_endpoints *slice, const uint8_t *addr)
{
	if (old != NULL && slice_has_addr(old, 0, old->unique, addr))
		return true;
	const struct slice_endpoints *other = counted_elsewhere(cache, slice, addr);
	if (other == NULL)
		return true;
	if (slice_compare(other, slice) < 0)
		return false;
	set_counted(cache, owner, other, addr, false);
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

void
endpoint_dedup_sort(struct treecache *cache, struct owner *owner, const struct slice_endpoints *old,
    struct slice_endpoints *slice, bool not_ready_too, bool others)
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
			run = first && (!others || takes_addr(cache, owner, old, slice, addr))
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

void
endpoint_dedup_hand_over(struct treecache *cache, struct owner *owner,
    const struct slice_endpoints *old, const struct slice_endpoints *slice)
{
	if (slice != NULL && slice->family != old->family)
		slice = NULL;
	for (unsigned i = 0; i < old->unique; i++) {
		const uint8_t *addr = slice_addr(old, i);
		if (slice != NULL &&
		    (slice_has_addr(slice, 0, slice->unique, addr) ||
			slice_has_addr(slice, slice->unique, slice->published, addr)))
			continue;
		const struct slice_endpoints *heir = lowest_elsewhere(cache, old, addr);
		if (heir != NULL)
			set_counted(cache, owner, heir, addr, true);
	}
}
