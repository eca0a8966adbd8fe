/*
 * --recorder and --answer-cache: sizes of memory.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "kubedns/options_internal.h"
#include "kubedns/serve/answer_cache.h"

enum { RECORDER_LEAST = 256 * 1024, SIZE_MOST = 1024 * 1024 * 1024 };

/* Reads a size as Kubernetes writes it: 2M, 512k, 1Gi. */
static int
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

/* A size of at least `least_bytes`, or "off": 0. */
static int
read_size(const char *flag, const char *text, size_t least_bytes, const char *why, size_t *bytes)
{
	*bytes = 0;
	if (strcmp(text, "off") == 0)
		return 0;
	if (size_parse(text, bytes) < 0 || *bytes < least_bytes || *bytes > SIZE_MOST)
		return options_refuse(flag, text, why);
	return 0;
}

int
options_read_sizes(struct options *o)
{
	int recorder = read_size("recorder", o->recorder_text, RECORDER_LEAST,
	    "must be off, or a size from 256k to 1G, such as 2M", &o->recorder_bytes);
	int cache = read_size("answer-cache", o->answer_cache_text, ANSWER_CACHE_LEAST,
	    "must be off, or a size from 64k to 1G, such as 1M", &o->answer_cache_bytes);

	return recorder < 0 ? recorder : cache;
}
