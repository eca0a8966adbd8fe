/* Numbers as people read them. Each writes into `text` of FORMAT_MAX bytes and returns it. */
#ifndef SIDECAR_FORMAT_H
#define SIDECAR_FORMAT_H

#include <stdint.h>

enum { FORMAT_MAX = 32 };

/* "0.31 ms", "12 ms", "1.2 s"; "-" for NaN. */
const char *format_ms(double ms, char *text);

/* "less than a second", "35 seconds", "12 minutes", "3 hours", "9 days". */
const char *format_duration(double seconds, char *text);

/* "1,234,567". */
const char *format_count(uint64_t count, char *text);

/* "2026-11-21 12:00:00 UTC" of a wall clock in seconds; "never" for 0. */
const char *format_time(double wall_s, char *text);

/* A copy of `text` in which every byte that is not valid UTF-8 is U+FFFD; caller frees. */
char *format_utf8(const char *text);

/* The same for a terminal: unsafe characters (lib/utf8.h) other than tab and newline are U+FFFD
 * too. */
char *format_plain(const char *text);

#endif
