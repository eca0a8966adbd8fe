#include "lib/http_own.h"

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

enum { BACKLOG = 128, ACCEPTS = 64 /* in a turn */, PAUSE_MS = 100 };

static int
watch(int epoll, int fd)
{
	struct epoll_event event = { .events = EPOLLIN };

	return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

static int
add_listener(struct http_own *own, const struct addr *addr, uint16_t port)
{
	char text[ADDR_TEXT_MAX];
	int fd = port_listen("http", addr_format(addr, text), port, true, BACKLOG);

	if (fd < 0)
		return fd;
	if (watch(own->epoll_fd, fd) < 0)
		log_fatal("http: epoll");
	own->fds[own->count++] = fd;
	return 0;
}

/* Whether the listener at this address does not get connections to 127.0.0.1. */
static bool
misses_loopback(const char *address)
{
	static const struct addr loopback = { AF_INET, { 127, 0, 0, 1 } };
	struct addr addr;
	int any;

	return port_address(address, &addr, &any) == 0 && !any && !addr_equal(&addr, &loopback);
}

int
http_own_open(struct http_own *own, int daemon_epoll, const struct addr *addr, const char *first,
    uint16_t port)
{
	static const struct addr loopback = { AF_INET, { 127, 0, 0, 1 } };

	own->addr = *addr;
	own->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (own->epoll_fd < 0 || watch(own->epoll_fd, daemon_epoll) < 0)
		log_fatal("http: epoll");
	int rc = add_listener(own, addr, port);
	return rc == 0 && misses_loopback(first) ? add_listener(own, &loopback, port) : rc;
}

/* As serve/tcp.c does. */
static void
pause_accepting(struct http_own *own)
{
	log_neterr("http: accept: %s", strerror(errno));
	for (unsigned i = 0; i < own->count; i++)
		if (epoll_ctl(own->epoll_fd, EPOLL_CTL_DEL, own->fds[i], NULL) < 0)
			log_fatal("http: epoll");
	own->again_ms = clock_mono_ms() + PAUSE_MS;
}

static bool
is_paused(struct http_own *own)
{
	if (own->again_ms == 0)
		return false;
	if (clock_mono_ms() < own->again_ms)
		return true;
	own->again_ms = 0;
	for (unsigned i = 0; i < own->count; i++)
		if (watch(own->epoll_fd, own->fds[i]) < 0)
			log_fatal("http: epoll");
	return false;
}

/* False if there is no descriptor or memory for another. */
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
		/* Closes it if it cannot be served. */
		MHD_add_connection(daemon, fd, (struct sockaddr *)&peer, len);
	}
	return true;
}

void
http_own_accept(struct http_own *own, struct MHD_Daemon *daemon)
{
	if (is_paused(own))
		return;
	for (unsigned i = 0; i < own->count; i++)
		if (!accept_at(own->fds[i], daemon)) {
			pause_accepting(own);
			return;
		}
}

bool
http_own_is_others(const struct http_own *own, struct MHD_Connection *mhd)
{
	const union MHD_ConnectionInfo *info =
	    MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);
	struct sockaddr_storage ss;
	socklen_t len = sizeof ss;
	struct server asked;

	return own->epoll_fd > 0 && info != NULL &&
	       getsockname(info->connect_fd, (struct sockaddr *)&ss, &len) == 0 &&
	       server_from_sockaddr((const struct sockaddr *)&ss, &asked) == 0 &&
	       own_loopback_is_one(&asked.addr) && !addr_equal(&asked.addr, &own->addr);
}

void
http_own_close(struct http_own *own)
{
	for (unsigned i = 0; i < own->count; i++)
		close(own->fds[i]);
	if (own->epoll_fd > 0)
		close(own->epoll_fd);
	*own = (struct http_own){ 0 };
}
