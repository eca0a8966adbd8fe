/*
 * Queries that wait for another server: who asked, what, until when. Forwarder and relay differ
 * in how they ask; what is the same for both is here: bounds in total and per client, the
 * deadline, and the reply.
 *
 *	answer() says FORWARD or CHASE -> inflight_start -> asker's ask()
 *	... inflight_finish -> answer_forwarded() or answer_chased() -> client
 *
 * A pending query ends exactly once: answered, or SERVFAIL at its deadline. All deadlines are
 * equally far away, and so are all retries: two queues in order of time are the timers.
 */
#ifndef KUBEDNS_SERVE_INFLIGHT_H
#define KUBEDNS_SERVE_INFLIGHT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "kubedns/serve/client.h"
#include "kubedns/serve/worker_context.h"

struct attempt; /* forward.c */
struct relay_port;
struct relay_conn;

struct inflight {
	TAILQ_ENTRY(inflight) by_deadline;
	TAILQ_ENTRY(inflight) by_retry;
	int64_t start_ns, retry_ns;
	struct client client;
	bool chase;
	uint16_t type;  /* asked of the other server */
	uint16_t flags; /* the client's header flags: CD and AD go along */
	bool edns_do;
	struct answer_info info;

	/* the asker's: forward.c */
	LIST_HEAD(, attempt) attempts;
	uint16_t tried;        /* bit by server */
	uint8_t attempt_count; /* sent and not failed */
	uint8_t rounds;        /* times that all servers have failed at once */
	bool declined; /* a server has replied that it will not or cannot: SERVFAIL, REFUSED */

	/* relay.c */
	struct relay_port *port; /* the query is out by this one, at `place` */
	struct relay_conn *conn; /* or by this one */
	unsigned place;

	bool queued; /* in the asker's queue: to be sent again, or when there is a connection */
	TAILQ_ENTRY(inflight) by_queue;

	size_t query_len;
	uint8_t query[];
};

/* The name asked of the other server. */
static inline const uint8_t *
inflight_name(const struct inflight *inflight)
{
	return inflight->chase ? inflight->info.target.wire : inflight->info.query.qname;
}

/* How queries are asked: forward.c or relay.c. */
struct forward_ops {
	void *arg;
	void (*ask)(void *arg,
	    struct inflight *inflight); /* first time; may not finish it before it returns */
	void (*retry)(void *arg, struct inflight *inflight); /* no answer for the retry time */
	void (*forget)(
	    void *arg, struct inflight *inflight); /* it is over: no callback for it any more */
	int64_t retry_ns;
};

struct inflight_table *inflight_new(struct worker *worker, unsigned max, unsigned client_max);

/* Who asks; set once, before the first inflight_start, but for retry_ns. */
struct forward_ops *inflight_ops(struct inflight_table *table);

/*
 * Keeps a query that answer() called FORWARD or CHASE, or replies REFUSED where a bound is reached.
 */
void inflight_start(struct worker *worker, const struct client *client, const uint8_t *query,
    size_t query_len, enum answer_outcome outcome, const struct answer_info *info);

/* Replies with what the other server said (NULL: SERVFAIL) and frees `pending`. */
void inflight_finish(
    struct worker *worker, struct inflight *inflight, const uint8_t *upstream, size_t upstream_len);

enum { INFLIGHT_QUESTION_MAX = 512 /* a name, a question, an OPT */ };

/*
 * Writes what to ask another server about `pending` into room of INFLIGHT_QUESTION_MAX bytes: RD,
 * the client's CD and AD, EDNS with the client's DO. Returns its length.
 */
size_t inflight_question(const struct inflight *inflight, uint16_t id, uint8_t *out);

/*
 * Retries and ends what is due; returns when it must be called again (worker time, 0: not at all).
 */
int64_t inflight_turn(struct worker *worker);

/* SERVFAIL to all; at the end. */
void inflight_finish_all(struct worker *worker);

/* NULL is fine. Nothing may be pending. */
void inflight_free(struct inflight_table *table);

#endif
