/*
 * Front topology: hands names that are not ours to a local dnsmasq, which caches and forwards,
 * as fast as it can take them.
 *
 *	query --> port (a connected UDP socket for 32 queries) --> dnsmasq --> client
 *	              '- TC set and the client uses TCP: asked again over TCP
 *
 * The client's own message is sent, with an ID of ours, so that EDNS is kept; answer_forwarded()
 * puts the client's ID back and respects its size. A reply is taken only from the resolver, at the
 * port that asked, with the ID and the question that were sent. Batches in both directions: what
 * one turn of the loop brings leaves in one sendmmsg() (relay_batch.h).
 */
#ifndef KUBEDNS_SERVE_RELAY_H
#define KUBEDNS_SERVE_RELAY_H

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
