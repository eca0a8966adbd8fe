/*
 * Listening sockets, and a message when one cannot be opened: which address, which port, and which
 * process holds it.
 */
#ifndef LIB_PORT_H
#define LIB_PORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "lib/addr.h"

enum { PORT_HOLDER_MAX = 64 };

/*
 * Which process has a socket of `type` (SOCK_STREAM, SOCK_DGRAM) at this port whose address is in
 * the way of `server`'s: the same, or one of both the unspecified one. Read from /proc: "dnsmasq
 * (pid 12)", or "a process of uid 0" when its descriptors may not be seen, in `text` of
 * PORT_HOLDER_MAX bytes. Returns it, or NULL if none is found.
 */
const char *port_holder(int type, const struct server *server, char *text);

/* A socket, as the kernel lists it. */
struct port_socket {
	unsigned long inode;
	unsigned uid;
};

/*
 * The UDP sockets of all processes at this port whose address is in the way of `server`'s: the same,
 * or one of both the unspecified one. Returns how many, at most `max`. One reading of the kernel's
 * lists: while other sockets open and close, it may miss one.
 */
size_t port_udp_sockets(const struct server *server, struct port_socket *sockets, size_t max);

/* Whether process `pid`, in decimal digits, has this socket; false too if its descriptors may not be
 * seen. */
bool port_process_has(const char *pid, unsigned long inode);

/* Writes who holds the socket, as port_holder does. */
void port_socket_holder(const struct port_socket *socket, char *text);

/*
 * How many UDP sockets, of whatever process, are bound to exactly this address and port, and
 * connected to port `peer`; 0: not connected. `table` is /proc/net/udp or udp6, by the address's
 * family; it is read from its beginning, until some readings agree.
 */
unsigned port_udp_servers(FILE *table, const struct server *server, uint16_t peer);

/*
 * Parses a listening address, with or without brackets. "0.0.0.0" and "::" become "::" with `dual`
 * set: both families, where the kernel has IPv6, else 0.0.0.0. 0 or -EINVAL.
 */
int port_address(const char *text, struct addr *addr, int *dual);

/*
 * Opens a non-blocking, close-on-exec listener for TCP with SO_REUSEADDR, and SO_REUSEPORT where
 * the port is to be shared with another that does (`share`). A descriptor, or -errno after one log
 * line that says "`what`: cannot listen on ..." with all that is known.
 */
int port_listen(const char *what, const char *address, uint16_t port, bool share, int backlog);

/* The port to which a socket is bound; 0 if it is not. */
uint16_t port_bound(int fd);

/* The log line of a bind(2) that failed with `err`. */
void port_log_failure(const char *what, int type, const struct server *server, int err);

#endif
