/*
 * Iterates over the records of a reply, through its three sections: the one place where messages of
 * other servers are parsed. The meaning of a record is left to the caller.
 *
 *	struct reply_walk walk;
 *	if (!reply_walk_begin(&walk, wire, len))
 *		malformed
 *	while ((more = reply_walk_next(&walk)) > 0)
 *		walk.record in walk.section
 *	more < 0: malformed
 *
 * Nothing is copied: the message must stay valid during the walk. The cost is linear in the
 * message's length, with at most 127 pointers for each name (wire_read_name).
 */
#ifndef LIB_REPLY_WALK_H
#define LIB_REPLY_WALK_H

#include "lib/wire.h"

enum walk_section { WALK_ANSWER, WALK_AUTHORITY, WALK_ADDITIONAL, WALK_SECTIONS };

struct reply_walk {
	const uint8_t *wire;
	size_t len;
	size_t at;                    /* after what has been read */
	unsigned left[WALK_SECTIONS]; /* records that are still to come, by the header's counts */
	enum walk_section section;    /* of the record */
	struct record record;         /* the last that was read */
};

/* Reads the header and steps over the questions, however many there are; false: malformed. */
bool reply_walk_begin(struct reply_walk *walk, const uint8_t *wire, size_t len);

/* Reads the next record. 1; 0 after the last one; -EBADMSG. */
int reply_walk_next(struct reply_walk *walk);

/* Whether the message ends where its last record does. */
static inline bool
reply_walk_ended(const struct reply_walk *walk)
{
	return walk->at == walk->len;
}

/*
 * The name at the end of the record's RDATA, after `fixed` bytes (CNAME, NS, PTR: 0, MX: 2, SRV:
 * 6), expanded; 0 or -EBADMSG.
 */
int reply_walk_target(const struct reply_walk *walk, size_t fixed, struct dname *target);

#endif
