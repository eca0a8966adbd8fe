#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "lib/xalloc.h"
#include "treecache/slot_table.h"
#include "treecache/treecache_internal.h"

enum { WAY_BITS = 6, WAYS = 1 << WAY_BITS };

struct slot_node {
	uint32_t epoch;
	const void *ways[WAYS]; /* children (struct slot_node); at the lowest level, the values */
};

const void *
slot_table_get(const struct slot_table *slots, uint32_t slot)
{
	const void *at = slots->root;

	if (slots->depth * WAY_BITS < 32 && slot >> (slots->depth * WAY_BITS) != 0)
		return NULL;
	for (unsigned level = slots->depth; level-- > 0 && at != NULL;)
		at = ((const struct slot_node *)at)->ways[slot >> (level * WAY_BITS) & (WAYS - 1)];
	return at;
}

static struct slot_node *
node_new(struct treecache *cache)
{
	struct slot_node *node = cow_new(cache, sizeof *node);

	memset(node->ways, 0, sizeof node->ways);
	return node;
}

/* Sets `slot` in the subtree `at`, which has this height; creates the subtree if it is NULL.
 * Returns the subtree that replaces it. */
static struct slot_node *
set_below(
    struct treecache *cache, struct slot_node *at, unsigned level, uint32_t slot, const void *value)
{
	struct slot_node *node = at == NULL ? node_new(cache) : cow_edit(cache, at, sizeof *at);
	const void **way = &node->ways[slot >> (level * WAY_BITS) & (WAYS - 1)];

	if (level == 0) {
		*way = value;
	} else {
		*way = set_below(cache, writers(*way), level - 1, slot, value);
	}
	return node;
}

void
slot_table_set(struct treecache *cache, struct slot_table *slots, uint32_t slot, const void *value)
{
	while (slots->depth == 0 || slot >> (slots->depth * WAY_BITS) != 0) {
		struct slot_node *root = node_new(cache);

		root->ways[0] = slots->root;
		slots->root = root;
		slots->depth++;
	}
	slots->root = set_below(cache, slots->root, slots->depth - 1, slot, value);
}

static void
free_below(struct slot_node *node, unsigned level)
{
	if (node == NULL)
		return;
	for (unsigned i = 0; i < WAYS; i++) {
		if (level > 0)
			free_below(writers(node->ways[i]), level - 1);
		else if (slot_owner(node->ways[i]) == NULL) /* free slices, but not owners, which
							     * belong to the caller */
			free(writers(node->ways[i]));
	}
	free(node);
}

void
slot_table_free(struct slot_table *slots)
{
	if (slots->depth > 0)
		free_below(slots->root, slots->depth - 1);
}

uint32_t
slot_alloc(struct treecache *cache)
{
	if (cache->free_count > 0)
		return cache->free_slots[--cache->free_count];
	assert(cache->slot_count < SLOT_OF_SLICE - 1);
	return ++cache->slot_count;
}

void
slot_release(struct treecache *cache, uint32_t slot)
{
	if (cache->free_count == cache->free_capacity) {
		cache->free_capacity = cache->free_capacity == 0 ? 64 : cache->free_capacity * 2;
		cache->free_slots = xreallocarray(
		    cache->free_slots, cache->free_capacity, sizeof *cache->free_slots);
	}
	slot_table_set(cache, &cache->next.slots, slot, NULL);
	cache->free_slots[cache->free_count++] = slot;
}
