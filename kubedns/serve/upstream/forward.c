#include "kubedns/serve/upstream/forward.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "kubedns/serve/upstream/inflight.h"
#include "kubedns/serve/upstream/transport.h"
#include "lib/clock.h"
#include "lib/log.h"
#include "lib/xalloc.h"

struct forward_server {
	struct server server;
	int64_t failed_until_ns;
	int64_t replied_ns; /* time of its last reply, or 0 */
	struct remote *remote;
};

enum { REFUSED_TEXT_MAX = 128 }; /* has space for the names of two servers */

/* A query in flight with the forwarder's own data. */
struct forward_query {
	struct inflight base;
	LIST_HEAD(, attempt) attempts;
	/* Generation of the server list to which `tried` and `refused` refer. */
	uint32_t generation;
	/* One bit for each server. */
	uint16_t tried, refused;
	uint16_t without_opt; /* the server has replied FORMERR to the query with OPT */
	char refused_by[REFUSED_TEXT_MAX];
	uint8_t attempt_count; /* attempts that were sent and have not failed */
	uint8_t rounds;        /* number of times that all servers have failed */
	bool declined;         /* a server has replied SERVFAIL, REFUSED or similar */
	bool queued;
	TAILQ_ENTRY(forward_query) by_queue;
};

/* A query that was sent to one server. */
struct attempt {
	struct exchange exchange; /* is open */
	LIST_ENTRY(attempt) link; /* in the attempts of `query`, the newest first */
	struct forward_query *query;
	int64_t sent_ns; /* when it was sent over UDP, or later over TCP */
	bool late;       /* not answered in time, although the server replied to others */
};

struct forward {
	struct worker_context *context;
	struct inflight_table *inflight;
	struct transport *transport;
	struct forward_ops *ops;
	struct forward_way way;
	struct forward_server upstreams[UPSTREAMS_MAX];
	size_t upstream_count;
	uint32_t generation; /* incremented by each change of the server list */
	/* Queries to send to the next server at the end of the iteration. */
	TAILQ_HEAD(, forward_query)
	queue;
};

enum { RETRY_MAX_MS = 1000, RETRY_MIN_MS = 250 };

/* A server that failed is tried last for this time. */
static const int64_t failed_ns = 10 * INT64_C(1000000000);

static struct forward_query *
query_of(struct inflight *inflight)
{
	_Static_assert(offsetof(struct forward_query, base) == 0, "the base is embedded first");
	return (struct forward_query *)(void *)inflight;
}

/* --- servers --- */

/* Returns the entry of the list for this remote, or NULL if it is no longer in the list. An address may be in the
 * list more than once. Each entry has its own remote. */
static struct forward_server *
find_upstream(struct forward *forward, const struct remote *remote)
{
	for (size_t i = 0; i < forward->upstream_count; i++)
		if (forward->upstreams[i].remote == remote)
			return &forward->upstreams[i];
	return NULL;
}

/* From now on, the server is tried after the others. */
static void
try_last(struct forward *forward, struct forward_server *upstream)
{
	char text[SERVER_TEXT_MAX];

	if (upstream->failed_until_ns <= forward->context->now_ns)
		log_neterr(
		    "forward: %s does not answer: for 10 s it is tried after the other servers",
		    server_format(&upstream->server, text));
	upstream->failed_until_ns = forward->context->now_ns + failed_ns;
}

/*
 * Returns the server to try next, or NULL if all servers have been tried. Servers are tried in the configured order, but servers that
 * failed recently come last. Among these, the server that has replied last comes first.
 */
static struct forward_server *
choose_upstream(struct forward *forward, uint16_t tried)
{
	struct forward_server *best = NULL;
	bool best_failed = false;

	for (size_t i = 0; i < forward->upstream_count; i++) {
		struct forward_server *upstream = &forward->upstreams[i];
		bool failed = upstream->failed_until_ns > forward->context->now_ns;

		if ((tried & 1u << i) != 0)
			continue;
		if (best == NULL ||
		    (best_failed && (!failed || upstream->replied_ns > best->replied_ns))) {
			best = upstream;
			best_failed = failed;
		}
	}
	return best;
}

/* --- attempts --- */

static void
start_over(struct forward_query *query)
{
	query->tried = query->refused = query->without_opt = 0;
	query->rounds = 0;
	query->declined = false;
}

/*
 * If the list of servers has changed since the query was sent, starts over with the new list. The servers that the query has tried are from
 * the old list.
 */
