/*
 * The worker's part of observing answers. There is one call for each answer, when it is sent. The
 * call writes a record into the worker's ring (ring.h). All observers read that ring in other
 * threads.
 *
 *	udp, tcp, inflight --observe()--> ring -+-> observers.h, in the main thread: top clients, query log
 *	                                        +-> /queries, when somebody requests it
 *	                                        '-> a module, in its own thread
 *
 * Without a ring (NULL), a worker spends one comparison on each answer.
 */
#ifndef KUBEDNS_SERVE_OBSERVE_OBSERVE_H
#define KUBEDNS_SERVE_OBSERVE_OBSERVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

#include "kubedns/answer/answer.h"
#include "kubedns/serve/observe/ring.h"

/* An answer that is being sent. The messages are only used in rings for whole messages. */
struct observed {
	const struct sockaddr *client;
	const struct answer_info *info;
	const uint8_t *query; /* NULL if observe_message() recorded it when it arrived */
	size_t query_len;
	const uint8_t *reply; /* info->len bytes */
	int64_t at_ns;        /* see struct ring_record */
};

/* A word for access to memory of another type. */
typedef uint64_t __attribute__((may_alias)) record_word;

/* Copies whole words to word-aligned memory that another thread may be reading. */
static inline __attribute__((always_inline)) void
record_copy(void *to, const void *from, size_t len)
{
#pragma GCC unroll 8
	for (size_t i = 0; i < len / RECORD_WORD; i++) {
		record_word word;

		memcpy(&word, (const uint8_t *)from + i * RECORD_WORD, sizeof word);
		RING_PUT(((record_word *)to)[i], word);
	}
}

/* Returns how many whole messages an answer has. */
static inline unsigned
observed_messages(const struct observed *seen)
{
	bool query = seen->query != NULL && seen->query_len > 0;

	return (query ? 1u : 0u) + (seen->info->len > 0 ? 1u : 0u);
}

/* Adds a record with the messages of an answer to a ring for whole messages. See ring_add(). */
void ring_add_whole(struct ring *ring, const struct observed *seen, uint8_t made);

/* Marks the last record as a sample. */
void ring_sample(struct ring *ring);

/* Completes the record of `len` bytes. */
static inline void
ring_added(struct ring *ring, struct record_header *header, size_t len)
{
	RING_PUT(header->info.len, (uint16_t)(len / RECORD_WORD));
	ring->batch[ring->batched++] = header;
	ring->newest_position = ring->position;
	ring->position += len;
	ring->at += len;
	if (ring->at >= ring->end) {
		ring->position -= (size_t)(ring->at - ring->end);
		ring->at = ring->bytes;
	}
}

/* Copies a name of `len` bytes, padded to whole words. May copy more bytes, up to RECORD_AHEAD. */
static inline __attribute__((always_inline)) void
record_name(uint8_t *to, const uint8_t *name, size_t len)
{
	record_copy(to, name, RECORD_AHEAD / 2);
	if (len > RECORD_AHEAD / 2)
		record_copy(to + RECORD_AHEAD / 2, name + RECORD_AHEAD / 2, RECORD_AHEAD / 2);
	if (len > RECORD_AHEAD)
		record_copy(to + RECORD_AHEAD, name + RECORD_AHEAD, len - RECORD_AHEAD);
}

/* Reserves the space of a record and writes its header. Returns the header. */
static inline __attribute__((always_inline)) struct record_header *
ring_begin(struct ring *ring, const struct observed *seen, uint8_t made)
{
	const struct answer_info *info = seen->info;
	struct record_header *header = (struct record_header *)(void *)ring->at;

	RING_PUT(ring->reserved, ring->position + RECORD_MAX + RECORD_AHEAD);
	RING_PUT(header->at_ns, seen->at_ns);
	record_copy(&header->peer, seen->client, sizeof header->peer);
	RING_PUT(header->predecessor, (uint32_t)ring->newest_position);
	RING_PUT(header->info.system, (uint8_t)info->system);
	RING_PUT(header->info.made, made);
	RING_PUT(header->info.below, (uint8_t)info->below);
	RING_PUT(header->info.kind, RECORD_ANSWER);
	RING_PUT(header->info.rcode, info->rcode);
	RING_PUT(header->info.truncated, info->truncated);
	RING_PUT(header->info.filtered, info->filtered);
	RING_PUT(header->info.size, (uint16_t)info->len);
	RING_PUT(header->info.question_len, info->query.question_len);
	RING_PUT(header->info.qtype, info->query.qtype);
	return header;
}

