/*
 * Asks a local dnsmasq, which caches and forwards: in the front topology for all names that are not
 * ours, in the classic one with --search-resolver for the targets of CNAMEs and search walks.
 *
 *	query --> port (a connected UDP socket for 32 queries) --> dnsmasq --> client
 *	              '- TC set and the client uses TCP: asked again over TCP
 *
 * dnsmasq gets a question of ours, not the client's message: name, type, CD, AD and DO. An EDNS option
 * of one client, such as a client subnet, would decide what dnsmasq caches for all. The size that we
 * take over UDP is DNS_UDP_PAYLOAD; answer_forwarded() respects the client's. A reply is taken only
 * from the resolver, at the port that asked, with the ID and the question that were sent. Batches
 * in both directions: the queries of one turn leave in one sendmmsg() (relay_batch.h).
 */
#ifndef KUBEDNS_SERVE_UPSTREAM_RELAY_H
#define KUBEDNS_SERVE_UPSTREAM_RELAY_H

#include <stdint.h>

#include "kubedns/serve/worker_context.h"
#include "lib/addr.h"

struct relay;
struct inflight_table;

/* Sets the table's forward_ops. */
struct relay *relay_new(
    struct worker_context *context, struct inflight_table *inflight, const struct server *resolver);

/* epoll events. */
void relay_udp_event(struct relay *relay, uint32_t slot, uint32_t generation, uint32_t events);
void relay_tcp_event(struct relay *relay, uint32_t slot, uint32_t generation, uint32_t events);

/*
 * At the end of each turn: sends what the turn has gathered; returns when it must be called
 * again (0: not at all).
 */
int64_t relay_turn(struct relay *relay);

/* No query may be in flight; NULL is fine. */
void relay_free(struct relay *relay);

#endif
