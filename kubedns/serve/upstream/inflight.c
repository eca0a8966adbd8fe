#include "kubedns/serve/upstream/inflight.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "kubedns/serve/upstream/forwarded_cache.h"
#include "kubedns/serve/upstream/forwarded_reply.h"
#include "lib/clock.h"
#include "lib/hash.h"
#include "lib/xalloc.h"

enum {
	CLIENT_BUCKETS = 1024,
	QUESTION_BUCKETS = 1024,
	KNOWN_BITS = 1 << 17,
	KNOWN_MAX = KNOWN_BITS / 8, /* limit at which the older half is forgotten */
	/*
	 * Some resolvers store queries after they have ended here. For such a resolver, there is a reserve of 1/16 of the total limit, in
	 * addition to that limit. When the table is full, the reserve is for clients that have no query in the table.
	 */
	RESERVE_PART = 16,
	/*
	 * A client that has reached its limit on the resolver's places may still query known questions (see struct known). For these queries
	 * there are places of their own, 1/8 of the total limit. Otherwise names whose server stops answering could fill all places.
	 */
	EXTRA_PART = 8,
};

/*
 * A client address with queries that are in flight or stored by the resolver. The keyed hash of the address identifies it. Two clients with
 * the same hash share a limit, but nobody can provoke equal hashes.
 */
struct inflight_client {
	LIST_ENTRY(inflight_client) by_hash;
	LIST_ENTRY(inflight_client) by_count;
	uint32_t hash;
	unsigned count; /* queries in flight */
	/* Number of queries that have ended here, but not at the resolver (see forward_ops.stored_ns). */
	unsigned stored;
	unsigned extra; /* queries in extra places, in flight and stored by the resolver */
	TAILQ_HEAD(, inflight) queries; /* in flight, oldest first */
};
LIST_HEAD(client_list, inflight_client);
LIST_HEAD(question_list, inflight);

struct stored_query {
	int64_t until_ns;
	struct inflight_client *client;
	uint64_t question; /* hash of the question */
	unsigned next;     /* the next query in its bucket, as in stored_by_question */
	bool extra;        /* takes an extra place */
};

/*
 * Questions that had an answer. Each question is one bit, chosen by its hash, so a few unknown questions count as known. The set of known
 * questions has two halves. When the newer half has KNOWN_MAX questions, it becomes the older half.
 */
struct known {
	uint8_t *bits[2]; /* newer and older half, of KNOWN_BITS bits each */
	unsigned count;   /* number of questions in the newer half */
};

struct inflight_table {
	struct worker_context *context;
	struct client_ops clients;
	struct forward_ops ops;
	unsigned max, client_max;
	/* numbers of queries in flight, and of queries stored by the resolver */
	unsigned count, stored_count;
	unsigned extra; /* queries in extra places, in flight and stored by the resolver */
	TAILQ_HEAD(inflight_queue, inflight) by_deadline, by_retry;
	struct known known; /* only with ops.stored_ns; allocated when it is first needed */
	bool ending;        /* no query is sent any more */
	struct client_list by_hash[CLIENT_BUCKETS];
	struct question_list by_question[QUESTION_BUCKETS]; /* queries that have been sent */
	/* by_count[n] lists the clients with n queries in flight. n is from 0 to client_max. */
	struct client_list *by_count;
	unsigned heaviest; /* no client has more queries in flight than this number */
	/* A ring of the queries stored by the resolver, in order of time. The ring is allocated when it is first needed. */
	struct stored_query *stored;
	unsigned stored_first;
	unsigned stored_by_question[QUESTION_BUCKETS]; /* index in the ring plus 1, or 0 */
	/* Takes our own names before the first sync, or NULL. */
	struct inflight_table *until_synced;
	/* Takes queries for which answer() returned CHASE, or NULL. */
	struct inflight_table *chased;
	/* Takes queries that the other server did not answer, or NULL. */
	struct inflight_table *fallback;
	bool is_fallback; /* of another table; its servers may not get names of stub domains */
	struct forwarded_cache *cache; /* NULL with --answer-cache=off */
};

