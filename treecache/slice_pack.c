/* The packed endpoints of one EndpointSlice. The endpoints are const once they are published. */
#include <assert.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "lib/xalloc.h"
#include "treecache/treecache_internal.h"

/* Each entry has a tag: the offset of its host name in `bytes` (0: it is named after its address),
 * and whether the endpoint is ready. */
enum { TAG_READY = 1, TAG_NAME_SHIFT = 1 };

size_t
family_len(unsigned family)
{
	return family == AF_INET ? 4 : 16;
}

static uint32_t
slice_tag(const struct slice_endpoints *slice, unsigned i)
{
	uint32_t tag;

	memcpy(&tag,
	    slice->bytes + (size_t)slice->count * family_len(slice->family) + i * sizeof tag,
	    sizeof tag);
	return tag;
}

static void
slice_set_tag(struct slice_endpoints *slice, unsigned i, uint32_t tag)
{
	memcpy(slice->bytes + (size_t)slice->count * family_len(slice->family) + i * sizeof tag,
	    &tag, sizeof tag);
}

const uint8_t *
slice_name(const struct slice_endpoints *slice, unsigned i)
{
	uint32_t at = slice_tag(slice, i) >> TAG_NAME_SHIFT;

	return at == 0 ? NULL : slice->bytes + at;
}

bool
slice_same_name(const struct slice_endpoints *slice, unsigned a, unsigned b)
{
	const uint8_t *na = slice_name(slice, a), *nb = slice_name(slice, b);

	if (na == NULL || nb == NULL)
		return na == nb && memcmp(slice_addr(slice, a), slice_addr(slice, b),
				       family_len(slice->family)) == 0;
	return *na == *nb && memcmp(na, nb, 1u + *na) == 0;
}

bool
slice_ready(const struct slice_endpoints *slice, unsigned i)
{
	return slice_tag(slice, i) & TAG_READY;
}

unsigned
slice_find_addr(
    const struct slice_endpoints *slice, unsigned from, unsigned to, const uint8_t *bytes)
{
	size_t len = family_len(slice->family);
	unsigned i = from;

	if (len == 4)
		while (i < to && memcmp(slice->bytes + (size_t)i * 4, bytes, 4) != 0)
			i++;
	else
		while (i < to && memcmp(slice->bytes + (size_t)i * 16, bytes, 16) != 0)
			i++;
	return i;
}

unsigned
slice_next_ptr(const struct slice_endpoints *slice, unsigned from, const uint8_t *bytes)
{
	for (unsigned i = from;; i++) {
		i = slice_find_addr(slice, i, slice->published, bytes);
		if (i == slice->published || from == 0 || !slice_same_name(slice, from - 1, i))
			return i;
	}
}

unsigned
slice_find_name(
    const struct slice_endpoints *slice, unsigned from, unsigned to, const uint8_t *label)
{
	for (unsigned i = from; i < to; i++) {
		const uint8_t *name = slice_name(slice, i);

		/* Compares the last byte first, because pods of one set differ at the end of their names. */
		if (name != NULL && *name == *label && name[*name] == label[*name] &&
		    memcmp(name + 1, label + 1, *name) == 0)
			return i;
	}
	return to;
}

int
slice_compare(const struct slice_endpoints *a, const struct slice_endpoints *b)
{
	int order = strcmp(a->name, b->name);

	return order != 0 ? order : (a->index > b->index) - (a->index < b->index);
}

/* Updates the places after entry order[i] has moved to position i, for each i. */
static void
renumber_reordered(struct slice_endpoints *slice, const uint16_t *order)
{
	uint16_t *now = xcalloc(slice->count, sizeof *now);

	for (unsigned i = 0; i < slice->count; i++)
		now[order[i]] = (uint16_t)i;
	slice_places_renumber(slice, now);
	free(now);
}

void
slice_move(struct slice_endpoints *slice, unsigned from, unsigned to)
{
	uint8_t spare[16];
	size_t len = family_len(slice->family);
	uint8_t *addrs = slice->bytes, *tags = slice->bytes + slice->count * len;
	uint32_t tag = slice_tag(slice, from);

	memcpy(spare, addrs + from * len, len);
	if (from < to) {
		memmove(addrs + from * len, addrs + (from + 1) * len, (to - from) * len);
		memmove(tags + from * 4, tags + (from + 1) * 4, (to - from) * 4);
	} else {
		memmove(addrs + (to + 1) * len, addrs + to * len, (from - to) * len);
		memmove(tags + (to + 1) * 4, tags + to * 4, (from - to) * 4);
	}
	memcpy(addrs + to * len, spare, len);
	slice_set_tag(slice, to, tag);
	slice_places_move(slice, from, to);
}

void
slice_reorder(struct slice_endpoints *slice, const uint16_t *order)
{
	size_t len = family_len(slice->family), size = slice->count * (len + 4);
	uint8_t *old = xmalloc(size);

	memcpy(old, slice->bytes, size);
	for (unsigned i = 0; i < slice->count; i++) {
		memcpy(slice->bytes + i * len, old + order[i] * len, len);
		memcpy(slice->bytes + slice->count * len + i * 4,
		    old + slice->count * len + order[i] * 4u, 4);
	}
	free(old);
	if (slice->placed)
		renumber_reordered(slice, order);
}

