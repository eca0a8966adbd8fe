#include "lib/size.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int
size_parse(const char *text, size_t *bytes)
{
	static const char units[] = "kmg";
	char *end;
	if (*text < '0' || *text > '9')
		return -EINVAL;
	errno = 0;
	unsigned long long n = strtoull(text, &end, 10);
	if (*end != '\0') {
		const char *unit = strchr(units, *end | 0x20);
		if (unit == NULL || (strcmp(end + 1, "") != 0 && strcmp(end + 1, "i") != 0))
			return -EINVAL;
		for (const char *u = units; u <= unit; u++)
			n = n > SIZE_MOST ? n : n * 1024;
	}
	*bytes = errno != 0 || n > SIZE_MAX ? SIZE_MAX : (size_t)n;
	return 0;
}
