/* Lists of ports, of which slices share those that are the same, since a cluster has few different ones. */
#ifndef KUBEDNS_CLUSTER_PORT_LISTS_H
#define KUBEDNS_CLUSTER_PORT_LISTS_H

#include "kubedns/cluster/object.h"
#include "lib/table.h"
#include "treecache/treecache.h"

/* The list of these ports, for slices of this cache; takes a reference, which port_lists_put() gives
 * back. */
const struct ports *port_lists_get(struct table *lists, const struct treecache *cache,
    const struct object_port *from, size_t count);

/* NULL is fine. */
void port_lists_put(struct table *lists, struct treecache *cache, const struct ports *ports);

#endif
