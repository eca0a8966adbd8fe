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

int
http_own_open(struct http_own *own, int daemon_epoll, const struct addr *addr, uint16_t port)
{
	char text[ADDR_TEXT_MAX];

	own->addr = *addr;
	own->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (own->epoll_fd < 0)
		log_fatal("http: epoll");
	own->fd = port_listen("http", addr_format(addr, text), port, true, BACKLOG);
	if (own->fd < 0) {
		int rc = own->fd;
		own->fd = 0;
		return rc;
	}
	if (watch(own->epoll_fd, daemon_epoll) < 0 || watch(own->epoll_fd, own->fd) < 0)
		log_fatal("http: epoll");
	return 0;
}

/* As serve/tcp.c does. */
static void
pause_accepting(struct http_own *own)
{
	log_neterr("http: accept: %s", strerror(errno));
	if (epoll_ctl(own->epoll_fd, EPOLL_CTL_DEL, own->fd, NULL) < 0)
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
	if (watch(own->epoll_fd, own->fd) < 0)
		log_fatal("http: epoll");
	return false;
}

void
http_own_accept(struct http_own *own, struct MHD_Daemon *daemon)
{
	if (is_paused(own))
		return;
	for (unsigned i = 0; i < ACCEPTS; i++) {
		struct sockaddr_storage peer;
		socklen_t len = sizeof(peer);
		int fd =
		    accept4(own->fd, (struct sockaddr *)&peer, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd < 0) {
			if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS ||
			    errno == ENOMEM)
				pause_accepting(own);
			return;
		}
		/* Closes it if it cannot be served. */
		MHD_add_connection(daemon, fd, (struct sockaddr *)&peer, len);
	}
}

bool
http_own_is_others(const struct http_own *own, struct MHD_Connection *mhd)
{
	const union MHD_ConnectionInfo *info =
	    MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);
	struct sockaddr_storage ss;
	socklen_t len = sizeof(ss);
	struct server asked;

	return own->epoll_fd > 0 && info != NULL &&
	       getsockname(info->connect_fd, (struct sockaddr *)&ss, &len) == 0 &&
	       server_from_sockaddr((const struct sockaddr *)&ss, &asked) == 0 &&
	       own_loopback_is_one(&asked.addr) && !addr_equal(&asked.addr, &own->addr);
}

void
http_own_close(struct http_own *own)
{
	if (own->fd > 0)
		close(own->fd);
	if (own->epoll_fd > 0)
		close(own->epoll_fd);
	*own = (struct http_own){ 0 };
}
