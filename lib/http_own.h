/* A second listener for http.c, at the pod's own address (own_loopback.h). Private to http.c. */
#ifndef LIB_HTTP_OWN_H
#define LIB_HTTP_OWN_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/addr.h"

struct MHD_Connection;
struct MHD_Daemon;

/* All zeros: there is none. */
struct http_own {
	struct addr addr;
	int fd;
	int epoll_fd;     /* readable when this listener or libmicrohttpd's epoll is */
	int64_t again_ms; /* the listener is out of it until then: no descriptors; 0: it is in */
};

/* 0, or -errno after one log line. */
int http_own_open(struct http_own *own, int daemon_epoll, const struct addr *addr, uint16_t port);

/* Hands the daemon what has arrived. Out of descriptors or memory it is tried again at `again_ms`,
 * and until then the listener wakes nobody. */
void http_own_accept(struct http_own *own, struct MHD_Daemon *daemon);

/*
 * Whether a connection was made to the own address of the other pod: our wildcard listener gets such
 * connections while the other pod does not listen.
 */
bool http_own_is_others(const struct http_own *own, struct MHD_Connection *mhd);

void http_own_close(struct http_own *own);

#endif
