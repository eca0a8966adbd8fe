#include "kubedns/serve/held_queries.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "kubedns/serve/client_view.h"
#include "kubedns/serve/upstream/inflight.h"
#include "kubedns/serve/observe/observe.h"
#include "lib/clock.h"
#include "lib/rcu.h"
#include "lib/xalloc.h"
#include "treecache/treecache.h"

/* space for a name, a question and an OPT; a longer query does not wait */
enum { QUERY_MAX = 512 };

struct waiting {
	TAILQ_ENTRY(waiting) by_time;
	int64_t start_ns;
	struct client client;
	size_t query_len;
	uint8_t query[];
};

struct held_queries {
	struct worker_context *context;
	struct client_ops clients;
	struct inflight_table *inflight;
	unsigned max;
	int64_t wait_ns;
	atomic_uint count;
	/* in order of deadlines, because all queries wait equally long */
	TAILQ_HEAD(, waiting) queue;
	/* Buffer for an answer. The answer is copied to the client's buffer if it is sent. */
	uint8_t reply[DNS_TCP_MAX + 1];
};

static void
send_reply(struct held_queries *held, const struct client *client, struct answer_info *info,
    int64_t start_ns)
{
	struct worker_context *context = held->context;
	int64_t took_ns = context->now_ns - start_ns;
	size_t max;
	uint8_t *capacity = held->clients.capacity(held->clients.arg, client, &max);

	memcpy(capacity, held->reply, info->len);
	held->clients.done(held->clients.arg, client, info->len);
	stats_reply(context->stats, client->proto, info, info->len);
	stats_took(&context->stats->times[info->system], (uint64_t)took_ns, 1);
	observe_alone(context->ring,
	    &(struct observed){ .client = client_sockaddr(client),
		.info = info,
		.reply = held->reply,
		.at_ns = context->now_ns },
	    (enum answer_made)info->system, client->proto == PROTO_TCP, took_ns);
}

/* Answers the query from the newest tree. With `may_wait`, returns false if the query must continue to wait. */
static bool
try_answer(struct held_queries *held, const struct client *client, const uint8_t *query, size_t len,
    int64_t start_ns, bool may_wait)
{
	struct worker_context *context = held->context;
	struct answer_info info;
	struct answer_request request = {
		.config = context->answers,
		.query = query,
		.query_len = len,
		.out = held->reply,
		.max = client->proto == PROTO_TCP ? DNS_TCP_MAX : DNS_UDP_PAYLOAD,
		.tcp = client->proto == PROTO_TCP,
		.may_wait = may_wait,
		.rotation = (uint32_t)context->now_ns,
		.thread = &context->thread,
	};

	rcu_enter();
	request.tree =
	    client_view_again(context, tree_current(context->tree), client_sockaddr(client));
	enum answer_outcome outcome = answer(&request, &info);
	rcu_leave();
	if (outcome == ANSWER_WAIT)
		return false;
	if (outcome == ANSWER_REPLY) {
		send_reply(held, client, &info, start_ns);
		return true;
	}
	/* The name has become an alias of another server's name. The lookup of that name starts now. inflight_start() puts its own hold
	 * on the client before our hold ends, because a half-closed connection is closed with its last hold. */
	inflight_start(held->inflight, client, query, len, outcome, &info);
	held->clients.done(held->clients.arg, client, 0);
	return true;
}

static void
set_count(struct held_queries *held, unsigned count)
{
	/* The store is sequentially consistent. If the publisher sees 0 here, held_queries_take() sees the new tree when it tries the query
	 * after its own store. */
	atomic_store(&held->count, count);
	struct stats *stats = held->context->stats;
	__atomic_store_n(&stats->held_now, count, __ATOMIC_RELAXED);
}

static void
end_wait(struct held_queries *held, struct waiting *waiting, uint64_t *counter)
{
	TAILQ_REMOVE(&held->queue, waiting, by_time);
	set_count(held, atomic_load(&held->count) - 1);
	stats_add(counter, 1);
	free(waiting);
}

