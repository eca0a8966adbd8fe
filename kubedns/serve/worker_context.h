/*
 * The data that all parts of a worker (udp, tcp, inflight, forward, relay) share. The context has
 * the clock, the epoll, the counters, and the sources of answers. All of it belongs to the worker's
 * thread.
 *
 * A worker polls its UDP sockets and one epoll, which has every other descriptor. The epoll data of
 * a descriptor is a key. The key has the part that handles the events, that part's slot, and the
 * generation of the slot (or the descriptor itself). A slot may be closed and reused while a batch
 * of events is handled. The generation in the key shows that an event of that batch is for the old
 * descriptor.
 */
#ifndef KUBEDNS_SERVE_WORKER_CONTEXT_H
#define KUBEDNS_SERVE_WORKER_CONTEXT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>

#include "kubedns/answer/message.h"
#include "kubedns/serve/observe/stats.h"
#include "kubedns/serve/worker.h"
#include "lib/clock.h"

struct view; /* kubedns/answer/view.h */

struct worker_context {
	int epoll;
	int64_t now_ns; /* monotonic time; updated after each wait and after each batch */
	bool measuring; /* fair_share.c is counting packets */
	/* The iteration may have changed a timer. UDP answers from the tree or from
	 * --answer-cache never change a timer. */
	bool stirred;
	uint32_t iteration; /* counts the iterations that had events from the epoll */
	/* The last iteration ran out of time, so connections are read in small pieces. */
	bool loaded;
	uint64_t
	    hash_key;    /* key for hashes of client addresses and names; never shown to clients */
	uint64_t random; /* start of random numbers that clients can observe */
	struct stats *stats;
	struct ring *ring; /* see observe/observe.h; NULL if no observer is enabled */
	const struct treecache *tree;
	const struct answer_config *answers;
	const struct answer_config *second; /* at the second address (worker.h), or NULL */
	struct view *view; /* view of the client of the current message (client_view.h) */
	/* How modules return TCP connections to this worker. */
	struct connection_return connections;
	struct answer_thread thread; /* worker_thread_init() sets it up */
};

/* Sets up context->thread, which has the clock and the counters for answers. */
static inline void
worker_thread_init(struct worker_context *context)
{
	context->thread = (struct answer_thread){ .now_ns = &context->now_ns,
		.explained = &context->stats->explained,
		.explain_refused = &context->stats->explain_refused,
		.nearest = context->stats->nearest,
		.modules = context->stats->modules,
		.zonal = context->stats->zonal };
}

/*
 * Time that one iteration of the loop may spend on one UDP socket, and on all other descriptors
 * together.
 */
static const int64_t WORKER_BUDGET_NS = 2000000;

/* Reads the clock into now_ns and returns the time. */
static inline int64_t
worker_time(struct worker_context *context)
{
	return context->now_ns = clock_mono_ns();
}

/* The part of the worker that handles an event. */
enum worker_part {
	PART_WAKE,
	PART_HEARTBEAT,
	PART_TCP_LISTENER,
	PART_TCP,
	PART_TRANSPORT_UDP,
	PART_TRANSPORT_TCP
};

enum { WORKER_SLOT_MAX = (1 << 24) - 1 };

static inline uint64_t
worker_key(enum worker_part part, uint32_t slot, uint32_t tag)
{
	return (uint64_t)part << 56 | (uint64_t)(slot & WORKER_SLOT_MAX) << 32 | tag;
}

static inline enum worker_part
worker_key_part(uint64_t key)
{
	return (enum worker_part)(key >> 56);
}

static inline uint32_t
worker_key_slot(uint64_t key)
{
	return (uint32_t)(key >> 32) & WORKER_SLOT_MAX;
}

static inline uint32_t
worker_key_tag(uint64_t key)
{
	return (uint32_t)key;
}

/* Calls epoll_ctl() on the worker's epoll. Returns 0, or -1 with errno set. */
static inline int
worker_epoll_ctl(
    const struct worker_context *context, int op, int fd, uint32_t events, uint64_t key)
{
	struct epoll_event event = { .events = events, .data.u64 = key };

	return epoll_ctl(context->epoll, op, fd, &event);
}

/* Returns a number of workers_config, or its default if it is 0. */
static inline unsigned
setting_or(unsigned value, unsigned fallback)
{
	return value != 0 ? value : fallback;
}

/* Returns one worker's part of a total, rounded up. */
static inline unsigned
worker_share(unsigned total, unsigned threads)
{
	return (total + threads - 1) / threads;
}

#endif
