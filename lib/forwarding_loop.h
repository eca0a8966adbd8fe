/*
 * Finds servers that are this program itself: a query forwarded there comes back and is forwarded
 * again, until the table of queries in flight is full. The program is dnsmasq (for nanny) or
 * kubedns.
 *
 * On 0.0.0.0 it answers at every address of the pod and at all of 127.0.0.0/8. dnsmasq itself
 * refuses the addresses of its interfaces, but not 127.0.0.53, which a node's resolv.conf names
 * where systemd-resolved runs and where in a pod nothing else listens; nor the address of the
 * Service that leads to this pod.
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
	const struct addr *listen; /* what the program was told; none: every address */
	size_t listen_count;
	struct server service; /* that leads to this pod; port 0: not known */
	struct server asker;   /* that sends its queries to this program; port 0: none */
	struct addr local[FORWARDING_LOOP_ADDRS_MAX]; /* addresses of this network namespace */
	size_t local_count;
	struct addr others[FORWARDING_LOOP_ADDRS_MAX]; /* loopback addresses at which
					     * something else is bound to our port */
	size_t other_count;
	char itself[64], loopback[96]; /* reasons, with the program's name */
};

/* Prepares for a program that listens on `port` of these addresses (none: of every one), which are
 * borrowed. */
void forwarding_loop_init(struct forwarding_loop *guard, const char *program, uint16_t port,
    const struct addr *listen, size_t listen_count);

/* Takes the Service's address and port, as the kubelet puts them into the environment; NULL or what
 * is no address: not known. */
void forwarding_loop_set_service(struct forwarding_loop *guard, const char *host, const char *port);

/* Takes the server that sends its own queries to this program: kubedns in front of dnsmasq. What is sent
 * to it comes back. */
void forwarding_loop_set_asker(struct forwarding_loop *guard, const struct server *asker);

/* Reads the interfaces' addresses and /proc/net/udp into `local` and `others`. */
void forwarding_loop_refresh(struct forwarding_loop *guard);

/* Adds to `others` what a line of /proc/net/udp says about `guard->port`. */
void forwarding_loop_read_udp_line(struct forwarding_loop *guard, const char *line);

/* Whether what is sent to `server` comes back to the program; `why` then gets a reason that lives
 * as long as the guard. */
bool forwarding_loop_is(
    const struct forwarding_loop *guard, const struct server *server, const char **why);

/* The same of the first of `count` servers of which it holds, as a sentence that begins with `whose`
 * ("": nobody's); NULL: of none. Caller frees. */
char *forwarding_loop_find(const struct forwarding_loop *guard, const char *whose,
    const struct server *servers, size_t count);

#endif
