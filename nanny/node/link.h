/*
 * The interface with the node's DNS addresses, by rtnetlink: a dummy interface, or on kernels
 * without those a bridge without ports, which serves as well. If it or an address is removed,
 * node_link_read() reports that and node_link_ensure() makes it again.
 */
#ifndef NANNY_NODE_LINK_H
#define NANNY_NODE_LINK_H

#include <stdbool.h>
#include <stddef.h>

#include "lib/addr.h"

struct node_link;

/* NULL after one log line. Caller frees with node_link_close, which leaves interface and
 * addresses. */
struct node_link *node_link_open(const char *name);
void node_link_close(struct node_link *link);

/* To poll for input: links or addresses have changed. */
int node_link_fd(const struct node_link *link);

/* Reads what has changed; true if something of it may concern us. */
bool node_link_read(struct node_link *link);

/* Makes what is missing of the interface and these addresses; 0, or -errno after a log line. */
int node_link_ensure(struct node_link *link, const struct addr *const *addresses, size_t count);

#endif