struct inflight_table *
inflight_new(struct worker_context *context, const struct client_ops *clients, unsigned max,
    unsigned client_max)
{
	struct inflight_table *table = xcalloc(1, sizeof *table);

	table->context = context;
	table->clients = *clients;
	table->max = max;
	table->client_max = client_max < max ? client_max : max;
	table->by_count = xcalloc((size_t)table->client_max + 1, sizeof *table->by_count);
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
inflight_fallback(struct inflight_table *table, struct inflight_table *fallback)
{
	table->fallback = fallback;
	fallback->is_fallback = true;
}

void
inflight_cache(struct inflight_table *table, struct forwarded_cache *cache)
{
	table->cache = cache;
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
	struct inflight_client *client = xcalloc(1, sizeof *client);

	client->hash = hash;
	TAILQ_INIT(&client->queries);
	LIST_INSERT_HEAD(&table->by_hash[hash % CLIENT_BUCKETS], client, by_hash);
	LIST_INSERT_HEAD(&table->by_count[0], client, by_count);
	return client;
}

/* Adds `by` to the client's number of queries, and moves the client to the list for that number. */
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
	if (client->count + client->stored > 0)
		return;
	LIST_REMOVE(client, by_hash);
	LIST_REMOVE(client, by_count);
	free(client);
}

/* --- queries stored by the resolver --- */

static unsigned
places(const struct inflight_table *table)
{
	return setting_or(table->ops.stored_max, table->max);
}

/* Returns the number of extra places, for known questions of clients that have reached their limits. */
static unsigned
extra_places(const struct inflight_table *table)
{
	return places(table) / EXTRA_PART;
}

/* Returns the number of places for all other queries, with the reserve. */
static unsigned
places_with_reserve(const struct inflight_table *table)
{
	return places(table) + places(table) / RESERVE_PART;
}

static unsigned
stored_size(const struct inflight_table *table)
{
	return places_with_reserve(table) + extra_places(table);
}

/* Adds `by` to the number of queries in extra places. */
static void
extra_count(struct inflight_table *table, struct inflight_client *client, int by)
{
	table->extra += (unsigned)by;
	client->extra += (unsigned)by;
}

static uint64_t
question_hash(const struct inflight_table *table, const struct inflight *inflight)
{
	uint8_t key[DNAME_MAX + 2];
	const uint8_t *name = inflight_name(inflight);
	size_t len = dname_length(name, DNAME_MAX);

	memcpy(key, name, len);
	dname_lower(key, len);
	wire_put16(key + len, inflight->type);
	return hash64(table->context->hash_key, key, len + 2);
}

static bool
is_known(const struct known *known, uint64_t question)
{
	size_t bit = question % KNOWN_BITS;

	for (size_t i = 0; i < 2; i++)
		if (known->bits[i] != NULL && (known->bits[i][bit / 8] & 1u << bit % 8) != 0)
			return true;
	return false;
}

/* If `reply` is an answer, remembers that the question had one. */
static void
know(struct inflight_table *table, const struct inflight *inflight, const uint8_t *reply)
{
	struct known *known = &table->known;
	unsigned rcode = reply[3] & 15u;

	if (table->ops.stored_ns == 0 || (rcode != RCODE_NOERROR && rcode != RCODE_NXDOMAIN))
		return;
	size_t bit = question_hash(table, inflight) % KNOWN_BITS;
	if (known->bits[0] == NULL || known->count == KNOWN_MAX) {
		uint8_t *oldest = known->bits[1];

		known->bits[1] = known->bits[0];
		known->bits[0] = oldest != NULL ? oldest : xmalloc(KNOWN_BITS / 8);
		memset(known->bits[0], 0, KNOWN_BITS / 8);
		known->count = 0;
	}
	known->count += (known->bits[0][bit / 8] & 1u << bit % 8) == 0;
	known->bits[0][bit / 8] |= (uint8_t)(1u << bit % 8);
}

static bool
is_stored(const struct inflight_table *table, uint64_t question)
{
	unsigned at = table->stored_by_question[question % QUESTION_BUCKETS];

	while (at != 0 && table->stored[at - 1].question != question)
		at = table->stored[at - 1].next;
	return at != 0;
}

