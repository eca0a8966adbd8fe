/*
 * During an update, the old and the new kubedns share one port (--share-port). The kernel gives
 * each query to one of the sockets bound there, so a kubedns must only be bound while it answers.
 *
 *	new kubedns: held --it can answer, or the old kubedns has exited--> joined
 *	old kubedns: joined --SIGTERM, and the new kubedns has joined--> left --the new kubedns has exited--> joined
 *
 * A new kubedns is "held" until it joins, and its UDP socket is not bound. To leave, kubedns
 * connects the UDP socket to an unused port. The kernel then delivers only packets from that port
 * (always since Linux 5.9, and most of the time in older versions). Packets in the queue stay. The
 * socket can return without the permission to bind a port below 1024. But after a return, the
 * socket is not a full member of the group any more. All queries then go to one of the sockets
 * (seen on Linux 6.18). For this reason, a held kubedns does not connect its socket in this way.
 *
 * A TCP socket is bound from the start, because it is in the group only while it listens. To leave,
 * kubedns accepts the pending connections and stops listening (tcp.h).
 */
#ifndef KUBEDNS_SERVE_NET_SHARED_PORT_H
#define KUBEDNS_SERVE_NET_SHARED_PORT_H

#include <stdbool.h>

#include "lib/addr.h"

struct sockets;
struct shared_port;

/* Returns whether another server has joined at this address and port, or has left and may
 * return. */
bool shared_port_is_taken(const struct server *server);

/* Copies the list of sockets, and opens the kernel's list of sockets. Afterwards, others may take
 * over the sockets. Call this function while the process may still open files. The caller frees
 * the result. */
struct shared_port *shared_port_new(const struct sockets *sockets);
void shared_port_free(struct shared_port *port);

/* Returns whether this server has not joined yet, or has left. */
bool shared_port_held(const struct shared_port *port);

/* Returns whether another server has joined. Before this server has joined, a server that has
 * left counts too, because that server returns unless another server joins. */
bool shared_port_has_other(const struct shared_port *port);

/*
 * Joins or returns with the UDP sockets. The workers handle the TCP sockets. Returns 0, or -errno
 * after one log line that names the address, the port, and the process that uses it. After an
 * error, some sockets may have joined.
 */
int shared_port_enter(struct shared_port *port);

/*
 * Leaves with the UDP sockets. Returns 0, or -errno if no socket has left. A socket cannot leave
 * without a route to its address, for example while the interface is down. Only the first failure
 * is logged.
 */
int shared_port_leave(struct shared_port *port);

#endif
