#include <stdlib.h>
#include <string.h>

#include "lib/rcu.h"
#include "lib/xalloc.h"
#include "treecache/endpoint_set.h"

static void
garbage_free(struct garbage *garbage)
{
	for (size_t i = 0; i < garbage->count; i++)
		free(garbage->items[i]);
	free(garbage->items);
	*garbage = (struct garbage){ 0 };
}

void
treecache_context(struct treecache *cache, void *context)
{
	treecache_retire(cache, writers(cache->next.context));
	cache->next.context = context;
	cache->dirty = true;
}

struct treecache *
treecache_new(uint64_t seed)
{
	struct treecache *cache = xcalloc(1, sizeof *cache);
	struct tree *tree = &cache->next;

	cache->epoch = 1;
	tree->seed = seed;
	tree->root = xcalloc(1, sizeof *tree->root + 8);
	tree->root->epoch = cache->epoch;
	tree->endpoints.key_len = tree->reverse4.key_len = tree->labels.key_len = 4;
	tree->pods4.key_len = tree->places4.key_len = 4;
	tree->reverse6.key_len = tree->pods6.key_len = tree->places6.key_len = 16;
	/* Readers get an empty snapshot from the start, so that tree_current() is never NULL. */
	cache->dirty = true;
	treecache_publish(cache, 0, false);
	return cache;
}

const struct tree *
tree_current(const struct treecache *cache)
{
	return rcu_get(&cache->current);
}

const struct tree *
treecache_next(const struct treecache *cache)
{
	return &cache->next;
}

size_t
treecache_garbage(const struct treecache *cache)
{
	return cache->old.bytes + cache->unheld.bytes + holds_dropped_bytes(cache);
}

/* Called after a publish. The blocks that the publish replaced can be freed when every reader that
 * is now in a read section has left it. */
static void
garbage_age(struct treecache *cache)
{
	for (size_t i = 0; i < cache->fresh.count; i++)
		garbage_add(&cache->old, cache->fresh.items[i]);
	cache->fresh.count = cache->fresh.bytes = 0;
	if (cache->fresh.capacity > 4096) { /* the list is large because of a relist */
		free(cache->fresh.items);
		cache->fresh = (struct garbage){ 0 };
	}
}

bool
treecache_publish(struct treecache *cache, uint32_t now_s, bool synced)
{
	if (!cache->dirty && synced == cache->next.synced)
		return false;
	if (now_s > cache->next.serial)
		cache->next.serial = now_s;
	cache->next.synced = synced;

	struct tree *snapshot = xmalloc(sizeof *snapshot), *before = cache->current;
	*snapshot = cache->next;
	rcu_publish(&cache->current, snapshot);
	if (before != NULL)
		garbage_add(&cache->fresh, before);
	garbage_age(cache);
	cache->dirty = false;
	cache->epoch++;
	return true;
}

void
treecache_reclaim(struct treecache *cache)
{
	holds_sweep(cache);
	if (cache->unheld.count == 0)
		return;
	rcu_wait();
	garbage_free(&cache->unheld);
}

void
treecache_free(struct treecache *cache)
{
	if (cache == NULL)
		return;
	holds_free(cache);
	garbage_free(&cache->fresh);
	garbage_free(&cache->old);
	garbage_free(&cache->unheld);
	pair_btree_free(&cache->next.endpoints);
	pair_btree_free(&cache->next.reverse4);
	pair_btree_free(&cache->next.reverse6);
	pair_btree_free(&cache->next.labels);
	pair_btree_free(&cache->next.pods4);
	pair_btree_free(&cache->next.pods6);
	pair_btree_free(&cache->next.places4);
	pair_btree_free(&cache->next.places6);
	slot_table_free(&cache->next.slots);
	tree_free_nodes(cache->next.root);
	free(writers(cache->next.context));
	free(cache->current);
	free(cache->free_slots);
	addr_holders_free_all(cache);
	free(cache);
}
