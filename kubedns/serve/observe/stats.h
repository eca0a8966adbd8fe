/*
 * The counters of one worker. Each struct has one writer, its worker's thread. The main thread adds
 * up the counters when metrics are scraped. Counters are 64-bit words that are written with relaxed
 * atomic operations. There is no lock, no update is lost, and a reader never waits.
 *
 * All histograms (of kube-dns, of CoreDNS and our own) are made from one set of fine buckets. The
 * fine buckets include the bounds of all histograms. Therefore a query costs one increment, however
 * many histograms show it.
 */
#ifndef KUBEDNS_SERVE_OBSERVE_STATS_H
#define KUBEDNS_SERVE_OBSERVE_STATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kubedns/answer/answer.h"

struct metrics;

enum stats_proto { PROTO_UDP, PROTO_TCP, PROTO_COUNT };
enum stats_family { FAMILY_4, FAMILY_6, FAMILY_COUNT };
enum stats_type {
	STATS_OTHER,
	STATS_A,
	STATS_AAAA,
	STATS_CNAME,
	STATS_HTTPS,
	STATS_MX,
	STATS_NS,
	STATS_PTR,
	STATS_SOA,
	STATS_SRV,
	STATS_TXT,
	STATS_ANY,
	STATS_TYPE_COUNT
};

/* Values of kube-dns's label `cause`. */
enum stats_cause {
	CAUSE_NXDOMAIN,
	CAUSE_TRUNCATED,
	CAUSE_REFUSED,
	CAUSE_OVERFLOW, /* the reply was longer than a TCP message */
	CAUSE_SERVFAIL,
	CAUSE_COUNT
};

/* Why a query or reply was dropped or refused. */
enum stats_drop {
	DROP_NOT_A_QUERY, /* the message is too short or a response, so no reply may be sent */
	DROP_OVERSIZE,    /* FORMERR: a UDP query above 4,096 bytes */
	DROP_SEND,        /* a reply that could not be sent */
	/* Too many queries at other servers, in total or from one client. REFUSED, or SERVFAIL if
	 * the other server still stores queries that it could not answer. */
	DROP_FORWARD_TOTAL,
	DROP_FORWARD_CLIENT,
	/* SERVFAIL: the query ended early, as the oldest query of the client with the most
	 * queries. */
	DROP_FORWARD_EVICTED,
	DROP_FORWARD_SIZE, /* REFUSED: a query above 4,096 bytes for an external name */
	/* The TCP client had closed its connection before the reply was ready. */
	DROP_REPLY_LATE,
	DROP_TCP_IDLE,       /* the connection had no query during the idle timeout */
	DROP_TCP_SLOW_QUERY, /* a query was not complete within the idle timeout */
	/* Replies were not read within the idle timeout, or there were too many. */
	DROP_TCP_SLOW_READER,
	DROP_TCP_LIMIT, /* the oldest idle connection was closed for a new one */
	/* the oldest idle connection of a client with too many connections was closed */
	DROP_TCP_CLIENT,
	DROP_TCP_MEMORY,     /* a buffer would have exceeded its limit */
	DROP_TCP_ACCEPT,     /* accept() failed: no descriptor or memory */
	DROP_TCP_BAD_LENGTH, /* a message was shorter than a header */
	DROP_TCP_MODULE,     /* a module returned the connection as not usable */
	DROP_COUNT
};

enum { STATS_RCODES = 18 }; /* 0 to 16 (BADVERS), and 17 for all other rcodes */
enum { STATS_SIZE_BUCKETS = 40, STATS_TIME_BUCKETS = 32 };

struct stats_sizes {
	uint64_t buckets[STATS_SIZE_BUCKETS];
	uint64_t sum;
};

struct stats_times {
	uint64_t buckets[STATS_TIME_BUCKETS];
	uint64_t sum_ns;
};