/* Returns whether one more query of this client may wait. */
static bool
has_room(const struct held_queries *held, const struct client *client, size_t len)
{
	const struct waiting *waiting;
	unsigned own = 0;

	if (len > QUERY_MAX || atomic_load(&held->count) >= held->max)
		return false;
	TAILQ_FOREACH(waiting, &held->queue, by_time)
	{
		own += waiting->client.hash == client->hash;
	}
	return own < (held->max + HELD_QUERIES_CLIENT_PART - 1) / HELD_QUERIES_CLIENT_PART;
}

/* Takes a query for which answer() returned WAIT. Answers it at once if a limit is reached. */
static void
held_queries_take(void *arg, const struct client *client, const uint8_t *query, size_t query_len)
{
	struct held_queries *held = arg;
	struct stats *stats = held->context->stats;

	held->clients.hold(held->clients.arg, client);
	if (!has_room(held, client, query_len)) {
		stats_add(&stats->held[HELD_REFUSED], 1);
		try_answer(held, client, query, query_len, held->context->now_ns, false);
		return;
	}
	struct waiting *waiting = xmalloc(sizeof *waiting + query_len);
	waiting->start_ns = held->context->now_ns;
	waiting->client = *client;
	waiting->query_len = query_len;
	memcpy(waiting->query, query, query_len);
	TAILQ_INSERT_TAIL(&held->queue, waiting, by_time);
	set_count(held, atomic_load(&held->count) + 1);
	if (try_answer(held, client, waiting->query, query_len, waiting->start_ns, true))
		end_wait(held, waiting, &stats->held[HELD_CAME]);
}

struct held_queries *
held_queries_new(struct worker_context *context, const struct client_ops *clients,
    struct inflight_table *inflight, unsigned max, int64_t wait_ms)
{
	struct held_queries *held = xcalloc(1, sizeof *held);

	held->context = context;
	held->clients = *clients;
	held->inflight = inflight;
	held->max = max;
	held->wait_ns = wait_ms * 1000000;
	TAILQ_INIT(&held->queue);
	inflight_hold_with(inflight, held_queries_take, held);
	return held;
}

bool
held_queries_any(const struct held_queries *held)
{
	if (held == NULL)
		return false;
	atomic_thread_fence(memory_order_seq_cst);
	return atomic_load(&held->count) > 0;
}

void
held_queries_published(struct held_queries *held)
{
	struct waiting *waiting = held == NULL ? NULL : TAILQ_FIRST(&held->queue), *next;

	for (; waiting != NULL; waiting = next) {
		next = TAILQ_NEXT(waiting, by_time);
		if (try_answer(held, &waiting->client, waiting->query, waiting->query_len,
			waiting->start_ns, true))
			end_wait(held, waiting, &held->context->stats->held[HELD_CAME]);
	}
}

/* Ends the wait of the first query, because its waiting time is over. */
static void
expire_first(struct held_queries *held)
{
	struct waiting *waiting = TAILQ_FIRST(&held->queue);

	try_answer(
	    held, &waiting->client, waiting->query, waiting->query_len, waiting->start_ns, false);
	end_wait(held, waiting, &held->context->stats->held[HELD_EXPIRED]);
}

int64_t
held_queries_iteration(struct held_queries *held)
{
	const struct waiting *first;

	if (held == NULL)
		return CLOCK_NEVER;
	while ((first = TAILQ_FIRST(&held->queue)) != NULL &&
	       first->start_ns + held->wait_ns <= held->context->now_ns)
		expire_first(held);
	return first == NULL ? CLOCK_NEVER : first->start_ns + held->wait_ns;
}

void
held_queries_finish_all(struct held_queries *held)
{
	while (held != NULL && !TAILQ_EMPTY(&held->queue))
		expire_first(held);
}

void
held_queries_free(struct held_queries *held)
{
	free(held);
}
