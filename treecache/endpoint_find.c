/*
 * Finds packed endpoints for readers: by name, by address, and from an address to its owners.
 */
#include <string.h>

#include "treecache/treecache_internal.h"

/* --- keys of the endpoint index --- */

static void
endpoint_key(const struct tree *tree, const struct owner *owner, const uint8_t *bytes, size_t len,
    uint8_t key[4])
{
	uint32_t hash = label_hash(tree->seed ^ (uint64_t)owner->id << 32, bytes, len);

	memcpy(key, &hash, sizeof hash);
}

void
endpoint_addr_key(const struct tree *tree, const struct owner *owner, const uint8_t *bytes,
    uint8_t family, bool named, uint8_t key[4])
{
	uint8_t padded[16 + 1 + LABEL_PAD];
	size_t len = family_len(family);

	memcpy(padded, bytes, len);
	padded[len] = 0;
	endpoint_key(tree, owner, padded, named ? len : len + 1, key);
}

void
endpoint_name_key(
    const struct tree *tree, const struct owner *owner, const uint8_t *label, uint8_t key[4])
{
	uint8_t padded[1 + DNAME_LABEL_MAX + LABEL_PAD];

	memcpy(padded, label, 1u + *label);
	/* The hash includes the length byte. So the hash of a label of 4 or 16 bytes is not the hash
	 * of an address with the same bytes. A label never contains a zero byte. */
	endpoint_key(tree, owner, padded, 1u + *label, key);
}

void
owner_label_key(const struct tree *tree, const uint8_t *label, uint8_t key[4])
{
	uint8_t padded[1 + DNAME_LABEL_MAX + LABEL_PAD];

	memcpy(padded, label, 1u + *label);
	uint32_t hash = label_hash(tree->seed, padded, 1u + *label);
	memcpy(key, &hash, sizeof hash);
}

/* --- ports --- */

bool
endpoint_set_has_port(const struct endpoint_set *endpoints, uint64_t label)
{
	const struct ports *last = NULL; /* most sets have only one list of ports */
	unsigned count;

	for (unsigned c = 0; c < endpoints->count && c < PORT_SLICES_MAX; c++) {
		const struct slice_endpoints *slice = endpoints->slices[c].slice;

		if (slice->published == 0 || slice->ports == last)
			continue;
		last = slice->ports;
		if (ports_numbers(last, label, &count) != NULL)
			return true;
	}
	return endpoints->count > PORT_SLICES_MAX;
}

/* --- walks --- */

/* Returns the first endpoint of the slice, from `from` on, that matches the walk. Returns
 * slice->published if there is none. */
static unsigned
walk_find(const struct endpoint_walk *walk, const struct slice_endpoints *slice, unsigned from)
{
	unsigned published = slice->published;

	if (walk->label != NULL)
		return slice_find_name(slice, from, published, walk->label);
	if (slice->family != walk->addr.family)
		return published;
	do
		from = slice_find_addr(slice, from, published, walk->addr.bytes);
	while (from < published && slice_name(slice, from) != NULL && ++from < published);
	return from;
}

/* Whether a walk searches every slice of the set instead of using the index. The index only tells
 * which slices to search, and nearly every Service has one slice, or one for each family. */
static bool
is_small(const struct endpoint_set *endpoints)
{
	return endpoints->count <= 2 && endpoints->published <= 200;
}

static void
walk_begin(
    struct endpoint_walk *walk, const struct tree *tree, const struct endpoint_set *endpoints)
{
	walk->tree = tree;
	walk->endpoints = endpoints;
	walk->label = NULL;
	walk->next_slice = 0;
	walk->index = (struct pair_walk){ 0 };
	walk->slice = NULL;
}

void
endpoint_set_find_name(struct endpoint_walk *walk, const struct tree *tree,
    const struct endpoint_set *endpoints, const uint8_t *label)
{
	uint8_t key[4] = { 0 };

	walk_begin(walk, tree, endpoints);
	walk->label = label;
	if (!is_small(endpoints))
		endpoint_name_key(tree, endpoints->owner, label, key);
	memcpy(&walk->hash, key, sizeof key);
}

