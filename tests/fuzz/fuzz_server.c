/* A stub server's specification, as written in stubDomains: an address or a name that is safe to
 * show and to ask for. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "lib/conf.h"
#include "lib/dname.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = strndup((const char *)data, size);
	struct conf_server server;
	struct dname name;
	const char *why = NULL;

	if (conf_server_parse(text, &server, &why) < 0) {
		if (why == NULL)
			abort();
	} else if (server.server.port == 0 ||
		   (server.host[0] ? dname_from_text(&name, server.host) < 0
				   : conf_addr_useless(&server.server.addr, &why)))
		abort();
	free(text);
	return 0;
}
