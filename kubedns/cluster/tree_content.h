/*
 * What the cluster puts into the tree and the answers read from it, beyond what treecache.h itself
 * defines: the kinds of nodes, the ports of a slice's endpoints, and the labels that spell
 * addresses. The store writes it; answer/ and show/ read it.
 */
#ifndef KUBEDNS_CLUSTER_TREE_CONTENT_H
#define KUBEDNS_CLUSTER_TREE_CONTENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/addr.h"
#include "lib/dname.h"

/* A node's flags: which kind of Service it is. */
enum node_flags { NODE_CLUSTERIP = 1, NODE_HEADLESS = 2, NODE_EXTERNALNAME = 4 };

/* The number of a node that belongs to the zone itself: `svc`, `pod`. */
enum { NODE_PERMANENT = UINT32_MAX };

struct port {
	uint16_t number;
	uint8_t name[1 + DNAME_LABEL_MAX];  /* "_http" as a length-prefixed lower-case label;
					     * length 0: unnamed */
	uint8_t proto[1 + DNAME_LABEL_MAX]; /* "_tcp" */
};

/*
 * Whether item `i` has a number, and none before it has the same: at a Service's bare name two
 * ports of one number, DNS over UDP and over TCP, are one SRV record (RFC 2181 section 5).
 */
static inline bool
port_number_is_first(const struct port *items, size_t i)
{
	size_t earlier = 0;

	while (earlier < i && items[earlier].number != items[i].number)
		earlier++;
	return earlier == i && items[i].number != 0;
}

/*
 * What the endpoints of a slice listen on, shared by all slices with the same list: most Services
 * of a cluster have one of a few lists.
 */
struct ports {
	uint32_t hash; /* of the rest, the store's */
	uint32_t uses;
	uint32_t count;
	struct port items[];
};

/* The name of an endpoint without a host name: its address with dashes, a 0 after a trailing one.
 * Returns the label in `label`. */
const uint8_t *tree_addr_label(const struct addr *addr, uint8_t label[1 + DNAME_LABEL_MAX + 8]);

/* The address that a label with dashes spells; 0 or -EINVAL. */
int tree_label_addr(const uint8_t *label, struct addr *addr);

#endif
