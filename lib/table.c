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
	if (table->room == 0)
		return NULL;
	for (size_t i = hash & (table->room - 1); table->places[i] != NULL;
	     i = (i + 1) & (table->room - 1))
		if (hash_of(table->places[i]) == hash && same(table->places[i], key))
			return table->places[i];
	return NULL;
}

static void
put(struct table *table, void *entry)
{
	size_t i = hash_of(entry) & (table->room - 1);

	while (table->places[i] != NULL)
		i = (i + 1) & (table->room - 1);
	table->places[i] = entry;
}

void
table_add(struct table *table, void *entry)
{
	if (table->count >= table->room / 4 * 3) {
		struct table old = *table;
		size_t place = 0;
		void *moved;

		table->room = old.room == 0 ? 16 : old.room * 2;
		table->places = xcalloc(table->room, sizeof *table->places);
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
	size_t mask = table->room - 1, hole = hash_of(entry) & mask;

	while (table->places[hole] != entry) {
		assert(table->places[hole] != NULL);
		hole = (hole + 1) & mask;
	}
	/* Whoever comes behind and would rather be here moves up,
	 * so that no search ends too early. */
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
	while (*place < table->room)
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
