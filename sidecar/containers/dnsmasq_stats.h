/*
 * Reads dnsmasq's statistics by CHAOS queries, and turns the numbers into counters that only grow.
 *
 * dnsmasq's numbers have 32 bits. A restart of dnsmasq resets all numbers to zero. A SIGHUP, which flushes the cache, resets insertions and
 * evictions to zero. If a number is lower than before and was not about to wrap, dnsmasq has reset it. The whole new value is then added to
 * the total.
 *
 * The counts of an upstream belong to one configuration, and start at 0 with the next configuration. The reason is that in dnsmasq a new
 * server line inherits the counts of the line that it replaces.
 *
 *	poller: timer --> hits.bind, misses.bind, ... servers.bind --> sample
 *	dnsmasq_stats_update: sample --> struct dnsmasq_stats
 */
#ifndef SIDECAR_CONTAINERS_DNSMASQ_STATS_H
#define SIDECAR_CONTAINERS_DNSMASQ_STATS_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/addr.h"
#include "sidecar/history.h"
#include "sidecar/probes/dns_exchange.h"

enum dnsmasq_stats_stat {
	STAT_HITS,
	STAT_MISSES,
	STAT_EVICTIONS,
	STAT_INSERTIONS,
	STAT_SIZE,
	STAT_SERVERS,
	STAT_COUNT
};

enum { CACHE_COUNTERS = STAT_SIZE, UPSTREAMS_MAX = 64, CACHE_ERROR_MAX = 96 };

/* The numbers of one reading, as dnsmasq reports them. */
struct dnsmasq_stats_sample {
	uint32_t counters[CACHE_COUNTERS];
	uint32_t size;
	/* generation of the nanny's servers file; 0 if the file has no marker */
	uint32_t generation;
	size_t upstream_count;
	unsigned malformed; /* number of strings in servers.bind that could not be parsed */
	unsigned dropped;   /* number of upstreams beyond UPSTREAMS_MAX */
	struct dnsmasq_stats_sample_upstream {
		struct server server;
		uint32_t queries, failed;
	} upstreams[UPSTREAMS_MAX];
};

struct upstream {
	struct server server;
	uint32_t last_queries, last_failed;
	uint64_t queries, failed;
	struct buckets recent_queries, recent_failed;
};

struct dnsmasq_stats {
	bool seen; /* at least one reading worked */
	bool up;   /* the newest reading worked */
	char error[CACHE_ERROR_MAX];
	uint32_t last[CACHE_COUNTERS];
	uint64_t counters[CACHE_COUNTERS];
	uint32_t size;
	uint64_t errors, restarts, flushes, upstreams_dropped, malformed;
	/* time of the latest restart and cache flush, wall clock; 0 if there was none */
	double restarted_s, flushed_s;
	double last_s;    /* time of the newest sample, wall clock */
	int64_t since_ns; /* time of the last change of `up` */
	/* generation of the servers file to which the upstreams' counts belong */
	uint32_t generation;
	size_t upstream_count;
	struct upstream upstreams[UPSTREAMS_MAX]; /* upstreams of the newest reading */
	struct buckets recent_hits, recent_misses;
	/* cache misses caused by the sidecar's queries since the previous reading; set by the
	 * caller */
	uint64_t own_misses;
	/* The nanny's and its guard's probes are hits too. Their number is known later than the hits, so
	 * hits are open until the nanny has counted them. The nanny may have made its next count before the
	 * reading of the hits, so they are open until the count after the next. Negative: more probes are
	 * known than hits. */
	bool nanny_seen;
	bool rebase; /* the next reading is the first whose probes are all counted */
	uint64_t nanny_hits;
	int64_t open_hits;
	int64_t aged_hits; /* open hits at the nanny's newest count */
};

/* Takes the number of queries of the nanny and its guard that dnsmasq has counted as hits so far. Without
 * a call, no such queries are left out of the hit ratio. */
void dnsmasq_stats_nanny(struct dnsmasq_stats *cache, uint64_t hits, int64_t now_ns);

/* Adds a reading. */
void dnsmasq_stats_update(struct dnsmasq_stats *cache, const struct dnsmasq_stats_sample *sample,
    int64_t now_ns, double wall_s);

/* Notes that a reading failed. */
void dnsmasq_stats_fail(struct dnsmasq_stats *cache, const char *error, int64_t now_ns);

/* Returns the share of cache hits in the last ten minutes, from 0 to 1, without the sidecar's statistics and
 * checks, and without the nanny's probes. Returns NaN if there was no query. */
double dnsmasq_stats_hit_ratio(const struct dnsmasq_stats *cache, int64_t now_ns);

/* Parses the decimal number of one statistic, with or without a sign. Returns 0 or -EINVAL. */
int dnsmasq_stats_parse_number(const uint8_t *text, size_t len, uint32_t *value);

/* Parses one string of servers.bind: address#port, number of queries, number of failures. Returns 0
 * or -EINVAL. */
int dnsmasq_stats_parse_upstream(
    const uint8_t *text, size_t len, struct dnsmasq_stats_sample_upstream *upstream);

/* Reads the CHAOS answer for `stat` into the sample. Returns 0, or -EBADMSG. */
int dnsmasq_stats_read(struct dnsmasq_stats_sample *sample, enum dnsmasq_stats_stat stat,
    const struct dns_exchange *answer);

/* Queries one statistic after the other, once in each interval. */
struct dnsmasq_stats_poller {
	struct server server;
	int64_t interval_ns, due_ns;
	int stat; /* the statistic whose query is in flight; STAT_COUNT when idle */
	struct dns_exchange exchange;
	struct dnsmasq_stats_sample sample;
};

void dnsmasq_stats_poller_init(struct dnsmasq_stats_poller *poller, const struct server *server,
    int64_t interval_ms, int64_t now_ns);

/* Starts a reading when it is due, or continues one after poll() reported `revents`. */
void dnsmasq_stats_poller_run(struct dnsmasq_stats_poller *poller, struct dnsmasq_stats *cache,
    short revents, int64_t now_ns);

/* Returns when dnsmasq_stats_poller_run must be called at the latest. */
int64_t dnsmasq_stats_poller_deadline(const struct dnsmasq_stats_poller *poller);

void dnsmasq_stats_poller_close(struct dnsmasq_stats_poller *poller);

#endif
