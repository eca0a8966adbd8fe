/*
 * An ordered set of (key, value) pairs for one writer and many readers: a copy-on-write B+ tree
 * (cow_edit in treecache_internal.h). The indexes of treecache.h are such sets. The key is an
 * address or a hash; the value is a slot number or a namespace's number.
 *
 * The writer changes in place the nodes that it has copied since the last publish. A reader may use
 * a struct pair_btree of a published tree until the end of its read section.
 */
#ifndef TREECACHE_PAIR_BTREE_H
#define TREECACHE_PAIR_BTREE_H

#include <stdbool.h>
#include <stdint.h>

#include "treecache/treecache.h"

/* Both return false and change nothing if the pair already exists (insert) or does not exist
 * (remove). */
bool pair_btree_insert(
    struct treecache *cache, struct pair_btree *index, const uint8_t *key, uint32_t value);
bool pair_btree_remove(
    struct treecache *cache, struct pair_btree *index, const uint8_t *key, uint32_t value);

/* Sets `key` and `*value` to the first pair that is equal to them or greater. Returns false if there
 * is no such pair. */
bool pair_btree_seek(const struct pair_btree *index, uint8_t *key, uint32_t *value);

/* Gets the walk's next value under `key`, in ascending order. Returns false at the end. The index
 * must not change during a walk. */
bool pair_btree_next(
    const struct pair_btree *index, const uint8_t *key, struct pair_walk *walk, uint32_t *value);

/* Frees all nodes at once. Called at the end of the program and of tests, when there are no readers. */
void pair_btree_free(struct pair_btree *index);

#endif