int
slice_compare_entries(const struct slice_endpoints *slice, unsigned a, unsigned b)
{
	int order = memcmp(slice_addr(slice, a), slice_addr(slice, b), family_len(slice->family));
	const uint8_t *na, *nb;

	if (order != 0)
		return order;
	na = slice_name(slice, a);
	nb = slice_name(slice, b);
	if (na == NULL || nb == NULL)
		return (na != NULL) - (nb != NULL);
	order = memcmp(na + 1, nb + 1, *na < *nb ? *na : *nb);
	return order != 0 ? order : *na - *nb;
}

unsigned
slice_lower_bound(
    const struct slice_endpoints *slice, unsigned from, unsigned to, const uint8_t *addr)
{
	size_t len = family_len(slice->family);

	while (from < to) {
		unsigned middle = (from + to) / 2;

		if (memcmp(slice_addr(slice, middle), addr, len) < 0)
			from = middle + 1;
		else
			to = middle;
	}
	return from;
}

bool
slice_has_addr(const struct slice_endpoints *slice, unsigned from, unsigned to, const uint8_t *addr)
{
	unsigned at = slice_lower_bound(slice, from, to, addr);

	return at < to && memcmp(slice_addr(slice, at), addr, family_len(slice->family)) == 0;
}

/* The size is at least sizeof(struct slice_endpoints). With few entries, `bytes` ends within the
 * struct's padding, and an assignment of the struct writes the padding. */
static size_t
slice_size(uint8_t family, size_t count, size_t more)
{
	size_t size = offsetof(struct slice_endpoints, bytes) +
		      count * (family_len(family) + sizeof(uint32_t)) + more;

	return size > sizeof(struct slice_endpoints) ? size : sizeof(struct slice_endpoints);
}

static size_t
slice_names_len(const struct endpoint *endpoints, size_t count)
{
	size_t len = 0;

	for (size_t i = 0; i < count; i++)
		if (endpoints[i].name != NULL)
			len += 1 + strlen(endpoints[i].name);
	return len;
}

size_t
slice_bytes(const struct slice_endpoints *slice)
{
	size_t end = slice_size(slice->family, slice->count, slice_places_bytes(slice));

	for (unsigned i = 0; i < slice->count; i++) {
		const uint8_t *name = slice_name(slice, i);

		if (name != NULL && (size_t)(name + 1 + *name - (const uint8_t *)slice) > end)
			end = (size_t)(name + 1 + *name - (const uint8_t *)slice);
	}
	return end;
}

/*
 * Whether a host name may be an address with dashes. An IPv4 address has four decimal numbers and
 * three dashes. An IPv6 address has hexadecimal numbers and seven dashes or two adjacent dashes.
 * Also accepts some names that are not addresses, but never misses an address.
 */
static bool
may_spell_addr(const char *name)
{
	unsigned dashes = 0, letters = 0;

	for (const char *p = name; *p != '\0'; p++) {
		if (!isxdigit((unsigned char)*p) && *p != '-')
			return false;
		dashes += *p == '-';
		letters += isalpha((unsigned char)*p) != 0;
	}
	return dashes == 7 || (dashes == 3 && letters == 0) || strstr(name, "--") != NULL;
}

struct slice_endpoints *
slice_pack(struct treecache *cache, const struct owner *owner, uint32_t slot,
    const struct slice_source *source)
{
	size_t count = source->count, addr_len = family_len(source->family),
	       places_len = slice_places_size(source->place_count);
	struct slice_endpoints *slice =
	    cow_new(cache, slice_size(source->family, count,
			       places_len + slice_names_len(source->endpoints, count)));
	uint32_t at = (uint32_t)(count * (addr_len + sizeof(uint32_t)) + places_len);

	*slice = (struct slice_endpoints){ .epoch = slice->epoch,
		.slot = slot,
		.owner = owner,
		.ports = source->ports,
		.name = source->name,
		.index = source->index,
		.count = (uint16_t)count,
		.family = source->family };
	for (unsigned i = 0; i < count; i++) {
		const struct endpoint *e = &source->endpoints[i];
		uint32_t tag = e->ready ? TAG_READY : 0;

		memcpy(slice->bytes + i * addr_len, e->addr.bytes, addr_len);
		if (e->name != NULL) {
			size_t len = strlen(e->name);

			assert(len > 0 && len <= DNAME_LABEL_MAX);
			slice->dashed |= may_spell_addr(e->name);
			tag |= at << TAG_NAME_SHIFT;
			slice->bytes[at] = (uint8_t)len;
			memcpy(slice->bytes + at + 1, e->name, len);
			dname_lower(slice->bytes + at + 1, len);
			at += (uint32_t)len + 1;
		}
		slice_set_tag(slice, i, tag);
	}
	slice_places_pack(slice, source);
	return slice;
}

/* --- places --- */

/*
 * The places of a slice's endpoints, for queries about endpoints near the client. The places follow
 * the slice's tags, as sorted pairs of a place and an entry. A slice without places does not have
 * this part.
 *
 *	count | place 5: entry 0 | place 5: entry 3 | place 9: entry 1 | ...
 */

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

/* Writes the pairs sorted, without duplicates. */
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
		/* Uses insertion instead of a full sort, because this code runs for each address
		 * that another slice now counts. In each place, at most one entry is out of
		 * order. */
		for (; place > 0 && pair_at(pairs, place - 1) > pair; place--)
			memcpy(pairs + place * PAIR_BYTES, pairs + (place - 1) * PAIR_BYTES,
			    PAIR_BYTES);
		memcpy(pairs + place * PAIR_BYTES, &pair, PAIR_BYTES);
	}
}

/* Returns the first pair in [from, to) that is not below `pair`. */
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
