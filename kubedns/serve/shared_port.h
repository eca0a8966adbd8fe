/*
 * The old and the new kubedns of an update on one port (--share-port). The kernel gives each query
 * to one of the sockets that are bound there, so a kubedns is among them only while it answers:
 *
 *	new: bound, held --first sync, or the other has gone--> joined
 *	old: joined --SIGTERM, and another has joined--> left: answers what it has received
 *
 * A UDP socket is held, and leaves, by being connected to a port where nobody is: the kernel gives
 * it no packet from anywhere else (since Linux 5.9; before, some), and what its queue has stays. A
 * TCP socket is held by not listening; to leave it accepts what is there and is closed.
 */
#ifndef KUBEDNS_SERVE_SHARED_PORT_H
#define KUBEDNS_SERVE_SHARED_PORT_H

#include <stdbool.h>

#include "lib/addr.h"

struct sockets;
struct shared_port;

enum { SHARED_PORT_BACKLOG = 1024 /* of every TCP listener */ };

/* Whether another server has joined at this address and port. */
bool shared_port_is_taken(const struct server *server);

/* Holds a bound UDP socket; 0, or -errno after one log line. */
int shared_port_hold(int udp, const struct server *server);

/* Joins with all of these sockets. */
void shared_port_join(const struct sockets *sockets);

/* Remembers the sockets, which may be taken afterwards, and opens the kernel's list of sockets,
 * while files may be opened. Caller frees. */
struct shared_port *shared_port_new(const struct sockets *sockets);
void shared_port_free(struct shared_port *port);

bool shared_port_held(const struct shared_port *port);

/* Whether another server has joined, beside this one. */
bool shared_port_has_other(const struct shared_port *port);

/* Joins; the workers have still to wait for TCP connections. */
void shared_port_enter(struct shared_port *port);

/* Leaves, with the UDP sockets; TCP's are the workers'. */
void shared_port_leave(struct shared_port *port);

#endif