/* Returns the length of the name in a record, or 0 if the query has no question. Type and class,
 * which are 4 bytes, are not included. */
static inline size_t
record_name_len(const struct answer_info *info)
{
	return (info->query.question_len + RECORD_WORD - 1u - 4) & ~(size_t)(RECORD_WORD - 1);
}

/* Copies the client's address if it is IPv6. Returns its length in the record. */
static inline __attribute__((always_inline)) size_t
record_address(uint8_t *to, const struct sockaddr *client)
{
	if (client->sa_family != AF_INET6)
		return 0;
	record_copy(to, (const uint8_t *)client + offsetof(struct sockaddr_in6, sin6_addr),
	    sizeof(struct in6_addr));
	return sizeof(struct in6_addr);
}

/* Adds a record. `made` describes how the answer was made. `made` is 0 for an answer of a UDP
 * batch. */
static inline __attribute__((always_inline)) void
ring_add(struct ring *ring, const struct observed *seen, uint8_t made)
{
	if (ring->whole) {
		/* This is a copy. If the address of `seen` were used, the compiler could not
		 * keep `seen` in registers. */
		const struct observed copy = *seen;

		ring_add_whole(ring, &copy, made);
		return;
	}
	struct record_header *header = ring_begin(ring, seen, made);
	uint8_t *name = (uint8_t *)(header + 1);
	size_t name_len = record_name_len(seen->info);
	record_name(name, seen->info->query.qname, name_len);
	name_len += record_address(name + name_len, seen->client);
	ring_added(ring, header, sizeof *header + name_len);
	if (--ring->left == 0)
		ring_sample(ring);
}

/* Wakes the reader of whole messages, if it is asleep. */
void ring_wake_listener(struct ring *ring);

/* Publishes the records added since the last call. There must be at least one record. */
static inline void
ring_publish(struct ring *ring, int64_t took_ns)
{
	uint32_t took = (uint64_t)took_ns > UINT32_MAX ? UINT32_MAX : (uint32_t)took_ns;
	unsigned batched = ring->batched;

	ring->records += batched;
	RING_PUT(ring->begun, ring->records);
	for (unsigned i = 0; i < batched; i++)
		RING_PUT(ring->batch[i]->took_ns, took);
	ring->batched = 0;
	RING_PUT(ring->newest, ring->newest_position);
	if (ring->whole) {
		RING_PUT(ring->published.answers, ring->counted.answers);
		RING_PUT(ring->published.messages, ring->counted.messages);
	}
	RING_PUT(ring->ended, ring->records);
	if (ring->whole)
		ring_wake_listener(ring);
}

/*
 * Records an answer of a UDP batch that started at seen->at_ns. observe_batch() must follow at the
 * end of the batch, and before more than RING_BATCH records.
 */
static inline __attribute__((always_inline)) void
observe(struct ring *ring, const struct observed *seen)
{
	if (ring != NULL)
		ring_add(ring, seen, 0);
}

/* Ends a batch of at least one answer, which took `took_ns`. */
static inline void
observe_batch(struct ring *ring, int64_t took_ns)
{
	ring_publish(ring, took_ns);
}

/* Records a single answer, which was sent over TCP or made with another server. */
void observe_alone(struct ring *ring, const struct observed *seen, enum answer_made made, bool tcp,
    int64_t took_ns);

/* Returns whether a reader needs whole messages. */
static inline bool
observe_wants_messages(const struct ring *ring)
{
	return ring != NULL && ring->whole;
}

/*
 * Records a message that is not part of a local answer. Does nothing unless a reader needs whole
 * messages. `at_ns` is when the message arrived or was sent. `took_ns` is the time that its sender
 * needed for it.
 */
void observe_message(struct ring *ring, enum record_kind kind, bool tcp,
    const struct sockaddr *peer, const uint8_t *message, size_t len, int64_t at_ns,
    int64_t took_ns);

/*
 * Record a query that is being sent to another server, and a response that was read. Both functions
 * read the clock, because the time of a batch may be 2 ms earlier. The first function returns the
 * time of the query, or 0 if no reader needs whole messages. The second function needs that time as
 * `sent_ns`.
 */
int64_t observe_server_query(
    struct ring *ring, bool tcp, const struct server *server, const uint8_t *message, size_t len);
void observe_server_response(struct ring *ring, bool tcp, const struct server *server,
    const uint8_t *message, size_t len, int64_t sent_ns);

#endif
