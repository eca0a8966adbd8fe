/*
 * Queries over TCP (RFC 7766). A connection may have many queries. Queries are answered as soon as
 * possible, in any order.
 *
 *	accept -> reading <-> blocked (the client does not read its replies)
 *	             '-> closing (until the client has read everything) -> closed
 *
 * While a module has a connection (answer/message.h), the connection is blocked.
 *
 * An idle connection has no buffer. The start of a message is stored until the remaining bytes
 * arrive. Replies that the client does not read are stored up to a limit. A message must be
 * complete, and a reply must be read, within the idle timeout. Single bytes do not restart that
 * timeout. When all connections are in use, the connection that has been idle longest is closed to
 * make way for a new connection. If the old connection was never read, it is read before it is
 * closed. A client address may use half of the free connections and half of the free memory.
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
	unsigned connections; /* connections of this worker */
	size_t memory;        /* bytes for buffers of this worker */
	int64_t idle_ns;
	size_t second; /* number of listeners at the second address, which come last */
};

enum { TCP_LISTENERS_MAX = 6 /* one for each address: see UDP_SOCKETS_MAX */ };

/* Takes ownership of the listeners, which must be bound and non-blocking. Call tcp_listen()
 * next. */
struct tcp *tcp_new(struct worker_context *context, struct inflight_table *inflight,
    const int *listeners, size_t count, const struct tcp_config *config);

/* Starts to listen and to wait for connections. Call it after tcp_new(), and again after
 * tcp_leave(). */
void tcp_listen(struct tcp *tcp);

/* Accepts the pending connections and stops listening. Existing connections stay open. */
void tcp_leave(struct tcp *tcp);

/* Handle epoll events. */
void tcp_accept(struct tcp *tcp, unsigned listener);
void tcp_event(struct tcp *tcp, uint32_t slot, uint32_t generation, uint32_t events);

/* Closes overdue connections. Returns when to call it again (worker time, or CLOCK_NEVER). */
int64_t tcp_iteration(struct tcp *tcp);

/*
 * A query of this connection is now in flight to another server. The connection is not idle, and
 * stays open for the reply even if the client closes its sending side.
 */
void tcp_defer(struct tcp *tcp, const struct tcp_peer *peer);

/*
 * Write the reply to a query for which tcp_defer() was called. tcp_reply_reserve() returns a buffer
 * of DNS_TCP_MAX bytes. tcp_reply_done() gets the length of the reply, or 0 if there is none.
 * No other function of this module may be called in between.
 */
uint8_t *tcp_reply_reserve(struct tcp *tcp);
void tcp_reply_done(struct tcp *tcp, const struct tcp_peer *peer, size_t len);

/* Reports that a module has returned a connection. If `usable` is true, the connection can
 * continue. */
void tcp_returned(struct tcp *tcp, uint32_t slot, uint32_t generation, bool usable);

/*
 * Returns how many connections all workers together may have. First raises the limit of open files
 * as far as possible. If too few descriptors would remain, logs a line and returns less than
 * `wanted`.
 */
unsigned tcp_connections_allowed(unsigned wanted);

/* Closes all connections. NULL is fine. */
void tcp_free(struct tcp *tcp);

#endif
