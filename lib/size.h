/* Sizes of memory as flags have them. */
#ifndef LIB_SIZE_H
#define LIB_SIZE_H

#include <stddef.h>

enum { SIZE_MOST = 1024 * 1024 * 1024 };

/* Reads a size as Kubernetes writes it, in powers of 1,024: 2M, 512k, 1Gi. 0 or -EINVAL; what is more
 * than SIZE_MOST comes out as more than that. */
int size_parse(const char *text, size_t *bytes);

#endif
