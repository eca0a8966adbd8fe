#include "kubedns/serve/inflight.h"

#include <assert.h>
#include <stdlib.h>

#include "kubedns/serve/tcp.h"
#include "kubedns/serve/udp.h"
#include "lib/xalloc.h"
#include "lib/rcu.h"
#include "treecache/treecache.h"

/*
 * Clients are counted by the hash of their address, without keeping the addresses: two that
 * share a bucket share a bound, which is rare (1 in 16,384), cannot be provoked (the hash is
 * keyed), and costs them no more than a wait.
 */
enum { CLIENT_BUCKETS = 16384 };

struct pending_table {
	struct asker asker;
	unsigned max, client_max;
	unsigned count;
	TAILQ_HEAD(pending_queue, pending) by_deadline, by_retry;
	uint16_t clients[CLIENT_BUCKETS];
};

struct pending_table *
pending_new(struct worker *worker, unsigned max, unsigned client_max)
{
	(void)worker;
	struct pending_table *table = xcalloc(1, sizeof(*table));
	table->max = max;
	table->client_max = client_max < UINT16_MAX ? client_max : UINT16_MAX;
	TAILQ_INIT(&table->by_deadline);
	TAILQ_INIT(&table->by_retry);
	return table;
}

struct asker *
pending_asker(struct pending_table *table)
{
	return &table->asker;
}

static uint16_t *
client_count(struct pending_table *table, const struct client *client)
{
	return &table->clients[client->hash % CLIENT_BUCKETS];
}

/* Sends a reply that was kept for `client`; `make` writes it into the room it is given. */
static void
send_reply(struct worker *worker, const struct client *client, struct answer_info *info,
    size_t (*make)(void *arg, bool tcp, uint8_t *out, size_t max), void *arg)
{
	size_t len;
	if (client->proto == PROTO_UDP) {
		uint8_t *room = udp_reply_room(worker->udp, &client->peer.udp);
		len = make(arg, false, room, DNS_UDP_PAYLOAD);
		if (len > 0)
			udp_reply_done(worker->udp, len);
	} else {
		uint8_t *room = tcp_reply_room(worker->tcp);
		len = make(arg, true, room, DNS_TCP_MAX);
		tcp_reply_done(worker->tcp, &client->peer.tcp, len);
	}
	stats_reply(worker->stats, client->proto, info, len);
}

struct refusal {
	const uint8_t *query;
	size_t len;
	struct answer_info *info;
};

static size_t
make_refusal(void *arg, bool tcp, uint8_t *out, size_t max)
{
	(void)tcp;
	struct refusal *refusal = arg;
	refusal->info->rcode = RCODE_REFUSED;
	refusal->info->truncated = false;
	return answer_rcode(
	    &refusal->info->query, refusal->query, refusal->len, RCODE_REFUSED, out, max);
}

static void
refuse(struct worker *worker, const struct client *client, const uint8_t *query, size_t len,
    const struct answer_info *info, enum stats_drop reason)
{
	struct answer_info refused = *info;
	struct refusal refusal = { query, len, &refused };
	stats_drop(worker->stats, reason);
	send_reply(worker, client, &refused, make_refusal, &refusal);
}

/* The bound that one more query of this client would pass, or DROP_COUNT. */
static enum stats_drop
bound_reached(struct pending_table *table, const struct client *client, size_t len)
{
	if (table->count >= table->max)
		return DROP_FORWARD_TOTAL;
	if (*client_count(table, client) >= table->client_max)
		return DROP_FORWARD_CLIENT;
	if (len > DNS_UDP_QUERY_MAX)
		return DROP_FORWARD_SIZE;
	return DROP_COUNT;
}

static struct pending *
keep(const struct worker *worker, const struct client *client, const uint8_t *query, size_t len,
    enum answer_outcome outcome, const struct answer_info *info)
{
	struct pending *pending = xmalloc(sizeof(*pending) + len);
	*pending = (struct pending){
		.start_ns = worker->now_ns,
		.client = *client,
		.chase = outcome == ANSWER_CHASE,
		.type = info->query.qtype,
		.flags = info->query.flags,
		.edns_do = info->query.edns_do,
		.info = *info,
		.query_len = len,
	};
	memcpy(pending->query, query, len);
	LIST_INIT(&pending->attempts);
	return pending;
}

void
pending_start(struct worker *worker, const struct client *client, const uint8_t *query,
    size_t query_len, enum answer_outcome outcome, const struct answer_info *info)
{
	struct pending_table *table = worker->pending;
	if (client->proto == PROTO_TCP)
		tcp_hold(worker->tcp, &client->peer.tcp);
	enum stats_drop bound = bound_reached(table, client, query_len);
	if (bound != DROP_COUNT) {
		refuse(worker, client, query, query_len, info, bound);
		return;
	}
	struct pending *pending = keep(worker, client, query, query_len, outcome, info);
	table->count++;
	(*client_count(table, client))++;
	stats_add(&worker->stats->forward_queries, 1);
	stats_add(&worker->stats->forward_in_flight, 1);
	pending->retry_ns = pending->start_ns + table->asker.retry_ns;
	TAILQ_INSERT_TAIL(&table->by_deadline, pending, by_deadline);
	TAILQ_INSERT_TAIL(&table->by_retry, pending, by_retry);
	table->asker.ask(table->asker.arg, pending);
}

