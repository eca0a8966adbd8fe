/*
 * What the files of treecache share: copy-on-write blocks, and the list of blocks that were
 * replaced.
 */
#ifndef TREECACHE_TREECACHE_INTERNAL_H
#define TREECACHE_TREECACHE_INTERNAL_H

#include <string.h>

#include "lib/hash.h"
#include "lib/table.h"
#include "treecache/pair_btree.h"
#include "treecache/slot_table.h"
#include "treecache/treecache.h"

struct garbage {
	void **items;
	size_t count, room, bytes;
};

struct treecache {
	struct tree *current; /* published; exchanged by RCU */
	struct tree next;     /* the writer's; shares with `current` what has not changed */
	/* Stamped into each block that the writer makes; a publish increments it. */
	uint32_t epoch;
	bool dirty;
	struct garbage
	    fresh;          /* replaced since the last publish: the published tree still shows it */
	struct garbage old; /* replaced before it: free after a grace period, unless it is held */
	struct garbage unheld; /* replaced before the oldest hold's snapshot was published */
	struct tree_hold *newest_hold;
	uint32_t *free_slots;
	size_t free_count, free_room;
	uint32_t slot_count; /* highest slot ever given out */
	uint32_t owner_count;
	struct table
	    addr_holders; /* which slices have an address, of sets whose slices share very many */
};

/* --- cow.c --- */

/* A new block of `size` bytes, the writer's own until the next publish: its first word, the epoch,
 * is set, the rest is not. */
void *cow_new(struct treecache *cache, size_t size);

/* `block` if it is the writer's own, else a copy of its `size` bytes, and the original is
 * retired. */
void *cow_edit(struct treecache *cache, void *block, size_t size);

/* Frees `block` now if no reader can have seen it, else after the grace period. NULL is fine. */
void cow_drop(struct treecache *cache, const void *block);

enum { LABEL_PAD = HASH_PAD }; /* readable behind a label's end */

/* 32 bits of hash over `len` bytes, LABEL_PAD more of them readable. */
static inline uint32_t
label_hash(uint64_t seed, const uint8_t *bytes, size_t len)
{
	return hash_fold(hash64_padded(seed, bytes, len));
}

/* Readers hold const pointers to what only the writer changes and frees. */
static inline void *
writers(const void *block)
{
	union {
		const void *readers;
		void *writers;
	} u = { .readers = block };

	return u.writers;
}

/* A slot's value is a slice, or an owner with the low bit set. */
static inline const struct owner *
slot_owner(const void *value)
{
	const uint8_t *byte = value;

	return (uintptr_t)value & 1 ? (const void *)(byte - 1) : NULL;
}

/* Adds a block to those that were replaced. */
void garbage_add(struct garbage *garbage, void *block);

/* Moves all of `from` behind what is in `to`. */
void garbage_move(struct garbage *to, struct garbage *from);

/* --- held_snapshots.c --- */

/* Frees the holds that have been dropped. What was replaced stays for those that are left; what
 * none of them shows is in `unheld` afterwards, and `old` is empty. */
void holds_sweep(struct treecache *cache);

/* Bytes that the next sweep sets free. */
size_t holds_dropped_bytes(const struct treecache *cache);

/* Ends all holds, dropped or not. */
void holds_free(struct treecache *cache);

/* --- slice_pack.c --- */

/* Bytes of an address of this family. */
size_t family_len(unsigned family);

/* The order of slices of an owner: by name, then by index. */
int slice_compare(const struct slice_endpoints *a, const struct slice_endpoints *b);

/* The order of entries of a run: by address, then by host name, none first. */
int slice_compare_entries(const struct slice_endpoints *slice, unsigned a, unsigned b);

/* The first of entries [from, to), which are in order, whose address is not below this one. */
unsigned slice_lower_bound(
    const struct slice_endpoints *slice, unsigned from, unsigned to, const uint8_t *addr);

/* Whether one of entries [from, to), which are in order, has this address. */
bool slice_has_addr(
    const struct slice_endpoints *slice, unsigned from, unsigned to, const uint8_t *addr);

/* Moves an entry of a slice of the writer's own; those between the two places move up or down. */
void slice_move(struct slice_endpoints *slice, unsigned from, unsigned to);

/* Brings entry order[i] to place i, for all of them. */
void slice_reorder(struct slice_endpoints *slice, const uint16_t *order);

/* The size of a slice, its host names included. */
size_t slice_bytes(const struct slice_endpoints *slice);

/* A slice of the writer's own, its entries in the order of the source, no run set yet. */
struct slice_endpoints *slice_pack(struct treecache *cache, const struct owner *owner,
    uint32_t slot, const struct slice_source *source);

/* Bytes that this many places take in a slice; and those that the slice's own take. */
size_t slice_places_size(size_t count);
size_t slice_places_bytes(const struct slice_endpoints *slice);

/* Writes the source's places into a slice that has room for them. */
void slice_places_pack(struct slice_endpoints *slice, const struct slice_source *source);

/* Entry `from` goes to `to`, as in slice_move(); costs the number of places. */
void slice_places_move(struct slice_endpoints *slice, unsigned from, unsigned to);

/* Entry i has become entry now[i]. */
void slice_places_renumber(struct slice_endpoints *slice, const uint16_t *now);

/* --- endpoint_find.c --- */

/* The keys of an endpoint in the endpoint index: by its address and whether it has a host name, so that who
 * looks for those without need not pass over the others; and by its host name (a label). */
void endpoint_addr_key(const struct tree *tree, const struct owner *owner, const uint8_t *bytes,
    uint8_t family, bool named, uint8_t key[4]);
void endpoint_name_key(
    const struct tree *tree, const struct owner *owner, const uint8_t *label, uint8_t key[4]);

/* The key of a name's first label in the index of labels. */
void owner_label_key(const struct tree *tree, const uint8_t *label, uint8_t key[4]);

/* In the reverse indexes the slots of slices have this bit, and so come behind an owner's own
 * address: who finds a slice first knows that the address is nobody's own. */
enum { SLOT_OF_SLICE = 1 << 30 };

/* What is in the walk's next slot under `key`; NULL at the end. */
const void *index_next_value(const struct tree *tree, const struct pair_btree *index,
    const uint8_t *key, struct pair_walk *walk);

/* --- tree_find.c --- */

/* The labels of `name`, last first; returns their number. */
unsigned tree_reversed_labels(const uint8_t *name, const uint8_t *labels[DNAME_LABELS_MAX]);

/* --- tree_edit.c --- */

void tree_free_nodes(struct node *root);

#endif
