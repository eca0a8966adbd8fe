/*
 * Messages for one server. The messages are gathered during one iteration of the loop and sent
 * with one sendmmsg(). Messages of the same length are sent as one run, which the kernel splits at
 * the server's socket (UDP_SEGMENT).
 */
#ifndef KUBEDNS_SERVE_UPSTREAM_TRANSPORT_BATCH_H
#define KUBEDNS_SERVE_UPSTREAM_TRANSPORT_BATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "lib/wire.h"

enum { TRANSPORT_BATCH = 32 };

struct transport_batch {
	unsigned count;
	size_t used;
	uint8_t *bytes; /* TRANSPORT_BATCH x DNS_UDP_QUERY_MAX bytes */
	struct iovec iov[TRANSPORT_BATCH];
	bool segments; /* the kernel supports UDP_SEGMENT */
};

void transport_batch_init(struct transport_batch *batch);
void transport_batch_free(struct transport_batch *batch);

/* Returns a buffer of DNS_UDP_QUERY_MAX bytes for the next message. */
static inline uint8_t *
transport_batch_next(const struct transport_batch *batch)
{
	return batch->bytes + batch->used;
}

/* Adds the message of `len` bytes that was written to that buffer. At most TRANSPORT_BATCH messages
 * fit. */
void transport_batch_add(struct transport_batch *batch, size_t len);

/*
 * Sends the messages through `fd`, which is connected to the server, and empties the batch. Returns
 * true if the kernel reported ECONNREFUSED or did not send a message. ECONNREFUSED belongs to an
 * earlier message, so the current run is sent again. A message for which the socket has no space is
 * left to the retry timer.
 */
bool transport_batch_send(struct transport_batch *batch, int fd);

#endif
