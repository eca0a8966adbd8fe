#include "kubedns/serve/upstream/relay.h"

#include <stdlib.h>
#include <string.h>

#include "kubedns/serve/upstream/forwarded_reply.h"
#include "kubedns/serve/upstream/inflight.h"
#include "kubedns/serve/upstream/transport.h"
#include "kubedns/serve/upstream/turns.h"
#include "kubedns/serve/upstream/validation.h"
#include "lib/clock.h"
#include "lib/xalloc.h"

/*
 * A query without an answer is sent again after 250 ms, and once more after a second. After such a retry, dnsmasq sends the query to all of
 * its upstream servers, and continues to use the server that answers first. A silent server therefore delays the next few queries by 250
 * ms, and later queries not at all. The price is one query to every upstream server for each name that is slow. More retries would multiply
 * that price. The second retry is for a dnsmasq that is overloaded and has lost the first retry.
 */
static const int64_t retry_ns = 250 * INT64_C(1000000);
enum { RETRY_FIRST = 1, RETRY_SECOND = 4 /* in units of retry_ns */ };
/*
 * dnsmasq stores an unanswered query for 10 s, by a clock with whole seconds. By then, our own query has ended.
 */
static const int64_t stored_ns = 11 * INT64_C(1000000000);
/* A query that got ECONNREFUSED is sent again after this time. dnsmasq is probably being restarted. Other queries in `soon` are late after
 * this time. */
static const int64_t soon_ns = 50 * INT64_C(1000000);
/* After the resolver was late over TCP, a query over TCP waits for it only for soon_ns, until it has replied over TCP or this time has
 * passed. */
static const int64_t tcp_late_ns = 10 * INT64_C(1000000000);

/* A query in flight with the relay's own data. */
struct relay_query {
	struct inflight base;
	struct exchange exchange;
	unsigned waited;     /* number of retry intervals without an answer */
	bool over_tcp;       /* the query is sent over TCP, because its UDP reply was truncated */
	bool soon;           /* the query waits in `soon` */
	int64_t again_at_ns; /* for a query in `soon`: the time to send it again */
	TAILQ_ENTRY(relay_query) by_soon;
	struct turn turn; /* has a place in the resolver's receive buffer, or waits for one */
	TAILQ_ENTRY(relay_query) by_batch; /* in `unread`, if it has a place */
};

/*
 * Asks the resolver for a record that it has itself (validation.h), and so tells how much of its
 * receive buffer the resolver has read. dnsmasq reads its queries in the order in which they were sent.
 * So it has read all queries of earlier batches than that of one that it has replied to. unbound has a socket
 * with a larger buffer for each of its threads. Its reply only shows that one of them reads.
 */
struct marker {
	struct exchange exchange;
	int64_t due_ns; /* the reply is late after this time */
};

struct relay {
	struct worker_context *context;
	struct inflight_table *inflight;
	struct remote *resolver;
	struct validation *validation;    /* NULL if nothing depends on it */
	struct forwarded_cache *cache;    /* knows which replies were truncated; may be NULL */
	TAILQ_HEAD(, relay_query) soon;   /* queries to send again soon, the earliest first */
	int64_t tcp_late_until_ns;        /* the resolver was late over TCP */
	struct turns *places;             /* in the resolver's receive buffer */
	TAILQ_HEAD(, relay_query) unread; /* queries with a place, in the order of their batches */
	unsigned unread_count, unread_max;
	bool emptied; /* the resolver's socket was closed, so its buffer is empty */
	/* The question of the marker and of `validation`. */
	struct inflight own_question;
	struct marker marker;
};

static struct relay_query *
query_of(struct inflight *inflight)
{
	_Static_assert(offsetof(struct relay_query, base) == 0, "the base is embedded first");
	return (struct relay_query *)(void *)inflight;
}

static struct relay_query *
query_of_exchange(struct exchange *exchange)
{
	return (struct relay_query *)(void *)((uint8_t *)exchange -
					      offsetof(struct relay_query, exchange));
}

/* --- the resolver's receive buffer --- */

/* Gives back the query's place, or takes it out of the queries that wait for one. */
static void
leave_buffer(struct relay *relay, struct relay_query *query)
{
	if (query->turn.client != NULL && !query->turn.waiting) {
		TAILQ_REMOVE(&relay->unread, query, by_batch);
		relay->unread_count--;
	}
	turns_leave(relay->places, &query->turn);
}

/* Sends the marker if many queries may be unread. */
static void
send_marker(struct relay *relay)
{
	struct marker *marker = &relay->marker;

	if (relay->unread_count < (relay->unread_max + 3) / 4 ||
	    exchange_is_open(&marker->exchange) || exchange_send_at_once(&marker->exchange) != 0)
		return;
	marker->due_ns = relay->context->now_ns + retry_ns;
}

