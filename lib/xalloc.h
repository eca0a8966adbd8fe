/*
 * Allocation that cannot fail: running out of memory ends the process with a log line, because a
 * DNS server that has lost an update without saying so is worse than one that the kubelet restarts.
 */
#ifndef LIB_XALLOC_H
#define LIB_XALLOC_H

#include <stddef.h>

/* Uninitialised memory of `size` bytes; caller frees with free(). */
void *xmalloc(size_t size);

/* Zeroed memory for `count` items of `size` bytes; caller frees with free(). */
void *xcalloc(size_t count, size_t size);

/* Grows or shrinks `ptr` (or NULL) to `count * size` bytes, overflow checked; takes `ptr`. */
void *xreallocarray(void *ptr, size_t count, size_t size);

/* A copy of the NUL-terminated `s`; caller frees with free(). */
char *xstrdup(const char *s);

/* A NUL-terminated copy of the first `len` bytes of `s`; caller frees with free(). */
char *xstrndup(const char *s, size_t len);

/* printf into fresh memory; caller frees with free(). */
char *xasprintf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
