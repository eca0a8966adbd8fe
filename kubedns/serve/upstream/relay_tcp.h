/*
 * The relay's TCP connections to the resolver, for replies that do not fit into UDP. dnsmasq forks
 * for each connection and accepts 20 at a time. The relay therefore opens only a few connections. A
 * connection carries one query at a time. Clients share the connections (turns.h).
 */
#ifndef KUBEDNS_SERVE_UPSTREAM_RELAY_TCP_H
#define KUBEDNS_SERVE_UPSTREAM_RELAY_TCP_H

#include <stddef.h>
#include <stdint.h>

#include "kubedns/serve/worker_context.h"
#include "kubedns/serve/upstream/inflight.h"
#include "kubedns/serve/upstream/turns.h"
#include "lib/addr.h"

struct relay_port;
struct relay_conn;

/* A query in flight with the relay's own data. */
struct relay_query {
	struct inflight base;
	/* the port that sent the query; `place` is the query's index there */
	struct relay_port *port;
	struct relay_conn *conn; /* or the connection that sent the query */
	unsigned place;
	unsigned waited; /* number of retry intervals without an answer */
	/* the query is or will be sent over TCP, because its UDP reply was truncated */
	bool over_tcp;
	/* the query is in a queue, to be sent again or to be sent on a free connection */
	bool queued;
	int64_t again_at_ns; /* for a refused query: the time to send it again */
	int64_t sent_ns;     /* time of the first send from this port or connection, for dnstap */
	TAILQ_ENTRY(relay_query) by_queue; /* in relay.c's queue of queries to send again */
	struct turn turn;                  /* its place among the queries over TCP */
};

static inline struct relay_query *
relay_query_of(struct inflight *inflight)
{
	_Static_assert(offsetof(struct relay_query, base) == 0, "the base is embedded first");
	return (struct relay_query *)(void *)inflight;
}

static inline struct relay_query *
relay_query_of_turn(struct turn *turn)
{
	return (struct relay_query *)(void *)((uint8_t *)turn - offsetof(struct relay_query, turn));
}

struct relay_tcp;

struct relay_tcp *relay_tcp_new(
    struct worker_context *context, struct inflight_table *inflight, const struct server *resolver);

/* Sends the query over TCP, now or when a connection is free. Must not be called inside an event
 * of this module. */
void relay_tcp_ask(struct relay_tcp *tcp, struct relay_query *query);

/* Removes a query that has ended from the queue, or closes its connection. */
void relay_tcp_forget(struct relay_tcp *tcp, struct relay_query *query);

/* Handles an epoll event. */
void relay_tcp_ready(struct relay_tcp *tcp, uint32_t slot, uint32_t generation, uint32_t events);

void relay_tcp_free(struct relay_tcp *tcp);

/* Returns whether `reply` answers the question that was sent for `inflight`, and has this ID. */
bool relay_matches(const struct inflight *inflight, uint16_t id, const uint8_t *reply, size_t len);

#endif
