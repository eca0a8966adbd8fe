/*
 * Finds the end of a JSON value, 64 bytes at a time. Most bytes of an object are of no use to DNS
 * (managedFields alone is often half of them), and nothing but this scan reads them.
 *
 *	{"metadata":{"managedFields":[{"f:x":{"k:{\"a\":1}":{}}}], ...
 *	                             ^ json_skip_nested() goes from here ^ to here
 *
 * A block of 64 bytes becomes four bit masks (quotes, backslashes, opening and closing brackets).
 * The running parity of the quotes tells which bytes are inside a string; brackets outside of
 * strings are counted. Nothing is validated except that the numbers of brackets match.
 */
#ifndef KUBEDNS_API_JSON_SKIP_H
#define KUBEDNS_API_JSON_SKIP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Where a scan stands between two pieces of the input; all zero before the opening bracket. */
struct json_skip {
	uint64_t depth;
	bool in_string;
	bool escaped; /* the next byte follows an unescaped backslash */
};

/*
 * Goes on in an object or array; returns the position after its closing bracket, or NULL when the
 * input ended before it (`scan` then remembers).
 */
const char *json_skip_nested(struct json_skip *scan, const char *p, const char *end);

/*
 * From a string's opening quote to the position after its closing one, or NULL; sets `*escapes` if
 * it holds a backslash.
 */
const char *json_skip_string(const char *p, const char *end, bool *escapes);

/*
 * The position after the value that begins at `p` (any value, no leading space), or NULL if it does
 * not end before `end`.
 */
const char *json_skip_value(const char *p, const char *end);

/* The first byte from `p` on that is no JSON white space, or `end`. */
static inline const char *
json_skip_space(const char *p, const char *end)
{
	while (p < end && (*p == ' ' || *p == '\n' || *p == '\t' || *p == '\r'))
		p++;
	return p;
}

#endif
