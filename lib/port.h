/* Listening sockets. If a socket cannot be opened, the log line names the address, the port and the
 * process that uses the port. */
#ifndef LIB_PORT_H
#define LIB_PORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "lib/addr.h"

enum { PORT_HOLDER_MAX = 64 };

/*
 * Finds the process that has a socket of `type` (SOCK_STREAM, SOCK_DGRAM) at this port. The
 * socket's address must conflict with the address of `server`: the two are the same, or one of them
 * is unspecified. Reads /proc. Writes "dnsmasq (pid 12)" into `text` of PORT_HOLDER_MAX bytes, or
 * "a process of uid 0" if the caller may not see the descriptors. Returns `text`, or NULL if none
 * is found.
 */
const char *port_holder(int type, const struct server *server, char *text);

/* A socket, as listed by the kernel. */
struct port_socket {
	unsigned long inode;
	unsigned uid;
};

/*
 * Lists the UDP sockets of all processes at this port whose address conflicts with the address of
 * `server`, as for port_holder. Returns the number of sockets, at most `max`. It reads the kernel's
 * list once, and may miss a socket while other sockets open and close.
 */
size_t port_udp_sockets(const struct server *server, struct port_socket *sockets, size_t max);

/* Whether process `pid`, in decimal digits, has this socket. Returns false too if the process's
 * descriptors may not be read. */
bool port_process_has(const char *pid, unsigned long inode);

/* Writes the process that has the socket, like port_holder. */
void port_socket_holder(const struct port_socket *socket, char *text);

/*
 * Returns the number of UDP sockets of all processes that are bound to exactly this address and
 * port, and are connected to port `peer`. If `peer` is 0, counts sockets that are not connected.
 * `table` is /proc/net/udp or udp6, depending on the address's family. The table is read again from
 * its beginning until several readings agree.
 */
unsigned port_udp_servers(FILE *table, const struct server *server, uint16_t peer);

/*
 * Parses a listening address, with or without brackets. "0.0.0.0" and "::" become "::" with `dual`
 * set, which covers both families. If the kernel has no IPv6, they become 0.0.0.0. Returns 0 or
 * -EINVAL.
 */
int port_address(const char *text, struct addr *addr, int *dual);

/*
 * Opens a non-blocking, close-on-exec TCP listener with SO_REUSEADDR. `share` adds SO_REUSEPORT,
 * for a port that another process shares. Returns a descriptor, or -errno after one log line that
 * starts with "`what`: cannot listen on ..." and has all known details.
 */
int port_listen(const char *what, const char *address, uint16_t port, bool share, int backlog);

/* Returns the port to which a socket is bound, or 0 if it is not bound. */
uint16_t port_bound(int fd);

/* Writes the log line for a bind(2) that failed with `err`. */
void port_log_failure(const char *what, int type, const struct server *server, int err);

#endif
