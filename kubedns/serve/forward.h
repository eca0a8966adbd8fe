/*
 * Asks the upstream servers, over c-ares:
 * order, health and retries are decided here, transport there.
 *
 *	pending --attempt--> channel (one server, one socket, at most 32 queries) --> server
 *
 * c-ares 1.18 keeps a channel's UDP socket, and so its source port, for as long as queries are
 * in flight; it always starts with the first server, and cannot change servers while it is busy.
 * So a channel here has one server, is used for 32 queries and then replaced (RFC 5452), and a
 * query that gets no answer is tried at the next server by a channel of that one. The first
 * answer of any attempt wins; a server that has failed is tried last for a while.
 */
#ifndef KUBEDNS_SERVE_FORWARD_H
#define KUBEDNS_SERVE_FORWARD_H

#include <stddef.h>
#include <stdint.h>

#include "kubedns/serve/worker_context.h"
#include "lib/addr.h"

struct forward;

/* Becomes the worker's asker. `servers` is copied; none at all is legal: SERVFAIL. */
struct forward *forward_new(struct worker *worker, const struct server *servers, size_t count);

/* New queries go to these servers, in this order; a server that stays keeps its health. */
void forward_servers(struct forward *forward, const struct server *servers, size_t count);

/* An event of the loop: which channel, which descriptor. */
void forward_event(struct forward *forward, uint32_t slot, int fd, uint32_t events);

/*
 * At the end of each turn: sends what failed to the next server, takes down used channels;
 * returns when it must be called again.
 */
int64_t forward_turn(struct forward *forward);

/* Nothing may be pending; NULL is fine. */
void forward_free(struct forward *forward);

#endif
