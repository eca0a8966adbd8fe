/* Compares the children of two nodes, which are from two snapshots of one tree. */
#include <string.h>

#include "treecache/branch.h"

/* The arguments of tree_diff_children(). */
struct diff {
	void (*visit)(void *arg, const struct node *before, const struct node *after);
	void *arg;
};

static bool
same_label(const struct node *a, const struct node *b)
{
	return a->hash == b->hash && memcmp(a->label, b->label, 1u + a->label[0]) == 0;
}

/* Returns the node below `child` that has the same label as `node`, or NULL. */
static const struct node *
find_same(void *child, unsigned shift, const struct node *node)
{
	if (child == NULL)
		return NULL;
	if (as_branch(child) != NULL)
		return branch_find(child, shift, node->hash, node->label);
	return same_label(child, node) ? child : NULL;
}

/* Visits each node below `child` together with the node of the same label below `other`. With
 * `only_lone`, visits only nodes that have no such counterpart. */
static void
visit_side(const struct diff *diff, void *child, void *other, unsigned shift, unsigned other_shift,
    bool before, bool only_lone)
{
	struct branch *branch = as_branch(child);

	if (child == NULL)
		return;
	if (branch == NULL) {
		const struct node *node = child, *like = find_same(other, other_shift, node);

		if (like == node || (like != NULL && only_lone))
			return;
		diff->visit(diff->arg, before ? node : like, before ? like : node);
		return;
	}
	for (unsigned i = 0; i < ways_count(branch, shift); i++)
		visit_side(
		    diff, branch->ways[i], other, shift + WAY_BITS, other_shift, before, only_lone);
}

static void
diff_children(const struct diff *diff, void *before, void *after, unsigned shift)
{
	struct branch *a = as_branch(before), *b = as_branch(after);

	if (before == after)
		return;
	if (a == NULL || b == NULL || shift >= HASH_BITS) {
		visit_side(diff, before, after, shift, shift, true, false);
		visit_side(diff, after, before, shift, shift, false, true);
		return;
	}
	for (uint32_t left = a->used | b->used; left != 0; left &= left - 1) {
		uint32_t bit = left & -left;

		diff_children(diff, (a->used & bit) != 0 ? a->ways[way_at(a, bit)] : NULL,
		    (b->used & bit) != 0 ? b->ways[way_at(b, bit)] : NULL, shift + WAY_BITS);
	}
}

void
tree_diff_children(const struct node *before, const struct node *after,
    void (*visit)(void *arg, const struct node *before, const struct node *after), void *arg)
{
	const struct diff diff = { visit, arg };

	diff_children(&diff, before->children, after->children, 0);
}
