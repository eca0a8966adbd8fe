/*
 * What the cluster puts into the tree and the answers read from it, beyond what treecache.h itself
 * defines. The store writes it; answer/ and show/ read it.
 */
#ifndef KUBEDNS_CLUSTER_TREE_CONTENT_H
#define KUBEDNS_CLUSTER_TREE_CONTENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A node's flags: which kind of Service it is. */
enum node_flags { NODE_CLUSTERIP = 1, NODE_HEADLESS = 2, NODE_EXTERNALNAME = 4 };

/* The number of a node that belongs to the zone itself: `svc`, `pod`. */
enum { NODE_PERMANENT = UINT32_MAX };

/*
 * The weight of each SRV record of a set: the set's share of 100, at least 1. `pairs`: the set's
 * distinct (target, port number) pairs.
 */
static inline unsigned
srv_weight(uint64_t pairs)
{
	return pairs == 0 || pairs > 100 ? 1 : (unsigned)(100 / pairs);
}

#endif
