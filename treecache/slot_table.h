/*
 * From a slot's number to what is in it: a slice, or an owner for its own address. A radix tree of 64
 * ways, as deep as the highest number asks for, copied along the path of each change like the rest.
 * Indexes hold numbers instead of pointers: 4 bytes each, and a slice that takes the place of
 * another keeps its number, so that no index changes.
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

/* Frees the table and the slices in it; owners belong to whoever made them. */
void slot_table_free(struct slot_table *slots);

/* A number that is not in use, from 1 on; released ones first. */
uint32_t slot_alloc(struct treecache *cache);

/* Empties the slot and lets its number be given out again. */
void slot_release(struct treecache *cache, uint32_t slot);

#endif
