/* The contents of the hash table of pointers. Entries are added and removed, and hashes collide. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "lib/table.h"

struct entry {
	uint32_t hash;
	unsigned key;
};

enum { KEYS = 3000 };

static struct entry entries[KEYS];

static bool
same(const void *entry, const void *key)
{
	return ((const struct entry *)entry)->key == *(const unsigned *)key;
}

static void *
find(const struct table *table, unsigned key)
{
	return table_find(table, entries[key].hash, same, &key);
}

/* Makes entries. Their hashes have this many different values, including 0. */
static void
name_entries(uint32_t values)
{
	for (unsigned i = 0; i < KEYS; i++)
		entries[i] = (struct entry){ i * UINT32_C(2654435761) % values, i };
}

static void
entries_are_found_until_they_are_removed(void **state)
{
	static const uint32_t values[] = { UINT32_MAX, 64, 1 }; /* with 1, all hashes are equal */

	(void)state;

	for (size_t v = 0; v < sizeof values / sizeof values[0]; v++) {
		unsigned keys = values[v] == 1 ? KEYS / 10 : KEYS, count = 0, random = 7;
		struct table table = { 0 };
		bool there[KEYS] = { false };

		name_entries(values[v]);
		for (unsigned step = 0; step < 10 * keys; step++) {
			random = random * 1103515245u + 12345u;
			unsigned key = (random >> 8) % keys;
			assert_ptr_equal(find(&table, key), there[key] ? &entries[key] : NULL);
			if (there[key])
				table_remove(&table, &entries[key]);
			else
				table_add(&table, &entries[key]);
			there[key] = !there[key];
			count += there[key] ? 1 : -1u;
			assert_int_equal(table.count, count);
		}
		for (unsigned key = 0; key < keys; key++)
			assert_ptr_equal(find(&table, key), there[key] ? &entries[key] : NULL);
		table_free(&table);
	}
}

static void
a_walk_sees_each_entry_once(void **state)
{
	struct table table = { 0 };
	unsigned seen[KEYS] = { 0 }, count = 0;
	size_t place = 0;
	const struct entry *entry;

	(void)state;

	name_entries(64);
	assert_null(table_next(&table, &place)); /* the table has no entry and no slots yet */
	for (unsigned i = 0; i < KEYS; i += 3)
		table_add(&table, &entries[i]);
	for (place = 0; (entry = table_next(&table, &place)) != NULL; count++)
		seen[entry->key]++;
	assert_int_equal(count, KEYS / 3);
	for (unsigned i = 0; i < KEYS; i++)
		assert_int_equal(seen[i], i % 3 == 0);
	table_free(&table);
}

static void
a_quarter_of_the_places_is_free_always(void **state)
{
	struct table table = { 0 };

	(void)state;

	name_entries(UINT32_MAX);
	for (unsigned i = 0; i < KEYS; i++) {
		table_add(&table, &entries[i]);
		assert_true(table.count * 4 <= table.capacity * 3);
		assert_int_equal(table.capacity & (table.capacity - 1), 0);
	}
	table_free(&table);
	assert_int_equal(table.count, 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(entries_are_found_until_they_are_removed),
		cmocka_unit_test(a_walk_sees_each_entry_once),
		cmocka_unit_test(a_quarter_of_the_places_is_free_always),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
