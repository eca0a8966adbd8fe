/*
 * Queries for names that are about to exist (--hold-ms): they wait for the event that brings the
 * name, and are answered then; after the time the answer is the one that they would have had.
 *
 *	answer() says WAIT -> awaited_take ... workers_published -> awaited_published -> client
 *	                                   ... awaited_turn (the time is over)       -> client
 *
 * Bounded in total and per client address: one that is beyond is answered at once. Each publish asks
 * every waiting query again, which the bound in total makes a fraction of a millisecond.
 */
#ifndef KUBEDNS_SERVE_AWAITED_H
#define KUBEDNS_SERVE_AWAITED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kubedns/serve/client.h"
#include "kubedns/serve/worker_context.h"

struct awaited;
struct client_ops;
struct inflight_table;

enum { AWAITED_MAX = 512 /* of all workers */, AWAITED_CLIENT_PART = 8 };

/* NULL, of a worker without --hold-ms, is fine for all functions but the first two. */

/* At most `max` queries for `wait_ms` each, of one client address a part of them. `inflight` gives
 * it queries that may wait, and takes those whose name turns out to be another server's. */
struct awaited *awaited_new(struct worker_context *context, const struct client_ops *clients,
    struct inflight_table *inflight, unsigned max, int64_t wait_ms);

/* Takes a query that answer() called WAIT, or answers it where a bound is reached. */
void awaited_take(
    struct awaited *awaited, const struct client *client, const uint8_t *query, size_t query_len);

/* Whether a query waits; for any thread, after the new tree is visible. */
bool awaited_any(const struct awaited *awaited);

/* The tree has changed. */
void awaited_published(struct awaited *awaited);

/* Answers what has waited long enough; returns when it must be called again (worker time, 0: not at
 * all). */
int64_t awaited_turn(struct awaited *awaited);

/* Answers all; at the end. */
void awaited_finish_all(struct awaited *awaited);

/* No query may wait. */
void awaited_free(struct awaited *awaited);

#endif
