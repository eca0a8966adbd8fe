/*
 * A chunk: the endpoints of one slice, packed; const once it is published.
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
chunk_tag(const struct chunk *chunk, unsigned i)
{
	uint32_t tag;

	memcpy(&tag,
	    chunk->bytes + (size_t)chunk->count * family_len(chunk->family) + i * sizeof tag,
	    sizeof tag);
	return tag;
}

static void
chunk_set_tag(struct chunk *chunk, unsigned i, uint32_t tag)
{
	memcpy(chunk->bytes + (size_t)chunk->count * family_len(chunk->family) + i * sizeof tag,
	    &tag, sizeof tag);
}

const uint8_t *
chunk_name(const struct chunk *chunk, unsigned i)
{
	uint32_t at = chunk_tag(chunk, i) >> TAG_NAME_SHIFT;

	return at == 0 ? NULL : chunk->bytes + at;
}

bool
chunk_ready(const struct chunk *chunk, unsigned i)
{
	return chunk_tag(chunk, i) & TAG_READY;
}

unsigned
chunk_find_addr(const struct chunk *chunk, unsigned from, unsigned to, const uint8_t *bytes)
{
	size_t len = family_len(chunk->family);
	unsigned i = from;

	if (len == 4)
		while (i < to && memcmp(chunk->bytes + (size_t)i * 4, bytes, 4) != 0)
			i++;
	else
		while (i < to && memcmp(chunk->bytes + (size_t)i * 16, bytes, 16) != 0)
			i++;
	return i;
}

unsigned
chunk_find_name(const struct chunk *chunk, unsigned from, unsigned to, const uint8_t *label)
{
	for (unsigned i = from; i < to; i++) {
		const uint8_t *name = chunk_name(chunk, i);
		/* Pods of one set differ at the end of their names. */
		if (name != NULL && *name == *label && name[*name] == label[*name] &&
		    memcmp(name + 1, label + 1, *name) == 0)
			return i;
	}
	return to;
}

void
chunk_swap(struct chunk *chunk, unsigned a, unsigned b)
{
	uint8_t spare[16];
	size_t len = family_len(chunk->family);
	uint8_t *pa = chunk->bytes + a * len, *pb = chunk->bytes + b * len;
	uint32_t tag = chunk_tag(chunk, a);

	memcpy(spare, pa, len);
	memcpy(pa, pb, len);
	memcpy(pb, spare, len);
	chunk_set_tag(chunk, a, chunk_tag(chunk, b));
	chunk_set_tag(chunk, b, tag);
}

static size_t
chunk_size(uint8_t family, size_t count, size_t names_len)
{
	return sizeof(struct chunk) + count * (family_len(family) + sizeof(uint32_t)) + names_len;
}

static size_t
chunk_names_len(const struct endpoint *endpoints, size_t count)
{
	size_t len = 0;

	for (size_t i = 0; i < count; i++)
		if (endpoints[i].name != NULL)
			len += 1 + strlen(endpoints[i].name);
	return len;
}

size_t
chunk_bytes(const struct chunk *chunk)
{
	size_t end = chunk_size(chunk->family, chunk->count, 0);

	for (unsigned i = 0; i < chunk->count; i++) {
		const uint8_t *name = chunk_name(chunk, i);
		if (name != NULL && (size_t)(name + 1 + *name - (const uint8_t *)chunk) > end)
			end = (size_t)(name + 1 + *name - (const uint8_t *)chunk);
	}
	return end;
}

/* A chunk with its entries in the given order, no run set yet. */
struct chunk *
chunk_pack(struct treecache *cache, const struct owner *owner, uint32_t slot, uint8_t family,
    const struct ports *ports, const struct endpoint *endpoints, size_t count)
{
	struct chunk *chunk =
	    cow_new(cache, chunk_size(family, count, chunk_names_len(endpoints, count)));
	uint32_t at = (uint32_t)(count * (family_len(family) + sizeof(uint32_t)));

	*chunk = (struct chunk){ .epoch = chunk->epoch,
		.slot = slot,
		.owner = owner,
		.ports = ports,
		.count = (uint16_t)count,
		.family = family };
	for (unsigned i = 0; i < count; i++) {
		const struct endpoint *e = &endpoints[i];
		uint32_t tag = e->ready ? TAG_READY : 0;

		memcpy(chunk->bytes + i * family_len(family), e->addr.bytes, family_len(family));
		if (e->name != NULL) {
			size_t len = strlen(e->name);
			assert(len > 0 && len <= DNAME_LABEL_MAX);
			tag |= at << TAG_NAME_SHIFT;
			chunk->bytes[at] = (uint8_t)len;
			memcpy(chunk->bytes + at + 1, e->name, len);
			dname_lower(chunk->bytes + at + 1, len);
			at += (uint32_t)len + 1;
		}
		chunk_set_tag(chunk, i, tag);
	}
	return chunk;
}
