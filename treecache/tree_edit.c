/* Changes the tree of names by copy-on-write. A node is copied at most once between two
 * publishes. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "lib/xalloc.h"
#include "treecache/branch.h"

static size_t
node_size(const uint8_t *label)
{
	return offsetof(struct node, label) + 1u + *label + LABEL_PAD;
}

static struct node *
node_new(struct treecache *cache, uint32_t hash, const uint8_t *label)
{
	struct node *node = cow_new(cache, node_size(label));

	*node = (struct node){ .epoch = node->epoch, .hash = hash };
	memcpy(node->label, label, 1u + *label);
	return node;
}

/* Returns a copy of the branch. With delta 1, the copy has space for one more way at `way`. With
 * delta -1, it does not have `way`. */
static struct branch *
branch_resize(struct treecache *cache, struct branch *old, unsigned ways, unsigned way, int delta)
{
	struct branch *branch = cow_new(cache, branch_size((unsigned)((int)ways + delta)));
	unsigned skip = delta < 0;

	branch->used = old->used;
	memcpy(branch->ways, old->ways, way * sizeof(void *));
	memcpy(branch->ways + way + !skip, old->ways + way + skip,
	    (ways - way - skip) * sizeof(void *));
	cow_drop(cache, old);
	return branch;
}

/* Adds `node` below `child`, which does not have its label yet. Returns the pointer that replaces `child`. */
static void *
add_child(struct treecache *cache, void *child, unsigned shift, struct node *node)
{
	struct branch *branch = as_branch(child);

	if (child == NULL)
		return node;
	if (branch == NULL) { /* one node becomes a branch of two */
		struct node *other = child;

		branch = cow_new(cache, branch_size(shift >= HASH_BITS ? 2 : 1));
		branch->ways[0] = other;
		if (shift >= HASH_BITS) {
			branch->used = 2;
			branch->ways[1] = node;
			return from_branch(branch);
		}
		branch->used = way_bit(other->hash, shift);
		return add_child(cache, from_branch(branch), shift, node);
	}
	unsigned ways = ways_count(branch, shift);
	if (shift >= HASH_BITS) {
		branch = branch_resize(cache, branch, ways, ways, 1);
		branch->ways[ways] = node;
		branch->used++;
		return from_branch(branch);
	}
	uint32_t bit = way_bit(node->hash, shift);
	unsigned way = way_at(branch, bit);
	if (branch->used & bit) {
		branch = cow_edit(cache, branch, branch_size(ways));
		branch->ways[way] = add_child(cache, branch->ways[way], shift + WAY_BITS, node);
	} else {
		branch = branch_resize(cache, branch, ways, way, 1);
		branch->used |= bit;
		branch->ways[way] = node;
	}
	return from_branch(branch);
}

/* Replaces `old` below `child` by `node`, or removes `old` if `node` is NULL. Returns the pointer
 * that replaces `child`. */
static void *
replace_child(
    struct treecache *cache, void *child, unsigned shift, const struct node *old, struct node *node)
{
	struct branch *branch = as_branch(child);
	uint32_t bit = 0;
	unsigned way = 0;

	if (branch == NULL)
		return node;
	unsigned ways = ways_count(branch, shift);
	if (shift >= HASH_BITS) {
		while (branch->ways[way] != old)
			way++;
	} else {
		bit = way_bit(old->hash, shift);
		way = way_at(branch, bit);
	}
	void *below = shift >= HASH_BITS
			  ? node
			  : replace_child(cache, branch->ways[way], shift + WAY_BITS, old, node);
	if (below != NULL) {
		/* A branch with a single node is replaced by the node. */
		if (ways == 1 && as_branch(below) == NULL) {
			cow_drop(cache, branch);
			return below;
		}
		branch = cow_edit(cache, branch, branch_size(ways));
		branch->ways[way] = below;
		return from_branch(branch);
	}
	if (ways == 1) {
		cow_drop(cache, branch);
		return NULL;
	}
	if (ways == 2 && as_branch(branch->ways[!way]) == NULL) {
		below = branch->ways[!way];
		cow_drop(cache, branch);
		return below;
	}
	branch = branch_resize(cache, branch, ways, way, -1);
	branch->used = shift >= HASH_BITS ? branch->used - 1 : branch->used & ~bit;
	return from_branch(branch);
}

