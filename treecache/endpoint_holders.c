/*
 * Which slices of a set publish an address, in order: kept for sets whose slices share very many
 * (endpoint_dedup.c). To search the other slices for each address of one that changes would cost their
 * number; here an address is looked up.
 */
#include <stdlib.h>
#include <string.h>

#include "lib/xalloc.h"
#include "treecache/endpoint_internal.h"

/* One owner's. */
struct addr_holders {
	uint32_t hash; /* the owner's id */
	struct table v4, v6;
};

struct holders_of_addr {
	uint32_t hash;
	uint32_t count; /* not 0 */
	union {
		uint32_t one;
		uint32_t *slots; /* of more than one, by slice_compare; room for a power of two */
	};
	uint8_t addr[]; /* 4 or 16 bytes */
};

static bool
same_addr4(const void *entry, const void *key)
{
	const struct holders_of_addr *of = entry;

	return memcmp(of->addr, key, 4) == 0;
}

static bool
same_addr16(const void *entry, const void *key)
{
	const struct holders_of_addr *of = entry;

	return memcmp(of->addr, key, 16) == 0;
}

static uint32_t
addr_hash(const struct treecache *cache, const uint8_t *addr, size_t len)
{
	return hash_fold(hash64(cache->next.seed, addr, len));
}

static struct holders_of_addr *
find(const struct treecache *cache, const struct addr_holders *holders, const uint8_t *addr,
    size_t len)
{
	return table_find(len == 4 ? &holders->v4 : &holders->v6, addr_hash(cache, addr, len),
	    len == 4 ? same_addr4 : same_addr16, addr);
}

static uint32_t *
slots_of(struct holders_of_addr *of)
{
	return of->count == 1 ? &of->one : of->slots;
}

static const struct slice_endpoints *
slice_in(const struct treecache *cache, uint32_t slot)
{
	return slot_table_get(&cache->next.slots, slot);
}

/* The place of a slice among those that publish the address, or where it would be. */
static uint32_t
slice_place(
    const struct treecache *cache, struct holders_of_addr *of, const struct slice_endpoints *slice)
{
	const uint32_t *slots = slots_of(of);
	uint32_t low = 0, high = of->count;

	while (low < high) {
		uint32_t middle = (low + high) / 2;
		if (slice_compare(slice_in(cache, slots[middle]), slice) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static void
add(struct treecache *cache, struct addr_holders *holders, const struct slice_endpoints *slice,
    const uint8_t *addr, size_t len)
{
	struct holders_of_addr *of = find(cache, holders, addr, len);

	if (of == NULL) {
		of = xmalloc(sizeof *of + len);
		*of = (struct holders_of_addr){
			.hash = addr_hash(cache, addr, len), .count = 1, .one = slice->slot
		};
		memcpy(of->addr, addr, len);
		table_add(len == 4 ? &holders->v4 : &holders->v6, of);
		return;
	}
	uint32_t place = slice_place(cache, of, slice), first = of->one;
	if (of->count == 1) {
		of->slots = xcalloc(2, sizeof *of->slots);
		of->slots[0] = first;
	} else if ((of->count & (of->count - 1)) == 0) {
		of->slots = xreallocarray(of->slots, 2 * (size_t)of->count, sizeof *of->slots);
	}
	memmove(of->slots + place + 1, of->slots + place, (of->count - place) * sizeof *of->slots);
	of->slots[place] = slice->slot;
	of->count++;
}

static void
take_away(struct treecache *cache, struct addr_holders *holders,
    const struct slice_endpoints *slice, const uint8_t *addr, size_t len)
{
	struct holders_of_addr *of = find(cache, holders, addr, len);

	if (of->count == 1) {
		table_remove(len == 4 ? &holders->v4 : &holders->v6, of);
		free(of);
		return;
	}
	uint32_t place = slice_place(cache, of, slice), *slots = of->slots;
	memmove(slots + place, slots + place + 1, (--of->count - place) * sizeof *slots);
	if (of->count == 1) {
		of->one = slots[0];
		free(slots);
	}
}

struct addr_holders *
addr_holders_find(const struct treecache *cache, const struct owner *owner)
{
	return kept_of_owner(&cache->addr_holders, owner);
}

struct addr_holders *
addr_holders_new(struct treecache *cache, const struct owner *owner)
{
	struct addr_holders *holders = xmalloc(sizeof *holders);
	const struct endpoint_set *endpoints = owner->endpoints;

	*holders = (struct addr_holders){ .hash = owner->id };
	table_add(&cache->addr_holders, holders);
	for (unsigned c = 0; c < endpoints->count; c++) {
		struct endpoint_keys addrs = endpoint_addr_keys(endpoints->slices[c].slice);
		for (size_t i = 0; i < addrs.count; i++)
			add(cache, holders, endpoints->slices[c].slice, addrs.bytes + i * addrs.len,
			    addrs.len);
		free(addrs.bytes);
	}
	return holders;
}

static void
free_table(struct table *table)
{
	struct holders_of_addr *of;
	size_t place = 0;

	while ((of = table_next(table, &place)) != NULL) {
		if (of->count > 1)
			free(of->slots);
		free(of);
	}
	table_free(table);
}

static void
holders_free(struct addr_holders *holders)
{
	free_table(&holders->v4);
	free_table(&holders->v6);
	free(holders);
}

void
addr_holders_change(struct treecache *cache, struct addr_holders *holders,
    const struct slice_endpoints *old, const struct slice_endpoints *slice)
{
	struct endpoint_keys was = endpoint_addr_keys(old), is = endpoint_addr_keys(slice);

	for (size_t i = 0; i < was.count; i++) {
		const uint8_t *addr = was.bytes + i * was.len;
		if (endpoint_keys_find(&is, addr) == is.count)
			take_away(cache, holders, old, addr, was.len);
	}
	for (size_t i = 0; i < is.count; i++) {
		const uint8_t *addr = is.bytes + i * is.len;
		if (endpoint_keys_find(&was, addr) == was.count)
			add(cache, holders, slice, addr, is.len);
	}
	free(was.bytes);
	free(is.bytes);
	if (holders->v4.count + holders->v6.count > 0)
		return;
	table_remove(&cache->addr_holders, holders);
	holders_free(holders);
	if (cache->addr_holders.count == 0)
		table_free(&cache->addr_holders);
}

const struct slice_endpoints *
addr_holders_lowest(const struct treecache *cache, const struct addr_holders *holders,
    const struct slice_endpoints *but, const uint8_t *addr)
{
	struct holders_of_addr *of = find(cache, holders, addr, family_len(but->family));
	uint32_t skip;

	if (of == NULL)
		return NULL;
	skip = slots_of(of)[0] == but->slot;
	return skip < of->count ? slice_in(cache, slots_of(of)[skip]) : NULL;
}

void
addr_holders_free_all(struct treecache *cache)
{
	struct addr_holders *holders;
	size_t place = 0;

	while ((holders = table_next(&cache->addr_holders, &place)) != NULL)
		holders_free(holders);
	table_free(&cache->addr_holders);
}
