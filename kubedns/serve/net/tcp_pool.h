/*
 * A worker's TCP connections as they are held: their slots, their order of age, their buffers, and what each client address
 * has of them. A client may have half of the free connections and half of the free memory. Bytes are read and written in
 * tcp.c.
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
 * How long one turn answers one client address, over all its connections: a quarter of the turn's
 * budget. The client's other messages wait in their sockets for the next turn.
 */
static const int64_t TCP_CLIENT_TURN_NS = WORKER_BUDGET_NS / 4;

/* A client address and its connections. */
struct tcp_client {
	LIST_ENTRY(tcp_client) by_hash;
	uint32_t hash; /* of the address; keyed, so that a collision cannot be provoked */
	unsigned count;
	uint32_t turn;             /* the last turn that read from it, */
	int64_t spent_ns;          /* and how long its messages took then */
	size_t memory;             /* bytes in its connections' buffers */
	TAILQ_HEAD(, conn) by_age; /* least recently touched first */
};

struct conn {
	TAILQ_ENTRY(conn) by_age;
	TAILQ_ENTRY(conn) by_client;
	struct tcp_client *client;
	union client_addr addr;
	const struct answer_config *answers;
	int64_t touched_ns; /* when it last completed a message or a reply, or was accepted */
	int fd;             /* -1: the slot is free */
	uint32_t generation;
	int64_t retire_ns; /* then it is closed */
	uint32_t queries;
	uint32_t held;   /* queries in flight to other servers */
	uint8_t family;  /* enum stats_family */
	bool blocked;    /* the socket is full; unsent replies are in `out` */
	bool streaming;  /* blocked, for a zone transfer is being sent */
	bool finished;   /* the client will send no more */
	bool closing;    /* we will send no more; open until the client has everything */
	uint32_t events; /* in the epoll */
	uint32_t in_len, in_size;
	uint32_t out_len, out_sent, out_size;
	uint8_t *in; /* the beginning of a message, or NULL */
	uint8_t *out;
};

struct tcp_pool {
	struct worker_context *context;
	size_t memory_max;
	size_t memory; /* bytes in all connections' buffers */
	unsigned count;
	TAILQ_HEAD(conn_queue, conn) by_age; /* least recently touched first */
	LIST_HEAD(, tcp_client) clients[TCP_CLIENT_BUCKETS];
	struct conn *conns;
	uint32_t *free_slots;
	unsigned free_count;
	struct conn *current; /* its messages are being answered; NULL once it is closed */
};

void tcp_pool_init(
    struct tcp_pool *pool, struct worker_context *context, unsigned connections, size_t memory);

/* Closes all connections. */
void tcp_pool_free(struct tcp_pool *pool);

/* Takes the descriptor into a free slot, of which there must be one, and into the epoll; NULL: that failed, and it is
 * closed. The caller sets `answers`. */
struct conn *conn_open(struct tcp_pool *pool, int fd, const struct sockaddr *peer);

uint32_t conn_slot(const struct tcp_pool *pool, const struct conn *conn);

/* The connection, or NULL if it has been closed. */
struct conn *conn_find(struct tcp_pool *pool, const struct tcp_peer *peer);

/* Whether no query is in flight and no reply waits to be sent. */
bool conn_is_idle(const struct conn *conn);

/* Whether the client has more connections than half of those that are free; one is always allowed. */
bool client_has_too_many(const struct tcp_pool *pool, const struct tcp_client *client);

/* Whether the client has used up its part of this turn. Its level-triggered events come again. */
bool client_had_its_turn(const struct tcp_pool *pool, const struct tcp_client *client);

/* Notes how long its messages took. */
void client_note_spent(const struct tcp_pool *pool, struct tcp_client *client, int64_t spent_ns);

/* Restarts the idle time: a message or a reply is complete. */
void conn_touch(struct tcp_pool *pool, struct conn *conn);

/* Frees the buffer of what has arrived, or of what is to be sent. */
void conn_free_in(struct tcp_pool *pool, struct conn *conn);
void conn_free_out(struct tcp_pool *pool, struct conn *conn);

/* Adds `bytes` (or fewer than 0) of buffers to the sums of the connection's client and of all. */
void conn_charge(struct tcp_pool *pool, struct conn *conn, ssize_t bytes);

/*
 * Grows `*buffer` of `*size` bytes to at least `need`, `cap` at most; false if a bound forbids it:
 * a client may take half of the free memory.
 */
bool conn_grow(struct tcp_pool *pool, struct conn *conn, uint8_t **buffer, uint32_t *size,
    uint32_t need, uint32_t cap);

/* Whether the kernel has bytes that the client has not acknowledged. */
bool conn_unsent(const struct conn *conn);

/* Changes the epoll events. */
void conn_wait_for(struct tcp_pool *pool, struct conn *conn, uint32_t events);

/* Closes it; if pool->current was this connection, it is NULL afterwards. */
void conn_close(struct tcp_pool *pool, struct conn *conn);

/*
 * Closes it and counts why. Sends a reset if the client has not read everything: the kernel would
 * keep the rest for minutes.
 */
void conn_drop(struct tcp_pool *pool, struct conn *conn, enum stats_drop reason);

#endif
