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
#ifndef LIB_LOOP_GUARD_H
#define LIB_LOOP_GUARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/addr.h"

enum { LOOP_GUARD_ADDRS_MAX = 256 };

struct loop_guard {
	uint16_t port;
	const struct addr *listen; /* what the program was told; none: every address */
	size_t listen_count;
	struct server service;                   /* that leads to this pod; port 0: not known */
	struct addr local[LOOP_GUARD_ADDRS_MAX]; /* addresses of this network namespace */
	size_t local_count;
	struct addr others[LOOP_GUARD_ADDRS_MAX]; /* loopback addresses at which
					     * something else is bound to our port */
	size_t other_count;
	char itself[64], loopback[96]; /* reasons, with the program's name */
};

/* Prepares for a program that listens on `port` of these addresses (none: of every one), which are
 * borrowed. */
void loop_guard_init(struct loop_guard *guard, const char *program, uint16_t port,
    const struct addr *listen, size_t listen_count);

/* Takes the Service's address and port, as the kubelet puts them into the environment; NULL or what
 * is no address: not known. */
void loop_guard_set_service(struct loop_guard *guard, const char *host, const char *port);

/* Reads the interfaces' addresses and /proc/net/udp into `local` and `others`. */
void loop_guard_refresh(struct loop_guard *guard);

/* Adds to `others` what a line of /proc/net/udp says about `guard->port`. */
void loop_guard_read_udp_line(struct loop_guard *guard, const char *line);

/* Whether what is sent to `server` comes back to the program; `why` then gets a reason that lives
 * as long as the guard. */
bool loop_guard_is(const struct loop_guard *guard, const struct server *server, const char **why);

/* The same of the first of `count` servers of which it holds, as a sentence that begins with `whose`
 * ("": nobody's); NULL: of none. Caller frees. */
char *loop_guard_find(
    const struct loop_guard *guard, const char *whose, const struct server *servers, size_t count);

#endif
