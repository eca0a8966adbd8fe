#include "kubedns/serve/forward.h"

#include <ares.h>
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "kubedns/serve/ids.h"
#include "kubedns/serve/inflight.h"
#include "lib/log.h"
#include "lib/xalloc.h"

enum {
	PORT_QUERIES =
	    32, /* of one source port: RFC 5452 section 10, a port guessed late is worth little */
	CHANNELS_MAX = 4096,
	RETRY_MAX_MS = 1000,
	RETRY_MIN_MS = 250,
};
static const int64_t failed_ns =
    10 * INT64_C(1000000000); /* for so long a server that failed is tried last */
static const int64_t tick_ns =
    500 * INT64_C(1000000); /* to look for abandoned attempts; c-ares's own timeouts are not used */

struct upstream {
	struct server server;
	int64_t failed_until_ns;
	struct channel *channel; /* new queries go here; NULL: make one */
};

/* One source port to one server. */
struct channel {
	LIST_ENTRY(channel) link; /* of one of forward's lists */
	struct forward *forward;
	ares_channel ares;
	struct server server;
	uint32_t slot;
	unsigned used;    /* queries that it was given */
	unsigned waiting; /* attempts whose query is still pending */
	unsigned open;    /* attempts that c-ares still has */
	bool retired;     /* gets no more queries */
	uint16_t ids[PORT_QUERIES];
};

struct attempt {
	LIST_ENTRY(attempt) link;
	struct inflight *inflight; /* NULL: answered by another attempt, or over */
	struct channel *channel;
};

struct forward {
	struct worker *worker;
	struct forward_ops *ops;
	struct upstream upstreams[UPSTREAMS_MAX];
	size_t upstream_count;
	LIST_HEAD(channel_list, channel)
	channels, retired, done;      /* in use; used up; nobody waits for it */
	TAILQ_HEAD(, inflight) queue; /* to be sent to the next server, at the end of the turn */
	struct channel **slots;
	uint32_t slot_count;
	uint32_t *free_slots;
	uint32_t free_count;
	int64_t tick_at_ns;
	struct ids ids;
	unsigned open; /* attempts that c-ares has, in all channels */
};

/* --- channels --- */

static void
socket_state(void *arg, ares_socket_t fd, int readable, int writable)
{
	const struct channel *channel = arg;
	const struct worker *worker = channel->forward->worker;
	uint64_t key = loop_key(LOOP_FORWARD, channel->slot, (uint32_t)fd);
	uint32_t events = (readable ? (uint32_t)EPOLLIN : 0) | (writable ? (uint32_t)EPOLLOUT : 0);
	if (events == 0) {
		loop_control(worker, EPOLL_CTL_DEL, fd, 0, key);
		return;
	}
	int rc = loop_control(worker, EPOLL_CTL_MOD, fd, events, key);
	if (rc != 0 && errno == ENOENT)
		rc = loop_control(worker, EPOLL_CTL_ADD, fd, events, key);
	if (rc != 0)
		log_neterr("forward: epoll_ctl: %s", strerror(errno));
}

static int
set_server(ares_channel ares, const struct server *server)
{
	struct ares_addr_port_node node = {
		.family = server->addr.family, .udp_port = server->port, .tcp_port = server->port
	};
	memcpy(&node.addr, server->addr.bytes, addr_len(&server->addr));
	return ares_set_servers_ports(ares, &node);
}

/*
 * Everything that c-ares would read from /etc/resolv.conf or the environment is given, so that
 * it reads neither. The timeout is the whole query's: shorter ones are ours.
 */
static int
open_ares(struct channel *channel)
{
	static char lookups[] = "b";
	struct ares_options options = {
		.flags = ARES_FLAG_EDNS | ARES_FLAG_NOCHECKRESP | ARES_FLAG_NOSEARCH,
		.timeout = FORWARD_TIMEOUT_MS,
		.tries = 1,
		.ndots = 0,
		.lookups = lookups,
		.sock_state_cb = socket_state,
		.sock_state_cb_data = channel,
		.ednspsz = DNS_UDP_PAYLOAD,
	};
	int mask = ARES_OPT_FLAGS | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_NDOTS |
		   ARES_OPT_LOOKUPS | ARES_OPT_DOMAINS | ARES_OPT_SERVERS | ARES_OPT_SORTLIST |
		   ARES_OPT_SOCK_STATE_CB | ARES_OPT_EDNSPSZ | ARES_OPT_NOROTATE;
	int status = ares_init_options(&channel->ares, &options, mask);
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
		size_t room = forward->slots == NULL ? 16 : (size_t)forward->slot_count * 2 + 2;
		forward->slots = xreallocarray(forward->slots, room, sizeof(*forward->slots));
		forward->free_slots =
		    xreallocarray(forward->free_slots, room, sizeof(*forward->free_slots));
	}
	return forward->slot_count++;
}

