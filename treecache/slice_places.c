/*
 * Where the endpoints of a slice are, for those who ask which of them are near: pairs of a place and
 * an entry, in order, behind the slice's tags. A slice without places has no such part.
 *
 *	count | place 5: entry 0 | place 5: entry 3 | place 9: entry 1 | ...
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "lib/xalloc.h"
#include "treecache/treecache_internal.h"

enum { PAIR_BYTES = 8, ENTRY_BITS = 16 };

static uint8_t *
region(struct slice_endpoints *slice)
{
	return slice->bytes + (size_t)slice->count * (family_len(slice->family) + sizeof(uint32_t));
}

static uint64_t
pair_at(const uint8_t *pairs, size_t i)
{
	uint64_t pair;

	memcpy(&pair, pairs + i * PAIR_BYTES, sizeof pair);
	return pair;
}

static uint32_t
pair_count(const uint8_t *at)
{
	uint32_t count;

	memcpy(&count, at, sizeof count);
	return count;
}

size_t
slice_places_size(size_t count)
{
	return count == 0 ? 0 : sizeof(uint32_t) + count * PAIR_BYTES;
}

size_t
slice_places_bytes(const struct slice_endpoints *slice)
{
	return slice->placed ? slice_places_size(pair_count(region(writers(slice)))) : 0;
}

static int
by_number(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* Writes the pairs in order, each once. */
static void
put_pairs(uint8_t *at, uint64_t *pairs, size_t count)
{
	uint32_t kept = 0;

	qsort(pairs, count, sizeof *pairs, by_number);
	for (size_t i = 0; i < count; i++)
		if (i == 0 || pairs[i] != pairs[i - 1])
			memcpy(at + sizeof kept + kept++ * PAIR_BYTES, &pairs[i], PAIR_BYTES);
	memcpy(at, &kept, sizeof kept);
}

void
slice_places_pack(struct slice_endpoints *slice, const struct slice_source *source)
{
	if (source->place_count == 0)
		return;
	uint64_t *pairs = xcalloc(source->place_count, sizeof *pairs);
	for (size_t i = 0; i < source->place_count; i++) {
		const struct endpoint_place *place = &source->places[i];
		assert(place->place <= PLACE_MAX && place->endpoint < source->count);
		pairs[i] = place->place << ENTRY_BITS | place->endpoint;
	}
	slice->placed = true;
	put_pairs(region(slice), pairs, source->place_count);
	free(pairs);
}

void
slice_places_renumber(struct slice_endpoints *slice, const uint16_t *now)
{
	if (!slice->placed)
		return;
	uint8_t *at = region(slice);
	uint32_t count = pair_count(at);
	uint64_t *pairs = xcalloc(count, sizeof *pairs);
	for (size_t i = 0; i < count; i++) {
		uint64_t pair = pair_at(at + sizeof count, i);
		pairs[i] = pair >> ENTRY_BITS << ENTRY_BITS | now[pair & UINT16_MAX];
	}
	put_pairs(at, pairs, count);
	free(pairs);
}

void
slice_places_move(struct slice_endpoints *slice, unsigned from, unsigned to)
{
	if (!slice->placed)
		return;
	uint8_t *at = region(slice), *pairs = at + sizeof(uint32_t);
	uint32_t count = pair_count(at);
	for (size_t i = 0; i < count; i++) {
		uint64_t pair = pair_at(pairs, i);
		unsigned entry = pair & UINT16_MAX;
		unsigned now = entry == from                 ? to
			       : from < entry && entry <= to ? entry - 1
			       : to <= entry && entry < from ? entry + 1
							     : entry;
		size_t place = i;
		pair = pair - entry + now;
		/* Not sorted anew, since this is done for each address that another slice takes: in each place
		 * one entry at most is out of order. */
		for (; place > 0 && pair_at(pairs, place - 1) > pair; place--)
			memcpy(pairs + place * PAIR_BYTES, pairs + (place - 1) * PAIR_BYTES,
			    PAIR_BYTES);
		memcpy(pairs + place * PAIR_BYTES, &pair, PAIR_BYTES);
	}
}

/* The first of pairs [from, to) that is not below `pair`. */
static uint32_t
lower_bound(const uint8_t *pairs, uint32_t from, uint32_t to, uint64_t pair)
{
	while (from < to) {
		uint32_t middle = from + (to - from) / 2;
		if (pair_at(pairs, middle) < pair)
			from = middle + 1;
		else
			to = middle;
	}
	return from;
}

void
slice_at_place(const struct slice_endpoints *slice, uint64_t place, unsigned limit,
    struct place_entries *found)
{
	*found = (struct place_entries){ .count = 0 };
	if (!slice->placed || place == 0)
		return;
	const uint8_t *at = region(writers(slice)), *pairs = at + sizeof(uint32_t);
	uint32_t count = pair_count(at);
	uint32_t from = lower_bound(pairs, 0, count, place << ENTRY_BITS);
	found->pairs = pairs + (size_t)from * PAIR_BYTES;
	found->count = lower_bound(pairs, from, count, (place << ENTRY_BITS) + limit) - from;
}

unsigned
place_entry(const struct place_entries *found, unsigned n)
{
	return (unsigned)(pair_at(found->pairs, n) & UINT16_MAX);
}
