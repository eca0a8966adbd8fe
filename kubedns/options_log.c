/*
 * --log-queries: what is written of the recorded answers.
 */
#include <errno.h>
#include <stdlib.h>

#include "kubedns/options_internal.h"
#include "lib/log.h"

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
	o->wants_query_log = flags_given(common, "log-queries");
	return o->wants_query_log ? read_query_log(o) : 0;
}
