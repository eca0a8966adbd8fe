#include "kubedns/serve/upstream/forward.h"

#include <ares.h>
#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "kubedns/serve/observe/observe.h"
#include "kubedns/serve/upstream/ids.h"
#include "kubedns/serve/upstream/inflight.h"
#include "lib/cares.h"
#include "lib/clock.h"
#include "lib/log.h"
#include "lib/xalloc.h"

/* Number of queries sent from one source port (RFC 5452 section 10). An attacker who guesses a port can only use it to forge replies to
 * this number of queries. */
enum { CHANNEL_QUERIES = 32 };

struct forward_server {
	struct server server;
	int64_t failed_until_ns;
	struct channel *channel; /* channel for new queries; if NULL, one is opened */
};

/* One source port for queries to one server. */
struct channel {
	LIST_ENTRY(channel) link; /* in a channel_list of struct forward */
	struct forward *forward;
	ares_channel ares;
	struct server server;
	uint32_t slot;
	unsigned used;    /* number of queries that the channel has sent */
	unsigned waiting; /* number of attempts whose query is still in flight */
	unsigned open;    /* number of attempts that c-ares has not ended */
	bool retired;     /* the channel gets no more queries */
	uint16_t ids[CHANNEL_QUERIES];
};

/* A query in flight with the forwarder's own data. */
enum { REFUSED_TEXT_MAX = 128 }; /* has space for the names of two servers */

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
	LIST_ENTRY(attempt) link;
	/* NULL if another attempt answered the query, or the query ended */
	struct forward_query *query;
	struct channel *channel;
	bool with_opt;   /* the query has an OPT record */
	int64_t sent_ns; /* send time for dnstap */
};

struct forward {
	struct worker_context *context;
	struct inflight_table *inflight;
	struct forward_ops *ops;
	struct forward_way way;
	struct forward_server upstreams[UPSTREAMS_MAX];
	size_t upstream_count;
	uint32_t generation; /* incremented by each change of the server list */
	/* `channels` are in use. `retired` are used up. `done` are used up, and no query waits for them. */
	LIST_HEAD(channel_list, channel)
	channels, retired, done;
	/* Queries to send to the next server at the end of the iteration. */
	TAILQ_HEAD(, forward_query)
	queue;
	struct channel **slots;
	uint32_t slot_count;
	uint32_t *free_slots;
	uint32_t free_count;
	int64_t tick_at_ns;
	struct ids ids;
	unsigned open; /* attempts that c-ares has not ended, in all channels */
};

/*
 * c-ares channels. Each channel has one source port to one server, for 32 queries. A new channel is opened for the next 32 queries, and the
 * old one remains until its last attempt has ended. An attacker who forges an answer must guess a port and an ID that are only valid for a
 * few seconds.
 */

enum { CHANNELS_MAX = 4096 };

static void
socket_state(void *arg, ares_socket_t fd, int readable, int writable)
{
	const struct channel *channel = arg;
	const struct worker_context *context = channel->forward->context;
	uint64_t key = worker_key(channel->forward->way.part, channel->slot, (uint32_t)fd);
	uint32_t events = (readable ? (uint32_t)EPOLLIN : 0) | (writable ? (uint32_t)EPOLLOUT : 0);

	if (events == 0) {
		worker_epoll_ctl(context, EPOLL_CTL_DEL, fd, 0, key);
		return;
	}
	int rc = worker_epoll_ctl(context, EPOLL_CTL_MOD, fd, events, key);
	if (rc != 0 && errno == ENOENT)
		rc = worker_epoll_ctl(context, EPOLL_CTL_ADD, fd, events, key);
	if (rc != 0)
		log_neterr("forward: epoll_ctl: %s", strerror(errno));
}

static int
set_server(ares_channel ares, const struct server *server)
{
	char text[SERVER_TEXT_MAX];

	return ares_set_servers_ports_csv(ares, server_format(server, text));
}

/*
 * Sets every option that c-ares would otherwise read from /etc/resolv.conf or the environment. The timeout is for the whole query. The
 * forwarder has its own, shorter timeouts. It writes the OPT record itself: with ARES_FLAG_EDNS, c-ares 1.18 would shorten a message that
 * it is still sending over TCP.
 */
