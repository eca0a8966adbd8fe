/*
 * One worker from the inside: what its parts
 * (udp, tcp, pending, forward, relay) share, and how they wait.
 *
 * The worker waits in one place, a poll() of its UDP sockets and of an epoll with all the rest.
 * That carries in each event a key: which part, which slot of it, and a generation or descriptor,
 * so that an event for something that was closed and reused earlier in the same batch is seen to
 * be stale.
 */
#ifndef KUBEDNS_SERVE_WORKER_CONTEXT_H
#define KUBEDNS_SERVE_WORKER_CONTEXT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>

#include "kubedns/answer/answer.h"
#include "kubedns/serve/stats.h"
#include "kubedns/serve/worker.h"
#include "lib/clock.h"

struct udp;
struct tcp;
struct inflight_table;
struct forward;
struct relay;

enum loop_part {
	LOOP_WAKE,
	LOOP_TCP_LISTENER,
	LOOP_TCP,
	LOOP_FORWARD,
	LOOP_RELAY_UDP,
	LOOP_RELAY_TCP
};

struct worker {
	unsigned index;
	int epoll;
	int64_t now_ns;    /* monotonic; read after each wait and after each batch */
	uint64_t hash_key; /* of client addresses */
	uint32_t rotation; /* chooses the first record of a set */
	struct stats *stats;
	const struct treecache *tree;
	const struct answer_config *answers;
	struct udp *udp;
	struct tcp *tcp;
	struct inflight_table *inflight;
	struct forward *forward; /* or */
	struct relay *relay;     /* the other is NULL */
};

/* Reads the clock into worker->now_ns and returns it. */
static inline int64_t
worker_time(struct worker *worker)
{
	return worker->now_ns = clock_mono_ns();
}

enum { LOOP_SLOT_MAX = (1 << 24) - 1 };

static inline uint64_t
loop_key(enum loop_part part, uint32_t slot, uint32_t tag)
{
	return (uint64_t)part << 56 | (uint64_t)(slot & LOOP_SLOT_MAX) << 32 | tag;
}

static inline enum loop_part
loop_key_part(uint64_t key)
{
	return (enum loop_part)(key >> 56);
}

static inline uint32_t
loop_key_slot(uint64_t key)
{
	return (uint32_t)(key >> 32) & LOOP_SLOT_MAX;
}

static inline uint32_t
loop_key_tag(uint64_t key)
{
	return (uint32_t)key;
}

/* Starts, changes and ends the wait for `events` on `fd`; 0 or -errno. */
static inline int
loop_control(const struct worker *worker, int op, int fd, uint32_t events, uint64_t key)
{
	struct epoll_event event = { .events = events, .data.u64 = key };
	return epoll_ctl(worker->epoll, op, fd, &event);
}

/* The smaller of two times; 0 means "none". */
static inline int64_t
sooner(int64_t a_ns, int64_t b_ns)
{
	if (a_ns == 0 || b_ns == 0)
		return a_ns + b_ns;
	return a_ns < b_ns ? a_ns : b_ns;
}

#endif
