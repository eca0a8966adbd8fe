#include <errno.h>

#include "lib/reply_walk.h"

bool
reply_walk_begin(struct reply_walk *walk, const uint8_t *wire, size_t len)
{
	struct dname name;

	walk->wire = wire;
	walk->len = len;
	walk->at = DNS_HEADER;
	walk->section = WALK_ANSWER;
	if (len < DNS_HEADER)
		return false;
	for (unsigned s = 0; s < WALK_SECTIONS; s++)
		walk->left[s] = wire_get16(wire + 6 + 2 * s);
	for (unsigned questions = wire_get16(wire + 4); questions > 0; questions--) {
		if (wire_read_name(wire, len, &walk->at, &name) < 0 || len - walk->at < 4)
			return false;
		walk->at += 4; /* type and class */
	}
	return true;
}

int
reply_walk_next(struct reply_walk *walk)
{
	while (walk->section < WALK_ADDITIONAL && walk->left[walk->section] == 0)
		walk->section++;
	if (walk->left[walk->section] == 0)
		return 0;
	walk->left[walk->section]--;
	return wire_read_record(walk->wire, walk->len, &walk->at, &walk->record) < 0 ? -EBADMSG : 1;
}

int
reply_walk_target(const struct reply_walk *walk, size_t fixed, struct dname *target)
{
	const struct record *record = &walk->record;
	size_t at = (size_t)(record->rdata - walk->wire) + fixed;

	if (record->rdata_len <= fixed ||
	    wire_read_name(walk->wire, record->end, &at, target) < 0 || at != record->end)
		return -EBADMSG;
	return 0;
}