size_t
pending_question(const struct pending *pending, uint16_t id, uint8_t *out)
{
	size_t len = query_write(out, PENDING_QUESTION_MAX, id, pending_name(pending),
	    pending->type, CLASS_IN, DNS_UDP_PAYLOAD);
	wire_put16(out + 2, wire_get16(out + 2) | (pending->flags & (FLAG_CD | FLAG_AD)));
	if (pending->edns_do)
		out[len - 4] |=
		    0x80; /* the OPT is the last record: version, DO and Z, RDLENGTH 0 */
	return len;
}

struct forwarded {
	struct worker *worker;
	struct pending *pending;
	const uint8_t *upstream;
	size_t upstream_len;
};

static size_t
make_forwarded(void *arg, bool tcp, uint8_t *out, size_t max)
{
	const struct forwarded *f = arg;
	struct pending *pending = f->pending;
	size_t len;
	rcu_enter();
	const struct answer_config *config = f->worker->answers;
	if (pending->chase)
		len = answer_chased(config, tree_current(f->worker->tree), pending->query,
		    pending->query_len, f->upstream, f->upstream_len, tcp, out, max,
		    &pending->info);
	else
		len = answer_forwarded(config, pending->query, pending->query_len, f->upstream,
		    f->upstream_len, tcp, out, max, &pending->info);
	rcu_leave();
	return len;
}

static void
unlink_pending(struct worker *worker, struct pending *pending)
{
	struct pending_table *table = worker->pending;
	table->asker.forget(table->asker.arg, pending);
	TAILQ_REMOVE(&table->by_deadline, pending, by_deadline);
	TAILQ_REMOVE(&table->by_retry, pending, by_retry);
	assert(table->count > 0 && *client_count(table, &pending->client) > 0);
	table->count--;
	(*client_count(table, &pending->client))--;
	stats_sub(&worker->stats->forward_in_flight, 1);
}

void
pending_finish(
    struct worker *worker, struct pending *pending, const uint8_t *upstream, size_t upstream_len)
{
	struct forwarded forwarded = { worker, pending, upstream, upstream_len };
	/*
	 * What answer() found stays what is counted: the system, and the type asked by the client.
	 */
	enum answer_system system = pending->info.system;
	unlink_pending(worker, pending);
	if (upstream == NULL)
		stats_add(&worker->stats->forward_failed, 1);
	send_reply(worker, &pending->client, &pending->info, make_forwarded, &forwarded);
	uint64_t took_ns =
	    worker->now_ns > pending->start_ns ? (uint64_t)(worker->now_ns - pending->start_ns) : 0;
	stats_took(&worker->stats->times[system], took_ns, 1);
	stats_took(&worker->stats->forward_times, took_ns, 1);
	free(pending);
}

static void
retry(struct worker *worker, struct pending *pending)
{
	struct pending_table *table = worker->pending;
	TAILQ_REMOVE(&table->by_retry, pending, by_retry);
	pending->retry_ns = worker->now_ns + table->asker.retry_ns;
	TAILQ_INSERT_TAIL(&table->by_retry, pending, by_retry);
	table->asker.retry(table->asker.arg, pending);
}

int64_t
pending_turn(struct worker *worker)
{
	static const int64_t timeout_ns = FORWARD_TIMEOUT_MS * INT64_C(1000000);
	struct pending_table *table = worker->pending;
	struct pending *pending;
	while ((pending = TAILQ_FIRST(&table->by_deadline)) != NULL &&
	       /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): it loses track of queues */
	       pending->start_ns + timeout_ns <= worker->now_ns)
		pending_finish(worker, pending, NULL, 0);
	while ((pending = TAILQ_FIRST(&table->by_retry)) != NULL &&
	       pending->retry_ns <= worker->now_ns)
		retry(worker, pending);
	const struct pending *deadline = TAILQ_FIRST(&table->by_deadline);
	if (deadline == NULL)
		return 0;
	return sooner(deadline->start_ns + timeout_ns, TAILQ_FIRST(&table->by_retry)->retry_ns);
}

void
pending_finish_all(struct worker *worker)
{
	struct pending *pending;
	while ((pending = TAILQ_FIRST(&worker->pending->by_deadline)) != NULL)
		/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): it loses track of queues */
		pending_finish(worker, pending, NULL, 0);
}

void
pending_free(struct pending_table *table)
{
	assert(table == NULL || table->count == 0);
	free(table);
}
