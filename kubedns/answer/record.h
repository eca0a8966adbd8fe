/*
 * Functions that write one record into a reply. These functions reserve the record's space, write its fixed part, and find out whether the
 * message already has the record. Only the files that implement reply.h use them.
 */
#ifndef KUBEDNS_ANSWER_RECORD_H
#define KUBEDNS_ANSWER_RECORD_H

#include <string.h>

#include "kubedns/answer/reply.h"

/* Reserves `len` bytes for a complete record. Returns NULL if it does not fit. */
static inline uint8_t *
record_reserve(struct reply *reply, size_t len)
{
	struct writer *w = &reply->w;

	if (reply->full || len > w->max - w->len) {
		reply->full = true;
		if (reply->section == SECTION_ANSWER)
			reply->truncated = true;
		return NULL;
	}
	w->len += len;
	reply->counts[reply->section]++;
	return w->buf + w->len - len;
}

/* Writes a complete record unless the message already has it. */
void record_dedup(struct reply *reply, const uint8_t *record, size_t len);

/* Returns whether a record or a target with these bytes was written. Requires reply->table. */
bool record_known(struct reply *reply, const uint8_t *bytes, size_t len);

/* Returns false if an earlier call was for the same name as the name at `offset`. Requires reply->table. */
bool record_name_is_new(struct reply *reply, size_t offset, size_t len);

/* Writes a record up to its RDATA. Returns the start of the RDATA. */
static inline uint8_t *
record_head(uint8_t *p, size_t owner, uint16_t type, uint32_t ttl_s, size_t rdata_len)
{
	wire_put16(p, 0xc000 | (unsigned)owner);
	wire_put16(p + 2, type);
	wire_put16(p + 4, CLASS_IN);
	wire_put32(p + 6, ttl_s);
	wire_put16(p + 10, (unsigned)rdata_len);
	return p + 12;
}

/* Writes an address record. Inline, because a set may have thousands of them. */
static inline void
record_addr(struct reply *reply, size_t owner, uint8_t family, const uint8_t *bytes)
{
	size_t len = family == AF_INET ? 4 : 16;
	uint16_t type = family == AF_INET ? TYPE_A : TYPE_AAAA;
	uint8_t record[28];
	uint8_t *p = reply->dedup ? record : record_reserve(reply, 12 + len);

	if (p != NULL)
		memcpy(record_head(p, owner, type, reply->config->ttl_s, len), bytes, len);
	if (reply->dedup)
		record_dedup(reply, record, 12 + len);
}

#endif
