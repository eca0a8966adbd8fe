#include <assert.h>
#include <stdlib.h>

#include "lib/table.h"
#include "lib/xalloc.h"

static uint32_t
hash_of(const void *entry)
{
	return *(const uint32_t *)entry;
}

void *
table_find(const struct table *table, uint32_t hash,
    bool (*same)(const void *entry, const void *key), const void *key)
{
	if (table->capacity == 0)
		return NULL;
	for (size_t i = hash & (table->capacity - 1); table->places[i] != NULL;
	     i = (i + 1) & (table->capacity - 1))
		if (hash_of(table->places[i]) == hash && same(table->places[i], key))
			return table->places[i];
	return NULL;
}

static void
put(struct table *table, void *entry)
{
	size_t i = hash_of(entry) & (table->capacity - 1);

	while (table->places[i] != NULL)
		i = (i + 1) & (table->capacity - 1);
	table->places[i] = entry;
}

void
table_add(struct table *table, void *entry)
{
	if (table->count >= table->capacity / 4 * 3) {
		struct table old = *table;
		size_t place = 0;
		void *moved;

		table->capacity = old.capacity == 0 ? 16 : old.capacity * 2;
		table->places = xcalloc(table->capacity, sizeof *table->places);
		while ((moved = table_next(&old, &place)) != NULL)
			put(table, moved);
		free(old.places);
	}
	put(table, entry);
	table->count++;
}

void
table_remove(struct table *table, const void *entry)
{
	size_t mask = table->capacity - 1, hole = hash_of(entry) & mask;

	while (table->places[hole] != entry) {
		assert(table->places[hole] != NULL);
		hole = (hole + 1) & mask;
	}
	/* Moves a later entry into the hole if the hole is between the entry's home slot and the
	 * entry. Otherwise a search for the entry would end at the hole. */
	for (size_t i = (hole + 1) & mask; table->places[i] != NULL; i = (i + 1) & mask) {
		size_t home = hash_of(table->places[i]) & mask;

		if (((i - home) & mask) >= ((i - hole) & mask)) {
			table->places[hole] = table->places[i];
			hole = i;
		}
	}
	table->places[hole] = NULL;
	table->count--;
}

void *
table_next(const struct table *table, size_t *place)
{
	while (*place < table->capacity)
		if (table->places[(*place)++] != NULL)
			return table->places[*place - 1];
	return NULL;
}

void
table_free(struct table *table)
{
	free(table->places);
	*table = (struct table){ 0 };
}
