/*
 * The bookkeeping for a worker's TCP connections. The pool has the connections' slots, order by age
 * and buffers, and the usage of each client address. A client may use half of the free connections
 * and half of the free memory. tcp.c reads and writes the bytes.
 */
#ifndef KUBEDNS_SERVE_NET_TCP_POOL_H
#define KUBEDNS_SERVE_NET_TCP_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "kubedns/serve/client.h"
#include "kubedns/serve/worker_context.h"

enum { TCP_CLIENT_BUCKETS = 256 };

/*
 * Time that one iteration may spend on all connections of one client address. This time is a
 * quarter of the iteration's budget. The client's other messages stay in their sockets until the
 * next iteration.
 */
static const int64_t TCP_CLIENT_ITERATION_NS = WORKER_BUDGET_NS / 4;

/* A client address and its connections. */
struct tcp_client {
	LIST_ENTRY(tcp_client) by_hash;
	uint32_t hash; /* keyed hash of the address, so that nobody can provoke a collision */
	unsigned count;
	uint32_t iteration; /* the last iteration that read from this client */
	int64_t spent_ns;   /* time that its messages took in that iteration */
	size_t memory;      /* bytes in the buffers of its connections */
	/* its connections; the least recently touched connection is first */
	TAILQ_HEAD(, conn) by_age;
};

struct conn {
	TAILQ_ENTRY(conn) by_age;
	TAILQ_ENTRY(conn) by_client;
	struct tcp_client *client;
	union client_addr addr;
	const struct answer_config *answers;
	int64_t touched_ns; /* when it was accepted, or last completed a message or a reply */
	int fd;             /* -1 if the slot is free */
	uint32_t generation;
	int64_t retire_ns; /* the latest time at which it is closed */
	uint32_t queries;
	uint32_t in_flight; /* number of queries in flight to other servers */
	uint8_t family;     /* enum stats_family */
	bool blocked;       /* the socket is full, and unsent replies are in `out` */
	bool lent;          /* blocked because a module has it (answer/message.h) */
	bool finished;      /* the client will send nothing more */
	bool closing; /* we will send nothing more, but wait until the client has read everything */
	uint32_t events; /* the events that the epoll waits for */
	uint32_t in_len, in_size;
	uint32_t out_len, out_sent, out_size;
	uint8_t *in; /* the start of a message, or NULL */
	uint8_t *out;
};

struct tcp_pool {
	struct worker_context *context;
	size_t memory_max;
	size_t memory; /* bytes in the buffers of all connections */
	unsigned count;
	/* The connection that was least recently touched is first. */
	TAILQ_HEAD(conn_queue, conn) by_age;
	LIST_HEAD(, tcp_client) clients[TCP_CLIENT_BUCKETS];
	struct conn *conns;
	uint32_t *free_slots;
	unsigned free_count;
	/* The connection whose messages are being answered; NULL once it is closed. */
	struct conn *current;
};

void tcp_pool_init(
    struct tcp_pool *pool, struct worker_context *context, unsigned connections, size_t memory);

/* Closes all connections. */
void tcp_pool_free(struct tcp_pool *pool);

/* Puts the descriptor into a free slot and into the epoll. There must be a free slot. If the
 * epoll fails, closes the descriptor and returns NULL. The caller sets `answers`. */
struct conn *conn_open(struct tcp_pool *pool, int fd, const struct sockaddr *peer);

uint32_t conn_slot(const struct tcp_pool *pool, const struct conn *conn);

/* Returns the connection, or NULL if it has been closed. */
struct conn *conn_find(struct tcp_pool *pool, const struct tcp_peer *peer);

/* Returns whether no query is in flight and no reply waits to be sent. */
bool conn_is_idle(const struct conn *conn);

/* Returns whether the client has more than half as many connections as are free. A client may
 * always have one connection. */
bool client_has_too_many(const struct tcp_pool *pool, const struct tcp_client *client);

/* Returns whether the client has used up its time in this iteration. Its events are
 * level-triggered, so they will be reported again. */
bool client_had_its_share(const struct tcp_pool *pool, const struct tcp_client *client);

/* Adds the time that the client's messages took. */
void client_note_spent(const struct tcp_pool *pool, struct tcp_client *client, int64_t spent_ns);

/* Restarts the idle timeout, because a message or a reply is complete. */
void conn_touch(struct tcp_pool *pool, struct conn *conn);

/* Free the input buffer, or the output buffer. */
void conn_free_in(struct tcp_pool *pool, struct conn *conn);
void conn_free_out(struct tcp_pool *pool, struct conn *conn);

/* Adds `bytes` (which may be negative) of buffers to the totals of the connection's client and of
 * the pool. */
void conn_charge(struct tcp_pool *pool, struct conn *conn, ssize_t bytes);

/*
 * Grows `*buffer` of `*size` bytes to at least `need` bytes, but at most `cap`. Returns false if a
 * limit forbids it. A client may use half of the free memory.
 */
bool conn_grow(struct tcp_pool *pool, struct conn *conn, uint8_t **buffer, uint32_t *size,
    uint32_t need, uint32_t cap);

/* Returns whether the kernel has bytes that the client has not acknowledged. */
bool conn_unsent(const struct conn *conn);

/* Changes the events that the epoll waits for. */
void conn_wait_for(struct tcp_pool *pool, struct conn *conn, uint32_t events);

/* Closes the connection. If the connection is pool->current, sets pool->current to NULL. */
void conn_close(struct tcp_pool *pool, struct conn *conn);

/*
 * Closes the connection and counts the reason. If the client has not read everything, sends a
 * reset. Without a reset, the kernel would keep the unread bytes for minutes.
 */
void conn_drop(struct tcp_pool *pool, struct conn *conn, enum stats_drop reason);

#endif
