/* upstreamNameservers: a value or a reason, and each accepted server reads back as itself. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "lib/conf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct conf_upstreams upstreams;
	char *why, text[SERVER_TEXT_MAX];

	if (conf_upstreams_parse((const char *)data, size, &upstreams, &why) < 0 &&
	    (why == NULL || upstreams.count))
		abort();
	free(why);
	for (size_t i = 0; i < upstreams.count; i++) {
		struct server again;

		server_format(&upstreams.servers[i], text);
		if (server_parse(text, 53, &again, NULL) < 0 ||
		    !server_equal(&again, &upstreams.servers[i]))
			abort();
	}
	return 0;
}
