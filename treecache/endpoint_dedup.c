/*
 * The runs of a slice: which entries are published, and which slice of an owner counts an address:
 * the lowest (slice_compare) of those that publish it, in whatever order they came. Where a change finds
 * very many others, who publishes what is kept from then on (endpoint_holders.c).
 */
#include <stdlib.h>
#include <string.h>

#include "lib/xalloc.h"
#include "treecache/endpoint_internal.h"

/* The search for other slices of an owner. */
struct search {
	struct treecache *cache;
	struct owner *owner;
	/* NULL: the endpoint index tells who may have an address. */
	const struct addr_holders *holders;
	size_t addrs, found; /* searched for there; slices looked at */
};

static bool
publishes(const struct slice_endpoints *slice, const uint8_t *addr)
{
	return slice_has_addr(slice, 0, slice->unique, addr) ||
	       slice_has_addr(slice, slice->unique, slice->published, addr);
}

/* The lowest slice but `but` that publishes this address, and so counts it if `but` does not; NULL if there is
 * none. */
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
 * If `old` (or NULL) counted it, no lower slice publishes it, and if `old` published it only, a lower one
 * does: no search is needed. */
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

/* Sorts the entries of `slice` into their runs; `search`: NULL if the owner has no other slices. */
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

/* What `old` counted and `slice` (or NULL) does not publish, the lowest other slice that does counts. */
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

void
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
