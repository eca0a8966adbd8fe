/*
 * An ordered set of (key, value) pairs that many may read while one writes: a B+ tree whose nodes are
 * copied along the path of each change (treecache_internal.h, cow_edit). The indexes of treecache.h
 * are of this kind: an address or a hash is the key, a slot number or a namespace's the value.
 *
 * The writer's functions change the tree in place where its nodes have been copied since the last
 * publish. Readers may hold a struct btree of a published tree for as long as their read section.
 */
#ifndef TREECACHE_BTREE_H
#define TREECACHE_BTREE_H

#include <stdbool.h>
#include <stdint.h>

#include "treecache/treecache.h"

/* False, and nothing changes, if the pair is there already (insert) or is not there (remove). */
bool btree_insert(struct treecache *cache, struct btree *index, const uint8_t *key, uint32_t value);
bool btree_remove(struct treecache *cache, struct btree *index, const uint8_t *key, uint32_t value);

/* The first pair not below (key, value), into both; false at the end. */
bool btree_seek(const struct btree *index, uint8_t *key, uint32_t *value);

/*
 * The first value not below `*value` under `key`, into it; false if there is none. With `*last` it
 * is the last one too; without it another may follow.
 */
bool btree_next(const struct btree *index, const uint8_t *key, uint32_t *value, bool *last);

/* Frees all nodes at once: for the end of the program and of tests, when there are no readers. */
void btree_free(struct btree *index);

#endif
