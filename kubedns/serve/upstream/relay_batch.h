/*
 * Messages for the resolver, gathered during one turn of the loop and sent with one sendmmsg().
 * Messages of the same length leave as one run, which the kernel splits again at the resolver's
 * socket (UDP_SEGMENT).
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
	uint8_t *bytes; /* RELAY_BATCH x DNS_UDP_QUERY_MAX */
	struct iovec iov[RELAY_BATCH];
	bool segments; /* the kernel knows UDP_SEGMENT */
};

void relay_batch_init(struct relay_batch *batch);
void relay_batch_free(struct relay_batch *batch);

/* Room of DNS_UDP_QUERY_MAX bytes for the next message. */
static inline uint8_t *
relay_batch_room(const struct relay_batch *batch)
{
	return batch->bytes + batch->used;
}

/* The message in that room has `len` bytes. At most RELAY_BATCH messages fit. */
void relay_batch_add(struct relay_batch *batch, size_t len);

/*
 * Sends the messages through `fd`, connected to the resolver, and empties the batch. True if the
 * kernel reported ECONNREFUSED: the error belongs to an earlier message, so the current run is sent
 * once more. A message that cannot be sent is left to the retry timer.
 */
bool relay_batch_send(struct relay_batch *batch, int fd);

#endif
