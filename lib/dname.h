/*
 * DNS names in wire format (RFC 1035 section 3.1): length-prefixed labels, ending with the root's
 * zero byte, at most 255 bytes. All comparisons ignore ASCII case (RFC 4343). Nothing here
 * allocates memory.
 */
#ifndef LIB_DNAME_H
#define LIB_DNAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum {
	DNAME_MAX = 255, /* bytes on the wire, including the root */
	DNAME_LABEL_MAX = 63,
	DNAME_LABELS_MAX = 127,
	DNAME_TEXT_MAX = 1025, /* 255 bytes as \DDD, dots and the NUL */
};

/* A name and its length in bytes (1..255), including the root. */
struct dname {
	uint8_t len;
	uint8_t wire[DNAME_MAX];
};

/* Parses presentation format (RFC 1035 section 5.1, with escapes). Adds a missing final dot.
 * Returns 0 or -EINVAL. */
int dname_from_text(struct dname *name, const char *text);

/* Reads one byte of presentation format at `*text` and moves `*text` past it. Returns -1 if a
 * backslash is followed by neither a character nor three digits up to 255. */
int dname_octet(const char **text);

/* Writes presentation format with a final dot into `text` of DNAME_TEXT_MAX bytes; returns it.
 * `wire` must be a complete, valid name. */
const char *dname_to_text(const uint8_t *wire, char *text);

/* Returns the length of the name at `wire` in bytes. Returns 0 if the name is incomplete,
 * compressed or longer than `max`. */
size_t dname_length(const uint8_t *wire, size_t max);

/* Converts A-Z to a-z in place. `wire` may be a complete wire name, because its length bytes are
 * below 'A'. */
void dname_lower(uint8_t *wire, size_t len);

/*
 * Converts eight bytes at once, because every query's name is converted. For each byte, one sum
 * sets bit 7 if its low seven bits are 'A' or above. Another sum sets bit 7 if they are above 'Z'.
 * If the two bits differ and the byte is below 128, the byte is a capital letter.
 */
static inline uint64_t
dname_lower_eight(uint64_t bytes)
{
	const uint64_t each = 0x0101010101010101, high = 0x80 * each;
	uint64_t low = bytes & ~high;
	uint64_t from_a = low + (0x80 - 'A') * each, beyond_z = low + (0x7f - 'Z') * each;

	return bytes | (((from_a ^ beyond_z) & ~bytes & high) >> 2);
}

static inline void
dname_lower_at(uint8_t *wire)
{
	uint64_t bytes;

	memcpy(&bytes, wire, sizeof bytes);
	bytes = dname_lower_eight(bytes);
	memcpy(wire, &bytes, sizeof bytes);
}

bool dname_equal(const uint8_t *a, const uint8_t *b);

/* Returns the number of labels, without the root. */
unsigned dname_labels(const uint8_t *wire);

/* If `name` is `zone` or below it, returns the offset in `name` at which the zone begins. Otherwise
 * returns -1. */
int dname_in_zone(const uint8_t *name, const uint8_t *zone);

/* Prepends one label of `len` bytes to `name`, in place. Returns 0 or -ENAMETOOLONG. */
int dname_prepend(struct dname *name, const void *label, size_t len);

/* Appends the labels of `suffix` to `name`, in place. Returns 0 or -ENAMETOOLONG. */
int dname_append(struct dname *name, const uint8_t *suffix);

/* Compares in the canonical order of RFC 4034 section 6.1. Returns a negative number, 0 or a
 * positive number. */
int dname_compare(const uint8_t *a, const uint8_t *b);

/* Whether `label` is an RFC 1123 label: 1..63 of a-z, A-Z, 0-9 and '-', without '-' at either end. */
bool dname_label_ok(const char *label, size_t len);

#endif
