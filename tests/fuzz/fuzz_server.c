/* A stub server's specification in stubDomains. An accepted specification is an address, or a name
 * that is safe to print and to look up. Its text must parse to the same server. */
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
	} else {
		struct conf_server again;
		char written[CONF_SERVER_TEXT_MAX];

		if (server.server.port == 0 ||
		    (server.host[0] ? dname_from_text(&name, server.host) < 0
				    : conf_addr_useless(&server.server.addr, &why)) ||
		    (server.tls_name[0] &&
			(server.host[0] || dname_from_text(&name, server.tls_name) < 0)))
			abort();
		if (conf_server_parse(conf_server_format(&server, written), &again, &why) < 0 ||
		    !conf_server_equal(&server, &again))
			abort();
	}
	free(text);
	return 0;
}
