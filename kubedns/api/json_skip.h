/*
 * Finds the end of a JSON value, 64 bytes at a time. DNS does not need most bytes of an object
 * (managedFields alone is often half of them), and only this scan reads them.
 *
 *	{"metadata":{"managedFields":[{"f:x":{"k:{\"a\":1}":{}}}], ...
 *	                             ^ json_skip_nested() goes from here ^ to here
 *
 * A block of 64 bytes becomes four bit masks (quotes, backslashes, opening and closing brackets).
 * The running parity of the quotes tells which bytes are inside a string; brackets outside of
 * strings are counted. The scan validates only that the numbers of brackets match.
 */
#ifndef KUBEDNS_API_JSON_SKIP_H
#define KUBEDNS_API_JSON_SKIP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* State of a scan between two pieces of the input. The state is all zero before the opening bracket. */
struct json_skip {
	uint64_t depth;
	bool in_string;
	bool escaped; /* the next byte follows an unescaped backslash */
};

/*
 * Continues in an object or array. Returns the position after its closing bracket. Returns NULL if
 * the input ends before that; `scan` then has the state for the next piece.
 */
const char *json_skip_nested(struct json_skip *scan, const char *p, const char *end);

/*
 * Returns the position after a string's closing quote, or NULL. `p` is at the opening quote. Sets
 * `*escapes` if the string contains a backslash.
 */
const char *json_skip_string(const char *p, const char *end, bool *escapes);

/*
 * Returns the position after the value that starts at `p`, or NULL if the value does not end before
 * `end`. The value may be of any type and has no leading space.
 */
const char *json_skip_value(const char *p, const char *end);

/* Returns the position of the first byte, from `p` on, that is not JSON white space; or `end`. */
static inline const char *
json_skip_space(const char *p, const char *end)
{
	while (p < end && (*p == ' ' || *p == '\n' || *p == '\t' || *p == '\r'))
		p++;
	return p;
}

#endif
