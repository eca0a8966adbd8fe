/*
 * The counters of one worker. Each struct has one writer, its worker's thread; the main thread adds
 * them up for a scrape. Counters are 64-bit words written with relaxed atomics: no lock, no lost
 * update, and a reader never waits.
 *
 * One set of fine buckets serves all histograms (kube-dns's, our own, CoreDNS's): the bounds of
 * each are among the fine ones, so a query costs one increment, however many histograms show it.
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

/* kube-dns's `cause` label. */
enum stats_cause {
	CAUSE_NXDOMAIN,
	CAUSE_TRUNCATED,
	CAUSE_REFUSED,
	CAUSE_OVERFLOW, /* more than a TCP message holds */
	CAUSE_SERVFAIL,
	CAUSE_COUNT
};

/* What was not served, and why. */
enum stats_drop {
	DROP_NOT_A_QUERY,     /* shorter than a header, or a response: no reply may be sent */
	DROP_OVERSIZE,        /* a UDP query above 4,096 bytes: FORMERR */
	DROP_SEND,            /* a reply that could not be sent */
	DROP_FORWARD_TOTAL,   /* REFUSED: too many queries in flight to other servers */
	DROP_FORWARD_CLIENT,  /* REFUSED: too many of them from one client */
	DROP_FORWARD_EVICTED, /* SERVFAIL: ended early, the oldest of the client with the most */
	DROP_FORWARD_SIZE,    /* REFUSED: a query above 4,096 bytes for a name that is not ours */
	DROP_REPLY_LATE,      /* the TCP client had gone before its reply came */
	DROP_TCP_IDLE,        /* no query for the idle timeout */
	DROP_TCP_SLOW_QUERY,  /* a query was not whole within the idle timeout */
	DROP_TCP_SLOW_READER, /* replies were not read within it, or too many of them */
	DROP_TCP_LIMIT,       /* the oldest idle connection, closed for a new one */
	DROP_TCP_CLIENT,      /* its own oldest idle one, of a client that had its share of them */
	DROP_TCP_MEMORY,      /* a buffer would have passed the bound */
	DROP_TCP_ACCEPT,      /* accept failed: no descriptor or memory left */
	DROP_TCP_BAD_LENGTH,  /* a message shorter than a header */
	DROP_COUNT
};

/* How a search walk ended. */
enum stats_search { SEARCH_FOUND, SEARCH_NOTHING, SEARCH_FAILED, SEARCH_RESULTS };

/* How the wait of a query for a name that was about to exist ended (--hold-ms). */
enum stats_awaited { AWAITED_CAME, AWAITED_EXPIRED, AWAITED_REFUSED, AWAITED_COUNT };

enum { STATS_RCODES = 18 }; /* 0..16 (BADVERS), and the rest as 17 */
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
	uint64_t filtered[2]; /* A and AAAA of outside names that were denied */
	uint64_t search_completed[SEARCH_FORMS][SEARCH_RESULTS];
	uint64_t search_refused[SEARCH_REFUSALS];
	uint64_t dropped[DROP_COUNT];
	struct stats_sizes request_sizes[PROTO_COUNT];
	struct stats_sizes response_sizes[SYSTEM_COUNT][PROTO_COUNT];
	struct stats_times times[SYSTEM_COUNT];
	uint64_t awaited[AWAITED_COUNT];
	uint64_t awaited_now;  /* waiting */
	uint64_t client_shed;  /* packets that fair_share.c has kept out of the queue */
	uint64_t clients_held; /* clients that it holds back now */
	uint64_t tcp_accepted;
	uint64_t tcp_connections; /* open now */
	uint64_t rewritten;       /* looked up under another name */
	uint64_t rewrite_limit;   /* a pattern was given up at its bound */
	uint64_t fallthrough;     /* forwarded for want of the name in our zones */
	uint64_t until_synced;    /* asked of --until-synced before the first sync */
	uint64_t explained;       /* NAME._explain */
	uint64_t explain_refused;
	uint64_t clients_unknown; /* queries of clients that are no known pod; with --visibility */
	uint64_t nearest[NEAR_COUNT]; /* answers of headless Services, with --nearest */
	uint64_t zonal[2];            /* answers of names of --zonal: from the zone, from all */
	uint64_t forward_queries;
	uint64_t forward_in_flight; /* now */
	uint64_t forward_joined;    /* waited for the answer to another query of that question */
	uint64_t forward_servfail;  /* asked of the upstream servers after dnsmasq's SERVFAIL */
	uint64_t forward_retries;   /* sent again, or to the next server */
	uint64_t forward_failed;    /* answered SERVFAIL: no server had an answer */
	uint64_t forward_server_failures; /* a server timed out or could not be reached */
	struct stats_times forward_times;
	uint64_t
	    cache_hits; /* of forwarded_cache.h: questions to other servers that were not asked */
	uint64_t cache_misses;
	uint64_t cache_evictions; /* answers that were still good and made room */
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
 * Counts a query as it was read and the reply of `reply_len` bytes that goes out for it (0: none).
 */
void stats_query(struct stats *stats, enum stats_proto proto, enum stats_family family,
    const struct answer_info *info, size_t query_len);
void stats_reply(
    struct stats *stats, enum stats_proto proto, const struct answer_info *info, size_t reply_len);

/* `n` queries of this kind took `ns` each. */
void stats_took(struct stats_times *times, uint64_t ns, uint64_t n);

/* Adds the counters of `from`, which another thread may be writing, to `into`. */
void stats_sum(struct stats *into, const struct stats *from);

/* kube-dns's families, as `<namespace>_<subsystem>_dns_...`. */
void stats_metrics_skydns(
    const struct stats *stats, struct metrics *m, const char *namespace, const char *subsystem);

/*
 * Ours: kubedns_dns_*, kubedns_tcp_*, kubedns_forward_*; `queue_drops` is what the kernel
 * dropped before we saw it.
 */
void stats_metrics(const struct stats *stats, struct metrics *m, uint64_t queue_drops);

/* Part of them: names that are not looked up as they are (stats_redirected.c). */
void stats_metrics_redirected(const struct stats *stats, struct metrics *m);

/*
 * The families that dashboards for CoreDNS read; `zone` with a final dot, `server` such as
 * "dns://:53".
 */
void stats_metrics_coredns(
    const struct stats *stats, struct metrics *m, const char *server, const char *zone);

#endif