void
endpoint_set_find_unnamed(struct endpoint_walk *walk, const struct tree *tree,
    const struct endpoint_set *endpoints, const struct addr *addr)
{
	uint8_t key[4] = { 0 };

	walk_begin(walk, tree, endpoints);
	walk->addr = *addr;
	if (!is_small(endpoints))
		endpoint_addr_key(tree, endpoints->owner, addr->bytes, addr->family, false, key);
	memcpy(&walk->hash, key, sizeof key);
}

const void *
index_next_value(const struct tree *tree, const struct pair_btree *index, const uint8_t *key,
    struct pair_walk *walk)
{
	uint32_t slot;

	if (!pair_btree_next(index, key, walk, &slot))
		return NULL;
	return slot_table_get(&tree->slots, slot & ~(uint32_t)SLOT_OF_SLICE);
}

/* Returns the next slice of the set that may have a matching endpoint, or NULL at the end. */
static const struct slice_endpoints *
walk_slice(struct endpoint_walk *walk)
{
	const struct endpoint_set *endpoints = walk->endpoints;
	const struct slice_endpoints *slice;
	uint8_t key[4];

	if (is_small(endpoints))
		return walk->next_slice < endpoints->count
			   ? endpoints->slices[walk->next_slice++].slice
			   : NULL;
	memcpy(key, &walk->hash, sizeof key);
	/* Different keys may have the same hash, so the slice may belong to another owner. */
	while ((slice = index_next_value(walk->tree, &walk->tree->endpoints, key, &walk->index)) !=
	       NULL)
		if (slice->owner == endpoints->owner)
			return slice;
	return NULL;
}

bool
endpoint_set_next(struct endpoint_walk *walk, struct endpoint_ref *ref)
{
	for (;;) {
		if (walk->slice != NULL && walk->i < walk->slice->published &&
		    (walk->i = walk_find(walk, walk->slice, walk->i)) < walk->slice->published) {
			*ref = (struct endpoint_ref){ walk->slice, walk->i++ };
			return true;
		}
		walk->slice = walk_slice(walk);
		if (walk->slice == NULL)
			return false;
		walk->i = 0;
	}
}

static const struct pair_btree *
reverse_index(const struct tree *tree, uint8_t family)
{
	return family == AF_INET ? &tree->reverse4 : &tree->reverse6;
}

void
reverse_find(struct reverse_walk *walk, const struct tree *tree, const struct addr *addr)
{
	*walk = (struct reverse_walk){ .tree = tree, .addr = *addr };
}

bool
reverse_next(struct reverse_walk *walk, struct reverse_ref *ref)
{
	const void *value = index_next_value(walk->tree,
	    reverse_index(walk->tree, walk->addr.family), walk->addr.bytes, &walk->index);

	if (value == NULL)
		return false;
	ref->owner = slot_owner(value);
	ref->slice = ref->owner == NULL ? value : NULL;
	if (ref->owner == NULL)
		ref->owner = ref->slice->owner;
	return true;
}

void
owners_find(struct owner_walk *walk, const struct tree *tree, const uint8_t *label)
{
	*walk = (struct owner_walk){ .tree = tree, .label = label };
	owner_label_key(tree, label, walk->key);
}

const struct owner *
owners_next(struct owner_walk *walk)
{
	const void *value;

	/* Different labels may have the same hash. */
	while ((value = index_next_value(
		    walk->tree, &walk->tree->labels, walk->key, &walk->index)) != NULL) {
		const struct owner *owner = slot_owner(value);

		if (owner != NULL && memcmp(owner->name, walk->label, 1u + *walk->label) == 0)
			return owner;
	}
	return NULL;
}

bool
reverse_seek(const struct tree *tree, struct addr *addr)
{
	uint32_t slot = 0;

	return pair_btree_seek(reverse_index(tree, addr->family), addr->bytes, &slot);
}

bool
addr_increment(struct addr *addr)
{
	for (size_t i = addr_len(addr); i-- > 0;)
		if (++addr->bytes[i] != 0)
			return true;
	return false;
}
