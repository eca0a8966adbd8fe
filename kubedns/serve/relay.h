/*
 * Front topology: hands names that are not ours to a local dnsmasq, which caches and forwards,
 * as fast as it can take them.
 *
 *	pending --> port (a connected UDP socket for 32 queries) --> dnsmasq --> client
 *	              '- TC and the client speaks TCP: asked again over TCP
 *
 * The client's own message goes out, with an ID of ours, so that EDNS is kept; the client's ID,
 * its port and its size are put back by answer_forwarded(). A reply must come from the resolver
 * to the port that asked, with the ID and the question that were sent. Batches in both
 * directions: what one turn of the loop brings leaves in one sendmmsg(), and messages of one
 * length as one packet, which the kernel cuts at the resolver's socket (UDP_SEGMENT).
 */
#ifndef KUBEDNS_SERVE_RELAY_H
#define KUBEDNS_SERVE_RELAY_H

#include <stdint.h>

#include "kubedns/serve/worker_context.h"
#include "lib/addr.h"

struct relay;

/* Becomes the worker's asker. */
struct relay *relay_new(struct worker *worker, const struct server *resolver);

/* Events of the loop. */
void relay_udp_event(struct relay *relay, uint32_t slot, uint32_t generation, uint32_t events);
void relay_tcp_event(struct relay *relay, uint32_t slot, uint32_t generation, uint32_t events);

/*
 * At the end of each turn: sends what the turn has gathered; returns when it must be called
 * again (0: not at all).
 */
int64_t relay_turn(struct relay *relay);

/* Nothing may be pending; NULL is fine. */
void relay_free(struct relay *relay);

#endif
