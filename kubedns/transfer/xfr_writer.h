/*
 * The messages of a zone transfer (RFC 5936 section 2.2): record after record into a message, which
 * is handed on when it is full. Pure.
 *
 * The first message alone has the question: some clients compare it with the type of what comes,
 * which for IXFR may be the whole zone. An owner shares the labels that it has in common with the
 * owner before. RDATA is not compressed.
 */
#ifndef KUBEDNS_TRANSFER_XFR_WRITER_H
#define KUBEDNS_TRANSFER_XFR_WRITER_H

#include "kubedns/answer/zone_walk.h"

enum {
	XFR_MESSAGE_MAX = 16384, /* as far as a compression pointer reaches */
	XFR_TAIL_MAX = 512,      /* of which a TSIG may have this much */
};

struct xfr_writer {
	/* Takes a whole message of `len` bytes, with room for XFR_TAIL_MAX more behind it; false:
	 * nothing more is wanted. */
	bool (*send)(void *arg, uint8_t *message, size_t len);
	void *arg;
	const uint8_t *query; /* the client's message, and its question's length */
	uint16_t question_len;
	bool has_edns,
	    edns_do; /* of the query: the first message has an OPT (RFC 5936 section 2.2.5) */

	uint64_t records, messages; /* sent, or about to be */

	/* the writer's own */
	uint8_t *buf;
	size_t len;
	unsigned answers;
	bool stopped;
	struct dname last; /* the owner before */
	uint16_t offsets[DNAME_LABELS_MAX + 1];
};

/* Begins, after the members before `records` are set. `buf` of XFR_MESSAGE_MAX bytes is borrowed. */
void xfr_begin(struct xfr_writer *w, uint8_t *buf);

/* One record; false if `send` has said so. */
bool xfr_put(struct xfr_writer *w, const struct zone_record *record);

/* Sends the last message. */
bool xfr_end(struct xfr_writer *w);

#endif