static void
follow_servers(const struct forward *forward, struct forward_query *query)
{
	if (query->generation == forward->generation)
		return;
	query->generation = forward->generation;
	start_over(query);
}

/* Sends the query to the next server at the end of this iteration, because remote_ops.lost() must not send a query. */
static void
send_later(struct forward *forward, struct forward_query *query)
{
	if (query->queued)
		return;
	query->queued = true;
	TAILQ_INSERT_TAIL(&forward->queue, query, by_queue);
}

/* Ends the attempt. No reply to it is used any more. */
static void
attempt_end(struct attempt *attempt)
{
	exchange_end(&attempt->exchange);
	LIST_REMOVE(attempt, link);
	attempt->query->attempt_count--;
	free(attempt);
}

/* Handles a reply that declines a query. `upstream` is NULL if the server is no longer in the list. A server that does not know EDNS replies
 * FORMERR to a query with OPT (RFC 6891 section 7), so it has not been tried until it gets the query without OPT. */
static void
server_declined(struct forward *forward, struct forward_query *query,
    const struct forward_server *upstream, bool with_opt, const uint8_t *reply)
{
	unsigned rcode = reply[3] & 15;

	follow_servers(forward, query);
	if (upstream == NULL)
		return;
	uint16_t bit = (uint16_t)(1u << (upstream - forward->upstreams));
	if (rcode == RCODE_FORMERR && with_opt) {
		query->without_opt |= bit;
		query->tried &= (uint16_t)~bit;
		return;
	}
	query->declined = true;
	if (rcode == RCODE_REFUSED)
		query->refused |= bit;
}

/* Writes which servers have refused. Names at most two of them, and each address once. */
static void
say_who_refused(const struct forward *forward, char *out)
{
	const struct server *first = &forward->upstreams[0].server, *second = NULL;
	char text[SERVER_TEXT_MAX], other[SERVER_TEXT_MAX];
	bool more = false;

	for (size_t i = 1; i < forward->upstream_count; i++) {
		const struct server *server = &forward->upstreams[i].server;

		if (server_equal(server, first))
			continue;
		more = more || (second != NULL && !server_equal(server, second));
		second = second != NULL ? second : server;
	}
	server_format(first, text);
	if (second == NULL)
		snprintf(out, REFUSED_TEXT_MAX, "refused by %s", text);
	else
		snprintf(out, REFUSED_TEXT_MAX, "refused by %s%s%s", text, more ? ", " : " and ",
		    server_format(second, other));
}

/* Ends the query because no server gave a usable reply. The reply is REFUSED if all servers refused, else SERVFAIL. */
static void
finish_without_reply(struct forward *forward, struct forward_query *query)
{
	size_t count = forward->upstream_count;

	if (count > 0 && query->refused == (1u << count) - 1) {
		say_who_refused(forward, query->refused_by);
		query->base.refused_by = query->refused_by;
	}
	inflight_finish(forward->inflight, &query->base, NULL, 0);
}

static struct attempt *
attempt_of(struct exchange *exchange)
{
	_Static_assert(offsetof(struct attempt, exchange) == 0, "the exchange is embedded first");
	return (struct attempt *)(void *)exchange;
}

/* Called when a server has answered the query. Others that were late with it are tried last from now on, although they answer other
 * queries. For example, they lose long replies. */
static void
late_servers_failed(struct forward *forward, const struct forward_query *query)
{
	const struct attempt *attempt;

	LIST_FOREACH(attempt, &query->attempts, link)
	{
		struct forward_server *upstream = find_upstream(forward, attempt->exchange.remote);

		if (attempt->late && upstream != NULL)
			try_last(forward, upstream);
	}
}

/* Handles a reply. A truncated reply has no use, so the query is sent over TCP, or to another server if it was sent over TCP already. */
static void
forward_reply(void *arg, struct exchange *exchange, const uint8_t *reply, size_t len, bool over_tcp)
{
	struct forward *forward = arg;
	struct attempt *attempt = attempt_of(exchange);
	struct forward_query *query = attempt->query;
	struct forward_server *upstream = find_upstream(forward, exchange->remote);
	bool with_opt = !exchange->without_opt, truncated = (wire_get16(reply + 2) & FLAG_TC) != 0;

	if (upstream != NULL) {
		upstream->failed_until_ns = 0;
		upstream->replied_ns = forward->context->now_ns;
	}
	if (truncated && !over_tcp) {
		attempt->sent_ns = forward->context->now_ns;
		attempt->late = false;
		inflight_restart_retry(forward->inflight, &query->base);
		exchange_over_tcp(exchange);
		return;
	}
	attempt_end(attempt);
	if (!truncated && !reply_declines(reply)) {
		late_servers_failed(forward, query);
		inflight_finish(forward->inflight, &query->base, reply, len);
		return;
	}
	server_declined(forward, query, upstream, with_opt, reply);
	send_later(forward, query);
}

