/*
 * A pair is stored as its key followed by its value in network order, so that one comparison of
 * bytes orders both.
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
	/* A leaf: room for LEAF_MAX pairs. Else INNER_MAX children, then INNER_MAX pairs: child i
	 * holds the pairs from pair i to before pair i+1; pair 0 is not used. */
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
 * search() for pairs of 8 bytes (keys of 4), as nearly all are: compares them as numbers, and
 * without branches on the result, of which every second would be mispredicted. Each step quarters
 * the range: its three loads are independent, while each load of a binary search depends on the one
 * before.
 */
static unsigned
search_numbers(const uint8_t *pairs, uint64_t number, bool above, unsigned low, unsigned count)
{
	uint64_t limit = number + above; /* looks for the first pair not below this */

	if (limit < number)
		return low + count;
	while (count > 3) {
		unsigned quarter = count / 4;
		const uint8_t *last = pairs + (low + quarter - 1) * 8; /* of the first quarter */
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

/* The first position whose pair is not below `pair` (or, with `above`, is above it). */
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

/* The child whose range has `pair`. */
static unsigned
child_for(struct pair_node *node, size_t pair_len, const uint8_t *pair)
{
	return search(node, pair_len, pair, true, 1) - 1;
}

/* Keys are of 4 or 16 bytes: with a constant length the compiler inlines memcmp(). */
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

/* The first pair not below `pair` in this subtree, or NULL; `*left`: it and those behind it in the same leaf. */
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

	if (walk->left == 0) { /* the first, or that of the next leaf */
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

/* Moves `count` entries between nodes of one height, or within one. */
static void
move(struct pair_node *to, unsigned to_at, struct pair_node *from, unsigned from_at, unsigned count,
    size_t pair_len)
{
	memmove(pair_at(to, pair_len, to_at), pair_at(from, pair_len, from_at), count * pair_len);
	if (to->height > 0)
		memmove(children(to) + to_at, children(from) + from_at, count * sizeof(void *));
}

/* Puts an entry at `at` of a node of the writer's own; a full node is split and its right half
 * returned. */
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
 * Makes room in child i, if it is full, by moving its first entries to its left neighbour, as many
 * as fit. Otherwise keys that come in ascending order, as addresses do, would leave every node half
 * full. Does nothing if only a few would fit: that is not worth copying two nodes.
 */
static bool
shift_left(struct treecache *cache, struct pair_node *node, size_t pair_len, unsigned i)
{
	if (i == 0)
		return false;
	struct pair_node *left = children(node)[i - 1], *child = children(node)[i];
	unsigned max = node_max(child), room = max - left->count;
	if (child->count < max || room < max / 8)
		return false;
	left = children(node)[i - 1] = cow_edit(cache, left, node_size(pair_len, left->height));
	child = children(node)[i] = cow_edit(cache, child, node_size(pair_len, child->height));
	/* An inner node's own pair 0 is stale: its lower bound is the parent's pair. */
	if (child->height > 0)
		memcpy(pair_at(child, pair_len, 0), pair_at(node, pair_len, i), pair_len);
	move(left, left->count, child, 0, room, pair_len);
	left->count = (uint16_t)max;
	child->count = (uint16_t)(max - room);
	move(child, 0, child, room, child->count, pair_len);
	memcpy(pair_at(node, pair_len, i), pair_at(child, pair_len, 0), pair_len);
	return true;
}

/* Inserts into the subtree at `*at`, which is replaced by its copy; returns a new right neighbour
 * if it was split. */
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

/* Joins children i and i+1 of `node` if they fit into one with room to grow. */
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
	/* An inner node's own pair 0 is stale: its lower bound is the parent's pair. */
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
