/*
 * A table of queries in flight to other servers. upstream.h says which tables a worker has. A query has a
 * client, a question, and a deadline. Forwarder (forward.h) and relay (relay.h) send queries in
 * different ways. This module has their common part: the limits in total and per client, the deadline,
 * and the reply to the client.
 *
 *	answer() returns FORWARD or CHASE -> inflight_start -> forward_ops.ask()
 *	... inflight_finish -> answer_forwarded() or answer_chased() -> client_ops -> client
 *	                   '-> answer_chases_on(): forward_ops.ask_on(), next candidate of a search list
 *
 * With --answer-cache, the cache is searched before a query is sent. After a hit, no query is sent.
 * A query that needs no other server takes no place in the table.
 *
 * A query ends exactly once, with an answer or with SERVFAIL at its deadline. All candidates of a
 * search list share one deadline. All queries of a table have the same timeout, so a queue in order
 * of time serves as timer. A second queue in order of time serves for the retries. If the retry
 * interval becomes shorter, inflight_retry_every() moves the retries of older queries forward.
 *
 * A question that is in flight is not sent again. The query of a second client joins the first one,
 * and both are answered from one reply. Joining saves work. Also, an attacker who forges replies
 * has only one query to guess, even if many clients send it (RFC 5452 section 5). Only queries with
 * the same name, type, CD, AD and DO and the same transport are joined. Each client gets its own
 * reply, according to its view.
 *
 * A client whose queries are not answered must not take the places of other clients. Each client
 * may have half of the free places. If the table is full, the oldest query of the client with the
 * most queries ends with SERVFAIL. Some servers still store a query after it has ended here
 * (forward_ops.stored_ns). Such a server has its own number of places. A query takes a place until
 * the server has dropped the query. Each client may have half of the free places there too. Further
 * queries get SERVFAIL at once. A small reserve is for clients that have no query. A client that has
 * reached its limit can still send queries that had an answer before. These have extra places, and
 * each client may have half of the free extra places.
 */
#ifndef KUBEDNS_SERVE_UPSTREAM_INFLIGHT_H
#define KUBEDNS_SERVE_UPSTREAM_INFLIGHT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "kubedns/serve/client.h"
#include "kubedns/serve/observe/ring.h"
#include "kubedns/serve/worker_context.h"

struct forwarded_cache;

/* The base of a query in forward.c and relay.c. This base is the first member of the structs
 * there. */
struct inflight {
	TAILQ_ENTRY(inflight) by_deadline;
	TAILQ_ENTRY(inflight) by_retry;
	TAILQ_ENTRY(inflight) by_client;
	LIST_ENTRY(inflight) by_question; /* in a list of queries that have been sent */
	TAILQ_ENTRY(inflight) by_joined;
	/* Queries that wait for the answer to this query, in order. */
	TAILQ_HEAD(inflight_joined, inflight)
	joined;
	struct inflight *leader; /* if not NULL, this query waits for the answer to `leader` */
	struct inflight_client *account; /* account of the client's address */
	int64_t start_ns, retry_ns;
	int64_t begun_ns; /* start_ns, or the time when the query was moved to this table */
	int64_t asked_ns; /* begun_ns, or when the current candidate was sent */
	bool asked;  /* a query was sent to the other server, for this or an earlier candidate */
	bool asking; /* the query is in by_question and by_retry; `leader` is then NULL */
	struct client client;
	bool extra;     /* takes an extra place at the other server */
	bool chase;     /* looks up the target of a CNAME, not the client's name */
	uint16_t type;  /* query type for the other server */
	uint16_t flags; /* the client's header flags: CD and AD are copied to the query */
	bool edns_do;
	/* names of the servers if all of them refused, for messages; else NULL */
	const char *refused_by;
	struct answer_info info;
	size_t query_len;
	const uint8_t *query; /* the client's message, in this allocation */
	/* The resolver's SERVFAIL reply, or NULL. The reply is only stored if it has an extended
	 * error and the upstream servers were queried after it. If these servers fail too, the
	 * stored reply is sent. The stored reply is in this allocation. */
	const uint8_t *servfail;
	size_t servfail_len;
};

/* Returns the name to look up at the other server. */
static inline const uint8_t *
inflight_name(const struct inflight *inflight)
{
	return inflight->chase ? inflight->info.target.wire : inflight->info.query.qname;
}

