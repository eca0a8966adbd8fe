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

struct inflight_table {
	struct forward_ops ops;
	unsigned max, client_max;
	unsigned count;
	TAILQ_HEAD(inflight_queue, inflight) by_deadline, by_retry;
	uint16_t clients[CLIENT_BUCKETS];
};

struct inflight_table *
inflight_new(struct worker *worker, unsigned max, unsigned client_max)
{
	(void)worker;
	struct inflight_table *table = xcalloc(1, sizeof(*table));
	table->max = max;
	table->client_max = client_max < UINT16_MAX ? client_max : UINT16_MAX;
	TAILQ_INIT(&table->by_deadline);
	TAILQ_INIT(&table->by_retry);
	return table;
}

struct forward_ops *
inflight_ops(struct inflight_table *table)
{
	return &table->ops;
}

static uint16_t *
client_count(struct inflight_table *table, const struct client *client)
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
bound_reached(struct inflight_table *table, const struct client *client, size_t len)
{
	if (table->count >= table->max)
		return DROP_FORWARD_TOTAL;
	if (*client_count(table, client) >= table->client_max)
		return DROP_FORWARD_CLIENT;
	if (len > DNS_UDP_QUERY_MAX)
		return DROP_FORWARD_SIZE;
	return DROP_COUNT;
}

static struct inflight *
keep(const struct worker *worker, const struct client *client, const uint8_t *query, size_t len,
    enum answer_outcome outcome, const struct answer_info *info)
{
	struct inflight *inflight = xmalloc(sizeof(*inflight) + len);
	*inflight = (struct inflight){
		.start_ns = worker->now_ns,
		.client = *client,
		.chase = outcome == ANSWER_CHASE,
		.type = info->query.qtype,
		.flags = info->query.flags,
		.edns_do = info->query.edns_do,
		.info = *info,
		.query_len = len,
	};
	memcpy(inflight->query, query, len);
	LIST_INIT(&inflight->attempts);
	return inflight;
}

void
inflight_start(struct worker *worker, const struct client *client, const uint8_t *query,
    size_t query_len, enum answer_outcome outcome, const struct answer_info *info)
{
	struct inflight_table *table = worker->inflight;
	if (client->proto == PROTO_TCP)
		tcp_hold(worker->tcp, &client->peer.tcp);
	enum stats_drop bound = bound_reached(table, client, query_len);
	if (bound != DROP_COUNT) {
		refuse(worker, client, query, query_len, info, bound);
		return;
	}
	struct inflight *inflight = keep(worker, client, query, query_len, outcome, info);
	table->count++;
	(*client_count(table, client))++;
	stats_add(&worker->stats->forward_queries, 1);
	stats_add(&worker->stats->forward_in_flight, 1);
	inflight->retry_ns = inflight->start_ns + table->ops.retry_ns;
	TAILQ_INSERT_TAIL(&table->by_deadline, inflight, by_deadline);
	TAILQ_INSERT_TAIL(&table->by_retry, inflight, by_retry);
	table->ops.ask(table->ops.arg, inflight);
}

size_t
inflight_question(const struct inflight *inflight, uint16_t id, uint8_t *out)
{
	size_t len = query_write(out, INFLIGHT_QUESTION_MAX, id, inflight_name(inflight),
	    inflight->type, CLASS_IN, DNS_UDP_PAYLOAD);
	wire_put16(out + 2, wire_get16(out + 2) | (inflight->flags & (FLAG_CD | FLAG_AD)));
	if (inflight->edns_do)
		out[len - 4] |=
		    0x80; /* the OPT is the last record: version, DO and Z, RDLENGTH 0 */
	return len;
}

struct forwarded {
	struct worker *worker;
	struct inflight *inflight;
	const uint8_t *upstream;
	size_t upstream_len;
};

static size_t
make_forwarded(void *arg, bool tcp, uint8_t *out, size_t max)
{
	const struct forwarded *f = arg;
	struct inflight *inflight = f->inflight;
	size_t len;
	const struct upstream_reply upstream = { f->upstream, f->upstream_len };
	struct answer_request request = {
		.config = f->worker->answers,
		.query = inflight->query,
		.query_len = inflight->query_len,
		.out = out,
		.max = max,
		.tcp = tcp,
	};
	rcu_enter();
	request.tree = tree_current(f->worker->tree);
	if (inflight->chase)
		len = answer_chased(&request, &upstream, &inflight->info);
	else
		len = answer_forwarded(&request, &upstream, &inflight->info);
	rcu_leave();
	return len;
}

static void
unlink_pending(struct worker *worker, struct inflight *inflight)
{
	struct inflight_table *table = worker->inflight;
	table->ops.forget(table->ops.arg, inflight);
	TAILQ_REMOVE(&table->by_deadline, inflight, by_deadline);
	TAILQ_REMOVE(&table->by_retry, inflight, by_retry);
	assert(table->count > 0 && *client_count(table, &inflight->client) > 0);
	table->count--;
	(*client_count(table, &inflight->client))--;
	stats_sub(&worker->stats->forward_in_flight, 1);
}

void
inflight_finish(
    struct worker *worker, struct inflight *inflight, const uint8_t *upstream, size_t upstream_len)
{
	struct forwarded forwarded = { worker, inflight, upstream, upstream_len };
	/*
	 * What answer() found stays what is counted: the system, and the type asked by the client.
	 */
	enum answer_system system = inflight->info.system;
	unlink_pending(worker, inflight);
	if (upstream == NULL)
		stats_add(&worker->stats->forward_failed, 1);
	send_reply(worker, &inflight->client, &inflight->info, make_forwarded, &forwarded);
	uint64_t took_ns = worker->now_ns > inflight->start_ns
			       ? (uint64_t)(worker->now_ns - inflight->start_ns)
			       : 0;
	stats_took(&worker->stats->times[system], took_ns, 1);
	stats_took(&worker->stats->forward_times, took_ns, 1);
	free(inflight);
}

static void
retry(struct worker *worker, struct inflight *inflight)
{
	struct inflight_table *table = worker->inflight;
	TAILQ_REMOVE(&table->by_retry, inflight, by_retry);
	inflight->retry_ns = worker->now_ns + table->ops.retry_ns;
	TAILQ_INSERT_TAIL(&table->by_retry, inflight, by_retry);
	table->ops.retry(table->ops.arg, inflight);
}

int64_t
inflight_turn(struct worker *worker)
{
	static const int64_t timeout_ns = FORWARD_TIMEOUT_MS * INT64_C(1000000);
	struct inflight_table *table = worker->inflight;
	struct inflight *inflight;
	while ((inflight = TAILQ_FIRST(&table->by_deadline)) != NULL &&
	       /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): it loses track of queues */
	       inflight->start_ns + timeout_ns <= worker->now_ns)
		inflight_finish(worker, inflight, NULL, 0);
	while ((inflight = TAILQ_FIRST(&table->by_retry)) != NULL &&
	       inflight->retry_ns <= worker->now_ns)
		retry(worker, inflight);
	const struct inflight *deadline = TAILQ_FIRST(&table->by_deadline);
	if (deadline == NULL)
		return 0;
	return sooner(deadline->start_ns + timeout_ns, TAILQ_FIRST(&table->by_retry)->retry_ns);
}

void
inflight_finish_all(struct worker *worker)
{
	struct inflight *inflight;
	while ((inflight = TAILQ_FIRST(&worker->inflight->by_deadline)) != NULL)
		/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): it loses track of queues */
		inflight_finish(worker, inflight, NULL, 0);
}

void
inflight_free(struct inflight_table *table)
{
	assert(table == NULL || table->count == 0);
	free(table);
}
