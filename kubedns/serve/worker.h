/*
 * The network side of kubedns. There is one worker thread for each CPU that the process may use.
 *
 *	             worker 0                       worker 1 ...
 *	UDP :53  --> socket --.                     socket --.     SO_REUSEPORT spreads the queries
 *	TCP :53  --> listener -+-> answer() --> out  listener -+-> ...
 *	                       '-> inflight -> forward (upstream servers) or relay (dnsmasq) -> out
 *
 * A worker waits in a single poll() for its UDP sockets and for an epoll descriptor, which has all
 * its other descriptors. One of these descriptors is a timer that ends the wait once a second, so
 * poll() usually needs no timeout. Workers share the tree, the cache of --answer-cache
 * (forwarded_cache.h) and the modules (kubedns/module.h). Each worker has its own counters (stats.h), which the main thread reads. Names in the tree are answered without an allocation. Everything that clients can make
 * grow has a limit and a counter.
 *
 * The functions below are for the main thread only. Workers are registered RCU readers. A read
 * section lasts for one batch of answers.
 */
#ifndef KUBEDNS_SERVE_WORKER_H
#define KUBEDNS_SERVE_WORKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kubedns/serve/observe/stats.h"
#include "lib/addr.h"

struct forwarded_cache;
struct answer_config;
struct ring;
struct ring_listener;
struct treecache;
struct workers;

enum {
	WORKERS_MAX = 64,
	/* A cluster has several replicas, so more are used only with --threads. */
	WORKERS_AUTOMATIC_MAX = 4,
	UPSTREAMS_MAX = 15,
	/* Queries in flight to upstream servers, of all workers together. */
	FORWARD_MAX = 2048,
	/* Queries in flight to --search-resolver, of all workers together. */
	FORWARD_SEARCH_MAX = 1400,
	/*
	 * Front topology: the number of queries that are in flight to the resolver or stored by the
	 * resolver, for all workers together. If no upstream server answers a query, dnsmasq stores
	 * it for 10 s, long after our client has got SERVFAIL. Its CPU time for each query grows
	 * with the number of stored queries. Other clients wait 3 ms with 1,700 stored queries, and
	 * 0.7 ms with 500. Therefore dnsmasq should not store more queries, although it could. An
	 * operator's own dnsmasq must accept 2,400 queries (--dns-forward-max). One client can use
	 * a third of these places (see inflight.h).
	 */
	RESOLVER_MAX = 2000,
	/*
	 * Queries that the resolver may not have read yet, of all workers together. dnsmasq leaves the
	 * size of its receive buffer to the kernel, whose default has space for 277 small packets. The
	 * others are for retries.
	 */
	RESOLVER_UNREAD_MAX = 192,
	FORWARD_CLIENT_MAX = 512,  /* queries in flight for one client address */
	FORWARD_TIMEOUT_MS = 3700, /* a stub resolver gives up after 5 s; the manual promises 4 s */
	/*
	 * Timeout of a query to the resolver. After its SERVFAIL, the upstream servers get another
	 * 1,800 ms. Resolver libraries retry at once after a SERVFAIL. dnsmasq, which still waits
	 * for its servers, answers the second query with the response to the first. Both timeouts
	 * together stay below 5 s.
	 */
	RELAY_TIMEOUT_MS = 1800,
	TCP_CONNECTIONS = 1000,
	TCP_IDLE_MS = 10000,
	TCP_AGE_MS = 120000, /* a connection is closed at this age, plus up to the jitter */
	TCP_AGE_JITTER_MS = 60000,
	TCP_QUERIES = 65536, /* a connection is closed after this number of queries */
};

