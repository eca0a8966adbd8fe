/*
 * Makes the client's reply from its own message, the newest tree, and another server's answer,
 * which is new or cached (forwarded_cache.h). Every step uses answer.h. This module makes the
 * request for answer.h, sends the reply to the client, and updates the counters.
 */
#ifndef KUBEDNS_SERVE_UPSTREAM_FORWARDED_REPLY_H
#define KUBEDNS_SERVE_UPSTREAM_FORWARDED_REPLY_H

#include <stdbool.h>

#include "kubedns/serve/upstream/inflight.h"

/* Searches the cache, which may be NULL, for an answer to the current question. Counts a hit or
 * a miss. After a hit, `said` points into `buffer`, which has FORWARDED_CACHE_SLOT bytes. */
bool forwarded_reply_find(const struct worker_context *context, struct forwarded_cache *cache,
    const struct inflight *inflight, uint8_t *buffer, struct upstream_reply *said);

/* Returns whether the reply to this query was truncated lately. `cache` may be NULL. */
bool forwarded_reply_was_truncated(const struct worker_context *context,
    struct forwarded_cache *cache, const struct inflight *inflight);

/* Stores the answer, if there is a cache and the answer may be stored. */
void forwarded_reply_keep(const struct worker_context *context, struct forwarded_cache *cache,
    const struct inflight *inflight, const struct upstream_reply *said);

/* Returns whether the search list continues after this answer. Then the target is set to the
 * next candidate, which must be looked up next. */
bool forwarded_reply_leads_on(
    struct worker_context *context, struct inflight *inflight, const struct upstream_reply *said);

/* Returns the code of the reply's first extended error (RFC 8914). Returns -1 if there is none,
 * or if the reply is too long to be stored. */
int forwarded_reply_extended_error(const struct upstream_reply *said);

/* Returns whether the name that is being looked up is in a stub domain of the ConfigMap. */
bool forwarded_reply_in_stub_domain(
    const struct worker_context *context, const struct inflight *inflight);

/* Sends the reply and counts it. Records it with `made`, which says how it was made. */
void forwarded_reply_send(struct worker_context *context, const struct client_ops *clients,
    struct inflight *inflight, const struct upstream_reply *said, enum answer_made made);

/* Records a reply that was sent. If its length is 0, records that there was no reply. */
void forwarded_reply_note(const struct worker_context *context, const struct client *client,
    const struct answer_info *info, const uint8_t *reply, int64_t start_ns, enum answer_made made);

#endif
