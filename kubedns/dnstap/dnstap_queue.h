/*
 * A worker's queue of messages for the writer: a ring of bytes with one writing and one reading
 * thread. A message lies in one piece after its head; where it does not fit before the ring's end,
 * a head of size 0 says that it is at the beginning.
 *
 *	0        head                 tail                size
 *	|--------|####|#########|#####|-------------------|
 *	          ^ dnstap_queue_first()    ^ dnstap_add()
 */
#ifndef KUBEDNS_DNSTAP_DNSTAP_QUEUE_H
#define KUBEDNS_DNSTAP_DNSTAP_QUEUE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "lib/addr.h"

/* dnstap's own numbers (Message.Type). */
enum dnstap_kind {
	DNSTAP_CLIENT_QUERY = 5,
	DNSTAP_CLIENT_RESPONSE,
	DNSTAP_FORWARDER_QUERY,
	DNSTAP_FORWARDER_RESPONSE,
};

/* What is known of a message beside its bytes. Times are CLOCK_MONOTONIC. */
struct dnstap_head {
	uint32_t size; /* in the ring, this included; a multiple of 8 */
	uint16_t len;  /* of the message, which follows */
	uint8_t kind;  /* enum dnstap_kind */
	bool tcp;
	struct server peer;  /* the client, or the server that was asked */
	int64_t query_ns;    /* when the query came, or was sent */
	int64_t response_ns; /* when the response was sent, or came; of a query: 0 */
};

struct dnstap_queue;

/* Of `bytes`, a power of 2, at least 256 KiB. `wake` is an eventfd that is written to when a message
 * comes while `asleep` is set. */
struct dnstap_queue *dnstap_queue_new(size_t bytes, atomic_bool *asleep, int wake);
void dnstap_queue_free(struct dnstap_queue *queue);

/* --- the worker's side --- */

/* Notes a message of at most 65,535 bytes; `peer` is the client or the server that was asked. */
void dnstap_add(struct dnstap_queue *queue, enum dnstap_kind kind, bool tcp,
    const struct sockaddr *peer, const uint8_t *message, size_t len, int64_t query_ns,
    int64_t response_ns);

/* A query of a client and the reply to it, which leaves now. */
void dnstap_answered(struct dnstap_queue *queue, bool tcp, const struct sockaddr *client,
    const uint8_t *query, size_t query_len, const uint8_t *reply, size_t len, int64_t query_ns);

/* The same to and from a server that was asked; `asked_ns` is when. */
void dnstap_asked(struct dnstap_queue *queue, bool tcp, const struct server *server,
    const uint8_t *query, size_t len, int64_t asked_ns);
void dnstap_replied(struct dnstap_queue *queue, bool tcp, const struct server *server,
    const uint8_t *reply, size_t len, int64_t asked_ns, int64_t now_ns);

/* --- the writer's side --- */

/* The oldest message, or NULL: its head, its bytes in `*message`, until dnstap_queue_pop(). */
const struct dnstap_head *dnstap_queue_first(struct dnstap_queue *queue, const uint8_t **message);
void dnstap_queue_pop(struct dnstap_queue *queue);

/* Messages that found it full; any thread may ask. */
uint64_t dnstap_queue_dropped(const struct dnstap_queue *queue);

#endif
