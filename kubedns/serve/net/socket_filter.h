/*
 * Drops a share of some clients' packets in the kernel, before they take room in a UDP socket's
 * queue: a classic BPF filter on our own socket, which needs no privilege. The kernel counts them
 * among the socket's drops.
 */
#ifndef KUBEDNS_SERVE_NET_SOCKET_FILTER_H
#define KUBEDNS_SERVE_NET_SOCKET_FILTER_H

#include <stddef.h>

#include "lib/addr.h"

enum { SOCKET_FILTER_MAX = 8 };

struct client_share {
	struct addr addr;
	double share; /* of its packets that pass, 0 to 1 */
};

/*
 * Replaces the filter of `fd`, a UDP socket of `family`, by one for those of the clients that are
 * of that family; none: removes it. At most SOCKET_FILTER_MAX clients. 0 or -errno.
 */
int socket_filter_set(
    int fd, uint8_t family, const struct client_share *clients, size_t client_count);

#endif
