/*
 * The network side of kubedns: one worker thread per CPU that the process may use.
 *
 *	             worker 0                       worker 1 ...
 *	UDP :53  --> socket --.                     socket --.     SO_REUSEPORT spreads the queries
 *	TCP :53  --> listener -+-> answer() --> out  listener -+-> ...
 *	                       '-> inflight -> forward (c-ares) or relay (dnsmasq) -> out
 *
 * A worker waits in one poll(), of its UDP sockets and of an epoll with all its other descriptors. One
 * of these is a timer that ends the wait once a second, so that the usual poll() needs no time limit.
 * Workers share the tree and nothing else; each has its own counters (stats.h). Names in the tree
 * are answered without an allocation. Everything that strangers can make grow has a bound and a
 * counter.
 *
 * The functions below are for the main thread alone. Workers are registered RCU readers; a read
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
struct transfer;
struct treecache;
struct workers;

enum {
	WORKERS_MAX = 64,
	WORKERS_AUTOMATIC_MAX = 4, /* more only by --threads: a cluster has several replicas */
	UPSTREAMS_MAX = 15,
	FORWARD_MAX = 2048,        /* in flight to upstream servers, in total */
	FORWARD_SEARCH_MAX = 1400, /* in flight to --search-resolver, in total */
	/*
	 * Front topology, in flight to the resolver or held by it, in total: dnsmasq keeps a query
	 * that no upstream server answers for 10 s, long after our client has its SERVFAIL. Its CPU
	 * time for each query grows with what it keeps (with 1,700 queries a client that asks beside
	 * them waits 3 ms, with 500 0.7 ms), so that it could keep more, but should not. An
	 * operator's own dnsmasq must take 2,200 (--dns-forward-max). One client can take a third
	 * of the places: see inflight.h.
	 */
	RESOLVER_MAX = 2000,
	FORWARD_CLIENT_MAX = 512,  /* and for one client address */
	FORWARD_TIMEOUT_MS = 3700, /* a stub resolver gives up at 5 s; the manual promises 4 */
	/*
	 * Of a query to the resolver; another 1,800 ms for the upstream servers after its SERVFAIL.
	 * Resolver libraries ask once more at once after a SERVFAIL, and dnsmasq, which still waits for its
	 * servers, gives the second query the answer to the first: together within 5 s.
	 */
	RELAY_TIMEOUT_MS = 1800,
	TCP_CONNECTIONS = 1000,
	TCP_IDLE_MS = 10000,
	TCP_AGE_MS = 120000, /* then a connection is closed, or up to the jitter later */
	TCP_AGE_JITTER_MS = 60000,
	TCP_QUERIES = 65536, /* or after so many queries */
};

struct workers_config {
	/* Up to four with commas; "0.0.0.0" and "::", alone, listen on both families. */
	const char *address;
	bool share_port;          /* see sockets.h */
	uint16_t port;            /* 0 picks one that is free for UDP and TCP: see workers_port */
	unsigned threads;         /* 0: workers_automatic() */
	unsigned tcp_connections; /* in total; 0: TCP_CONNECTIONS */
	unsigned tcp_idle_ms;     /* 0: TCP_IDLE_MS */
	unsigned forward_max;     /* in total, no more than FORWARD_MAX; 0: that */
	unsigned forward_client_max; /* 0: FORWARD_CLIENT_MAX */
	/* Front topology: names that are not ours go there; NULL: to the upstreams. */
	const struct server *resolver;
	/* Front topology: what the resolver answers SERVFAIL is asked of the upstreams. */
	bool servfail_retry;
	/* Classic topology: only CNAMEs that leave our zones and search walks go there; or NULL. */
	const struct server *search_resolver;
	/* Asked for our own names, over TCP, until the tree is synced. */
	const struct server *until_synced;
	size_t until_synced_count; /* 0: SERVFAIL until then */
	const struct server *upstreams;
	size_t upstream_count; /* at most UPSTREAMS_MAX are used */
	/* Answers NAME._explain (answer_thread.explain); NULL: nobody may ask. */
	char *(*explain)(const struct answer_config *config, const struct tree *tree,
	    const char *name, size_t *len);
	bool fair_share;       /* the heaviest clients give way when a worker cannot keep up */
	size_t tcp_memory;     /* of all TCP clients' buffers, 16 MB at most; 0: that */
	size_t recorder_bytes; /* for the last answers of all workers; 0: none */
	bool whole_messages;   /* --dnstap: keep these too */
	struct ring_listener *listener; /* the reader of whole messages; outlives the workers */
	int wake_observers;             /* observers_fd() */
	struct forwarded_cache *answer_cache; /* of other servers' answers; NULL: none */
	struct transfer *transfer;            /* NULL: none; outlives the workers */
	const struct treecache *tree;
	const struct answer_config *answers;
	/* --external-address: another address (NULL: none), its port, and what is answered there. */
	const char *external_address;
	uint16_t external_port;
	const struct answer_config *external_answers;
};

