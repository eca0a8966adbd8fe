/*
 * A DNS name with the offsets of its labels, which every lookup needs. Pure.
 */
#ifndef KUBEDNS_ANSWER_NAME_H
#define KUBEDNS_ANSWER_NAME_H

#include "lib/dname.h"

/* A name and the offsets of its labels. A struct name does not own its memory. `wire` is lower
 * case, and the 7 bytes after its end must be readable. */
struct name {
	const uint8_t *wire;
	const uint8_t *offsets; /* offsets of the labels, from first to last */
	uint8_t len;
	uint8_t count; /* number of labels */
};

/* Memory for a name other than the name in the question. A struct name points into it, so it
 * must not be copied. */
struct name_buf {
	uint8_t wire[DNAME_MAX + 8], offsets[DNAME_LABELS_MAX];
};

/* Copies a name of `len` bytes, which is lower case, into the buffer, and computes the offsets of
 * its labels. */
struct name name_copy(struct name_buf *buf, const uint8_t *wire, size_t len);

/* Computes the offsets for a lower-case name that was written to buf->wire. */
struct name name_in_buf(struct name_buf *buf, size_t len);

/* Like name_copy(), for a name in any case. */
struct name name_copy_lower(struct name_buf *buf, const uint8_t *wire, size_t len);

/* Returns the number of labels that `name` has before the name of `zone`. The number is 0 for
 * the zone's own name. Returns -1 if `name` is not in the zone. */
int name_below(const struct name *name, const struct dname *zone);

/* Compares the last bytes first, because names in other zones differ there. Inline, because every
 * query needs it. */
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

/* name_below(), inline, because every query needs it. */
static inline int
name_labels_below(const struct name *name, const struct dname *zone)
{
	if (name->len < zone->len ||
	    !name_same_bytes(name->wire + name->len - zone->len, zone->wire, zone->len))
		return -1;
	/* Only a label boundary counts: "xcluster.local" is not below "cluster.local". */
	unsigned at = (unsigned)name->len - zone->len;
	for (unsigned i = name->count; i-- > 0 && name->offsets[i] >= at;)
		if (name->offsets[i] == at)
			return (int)i;
	return zone->len == 1 ? name->count : -1;
}

#endif
