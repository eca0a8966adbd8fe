/*
 * Decides which server blocks of a Corefile answer the cluster's clients, and for which names.
 *
 * CoreDNS chooses the server block of a query by the address and port to which the client sent the
 * query, then by the longest zone, then by the expression of the plugin `view`. kubedns has one
 * address and one set of answers. So only the blocks that listen where the cluster's clients send
 * their queries are translated. These are the blocks with the same port and the same `bind` as the
 * main block: the block with `kubernetes`, else the block of the root.
 *
 * Each zone has one block. In CoreDNS, a block does not answer names in a longer zone of another
 * block. A lookup takes O(labels of the name), for any number of blocks.
 */
#ifndef MIGRATE_BLOCKS_H
#define MIGRATE_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>

#include "migrate/corefile.h"

/* Why a block is translated or left out. */
enum block_fate {
	BLOCK_SERVES,
	BLOCK_NODE_CACHE, /* it belongs to NodeLocal DNSCache */
	BLOCK_PORT,       /* another port, or another transport than UDP and TCP */
	BLOCK_BIND,       /* another address */
	BLOCK_VIEW,       /* only for the clients of its view; another block serves all clients */
	BLOCK_TWICE,      /* an earlier block has the same zone; CoreDNS does not start */
};

struct blocks;

/* Whether a line of the block forwards all names that reach it. Lines that forward only a zone do not
 * count. */
bool block_forwards(const struct corefile_block *block);

/* `corefile` must live as long as the result. Caller frees with blocks_free. */
struct blocks *blocks_new(const struct corefile *corefile);
void blocks_free(struct blocks *blocks);

enum block_fate blocks_fate(const struct blocks *blocks, size_t block);

/* Returns the block that decides which port and address the cluster's clients use. NULL if there is
 * no block outside of NodeLocal DNSCache. */
const struct corefile_block *blocks_main(const struct blocks *blocks);

/* Whether the key `word` of a block has the port and transport of the main block. */
bool blocks_key_is_here(const struct blocks *blocks, const char *word);

/* Whether the block is translated for `zone`, which is one of its keys (see zone_parse). */
bool blocks_has_zone(const struct blocks *blocks, size_t block, const char *zone);

/* Whether another block than `block` has a zone below `name`, without `name` itself. CoreDNS passes
 * names in this zone to the other block. */
bool blocks_has_below(
    const struct blocks *blocks, const struct corefile_block *block, const char *name);

/* Returns the zones of the other blocks in this block's zones, without reverse zones, separated by
 * commas. Caller frees. */
char *blocks_zones_inside(const struct blocks *blocks, const struct corefile_block *block);

/* Returns the block that answers `name`, or NULL. The name is in lower case, without the final dot;
 * "." is the root, whose block answers all names outside of the other zones. */
const struct corefile_block *blocks_of_name(const struct blocks *blocks, const char *name);

#endif
