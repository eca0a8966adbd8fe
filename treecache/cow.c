/* Copy-on-write blocks, and the lists of replaced blocks (treecache_internal.h). */
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "lib/xalloc.h"
#include "treecache/treecache_internal.h"

void
garbage_add(struct garbage *garbage, void *block)
{
	if (garbage->count == garbage->capacity) {
		garbage->capacity = garbage->capacity == 0 ? 64 : garbage->capacity * 2;
		garbage->items =
		    xreallocarray(garbage->items, garbage->capacity, sizeof *garbage->items);
	}
	garbage->items[garbage->count++] = block;
	garbage->bytes += malloc_usable_size(block);
}

void
garbage_move(struct garbage *to, struct garbage *from)
{
	if (to->count == 0) {
		free(to->items);
		*to = *from;
		*from = (struct garbage){ 0 };
		return;
	}
	if (to->count + from->count > to->capacity) {
		to->capacity = to->count + from->count + to->capacity / 2;
		to->items = xreallocarray(to->items, to->capacity, sizeof *to->items);
	}
	if (from->count > 0)
		memcpy(to->items + to->count, from->items, from->count * sizeof *from->items);
	to->count += from->count;
	to->bytes += from->bytes;
	free(from->items);
	*from = (struct garbage){ 0 };
}

void *
cow_new(struct treecache *cache, size_t size)
{
	uint32_t *block = xmalloc(size);

	*block = cache->epoch;
	cache->dirty = true;
	return block;
}

static bool
is_own(const struct treecache *cache, const void *block)
{
	return *(const uint32_t *)block == cache->epoch;
}

void *
cow_edit(struct treecache *cache, void *block, size_t size)
{
	cache->dirty = true;
	if (is_own(cache, block))
		return block;
	void *copy = xmalloc(size);
	memcpy(copy, block, size);
	*(uint32_t *)copy = cache->epoch;
	garbage_add(&cache->fresh, block);
	return copy;
}

void
cow_drop(struct treecache *cache, const void *block)
{
	if (block == NULL)
		return;
	cache->dirty = true;
	if (is_own(cache, block))
		free(writers(block));
	else
		garbage_add(&cache->fresh, writers(block));
}

void
treecache_retire(struct treecache *cache, void *ptr)
{
	if (ptr != NULL)
		garbage_add(&cache->fresh, ptr);
}
