/*
 * What every part of a worker (udp, tcp, inflight, forward, relay) is given: its clock, its epoll,
 * its counters, and what answers are made from. All of it belongs to the worker's thread.
 *
 * A worker polls its UDP sockets and one epoll that holds every other descriptor. Each descriptor's
 * epoll data is a key: the part that takes the event, that part's slot, and the slot's generation
 * (or the descriptor itself), so that an event for something that was closed and reused earlier in
 * the same batch is recognised as stale.
 */
#ifndef KUBEDNS_SERVE_WORKER_CONTEXT_H
#define KUBEDNS_SERVE_WORKER_CONTEXT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>

#include "kubedns/answer/answer.h"
#include "kubedns/serve/observe/stats.h"
#include "kubedns/serve/worker.h"
#include "kubedns/transfer/transfer.h"
#include "lib/clock.h"

struct view; /* kubedns/answer/view.h */

struct worker_context {
	int epoll;
	int64_t now_ns; /* monotonic; read after each wait and after each batch */
	bool measuring; /* fair_share.c counts packets */
	/* Something happened that may have moved a timer, which is anything but an answer over UDP
	 * from the tree or from --answer-cache. */
	bool stirred;
	uint32_t turn;     /* counts the loop's turns with events of the epoll */
	bool loaded;       /* the last turn ran out of time: read connections in small pieces */
	uint64_t hash_key; /* of client addresses */
	struct stats *stats;
	struct ring *ring; /* of observe/observe.h; NULL: no observer is on */
	const struct treecache *tree;
	const struct answer_config *answers;
	const struct answer_config *external; /* at --external-address; NULL: there is none */
	struct view *view;         /* of the client of the message at hand: client_view.h */
	struct transfer *transfer; /* NULL: no --transfer-to */
	/* Told when a zone transfer on a TCP connection has ended. */
	struct transfer_end streamed;
	struct answer_thread thread; /* its `explain` NULL: --explain-by-dns=off */
};

/* Gives answers the clock, and who explains names: workers_config.explain. */
static inline void
worker_answers_explain(
    struct worker_context *context, char *(*explain)(const struct answer_config *config,
					const struct tree *tree, const char *name, size_t *len))
{
	context->thread = (struct answer_thread){ .now_ns = &context->now_ns,
		.explain = explain,
		.explained = &context->stats->explained,
		.explain_refused = &context->stats->explain_refused,
		.nearest = context->stats->nearest,
		.zonal = context->stats->zonal };
}

/*
 * How long a turn of the loop may serve one UDP socket, and how long all other descriptors
 * together.
 */
static const int64_t WORKER_BUDGET_NS = 2000000;

/* Reads the clock into now_ns and returns it. */
static inline int64_t
worker_time(struct worker_context *context)
{
	return context->now_ns = clock_mono_ns();
}

/* The part that takes an event. */
enum worker_part {
	PART_WAKE,
	PART_HEARTBEAT,
	PART_TCP_LISTENER,
	PART_TCP,
	PART_FORWARD,
	PART_UNTIL_SYNCED,
	PART_RELAY_UDP,
	PART_RELAY_TCP
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

/* epoll_ctl() on the worker's epoll; 0, or -1 with errno set. */
static inline int
worker_epoll_ctl(
    const struct worker_context *context, int op, int fd, uint32_t events, uint64_t key)
{
	struct epoll_event event = { .events = events, .data.u64 = key };

	return epoll_ctl(context->epoll, op, fd, &event);
}

/* A number of workers_config, or its default where it is 0. */
static inline unsigned
setting_or(unsigned value, unsigned fallback)
{
	return value != 0 ? value : fallback;
}

/* A worker's part of a total, rounded up. */
static inline unsigned
worker_share(unsigned total, unsigned threads)
{
	return (total + threads - 1) / threads;
}

/* The earlier of two deadlines; 0 means "none". */
static inline int64_t
earlier(int64_t a_ns, int64_t b_ns)
{
	if (a_ns == 0 || b_ns == 0)
		return a_ns + b_ns;
	return a_ns < b_ns ? a_ns : b_ns;
}

#endif
