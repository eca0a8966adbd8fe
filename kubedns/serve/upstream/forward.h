/*
 * Asks the upstream servers through c-ares: order, health and retries are decided here, the
 * transport is c-ares's.
 *
 *	query --attempt--> channel (one server, one socket, at most 32 queries) --> server
 *
 * c-ares 1.18 keeps a channel's UDP socket, and so its source port, as long as queries are in
 * flight; it always starts with the first server, and cannot change servers while it is busy. So
 * each channel has one server and is replaced after 32 queries (RFC 5452), and an unanswered query
 * is sent to the next server through that server's channel. The first answer to any attempt is
 * taken; a server that has failed is tried last for a while.
 */
#ifndef KUBEDNS_SERVE_UPSTREAM_FORWARD_H
#define KUBEDNS_SERVE_UPSTREAM_FORWARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kubedns/serve/worker_context.h"
#include "lib/addr.h"

struct forward;
struct inflight_table;

/* How a forwarder asks, and which of the worker's parts it is. */
struct forward_way {
	enum worker_part part; /* of its descriptors' keys */
	bool tcp;              /* over TCP alone: a connection for 32 queries at most */
	int64_t timeout_ms;    /* of a query; 0: FORWARD_TIMEOUT_MS */
};

/* Sets the table's forward_ops. `servers` is copied; none at all is legal: SERVFAIL. */
struct forward *forward_new(struct worker_context *context, struct inflight_table *inflight,
    struct forward_way way, const struct server *servers, size_t count);

/*
 * Queries go to these servers from now on, in this order. A server that stays in the list keeps its
 * health. A query in flight still takes the answer of a server that it was sent to; if none comes,
 * it is sent to each server of the new list.
 */
void forward_servers(struct forward *forward, const struct server *servers, size_t count);

/* An epoll event: which channel, which descriptor. */
void forward_event(struct forward *forward, uint32_t slot, int fd, uint32_t events);

/*
 * At the end of each turn: sends failed queries to the next server and closes used-up channels;
 * returns when it must be called again (worker time, 0: not at all).
 */
int64_t forward_turn(struct forward *forward);

/* No query may be in flight; NULL is fine. */
void forward_free(struct forward *forward);

#endif
