#include "kubedns/cluster/rrset_writer.h"

#include <string.h>

#include "lib/wire.h"
#include "lib/xalloc.h"
#include "treecache/treecache.h"

static void *
sets_grow(struct sets *sets, size_t len)
{
	if (sets->len + len > sets->capacity) {
		sets->capacity = (sets->len + len) * 2;
		sets->bytes = xreallocarray(sets->bytes, sets->capacity, 1);
	}
	sets->len += len;
	return sets->bytes + sets->len - len;
}

static struct rrset *
sets_current(struct sets *sets)
{
	return (void *)(sets->bytes + sets->open);
}

void
sets_begin(struct sets *sets, uint16_t type)
{
	sets->open = sets->len;
	struct rrset *set = sets_grow(sets, sizeof *set);
	*set = (struct rrset){ .type = type };
}

void
sets_add(struct sets *sets, const void *head, size_t head_len, const void *tail, size_t tail_len)
{
	size_t len = 12 + head_len + tail_len;
	uint8_t *p = sets_grow(sets, len);
	struct rrset *set = sets_current(sets);

	wire_put16(p, 0xc000 | DNS_HEADER);
	wire_put16(p + 2, set->type);
	wire_put16(p + 4, CLASS_IN);
	wire_put32(p + 6, sets->ttl_s);
	wire_put16(p + 10, (unsigned)(head_len + tail_len));
	memcpy(p + 12, head, head_len);
	if (tail_len > 0)
		memcpy(p + 12 + head_len, tail, tail_len);
	set->count++;
	set->len += (uint32_t)len;
}

void
sets_end(struct sets *sets)
{
	struct rrset *set = sets_current(sets);

	if (set->count == 0) {
		sets->len = sets->open;
		return;
	}
	while (sets->len % 4 != 0)
		*(uint8_t *)sets_grow(sets, 1) = 0;
}

void
sets_addrs(struct sets *sets, const struct addr *addrs, size_t count)
{
	static const struct {
		uint16_t type;
		uint8_t family;
	} kinds[] = { { TYPE_A, AF_INET }, { TYPE_AAAA, AF_INET6 } };

	for (size_t k = 0; k < 2; k++) {
		sets_begin(sets, kinds[k].type);
		for (size_t i = 0; i < count; i++)
			if (addrs[i].family == kinds[k].family)
				sets_add(sets, addrs[i].bytes, addr_len(&addrs[i]), NULL, 0);
		sets_end(sets);
	}
}

static void
add_srv(struct sets *sets, unsigned weight, uint16_t port, const struct dname *target)
{
	uint8_t head[6];

	wire_put16(head, 0);
	wire_put16(head + 2, weight);
	wire_put16(head + 4, port);
	sets_add(sets, head, sizeof head, target->wire, target->len);
}

void
sets_srv(struct sets *sets, const uint16_t *numbers, unsigned count, const struct dname *target)
{
	sets_begin(sets, TYPE_SRV);
	for (unsigned i = 0; i < count; i++)
		add_srv(sets, count > 100 ? 1 : 100 / count, numbers[i], target);
	sets_end(sets);
}
