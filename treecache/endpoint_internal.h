/*
 * The writer's side of endpoints, in seven files:
 *
 *	endpoint_set.c          owners and their sets; a slice takes the place of another
 *	endpoint_dedup.c        the runs of a slice: which slice counts an address
 *	endpoint_holders.c      the slices of each address, of a set whose slices share very many
 *	endpoint_srv_count.c    how many SRV records a set has, for their weights
 *	endpoint_srv_pairs.c    the numbers themselves, by label, and how groups of targets change them
 *	endpoint_srv_targets.c  the targets of a slice, and of a set whose slices share very many
 *	endpoint_index_edit.c   the endpoint index and the reverse index follow a slice
 */
#ifndef TREECACHE_ENDPOINT_INTERNAL_H
#define TREECACHE_ENDPOINT_INTERNAL_H

#include "treecache/treecache_internal.h"

/* --- endpoint_set.c --- */

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

/* --- endpoint_dedup.c --- */

/*
 * Sorts the entries of `slice`, which takes the place of `old` (either may be NULL), into their three runs.
 * What it publishes other slices above it stop counting; what `old` counted and it does not publish the
 * lowest of the others that do begin to count. Called while the set still has `old`.
 */
void endpoint_dedup_change(struct treecache *cache, struct owner *owner,
    const struct slice_endpoints *old, struct slice_endpoints *slice, bool not_ready_too);

/* --- endpoint_holders.c --- */

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

/* Whether a change that found so many other slices, looking for `count` addresses or targets, does better to
 * keep who has what, since the next change would find as many. */
static inline bool
endpoints_crowded(size_t found, size_t count)
{
	return found > 16 * count + 256;
}

/* --- endpoint_srv_count.c --- */

/*
 * Updates the set's pairs for `slice` in place of `old` (either may be NULL), by the next publish. Called while
 * the set still has `old`.
 */
void endpoint_srv_count_change(struct treecache *cache, struct owner *owner,
    const struct slice_endpoints *old, const struct slice_endpoints *slice);

/* Counts all the pairs of a set anew, or (without ENDPOINTS_APEX) forgets them. */
void endpoint_srv_count_rebuild(struct treecache *cache, struct owner *owner);

struct srv_targets;

/* Keeps the targets of a set with ENDPOINTS_APEX until it is empty or loses that flag
 * (endpoint_srv_targets.c). By itself it is done where a change finds very many. */
struct srv_targets *endpoint_srv_count_keep(struct treecache *cache, const struct owner *owner);

/* --- endpoint_srv_pairs.c --- */

/* How many targets more (or fewer) a list of ports counts for; or how many more share numbers of several. */
struct srv_group {
	uint32_t hash;
	int64_t targets;
	size_t count;
	const struct ports **lists; /* by address, each once */
};

/* How many ports, and lists, a target may be under for what its lists share to be counted. */
enum { SRV_SHARED_PORTS = 64 };

/* What a list is of those. */
static inline size_t
srv_list_ports(const struct ports *ports)
{
	return ports->count + 1;
}

/* Changes the set's pairs by what the groups say: one list adds its numbers for each target, several take
 * off what they share, each number that n of them have n - 1 times. `may_wait`: the change may be made later, by
 * the publish at the latest. */
void srv_pairs_change(
    struct treecache *cache, struct owner *owner, const struct table *groups, bool may_wait);

/* Makes what waits, of all sets; or forgets what waits for this one. */
void srv_pairs_settle(struct treecache *cache);
void srv_pairs_forget(struct treecache *cache, const struct owner *owner);

/* Forgets what waits for any, at the end. */
void srv_pairs_free_all(struct treecache *cache);

/* --- endpoint_srv_targets.c --- */

enum { TARGET_LABEL_ROOM = 1 + DNAME_LABEL_MAX + 8 };

/* What a published entry is called in SRV records: its host name, or its address with dashes. */
const uint8_t *srv_target_label(
    const struct slice_endpoints *slice, unsigned i, uint8_t derived[TARGET_LABEL_ROOM]);

struct slice_targets {
	struct slice_target {
		uint64_t hash;
		unsigned i; /* the first entry of the slice that has it */
	} * items;          /* from malloc */
	size_t count;
};

/* The slice's targets by hash, each once; none if it is NULL. `spelled`: a host name may be another
 * entry's address with dashes, so addresses are hashed as they are spelled. */
struct slice_targets slice_targets_of(
    const struct treecache *cache, const struct slice_endpoints *slice, bool spelled);

struct srv_targets;
struct srv_target;

/* The owner's targets if they are kept, or NULL. */
struct srv_targets *srv_targets_find(const struct treecache *cache, const struct owner *owner);

/* Keeps them from now on, none yet; given back with srv_targets_drop(). */
struct srv_targets *srv_targets_new(struct treecache *cache, const struct owner *owner);

/* Keeps them no longer; NULL is fine. */
void srv_targets_drop(struct treecache *cache, struct srv_targets *targets);

/* The same for all owners, at the end. */
void srv_targets_free_all(struct treecache *cache);

bool srv_targets_empty(const struct srv_targets *targets);

/* The target with this key, a seeded hash of its label; made if missing. */
struct srv_target *srv_target_at(struct srv_targets *targets, uint64_t key);

/* The target at or behind `*place`, which moves behind it; NULL at the end. */
struct srv_target *srv_targets_next(const struct srv_targets *targets, size_t *place);

/* How many lists of ports it is under, and how long these are (srv_list_ports()); the i-th of them, by
 * address. */
size_t srv_target_count(const struct srv_target *target);
uint64_t srv_target_ports(const struct srv_target *target);
const struct ports *srv_target_list(const struct srv_target *target, size_t i);

/* One slice more has the target with this list: true if it is the first; and one less: true if it was the
 * last, after which the target, if it has no list left, is freed, and NULL. */
bool srv_target_add(struct srv_target *target, const struct ports *ports);
bool srv_target_remove(
    struct srv_targets *targets, struct srv_target **target, const struct ports *ports);

/* --- endpoint_index_edit.c --- */

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
