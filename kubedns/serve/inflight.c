#include "kubedns/serve/inflight.h"

#include <assert.h>
#include <stdlib.h>

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
	struct worker_context *context;
	struct client_ops clients;
	struct forward_ops ops;
	unsigned max, client_max;
	unsigned count;
	TAILQ_HEAD(inflight_queue, inflight) by_deadline, by_retry;
	uint16_t client_counts[CLIENT_BUCKETS];
};

struct inflight_table *
inflight_new(struct worker_context *context, const struct client_ops *clients, unsigned max,
    unsigned client_max)
{
	struct inflight_table *table = xcalloc(1, sizeof(*table));
	table->context = context;
	table->clients = *clients;
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
	return &table->client_counts[client->hash % CLIENT_BUCKETS];
}

static void
refuse_query(struct inflight_table *table, const struct client *client, const uint8_t *query,
    size_t len, const struct answer_info *info, enum stats_drop reason)
{
	struct answer_info refused = *info;
	size_t max;
	uint8_t *room = table->clients.room(table->clients.arg, client, &max);
	refused.rcode = RCODE_REFUSED;
	refused.truncated = false;
	len = answer_rcode(&refused.query, query, len, RCODE_REFUSED, room, max);
	table->clients.done(table->clients.arg, client, len);
	stats_drop(table->context->stats, reason);
	stats_reply(table->context->stats, client->proto, &refused, len);
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
inflight_make(const struct inflight_table *table, const struct client *client, const uint8_t *query,
    size_t len, enum answer_outcome outcome, const struct answer_info *info)
{
	uint8_t *memory = xmalloc(table->ops.size + len);
	struct inflight *inflight = (struct inflight *)(void *)memory;
	memset(memory + sizeof(*inflight), 0, table->ops.size - sizeof(*inflight));
	*inflight = (struct inflight){
		.start_ns = table->context->now_ns,
		.retry_ns = table->context->now_ns + table->ops.retry_ns,
		.client = *client,
		.chase = outcome == ANSWER_CHASE,
		.type = info->query.qtype,
		.flags = info->query.flags,
		.edns_do = info->query.edns_do,
		.info = *info,
		.query_len = len,
		.query = memory + table->ops.size,
	};
	memcpy(inflight->query, query, len);
	return inflight;
}

void
inflight_start(struct inflight_table *table, const struct client *client, const uint8_t *query,
    size_t query_len, enum answer_outcome outcome, const struct answer_info *info)
{
	table->clients.hold(table->clients.arg, client);
	enum stats_drop bound = bound_reached(table, client, query_len);
	if (bound != DROP_COUNT) {
		refuse_query(table, client, query, query_len, info, bound);
		return;
	}
	struct inflight *inflight = inflight_make(table, client, query, query_len, outcome, info);
	table->count++;
	(*client_count(table, client))++;
	stats_add(&table->context->stats->forward_queries, 1);
	stats_add(&table->context->stats->forward_in_flight, 1);
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

/* The reply to the client from the other server's; its length, 0 if there can be none. */
static size_t
write_reply(const struct inflight_table *table, struct inflight *inflight, const uint8_t *upstream,
    size_t upstream_len, uint8_t *out, size_t max)
{
	size_t len;
	const struct upstream_reply said = { upstream, upstream_len };
	struct answer_request request = {
		.config = table->context->answers,
		.query = inflight->query,
		.query_len = inflight->query_len,
		.out = out,
		.max = max,
		.tcp = inflight->client.proto == PROTO_TCP,
	};
	rcu_enter();
	request.tree = tree_current(table->context->tree);
	if (inflight->chase)
		len = answer_chased(&request, &said, &inflight->info);
	else
		len = answer_forwarded(&request, &said, &inflight->info);
	rcu_leave();
	return len;
}

static void
inflight_unlink(struct inflight_table *table, struct inflight *inflight)
{
	table->ops.forget(table->ops.arg, inflight);
	TAILQ_REMOVE(&table->by_deadline, inflight, by_deadline);
	TAILQ_REMOVE(&table->by_retry, inflight, by_retry);
	assert(table->count > 0 && *client_count(table, &inflight->client) > 0);
	table->count--;
	(*client_count(table, &inflight->client))--;
	stats_sub(&table->context->stats->forward_in_flight, 1);
}

void
inflight_finish(struct inflight_table *table, struct inflight *inflight, const uint8_t *upstream,
    size_t upstream_len)
{
	struct stats *stats = table->context->stats;
	const struct client *client = &inflight->client;
	/* Counted is what answer() found: the system, and the type that the client asked for. */
	enum answer_system system = inflight->info.system;
	size_t max;
	inflight_unlink(table, inflight);
	if (upstream == NULL)
		stats_add(&stats->forward_failed, 1);
	uint8_t *room = table->clients.room(table->clients.arg, client, &max);
	size_t len = write_reply(table, inflight, upstream, upstream_len, room, max);
	table->clients.done(table->clients.arg, client, len);
	stats_reply(stats, client->proto, &inflight->info, len);
	int64_t took_ns = table->context->now_ns - inflight->start_ns;
	stats_took(&stats->times[system], (uint64_t)took_ns, 1);
	stats_took(&stats->forward_times, (uint64_t)took_ns, 1);
	free(inflight);
}

static void
retry_query(struct inflight_table *table, struct inflight *inflight)
{
	TAILQ_REMOVE(&table->by_retry, inflight, by_retry);
	inflight->retry_ns = table->context->now_ns + table->ops.retry_ns;
	TAILQ_INSERT_TAIL(&table->by_retry, inflight, by_retry);
	table->ops.retry(table->ops.arg, inflight);
}

int64_t
inflight_turn(struct inflight_table *table)
{
	static const int64_t timeout_ns = FORWARD_TIMEOUT_MS * INT64_C(1000000);
	struct inflight *inflight;
	while ((inflight = TAILQ_FIRST(&table->by_deadline)) != NULL &&
	       /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): it loses track of queues */
	       inflight->start_ns + timeout_ns <= table->context->now_ns)
		inflight_finish(table, inflight, NULL, 0);
	while ((inflight = TAILQ_FIRST(&table->by_retry)) != NULL &&
	       inflight->retry_ns <= table->context->now_ns)
		retry_query(table, inflight);
	const struct inflight *deadline = TAILQ_FIRST(&table->by_deadline);
	if (deadline == NULL)
		return 0;
	return earlier(deadline->start_ns + timeout_ns, TAILQ_FIRST(&table->by_retry)->retry_ns);
}

void
inflight_finish_all(struct inflight_table *table)
{
	struct inflight *inflight;
	while ((inflight = TAILQ_FIRST(&table->by_deadline)) != NULL)
		/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): it loses track of queues */
		inflight_finish(table, inflight, NULL, 0);
}

void
inflight_free(struct inflight_table *table)
{
	assert(table == NULL || table->count == 0);
	free(table);
}
