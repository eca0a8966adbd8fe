/*
 * The runs of a slice: which entries are published, and which slice of an owner counts an address.
 */
#include <stdlib.h>
#include <string.h>

#include "lib/xalloc.h"
#include "treecache/endpoint_internal.h"

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
void
endpoint_runs_sort(struct treecache *cache, const struct slice_endpoints *old,
    struct slice_endpoints *slice, bool not_ready_too, bool others)
{
	unsigned published = 0, unique = 0;

	for (unsigned i = 0; i < slice->count; i++)
		if (not_ready_too || slice_ready(slice, i))
			slice_swap(slice, i, published++);
	slice->published = (uint16_t)published;

	struct endpoint_keys mine = endpoint_addr_keys(slice->distinct ? NULL : slice);
	bool *taken = xcalloc(mine.count, sizeof *taken);
	for (unsigned i = 0; i < published; i++) {
		const uint8_t *addr = slice_addr(slice, i);
		size_t at = mine.count == 0 ? 0 : endpoint_keys_find(&mine, addr);
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
	struct slice_endpoints *copy = endpoint_set_edit_slice(cache, owner, heir);
	struct endpoint_set *endpoints = endpoint_set_edit(cache, owner);
	endpoint_set_count(endpoints, copy, -1);
	slice_swap(copy, slice_find_addr(copy, copy->unique, copy->published, addr), copy->unique);
	copy->unique++;
	endpoint_set_count(endpoints, copy, 1);
	*endpoint_set_find_slice(endpoints, copy->slot) = endpoint_set_entry(copy);
}

/* Lets others count what `old` unique and `slice` does not show. */
void
endpoint_runs_hand_over(struct treecache *cache, struct owner *owner,
    const struct slice_endpoints *old, const struct slice_endpoints *slice)
{
	struct endpoint_keys shown =
	    endpoint_addr_keys(slice != NULL && slice->family == old->family ? slice : NULL);

	for (unsigned i = 0; i < old->unique; i++)
		if (endpoint_keys_find(&shown, slice_addr(old, i)) == shown.count)
			hand_over(cache, owner, old, slice_addr(old, i));
	free(shown.bytes);
}
