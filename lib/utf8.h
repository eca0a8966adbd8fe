/* UTF-8 as in RFC 3629: shortest forms only, no surrogates, nothing above U+10FFFF. */
#ifndef LIB_UTF8_H
#define LIB_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Reads the character at `text`, of which `max` > 0 bytes are readable. Returns its length in bytes
 * (1..4) and sets `cp` to its code point. Returns 0 if the character is invalid. */
size_t utf8_read(const char *text, size_t max, uint32_t *cp);

/* Whether the character ends a line, controls a terminal or changes the reading order: C0, DEL, C1,
 * line separators and bidi controls. */
bool utf8_unsafe(uint32_t cp);

/* Returns the number of bytes at the start of `text` that are complete characters. This is `len`,
 * or the offset of the first invalid or incomplete character. */
size_t utf8_whole(const char *text, size_t len);

#endif
