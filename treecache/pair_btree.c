/*
 * A pair is stored as its key, followed by its value in network byte order. One comparison of bytes
 * thus orders by key and value.
 */
#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "lib/wire.h"
#include "treecache/pair_btree.h"
#include "treecache/treecache_internal.h"

enum { PAIR_MAX = 20, LEAF_MAX = 62, INNER_MAX = 30 };

struct pair_node {
	uint32_t epoch;
	uint16_t count;
	uint16_t height; /* 0: a leaf */
	/* A leaf has space for LEAF_MAX pairs. An inner node has INNER_MAX children, then INNER_MAX
	 * pairs: child i has the pairs from pair i up to, but not including, pair i+1. Pair 0 of an
	 * inner node is unused. */
	uint8_t bytes[];
};

static size_t
node_size(size_t pair_len, unsigned height)
{
	return sizeof(struct pair_node) +
	       (height == 0 ? LEAF_MAX * pair_len : INNER_MAX * (sizeof(void *) + pair_len));
}

static unsigned
node_max(const struct pair_node *node)
{
	return node->height == 0 ? LEAF_MAX : INNER_MAX;
}

static struct pair_node **
children(struct pair_node *node)
{
	return (void *)node->bytes;
}

static uint8_t *
pair_at(struct pair_node *node, size_t pair_len, unsigned i)
{
	return node->bytes + (node->height == 0 ? 0 : INNER_MAX * sizeof(void *)) + i * pair_len;
}

static inline uint64_t
pair_number(const uint8_t *pair)
{
	uint64_t number;

	memcpy(&number, pair, 8);
	return be64toh(number);
}

/*
 * search() for pairs of 8 bytes. Nearly all pairs are of this size, because their keys have 4
 * bytes. Compares them as numbers, without branches on the result, because the CPU would mispredict
 * every second branch. Each step quarters the range with three independent loads; in a binary
 * search each load depends on the previous one.
 */
static unsigned
search_numbers(const uint8_t *pairs, uint64_t number, bool above, unsigned low, unsigned count)
{
	/* Searches for the first pair that is not below this number. */
	uint64_t limit = number + above;

	if (limit < number)
		return low + count;
	while (count > 3) {
		unsigned quarter = count / 4;
		/* Last pair of the first quarter. */
		const uint8_t *last = pairs + (low + quarter - 1) * 8;
		unsigned below = (unsigned)(pair_number(last) < limit) +
				 (pair_number(last + (size_t)quarter * 8) < limit) +
				 (pair_number(last + (size_t)quarter * 16) < limit);

		low += below * quarter;
		count = below == 3 ? count - 3 * quarter : quarter - 1;
	}
	unsigned below = 0;
	for (unsigned i = 0; i < count; i++)
		below += pair_number(pairs + (low + i) * 8) < limit;
	return low + below;
}

/* Returns the first position, from `from` on, whose pair is not below `pair`. With `above`, returns
 * the first position whose pair is greater than `pair`. */