/* Returns the writer's copy of the child with this label, and creates it if necessary. `parent`
 * must be the writer's copy too. */
static struct node *
edit_child(struct treecache *cache, struct node *parent, const uint8_t *label)
{
	uint32_t hash = label_hash(cache->next.seed, label, 1u + *label);
	const struct node *found =
	    parent->children == NULL ? NULL : branch_find(parent->children, 0, hash, label);
	struct node *node;

	if (found == NULL) {
		node = node_new(cache, hash, label);
		parent->children = add_child(cache, parent->children, 0, node);
		return node;
	}
	node = cow_edit(cache, writers(found), node_size(found->label));
	if (node != found)
		parent->children = replace_child(cache, parent->children, 0, found, node);
	return node;
}

struct node *
treecache_edit(struct treecache *cache, const uint8_t *name)
{
	const uint8_t *labels[DNAME_LABELS_MAX];
	struct dname padded = { 0 };

	memcpy(padded.wire, name, dname_length(name, DNAME_MAX));
	unsigned count = tree_reversed_labels(padded.wire, labels);
	struct node *node = cow_edit(cache, cache->next.root, node_size(cache->next.root->label));
	cache->next.root = node;
	for (unsigned i = 0; i < count; i++)
		node = edit_child(cache, node, labels[i]);
	return node;
}

void
treecache_records(struct treecache *cache, struct node *node, const void *sets, size_t len)
{
	struct rrsets *records = NULL;

	if (len > 0) {
		records = cow_new(cache, sizeof *records + len);
		records->len = (uint32_t)len;
		memcpy(records->bytes, sets, len);
	}
	cow_drop(cache, node->records);
	node->records = records;
}

static void
drop_below(struct treecache *cache, void *child, unsigned shift)
{
	struct branch *branch = as_branch(child);
	struct node *node = child;

	if (branch != NULL) {
		for (unsigned i = 0; i < ways_count(branch, shift); i++)
			drop_below(cache, branch->ways[i], shift + WAY_BITS);
		cow_drop(cache, branch);
	} else if (node != NULL) {
		drop_below(cache, node->children, 0);
		cow_drop(cache, node->records);
		cow_drop(cache, node);
	}
}

void
treecache_clear(struct treecache *cache, struct node *node)
{
	treecache_records(cache, node, NULL, 0);
	drop_below(cache, node->children, 0);
	node->children = NULL;
}

static bool
is_empty(const struct node *node)
{
	return node->children == NULL && node->records == NULL && node->endpoints == NULL &&
	       node->number == 0;
}

void
treecache_prune(struct treecache *cache, const uint8_t *name)
{
	while (*name != 0) {
		const struct node *node = tree_find(&cache->next, name);
		const uint8_t *above = name + 1 + *name;

		if (node != NULL) {
			if (!is_empty(node))
				return;
			struct node *parent = treecache_edit(cache, above);
			parent->children = replace_child(cache, parent->children, 0, node, NULL);
			cow_drop(cache, node);
		}
		name = above;
	}
}

static void
free_below(void *child, unsigned shift)
{
	struct branch *branch = as_branch(child);
	struct node *node = child;

	if (branch != NULL) {
		for (unsigned i = 0; i < ways_count(branch, shift); i++)
			free_below(branch->ways[i], shift + WAY_BITS);
		free(branch);
	} else if (node != NULL) {
		free_below(node->children, 0);
		free(writers(node->records));
		free(node);
	}
}

void
tree_free_nodes(struct node *root)
{
	free_below(root, 0);
}
