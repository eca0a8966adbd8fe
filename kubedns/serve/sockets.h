/*
 * The sockets that workers serve: for each worker and address family one for UDP and one that
 * listens for TCP, all on one port.
 *
 * They share the port by SO_REUSEPORT, which would also let a second server share it unnoticed; so
 * the port is first bound without it, which fails if it is in use.
 */
#ifndef KUBEDNS_SERVE_SOCKETS_H
#define KUBEDNS_SERVE_SOCKETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/addr.h"

enum { SOCKETS_FAMILIES = 2 };

struct sockets {
	struct server servers[SOCKETS_FAMILIES]; /* where they are bound */
	size_t families;
	bool wildcard;
	unsigned threads;
	int (*udp)[SOCKETS_FAMILIES]; /* by thread and family; -1 once taken */
	int (*tcp)[SOCKETS_FAMILIES];
};

/*
 * Binds them: `address` as in workers_config, port 0 for one that is free everywhere. Where IPv6
 * is missing, a wildcard means IPv4 alone. 0, or -errno after one log line that names the port
 * and who holds it.
 */
int sockets_open(struct sockets *sockets, const char *address, uint16_t port, unsigned threads);

/* Closes the sockets that were not taken and frees the arrays. */
void sockets_close(struct sockets *sockets);

#endif
