/* Formats numbers for people. Each function writes into `text` of FORMAT_MAX bytes and returns it. */
#ifndef SIDECAR_FORMAT_H
#define SIDECAR_FORMAT_H

#include <stdint.h>

enum { FORMAT_MAX = 32 };

/* Formats a latency: "0.31 ms", "12 ms", "1.2 s"; "-" for NaN. */
const char *format_ms(double ms, char *text);

/* Formats a duration: "less than a second", "35 seconds", "12 minutes", "3 hours", "9 days". */
const char *format_duration(double seconds, char *text);

/* Formats a count: "1,234,567". */
const char *format_count(uint64_t count, char *text);

/* Formats a Unix time: "2026-11-21 12:00:00 UTC"; "never" for 0. */
const char *format_time(double wall_s, char *text);

/* Returns a copy of `text` with U+FFFD in place of every byte that is not valid UTF-8. Caller frees. */
char *format_utf8(const char *text);

/* Like format_utf8, for a terminal: also replaces unsafe characters (lib/utf8.h) except tab and newline. */
char *format_plain(const char *text);

#endif
