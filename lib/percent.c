#include <string.h>

#include "lib/percent.h"
#include "lib/xalloc.h"

char *
percent_encode(const char *text)
{
	static const char unreserved[] =
	    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
	char *encoded = xmalloc(strlen(text) * 3 + 1), *out = encoded;

	for (; *text; text++) {
		if (strchr(unreserved, *text) != NULL) {
			*out++ = *text;
			continue;
		}
		*out++ = '%';
		*out++ = "0123456789ABCDEF"[(unsigned char)*text >> 4];
		*out++ = "0123456789ABCDEF"[(unsigned char)*text & 15];
	}
	*out = '\0';
	return encoded;
}
