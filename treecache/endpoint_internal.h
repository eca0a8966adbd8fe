/* The writer's side of endpoints (endpoint_set.c), as snapshot.c and the tests need it. */
#ifndef TREECACHE_ENDPOINT_INTERNAL_H
#define TREECACHE_ENDPOINT_INTERNAL_H

#include "treecache/treecache_internal.h"

/* The owner's endpoint set, copied if it is not the writer's own, with room for one slice more; the
 * owner, and its node if the set is attached, point to the result. */
struct endpoint_set *endpoint_set_edit(struct treecache *cache, struct owner *owner);

/* The entry of a slice that the set has. */
struct endpoint_set_slice *endpoint_set_find_slice(
    struct endpoint_set *endpoints, const struct slice_endpoints *slice);

/* The writer's own copy of a slice of the set, which it replaces there. */
struct slice_endpoints *endpoint_set_edit_slice(
    struct treecache *cache, struct owner *owner, const struct slice_endpoints *slice);

/* Adds (sign 1) or takes away (-1) the slice's share of the set's totals. */
void endpoint_set_count(
    struct endpoint_set *endpoints, const struct slice_endpoints *slice, int sign);

struct endpoint_set_slice endpoint_set_entry(const struct slice_endpoints *slice);

/* The owner's entry, or NULL, in a table of what is kept for some owners: entries begin with the owner's id. */
void *kept_of_owner(const struct table *table, const struct owner *owner);

/*
 * Sorts the entries of `slice`, which takes the place of `old` (either may be NULL), into their three runs.
 * What it publishes other slices above it stop counting; what `old` counted and it does not publish the
 * lowest of the others that do begin to count. Called while the set still has `old`.
 */
void endpoint_dedup_change(struct treecache *cache, struct owner *owner,
    const struct slice_endpoints *old, struct slice_endpoints *slice, bool not_ready_too);

struct addr_holders;

/* Which slices of the owner publish its addresses, if that is kept, or NULL. */
struct addr_holders *addr_holders_find(const struct treecache *cache, const struct owner *owner);

/* Keeps it from now on, until the set publishes none. */
struct addr_holders *addr_holders_new(struct treecache *cache, const struct owner *owner);

/* `slice` takes the place of `old` (either may be NULL); `holders` may be freed. Called while the set still
 * has `old`. */
void addr_holders_change(struct treecache *cache, struct addr_holders *holders,
    const struct slice_endpoints *old, const struct slice_endpoints *slice);

/* The lowest slice but `but` that publishes this address, of the family of `but`; NULL if there is none. */
const struct slice_endpoints *addr_holders_lowest(const struct treecache *cache,
    const struct addr_holders *holders, const struct slice_endpoints *but, const uint8_t *addr);

/* Keeps none any longer, at the end. */
void addr_holders_free_all(struct treecache *cache);

/* Whether a change that found so many other slices, looking for `count` addresses, should keep which slices
 * have which address, since the next change would find as many. */
static inline bool
endpoints_crowded(size_t found, size_t count)
{
	return found > 16 * count + 256;
}

/* Keys of an index, 4 or 16 bytes each, in order, each once. */
struct endpoint_keys {
	uint8_t *bytes; /* from malloc */
	size_t count, len;
};

/* The position of a key, or keys->count. */
size_t endpoint_keys_find(const struct endpoint_keys *keys, const uint8_t *key);

/* The slice's published addresses; none if it is NULL. */
struct endpoint_keys endpoint_addr_keys(const struct slice_endpoints *slice);

/* A slice's keys in the endpoint index, those of what it publishes; none if it is NULL. `*distinct`: no two
 * published entries share an address or a host name. */
struct endpoint_keys endpoint_index_keys(
    const struct treecache *cache, const struct slice_endpoints *slice, bool *distinct);

/* Changes a slot's keys in an index from `old` to `new`; frees both. */
void endpoint_index_change(struct treecache *cache, struct pair_btree *index, uint32_t slot,
    struct endpoint_keys old, struct endpoint_keys new);

/* The same for the reverse index, which holds published addresses only; either may be NULL. */
void endpoint_index_reverse(struct treecache *cache, const struct slice_endpoints *old,
    const struct slice_endpoints *slice);

/*
 * Whether no other slice of the owner publishes a host name of this one; clears `alone` in those that
 * do, so that a reader who finds it set need not search the others. Names that `old` (or NULL)
 * already had alone are not searched for again.
 */
bool endpoint_index_names_alone(struct treecache *cache, struct owner *owner,
    const struct slice_endpoints *old, const struct slice_endpoints *slice);

/* The writer's reverse index for this family. */
struct pair_btree *endpoint_index_writers_reverse(struct treecache *cache, uint8_t family);

#endif
