/*
 * What the two halves of TCP share: tcp.c has the connections (how many, for how long, with how
 * much memory), tcp_messages.c the messages on them.
 */
#ifndef KUBEDNS_SERVE_NET_TCP_INTERNAL_H
#define KUBEDNS_SERVE_NET_TCP_INTERNAL_H

#include <stdbool.h>
#include <sys/queue.h>

#include "kubedns/serve/net/tcp.h"

enum {
	PREFIX = 2, /* RFC 1035 section 4.2.2: a message's length goes before it */
	READ_MAX = 16384,
	LOADED_READ = 2048,         /* of one connection in a turn of a loaded worker */
	READS_MAX = 4,              /* of one connection in a turn */
	GATHER_MAX = 2 * 65536 + 2, /* replies of one turn, sent at once */
	KEPT_MAX = 256 * 1024,      /* replies that one client may leave unread */
	FIRST_BUFFER = 512,
	ACCEPTS_MAX = 8, /* at a time: no more than are read at a time, see worker.c */
	TCP_CLIENT_BUCKETS = 256,
	EVICT_LOOK = 64, /* how far from the oldest to look for an idle one */
};

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

struct tcp {
	struct worker_context *context;
	struct inflight_table *inflight; /* takes what is for other servers */
	uint64_t rotation;               /* state of rotation_next() */
	struct tcp_config config;
	int listeners[TCP_LISTENERS_MAX];
	size_t listener_count;
	bool listening;
	int64_t accept_again_ns; /* listeners are paused until then; 0: they are not */
	size_t memory;           /* bytes in all connections' buffers */
	unsigned count;
	TAILQ_HEAD(conn_queue, conn) by_age; /* least recently touched first */
	LIST_HEAD(, tcp_client) clients[TCP_CLIENT_BUCKETS];
	struct conn *conns;
	uint32_t *free_slots;
	unsigned free_count;
	struct conn *current; /* its replies are being gathered */
	size_t gathered;
	unsigned replied[SYSTEM_COUNT];
	uint8_t *gather;  /* GATHER_MAX */
	uint8_t *scratch; /* READ_MAX */
	uint8_t *reply;   /* PREFIX + DNS_TCP_MAX, for tcp_reply_room */
};

uint32_t conn_slot(const struct tcp *tcp, const struct conn *conn);

/* Restarts the idle time: a message or a reply is complete. */
void conn_touch(struct tcp *tcp, struct conn *conn);

/* Frees the buffer of what has arrived, or of what is to be sent. */
void conn_free_in(struct tcp *tcp, struct conn *conn);
void conn_free_out(struct tcp *tcp, struct conn *conn);

/* Adds `bytes` (or fewer than 0) of buffers to the sums of the connection's client and of all. */
void conn_charge(struct tcp *tcp, struct conn *conn, ssize_t bytes);

/*
 * Grows `*buffer` of `*size` bytes to at least `need`, `cap` at most; false if a bound forbids it:
 * a client may take half of the free memory.
 */
bool conn_grow(struct tcp *tcp, struct conn *conn, uint8_t **buffer, uint32_t *size, uint32_t need,
    uint32_t cap);

/* Reads from a connection, which may be closed afterwards, and notes the time for its client. */
void conn_read_and_note(struct tcp *tcp, struct conn *conn);

/* Whether the kernel has bytes that the client has not acknowledged. */
bool conn_unsent(const struct conn *conn);

/* Changes the epoll events. */
void conn_wait_for(struct tcp *tcp, struct conn *conn, uint32_t events);

/* Sends the replies gathered for the current connection; false if it is gone. */
bool tcp_gather_flush(struct tcp *tcp);

/* Room for one more message, prefix included, or NULL if the connection is gone; and its end. */
uint8_t *tcp_gather_room(struct tcp *tcp);
void tcp_gather_done(struct tcp *tcp, size_t len);

/* The connection can be read from again: answers what was left unread. */
void tcp_unblocked(struct tcp *tcp, struct conn *conn);

/* Answers a question for a zone transfer, of the current connection, or begins the transfer; false
 * if the connection is gone. */
bool tcp_transfer(struct tcp *tcp, const uint8_t *query, size_t len, struct answer_info *info);

/* Closes it; if tcp->current was this connection, it is NULL afterwards. */
void conn_close(struct tcp *tcp, struct conn *conn);

/*
 * Closes it and counts why. Sends a reset if the client has not read everything: the kernel would
 * keep the rest for minutes.
 */
void conn_drop(struct tcp *tcp, struct conn *conn, enum stats_drop reason);

#endif
