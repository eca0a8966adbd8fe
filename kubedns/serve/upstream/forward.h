/*
 * Queries to the upstream servers. This file decides the order of servers, their health, and
 * retries. transport.h sends the queries.
 *
 * An unanswered query is sent to the next server. Earlier attempts stay open, and the first answer
 * to any attempt is used. A server that has failed is tried last for some time. An unanswered query is
 * such a failure only if the server has replied to nothing since, or if another server answers the query. A
 * server that replies FORMERR gets the query once more without EDNS. A truncated reply makes the query go
 * over TCP.
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
struct transport;

/* How a forwarder sends queries. */
struct forward_way {
	bool tcp;           /* use only TCP */
	int64_t timeout_ms; /* timeout of a query; if 0, FORWARD_TIMEOUT_MS */
	int64_t again_ms; /* time until a query is sent to the next server; if 0, it depends on the
			     * number of servers */
};

/* Sets the table's forward_ops. Copies `servers`. Without any server, queries are answered
 * SERVFAIL. */
struct forward *forward_new(struct worker_context *context, struct inflight_table *inflight,
    struct transport *transport, struct forward_way way, const struct server *servers,
    size_t count);

/*
 * From now on, queries are sent to these servers, in this order. A server that stays in the list
 * keeps its health. A query in flight still accepts a response from a server to which it was sent.
 * If no such response arrives, the query is sent to each server of the new list.
 */
void forward_servers(struct forward *forward, const struct server *servers, size_t count);

/* Call it at the end of each iteration, before transport_iteration(). Sends failed queries to the
 * next server. */
void forward_iteration(struct forward *forward);

/* NULL is fine. No query may be in flight. */
void forward_free(struct forward *forward);

#endif
