/*
 * Shared by the files of treecache: copy-on-write blocks, and the lists of blocks that were
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
	size_t count, capacity, bytes;
};

struct treecache {
	struct tree *current; /* the published tree; exchanged by RCU */
	struct tree next;     /* the writer's tree; shares unchanged nodes with `current` */
	/* Stored in each block that the writer makes. Each publish increments the epoch. */
	uint32_t epoch;
	bool dirty;
	/* Blocks replaced since the last publish; the published tree still uses them. */
	struct garbage fresh;
	/* Blocks replaced earlier. They are freed after a grace period, unless a hold keeps them. */
	struct garbage old;
	/* Blocks replaced before the snapshot of the oldest hold was published. */
	struct garbage unheld;
	struct tree_hold *newest_hold;
	uint32_t *free_slots;
	size_t free_count, free_capacity;
	uint32_t slot_count; /* highest slot number ever allocated */
	uint32_t owner_count;
	/* The slices of each address, for sets whose slices share very many addresses. */
	struct table addr_holders;
};

/* --- cow.c --- */

/* Allocates a block of `size` bytes that only the writer sees until the next publish. Sets its
 * first word, the epoch; the other bytes are uninitialised. */
void *cow_new(struct treecache *cache, size_t size);

/* Returns `block` itself if it was made since the last publish. Otherwise retires it and returns a
 * copy of its `size` bytes. */
void *cow_edit(struct treecache *cache, void *block, size_t size);

/* Frees `block` at once if no reader can have seen it, otherwise after the grace period. NULL is fine. */
void cow_drop(struct treecache *cache, const void *block);

enum { LABEL_PAD = HASH_PAD }; /* readable bytes after the end of a label */

/* A 32-bit hash of `len` bytes. LABEL_PAD bytes after them must be readable. */
static inline uint32_t
label_hash(uint64_t seed, const uint8_t *bytes, size_t len)
{
	return hash_fold(hash64_padded(seed, bytes, len));
}

/* Casts const away. Readers have const pointers to blocks that only the writer changes and frees. */
static inline void *
writers(const void *block)
{
	union {
		const void *readers;
		void *writers;
	} u = { .readers = block };

	return u.writers;
}

/* A slot's value is a pointer to a slice, or a pointer to an owner with the low bit set. */
static inline const struct owner *
slot_owner(const void *value)
{
	const uint8_t *byte = value;

	return (uintptr_t)value & 1 ? (const void *)(byte - 1) : NULL;
}

/* Adds a replaced block to the list. */
void garbage_add(struct garbage *garbage, void *block);

/* Moves all blocks of `from` to the end of `to`. */
void garbage_move(struct garbage *to, struct garbage *from);

/* --- held_snapshots.c --- */

/* Frees the holds that have been dropped. Blocks that a remaining hold may use are kept with that
 * hold. All other blocks are in `unheld` afterwards, and `old` is empty. */
void holds_sweep(struct treecache *cache);

/* Returns the number of bytes that the next sweep releases. */
size_t holds_dropped_bytes(const struct treecache *cache);

/* Frees all holds, dropped or not. */
void holds_free(struct treecache *cache);

/* --- slice_pack.c --- */

/* Returns the length of an address of this family in bytes. */
size_t family_len(unsigned family);

/* Compares two slices of an owner, by name and then by index. */
int slice_compare(const struct slice_endpoints *a, const struct slice_endpoints *b);

/* Compares two entries of a run, by address and then by host name. An entry without a host name is first. */
int slice_compare_entries(const struct slice_endpoints *slice, unsigned a, unsigned b);

/* Returns the first entry in [from, to) whose address is not below `addr`. The range is sorted. */
unsigned slice_lower_bound(
    const struct slice_endpoints *slice, unsigned from, unsigned to, const uint8_t *addr);

/* Whether an entry in [from, to) has this address. The range is sorted. */
bool slice_has_addr(
    const struct slice_endpoints *slice, unsigned from, unsigned to, const uint8_t *addr);

/* Moves an entry of an unpublished slice. The entries between the two positions shift by one. */
void slice_move(struct slice_endpoints *slice, unsigned from, unsigned to);

/* Moves entry order[i] to position i, for each i. */
void slice_reorder(struct slice_endpoints *slice, const uint16_t *order);

/* Returns the size of a slice in bytes, including its host names. */
size_t slice_bytes(const struct slice_endpoints *slice);

/* Makes an unpublished slice. The entries are in the order of `source`. The runs are not set yet. */
struct slice_endpoints *slice_pack(struct treecache *cache, const struct owner *owner,
    uint32_t slot, const struct slice_source *source);

/* slice_places_size() returns how many bytes `count` places take in a slice. slice_places_bytes()
 * returns how many bytes the places of this slice take. */
size_t slice_places_size(size_t count);
size_t slice_places_bytes(const struct slice_endpoints *slice);

/* Writes the source's places into a slice that has space for them. */
void slice_places_pack(struct slice_endpoints *slice, const struct slice_source *source);

/* Updates the places after slice_move(). Costs O(number of places). */
void slice_places_move(struct slice_endpoints *slice, unsigned from, unsigned to);

/* Updates the places after the entries were renumbered: now[i] is the new number of entry i. */
void slice_places_renumber(struct slice_endpoints *slice, const uint16_t *now);

/* --- endpoint_find.c --- */

/*
 * Keys of an endpoint in the endpoint index. One key is made from its address and from whether it
 * has a host name. A search for unnamed endpoints thus skips named endpoints. The other key is made
 * from its host name (a label).
 */
void endpoint_addr_key(const struct tree *tree, const struct owner *owner, const uint8_t *bytes,
    uint8_t family, bool named, uint8_t key[4]);
void endpoint_name_key(
    const struct tree *tree, const struct owner *owner, const uint8_t *label, uint8_t key[4]);

/* Key of a name's first label in the index of labels. */
void owner_label_key(const struct tree *tree, const uint8_t *label, uint8_t key[4]);

/* In the reverse indexes, slot numbers of slices have this bit set, so owners sort first. A reader
 * whose first result is a slice thus knows that no owner has the address as its own. */
enum { SLOT_OF_SLICE = 1 << 30 };

/* Returns the value in the next slot under `key`, or NULL at the end of the walk. */
const void *index_next_value(const struct tree *tree, const struct pair_btree *index,
    const uint8_t *key, struct pair_walk *walk);

/* --- tree_find.c --- */

/* Points `labels` at the labels of `name`, last one first. Returns their number. */
unsigned tree_reversed_labels(const uint8_t *name, const uint8_t *labels[DNAME_LABELS_MAX]);

/* --- tree_edit.c --- */

void tree_free_nodes(struct node *root);

#endif