static int
open_ares(struct channel *channel)
{
	static char lookups[] = "b";
	struct ares_options options = {
		.flags = ARES_FLAG_NOCHECKRESP | ARES_FLAG_NOSEARCH |
			 (channel->forward->way.tcp ? ARES_FLAG_USEVC | ARES_FLAG_STAYOPEN : 0),
		.timeout = FORWARD_TIMEOUT_MS,
		.tries = 1,
		.ndots = 0,
		.lookups = lookups,
		.sock_state_cb = socket_state,
		.sock_state_cb_data = channel,
	};
	int mask = ARES_OPT_FLAGS | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_NDOTS |
		   ARES_OPT_LOOKUPS | ARES_OPT_DOMAINS | ARES_OPT_SERVERS | ARES_OPT_SORTLIST |
		   ARES_OPT_SOCK_STATE_CB | ARES_OPT_NOROTATE;
	int status = cares_init(&channel->ares, &options, mask);

	if (status != ARES_SUCCESS)
		return status;
	status = set_server(channel->ares, &channel->server);
	if (status != ARES_SUCCESS)
		ares_destroy(channel->ares);
	return status;
}

static uint32_t
take_slot(struct forward *forward)
{
	if (forward->free_count > 0)
		return forward->free_slots[--forward->free_count];
	if ((forward->slot_count & (forward->slot_count + 1)) == 0 || forward->slots == NULL) {
		size_t capacity = forward->slots == NULL ? 16 : (size_t)forward->slot_count * 2 + 2;

		forward->slots = xreallocarray(forward->slots, capacity, sizeof *forward->slots);
		forward->free_slots =
		    xreallocarray(forward->free_slots, capacity, sizeof *forward->free_slots);
	}
	return forward->slot_count++;
}

/* Opens a channel to this server. Returns NULL if there is no descriptor, no memory, or too many channels. */
static struct channel *
channel_open(struct forward *forward, const struct server *server)
{
	if (forward->slot_count - forward->free_count >= CHANNELS_MAX)
		return NULL;
	struct channel *channel = xcalloc(1, sizeof *channel);
	channel->forward = forward;
	channel->server = *server;
	int status = open_ares(channel);
	if (status != ARES_SUCCESS) {
		log_neterr("forward: c-ares: %s", ares_strerror(status));
		free(channel);
		return NULL;
	}
	channel->slot = take_slot(forward);
	forward->slots[channel->slot] = channel;
	LIST_INSERT_HEAD(&forward->channels, channel, link);
	return channel;
}

/* Gives the channel no more queries. forward_iteration() closes it when no query waits for it. */
static void
channel_retire(struct forward *forward, struct channel *channel)
{
	if (channel->retired)
		return;
	channel->retired = true;
	LIST_REMOVE(channel, link);
	LIST_INSERT_HEAD(channel->waiting > 0 ? &forward->retired : &forward->done, channel, link);
	for (size_t i = 0; i < forward->upstream_count; i++)
		if (forward->upstreams[i].channel == channel)
			forward->upstreams[i].channel = NULL;
}

/* Closes the channel. Must not be called inside a callback of the channel. */
static void
channel_close(struct forward *forward, struct channel *channel)
{
	assert(channel->waiting == 0);
	ares_destroy(channel->ares); /* also ends abandoned attempts */
	assert(channel->open == 0);
	LIST_REMOVE(channel, link);
	forward->slots[channel->slot] = NULL;
	forward->free_slots[forward->free_count++] = channel->slot;
	free(channel);
}

/* Returns an ID that the channel has not used. */
static uint16_t
channel_id(struct forward *forward, struct channel *channel)
{
	uint16_t id = ids_take(&forward->ids, channel->ids, channel->used);

	channel->ids[channel->used++] = id;
	return id;
}

enum { RETRY_MAX_MS = 1000, RETRY_MIN_MS = 250 };

