/*
 * Messages for the resolver. The messages are gathered during one iteration of the loop and sent
 * with one sendmmsg(). Messages of the same length are sent as one run, which the kernel splits at
 * the resolver's socket (UDP_SEGMENT).
 */
#ifndef KUBEDNS_SERVE_UPSTREAM_RELAY_BATCH_H
#define KUBEDNS_SERVE_UPSTREAM_RELAY_BATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "lib/wire.h"

enum { RELAY_BATCH = 32 };

struct relay_batch {
	unsigned count;
	size_t used;
	uint8_t *bytes; /* RELAY_BATCH x DNS_UDP_QUERY_MAX bytes */
	struct iovec iov[RELAY_BATCH];
	bool segments; /* the kernel supports UDP_SEGMENT */
};

void relay_batch_init(struct relay_batch *batch);
void relay_batch_free(struct relay_batch *batch);

/* Returns a buffer of DNS_UDP_QUERY_MAX bytes for the next message. */
static inline uint8_t *
relay_batch_capacity(const struct relay_batch *batch)
{
	return batch->bytes + batch->used;
}

/* Adds the message of `len` bytes that was written to that buffer. At most RELAY_BATCH messages
 * fit. */
void relay_batch_add(struct relay_batch *batch, size_t len);

/*
 * Sends the messages through `fd`, which is connected to the resolver, and empties the batch.
 * Returns true if the kernel reported ECONNREFUSED. That error belongs to an earlier message, so
 * the current run is sent again. A message that cannot be sent is retried later by the retry timer.
 */
bool relay_batch_send(struct relay_batch *batch, int fd);

#endif
