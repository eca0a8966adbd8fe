/*
 * Finds servers that are this program itself. A query that the program forwards to itself is
 * forwarded again and again, until the table of queries in flight is full. In the nanny, the
 * program is dnsmasq. In kubedns, it is kubedns itself.
 *
 * A program on 0.0.0.0 answers at every address of the pod and at all of 127.0.0.0/8. dnsmasq
 * refuses the addresses of its interfaces as upstreams. But dnsmasq accepts the address of the
 * Service that leads to this pod, and 127.0.0.53. A node with systemd-resolved has 127.0.0.53 in
 * its resolv.conf; in a pod, only this program listens there.
 */
#ifndef LIB_FORWARDING_LOOP_H
#define LIB_FORWARDING_LOOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/addr.h"

enum { FORWARDING_LOOP_ADDRS_MAX = 256 };

struct forwarding_loop {
	uint16_t port;
	const struct addr *listen; /* addresses that the program listens on; if there are none, it
				    * listens on all */
	size_t listen_count;
	struct server service; /* the Service that leads to this pod; port 0: unknown */
	struct server asker;   /* the server that forwards queries to this program; port 0: none */
	struct addr local[FORWARDING_LOOP_ADDRS_MAX]; /* addresses of this network namespace */
	size_t local_count;
	struct addr others[FORWARDING_LOOP_ADDRS_MAX]; /* loopback addresses where another socket is
						        * bound to our port */
	size_t other_count;
	char itself[64], loopback[96]; /* reasons that contain the program's name */
};

/* Prepares for a program that listens on `port` of these addresses, which are borrowed. If there
 * are no addresses, the program listens on all. */
void forwarding_loop_init(struct forwarding_loop *guard, const char *program, uint16_t port,
    const struct addr *listen, size_t listen_count);

/* Sets the Service's address and port from the kubelet's environment variables. If `host` is NULL,
 * or if one of the two is invalid, the Service is unknown. */
void forwarding_loop_set_service(struct forwarding_loop *guard, const char *host, const char *port);

/* Sets a server that forwards queries to this program. In the front topology, kubedns forwards to
 * dnsmasq. If this program sends a query to that server, the query returns. */
void forwarding_loop_set_asker(struct forwarding_loop *guard, const struct server *asker);

/* Reads the interfaces' addresses and /proc/net/udp into `local` and `others`. */
void forwarding_loop_refresh(struct forwarding_loop *guard);

/* Adds the address in a line of /proc/net/udp to `others` if its port is `guard->port`. */
void forwarding_loop_read_udp_line(struct forwarding_loop *guard, const char *line);

/* Whether queries sent to `server` return to the program. If so, `why` gets a reason that lives as
 * long as the guard. */
bool forwarding_loop_is(
    const struct forwarding_loop *guard, const struct server *server, const char **why);

/*
 * Finds the first of `count` servers that forwarding_loop_is() reports. Returns a sentence about
 * it, or NULL if there is none. The sentence begins with `whose`, or with the server if `whose` is
 * "". Caller frees.
 */
char *forwarding_loop_find(const struct forwarding_loop *guard, const char *whose,
    const struct server *servers, size_t count);

#endif
