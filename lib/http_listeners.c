#include "lib/http_listeners.h"

#include <errno.h>
#include <microhttpd.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/clock.h"
#include "lib/log.h"
#include "lib/own_loopback.h"
#include "lib/port.h"

enum { BACKLOG = 128, ACCEPTS = 64 /* per loop iteration */, PAUSE_MS = 100 };

static int
watch(int epoll, int fd)
{
	struct epoll_event event = { .events = EPOLLIN };

	return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

static int
add_listener(struct http_listeners *listeners, const struct addr *addr, uint16_t port)
{
	char text[ADDR_TEXT_MAX];
	int fd = port_listen("http", addr_format(addr, text), port, true, BACKLOG);

	if (fd < 0)
		return fd;
	if (watch(listeners->epoll_fd, fd) < 0)
		log_fatal("http: epoll");
	listeners->fds[listeners->count++] = fd;
	return 0;
}

/* Whether the listener at this address does not receive connections to 127.0.0.1. */
static bool
misses_loopback(const char *address)
{
	static const struct addr loopback = { AF_INET, { 127, 0, 0, 1 } };
	struct addr addr;
	int any;

	return port_address(address, &addr, &any) == 0 && !any && !addr_equal(&addr, &loopback);
}

int
http_listeners_open(struct http_listeners *listeners, int daemon_epoll, const struct addr *addr,
    const char *first, uint16_t port)
{
	static const struct addr loopback = { AF_INET, { 127, 0, 0, 1 } };

	listeners->addr = *addr;
	listeners->again_ms = CLOCK_NEVER;
	listeners->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (listeners->epoll_fd < 0 || watch(listeners->epoll_fd, daemon_epoll) < 0)
		log_fatal("http: epoll");
	int rc = add_listener(listeners, addr, port);
	return rc == 0 && misses_loopback(first) ? add_listener(listeners, &loopback, port) : rc;
}

/* Stops accepting for PAUSE_MS, because descriptors or memory have run out. */
static void
pause_accepting(struct http_listeners *listeners)
{
	log_neterr("http: accept: %s", strerror(errno));
	for (unsigned i = 0; i < listeners->count; i++)
		if (epoll_ctl(listeners->epoll_fd, EPOLL_CTL_DEL, listeners->fds[i], NULL) < 0)
			log_fatal("http: epoll");
	listeners->again_ms = clock_mono_ms() + PAUSE_MS;
}

static bool
is_paused(struct http_listeners *listeners)
{
	if (listeners->again_ms == CLOCK_NEVER)
		return false;
	if (clock_mono_ms() < listeners->again_ms)
		return true;
	listeners->again_ms = CLOCK_NEVER;
	for (unsigned i = 0; i < listeners->count; i++)
		if (watch(listeners->epoll_fd, listeners->fds[i]) < 0)
			log_fatal("http: epoll");
	return false;
}

/* Returns false if descriptors or memory have run out. */
static bool
accept_at(int listener, struct MHD_Daemon *daemon)
{
	for (unsigned i = 0; i < ACCEPTS; i++) {
		struct sockaddr_storage peer;
		socklen_t len = sizeof peer;
		int fd =
		    accept4(listener, (struct sockaddr *)&peer, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd < 0)
			return errno != EMFILE && errno != ENFILE && errno != ENOBUFS &&
			       errno != ENOMEM;
		/* MHD_add_connection() closes `fd` if it fails. */
		MHD_add_connection(daemon, fd, (struct sockaddr *)&peer, len);
	}
	return true;
}

void
http_listeners_accept(struct http_listeners *listeners, struct MHD_Daemon *daemon)
{
	if (is_paused(listeners))
		return;
	for (unsigned i = 0; i < listeners->count; i++)
		if (!accept_at(listeners->fds[i], daemon)) {
			pause_accepting(listeners);
			return;
		}
}

bool
http_listeners_is_others(const struct http_listeners *listeners, struct MHD_Connection *mhd)
{
	const union MHD_ConnectionInfo *info =
	    MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);
	struct sockaddr_storage ss;
	socklen_t len = sizeof ss;
	struct server asked;

	return listeners->epoll_fd > 0 && info != NULL &&
	       getsockname(info->connect_fd, (struct sockaddr *)&ss, &len) == 0 &&
	       server_from_sockaddr((const struct sockaddr *)&ss, &asked) == 0 &&
	       own_loopback_is_one(&asked.addr) && !addr_equal(&asked.addr, &listeners->addr);
}

void
http_listeners_close(struct http_listeners *listeners)
{
	for (unsigned i = 0; i < listeners->count; i++)
		close(listeners->fds[i]);
	if (listeners->epoll_fd > 0)
		close(listeners->epoll_fd);
	*listeners = (struct http_listeners){ 0 };
}
