/* The ConfigMap key upstreamNameservers. The parser must return a value or a reason. The text of
 * each accepted server must parse to the same server. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "lib/conf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct conf_upstreams upstreams;
	char *why, text[CONF_SERVER_TEXT_MAX];

	if (conf_upstreams_parse((const char *)data, size, &upstreams, &why) < 0 &&
	    (why == NULL || upstreams.count))
		abort();
	free(why);
	for (size_t i = 0; i < upstreams.count; i++) {
		struct conf_server again;
		const char *reason;

		conf_server_format(&upstreams.servers[i], text);
		if (conf_server_parse(text, &again, &reason) < 0 ||
		    !conf_server_equal(&again, &upstreams.servers[i]))
			abort();
	}
	return 0;
}