/* The operations of forward.c or relay.c to send queries. */
struct forward_ops {
	void *arg;
	size_t size;      /* size of the struct that embeds struct inflight; zeroed before ask() */
	int64_t retry_ns; /* the interval; inflight_retry_every() changes it */
	/*
	 * The other server keeps an unanswered query for this time, counted from when it was sent,
	 * even if the query has ended here. 0 means that it takes no place.
	 */
	int64_t stored_ns;
	/* With stored_ns: number of places at the other server. 0 means as many as in the table. */
	unsigned stored_max;
	bool has_servers;   /* there is a server to which a query can be sent */
	int64_t timeout_ns; /* an unanswered query ends after this time; if 0, FORWARD_TIMEOUT_MS */
	enum answer_made made; /* for /queries: MADE_FORWARDED or MADE_RELAYED */
	/* Sends the query for the first time. Must not finish the query before it returns. */
	void (*ask)(void *arg, struct inflight *inflight);
	/* Sends the query again because no answer has arrived for retry_ns. */
	void (*retry)(void *arg, struct inflight *inflight);
	/* Drops a query that has ended. No callbacks for it may follow. */
	void (*forget)(void *arg, struct inflight *inflight);
	/* Returns whether a SERVFAIL of the other server, or no reply, must be the client's answer
	 * too, so no query moves to the fallback. NULL: never. */
	bool (*is_final)(void *arg);
	/* Like ask(), but after forget() and for a new target. May be called inside a reply's
	 * callback. */
	void (*ask_on)(void *arg, struct inflight *inflight);
};

/* The operations to reply to the client. */
struct client_ops {
	void *arg;
	/* Reports that a query of this client will be answered later (see tcp_defer()). */
	void (*defer)(void *arg, const struct client *client);
	/* reply_buffer() returns the buffer for a reply, and sets `*max` to its size. done() gets
	 * the length of the reply, or 0 if there is no reply. */
	uint8_t *(*reply_buffer)(void *arg, const struct client *client, size_t *max);
	void (*done)(void *arg, const struct client *client, size_t len);
};

/* Creates a table. At most `max` queries are in flight, and at most `client_max` for one client
 * address. */
struct inflight_table *inflight_new(struct worker_context *context,
    const struct client_ops *clients, unsigned max, unsigned client_max);

/* From now on, queries for which answer() returned CHASE are moved to the table `chased`, unless
 * answer_info.direct is set. `chased` must outlive `table`. */
void inflight_chased(struct inflight_table *table, struct inflight_table *chased);

/* From now on, queries that answer() sends to the servers of --until-synced are moved to the
 * table `until_synced`. That table must outlive `table`. */
void inflight_until_synced(struct inflight_table *table, struct inflight_table *until_synced);

/* From now on, queries that the other server cannot answer are moved to the table `fallback`: after
 * SERVFAIL, and after inflight_no_reply(). That table must outlive `table`. Queries for names of stub
 * domains are not moved, because the servers of that table do not know these names. If the search list of
 * a moved query leads to such a name, the query gets SERVFAIL. */
void inflight_fallback(struct inflight_table *table, struct inflight_table *fallback);

/* Sets the cache that is used before another server is queried (forwarded_cache.h). Call it once,
 * and only for a table whose queries all go to the same server. */
void inflight_cache(struct inflight_table *table, struct forwarded_cache *cache);

/* Returns the operations. The caller sets them before the first inflight_start(). Only has_servers may
 * change later. */
struct forward_ops *inflight_ops(struct inflight_table *table);

/*
 * Takes a query for which answer() returned FORWARD or CHASE. Replies REFUSED if a limit of the
 * table is reached. If queries that the other server could not answer take all of its places, replies
 * SERVFAIL with the extended error 22.
 */
void inflight_start(struct inflight_table *table, const struct client *client, const uint8_t *query,
    size_t query_len, enum answer_outcome outcome, const struct answer_info *info);

/* Takes the other server's reply, which is NULL if the server failed. Replies to the client and
 * frees `inflight`, or continues with the next candidate of a search list. */
void inflight_finish(struct inflight_table *table, struct inflight *inflight,
    const uint8_t *upstream, size_t upstream_len);

/* Changes the interval of retries. A query in flight is not retried later than after the new interval,
 * counted from now. Linear in the number of queries in flight. */
void inflight_retry_every(struct inflight_table *table, int64_t retry_ns);

/* Starts a new retry interval. The query must have been sent. */
void inflight_restart_retry(struct inflight_table *table, struct inflight *inflight);

/* Called when the other server is late. If there is a table for the queries that it cannot answer, moves
 * this query, and the queries that wait for the same answer, to that table. A query whose client has no
 * place there stays in flight. */
void inflight_no_reply(struct inflight_table *table, struct inflight *inflight);

enum { INFLIGHT_QUESTION_MAX = 512 /* space for a name, a question and an OPT */ };

/*
 * Writes the query for another server to `out`, which has INFLIGHT_QUESTION_MAX bytes. The query
 * has RD, the client's CD and AD, and, if `with_opt` is set, EDNS with the client's DO. Returns its
 * length.
 */
size_t inflight_question(const struct inflight *inflight, uint16_t id, bool with_opt, uint8_t *out);

/*
 * Runs the timers: sends retries, and ends queries at their deadline. Returns when to call it again
 * (worker time, or CLOCK_NEVER).
 */
int64_t inflight_iteration(struct inflight_table *table);

/* Answers SERVFAIL to all queries, at the end. */
void inflight_finish_all(struct inflight_table *table);

/* NULL is fine. No query may be in flight. */
void inflight_free(struct inflight_table *table);

#endif
