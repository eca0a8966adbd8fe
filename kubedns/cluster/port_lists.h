/* Lists of ports. Slices with the same ports share one list, because a cluster has few different lists. */
#ifndef KUBEDNS_CLUSTER_PORT_LISTS_H
#define KUBEDNS_CLUSTER_PORT_LISTS_H

#include "kubedns/cluster/object.h"
#include "lib/table.h"
#include "treecache/treecache.h"

/* Returns the shared list of these ports, and takes a reference. Slices of this cache may use it.
 * Release it with port_lists_put(). */
const struct ports *port_lists_get(struct table *lists, const struct treecache *cache,
    const struct object_port *from, size_t count);

/* Releases a reference. NULL is fine. */
void port_lists_put(struct table *lists, struct treecache *cache, const struct ports *ports);

#endif
