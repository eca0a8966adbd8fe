/*
 * Maps the address of a pod to the number of its namespace (pods4, pods6) and to the number of the node on which it
 * runs (places4, places6). Each map is a B+ tree.
 */
#include "treecache/treecache_internal.h"

void
treecache_pod(struct treecache *cache, const struct addr *addr, uint32_t number, bool present)
{
	struct pair_btree *pods = addr->family == AF_INET ? &cache->next.pods4 : &cache->next.pods6;

	if (present)
		pair_btree_insert(cache, pods, addr->bytes, number);
	else
		pair_btree_remove(cache, pods, addr->bytes, number);
}

void
treecache_pod_place(struct treecache *cache, const struct addr *addr, uint32_t number, bool present)
{
	struct pair_btree *places =
	    addr->family == AF_INET ? &cache->next.places4 : &cache->next.places6;

	if (present)
		pair_btree_insert(cache, places, addr->bytes, number);
	else
		pair_btree_remove(cache, places, addr->bytes, number);
}

static const struct pair_btree *
pods_index(const struct tree *tree, uint8_t family)
{
	return family == AF_INET ? &tree->pods4 : &tree->pods6;
}

bool
pods_has(const struct tree *tree, const struct addr *addr, uint32_t number)
{
	struct addr found = *addr;
	uint32_t value = number;

	return pair_btree_seek(pods_index(tree, addr->family), found.bytes, &value) &&
	       value == number && addr_equal(&found, addr);
}

bool
pods_seek(const struct tree *tree, struct addr *addr, uint32_t *number)
{
	return pair_btree_seek(pods_index(tree, addr->family), addr->bytes, number);
}

uint32_t
pods_place(const struct tree *tree, const struct addr *addr)
{
	const struct pair_btree *places = addr->family == AF_INET ? &tree->places4 : &tree->places6;
	struct pair_walk walk = { 0 };
	uint32_t number, next;

	if (!pair_btree_next(places, addr->bytes, &walk, &number))
		return 0;
	return pair_btree_next(places, addr->bytes, &walk, &next) ? 0 : number;
}