/*
 * Called when the query ends without a reply. If the query was sent to the resolver, the resolver still stores it. A question that is
 * already stored takes no further place. The resolver continues with the same query, and counts its time from the first one.
 */
static void
store_query(struct inflight_table *table, const struct inflight *inflight)
{
	if (table->ops.stored_ns == 0 || !inflight->asked)
		return;
	unsigned size = stored_size(table);
	if (table->stored == NULL)
		table->stored = xcalloc(size, sizeof *table->stored);
	uint64_t question = question_hash(table, inflight);
	if (is_stored(table, question))
		return;
	assert(table->stored_count < size);
	int64_t until_ns = inflight->asked_ns + table->ops.stored_ns;
	/* The newest query in the ring may have been sent later than this query, as a candidate of a search list. The later time
	 * preserves the order of the ring. */
	if (table->stored_count > 0) {
		unsigned last = (table->stored_first + table->stored_count - 1) % size;

		if (table->stored[last].until_ns > until_ns)
			until_ns = table->stored[last].until_ns;
	}
	unsigned at = (table->stored_first + table->stored_count++) % size;
	unsigned *bucket = &table->stored_by_question[question % QUESTION_BUCKETS];
	table->stored[at] = (struct stored_query){ until_ns, inflight->account, question, *bucket,
		inflight->extra };
	*bucket = at + 1;
	inflight->account->stored++;
	if (inflight->extra)
		extra_count(table, inflight->account, 1);
}

/* Called when the resolver has dropped the oldest query. */
static void
release_first(struct inflight_table *table)
{
	const struct stored_query *first = &table->stored[table->stored_first];
	unsigned *at = &table->stored_by_question[first->question % QUESTION_BUCKETS];

	while (*at != table->stored_first + 1)
		at = &table->stored[*at - 1].next;
	*at = first->next;
	table->stored_first = (table->stored_first + 1) % stored_size(table);
	table->stored_count--;
	first->client->stored--;
	if (first->extra)
		extra_count(table, first->client, -1);
	client_release(first->client);
}

static void
release_stored(struct inflight_table *table)
{
	while (table->stored_count > 0 &&
	       table->stored[table->stored_first].until_ns <= table->context->now_ns)
		release_first(table);
}

/* --- limits --- */

/*
 * Returns how many of `max` places one client may have, which is half of the free places (a dynamic threshold). If n clients take as many
 * places as they can get, 2 / (n + 2) of the places stay free.
 */
static unsigned
client_limit(unsigned max, unsigned used, unsigned client_max)
{
	unsigned limit = used < max ? (max - used) / 2 : 0;

	if (limit > client_max)
		limit = client_max;
	return limit > 0 ? limit : 1;
}

/* Checks the limits on the resolver's places. Returns the limit that one more query of this client would exceed, or DROP_COUNT. */
static enum stats_drop
resolver_bound_reached(const struct inflight_table *table, const struct inflight_client *client)
{
	unsigned max = places(table), used = table->count + table->stored_count - table->extra;
	unsigned own = client != NULL ? client->count + client->stored - client->extra : 0;

	if (own >= client_limit(max, used, max))
		return DROP_FORWARD_CLIENT;
	return used < places_with_reserve(table) ? DROP_COUNT : DROP_FORWARD_TOTAL;
}

/* Whether one more query of this client may take an extra place. */
static bool
has_extra_place(const struct inflight_table *table, const struct inflight_client *client)
{
	unsigned max = extra_places(table), own = client != NULL ? client->extra : 0;

	return table->extra < max && own < client_limit(max, table->extra, max);
}

/* Returns the limit that one more query of this client would exceed, or DROP_COUNT. */
static enum stats_drop
bound_reached(struct inflight_table *table, const struct inflight_client *client, size_t len)
{
	unsigned own = client != NULL ? client->count : 0;

	if (len > DNS_UDP_QUERY_MAX)
		return DROP_FORWARD_SIZE;
	if (own >= client_limit(table->max, table->count, table->client_max))
		return DROP_FORWARD_CLIENT;
	if (table->count >= table->max && table->heaviest <= own + 1)
		return DROP_FORWARD_TOTAL;
	return DROP_COUNT;
}

