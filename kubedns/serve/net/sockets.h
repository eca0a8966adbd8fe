/*
 * The workers' sockets. Each worker has, for each address, one UDP socket and one TCP listener, all
 * on the same port. A wildcard stands for two addresses, one of each family.
 *
 * The workers' sockets share the port by SO_REUSEPORT. This option would also let a second server
 * share the port unnoticed. Therefore, the port is first bound without SO_REUSEPORT, which fails if
 * the port is in use. With `share`, a second server is expected, for example during a rolling
 * update. An address may then be bound before an interface has it. If another server already has
 * the first address, the sockets are `held`.
 */
#ifndef KUBEDNS_SERVE_NET_SOCKETS_H
#define KUBEDNS_SERVE_NET_SOCKETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/addr.h"

enum {
	SOCKETS_MAX = 4,
	SOCKETS_BACKLOG = 1024, /* for each TCP listener */
};

struct sockets {
	struct server servers[SOCKETS_MAX]; /* the addresses to which they are bound */
	size_t count;
	bool wildcard, share;
	bool held; /* UDP is not bound and TCP does not listen: see shared_port.h */
	unsigned threads;
	int (*udp)[SOCKETS_MAX]; /* sockets by thread and address; -1 after a socket was taken */
	int (*tcp)[SOCKETS_MAX];
};

/*
 * Opens and binds the sockets. `address` is as in workers_config. Port 0 means a port that is free
 * for all sockets. Without IPv6 support, a wildcard means IPv4 only. Returns 0, or -errno after one
 * log line that names the port and the process that uses it.
 */
int sockets_open(
    struct sockets *sockets, const char *address, uint16_t port, bool share, unsigned threads);

/* Closes the sockets that were not taken and frees the arrays. */
void sockets_close(struct sockets *sockets);

#endif
