/* A message as dnstap has it, in protobuf (dnstap.proto). Pure: no clock, no socket. */
#ifndef KUBEDNS_DNSTAP_DNSTAP_FRAME_H
#define KUBEDNS_DNSTAP_DNSTAP_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/addr.h"

/* dnstap's own numbers (Message.Type). */
enum dnstap_kind {
	DNSTAP_CLIENT_QUERY = 5,
	DNSTAP_CLIENT_RESPONSE,
	DNSTAP_FORWARDER_QUERY,
	DNSTAP_FORWARDER_RESPONSE,
};

/* A message without its bytes. Times are CLOCK_MONOTONIC. */
struct dnstap_head {
	enum dnstap_kind kind;
	bool tcp;
	uint16_t len;
	struct server peer;  /* the client, or the server that was queried */
	int64_t query_ns;    /* when the query came, or was sent */
	int64_t response_ns; /* when the response was sent, or came; of a query: 0 */
};

/* A message, two names of at most DNSTAP_NAME_MAX bytes, addresses, times, and what separates them. */
enum { DNSTAP_NAME_MAX = 256, DNSTAP_FRAME_MAX = 65535 + 2 * DNSTAP_NAME_MAX + 256 };

/* Longer names are cut. */
struct dnstap_sender {
	const char *identity, *version;
	int64_t wall_ns; /* Unix time when CLOCK_MONOTONIC was 0 */
};

/* Writes the frame of `message` into `out` of DNSTAP_FRAME_MAX bytes; returns its length. */
size_t dnstap_frame(const struct dnstap_sender *sender, const struct dnstap_head *head,
    const uint8_t *message, uint8_t *out);

#endif
