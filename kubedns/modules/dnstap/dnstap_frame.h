/* Encodes a DNS message for dnstap in protobuf (dnstap.proto). Pure: no clock, no socket. */
#ifndef KUBEDNS_MODULES_DNSTAP_DNSTAP_FRAME_H
#define KUBEDNS_MODULES_DNSTAP_DNSTAP_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/addr.h"

/* The numbers that dnstap defines (Message.Type). */
enum dnstap_kind {
	DNSTAP_CLIENT_QUERY = 5,
	DNSTAP_CLIENT_RESPONSE,
	DNSTAP_FORWARDER_QUERY,
	DNSTAP_FORWARDER_RESPONSE,
};

/* A message's metadata. Times are from CLOCK_MONOTONIC. */
struct dnstap_head {
	enum dnstap_kind kind;
	bool tcp;
	uint16_t len;
	struct server peer;  /* the client, or the server that was queried */
	int64_t query_ns;    /* when the query arrived or was sent */
	int64_t response_ns; /* when the response was sent or arrived; 0 for a query */
};

/* Maximum length of a frame. A frame has a message, two names of at most DNSTAP_NAME_MAX bytes,
 * addresses, times, and the bytes of the encoding. */
enum { DNSTAP_NAME_MAX = 256, DNSTAP_FRAME_MAX = 65535 + 2 * DNSTAP_NAME_MAX + 256 };

/* The sender of frames. `frame` has the encoded fields that are the same in all frames: identity
 * and version. */
struct dnstap_sender {
	int64_t wall_ns; /* Unix time when CLOCK_MONOTONIC was 0 */
	uint8_t frame[2 * DNSTAP_NAME_MAX + 16];
	size_t frame_len;
};

/* Encodes identity and version. Truncates each of them to DNSTAP_NAME_MAX bytes. Sets wall_ns to
 * 0. */
void dnstap_sender_init(struct dnstap_sender *sender, const char *identity, const char *version);

/* Writes the frame of `message` to `out`, which has DNSTAP_FRAME_MAX bytes. Returns its length. */
size_t dnstap_frame(const struct dnstap_sender *sender, const struct dnstap_head *head,
    const uint8_t *message, uint8_t *out);

#endif
