/*
 * Which servers are dnsmasq itself: to forward there would go round in circles until every query in
 * the pod is lost.
 *
 * On 0.0.0.0 dnsmasq answers at every address of the pod and at all of 127.0.0.0/8. dnsmasq refuses
 * its interfaces' own addresses, but not 127.0.0.53, which a node's resolv.conf names where
 * systemd-resolved runs, and where in a pod nobody else listens.
 */
#ifndef NANNY_LOOP_GUARD_H
#define NANNY_LOOP_GUARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/addr.h"

enum { LOOP_GUARD_ADDRS_MAX = 256 };

struct loop_guard {
	uint16_t port;
	const struct addr *listen; /* what dnsmasq was told; none: everything */
	size_t listen_count;
	struct addr local[LOOP_GUARD_ADDRS_MAX]; /* addresses of this network namespace */
	size_t local_count;
	struct addr others[LOOP_GUARD_ADDRS_MAX]; /* loopback addresses at which
					     * something else is bound to our port */
	size_t other_count;
};

/* Reads the interfaces' addresses and /proc/net/udp into `local` and `others`. */
void loop_guard_refresh(struct loop_guard *guard);

/* Adds to `others` what a line of /proc/net/udp says about `guard->port`. */
void loop_guard_read_udp_line(struct loop_guard *guard, const char *line);

/* Whether dnsmasq answers at `server`; `why` then gets a static reason. */
bool loop_guard_is(const struct loop_guard *guard, const struct server *server, const char **why);

/* Packets that the kernel dropped for full buffers of sockets bound to `port`,
 * over both families (/proc/net/udp, udp6). */
uint64_t loop_guard_receive_drops(uint16_t port);

#endif
