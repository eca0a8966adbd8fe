/*
 * The endpoints of one EndpointSlice, packed; const once they are published.
 */
#include <assert.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "lib/xalloc.h"
#include "treecache/treecache_internal.h"

/* A tag: where the host name begins in `bytes` (0: named for the address), and whether the endpoint
 * is ready. */
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
		/* Pods of one set differ at the end of their names. */
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

/* Entry order[i] has gone to i. */
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

/* At least sizeof the struct: with few entries `bytes` ends within its padding, which assigning the
 * struct writes. */
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

/* Four numbers with three dashes between, or eight hexadecimal ones with seven, or fewer of them
 * with two dashes side by side. Looser than the spelling of an address, so that none is missed. */
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
