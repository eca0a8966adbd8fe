/* Whether a request comes from the pod itself. Private to http.c. */
#ifndef LIB_HTTP_PEER_H
#define LIB_HTTP_PEER_H

#include <stdbool.h>

struct MHD_Connection;

/* The peer is 127.0.0.0/8 or ::1, v4-mapped included, and asks by address or as localhost. */
bool http_peer_is_local(struct MHD_Connection *mhd);

#endif
