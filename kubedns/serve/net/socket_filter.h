/*
 * Drops a share of some clients' packets in the kernel, before they use space in a UDP socket's
 * queue. This is a classic BPF filter on our own socket, which needs no privilege. The kernel
 * includes the dropped packets in the socket's drop counter.
 */
#ifndef KUBEDNS_SERVE_NET_SOCKET_FILTER_H
#define KUBEDNS_SERVE_NET_SOCKET_FILTER_H

#include <stddef.h>

#include "lib/addr.h"

enum { SOCKET_FILTER_MAX = 8 };

struct client_share {
	struct addr addr;
	double share; /* share of the client's packets that pass, from 0 to 1 */
};

/*
 * Replaces the filter of `fd`, a UDP socket of `family`, by a filter for the clients of that
 * family. If there are no such clients, removes the filter. There may be at most SOCKET_FILTER_MAX
 * clients. Returns 0 or -errno.
 */
int socket_filter_set(
    int fd, uint8_t family, const struct client_share *clients, size_t client_count);

#endif
