/*
 * Writes the messages of a zone transfer (RFC 5936 section 2.2). Records are added to a message. A
 * full message is passed on. Pure.
 *
 * Only the first message has the question, because some clients compare the question's type with
 * the types of the records. For IXFR, the records may be the whole zone. The owner of a record is
 * compressed against the previous owner. RDATA is not compressed.
 */
#ifndef KUBEDNS_MODULES_TRANSFER_XFR_WRITER_H
#define KUBEDNS_MODULES_TRANSFER_XFR_WRITER_H

#include "kubedns/answer/zone_walk.h"

enum {
	XFR_MESSAGE_MAX = 16384, /* the maximum offset of a compression pointer */
	XFR_TAIL_MAX = 512,      /* part of the message that is reserved for a TSIG */
};

struct xfr_writer {
	/* Receives a complete message of `len` bytes, with space for XFR_TAIL_MAX more after it.
	 * Returns false to stop. */
	bool (*send)(void *arg, uint8_t *message, size_t len);
	void *arg;
	/* The client's message. `question_len` is the length of its question. */
	const uint8_t *query;
	uint16_t question_len;
	bool has_edns,
	    /* Flags of the query. If the query has EDNS, the first message has an OPT (RFC 5936
	     * section 2.2.5). */
	    edns_do;

	uint64_t records, messages; /* number of records and messages so far */

	/* Only the writer uses the following members. */
	uint8_t *buf;
	size_t len;
	unsigned answers;
	bool stopped;
	struct dname last; /* the previous owner */
	uint16_t offsets[DNAME_LABELS_MAX + 1];
};

/* Starts a transfer. The members before `records` must be set. `buf` has XFR_MESSAGE_MAX bytes and
 * must stay valid. */
void xfr_begin(struct xfr_writer *w, uint8_t *buf);

/* Adds a record. Returns false if `send` returned false. */
bool xfr_put(struct xfr_writer *w, const struct zone_record *record);

/* Sends the last message. */
bool xfr_end(struct xfr_writer *w);

#endif