static struct channel *
channel_open(struct forward *forward, const struct server *server)
{
	if (forward->slot_count - forward->free_count >= CHANNELS_MAX)
		return NULL;
	struct channel *channel = xcalloc(1, sizeof(*channel));
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

/* No more queries for it; forward_turn closes it once nobody waits for the last of them. */
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

/* Not from inside one of its callbacks. */
static void
channel_close(struct forward *forward, struct channel *channel)
{
	assert(channel->waiting == 0);
	ares_destroy(channel->ares); /* ends abandoned attempts */
	assert(channel->open == 0);
	LIST_REMOVE(channel, link);
	forward->slots[channel->slot] = NULL;
	forward->free_slots[forward->free_count++] = channel->slot;
	free(channel);
}

static uint16_t
channel_id(struct forward *forward, struct channel *channel)
{
	uint16_t id = ids_take(&forward->ids, channel->ids, channel->used);
	channel->ids[channel->used++] = id;
	return id;
}

/* --- servers --- */

static struct upstream *
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
	struct upstream *upstream = find_upstream(forward, server);
	stats_add(&forward->worker->stats->forward_server_failures, 1);
	if (upstream == NULL)
		return;
	char text[SERVER_TEXT_MAX];
	if (upstream->failed_until_ns <= forward->worker->now_ns)
		log_neterr("forward: %s does not answer: tried last for a while",
		    server_format(server, text));
	upstream->failed_until_ns = forward->worker->now_ns + failed_ns;
}

static void
server_answered(struct forward *forward, const struct server *server)
{
	struct upstream *upstream = find_upstream(forward, server);
	if (upstream != NULL)
		upstream->failed_until_ns = 0;
}

/*
 * The server to try next: configured order, those that failed lately behind the others; NULL if
 * all have been tried.
 */
