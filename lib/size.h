/* Sizes of memory as flags have them. */
#ifndef LIB_SIZE_H
#define LIB_SIZE_H

#include <stddef.h>

enum { SIZE_MOST = 1024 * 1024 * 1024 };

/* Reads a size: bytes, or k, M or G in either case, with or without an i. All are powers of 1,024,
 * where Kubernetes's own k, M and G are powers of 1,000. 0 or -EINVAL; a size of more than SIZE_MOST
 * comes out as more than SIZE_MOST. */
int size_parse(const char *text, size_t *bytes);

#endif
