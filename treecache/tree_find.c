/* Lookups of names, for readers and for the writer. */
#include <assert.h>
#include <string.h>

#include "treecache/branch.h"

static inline bool
label_is(const struct node *node, uint32_t hash, const uint8_t *label)
{
	/* Compares the lengths first, because a different label may have the same hash and fewer bytes. */
	return node->hash == hash && node->label[0] == label[0] &&
	       bytes_equal_padded(node->label + 1, label + 1, label[0]);
}

const struct node *
branch_find(void *child, unsigned shift, uint32_t hash, const uint8_t *label)
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
	assert(child != NULL); /* a way that is in use is never NULL */
	return label_is(child, hash, label) ? child : NULL;
}

const struct node *
tree_child(const struct tree *tree, const struct node *parent, const uint8_t *label)
{
	if (parent->children == NULL)
		return NULL;
	return branch_find(parent->children, 0, label_hash(tree->seed, label, 1u + *label), label);
}

/* --- paths --- */

static const uint8_t *
next_label(const struct tree_path *path)
{
	return path->wire + path->offsets[path->labels - 1 - path->count];
}

/* Looks up a single path. */
static void
find_path(const struct tree *tree, struct tree_path *path)
{
	const struct node *node = tree->root;

	while (
	    path->count < path->wanted && (node = tree_child(tree, node, next_label(path))) != NULL)
		path->nodes[path->count++] = node;
}

/* Prefetches the first two cache lines of a block. Most blocks are not larger. */
static inline void
fetch(const void *block)
{
	__builtin_prefetch(block);
	__builtin_prefetch((const void *)((uintptr_t)block +
					  64)); /* prefetching an address near NULL is harmless */
}

/* Prepares and prefetches the step after `node`, which is the last node of the path so far. Returns
 * false if the path ends there. */
static inline bool
send_on(const struct tree *tree, struct tree_path *path, const struct node *node)
{
	fetch(node->endpoints);
	if (path->count == path->wanted || node->children == NULL) {
		fetch(node->records);
		return false;
	}
	path->label = next_label(path);
	path->hash = label_hash(tree->seed, path->label, 1u + *path->label);
	path->shift = 0;
	path->at = node->children;
	fetch(path->at);
	return true;
}

/* Takes one step down the path, to the block that was prefetched before. Returns false at the end
 * of the path. */
static inline bool
step(const struct tree *tree, struct tree_path *path)
{
	struct branch *branch = as_branch(path->at);

	if (branch == NULL || path->shift >= HASH_BITS) {
		const struct node *node =
		    branch_find(path->at, path->shift, path->hash, path->label);

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

unsigned
tree_reversed_labels(const uint8_t *name, const uint8_t *labels[DNAME_LABELS_MAX])
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
	unsigned count = tree_reversed_labels(padded.wire, labels);
	for (unsigned i = 0; i < count && node != NULL; i++)
		node = tree_child(tree, node, labels[i]);
	return node;
}

static bool
visit_children(void *child, unsigned shift, bool (*visit)(void *, const struct node *), void *arg)
{
	struct branch *branch = as_branch(child);

	if (branch == NULL)
		return child == NULL || visit(arg, child);
	for (unsigned i = 0; i < ways_count(branch, shift); i++)
		if (!visit_children(branch->ways[i], shift + WAY_BITS, visit, arg))
			return false;
	return true;
}

bool
tree_children_until(
    const struct node *parent, bool (*visit)(void *arg, const struct node *child), void *arg)
{
	return visit_children(parent->children, 0, visit, arg);
}

struct all {
	void (*visit)(void *arg, const struct node *child);
	void *arg;
};

static bool
visit_all(void *arg, const struct node *child)
{
	const struct all *all = arg;

	all->visit(all->arg, child);
	return true;
}

void
tree_children(
    const struct node *parent, void (*visit)(void *arg, const struct node *child), void *arg)
{
	struct all all = { visit, arg };

	visit_children(parent->children, 0, visit_all, &all);
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
