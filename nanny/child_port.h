/*
 * Checks dnsmasq's port in /proc/net/udp and /proc/net/udp6. Looks for sockets of other processes,
 * and for packets that the kernel dropped.
 *
 * dnsmasq sets SO_REUSEADDR. Linux therefore lets other processes bind the same port, and delivers
 * queries to the socket that was bound last. The other process could then answer in place of
 * dnsmasq.
 *
 *	/proc/net/udp{,6} --> sockets at the port, except sockets of the nanny's children
 *	                  --> seen by two checks --> log, metric, /config
 */
#ifndef NANNY_CHILD_PORT_H
#define NANNY_CHILD_PORT_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "lib/port.h"
#include "nanny/args.h"

enum {
	CHILD_PORT_LOOK_MS = 2000,
	CHILD_PORT_MAX = 16, /* sockets examined; dnsmasq has one for each address */
};

/* All zeros: nothing seen yet. */
struct child_port {
	/* sockets of other processes, from the last check */
	struct port_socket seen[CHILD_PORT_MAX];
	size_t seen_count;
	size_t others;                /* number of these sockets that the previous check saw too */
	char holder[PORT_HOLDER_MAX]; /* process that owns one of these sockets */
	int64_t next_ms;
};

/*
 * Checks the port if it is time, and logs when another process opens or closes a socket there.
 * `child` is the PID of a child that answers. With PID 0, the check is skipped. `name` is its name for
 * messages. Checks only the
 * addresses that dnsmasq's arguments tell it to listen on.
 */
void child_port_look(struct child_port *port, const char *name, const struct args *args,
    pid_t child, int64_t now_ms);

/*
 * Returns how many packets the kernel dropped because the receive buffer of dnsmasq's socket was
 * full. Adds up the drops of all UDP sockets (IPv4 and IPv6) that are currently bound to `port`.
 * The kernel counts the drops of a socket from the time when it was bound.
 */
uint64_t child_port_drops(uint16_t port);

#endif