/* Sends the query, which has a place. If there is no descriptor, the query waits for its retry. */
static void
send_now(struct relay *relay, struct relay_query *query)
{
	TAILQ_INSERT_TAIL(&relay->unread, query, by_batch);
	relay->unread_count++;
	if (relay->validation != NULL)
		validation_ask(relay->validation);
	if (exchange_send(&query->exchange) != 0)
		leave_buffer(relay, query);
	send_marker(relay);
}

/* Sends the query, or lets it wait until the resolver has read earlier queries. */
static void
send_first(struct relay *relay, struct relay_query *query)
{
	if (turns_ask(relay->places, &query->turn, query->base.client.hash))
		send_now(relay, query);
}

/* Called when the resolver has read all queries of batches with lower numbers. Sends queries that wait. */
static void
resolver_has_read(struct relay *relay, uint64_t batch)
{
	struct relay_query *query;
	struct turn *turn;

	while ((query = TAILQ_FIRST(&relay->unread)) != NULL && query->exchange.batch < batch)
		leave_buffer(relay, query);
	while ((turn = turns_next(relay->places)) != NULL) {
		query = (struct relay_query *)(void *)((uint8_t *)turn -
						       offsetof(struct relay_query, turn));
		query->waited = 0;
		inflight_restart_retry(relay->inflight, &query->base);
		send_now(relay, query);
	}
}

/* Called when the marker's reply has arrived or is late. A resolver that is late has stopped, or it has lost the
 * marker. In both cases, more queries are sent, as many as it gets at once. */
static void
end_marker(struct relay *relay)
{
	exchange_end(&relay->marker.exchange);
	resolver_has_read(relay, relay->marker.exchange.batch);
	send_marker(relay);
}

/* --- forward_ops --- */

static void
send_soon(struct relay *relay, struct relay_query *query)
{
	query->again_at_ns = relay->context->now_ns + soon_ns;
	query->soon = true;
	TAILQ_INSERT_TAIL(&relay->soon, query, by_soon);
}

/* Sends the query over TCP. */
static void
send_over_tcp(struct relay *relay, struct relay_query *query)
{
	query->over_tcp = true;
	if (relay->context->now_ns < relay->tcp_late_until_ns)
		send_soon(relay, query);
	exchange_over_tcp(&query->exchange);
}

/* Called when the resolver is late over TCP. */
static void
tcp_is_late(struct relay *relay, struct relay_query *query)
{
	relay->tcp_late_until_ns = relay->context->now_ns + tcp_late_ns;
	inflight_no_reply(relay->inflight, &query->base);
}

/* An earlier candidate of the search list may have been sent over TCP. If the answer was truncated lately, the servers have it, so a reply
 * after soon_ns is late. Then dnsmasq has most likely chosen a server that loses long messages. */
static void
relay_ask(void *arg, struct inflight *inflight)
{
	struct relay *relay = arg;
	struct relay_query *query = query_of(inflight);

	query->over_tcp = false;
	query->waited = 0;
	query->exchange.remote = relay->resolver;
	query->exchange.question = inflight;
	send_first(relay, query);
	if (inflight->client.proto == PROTO_TCP && !query->turn.waiting &&
	    forwarded_reply_was_truncated(relay->context, relay->cache, inflight))
		send_soon(relay, query);
}

/* Sends the query again. It keeps its port and ID, so a reply to the first message counts too. */
static void
send_again(struct relay *relay, struct relay_query *query)
{
	stats_add(&relay->context->stats->forward_retries, 1);
	if (exchange_is_open(&query->exchange))
		exchange_send_again(&query->exchange);
	else
		send_first(relay, query);
}

static void
relay_retry(void *arg, struct inflight *inflight)
{
	struct relay *relay = arg;
	struct relay_query *query = query_of(inflight);
	bool open = exchange_is_open(&query->exchange);

	if (query->turn.waiting)
		return;
	query->waited++;
	if (query->over_tcp) {
		if (open) {
			tcp_is_late(relay, query);
		} else {
			stats_add(&relay->context->stats->forward_retries, 1);
			exchange_over_tcp(&query->exchange);
		}
		return;
	}
	if (query->soon || (open && query->waited != RETRY_FIRST && query->waited != RETRY_SECOND))
		return;
	if (open)
		stats_add(&relay->context->stats->forward_server_failures, 1);
	send_again(relay, query);
}

static void
leave_soon(struct relay *relay, struct relay_query *query)
{
	if (query->soon)
		TAILQ_REMOVE(&relay->soon, query, by_soon);
	query->soon = false;
}

static void
relay_forget(void *arg, struct inflight *inflight)
{
	struct relay_query *query = query_of(inflight);

	if (query->turn.waiting)
		inflight->asked = false; /* the resolver does not store this query */
	leave_buffer(arg, query);
	leave_soon(arg, query);
	exchange_end(&query->exchange);
}

