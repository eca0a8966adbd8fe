/*
 * Nodes and their children. A node's `children` is NULL, one node, or (low bit set) a branch of a
 * hash array mapped trie: five bits of the label's hash choose one of 32 ways, of which only the
 * used ones are stored. Labels whose 32 hash bits are all the same share a branch below the last
 * level, searched one by one.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "lib/xalloc.h"
#include "treecache/internal.h"

enum { WAY_BITS = 5, WAYS = 1 << WAY_BITS, HASH_BITS = 32 };

struct branch {
	uint32_t epoch;
	uint32_t used; /* bitmap of ways; below the last level: the count */
	void *ways[];
};

static struct branch *
as_branch(void *child)
{
	return (uintptr_t)child & 1 ? (void *)((uint8_t *)child - 1) : NULL;
}

static void *
from_branch(struct branch *branch)
{
	return (uint8_t *)branch + 1;
}

/* A call of the compiler's library would cost more than the sum: every name takes some of these. */
static inline unsigned
bits_set(uint32_t bits)
{
	bits -= bits >> 1 & 0x55555555;
	bits = (bits & 0x33333333) + (bits >> 2 & 0x33333333);
	return ((bits + (bits >> 4)) & 0x0f0f0f0f) * 0x01010101 >> 24;
}

static unsigned
ways_count(const struct branch *branch, unsigned shift)
{
	return shift >= HASH_BITS ? branch->used : bits_set(branch->used);
}

static size_t
branch_size(unsigned ways)
{
	return sizeof(struct branch) + ways * sizeof(void *);
}

static uint32_t
way_bit(uint32_t hash, unsigned shift)
{
	return UINT32_C(1) << (hash >> shift & (WAYS - 1));
}

static unsigned
way_at(const struct branch *branch, uint32_t bit)
{
	return bits_set(branch->used & (bit - 1));
}

static inline bool
label_is(const struct node *node, uint32_t hash, const uint8_t *label)
{
	/* The lengths first: another label's hash may be the same, and its bytes fewer. */
	return node->hash == hash && node->label[0] == label[0] &&
	       bytes_equal(node->label + 1, label + 1, label[0]);
}

/* --- reading --- */

static const struct node *
find_child(void *child, unsigned shift, uint32_t hash, const uint8_t *label)
{
	struct branch *branch;

	for (; (branch = as_branch(child)) != NULL; shift += WAY_BITS) {
		if (shift >= HASH_BITS) {
			for (unsigned i = 0; i < branch->used; i++)
				if (label_is(branch->ways[i], hash, label))
					return branch->ways[i];
			return NULL;
		}
		uint32_t bit = way_bit(hash, shift);
		if ((branch->used & bit) == 0)
			return NULL;
		child = branch->ways[way_at(branch, bit)];
	}
	assert(child != NULL); /* a way that is in use leads somewhere */
	return label_is(child, hash, label) ? child : NULL;
}

const struct node *
tree_child(const struct tree *tree, const struct node *parent, const uint8_t *label)
{
	if (parent->children == NULL)
		return NULL;
	return find_child(parent->children, 0, hash_bytes(tree->seed, label, 1u + *label), label);
}

/* --- paths --- */

static const uint8_t *
next_label(const struct tree_path *path)
{
	return path->wire + path->offsets[path->labels - 1 - path->count];
}

/* A path alone. */
static void
find_path(const struct tree *tree, struct tree_path *path)
{
	const struct node *node = tree->root;

	while (
	    path->count < path->wanted && (node = tree_child(tree, node, next_label(path))) != NULL)
		path->nodes[path->count++] = node;
}

/* Asks for the first two lines of a block: most of them are not longer. */
static inline void
fetch(const void *block)
{
	__builtin_prefetch(block);
	__builtin_prefetch((const void *)((uintptr_t)block + 64)); /* NULL does no harm */
}

/* Sends a path on from `node`, its last one; false if that is the end. */
static inline bool
send_on(const struct tree *tree, struct tree_path *path, const struct node *node)
{
	fetch(node->endpoints);
	if (path->count == path->wanted || node->children == NULL) {
		fetch(node->records);
		return false;
	}
	path->label = next_label(path);
	path->hash = hash_bytes(tree->seed, path->label, 1u + *path->label);
	path->shift = 0;
	path->at = node->children;
	fetch(path->at);
	return true;
}