static struct upstream *
choose(struct forward *forward, uint16_t tried)
{
	struct upstream *best = NULL;
	int64_t best_failed = 0;
	for (size_t i = 0; i < forward->upstream_count; i++) {
		struct upstream *upstream = &forward->upstreams[i];
		int64_t failed = upstream->failed_until_ns > forward->worker->now_ns
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
channel_for(struct forward *forward, struct upstream *upstream)
{
	if (upstream->channel != NULL && upstream->channel->used == PORT_QUERIES)
		channel_retire(forward, upstream->channel);
	if (upstream->channel == NULL)
		upstream->channel = channel_open(forward, &upstream->server);
	return upstream->channel;
}

/* --- attempts --- */

/* Sends it to the next server at the end of this turn: never from inside c-ares. */
static void
send_later(struct forward *forward, struct inflight *inflight)
{
	if (inflight->queued)
		return;
	inflight->queued = true;
	TAILQ_INSERT_TAIL(&forward->queue, inflight, by_queue);
}

/* The attempt is over for its query. */
static void
detach(struct attempt *attempt)
{
	if (attempt->inflight == NULL)
		return;
	LIST_REMOVE(attempt, link);
	attempt->inflight->attempt_count--;
	attempt->inflight = NULL;
	struct channel *channel = attempt->channel;
	if (--channel->waiting == 0 && channel->retired) {
		LIST_REMOVE(channel, link);
		LIST_INSERT_HEAD(&channel->forward->done, channel, link);
	}
}

enum verdict { ANSWERED, DECLINED, FAILED, ABANDONED };

/* What an attempt has come to. A server that declines is well, but the next one may know more. */
static enum verdict
judge(int status, const uint8_t *reply, int len)
{
	if (status == ARES_EDESTRUCTION || status == ARES_ECANCELLED)
		return ABANDONED;
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

static void
attempt_done(void *arg, int status, int timeouts, unsigned char *reply, int reply_len)
{
	(void)timeouts;
	struct attempt *attempt = arg;
	struct inflight *inflight = attempt->inflight;
	struct channel *channel = attempt->channel;
	struct forward *forward = channel->forward;
	enum verdict verdict = judge(status, reply, reply_len);

	channel->open--;
	forward->open--;
	detach(attempt);
	free(attempt);
	if (verdict == ANSWERED || verdict == DECLINED)
		server_answered(forward, &channel->server);
	if (verdict != ANSWERED) /* c-ares may now leave EDNS out of its further queries */
		channel_retire(forward, channel);
	if (inflight == NULL || verdict == ABANDONED)
		return;
	if (verdict == ANSWERED) {
		inflight_finish(forward->worker, inflight, reply, (size_t)reply_len);
		return;
	}
	if (verdict == FAILED)
		server_failed(forward, &channel->server);
	else
		inflight->declined = true;
	send_later(forward, inflight);
}

/*
 * A channel that cannot be had now
 * (no descriptor, no memory) is no failure yet: the retry time comes.
 */
static void
send_to(struct forward *forward, struct inflight *inflight, struct upstream *upstream)
{
	uint8_t query[INFLIGHT_QUESTION_MAX];
	struct channel *channel = channel_for(forward, upstream);
	if (channel == NULL)
		return;
	size_t len = inflight_question(inflight, channel_id(forward, channel), query);
	struct attempt *attempt = xmalloc(sizeof(*attempt));
	attempt->inflight = inflight;
	attempt->channel = channel;
	LIST_INSERT_HEAD(&inflight->attempts, attempt, link);
	inflight->attempt_count++;
	channel->waiting++;
	channel->open++;
	forward->open++;
	ares_send(channel->ares, query, (int)len, attempt_done, attempt);
}

/*
 * To the next server. When every server has been tried: after the retry time (`again`) from the
 * start, unless one of them has declined, which it would do again; at once only by waiting, for
 * other attempts or for the retry time.
 */
static void
send_next(struct forward *forward, struct inflight *inflight, bool again)
{
	struct upstream *upstream = choose(forward, inflight->tried);
	if (upstream == NULL && forward->upstream_count > 0 && !inflight->declined) {
		if (!again && (inflight->attempt_count > 0 || inflight->rounds++ == 0))
			return;
		inflight->tried = 0;
		upstream = again ? choose(forward, 0) : NULL;
	}
	if (upstream != NULL) {
		inflight->tried |= (uint16_t)(1u << (upstream - forward->upstreams));
		send_to(forward, inflight, upstream);
	} else if (again || inflight->attempt_count == 0) {
		inflight_finish(forward->worker, inflight, NULL, 0);
	}
}

static void
ask(void *arg, struct inflight *inflight)
{
	struct forward *forward = arg;
	struct upstream *upstream = choose(forward, 0);
	if (upstream == NULL) {
		send_later(forward, inflight); /* nobody to ask: SERVFAIL */
		return;
	}
	inflight->tried = (uint16_t)(1u << (upstream - forward->upstreams));
	send_to(forward, inflight, upstream);
}

/* No answer for the retry time: what is out stays out, the next server is asked beside it. */
static void
retry(void *arg, struct inflight *inflight)
{
	struct forward *forward = arg;
	struct attempt *last = LIST_FIRST(&inflight->attempts);
	if (last != NULL)
		server_failed(forward, &last->channel->server);
	stats_add(&forward->worker->stats->forward_retries, 1);
	send_next(forward, inflight, true);
}

static void
forget(void *arg, struct inflight *inflight)
{
	struct forward *forward = arg;
	struct attempt *attempt;
	while ((attempt = LIST_FIRST(&inflight->attempts)) != NULL)
		detach(attempt);
	if (inflight->queued)
		TAILQ_REMOVE(&forward->queue, inflight, by_queue);
	inflight->queued = false;
}

/* --- the worker's side --- */

static void
set_retry_time(struct forward *forward)
{
	int64_t ms = FORWARD_TIMEOUT_MS / (int64_t)(forward->upstream_count + 1);
	ms = ms > RETRY_MAX_MS ? RETRY_MAX_MS : ms < RETRY_MIN_MS ? RETRY_MIN_MS : ms;
	forward->ops->retry_ns = ms * 1000000;
}

struct forward *
forward_new(struct worker *worker, const struct server *servers, size_t count)
{
	struct forward *forward = xcalloc(1, sizeof(*forward));
	forward->worker = worker;
	LIST_INIT(&forward->channels);
	LIST_INIT(&forward->retired);
	LIST_INIT(&forward->done);
	TAILQ_INIT(&forward->queue);
	forward->ops = inflight_ops(worker->inflight);
	*forward->ops =
	    (struct forward_ops){ .arg = forward, .ask = ask, .retry = retry, .forget = forget };
	forward_servers(forward, servers, count);
	return forward;
}

void
forward_servers(struct forward *forward, const struct server *servers, size_t count)
{
	struct upstream next[UPSTREAMS_MAX] = { 0 };
	if (count > UPSTREAMS_MAX)
		count = UPSTREAMS_MAX;
	for (size_t i = 0; i < count; i++) {
		struct upstream *known = find_upstream(forward, &servers[i]);
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
	memcpy(forward->upstreams, next, sizeof(next));
	forward->upstream_count = count;
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

/* Servers that never answer leave attempts behind in channels that get no other queries. */
static void
tick(struct forward *forward)
{
	struct channel *channel, *next;
	for (channel = LIST_FIRST(&forward->channels); channel != NULL; channel = next) {
		next = LIST_NEXT(channel, link);
		if (channel->open > 0 && channel->waiting == 0)
			channel_retire(forward, channel);
	}
}

int64_t
forward_turn(struct forward *forward)
{
	struct worker *worker = forward->worker;
	if (worker->now_ns >= forward->tick_at_ns) {
		forward->tick_at_ns = worker->now_ns + tick_ns;
		tick(forward);
	}
	struct inflight *inflight;
	while ((inflight = TAILQ_FIRST(&forward->queue)) != NULL) {
		TAILQ_REMOVE(&forward->queue, inflight, by_queue);
		inflight->queued = false;
		if (inflight->tried != 0)
			stats_add(&worker->stats->forward_retries, 1);
		send_next(forward, inflight, false);
	}
	struct channel *channel;
	while ((channel = LIST_FIRST(&forward->done)) != NULL)
		channel_close(forward, channel);
	return forward->open == 0 ? 0 : forward->tick_at_ns;
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
