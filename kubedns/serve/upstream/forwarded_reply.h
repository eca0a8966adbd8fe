/*
 * The client's reply, made of its own message, the newest tree and what another server has said,
 * now or a few seconds ago (forwarded_cache.h). Every step of it goes through answer.h; what is here is
 * the request around it, the way to the client, and the counters.
 */
#ifndef KUBEDNS_SERVE_UPSTREAM_FORWARDED_REPLY_H
#define KUBEDNS_SERVE_UPSTREAM_FORWARDED_REPLY_H

#include <stdbool.h>

#include "kubedns/serve/upstream/inflight.h"

/* Looks in the cache (NULL: none) for an answer to the present question, and counts whether it is
 * there; `said` then points into `room` of FORWARDED_CACHE_SLOT bytes. */
bool forwarded_reply_find(const struct worker_context *context, struct forwarded_cache *cache,
    const struct inflight *inflight, uint8_t *room, struct upstream_reply *said);

/* Keeps what was said, if there is a cache and it may be kept. */
void forwarded_reply_keep(const struct worker_context *context, struct forwarded_cache *cache,
    const struct inflight *inflight, const struct upstream_reply *said);

/* Whether what was said is a step of a search walk and not its end: then the walk's next candidate
 * is the target, and is to be asked for. */
bool forwarded_reply_leads_on(
    struct worker_context *context, struct inflight *inflight, const struct upstream_reply *said);

/* The code of the reply's first extended error (RFC 8914); -1 if there is none, or the reply is too long to be
 * kept. */
int forwarded_reply_extended_error(const struct upstream_reply *said);

/* Whether the name that is asked for is in one of the ConfigMap's stub domains. */
bool forwarded_reply_in_stub_domain(
    const struct worker_context *context, const struct inflight *inflight);

/* Sends the reply, and counts and notes it as made in this way. */
void forwarded_reply_send(struct worker_context *context, const struct client_ops *clients,
    struct inflight *inflight, const struct upstream_reply *said, enum answer_made made);

/* Notes a reply that has left; none, of a length of 0, too. */
void forwarded_reply_note(const struct worker_context *context, const struct client *client,
    const struct answer_info *info, const uint8_t *reply, int64_t start_ns, enum answer_made made);

#endif