/*
 * The number of CPUs in the process's affinity mask, or its cgroup's quota rounded up if that is
 * less; 1 to WORKERS_AUTOMATIC_MAX.
 */
unsigned workers_automatic(void);

/*
 * Binds every socket and makes the workers; what `config` points at is copied, but for `tree`,
 * `answers`, `external_answers`, `answer_cache`, `listener` and `transfer`, which must outlive them.
 * 0, or -errno after one log line that names address and port (and who holds it).
 */
int workers_open(struct workers **workers, const struct workers_config *config);

/* Starts the threads, once. They inherit the privileges and the sandbox of the caller. */
void workers_start(struct workers *workers);

/* The port in use. */
uint16_t workers_port(const struct workers *workers);

unsigned workers_count(const struct workers *workers);

/* --share-port: whether the workers wait for workers_join(), because another kubedns has the port or
 * after workers_leave(). */
bool workers_held(const struct workers *workers);

/* Whether another kubedns has joined at the port. Reads the kernel's list of sockets. */
bool workers_have_other(const struct workers *workers);

/*
 * Begins to serve; without effect on workers that are not held. The first time the calling thread
 * needs the right to bind the port, see sandbox_low_ports_done(). 0, or -errno after one log line
 * that names address and port (and who holds it), after which only workers_free() is possible.
 */
int workers_join(struct workers *workers);

/* Leaves new queries to the other kubedns; those received, and connections, are still served. 0, or
 * -errno after a log line when it goes on serving all: see shared_port_leave(). */
int workers_leave(struct workers *workers);

/*
 * Queries go to these servers from now on, in this order; see forward_servers(). Copied.
 * In the front topology they are asked only for what the resolver has answered SERVFAIL.
 */
void workers_upstreams(struct workers *workers, const struct server *servers, size_t count);

/* A new tree has been published: workers try the queries that wait for a name again. */
void workers_published(const struct workers *workers);

/* Milliseconds since the slowest worker last passed its loop; a healthy one stays below 2,000. */
int64_t workers_stalled_ms(const struct workers *workers);

/*
 * Adds all workers' counters to `sum`; returns the packets that the kernel dropped because a
 * socket's queue was full.
 */
uint64_t workers_stats(const struct workers *workers, struct stats *sum);

/* Worker `index`'s ring (observe/ring.h), or NULL: no observer is on. Any thread may read it. */
const struct ring *workers_ring(const struct workers *workers, unsigned index);

/* The same for the last answers: NULL with --recorder=off. */
const struct ring *workers_recorder(const struct workers *workers, unsigned index);

/*
 * A line of text for each client that an overloaded worker holds back, with its address or without;
 * "" if there is none. The caller frees it.
 */
char *workers_notes(const struct workers *workers, bool addresses);

/*
 * Answers the queries that have arrived, answers SERVFAIL to those in flight to other servers, and
 * joins the threads. The rings stay. NULL is fine.
 */
void workers_stop(struct workers *workers);

/* Stops and frees all; NULL is fine. */
void workers_free(struct workers *workers);

#endif
