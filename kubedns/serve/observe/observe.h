/*
 * The worker's side: one call for each answer, when it leaves. It writes a record into the worker's
 * ring (ring.h), and everyone who observes answers reads that ring in another thread.
 *
 *	udp, tcp, inflight --observe()--> ring -+-> observers.h, in the main thread: top clients, query log
 *	                                        +-> /queries, when a person asks
 *	                                        '-> dnstap, in its own thread
 *
 * A worker without a ring (NULL) pays one comparison for an answer.
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

/* An answer that leaves. The messages are read with --dnstap alone. */
struct observed {
	const struct sockaddr *client;
	const struct answer_info *info;
	const uint8_t *query; /* NULL: observe_message() had it when it came */
	size_t query_len;
	const uint8_t *reply; /* info->len bytes */
	int64_t at_ns;        /* see struct ring_record */
};

/* A word of memory that has another type too. */
typedef uint64_t __attribute__((may_alias)) record_word;

/* Copies whole words to memory that another thread may be reading, which is aligned to words. */
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

/* Adds the messages of an answer after its `len` other bytes at `header`; returns the new length. */
size_t ring_add_messages(
    struct ring *ring, struct record_header *header, size_t len, const struct observed *seen);

/* Makes the record added last a sample. */
void ring_sample(struct ring *ring);

/* The record of `len` bytes is complete. */
static inline void
ring_added(struct ring *ring, struct record_header *header, size_t len)
{
	RING_PUT(header->info.words[RECORD_LEN], (uint16_t)(len / RECORD_WORD));
	ring->batch[ring->batched++] = header;
	ring->newest_position = ring->position;
	ring->position += len;
	ring->at += len;
	if (ring->at >= ring->end) {
		ring->position -= (size_t)(ring->at - ring->end);
		ring->at = ring->bytes;
	}
}

/* Adds the record; its kind byte, and what else is not of a UDP batch, comes from `made`. */
static inline __attribute__((always_inline)) void
ring_add(struct ring *ring, const struct observed *seen, uint8_t made)
{
	const struct answer_info *info = seen->info;
	struct record_header *header = (struct record_header *)(void *)ring->at;
	uint8_t *name = (uint8_t *)(header + 1);
	/* Without type and class, which are 4 bytes; 0 without a question. */
	size_t name_len =
	    (info->query.question_len + RECORD_WORD - 1u - 4) & ~(size_t)(RECORD_WORD - 1);
	size_t len = sizeof *header + name_len;

	RING_PUT(ring->reserved, ring->position + RECORD_MAX + RECORD_AHEAD);
	RING_PUT(header->at_ns, seen->at_ns);
	record_copy(&header->peer, seen->client, sizeof header->peer);
	RING_PUT(header->predecessor, (uint32_t)ring->newest_position);
	record_copy(&header->info, &info->system, RECORD_INFO);
	RING_PUT(header->info.bytes[RECORD_MADE], made);
	RING_PUT(
	    header->info.bytes[RECORD_BELOW], (uint8_t)(info->refused != 0 ? -1 : info->below));
	RING_PUT(header->info.words[RECORD_SIZE], (uint16_t)info->len);
	RING_PUT(header->info.words[RECORD_QUESTION], info->query.question_len);
	record_copy(name, info->query.qname, RECORD_AHEAD / 2);
	if (name_len > RECORD_AHEAD / 2)
		record_copy(name + RECORD_AHEAD / 2, info->query.qname + RECORD_AHEAD / 2,
		    RECORD_AHEAD / 2);
	if (name_len > RECORD_AHEAD)
		record_copy(
		    name + RECORD_AHEAD, info->query.qname + RECORD_AHEAD, name_len - RECORD_AHEAD);
	if (seen->client->sa_family == AF_INET6) {
		record_copy(name + name_len,
		    (const uint8_t *)seen->client + offsetof(struct sockaddr_in6, sin6_addr),
		    sizeof(struct in6_addr));
		len += sizeof(struct in6_addr);
	}
	if (ring->whole)
		len = ring_add_messages(ring, header, len, seen);
	ring_added(ring, header, len);
	if (--ring->left == 0)
		ring_sample(ring);
}

/* Wakes a reader of whole messages that sleeps. */
void ring_wake_listener(struct ring *ring);

/* Publishes the records added since the last call: at least one. */
static inline void
ring_publish(struct ring *ring, int64_t took_ns)
{
	uint32_t took = (uint64_t)took_ns > UINT32_MAX ? UINT32_MAX : (uint32_t)took_ns;

	ring->records += ring->batched;
	RING_PUT(ring->begun, ring->records);
	for (unsigned i = 0; i < ring->batched; i++)
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
 * Notes an answer of a UDP batch that began at seen->at_ns; observe_batch() must follow at its end,
 * before RING_BATCH more.
 */
static inline __attribute__((always_inline)) void
observe(struct ring *ring, const struct observed *seen)
{
	if (ring != NULL)
		ring_add(ring, seen, 0);
}

/* Ends a batch of at least one answer, which took so long. */
static inline void
observe_batch(struct ring *ring, int64_t took_ns)
{
	ring_publish(ring, took_ns);
}

/* Notes an answer that leaves alone: over TCP, or made with another server. */
void observe_alone(struct ring *ring, const struct observed *seen, enum answer_made made, bool tcp,
    int64_t took_ns);

/* Whether whole messages are wanted. */
static inline bool
observe_wants_messages(const struct ring *ring)
{
	return ring != NULL && ring->whole;
}

/*
 * Notes a message that is part of no answer made here: without effect unless whole messages are
 * wanted. `at_ns` is when it came or left; `took_ns` is how long its sender took for it.
 */
void observe_message(struct ring *ring, enum record_kind kind, bool tcp,
    const struct sockaddr *peer, const uint8_t *message, size_t len, int64_t at_ns,
    int64_t took_ns);

/* The same to or from another server. */
void observe_server(struct ring *ring, enum record_kind kind, bool tcp, const struct server *server,
    const uint8_t *message, size_t len, int64_t at_ns, int64_t took_ns);

#endif
