/*
 * Queries in flight to another server: who asked, what, and the deadline. Forwarder (forward.h) and
 * relay (relay.h) differ in how they ask; what they have in common is here: bounds in total and per
 * client, the deadline, and the reply to the client.
 *
 *	answer() says FORWARD or CHASE -> inflight_start -> forward_ops.ask()
 *	... inflight_finish -> answer_forwarded() or answer_chased() -> client_ops -> client
 *	                   '-> answer_chases_on(): forward_ops.ask_on(), the next step of a search walk
 *
 * With --answer-cache, both look there first: a query, and a step of a walk, that has its answer
 * there asks nobody. A query that needs no other server takes no place here.
 *
 * A query ends exactly once: answered, or with SERVFAIL at its deadline, which all steps of a
 * search walk share. Deadline and retry interval are the same for all queries of a table, so two
 * queues in order of time serve as timers.
 *
 * A question that is on its way is not asked again: the second client's query joins the first, and
 * both are answered by one reply. That saves work, and an attacker who forges replies has one query
 * to guess at, however many clients ask (RFC 5452 section 5). Only queries with the same name, type,
 * CD, AD and DO are joined, and only those of one transport. Each is answered by itself, with what its client
 * may see.
 *
 * A client whose queries nobody answers must not take the room of the others: each client may have
 * half of what is free. If the table is full nevertheless, the oldest query of the client with the
 * most ends with SERVFAIL. If the other server keeps queries that have ended here
 * (forward_ops.hold_ns), it has places of its own: a query takes one until the server has dropped
 * it, by the same rule of halves. When they are all taken new queries are REFUSED, except from a
 * small reserve for clients that have none.
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

/* The base of forward.c's and relay.c's own struct, which has it as its first member. */
struct inflight {
	TAILQ_ENTRY(inflight) by_deadline;
	TAILQ_ENTRY(inflight) by_retry;
	TAILQ_ENTRY(inflight) by_client;
	LIST_ENTRY(inflight) by_question; /* of those that are asked */
	TAILQ_ENTRY(inflight) by_joined;
	TAILQ_HEAD(inflight_joined, inflight)
	joined;                          /* wait for the answer to this one, in order */
	struct inflight *leader;         /* the query whose answer this one waits for, or NULL */
	struct inflight_client *account; /* of the client's address */
	int64_t start_ns, retry_ns;
	int64_t begun_ns; /* start_ns, or when it was handed on to this table */
	int64_t asked_ns; /* begun_ns, or the start of the walk's present step */
	bool asked;       /* of the other server, in its present step or an earlier one */
	bool asking;      /* in by_question and by_retry; not both this and `leader` */
	struct client client;
	bool chase;     /* the target of a CNAME is asked for, not the client's name */
	uint16_t type;  /* asked of the other server */
	uint16_t flags; /* the client's header flags: CD and AD go along */
	bool edns_do;
	const char *refused_by; /* every server refused: who, for people; else NULL */
	struct answer_info info;
	size_t query_len;
	const uint8_t *query; /* the client's message; part of this allocation */
	/* What the resolver replied before the upstream servers were asked, if it says why; or NULL.
	 * The reply if they fail, too. Part of this allocation. */
	const uint8_t *servfail;
	size_t servfail_len;
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
	size_t size;      /* of the struct that embeds struct inflight; zeroed before ask() */
	int64_t retry_ns; /* may change at any time */
	/*
	 * How long, from when it was asked, an unanswered query takes up a place at the other
	 * server, even after it has ended here; 0: not at all.
	 */
	int64_t hold_ns;
	unsigned hold_max;     /* with hold_ns: places at the other server; 0: those of the table */
	int64_t timeout_ns;    /* an unanswered query ends then; 0: FORWARD_TIMEOUT_MS */
	enum answer_made made; /* for /queries: MADE_FORWARDED or MADE_RELAYED */
	/* Asks for the first time; must not finish the query before it returns. */
	void (*ask)(void *arg, struct inflight *inflight);
	/* Asks again: no answer came for retry_ns. */
	void (*retry)(void *arg, struct inflight *inflight);
	/* Drops the query, which has ended: no callback for it any more. */
	void (*forget)(void *arg, struct inflight *inflight);
	/* As ask(), after forget(), for a new target. May be called inside a reply's callback. */
	void (*ask_on)(void *arg, struct inflight *inflight);
};

/* The way back to the client. */
struct client_ops {
	void *arg;
	/* A query of this client will be replied to later: see tcp_hold. */
	void (*hold)(void *arg, const struct client *client);
	/* Room for the reply and in `max` its size, then the reply's length; 0: there is none. */
	uint8_t *(*room)(void *arg, const struct client *client, size_t *max);
	void (*done)(void *arg, const struct client *client, size_t len);
};

/* At most `max` queries in flight, and `client_max` of one client address. */
struct inflight_table *inflight_new(struct worker_context *context,
    const struct client_ops *clients, unsigned max, unsigned client_max);

/* Queries that answer() called CHASE, but for `direct` ones, are handed on to this table, which
 * outlives the other. */
void inflight_chased(struct inflight_table *table, struct inflight_table *chased);

/* Names that answer() wants asked of the servers of --until-synced are handed on to this table,
 * which outlives the other. */
void inflight_until_synced(struct inflight_table *table, struct inflight_table *until_synced);

/* Queries to which the other server replies SERVFAIL are handed on to this table, which outlives the
 * other; but for names of stub domains, which its servers do not know. */
void inflight_servfail(struct inflight_table *table, struct inflight_table *servfail);

/* Sets where answers are kept and looked for before another server is asked (forwarded_cache.h); once,
 * and only for a table whose queries all go to the same server. */
void inflight_cache(struct inflight_table *table, struct forwarded_cache *cache);

/* Takes a query for which answer() returned WAIT, and replies to it later. */
typedef void inflight_take_waiting(
    void *arg, const struct client *client, const uint8_t *query, size_t query_len);

/* Sets who takes such queries; once. */
void inflight_awaited(struct inflight_table *table, inflight_take_waiting *take, void *arg);

/* The operations, to be set before the first inflight_start; only retry_ns may change later. */
struct forward_ops *inflight_ops(struct inflight_table *table);

/*
 * Takes a query for which answer() returned FORWARD, CHASE or WAIT; replies REFUSED where a bound
 * is reached.
 */
void inflight_start(struct inflight_table *table, const struct client *client, const uint8_t *query,
    size_t query_len, enum answer_outcome outcome, const struct answer_info *info);

/* Takes the other server's reply (NULL: it failed): replies to the client and frees `inflight`, or
 * asks for the next step of a search walk. */
void inflight_finish(struct inflight_table *table, struct inflight *inflight,
    const uint8_t *upstream, size_t upstream_len);

enum { INFLIGHT_QUESTION_MAX = 512 /* a name, a question, an OPT */ };

/*
 * Writes the question for another server into room of INFLIGHT_QUESTION_MAX bytes: RD, the client's
 * CD and AD, EDNS with the client's DO. Returns its length.
 */
size_t inflight_question(const struct inflight *inflight, uint16_t id, uint8_t *out);

/*
 * Runs the timers: retries, and ends queries at their deadline. Returns when it must be called
 * again (worker time, 0: not at all).
 */
int64_t inflight_turn(struct inflight_table *table);

/* SERVFAIL to all; at the end. */
void inflight_finish_all(struct inflight_table *table);

/* NULL is fine. No query may be in flight. */
void inflight_free(struct inflight_table *table);

#endif
