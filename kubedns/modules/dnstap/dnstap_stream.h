/*
 * The connection to the collector. The connection uses Frame Streams with a handshake (libfstrm),
 * over a Unix or TCP socket. This module opens the socket, because libfstrm would block while the
 * collector does not read. Frames are gathered and sent together.
 */
#ifndef KUBEDNS_MODULES_DNSTAP_DNSTAP_STREAM_H
#define KUBEDNS_MODULES_DNSTAP_DNSTAP_STREAM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kubedns/modules/dnstap/dnstap.h"

struct dnstap_stream;

/* `wake` is a descriptor. When it is readable and `*stop` is set, every wait ends within a
 * second. */
struct dnstap_stream *dnstap_stream_new(
    const struct dnstap_target *target, int wake, const atomic_bool *stop);

/* Connects and performs the handshake, within 5 s. Returns 0 or -errno. -EPROTO means that the peer
 * does not accept dnstap. */
int dnstap_stream_open(struct dnstap_stream *stream);
bool dnstap_stream_is_open(const struct dnstap_stream *stream);

/*
 * dnstap_stream_write() gathers a frame of at most DNSTAP_FRAME_MAX bytes. dnstap_stream_flush()
 * sends all gathered frames. Both functions wait while the collector does not read. Both functions
 * add the number of sent frames to `*sent`. If the connection breaks, they close it and add the
 * unsent frames to `*lost`. Both functions return 0 or -errno.
 */
int dnstap_stream_write(
    struct dnstap_stream *stream, const uint8_t *frame, size_t len, uint64_t *sent, uint64_t *lost);
int dnstap_stream_flush(struct dnstap_stream *stream, uint64_t *sent, uint64_t *lost);

/* Waits until `wake` is readable or the deadline has passed. Closes the stream if the collector
 * has closed the connection. */
void dnstap_stream_wait(struct dnstap_stream *stream, int64_t deadline_ms);

/* Ends the stream properly if it is still open. NULL is fine. */
void dnstap_stream_free(struct dnstap_stream *stream);

#endif
