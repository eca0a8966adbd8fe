/*
 * Queries for names that are about to exist (--hold-ms): they wait until an event creates the name,
 * and are answered then. At the end of that time they get the negative answer.
 *
 *	answer() says WAIT -> inflight_start ... workers_published -> awaited_published -> client
 *	                                   ... awaited_turn (the time is over)       -> client
 *
 * Bounded in total and per client address; a query beyond a bound is answered at once. After each
 * publish all waiting queries are tried again: a fraction of a millisecond, for the total is small.
 */
#ifndef KUBEDNS_SERVE_UPSTREAM_AWAITED_NAMES_H
#define KUBEDNS_SERVE_UPSTREAM_AWAITED_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kubedns/serve/client.h"
#include "kubedns/serve/worker_context.h"

struct awaited;
struct client_ops;
struct inflight_table;

enum { AWAITED_MAX = 512 /* of all workers */, AWAITED_CLIENT_PART = 8 };

/* A worker without --hold-ms has NULL, which all functions but the first take. */

/* At most `max` queries for `wait_ms` each, 1/AWAITED_CLIENT_PART of them for one client address.
 * `inflight` hands it queries that may wait, and takes those whose name has become an alias of
 * another server's. */
struct awaited *awaited_new(struct worker_context *context, const struct client_ops *clients,
    struct inflight_table *inflight, unsigned max, int64_t wait_ms);

/* Whether a query waits. Any thread may ask, after it has published the new tree. */
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