static void end_unanswered(struct inflight_table *table, struct inflight *inflight);

/* Ends the oldest query of the client that has the most queries. */
static void
evict_query(struct inflight_table *table)
{
	struct inflight_client *client = LIST_FIRST(&table->by_count[table->heaviest]);

	stats_drop(table->context->stats, DROP_FORWARD_EVICTED);
	end_unanswered(table, TAILQ_FIRST(&client->queries));
}

/* --- questions in flight, and the queries that wait for their answers --- */

static struct question_list *
question_list(struct inflight_table *table, const struct inflight *inflight)
{
	return &table->by_question[question_hash(table, inflight) % QUESTION_BUCKETS];
}

/* Compares everything on which the other server's answer depends. The transport is included, because the relay fetches a long answer
 * over TCP for a TCP client. */
static bool
same_question(const struct inflight *a, const struct inflight *b)
{
	return a->type == b->type && a->edns_do == b->edns_do &&
	       ((a->flags ^ b->flags) & (FLAG_CD | FLAG_AD)) == 0 &&
	       a->client.proto == b->client.proto &&
	       dname_equal(inflight_name(a), inflight_name(b));
}

static void
start_asking(struct inflight_table *table, struct inflight *inflight, struct question_list *list,
    void (*ask)(void *arg, struct inflight *inflight))
{
	inflight->asked = inflight->asking = true;
	LIST_INSERT_HEAD(list, inflight, by_question);
	inflight->retry_ns = table->context->now_ns + table->ops.retry_ns;
	TAILQ_INSERT_TAIL(&table->by_retry, inflight, by_retry);
	ask(table->ops.arg, inflight);
}

/* Sends the query to the other server. If a query with the same question is in flight, waits for the answer to that query instead. */
static void
ask_or_join(struct inflight_table *table, struct inflight *inflight,
    void (*ask)(void *arg, struct inflight *inflight))
{
	struct question_list *list = question_list(table, inflight);
	struct inflight *leader;

	LIST_FOREACH(leader, list, by_question)
	{
		if (!same_question(leader, inflight))
			continue;
		inflight->leader = leader;
		TAILQ_INSERT_TAIL(&leader->joined, inflight, by_joined);
		stats_add(&table->context->stats->forward_joined, 1);
		return;
	}
	start_asking(table, inflight, list, ask);
}

/* Ends the query's question if it is in flight. If the query waits for the answer to another query, ends that wait. */
static void
stop_asking(struct inflight_table *table, struct inflight *inflight)
{
	if (inflight->leader != NULL)
		TAILQ_REMOVE(&inflight->leader->joined, inflight, by_joined);
	inflight->leader = NULL;
	if (!inflight->asking)
		return;
	inflight->asking = false;
	table->ops.forget(table->ops.arg, inflight);
	LIST_REMOVE(inflight, by_question);
	TAILQ_REMOVE(&table->by_retry, inflight, by_retry);
}

static int64_t
deadline_ns(const struct inflight_table *table, const struct inflight *inflight)
{
	return inflight->begun_ns + (table->ops.timeout_ns != 0
					    ? table->ops.timeout_ns
					    : FORWARD_TIMEOUT_MS * INT64_C(1000000));
}

/*
 * Called when the query ends or moves unanswered while other queries wait for the same answer. The query that may wait longest is sent in
 * its place. Otherwise, if many clients look up a name that no server answers, a query would be sent again for each client. If even the
 * query that may wait longest ends soon, no query is sent, and each query ends separately.
 */
static void
pass_on(struct inflight_table *table, struct inflight *inflight)
{
	struct inflight *next = TAILQ_LAST(&inflight->joined, inflight_joined), *other;

	if (next == NULL)
		return;
	bool asks = !table->ending &&
		    deadline_ns(table, next) >= table->context->now_ns + table->ops.retry_ns;
	while ((other = TAILQ_FIRST(&inflight->joined)) != NULL) {
		TAILQ_REMOVE(&inflight->joined, other, by_joined);
		other->leader = asks && other != next ? next : NULL;
		if (other->leader != NULL)
			TAILQ_INSERT_TAIL(&next->joined, other, by_joined);
	}
	if (asks)
		start_asking(table, next, question_list(table, next), table->ops.ask);
}

