/*
 * Maps a slot number to its content: a slice, or an owner that has an address or label of its own.
 * A copy-on-write radix tree of 64 ways, as deep as the highest number needs. Indexes store slot
 * numbers instead of pointers. A number takes 4 bytes. A slice that replaces another slice gets the
 * number of that slice, so no index changes.
 */
#ifndef TREECACHE_SLOT_TABLE_H
#define TREECACHE_SLOT_TABLE_H

#include <stdint.h>

#include "treecache/treecache.h"

/* Returns the content of the slot, or NULL. */
const void *slot_table_get(const struct slot_table *slots, uint32_t slot);

/* Sets the content of a slot; NULL empties it. */
void slot_table_set(
    struct treecache *cache, struct slot_table *slots, uint32_t slot, const void *value);

/* Frees the table and the slices in it. Owners belong to the caller. */
void slot_table_free(struct slot_table *slots);

/* Allocates a slot number, from 1 on. Released numbers are used first. */
uint32_t slot_alloc(struct treecache *cache);

/* Empties the slot and releases its number. */
void slot_release(struct treecache *cache, uint32_t slot);

#endif