static void
forward_lost(void *arg, struct exchange *exchange, bool over_tcp)
{
	struct forward *forward = arg;
	struct attempt *attempt = attempt_of(exchange);
	struct forward_query *query = attempt->query;
	struct forward_server *upstream = find_upstream(forward, exchange->remote);

	(void)over_tcp;
	if (!exchange->unsent) {
		stats_add(&forward->context->stats->forward_server_failures, 1);
		if (upstream != NULL)
			try_last(forward, upstream);
	}
	attempt_end(attempt);
	send_later(forward, query);
}

/* Sends the query to this server. If there is no descriptor, the query waits for its retry time. */
static void
send_to(struct forward *forward, struct forward_query *query, struct forward_server *upstream)
{
	struct attempt *attempt = xcalloc(1, sizeof *attempt);

	attempt->query = query;
	attempt->sent_ns = forward->context->now_ns;
	attempt->exchange.remote = upstream->remote;
	attempt->exchange.question = &query->base;
	attempt->exchange.without_opt =
	    (query->without_opt & 1u << (upstream - forward->upstreams)) != 0;
	LIST_INSERT_HEAD(&query->attempts, attempt, link);
	query->attempt_count++;
	if (forward->way.tcp) {
		exchange_over_tcp(&attempt->exchange);
		return;
	}
	int rc = exchange_send(&attempt->exchange);
	if (rc == 0)
		return;
	log_neterr("forward: socket: %s", strerror(rc));
	if (rc == EMFILE || rc == ENFILE || rc == ENOBUFS || rc == ENOMEM)
		attempt_end(attempt);
	else /* for example, there is no route to this server */
		forward_lost(forward, &attempt->exchange, false);
}

/*
 * Tries the next upstream server. If all have been tried, waits for outstanding attempts or for the retry timer. When the retry timer has
 * expired (`again`), starts over with the first server. If a server has declined, it does not start over, because that server would decline
 * again.
 */
static void
send_next(struct forward *forward, struct forward_query *query, bool again)
{
	follow_servers(forward, query);
	struct forward_server *upstream = choose_upstream(forward, query->tried);
	if (upstream == NULL && forward->upstream_count > 0 && !query->declined) {
		if (!again && (query->attempt_count > 0 || query->rounds++ == 0))
			return;
		query->tried = 0;
		upstream = again ? choose_upstream(forward, 0) : NULL;
	}
	if (upstream != NULL) {
		query->tried |= (uint16_t)(1u << (upstream - forward->upstreams));
		send_to(forward, query, upstream);
	} else if (again || query->attempt_count == 0) {
		finish_without_reply(forward, query);
	}
}

static void
forward_ask(void *arg, struct inflight *inflight)
{
	struct forward *forward = arg;
	struct forward_query *query = query_of(inflight);
	struct forward_server *upstream = choose_upstream(forward, 0);

	start_over(query); /* after an earlier candidate of the search list */
	if (upstream == NULL) {
		send_later(forward, query); /* there is no server, so the answer is SERVFAIL */
		return;
	}
	query->generation = forward->generation;
	query->tried = (uint16_t)(1u << (upstream - forward->upstreams));
	send_to(forward, query, upstream);
}

/* Starts with a new target, for which all servers can be queried. The query is sent at the end of the iteration. */
static void
forward_ask_on(void *arg, struct inflight *inflight)
{
	struct forward_query *query = query_of(inflight);

	start_over(query);
	send_later(arg, query);
}

/* Called when the server has not answered in time. If it has replied to nothing since the query was sent, it is tried last from now on.
 * Otherwise the fault may be that of the name. The server is tried last only if another server answers the query. So a client that looks up
 * names that nobody answers does not change the order of the servers for others. */
static void
attempt_is_late(struct forward *forward, struct attempt *attempt)
{
	struct forward_server *upstream = find_upstream(forward, attempt->exchange.remote);

	stats_add(&forward->context->stats->forward_server_failures, 1);
	if (upstream == NULL)
		return;
	attempt->late = upstream->replied_ns > attempt->sent_ns;
	if (!attempt->late)
		try_last(forward, upstream);
}

