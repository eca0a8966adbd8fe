/*
 * The connection to the collector: Frame Streams with a handshake (libfstrm), over a Unix or TCP
 * socket. The socket is ours and not the library's, which would block for as long as the collector
 * does not read. Frames are gathered and sent together.
 */
#ifndef KUBEDNS_DNSTAP_DNSTAP_STREAM_H
#define KUBEDNS_DNSTAP_DNSTAP_STREAM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kubedns/dnstap/dnstap.h"

struct dnstap_stream;

/* `wake`: a descriptor whose being readable, with `*stop` set, ends every wait within a second. */
struct dnstap_stream *dnstap_stream_new(
    const struct dnstap_target *target, int wake, const atomic_bool *stop);

/* Connects and agrees on the contents, within 5 s. 0, or -errno; -EPROTO: what listens there does
 * not take dnstap. */
int dnstap_stream_open(struct dnstap_stream *stream);
bool dnstap_stream_is_open(const struct dnstap_stream *stream);

/*
 * Gathers one frame of at most DNSTAP_FRAME_MAX bytes, or sends all that are gathered; waits as long
 * as the collector does not read. `*sent` and `*lost` are added to: frames that have left, and those
 * that had not when the connection broke; it is closed then. 0, or -errno.
 */
int dnstap_stream_write(
    struct dnstap_stream *stream, const uint8_t *frame, size_t len, uint64_t *sent, uint64_t *lost);
int dnstap_stream_flush(struct dnstap_stream *stream, uint64_t *sent, uint64_t *lost);

/* Waits for `wake`, or `wait_ms` (-1: without end); closes the stream when the collector has. */
void dnstap_stream_wait(struct dnstap_stream *stream, int wait_ms);

/* Says goodbye, if there is still somebody; NULL is fine. */
void dnstap_stream_free(struct dnstap_stream *stream);

#endif
