#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/log.h"
#include "lib/wire.h"
#include "sidecar/containers/dnsmasq_stats.h"
#include "lib/clock.h"

enum {
	POLL_TIMEOUT_MS = 1000,
	RETRY_MS = 1000, /* wait after a failure */
	MARKER_MIN = 512 /* the lowest generation that the nanny uses */
};

static const char *const names[STAT_COUNT] = {
	[STAT_HITS] = "hits.bind.",
	[STAT_MISSES] = "misses.bind.",
	[STAT_EVICTIONS] = "evictions.bind.",
	[STAT_INSERTIONS] = "insertions.bind.",
	[STAT_SIZE] = "cachesize.bind.",
	[STAT_SERVERS] = "servers.bind.",
};

int
dnsmasq_stats_parse_number(const uint8_t *text, size_t len, uint32_t *value)
{
	bool negative = len > 0 && text[0] == '-';
	uint64_t sum = 0;
	size_t i = negative;

	if (i == len || len > 11)
		return -EINVAL;
	for (; i < len; i++) {
		if (text[i] < '0' || text[i] > '9')
			return -EINVAL;
		sum = sum * 10 + (text[i] - '0');
	}
	if (sum > UINT32_MAX)
		return -EINVAL;
	*value = (uint32_t)(negative ? -sum : sum); /* dnsmasq prints an unsigned counter above 2^31
						     * with %d */
	return 0;
}

int
dnsmasq_stats_parse_upstream(
    const uint8_t *text, size_t len, struct dnsmasq_stats_sample_upstream *upstream)
{
	char copy[80], address[64];
	unsigned port;
	int used = 0;

	if (len >= sizeof copy || memchr(text, '\0', len) != NULL)
		return -EINVAL;
	memcpy(copy, text, len);
	copy[len] = '\0';
	/* The field widths keep every number within its type. */
	if (sscanf(copy, "%63[0-9a-fA-F.:]#%5u %n", address, &port, &used) != 2 || used == 0)
		return -EINVAL;
	const char *queries = copy + used, *failed = strchr(queries, ' ');
	if (port == 0 || port > UINT16_MAX || failed == NULL ||
	    addr_parse(address, &upstream->server.addr) < 0)
		return -EINVAL;
	upstream->server.port = (uint16_t)port;
	if (dnsmasq_stats_parse_number(
		(const uint8_t *)queries, (size_t)(failed - queries), &upstream->queries) < 0 ||
	    dnsmasq_stats_parse_number(
		(const uint8_t *)failed + 1, strlen(failed + 1), &upstream->failed) < 0)
		return -EINVAL;
	return 0;
}

/*
 * Whether the server is an address of the nanny, not an upstream. Such an address is either in the marker line, which shows the generation
 * of the servers file, or the nanny itself answers at it. All of these addresses are in 127.0.0.0/8, outside 127.0.0.0/24.
 */
static bool
is_marker(const struct server *server)
{
	const uint8_t *b = server->addr.bytes;

	return server->addr.family == AF_INET && b[0] == 127 && (b[1] != 0 || b[2] != 0);
}

/* Returns the generation that a marker's address represents, or 0 for the addresses in
 * 127.0.1.0/24, at which the nanny answers. */
static uint32_t
marker_generation(const struct server *server)
{
	const uint8_t *b = server->addr.bytes;
	uint32_t number = (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];

	return number >= MARKER_MIN ? number : 0;
}

struct reading {
	struct dnsmasq_stats_sample *sample;
	enum dnsmasq_stats_stat stat;
	bool bad;
};

static void
read_string(void *arg, const uint8_t *text, size_t len)
{
	struct reading *reading = arg;
	struct dnsmasq_stats_sample *sample = reading->sample;
	uint32_t number;
	struct dnsmasq_stats_sample_upstream upstream;

	if (reading->stat != STAT_SERVERS) {
		if (dnsmasq_stats_parse_number(text, len, &number) < 0)
			reading->bad = true;
		else if (reading->stat == STAT_SIZE)
			sample->size = number;
		else
			sample->counters[reading->stat] = number;
		return;
	}
	if (len == 0) /* dnsmasq answers with an empty string if it has no upstreams */
		return;
	if (dnsmasq_stats_parse_upstream(text, len, &upstream) < 0)
		sample->malformed++;
	else if (is_marker(&upstream.server)) {
		if (marker_generation(&upstream.server) != 0)
			sample->generation = marker_generation(&upstream.server);
	} else if (sample->upstream_count == UPSTREAMS_MAX)
		sample->dropped++;
	else
		sample->upstreams[sample->upstream_count++] = upstream;
}

