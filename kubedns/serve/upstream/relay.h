/*
 * Sends queries to a local resolver, dnsmasq or unbound, which caches and forwards. In the front
 * topology, these are queries for all external names. In the classic topology with
 * --search-resolver, these are queries for targets of CNAMEs and for candidates of search lists.
 * transport.h sends them. This file decides when a query is sent again, and when it is sent over
 * TCP: if TC is set and the client uses TCP.
 *
 * The resolver gets our own query, not the client's message. Our query has the client's name, type,
 * CD, AD and DO. An EDNS option of one client, such as a client subnet, must not decide which
 * answer the resolver caches for all clients. The maximum size over UDP is DNS_UDP_PAYLOAD.
 * answer_forwarded() applies the client's limit. dnsmasq forks for each connection and accepts 20 at
 * a time, so a connection carries one query at a time, and queries wait for one of the eight
 * connections.
 *
 * The resolver's receive buffer has space for only a few hundred queries. If it is full, the kernel
 * drops the queries of all clients. So the number of queries that the resolver may not have read yet is
 * limited, and clients share these places (turns.h).
 */
#ifndef KUBEDNS_SERVE_UPSTREAM_RELAY_H
#define KUBEDNS_SERVE_UPSTREAM_RELAY_H

#include <stdint.h>

#include "kubedns/serve/worker_context.h"
#include "lib/addr.h"

struct relay;
struct forwarded_cache;
struct inflight_table;
struct transport;

/* Sets the table's forward_ops. At most `unread_max` queries are sent that the resolver may not have
 * read yet, retries not counted. If nothing tells for 250 ms whether it has read them, it gets as many
 * again. */
struct relay *relay_new(struct worker_context *context, struct inflight_table *inflight,
    struct transport *transport, const struct server *resolver, unsigned unread_max);

/* From now on, the relay finds out whether the resolver checks DNSSEC signatures (validation.h). If
 * so, its SERVFAIL is final: no query moves to the table's fallback. */
void relay_respects_validation(struct relay *relay);

/* From now on, if the reply to a TCP client's query was truncated lately, the query is sent again after
 * 50 ms, not 250 ms. `cache` may be NULL. */
void relay_cache(struct relay *relay, struct forwarded_cache *cache);

/* Call it at the end of each iteration, before transport_iteration(). Sends refused queries again.
 * Returns when to call it again (or CLOCK_NEVER). */
int64_t relay_iteration(struct relay *relay);

/* NULL is fine. No query may be in flight. */
void relay_free(struct relay *relay);

#endif
