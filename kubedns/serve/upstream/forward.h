/*
 * Sends queries to the upstream servers through c-ares. This module decides the order of servers,
 * their health, and retries. c-ares is the transport.
 *
 *	query --attempt--> channel (one server, one socket, at most 32 queries) --> server
 *
 * c-ares 1.18 keeps a channel's UDP socket, and so its source port, as long as queries are in
 * flight. c-ares always starts with the first server, and cannot change servers while a channel is
 * busy. Each channel therefore has one server and is replaced after 32 queries (RFC 5452). An
 * unanswered query is sent to the next server through that server's channel. The first response to
 * any attempt is used. A server that has failed is tried last for some time.
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

/* How a forwarder sends queries, and which part of the worker it is. */
struct forward_way {
	enum worker_part part; /* value of worker_part in the keys of the forwarder's descriptors */
	bool tcp;              /* use only TCP, with at most 32 queries on a connection */
	int64_t timeout_ms;    /* timeout of a query; if 0, FORWARD_TIMEOUT_MS */
};

/* Sets the table's forward_ops. Copies `servers`. Without any server, queries are answered
 * SERVFAIL. */
struct forward *forward_new(struct worker_context *context, struct inflight_table *inflight,
    struct forward_way way, const struct server *servers, size_t count);

/*
 * From now on, queries are sent to these servers, in this order. A server that stays in the list
 * keeps its health. A query in flight still accepts a response from a server to which it was sent.
 * If no such response arrives, the query is sent to each server of the new list.
 */
void forward_servers(struct forward *forward, const struct server *servers, size_t count);

/* Handles an epoll event for a descriptor of a channel. */
void forward_event(struct forward *forward, uint32_t slot, int fd, uint32_t events);

/*
 * Call it at the end of each iteration. Sends failed queries to the next server, and closes used-up
 * channels. Returns when to call it again (worker time, or CLOCK_NEVER).
 */
int64_t forward_iteration(struct forward *forward);

/* NULL is fine. No query may be in flight. */
void forward_free(struct forward *forward);

#endif