static unsigned
search(struct pair_node *node, size_t pair_len, const uint8_t *pair, bool above, unsigned from)
{
	unsigned low = from, high = node->count;

	if (pair_len == 8)
		return search_numbers(pair_at(node, pair_len, 0), pair_number(pair), above, from,
		    high > from ? high - from : 0);
	while (low < high) {
		unsigned middle = (low + high) / 2;
		int order = memcmp(pair_at(node, pair_len, middle), pair, pair_len);

		if (order < 0 || (above && order == 0))
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Returns the child whose range contains `pair`. */
static unsigned
child_for(struct pair_node *node, size_t pair_len, const uint8_t *pair)
{
	return search(node, pair_len, pair, true, 1) - 1;
}

/* Keys have 4 or 16 bytes. The compiler inlines memcmp() for a constant length. */
static inline bool
same_key(const uint8_t *a, const uint8_t *b, size_t key_len)
{
	return key_len == 4 ? memcmp(a, b, 4) == 0 : memcmp(a, b, 16) == 0;
}

static inline void
pair_make(uint8_t pair[PAIR_MAX], size_t key_len, const uint8_t *key, uint32_t value)
{
	if (key_len == 4)
		memcpy(pair, key, 4);
	else
		memcpy(pair, key, 16);
	wire_put32(pair + key_len, value);
}

/* --- reading --- */

/* Returns the first pair of this subtree that is not below `pair`, or NULL. `*left` is set to the
 * number of pairs from there to the end of the leaf. */
static const uint8_t *
seek_below(struct pair_node *node, size_t pair_len, const uint8_t *pair, unsigned *left)
{
	if (node->height == 0) {
		unsigned at = search(node, pair_len, pair, false, 0);

		*left = node->count - at;
		return at < node->count ? pair_at(node, pair_len, at) : NULL;
	}
	for (unsigned i = child_for(node, pair_len, pair); i < node->count; i++) {
		const uint8_t *found = seek_below(children(node)[i], pair_len, pair, left);

		if (found != NULL)
			return found;
	}
	return NULL;
}

bool
pair_btree_seek(const struct pair_btree *index, uint8_t *key, uint32_t *value)
{
	uint8_t pair[PAIR_MAX];
	const uint8_t *found;
	unsigned left;

	if (index->root == NULL)
		return false;
	pair_make(pair, index->key_len, key, *value);
	found = seek_below(index->root, index->key_len + 4, pair, &left);
	if (found == NULL)
		return false;
	memcpy(key, found, index->key_len);
	*value = wire_get32(found + index->key_len);
	return true;
}

bool
pair_btree_next(
    const struct pair_btree *index, const uint8_t *key, struct pair_walk *walk, uint32_t *value)
{
	uint8_t pair[PAIR_MAX];

	if (walk->left == 0) { /* the first leaf, or the next one */
		if (index->root == NULL || walk->next > UINT32_MAX)
			return false;
		pair_make(pair, index->key_len, key, (uint32_t)walk->next);
		walk->at = seek_below(index->root, index->key_len + 4, pair, &walk->left);
	}
	if (walk->at == NULL || !same_key(walk->at, key, index->key_len))
		return false;
	*value = wire_get32(walk->at + index->key_len);
	walk->next = (uint64_t)*value + 1;
	walk->at += index->key_len + 4;
	walk->left--;
	return true;
}

static bool
has(const struct pair_btree *index, const uint8_t *pair)
{
	const uint8_t *found;
	unsigned left;

	if (index->root == NULL)
		return false;
	found = seek_below(index->root, index->key_len + 4, pair, &left);
	return found != NULL && memcmp(found, pair, index->key_len + 4) == 0;
}

/* --- writing --- */

static struct pair_node *
node_new(struct treecache *cache, size_t pair_len, unsigned height)
{
	struct pair_node *node = cow_new(cache, node_size(pair_len, height));

	node->count = 0;
	node->height = (uint16_t)height;
	return node;
}

/* Moves `count` entries between nodes of the same height, or within a node. */
static void
move(struct pair_node *to, unsigned to_at, struct pair_node *from, unsigned from_at, unsigned count,
    size_t pair_len)
{
	memmove(pair_at(to, pair_len, to_at), pair_at(from, pair_len, from_at), count * pair_len);
	if (to->height > 0)
		memmove(children(to) + to_at, children(from) + from_at, count * sizeof(void *));
}

/* Inserts an entry at position `at` of an unpublished node. If the node is full, splits it and
 * returns the new right half. */
static struct pair_node *
put(struct treecache *cache, struct pair_node *node, size_t pair_len, unsigned at,
    const uint8_t *pair, struct pair_node *child)
{
	struct pair_node *right = NULL;

	if (node->count == node_max(node)) {
		unsigned half = node->count / 2u;

		right = node_new(cache, pair_len, node->height);
		right->count = (uint16_t)(node->count - half);
		move(right, 0, node, half, right->count, pair_len);
		node->count = (uint16_t)half;
		if (at > half) {
			put(cache, right, pair_len, at - half, pair, child);
			return right;
		}
	}
	move(node, at + 1, node, at, node->count - at, pair_len);
	memcpy(pair_at(node, pair_len, at), pair, pair_len);
	if (node->height > 0)
		children(node)[at] = child;
	node->count++;
	return right;
}

/*
 * If child i is full, moves its first entries to its left neighbour, as many as fit there. Without
 * this, keys that arrive in ascending order, as addresses do, would leave every node half full.
 * Does nothing if only a few entries would fit. Copying two nodes would then not be worth its cost.
 */
static bool
shift_left(struct treecache *cache, struct pair_node *node, size_t pair_len, unsigned i)
{
	if (i == 0)
		return false;
	struct pair_node *left = children(node)[i - 1], *child = children(node)[i];
	unsigned max = node_max(child), capacity = max - left->count;
	if (child->count < max || capacity < max / 8)
		return false;
	left = children(node)[i - 1] = cow_edit(cache, left, node_size(pair_len, left->height));
	child = children(node)[i] = cow_edit(cache, child, node_size(pair_len, child->height));
	/* Pair 0 of an inner node is unused; its lower bound is the pair in the parent. */
	if (child->height > 0)
		memcpy(pair_at(child, pair_len, 0), pair_at(node, pair_len, i), pair_len);
	move(left, left->count, child, 0, capacity, pair_len);
	left->count = (uint16_t)max;
	child->count = (uint16_t)(max - capacity);
	move(child, 0, child, capacity, child->count, pair_len);
	memcpy(pair_at(node, pair_len, i), pair_at(child, pair_len, 0), pair_len);
	return true;
}

/* Inserts into the subtree `*at`, and replaces `*at` by its copy. If the subtree's top node was
 * split, returns its new right neighbour. */
static struct pair_node *
insert_below(struct treecache *cache, struct pair_node **at, size_t pair_len, const uint8_t *pair)
{
	struct pair_node *node = cow_edit(cache, *at, node_size(pair_len, (*at)->height));

	*at = node;
	if (node->height == 0)
		return put(
		    cache, node, pair_len, search(node, pair_len, pair, false, 0), pair, NULL);
	unsigned i = child_for(node, pair_len, pair);
	if (shift_left(cache, node, pair_len, i))
		i = child_for(node, pair_len, pair);
	struct pair_node *right = insert_below(cache, &children(node)[i], pair_len, pair);
	return right == NULL
		   ? NULL
		   : put(cache, node, pair_len, i + 1, pair_at(right, pair_len, 0), right);
}

bool
pair_btree_insert(
    struct treecache *cache, struct pair_btree *index, const uint8_t *key, uint32_t value)
{
	size_t pair_len = index->key_len + 4;
	uint8_t pair[PAIR_MAX];

	pair_make(pair, index->key_len, key, value);
	if (has(index, pair))
		return false;
	struct pair_node *left = index->root == NULL ? node_new(cache, pair_len, 0) : index->root;
	struct pair_node *right = insert_below(cache, &left, pair_len, pair);
	if (right != NULL) {
		struct pair_node *root = node_new(cache, pair_len, left->height + 1u);

		put(cache, root, pair_len, 0, pair_at(left, pair_len, 0), left);
		put(cache, root, pair_len, 1, pair_at(right, pair_len, 0), right);
		left = root;
	}
	index->root = left;
	return true;
}

static void
take_out(struct pair_node *node, size_t pair_len, unsigned at)
{
	move(node, at, node, at + 1, node->count - at - 1u, pair_len);
	node->count--;
}

/* Joins children i and i+1 of `node` if they fit into one node with space to grow. */
static bool
join(struct treecache *cache, struct pair_node *node, size_t pair_len, unsigned i)
{
	if (i + 1u >= node->count)
		return false;
	struct pair_node *left = children(node)[i], *right = children(node)[i + 1];
	unsigned count = left->count;
	if (count + right->count > node_max(left) * 3 / 4)
		return false;
	left = cow_edit(cache, left, node_size(pair_len, left->height));
	move(left, count, right, 0, right->count, pair_len);
	/* Pair 0 of an inner node is unused; its lower bound is the pair in the parent. */
	if (left->height > 0)
		memcpy(pair_at(left, pair_len, count), pair_at(node, pair_len, i + 1), pair_len);
	left->count = (uint16_t)(count + right->count);
	children(node)[i] = left;
	cow_drop(cache, right);
	take_out(node, pair_len, i + 1);
	return true;
}

static void
remove_below(struct treecache *cache, struct pair_node **at, size_t pair_len, const uint8_t *pair)
{
	struct pair_node *node = cow_edit(cache, *at, node_size(pair_len, (*at)->height));

	*at = node;
	if (node->height == 0) {
		take_out(node, pair_len, search(node, pair_len, pair, false, 0));
		return;
	}
	unsigned i = child_for(node, pair_len, pair);
	remove_below(cache, &children(node)[i], pair_len, pair);
	struct pair_node *child = children(node)[i];
	if (child->count == 0) {
		cow_drop(cache, child);
		take_out(node, pair_len, i);
	} else if (child->count < node_max(child) / 4 && !join(cache, node, pair_len, i) && i > 0) {
		join(cache, node, pair_len, i - 1);
	}
}

bool
pair_btree_remove(
    struct treecache *cache, struct pair_btree *index, const uint8_t *key, uint32_t value)
{
	size_t pair_len = index->key_len + 4;
	uint8_t pair[PAIR_MAX];
	struct pair_node *root;

	pair_make(pair, index->key_len, key, value);
	if (!has(index, pair))
		return false;
	root = index->root;
	remove_below(cache, &root, pair_len, pair);
	while (root != NULL && (root->count == 0 || (root->height > 0 && root->count == 1))) {
		struct pair_node *below =
		    root->height > 0 && root->count == 1 ? children(root)[0] : NULL;

		cow_drop(cache, root);
		root = below;
	}
	index->root = root;
	return true;
}

static void
free_below(struct pair_node *node)
{
	if (node == NULL)
		return;
	for (unsigned i = 0; node->height > 0 && i < node->count; i++)
		free_below(children(node)[i]);
	free(node);
}

void
pair_btree_free(struct pair_btree *index)
{
	free_below(index->root);
}
