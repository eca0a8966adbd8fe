/*
 * dnsmasq's own statistics, asked for by its CHAOS names, made into counters that only ever grow.
 *
 * dnsmasq's numbers are 32 bits and start anew: all of them when it is restarted, insertions and
 * evictions also when a SIGHUP flushes its cache, an upstream's when its server line is replaced. A
 * number that fell is therefore a fresh start and counts from zero (unless it was about to wrap),
 * so nothing here goes backwards and little is lost.
 *
 *	cache_poller: timer --> hits.bind, misses.bind, ... servers.bind --> struct cache_sample
 *	cache_update: sample --> struct cache
 */
#ifndef SIDECAR_CACHE_H
#define SIDECAR_CACHE_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/addr.h"
#include "sidecar/history.h"
#include "sidecar/net.h"

enum cache_stat {
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
struct cache_sample {
	uint32_t counters[CACHE_COUNTERS];
	uint32_t size;
	size_t upstream_count;
	unsigned malformed; /* strings of servers.bind that could not be read */
	unsigned dropped;   /* upstreams beyond UPSTREAMS_MAX */
	struct cache_sample_upstream {
		struct server server;
		uint32_t queries, failed;
	} upstreams[UPSTREAMS_MAX];
};

struct upstream {
	struct server server;
	bool present; /* in the newest sample */
	uint32_t last_queries, last_failed;
	uint64_t queries, failed;
	struct buckets recent_queries, recent_failed;
};

struct cache {
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
	size_t upstream_count;
	struct upstream upstreams[UPSTREAMS_MAX];
	struct buckets recent_hits, recent_misses;
};

/* Adds a reading. */
void cache_update(
    struct cache *cache, const struct cache_sample *sample, int64_t now_ns, double wall_s);

/* Notes that a reading failed. */
void cache_fail(struct cache *cache, const char *error, int64_t now_ns);

/* Share of hits of the last ten minutes, 0..1, NaN without a query; the sidecar's own CHAOS
 * questions are not in it. */
double cache_hit_ratio(const struct cache *cache, int64_t now_ns);

/* Reads the decimal of one statistic as dnsmasq prints it, signed or not; 0 or -EINVAL. */
int cache_parse_number(const uint8_t *text, size_t len, uint32_t *value);

/* Reads one string of servers.bind, "ip#port queries failed"; 0 or -EINVAL. */
int cache_parse_upstream(const uint8_t *text, size_t len, struct cache_sample_upstream *upstream);

/* Reads the CHAOS answer for `stat` into the sample; 0, or -EBADMSG. */
int cache_read(struct cache_sample *sample, enum cache_stat stat, const struct net *answer);

/* Asks for one statistic after the other, every interval. */
struct cache_poller {
	struct server server;
	int64_t interval_ns, due_ns;
	int stat; /* being asked, STAT_COUNT when idle */
	struct net net;
	struct cache_sample sample;
};

void cache_poller_init(
    struct cache_poller *poller, const struct server *server, int64_t interval_ms, int64_t now_ns);

/* Begins a reading when it is due, and goes on with one after poll() reported `revents`. */
void cache_poller_run(
    struct cache_poller *poller, struct cache *cache, short revents, int64_t now_ns);

/* When it wants to be called at the latest. */
int64_t cache_poller_deadline(const struct cache_poller *poller);

void cache_poller_close(struct cache_poller *poller);

#endif
