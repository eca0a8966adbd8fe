/*
 * A hash table of pointers: 8 bytes a place, at most three quarters of them taken. Entries belong
 * to the caller and begin with their uint32_t hash.
 */
#ifndef LIB_TABLE_H
#define LIB_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct table {
	void **places; /* NULL: free */
	size_t room;   /* a power of two, or 0 */
	size_t count;
};

/* The entry with this hash for which `same` says so, or NULL. */
void *table_find(const struct table *table, uint32_t hash,
    bool (*same)(const void *entry, const void *key), const void *key);

/* Adds an entry that is not there yet. */
void table_add(struct table *table, void *entry);

/* Takes out an entry that is there. */
void table_remove(struct table *table, const void *entry);

/* The entry at or behind `*place`, which moves behind it;
 * NULL at the end. The table must not change meanwhile. */
void *table_next(const struct table *table, size_t *place);

/* Frees the places, not the entries. */
void table_free(struct table *table);

#endif