/* --- queries --- */

static void
refuse_query(struct inflight_table *table, const struct client *client, const uint8_t *query,
    size_t len, const struct answer_info *info, enum stats_drop reason)
{
	struct answer_info refused = *info;
	size_t max;
	uint8_t *buffer = table->clients.reply_buffer(table->clients.arg, client, &max);

	refused.rcode = RCODE_REFUSED;
	refused.truncated = false;
	len = answer_rcode(&refused.query, query, len, RCODE_REFUSED, buffer, max);
	table->clients.done(table->clients.arg, client, len);
	stats_drop(table->context->stats, reason);
	stats_reply(table->context->stats, client->proto, &refused, len);
	refused.len = len;
	forwarded_reply_note(
	    table->context, client, &refused, buffer, table->context->now_ns, MADE_REFUSED);
}

/* Initialises a query. `query` is not copied. */
static struct inflight
inflight_begin(const struct inflight_table *table, const struct client *client,
    const uint8_t *query, size_t len, enum answer_outcome outcome, const struct answer_info *info)
{
	return (struct inflight){
		.start_ns = table->context->now_ns,
		.begun_ns = table->context->now_ns,
		.asked_ns = table->context->now_ns,
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

/* Replies from the cache. Returns false if another server must be queried. Then `reached` is the state of the query, because some
 * candidates of a search list may already be done. */
static bool
reply_from_kept(struct inflight_table *table, const struct client *client, const uint8_t *query,
    size_t len, enum answer_outcome outcome, const struct answer_info *info,
    struct answer_info *reached)
{
	struct inflight asking = inflight_begin(table, client, query, len, outcome, info);
	uint8_t buffer[FORWARDED_CACHE_SLOT];
	struct upstream_reply said;

	do {
		if (!forwarded_reply_find(table->context, table->cache, &asking, buffer, &said)) {
			*reached = asking.info;
			return false;
		}
	} while (forwarded_reply_leads_on(table->context, &asking, &said));
	forwarded_reply_send(table->context, &table->clients, &asking, &said, MADE_CACHED);
	return true;
}

/* Allocates a query. `rest` is the number of additional bytes after the copy of the message. */
static struct inflight *
inflight_make(const struct inflight_table *table, const struct client *client, const uint8_t *query,
    size_t len, enum answer_outcome outcome, const struct answer_info *info, size_t rest)
{
	uint8_t *memory = xmalloc(table->ops.size + len + rest), *copy = memory + table->ops.size;
	struct inflight *inflight = (struct inflight *)(void *)memory;

	memcpy(copy, query, len);
	memset(memory + sizeof *inflight, 0, table->ops.size - sizeof *inflight);
	*inflight = inflight_begin(table, client, copy, len, outcome, info);
	TAILQ_INIT(&inflight->joined);
	return inflight;
}

/* Adds the query to the table and to its client's account, and sends it. */
static void
inflight_link(struct inflight_table *table, struct inflight *inflight)
{
	struct inflight_client *account = client_find(table, inflight->client.hash);

	if (account == NULL)
		account = client_add(table, inflight->client.hash);
	table->count++;
	client_count(table, account, 1);
	inflight->account = account;
	if (inflight->extra)
		extra_count(table, account, 1);
	TAILQ_INSERT_TAIL(&account->queries, inflight, by_client);
	stats_add(&table->context->stats->forward_queries, 1);
	stats_add(&table->context->stats->forward_in_flight, 1);
	TAILQ_INSERT_TAIL(&table->by_deadline, inflight, by_deadline);
	ask_or_join(table, inflight, table->ops.ask);
}

/*
 * For a resolver that stores queries. If this query would exceed a limit on the resolver's places, replies SERVFAIL and returns true. A
 * question that had an answer before may take an extra place, because the resolver most likely has the answer in its cache or gets it again.
 * Then `*extra` is set. A client that queries names that no server answers can therefore still query known names.
 */
static bool
fail_if_full(struct inflight_table *table, const struct inflight_client *account,
    const struct client *client, const uint8_t *query, size_t len, enum answer_outcome outcome,
    const struct answer_info *info, bool *extra)
{
	enum stats_drop bound = resolver_bound_reached(table, account);

	if (bound == DROP_COUNT)
		return false;
	struct inflight asking = inflight_begin(table, client, query, len, outcome, info);
	*extra = has_extra_place(table, account) &&
		 is_known(&table->known, question_hash(table, &asking));
	if (*extra)
		return false;
	stats_drop(table->context->stats, bound);
	forwarded_reply_send(
	    table->context, &table->clients, &asking, &(struct upstream_reply){ 0 }, MADE_REFUSED);
	return true;
}

void
inflight_start(struct inflight_table *table, const struct client *client, const uint8_t *query,
    size_t query_len, enum answer_outcome outcome, const struct answer_info *info)
{
	if (outcome == ANSWER_CHASE && table->chased != NULL && !info->direct)
		table = table->chased;
	if (info->until_synced) {
		stats_add(&table->context->stats->until_synced, 1);
		table = table->until_synced;
	}
	table->clients.defer(table->clients.arg, client);
	struct answer_info reached;
	if (table->cache != NULL) {
		if (reply_from_kept(table, client, query, query_len, outcome, info, &reached))
			return;
		info = &reached;
	}
	table->context->stirred = true;
	const struct inflight_client *account = client_find(table, client->hash);
	enum stats_drop bound = bound_reached(table, account, query_len);
	if (bound != DROP_COUNT) {
		refuse_query(table, client, query, query_len, info, bound);
		return;
	}
	bool extra = false;
	if (table->ops.stored_ns != 0 &&
	    fail_if_full(table, account, client, query, query_len, outcome, info, &extra))
		return;
	if (table->count >= table->max)
		evict_query(table);
	struct inflight *inflight =
	    inflight_make(table, client, query, query_len, outcome, info, 0);
	inflight->extra = extra;
	inflight_link(table, inflight);
}

size_t
inflight_question(const struct inflight *inflight, uint16_t id, bool with_opt, uint8_t *out)
{
	size_t len = query_write(out, INFLIGHT_QUESTION_MAX, id, inflight_name(inflight),
	    inflight->type, CLASS_IN, with_opt ? DNS_UDP_PAYLOAD : 0);

	wire_put16(out + 2, wire_get16(out + 2) | (inflight->flags & (FLAG_CD | FLAG_AD)));
	/* The OPT is the last record, and ends with version, DO and Z, and RDLENGTH 0. */
	if (with_opt && inflight->edns_do)
		out[len - 4] |= 0x80;
	return len;
}

/* Sends a query for the next candidate of a search list. */
static void
ask_on(struct inflight_table *table, struct inflight *inflight)
{
	stop_asking(table, inflight);
	inflight->asked_ns = table->context->now_ns;
	inflight->refused_by = NULL;
	stats_add(&table->context->stats->forward_queries, 1);
	ask_or_join(table, inflight, table->ops.ask_on);
}

static void
inflight_unlink(struct inflight_table *table, struct inflight *inflight)
{
	stop_asking(table, inflight);
	TAILQ_REMOVE(&table->by_deadline, inflight, by_deadline);
	TAILQ_REMOVE(&inflight->account->queries, inflight, by_client);
	assert(table->count > 0 && inflight->account->count > 0);
	table->count--;
	client_count(table, inflight->account, -1);
	if (inflight->extra)
		extra_count(table, inflight->account, -1);
	stats_sub(&table->context->stats->forward_in_flight, 1);
}

/* Replies to the client, or sends a query for the next candidate of its search list. */
static void
finish_one(struct inflight_table *table, struct inflight *inflight, struct upstream_reply said)
{
	struct stats *stats = table->context->stats;
	uint8_t buffer[FORWARDED_CACHE_SLOT];
	bool failed = said.wire == NULL;

	if (failed && inflight->servfail != NULL)
		said = (struct upstream_reply){ inflight->servfail, inflight->servfail_len, NULL };
	while (forwarded_reply_leads_on(table->context, inflight, &said)) {
		if (forwarded_reply_find(table->context, table->cache, inflight, buffer, &said))
			continue;
		if (table->is_fallback &&
		    forwarded_reply_in_stub_domain(table->context, inflight)) {
			said = (struct upstream_reply){ 0 };
			failed = true;
			break;
		}
		ask_on(table, inflight);
		return;
	}
	inflight_unlink(table, inflight);
	if (failed) {
		stats_add(&stats->forward_failed, 1);
		store_query(table, inflight);
	}
	client_release(inflight->account);
	forwarded_reply_send(table->context, &table->clients, inflight, &said,
	    inflight->chase ? MADE_CHASED : table->ops.made);
	stats_took(
	    &stats->forward_times, (uint64_t)(table->context->now_ns - inflight->start_ns), 1);
	free(inflight);
}

/* Returns whether a SERVFAIL with this extended error means that the servers have a problem. -1 means that there is no extended error.
 * Any other error is a finding about the name, such as an invalid signature. Then no other server may be queried, because its answer
 * could hide that finding. */
static bool
is_trouble(int extended_error)
{
	switch (extended_error) {
	case -1:
	case EDE_OTHER:
	case EDE_CACHED_ERROR:
	case EDE_NOT_READY:
	case EDE_NO_REACHABLE_AUTHORITY:
	case EDE_NETWORK_ERROR:
		return true;
	default:
		return false;
	}
}

/* Whether the servers of the fallback table may be queried for this name. */
static bool
has_fallback(const struct inflight_table *table, const struct inflight *inflight)
{
	return table->fallback != NULL && table->fallback->ops.has_servers && !table->ending &&
	       (table->ops.is_final == NULL || !table->ops.is_final(table->ops.arg)) &&
	       !forwarded_reply_in_stub_domain(table->context, inflight);
}

/* Whether the query has time left, and its client may have one more query in the fallback table. */
static bool
may_move(struct inflight_table *table, const struct inflight *inflight)
{
	struct inflight_table *to = table->fallback;

	return deadline_ns(table, inflight) > table->context->now_ns &&
	       bound_reached(to, client_find(to, inflight->client.hash), inflight->query_len) ==
		   DROP_COUNT;
}

/*
 * Moves the query to the fallback table, which sends it to its servers. `said` is the SERVFAIL of the other server, or empty. Returns false if
 * it may not move.
 */
static bool
move_to_fallback(
    struct inflight_table *table, struct inflight *inflight, const struct upstream_reply *said)
{
	struct inflight_table *to = table->fallback;
	size_t len = inflight->query_len,
	       kept = forwarded_reply_extended_error(said) >= 0 ? said->len : 0;

	if (!may_move(table, inflight))
		return false;
	struct inflight *next = inflight_make(to, &inflight->client, inflight->query, len,
	    inflight->chase ? ANSWER_CHASE : ANSWER_FORWARD, &inflight->info, kept);
	next->start_ns = inflight->start_ns;
	if (kept > 0) {
		uint8_t *copy = (uint8_t *)next + to->ops.size + len;

		memcpy(copy, said->wire, kept);
		next->servfail = copy;
		next->servfail_len = kept;
	}
	inflight_unlink(table, inflight);
	client_release(inflight->account);
	free(inflight);
	stats_add(&to->context->stats->forward_fallback, 1);
	if (to->count >= to->max)
		evict_query(to);
	inflight_link(to, next);
	return true;
}

/*
 * Ends the query's question. If `move` is set, moves the query, and the queries that wait for the same answer, to the fallback table.
 * Otherwise replies. A query that cannot be moved gets the other server's SERVFAIL. If this SERVFAIL has no extended error, the query gets
 * our SERVFAIL, which has one.
 */
static void
end_question(struct inflight_table *table, struct inflight *inflight,
    const struct upstream_reply *said, bool move)
{
	struct inflight_joined joined = TAILQ_HEAD_INITIALIZER(joined);
	struct upstream_reply reply = *said;
	struct inflight *other;

	if (move && forwarded_reply_extended_error(said) < 0)
		reply = (struct upstream_reply){ 0 };
	TAILQ_CONCAT(&joined, &inflight->joined, by_joined);
	stop_asking(table, inflight);
	/* This query is last, because it has the text of `refused_by`. */
	TAILQ_INSERT_TAIL(&joined, inflight, by_joined);
	while ((other = TAILQ_FIRST(&joined)) != NULL) {
		TAILQ_REMOVE(&joined, other, by_joined);
		other->leader = NULL;
		if (move && move_to_fallback(table, other, said))
			continue;
		if (move) /* the other server does not store this query */
			other->asked = false;
		finish_one(table, other, reply);
	}
}

void
inflight_finish(struct inflight_table *table, struct inflight *inflight, const uint8_t *upstream,
    size_t upstream_len)
{
	const struct upstream_reply said = { upstream, upstream_len, inflight->refused_by };
	bool failed = upstream != NULL && (upstream[3] & 15) == RCODE_SERVFAIL;

	forwarded_reply_keep(table->context, table->cache, inflight, &said);
	if (upstream != NULL)
		know(table, inflight, upstream);
	end_question(table, inflight, &said,
	    failed && has_fallback(table, inflight) &&
		is_trouble(forwarded_reply_extended_error(&said)));
}

void
inflight_no_reply(struct inflight_table *table, struct inflight *inflight)
{
	const struct upstream_reply none = { 0 };
	struct inflight *other, *next;

	if (!has_fallback(table, inflight))
		return;
	for (other = TAILQ_FIRST(&inflight->joined); other != NULL; other = next) {
		next = TAILQ_NEXT(other, by_joined);
		move_to_fallback(table, other, &none);
	}
	if (!may_move(table, inflight))
		return;
	stop_asking(table, inflight);
	pass_on(table, inflight);
	move_to_fallback(table, inflight, &none);
}

/* Ends a query because its time is over, or because another query takes its place. */
static void
end_unanswered(struct inflight_table *table, struct inflight *inflight)
{
	stop_asking(table, inflight);
	pass_on(table, inflight);
	finish_one(table, inflight, (struct upstream_reply){ 0 });
}

void
inflight_retry_every(struct inflight_table *table, int64_t retry_ns)
{
	int64_t latest_ns = table->context->now_ns + retry_ns;
	struct inflight *inflight;

	table->ops.retry_ns = retry_ns;
	/* The queue stays in order of time. */
	TAILQ_FOREACH(inflight, &table->by_retry, by_retry)
	{
		if (inflight->retry_ns > latest_ns)
			inflight->retry_ns = latest_ns;
	}
}

void
inflight_restart_retry(struct inflight_table *table, struct inflight *inflight)
{
	TAILQ_REMOVE(&table->by_retry, inflight, by_retry);
	inflight->retry_ns = table->context->now_ns + table->ops.retry_ns;
	TAILQ_INSERT_TAIL(&table->by_retry, inflight, by_retry);
}

int64_t
inflight_iteration(struct inflight_table *table)
{
	struct inflight *inflight;

	release_stored(table);
	while ((inflight = TAILQ_FIRST(&table->by_deadline)) != NULL &&
	       /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): it loses track of queues */
	       deadline_ns(table, inflight) <= table->context->now_ns)
		end_unanswered(table, inflight);
	while ((inflight = TAILQ_FIRST(&table->by_retry)) != NULL &&
	       inflight->retry_ns <= table->context->now_ns) {
		inflight_restart_retry(table, inflight);
		table->ops.retry(table->ops.arg, inflight);
	}
	const struct inflight *deadline = TAILQ_FIRST(&table->by_deadline),
			      *next = TAILQ_FIRST(&table->by_retry);
	if (deadline == NULL)
		return CLOCK_NEVER;
	return clock_earlier(
	    deadline_ns(table, deadline), next != NULL ? next->retry_ns : CLOCK_NEVER);
}

void
inflight_finish_all(struct inflight_table *table)
{
	struct inflight *inflight;

	table->ending = true;
	while ((inflight = TAILQ_FIRST(&table->by_deadline)) != NULL)
		/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): it loses track of queues */
		end_unanswered(table, inflight);
}

void
inflight_free(struct inflight_table *table)
{
	if (table == NULL)
		return;
	assert(table->count == 0);
	while (table->stored_count > 0)
		release_first(table);
	free(table->stored);
	free(table->known.bits[0]);
	free(table->known.bits[1]);
	free(table->by_count);
	free(table);
}
