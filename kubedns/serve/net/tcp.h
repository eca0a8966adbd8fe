/*
 * Queries over TCP (RFC 7766): many on a connection, answered as they become ready, in any order.
 *
 *	accept -> reading <-> blocked (the client does not read its replies)
 *	             '-> closing (until the client has read everything) -> closed
 *
 * While a zone transfer is sent on a connection (transfer.h), the connection is blocked.
 *
 * An idle connection has no buffer. The beginning of a message is kept until the rest arrives, and
 * replies that the client does not read are kept up to a bound. A message must be complete, and a
 * reply read, within the idle timeout, which single bytes do not restart. When all connections are
 * in use, the one that has been idle for longest is closed for a new one, after it has been read if it
 * never was. A client address may take half of the free connections, and half of the free memory.
 */
#ifndef KUBEDNS_SERVE_NET_TCP_H
#define KUBEDNS_SERVE_NET_TCP_H

#include <stddef.h>
#include <stdint.h>

#include "kubedns/serve/client.h"
#include "kubedns/serve/worker_context.h"

struct inflight_table;
struct tcp;

struct tcp_config {
	unsigned connections; /* of this worker */
	size_t memory;        /* bytes of buffers, of this worker */
	int64_t idle_ns;
	size_t external; /* the last so many listeners are those of --external-address */
};

enum { TCP_LISTENERS_MAX = 6 /* one an address: see UDP_SOCKETS_MAX */ };

/* Takes ownership of the listeners, bound and non-blocking; tcp_listen() is next. */
struct tcp *tcp_new(struct worker_context *context, struct inflight_table *inflight,
    const int *listeners, size_t count, const struct tcp_config *config);

/* Listens, and waits for connections; the first time, and again after tcp_leave(). */
void tcp_listen(struct tcp *tcp);

/* Accepts what waits, and listens no more; connections stay. */
void tcp_leave(struct tcp *tcp);

/* epoll events. */
void tcp_accept(struct tcp *tcp, unsigned listener);
void tcp_event(struct tcp *tcp, uint32_t slot, uint32_t generation, uint32_t events);

/* Closes overdue connections; returns when it must be called again (worker time, 0: not at all). */
int64_t tcp_turn(struct tcp *tcp);

/*
 * A query of this connection is in flight to another server: the connection is not idle, and stays
 * open for the reply after the client has closed its sending side.
 */
void tcp_hold(struct tcp *tcp, const struct tcp_peer *peer);

/*
 * The reply to a held query: room of DNS_TCP_MAX bytes, then its length (0: none), which ends
 * the hold. Nothing else of this module may be called between the two.
 */
uint8_t *tcp_reply_room(struct tcp *tcp);
void tcp_reply_done(struct tcp *tcp, const struct tcp_peer *peer, size_t len);

/* The zone transfer on a connection has ended. `whole`: the connection can go on. */
void tcp_streamed(struct tcp *tcp, uint32_t slot, uint32_t generation, bool whole);

/*
 * How many connections all workers together may have: `wanted`, or fewer after a log line, so that
 * descriptors are left for everything else. Raises the limit of open files as far as it goes first.
 */
unsigned tcp_connections_allowed(unsigned wanted);

/* Closes everything; NULL is fine. */
void tcp_free(struct tcp *tcp);

#endif