struct workers_config {
	/* Up to four addresses, separated by commas. "0.0.0.0" and "::" must be alone, and listen
	 * on both families. */
	const char *address;
	bool share_port; /* see sockets.h */
	/* 0 means that a port is chosen that is free for UDP and TCP (see workers_port()). */
	uint16_t port;
	unsigned threads;         /* number of workers; if 0, workers_automatic() */
	unsigned tcp_connections; /* of all workers together; if 0, TCP_CONNECTIONS */
	unsigned tcp_idle_ms;     /* idle timeout of connections; if 0, TCP_IDLE_MS */
	unsigned forward_max; /* of all workers together, at most FORWARD_MAX; if 0, FORWARD_MAX */
	unsigned forward_client_max; /* for one client; if 0, FORWARD_CLIENT_MAX */
	/* Front topology: queries for names outside our zones are sent to this resolver. If
	 * `resolver` is NULL, these queries are sent to the upstream servers. */
	const struct server *resolver;
	/* Front topology: a query that the resolver answered with SERVFAIL is sent to the
	 * upstream servers. */
	bool servfail_retry;
	/* Classic topology: the resolver for CNAMEs that leave our zones and for search lists,
	 * or NULL. */
	const struct server *search_resolver;
	/* Queries for our own names are sent to these servers, over TCP, until the tree is
	 * synced. */
	const struct server *until_synced;
	size_t until_synced_count; /* if 0, our names get SERVFAIL until the tree is synced */
	const struct server *upstreams;
	size_t upstream_count;  /* only the first UPSTREAMS_MAX are used */
	bool fair_share;        /* the heaviest clients are limited when a worker cannot keep up */
	size_t tcp_memory;      /* bytes of all TCP clients' buffers, at most 16 MB; if 0, 16 MB */
	size_t recorder_bytes;  /* memory for the last answers of all workers, or 0 */
	bool whole_messages;    /* store whole messages too, for a module */
	size_t module_counters; /* counters of modules for each worker (kubedns/module.h) */
	struct ring_listener *listener; /* the reader of whole messages; must outlive the workers */
	int wake_observers;             /* descriptor from observers_fd() */
	struct forwarded_cache *answer_cache; /* cache of other servers' answers, or NULL */
	const struct treecache *tree;
	const struct answer_config *answers;
	/* A second address (--external-address), its port, and the configuration of the
	 * answers there. The address is NULL if there is none. */
	const char *second_address;
	uint16_t second_port;
	const struct answer_config *second_answers;
};

/*
 * Returns the number of CPUs in the process's affinity mask, or the quota of its cgroup if that is
 * lower. The quota is rounded up. The result is between 1 and WORKERS_AUTOMATIC_MAX.
 */
unsigned workers_automatic(void);

/*
 * Binds every socket and creates the workers. Copies everything to which `config` points, except
 * `tree`, `answers`, `second_answers`, `answer_cache` and `listener`, which must outlive the
 * workers. Returns 0, or -errno after one log line that names the address, the port,
 * and the process that uses it.
 */
int workers_open(struct workers **workers, const struct workers_config *config);

/* Starts the threads. Call it once. The threads inherit the privileges and the sandbox of the
 * caller. */
void workers_start(struct workers *workers);

/* Returns the port in use. */
uint16_t workers_port(const struct workers *workers);

unsigned workers_count(const struct workers *workers);

/* --share-port: returns whether the workers wait for workers_join(). The workers wait if another
 * kubedns uses the port, or after workers_leave(). */
bool workers_held(const struct workers *workers);

/* Returns whether another kubedns has joined at the port. Reads the kernel's list of sockets. */
bool workers_have_other(const struct workers *workers);

/*
 * Starts to serve. Has no effect unless workers_held(). The first time, the calling thread needs
 * the permission to bind the port (see sandbox_low_ports_done()). Returns 0, or -errno after one
 * log line that names the address, the port, and the process that uses it. After an error, only
 * workers_free() may be called.
 */
int workers_join(struct workers *workers);

/* Leaves new queries to the other kubedns. The workers still serve existing connections and
 * queries that they have received. If leaving fails, logs one line, continues to serve all
 * queries and returns -errno (see shared_port_leave()). */
int workers_leave(struct workers *workers);

/*
 * From now on, queries are sent to these servers, in this order (see forward_servers()). Copies the
 * list. In the front topology, these servers only get queries that the resolver answered with
 * SERVFAIL.
 */
void workers_upstreams(struct workers *workers, const struct server *servers, size_t count);

/* Returns the milliseconds since the slowest worker last completed an iteration of its loop. For
 * a healthy worker, the number stays below 2,000. */
int64_t workers_stalled_ms(const struct workers *workers);

/*
 * Adds all workers' counters to `sum`, which has memory for the first `modules` counters of modules.
 * Returns the number of packets that the kernel dropped because a socket's queue was full.
 */
uint64_t workers_stats(const struct workers *workers, struct stats *sum, size_t modules);

/* Returns the ring of worker `index` (observe/ring.h), or NULL if no observer is enabled. Any
 * thread may read the ring. */
const struct ring *workers_ring(const struct workers *workers, unsigned index);

/* Returns the ring with the last answers, or NULL with --recorder=off. */
const struct ring *workers_recorder(const struct workers *workers, unsigned index);

/*
 * Returns one line of text for each client that an overloaded worker limits, with or without the
 * client's address. Returns "" if there is no such client. The caller frees it.
 */
char *workers_notes(const struct workers *workers, bool addresses);

/*
 * Answers the queries that have arrived, answers SERVFAIL to queries in flight to other servers,
 * and joins the threads. The rings remain readable. NULL is fine.
 */
void workers_stop(struct workers *workers);

/* Stops the workers and frees everything. NULL is fine. */
void workers_free(struct workers *workers);

#endif
