/* Server specifications. The canonical text and the socket address of an accepted specification
 * must parse to the same server. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "lib/addr.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = strndup((const char *)data, size), canonical[SERVER_TEXT_MAX];
	struct server server, again;
	struct sockaddr_storage ss;
	const char *why = NULL;

	if (server_parse(text, 53, &server, &why) < 0) {
		if (why == NULL)
			abort();
	} else {
		server_format(&server, canonical);
		if (server.port == 0 || server_parse(canonical, 1, &again, NULL) < 0 ||
		    !server_equal(&server, &again))
			abort();
		server_sockaddr(&server, &ss);
		if (server_from_sockaddr((const struct sockaddr *)&ss, &again) < 0 ||
		    server.port != again.port)
			abort();
	}
	free(text);
	return 0;
}
