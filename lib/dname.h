/*
 * DNS names in wire form (RFC 1035 section 3.1): length-prefixed labels ending in the root's zero
 * byte, at most 255 bytes. Comparison ignores ASCII case everywhere (RFC 4343). Nothing here
 * allocates.
 */
#ifndef LIB_DNAME_H
#define LIB_DNAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum {
	DNAME_MAX = 255, /* bytes on the wire, root included */
	DNAME_LABEL_MAX = 63,
	DNAME_LABELS_MAX = 127,
	DNAME_TEXT_MAX = 1025, /* 255 bytes each as \DDD, dots, NUL */
};

/* A name with its length in bytes, root included: 1..255. */
struct dname {
	uint8_t len;
	uint8_t wire[DNAME_MAX];
};

/* Parses presentation form (RFC 1035 section 5.1 escapes; a missing final dot is added); 0 or
 * -EINVAL. */
int dname_from_text(struct dname *name, const char *text);

/* The byte that stands at `*text` in presentation form, which is moved behind it; -1: a backslash with
 * neither a character nor three digits up to 255 behind it. */
int dname_octet(const char **text);

/* Writes presentation form with a final dot into `text` of DNAME_TEXT_MAX bytes; returns it. `wire`
 * must be a whole valid name. */
const char *dname_to_text(const uint8_t *wire, char *text);

/* Bytes of the name at `wire` if it is whole, uncompressed and within `max`, else 0. */
size_t dname_length(const uint8_t *wire, size_t max);

/* Folds A-Z to a-z in place; works on whole wire names since length bytes are below 'A'. */
void dname_lower(uint8_t *wire, size_t len);

/*
 * Eight bytes at a time, since every query is folded here. Two sums over the low seven bits of each
 * byte carry into the eighth bit, one from 'A' on, the other from 'Z' + 1 on: where the carries
 * differ and the byte is below 128, it is a capital.
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

/* Labels without the root. */
unsigned dname_labels(const uint8_t *wire);

/* If `name` is `zone` or below it: the offset in `name` at which the zone begins, else -1. */
int dname_in_zone(const uint8_t *name, const uint8_t *zone);

/* Puts one label of `len` bytes before `name`, in place; 0 or -ENAMETOOLONG. */
int dname_prepend(struct dname *name, const void *label, size_t len);

/* Appends the labels of `suffix` to `name`, in place; 0 or -ENAMETOOLONG. */
int dname_append(struct dname *name, const uint8_t *suffix);

/* Canonical order of RFC 4034 section 6.1: negative, 0 or positive. */
int dname_compare(const uint8_t *a, const uint8_t *b);

/* Whether `label` is an RFC 1123 label:
 * 1..63 of a-z 0-9 '-' (upper case allowed), no '-' at either end. */
bool dname_label_ok(const char *label, size_t len);

#endif
