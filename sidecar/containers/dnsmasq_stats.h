/*
 * Reads dnsmasq's statistics by its CHAOS names, and turns them into counters that only grow.
 *
 * dnsmasq's numbers have 32 bits and restart from zero: all of them when dnsmasq is restarted,
 * insertions and evictions also when a SIGHUP flushes its cache. A number that is lower than before
 * has restarted, unless it was about to wrap; its whole value is then added to the total.
 *
 * An upstream's counts belong to one configuration and begin at 0 with the next, because dnsmasq
 * lets a new server line inherit the counts of the line that it replaces.
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

/* One reading: the numbers as dnsmasq says them. */
struct dnsmasq_stats_sample {
	uint32_t counters[CACHE_COUNTERS];
	uint32_t size;
	uint32_t generation; /* of the nanny's servers file, by its marker; 0 without one */
	size_t upstream_count;
	unsigned malformed; /* strings of servers.bind that could not be read */
	unsigned dropped;   /* upstreams beyond UPSTREAMS_MAX */
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
	bool seen; /* there has been a sample */
	bool up;   /* the newest reading worked */
	char error[CACHE_ERROR_MAX];
	uint32_t last[CACHE_COUNTERS];
	uint64_t counters[CACHE_COUNTERS];
	uint32_t size;
	uint64_t errors, restarts, flushes, upstreams_dropped, malformed;
	double restarted_s, flushed_s; /* wall clock of the latest that was seen, 0 for none */
	double last_s;                 /* wall clock of the newest sample */
	int64_t since_ns;              /* when the present state (up or not) began */
	uint32_t generation;           /* that the upstreams' counts belong to */
	size_t upstream_count;
	struct upstream upstreams[UPSTREAMS_MAX]; /* of the newest reading */
	struct buckets recent_hits, recent_misses;
	uint64_t own_misses; /* our own questions since the reading before: set by the caller */
};

/* Adds a reading. */
void dnsmasq_stats_update(struct dnsmasq_stats *cache, const struct dnsmasq_stats_sample *sample,
    int64_t now_ns, double wall_s);

/* Notes that a reading failed. */
void dnsmasq_stats_fail(struct dnsmasq_stats *cache, const char *error, int64_t now_ns);

/* Share of hits of the last ten minutes, 0..1, NaN without a query; the sidecar's own CHAOS
 * questions are not in it. */
double dnsmasq_stats_hit_ratio(const struct dnsmasq_stats *cache, int64_t now_ns);

/* Reads the decimal of one statistic as dnsmasq prints it, signed or not; 0 or -EINVAL. */
int dnsmasq_stats_parse_number(const uint8_t *text, size_t len, uint32_t *value);

/* Reads one string of servers.bind, "ip#port queries failed"; 0 or -EINVAL. */
int dnsmasq_stats_parse_upstream(
    const uint8_t *text, size_t len, struct dnsmasq_stats_sample_upstream *upstream);

/* Reads the CHAOS answer for `stat` into the sample; 0, or -EBADMSG. */
int dnsmasq_stats_read(struct dnsmasq_stats_sample *sample, enum dnsmasq_stats_stat stat,
    const struct dns_exchange *answer);

/* Asks for one statistic after the other, every interval. */
struct dnsmasq_stats_poller {
	struct server server;
	int64_t interval_ns, due_ns;
	int stat; /* being asked, STAT_COUNT when idle */
	struct dns_exchange exchange;
	struct dnsmasq_stats_sample sample;
};

void dnsmasq_stats_poller_init(struct dnsmasq_stats_poller *poller, const struct server *server,
    int64_t interval_ms, int64_t now_ns);

/* Begins a reading when it is due, and goes on with one after poll() reported `revents`. */
void dnsmasq_stats_poller_run(struct dnsmasq_stats_poller *poller, struct dnsmasq_stats *cache,
    short revents, int64_t now_ns);

/* When it wants to be called at the latest. */
int64_t dnsmasq_stats_poller_deadline(const struct dnsmasq_stats_poller *poller);

void dnsmasq_stats_poller_close(struct dnsmasq_stats_poller *poller);

#endif
