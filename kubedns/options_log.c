/*
 * --recorder and --log-queries: what is recorded of each answer.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "kubedns/options_internal.h"
#include "lib/log.h"

enum { RECORDER_LEAST = 256 * 1024, RECORDER_MOST = 1024 * 1024 * 1024 };

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
			n = n > RECORDER_MOST ? n : n * 1024;
	}
	*bytes = errno != 0 || n > SIZE_MAX ? SIZE_MAX : (size_t)n;
	return 0;
}

static int
read_query_log(struct options *o)
{
	char *part = NULL;
	const char *why;

	if (query_log_wish_parse(&o->query_log, o->log_queries, &part, &why) < 0) {
		log_errorx("--log-queries: \"%s\": %s is needed", part, why);
		free(part);
		return -EINVAL;
	}
	if (o->recorder_bytes > 0)
		return 0;
	log_errorx("--log-queries writes what the recorder has: leave out --recorder=off");
	return -EINVAL;
}

int
options_read_log(struct options *o, const struct flags_common *common)
{
	if (strcmp(o->recorder_text, "off") != 0 &&
	    (size_parse(o->recorder_text, &o->recorder_bytes) < 0 ||
		o->recorder_bytes < RECORDER_LEAST || o->recorder_bytes > RECORDER_MOST))
		return options_refuse("recorder", o->recorder_text,
		    "must be off, or a size from 256k to 1G, such as 2M");
	o->wants_query_log = flags_given(common, "log-queries");
	return o->wants_query_log ? read_query_log(o) : 0;
}
