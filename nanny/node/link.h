/*
 * The network interface with the node's DNS addresses, managed by rtnetlink. If the kernel supports
 * dummy interfaces, the interface is a dummy interface. On other kernels, the interface is a bridge
 * without ports. If the interface or an address is removed, node_link_read() reports the change and
 * node_link_ensure() creates it again.
 */
#ifndef NANNY_NODE_LINK_H
#define NANNY_NODE_LINK_H

#include <stdbool.h>
#include <stddef.h>

#include "lib/addr.h"

struct node_link;

/* Returns NULL after one log line. Caller frees with node_link_close, which does not remove the
 * interface and its addresses. */
struct node_link *node_link_open(const char *name);
void node_link_close(struct node_link *link);

/* Descriptor to poll for input: interfaces or addresses have changed. */
int node_link_fd(const struct node_link *link);

/* Reads the pending events. Returns true if this interface may be affected. */
bool node_link_read(struct node_link *link);

/* Creates the interface and these addresses if they are missing. Returns 0, or -errno after a log
 * line. */
int node_link_ensure(struct node_link *link, const struct addr *const *addresses, size_t count);

#endif
