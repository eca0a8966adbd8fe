/*
 * dnsmasq's port as /proc/net/udp and udp6 show it: sockets of others, and packets that the kernel dropped.
 *
 * Looks for other processes' UDP sockets at dnsmasq's address and port. dnsmasq sets SO_REUSEADDR, so
 * Linux lets any process that may bind the port bind it too, and gives queries to the socket that was
 * bound last: that process can answer in dnsmasq's place.
 *
 *	/proc/net/udp{,6} --> sockets at the port, without those of the nanny's children
 *	                  --> seen in two looks --> log, metric, /config
 */
#ifndef NANNY_DNSMASQ_PORT_H
#define NANNY_DNSMASQ_PORT_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "lib/port.h"
#include "nanny/dnsmasq/args.h"

enum {
	DNSMASQ_PORT_LOOK_MS = 2000,
	DNSMASQ_PORT_MAX = 16, /* sockets looked at; dnsmasq has one for each address */
};

/* All zeros: nothing seen yet. */
struct dnsmasq_port {
	struct port_socket seen[DNSMASQ_PORT_MAX]; /* others' sockets in the last look */
	size_t seen_count;
	size_t others;                /* of them those that the look before had too */
	char holder[PORT_HOLDER_MAX]; /* of one of `others` */
	int64_t next_ms;
};

/* Looks when it is time, and logs when another process comes or goes. `dnsmasq`: its process, which
 * answers; 0: not now. Only addresses that dnsmasq was told to listen at are looked at. */
void dnsmasq_port_look(
    struct dnsmasq_port *port, const struct args *args, pid_t dnsmasq, int64_t now_ms);

/* Packets that the kernel dropped because a socket's buffer was full, so that dnsmasq never read them: of the
 * UDP sockets of both families that are bound to `port` now, since they were bound. */
uint64_t dnsmasq_port_drops(uint16_t port);

#endif
