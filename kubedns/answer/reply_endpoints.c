/*
 * Endpoints as records: the addresses of a headless Service and of an endpoint's name, and PTRs.
 */
#include <errno.h>
#include <string.h>

#include "kubedns/answer/reply_internal.h"

/* Addresses [from, to) of the endpoint set's unique ones of this family. */
static void
put_endpoint_set(struct reply *reply, size_t owner, const struct endpoint_set *endpoints,
    uint8_t family, uint32_t from, uint32_t to)
{
	uint32_t at = 0;

	for (unsigned c = 0; c < endpoints->count && at < to && !reply->truncated; c++) {
		const struct endpoint_set_slice *entry = &endpoints->slices[c];
		if (entry->family != family)
			continue;
		uint32_t first = from > at ? from - at : 0;
		uint32_t last = to - at < entry->unique ? to - at : entry->unique;
		for (uint32_t i = first; i < last; i++)
			record_addr(reply, owner, family, slice_addr(entry->slice, i));
		at += entry->unique;
	}
}

void
reply_endpoint_set(
    struct reply *reply, size_t owner, const struct endpoint_set *endpoints, uint8_t family)
{
	uint32_t total = family == AF_INET ? endpoints->total4 : endpoints->total6;

	if (total == 0)
		return;
	uint32_t start = reply->rotation % total;
	put_endpoint_set(reply, owner, endpoints, family, start, total);
	put_endpoint_set(reply, owner, endpoints, family, 0, start);
}

/* Whether `ref` is the first endpoint of the walk with its address, which may be in two slices and is
 * one record. */
static bool
first_with_addr(
    const struct reply *reply, const struct resolved *resolved, const struct endpoint_ref *ref)
{
	struct endpoint_walk walk;
	struct endpoint_ref other;
	size_t len = ref->slice->family == AF_INET ? 4 : 16;

	resolved_endpoints(&walk, reply->tree, resolved);
	while (endpoint_set_next(&walk, &other)) {
		if (other.slice == ref->slice && other.i == ref->i)
			return true;
		if (other.slice->family == ref->slice->family &&
		    memcmp(slice_addr(other.slice, other.i), slice_addr(ref->slice, ref->i), len) ==
			0)
			return false;
	}
	return true;
}

void
reply_endpoints(struct reply *reply, size_t owner, const struct resolved *resolved, uint8_t family)
{
	struct endpoint_walk walk;
	struct endpoint_ref ref;

	if (resolved->label == NULL) { /* the name is the address */
		if (resolved->addr.family == family)
			record_addr(reply, owner, family, resolved->addr.bytes);
		return;
	}
	ref = resolved->first;
	if (ref.slice != NULL && slice_names_unique(ref.slice)) {
		if (ref.slice->family == family)
			record_addr(reply, owner, family, slice_addr(ref.slice, ref.i));
		return;
	}
	resolved_endpoints(&walk, reply->tree, resolved);
	while (endpoint_set_next(&walk, &ref) && !reply->truncated)
		if (ref.slice->family == family && first_with_addr(reply, resolved, &ref))
			record_addr(reply, owner, family, slice_addr(ref.slice, ref.i));
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
reply_ptr(struct reply *reply, const uint8_t *label, const struct owner *owner)
{
	size_t len = zone_name_size(reply->config, label, owner);
	uint8_t *p = len == 0 ? NULL : record_room(reply, 12 + len);

	if (p != NULL)
		zone_name_put(record_head(p, DNS_HEADER, TYPE_PTR, reply->config->ttl_s, len),
		    reply->config, label, owner);
}
