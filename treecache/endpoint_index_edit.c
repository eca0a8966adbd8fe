/*
 * The indexes of endpoints, the writer's side: a slice's keys in them, and the changes when another
 * slice takes its place.
 */
#include <stdlib.h>
#include <string.h>

#include "lib/wire.h"
#include "lib/xalloc.h"
#include "treecache/endpoint_internal.h"

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

/* The place of `key`, or keys->count. */
size_t
endpoint_keys_find(const struct endpoint_keys *keys, const uint8_t *key)
{
	const uint8_t *found = keys->count == 0 ? NULL
						: bsearch(key, keys->bytes, keys->count, keys->len,
						      keys->len == 4 ? by_addr4 : by_addr16);

	return found == NULL ? keys->count : (size_t)(found - keys->bytes) / keys->len;
}

/* The slice's published addresses; of none if it is NULL. */
struct endpoint_keys
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

struct pair_btree *
endpoint_index_writers_reverse(struct treecache *cache, uint8_t family)
{
	return family == AF_INET ? &cache->next.reverse4 : &cache->next.reverse6;
}

/* Whether no address is published twice: one that is counts once at most (endpoint_dedup.c). */
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

/* A slice's keys in the endpoint index, none if it is NULL; `*distinct`: no two published entries
 * share an address or a host name. */
struct endpoint_keys
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
void
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

/* The same for the reverse index, which holds published addresses only; either may be NULL. */
void
endpoint_index_reverse(
    struct treecache *cache, const struct slice_endpoints *old, const struct slice_endpoints *slice)
{
	const struct slice_endpoints *one = slice != NULL ? slice : old;

	if (one != NULL)
		endpoint_index_change(cache, endpoint_index_writers_reverse(cache, one->family),
		    one->slot | SLOT_OF_SLICE, endpoint_addr_keys(old), endpoint_addr_keys(slice));
}

/*
 * Whether no other slice of the owner publishes a host name of this one; clears `alone` in those that
 * do. Names that `old` (or NULL) already had alone are not searched for again.
 */
bool
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
		/* If there are more than one, they have cleared each other's. */
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
