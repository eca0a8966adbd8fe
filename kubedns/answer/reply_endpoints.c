/*
 * Endpoints as records: the addresses of a headless Service and of an endpoint's name, and PTRs.
 */
#include <errno.h>
#include <string.h>

#include "kubedns/answer/reply_internal.h"

/* Addresses [from, to) of the endpoint set's unique ones of this family. Always inlined: the common
 * answer does not pay for the other one's call. */
static inline __attribute__((always_inline)) void
put_endpoint_set(struct reply *reply, size_t owner, const struct endpoint_set *endpoints,
    uint8_t family, uint32_t from, uint32_t to)
{
	uint32_t at = 0;

	for (unsigned c = 0; c < endpoints->count && at < to && !reply->full; c++) {
		const struct endpoint_set_slice *entry = &endpoints->slices[c];
		if (entry->family != family)
			continue;
		uint32_t first = from > at ? from - at : 0;
		uint32_t last = to - at < entry->unique ? to - at : entry->unique;
		for (uint32_t i = first; i < last && !reply->full; i++)
			record_addr(reply, owner, family, slice_addr(entry->slice, i));
		at += entry->unique;
	}
}

/* With --nearest or --udp-subset. */
static __attribute__((noinline)) void
put_ordered(struct reply *reply, size_t owner, const struct endpoint_set *endpoints, uint8_t family,
    uint32_t total)
{
	unsigned before = reply->counts[SECTION_ANSWER];
	uint32_t start = reply->rotation % total;

	if (!reply_nearest(reply, owner, endpoints, family)) {
		put_endpoint_set(reply, owner, endpoints, family, start, total);
		put_endpoint_set(reply, owner, endpoints, family, 0, start);
	}
	/* No TC: the part begins at a random address, so in the long run all get the same load. */
	if (reply->config->udp_subset && !reply->tcp && reply->counts[SECTION_ANSWER] > before)
		reply->truncated = false;
}

void
reply_endpoint_set(
    struct reply *reply, size_t owner, const struct endpoint_set *endpoints, uint8_t family)
{
	uint32_t total = family == AF_INET ? endpoints->total4 : endpoints->total6;

	if (total == 0)
		return;
	if (__builtin_expect(reply->ordered, 0)) {
		put_ordered(reply, owner, endpoints, family, total);
		return;
	}
	uint32_t start = reply->rotation % total;
	put_endpoint_set(reply, owner, endpoints, family, start, total);
	put_endpoint_set(reply, owner, endpoints, family, 0, start);
}

/* The distinct addresses of a name that several endpoints have. Not inlined: other queries need not
 * touch the table on its stack. */
static __attribute__((noinline)) void
put_shared_endpoints(
    struct reply *reply, size_t owner, const struct resolved *resolved, uint8_t family)
{
	struct record_table table, *outer = reply->table;
	bool once = reply->once;
	const struct slice_endpoints *last = NULL;
	struct resolved_walk walk;
	struct endpoint_ref ref;

	if (outer == NULL) {
		table.mask = 0;
		reply->table = &table;
	}
	reply->once = true;
	resolved_endpoints(&walk, reply->tree, resolved);
	while (!reply->full && reply->passed < PASSED_MAX && resolved_next(&walk, &ref)) {
		size_t before = reply->w.len;
		if (ref.slice->family == family)
			record_addr(reply, owner, family, slice_addr(ref.slice, ref.i));
		else
			resolved_skip_slice(&walk);
		if (reply->w.len == before)
			reply->passed += ref.slice == last ? 1 : PASSED_SLICE;
		last = ref.slice;
	}
	reply->once = once;
	reply->table = outer;
}

void
reply_endpoints(struct reply *reply, size_t owner, const struct resolved *resolved, uint8_t family)
{
	const struct endpoint_ref *first = &resolved->first;

	if (resolved->label == NULL) { /* the name is the address */
		if (resolved->addr.family == family)
			record_addr(reply, owner, family, resolved->addr.bytes);
	} else if (slice_names_unique(first->slice) && resolved->addr.family == AF_UNSPEC) {
		if (first->slice->family == family)
			record_addr(reply, owner, family, slice_addr(first->slice, first->i));
	} else {
		put_shared_endpoints(reply, owner, resolved, family);
	}
}

const uint8_t *
endpoint_label(const struct slice_endpoints *slice, unsigned i, uint8_t derived[LABEL_ROOM])
{
	const uint8_t *label = slice_name(slice, i);
	struct addr addr = { .family = slice->family };

	if (label != NULL)
		return label;
	memcpy(addr.bytes, slice_addr(slice, i), addr_len(&addr));
	return tree_addr_label(&addr, derived);
}

int
endpoint_name(struct dname *name, const struct answer_config *config,
    const struct slice_endpoints *slice, unsigned i)
{
	uint8_t derived[LABEL_ROOM];
	const uint8_t *label = endpoint_label(slice, i, derived);
	size_t len = zone_name_size(config, label, slice->owner);

	if (len == 0)
		return -ENAMETOOLONG;
	zone_name_put(name->wire, config, label, slice->owner);
	name->len = (uint8_t)len;
	return 0;
}

void
reply_ptr(struct reply *reply, size_t at, const uint8_t *label, const struct owner *owner)
{
	size_t len = zone_name_size(reply->config, label, owner);
	uint8_t *p = len == 0 ? NULL : record_room(reply, 12 + len);

	if (p != NULL)
		zone_name_put(record_head(p, at, TYPE_PTR, reply->config->ttl_s, len),
		    reply->config, label, owner);
}
