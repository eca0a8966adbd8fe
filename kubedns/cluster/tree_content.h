/*
 * What the cluster puts into the tree and the answers read from it, beyond what treecache.h itself
 * defines. The store writes it; answer/ and show/ read it.
 */
#ifndef KUBEDNS_CLUSTER_TREE_CONTENT_H
#define KUBEDNS_CLUSTER_TREE_CONTENT_H

#include <stdint.h>

/* A node's flags: which kind of Service it is; of a namespace, that its label declines search
 * completion. */
enum node_flags {
	NODE_CLUSTERIP = 1,
	NODE_HEADLESS = 2,
	NODE_EXTERNALNAME = 4,
	NODE_NO_SEARCH = 8
};

/* The number of a node that belongs to the zone itself: `svc`, `pod`. */
enum { NODE_PERMANENT = UINT32_MAX };

#endif
