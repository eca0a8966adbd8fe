/* Whether a request comes from the pod itself. Private to http.c. */
#ifndef LIB_HTTP_PEER_H
#define LIB_HTTP_PEER_H

#include <stdbool.h>

struct MHD_Connection;

/*
 * Returns true if the client connects from 127.0.0.1 or ::1, its Host header is an address or
 * localhost, and no header shows that a proxy forwarded the request. Other addresses of 127.0.0.0/8
 * do not count, because a service mesh's proxy in the pod connects from 127.0.0.6 on behalf of all
 * clients.
 */
bool http_peer_is_local(struct MHD_Connection *mhd);

#endif
