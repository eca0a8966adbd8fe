/*
 * The records of a reply, one after the other, over its three sections: the one place where a message
 * of another server's is taken apart. What a record means is its caller's.
 *
 *	struct reply_walk walk;
 *	if (!reply_walk_begin(&walk, wire, len))
 *		malformed
 *	while ((more = reply_walk_next(&walk)) > 0)
 *		walk.record in walk.section
 *	more < 0: malformed
 *
 * Nothing is copied: the message must stay while the walk goes on. Costs the message's length, and
 * 127 pointers a name at most (wire_read_name).
 */
#ifndef LIB_REPLY_WALK_H
#define LIB_REPLY_WALK_H

#include "lib/wire.h"

enum walk_section { WALK_ANSWER, WALK_AUTHORITY, WALK_ADDITIONAL, WALK_SECTIONS };

struct reply_walk {
	const uint8_t *wire;
	size_t len;
	size_t at;                    /* behind what has been read */
	unsigned left[WALK_SECTIONS]; /* records that are still to come, by the header's counts */
	enum walk_section section;    /* of the record */
	struct record record;         /* the last that was read */
};

/* Reads the header and steps over the questions, however many there are; false: malformed. */
bool reply_walk_begin(struct reply_walk *walk, const uint8_t *wire, size_t len);

/* Reads the next record. 1; 0 behind the last one; -EBADMSG. */
int reply_walk_next(struct reply_walk *walk);

/* Whether the message ends where its last record does. */
static inline bool
reply_walk_ended(const struct reply_walk *walk)
{
	return walk->at == walk->len;
}

/*
 * The name that the record's RDATA ends in, behind `fixed` bytes (CNAME, NS, PTR: 0, MX: 2, SRV: 6),
 * expanded; 0 or -EBADMSG.
 */
int reply_walk_target(const struct reply_walk *walk, size_t fixed, struct dname *target);

#endif
