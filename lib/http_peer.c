#include <microhttpd.h>
#include <string.h>
#include <strings.h>

#include "lib/addr.h"
#include "lib/http_peer.h"

static bool
peer_is_loopback(struct MHD_Connection *mhd)
{
	const union MHD_ConnectionInfo *info =
	    MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
	static const struct addr loopbacks[] = { { AF_INET, { 127, 0, 0, 1 } },
		{ AF_INET6, { [15] = 1 } } };
	struct server peer;

	return info != NULL && server_from_sockaddr(info->client_addr, &peer) == 0 &&
	       (addr_equal(&peer.addr, &loopbacks[0]) || addr_equal(&peer.addr, &loopbacks[1]));
}

/* A MHD_KeyValueIterator that stops at a header added by a proxy. */
static enum MHD_Result
find_proxy_header(void *arg, enum MHD_ValueKind kind, const char *name, const char *value)
{
	static const char *const prefixes[] = { "X-Forwarded-", "Forwarded", "Via", "X-Real-IP",
		"X-Envoy-" };
	bool *found = arg;

	(void)kind;
	(void)value;
	for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++)
		*found = *found || strncasecmp(name, prefixes[i], strlen(prefixes[i])) == 0;
	return *found ? MHD_NO : MHD_YES;
}

static bool
came_by_proxy(struct MHD_Connection *mhd)
{
	bool found = false;

	MHD_get_connection_values(mhd, MHD_HEADER_KIND, find_proxy_header, &found);
	return found;
}

/*
 * Protects against DNS rebinding. A web page may make the operator's browser resolve the page's
 * name to 127.0.0.1 and send requests to us. The browser still sends the page's name as Host. Local
 * requests therefore need a Host that is `localhost` or an address.
 */
static bool
host_is_local(struct MHD_Connection *mhd)
{
	static const char name[] = "localhost";
	const char *host = MHD_lookup_connection_value(mhd, MHD_HEADER_KIND, MHD_HTTP_HEADER_HOST);
	struct server server;

	if (host == NULL)
		return true;
	if (strncasecmp(host, name, sizeof name - 1) == 0)
		return host[sizeof name - 1] == '\0' || host[sizeof name - 1] == ':';
	return server_parse(host, 80, &server, NULL) == 0;
}

bool
http_peer_is_local(struct MHD_Connection *mhd)
{
	return peer_is_loopback(mhd) && host_is_local(mhd) && !came_by_proxy(mhd);
}