struct stats {
	uint64_t requests[PROTO_COUNT][FAMILY_COUNT][STATS_TYPE_COUNT];
	uint64_t responses[STATS_RCODES];
	uint64_t errors[SYSTEM_COUNT][CAUSE_COUNT];
	uint64_t systems[SYSTEM_COUNT];
	uint64_t truncated;
	uint64_t filtered[2]; /* A and AAAA queries for external names that were filtered */
	uint64_t dropped[DROP_COUNT];
	struct stats_sizes request_sizes[PROTO_COUNT];
	struct stats_sizes response_sizes[SYSTEM_COUNT][PROTO_COUNT];
	struct stats_times times[SYSTEM_COUNT];
	uint64_t client_shed;     /* packets that the filter of fair_share.c has dropped */
	uint64_t clients_limited; /* clients that fair_share.c limits now */
	uint64_t tcp_accepted;
	uint64_t tcp_connections; /* connections that are open now */
	uint64_t rewritten;       /* queries that were looked up under another name */
	uint64_t rewrite_limit;   /* patterns that were abandoned at their limit */
	uint64_t fallthrough;     /* queries forwarded because our zones do not have the name */
	uint64_t until_synced;    /* queries sent to --until-synced before the first sync */
	uint64_t explained;       /* queries for NAME._explain */
	uint64_t explain_refused;
	/* With --visibility: queries from clients that are not a known pod. */
	uint64_t clients_unknown;
	uint64_t nearest[NEAR_COUNT]; /* answers for headless Services, with --nearest */
	/* Answers for names of --zonal: [0] with endpoints of the zone, [1] with all endpoints. */
	uint64_t zonal[2];
	uint64_t forward_queries;
	uint64_t forward_in_flight; /* queries in flight now */
	/* Queries that waited for the answer to another query with the same question. */
	uint64_t forward_joined;
	/* Queries sent to the upstream servers because dnsmasq did not answer them. */
	uint64_t forward_fallback;
	uint64_t forward_retries; /* queries sent again to the same or to the next server */
	uint64_t forward_failed;  /* queries answered SERVFAIL because no server had an answer */
	/* Times that a server did not answer or could not be reached. */
	uint64_t forward_server_failures;
	/* Replies of other servers that no query waited for: late, repeated or forged. */
	uint64_t forward_replies_ignored;
	struct stats_times forward_times;
	/* Answers that came from the cache (forwarded_cache.h) instead of another server. */
	uint64_t cache_hits;
	uint64_t cache_misses;
	uint64_t cache_evictions; /* valid answers that were evicted for new ones */
	/* The counters of modules (kubedns/module.h). workers_config.module_counters is their number. */
	uint64_t modules[];
};

static inline void
stats_add(uint64_t *counter, uint64_t n)
{
	__atomic_store_n(counter, __atomic_load_n(counter, __ATOMIC_RELAXED) + n, __ATOMIC_RELAXED);
}

static inline void
stats_sub(uint64_t *counter, uint64_t n)
{
	__atomic_store_n(counter, __atomic_load_n(counter, __ATOMIC_RELAXED) - n, __ATOMIC_RELAXED);
}

static inline void
stats_drop(struct stats *stats, enum stats_drop reason)
{
	stats_add(&stats->dropped[reason], 1);
}

/*
 * Count a query that was read, and the reply of `reply_len` bytes to it. A length of 0 means that
 * there is no reply.
 */
void stats_query(struct stats *stats, enum stats_proto proto, enum stats_family family,
    const struct answer_info *info, size_t query_len);
void stats_reply(
    struct stats *stats, enum stats_proto proto, const struct answer_info *info, size_t reply_len);

/* Counts `n` queries of this kind that took `ns` each. */
void stats_took(struct stats_times *times, uint64_t ns, uint64_t n);

/* Adds the counters of `from`, which another thread may be writing, to `into`. Also adds this number
 * of counters of modules. */
void stats_sum(struct stats *into, const struct stats *from, size_t modules);

/* Writes kube-dns's metric families, named `<namespace>_<subsystem>_dns_...`. */
void stats_metrics_skydns(
    const struct stats *stats, struct metrics *m, const char *namespace, const char *subsystem);

/*
 * Writes our own metric families: kubedns_dns_*, kubedns_tcp_*, kubedns_forward_*. `queue_drops` is
 * the number of packets that the kernel dropped before we could read them.
 */
void stats_metrics(const struct stats *stats, struct metrics *m, uint64_t queue_drops);

/* Writes the metric families about names that are looked up under another name
 * (stats_redirected.c). */
void stats_metrics_redirected(const struct stats *stats, struct metrics *m);

/*
 * Writes the metric families that dashboards for CoreDNS use. `zone` has a final dot. `server` is a
 * text such as "dns://:53".
 */
void stats_metrics_coredns(
    const struct stats *stats, struct metrics *m, const char *server, const char *zone);

#endif