/* Called when no answer has arrived in time. Earlier attempts stay open, and the next server is tried in addition. */
static void
forward_retry(void *arg, struct inflight *inflight)
{
	struct forward *forward = arg;
	struct forward_query *query = query_of(inflight);
	struct attempt *last = LIST_FIRST(&query->attempts);

	if (last != NULL)
		attempt_is_late(forward, last);
	stats_add(&forward->context->stats->forward_retries, 1);
	send_next(forward, query, true);
}

static void
forward_forget(void *arg, struct inflight *inflight)
{
	struct forward *forward = arg;
	struct forward_query *query = query_of(inflight);
	struct attempt *attempt;

	while ((attempt = LIST_FIRST(&query->attempts)) != NULL)
		/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): it loses track of lists */
		attempt_end(attempt);
	if (query->queued)
		TAILQ_REMOVE(&forward->queue, query, by_queue);
	query->queued = false;
}

/* --- called by the worker --- */

static void
set_retry_time(struct forward *forward)
{
	int64_t timeout_ms =
	    forward->way.timeout_ms != 0 ? forward->way.timeout_ms : FORWARD_TIMEOUT_MS;
	int64_t ms = timeout_ms / (int64_t)(forward->upstream_count + 1);

	ms = ms > RETRY_MAX_MS ? RETRY_MAX_MS : ms < RETRY_MIN_MS ? RETRY_MIN_MS : ms;
	if (forward->way.again_ms != 0)
		ms = forward->way.again_ms;
	inflight_retry_every(forward->inflight, ms * 1000000);
}

struct forward *
forward_new(struct worker_context *context, struct inflight_table *inflight,
    struct transport *transport, struct forward_way way, const struct server *servers, size_t count)
{
	struct forward *forward = xcalloc(1, sizeof *forward);

	forward->way = way;
	forward->context = context;
	forward->inflight = inflight;
	forward->transport = transport;
	TAILQ_INIT(&forward->queue);
	forward->ops = inflight_ops(inflight);
	*forward->ops = (struct forward_ops){ .arg = forward,
		.size = sizeof(struct forward_query),
		.made = MADE_FORWARDED,
		.timeout_ns = way.timeout_ms * 1000000,
		.ask = forward_ask,
		.retry = forward_retry,
		.forget = forward_forget,
		.ask_on = forward_ask_on };
	forward_servers(forward, servers, count);
	return forward;
}

static void
release_servers(struct forward *forward)
{
	for (size_t i = 0; i < forward->upstream_count; i++)
		if (forward->upstreams[i].remote != NULL)
			remote_release(forward->upstreams[i].remote);
}

/* Returns the first entry with this address that the new list has not taken, or NULL. */
static struct forward_server *
find_known(struct forward *forward, const struct server *server)
{
	for (size_t i = 0; i < forward->upstream_count; i++)
		if (forward->upstreams[i].remote != NULL &&
		    server_equal(&forward->upstreams[i].server, server))
			return &forward->upstreams[i];
	return NULL;
}

void
forward_servers(struct forward *forward, const struct server *servers, size_t count)
{
	struct forward_server next[UPSTREAMS_MAX] = { 0 };

	if (count > UPSTREAMS_MAX)
		count = UPSTREAMS_MAX;
	for (size_t i = 0; i < count; i++) {
		struct forward_server *known = find_known(forward, &servers[i]);

		next[i].server = servers[i];
		if (known != NULL) {
			next[i] = *known;
			known->remote = NULL;
		} else {
			next[i].remote =
			    remote_new(forward->transport, &servers[i], TRANSPORT_PIPELINED,
				(struct remote_ops){ forward, forward_reply, forward_lost });
		}
	}
	release_servers(forward);
	memcpy(forward->upstreams, next, sizeof next);
	forward->upstream_count = count;
	forward->generation++;
	forward->ops->has_servers = count > 0;
	set_retry_time(forward);
}

void
forward_iteration(struct forward *forward)
{
	struct forward_query *query;

	while ((query = TAILQ_FIRST(&forward->queue)) != NULL) {
		TAILQ_REMOVE(&forward->queue, query, by_queue);
		query->queued = false;
		if (query->tried != 0)
			stats_add(&forward->context->stats->forward_retries, 1);
		/* the next server has its own time to reply */
		inflight_restart_retry(forward->inflight, &query->base);
		send_next(forward, query, false);
	}
}

void
forward_free(struct forward *forward)
{
	if (forward == NULL)
		return;
	release_servers(forward);
	free(forward);
}
