/*
 * A hash table of pointers, with 8 bytes per slot and at most three quarters of the slots in use.
 * Entries belong to the caller and begin with their uint32_t hash.
 */
#ifndef LIB_TABLE_H
#define LIB_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct table {
	void **places;   /* slots; NULL: free */
	size_t capacity; /* a power of two, or 0 */
	size_t count;
};

/* Finds the entry with this hash for which `same` returns true, or NULL. */
void *table_find(const struct table *table, uint32_t hash,
    bool (*same)(const void *entry, const void *key), const void *key);

/* Adds an entry that the table does not have yet. */
void table_add(struct table *table, void *entry);

/* Removes an entry that the table has. */
void table_remove(struct table *table, const void *entry);

/* Iterates. Returns the entry at or after slot `*place` and moves `*place` past it. Returns NULL at
 * the end. The table must not change during the iteration. */
void *table_next(const struct table *table, size_t *place);

/* Frees the slots, not the entries. */
void table_free(struct table *table);

#endif
