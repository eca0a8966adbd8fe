/*
 * --log-queries and --dnstap: what is told of answers as they are given.
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

static int
read_dnstap(struct options *o)
{
	const char *why;

	return dnstap_target_parse(o->dnstap_text, &o->dnstap, &why) == 0
		   ? 0
		   : options_refuse("dnstap", o->dnstap_text, why);
}

int
options_read_log(struct options *o, const struct flags_common *common)
{
	if (flags_given(common, "dnstap") && read_dnstap(o) < 0)
		return -EINVAL;
	o->wants_query_log = flags_given(common, "log-queries");
	return o->wants_query_log ? read_query_log(o) : 0;
}
