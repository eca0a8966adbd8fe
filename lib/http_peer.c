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
	static const uint8_t loopback6[16] = { [15] = 1 };
	struct server peer;

	if (info == NULL || server_from_sockaddr(info->client_addr, &peer) < 0)
		return false;
	if (peer.addr.family == AF_INET)
		return peer.addr.bytes[0] == 127;
	return memcmp(peer.addr.bytes, loopback6, sizeof(loopback6)) == 0;
}

/*
 * A web page may make the operator's browser resolve the page's own name to 127.0.0.1 and ask us
 * from there (DNS rebinding). It cannot make the browser send another Host than that name, so what
 * is for loopback only goes to `localhost` and addresses.
 */
static bool
host_is_local(struct MHD_Connection *mhd)
{
	static const char name[] = "localhost";
	const char *host = MHD_lookup_connection_value(mhd, MHD_HEADER_KIND, MHD_HTTP_HEADER_HOST);
	struct server server;

	if (host == NULL)
		return true;
	if (strncasecmp(host, name, sizeof(name) - 1) == 0)
		return host[sizeof(name) - 1] == '\0' || host[sizeof(name) - 1] == ':';
	return server_parse(host, 80, &server, NULL) == 0;
}

bool
http_peer_is_local(struct MHD_Connection *mhd)
{
	return peer_is_loopback(mhd) && host_is_local(mhd);
}
