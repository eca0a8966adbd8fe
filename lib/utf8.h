/* UTF-8 as RFC 3629 allows it: shortest forms only, no surrogates, nothing beyond U+10FFFF. */
#ifndef LIB_UTF8_H
#define LIB_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes (1..4) of the character at `text`, of which `max` > 0 bytes are readable, its code point in
 * `cp`; 0 if it is not one. */
size_t utf8_read(const char *text, size_t max, uint32_t *cp);

/* Whether the character ends a line, drives a terminal or changes the order in which text is read: C0, DEL,
 * C1, line separators, bidi controls. */
bool utf8_unsafe(uint32_t cp);

/* Bytes at the start of `text` that are whole characters, of `len`: all of them, or those before the
 * first that is wrong or cut off. */
size_t utf8_whole(const char *text, size_t len);

#endif