/* One block further on the path, which was asked for the last time; false at its end. */
static inline bool
step(const struct tree *tree, struct tree_path *path)
{
	struct branch *branch = as_branch(path->at);

	if (branch == NULL || path->shift >= HASH_BITS) {
		const struct node *node =
		    find_child(path->at, path->shift, path->hash, path->label);
		if (node == NULL)
			return false;
		path->nodes[path->count++] = node;
		return send_on(tree, path, node);
	}
	uint32_t bit = way_bit(path->hash, path->shift);
	if ((branch->used & bit) == 0)
		return false;
	path->at = branch->ways[way_at(branch, bit)];
	path->shift += WAY_BITS;
	fetch(path->at);
	return true;
}

void
tree_find_paths(const struct tree *tree, struct tree_path *paths, unsigned count)
{
	struct tree_path *on_way[TREE_PATHS_MAX];
	unsigned left = 0;

	assert(count <= TREE_PATHS_MAX);
	for (unsigned i = 0; i < count; i++) {
		struct tree_path *path = &paths[i];
		path->count = 0;
		path->wanted = path->labels < TREE_PATH_MAX ? path->labels : TREE_PATH_MAX;
		if (count == 1)
			find_path(tree, path);
		else if (path->labels > 0 && send_on(tree, path, tree->root))
			on_way[left++] = path;
	}
	while (left > 0) {
		unsigned still = 0;
		for (unsigned i = 0; i < left; i++)
			if (step(tree, on_way[i]))
				on_way[still++] = on_way[i];
		left = still;
	}
}

/* The labels of `name`, last first; returns their number. */
static unsigned
reversed_labels(const uint8_t *name, const uint8_t *labels[DNAME_LABELS_MAX])
{
	unsigned count = dname_labels(name);

	for (unsigned i = count; i-- > 0; name += 1u + *name)
		labels[i] = name;
	return count;
}

const struct node *
tree_find(const struct tree *tree, const uint8_t *name)
{
	const uint8_t *labels[DNAME_LABELS_MAX];
	struct dname padded = { 0 };
	const struct node *node = tree->root;

	memcpy(padded.wire, name, dname_length(name, DNAME_MAX));
	unsigned count = reversed_labels(padded.wire, labels);
	for (unsigned i = 0; i < count && node != NULL; i++)
		node = tree_child(tree, node, labels[i]);
	return node;
}

static void
visit_children(void *child, unsigned shift, void (*visit)(void *, const struct node *), void *arg)
{
	struct branch *branch = as_branch(child);

	if (branch == NULL) {
		if (child != NULL)
			visit(arg, child);
		return;
	}
	for (unsigned i = 0; i < ways_count(branch, shift); i++)
		visit_children(branch->ways[i], shift + WAY_BITS, visit, arg);
}

void
tree_children(
    const struct node *parent, void (*visit)(void *arg, const struct node *child), void *arg)
{
	visit_children(parent->children, 0, visit, arg);
}

const struct rrset *
node_rrset_next(const struct node *node, const struct rrset *previous)
{
	const struct rrsets *sets = node->records;
	const uint8_t *next;

	if (sets == NULL)
		return NULL;
	next = previous == NULL ? sets->bytes : previous->data + ((previous->len + 3) & ~3u);
	return next < sets->bytes + sets->len ? (const void *)next : NULL;
}

const struct rrset *
node_rrset(const struct node *node, uint16_t type)
{
	const struct rrset *set = NULL;

	while ((set = node_rrset_next(node, set)) != NULL && set->type != type)
		;
	return set;
}

/* --- writing --- */

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

/* A branch with `way` of the old one's ways replaced
 * by room for one more (delta 1) or gone (delta -1). */
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

/* Adds `node`, whose label is not there yet, below `child`; returns what replaces `child`. */
static void *
add_child(struct treecache *cache, void *child, unsigned shift, struct node *node)
{
	struct branch *branch = as_branch(child);

	if (child == NULL)
		return node;
	if (branch == NULL) { /* two nodes where there was one */
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

/* Replaces the node that is `old` by `node`,
 * or takes it away (NULL); returns what replaces `child`. */
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
		/* A lone node needs no branch around it. */
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

/* The writer's own copy of the child with this label,
 * made if it is missing. `parent` is the writer's own. */
static struct node *
edit_child(struct treecache *cache, struct node *parent, const uint8_t *label)
{
	uint32_t hash = hash_bytes(cache->next.seed, label, 1u + *label);
	const struct node *found =
	    parent->children == NULL ? NULL : find_child(parent->children, 0, hash, label);
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
	unsigned count = reversed_labels(padded.wire, labels);
	assert(count <= TREE_PATH_MAX);
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
