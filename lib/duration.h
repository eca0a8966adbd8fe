/*
 * Durations as Go's time.ParseDuration reads them: 10s, 1m30s, 500ms.
 */
#ifndef LIB_DURATION_H
#define LIB_DURATION_H

/* Parses `text` into milliseconds, rounded up. Returns 0, or -EINVAL. */
int duration_parse(const char *text, long long *ms);

#endif
