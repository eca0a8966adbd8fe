/*
 * Maps a slot's number to what is in it: a slice, or an owner for its own address. A copy-on-write
 * radix tree of 64 ways, as deep as the highest number needs. Indexes hold slot numbers in place of
 * pointers: 4 bytes each, and a slice that replaces another keeps its number, so no index changes.
 */
#ifndef TREECACHE_SLOT_TABLE_H
#define TREECACHE_SLOT_TABLE_H

#include <stdint.h>

#include "treecache/treecache.h"

/* What is in the slot, or NULL. */
const void *slot_table_get(const struct slot_table *slots, uint32_t slot);

/* Puts `value` (NULL: nothing) into a slot. */
void slot_table_set(
    struct treecache *cache, struct slot_table *slots, uint32_t slot, const void *value);

/* Frees the table and the slices in it; owners are the caller's. */
void slot_table_free(struct slot_table *slots);

/* A number that is not in use, from 1 on; released ones first. */
uint32_t slot_alloc(struct treecache *cache);

/* Empties the slot and lets its number be given out again. */
void slot_release(struct treecache *cache, uint32_t slot);

#endif
