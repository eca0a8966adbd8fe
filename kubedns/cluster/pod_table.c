#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "kubedns/cluster/pod_table.h"
#include "lib/hash.h"
#include "lib/xalloc.h"

static size_t
entry_len(const struct pod_table *table)
{
	return sizeof(struct pod_addr) + (table->family == AF_INET ? 4 : 16);
}

static struct pod_addr *
entry_at(const struct pod_table *table, size_t i)
{
	return (void *)(table->places + i * entry_len(table));
}

struct pod_addr *
pod_table_at(const struct pod_table *table, size_t i)
{
	struct pod_addr *entry = entry_at(table, i);

	return entry->number == 0 ? NULL : entry;
}

/* Returns the place where a search begins: the hash scaled to `capacity`, which need not be a power of two. */
static size_t
home(const struct pod_table *table, uint64_t name_hash)
{
	return hash_place(name_hash, (uint32_t)table->capacity);
}

static size_t
behind(const struct pod_table *table, size_t i)
{
	return i + 1 == table->capacity ? 0 : i + 1;
}

static size_t
place_of(const struct pod_table *table, const struct pod_addr *entry)
{
	return (size_t)((const uint8_t *)entry - table->places) / entry_len(table);
}

struct pod_addr *
pod_table_next(const struct pod_table *table, uint64_t name_hash, const struct pod_addr *previous)
{
	struct pod_addr *entry;

	if (table->capacity == 0)
		return NULL;
	size_t i =
	    previous == NULL ? home(table, name_hash) : behind(table, place_of(table, previous));
	for (; (entry = pod_table_at(table, i)) != NULL; i = behind(table, i))
		if (entry->name_hash == name_hash)
			return entry;
	return NULL;
}

struct addr
pod_table_addr(const struct pod_table *table, const struct pod_addr *entry)
{
	struct addr addr = { .family = table->family };

	memcpy(addr.bytes, entry->bytes, addr_len(&addr));
	return addr;
}

static struct pod_addr *
free_place(const struct pod_table *table, uint64_t name_hash)
{
	size_t i = home(table, name_hash);

	while (pod_table_at(table, i) != NULL)
		i = behind(table, i);
	return entry_at(table, i);
}

static void
grow(struct pod_table *table)
{
	struct pod_table old = *table;
	const struct pod_addr *entry;

	table->capacity = old.capacity == 0 ? 16 : old.capacity + old.capacity / 4;
	assert(table->capacity <= UINT32_MAX); /* home() would overflow */
	table->places = xcalloc(table->capacity, entry_len(table));
	for (size_t i = 0; i < old.capacity; i++)
		if ((entry = pod_table_at(&old, i)) != NULL)
			memcpy(free_place(table, entry->name_hash), entry, entry_len(table));
	free(old.places);
}

void
pod_table_add(struct pod_table *table, uint64_t name_hash, uint32_t number, uint8_t mark,
    const struct addr *addr)
{
	if (table->count >= table->capacity / 5 * 4)
		grow(table);
	struct pod_addr *entry = free_place(table, name_hash);
	entry->name_hash = name_hash;
	entry->number = number;
	entry->mark = mark;
	memcpy(entry->bytes, addr->bytes, addr_len(addr));
	table->count++;
}

/* Distance from place `from` to place `to`, wrapping at the end of the table. */
static size_t
distance(const struct pod_table *table, size_t from, size_t to)
{
	return to >= from ? to - from : to + table->capacity - from;
}

void
pod_table_remove(struct pod_table *table, struct pod_addr *entry)
{
	size_t hole = place_of(table, entry);
	const struct pod_addr *moved;

	/* Backward-shift deletion. An entry whose search passes the hole moves into the hole. No
	 * search thus stops at the hole. */
	for (size_t i = behind(table, hole); (moved = pod_table_at(table, i)) != NULL;
	     i = behind(table, i)) {
		if (distance(table, home(table, moved->name_hash), i) < distance(table, hole, i))
			continue;
		memcpy(entry_at(table, hole), moved, entry_len(table));
		hole = i;
	}
	entry_at(table, hole)->number = 0;
	table->count--;
}

void
pod_table_free(struct pod_table *table)
{
	free(table->places);
	*table = (struct pod_table){ .family = table->family };
}
