#include "kubedns/serve/inflight.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "kubedns/serve/forwarded_cache.h"
#include "kubedns/serve/awaited_names.h"
#include "kubedns/serve/forwarded_reply.h"
#include "lib/xalloc.h"

enum {
	CLIENT_BUCKETS = 1024,
	/*
	 * With a resolver that holds queries, 1/16 of the bound in total is a reserve above it:
	 * when the table is full, it is for clients that have no query in it.
	 */
	RESERVE_PART = 16,
};

/*
 * A client address with queries in flight or held. It is known by the keyed hash of its address:
 * two clients with one hash share a limit, which cannot be provoked.
 */
struct inflight_client {
	LIST_ENTRY(inflight_client) by_hash;
	LIST_ENTRY(inflight_client) by_count;
	uint32_t hash;
	unsigned count; /* in flight */
	unsigned held;  /* ended here, but not at the resolver: see forward_ops.hold_ns */
	TAILQ_HEAD(, inflight) queries; /* oldest first */
};
LIST_HEAD(client_list, inflight_client);

struct held_query {
	int64_t until_ns;
	struct inflight_client *client;
};

struct inflight_table {
	struct worker_context *context;
	struct client_ops clients;
	struct forward_ops ops;
	struct awaited *awaited; /* NULL: no query waits */
	unsigned max, client_max;
	unsigned count, held_count; /* in flight, and held */
	TAILQ_HEAD(inflight_queue, inflight) by_deadline, by_retry;
	struct client_list by_hash[CLIENT_BUCKETS];
	struct client_list *by_count; /* clients with 0 to client_max queries in flight */
	unsigned heaviest;            /* no list above this one has a client */
	struct held_query *held;      /* a ring in order of time, made when first needed */
	unsigned held_first;
	struct inflight_table *until_synced; /* takes our names before the first sync, or NULL */
	struct inflight_table *chased;       /* takes what answer() called CHASE, or NULL */
	struct forwarded_cache *cache;       /* NULL: --answer-cache=off */
};

struct inflight_table *
inflight_new(struct worker_context *context, const struct client_ops *clients, unsigned max,
    unsigned client_max)
{
	struct inflight_table *table = xcalloc(1, sizeof(*table));
	table->context = context;
	table->clients = *clients;
	table->max = max;
	table->client_max = client_max < max ? client_max : max;
	table->by_count = xcalloc((size_t)table->client_max + 1, sizeof(*table->by_count));
	TAILQ_INIT(&table->by_deadline);
	TAILQ_INIT(&table->by_retry);
	return table;
}

void
inflight_until_synced(struct inflight_table *table, struct inflight_table *until_synced)
{
	table->until_synced = until_synced;
}

void
inflight_chased(struct inflight_table *table, struct inflight_table *chased)
{
	table->chased = chased;
}

void
inflight_cache(struct inflight_table *table, struct forwarded_cache *cache)
{
	table->cache = cache;
}

void
inflight_awaited(struct inflight_table *table, struct awaited *awaited)
{
	table->awaited = awaited;
}

struct forward_ops *
inflight_ops(struct inflight_table *table)
{
	return &table->ops;
}

/* --- clients --- */

static struct inflight_client *
client_find(const struct inflight_table *table, uint32_t hash)
{
	struct inflight_client *client;
	LIST_FOREACH(client, &table->by_hash[hash % CLIENT_BUCKETS], by_hash)
	{
		if (client->hash == hash)
			return client;
	}
	return NULL;
}

static struct inflight_client *
client_add(struct inflight_table *table, uint32_t hash)
{
	struct inflight_client *client = xcalloc(1, sizeof(*client));
	client->hash = hash;
	TAILQ_INIT(&client->queries);
	LIST_INSERT_HEAD(&table->by_hash[hash % CLIENT_BUCKETS], client, by_hash);
	LIST_INSERT_HEAD(&table->by_count[0], client, by_count);
	return client;
}

/* Moves it to the list of its count, `by` more than before. */
static void
client_count(struct inflight_table *table, struct inflight_client *client, int by)
{
	client->count += (unsigned)by;
	LIST_REMOVE(client, by_count);
	LIST_INSERT_HEAD(&table->by_count[client->count], client, by_count);
	if (client->count > table->heaviest)
		table->heaviest = client->count;
	while (table->heaviest > 0 && LIST_EMPTY(&table->by_count[table->heaviest]))
		table->heaviest--;
}

static void
client_release(struct inflight_client *client)
{
	if (client->count + client->held > 0)
		return;
	LIST_REMOVE(client, by_hash);
	LIST_REMOVE(client, by_count);
	free(client);
}

/* --- what the resolver holds --- */

