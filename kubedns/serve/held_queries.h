/*
 * Queries for names that are about to exist (--hold-ms). These queries wait until an event creates
 * the name, and are answered then. At the end of the waiting time, a query gets the negative
 * answer.
 *
 *	answer() returns WAIT -> inflight_start
 *	workers_published      -> held_queries_published -> client
 *	the time is over       -> held_queries_iteration -> client
 *
 * The number of waiting queries is limited in total and for each client address. A query beyond a
 * limit is answered at once. After each publish, all waiting queries are tried again. These tries
 * take a fraction of a millisecond, because the number of queries is small.
 */
#ifndef KUBEDNS_SERVE_HELD_QUERIES_H
#define KUBEDNS_SERVE_HELD_QUERIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kubedns/serve/client.h"
#include "kubedns/serve/worker_context.h"

struct held_queries;
struct client_ops;
struct inflight_table;

enum { HELD_QUERIES_MAX = 512 /* for all workers together */, HELD_QUERIES_CLIENT_PART = 8 };

/* A worker without --hold-ms passes NULL as `held`. All functions except held_queries_new() accept
 * that. */

/* At most `max` queries wait, each for `wait_ms`. At most 1/HELD_QUERIES_CLIENT_PART of them are for
 * one client address. `inflight` passes queries that may wait to this object. If the name of a
 * query becomes an alias of a name on another server, `inflight` takes the query back. */
struct held_queries *held_queries_new(struct worker_context *context,
    const struct client_ops *clients, struct inflight_table *inflight, unsigned max,
    int64_t wait_ms);

/* Returns whether a query is waiting. Any thread may call this, after it has published the new
 * tree. */
bool held_queries_any(const struct held_queries *held);

/* Tries all queries again, because the tree has changed. */
void held_queries_published(struct held_queries *held);

/* Answers the queries whose waiting time is over. Returns when to call it again (worker time, or
 * CLOCK_NEVER). */
int64_t held_queries_iteration(struct held_queries *held);

/* Answers all queries, at the end. */
void held_queries_finish_all(struct held_queries *held);

/* Frees the object. No query may be waiting. */
void held_queries_free(struct held_queries *held);

#endif
