#include "kubedns/serve/upstream/awaited_names.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "kubedns/serve/client_view.h"
#include "kubedns/serve/upstream/inflight.h"
#include "kubedns/serve/observe/observe.h"
#include "lib/rcu.h"
#include "lib/xalloc.h"
#include "treecache/treecache.h"

enum { QUERY_MAX = 512 /* a name, a question, an OPT: a longer query does not wait */ };

struct waiting {
	TAILQ_ENTRY(waiting) by_time;
	int64_t start_ns;
	struct client client;
	size_t query_len;
	uint8_t query[];
};

struct awaited {
	struct worker_context *context;
	struct client_ops clients;
	struct inflight_table *inflight;
	unsigned max;
	int64_t wait_ns;
	atomic_uint count;
	TAILQ_HEAD(, waiting) queue;    /* all wait equally long, so in order of deadlines */
	uint8_t reply[DNS_TCP_MAX + 1]; /* a tried answer; copied to the client's room if sent */
};

static void
send_reply(struct awaited *awaited, const struct client *client, struct answer_info *info,
    int64_t start_ns)
{
	struct worker_context *context = awaited->context;
	int64_t took_ns = context->now_ns - start_ns;
	size_t max;
	uint8_t *room = awaited->clients.room(awaited->clients.arg, client, &max);

	memcpy(room, awaited->reply, info->len);
	awaited->clients.done(awaited->clients.arg, client, info->len);
	stats_reply(context->stats, client->proto, info, info->len);
	stats_took(&context->stats->times[info->system], (uint64_t)took_ns, 1);
	observe_alone(context->ring,
	    &(struct observed){ .client = client_sockaddr(client),
		.info = info,
		.reply = awaited->reply,
		.at_ns = context->now_ns },
	    (enum answer_made)info->system, client->proto == PROTO_TCP, took_ns);
}

/* Answers the query from the newest tree; false: with `may_wait`, it has to wait on. */
static bool
try_answer(struct awaited *awaited, const struct client *client, const uint8_t *query, size_t len,
    int64_t start_ns, bool may_wait)
{
	struct worker_context *context = awaited->context;
	struct answer_info info;
	struct answer_request request = {
		.config = context->answers,
		.query = query,
		.query_len = len,
		.out = awaited->reply,
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
		send_reply(awaited, client, &info, start_ns);
		return true;
	}
	/* It has become an alias of another server's name: that part of the way begins anew. Our hold
	 * ends after its own has begun: a connection that has half-closed ends with the last one. */
	inflight_start(awaited->inflight, client, query, len, outcome, &info);
	awaited->clients.done(awaited->clients.arg, client, 0);
	return true;
}

static void
set_count(struct awaited *awaited, unsigned count)
{
	/* Sequentially consistent: if the publisher sees 0 here, awaited_take() sees the new tree
	 * in the try that follows its own store. */
	atomic_store(&awaited->count, count);
	struct stats *stats = awaited->context->stats;
	__atomic_store_n(&stats->awaited_now, count, __ATOMIC_RELAXED);
}

static void
end_wait(struct awaited *awaited, struct waiting *waiting, uint64_t *counter)
{
	TAILQ_REMOVE(&awaited->queue, waiting, by_time);
	set_count(awaited, atomic_load(&awaited->count) - 1);
	stats_add(counter, 1);
	free(waiting);
}

/* Whether one more of this client may wait. */
static bool
has_room(const struct awaited *awaited, const struct client *client, size_t len)
{
	const struct waiting *waiting;
	unsigned own = 0;

	if (len > QUERY_MAX || atomic_load(&awaited->count) >= awaited->max)
		return false;
	TAILQ_FOREACH(waiting, &awaited->queue, by_time)
	{
		own += waiting->client.hash == client->hash;
	}
	return own < (awaited->max + AWAITED_CLIENT_PART - 1) / AWAITED_CLIENT_PART;
}

/* Takes a query for which answer() returned WAIT; answers it where a bound is reached. */
static void
awaited_take(void *arg, const struct client *client, const uint8_t *query, size_t query_len)
{
	struct awaited *awaited = arg;
	struct stats *stats = awaited->context->stats;

	awaited->clients.hold(awaited->clients.arg, client);
	if (!has_room(awaited, client, query_len)) {
		stats_add(&stats->awaited[AWAITED_REFUSED], 1);
		try_answer(awaited, client, query, query_len, awaited->context->now_ns, false);
		return;
	}
	struct waiting *waiting = xmalloc(sizeof *waiting + query_len);
	waiting->start_ns = awaited->context->now_ns;
	waiting->client = *client;
	waiting->query_len = query_len;
	memcpy(waiting->query, query, query_len);
	TAILQ_INSERT_TAIL(&awaited->queue, waiting, by_time);
	set_count(awaited, atomic_load(&awaited->count) + 1);
	if (try_answer(awaited, client, waiting->query, query_len, waiting->start_ns, true))
		end_wait(awaited, waiting, &stats->awaited[AWAITED_CAME]);
}

struct awaited *
awaited_new(struct worker_context *context, const struct client_ops *clients,
    struct inflight_table *inflight, unsigned max, int64_t wait_ms)
{
	struct awaited *awaited = xcalloc(1, sizeof *awaited);

	awaited->context = context;
	awaited->clients = *clients;
	awaited->inflight = inflight;
	awaited->max = max;
	awaited->wait_ns = wait_ms * 1000000;
	TAILQ_INIT(&awaited->queue);
	inflight_awaited(inflight, awaited_take, awaited);
	return awaited;
}

bool
awaited_any(const struct awaited *awaited)
{
	if (awaited == NULL)
		return false;
	atomic_thread_fence(memory_order_seq_cst);
	return atomic_load(&awaited->count) > 0;
}

void
awaited_published(struct awaited *awaited)
{
	struct waiting *waiting = awaited == NULL ? NULL : TAILQ_FIRST(&awaited->queue), *next;

	for (; waiting != NULL; waiting = next) {
		next = TAILQ_NEXT(waiting, by_time);
		if (try_answer(awaited, &waiting->client, waiting->query, waiting->query_len,
			waiting->start_ns, true))
			end_wait(awaited, waiting, &awaited->context->stats->awaited[AWAITED_CAME]);
	}
}

/* The first has waited long enough. */
static void
expire_first(struct awaited *awaited)
{
	struct waiting *waiting = TAILQ_FIRST(&awaited->queue);

	try_answer(awaited, &waiting->client, waiting->query, waiting->query_len, waiting->start_ns,
	    false);
	end_wait(awaited, waiting, &awaited->context->stats->awaited[AWAITED_EXPIRED]);
}

int64_t
awaited_turn(struct awaited *awaited)
{
	const struct waiting *first;

	if (awaited == NULL)
		return 0;
	while ((first = TAILQ_FIRST(&awaited->queue)) != NULL &&
	       first->start_ns + awaited->wait_ns <= awaited->context->now_ns)
		expire_first(awaited);
	return first == NULL ? 0 : first->start_ns + awaited->wait_ns;
}

void
awaited_finish_all(struct awaited *awaited)
{
	while (awaited != NULL && !TAILQ_EMPTY(&awaited->queue))
		expire_first(awaited);
}

void
awaited_free(struct awaited *awaited)
{
	free(awaited);
}
