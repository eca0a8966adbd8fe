#include "kubedns/cluster/records_digest.h"

#include <stdlib.h>
#include <string.h>

#include "lib/hash.h"
#include "lib/xalloc.h"

/* What a hash stands for, so that equal bytes of different kinds have different hashes. The numbers
 * of RRsets are their types, which have 16 bits. */
enum { HASHED_NAME = 1 << 16, HASHED_ENDPOINTS };

/* A node whose children change. */
struct below {
	uint64_t *sum;
	uint64_t name; /* hash of the node's name */
	bool top;      /* the node is the root */
};

static uint64_t
mix(uint64_t a, uint64_t b)
{
	const uint64_t word = htole64(b);

	return hash64(a, &word, sizeof word);
}

/* --- endpoints --- */

/* Returns the sum for the published endpoints of a slice. A change of one slice can replace many
 * slices of its Service that have the same addresses. So this takes a few steps for an endpoint. */
static uint64_t
hash_slice(uint64_t name, const struct slice_endpoints *slice)
{
	uint64_t ports = slice->ports == NULL ? 0 : slice->ports->content;
	uint64_t of_slice = mix(mix(name, ports), slice->family), sum = 0;
	size_t len = slice->family == AF_INET ? 4 : 16;

	for (unsigned i = 0; i < slice->published; i++) {
		const uint8_t *host = slice_name(slice, i);
		uint64_t addr[2] = { 0 };

		memcpy(addr, slice_addr(slice, i), len);
		uint64_t hash = mix(of_slice, le64toh(addr[0]));
		if (len > sizeof addr[0])
			hash = mix(hash, le64toh(addr[1]));
		if (host != NULL)
			hash = mix(hash, hash64(HASH_START, host, 1u + host[0]));
		sum += hash;
	}
	return sum;
}

static int
by_place_in_memory(const void *a, const void *b)
{
	uintptr_t x = (uintptr_t) * (const struct slice_endpoints *const *)a,
		  y = (uintptr_t) * (const struct slice_endpoints *const *)b;

	return (x > y) - (x < y);
}

/* Returns the slices [from, to) of a set, sorted by their place in memory, from malloc(). */
static const struct slice_endpoints **
sorted_slices(const struct endpoint_set *set, size_t from, size_t to)
{
	const struct slice_endpoints **slices = xcalloc(to - from, sizeof(void *));

	for (size_t i = from; i < to; i++)
		slices[i - from] = set->slices[i].slice;
	if (to - from > 1)
		qsort(slices, to - from, sizeof *slices, by_place_in_memory);
	return slices;
}

/* Slices that both sets share are the same block of memory. The slices before the first change and
 * after the last change are at the same places of both sets, and are skipped first. */
static void
change_slices(uint64_t *sum, uint64_t name, const struct endpoint_set *before,
    const struct endpoint_set *after)
{
	size_t from = 0, b = before == NULL ? 0 : before->count,
	       a = after == NULL ? 0 : after->count;

	while (from < a && from < b && before->slices[from].slice == after->slices[from].slice)
		from++;
	while (a > from && b > from && before->slices[b - 1].slice == after->slices[a - 1].slice)
		a--, b--;
	if (a == from && b == from)
		return;
	const struct slice_endpoints **was = sorted_slices(before, from, b),
				     **is = sorted_slices(after, from, a);
	for (size_t i = 0, j = 0; i < b - from || j < a - from;) {
		int order = i == b - from   ? 1
			    : j == a - from ? -1
					    : by_place_in_memory(&was[i], &is[j]);

		if (order < 0)
			*sum -= hash_slice(name, was[i]);
		else if (order > 0)
			*sum += hash_slice(name, is[j]);
		i += order <= 0;
		j += order >= 0;
	}
	free(was);
	free(is);
}

/* --- names --- */

static uint64_t
hash_records(uint64_t name, const struct node *node)
{
	uint64_t sum = 0;

	for (const struct rrset *set = node_rrset_next(node, NULL); set != NULL;
	     set = node_rrset_next(node, set))
		sum += hash64(mix(name, set->type), set->data, set->len);
	return sum;
}

/* Returns the hash of what the node itself has, beside its records and slices. */
static uint64_t
hash_node(uint64_t name, const struct node *node)
{
	uint64_t facts = (uint64_t)node->flags << 1 | (node->number != 0);
	uint64_t hash = mix(mix(name, HASHED_NAME), facts);

	if (node->endpoints != NULL)
		hash += mix(mix(name, HASHED_ENDPOINTS), node->endpoints->flags);
	return hash;
}

static void change_node(
    uint64_t *sum, uint64_t name, const struct node *before, const struct node *after, bool top);

static void
change_child(void *arg, const struct node *before, const struct node *after)
{
	static const uint8_t dns[] = "\3dns";
	const struct below *below = arg;
	const uint8_t *label = before != NULL ? before->label : after->label;

	/* Each server publishes its own addresses there. */
	if (below->top && memcmp(label, dns, sizeof dns - 1) == 0)
		return;
	change_node(below->sum, mix(below->name, hash64(HASH_START, label, 1u + *label)), before,
	    after, false);
}

/* Either node may be NULL. */
static void
change_node(
    uint64_t *sum, uint64_t name, const struct node *before, const struct node *after, bool top)
{
	static const struct node none;
	struct below below = { sum, name, top };

	/* The root always exists. Without a hash for it, the digest of an empty tree is 0. */
	if (before != NULL && !top)
		*sum -= hash_node(name, before);
	if (after != NULL && !top)
		*sum += hash_node(name, after);
	before = before != NULL ? before : &none;
	after = after != NULL ? after : &none;
	if (before->records != after->records)
		*sum += hash_records(name, after) - hash_records(name, before);
	if (before->endpoints != after->endpoints)
		change_slices(sum, name, before->endpoints, after->endpoints);
	tree_diff_children(before, after, change_child, &below);
}

uint64_t
records_digest_change(const struct tree *before, const struct tree *after)
{
	uint64_t sum = 0;

	if (before != NULL && before->root == after->root)
		return 0;
	change_node(&sum, HASH_START, before == NULL ? NULL : before->root, after->root, true);
	return sum;
}
