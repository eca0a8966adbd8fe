/* Allocation that cannot fail. If memory runs out, the process logs a line and exits. A DNS server
 * that silently lost an update is worse than a DNS server that the kubelet restarts. */
#ifndef LIB_XALLOC_H
#define LIB_XALLOC_H

#include <stddef.h>

/* Uninitialised memory of `size` bytes; caller frees with free(). */
void *xmalloc(size_t size);

/* Zeroed memory for `count` items of `size` bytes; caller frees with free(). */
void *xcalloc(size_t count, size_t size);

/* Grows or shrinks `ptr` (or NULL) to `count * size` bytes and checks for overflow. Takes `ptr`. */
void *xreallocarray(void *ptr, size_t count, size_t size);

/* Returns a copy of the NUL-terminated `s`; caller frees with free(). */
char *xstrdup(const char *s);

/* Returns a NUL-terminated copy of the first `len` bytes of `s`; caller frees with free(). */
char *xstrndup(const char *s, size_t len);

/* Formats like printf into newly allocated memory. Caller frees with free(). */
char *xasprintf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
