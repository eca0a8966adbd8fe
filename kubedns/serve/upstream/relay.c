#include "kubedns/serve/upstream/relay.h"

#include <stdlib.h>

#include "kubedns/serve/upstream/inflight.h"
#include "kubedns/serve/upstream/transport.h"
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
static const int64_t hold_ns = 11 * INT64_C(1000000000);
/* A query that got ECONNREFUSED is sent again after this time. dnsmasq is probably being restarted. */
static const int64_t refused_ns = 50 * INT64_C(1000000);

/* A query in flight with the relay's own data. */
struct relay_query {
	struct inflight base;
	struct exchange exchange;
	unsigned waited;     /* number of retry intervals without an answer */
	bool over_tcp;       /* the query is sent over TCP, because its UDP reply was truncated */
	bool refused;        /* the query waits in `refused` */
	int64_t again_at_ns; /* for a refused query: the time to send it again */
	TAILQ_ENTRY(relay_query) by_refused;
};

struct relay {
	struct worker_context *context;
	struct inflight_table *inflight;
	struct remote *resolver;
	struct validation *validation;     /* NULL if nothing depends on it */
	TAILQ_HEAD(, relay_query) refused; /* queries to send again soon, the earliest first */
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

/* --- forward_ops --- */

/* If there is no descriptor, the query waits for its retry. */
static void
send_first(const struct relay *relay, struct relay_query *query)
{
	if (relay->validation != NULL)
		validation_ask(relay->validation);
	exchange_send(&query->exchange);
}

/* An earlier candidate of the search list may have been sent over TCP. */
static void
relay_ask(void *arg, struct inflight *inflight)
{
	const struct relay *relay = arg;
	struct relay_query *query = query_of(inflight);

	query->over_tcp = false;
	query->waited = 0;
	query->exchange.remote = relay->resolver;
	query->exchange.question = inflight;
	send_first(relay, query);
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

	query->waited++;
	if (query->over_tcp) {
		if (open) {
			inflight_no_reply(relay->inflight, inflight);
		} else {
			stats_add(&relay->context->stats->forward_retries, 1);
			exchange_over_tcp(&query->exchange);
		}
		return;
	}
	if (query->refused ||
	    (open && query->waited != RETRY_FIRST && query->waited != RETRY_SECOND))
		return;
	if (open)
		stats_add(&relay->context->stats->forward_server_failures, 1);
	send_again(relay, query);
}

static void
leave_refused(struct relay *relay, struct relay_query *query)
{
	if (query->refused)
		TAILQ_REMOVE(&relay->refused, query, by_refused);
	query->refused = false;
}

static void
relay_forget(void *arg, struct inflight *inflight)
{
	struct relay_query *query = query_of(inflight);

	leave_refused(arg, query);
	exchange_end(&query->exchange);
}

/* --- remote_ops --- */

static void
relay_reply(void *arg, struct exchange *exchange, const uint8_t *reply, size_t len, bool over_tcp)
{
	const struct relay *relay = arg;
	struct relay_query *query = query_of_exchange(exchange);
	bool truncated = (wire_get16(reply + 2) & FLAG_TC) != 0;

	if (relay->validation != NULL && !over_tcp)
		validation_replied(relay->validation);
	if (over_tcp || !truncated || query->base.client.proto != PROTO_TCP) {
		inflight_finish(relay->inflight, &query->base, reply, len);
		return;
	}
	if (query->refused)
		return; /* the query will be sent again anyway */
	query->over_tcp = true;
	inflight_restart_retry(relay->inflight, &query->base);
	exchange_over_tcp(exchange);
}

/* Called when the resolver is down or being restarted. A query over TCP is sent again at its retry time. */
static void
relay_lost(void *arg, struct exchange *exchange, bool over_tcp)
{
	struct relay *relay = arg;
	struct relay_query *query = query_of_exchange(exchange);

	stats_add(&relay->context->stats->forward_server_failures, 1);
	if (over_tcp || query->refused)
		return;
	query->again_at_ns = relay->context->now_ns + refused_ns;
	query->refused = true;
	TAILQ_INSERT_TAIL(&relay->refused, query, by_refused);
}

int64_t
relay_iteration(struct relay *relay)
{
	struct relay_query *query;

	while ((query = TAILQ_FIRST(&relay->refused)) != NULL &&
	       query->again_at_ns <= relay->context->now_ns) {
		leave_refused(relay, query);
		send_again(relay, query);
	}
	return query == NULL ? CLOCK_NEVER : query->again_at_ns;
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
	relay->validation = validation_new(
	    relay->context, remote_server(relay->resolver), worker_key(PART_VALIDATION, 0, 0));
	inflight_ops(relay->inflight)->is_final = relay_is_final;
}

void
relay_validation_event(struct relay *relay)
{
	validation_event(relay->validation);
}

struct relay *
relay_new(struct worker_context *context, struct inflight_table *inflight,
    struct transport *transport, const struct server *resolver)
{
	struct relay *relay = xcalloc(1, sizeof *relay);

	relay->context = context;
	relay->inflight = inflight;
	relay->resolver = remote_new(transport, resolver, 1,
	    (struct remote_ops){ .arg = relay, .reply = relay_reply, .lost = relay_lost });
	TAILQ_INIT(&relay->refused);
	*inflight_ops(inflight) = (struct forward_ops){ .arg = relay,
		.size = sizeof(struct relay_query),
		.made = MADE_RELAYED,
		.ask = relay_ask,
		.retry = relay_retry,
		.forget = relay_forget,
		.ask_on = relay_ask,
		.retry_ns = retry_ns,
		.timeout_ns = RELAY_TIMEOUT_MS * INT64_C(1000000),
		.hold_ns = hold_ns };
	return relay;
}

void
relay_free(struct relay *relay)
{
	if (relay == NULL)
		return;
	remote_release(relay->resolver);
	validation_free(relay->validation);
	free(relay);
}