/* A server that failed is tried last for this time. */
static const int64_t failed_ns = 10 * INT64_C(1000000000);
/* Abandoned attempts are searched at this interval, because the timeouts of c-ares are not used. */
static const int64_t tick_ns = 500 * INT64_C(1000000);

static struct forward_query *
query_of(struct inflight *inflight)
{
	_Static_assert(offsetof(struct forward_query, base) == 0, "the base is embedded first");
	return (struct forward_query *)(void *)inflight;
}

/* --- servers --- */

static struct forward_server *
find_upstream(struct forward *forward, const struct server *server)
{
	for (size_t i = 0; i < forward->upstream_count; i++)
		if (server_equal(&forward->upstreams[i].server, server))
			return &forward->upstreams[i];
	return NULL;
}

static void
server_failed(struct forward *forward, const struct server *server)
{
	struct forward_server *upstream = find_upstream(forward, server);

	stats_add(&forward->context->stats->forward_server_failures, 1);
	if (upstream == NULL)
		return;
	char text[SERVER_TEXT_MAX];
	if (upstream->failed_until_ns <= forward->context->now_ns)
		log_neterr(
		    "forward: %s does not answer: for 10 s it is tried after the other servers",
		    server_format(server, text));
	upstream->failed_until_ns = forward->context->now_ns + failed_ns;
}

static void
server_answered(struct forward *forward, const struct server *server)
{
	struct forward_server *upstream = find_upstream(forward, server);

	if (upstream != NULL)
		upstream->failed_until_ns = 0;
}

/*
 * Returns the server to try next, or NULL if all servers have been tried. Servers are tried in the configured order, but servers that
 * failed recently come last.
 */
static struct forward_server *
choose_upstream(struct forward *forward, uint16_t tried)
{
	struct forward_server *best = NULL;
	int64_t best_failed = 0;

	for (size_t i = 0; i < forward->upstream_count; i++) {
		struct forward_server *upstream = &forward->upstreams[i];
		int64_t failed = upstream->failed_until_ns > forward->context->now_ns
				     ? upstream->failed_until_ns
				     : 0;

		if ((tried & 1u << i) == 0 && (best == NULL || failed < best_failed)) {
			best = upstream;
			best_failed = failed;
		}
	}
	return best;
}

