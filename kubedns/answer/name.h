/*
 * A DNS name with the offsets of its labels, as every lookup needs it. Pure.
 */
#ifndef KUBEDNS_ANSWER_NAME_H
#define KUBEDNS_ANSWER_NAME_H

#include "lib/dname.h"

/* A name and where its labels begin, borrowed; `wire` is lower case, and the 7 bytes behind its end
 * can be read. */
struct name {
	const uint8_t *wire;
	const uint8_t *offsets; /* of the labels, first to last */
	uint8_t len;
	uint8_t count; /* labels */
};

/* The memory of a name that is not the question's. A struct name points into it, so it is not copied. */
struct name_buf {
	uint8_t wire[DNAME_MAX + 8], offsets[DNAME_LABELS_MAX];
};

/* Copies a name of `len` bytes, which is lower case, into the buffer and finds its labels. */
struct name name_copy(struct name_buf *buf, const uint8_t *wire, size_t len);

/* The same for a name in any case. */
struct name name_copy_lower(struct name_buf *buf, const uint8_t *wire, size_t len);

/* How many labels of `name` stand before `zone` (0: it is the zone), or -1 if it is not in it. */
int name_below(const struct name *name, const struct dname *zone);

/* Compares the last bytes first, where names of other zones differ. Inline for every query. */
static inline bool
name_same_bytes(const uint8_t *a, const uint8_t *b, size_t len)
{
	if (len < 8)
		return memcmp(a, b, len) == 0;
	if (memcmp(a + len - 8, b + len - 8, 8) != 0)
		return false;
	for (size_t at = 0; at + 8 < len; at += 8)
		if (memcmp(a + at, b + at, 8) != 0)
			return false;
	return true;
}

/* name_below(), inline for every query. */
static inline int
name_labels_below(const struct name *name, const struct dname *zone)
{
	if (name->len < zone->len ||
	    !name_same_bytes(name->wire + name->len - zone->len, zone->wire, zone->len))
		return -1;
	/* Only a label border counts: "xcluster.local" is not below "cluster.local". */
	unsigned at = (unsigned)name->len - zone->len;
	for (unsigned i = name->count; i-- > 0 && name->offsets[i] >= at;)
		if (name->offsets[i] == at)
			return (int)i;
	return zone->len == 1 ? name->count : -1;
}

#endif