static unsigned
held_size(const struct inflight_table *table)
{
	return table->max + table->max / RESERVE_PART + 1;
}

/* The query ends without a reply: the resolver goes on holding it. */
static void
hold_query(struct inflight_table *table, const struct inflight *inflight)
{
	if (table->ops.hold_ns == 0)
		return;
	unsigned size = held_size(table);
	if (table->held == NULL)
		table->held = xcalloc(size, sizeof(*table->held));
	assert(table->held_count < size);
	int64_t until_ns = inflight->asked_ns + table->ops.hold_ns;
	if (table->held_count > 0) { /* a walk's last step may be later: keeps the order of time */
		unsigned last = (table->held_first + table->held_count - 1) % size;
		if (table->held[last].until_ns > until_ns)
			until_ns = table->held[last].until_ns;
	}
	table->held[(table->held_first + table->held_count++) % size] =
	    (struct held_query){ until_ns, inflight->account };
	inflight->account->held++;
}

static void
release_held(struct inflight_table *table)
{
	while (table->held_count > 0) {
		const struct held_query *first = &table->held[table->held_first];
		if (first->until_ns > table->context->now_ns)
			return;
		table->held_first = (table->held_first + 1) % held_size(table);
		table->held_count--;
		first->client->held--;
		client_release(first->client);
	}
}

/* --- bounds --- */

/*
 * How many queries one client may have in flight or held: half of the free room (a dynamic
 * threshold). n clients that take all they can get leave 2 / (n + 2) of the table free.
 */
static unsigned
client_limit(const struct inflight_table *table)
{
	unsigned used = table->count + table->held_count;
	unsigned limit = used < table->max ? (table->max - used) / 2 : 0;
	if (limit > table->client_max)
		limit = table->client_max;
	return limit > 0 ? limit : 1;
}

/* The bound that one more query of this client would pass, or DROP_COUNT. */
static enum stats_drop
bound_reached(struct inflight_table *table, const struct inflight_client *client, size_t len)
{
	unsigned own = client != NULL ? client->count + client->held : 0;
	unsigned used = table->count + table->held_count;
	if (len > DNS_UDP_QUERY_MAX)
		return DROP_FORWARD_SIZE;
	if (own >= client_limit(table))
		return DROP_FORWARD_CLIENT;
	if (used < table->max)
		return DROP_COUNT;
	/* Ending a query here frees no room while the resolver goes on holding it. */
	if (table->ops.hold_ns != 0)
		return used + 1 < held_size(table) ? DROP_COUNT : DROP_FORWARD_TOTAL;
	return table->heaviest > own + 1 ? DROP_COUNT : DROP_FORWARD_TOTAL;
}

/* Ends the oldest query of the client that has the most. */
static void
evict_query(struct inflight_table *table)
{
	struct inflight_client *client = LIST_FIRST(&table->by_count[table->heaviest]);
	stats_drop(table->context->stats, DROP_FORWARD_EVICTED);
	inflight_finish(table, TAILQ_FIRST(&client->queries), NULL, 0);
}

/* --- queries --- */

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
	refused.len = len;
	forwarded_reply_note(
	    table->context, client, &refused, room, table->context->now_ns, MADE_REFUSED);
}

/* The query as it begins. `query` is not copied. */
static struct inflight
inflight_begin(const struct inflight_table *table, const struct client *client,
    const uint8_t *query, size_t len, enum answer_outcome outcome, const struct answer_info *info)
{
	return (struct inflight){
		.start_ns = table->context->now_ns,
		.asked_ns = table->context->now_ns,
		.retry_ns = table->context->now_ns + table->ops.retry_ns,
		.client = *client,
		.chase = outcome == ANSWER_CHASE,
		.type = info->query.qtype,
		.flags = info->query.flags,
		.edns_do = info->query.edns_do,
		.info = *info,
		.query_len = len,
		.query = query,
	};
}

/* Replies from what is kept. False: another server has to be asked; `reached` is then the query as
 * far as it has come, for a search walk may have gone some steps. */
static bool
reply_from_kept(struct inflight_table *table, const struct client *client, const uint8_t *query,
    size_t len, enum answer_outcome outcome, const struct answer_info *info,
    struct answer_info *reached)
{
	struct inflight asking = inflight_begin(table, client, query, len, outcome, info);
	uint8_t room[FORWARDED_CACHE_SLOT];
	struct upstream_reply said;
	do {
		if (!forwarded_reply_find(table->context, table->cache, &asking, room, &said)) {
			*reached = asking.info;
			return false;
		}
	} while (forwarded_reply_leads_on(table->context, &asking, &said));
	forwarded_reply_send(table->context, &table->clients, &asking, &said, MADE_CACHED);
	return true;
}