int
dnsmasq_stats_read(struct dnsmasq_stats_sample *sample, enum dnsmasq_stats_stat stat,
    const struct dns_exchange *answer)
{
	struct reading reading = { .sample = sample, .stat = stat };
	int strings = dns_reply_strings(
	    answer->message, answer->message_len, &answer->question, read_string, &reading);

	if (stat == STAT_SERVERS)
		return strings < 0 ? -EBADMSG : 0;
	return strings == 1 && !reading.bad ? 0 : -EBADMSG;
}

/* Whether the counter wrapped at 32 bits. Returns false if it was reset. */
static bool
wrapped(uint32_t before, uint32_t now)
{
	return before >= 0xc0000000u && now < 0x40000000u;
}

static bool
was_reset(uint32_t before, uint32_t now)
{
	return now < before && !wrapped(before, now);
}

/* Returns the growth since `before`. */
static uint32_t
growth(uint32_t before, uint32_t now, bool reset)
{
	return reset || was_reset(before, now) ? now : now - before;
}

static struct upstream *
find_upstream(struct dnsmasq_stats *cache, const struct server *server)
{
	for (size_t i = 0; i < cache->upstream_count; i++)
		if (server_equal(&cache->upstreams[i].server, server))
			return &cache->upstreams[i];
	return NULL;
}

/* Whether dnsmasq's configuration has changed since the previous reading. */
static bool
is_reconfigured(struct dnsmasq_stats *cache, const struct dnsmasq_stats_sample *sample)
{
	if (sample->generation != cache->generation ||
	    sample->upstream_count != cache->upstream_count)
		return true;
	for (size_t i = 0; i < sample->upstream_count; i++)
		if (find_upstream(cache, &sample->upstreams[i].server) == NULL)
			return true;
	return false;
}

/* Replaces the upstreams with the upstreams of the new configuration. The counts start at dnsmasq's current numbers, because an unknown
 * part of these numbers may belong to another server. */
static void
start_upstreams(struct dnsmasq_stats *cache, const struct dnsmasq_stats_sample *sample)
{
	cache->upstream_count = sample->upstream_count;
	for (size_t i = 0; i < sample->upstream_count; i++)
		cache->upstreams[i] = (struct upstream){ .server = sample->upstreams[i].server,
			.last_queries = sample->upstreams[i].queries,
			.last_failed = sample->upstreams[i].failed };
}

/*
 * When a server line is replaced, dnsmasq reuses the record of the old line for the new line. The record keeps its counts. servers.bind
 * adds up the records of one address. After a change of the servers, a count may therefore belong to another server. This function keeps
 * counts for one configuration only. The marker's address in the same answer identifies the configuration. Without a nanny, the set of
 * servers identifies it.
 */
static void
update_upstreams(struct dnsmasq_stats *cache, const struct dnsmasq_stats_sample *sample, bool reset,
    int64_t now_ns)
{
	if (is_reconfigured(cache, sample)) {
		start_upstreams(cache, sample);
		cache->generation = sample->generation;
		/* The first records of a new dnsmasq do not contain counts of other servers. */
		bool own = reset || (!cache->seen && sample->generation == 0);
		for (size_t i = 0; own && i < cache->upstream_count; i++)
			cache->upstreams[i].last_queries = cache->upstreams[i].last_failed = 0;
	}
	for (size_t i = 0; i < sample->upstream_count; i++) {
		const struct dnsmasq_stats_sample_upstream *now = &sample->upstreams[i];
		struct upstream *upstream = find_upstream(cache, &now->server);
		uint32_t queries = growth(upstream->last_queries, now->queries, reset);
		uint32_t failed = growth(upstream->last_failed, now->failed, reset);

		upstream->last_queries = now->queries;
		upstream->last_failed = now->failed;
		upstream->queries += queries;
		upstream->failed += failed;
		/* the first reading covers the whole time since dnsmasq's start, not the last
		 * minutes */
		if (cache->seen) {
			buckets_add(&upstream->recent_queries, now_ns, queries);
			buckets_add(&upstream->recent_failed, now_ns, failed);
		}
	}
	cache->upstreams_dropped += sample->dropped;
}

