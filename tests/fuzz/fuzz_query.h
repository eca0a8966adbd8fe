/*
 * Makes a query from the input of a fuzz target for answers:
 *
 *	options; then, with the RAW bit, the whole message, else
 *	the type (2 bytes), the name's end (an entry of `names`), labels before it
 */
#ifndef TESTS_FUZZ_FUZZ_QUERY_H
#define TESTS_FUZZ_FUZZ_QUERY_H

#include <string.h>

#include "lib/dname.h"
#include "lib/wire.h"

enum { OPTION_RAW = 1, OPTION_EDNS = 8 };

/* Writes the query from the bytes after the options. Returns its length, at most `max`. */
static inline size_t
fuzz_query(const uint8_t *data, size_t size, uint8_t options, const char *const *names,
    size_t name_count, uint8_t *out, size_t max)
{
	struct dname name;

	if (options & OPTION_RAW) {
		memcpy(out, data, size < max ? size : max);
		return size < max ? size : max;
	}
	if (size < 3 || dname_from_text(&name, names[data[2] % name_count]) != 0)
		return 0;
	for (size_t at = 3; at < size;) {
		size_t len = data[at] % 64;

		if (len > size - at - 1 || dname_prepend(&name, data + at + 1, len) < 0)
			break;
		at += 1 + len;
	}
	return query_write(out, max, 1, name.wire, wire_get16(data), CLASS_IN,
	    options & OPTION_EDNS ? (uint16_t)(512 + 16 * options) : 0);
}

#endif