static struct channel *
channel_for(struct forward *forward, struct forward_server *upstream)
{
	if (upstream->channel != NULL && upstream->channel->used == CHANNEL_QUERIES)
		channel_retire(forward, upstream->channel);
	if (upstream->channel == NULL)
		upstream->channel = channel_open(forward, &upstream->server);
	return upstream->channel;
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

/* Sends the query to the next server at the end of this iteration, because a callback of c-ares must not send a query. */
static void
send_later(struct forward *forward, struct forward_query *query)
{
	if (query->queued)
		return;
	query->queued = true;
	TAILQ_INSERT_TAIL(&forward->queue, query, by_queue);
}

/* Makes the query no longer wait for this attempt. */
static void
attempt_detach(struct attempt *attempt)
{
	if (attempt->query == NULL)
		return;
	LIST_REMOVE(attempt, link);
	attempt->query->attempt_count--;
	attempt->query = NULL;
	struct channel *channel = attempt->channel;
	if (--channel->waiting == 0 && channel->retired) {
		LIST_REMOVE(channel, link);
		LIST_INSERT_HEAD(&channel->forward->done, channel, link);
	}
}

/* Result of an attempt. A server that declines is alive, but another server may have an answer. */
enum verdict { ANSWERED, DECLINED, FAILED };

static enum verdict
attempt_verdict(int status, const uint8_t *reply, size_t len)
{
	if (status != ARES_SUCCESS || reply == NULL || len < DNS_HEADER)
		return FAILED;
	switch (reply[3] & 15) {
	case RCODE_FORMERR:
	case RCODE_SERVFAIL:
	case RCODE_NOTIMP:
	case RCODE_REFUSED:
		return DECLINED;
	default:
		return ANSWERED;
	}
}

/* Handles a reply that declines a query. A server that does not know EDNS replies FORMERR to a query with OPT (RFC 6891 section 7), so it
 * has not been tried until it gets the query without OPT. */
static void
server_declined(struct forward *forward, struct forward_query *query, const struct server *server,
    bool with_opt, const uint8_t *reply)
{
	const struct forward_server *upstream = find_upstream(forward, server);
	unsigned rcode = reply[3] & 15;

	follow_servers(forward, query);
	if (upstream == NULL) /* the server is no longer in the list */
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

/* Ends the query because no server gave a usable reply. The reply is REFUSED if all servers refused, else SERVFAIL. */
static void
finish_without_reply(struct forward *forward, struct forward_query *query)
{
	char text[SERVER_TEXT_MAX], second[SERVER_TEXT_MAX];
	size_t count = forward->upstream_count;

	if (count > 0 && query->refused == (1u << count) - 1) {
		server_format(&forward->upstreams[0].server, text);
		if (count == 1)
			snprintf(
			    query->refused_by, sizeof query->refused_by, "refused by %s", text);
		else
			snprintf(query->refused_by, sizeof query->refused_by, "refused by %s%s%s",
			    text, count == 2 ? " and " : ", ",
			    server_format(&forward->upstreams[1].server, second));
		query->base.refused_by = query->refused_by;
	}
	inflight_finish(forward->inflight, &query->base, NULL, 0);
}

static void
attempt_done(void *arg, int status, const uint8_t *reply, size_t reply_len)
{
	struct attempt *attempt = arg;
	struct forward_query *query = attempt->query;
	struct channel *channel = attempt->channel;
	struct forward *forward = channel->forward;
	enum verdict verdict = attempt_verdict(status, reply, reply_len);
	bool with_opt = attempt->with_opt;

	if (reply != NULL && reply_len >= DNS_HEADER) /* c-ares retries over TCP by itself */
		observe_server_response(forward->context->ring,
		    forward->way.tcp || reply_len > CARES_UDP_MAX, &channel->server, reply,
		    reply_len, attempt->sent_ns);
	channel->open--;
	forward->open--;
	attempt_detach(attempt);
	free(attempt);
	if (verdict == ANSWERED || verdict == DECLINED)
		server_answered(forward, &channel->server);
	if (verdict == FAILED)
		channel_retire(forward, channel);
	if (query == NULL) /* for example, the attempt ended because its channel was closed */
		return;
	if (verdict == ANSWERED) {
		inflight_finish(forward->inflight, &query->base, reply, reply_len);
		return;
	}
	if (verdict == FAILED)
		server_failed(forward, &channel->server);
	else
		server_declined(forward, query, &channel->server, with_opt, reply);
	send_later(forward, query);
}

/*
 * Sends the query to this server. If no channel can be opened now (no descriptor, no memory), the query waits for its retry time.
 */
static void
send_to(struct forward *forward, struct forward_query *query, struct forward_server *upstream)
{
	uint8_t question[INFLIGHT_QUESTION_MAX];
	struct channel *channel = channel_for(forward, upstream);
	bool with_opt = (query->without_opt & 1u << (upstream - forward->upstreams)) == 0;

	if (channel == NULL)
		return;
	size_t len =
	    inflight_question(&query->base, channel_id(forward, channel), with_opt, question);
	struct attempt *attempt = xmalloc(sizeof *attempt);
	*attempt = (struct attempt){ .query = query, .channel = channel, .with_opt = with_opt };
	LIST_INSERT_HEAD(&query->attempts, attempt, link);
	query->attempt_count++;
	channel->waiting++;
	channel->open++;
	forward->open++;
	attempt->sent_ns = observe_server_query(
	    forward->context->ring, forward->way.tcp, &channel->server, question, len);
	cares_send(channel->ares, question, len, attempt_done, attempt);
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

/* Starts with a new target, for which all servers can be queried. The query is sent at the end of the iteration, because c-ares may be
 * the caller. */
static void
forward_ask_on(void *arg, struct inflight *inflight)
{
	struct forward_query *query = query_of(inflight);

	start_over(query);
	send_later(arg, query);
}

/* Called when no answer has arrived in time. Earlier attempts stay open, and the next server is tried in addition. */
static void
forward_retry(void *arg, struct inflight *inflight)
{
	struct forward *forward = arg;
	struct forward_query *query = query_of(inflight);
	struct attempt *last = LIST_FIRST(&query->attempts);

	if (last != NULL)
		server_failed(forward, &last->channel->server);
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
		attempt_detach(attempt);
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
	forward->ops->retry_ns = ms * 1000000;
}

struct forward *
forward_new(struct worker_context *context, struct inflight_table *inflight, struct forward_way way,
    const struct server *servers, size_t count)
{
	struct forward *forward = xcalloc(1, sizeof *forward);

	forward->way = way;
	forward->context = context;
	forward->inflight = inflight;
	LIST_INIT(&forward->channels);
	LIST_INIT(&forward->retired);
	LIST_INIT(&forward->done);
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

void
forward_servers(struct forward *forward, const struct server *servers, size_t count)
{
	struct forward_server next[UPSTREAMS_MAX] = { 0 };

	if (count > UPSTREAMS_MAX)
		count = UPSTREAMS_MAX;
	for (size_t i = 0; i < count; i++) {
		struct forward_server *known = find_upstream(forward, &servers[i]);

		next[i].server = servers[i];
		if (known != NULL) {
			next[i].failed_until_ns = known->failed_until_ns;
			next[i].channel = known->channel;
			known->channel = NULL;
		}
	}
	for (size_t i = 0; i < forward->upstream_count; i++)
		if (forward->upstreams[i].channel != NULL)
			channel_retire(forward, forward->upstreams[i].channel);
	memcpy(forward->upstreams, next, sizeof next);
	forward->upstream_count = count;
	forward->generation++;
	forward->ops->has_servers = count > 0;
	set_retry_time(forward);
}

void
forward_event(struct forward *forward, uint32_t slot, int fd, uint32_t events)
{
	struct channel *channel = slot < forward->slot_count ? forward->slots[slot] : NULL;

	if (channel == NULL)
		return;
	bool failed = (events & (EPOLLERR | EPOLLHUP)) != 0;
	ares_process_fd(channel->ares, (events & EPOLLIN) != 0 || failed ? fd : ARES_SOCKET_BAD,
	    (events & EPOLLOUT) != 0 ? fd : ARES_SOCKET_BAD);
}

/* Retires a channel if it has open attempts, but no query waits for them. The server of such a channel does not answer. */
static void
retire_abandoned(struct forward *forward)
{
	struct channel *channel, *next;

	for (channel = LIST_FIRST(&forward->channels); channel != NULL; channel = next) {
		next = LIST_NEXT(channel, link);
		if (channel->open > 0 && channel->waiting == 0)
			channel_retire(forward, channel);
	}
}

int64_t
forward_iteration(struct forward *forward)
{
	struct worker_context *context = forward->context;

	if (context->now_ns >= forward->tick_at_ns) {
		forward->tick_at_ns = context->now_ns + tick_ns;
		retire_abandoned(forward);
	}
	struct forward_query *query;
	while ((query = TAILQ_FIRST(&forward->queue)) != NULL) {
		TAILQ_REMOVE(&forward->queue, query, by_queue);
		query->queued = false;
		if (query->tried != 0)
			stats_add(&context->stats->forward_retries, 1);
		send_next(forward, query, false);
	}
	struct channel *channel;
	while ((channel = LIST_FIRST(&forward->done)) != NULL)
		channel_close(forward, channel);
	return forward->open == 0 ? CLOCK_NEVER : forward->tick_at_ns;
}

void
forward_free(struct forward *forward)
{
	if (forward == NULL)
		return;
	for (size_t i = 0; i < forward->upstream_count; i++)
		if (forward->upstreams[i].channel != NULL)
			channel_retire(forward, forward->upstreams[i].channel);
	struct channel *channel;
	while ((channel = LIST_FIRST(&forward->done)) != NULL)
		/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): it loses track of queues */
		channel_close(forward, channel);
	assert(LIST_EMPTY(&forward->channels) && LIST_EMPTY(&forward->retired));
	free(forward->slots);
	free(forward->free_slots);
	free(forward);
}
