/*
 * The relay's few TCP connections to the resolver, for replies that do not fit into UDP. dnsmasq
 * forks for each connection and takes 20 at a time, so queries wait for one of a few connections,
 * each of which carries one query at a time.
 */
#ifndef KUBEDNS_SERVE_UPSTREAM_RELAY_TCP_H
#define KUBEDNS_SERVE_UPSTREAM_RELAY_TCP_H

#include <stddef.h>
#include <stdint.h>

#include "kubedns/serve/worker_context.h"
#include "kubedns/serve/upstream/inflight.h"
#include "lib/addr.h"

struct relay_port;
struct relay_conn;

/* A query in flight, as the relay sees it. */
struct relay_query {
	struct inflight base;
	struct relay_port *port; /* it was sent by this one, from `place`; */
	struct relay_conn *conn; /* or by this one; */
	unsigned place;
	unsigned waited;     /* retry intervals without an answer */
	bool over_tcp;       /* or will be: its reply over UDP was truncated */
	bool queued;         /* to be sent again, or when there is a connection */
	int64_t again_at_ns; /* of a query that was refused: when it is sent again */
	TAILQ_ENTRY(relay_query) by_queue;
};

static inline struct relay_query *
relay_query_of(struct inflight *inflight)
{
	_Static_assert(offsetof(struct relay_query, base) == 0, "the base is embedded first");
	return (struct relay_query *)(void *)inflight;
}

struct relay_tcp;

struct relay_tcp *relay_tcp_new(
    struct worker_context *context, struct inflight_table *inflight, const struct server *resolver);

/* Asks over TCP: now, or when a connection is free. Not from inside an event of its own. */
void relay_tcp_ask(struct relay_tcp *tcp, struct relay_query *query);

/* The query has ended: takes it out of the queue, or closes its connection. */
void relay_tcp_forget(struct relay_tcp *tcp, struct relay_query *query);

/* An epoll event. */
void relay_tcp_ready(struct relay_tcp *tcp, uint32_t slot, uint32_t generation, uint32_t events);

void relay_tcp_free(struct relay_tcp *tcp);

/* Whether `reply` answers the question that was asked for `inflight`, and has this ID. */
bool relay_matches(const struct inflight *inflight, uint16_t id, const uint8_t *reply, size_t len);

#endif
