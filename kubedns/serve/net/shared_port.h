/*
 * The old and the new kubedns of an update on one port (--share-port). The kernel gives each query
 * to one of the sockets that are bound there, so a kubedns is among them only while it answers:
 *
 *	new: held --it can answer, or the other has gone--> joined
 *	old: joined --SIGTERM, and another has joined--> left --the other has gone--> joined
 *
 * Held, a UDP socket is not bound. It leaves by being connected to a port where nobody is: the
 * kernel gives it no packet from anywhere else (since Linux 5.9; before, some), what its queue has
 * stays, and it can come back without the right to bind a port below 1024. But a socket that was
 * connected is no full member of the group any more: after a return all queries come to one of the
 * sockets, which is why a socket is not held in this way, too (seen on Linux 6.18).
 *
 * TCP is bound from the start: a socket is in the group only while it listens. To leave, it accepts
 * what is there and listens no more (tcp.h).
 */
#ifndef KUBEDNS_SERVE_NET_SHARED_PORT_H
#define KUBEDNS_SERVE_NET_SHARED_PORT_H

#include <stdbool.h>

#include "lib/addr.h"

struct sockets;
struct shared_port;

/* Whether another server has joined at this address and port, or has left and may return. */
bool shared_port_is_taken(const struct server *server);

/* Remembers the sockets, which may be taken afterwards, and opens the kernel's list of sockets,
 * while files may be opened. Caller frees. */
struct shared_port *shared_port_new(const struct sockets *sockets);
void shared_port_free(struct shared_port *port);

/* Whether it has not joined yet, or has left. */
bool shared_port_held(const struct shared_port *port);

/* Whether another server has joined, beside this one. Before this one has joined, a server that has left
 * counts too: it returns unless another joins. */
bool shared_port_has_other(const struct shared_port *port);

/*
 * Joins, or returns, with the UDP sockets; TCP's are the workers'. 0, or -errno after one log line
 * that names address and port, and who holds it; some sockets may have joined then.
 */
int shared_port_enter(struct shared_port *port);

/*
 * Leaves, with the UDP sockets. 0, or -errno, when none of them has left: without a route to the
 * address, as while its interface is away, no socket can. Only the first failure is logged.
 */
int shared_port_leave(struct shared_port *port);

#endif
