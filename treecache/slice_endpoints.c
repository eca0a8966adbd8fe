/*
 * A slice: the endpoints of one slice, packed; const once it is published.
 */
#include <assert.h>
#include <string.h>

#include "treecache/internal.h"

/* A tag: where the host name begins in `bytes`
 * (0: named for the address), and whether the endpoint is ready. */
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

void
slice_swap(struct slice_endpoints *slice, unsigned a, unsigned b)
{
	uint8_t spare[16];
	size_t len = family_len(slice->family);
	uint8_t *pa = slice->bytes + a * len, *pb = slice->bytes + b * len;
	uint32_t tag = slice_tag(slice, a);

	memcpy(spare, pa, len);
	memcpy(pa, pb, len);
	memcpy(pb, spare, len);
	slice_set_tag(slice, a, slice_tag(slice, b));
	slice_set_tag(slice, b, tag);
}

static size_t
slice_size(uint8_t family, size_t count, size_t names_len)
{
	return sizeof(struct slice_endpoints) + count * (family_len(family) + sizeof(uint32_t)) +
	       names_len;
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
	size_t end = slice_size(slice->family, slice->count, 0);

	for (unsigned i = 0; i < slice->count; i++) {
		const uint8_t *name = slice_name(slice, i);
		if (name != NULL && (size_t)(name + 1 + *name - (const uint8_t *)slice) > end)
			end = (size_t)(name + 1 + *name - (const uint8_t *)slice);
	}
	return end;
}

/* A slice with its entries in the given order, no run set yet. */
struct slice_endpoints *
slice_pack(struct treecache *cache, const struct owner *owner, uint32_t slot, uint8_t family,
    const struct ports *ports, const struct endpoint *endpoints, size_t count)
{
	struct slice_endpoints *slice =
	    cow_new(cache, slice_size(family, count, slice_names_len(endpoints, count)));
	uint32_t at = (uint32_t)(count * (family_len(family) + sizeof(uint32_t)));

	*slice = (struct slice_endpoints){ .epoch = slice->epoch,
		.slot = slot,
		.owner = owner,
		.ports = ports,
		.count = (uint16_t)count,
		.family = family };
	for (unsigned i = 0; i < count; i++) {
		const struct endpoint *e = &endpoints[i];
		uint32_t tag = e->ready ? TAG_READY : 0;

		memcpy(slice->bytes + i * family_len(family), e->addr.bytes, family_len(family));
		if (e->name != NULL) {
			size_t len = strlen(e->name);
			assert(len > 0 && len <= DNAME_LABEL_MAX);
			tag |= at << TAG_NAME_SHIFT;
			slice->bytes[at] = (uint8_t)len;
			memcpy(slice->bytes + at + 1, e->name, len);
			dname_lower(slice->bytes + at + 1, len);
			at += (uint32_t)len + 1;
		}
		slice_set_tag(slice, i, tag);
	}
	return slice;
}
