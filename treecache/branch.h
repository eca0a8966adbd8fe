/*
 * The children of a node are NULL, one node, or (low bit set) a branch of a hash array mapped trie.
 * Five bits of the label's hash choose one of 32 ways; only the ways in use are stored. Labels with
 * the same 32-bit hash share a branch below the last level, which is searched linearly.
 */
#ifndef TREECACHE_BRANCH_H
#define TREECACHE_BRANCH_H

#include "treecache/treecache_internal.h"

enum { WAY_BITS = 5, WAYS = 1 << WAY_BITS, HASH_BITS = 32 };

struct branch {
	uint32_t epoch;
	uint32_t used; /* bitmap of the ways in use; below the last level, the number of ways */
	void *ways[];
};

static inline struct branch *
as_branch(void *child)
{
	return (uintptr_t)child & 1 ? (void *)((uint8_t *)child - 1) : NULL;
}

static inline void *
from_branch(struct branch *branch)
{
	return (uint8_t *)branch + 1;
}

/* Population count. Without a CPU instruction for it, the builtin would be a function call, made
 * several times for each name. */
static inline unsigned
bits_set(uint32_t bits)
{
	bits -= bits >> 1 & 0x55555555;
	bits = (bits & 0x33333333) + (bits >> 2 & 0x33333333);
	return ((bits + (bits >> 4)) & 0x0f0f0f0f) * 0x01010101 >> 24;
}

static inline unsigned
ways_count(const struct branch *branch, unsigned shift)
{
	return shift >= HASH_BITS ? branch->used : bits_set(branch->used);
}

static inline size_t
branch_size(unsigned ways)
{
	return sizeof(struct branch) + ways * sizeof(void *);
}

static inline uint32_t
way_bit(uint32_t hash, unsigned shift)
{
	return UINT32_C(1) << (hash >> shift & (WAYS - 1));
}

static inline unsigned
way_at(const struct branch *branch, uint32_t bit)
{
	return bits_set(branch->used & (bit - 1));
}

/* Returns the child with this label and hash, or NULL. `children` must not be NULL. */
const struct node *branch_find(void *children, unsigned shift, uint32_t hash, const uint8_t *label);

#endif
