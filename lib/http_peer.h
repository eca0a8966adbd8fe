/* Whether a request comes from the pod itself. Private to http.c. */
#ifndef LIB_HTTP_PEER_H
#define LIB_HTTP_PEER_H

#include <stdbool.h>

struct MHD_Connection;

/*
 * The peer is 127.0.0.1 or ::1, asks by address or as localhost, and no header says that a proxy
 * hands the request on. Not all of 127.0.0.0/8: a service mesh's proxy in the pod connects from
 * 127.0.0.6 for every client there is.
 */
bool http_peer_is_local(struct MHD_Connection *mhd);

#endif
