/* Additional listeners of http.c, at the pod's own address (own_loopback.h) and at 127.0.0.1.
 * Private to http.c. */
#ifndef LIB_HTTP_LISTENERS_H
#define LIB_HTTP_LISTENERS_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/addr.h"

struct MHD_Connection;
struct MHD_Daemon;

enum { HTTP_LISTENERS_MAX = 2 };

/* It is all zeros if there are no additional listeners. */
struct http_listeners {
	struct addr addr; /* the pod's own address */
	int fds[HTTP_LISTENERS_MAX];
	unsigned count;
	int epoll_fd; /* readable if one of these listeners or libmicrohttpd's epoll descriptor is
		       * readable */
	/* After descriptors have run out, the listeners are ignored until this time. Otherwise
	 * CLOCK_NEVER. */
	int64_t again_ms;
};

/* Listens at `addr`, the pod's own address. Also listens at 127.0.0.1, unless the first listener,
 * at `first`, covers it. Returns 0, or -errno after one log line. */
int http_listeners_open(struct http_listeners *listeners, int daemon_epoll, const struct addr *addr,
    const char *first, uint16_t port);

/* Passes new connections to the daemon. If descriptors or memory run out, it tries again at
 * `again_ms`, and the listeners cause no wakeups until then. */
void http_listeners_accept(struct http_listeners *listeners, struct MHD_Daemon *daemon);

/* Whether a client connected to the other pod's own address. Our wildcard listener receives such
 * connections while the other pod does not listen. */
bool http_listeners_is_others(const struct http_listeners *listeners, struct MHD_Connection *mhd);

void http_listeners_close(struct http_listeners *listeners);

#endif
