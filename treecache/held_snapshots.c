/*
 * Snapshots that outlive a read section. A block that is replaced while a snapshot is held stays in
 * memory. The block is kept in the garbage list of the newest hold at that time, whose snapshot may
 * use the block. When that hold is dropped, its list passes to the next older hold. If there is no
 * older hold, the blocks are freed.
 *
 *	publish   1     2     3     4     5    now
 *	hold           A           B
 *	replaced       '- A's list '- B's list'      B's list passes to A when B is dropped
 */
#include <stdatomic.h>
#include <stdlib.h>

#include "lib/xalloc.h"
#include "treecache/treecache_internal.h"

struct tree_hold {
	struct tree_hold *older;
	const struct tree *tree;
	atomic_uint uses;
	struct garbage garbage; /* for the writer only */
};

struct tree_hold *
treecache_hold(struct treecache *cache)
{
	struct tree_hold *hold = xcalloc(1, sizeof *hold);

	/* Blocks that were replaced before this snapshot was published are not part of it. */
	holds_sweep(cache);
	hold->tree = cache->current;
	hold->older = cache->newest_hold;
	atomic_init(&hold->uses, 1);
	cache->newest_hold = hold;
	return hold;
}

const struct tree *
tree_held(const struct tree_hold *hold)
{
	return hold->tree;
}

struct tree_hold *
tree_hold_share(struct tree_hold *hold)
{
	atomic_fetch_add_explicit(&hold->uses, 1, memory_order_relaxed);
	return hold;
}

void
tree_hold_drop(struct tree_hold *hold)
{
	if (hold != NULL)
		atomic_fetch_sub_explicit(&hold->uses, 1, memory_order_release);
}

static bool
is_dropped(const struct tree_hold *hold)
{
	return atomic_load_explicit(&hold->uses, memory_order_acquire) == 0;
}

size_t
holds_dropped_bytes(const struct treecache *cache)
{
	size_t bytes = 0;

	for (const struct tree_hold *hold = cache->newest_hold; hold != NULL; hold = hold->older)
		bytes += is_dropped(hold) ? hold->garbage.bytes : 0;
	return bytes;
}

size_t
treecache_held(const struct treecache *cache)
{
	size_t bytes = 0;

	for (const struct tree_hold *hold = cache->newest_hold; hold != NULL; hold = hold->older)
		bytes += hold->garbage.bytes;
	return bytes;
}

void
holds_sweep(struct treecache *cache)
{
	struct tree_hold *newest = cache->newest_hold;

	/* The newest hold may be dropped too; the loop then passes these blocks on. */
	garbage_move(newest != NULL ? &newest->garbage : &cache->unheld, &cache->old);
	for (struct tree_hold **at = &cache->newest_hold; *at != NULL;) {
		struct tree_hold *hold = *at;

		if (!is_dropped(hold)) {
			at = &hold->older;
			continue;
		}
		*at = hold->older;
		garbage_move(
		    hold->older != NULL ? &hold->older->garbage : &cache->unheld, &hold->garbage);
		free(hold);
	}
}

void
holds_free(struct treecache *cache)
{
	for (struct tree_hold *hold; (hold = cache->newest_hold) != NULL;) {
		cache->newest_hold = hold->older;
		garbage_move(&cache->old, &hold->garbage);
		free(hold);
	}
}
