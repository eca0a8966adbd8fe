/*
 * The workers' sockets: for each worker and address one for UDP and one that listens for TCP, all
 * on one port. A wildcard is two addresses, one of each family.
 *
 * They share the port by SO_REUSEPORT, which would let a second server share it unnoticed; so the
 * port is first bound without it, which fails if it is in use. With `share` a second server is
 * expected, the next one of a rolling update, and an address may be bound before an interface has
 * it; if another server has the first address already, the sockets are `held`.
 */
#ifndef KUBEDNS_SERVE_NET_SOCKETS_H
#define KUBEDNS_SERVE_NET_SOCKETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/addr.h"

enum {
	SOCKETS_MAX = 4,
	SOCKETS_BACKLOG = 1024, /* of every TCP listener */
};

struct sockets {
	struct server servers[SOCKETS_MAX]; /* where they are bound */
	size_t count;
	bool wildcard, share;
	bool held; /* UDP is not bound, TCP does not listen: see shared_port.h */
	unsigned threads;
	int (*udp)[SOCKETS_MAX]; /* by thread and address; -1 once taken */
	int (*tcp)[SOCKETS_MAX];
};

/*
 * Binds them: `address` as in workers_config, port 0 for one that is free everywhere. Where IPv6
 * is missing, a wildcard means IPv4 alone. 0, or -errno after one log line that names the port
 * and who holds it.
 */
int sockets_open(
    struct sockets *sockets, const char *address, uint16_t port, bool share, unsigned threads);

/* Closes the sockets that were not taken and frees the arrays. */
void sockets_close(struct sockets *sockets);

#endif