/* --- remote_ops --- */

static void
relay_reply(void *arg, struct exchange *exchange, const uint8_t *reply, size_t len, bool over_tcp)
{
	struct relay *relay = arg;
	struct relay_query *query = query_of_exchange(exchange);
	bool truncated = (wire_get16(reply + 2) & FLAG_TC) != 0;

	if (exchange == &relay->marker.exchange) {
		end_marker(relay);
		return;
	}
	if (validation_owns(relay->validation, exchange)) {
		validation_answer(relay->validation, reply, len);
		return;
	}
	if (relay->validation != NULL && !over_tcp)
		validation_replied(relay->validation);
	if (over_tcp) {
		relay->tcp_late_until_ns = 0;
	} else {
		leave_buffer(relay, query);
		resolver_has_read(relay, query->exchange.batch);
	}
	if (over_tcp || !truncated || query->base.client.proto != PROTO_TCP) {
		inflight_finish(relay->inflight, &query->base, reply, len);
		return;
	}
	leave_soon(relay, query);
	inflight_restart_retry(relay->inflight, &query->base);
	send_over_tcp(relay, query);
}

/* Called when the resolver is down or being restarted. A query over TCP is sent again at its retry time. */
static void
relay_lost(void *arg, struct exchange *exchange, bool over_tcp)
{
	struct relay *relay = arg;
	struct relay_query *query = query_of_exchange(exchange);

	if (!over_tcp)
		relay->emptied = true;
	if (exchange == &relay->marker.exchange) {
		exchange_end(exchange);
		return;
	}
	if (validation_owns(relay->validation, exchange))
		return; /* the next query sends it again */
	stats_add(&relay->context->stats->forward_server_failures, 1);
	if (over_tcp || query->soon)
		return;
	send_soon(relay, query);
}

int64_t
relay_iteration(struct relay *relay)
{
	struct relay_query *query;
	int64_t due_ns = CLOCK_NEVER;

	if (relay->emptied)
		resolver_has_read(relay, UINT64_MAX);
	relay->emptied = false;
	while ((query = TAILQ_FIRST(&relay->soon)) != NULL &&
	       query->again_at_ns <= relay->context->now_ns) {
		leave_soon(relay, query);
		if (!query->over_tcp)
			send_again(relay, query);
		else if (exchange_is_open(&query->exchange))
			tcp_is_late(relay, query);
	}
	if (exchange_is_open(&relay->marker.exchange) &&
	    relay->marker.due_ns <= relay->context->now_ns)
		end_marker(relay);
	if (exchange_is_open(&relay->marker.exchange))
		due_ns = relay->marker.due_ns;
	return query == NULL ? due_ns : clock_earlier(due_ns, query->again_at_ns);
}

/* --- set-up --- */

static bool
relay_is_final(void *arg)
{
	const struct relay *relay = arg;

	return validation_checks(relay->validation);
}

void
relay_respects_validation(struct relay *relay)
{
	relay->validation = validation_new(relay->context, relay->resolver, &relay->own_question);
	inflight_ops(relay->inflight)->is_final = relay_is_final;
}

void
relay_cache(struct relay *relay, struct forwarded_cache *cache)
{
	relay->cache = cache;
}

struct relay *
relay_new(struct worker_context *context, struct inflight_table *inflight,
    struct transport *transport, const struct server *resolver, unsigned unread_max)
{
	struct relay *relay = xcalloc(1, sizeof *relay);
	struct dname name;

	relay->context = context;
	relay->inflight = inflight;
	relay->resolver = remote_new(transport, resolver, 1,
	    (struct remote_ops){ .arg = relay, .reply = relay_reply, .lost = relay_lost });
	TAILQ_INIT(&relay->soon);
	TAILQ_INIT(&relay->unread);
	relay->unread_max = unread_max;
	relay->places = turns_new(unread_max);
	dname_from_text(&name, VALIDATION_NAME);
	relay->own_question.type = TYPE_TXT;
	memcpy(relay->own_question.info.query.qname, name.wire, name.len);
	relay->marker.exchange.remote = relay->resolver;
	relay->marker.exchange.question = &relay->own_question;
	*inflight_ops(inflight) = (struct forward_ops){ .arg = relay,
		.size = sizeof(struct relay_query),
		.made = MADE_RELAYED,
		.ask = relay_ask,
		.retry = relay_retry,
		.forget = relay_forget,
		.ask_on = relay_ask,
		.retry_ns = retry_ns,
		.timeout_ns = RELAY_TIMEOUT_MS * INT64_C(1000000),
		.stored_ns = stored_ns };
	return relay;
}

void
relay_free(struct relay *relay)
{
	if (relay == NULL)
		return;
	exchange_end(&relay->marker.exchange);
	validation_free(relay->validation);
	turns_free(relay->places);
	remote_release(relay->resolver);
	free(relay);
}
