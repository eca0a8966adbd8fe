/* Listeners of http.c beside its first, at the pod's own address (own_loopback.h) and at 127.0.0.1.
 * Private to http.c. */
#ifndef LIB_HTTP_OWN_H
#define LIB_HTTP_OWN_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/addr.h"

struct MHD_Connection;
struct MHD_Daemon;

enum { HTTP_OWN_MAX = 2 };

/* All zeros: there is none. */
struct http_own {
	struct addr addr; /* the pod's own */
	int fds[HTTP_OWN_MAX];
	unsigned count;
	int epoll_fd; /* readable when a listener here or libmicrohttpd's epoll is */
	int64_t
	    again_ms; /* the listeners are out of it until then: no descriptors; 0: they are in */
};

/* Listens at `addr`, the pod's own, and at 127.0.0.1 too unless the first listener, at `first`, has
 * that. 0, or -errno after one log line. */
int http_own_open(struct http_own *own, int daemon_epoll, const struct addr *addr,
    const char *first, uint16_t port);

/* Hands the daemon what has arrived. Out of descriptors or memory it is tried again at `again_ms`,
 * and until then the listeners wake nobody. */
void http_own_accept(struct http_own *own, struct MHD_Daemon *daemon);

/*
 * Whether a connection was made to the own address of the other pod: our wildcard listener gets such
 * connections while the other pod does not listen.
 */
bool http_own_is_others(const struct http_own *own, struct MHD_Connection *mhd);

void http_own_close(struct http_own *own);

#endif