static struct inflight *
inflight_make(const struct inflight_table *table, const struct client *client, const uint8_t *query,
    size_t len, enum answer_outcome outcome, const struct answer_info *info)
{
	uint8_t *memory = xmalloc(table->ops.size + len), *copy = memory + table->ops.size;
	struct inflight *inflight = (struct inflight *)(void *)memory;
	memcpy(copy, query, len);
	memset(memory + sizeof(*inflight), 0, table->ops.size - sizeof(*inflight));
	*inflight = inflight_begin(table, client, copy, len, outcome, info);
	return inflight;
}

void
inflight_start(struct inflight_table *table, const struct client *client, const uint8_t *query,
    size_t query_len, enum answer_outcome outcome, const struct answer_info *info)
{
	if (outcome == ANSWER_WAIT) {
		table->context->stirred = true;
		awaited_take(table->awaited, client, query, query_len);
		return;
	}
	if (outcome == ANSWER_CHASE && table->chased != NULL && !info->direct)
		table = table->chased;
	if (info->until_synced) {
		stats_add(&table->context->stats->until_synced, 1);
		table = table->until_synced;
	}
	table->clients.hold(table->clients.arg, client);
	struct answer_info reached;
	if (table->cache != NULL) {
		if (reply_from_kept(table, client, query, query_len, outcome, info, &reached))
			return;
		info = &reached;
	}
	table->context->stirred = true;
	struct inflight_client *account = client_find(table, client->hash);
	enum stats_drop bound = bound_reached(table, account, query_len);
	if (bound != DROP_COUNT) {
		refuse_query(table, client, query, query_len, info, bound);
		return;
	}
	if (account == NULL)
		account = client_add(table, client->hash);
	if (table->count >= table->max && table->ops.hold_ns == 0)
		evict_query(table);
	struct inflight *inflight = inflight_make(table, client, query, query_len, outcome, info);
	table->count++;
	client_count(table, account, 1);
	inflight->account = account;
	TAILQ_INSERT_TAIL(&account->queries, inflight, by_client);
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

/* Asks for the next step of a search walk. */
static void
ask_on(struct inflight_table *table, struct inflight *inflight)
{
	table->ops.forget(table->ops.arg, inflight);
	TAILQ_REMOVE(&table->by_retry, inflight, by_retry);
	inflight->asked_ns = table->context->now_ns;
	inflight->retry_ns = table->context->now_ns + table->ops.retry_ns;
	TAILQ_INSERT_TAIL(&table->by_retry, inflight, by_retry);
	inflight->refused_by = NULL;
	stats_add(&table->context->stats->forward_queries, 1);
	table->ops.ask_on(table->ops.arg, inflight);
}

static void
inflight_unlink(struct inflight_table *table, struct inflight *inflight)
{
	table->ops.forget(table->ops.arg, inflight);
	TAILQ_REMOVE(&table->by_deadline, inflight, by_deadline);
	TAILQ_REMOVE(&table->by_retry, inflight, by_retry);
	TAILQ_REMOVE(&inflight->account->queries, inflight, by_client);
	assert(table->count > 0 && inflight->account->count > 0);
	table->count--;
	client_count(table, inflight->account, -1);
	stats_sub(&table->context->stats->forward_in_flight, 1);
}

void
inflight_finish(struct inflight_table *table, struct inflight *inflight, const uint8_t *upstream,
    size_t upstream_len)
{
	struct stats *stats = table->context->stats;
	struct upstream_reply said = { upstream, upstream_len, inflight->refused_by };
	uint8_t room[FORWARDED_CACHE_SLOT];

	forwarded_reply_keep(table->context, table->cache, inflight, &said);
	while (forwarded_reply_leads_on(table->context, inflight, &said))
		if (!forwarded_reply_find(table->context, table->cache, inflight, room, &said)) {
			ask_on(table, inflight);
			return;
		}
	inflight_unlink(table, inflight);
	if (upstream == NULL) {
		stats_add(&stats->forward_failed, 1);
		hold_query(table, inflight);
	}
	client_release(inflight->account);
	forwarded_reply_send(table->context, &table->clients, inflight, &said,
	    inflight->chase ? MADE_CHASED : table->ops.made);
	stats_took(
	    &stats->forward_times, (uint64_t)(table->context->now_ns - inflight->start_ns), 1);
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
	release_held(table);
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
	if (table == NULL)
		return;
	assert(table->count == 0);
	for (; table->held_count > 0; table->held_count--) {
		struct inflight_client *client = table->held[table->held_first].client;
		table->held_first = (table->held_first + 1) % held_size(table);
		client->held--;
		client_release(client);
	}
	free(table->held);
	free(table->by_count);
	free(table);
}
