/*
 * The relay's few TCP connections to the resolver, for replies that do not fit into UDP. dnsmasq
 * forks for each and takes 20 at a time, so a query waits its turn for one of a handful, and
 * each carries one query at a time.
 */
#ifndef KUBEDNS_SERVE_RELAY_TCP_H
#define KUBEDNS_SERVE_RELAY_TCP_H

#include <stddef.h>
#include <stdint.h>

#include "kubedns/serve/worker_context.h"
#include "kubedns/serve/inflight.h"
#include "lib/addr.h"

struct relay_tcp;

/*
 * `write` makes the message for a pending query with this ID, into room of DNS_UDP_QUERY_MAX bytes.
 */
struct relay_tcp *relay_tcp_new(struct worker *worker, const struct server *resolver,
    size_t (*write)(const struct inflight *inflight, uint16_t id, uint8_t *out));

/* Asks over TCP: now, or when a connection is free. Not from inside an event of its own. */
void relay_tcp_ask(struct relay_tcp *tcp, struct inflight *inflight);

/* It is over: out of the queue, or its connection is closed. */
void relay_tcp_forget(struct relay_tcp *tcp, struct inflight *inflight);

/* An event of the loop. */
void relay_tcp_ready(struct relay_tcp *tcp, uint32_t slot, uint32_t generation, uint32_t events);

void relay_tcp_free(struct relay_tcp *tcp);

/* Whether `reply` is one to the question that was asked for `pending`, with this ID. */
bool relay_matches(const struct inflight *inflight, uint16_t id, const uint8_t *reply, size_t len);

#endif