/* Counts at most `most` of the open hits as hits of clients. */
static void
settle_hits(struct dnsmasq_stats *cache, int64_t most, int64_t now_ns)
{
	int64_t hits = cache->open_hits < most ? cache->open_hits : most;

	if (hits <= 0)
		return;
	buckets_add(&cache->recent_hits, now_ns, (uint64_t)hits);
	cache->open_hits -= hits;
}

void
dnsmasq_stats_nanny(struct dnsmasq_stats *cache, uint64_t hits, int64_t now_ns)
{
	if (!cache->nanny_seen)
		cache->rebase = true;
	else
		cache->open_hits -=
		    (int64_t)(hits < cache->nanny_hits ? hits : hits - cache->nanny_hits);
	cache->nanny_seen = true;
	cache->nanny_hits = hits;
	settle_hits(cache, cache->aged_hits, now_ns);
	cache->aged_hits = cache->open_hits;
}

static void
update_recent(struct dnsmasq_stats *cache, const uint32_t *grown, bool restarted, int64_t now_ns)
{
	/* dnsmasq counts the sidecar's queries of the previous reading as hits. A restarted dnsmasq has not received these queries. */
	uint32_t own = restarted ? 0 : STAT_COUNT;

	if (!cache->seen)
		return;
	/* After a restart, an unknown part of the nanny's probes went to the former dnsmasq. */
	if (cache->nanny_seen && (cache->rebase || restarted))
		cache->open_hits = cache->aged_hits = 0;
	else if (grown[STAT_HITS] > own)
		cache->open_hits += grown[STAT_HITS] - own;
	cache->rebase = false;
	if (!cache->nanny_seen)
		settle_hits(cache, cache->open_hits, now_ns);
	buckets_add(&cache->recent_misses, now_ns,
	    grown[STAT_MISSES] > cache->own_misses ? grown[STAT_MISSES] - cache->own_misses : 0);
	cache->own_misses = 0;
}

void
dnsmasq_stats_update(struct dnsmasq_stats *cache, const struct dnsmasq_stats_sample *sample,
    int64_t now_ns, double wall_s)
{
	const uint32_t *now = sample->counters, *last = cache->last;
	uint32_t grown[CACHE_COUNTERS];
	bool restarted = was_reset(last[STAT_HITS], now[STAT_HITS]) ||
			 was_reset(last[STAT_MISSES], now[STAT_MISSES]);
	bool flushed = restarted || was_reset(last[STAT_INSERTIONS], now[STAT_INSERTIONS]) ||
		       was_reset(last[STAT_EVICTIONS], now[STAT_EVICTIONS]);

	for (int i = 0; i < CACHE_COUNTERS; i++) {
		bool reset =
		    restarted || (flushed && (i == STAT_INSERTIONS || i == STAT_EVICTIONS));

		grown[i] = growth(last[i], now[i], reset);
		cache->counters[i] += grown[i];
	}
	update_upstreams(cache, sample, restarted, now_ns);
	update_recent(cache, grown, restarted, now_ns);
	memcpy(cache->last, now, sizeof cache->last);
	cache->size = sample->size;
	cache->malformed += sample->malformed;
	if (restarted) {
		cache->restarts++;
		cache->restarted_s = wall_s;
	} else if (flushed) {
		cache->flushes++;
		cache->flushed_s = wall_s;
	}
	if (!cache->up)
		cache->since_ns = now_ns;
	cache->up = cache->seen = true;
	cache->error[0] = '\0';
	cache->last_s = wall_s;
}

void
dnsmasq_stats_fail(struct dnsmasq_stats *cache, const char *error, int64_t now_ns)
{
	if (cache->up || cache->errors == 0)
		cache->since_ns = now_ns;
	if (strcmp(cache->error, error) != 0)
		log_warnx("dnsmasq: statistics: %s", error);
	cache->up = false;
	cache->errors++;
	snprintf(cache->error, sizeof cache->error, "%s", error);
}

double
dnsmasq_stats_hit_ratio(const struct dnsmasq_stats *cache, int64_t now_ns)
{
	uint64_t hits = buckets_sum(&cache->recent_hits, now_ns);
	uint64_t misses = buckets_sum(&cache->recent_misses, now_ns);

	return hits + misses == 0 ? NAN : (double)hits / (double)(hits + misses);
}

void
dnsmasq_stats_poller_init(struct dnsmasq_stats_poller *poller, const struct server *server,
    int64_t interval_ms, int64_t now_ns)
{
	poller->server = *server;
	poller->interval_ns = interval_ms * NS_PER_MS;
	poller->due_ns = now_ns;
	poller->stat = STAT_COUNT;
	dns_exchange_init(&poller->exchange);
}

/* Queries the current statistic. Returns true if the query failed immediately. */
static bool
ask(struct dnsmasq_stats_poller *poller)
{
	struct dname name;

	if (dname_from_text(&name, names[poller->stat]) < 0)
		log_fatalx("statistics: %s: not a name", names[poller->stat]);
	return dns_exchange_ask(
	    &poller->exchange, &poller->server, &name, TYPE_TXT, CLASS_CH, POLL_TIMEOUT_MS);
}

static void
poll_failed(struct dnsmasq_stats_poller *poller, struct dnsmasq_stats *cache, const char *what,
    int64_t now_ns)
{
	char error[CACHE_ERROR_MAX];

	snprintf(error, sizeof error, "%s: %s", names[poller->stat], what);
	dnsmasq_stats_fail(cache, error, now_ns);
	poller->stat = STAT_COUNT;
	if (poller->due_ns > now_ns + RETRY_MS * NS_PER_MS)
		poller->due_ns = now_ns + RETRY_MS * NS_PER_MS;
}

/* Reads the answer to one query and sends the next query. Returns false if no query is in flight any more. */
static bool
advance(struct dnsmasq_stats_poller *poller, struct dnsmasq_stats *cache, int64_t now_ns)
{
	const struct dns_exchange *exchange = &poller->exchange;
	char text[CAUSE_TEXT_MAX];

	/* If dnsmasq has no upstreams, it answers servers.bind with a TXT record without strings, which is not an error. */
	if (exchange->reply.cause != CAUSE_OK) {
		poll_failed(poller, cache,
		    exchange->reply.cause == CAUSE_UNREACHABLE
			? strerror(exchange->error)
			: cause_text(exchange->reply.cause, exchange->reply.rcode, text),
		    now_ns);
		return false;
	}
	if (dnsmasq_stats_read(&poller->sample, (enum dnsmasq_stats_stat)poller->stat, exchange) <
	    0) {
		poll_failed(poller, cache, "not the answer of a dnsmasq", now_ns);
		return false;
	}
	if (++poller->stat < STAT_COUNT)
		return ask(poller);
	dnsmasq_stats_update(cache, &poller->sample, now_ns, clock_wall_s());
	return false;
}

void
dnsmasq_stats_poller_run(
    struct dnsmasq_stats_poller *poller, struct dnsmasq_stats *cache, short revents, int64_t now_ns)
{
	bool ended = false;

	if (poller->stat == STAT_COUNT) {
		if (now_ns < poller->due_ns)
			return;
		poller->due_ns +=
		    ((now_ns - poller->due_ns) / poller->interval_ns + 1) * poller->interval_ns;
		poller->stat = STAT_HITS;
		memset(&poller->sample, 0, sizeof poller->sample);
		ended = ask(poller);
	} else {
		ended = dns_exchange_run(&poller->exchange, revents);
	}
	while (ended)
		ended = advance(poller, cache, now_ns);
}

int64_t
dnsmasq_stats_poller_deadline(const struct dnsmasq_stats_poller *poller)
{
	return poller->stat == STAT_COUNT ? poller->due_ns : poller->exchange.deadline_ns;
}

void
dnsmasq_stats_poller_close(struct dnsmasq_stats_poller *poller)
{
	dns_exchange_close(&poller->exchange);
}
